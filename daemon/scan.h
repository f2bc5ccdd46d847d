/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scans: delete_object and flush, which touch every shard of a pool.
 *
 * A scan is split into one part for each worker that owns shards. Each worker runs its parts in
 * slices, from its loop and between other work, one slice of one pool in turn; two scans of one
 * pool follow each other, since a shard can be scanned by one at a time. The part that ends last
 * sends the answer.
 *
 * A scan is a barrier on its connection: parts are posted behind the puts that the client sent
 * before it, and nothing the client sends after it is parsed until it is done.
 */
#ifndef ZCACHED_DAEMON_SCAN_H
#define ZCACHED_DAEMON_SCAN_H

#include <stdbool.h>
#include <sys/queue.h>

#include "zcache.pb-c.h"

struct connection;
struct scan_part;
struct worker;

TAILQ_HEAD(scan_part_queue, scan_part);

/* The scans of one pool on one worker; its own. */
struct scan_queue {
	struct scan_part *running; /* in worker->scans */
	struct scan_part_queue waiting;
};

void scan_queue_init(struct scan_queue *queue);

/* Handles delete_object and flush; see request_dispatch. */
bool scan_request(struct connection *connection, const Zcache__V1__Request *request);

/* Runs a slice of one part. True while there is more. */
bool scan_step(struct worker *worker);

#endif
