/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sizes as people write them; size.h has the contract. strtoull is of no use here: it takes signs,
 * spaces and 0x, and wraps negative numbers.
 */
#include "size.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char units[] = "KMGT";

/* Reads digits; *end is behind them. 0, -EINVAL (no digit), -ERANGE. */
static int
digits_parse(const char *text, const char **end, uint64_t *number)
{
	uint64_t value = 0;
	int result = 0;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	for (; *text >= '0' && *text <= '9'; text++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
			result = -ERANGE;
	*end = text;
	*number = value;
	return result;
}

/* The factor that a suffix stands for; 0: no such suffix. */
static uint64_t
suffix_factor(const char *suffix)
{
	const char *unit;

	if (!*suffix)
		return 1;
	unit = strchr(units, *suffix);
	if (!unit || (strcmp(suffix + 1, "") != 0 && strcmp(suffix + 1, "B") != 0 &&
		      strcmp(suffix + 1, "iB") != 0))
		return 0;
	return 1ULL << 10 * (unit - units + 1);
}

uint64_t
size_of_ram(void)
{
	return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

int
size_parse(const char *text, uint64_t *bytes)
{
	const char *suffix;
	uint64_t number = 0, factor;
	int result = digits_parse(text, &suffix, &number);

	if (result == -EINVAL)
		return -EINVAL;
	if (strcmp(suffix, "%") == 0) {
		if (result < 0 || number > 100)
			return -ERANGE;
		*bytes = size_of_ram() / 100 * number;
		return 0;
	}
	factor = suffix_factor(suffix);
	if (factor == 0)
		return -EINVAL;
	if (result < 0 || __builtin_mul_overflow(number, factor, &number))
		return -ERANGE;
	*bytes = number;
	return 0;
}

int
size_parse_option(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *bytes,
		  char *why, size_t why_size)
{
	char low[SIZE_TEXT], high[SIZE_TEXT];
	uint64_t value = 0;
	int result = size_parse(text, &value);

	if (result == -EINVAL) {
		snprintf(why, why_size, "%s: '%.40s' is not a size; accepted: %s", option, text,
			 SIZE_ACCEPTED);
		return result;
	}
	if (result < 0 || value < min || value > max) {
		snprintf(why, why_size, "%s: '%.40s' is out of range; accepted: %s to %s", option,
			 text, size_format(min, low), size_format(max, high));
		return -ERANGE;
	}
	*bytes = value;
	return 0;
}

int
number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	const char *end;
	uint64_t value = 0;
	int result = digits_parse(text, &end, &value);

	if (result == -EINVAL || *end)
		return -EINVAL;
	if (result < 0 || value < min || value > max)
		return -ERANGE;
	*number = value;
	return 0;
}

const char *
size_format(uint64_t bytes, char text[SIZE_TEXT])
{
	size_t unit = 0;

	while (bytes && bytes % 1024 == 0 && unit < strlen(units)) {
		bytes /= 1024;
		unit++;
	}
	if (unit)
		snprintf(text, SIZE_TEXT, "%" PRIu64 "%c", bytes, units[unit - 1]);
	else
		snprintf(text, SIZE_TEXT, "%" PRIu64, bytes);
	return text;
}
