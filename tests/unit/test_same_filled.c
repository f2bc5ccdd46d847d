/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of codec/same_filled.c: what is taken for a page of one repeated word, what nearly is one
 * and must not be, at every alignment and right up to the end of readable memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../data/sample_pages.h"
#include "codec.h"
#include "guarded.h"

#define PAGE 4096u

static const uint64_t fills[] = {0, UINT64_MAX, 0x0101010101010101, 0xdeadbeef00c0ffee, 1ull << 63};
#define FILLS (sizeof(fills) / sizeof(fills[0]))

static const uint32_t lengths[] = {8, 16, 24, 56, 64, 72, 248, 4088, 4096, 4104, 65536};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* Without same_fill, so that one function does not hide the other's fault. */
static void
fill_bytewise(unsigned char *page, uint32_t length, uint64_t word)
{
	for (uint32_t i = 0; i < length; i++)
		page[i] = (unsigned char)(word >> i % 8 * 8);
}

static void
check_found(const unsigned char *page, uint32_t length, uint64_t expected)
{
	uint64_t word = ~expected;

	assert_true(same_filled(page, length, &word));
	assert_int_equal(word, expected);
}

static void
check_refused(const unsigned char *page, uint32_t length)
{
	uint64_t word = 0x1234;

	assert_false(same_filled(page, length, &word));
	assert_int_equal(word, 0x1234);
}

static void
test_finds_every_word_at_every_length(void **state)
{
	struct guarded memory = guarded_create(ZC_PAGE_SIZE_MAX);

	(void)state;
	for (size_t l = 0; l < LENGTHS; l++)
		for (size_t f = 0; f < FILLS; f++) {
			unsigned char *page = guarded_tail(&memory, lengths[l]);

			fill_bytewise(page, lengths[l], fills[f]);
			check_found(page, lengths[l], fills[f]);
		}
	guarded_destroy(&memory);
}

static void
test_one_other_byte_anywhere_is_seen(void **state)
{
	unsigned char page[PAGE];

	(void)state;
	for (size_t f = 0; f < FILLS; f++) {
		fill_bytewise(page, PAGE, fills[f]);
		for (uint32_t i = 0; i < PAGE; i++) {
			page[i] ^= 1;
			check_refused(page, PAGE);
			page[i] ^= 1;
		}
	}
}

/* First and last word equal, and the rest not: the early way out must not be the only test. */
static void
test_equal_ends_are_not_enough(void **state)
{
	uint64_t page[PAGE / 8];

	(void)state;
	for (unsigned i = 0; i < PAGE / 8; i++)
		page[i] = i;
	page[PAGE / 8 - 1] = page[0];
	check_refused((unsigned char *)page, PAGE);
	memset(page, 0, sizeof(page));
	page[0] = page[PAGE / 8 - 1] = 1;
	check_refused((unsigned char *)page, PAGE);
}

/* A pattern of 16 bytes repeats as well, but is not one word. */
static void
test_longer_patterns_are_refused(void **state)
{
	uint64_t page[PAGE / 8 + 1];

	(void)state;
	for (unsigned period = 2; period <= 256; period *= 2) {
		for (unsigned i = 0; i <= PAGE / 8; i++)
			page[i] = i % period;
		check_refused((unsigned char *)page, PAGE);
		check_refused((unsigned char *)page, PAGE - 8 * (period - 1));
	}
}

static void
test_needs_no_alignment(void **state)
{
	unsigned char memory[PAGE + 16];
	uint64_t word = 0x0123456789abcdef;

	(void)state;
	for (unsigned shift = 0; shift < 16; shift++) {
		memset(memory, 0x55, sizeof(memory));
		fill_bytewise(memory + shift, PAGE, word);
		check_found(memory + shift, PAGE, word);
	}
}

static void
test_odd_lengths_are_refused(void **state)
{
	unsigned char page[PAGE] = {0};

	(void)state;
	for (uint32_t length = 0; length < PAGE; length++)
		if (length == 0 || length % 8 != 0)
			check_refused(page, length);
}

static void
test_fill_writes_the_word_and_no_more(void **state)
{
	struct guarded memory = guarded_create(ZC_PAGE_SIZE_MAX);
	unsigned char *expected = malloc(ZC_PAGE_SIZE_MAX);

	(void)state;
	for (uint32_t length = 0; length <= 300; length++)
		for (size_t f = 0; f < FILLS; f++) {
			unsigned char *page = guarded_tail(&memory, length + 1);

			fill_bytewise(expected, length, fills[f]);
			page[length] = 0xa5;
			same_fill(page, length, fills[f]);
			assert_memory_equal(page, expected, length);
			assert_int_equal(page[length], 0xa5);
		}
	guarded_destroy(&memory);
	free(expected);
}

static void
test_fill_and_find_agree(void **state)
{
	struct guarded memory = guarded_create(ZC_PAGE_SIZE_MAX);

	(void)state;
	for (size_t l = 0; l < LENGTHS; l++)
		for (size_t f = 0; f < FILLS; f++) {
			unsigned char *page = guarded_tail(&memory, lengths[l]);

			memset(page, 0x77, lengths[l]);
			same_fill(page, lengths[l], fills[f]);
			check_found(page, lengths[l], fills[f]);
		}
	guarded_destroy(&memory);
}

static void
test_sample_has_as_many_as_it_says(void **state)
{
	unsigned found = 0;
	uint64_t word;

	(void)state;
	for (unsigned i = 0; i < SAMPLE_PAGES; i++)
		found += same_filled(sample_pages[i], SAMPLE_PAGE_SIZE, &word);
	assert_int_equal(found, SAMPLE_SAME_FILLED);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_every_word_at_every_length),
		cmocka_unit_test(test_one_other_byte_anywhere_is_seen),
		cmocka_unit_test(test_equal_ends_are_not_enough),
		cmocka_unit_test(test_longer_patterns_are_refused),
		cmocka_unit_test(test_needs_no_alignment),
		cmocka_unit_test(test_odd_lengths_are_refused),
		cmocka_unit_test(test_fill_writes_the_word_and_no_more),
		cmocka_unit_test(test_fill_and_find_agree),
		cmocka_unit_test(test_sample_has_as_many_as_it_says),
	};

	sample_pages_load();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
