/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pool against a simple model: allocator, index, codecs and compaction together, invariants walked. Then
 * damage, limits, scans, and threads that put, get, delete and compact at once.
 *
 * The seeds are printed; TEST_SEED=N runs the random steps with that one only.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "atomic.h"
#include "object.h"
#include "page_maker.h"
#include "pool.h"
#include "zspage.h"

struct fixture {
	struct ceiling *ceiling;
	struct pool *pool;
	struct pool_context *context;
	unsigned char *value, *back;
};

static void
open_pool(struct fixture *f, uint32_t page_size, uint64_t limit, const char *codec)
{
	struct pool_config config = {
		.name = "test", .kind = ZC_KIND_STORE, .page_size = page_size, .limit = limit};

	assert_int_equal(0, codec_config_parse(codec, &config.codec));
	assert_int_equal(0, ceiling_create(0, &f->ceiling));
	assert_int_equal(0, pool_create(&config, f->ceiling, &f->pool));
	assert_int_equal(0, pool_context_create(0, &f->context));
	f->value = malloc(ZC_PAGE_SIZE_MAX);
	f->back = malloc(ZC_PAGE_SIZE_MAX);
}

static void
close_pool(struct fixture *f)
{
	free(f->value);
	free(f->back);
	pool_context_destroy(&f->context);
	pool_destroy(&f->pool);
	ceiling_destroy(&f->ceiling);
}

static void
checked(struct fixture *f)
{
	char why[256] = "";

	if (pool_check(f->pool, f->context, why, sizeof(why)))
		fail_msg("%s", why);
}

static bool
always(void *arg)
{
	(void)arg;
	return true;
}

static struct compact_result
compact_all(struct fixture *f)
{
	struct allocator *allocator = pool_allocator(f->pool);
	struct compact_result result = {0};

	for (unsigned class = 0; class < allocator_classes(allocator); class ++)
		compact_class(allocator, pool_index(f->pool), class, always, NULL, &result);
	return result;
}

/* ---- the model ---- */

#define KEYS 1500

struct model_value {
	uint64_t seed;
	uint32_t length; /* 0: not there */
	enum value_kind kind;
};

static struct page_key
key_of(unsigned number)
{
	return (struct page_key){number / 100, number % 100};
}

static void
expect(struct fixture *f, const struct model_value *model, unsigned number)
{
	struct page_key key = key_of(number);
	int length = pool_get(f->pool, f->context, &key, f->back, ZC_PAGE_SIZE_MAX);

	assert_int_equal(model->length ? 0 : -ENOENT, pool_exists(f->pool, f->context, &key));
	if (model->length == 0) {
		assert_int_equal(-ENOENT, length);
		return;
	}
	assert_int_equal(model->length, length);
	make_value(f->value, model->length, model->kind, model->seed);
	assert_memory_equal(f->value, f->back, model->length);
}

static void
step_put(struct fixture *f, struct model_value *model, unsigned number, uint64_t *random)
{
	uint32_t page_size = pool_config(f->pool)->page_size;
	struct page_key key = key_of(number);

	model->seed = random_next(random);
	model->kind = random_next(random) % VALUE_KINDS;
	model->length = random_next(random) % 4 ? page_size
						: 1 + (uint32_t)(random_next(random) % page_size);
	make_value(f->value, model->length, model->kind, model->seed);
	assert_int_equal(0, pool_put(f->pool, f->context, &key, f->value, model->length, 0));
}

static void
step_delete(struct fixture *f, struct model_value *model, unsigned number)
{
	struct page_key key = key_of(number);

	assert_int_equal(model->length ? 0 : -ENOENT, pool_delete(f->pool, f->context, &key));
	model->length = 0;
}

static void
scan(struct fixture *f, const uint64_t *object, uint64_t *deleted)
{
	for (unsigned shard = 0; shard < ZC_SHARDS; shard++) {
		pool_scan_begin(f->pool, shard);
		while (pool_scan_slice(f->pool, f->context, shard, object, deleted))
			;
	}
}

static void
step_delete_object(struct fixture *f, struct model_value *models, uint64_t object)
{
	uint64_t deleted = 0, expected = 0;

	for (unsigned number = 0; number < KEYS; number++) {
		if (key_of(number).object == object && models[number].length) {
			models[number].length = 0;
			expected++;
		}
	}
	scan(f, &object, &deleted);
	assert_int_equal(expected, deleted);
}

static void
compare_totals(struct fixture *f, const struct model_value *models)
{
	uint64_t entries = 0, logical = 0;
	struct pool_stats stats;
	char why[256];

	checked(f);
	for (unsigned number = 0; number < KEYS; number++) {
		expect(f, &models[number], number);
		entries += models[number].length > 0;
		logical += models[number].length;
	}
	pool_stats(f->pool, &stats);
	assert_int_equal(entries, stats.entries);
	assert_int_equal(logical, stats.logical_bytes);
	assert_int_equal(entries - stats.same_filled,
			 zs_check(pool_allocator(f->pool), why, sizeof(why)));
	assert_true(stats.resident_bytes <=
		    stats.data_bytes + stats.index_bytes + stats.control_bytes);
	assert_int_equal(0, stats.count.damaged);
}

static void
random_step(struct fixture *f, struct model_value *models, uint64_t *random)
{
	unsigned number = (unsigned)(random_next(random) % KEYS);
	unsigned what = (unsigned)(random_next(random) % 1000);

	if (what < 450)
		step_put(f, &models[number], number, random);
	else if (what < 700)
		step_delete(f, &models[number], number);
	else if (what < 990)
		expect(f, &models[number], number);
	else if (what < 993)
		compact_all(f);
	else if (what < 996)
		zs_trim(pool_allocator(f->pool), (uint32_t)(random_next(random) % 100));
	else if (what < 998)
		step_delete_object(f, models, random_next(random) % (KEYS / 100));
	else
		checked(f);
}

static void
random_steps(uint64_t seed, uint32_t page_size, const char *codec, unsigned steps)
{
	static struct model_value models[KEYS];
	struct fixture f;
	uint64_t deleted = 0, random = seed;
	struct pool_stats stats;

	print_message("seed %llu, pages of %u, %s, %u steps\n", (unsigned long long)seed, page_size,
		      codec, steps);
	memset(models, 0, sizeof(models));
	open_pool(&f, page_size, 1ULL << 32, codec);
	for (unsigned step = 0; step < steps; step++)
		random_step(&f, models, &random);
	compare_totals(&f, models);
	compact_all(&f);
	compare_totals(&f, models);
	scan(&f, NULL, &deleted);
	zs_trim(pool_allocator(f.pool), UINT32_MAX);
	pool_stats(f.pool, &stats);
	assert_int_equal(0, stats.entries);
	assert_int_equal(0, stats.logical_bytes);
	assert_int_equal(0, stats.stored_bytes);
	assert_int_equal(0, stats.incompressible);
	assert_int_equal(0, stats.data_bytes);
	close_pool(&f);
}

/* 100,000 steps by default: TEST_STEPS scales it for sanitizers and long runs. */
static void
test_model(void **state)
{
	const char *only = getenv("TEST_SEED"), *scale = getenv("TEST_STEPS");
	unsigned steps = scale ? (unsigned)strtoul(scale, NULL, 10) : 100000;

	(void)state;
	if (only) {
		random_steps(strtoull(only, NULL, 10), 4096, "lz4", steps);
		return;
	}
	for (uint64_t seed = 1; seed <= 3; seed++)
		random_steps(seed, 4096, "lz4", steps);
	random_steps(4, 4096, "zstd:1", steps / 10);
	random_steps(5, 65536, "lz4", steps / 40);
	random_steps(6, 16384, "lz4", steps / 20);
}

/* ---- kinds of pages ---- */

static void
put_kind(struct fixture *f, struct page_key key, enum value_kind kind, uint64_t seed)
{
	make_value(f->value, 4096, kind, seed);
	assert_int_equal(0, pool_put(f->pool, f->context, &key, f->value, 4096, 0));
	assert_int_equal(4096, pool_get(f->pool, f->context, &key, f->back, 4096));
	assert_memory_equal(f->value, f->back, 4096);
}

static struct pool_stats
stats_of(struct fixture *f)
{
	struct pool_stats stats;

	pool_stats(f->pool, &stats);
	return stats;
}

/* Each change of kind of one key is counted exactly, and same-filled pages cost no data. */
static void
test_kinds(void **state)
{
	struct page_key key = {UINT64_MAX, UINT64_MAX};
	struct fixture f;

	(void)state;
	open_pool(&f, 4096, 64 << 20, "lz4");
	assert_int_equal(-ENOENT, pool_delete(f.pool, f.context, &key));
	put_kind(&f, key, VALUE_FILLED, 1);
	assert_int_equal(1, stats_of(&f).same_filled);
	assert_int_equal(0, stats_of(&f).stored_bytes);
	assert_int_equal(0, stats_of(&f).data_bytes);
	put_kind(&f, key, VALUE_NEAR_FILLED, 2);
	assert_int_equal(0, stats_of(&f).same_filled);
	put_kind(&f, key, VALUE_ZERO, 3);
	assert_int_equal(1, stats_of(&f).same_filled);
	put_kind(&f, key, VALUE_RANDOM, 4);
	assert_int_equal(1, stats_of(&f).incompressible);
	assert_int_equal(4096, stats_of(&f).stored_bytes);
	put_kind(&f, key, VALUE_TEXT, 5);
	assert_int_equal(0, stats_of(&f).incompressible);
	assert_int_equal(1, stats_of(&f).entries);
	assert_int_equal(0, pool_delete(f.pool, f.context, &key));
	assert_int_equal(0, stats_of(&f).entries);
	assert_int_equal(0, stats_of(&f).stored_bytes);
	close_pool(&f);
}

/* Pages that do not compress cost a page and their share of metadata, not more. */
static void
test_incompressible(void **state)
{
	enum {
		PAGES = 2000
	};
	struct fixture f;

	(void)state;
	open_pool(&f, 4096, 64 << 20, "lz4");
	for (unsigned i = 0; i < PAGES; i++)
		put_kind(&f, (struct page_key){1, i}, VALUE_RANDOM, i);
	assert_int_equal(PAGES, stats_of(&f).incompressible);
	assert_int_equal(PAGES * 4096, stats_of(&f).data_bytes);
	checked(&f);
	close_pool(&f);
}

static void
test_bad_arguments(void **state)
{
	struct page_key key = {1, 2};
	struct fixture f;

	(void)state;
	open_pool(&f, 4096, 64 << 20, "lz4");
	put_kind(&f, key, VALUE_TEXT, 1);
	assert_int_equal(-EINVAL, pool_put(f.pool, f.context, &key, f.value, 0, 0));
	assert_int_equal(-EMSGSIZE, pool_put(f.pool, f.context, &key, f.value, 4097, 0));
	assert_int_equal(2, stats_of(&f).count.refused_invalid);
	assert_int_equal(-EMSGSIZE, pool_get(f.pool, f.context, &key, f.back, 4095));
	assert_int_equal(4096, pool_get(f.pool, f.context, &key, f.back, 4096));
	close_pool(&f);
}

/* ---- limits ---- */

static void
test_limit(void **state)
{
	enum {
		LIMIT = 4 << 20
	};
	struct fixture f;
	unsigned count = 0;
	struct page_key key = {1, 0};
	int error = 0;

	(void)state;
	open_pool(&f, 4096, LIMIT, "lz4");
	for (; !error && count < 5000; count++) {
		key.index = count;
		make_value(f.value, 4096, VALUE_MIXED, count);
		error = pool_put(f.pool, f.context, &key, f.value, 4096, 0);
		assert_true(stats_of(&f).resident_bytes <= LIMIT);
	}
	assert_int_equal(-ENOSPC, error);
	assert_true(count > LIMIT / 4096);
	assert_int_equal(1, stats_of(&f).count.refused_limit);

	/* a refused overwrite leaves a miss; with KEEP_OLD the old value */
	make_value(f.value, 4096, VALUE_RANDOM, 1);
	key.index = 0;
	assert_int_equal(-ENOSPC, pool_put(f.pool, f.context, &key, f.value, 4096, POOL_KEEP_OLD));
	assert_int_equal(4096, pool_get(f.pool, f.context, &key, f.back, 4096));
	make_value(f.value, 4096, VALUE_MIXED, 0);
	assert_memory_equal(f.value, f.back, 4096);
	make_value(f.value, 4096, VALUE_RANDOM, 1);
	assert_int_equal(-ENOSPC, pool_put(f.pool, f.context, &key, f.value, 4096, 0));
	assert_int_equal(-ENOENT, pool_get(f.pool, f.context, &key, f.back, 4096));
	assert_int_equal(1, stats_of(&f).count.dropped_old);

	/* deleting makes room, for other sizes too */
	for (key.index = 1; key.index < count / 2; key.index++)
		assert_int_equal(0, pool_delete(f.pool, f.context, &key));
	compact_all(&f);
	for (key.index = 1; key.index < count / 8; key.index++)
		put_kind(&f, key, VALUE_RANDOM, key.index);
	assert_true(stats_of(&f).resident_bytes <= LIMIT);
	checked(&f);
	close_pool(&f);
}

/* The limit must hold an empty pool. */
static void
test_smallest(void **state)
{
	struct pool_config config = {.name = "tiny",
				     .kind = ZC_KIND_STORE,
				     .page_size = 4096,
				     .limit = 4096,
				     .codec = {ZC_CODEC_LZ4, 0}};
	struct ceiling *ceiling;
	struct pool *pool;

	(void)state;
	assert_int_equal(0, ceiling_create(0, &ceiling));
	assert_int_equal(-ENOSPC, pool_create(&config, ceiling, &pool));
	assert_null(pool);
	config.limit = 0;
	assert_int_equal(-EINVAL, pool_create(&config, ceiling, &pool));
	config.limit = 1 << 20;
	config.page_size = 5000;
	assert_int_equal(-EINVAL, pool_create(&config, ceiling, &pool));
	config.page_size = 4096;
	config.kind = ZC_KIND_DURABLE;
	assert_int_equal(-EINVAL, pool_create(&config, ceiling, &pool));
	ceiling_destroy(&ceiling);
}

/* ---- damage ---- */

static uint64_t
word_of(struct fixture *f, struct page_key key)
{
	uint32_t hash = key_hash(pool_view(f->pool)->hash_seed, &key);
	struct index_value value;

	assert_int_equal(1, index_find(pool_index(f->pool), &key, hash, &value));
	return value.word;
}

/* After damage: an error that stays, counted; neighbours are well; overwriting and deleting mend it. */
static void
expect_poison(struct fixture *f, struct page_key key, uint64_t damaged_before)
{
	struct page_key neighbour = {key.object, key.index + 1};

	assert_int_equal(-EBADMSG, pool_get(f->pool, f->context, &key, f->back, 4096));
	assert_int_equal(-EBADMSG, pool_get(f->pool, f->context, &key, f->back, 4096));
	assert_int_equal(-EBADMSG, pool_exists(f->pool, f->context, &key));
	assert_int_equal(damaged_before + 1, stats_of(f).count.damaged);
	assert_int_equal(1, stats_of(f).poisoned);
	assert_int_equal(4096, pool_get(f->pool, f->context, &neighbour, f->back, 4096));
	compact_all(f);
	put_kind(f, key, VALUE_TEXT, 77);
	assert_int_equal(0, stats_of(f).poisoned);
	assert_int_equal(0, pool_delete(f->pool, f->context, &key));
}

static void
damage_bytes(const char *codec, enum value_kind kind)
{
	struct page_key key = {9, 0};
	struct fixture f;

	open_pool(&f, 4096, 64 << 20, codec);
	put_kind(&f, (struct page_key){9, 1}, kind, 2);
	for (uint32_t at = 0; at < 4; at++) {
		uint64_t word;

		put_kind(&f, key, kind, 1);
		word = word_of(&f, key);
		((char *)(uintptr_t)pool_view(f.pool)
			 ->data)[location_offset(word) + 8 + at * location_length(word) / 5] ^=
			0x10;
		expect_poison(&f, key, at);
	}
	checked(&f);
	close_pool(&f);
}

static void
test_damaged_bytes(void **state)
{
	(void)state;
	damage_bytes("lz4", VALUE_TEXT);
	damage_bytes("zstd:1", VALUE_TEXT);
	damage_bytes("lz4", VALUE_RANDOM);
}

/* Every single bit of a location flipped: damaged, never wrong bytes, and nobody else's object is freed. */
static void
test_damaged_locations(void **state)
{
	struct page_key key = {9, 0};

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		struct fixture f;
		uint32_t hash;
		uint64_t word;
		int length;

		open_pool(&f, 4096, 64 << 20, "lz4");
		for (unsigned i = 1; i < 20; i++)
			put_kind(&f, (struct page_key){9, i}, VALUE_TEXT, i);
		put_kind(&f, key, VALUE_TEXT, 1000);
		hash = key_hash(pool_view(f.pool)->hash_seed, &key);
		word = word_of(&f, key);
		assert_int_equal(1, index_replace_if(pool_index(f.pool), &key, hash, word,
						     word ^ 1ULL << bit));
		length = pool_get(f.pool, f.context, &key, f.back, 4096);
		if (length >= 0) /* an unused flag bit */
			assert_memory_equal(f.value, f.back, 4096);
		else
			assert_int_equal(-EBADMSG, length);
		assert_int_equal(0, pool_delete(f.pool, f.context, &key));
		for (unsigned i = 1; i < 20; i++) {
			struct page_key other = {9, i};

			assert_int_equal(4096, pool_get(f.pool, f.context, &other, f.back, 4096));
			make_value(f.value, 4096, VALUE_TEXT, i);
			assert_memory_equal(f.value, f.back, 4096);
		}
		compact_all(&f);
		checked(&f);
		close_pool(&f);
	}
}

/* ---- compaction ---- */

/* Exactly the lower bound of copies, at least the estimated pages freed, and nothing left to do. */
static void
test_compaction(void **state)
{
	enum {
		PAGES = 6000
	};
	struct compact_estimate before, after;
	struct compact_result result;
	struct fixture f;
	uint64_t random = 1, trimmed, resident;

	(void)state;
	open_pool(&f, 4096, 256 << 20, "lz4");
	for (unsigned i = 0; i < PAGES; i++)
		put_kind(&f, (struct page_key){1, i}, i % 3 ? VALUE_MIXED : VALUE_TEXT, i);
	for (unsigned i = 0; i < PAGES; i++) {
		struct page_key key = {1, i};

		if (random_next(&random) % 100 < 60)
			assert_int_equal(0, pool_delete(f.pool, f.context, &key));
	}
	trimmed = zs_trim(pool_allocator(f.pool), UINT32_MAX);
	assert_true(trimmed > 0);
	resident = allocator_resident(pool_allocator(f.pool));
	compact_estimate(pool_allocator(f.pool), &before);
	assert_true(before.zspages > 0);
	result = compact_all(&f);
	assert_int_equal(before.moves_lower_bound, result.objects_moved);
	assert_int_equal(before.zspages, result.zspages_freed);
	assert_int_equal(0, result.objects_busy);
	assert_true(resident - allocator_resident(pool_allocator(f.pool)) >= before.pages);
	compact_estimate(pool_allocator(f.pool), &after);
	assert_int_equal(0, after.zspages);
	assert_int_equal(0, compact_all(&f).objects_moved);
	checked(&f);
	close_pool(&f);
}

/* At its limit a pool is compacted all the same: what was emptied pays for what is filled. */
static void
test_compaction_at_the_limit(void **state)
{
	enum {
		PAGES = 6000
	};
	struct compact_estimate before, after;
	struct compact_result result;
	struct pool_stats stats;
	struct fixture f;
	uint64_t random = 1;

	(void)state;
	open_pool(&f, 4096, 256 << 20, "lz4");
	for (unsigned i = 0; i < PAGES; i++)
		put_kind(&f, (struct page_key){1, i}, VALUE_MIXED, i);
	for (unsigned i = 0; i < PAGES; i++) {
		struct page_key key = {1, i};

		if (random_next(&random) % 100 < 60)
			assert_int_equal(0, pool_delete(f.pool, f.context, &key));
	}
	zs_trim(pool_allocator(f.pool), UINT32_MAX);
	stats = stats_of(&f);
	assert_int_equal(0, pool_set_limit(f.pool, stats.data_bytes + stats.index_bytes +
							   stats.control_bytes));
	compact_estimate(pool_allocator(f.pool), &before);
	result = compact_all(&f);
	compact_estimate(pool_allocator(f.pool), &after);
	assert_true(result.objects_moved > before.moves_lower_bound / 2);
	assert_true(after.zspages < before.zspages / 2);
	assert_true(stats_of(&f).resident_bytes < stats.resident_bytes);
	checked(&f);
	close_pool(&f);
}

/* ---- threads ---- */

#define THREADS	     4
#define THREAD_KEYS  400
#define THREAD_STEPS 20000

struct worker {
	pthread_t thread;
	struct fixture *f;
	unsigned number;
	unsigned steps;
	unsigned char *value, *back;
	uint64_t version[THREAD_KEYS]; /* 0: not there */
	unsigned *stop;
};

/* A value that names its key and version, of a kind that depends on both. */
static void
marked_value(unsigned char *value, struct page_key key, uint64_t version)
{
	uint64_t seed = key.object << 40 ^ key.index << 20 ^ version;

	make_value(value, 4096, VALUE_TEXT + seed % 4, seed);
	memcpy(value, &key, sizeof(key));
	memcpy(value + sizeof(key), &version, sizeof(version));
}

static void
worker_step(struct worker *w, struct pool_context *context, uint64_t *random)
{
	unsigned number = (unsigned)(random_next(random) % THREAD_KEYS);
	struct page_key key = {w->number, number};
	unsigned what = (unsigned)(random_next(random) % 10);
	int length;

	if (what < 4) {
		marked_value(w->value, key, ++w->version[number]);
		assert_int_equal(0, pool_put(w->f->pool, context, &key, w->value, 4096, 0));
	} else if (what < 5 && w->version[number]) {
		assert_int_equal(0, pool_delete(w->f->pool, context, &key));
		w->version[number] = 0;
	} else {
		length = pool_get(w->f->pool, context, &key, w->back, 4096);
		assert_int_equal(w->version[number] ? 4096 : -ENOENT, length);
		if (length < 0)
			return;
		marked_value(w->value, key, w->version[number]);
		assert_memory_equal(w->value, w->back, 4096);
	}
}

/* Keys are the workers' own, shards are not: the shard lock keeps them apart here. */
static void *
worker_run(void *arg)
{
	struct worker *w = arg;
	struct pool_context *context;
	uint64_t random = w->number;

	assert_int_equal(0, pool_context_create(w->number, &context));
	for (unsigned step = 0; step < w->steps; step++)
		worker_step(w, context, &random);
	pool_context_destroy(&context);
	return NULL;
}

static void *
compactor_run(void *arg)
{
	struct worker *w = arg;

	while (!load_relaxed(w->stop)) {
		struct compact_result result = compact_all(w->f);

		pool_count_compaction(w->f->pool, &result);
	}
	return NULL;
}

static void
test_threads(void **state)
{
	static struct worker worker[THREADS + 1];
	const char *scale = getenv("TEST_STEPS");
	unsigned stop = 0;
	struct fixture f;

	(void)state;
	open_pool(&f, 4096, 256 << 20, "lz4");
	for (unsigned i = 0; i <= THREADS; i++) {
		struct worker *w = &worker[i];

		w->f = &f;
		w->number = i + 1;
		w->steps = scale ? (unsigned)strtoul(scale, NULL, 10) / 5 : THREAD_STEPS;
		w->value = malloc(4096);
		w->back = malloc(4096);
		w->stop = &stop;
		pthread_create(&w->thread, NULL, i < THREADS ? worker_run : compactor_run, w);
	}
	for (unsigned i = 0; i <= THREADS; i++) {
		pthread_join(worker[i].thread, NULL);
		if (i == THREADS - 1)
			store_relaxed(&stop, 1u);
	}
	for (unsigned i = 0; i <= THREADS; i++) {
		free(worker[i].value);
		free(worker[i].back);
	}
	checked(&f);
	assert_true(stats_of(&f).objects_moved > 0);
	close_pool(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_arguments),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_incompressible),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_smallest),
		cmocka_unit_test(test_damaged_bytes),
		cmocka_unit_test(test_damaged_locations),
		cmocka_unit_test(test_compaction),
		cmocka_unit_test(test_compaction_at_the_limit),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
