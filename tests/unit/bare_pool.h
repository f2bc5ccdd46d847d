/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pool without an allocator, for the tests of index and reader: three segments, a live header,
 * an index. The test puts objects where it likes in the data segment.
 */
#ifndef ZCACHED_TESTS_BARE_POOL_H
#define ZCACHED_TESTS_BARE_POOL_H

#include <stdint.h>
#include <string.h>

#include "index.h"
#include "object.h"
#include "reader.h"
#include "segment.h"

#define BARE_PAGE_SIZE 4096u
#define BARE_SEED      0x5eed5eed5eedULL

struct bare_pool {
	struct segment control, index_segment, data;
	struct pool_header *header;
	struct budget budget; /* of the index only */
	struct index *index;
};

/* `limit` bounds the index; data_size bytes of data exist from the start (0: no data segment). */
static inline void
bare_pool_open(struct bare_pool *pool, uint64_t index_max, uint64_t limit, uint64_t data_size)
{
	uint64_t pages = data_size / BARE_PAGE_SIZE;
	uint64_t control_size =
		ZC_GROUPS_OFFSET + (pages / ZC_GROUP_PAGES + 1) * sizeof(struct page_group);

	memset(pool, 0, sizeof(*pool));
	control_size = (control_size + ZC_OS_PAGE_SIZE - 1) / ZC_OS_PAGE_SIZE * ZC_OS_PAGE_SIZE;
	assert_int_equal(segment_create(&pool->control, "control", control_size), 0);
	assert_int_equal(segment_grow(&pool->control, control_size), 0);
	assert_int_equal(segment_create(&pool->index_segment, "index", index_max), 0);
	if (data_size) {
		assert_int_equal(segment_create(&pool->data, "data", data_size), 0);
		assert_int_equal(segment_grow(&pool->data, data_size), 0);
	}
	pool->header = (struct pool_header *)(void *)pool->control.base;
	pool->header->page_size = BARE_PAGE_SIZE;
	pool->header->hash_seed = BARE_SEED;
	pool->header->data_size = data_size;
	pool->header->epoch = 1;
	pool->header->state = ZC_POOL_LIVE;
	budget_init(&pool->budget, limit, NULL);
	assert_int_equal(
		index_create(pool->header, &pool->index_segment, &pool->budget, &pool->index), 0);
}

static inline void
bare_pool_close(struct bare_pool *pool)
{
	index_destroy(&pool->index);
	assert_null(pool->index);
	segment_close(&pool->control);
	segment_close(&pool->index_segment);
	segment_close(&pool->data);
}

/* What a client would have after mapping the three files whole. */
static inline struct pool_view
bare_pool_view(const struct bare_pool *pool)
{
	return (struct pool_view){
		.header = pool->header,
		.index = pool->index_segment.base,
		.data = pool->data.base,
		.control_size = pool->control.reserve,
		.index_size = pool->index_segment.reserve,
		.data_size = pool->data.reserve,
		.page_size = BARE_PAGE_SIZE,
		.hash_seed = BARE_SEED,
	};
}

static inline uint32_t
bare_hash(const struct page_key *key)
{
	return key_hash(BARE_SEED, key);
}

/* As pool_put() does it: memory first, then the entry. */
static inline int
bare_put(struct bare_pool *pool, const struct page_key *key, struct index_value value,
	 struct index_value *old)
{
	index_reserve(pool->index, bare_hash(key));
	return index_put(pool->index, key, bare_hash(key), value, old);
}

/* A sequence of pseudo-random numbers (SplitMix64; Steele, Lea, Flood 2014). */
static inline uint64_t
bare_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

#endif
