/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of the index's writing side (shm/index*.c): against a model, for growth and what an entry
 * costs, with colliding keys, without memory, under scans, with several owners and a keeper.
 * Readers are tested in test_reader.c.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bare_pool.h"

#define INDEX_MAX (64ULL << 20)
#define NO_LIMIT  (1ULL << 40)

/* ---- The model ---- */

/* Keys of the property test: few enough to meet each often, enough for hundreds of buckets. */
#define OBJECTS	 4u
#define INDEXES	 8192u
#define KEYS	 (OBJECTS * INDEXES)
#define SLOT	 64u /* bytes of an object at most, header included */
#define NO_STAMP 0u

struct model_entry {
	bool present;
	struct index_value value;
	uint64_t stamp; /* when it was put */
};

struct model {
	struct bare_pool pool;
	struct model_entry entry[KEYS];
	uint64_t entries, same_filled;
	uint64_t time;
	uint64_t random;
	char *arena; /* what locations point into */
	uint32_t free_slot[2 * KEYS];
	uint32_t free_slots;
};

static struct page_key
model_key(uint32_t number)
{
	return (struct page_key){number / INDEXES, number % INDEXES};
}

static uint32_t
model_number(const struct page_key *key)
{
	assert_true(key->object < OBJECTS && key->index < INDEXES);
	return (uint32_t)(key->object * INDEXES + key->index);
}

static void
model_open(struct model *model, uint64_t seed)
{
	memset(model, 0, sizeof(*model));
	bare_pool_open(&model->pool, INDEX_MAX, NO_LIMIT, 0);
	model->random = seed;
	model->arena = calloc(2 * KEYS, SLOT);
	assert_non_null(model->arena);
	for (uint32_t i = 0; i < 2 * KEYS; i++)
		model->free_slot[i] = 2 * KEYS - 1 - i;
	model->free_slots = 2 * KEYS;
}

static void
model_close(struct model *model)
{
	bare_pool_close(&model->pool);
	free(model->arena);
}

static uint64_t
model_offset(struct model *model)
{
	assert_true(model->free_slots > 0);
	return (uint64_t)model->free_slot[--model->free_slots] * SLOT;
}

/* What pool_put() does with a value that was replaced or removed. */
static void
model_release(struct model *model, struct index_value value)
{
	if (!value.same_filled)
		model->free_slot[model->free_slots++] =
			(uint32_t)(location_offset(value.word) / SLOT);
}

static void
model_set(struct model *model, uint32_t number, bool present, struct index_value value)
{
	struct model_entry *entry = &model->entry[number];

	model->entries += (uint64_t)present - entry->present;
	model->same_filled += (uint64_t)(present && value.same_filled) -
			      (entry->present && entry->value.same_filled);
	*entry = (struct model_entry){present, value, ++model->time};
}

static struct index_value
model_new_value(struct model *model)
{
	struct index_value value = {.same_filled = bare_random(&model->random) % 3 == 0};
	uint32_t length = 1 + (uint32_t)(bare_random(&model->random) % (SLOT - 8));
	uint64_t offset;

	if (value.same_filled) {
		value.word = bare_random(&model->random);
		return value;
	}
	offset = model_offset(model);
	value.word = location_pack(offset, length, ZC_CODEC_LZ4, 0);
	for (uint32_t i = 0; i < length + 8; i++)
		model->arena[offset + i] = (char)bare_random(&model->random);
	return value;
}

static void
assert_same_value(struct index_value a, struct index_value b)
{
	assert_int_equal(a.same_filled, b.same_filled);
	assert_true(a.word == b.word);
}

static void
model_put(struct model *model, uint32_t number)
{
	struct page_key key = model_key(number);
	struct index_value value = model_new_value(model), old;
	struct model_entry *entry = &model->entry[number];
	int result = bare_put(&model->pool, &key, value, &old);

	assert_int_equal(result, entry->present);
	if (result == 1) {
		assert_same_value(old, entry->value);
		model_release(model, old);
	}
	model_set(model, number, true, value);
}

static void
model_delete(struct model *model, uint32_t number)
{
	struct page_key key = model_key(number);
	struct index_value old;
	struct model_entry *entry = &model->entry[number];

	assert_int_equal(index_delete(model->pool.index, &key, bare_hash(&key), &old),
			 entry->present);
	if (!entry->present)
		return;
	assert_same_value(old, entry->value);
	model_release(model, old);
	model_set(model, number, false, old);
}

static void
model_find(struct model *model, uint32_t number)
{
	struct page_key key = model_key(number);
	struct index_value value;

	assert_int_equal(index_find(model->pool.index, &key, bare_hash(&key), &value),
			 model->entry[number].present);
	if (model->entry[number].present)
		assert_same_value(value, model->entry[number].value);
}

/* Poisons a location, or fails to because another is expected. */
static void
model_replace_if(struct model *model, uint32_t number)
{
	struct page_key key = model_key(number);
	struct model_entry *entry = &model->entry[number];
	uint64_t offset = model_offset(model), to = location_pack(offset, 1, ZC_CODEC_ZSTD, 0);
	bool location = entry->present && !entry->value.same_filled;
	uint64_t from = location ? entry->value.word : 0;

	assert_int_equal(0,
			 index_replace_if(model->pool.index, &key, bare_hash(&key), from ^ 8, to));
	assert_int_equal(location,
			 index_replace_if(model->pool.index, &key, bare_hash(&key), from, to));
	if (!location) {
		model->free_slot[model->free_slots++] = (uint32_t)(offset / SLOT);
		return;
	}
	model_release(model, entry->value);
	model_set(model, number, true, (struct index_value){to, false});
}

/* Moves the object of a key; in one of eight cases there is too little room. */
static void
model_move(struct model *model, uint32_t number)
{
	struct page_key key = model_key(number);
	struct model_entry *entry = &model->entry[number];
	uint64_t word = entry->value.word, from = location_offset(word);
	uint64_t to = model_offset(model);
	uint32_t length = location_length(word), moved;
	bool fits = bare_random(&model->random) % 8 != 0;
	bool there = entry->present && !entry->value.same_filled;

	if (!there)
		from = to; /* nobody points there */
	moved = index_move(model->pool.index, bare_hash(&key), from, to, model->arena + to,
			   model->arena + from, fits ? SLOT : length + 7);
	assert_int_equal(moved, there && fits ? length : 0);
	if (!moved) {
		model->free_slot[model->free_slots++] = (uint32_t)(to / SLOT);
		return;
	}
	assert_memory_equal(model->arena + to, model->arena + from, length + 8);
	model_release(model, entry->value);
	entry->value.word = location_pack(to, length, location_codec(word), location_flags(word));
}

static void
model_step(struct model *model)
{
	uint64_t random = bare_random(&model->random);
	uint32_t number = (uint32_t)(random >> 32) % KEYS;

	switch (random % 16) {
	case 0 ... 7:
		model_put(model, number);
		break;
	case 8 ... 10:
		model_delete(model, number);
		break;
	case 11 ... 12:
		model_move(model, number);
		break;
	case 13:
		model_replace_if(model, number);
		break;
	default:
		model_find(model, number);
	}
}

/* ---- Walks ---- */

static int
visit_compares(void *arg, const struct page_key *key, struct index_value value)
{
	struct model *model = arg;
	const struct model_entry *entry = &model->entry[model_number(key)];

	return entry->present && entry->value.word == value.word &&
			       entry->value.same_filled == value.same_filled
		       ? 0
		       : -EINVAL;
}

/* Every entry of the index is one of the model, and there are as many: the two are equal. */
static void
model_check(struct model *model)
{
	struct index_stats stats;

	assert_int_equal(index_walk(model->pool.index, visit_compares, model), 0);
	index_stats(model->pool.index, &stats);
	assert_int_equal(stats.entries, model->entries);
	assert_int_equal(stats.same_filled, model->same_filled);
	assert_int_equal(stats.collisions, 0);
	assert_int_equal(load_relaxed(&model->pool.budget.used) * ZC_OS_PAGE_SIZE,
			 model->pool.header->index_size);
	assert_int_equal(segment_resident(&model->pool.index_segment),
			 model->pool.header->index_size);
}

static int
visit_accepts(void *arg, const struct page_key *key, struct index_value value)
{
	(void)key;
	(void)value;
	++*(uint64_t *)arg;
	return 0;
}

static uint64_t
walk(struct bare_pool *pool)
{
	uint64_t entries = 0;

	assert_int_equal(index_walk(pool->index, visit_accepts, &entries), 0);
	return entries;
}

/* ---- Tests against the model ---- */

static void
test_model(void **state)
{
	struct model *model = malloc(sizeof(*model));

	(void)state;
	for (uint64_t seed = 1; seed <= 4; seed++) {
		print_message("seed %u\n", (unsigned)seed);
		model_open(model, seed);
		for (unsigned step = 0; step < 100000; step++) {
			model_step(model);
			if (step % 9973 == 0)
				model_check(model);
		}
		model_check(model);
		for (uint32_t number = 0; number < KEYS; number++)
			model_delete(model, number);
		model_check(model);
		assert_int_equal(model->entries, 0);
		assert_int_equal(model->free_slots, 2 * KEYS);
		model_close(model);
	}
	free(model);
}

struct scan {
	struct model *model;
	const uint64_t *object;
	unsigned shard;
};

static void
scan_removed(void *arg, const struct page_key *key, struct index_value value)
{
	struct scan *scan = arg;
	uint32_t number = model_number(key);

	assert_int_equal(index_shard(bare_hash(key)), scan->shard);
	assert_true(!scan->object || key->object == *scan->object);
	assert_true(scan->model->entry[number].present);
	assert_same_value(value, scan->model->entry[number].value);
	model_release(scan->model, value);
	model_set(scan->model, number, false, value);
}

/* Of what a scan removes nothing may be left that was there when it began and is still the same. */
static void
assert_scanned(const struct scan *scan, uint64_t began)
{
	for (uint32_t number = 0; number < KEYS; number++) {
		const struct model_entry *entry = &scan->model->entry[number];
		struct page_key key = model_key(number);

		if (!entry->present || index_shard(bare_hash(&key)) != scan->shard)
			continue;
		if (!scan->object || key.object == *scan->object)
			assert_true(entry->stamp > began);
	}
}

/* Between two slices the owner does anything else: entries are displaced, buckets split. */
static void
scan_shard(struct model *model, unsigned shard, const uint64_t *object, unsigned steps_between)
{
	struct scan scan = {model, object, shard};
	uint64_t began = model->time;

	index_scan_begin(model->pool.index, shard);
	while (index_scan_slice(model->pool.index, shard, object, 3, scan_removed, &scan))
		for (unsigned i = 0; i < steps_between; i++)
			model_step(model);
	assert_scanned(&scan, began);
}

static void
test_scans_meet_every_entry(void **state)
{
	struct model *model = malloc(sizeof(*model));
	const uint64_t object = 2;

	(void)state;
	model_open(model, 11);
	for (uint32_t number = 0; number < KEYS / 3; number++)
		model_put(model, number);
	for (unsigned shard = 0; shard < ZC_SHARDS; shard++)
		scan_shard(model, shard, shard % 4 ? &object : NULL, 400);
	model_check(model);
	for (unsigned shard = 0; shard < ZC_SHARDS; shard++)
		scan_shard(model, shard, NULL, 0);
	model_check(model);
	assert_int_equal(model->entries, 0);
	model_close(model);
	free(model);
}

/* The hard case: one shard alone, densely packed, growing all the while. */
static void
test_scan_of_a_shard_that_grows(void **state)
{
	struct model *model = malloc(sizeof(*model));
	const uint64_t object = 1;
	uint32_t next = 0;

	(void)state;
	model_open(model, 12);
	for (unsigned round = 0; round < 4; round++) {
		struct scan scan = {model, &object, 5};
		uint64_t began;

		for (unsigned i = 0; i < 6000; i++, next = (next + 7) % KEYS)
			if (index_shard(bare_hash(
				    &(struct page_key){next / INDEXES, next % INDEXES})) == 5)
				model_put(model, next);
		began = model->time;
		index_scan_begin(model->pool.index, 5);
		while (index_scan_slice(model->pool.index, 5, &object, 1, scan_removed, &scan)) {
			for (unsigned i = 0; i < 1500; i++, next = (next + 7) % KEYS) {
				struct page_key key = model_key(next);

				if (key.object != object && index_shard(bare_hash(&key)) == 5)
					model_put(model, next);
			}
		}
		assert_scanned(&scan, began);
		model_check(model);
	}
	model_close(model);
	free(model);
}

/* ---- Growth ---- */

static void
put_number(struct bare_pool *pool, uint64_t number)
{
	struct page_key key = {9, number};
	struct index_value old;

	assert_int_equal(bare_put(pool, &key, (struct index_value){number << 3, false}, &old), 0);
}

static void
assert_number(struct bare_pool *pool, uint64_t number)
{
	struct page_key key = {9, number};
	struct index_value value;

	assert_int_equal(index_find(pool->index, &key, bare_hash(&key), &value), 1);
	assert_true(value.word == number << 3);
}

#define GROWN_ENTRIES 300000u
#define CHECKED_FROM  100000u
#define BYTES_AT_MOST 30.0

static void
test_growth_costs_no_more_than_it_should(void **state)
{
	struct bare_pool pool;
	struct index_stats stats;
	double worst = 0;

	(void)state;
	bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 0);
	for (uint64_t number = 0; number < GROWN_ENTRIES; number++) {
		double bytes =
			(double)load_relaxed(&pool.header->index_size) / (double)(number + 1);

		put_number(&pool, number);
		if (number >= CHECKED_FROM && bytes > worst)
			worst = bytes;
	}
	index_stats(pool.index, &stats);
	print_message("%u entries: worst %.2f bytes an entry from %u on; now %.2f, %.3f moves an "
		      "entry, %u splits\n",
		      GROWN_ENTRIES, worst, CHECKED_FROM,
		      (double)segment_resident(&pool.index_segment) / GROWN_ENTRIES,
		      (double)stats.displaced / GROWN_ENTRIES, (unsigned)stats.splits);
	assert_true(worst <= BYTES_AT_MOST);
	assert_int_equal(segment_resident(&pool.index_segment), pool.header->index_size);
	assert_int_equal(stats.entries, GROWN_ENTRIES);
	assert_int_equal(stats.collisions, 0);
	assert_int_equal(walk(&pool), GROWN_ENTRIES);
	for (uint64_t number = 0; number < GROWN_ENTRIES; number++)
		assert_number(&pool, number);
	bare_pool_close(&pool);
}

/* Small indexes: no entry may be refused while shards have a handful of buckets. */
static void
test_small_indexes_refuse_nothing(void **state)
{
	(void)state;
	for (uint64_t round = 0; round < 40; round++) {
		struct bare_pool pool;

		bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 0);
		for (uint64_t number = 0; number < 4000; number++)
			put_number(&pool, number + (round << 32));
		assert_int_equal(walk(&pool), 4000);
		bare_pool_close(&pool);
	}
}

/* ---- Refusals ---- */

/* Puts until the budget refuses; returns how many went in. */
static uint64_t
fill(struct bare_pool *pool, int expected)
{
	for (uint64_t number = 0;; number++) {
		struct page_key key = {9, number};
		struct index_value old;
		int result = bare_put(pool, &key, (struct index_value){number << 3, false}, &old);

		if (result == 0)
			continue;
		assert_int_equal(result, expected);
		return number;
	}
}

static void
assert_filled(struct bare_pool *pool, uint64_t entries)
{
	assert_int_equal(walk(pool), entries);
	for (uint64_t number = 0; number < entries; number++)
		assert_number(pool, number);
}

static void
test_budget_refuses(void **state)
{
	const uint64_t limit = 40 * ZC_STRIPE_SIZE + 2 * ZC_OS_PAGE_SIZE;
	struct page_key key = {9, 0};
	struct index_value old;
	struct bare_pool pool;
	uint64_t entries;

	(void)state;
	bare_pool_open(&pool, INDEX_MAX, limit, 0);
	entries = fill(&pool, -ENOSPC);
	print_message("%u entries in 40 stripes: load %.3f\n", (unsigned)entries,
		      (double)entries / (40 * ZC_SHARDS * ZC_BUCKET_ENTRIES));
	assert_int_equal(segment_resident(&pool.index_segment), 40 * ZC_STRIPE_SIZE);
	assert_filled(&pool, entries);
	/* Replaced and deleted as ever; what was deleted makes room. */
	assert_int_equal(bare_put(&pool, &key, (struct index_value){0, false}, &old), 1);
	for (uint64_t number = 0; number < entries; number++) {
		key.index = number;
		assert_int_equal(index_delete(pool.index, &key, bare_hash(&key), &old), 1);
	}
	assert_int_equal(walk(&pool), 0);
	assert_int_equal(fill(&pool, -ENOSPC), entries);
	bare_pool_close(&pool);
}

static void
test_address_range_ends(void **state)
{
	struct bare_pool pool;
	uint64_t entries;

	(void)state;
	bare_pool_open(&pool, 8 * ZC_STRIPE_SIZE, NO_LIMIT, 0);
	entries = fill(&pool, -ENOSPC);
	assert_filled(&pool, entries);
	assert_int_equal(pool.header->index_size, 8 * ZC_STRIPE_SIZE);
	/* What could not be taken is not paid for. */
	assert_int_equal(load_relaxed(&pool.budget.used) * ZC_OS_PAGE_SIZE,
			 pool.header->index_size);
	bare_pool_close(&pool);
}

static void
test_creation_refused(void **state)
{
	struct segment segment;
	struct pool_header header = {.hash_seed = BARE_SEED};
	struct budget budget;
	struct index *index = NULL;

	(void)state;
	assert_int_equal(segment_create(&segment, "index", INDEX_MAX), 0);
	budget_init(&budget, ZC_STRIPE_SIZE - 1, NULL);
	assert_int_equal(index_create(&header, &segment, &budget, &index), -ENOSPC);
	assert_null(index);
	assert_int_equal(segment_resident(&segment), 0);
	assert_int_equal(load_relaxed(&budget.used), 0);
	index_destroy(&index);
	segment_close(&segment);
}

/*
 * Keys with any hash we like. Where the first half of a key is the secret that XXH3 mixes into it,
 * its product vanishes and the rest is a bijection of the second half, which can be turned round.
 * (Anyone who knows the seed can do so: that is why collisions must be bounded.)
 */
static struct page_key
key_with_hash(uint32_t hash, uint32_t number)
{
	const uint64_t secret_low = 0x6782737bea4239b9ULL, secret_high = 0xaf56bc3b0996523aULL;
	const uint64_t prime_inverse = 0x08da8ee41d6df849ULL;
	uint64_t mixed = (uint64_t)number << 32 | hash;

	mixed ^= mixed >> 32;
	mixed *= prime_inverse;
	mixed ^= mixed >> 37;
	return (struct page_key){secret_low + BARE_SEED, (mixed - 16) ^ (secret_high - BARE_SEED)};
}

#define COLLIDING_HASH 0x12345678u

static struct page_key
colliding_key(uint32_t number)
{
	struct page_key key = key_with_hash(COLLIDING_HASH, number);

	assert_int_equal(bare_hash(&key), COLLIDING_HASH);
	return key;
}

static int
put_colliding(struct bare_pool *pool, uint32_t number, uint64_t word, bool same_filled,
	      struct index_value *old)
{
	struct page_key key = colliding_key(number);

	return bare_put(pool, &key, (struct index_value){word, same_filled}, old);
}

/* Fills both candidates of the colliding hash; returns with how many keys. */
static uint32_t
fill_colliding(struct bare_pool *pool)
{
	struct index_value old;
	uint32_t number = 0;
	int result;

	do
		result = put_colliding(pool, number, number * 8u, false, &old);
	while (result == 0 && ++number < 100);
	assert_int_equal(result, -EXFULL);
	return number;
}

static void
assert_colliding(struct bare_pool *pool, uint32_t number, uint64_t word, bool same_filled)
{
	struct page_key key = colliding_key(number);
	struct index_value value;

	assert_int_equal(index_find(pool->index, &key, COLLIDING_HASH, &value), 1);
	assert_true(value.word == word);
	assert_int_equal(value.same_filled, same_filled);
}

static void
collide(struct bare_pool *pool, uint64_t others)
{
	uint64_t size_before, entries;
	struct index_value old;
	struct index_stats stats;
	uint32_t colliding;

	for (uint64_t number = 0; number < others; number++)
		put_number(pool, number);
	colliding = fill_colliding(pool);
	assert_in_range(colliding, ZC_BUCKET_ENTRIES, 2 * ZC_BUCKET_ENTRIES);
	entries = walk(pool);
	assert_int_equal(entries, others + colliding);
	size_before = pool->header->index_size;
	for (uint32_t number = colliding; number < colliding + 10000; number++)
		assert_int_equal(put_colliding(pool, number, 0, false, &old), -EXFULL);
	index_stats(pool->index, &stats);
	assert_int_equal(stats.collisions, 10001);
	/* Not in endless growth. */
	assert_in_range(pool->header->index_size, size_before,
			17 * ZC_STRIPE_SIZE + size_before * 5 / 4);
	assert_int_equal(walk(pool), entries);
	for (uint32_t number = 0; number < colliding; number++)
		assert_colliding(pool, number, number * 8u, false);
	for (uint64_t number = 0; number < others; number++)
		assert_number(pool, number);
}

static void
test_colliding_keys_are_refused(void **state)
{
	const uint64_t others[] = {0, 700, 20000};
	struct bare_pool pool;

	(void)state;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 0);
		collide(&pool, others[i]);
		put_number(&pool, 1u << 30); /* the rest of the index works on */
		bare_pool_close(&pool);
	}
}

/* A replace that changes kind needs a slot in the same bucket: refused, or whole. */
static void
test_change_of_kind_in_full_buckets(void **state)
{
	struct bare_pool pool;
	struct index_value old;
	uint32_t colliding;

	(void)state;
	bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 0);
	colliding = fill_colliding(&pool);
	for (uint32_t number = 0; number < colliding; number++) {
		assert_int_equal(put_colliding(&pool, number, 7, true, &old), -EXFULL);
		assert_colliding(&pool, number, number * 8u, false);
		assert_int_equal(put_colliding(&pool, number, number * 16u, false, &old), 1);
		assert_true(old.word == number * 8u && !old.same_filled);
	}
	assert_int_equal(walk(&pool), colliding);
	/* One key less: wherever the hole is, it can be moved to where it is needed. */
	for (uint32_t number = 1; number < colliding; number++) {
		struct page_key gone = colliding_key(0);

		assert_int_equal(index_delete(pool.index, &gone, COLLIDING_HASH, &old), 1);
		assert_int_equal(put_colliding(&pool, number, 7, true, &old), 1);
		assert_true(old.word == number * 16u && !old.same_filled);
		assert_colliding(&pool, number, 7, true);
		assert_int_equal(put_colliding(&pool, 0, 0, false, &old), 0);
	}
	assert_int_equal(walk(&pool), colliding);
	bare_pool_close(&pool);
}

/* ---- What the checker sees ---- */

static struct index_bucket *
bucket_of(struct bare_pool *pool, const struct page_key *key)
{
	uint32_t hash = bare_hash(key);
	unsigned shard = index_shard(hash);
	struct index_candidates candidates =
		index_candidates(hash, pool->header->shard_word[shard]);

	return (struct index_bucket *)(void *)(pool->index_segment.base +
					       index_bucket_offset(shard, candidates.bucket[0]));
}

static void
assert_broken(struct bare_pool *pool, uint64_t *word, uint64_t wrong)
{
	uint64_t right = *word, entries = 0;

	*word = wrong;
	assert_int_equal(index_walk(pool->index, visit_accepts, &entries), -EUCLEAN);
	*word = right;
	walk(pool);
}

static void
test_walk_finds_what_is_wrong(void **state)
{
	struct page_key key = {9, 5};
	struct index_bucket *bucket;
	struct bare_pool pool;
	unsigned shard = index_shard(bare_hash(&key));
	unsigned slot, unused;

	(void)state;
	bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 0);
	for (uint64_t number = 0; number < 1500; number++)
		put_number(&pool, number);
	bucket = bucket_of(&pool, &key);
	slot = (unsigned)__builtin_ctz(index_match(bucket, bucket->header, &key));
	unused = (unsigned)__builtin_ctz(~index_valid_slots(bucket->header));
	assert_true(unused < ZC_BUCKET_ENTRIES);
	assert_broken(&pool, &bucket->header, bucket->header | 1u << unused);
	assert_broken(&pool, &bucket->header, bucket->header | 1u << slot); /* a count is wrong */
	assert_broken(&pool, &bucket->header,
		      bucket->header & ~(1ULL << (ZC_BUCKET_VALID_SHIFT + slot)));
	bucket->entry[unused] = bucket->entry[slot];
	assert_broken(&pool, &bucket->header,
		      bucket->header | 1ULL << (ZC_BUCKET_VALID_SHIFT + unused));
	assert_broken(&pool, &bucket->entry[slot].key.index, 1u << 20);
	assert_broken(&pool, &bucket->spare, 1);
	assert_broken(&pool, &pool.header->shard_word[shard],
		      pool.header->shard_word[shard] ^ 1ULL << 40);
	assert_broken(&pool, &pool.header->index_size, ZC_STRIPE_SIZE);
	bare_pool_close(&pool);
}

static int
visit_stops(void *arg, const struct page_key *key, struct index_value value)
{
	(void)key;
	(void)value;
	return ++*(uint64_t *)arg == 10 ? -EINTR : 0;
}

static void
test_walk_ends_where_the_visitor_says(void **state)
{
	struct bare_pool pool;
	uint64_t visited = 0;

	(void)state;
	bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 0);
	for (uint64_t number = 0; number < 100; number++)
		put_number(&pool, number);
	assert_int_equal(index_walk(pool.index, visit_stops, &visited), -EINTR);
	assert_int_equal(visited, 10);
	bare_pool_close(&pool);
}

/* ---- Threads: owners of their shards, and a keeper ---- */

#define OWNERS	      2u
#define OWNER_ENTRIES 40000u

struct crew {
	struct bare_pool pool;
	unsigned done; /* atomic: owners that have finished */
	char arena[2][SLOT];
};

struct owner {
	struct crew *crew;
	unsigned number;
	uint64_t entries;
};

static bool
is_mine(const struct owner *owner, const struct page_key *key)
{
	return index_shard(bare_hash(key)) % OWNERS == owner->number;
}

/* Puts everything, deletes every third. */
static void *
owner_thread(void *arg)
{
	struct owner *owner = arg;
	struct bare_pool *pool = &owner->crew->pool;
	struct index_value old;

	for (uint64_t number = 0; number < OWNER_ENTRIES; number++) {
		struct page_key key = {number % 5, number};
		struct index_value value = {number * SLOT, number % 7 == 0};

		if (!is_mine(owner, &key))
			continue;
		if (bare_put(pool, &key, value, &old) != 0)
			abort();
		owner->entries++;
		if (number % 3 == 0 && index_delete(pool->index, &key, bare_hash(&key), &old) == 1)
			owner->entries--;
	}
	add_relaxed(&owner->crew->done, 1); /* joined later: nothing hangs on its order */
	return NULL;
}

/* Moves objects and checks everything while the owners work. */
static void *
keeper_thread(void *arg)
{
	struct crew *crew = arg;
	uint64_t random = 3, entries = 0;
	struct index_stats stats;

	while (load_relaxed(&crew->done) < OWNERS) {
		uint64_t number = bare_random(&random) % OWNER_ENTRIES;
		struct page_key key = {number % 5, number};

		for (unsigned i = 0; i < 100; i++) {
			uint64_t from = number * SLOT;

			index_move(crew->pool.index, bare_hash(&key), from, from, crew->arena[0],
				   crew->arena[1], SLOT);
		}
		index_stats(crew->pool.index, &stats);
		if (number % 16 == 0 && index_walk(crew->pool.index, visit_accepts, &entries) != 0)
			abort();
	}
	return NULL;
}

static void
test_owners_and_keeper_at_once(void **state)
{
	struct crew *crew = malloc(sizeof(*crew));
	struct owner owner[OWNERS];
	pthread_t thread[OWNERS + 1];
	uint64_t entries = 0;

	(void)state;
	memset(crew, 0, sizeof(*crew));
	bare_pool_open(&crew->pool, INDEX_MAX, NO_LIMIT, 0);
	for (unsigned i = 0; i < OWNERS; i++) {
		owner[i] = (struct owner){crew, i, 0};
		assert_int_equal(pthread_create(&thread[i], NULL, owner_thread, &owner[i]), 0);
	}
	assert_int_equal(pthread_create(&thread[OWNERS], NULL, keeper_thread, crew), 0);
	for (unsigned i = 0; i <= OWNERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	for (unsigned i = 0; i < OWNERS; i++)
		entries += owner[i].entries;
	assert_int_equal(walk(&crew->pool), entries);
	bare_pool_close(&crew->pool);
	free(crew);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_scans_meet_every_entry),
		cmocka_unit_test(test_scan_of_a_shard_that_grows),
		cmocka_unit_test(test_growth_costs_no_more_than_it_should),
		cmocka_unit_test(test_small_indexes_refuse_nothing),
		cmocka_unit_test(test_budget_refuses),
		cmocka_unit_test(test_address_range_ends),
		cmocka_unit_test(test_creation_refused),
		cmocka_unit_test(test_colliding_keys_are_refused),
		cmocka_unit_test(test_change_of_kind_in_full_buckets),
		cmocka_unit_test(test_walk_finds_what_is_wrong),
		cmocka_unit_test(test_walk_ends_where_the_visitor_says),
		cmocka_unit_test(test_owners_and_keeper_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
