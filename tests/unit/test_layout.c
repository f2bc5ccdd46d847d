/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/layout.h: every packed word, each field at its smallest and largest value, alone and
 * with all others at the opposite end, and bit positions that are the layout.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "layout.h"

struct location {
	uint64_t offset;
	uint32_t length;
	enum zc_codec codec;
	unsigned flags;
};

static const struct location low = {0, 0, ZC_CODEC_RAW, 0};
static const struct location high = {ZC_DATA_SIZE_MAX - 8, (1u << 17) - 1, ZC_CODEC_POISON, 63};

static void
check_location(struct location location)
{
	uint64_t word =
		location_pack(location.offset, location.length, location.codec, location.flags);

	assert_int_equal(location_offset(word), location.offset);
	assert_int_equal(location_length(word), location.length);
	assert_int_equal(location_codec(word), location.codec);
	assert_int_equal(location_flags(word), location.flags);
}

/* All sixteen mixtures of the two extremes. */
static void
test_location_fields_do_not_touch(void **state)
{
	(void)state;
	for (unsigned mix = 0; mix < 16; mix++)
		check_location((struct location){
			(mix & 1 ? high : low).offset, (mix & 2 ? high : low).length,
			(mix & 4 ? high : low).codec, (mix & 8 ? high : low).flags});
}

static void
test_location_each_bit(void **state)
{
	(void)state;
	for (unsigned bit = 3; bit < 40; bit++)
		check_location((struct location){.offset = 1ULL << bit});
	for (unsigned bit = 0; bit < 17; bit++)
		check_location((struct location){.length = 1u << bit});
	for (unsigned bit = 0; bit < 6; bit++)
		check_location((struct location){.flags = 1u << bit});
	for (unsigned codec = 0; codec < 16; codec++)
		check_location((struct location){.codec = (enum zc_codec)codec});
}

static void
test_location_longest_object(void **state)
{
	(void)state;
	check_location((struct location){ZC_DATA_SIZE_MAX - ZC_PAGE_SIZE_MAX, ZC_PAGE_SIZE_MAX,
					 ZC_CODEC_RAW, 0});
	assert_int_equal(ZC_DATA_SIZE_MAX, 1ULL << 40);
}

static void
test_location_bits_are_the_layout(void **state)
{
	(void)state;
	assert_int_equal(location_pack(8, 0, ZC_CODEC_RAW, 0), 1);
	assert_int_equal(location_pack(0, 1, ZC_CODEC_RAW, 0), 1ULL << 37);
	assert_int_equal(location_pack(0, 0, ZC_CODEC_LZ4, 0), 1ULL << 54);
	assert_int_equal(location_pack(0, 0, ZC_CODEC_RAW, ZC_LOCATION_SHORT), 1ULL << 58);
	assert_int_equal(location_pack(high.offset, high.length, high.codec, high.flags),
			 UINT64_MAX);
}

/* Any 64 bits at all give fields in range: a reader may meet a damaged word. */
static void
test_location_of_any_word(void **state)
{
	uint64_t word = 0x123456789abcdef1ULL;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		word = word * 6364136223846793005ULL + 1442695040888963407ULL;
		assert_true(location_offset(word) < ZC_DATA_SIZE_MAX);
		assert_int_equal(location_offset(word) % 8, 0);
		assert_true(location_length(word) < 1u << 17);
		assert_true((unsigned)location_codec(word) < 16);
		assert_true(location_flags(word) < 64);
		assert_int_equal(location_pack(location_offset(word), location_length(word),
					       location_codec(word), location_flags(word)),
				 word);
	}
}

static void
test_location_flags_do_not_touch(void **state)
{
	const unsigned lacks = ZC_LOCATION_LACKS_MASK << ZC_LOCATION_LACKS_SHIFT;

	(void)state;
	assert_int_equal(lacks & ZC_LOCATION_SHORT, 0);
	assert_true((lacks | ZC_LOCATION_SHORT) < 1u << ZC_LOCATION_FLAG_BITS);
}

static void
test_object_header(void **state)
{
	(void)state;
	assert_int_equal(object_header_pack(0, 0), 0);
	assert_int_equal(object_header_pack(UINT32_MAX, 0), 0xffffffffULL);
	assert_int_equal(object_header_pack(0, UINT32_MAX), 0xffffffff00000000ULL);
	assert_int_equal(object_header_pack(1, 2), 0x0000000200000001ULL);
}

static void
test_page_meta(void **state)
{
	(void)state;
	for (unsigned number = 0; number < 256; number++)
		for (unsigned distance = 0; distance < ZC_CHAIN_MAX; distance++) {
			uint16_t meta = page_meta_pack(number, distance);

			assert_int_equal(meta & 0xff, number);
			assert_int_equal(meta >> 8 & 0xf, distance);
			assert_int_equal(meta & 0xf000, ZC_PAGE_USED);
		}
}

static void
test_shard_word(void **state)
{
	(void)state;
	for (unsigned level = 0; level < 32; level++) {
		uint32_t splits[] = {0, 1, (uint32_t)((1ULL << level) - 1), UINT32_MAX};

		for (size_t i = 0; i < sizeof(splits) / sizeof(splits[0]); i++) {
			uint64_t word = shard_word_pack(level, splits[i]);

			assert_int_equal((uint32_t)word, splits[i]);
			assert_int_equal(word >> 32 & 0xff, level);
			assert_int_equal(word >> 40, 0);
		}
	}
}

static void
test_bucket_header_bits(void **state)
{
	const uint64_t same_filled = ZC_BUCKET_SLOT_MASK;
	const uint64_t valid = (uint64_t)ZC_BUCKET_SLOT_MASK << ZC_BUCKET_VALID_SHIFT;
	const uint64_t sequence = UINT64_MAX << ZC_BUCKET_SEQUENCE_SHIFT;

	(void)state;
	assert_int_equal(__builtin_popcountll(same_filled), ZC_BUCKET_ENTRIES);
	assert_int_equal(__builtin_popcountll(valid), ZC_BUCKET_ENTRIES);
	assert_int_equal(__builtin_popcountll(sequence), 44);
	assert_int_equal(same_filled ^ valid ^ sequence, UINT64_MAX);
	/* A step of the sequence leaves the slots alone, also when it wraps. */
	assert_int_equal((UINT64_MAX + (1ULL << ZC_BUCKET_SEQUENCE_SHIFT)) & (same_filled | valid),
			 same_filled | valid);
}

static void
test_structures_have_no_holes(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct index_entry, word), 16);
	assert_int_equal(ZC_STRIPE_SIZE, 16384);
	assert_int_equal(ZC_STRIPE_SIZE % ZC_OS_PAGE_SIZE, 0);
	assert_int_equal(ZC_GROUPS_OFFSET, sizeof(struct pool_header));
	assert_true(offsetof(struct pool_header, checksum) + 8 <=
		    offsetof(struct pool_header, state));
	/* What changes is not on a cache line of what does not. */
	assert_int_equal(offsetof(struct pool_header, state) % 64, 0);
	assert_int_equal(offsetof(struct pool_header, shard_word) % 64, 0);
	assert_memory_equal(&(uint64_t){ZC_POOL_MAGIC}, "zcached", 8);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_location_fields_do_not_touch),
		cmocka_unit_test(test_location_each_bit),
		cmocka_unit_test(test_location_longest_object),
		cmocka_unit_test(test_location_bits_are_the_layout),
		cmocka_unit_test(test_location_of_any_word),
		cmocka_unit_test(test_location_flags_do_not_touch),
		cmocka_unit_test(test_object_header),
		cmocka_unit_test(test_page_meta),
		cmocka_unit_test(test_shard_word),
		cmocka_unit_test(test_bucket_header_bits),
		cmocka_unit_test(test_structures_have_no_holes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
