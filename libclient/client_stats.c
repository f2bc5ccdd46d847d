/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics and compaction: copies numbers from replies into public structs.
 *
 * Everything is asked for by the pool's name, so no handle is needed. Starting a compaction is the
 * one request here that is not sent twice. Thread safe.
 */
#include "client.h"

#include <errno.h>
#include <stdio.h>

/* Where a struct of the caller's build goes. */
struct destination {
	void *to;
	uint32_t size;
};

/* ---- one pool ---- */

static int64_t
take_stats(const Zcache__V1__Response *response, void *into)
{
	const struct destination *destination = into;
	const Zcache__V1__StatsReply *reply = response->stats;
	const Zcache__V1__PoolStats *from = reply->n_pool == 1 ? reply->pool[0] : NULL;

	if (!from || !from->pool)
		return -EPROTO;
	struct zc_stats stats = {
		.entries = from->entries,
		.logical_bytes = from->logical_bytes,
		.stored_bytes = from->stored_bytes,
		.data_bytes = from->data_bytes,
		.index_bytes = from->index_bytes,
		.control_bytes = from->control_bytes,
		.resident_bytes = from->resident_bytes,
		.limit_bytes = from->pool->limit,
		.same_filled = from->same_filled,
		.incompressible = from->incompressible,
		.poisoned = from->poisoned,
		.puts = from->puts,
		.hits = from->hits,
		.misses = from->misses,
		.deletes = from->deletes,
		.refused_limit = from->refused_limit,
		.refused_memory = from->refused_memory,
		.refused_collision = from->refused_collision,
		.refused_invalid = from->refused_invalid,
		.dropped_old = from->dropped_old,
		.damaged = from->damaged,
		.objects_moved = from->objects_moved,
		.objects_packed = from->objects_packed,
		.zspages_freed = from->zspages_freed,
		.pages_freed = from->pages_freed,
		.compactions = from->compactions,
	};
	struct_give(destination->to, destination->size, &stats, sizeof(stats));
	return 0;
}

/* Asks for the numbers of the service, and of one pool or ("") of all. */
static int
ask_for_stats(struct zc *zc, const char *pool,
	      int64_t (*take)(const Zcache__V1__Response *, void *),
	      struct destination *destination)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Stats ask = ZCACHE__V1__STATS__INIT;
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_STATS,
		.take = take,
		.into = destination,
	};

	if (!struct_size_good(destination->size))
		return client_error(zc, -EINVAL, "struct_size");
	ask.pool = (char *)pool;
	request.op_case = ZCACHE__V1__REQUEST__OP_STATS;
	request.stats = &ask;
	return (int)client_call(zc, &call);
}

int
zc_stats(struct zc_pool *pool, struct zc_stats *stats)
{
	if (!pool || !stats)
		return -EINVAL;
	return ask_for_stats(pool->zc, pool->info.name, take_stats,
			     &(struct destination){stats, stats->struct_size});
}

/* ---- the service ---- */

static int64_t
take_service_stats(const Zcache__V1__Response *response, void *into)
{
	const struct destination *destination = into;
	const Zcache__V1__ServiceStats *from = response->stats->service;

	if (!from)
		return -EPROTO;
	struct zc_service_stats stats = {
		.workers = from->workers,
		.uptime_ms = from->uptime_ms,
		.connections = from->connections,
		.connections_total = from->connections_total,
		.connections_refused = from->connections_refused,
		.requests = from->requests,
		.protocol_errors = from->protocol_errors,
		.stalled_clients = from->stalled_clients,
		.denied = from->denied,
		.boot_id = from->boot_id,
	};
	snprintf(stats.version, sizeof(stats.version), "%s", from->version);
	struct_give(destination->to, destination->size, &stats, sizeof(stats));
	return 0;
}

int
zc_service_stats(struct zc *zc, struct zc_service_stats *stats)
{
	if (!zc || !stats)
		return -EINVAL;
	return ask_for_stats(zc, "", take_service_stats,
			     &(struct destination){stats, stats->struct_size});
}

/* ---- size classes ---- */

struct class_room {
	struct zc_class *list;
	size_t room;
	uint32_t size; /* of an element, as the caller sees it */
};

static void
fill_class(struct zc_class *class, const Zcache__V1__SizeClass *from)
{
	const size_t columns = sizeof(class->fullness) / sizeof(class->fullness[0]);

	*class = (struct zc_class){
		.size = from->size,
		.pages_per_zspage = from->pages_per_zspage,
		.objects_per_zspage = from->objects_per_zspage,
		.zspages = from->zspages,
		.objects_allocated = from->objects_allocated,
		.objects_used = from->objects_used,
		.pages_resident = from->pages_resident,
		.zspages_freeable = from->zspages_freeable,
		.moves_lower_bound = from->moves_lower_bound,
	};
	for (size_t i = 0; i < from->n_fullness && i < columns; i++)
		class->fullness[i] = from->fullness[i];
}

static int64_t
take_classes(const Zcache__V1__Response *response, void *into)
{
	const Zcache__V1__ClassesReply *reply = response->classes;
	const struct class_room *room = into;
	struct zc_class class;

	for (size_t i = 0; i < reply->n_size_class && i < room->room; i++) {
		fill_class(&class, reply->size_class[i]);
		struct_give((char *)room->list + i * room->size, room->size, &class, sizeof(class));
	}
	return (int64_t)reply->n_size_class;
}

int
zc_classes(struct zc_pool *pool, struct zc_class *list, size_t room)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Classes ask = ZCACHE__V1__CLASSES__INIT;
	struct class_room into = {list, room, 0};
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_CLASSES,
		.take = take_classes,
		.into = &into,
	};

	if (!pool || (room && !list))
		return -EINVAL;
	if (room)
		into.size = list->struct_size;
	if (room && !struct_size_good(into.size))
		return client_error(pool->zc, -EINVAL, "struct_size");
	ask.pool = pool->info.name;
	request.op_case = ZCACHE__V1__REQUEST__OP_CLASSES;
	request.classes = &ask;
	return (int)client_call(pool->zc, &call);
}

/* ---- compaction ---- */

static int64_t
take_compaction(const Zcache__V1__Response *response, void *into)
{
	const struct destination *destination = into;
	const Zcache__V1__CompactReply *from = response->compact;
	struct zc_compaction state = {
		.running = from->running ? 1 : 0,
		.classes_done = from->classes_done,
		.classes_total = from->classes_total,
		.estimate_pages = from->estimate_pages,
		.estimate_zspages = from->estimate_zspages,
		.moves_lower_bound = from->moves_lower_bound,
		.objects_moved = from->objects_moved,
		.objects_packed = from->objects_packed,
		.objects_busy = from->objects_busy,
		.zspages_freed = from->zspages_freed,
		.pages_freed = from->pages_freed,
		.generation = from->generation,
		.resident_before = from->resident_before,
		.resident_now = from->resident_now,
	};

	struct_give(destination->to, destination->size, &state, sizeof(state));
	return 0;
}

static int
call_for_compaction(struct zc_pool *pool, Zcache__V1__Request *request, bool resend,
		    struct zc_compaction *state)
{
	struct destination destination = {state, state->struct_size};
	struct call call = {
		.request = request,
		.resend = resend,
		.expect = ZCACHE__V1__RESPONSE__RESULT_COMPACT,
		.take = take_compaction,
		.into = &destination,
	};

	if (!struct_size_good(destination.size))
		return client_error(pool->zc, -EINVAL, "struct_size");
	return (int)client_call(pool->zc, &call);
}

int
zc_compact_start(struct zc_pool *pool, unsigned flags, struct zc_compaction *state)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__CompactStart start = ZCACHE__V1__COMPACT_START__INIT;

	if (!pool || !state)
		return -EINVAL;
	if (flags & ~(unsigned)ZC_ESTIMATE)
		return client_error(pool->zc, -EINVAL, "unknown flag");
	start.pool = pool->info.name;
	start.estimate_only = flags & ZC_ESTIMATE;
	request.op_case = ZCACHE__V1__REQUEST__OP_COMPACT_START;
	request.compact_start = &start;
	return call_for_compaction(pool, &request, flags & ZC_ESTIMATE, state);
}

int
zc_compact_status(struct zc_pool *pool, struct zc_compaction *state)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__CompactStatus status = ZCACHE__V1__COMPACT_STATUS__INIT;

	if (!pool || !state)
		return -EINVAL;
	status.pool = pool->info.name;
	request.op_case = ZCACHE__V1__REQUEST__OP_COMPACT_STATUS;
	request.compact_status = &status;
	return call_for_compaction(pool, &request, true, state);
}
