/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker: a thread of its own CPU, with its own event loop, compression streams and scratch.
 *
 * Each connection has one worker, which does all its input, output and parsing. Each shard of every
 * pool has one owner, which does all its operations. A request for a key of another owner is posted
 * to that worker's inbox and comes back through this one's. A client with a channel puts it into the
 * owner's ring itself (serve.h). So all operations of a client on one key pass one queue, and workers
 * share nothing but the pools' allocators, the inboxes, and counters.
 *
 * All fields but `inbox` and `count` are the worker's own; nothing is locked. A worker never waits
 * for anybody: sockets are non-blocking, posting never fails, and what needs to block is the
 * control thread's.
 */
#ifndef ZCACHED_DAEMON_WORKER_H
#define ZCACHED_DAEMON_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/time.h>

#include "buffer.h"
#include "frame.h"
#include "inbox.h"
#include "pool.h"
#include "scan.h"
#include "serve.h"

struct connection;
struct engine;
struct event;
struct event_base;

LIST_HEAD(connection_list, connection);
TAILQ_HEAD(connection_queue, connection);

/* Scratch for one frame of input. */
#define WORKER_INPUT (ZC_FRAME_HEADER + ZC_FRAME_MAX)
/* Scratch for responses; when it holds this much there is still room for the longest one. */
#define WORKER_OUTPUT_FLUSH (ZC_FRAME_HEADER + ZC_FRAME_MAX)
#define WORKER_OUTPUT	    (2 * WORKER_OUTPUT_FLUSH)

/* Written by the worker, read by the control thread: atomic, and each in itself a number. */
struct worker_count {
	uint64_t requests;
	uint64_t protocol_errors;
	uint64_t stalled_clients;
};

struct worker {
	struct inbox inbox;
	struct engine *engine;
	unsigned number; /* 0 .. engine->worker_count - 1 */
	int cpu;	 /* pinned to it; -1: to none */
	pthread_t thread;
	bool started;

	struct event_base *base;
	struct event *wake;
	const struct timeval *client_timeout;

	struct pool_context *context;
	struct frame_arena arena; /* of the request that is being parsed */
	struct buffer_cache buffers;
	char *input;  /* WORKER_INPUT bytes */
	char *value;  /* ZC_PAGE_SIZE_MAX bytes: of a get that is answered at once, or by ring */
	char *output; /* WORKER_OUTPUT bytes: responses of the connection at turn */
	uint32_t output_used;

	struct connection_list connections;
	struct connection_queue ready; /* have answers, or input that can go on */
	struct scan_part_queue scans;  /* running: one for each pool at most */
	struct serve serve;	       /* rings */
	uint32_t away;		       /* requests, and ends of channels and handles, of its
					  connections that are not home yet */
	struct message order;	       /* drain or stop */
	bool draining;		       /* takes no more requests */
	bool stopping;

	alignas(64) struct worker_count count;
};

/* Sets up everything but the thread. Returns 0 or a negative errno. */
int worker_init(struct worker *worker, struct engine *engine, unsigned number, int cpu);
int worker_start(struct worker *worker);
/* Accepts a worker that worker_init failed on. The thread, if there was one, has been joined. */
void worker_destroy(struct worker *worker);

/* A request (or the end of a channel or handle) of this worker's has left, or come home. */
void worker_request_leaves(struct worker *worker);
void worker_request_returns(struct worker *worker);

/* For the keeper: whether it should stand back. */
bool worker_is_busy(struct worker *worker);

/*
 * Stopping, in two steps, each told to all workers before the next. A draining worker takes no more
 * requests and ends the channels of its connections, and posts engine->drained once all that it took
 * are home. A stopping one sends what it can, ends its connections, and then its thread.
 */
void worker_drain(struct worker *worker);
void worker_stop(struct worker *worker);

/* Adds one to a counter of the worker's own. */
void worker_count_add(uint64_t *counter);
/* Counts requests that came by ring. */
void worker_count_requests(struct worker *worker, unsigned requests);

#endif
