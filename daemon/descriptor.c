/* SPDX-License-Identifier: BSD-2-Clause */
/* Sending file descriptors; descriptor.h has the contract. */
#include "descriptor.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdalign.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* Has the client read everything? Of a Unix socket the kernel counts what the peer has not received. */
static int
is_all_read(int socket)
{
	int bytes = 0;

	return ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

int
descriptor_send(int socket, uint32_t *unread, const char *bytes, uint32_t size, const int *fd,
		unsigned count)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))] = {0};
	struct iovec content = {.iov_base = (char *)bytes, .iov_len = size};
	struct msghdr message = {.msg_iov = &content,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	ssize_t sent;

	assert(count > 0 && count <= DESCRIPTORS_MAX);
	if (is_all_read(socket))
		*unread = 0;
	if (*unread == DESCRIPTORS_UNREAD_MAX)
		return -EAGAIN;
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), fd, count * sizeof(int));
	sent = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (sent < 0)
		return errno == EINTR ? -EAGAIN : -errno;
	++*unread;
	return (int)sent;
}
