/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors that came with the bytes of a socket and that nobody has taken yet, oldest first.
 *
 * Used by connection.c, which knows which frame they belong to. All are close-on-exec from the
 * start. No locks: the receiver's.
 */
#ifndef ZCLIENT_DESCRIPTORS_H
#define ZCLIENT_DESCRIPTORS_H

#include <stddef.h>
#include <sys/types.h>

/* The kernel passes at most 253 with one message; nobody has a reason to send more than two. */
#define DESCRIPTORS_MAX 512u

struct descriptors {
	unsigned count;
	int fd[DESCRIPTORS_MAX];
};

/* recv(2) that keeps the descriptors that come along. What there is no room for is closed. */
ssize_t descriptors_receive(struct descriptors *descriptors, int socket, void *bytes, size_t room);

/* Moves the first `count` to `fds`, or as many as there are; returns how many. */
unsigned descriptors_take(struct descriptors *descriptors, int *fds, unsigned count);

/* Closes the first `count`, or as many as there are. */
void descriptors_drop(struct descriptors *descriptors, unsigned count);

/* Closes all but the first `count`. */
void descriptors_keep(struct descriptors *descriptors, unsigned count);

#endif
