/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/object.c. Engine and clients of different builds must agree on these numbers, so
 * some are written down here: where one changes, ZC_ABI_VERSION must change.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "index.h"
#include "object.h"

#define BYTES 9000u

static unsigned char bytes[BYTES];

static void
fill_bytes(void)
{
	uint64_t word = 1;

	for (unsigned i = 0; i < BYTES; i++) {
		word = word * 6364136223846793005u + 1442695040888963407u;
		bytes[i] = (unsigned char)(word >> 56);
	}
}

static void
test_numbers_are_part_of_the_layout(void **state)
{
	const struct page_key key = {0x0123456789abcdefULL, 42};

	(void)state;
	assert_int_equal(key_hash(0, &(struct page_key){0, 0}), 0xc7528968u);
	assert_int_equal(key_hash(0xfeedULL, &key), 0x548b2b47u);
	assert_int_equal(object_checksum(bytes, 1, ZC_CODEC_RAW), 0x84417d57u);
	assert_int_equal(object_checksum(bytes, 200, ZC_CODEC_LZ4), 0xcab67840u);
	assert_int_equal(object_checksum(bytes, 4096, ZC_CODEC_ZSTD), 0x02c1c17au);
}

/* The library's XXH3 is compiled for any CPU; ours may use what this one has. */
static uint32_t
checksum_by_library(const void *stored, uint32_t length, enum zc_codec codec)
{
	uint64_t kind = (uint64_t)codec << 32 | length;

	return (uint32_t)((XXH3_64bits(stored, length) ^ kind) * 0x9e3779b97f4a7c15ULL >> 32);
}

static void
test_checksum_is_the_same_on_all_machines(void **state)
{
	(void)state;
	for (uint32_t length = 1; length <= 8192; length += 1 + length / 97) {
		for (unsigned shift = 0; shift < 3; shift++) {
			assert_int_equal(object_checksum(bytes + shift, length, ZC_CODEC_LZ4),
					 checksum_by_library(bytes + shift, length, ZC_CODEC_LZ4));
		}
	}
}

static void
test_checksum_tells_length_and_codec(void **state)
{
	uint32_t lz4 = object_checksum(bytes, 1700, ZC_CODEC_LZ4);

	(void)state;
	assert_int_not_equal(lz4, object_checksum(bytes, 1700, ZC_CODEC_ZSTD));
	assert_int_not_equal(lz4, object_checksum(bytes, 1700, ZC_CODEC_RAW));
	assert_int_not_equal(lz4, object_checksum(bytes, 1699, ZC_CODEC_LZ4));
	assert_int_not_equal(lz4, object_checksum(bytes, 1701, ZC_CODEC_LZ4));
}

static void
test_checksum_finds_every_flipped_bit(void **state)
{
	static unsigned char copy[1700];
	uint32_t right = object_checksum(bytes, sizeof(copy), ZC_CODEC_LZ4);

	(void)state;
	memcpy(copy, bytes, sizeof(copy));
	for (unsigned bit = 0; bit < sizeof(copy) * 8; bit++) {
		copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
		assert_int_not_equal(right, object_checksum(copy, sizeof(copy), ZC_CODEC_LZ4));
		copy[bit / 8] ^= (unsigned char)(1u << bit % 8);
	}
}

/* Keys of one file are consecutive numbers: shards and buckets must be hit evenly all the same. */
static void
test_keys_spread_evenly(void **state)
{
	unsigned shard[ZC_SHARDS] = {0}, low[256] = {0};
	const unsigned keys = ZC_SHARDS * 1000;

	(void)state;
	for (unsigned i = 0; i < keys; i++) {
		uint32_t hash = key_hash(7, &(struct page_key){3, i});

		shard[index_shard(hash)]++;
		low[hash & 255]++;
	}
	for (unsigned i = 0; i < ZC_SHARDS; i++)
		assert_in_range(shard[i], 800, 1200); /* 1000, more than six sigma to each side */
	for (unsigned i = 0; i < 256; i++)
		assert_in_range(low[i], 150, 350);
}

static void
test_seed_changes_the_hash(void **state)
{
	unsigned same = 0;

	(void)state;
	for (uint64_t i = 0; i < 10000; i++) {
		struct page_key key = {i, i * i};

		same += key_hash(1, &key) == key_hash(2, &key);
	}
	assert_in_range(same, 0, 1);
}

static void
test_header_checksum_covers_what_is_written_once(void **state)
{
	struct pool_header header;
	uint64_t right;

	(void)state;
	memset(&header, 0, sizeof(header));
	right = pool_header_checksum(&header);
	for (size_t i = 0; i < sizeof(header); i++) {
		bool covered = i >= offsetof(struct pool_header, abi_version) &&
			       i < offsetof(struct pool_header, checksum);

		((unsigned char *)&header)[i] ^= 0x40;
		assert_int_equal(covered, pool_header_checksum(&header) != right);
		((unsigned char *)&header)[i] ^= 0x40;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_are_part_of_the_layout),
		cmocka_unit_test(test_checksum_is_the_same_on_all_machines),
		cmocka_unit_test(test_checksum_tells_length_and_codec),
		cmocka_unit_test(test_checksum_finds_every_flipped_bit),
		cmocka_unit_test(test_keys_spread_evenly),
		cmocka_unit_test(test_seed_changes_the_hash),
		cmocka_unit_test(test_header_checksum_covers_what_is_written_once),
	};

	fill_bytes();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
