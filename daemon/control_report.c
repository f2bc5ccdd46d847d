/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers: statistics of the service and of pools, size classes, compaction. */
#include <errno.h>
#include <time.h>

#include "atomic.h"
#include "control_private.h"
#include "keeper.h"
#include "registry.h"
#include "worker.h"
#include "zcached_version.h"

static char version[] = ZCACHED_VERSION;

/* ---- statistics ---- */

static uint64_t
uptime_ms(const struct engine *engine)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)((now.tv_sec - engine->started.tv_sec) * 1000 +
			  (now.tv_nsec - engine->started.tv_nsec) / 1000000);
}

static void
fill_service(struct engine *engine, Zcache__V1__ServiceStats *service)
{
	*service = (Zcache__V1__ServiceStats)ZCACHE__V1__SERVICE_STATS__INIT;
	service->version = version;
	service->uptime_ms = uptime_ms(engine);
	service->workers = engine->worker_count;
	service->boot_id = engine->boot_id;
	/* Relaxed, all of them: numbers that need no order between them. */
	service->connections = load_relaxed(&engine->connections);
	service->connections_total = load_relaxed(&engine->connections_total);
	service->connections_refused = load_relaxed(&engine->connections_refused);
	service->denied = load_relaxed(&engine->denied);
	for (unsigned i = 0; i < engine->worker_count; i++) {
		const struct worker_count *count = &engine->worker[i].count;

		service->requests += load_relaxed(&count->requests);
		service->protocol_errors += load_relaxed(&count->protocol_errors);
		service->stalled_clients += load_relaxed(&count->stalled_clients);
	}
}

static void
fill_pool(const struct pool_entry *entry, Zcache__V1__PoolStats *out)
{
	struct pool_stats stats;

	pool_stats(entry->pool, &stats);
	out->entries = stats.entries;
	out->logical_bytes = stats.logical_bytes;
	out->stored_bytes = stats.stored_bytes;
	out->data_bytes = stats.data_bytes;
	out->index_bytes = stats.index_bytes;
	out->control_bytes = stats.control_bytes;
	out->resident_bytes = stats.resident_bytes;
	out->same_filled = stats.same_filled;
	out->incompressible = stats.incompressible;
	out->poisoned = stats.poisoned;
#define POOL_COUNTER(name, text) out->name = stats.count.name;
	POOL_COUNTERS(POOL_COUNTER)
#undef POOL_COUNTER
	out->objects_moved = stats.objects_moved;
	out->objects_packed = stats.objects_packed;
	out->zspages_freed = stats.zspages_freed;
	out->pages_freed = stats.pages_freed;
	out->compactions = stats.compactions;
}

/* Appends a pool to the answer. */
static void
add_pool(struct control *control, const struct pool_entry *entry)
{
	size_t number = control->stats_reply.n_pool++;
	Zcache__V1__PoolStats *stats = &control->stats[number];

	*stats = (Zcache__V1__PoolStats)ZCACHE__V1__POOL_STATS__INIT;
	control->info[number] = (Zcache__V1__PoolInfo)ZCACHE__V1__POOL_INFO__INIT;
	reply_fill_pool_info(entry, &control->info[number], control->codec[number]);
	stats->pool = &control->info[number];
	fill_pool(entry, stats);
	control->stats_list[number] = stats;
}

static void
add_pools(struct control *control, uint32_t uid)
{
	struct pool_entry *list[ENGINE_POOLS_MAX];
	unsigned count = registry_all(&control->engine->registry, list);

	for (unsigned i = 0; i < count; i++) {
		if (pool_entry_permits(list[i], uid, control->engine->uid))
			add_pool(control, list[i]);
		pool_entry_release(list[i]);
	}
}

int
control_stats(struct control *control, const struct control_request *request,
	      struct pool_entry *entry, Zcache__V1__Response *response)
{
	Zcache__V1__StatsReply *reply = &control->stats_reply;

	*reply = (Zcache__V1__StatsReply)ZCACHE__V1__STATS_REPLY__INIT;
	fill_service(control->engine, &control->service);
	reply->service = &control->service;
	reply->pool = control->stats_list;
	if (entry)
		add_pool(control, entry);
	else
		add_pools(control, request->uid);
	response->result_case = ZCACHE__V1__RESPONSE__RESULT_STATS;
	response->stats = reply;
	return 0;
}

/* ---- size classes ---- */

static void
fill_class(struct control *control, struct allocator *allocator, unsigned number)
{
	Zcache__V1__SizeClass *out = &control->size_class[number];
	struct class_stats stats;

	allocator_class_stats(allocator, number, &stats);
	*out = (Zcache__V1__SizeClass)ZCACHE__V1__SIZE_CLASS__INIT;
	out->size = stats.size;
	out->pages_per_zspage = stats.pages_per_zspage;
	out->objects_per_zspage = stats.objects_per_zspage;
	out->zspages = stats.zspages;
	out->objects_allocated = stats.objects_allocated;
	out->objects_used = stats.objects_used;
	out->pages_resident = stats.pages_resident;
	out->zspages_freeable = stats.zspages_freeable;
	out->moves_lower_bound = stats.moves_lower_bound;
	out->n_fullness = 11;
	out->fullness = control->fullness[number];
	for (unsigned tenth = 0; tenth < 11; tenth++)
		control->fullness[number][tenth] = stats.fullness[tenth];
	control->size_class_list[number] = out;
}

int
control_classes(struct control *control, const struct control_request *request,
		struct pool_entry *entry, Zcache__V1__Response *response)
{
	struct allocator *allocator = pool_allocator(entry->pool);
	Zcache__V1__ClassesReply *reply = &control->classes_reply;

	(void)request;
	*reply = (Zcache__V1__ClassesReply)ZCACHE__V1__CLASSES_REPLY__INIT;
	reply->n_size_class = allocator_classes(allocator);
	reply->size_class = control->size_class_list;
	for (unsigned i = 0; i < reply->n_size_class; i++)
		fill_class(control, allocator, i);
	response->result_case = ZCACHE__V1__RESPONSE__RESULT_CLASSES;
	response->classes = reply;
	return 0;
}

/* ---- compaction ---- */

static void
fill_compaction(struct control *control, const struct pool_entry *entry,
		const struct compaction_status *status, Zcache__V1__Response *response)
{
	Zcache__V1__CompactReply *reply = &control->compact_reply;
	struct pool_stats stats;

	pool_stats(entry->pool, &stats);
	*reply = (Zcache__V1__CompactReply)ZCACHE__V1__COMPACT_REPLY__INIT;
	reply->running = status->running;
	reply->classes_done = status->classes_done;
	reply->classes_total = status->classes_total;
	reply->estimate_pages = status->estimate.pages;
	reply->estimate_zspages = status->estimate.zspages;
	reply->moves_lower_bound = status->estimate.moves_lower_bound;
	reply->objects_moved = status->result.objects_moved;
	reply->objects_packed = status->result.objects_packed;
	reply->objects_busy = status->result.objects_busy;
	reply->zspages_freed = status->result.zspages_freed;
	reply->pages_freed = status->result.pages_freed;
	reply->generation = status->generation;
	reply->resident_before = status->resident_before;
	reply->resident_now = stats.resident_bytes;
	response->result_case = ZCACHE__V1__RESPONSE__RESULT_COMPACT;
	response->compact = reply;
}

int
control_compact_start(struct control *control, const struct control_request *request,
		      struct pool_entry *entry, Zcache__V1__Response *response)
{
	struct compaction_status status;
	int result = 0;

	if (request->estimate_only) {
		keeper_status(control->engine->keeper, entry, &status);
		compact_estimate(pool_allocator(entry->pool), &status.estimate);
	} else {
		result = keeper_compact(control->engine->keeper, entry, &status);
	}
	if (result < 0)
		return control_refuse(control, result, "a compaction of this pool is running");
	fill_compaction(control, entry, &status, response);
	return 0;
}

int
control_compact_status(struct control *control, const struct control_request *request,
		       struct pool_entry *entry, Zcache__V1__Response *response)
{
	struct compaction_status status;

	(void)request;
	keeper_status(control->engine->keeper, entry, &status);
	fill_compaction(control, entry, &status, response);
	return 0;
}
