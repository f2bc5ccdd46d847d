/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection's channels: making them, what their rings share, and their end.
 *
 * A channel belongs to its connection, and its life is that connection's: the connection's worker makes
 * it, sends each ring to the worker that serves it, and at the end asks every ring back; when all have
 * come home, nobody touches the shared memory any more, and it is unmapped. The connection's struct
 * stays until then. All other words of a worker to the channel (a client that broke the rules, a wish to
 * be told on the socket) come home by inbox as well, before the ring does.
 *
 * Memory of channels is all taken, and paid for, when they are made: CONNECTION_SLOTS_MAX bytes of slots for
 * a connection and ENGINE_CHANNELS_MAX bytes for the service; eventfds are half of the service's files at
 * most. A client that gets none uses the socket.
 */
#ifndef ZCACHED_DAEMON_CLIENT_CHANNEL_H
#define ZCACHED_DAEMON_CLIENT_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"
#include "handle.h"
#include "serve.h"

#define CONNECTION_SLOTS_MAX (4u << 20) /* bytes */
#define CHANNEL_SLOTS	     64u	/* unless the client says otherwise */
#define CHANNEL_ENTRIES	     64u
#define CHANNEL_ENTRIES_MAX  256u
#define CHANNEL_RINGS_MAX    250u /* with the memory's, 251 descriptors: SCM_MAX_FD is 253 */

struct connection;

struct client_channel {
	LIST_ENTRY(client_channel) link; /* in connection->channels */
	struct connection *connection;
	const struct handle_table *handles; /* of the connection; workers look into it */
	struct channel shared;
	uint64_t os_pages; /* paid for */
	bool notify;	   /* tell the client on its socket, too, when it is woken */
	bool closing;
	unsigned rings_away;

	uint32_t failed;   /* atomic flag: failure is, or was, on its way */
	const char *fault; /* comes with failure: see client_channel_fail */
	struct message failure;
	uint32_t waking; /* atomic flag: wakeup is on its way */
	struct message wakeup;

	struct ring ring[]; /* one for each worker */
};

LIST_HEAD(client_channel_list, client_channel);

/* What a client asks for, as it may have it on this connection; 0 or what is wrong with it. */
int client_channel_plan(const struct connection *connection, uint32_t slot_size, uint32_t slots,
			uint32_t entries, struct channel_geometry *geometry);

/*
 * Makes a channel. Returns 0, with the memory's descriptor in *fd for the caller to close, -ENOSPC
 * (ENGINE_CHANNELS_MAX), -EMFILE, -ENOMEM or what the system says.
 */
int client_channel_create(struct connection *connection, const struct channel_geometry *geometry,
			  bool notify, struct client_channel **out, int *fd);

/* Sends its rings to the workers: from here on it is served. */
void client_channel_start(struct client_channel *channel);

/* Ends all channels of a connection, or one; they are in connection->channels until they are gone. */
void client_channels_close(struct connection *connection);
void client_channel_close(struct client_channel *channel);

/*
 * From the worker of any ring: ends the connection, for what its client did wrong; NULL: for want of
 * memory.
 */
void client_channel_fail(struct client_channel *channel, const char *fault);

/* From the worker of any ring: wakes the client, which has asked for it. */
void client_channel_wake(struct client_channel *channel);

#endif
