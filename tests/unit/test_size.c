/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of daemon/size.c: what is a size, what is not, and what is said about it (fault B15). */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "size.h"

#define UNTOUCHED 0x1234567812345678u

static void
test_good_sizes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {
		{"0", 0},
		{"1", 1},
		{"4095", 4095},
		{"010", 10}, /* decimal, whatever it looks like */
		{"4K", 4096},
		{"4KB", 4096},
		{"4KiB", 4096},
		{"10M", 10u << 20},
		{"10G", 10ull << 30},
		{"10GiB", 10ull << 30},
		{"1T", 1ull << 40},
		{"16777215T", 16777215ull << 40},
		{"18446744073709551615", UINT64_MAX},
		{"00000000000000000000000001", 1},
		{"0%", 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t bytes = UNTOUCHED;

		assert_int_equal(size_parse(good[i].text, &bytes), 0);
		assert_true(bytes == good[i].bytes);
	}
}

static void
test_bad_sizes(void **state)
{
	static const char *const bad[] = {
		"",    "-1",   "+1",  " 10",  "10 ",  "1e3",  "0x10",	"1.5G", "K",   "%",
		"10k", "10g",  "10B", "10b",  "10KK", "10Ki", "10i",	"10iB", "10P", "10KiBB",
		"1_0", "10%%", "1,0", "10\n", "\t1",  "1-1",  "10MiBx", "nan",	"٣",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint64_t bytes = UNTOUCHED;

		assert_int_equal(size_parse(bad[i], &bytes), -EINVAL);
		assert_true(bytes == UNTOUCHED);
	}
}

static void
test_sizes_out_of_range(void **state)
{
	static const char *const big[] = {
		"18446744073709551616",
		"99999999999999999999999999999999",
		"18014398509481984K",
		"16777216T",
		"99999999T",
		"101%",
		"18446744073709551617%",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(big) / sizeof(big[0]); i++) {
		uint64_t bytes = UNTOUCHED;

		assert_int_equal(size_parse(big[i], &bytes), -ERANGE);
		assert_true(bytes == UNTOUCHED);
	}
}

static void
test_share_of_ram(void **state)
{
	uint64_t all = 0, quarter = 0;

	(void)state;
	assert_int_equal(size_parse("100%", &all), 0);
	assert_int_equal(size_parse("25%", &quarter), 0);
	assert_true(all > 0 && all <= size_of_ram() && size_of_ram() - all < 100);
	assert_true(quarter / 25 == all / 100);
}

static void
test_options_say_what_is_wrong(void **state)
{
	uint64_t bytes = UNTOUCHED;
	char why[200];

	(void)state;
	assert_int_equal(size_parse_option("--limit", "1e3", 1, 10, &bytes, why, sizeof(why)),
			 -EINVAL);
	assert_non_null(strstr(why, "--limit"));
	assert_non_null(strstr(why, "'1e3'"));
	assert_non_null(strstr(why, "%"));
	assert_int_equal(
		size_parse_option("--limit", "8K", 4096, 1u << 20, &bytes, why, sizeof(why)), 0);
	assert_true(bytes == 8192);
	assert_int_equal(
		size_parse_option("--limit", "2M", 4096, 1u << 20, &bytes, why, sizeof(why)),
		-ERANGE);
	assert_non_null(strstr(why, "4K to 1M"));
	assert_int_equal(
		size_parse_option("--limit", "4095", 4096, 1u << 20, &bytes, why, sizeof(why)),
		-ERANGE);
	assert_true(bytes == 8192);
	/* A text of any length makes one short line. */
	memset(why, 'x', sizeof(why));
	assert_int_equal(
		size_parse_option("--limit",
				  "111111111111111111111111111111111111111111111111111111111111111"
				  "111111111111111111111111111111111111111111111111111111111111111",
				  1, 10, &bytes, why, 60),
		-ERANGE);
	assert_true(strlen(why) < 60);
}

static void
test_numbers(void **state)
{
	uint64_t number = UNTOUCHED;

	(void)state;
	assert_int_equal(number_parse("12", 1, 20, &number), 0);
	assert_true(number == 12);
	assert_int_equal(number_parse("0", 1, 20, &number), -ERANGE);
	assert_int_equal(number_parse("21", 1, 20, &number), -ERANGE);
	assert_int_equal(number_parse("18446744073709551616", 0, UINT64_MAX, &number), -ERANGE);
	assert_int_equal(number_parse("12K", 1, 20, &number), -EINVAL);
	assert_int_equal(number_parse("-1", 0, UINT64_MAX, &number), -EINVAL);
	assert_int_equal(number_parse("", 0, UINT64_MAX, &number), -EINVAL);
	assert_true(number == 12);
}

static void
test_format(void **state)
{
	char text[SIZE_TEXT];

	(void)state;
	assert_string_equal(size_format(0, text), "0");
	assert_string_equal(size_format(1023, text), "1023");
	assert_string_equal(size_format(1024, text), "1K");
	assert_string_equal(size_format(65537, text), "65537");
	assert_string_equal(size_format(64u << 20, text), "64M");
	assert_string_equal(size_format(1ull << 50, text), "1024T");
	assert_string_equal(size_format(UINT64_MAX, text), "18446744073709551615");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good_sizes),
		cmocka_unit_test(test_bad_sizes),
		cmocka_unit_test(test_sizes_out_of_range),
		cmocka_unit_test(test_share_of_ram),
		cmocka_unit_test(test_options_say_what_is_wrong),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
