/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/run.c against a model that knows no words, hints or bits: an array of one byte a
 * page, searched from its start.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "run.h"

#define PAGES 1024u /* few, so that the map is full now and then */
#define STEPS 100000u

struct model {
	struct run_map map;
	uint8_t used[PAGES];
	struct {
		uint32_t first;
		unsigned length;
	} run[PAGES];
	unsigned runs;
	unsigned refused;
};

static uint64_t
next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static bool
model_is_free(const struct model *model, uint32_t first, unsigned length)
{
	for (unsigned i = 0; i < length; i++)
		if (model->used[first + i])
			return false;
	return true;
}

/* The word with the lowest number that has a run of `length`, or RUN_NONE. */
static uint32_t
model_word(const struct model *model, unsigned length)
{
	for (uint32_t page = 0; page < PAGES; page++)
		if (page % 64 + length <= 64 && model_is_free(model, page, length))
			return page / 64;
	return RUN_NONE;
}

static void
model_alloc(struct model *model, unsigned length)
{
	uint32_t expected = model_word(model, length);
	uint32_t first = run_alloc(&model->map, length);

	if (expected == RUN_NONE) {
		assert_int_equal(first, RUN_NONE);
		model->refused++;
		return;
	}
	assert_int_equal(first / 64, expected);
	assert_int_equal((first + length - 1) / 64, expected);
	assert_true(model_is_free(model, first, length));
	assert_true(model->map.words_high > expected);
	memset(&model->used[first], 1, length);
	model->run[model->runs].first = first;
	model->run[model->runs++].length = length;
}

static void
model_free(struct model *model, unsigned i)
{
	run_free(&model->map, model->run[i].first, model->run[i].length);
	memset(&model->used[model->run[i].first], 0, model->run[i].length);
	model->run[i] = model->run[--model->runs];
}

static void
model_compare(const struct model *model)
{
	for (uint32_t page = 0; page < PAGES; page++)
		assert_int_equal(model->map.used[page / 64] >> page % 64 & 1, model->used[page]);
}

/* `pressure`: how many of 100 steps allocate. */
static void
run_steps(struct model *model, uint64_t seed, unsigned steps, unsigned pressure)
{
	for (unsigned step = 0; step < steps; step++) {
		if (next_random(&seed) % 100 < pressure)
			model_alloc(model, 1 + next_random(&seed) % ZC_CHAIN_MAX);
		else if (model->runs)
			model_free(model, (unsigned)(next_random(&seed) % model->runs));
		if (step % 1000 == 0)
			model_compare(model);
	}
}

static void
test_against_the_model(void **state)
{
	static const uint64_t seeds[] = {1, 0x9e3779b97f4a7c15ull, 20240229};

	(void)state;
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		struct model *model = calloc(1, sizeof(*model));

		assert_int_equal(run_map_init(&model->map, PAGES), 0);
		run_steps(model, seeds[i], STEPS / 2, 60);
		assert_true(model->refused > 0);
		run_steps(model, ~seeds[i], STEPS / 2, 45);
		while (model->runs)
			model_free(model, model->runs - 1);
		model_compare(model);
		assert_int_equal(run_alloc(&model->map, ZC_CHAIN_MAX), 0);
		run_map_destroy(&model->map);
		free(model);
	}
}

static void
test_fill_and_empty_with_each_length(void **state)
{
	struct run_map map;

	(void)state;
	for (unsigned length = 1; length <= ZC_CHAIN_MAX; length++) {
		unsigned per_word = 64 / length;

		assert_int_equal(run_map_init(&map, 256), 0);
		for (int round = 0; round < 2; round++) {
			for (unsigned i = 0; i < 4 * per_word; i++)
				assert_int_equal(run_alloc(&map, length) / 64, i / per_word);
			assert_int_equal(run_alloc(&map, length), RUN_NONE);
			for (unsigned i = 0; i < 4 * per_word; i++)
				run_free(&map, i / per_word * 64 + i % per_word * length, length);
		}
		assert_int_equal(map.words_high, 4);
		run_map_destroy(&map);
	}
}

static void
test_words_high_is_the_files_end(void **state)
{
	struct run_map map;

	(void)state;
	assert_int_equal(run_map_init(&map, 640), 0);
	assert_int_equal(map.words_high, 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(run_alloc(&map, 16), i * 16);
	assert_int_equal(map.words_high, 1);
	assert_int_equal(run_alloc(&map, 1), 64);
	assert_int_equal(map.words_high, 2);
	run_free(&map, 64, 1);
	assert_int_equal(map.words_high, 2);
	run_map_destroy(&map);
}

static void
test_sizes_of_maps(void **state)
{
	struct run_map map;

	(void)state;
	assert_int_equal(run_map_init(&map, 63), 0);
	assert_int_equal(run_alloc(&map, 1), RUN_NONE);
	run_map_destroy(&map);
	assert_int_equal(run_map_init(&map, 191), 0);
	assert_int_equal(map.words, 2);
	run_map_destroy(&map);
	run_map_destroy(&map);
	assert_int_equal(run_map_init(&map, ZC_DATA_SIZE_MAX / ZC_PAGE_SIZE_MIN), 0);
	assert_int_equal(run_alloc(&map, 3), 0);
	run_map_destroy(&map);
	assert_int_equal(run_map_init(&map, UINT64_MAX), -ENOMEM);
	assert_int_equal(run_alloc(&map, 1), RUN_NONE);
	run_map_destroy(&map);
}

/* A word that was taken out is passed over, and has its free pages again when it is back. */
static void
test_word_taken_out(void **state)
{
	struct run_map map;
	uint64_t pages;

	(void)state;
	assert_int_equal(run_map_init(&map, 128), 0);
	assert_int_equal(run_alloc(&map, 3), 0);
	pages = run_word_take(&map, 0);
	assert_int_equal(pages, ~7ULL);
	assert_int_equal(run_word_take(&map, 0), 0);
	run_word_give(&map, 0, 0);
	assert_int_equal(run_alloc(&map, 2), 64);
	run_free(&map, 0, 3);
	assert_int_equal(run_alloc(&map, 3), 0);
	run_word_give(&map, 0, pages);
	assert_int_equal(run_alloc(&map, ZC_CHAIN_MAX), 3);
	run_map_destroy(&map);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_word_taken_out),
		cmocka_unit_test(test_against_the_model),
		cmocka_unit_test(test_fill_and_empty_with_each_length),
		cmocka_unit_test(test_words_high_is_the_files_end),
		cmocka_unit_test(test_sizes_of_maps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
