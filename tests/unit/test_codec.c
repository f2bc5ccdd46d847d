/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of codec/: every codec and level gives back what it was given, never leaves its buffers
 * whatever the bytes, and allocates nothing after a stream is made.
 *
 * All buffers end at an inaccessible page (guarded.h): the compression libraries are not
 * instrumented by sanitizers. Random bytes come from fixed seeds.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../data/sample_pages.h"
#include "codec.h"
#include "guarded.h"

#define PAGE	  SAMPLE_PAGE_SIZE
#define VALUE_MAX ZC_PAGE_SIZE_MAX
#define ROOM_MAX  (VALUE_MAX + VALUE_MAX / 128 + 1024)

/*
 * Counts allocations of this program and all its libraries. The sanitizers bring their own
 * allocator; the plain build is the one that counts.
 */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define OWN_ALLOCATOR
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR
#endif
#if defined(__GLIBC__) && !defined(OWN_ALLOCATOR)
#define COUNTS_ALLOCATIONS
#endif

static unsigned long allocations;

#ifdef COUNTS_ALLOCATIONS
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

void *
malloc(size_t size)
{
	allocations++;
	return __libc_malloc(size);
}

void *
calloc(size_t count, size_t size)
{
	allocations++;
	return __libc_calloc(count, size);
}

void *
realloc(void *old, size_t size)
{
	allocations++;
	return __libc_realloc(old, size);
}

void *
aligned_alloc(size_t alignment, size_t size)
{
	allocations++;
	return __libc_memalign(alignment, size);
}
#endif

static struct codec_config configs[] = {
	{ZC_CODEC_LZ4, 0},     {ZC_CODEC_LZ4, 1},   {ZC_CODEC_LZ4, 2},	 {ZC_CODEC_LZ4, 64},
	{ZC_CODEC_LZ4, 65537}, {ZC_CODEC_ZSTD, -7}, {ZC_CODEC_ZSTD, -6}, {ZC_CODEC_ZSTD, -5},
	{ZC_CODEC_ZSTD, -4},   {ZC_CODEC_ZSTD, -3}, {ZC_CODEC_ZSTD, -2}, {ZC_CODEC_ZSTD, -1},
	{ZC_CODEC_ZSTD, 0},    {ZC_CODEC_ZSTD, 1},  {ZC_CODEC_ZSTD, 2},	 {ZC_CODEC_ZSTD, 3},
	{ZC_CODEC_ZSTD, 4},    {ZC_CODEC_ZSTD, 5},  {ZC_CODEC_ZSTD, 6},	 {ZC_CODEC_ZSTD, 7},
	{ZC_CODEC_ZSTD, 8},    {ZC_CODEC_ZSTD, 9},  {ZC_CODEC_ZSTD, 10}, {ZC_CODEC_ZSTD, 11},
	{ZC_CODEC_ZSTD, 12},   {ZC_CODEC_ZSTD, 13}, {ZC_CODEC_ZSTD, 14}, {ZC_CODEC_ZSTD, 15},
	{ZC_CODEC_ZSTD, 16},   {ZC_CODEC_ZSTD, 17}, {ZC_CODEC_ZSTD, 18}, {ZC_CODEC_ZSTD, 19},
};
#define CONFIGS (sizeof(configs) / sizeof(configs[0]))

static const struct codec_config lz4 = {ZC_CODEC_LZ4, 1};
static const struct codec_config zstd = {ZC_CODEC_ZSTD, 1};

/* What all tests work with; made once, so that each test also sees what the others left behind. */
static struct codec_stream *stream;
static struct guarded value_memory, stored_memory, result_memory;

static uint32_t
next_random(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static void
fill_random(unsigned char *bytes, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (unsigned char)(next_random(&seed) >> 16);
}

static int32_t
compress(const struct codec_config *config, const void *value, uint32_t length, uint32_t room)
{
	unsigned char *input = guarded_tail(&value_memory, length);

	memmove(input, value, length);
	return codec_compress(stream, config, input, length, guarded_tail(&stored_memory, room),
			      room);
}

/* Decodes bytes that lie anywhere, from a copy that ends at a guard, to room that does. */
static int32_t
decompress(enum zc_codec codec, const void *stored, uint32_t length, uint32_t room)
{
	unsigned char *input = guarded_tail(&value_memory, length);

	memmove(input, stored, length);
	return codec_decompress(stream, codec, input, length, guarded_tail(&result_memory, room),
				room);
}

/* Compresses to `stored`, whose end is no guard, with room enough for anything. */
static uint32_t
compress_to(const struct codec_config *config, const void *value, uint32_t length,
	    unsigned char *stored)
{
	int32_t got = compress(config, value, length, ROOM_MAX);

	assert_in_range(got, 1, ROOM_MAX);
	memcpy(stored, guarded_tail(&stored_memory, ROOM_MAX), (size_t)got);
	return (uint32_t)got;
}

static void
check_round_trip(const struct codec_config *config, const void *value, uint32_t length)
{
	static unsigned char copy[VALUE_MAX], stored[ROOM_MAX];
	uint32_t got;

	memcpy(copy, value, length);
	got = compress_to(config, copy, length, stored);
	assert_int_equal(decompress(config->codec, stored, got, length), length);
	assert_memory_equal(guarded_tail(&result_memory, length), copy, length);
}

static void
test_parse_reads_what_format_writes(void **state)
{
	static const char *const texts[] = {"lz4",     "lz4:1",	 "lz4:65537", "zstd",
					    "zstd:-7", "zstd:1", "zstd:10",   "zstd:19"};
	struct codec_config config;
	char text[16];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(codec_config_parse(texts[i], &config), 0);
		codec_config_format(&config, text);
		assert_string_equal(text, texts[i]);
	}
	assert_int_equal(codec_config_parse("zstd:-3", &config), 0);
	assert_int_equal(config.codec, ZC_CODEC_ZSTD);
	assert_int_equal(config.level, -3);
	assert_int_equal(codec_config_parse("lz4", &config), 0);
	assert_int_equal(config.codec, ZC_CODEC_LZ4);
	assert_int_equal(config.level, 0);
}

static void
test_format_stays_in_its_room(void **state)
{
	const struct codec_config odd[] = {{ZC_CODEC_POISON, INT32_MIN},
					   {(enum zc_codec)9, INT32_MIN}};
	char *text = (char *)guarded_tail(&result_memory, 16);

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		memset(text, 'x', 16);
		codec_config_format(&odd[i], text);
		assert_in_range(strnlen(text, 16), 1, 15);
	}
}

static void
test_parse_refuses_all_else(void **state)
{
	static const char *const texts[] = {
		"",
		"lz",
		"lz44",
		"LZ4",
		"lz4 ",
		" lz4",
		"lz4:",
		"lz4:-1",
		"lz4:65538",
		"lz4:1x",
		"lz4: 1",
		"lz4:+1",
		"lz4::1",
		"lz4:1:2",
		"lz4:0x10",
		"lz4:1.0",
		"zst",
		"zstd:",
		"zstd:20",
		"zstd:-8",
		"zstd:--1",
		"zstd:-",
		"zstd:- 1",
		"zstd:1 ",
		"zstd:1\n",
		"zstd:\t1",
		"zstd,1",
		"raw",
		"poison",
		"unknown",
		"zstd:4294967297",
		"zstd:18446744073709551617",
		"lz4:4294967297",
		"zstd:-99999999999999999999999999999999",
		"lz4:99999999999999999999999999",
	};
	struct codec_config config = {ZC_CODEC_ZSTD, 7};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(codec_config_parse(texts[i], &config), -EINVAL);
		assert_int_equal(config.codec, ZC_CODEC_ZSTD);
		assert_int_equal(config.level, 7);
	}
}

static void
test_names(void **state)
{
	(void)state;
	assert_string_equal(codec_name(ZC_CODEC_RAW), "raw");
	assert_string_equal(codec_name(ZC_CODEC_LZ4), "lz4");
	assert_string_equal(codec_name(ZC_CODEC_ZSTD), "zstd");
	assert_string_equal(codec_name(ZC_CODEC_POISON), "poison");
	for (unsigned codec = 3; codec < 15; codec++)
		assert_string_equal(codec_name((enum zc_codec)codec), "unknown");
	assert_string_equal(codec_name((enum zc_codec)UINT32_MAX), "unknown");
}

static void
test_sample_round_trips(void **state)
{
	(void)state;
	for (size_t c = 0; c < CONFIGS; c++)
		for (unsigned i = 0; i < SAMPLE_PAGES; i++)
			check_round_trip(&configs[c], sample_pages[i], PAGE);
}

static void
test_every_short_length_round_trips(void **state)
{
	unsigned char zeros[64] = {0}, random[64];

	(void)state;
	fill_random(random, sizeof(random), 0x5eed0001);
	for (size_t c = 0; c < CONFIGS; c++)
		for (uint32_t length = 1; length <= 64; length++) {
			check_round_trip(&configs[c], zeros, length);
			check_round_trip(&configs[c], random, length);
			check_round_trip(&configs[c], sample_pages[0] + length, length);
		}
}

static void
test_long_lengths_round_trip(void **state)
{
	static const uint32_t lengths[] = {4095, 4096, 4097, 16383, 16384, 16385, 65535, 65536};
	static unsigned char zeros[VALUE_MAX], random[VALUE_MAX];

	(void)state;
	fill_random(random, sizeof(random), 0x5eed0002);
	for (size_t c = 0; c < CONFIGS; c++)
		for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
			check_round_trip(&configs[c], zeros, lengths[l]);
			check_round_trip(&configs[c], random, lengths[l]);
			check_round_trip(&configs[c], sample_pages, lengths[l]);
		}
}

/* The figures that make codecs worth having: about what lz4 and zstd reach on these pages. */
static void
test_sample_compresses_as_well_as_it_should(void **state)
{
	static const struct {
		struct codec_config config;
		uint32_t stored_max;
	} expected[] = {
		{{ZC_CODEC_LZ4, 1}, SAMPLE_PAGES * PAGE * 10 / 24},
		{{ZC_CODEC_ZSTD, -1}, SAMPLE_PAGES * PAGE * 10 / 30},
		{{ZC_CODEC_ZSTD, 1}, SAMPLE_PAGES * PAGE * 10 / 33},
	};

	(void)state;
	for (size_t e = 0; e < sizeof(expected) / sizeof(expected[0]); e++) {
		uint32_t total = 0;

		for (unsigned i = 0; i < SAMPLE_PAGES; i++) {
			int32_t got =
				compress(&expected[e].config, sample_pages[i], PAGE, PAGE - 1);

			total += got ? (uint32_t)got : PAGE;
		}
		assert_in_range(total, 1, expected[e].stored_max);
	}
}

/* No magic number, content size, checksum, dictionary id: the header byte is 0, then a window. */
static void
test_zstd_frames_carry_no_frills(void **state)
{
	static unsigned char stored[ROOM_MAX], zeros[PAGE];

	(void)state;
	for (size_t c = 0; c < CONFIGS; c++) {
		if (configs[c].codec != ZC_CODEC_ZSTD)
			continue;
		assert_in_range(compress_to(&configs[c], zeros, PAGE, stored), 1, 24);
		assert_int_equal(stored[0], 0);
		compress_to(&configs[c], sample_pages[0], PAGE, stored);
		assert_int_equal(stored[0], 0);
	}
}

static void
check_room(const struct codec_config *config, const unsigned char *page, uint32_t room)
{
	static unsigned char stored[ROOM_MAX];
	int32_t got = compress(config, page, PAGE, room);

	assert_in_range(got, 0, room);
	if (got == 0)
		return;
	memcpy(stored, guarded_tail(&stored_memory, room), (size_t)got);
	assert_int_equal(decompress(config->codec, stored, (uint32_t)got, PAGE), PAGE);
	assert_memory_equal(guarded_tail(&result_memory, PAGE), page, PAGE);
}

static void
test_too_little_room_is_zero_or_fits(void **state)
{
	static unsigned char stored[ROOM_MAX];

	(void)state;
	for (size_t c = 0; c < CONFIGS; c += 4)
		for (unsigned i = 0; i < SAMPLE_PAGES; i += 7) {
			uint32_t needed = compress_to(&configs[c], sample_pages[i], PAGE, stored);

			for (uint32_t room = needed - 1; room > 0; room /= 2) {
				assert_int_equal(compress(&configs[c], sample_pages[i], PAGE, 0),
						 0);
				check_room(&configs[c], sample_pages[i], room);
				check_room(&configs[c], sample_pages[i], room + 1);
			}
		}
}

static void
test_random_page_does_not_fit(void **state)
{
	unsigned char page[PAGE];

	(void)state;
	fill_random(page, PAGE, 0x5eed0003);
	for (size_t c = 0; c < CONFIGS; c++) {
		assert_int_equal(compress(&configs[c], page, PAGE, PAGE - 1), 0);
		assert_int_equal(compress(&configs[c], page, PAGE, 1), 0);
	}
}

static void
test_less_room_than_the_value_is_an_error(void **state)
{
	static unsigned char stored[ROOM_MAX];

	(void)state;
	for (size_t c = 0; c < CONFIGS; c++)
		for (unsigned i = 0; i < SAMPLE_PAGES; i += 7) {
			uint32_t got = compress_to(&configs[c], sample_pages[i], PAGE, stored);

			for (uint32_t room = PAGE - 1; room > 0; room /= 2)
				assert_int_equal(decompress(configs[c].codec, stored, got, room),
						 -EBADMSG);
			assert_int_equal(decompress(configs[c].codec, stored, got, 0), -EBADMSG);
			assert_int_equal(decompress(configs[c].codec, stored, got, PAGE + 999),
					 PAGE);
		}
}

/* lz4 may take the front part of a block for a shorter value, zstd never. */
static void
check_truncated(enum zc_codec codec, const unsigned char *stored, uint32_t length)
{
	for (uint32_t cut = 0; cut < length; cut++) {
		int32_t got = decompress(codec, stored, cut, PAGE);

		if (codec == ZC_CODEC_ZSTD || got < 0)
			assert_int_equal(got, -EBADMSG);
		else
			assert_in_range(got, 1, PAGE - 1);
	}
}

static void
test_truncated_bytes_are_refused(void **state)
{
	static unsigned char stored[ROOM_MAX];

	(void)state;
	for (unsigned i = 0; i < SAMPLE_PAGES; i += 9) {
		check_truncated(ZC_CODEC_LZ4, stored,
				compress_to(&lz4, sample_pages[i], PAGE, stored));
		check_truncated(ZC_CODEC_ZSTD, stored,
				compress_to(&zstd, sample_pages[i], PAGE, stored));
	}
}

static void
test_bytes_behind_the_end_are_refused(void **state)
{
	static unsigned char stored[ROOM_MAX + 8];

	(void)state;
	for (unsigned i = 0; i < SAMPLE_PAGES; i++)
		for (unsigned more = 1; more <= 8; more++) {
			uint32_t got = compress_to(&lz4, sample_pages[i], PAGE, stored);

			memset(stored + got, 0, 8);
			assert_int_equal(decompress(ZC_CODEC_LZ4, stored, got + more, PAGE),
					 -EBADMSG);
			got = compress_to(&zstd, sample_pages[i], PAGE, stored);
			memset(stored + got, 0, 8);
			assert_int_equal(decompress(ZC_CODEC_ZSTD, stored, got + more, PAGE),
					 -EBADMSG);
		}
}

/* Any answer will do but a wrong range, a fault, or a stream that is broken afterwards. */
static void
check_hostile(enum zc_codec codec, const unsigned char *stored, uint32_t length, uint32_t room)
{
	int32_t got = decompress(codec, stored, length, room);

	if (got != -EBADMSG)
		assert_in_range(got, 1, room);
}

static void
mutate(unsigned char *stored, uint32_t length, uint32_t *seed)
{
	for (unsigned i = next_random(seed) % 4 + 1; i > 0; i--) {
		unsigned char *at = &stored[next_random(seed) % length];

		*at ^= next_random(seed) % 2 ? 1u << next_random(seed) % 8
					     : next_random(seed) % 255 + 1;
	}
}

static void
check_mutations(const struct codec_config *config, unsigned count, uint32_t seed)
{
	static unsigned char good[ROOM_MAX], bad[ROOM_MAX];

	for (unsigned i = 0; i < count; i++) {
		const unsigned char *page = sample_pages[next_random(&seed) % SAMPLE_PAGES];
		uint32_t got = compress_to(config, page, PAGE, good);

		for (unsigned j = 0; j < 8; j++) {
			memcpy(bad, good, got);
			mutate(bad, got, &seed);
			check_hostile(config->codec, bad, got, PAGE);
			check_hostile(config->codec, bad, got, next_random(&seed) % PAGE + 1);
		}
		assert_int_equal(decompress(config->codec, good, got, PAGE), PAGE);
		assert_memory_equal(guarded_tail(&result_memory, PAGE), page, PAGE);
	}
}

static void
test_mutated_bytes_stay_in_bounds(void **state)
{
	const struct codec_config high = {ZC_CODEC_ZSTD, 9};

	(void)state;
	check_mutations(&lz4, 2000, 0x5eed0004);
	check_mutations(&zstd, 2000, 0x5eed0005);
	check_mutations(&high, 500, 0x5eed0006);
}

static void
test_random_bytes_stay_in_bounds(void **state)
{
	unsigned char stored[64];
	uint32_t seed = 0x5eed0007;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		uint32_t length = next_random(&seed) % sizeof(stored) + 1;

		fill_random(stored, length, next_random(&seed));
		check_hostile(ZC_CODEC_LZ4, stored, length, PAGE);
		check_hostile(ZC_CODEC_ZSTD, stored, length, PAGE);
	}
}

/* All frame headers: huge windows and sizes, dictionaries, checksums, reserved bits. */
static void
test_hostile_zstd_headers_allocate_nothing(void **state)
{
	static const unsigned char window[] = {0x00, 0x10, 0x60, 0xa8, 0xff};
	unsigned char stored[32];
	unsigned long before = allocations;

	(void)state;
	for (unsigned header = 0; header < 256; header++)
		for (size_t w = 0; w < sizeof(window); w++)
			for (unsigned fill = 0; fill < 256; fill += 51) {
				memset(stored, (int)fill, sizeof(stored));
				stored[0] = (unsigned char)header;
				stored[1] = window[w];
				check_hostile(ZC_CODEC_ZSTD, stored, sizeof(stored), PAGE);
			}
	assert_int_equal(allocations, before);
}

/* Frames of old formats and skippable ones begin with these; as magicless frames they are damaged. */
static void
test_zstd_magic_numbers_are_refused(void **state)
{
	static const uint32_t magics[] = {0xfd2fb51e, 0xfd2fb522, 0xfd2fb523, 0xfd2fb524,
					  0xfd2fb525, 0xfd2fb526, 0xfd2fb527, 0xfd2fb528,
					  0x184d2a50, 0x184d2a5f, 0xec30a437};
	unsigned char stored[64];
	unsigned long before = allocations;

	(void)state;
	for (size_t m = 0; m < sizeof(magics) / sizeof(magics[0]); m++)
		for (unsigned fill = 0; fill < 256; fill++) {
			memset(stored, (int)fill, sizeof(stored));
			memcpy(stored, &magics[m], sizeof(magics[m]));
			check_hostile(ZC_CODEC_ZSTD, stored, sizeof(stored), PAGE);
		}
	assert_int_equal(allocations, before);
}

/* A frame may say that it needs a window of terabytes: it gets no window, and decodes or does not. */
static void
test_huge_window_costs_nothing(void **state)
{
	static unsigned char stored[ROOM_MAX];
	uint32_t got = compress_to(&zstd, sample_pages[0], PAGE, stored);
	unsigned long before = allocations;

	(void)state;
	for (unsigned descriptor = 0; descriptor < 256; descriptor++) {
		stored[1] = (unsigned char)descriptor;
		check_hostile(ZC_CODEC_ZSTD, stored, got, PAGE);
	}
	assert_int_equal(allocations, before);
}

static void
test_raw_is_copied(void **state)
{
	(void)state;
	assert_int_equal(decompress(ZC_CODEC_RAW, sample_pages[0], PAGE, PAGE), PAGE);
	assert_memory_equal(guarded_tail(&result_memory, PAGE), sample_pages[0], PAGE);
	assert_int_equal(decompress(ZC_CODEC_RAW, sample_pages[0], 1, 1), 1);
	assert_int_equal(decompress(ZC_CODEC_RAW, sample_pages[0], PAGE, PAGE - 1), -EBADMSG);
	assert_int_equal(decompress(ZC_CODEC_RAW, sample_pages[0], 0, PAGE), -EBADMSG);
}

static void
test_other_codecs_decode_nothing(void **state)
{
	(void)state;
	for (unsigned codec = 3; codec < 20; codec++)
		assert_int_equal(decompress((enum zc_codec)codec, sample_pages[0], 9, PAGE),
				 -EBADMSG);
	assert_int_equal(decompress((enum zc_codec)UINT32_MAX, sample_pages[0], 9, PAGE), -EBADMSG);
}

/* Lengths that would be negative as an int; nothing is read or written. */
static void
test_lengths_beyond_int_are_refused(void **state)
{
	unsigned char bytes[16] = {0};

	(void)state;
	for (unsigned codec = 0; codec < 16; codec++) {
		assert_int_equal(codec_decompress(stream, (enum zc_codec)codec, bytes, UINT32_MAX,
						  bytes, sizeof(bytes)),
				 -EBADMSG);
		assert_int_equal(codec_decompress(stream, (enum zc_codec)codec, bytes, 1u << 31,
						  bytes, sizeof(bytes)),
				 -EBADMSG);
	}
}

static void
test_compress_refuses_bad_arguments(void **state)
{
	static const struct codec_config bad[] = {
		{ZC_CODEC_RAW, 0},   {ZC_CODEC_POISON, 0},  {(enum zc_codec)3, 0},
		{ZC_CODEC_LZ4, -1},  {ZC_CODEC_LZ4, 65538}, {ZC_CODEC_LZ4, INT32_MIN},
		{ZC_CODEC_ZSTD, -8}, {ZC_CODEC_ZSTD, 20},   {ZC_CODEC_ZSTD, INT32_MAX},
	};
	unsigned char bytes[16] = {0}, stored[64];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(compress(&bad[i], bytes, sizeof(bytes), 64), -EINVAL);
	assert_int_equal(compress(&lz4, bytes, 0, 64), -EINVAL);
	assert_int_equal(compress(&zstd, bytes, 0, 64), -EINVAL);
	assert_int_equal(codec_compress(stream, &lz4, bytes, VALUE_MAX + 1, stored, 64), -EINVAL);
	assert_int_equal(codec_compress(stream, &zstd, bytes, UINT32_MAX, stored, 64), -EINVAL);
}

static void
test_stream_sizes(void **state)
{
	static const uint32_t sizes[] = {1, 63, 4095, 4096, 8192, 16384, 32768, 65536};
	struct codec_stream *other = NULL;
	unsigned char stored[256];

	(void)state;
	assert_int_equal(codec_stream_create(ZC_PAGE_SIZE_MAX + 1, &other), -EINVAL);
	assert_null(other);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(codec_stream_create(sizes[i], &other), 0);
		assert_int_equal(
			codec_compress(other, &lz4, sample_pages, sizes[i] + 1, stored, 256),
			-EINVAL);
		codec_stream_destroy(&other);
		assert_null(other);
	}
}

/* A stream for the size at hand has room for every level, with values of any shorter length too. */
static void
test_small_streams_do_every_level(void **state)
{
	static const uint32_t sizes[] = {1, 64, 4096, 16384, 16392, 32768};
	static unsigned char stored[ROOM_MAX], value[VALUE_MAX];
	struct codec_stream *other;

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(codec_stream_create(sizes[i], &other), 0);
		for (size_t c = 0; c < CONFIGS; c++)
			for (uint32_t length = sizes[i]; length > 0; length /= 3) {
				int32_t got = codec_compress(other, &configs[c], sample_pages,
							     length, stored, ROOM_MAX);

				assert_in_range(got, 1, ROOM_MAX);
				assert_int_equal(codec_decompress(other, configs[c].codec, stored,
								  (uint32_t)got, value, length),
						 length);
				assert_memory_equal(value, sample_pages, length);
			}
		codec_stream_destroy(&other);
	}
}

static void
test_stream_without_values_decodes_alone(void **state)
{
	static unsigned char stored[ROOM_MAX], page[PAGE];
	struct codec_stream *reader;
	uint32_t got = compress_to(&zstd, sample_pages[0], PAGE, stored);

	(void)state;
	assert_int_equal(codec_stream_create(0, &reader), 0);
	assert_int_equal(codec_decompress(reader, ZC_CODEC_ZSTD, stored, got, page, PAGE), PAGE);
	assert_memory_equal(page, sample_pages[0], PAGE);
	got = compress_to(&lz4, sample_pages[1], PAGE, stored);
	assert_int_equal(codec_decompress(reader, ZC_CODEC_LZ4, stored, got, page, PAGE), PAGE);
	assert_memory_equal(page, sample_pages[1], PAGE);
	assert_int_equal(codec_compress(reader, &lz4, page, 1, stored, ROOM_MAX), -EINVAL);
	assert_int_equal(codec_compress(reader, &zstd, page, PAGE, stored, ROOM_MAX), -EINVAL);
	codec_stream_destroy(&reader);
}

/* What a fresh stream makes of a page with this config. */
static uint32_t
compress_fresh(const struct codec_config *config, const unsigned char *page, unsigned char *stored)
{
	struct codec_stream *fresh;
	int32_t got;

	assert_int_equal(codec_stream_create(PAGE, &fresh), 0);
	got = codec_compress(fresh, config, page, PAGE, stored, ROOM_MAX);
	codec_stream_destroy(&fresh);
	assert_in_range(got, 1, ROOM_MAX);
	return (uint32_t)got;
}

/* The output depends on value and config alone, whatever the stream did before, failures included. */
static void
test_levels_switch_at_any_call(void **state)
{
	static unsigned char expected[ROOM_MAX], stored[ROOM_MAX];
	uint32_t seed = 0x5eed0008;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		const struct codec_config *config = &configs[next_random(&seed) % CONFIGS];
		const unsigned char *page = sample_pages[next_random(&seed) % SAMPLE_PAGES];
		uint32_t length = compress_fresh(config, page, expected);

		compress(&configs[next_random(&seed) % CONFIGS], page, PAGE, 20);
		assert_int_equal(compress_to(config, page, PAGE, stored), length);
		assert_memory_equal(stored, expected, length);
	}
}

/* zstd looks for contexts that have been too large for many calls: ours must stay as they are. */
static void
test_long_use_of_a_small_part_of_the_stream(void **state)
{
	const struct codec_config fastest = {ZC_CODEC_ZSTD, -7};

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		check_round_trip(&fastest, sample_pages[i % SAMPLE_PAGES], 64);
	check_round_trip(&configs[CONFIGS - 1], sample_pages, VALUE_MAX);
}

static void
use_every_config(struct codec_stream *used, unsigned char *stored, unsigned char *value)
{
	for (size_t c = 0; c < CONFIGS; c++)
		for (uint32_t length = VALUE_MAX; length >= PAGE; length /= 4) {
			int32_t got = codec_compress(used, &configs[c], sample_pages, length,
						     stored, ROOM_MAX);

			codec_decompress(used, configs[c].codec, stored, (uint32_t)got, value,
					 length);
			codec_decompress(used, configs[c].codec, stored, (uint32_t)got / 2, value,
					 length);
		}
}

static void
test_nothing_allocates_after_create(void **state)
{
	static unsigned char stored[ROOM_MAX], value[VALUE_MAX];
	struct codec_stream *fresh;
	unsigned long before = allocations;

	(void)state;
#ifndef COUNTS_ALLOCATIONS
	skip();
#endif
	assert_int_equal(codec_stream_create(VALUE_MAX, &fresh), 0);
	assert_int_equal(allocations, before + 1);
	use_every_config(fresh, stored, value);
	assert_int_equal(allocations, before + 1);
	codec_stream_destroy(&fresh);
}

static long
page_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/*
 * The first use of a stream of some hundred pages takes none of them from the kernel. A few faults
 * are left to whatever else may happen to a process.
 */
static void
test_first_use_takes_no_page_faults(void **state)
{
	static unsigned char stored[ROOM_MAX], value[VALUE_MAX];
	struct codec_stream *fresh;
	long before;

	(void)state;
	use_every_config(stream, stored, value); /* buffers, stack and code are in memory now */
	assert_int_equal(codec_stream_create(VALUE_MAX, &fresh), 0);
	before = page_faults();
	use_every_config(fresh, stored, value);
	assert_in_range(page_faults() - before, 0, 16);
	codec_stream_destroy(&fresh);
}

static int
setup(void **state)
{
	(void)state;
	sample_pages_load();
	value_memory = guarded_create(ROOM_MAX + 8);
	stored_memory = guarded_create(ROOM_MAX);
	result_memory = guarded_create(ROOM_MAX);
	return codec_stream_create(VALUE_MAX, &stream);
}

static int
teardown(void **state)
{
	(void)state;
	codec_stream_destroy(&stream);
	guarded_destroy(&value_memory);
	guarded_destroy(&stored_memory);
	guarded_destroy(&result_memory);
	return 0;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_reads_what_format_writes),
		cmocka_unit_test(test_format_stays_in_its_room),
		cmocka_unit_test(test_parse_refuses_all_else),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_sample_round_trips),
		cmocka_unit_test(test_every_short_length_round_trips),
		cmocka_unit_test(test_long_lengths_round_trip),
		cmocka_unit_test(test_sample_compresses_as_well_as_it_should),
		cmocka_unit_test(test_zstd_frames_carry_no_frills),
		cmocka_unit_test(test_too_little_room_is_zero_or_fits),
		cmocka_unit_test(test_random_page_does_not_fit),
		cmocka_unit_test(test_less_room_than_the_value_is_an_error),
		cmocka_unit_test(test_truncated_bytes_are_refused),
		cmocka_unit_test(test_bytes_behind_the_end_are_refused),
		cmocka_unit_test(test_mutated_bytes_stay_in_bounds),
		cmocka_unit_test(test_random_bytes_stay_in_bounds),
		cmocka_unit_test(test_hostile_zstd_headers_allocate_nothing),
		cmocka_unit_test(test_zstd_magic_numbers_are_refused),
		cmocka_unit_test(test_huge_window_costs_nothing),
		cmocka_unit_test(test_raw_is_copied),
		cmocka_unit_test(test_other_codecs_decode_nothing),
		cmocka_unit_test(test_lengths_beyond_int_are_refused),
		cmocka_unit_test(test_compress_refuses_bad_arguments),
		cmocka_unit_test(test_stream_sizes),
		cmocka_unit_test(test_small_streams_do_every_level),
		cmocka_unit_test(test_stream_without_values_decodes_alone),
		cmocka_unit_test(test_levels_switch_at_any_call),
		cmocka_unit_test(test_long_use_of_a_small_part_of_the_stream),
		cmocka_unit_test(test_nothing_allocates_after_create),
		cmocka_unit_test(test_first_use_takes_no_page_faults),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
