/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers and names as text for people; format.h has the contract.
 */
#include "format.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <zclient.h>

struct text
human_bytes(uint64_t bytes)
{
	static const char units[][4] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	struct text text;
	unsigned unit = 0;
	uint64_t tenths;

	if (bytes < 1024) {
		snprintf(text.s, sizeof(text.s), "%" PRIu64 " bytes", bytes);
		return text;
	}
	while (bytes >> 10 >= 1024) {
		bytes >>= 10;
		unit++;
	}
	tenths = (bytes & 1023) * 10 >> 10;
	snprintf(text.s, sizeof(text.s), "%" PRIu64 ".%" PRIu64 " %s", bytes >> 10, tenths,
		 units[unit]);
	return text;
}

struct text
both_bytes(uint64_t bytes)
{
	struct text text = human_bytes(bytes);
	size_t length = strlen(text.s);

	if (bytes >= 1024)
		snprintf(text.s + length, sizeof(text.s) - length, " (%" PRIu64 " bytes)", bytes);
	return text;
}

struct text
duration(uint64_t milliseconds)
{
	uint64_t seconds = milliseconds / 1000;
	uint64_t minutes = seconds / 60;
	uint64_t hours = minutes / 60;
	struct text text;

	if (hours >= 24)
		snprintf(text.s, sizeof(text.s), "%" PRIu64 " d %" PRIu64 " h", hours / 24,
			 hours % 24);
	else if (hours > 0)
		snprintf(text.s, sizeof(text.s), "%" PRIu64 " h %" PRIu64 " min", hours,
			 minutes % 60);
	else if (minutes > 0)
		snprintf(text.s, sizeof(text.s), "%" PRIu64 " min %" PRIu64 " s", minutes,
			 seconds % 60);
	else
		snprintf(text.s, sizeof(text.s), "%" PRIu64 " s", seconds);
	return text;
}

double
quotient(uint64_t part, uint64_t whole)
{
	return whole > 0 ? (double)part / (double)whole : -1.0;
}

struct text
ratio(uint64_t part, uint64_t whole)
{
	struct text text = {"-"};

	if (whole > 0)
		snprintf(text.s, sizeof(text.s), "%.2f", quotient(part, whole));
	return text;
}

struct text
percentage(uint64_t part, uint64_t whole)
{
	struct text text = {"-"};

	if (whole > 0)
		snprintf(text.s, sizeof(text.s), "%.1f %%", quotient(part, whole) * 100.0);
	return text;
}

void
make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

struct text
shown(const char *text)
{
	struct text copy;

	snprintf(copy.s, sizeof(copy.s), "%s", text);
	make_printable(copy.s);
	return copy;
}

struct text
kind_name(uint32_t kind)
{
	struct text text;

	switch (kind) {
	case ZC_CACHE:
		return shown("cache");
	case ZC_STORE:
		return shown("store");
	case ZC_DURABLE:
		return shown("durable");
	}
	snprintf(text.s, sizeof(text.s), "kind %" PRIu32, kind);
	return text;
}
