/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process at the other end of a connection: told when it dies.
 *
 * A client's end is the end of file on its socket, or the death of the process that connected: one of its
 * children may have the socket still, and would keep the client's slots and rings for ever. Only connections
 * with a channel are watched; others hold nothing that is worth it, and may be handed to another process.
 *
 * Belongs to the connection's worker.
 */
#ifndef ZCACHED_DAEMON_PEER_H
#define ZCACHED_DAEMON_PEER_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/types.h>

struct connection;

struct peer {
	bool watched;
	int pidfd; /* while it is watched */
	struct event death;
};

/*
 * Ends the connection when its peer dies. Returns 0; -ESRCH: it is dead; another negative errno: it cannot be
 * watched for want of files or memory. Where the kernel has no pidfd, or the peer is in a process namespace
 * that ours does not contain, nothing is watched and 0 returned: the end of file counts.
 */
int peer_watch(struct connection *connection);

void peer_unwatch(struct peer *peer);

#endif
