/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection to the service: a socket, and a buffer for each direction.
 *
 * Used by transport.c, which sees to it that at most one thread sends and one receives at a time,
 * and that neither does while the connection is opened or closed. Nothing here locks. Who gives up
 * leaves the rest of its frame in the buffer and the next one goes on from there: the stream never
 * loses its place, so a slow service costs no reconnect.
 *
 * Requests and pages need no allocation: both buffers and the arena that replies are decoded into
 * are made once. Only control replies longer than a page's frame grow them.
 */
#ifndef ZCLIENT_CONNECTION_H
#define ZCLIENT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame.h"
#include "zcache.pb-c.h"

/* The id of a connection's Hello; other requests use higher ones. */
#define CONNECTION_HELLO_ID 1u

struct connection {
	int fd;		    /* -1: none */
	uint32_t max_frame; /* longest frame the service accepts */

	/* The sender's. out_start .. out_end has yet to go out: the rest of an old frame, if its
	 * sender gave up, and the last one, which begins at out_last. Room for two frames. */
	uint8_t *out;
	size_t out_start;
	size_t out_last;
	size_t out_end;

	/* The receiver's. in_start .. in_end was received and not decoded. */
	uint8_t *in;
	size_t in_size;
	size_t in_start;
	size_t in_end;
	struct frame_arena arena;
};

/* Allocates the buffers. 0 or -ENOMEM. */
int connection_init(struct connection *connection);
void connection_destroy(struct connection *connection);

/*
 * One attempt to connect to the socket at `path` and to agree on the protocol; not connected
 * before. Returns 0; what socket(2) and connect(2) say; -EAGAIN (the service's backlog is full);
 * -ECONNRESET (it hung up); -ETIMEDOUT; -EPROTO; -EPROTONOSUPPORT; or the error it answered with.
 */
int connection_open(struct connection *connection, const char *path, uint64_t deadline);
void connection_close(struct connection *connection);

/* Ends the connection under a sender or receiver: both return at once. May be called beside them. */
void connection_shutdown(struct connection *connection);

/*
 * Sending, without waiting. queue: puts a request behind what has yet to go out; 0 or -EMSGSIZE.
 * flush: sends; returns 0 when all is out, -EAGAIN when the socket takes no more for now, and
 * -ECONNRESET, in which case the service never had the whole of the last request. give_up: after
 * -EAGAIN; forgets the last request unless a part of it is out.
 */
int connection_queue(struct connection *connection, const Zcache__V1__Request *request);
int connection_flush(struct connection *connection);
void connection_give_up(struct connection *connection);

/* Waits until the socket takes more, or, if `input` is set, has something. 0 or -ETIMEDOUT. */
int connection_wait(struct connection *connection, bool input, uint64_t deadline);

/*
 * Receives the next response, valid until the next call. Returns 0, -ETIMEDOUT (a deadline long
 * passed: nothing is there now), -ECONNRESET (end of the connection), -EPROTO (not a frame, not a
 * message, too long), -ENOMEM.
 */
int connection_receive(struct connection *connection, Zcache__V1__Response **response,
		       uint64_t deadline);

#endif
