/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One connection to the service: a socket, and a buffer for each direction.
 *
 * Used by transport.c, which sees to it that at most one thread sends and one receives at a time,
 * and that neither does while the connection is opened or closed. Nothing here locks. A send or
 * receive that passes its deadline leaves the rest of the frame in the buffer and the next one goes
 * on from there: the stream never loses its place, so a slow service costs no reconnect.
 *
 * Requests and pages need no allocation: both buffers and the arena that replies are decoded into
 * are made once. Only control replies longer than a page's frame grow them.
 */
#ifndef ZCLIENT_CONNECTION_H
#define ZCLIENT_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "descriptors.h"
#include "frame.h"
#include "zcache.pb-c.h"

/* The id of a connection's Hello; other requests use higher ones. */
#define CONNECTION_HELLO_ID 1u

struct connection {
	int fd;		    /* -1: none */
	uint32_t max_frame; /* longest frame the service accepts */
	uint32_t window;    /* requests it takes before it stops reading */

	/* The sender's. out_start .. out_end has yet to go out. */
	uint8_t *out;
	size_t out_start;
	size_t out_end;

	/* The receiver's. in_start .. in_end was received and not decoded. */
	uint8_t *in;
	size_t in_size;
	size_t in_start;
	size_t in_end;
	struct frame_arena arena;
	struct descriptors descriptors;
	unsigned announced; /* the first of them, which the last response says are its own */
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

/*
 * The same in parts, for who must not wait: connection_start() connects, which never waits, and says
 * hello; the first response then goes to connection_welcome().
 */
int connection_start(struct connection *connection, const char *path);
int connection_welcome(struct connection *connection, const Zcache__V1__Response *response);

/* Ends the connection under a sender or receiver: both return at once. May be called beside them. */
void connection_shutdown(struct connection *connection);

/*
 * Sends a request. Returns 0; -ETIMEDOUT (what had begun to go out will be finished by the next
 * send, what had not is forgotten); -EMSGSIZE (too long, nothing sent); -ECONNRESET, in which case
 * the service never had the whole request.
 */
int connection_send(struct connection *connection, const Zcache__V1__Request *request,
		    uint64_t deadline);

/* Whether part of a request has yet to go out; connection_flush() sends it, as connection_send(). */
bool connection_unsent(const struct connection *connection);
int connection_flush(struct connection *connection, uint64_t deadline);

/*
 * Receives the next response, valid until the next call. Returns 0, -ETIMEDOUT, -ECONNRESET (end of
 * the connection), -EPROTO (not a frame, not a message, too long), -ENOMEM. With DEADLINE_NOW it
 * does not wait, and neither does a send.
 */
int connection_receive(struct connection *connection, Zcache__V1__Response **response,
		       uint64_t deadline);

/*
 * Moves up to `room` descriptors of the last response to `fds`; they are the caller's then. Returns how
 * many. What is not taken before the next connection_receive() is closed.
 */
unsigned connection_take_descriptors(struct connection *connection, int *fds, unsigned room);

/* Whether the service hung up; reads nothing. As a receiver. 0 or -ECONNRESET. */
int connection_check(const struct connection *connection);

#endif
