/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The listening socket: made, guarded against a second service, and removed.
 *
 * Used by main.c, before there are threads and after they have ended. Logs what went wrong itself.
 *
 * A lock file beside the socket decides who may use the path: of any number of services that start
 * at once exactly one gets it, and it is released by the kernel however the service ends. The file
 * itself stays: removing it would let two services lock two files of one name.
 */
#ifndef ZCACHED_DAEMON_LISTENER_H
#define ZCACHED_DAEMON_LISTENER_H

#include <sys/types.h>

#define LISTENER_DEFAULT_FOLDER "/run/zcached"
#define LISTENER_DEFAULT_PATH	LISTENER_DEFAULT_FOLDER "/zcached.sock"

struct listener_config {
	const char *path;
	mode_t mode;
	gid_t group; /* (gid_t)-1: that of the process */
};

struct listener {
	const char *path;
	int fd;
	int lock_fd;
	dev_t device; /* of the socket: what we may remove at the end */
	ino_t inode;
};

/*
 * Locks, binds and listens; mode and group are right before anybody can connect. A socket that
 * nobody listens on any more is replaced, anything else at the path is left alone. Returns 0 or
 * a negative errno; nothing is left behind then.
 */
int listener_open(const struct listener_config *config, struct listener *listener);

/* Closes, and removes the socket if it is still the one that was made. */
void listener_close(struct listener *listener);

#endif
