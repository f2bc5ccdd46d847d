/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests: from the bytes of a frame to an answer.
 *
 * request_dispatch decodes a frame and either answers at once, or makes a request in flight: the
 * head (struct request) of a page_request, a scan or a control_request, that travels through
 * inboxes and comes home to its connection's worker, which packs the answer and releases it. A
 * request in flight keeps its connection's memory, and through it the pools the connection has
 * opened; so a connection may end meanwhile.
 */
#ifndef ZCACHED_DAEMON_REQUEST_H
#define ZCACHED_DAEMON_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "inbox.h"

struct connection;
struct engine;
struct request;
struct worker;

struct request_kind {
	/* Packs the answer. The connection lives and there is room for one response. */
	void (*answer)(struct request *request);
	/* Frees the request, answered or not. Called by the connection's worker. */
	void (*release)(struct worker *worker, struct request *request);
};

struct request {
	struct message message;	    /* first: a message is its request */
	STAILQ_ENTRY(request) link; /* in connection->answers */
	const struct request_kind *kind;
	struct connection *connection;
	uint64_t id;
	uint32_t bytes; /* of value memory; counted in connection->in_flight_bytes */
};

STAILQ_HEAD(request_queue, request);

/*
 * Handles one frame. False: it cannot be taken now (too much in flight); the same bytes are to be
 * handed in again when a request has ended.
 */
bool request_dispatch(struct connection *connection, const char *bytes, uint32_t length);

/* Begins: the request counts as in flight from here on. */
void request_begin(struct request *request, const struct request_kind *kind,
		   struct connection *connection, uint64_t id, uint32_t bytes);

/* Sends a request whose result is known home, from any thread. */
void request_finish(struct request *request);

/* Counts and logs that a pool was named by a user it is not open to. */
void request_deny(struct engine *engine, uint32_t uid, const char *pool);

/* Ends: counts and memory are given back. The connection's worker. */
void request_end(struct request *request);

#endif
