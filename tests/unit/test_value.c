/* SPDX-License-Identifier: BSD-2-Clause */
/* Values to stored bytes and back: every length, every kind, every page size; and damaged locations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>

#include "page_maker.h"
#include "value.h"

struct fixture {
	struct codec_stream *stream;
	unsigned char *value, *scratch, *back;
};

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->value = malloc(ZC_PAGE_SIZE_MAX);
	f->scratch = malloc(ZC_PAGE_SIZE_MAX);
	f->back = malloc(ZC_PAGE_SIZE_MAX + 1);
	*state = f;
	return codec_stream_create(ZC_PAGE_SIZE_MAX, &f->stream);
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	codec_stream_destroy(&f->stream);
	free(f->value);
	free(f->scratch);
	free(f->back);
	free(f);
	return 0;
}

static void
round_trip(struct fixture *f, const struct codec_config *config, uint32_t page_size,
	   uint32_t length, enum value_kind kind)
{
	struct size_class_table table;
	struct stored_value stored;
	uint64_t location;

	size_class_table_init(&table, page_size);
	make_value(f->value, length, kind, length);
	assert_int_equal(
		0, value_encode(f->stream, config, &table, f->value, length, f->scratch, &stored));
	assert_true(stored.length > 0);
	assert_true(stored.length <= table.stored_max || stored.length == page_size);
	if (kind == VALUE_RANDOM)
		assert_int_equal(ZC_CODEC_RAW, stored.codec);
	location = location_pack(8, stored.length, stored.codec, stored.flags);
	assert_int_equal(length, value_length(location, stored.bytes, page_size));

	memset(f->back, 0xa5, ZC_PAGE_SIZE_MAX + 1);
	assert_int_equal(-EMSGSIZE, value_decode(f->stream, location, stored.bytes, page_size,
						 f->back, length - 1));
	assert_int_equal(0xa5, f->back[0]);
	assert_int_equal(length, value_decode(f->stream, location, stored.bytes, page_size, f->back,
					      ZC_PAGE_SIZE_MAX));
	assert_memory_equal(f->value, f->back, length);
	assert_int_equal(0xa5, f->back[length]);
}

static void
test_round_trips(void **state)
{
	static const struct codec_config configs[] = {{ZC_CODEC_LZ4, 0}, {ZC_CODEC_ZSTD, 1}};

	for (uint32_t page_size = ZC_PAGE_SIZE_MIN; page_size <= ZC_PAGE_SIZE_MAX; page_size *= 4) {
		for (unsigned c = 0; c < 2; c++) {
			for (int kind = 0; kind < VALUE_KINDS; kind++) {
				for (uint32_t n = 1; n <= 64; n++) {
					round_trip(*state, &configs[c], page_size, n, kind);
					/* around the border where no prefix fits any more */
					round_trip(*state, &configs[c], page_size,
						   page_size - n + 1, kind);
				}
				round_trip(*state, &configs[c], page_size, page_size / 2, kind);
			}
		}
	}
}

static void
test_contradictions(void **state)
{
	unsigned char bytes[64] = {0};
	unsigned lacks = 2u << ZC_LOCATION_LACKS_SHIFT;
	const uint64_t wrong[] = {
		location_pack(0, 100, ZC_CODEC_RAW, 0), /* raw, whole, and not a page */
		location_pack(0, 4, ZC_CODEC_RAW, ZC_LOCATION_SHORT),  /* only a prefix */
		location_pack(0, 64, ZC_CODEC_LZ4, ZC_LOCATION_SHORT), /* length 0 */
		location_pack(0, 64, ZC_CODEC_LZ4, lacks),	       /* compressed and lacking */
		location_pack(0, 64, ZC_CODEC_RAW, ZC_LOCATION_SHORT | lacks),
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_int_equal(-EBADMSG, value_length(wrong[i], bytes, 4096));
	bytes[0] = 61; /* 60 bytes follow the prefix */
	assert_int_equal(
		-EBADMSG,
		value_length(location_pack(0, 64, ZC_CODEC_RAW, ZC_LOCATION_SHORT), bytes, 4096));
	bytes[1] = 0x10; /* 4096 + 61: not short */
	assert_int_equal(
		-EBADMSG,
		value_length(location_pack(0, 64, ZC_CODEC_LZ4, ZC_LOCATION_SHORT), bytes, 4096));
}

/* Any location over any bytes: an error or a length, never a byte past the buffer. */
static void
test_garbage(void **state)
{
	struct fixture *f = *state;
	uint64_t random = 1;

	for (unsigned i = 0; i < 20000; i++) {
		uint64_t location = random_next(&random);
		int length;

		fill_random(f->scratch, 256, &random);
		if (location_length(location) > 4096)
			continue;
		memset(f->back, 0xa5, 4097);
		length = value_decode(f->stream, location, f->scratch, 4096, f->back, 4096);
		assert_true(length == -EBADMSG || (length > 0 && length <= 4096));
		assert_int_equal(0xa5, f->back[4096]);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trips),
		cmocka_unit_test(test_contradictions),
		cmocka_unit_test(test_garbage),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
