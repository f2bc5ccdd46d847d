/* SPDX-License-Identifier: BSD-2-Clause */
/* Scans; scan.h has the overview. */
#include "scan.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "atomic.h"
#include "connection.h"
#include "engine_private.h"
#include "keeper.h"
#include "reply.h"
#include "request.h"
#include "worker.h"

struct scan_part {
	struct message message; /* first: brings the part to its worker */
	TAILQ_ENTRY(scan_part) link;
	struct scan *scan;
	unsigned shard; /* the one that is scanned, or is next */
	bool begun;	/* it has been begun */
	uint64_t deleted;
	int32_t status;
};

struct scan {
	struct request request; /* first: see request.h */
	struct pool_entry *entry;
	const uint64_t *object; /* NULL: everything */
	uint64_t object_number;
	uint32_t remaining; /* atomic: parts that have not ended */
	unsigned parts;
	struct scan_part part[];
};

void
scan_queue_init(struct scan_queue *queue)
{
	queue->running = NULL;
	TAILQ_INIT(&queue->waiting);
}

/* ---- the request ---- */

static void
scan_answer(struct request *request)
{
	struct scan *scan = (struct scan *)request;
	uint64_t deleted = 0;
	int32_t status = 0;

	for (unsigned i = 0; i < scan->parts; i++) {
		deleted += scan->part[i].deleted;
		if (scan->part[i].status < 0)
			status = scan->part[i].status;
	}
	if (status == -EBADF)
		reply_error(request->connection, request->id, status, "the pool was destroyed");
	else if (status < 0)
		reply_error(request->connection, request->id, status, "the service is stopping");
	else
		reply_deleted(request->connection, request->id, deleted);
}

static void
scan_release(struct worker *worker, struct request *request)
{
	(void)worker;
	request->connection->barrier = false;
	free(request);
}

static const struct request_kind scan_kind = {scan_answer, scan_release};

/* ---- parts, each in its worker's thread ---- */

static struct scan_queue *
part_queue(const struct worker *worker, const struct scan_part *part)
{
	return &part->scan->entry->scan[worker->number];
}

static void
part_run(struct worker *worker, struct scan_part *part)
{
	part_queue(worker, part)->running = part;
	TAILQ_INSERT_TAIL(&worker->scans, part, link);
}

static void
part_arrive(struct worker *worker, struct message *message)
{
	struct scan_part *part = (struct scan_part *)message;
	struct scan_queue *queue = part_queue(worker, part);

	if (queue->running)
		TAILQ_INSERT_TAIL(&queue->waiting, part, link);
	else
		part_run(worker, part);
}

static void
part_end(struct worker *worker, struct scan_part *part, int32_t status)
{
	struct scan_queue *queue = part_queue(worker, part);
	struct scan_part *next = TAILQ_FIRST(&queue->waiting);
	struct scan *scan = part->scan;

	TAILQ_REMOVE(&worker->scans, part, link);
	queue->running = NULL;
	if (next) {
		TAILQ_REMOVE(&queue->waiting, next, link);
		part_run(worker, next);
	}
	part->status = status;
	/* Each part's result happens before the last one sends the scan home. */
	if (__atomic_sub_fetch(&scan->remaining, 1, __ATOMIC_ACQ_REL) == 0)
		request_finish(&scan->request);
}

/* One slice. True while the part has more to do. */
static bool
part_slice(struct worker *worker, struct scan_part *part)
{
	struct scan *scan = part->scan;
	struct pool *pool = scan->entry->pool;
	uint64_t before = part->deleted;

	if (!part->begun)
		pool_scan_begin(pool, part->shard);
	part->begun =
		pool_scan_slice(pool, worker->context, part->shard, scan->object, &part->deleted);
	if (part->deleted != before)
		keeper_poke(worker->engine->keeper, scan->entry);
	if (!part->begun)
		part->shard += worker->engine->worker_count;
	return part->shard < ZC_SHARDS;
}

bool
scan_step(struct worker *worker)
{
	struct scan_part *part = TAILQ_FIRST(&worker->scans);

	if (!part)
		return false;
	if (!pool_entry_alive(part->scan->entry)) {
		part_end(worker, part, -EBADF);
	} else if (worker->draining) {
		part_end(worker, part, -ESHUTDOWN);
	} else if (!part_slice(worker, part)) {
		part_end(worker, part, 0);
	} else {
		/* The next slice is that of another pool, if there is one. */
		TAILQ_REMOVE(&worker->scans, part, link);
		TAILQ_INSERT_TAIL(&worker->scans, part, link);
	}
	return !TAILQ_EMPTY(&worker->scans);
}

/* ---- beginning ---- */

static struct scan *
scan_create(const struct engine *engine, struct pool_entry *entry, const uint64_t *object)
{
	unsigned parts = engine->worker_count < ZC_SHARDS ? engine->worker_count : ZC_SHARDS;
	struct scan *scan = calloc(1, sizeof(*scan) + parts * sizeof(scan->part[0]));

	if (!scan)
		return NULL;
	scan->entry = entry;
	if (object) {
		scan->object_number = *object;
		scan->object = &scan->object_number;
	}
	scan->parts = scan->remaining = parts;
	for (unsigned i = 0; i < parts; i++)
		scan->part[i] = (struct scan_part){.scan = scan, .shard = i};
	return scan;
}

static bool
scan_begin(struct connection *connection, uint64_t id, uint32_t handle, const uint64_t *object)
{
	struct engine *engine = connection->worker->engine;
	struct pool_entry *entry = handle_find(connection->handles, handle);
	struct scan *scan;

	if (connection->in_flight >= CONNECTION_IN_FLIGHT_MAX)
		return false;
	if (!entry) {
		reply_error(connection, id, -EBADF, "no such handle on this connection");
		return true;
	}
	scan = scan_create(engine, entry, object);
	if (!scan) {
		reply_error(connection, id, -ENOMEM, "no memory for the request");
		return true;
	}
	request_begin(&scan->request, &scan_kind, connection, id, 0);
	connection->barrier = true;
	for (unsigned i = 0; i < scan->parts; i++)
		inbox_post(&engine->worker[i].inbox, &scan->part[i].message, part_arrive);
	return true;
}

bool
scan_request(struct connection *connection, const Zcache__V1__Request *request)
{
	if (request->op_case == ZCACHE__V1__REQUEST__OP_FLUSH)
		return scan_begin(connection, request->id, request->flush->pool, NULL);
	return scan_begin(connection, request->id, request->delete_object->pool,
			  &request->delete_object->object);
}
