/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors received and not taken, see descriptors.h. Called by connection.c; no locks. */
#include "descriptors.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The kernel's SCM_MAX_FD, which no header tells. */
#define MESSAGE_FDS 253

static void
keep_one(struct descriptors *descriptors, int fd)
{
	if (descriptors->count < DESCRIPTORS_MAX)
		descriptors->fd[descriptors->count++] = fd;
	else
		close(fd);
}

static void
keep_all(struct descriptors *descriptors, const struct cmsghdr *header)
{
	size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);

	for (size_t i = 0; i < count; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
		keep_one(descriptors, fd);
	}
}

ssize_t
descriptors_receive(struct descriptors *descriptors, int socket, void *bytes, size_t room)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MESSAGE_FDS * sizeof(int))];
	} control;
	struct iovec part = {bytes, room};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	ssize_t received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);

	if (received < 0)
		return received;
	for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header;
	     header = CMSG_NXTHDR(&message, header))
		if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
			keep_all(descriptors, header);
	return received;
}

static void
remove_first(struct descriptors *descriptors, unsigned count)
{
	descriptors->count -= count;
	memmove(descriptors->fd, descriptors->fd + count, descriptors->count * sizeof(int));
}

unsigned
descriptors_take(struct descriptors *descriptors, int *fds, unsigned count)
{
	if (count > descriptors->count)
		count = descriptors->count;
	memcpy(fds, descriptors->fd, count * sizeof(int));
	remove_first(descriptors, count);
	return count;
}

void
descriptors_drop(struct descriptors *descriptors, unsigned count)
{
	if (count > descriptors->count)
		count = descriptors->count;
	for (unsigned i = 0; i < count; i++)
		close(descriptors->fd[i]);
	remove_first(descriptors, count);
}

void
descriptors_keep(struct descriptors *descriptors, unsigned count)
{
	while (descriptors->count > count)
		close(descriptors->fd[--descriptors->count]);
}
