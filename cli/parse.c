/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strict parsers of what a user types; parse.h has the contract. strtoull and its family are not
 * used: they skip spaces and accept signs.
 */
#include "parse.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

static int
digit_value(char c, unsigned base)
{
	unsigned value;

	if (c >= '0' && c <= '9')
		value = (unsigned)(c - '0');
	else if (c >= 'a' && c <= 'f')
		value = (unsigned)(c - 'a') + 10;
	else if (c >= 'A' && c <= 'F')
		value = (unsigned)(c - 'A') + 10;
	else
		return -1;
	return value < base ? (int)value : -1;
}

/* Reads every one of the `length` bytes as a digit, at least one. */
static int
parse_digits(const char *text, size_t length, unsigned base, uint64_t *out)
{
	uint64_t number = 0;

	if (length == 0)
		return -EINVAL;
	for (size_t i = 0; i < length; i++) {
		int digit = digit_value(text[i], base);

		if (digit < 0)
			return -EINVAL;
		if (__builtin_mul_overflow(number, base, &number) ||
		    __builtin_add_overflow(number, (unsigned)digit, &number))
			return -ERANGE;
	}
	*out = number;
	return 0;
}

static int
parse_number(const char *text, size_t length, uint64_t *out)
{
	if (length > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
		return parse_digits(text + 2, length - 2, 16, out);
	return parse_digits(text, length, 10, out);
}

int
parse_u64(const char *text, uint64_t *out)
{
	return parse_number(text, strlen(text), out);
}

int
parse_key(const char *text, struct zc_key *out)
{
	const char *colon = strchr(text, ':');
	struct zc_key key;
	int rc;

	if (!colon)
		return -EINVAL;
	rc = parse_number(text, (size_t)(colon - text), &key.object);
	if (rc == 0)
		rc = parse_u64(colon + 1, &key.index);
	if (rc == 0)
		*out = key;
	return rc;
}

int
parse_seconds(const char *text, unsigned *milliseconds)
{
	const char *point = strchrnul(text, '.');
	uint64_t seconds;
	uint64_t thousandths = 0;
	int rc = parse_digits(text, (size_t)(point - text), 10, &seconds);

	if (rc == 0 && *point == '.') {
		size_t decimals = strlen(point + 1);

		if (decimals > 3)
			return -EINVAL;
		rc = parse_digits(point + 1, decimals, 10, &thousandths);
		for (; decimals < 3; decimals++)
			thousandths *= 10;
	}
	if (rc < 0)
		return rc;
	if (seconds > (UINT_MAX - thousandths) / 1000)
		return -ERANGE;
	*milliseconds = (unsigned)(seconds * 1000 + thousandths);
	return 0;
}

int
parse_kind(const char *text, uint32_t *kind)
{
	if (strcmp(text, "cache") == 0)
		*kind = ZC_CACHE;
	else if (strcmp(text, "store") == 0)
		*kind = ZC_STORE;
	else
		return -EINVAL;
	return 0;
}

int
parse_pool_name(const char *text)
{
	size_t length = strlen(text);

	return length > 0 && length < sizeof(((struct zc_pool_info *)0)->name) ? 0 : -EINVAL;
}
