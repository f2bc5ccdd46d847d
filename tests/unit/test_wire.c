/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of daemon/wire.c: zero bytes in names, and bytes that are cut anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire.h"

#define STATS 14u

/* id = 7, then field 14 { field 1: text of `length` bytes }. */
static size_t
make_request(uint8_t *request, const char *text, uint8_t length)
{
	const uint8_t head[] = {0x08, 0x07, STATS << 3 | 2, (uint8_t)(length + 2), 0x0a, length};

	memcpy(request, head, sizeof(head));
	memcpy(request + sizeof(head), text, length);
	return sizeof(head) + length;
}

static void
test_zero_bytes_are_found(void **state)
{
	uint8_t request[64];
	size_t size = make_request(request, "a\0b", 3);

	(void)state;
	assert_true(wire_text_has_zero(request, size, STATS, WIRE_NAME_FIELD));
	assert_false(wire_text_has_zero(request, size, STATS + 1, WIRE_NAME_FIELD));
	assert_false(wire_text_has_zero(request, size, STATS, WIRE_NAME_FIELD + 1));
	size = make_request(request, "ab\0", 3);
	assert_true(wire_text_has_zero(request, size, STATS, WIRE_NAME_FIELD));
	size = make_request(request, "default", 7);
	assert_false(wire_text_has_zero(request, size, STATS, WIRE_NAME_FIELD));
	size = make_request(request, "", 0);
	assert_false(wire_text_has_zero(request, size, STATS, WIRE_NAME_FIELD));
}

static void
test_other_fields_are_stepped_over(void **state)
{
	/* A varint, 64 bits, 32 bits, bytes with zeros; then the name. */
	static const uint8_t request[] = {0x08, 0x80, 0x01, 0x71, 0,	0, 0,	0, 0,
					  0,	0,    0,    0x75, 0,	0, 0,	0, 0x7a,
					  1,	0,    0x72, 4,	  0x0a, 2, 'x', 0};

	(void)state;
	assert_true(wire_text_has_zero(request, sizeof(request), STATS, WIRE_NAME_FIELD));
	assert_false(wire_text_has_zero(request, sizeof(request) - 6, STATS, WIRE_NAME_FIELD));
}

/* The decoder has refused these before; all the same nothing is read past the end. */
static void
test_bytes_that_end_early(void **state)
{
	uint8_t request[64];
	size_t size = make_request(request, "a\0b", 3);

	(void)state;
	for (size_t cut = 0; cut < size; cut++) {
		uint8_t *exact = malloc(cut ? cut : 1);

		memcpy(exact, request, cut);
		wire_text_has_zero(exact, cut, STATS, WIRE_NAME_FIELD);
		for (size_t i = 0; i < cut; i++) {
			exact[i] = 0xff;
			wire_text_has_zero(exact, cut, STATS, WIRE_NAME_FIELD);
		}
		free(exact);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zero_bytes_are_found),
		cmocka_unit_test(test_other_fields_are_stepped_over),
		cmocka_unit_test(test_bytes_that_end_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
