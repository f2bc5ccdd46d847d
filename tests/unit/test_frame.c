/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of proto/frame.c: framing at every edge of its lengths, and that decoding what a peer sends
 * costs no more than the arena.
 *
 * Run alone by meson. Buffers are allocated at their exact size, so that AddressSanitizer sees a
 * read or write past them. What single operations mean is tested through the live service in
 * tests/integration/.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frame.h"
#include "zcache.pb-c.h"

#define SEED 0x5eed0001u

static uint32_t
next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

static void
put_header(void *output, uint32_t length)
{
	uint8_t bytes[ZC_FRAME_HEADER] = {length, length >> 8, length >> 16, length >> 24};

	memcpy(output, bytes, sizeof(bytes));
}

/* What frame_parse says of a header alone. */
static int
parse_header(uint32_t announced, uint32_t max, uint32_t *length)
{
	uint8_t *input = malloc(ZC_FRAME_HEADER);
	int result;

	put_header(input, announced);
	result = frame_parse(input, ZC_FRAME_HEADER, max, length);
	free(input);
	return result;
}

static void
test_lengths_in_range_want_more_bytes(void **state)
{
	static const uint32_t lengths[] = {1, 2, 255, 256, 65535, 65536, ZC_FRAME_MAX};
	uint32_t length;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		assert_int_equal(parse_header(lengths[i], ZC_FRAME_MAX, &length), 0);
		assert_int_equal(length, lengths[i]);
	}
}

static void
test_lengths_out_of_range_are_refused(void **state)
{
	static const uint32_t lengths[] = {0,	       ZC_FRAME_MAX + 1, ZC_REPLY_MAX, 0x7fffffff,
					   0x80000000, 0xfffffffb,	 0xffffffff};
	uint32_t length;

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		length = 77;
		assert_int_equal(parse_header(lengths[i], ZC_FRAME_MAX, &length), -EMSGSIZE);
		assert_int_equal(length, 0);
	}
}

static void
test_maximum_is_the_callers(void **state)
{
	uint32_t length;

	(void)state;
	assert_int_equal(parse_header(ZC_REPLY_MAX, ZC_REPLY_MAX, &length), 0);
	assert_int_equal(parse_header(ZC_REPLY_MAX + 1, ZC_REPLY_MAX, &length), -EMSGSIZE);
	assert_int_equal(parse_header(1, 0, &length), -EMSGSIZE);
	assert_int_equal(parse_header(UINT32_MAX, UINT32_MAX, &length), 0);
	assert_int_equal(length, UINT32_MAX);
}

static void
test_a_part_of_the_header_is_no_length(void **state)
{
	(void)state;
	for (size_t have = 0; have < ZC_FRAME_HEADER; have++) {
		uint8_t *input = malloc(have ? have : 1);
		uint32_t length = 77;

		memset(input, 0xff, have ? have : 1);
		assert_int_equal(frame_parse(input, have, ZC_FRAME_MAX, &length), 0);
		assert_int_equal(length, 0);
		free(input);
	}
}

/* A message that uses every kind of field of a put, with a value of `length` bytes. */
struct put_request {
	Zcache__V1__Request request;
	Zcache__V1__Put put;
	Zcache__V1__Key key;
};

static void
put_request_init(struct put_request *put, uint8_t *value, size_t length)
{
	zcache__v1__request__init(&put->request);
	zcache__v1__put__init(&put->put);
	zcache__v1__key__init(&put->key);
	put->request.id = 0x0102030405060708u;
	put->request.op_case = ZCACHE__V1__REQUEST__OP_PUT;
	put->request.put = &put->put;
	put->put.pool = 3;
	put->put.key = &put->key;
	put->put.keep_old = 1;
	put->put.value.data = value;
	put->put.value.len = length;
	put->key.object = 7;
	put->key.index = UINT64_MAX;
}

static uint8_t *
pack_put(size_t value_length, size_t *packed)
{
	struct put_request put;
	uint8_t *value = malloc(value_length);
	uint8_t *output = malloc(ZC_FRAME_HEADER + ZC_FRAME_MAX);
	int64_t result;

	memset(value, 0xa5, value_length);
	put_request_init(&put, value, value_length);
	result =
		frame_pack(&put.request.base, output, ZC_FRAME_HEADER + ZC_FRAME_MAX, ZC_FRAME_MAX);
	assert_true(result > 0);
	*packed = (size_t)result;
	free(value);
	return output;
}

static void
check_put(const Zcache__V1__Request *request, size_t value_length)
{
	assert_non_null(request);
	assert_int_equal(request->id, 0x0102030405060708u);
	assert_int_equal(request->op_case, ZCACHE__V1__REQUEST__OP_PUT);
	assert_int_equal(request->put->pool, 3);
	assert_int_equal(request->put->keep_old, 1);
	assert_int_equal(request->put->key->object, 7);
	assert_int_equal(request->put->key->index, UINT64_MAX);
	assert_int_equal(request->put->value.len, value_length);
	for (size_t i = 0; i < value_length; i++)
		assert_int_equal(request->put->value.data[i], 0xa5);
}

static void
test_a_frame_split_at_every_byte(void **state)
{
	size_t packed;
	uint8_t *frame = pack_put(300, &packed);
	uint32_t length;

	(void)state;
	for (size_t have = 0; have <= packed; have++) {
		uint8_t *input = malloc(have ? have : 1);

		memcpy(input, frame, have);
		assert_int_equal(frame_parse(input, have, ZC_FRAME_MAX, &length), have == packed);
		assert_int_equal(length, have < ZC_FRAME_HEADER ? 0 : packed - ZC_FRAME_HEADER);
		free(input);
	}
	free(frame);
}

static void
test_bytes_of_the_next_frame_do_not_matter(void **state)
{
	size_t packed;
	uint8_t *frame = pack_put(40, &packed);
	uint8_t *input = malloc(packed + 3);
	uint32_t length;

	(void)state;
	memcpy(input, frame, packed);
	memset(input + packed, 0xff, 3);
	for (size_t have = packed; have <= packed + 3; have++) {
		assert_int_equal(frame_parse(input, have, ZC_FRAME_MAX, &length), 1);
		assert_int_equal(length, packed - ZC_FRAME_HEADER);
	}
	free(input);
	free(frame);
}

static void
test_the_longest_frame(void **state)
{
	size_t packed, overhead;
	uint8_t *frame = pack_put(60000, &packed);
	uint8_t *value = calloc(1, ZC_FRAME_MAX);
	uint8_t *output = malloc(ZC_FRAME_HEADER + ZC_FRAME_MAX);
	struct put_request put;
	uint32_t length;

	(void)state;
	overhead = packed - ZC_FRAME_HEADER - 60000;
	put_request_init(&put, value, ZC_FRAME_MAX - overhead);
	assert_int_equal(
		frame_pack(&put.request.base, output, ZC_FRAME_HEADER + ZC_FRAME_MAX, ZC_FRAME_MAX),
		ZC_FRAME_HEADER + ZC_FRAME_MAX);
	assert_int_equal(frame_parse(output, ZC_FRAME_HEADER + ZC_FRAME_MAX, ZC_FRAME_MAX, &length),
			 1);
	assert_int_equal(length, ZC_FRAME_MAX);
	put.put.value.len++;
	assert_int_equal(frame_pack(&put.request.base, output, SIZE_MAX, ZC_FRAME_MAX), -EMSGSIZE);
	free(output);
	free(value);
	free(frame);
}

static void
test_pack_stays_inside_its_room(void **state)
{
	uint8_t value[100] = {1};
	struct put_request put;
	size_t packed;
	uint8_t *frame = pack_put(sizeof(value), &packed);

	(void)state;
	put_request_init(&put, value, sizeof(value));
	for (size_t room = 0; room <= packed; room++) {
		uint8_t *output = malloc(room ? room : 1);
		int64_t result = frame_pack(&put.request.base, output, room, ZC_FRAME_MAX);

		assert_int_equal(result, room < packed ? -EMSGSIZE : (int64_t)packed);
		free(output);
	}
	free(frame);
}

static void
test_a_message_of_no_bytes_has_no_frame(void **state)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	uint8_t output[16];

	(void)state;
	assert_int_equal(frame_pack(&response.base, output, sizeof(output), ZC_REPLY_MAX),
			 -EMSGSIZE);
	response.id = 1;
	assert_int_equal(frame_pack(&response.base, output, sizeof(output), ZC_REPLY_MAX),
			 ZC_FRAME_HEADER + 2);
}

static Zcache__V1__Request *
unpack(struct frame_arena *arena, const uint8_t *bytes, size_t length)
{
	frame_arena_reset(arena);
	return zcache__v1__request__unpack(&arena->allocator, length, bytes);
}

static void
test_the_longest_value_fits_the_arena(void **state)
{
	struct frame_arena arena;
	size_t packed;
	uint8_t *frame = pack_put(65536, &packed);

	(void)state;
	assert_int_equal(frame_arena_init(&arena, ZC_ARENA_SIZE), 0);
	/* Again and again: a reset gives everything back. */
	for (int i = 0; i < 100; i++) {
		frame_arena_reset(&arena);
		check_put(zcache__v1__request__unpack(&arena.allocator, packed - ZC_FRAME_HEADER,
						      frame + ZC_FRAME_HEADER),
			  65536);
	}
	frame_arena_destroy(&arena);
	assert_null(arena.block);
	free(frame);
}

/* Whatever allocation is the one that fails, unpacking says so and leaves nothing behind. */
static void
test_an_arena_of_every_size(void **state)
{
	size_t packed, enough = 0;
	uint8_t *frame = pack_put(64, &packed);

	(void)state;
	for (size_t size = 1; size < 1024; size++) {
		struct frame_arena arena;
		Zcache__V1__Request *request;

		assert_int_equal(frame_arena_init(&arena, size), 0);
		request = unpack(&arena, frame + ZC_FRAME_HEADER, packed - ZC_FRAME_HEADER);
		assert_true(arena.used <= size);
		if (request) {
			check_put(request, 64);
			enough = enough ? enough : size;
		} else {
			assert_int_equal(enough, 0);
		}
		frame_arena_destroy(&arena);
	}
	assert_true(enough > 64);
	free(frame);
}

/* Fills a frame with `unit` again and again; says whether it can be unpacked. */
static int
repeated_unpacks(const void *unit, size_t unit_length)
{
	uint8_t *bytes = malloc(ZC_FRAME_MAX);
	struct frame_arena arena;
	size_t length = 0;
	int unpacked;

	for (; length + unit_length <= ZC_FRAME_MAX; length += unit_length)
		memcpy(bytes + length, unit, unit_length);
	assert_int_equal(frame_arena_init(&arena, ZC_ARENA_SIZE), 0);
	unpacked = unpack(&arena, bytes, length) != NULL;
	assert_true(arena.used <= ZC_ARENA_SIZE);
	frame_arena_destroy(&arena);
	free(bytes);
	return unpacked;
}

static void
test_many_tiny_fields_do_not_grow(void **state)
{
	static const uint8_t id[] = {0x08, 0x01};			   /* id = 1 */
	static const uint8_t empty_put[] = {0x42, 0x00};		   /* put {} */
	static const uint8_t unknown_varint[] = {0x78 | 0x80, 0x06, 0x01}; /* field 111 = 1 */
	static const uint8_t unknown_bytes[] = {0xfa, 0x06, 0x00};	   /* field 111 = "" */

	(void)state;
	assert_int_equal(repeated_unpacks(id, sizeof(id)), 0);
	assert_int_equal(repeated_unpacks(empty_put, sizeof(empty_put)), 0);
	assert_int_equal(repeated_unpacks(unknown_varint, sizeof(unknown_varint)), 0);
	assert_int_equal(repeated_unpacks(unknown_bytes, sizeof(unknown_bytes)), 0);
}

static void
test_unknown_fields_are_ignored(void **state)
{
	struct frame_arena arena;
	size_t packed;
	uint8_t *frame = pack_put(64, &packed);
	static const uint8_t extra[] = {0xfa, 0x06, 0x03, 'x', 'y', 'z', 0xf8, 0x06, 0x2a};

	(void)state;
	memcpy(frame + packed, extra, sizeof(extra));
	assert_int_equal(frame_arena_init(&arena, ZC_ARENA_SIZE), 0);
	check_put(unpack(&arena, frame + ZC_FRAME_HEADER, packed - ZC_FRAME_HEADER + sizeof(extra)),
		  64);
	frame_arena_destroy(&arena);
	free(frame);
}

static void
test_a_cut_message_never_reads_past_its_end(void **state)
{
	struct frame_arena arena;
	size_t packed;
	uint8_t *frame = pack_put(64, &packed);

	(void)state;
	assert_int_equal(frame_arena_init(&arena, ZC_ARENA_SIZE), 0);
	for (size_t length = 0; length < packed - ZC_FRAME_HEADER; length++) {
		uint8_t *bytes = malloc(length ? length : 1);
		Zcache__V1__Request *request;

		memcpy(bytes, frame + ZC_FRAME_HEADER, length);
		request = unpack(&arena, bytes, length);
		/* Cut between two fields it is a shorter message, and a put never comes out. */
		if (request)
			assert_int_equal(request->op_case, ZCACHE__V1__REQUEST__OP__NOT_SET);
		free(bytes);
	}
	frame_arena_destroy(&arena);
	free(frame);
}

static void
test_garbage_unpacks_or_not_but_never_harms(void **state)
{
	struct frame_arena arena;
	uint32_t random = SEED;

	(void)state;
	assert_int_equal(frame_arena_init(&arena, ZC_ARENA_SIZE), 0);
	for (int round = 0; round < 20000; round++) {
		size_t length = next_random(&random) % 512;
		uint8_t *bytes = malloc(length ? length : 1);

		for (size_t i = 0; i < length; i++)
			bytes[i] = (uint8_t)next_random(&random);
		unpack(&arena, bytes, length);
		assert_true(arena.used <= arena.size);
		free(bytes);
	}
	frame_arena_destroy(&arena);
}

/* Garbage rarely gets past its first byte; a damaged good message gets everywhere. */
static void
test_a_message_with_damage(void **state)
{
	struct frame_arena arena;
	uint32_t random = SEED;
	size_t packed;
	uint8_t *frame = pack_put(200, &packed);
	size_t length = packed - ZC_FRAME_HEADER;
	uint8_t *bytes = malloc(length);

	(void)state;
	assert_int_equal(frame_arena_init(&arena, ZC_ARENA_SIZE), 0);
	for (int round = 0; round < 20000; round++) {
		memcpy(bytes, frame + ZC_FRAME_HEADER, length);
		for (unsigned i = next_random(&random) % 4 + 1; i > 0; i--)
			bytes[next_random(&random) % (i > 2 ? length : 48)] =
				(uint8_t)next_random(&random);
		unpack(&arena, bytes, length);
		assert_true(arena.used <= arena.size);
	}
	frame_arena_destroy(&arena);
	free(bytes);
	free(frame);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths_in_range_want_more_bytes),
		cmocka_unit_test(test_lengths_out_of_range_are_refused),
		cmocka_unit_test(test_maximum_is_the_callers),
		cmocka_unit_test(test_a_part_of_the_header_is_no_length),
		cmocka_unit_test(test_a_frame_split_at_every_byte),
		cmocka_unit_test(test_bytes_of_the_next_frame_do_not_matter),
		cmocka_unit_test(test_the_longest_frame),
		cmocka_unit_test(test_pack_stays_inside_its_room),
		cmocka_unit_test(test_a_message_of_no_bytes_has_no_frame),
		cmocka_unit_test(test_the_longest_value_fits_the_arena),
		cmocka_unit_test(test_an_arena_of_every_size),
		cmocka_unit_test(test_many_tiny_fields_do_not_grow),
		cmocka_unit_test(test_unknown_fields_are_ignored),
		cmocka_unit_test(test_a_cut_message_never_reads_past_its_end),
		cmocka_unit_test(test_garbage_unpacks_or_not_but_never_harms),
		cmocka_unit_test(test_a_message_with_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
