/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where zcache-demo gets its pages: memory of programs it starts itself, or files.
 *
 * Each function appends pages to *memory until it is full and returns false when it found none,
 * having said why. No other process's memory is ever read. Not thread safe.
 */
#ifndef ZCACHED_BENCH_DEMO_MEMORY_H
#define ZCACHED_BENCH_DEMO_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct memory {
	char *pages;
	uint64_t count, room; /* pages of BENCH_PAGE_SIZE */
	char source[160];     /* for people */
};

bool memory_init(struct memory *memory, uint64_t room);

/*
 * Starts the programs found in `folder`, lets each build its data, and copies its resident
 * anonymous pages through /proc/PID/mem; then ends them.
 */
bool memory_of_programs(struct memory *memory, const char *folder);

/* Cuts the files under `folder` into pages. */
bool memory_of_files(struct memory *memory, const char *folder);

/* Takes the pages of a raw file. */
bool memory_of_page_file(struct memory *memory, const char *path);

#endif
