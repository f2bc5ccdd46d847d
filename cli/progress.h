/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A progress bar on standard error: one line, redrawn at most ten times a second, removed at the
 * end. Where standard error is no terminal nothing is printed at all.
 *
 * For one thread.
 */
#ifndef ZCACHED_CLI_PROGRESS_H
#define ZCACHED_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
	bool terminal;
	bool drawn;
	uint64_t drawn_at; /* milliseconds, CLOCK_MONOTONIC */
};

void progress_begin(struct progress *progress);

/* Shows `done` of `total` (more than all counts as all) and, behind the bar, `text`. */
void progress_show(struct progress *progress, uint64_t done, uint64_t total, const char *text);
void progress_end(struct progress *progress);

#endif
