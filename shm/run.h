/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Free runs: which pool pages of the data memfd belong to no zspage.
 *
 * One bit a page, 64 pages a word (a page group of the page table); a run never crosses a word, so
 * finding one is a few shifts. The lowest word with room wins, which keeps the file short; for each
 * run length a hint remembers below which word nothing is free.
 *
 * Used by zspage.c and holes.c, under the allocator's run lock (callers hold it). No system calls.
 */
#ifndef ZCACHED_SHM_RUN_H
#define ZCACHED_SHM_RUN_H

#include <stdint.h>

#include "layout.h"

struct run_map {
	uint64_t *used; /* bit set: page belongs to a zspage; `words` words, zero to begin with */
	uint32_t words;
	uint32_t words_high;		 /* words that were ever used: the file's end */
	uint32_t hint[ZC_CHAIN_MAX + 1]; /* by run length: lowest word that may have a run */
};

#define RUN_NONE UINT32_MAX

/* `pages` is rounded down to a multiple of 64. Returns 0 or -ENOMEM. */
int run_map_init(struct run_map *map, uint64_t pages);
void run_map_destroy(struct run_map *map);

/* First of `length` (1 .. ZC_CHAIN_MAX) free pages in a row, now used; RUN_NONE: there are none. */
uint32_t run_alloc(struct run_map *map, unsigned length);
void run_free(struct run_map *map, uint32_t first, unsigned length);

/*
 * Takes all free pages of a word (below map->words), so that they can be worked on, and returns their bits.
 * run_word_give gives these back. A run that is allocated meanwhile lies elsewhere.
 */
uint64_t run_word_take(struct run_map *map, uint32_t word);
void run_word_give(struct run_map *map, uint32_t word, uint64_t pages);

#endif
