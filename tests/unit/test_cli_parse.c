/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of zcachectl's parsers and formatters: every edge of numbers, keys, seconds and units.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "format.h"
#include "parse.h"
#include "table.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void
test_numbers(void **state)
{
	static const struct {
		const char *text;
		int rc;
		uint64_t number;
	} cases[] = {
		{"0", 0, 0},
		{"1", 0, 1},
		{"010", 0, 10},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999", -ERANGE, 0},
		{"0x0", 0, 0},
		{"0xfF", 0, 255},
		{"0XaB", 0, 0xab},
		{"0xffffffffffffffff", 0, UINT64_MAX},
		{"0x10000000000000000", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"0x", -EINVAL, 0},
		{"x1", -EINVAL, 0},
		{"0xg", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"0x-1", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{"1.0", -EINVAL, 0},
		{"1e3", -EINVAL, 0},
		{"1K", -EINVAL, 0},
		{"ff", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		uint64_t number = 4711;

		print_message("'%s'\n", cases[i].text);
		assert_int_equal(parse_u64(cases[i].text, &number), cases[i].rc);
		assert_int_equal(number, cases[i].rc == 0 ? cases[i].number : 4711);
	}
}

static void
test_keys(void **state)
{
	static const char *const bad[] = {
		"",	  "1",	   "1:",    ":1",
		":",	  "1:2:3", "1 :2",  "1: 2",
		"-1:2",	  "1:-2",  "0x:1",  "1:0x",
		"1,2",	  "1;2",   "a:b",   "1:18446744073709551616",
		"+1:2",	  "1:+2",  "1:2\n", "1::2",
		"1:0x1g",
	};
	struct zc_key key = {7, 8};

	(void)state;
	for (size_t i = 0; i < COUNT(bad); i++) {
		print_message("'%s'\n", bad[i]);
		assert_true(parse_key(bad[i], &key) < 0);
		assert_int_equal(key.object, 7);
		assert_int_equal(key.index, 8);
	}
	assert_int_equal(parse_key("0x10:20", &key), 0);
	assert_int_equal(key.object, 16);
	assert_int_equal(key.index, 20);
	assert_int_equal(parse_key("18446744073709551615:0xffffffffffffffff", &key), 0);
	assert_true(key.object == UINT64_MAX && key.index == UINT64_MAX);
}

static void
test_seconds(void **state)
{
	static const struct {
		const char *text;
		int rc;
		unsigned milliseconds;
	} cases[] = {
		{"0", 0, 0},
		{"1", 0, 1000},
		{"2.5", 0, 2500},
		{"0.001", 0, 1},
		{"0.25", 0, 250},
		{"4294967.295", 0, UINT_MAX},
		{"4294967.296", -ERANGE, 0},
		{"4294968", -ERANGE, 0},
		{"18446744073709551615", -ERANGE, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"", -EINVAL, 0},
		{".5", -EINVAL, 0},
		{"1.", -EINVAL, 0},
		{"0.0001", -EINVAL, 0},
		{"1.2.3", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"1s", -EINVAL, 0},
		{"0x1", -EINVAL, 0},
		{"inf", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		unsigned milliseconds = 4711;

		print_message("'%s'\n", cases[i].text);
		assert_int_equal(parse_seconds(cases[i].text, &milliseconds), cases[i].rc);
		assert_int_equal(milliseconds, cases[i].rc == 0 ? cases[i].milliseconds : 4711);
	}
}

static void
test_names(void **state)
{
	char name[65];
	uint32_t kind = 0;

	(void)state;
	assert_int_equal(parse_kind("cache", &kind), 0);
	assert_int_equal(kind, ZC_CACHE);
	assert_int_equal(parse_kind("store", &kind), 0);
	assert_int_equal(kind, ZC_STORE);
	assert_int_equal(parse_kind("durable", &kind), -EINVAL);
	assert_int_equal(parse_kind("", &kind), -EINVAL);

	memset(name, 'n', 64);
	name[64] = '\0';
	assert_int_equal(parse_pool_name(name), -EINVAL);
	assert_int_equal(parse_pool_name(name + 1), 0);
	assert_int_equal(parse_pool_name("x"), 0);
	assert_int_equal(parse_pool_name(""), -EINVAL);
}

static void
test_units(void **state)
{
	(void)state;
	assert_string_equal(human_bytes(0).s, "0 bytes");
	assert_string_equal(human_bytes(1023).s, "1023 bytes");
	assert_string_equal(human_bytes(1024).s, "1.0 KiB");
	assert_string_equal(human_bytes(1024ull * 1024 - 1).s, "1023.9 KiB");
	assert_string_equal(human_bytes(1024ull * 1024).s, "1.0 MiB");
	assert_string_equal(human_bytes(1536ull * 1024).s, "1.5 MiB");
	assert_string_equal(human_bytes(1ull << 63).s, "8.0 EiB");
	assert_string_equal(human_bytes(UINT64_MAX).s, "15.9 EiB");
	assert_string_equal(both_bytes(1000).s, "1000 bytes");
	assert_string_equal(both_bytes(4096).s, "4.0 KiB (4096 bytes)");
	assert_string_equal(both_bytes(UINT64_MAX).s, "15.9 EiB (18446744073709551615 bytes)");

	assert_string_equal(duration(999).s, "0 s");
	assert_string_equal(duration(61ull * 1000).s, "1 min 1 s");
	assert_string_equal(duration(3600ull * 1000).s, "1 h 0 min");
	assert_string_equal(duration(25ull * 3600ull * 1000).s, "1 d 1 h");
	assert_string_equal(duration(UINT64_MAX).s, "213503982334 d 14 h");

	assert_string_equal(ratio(5, 2).s, "2.50");
	assert_string_equal(ratio(5, 0).s, "-");
	assert_string_equal(percentage(1, 8).s, "12.5 %");
	assert_string_equal(percentage(0, 0).s, "-");
	assert_true(quotient(1, 0) < 0);
}

/* Names come from other users: nothing in them may steer a terminal or break JSON. */
static void
test_foreign_text(void **state)
{
	char text[] = "a\033[2Jb\nc\xff";

	(void)state;
	assert_string_equal(shown("plain-name_1").s, "plain-name_1");
	assert_string_equal(shown("a\033[2J\r\n\x7f\xc3\xa4").s, "a?[2J?????");
	make_printable(text);
	assert_string_equal(text, "a?[2Jb?c?");
	assert_string_equal(kind_name(ZC_DURABLE).s, "durable");
	assert_string_equal(kind_name(99).s, "kind 99");
}

static void
test_table(void **state)
{
	struct table table;
	char *text;
	size_t size;
	FILE *output = open_memstream(&text, &size);

	(void)state;
	assert_int_equal(table_begin(&table, "lrl"), 0);
	for (int i = 0; i < 6; i++)
		table_cell(&table, "%.*s", i + 1, "abcdef");
	table_cell(&table, "%s", "");
	table_cell(&table, "%d", 7);
	table_cell(&table, "%s", "");
	assert_int_equal(table_end(&table, output), 0);
	assert_int_equal(fclose(output), 0);
	assert_string_equal(text, "a        ab  abc\n"
				  "abcd  abcde  abcdef\n"
				  "          7\n");
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_seconds), cmocka_unit_test(test_names),
		cmocka_unit_test(test_units),	cmocka_unit_test(test_foreign_text),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
