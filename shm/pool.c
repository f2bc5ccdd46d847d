/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations on pages: put, get, delete, scan, and the pool's statistics. See pool.h.
 *
 * The order in a put is the crash and reader protocol: the object is whole before its entry points at it, and
 * the old object is freed after the entry no longer does.
 */
#include "pool_private.h"

#include <errno.h>
#include <string.h>

#include "object.h"
#include "value.h"

static const struct size_class_table *
pool_table(const struct pool *pool)
{
	return allocator_table(pool->allocator);
}

static uint32_t
pool_hash(const struct pool *pool, const struct page_key *key)
{
	return key_hash(pool->view.hash_seed, key);
}

unsigned
pool_shard(const struct pool *pool, const struct page_key *key)
{
	return index_shard(pool_hash(pool, key));
}

/* ---- freeing what an entry held ---- */

static const char *
stored_bytes(const struct pool *pool, uint64_t location)
{
	uint32_t header =
		location_length(location) == pool->config.page_size ? 0 : ZC_OBJECT_HEADER_SIZE;

	return pool->data.base + location_offset(location) + header;
}

static uint32_t
object_hash(const struct pool *pool, uint64_t location)
{
	uint64_t offset = location_offset(location);
	uint32_t page = (uint32_t)(offset / pool->config.page_size);
	const struct page_group *group =
		(const struct page_group *)(const void *)(pool->control.base + ZC_GROUPS_OFFSET) +
		page / ZC_GROUP_PAGES;

	/* Relaxed: whoever holds the location has seen the object whole. */
	if (location_length(location) == pool->config.page_size)
		return (uint32_t)load_relaxed(&group->object_header[page % ZC_GROUP_PAGES]);
	return (uint32_t)load_relaxed((const uint64_t *)(const void *)(pool->data.base + offset));
}

/* Is the object at the location in use, and of a key with this hash? Damaged locations fail here. */
static bool
object_is_ours(const struct pool *pool, uint64_t location, uint32_t hash)
{
	uint64_t end =
		location_offset(location) + ZC_OBJECT_HEADER_SIZE + location_length(location);

	return end <= load_relaxed(&pool->header->data_size) + ZC_OBJECT_HEADER_SIZE &&
	       object_hash(pool, location) == hash;
}

static uint32_t
object_value_length(const struct pool *pool, uint64_t location)
{
	int length = value_length(location, stored_bytes(pool, location), pool->config.page_size);

	return length < 0 ? pool->config.page_size : (uint32_t)length;
}

static bool
is_poison(struct index_value value)
{
	return !value.same_filled && location_codec(value.word) == ZC_CODEC_POISON;
}

/* Counts a value in (sign 1) or out (sign -1). Its object, if it has one, must still be there. */
static void
count_value(struct pool *pool, struct pool_context *context, struct index_value value,
	    uint32_t length, int sign)
{
	COUNT_ADD(pool, context, logical_bytes, sign * (int64_t)length);
	if (value.same_filled)
		return;
	COUNT_ADD(pool, context, stored_bytes, sign * (int64_t)location_length(value.word));
	if (location_codec(value.word) == ZC_CODEC_RAW)
		COUNT_ADD(pool, context, incompressible, sign);
}

/*
 * Frees what an entry held, after the entry no longer does. A location that was damaged leads to an object
 * that is not ours: false then; that one is left alone, and our own bytes are lost until the pool is rebuilt.
 */
static bool
release_value(struct pool *pool, struct pool_context *context, uint32_t hash,
	      struct index_value value)
{
	uint32_t length = pool->config.page_size;
	bool ours;

	if (is_poison(value)) {
		COUNT_ADD(pool, context, poisoned, -1);
		return true;
	}
	ours = value.same_filled || object_is_ours(pool, value.word, hash);
	if (ours && !value.same_filled)
		length = object_value_length(pool, value.word);
	count_value(pool, context, value, length, -1);
	return value.same_filled || (ours && zs_free(pool->allocator, location_offset(value.word),
						     location_length(value.word)));
}

/* The same for a value that was replaced or deleted and not known to be damaged. */
static void
release_old(struct pool *pool, struct pool_context *context, uint32_t hash,
	    struct index_value value)
{
	if (!release_value(pool, context, hash, value))
		COUNT_ADD(pool, context, count.damaged, 1);
}

/* ---- put ---- */

static int
publish(struct pool *pool, struct pool_context *context, const struct page_key *key, uint32_t hash,
	struct index_value value, uint32_t length)
{
	struct index_value old;
	int result;

	index_reserve(pool->index, hash);
	result = index_put(pool->index, key, hash, value, &old);
	if (result < 0)
		return result;
	count_value(pool, context, value, length, 1);
	if (result == 1)
		release_old(pool, context, hash, old);
	return 0;
}

static int
put_object(struct pool *pool, struct pool_context *context, const struct page_key *key,
	   uint32_t hash, uint32_t length)
{
	struct stored_value stored;
	struct index_value value = {.same_filled = false};
	uint64_t offset;
	int error = value_encode(context->stream, &pool->config.codec, pool_table(pool),
				 context->value, length, context->stored, &stored);

	if (!error)
		error = zs_malloc(pool->allocator, stored.length, &offset);
	if (error)
		return error;
	zs_write(pool->allocator, offset,
		 object_header_pack(hash,
				    object_checksum(stored.bytes, stored.length, stored.codec)),
		 stored.bytes, stored.length);
	value.word = location_pack(offset, stored.length, stored.codec, stored.flags);
	error = publish(pool, context, key, hash, value, length);
	if (error)
		zs_free(pool->allocator, offset, stored.length);
	return error;
}

static int
put_value(struct pool *pool, struct pool_context *context, const struct page_key *key,
	  uint32_t hash, uint32_t length)
{
	struct index_value value = {.same_filled = true};

	if (length == pool->config.page_size && same_filled(context->value, length, &value.word))
		return publish(pool, context, key, hash, value, length);
	return put_object(pool, context, key, hash, length);
}

static void
count_refusal(struct pool *pool, struct pool_context *context, int error)
{
	if (error == -ENOSPC)
		COUNT_ADD(pool, context, count.refused_limit, 1);
	else if (error == -EXFULL)
		COUNT_ADD(pool, context, count.refused_collision, 1);
	else
		COUNT_ADD(pool, context, count.refused_memory, 1);
}

/* An overwrite was refused: the old value is not what the caller means any more. */
static void
drop_old(struct pool *pool, struct pool_context *context, const struct page_key *key, uint32_t hash)
{
	struct index_value old;

	if (!index_delete(pool->index, key, hash, &old))
		return;
	release_old(pool, context, hash, old);
	COUNT_ADD(pool, context, count.dropped_old, 1);
}

int
pool_put(struct pool *pool, struct pool_context *context, const struct page_key *key,
	 const void *value, uint32_t length, unsigned flags)
{
	uint32_t hash = pool_hash(pool, key);
	int error;

	if (length == 0 || length > pool->config.page_size) {
		COUNT_ADD(pool, context, count.refused_invalid, 1);
		return length ? -EMSGSIZE : -EINVAL;
	}
	memcpy(context->value, value, length);
	error = put_value(pool, context, key, hash, length);
	if (!error) {
		COUNT_ADD(pool, context, count.puts, 1);
		return 0;
	}
	count_refusal(pool, context, error);
	if (!(flags & POOL_KEEP_OLD))
		drop_old(pool, context, key, hash);
	return error;
}

/* ---- get ---- */

/* Only the keeper's moves disturb the shard's owner, each for less than a microsecond. */
#define GET_ROUNDS_MAX 1000

static int
read_stored(struct pool *pool, struct pool_context *context, const struct page_key *key,
	    struct reader_result *result)
{
	int error = -EAGAIN;

	for (unsigned round = 0; error == -EAGAIN && round < GET_ROUNDS_MAX; round++)
		error = reader_get(&pool->view, key, context->stored, result);
	return error;
}

/*
 * The value of `key` was found damaged. It becomes poison: an error until it is overwritten or deleted, never a
 * miss and never zeros. Its object is freed if it is its own, see release_value.
 */
static void
poison(struct pool *pool, struct pool_context *context, const struct page_key *key)
{
	uint64_t word = location_pack(0, 0, ZC_CODEC_POISON, 0);
	uint32_t hash = pool_hash(pool, key);
	struct index_value value;

	if (!index_find(pool->index, key, hash, &value) || value.same_filled || is_poison(value) ||
	    !index_replace_if(pool->index, key, hash, value.word, word))
		return;
	COUNT_ADD(pool, context, count.damaged, 1);
	COUNT_ADD(pool, context, poisoned, 1);
	release_value(pool, context, hash, value);
}

static int
decode(struct pool *pool, struct pool_context *context, const struct reader_result *result,
       void *buffer, uint32_t size)
{
	if (!result->same_filled)
		return value_decode(context->stream, result->word, context->stored,
				    pool->config.page_size, buffer, size);
	if (size < pool->config.page_size)
		return -EMSGSIZE;
	same_fill(buffer, pool->config.page_size, result->word);
	return (int)pool->config.page_size;
}

int
pool_get(struct pool *pool, struct pool_context *context, const struct page_key *key, void *buffer,
	 uint32_t size)
{
	struct reader_result result;
	int length = read_stored(pool, context, key, &result);

	if (length == 0)
		length = decode(pool, context, &result, buffer, size);
	if (length >= 0)
		COUNT_ADD(pool, context, count.hits, 1);
	else if (length == -ENOENT)
		COUNT_ADD(pool, context, count.misses, 1);
	else if (length == -EBADMSG)
		poison(pool, context, key);
	return length;
}

int
pool_exists(struct pool *pool, struct pool_context *context, const struct page_key *key)
{
	int error = -EAGAIN;

	(void)context;
	for (unsigned round = 0; error == -EAGAIN && round < GET_ROUNDS_MAX; round++)
		error = reader_exists(&pool->view, key);
	return error;
}

/* ---- delete ---- */

int
pool_delete(struct pool *pool, struct pool_context *context, const struct page_key *key)
{
	uint32_t hash = pool_hash(pool, key);
	struct index_value old;

	if (!index_delete(pool->index, key, hash, &old))
		return -ENOENT;
	release_old(pool, context, hash, old);
	COUNT_ADD(pool, context, count.deletes, 1);
	return 0;
}

/* Buckets looked at in one slice: some tens of microseconds when all of them are full. */
#define SCAN_SLICE 16

struct scan {
	struct pool *pool;
	struct pool_context *context;
	uint64_t deleted;
};

static void
scan_removed(void *arg, const struct page_key *key, struct index_value value)
{
	struct scan *scan = arg;

	release_old(scan->pool, scan->context, pool_hash(scan->pool, key), value);
	COUNT_ADD(scan->pool, scan->context, count.deletes, 1);
	scan->deleted++;
}

void
pool_scan_begin(struct pool *pool, unsigned shard)
{
	index_scan_begin(pool->index, shard);
}

bool
pool_scan_slice(struct pool *pool, struct pool_context *context, unsigned shard,
		const uint64_t *object, uint64_t *deleted)
{
	struct scan scan = {pool, context, 0};
	bool more = index_scan_slice(pool->index, shard, object, SCAN_SLICE, scan_removed, &scan);

	*deleted += scan.deleted;
	return more;
}

/* ---- statistics and parts ---- */

static uint64_t
at_least_zero(int64_t sum)
{
	return sum < 0 ? 0 : (uint64_t)sum;
}

/* Relaxed sums: what happens while they are read may be missing. A damaged location can unbalance a gauge. */
static void
sum_threads(struct pool *pool, struct pool_stats *stats)
{
	int64_t logical = 0, stored = 0, incompressible = 0, poisoned = 0;

	for (unsigned number = 0; number < POOL_THREADS_MAX; number++) {
		struct pool_thread *thread = &pool->thread[number];

#define X(name, text) stats->count.name += load_relaxed(&thread->count.name);
		POOL_COUNTERS(X)
#undef X
		logical += load_relaxed(&thread->logical_bytes);
		stored += load_relaxed(&thread->stored_bytes);
		incompressible += load_relaxed(&thread->incompressible);
		poisoned += load_relaxed(&thread->poisoned);
	}
	stats->logical_bytes = at_least_zero(logical);
	stats->stored_bytes = at_least_zero(stored);
	stats->incompressible = at_least_zero(incompressible);
	stats->poisoned = at_least_zero(poisoned);
}

void
pool_stats(struct pool *pool, struct pool_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	sum_threads(pool, stats);
	index_stats(pool->index, &stats->index);
	stats->entries = stats->index.entries;
	stats->same_filled = stats->index.same_filled;
	stats->data_bytes = allocator_resident(pool->allocator) * ZC_OS_PAGE_SIZE;
	stats->control_bytes = allocator_control_resident(pool->allocator) * ZC_OS_PAGE_SIZE;
	stats->index_bytes = segment_resident(&pool->index_segment);
	stats->resident_bytes = segment_resident(&pool->control) + stats->index_bytes +
				segment_resident(&pool->data);
	stats->limit_bytes = load_relaxed(&pool->budget.limit) * ZC_OS_PAGE_SIZE;
	stats->objects_moved = load_relaxed(&pool->objects_moved);
	stats->objects_packed = load_relaxed(&pool->objects_packed);
	stats->zspages_freed = load_relaxed(&pool->zspages_freed);
	stats->pages_freed = load_relaxed(&pool->pages_freed);
	stats->compactions = load_relaxed(&pool->compactions);
}

void
pool_count_compaction(struct pool *pool, const struct compact_result *result)
{
	add_relaxed(&pool->objects_moved, result->objects_moved);
	add_relaxed(&pool->objects_packed, result->objects_packed);
	add_relaxed(&pool->zspages_freed, result->zspages_freed);
	add_relaxed(&pool->pages_freed, result->pages_freed);
	add_relaxed(&pool->compactions, 1);
}

int
pool_set_limit(struct pool *pool, uint64_t bytes)
{
	if (bytes == 0 || bytes > ZC_DATA_SIZE_MAX)
		return -EINVAL;
	store_relaxed(&pool->budget.limit, bytes / ZC_OS_PAGE_SIZE);
	return 0;
}

const struct pool_config *
pool_config(const struct pool *pool)
{
	return &pool->config;
}

uint64_t
pool_id(const struct pool *pool)
{
	return pool->header->pool_id;
}

struct allocator *
pool_allocator(struct pool *pool)
{
	return pool->allocator;
}

struct index *
pool_index(struct pool *pool)
{
	return pool->index;
}

const struct pool_view *
pool_view(const struct pool *pool)
{
	return &pool->view;
}
