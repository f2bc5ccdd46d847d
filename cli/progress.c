/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A progress bar on standard error; progress.h has the contract.
 */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define REDRAW_MS	100
#define BAR_WIDTH	30u
#define COLUMNS_DEFAULT 80u
#define COLUMNS_MAX	240u

static uint64_t
now_milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static unsigned
terminal_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return COLUMNS_DEFAULT;
	return size.ws_col < COLUMNS_MAX ? size.ws_col : COLUMNS_MAX;
}

static void
draw(uint64_t done, uint64_t total, const char *text)
{
	double share = done < total ? (double)done / (double)total : done > 0;
	unsigned filled = (unsigned)(share * BAR_WIDTH);
	char bar[BAR_WIDTH + 1];
	char line[COLUMNS_MAX + 1];
	size_t room = terminal_columns(); /* with the zero: the last column would wrap */

	memset(bar, '.', BAR_WIDTH);
	memset(bar, '#', filled);
	bar[BAR_WIDTH] = '\0';
	snprintf(line, room, "[%s] %3.0f %%  %s", bar, share * 100.0, text);
	fprintf(stderr, "\r%s\033[K", line);
	fflush(stderr);
}

void
progress_begin(struct progress *progress)
{
	memset(progress, 0, sizeof(*progress));
	progress->terminal = isatty(STDERR_FILENO);
}

void
progress_show(struct progress *progress, uint64_t done, uint64_t total, const char *text)
{
	uint64_t now;

	if (!progress->terminal)
		return;
	now = now_milliseconds();
	if (progress->drawn && now - progress->drawn_at < REDRAW_MS)
		return;
	draw(done, total, text);
	progress->drawn = true;
	progress->drawn_at = now;
}

void
progress_end(struct progress *progress)
{
	if (progress->drawn)
		fputs("\r\033[K", stderr);
	progress->drawn = false;
}
