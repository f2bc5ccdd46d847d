/* SPDX-License-Identifier: BSD-2-Clause */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *
text_count(uint64_t count, char text[TEXT_SIZE])
{
	char *at = text + TEXT_SIZE - 1;
	int digits = 0;

	*at = 0;
	do {
		if (digits && digits % 3 == 0)
			*--at = ',';
		*--at = (char)('0' + count % 10);
		count /= 10;
		digits++;
	} while (count);
	return at;
}

const char *
text_bytes(uint64_t bytes, char text[TEXT_SIZE])
{
	static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB"};
	double value = (double)bytes / 1024;
	unsigned i = 0;

	for (; value >= 1000 && i + 1 < sizeof(unit) / sizeof(unit[0]); i++)
		value /= 1024;
	snprintf(text, TEXT_SIZE, "%.1f %s", value, unit[i]);
	return text;
}

double
ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

bool
text_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *number)
{
	char *end;

	/* strtoull takes signs and blanks, which are no part of a number here. */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	return !errno && !*end && *number >= minimum && *number <= maximum;
}

void
progress(const char *what, uint64_t done, uint64_t total)
{
	if (isatty(STDERR_FILENO))
		fprintf(stderr, "\r\033[K%s %3.0f %%", what, 100 * ratio(done, total));
}

void
progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}
