/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection: its socket, what came in and is not yet dealt with, what has not yet gone out.
 *
 * It belongs to one worker, whose thread alone touches it; nothing is locked. Input is read into the
 * worker's scratch and parsed there; responses are packed into the worker's scratch and sent at the
 * end of the connection's turn. Only what cannot be dealt with at once is kept in buffers of the
 * connection's own, so an idle connection costs little more than this struct (about 1 KiB, and 1 KiB
 * once it has opened a pool). What a connection can cost at most, whatever its client does:
 *
 *	input	 WORKER_INPUT		68 KiB	one frame, or as much in smaller ones
 *	output	 WORKER_OUTPUT		136 KiB	nothing is parsed or answered while some is unsent
 *	values	 CONNECTION_VALUES_MAX	256 KiB	of requests in flight; reading stops at that
 *	control	 ZC_REPLY_MAX		1 MiB	one answer of the control thread; in practice 40 KiB
 *
 * together under 512 KiB in practice, times --connections. And, of all connections together not more
 * than ENGINE_CHANNELS_MAX:
 *
 *	channels CONNECTION_SLOTS_MAX	4 MiB	page slots, and the rings: 20 KiB a worker and channel
 *				at most; 320 KiB with one channel of 64 slots of 4 KiB
 *
 * Channels belong to the connection and end with it; client_channel.h has their story.
 *
 * A turn (connection_turn) sends what is left over, packs answers of requests that came home, parses
 * what can be parsed, reads once, sends, and decides what to wait for. Every event leads to one.
 */
#ifndef ZCACHED_DAEMON_CONNECTION_H
#define ZCACHED_DAEMON_CONNECTION_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "client_channel.h"
#include "handle.h"
#include "inbox.h"
#include "peer.h"
#include "request.h"

#define CONNECTION_IN_FLIGHT_MAX 32u
#define CONNECTION_VALUES_MAX	 (256u << 10)
#define CONNECTION_NAME_SIZE	 65u

/* What a client keeps the service waiting with. */
enum connection_stall {
	STALL_NONE,
	STALL_INPUT,  /* a frame has begun and is not complete */
	STALL_OUTPUT, /* it does not read */
};

struct connection {
	struct message message; /* first: brings the connection to its worker */
	struct worker *worker;
	LIST_ENTRY(connection) link;
	TAILQ_ENTRY(connection) ready_link;
	bool ready; /* in worker->ready */

	int fd;
	uid_t uid; /* the peer, as of connect */
	pid_t pid;
	char name[CONNECTION_NAME_SIZE];

	struct event read, write, timer;
	struct buffer *input;  /* bytes that are not parsed yet, from 0 to used */
	struct buffer *output; /* bytes that are not sent yet, from begin to used */
	uint64_t progress;     /* frames taken and times that output went out */
	enum connection_stall stall;
	uint64_t stall_progress; /* of when the timer was set */

	struct request_queue answers; /* requests that came home */
	uint32_t in_flight;	      /* requests: those in answers included */
	uint32_t in_flight_bytes;

	bool greeted;	      /* hello was said */
	bool control_pending; /* one request is with the control thread: no more than that */
	bool barrier;	      /* a scan is in flight: later requests wait, to be done after it */
	bool waiting;	      /* a parsed request could not be taken for want of room */
	bool reading;	      /* the read event is set */
	bool closing;	      /* takes nothing more; ends when the output is sent */
	bool end_of_input;    /* the client will send no more; ends when all is answered */
	bool ended;	      /* closed; the struct stays until requests and rings are back */

	struct handle_table *handles;
	struct client_channel_list channels;
	struct peer peer;	     /* watched while there are channels */
	uint32_t descriptors_unread; /* see descriptor.h */
};

/* A connection for an accepted socket, to be posted to `worker`. NULL: no memory. */
struct connection *connection_create(struct worker *worker, int fd, uid_t uid, pid_t pid);

/* Receives it: the deliver function of connection->message. */
message_deliver_fn connection_adopt;

/* Does what can be done now. `readable`: there may be input. Frees the connection if it is over. */
void connection_turn(struct connection *connection, bool readable);

/* Asks for a turn, soon. */
void connection_make_ready(struct connection *connection);

/* Whether one more response may be packed; sends if need be. */
bool connection_has_room(struct connection *connection);

/* Appends a whole packed frame of any length to the output. */
void connection_put_frame(struct connection *connection, const char *bytes, uint32_t size);

/* Sends what is packed. True: nothing is left, and the connection lives. */
bool connection_flush(struct connection *connection);

/*
 * Sends a packed frame with descriptors at its first byte; connection_flush has just returned true.
 * Returns 0, or a negative errno: nothing was sent, the connection may have ended.
 */
int connection_send_descriptors(struct connection *connection, const char *bytes, uint32_t size,
				const int *fd, unsigned count);

/* Tells the client that completions are there; left out when it has more than enough to read. */
void connection_send_wakeup(struct connection *connection);

/* Ends it for what its client did in a ring; counted and logged. NULL: for want of memory. */
void connection_fault(struct connection *connection, const char *text);

/* Answers with an error that ends the connection, for what it sent; counted and logged. */
void connection_reject(struct connection *connection, uint64_t id, int32_t status,
		       const char *text);

/* Sends what can be sent, ends and frees it. No request and no ring is away. */
void connection_shut(struct connection *connection);

/* Ends it at once. Requests in flight are dropped when they come home. */
void connection_end(struct connection *connection);

#endif
