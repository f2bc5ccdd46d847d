/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages to store: a raw file of 4 KiB pages, and as many distinct copies of it as asked for.
 *
 * Used by every subcommand of zcache-bench. Item i of a corpus of n pages is page i % n of copy
 * i / n. Copy 0 is the file itself; in every other copy a few words of each page are changed, as a
 * function of seed and item alone, so that no two pages are equal and any of them can be made again
 * to compare with. Immutable after opening, hence thread safe.
 */
#ifndef ZCACHED_BENCH_PAGES_H
#define ZCACHED_BENCH_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <zclient.h>

#define BENCH_PAGE_SIZE 4096u

struct corpus {
	const char *pages;
	uint64_t count; /* pages in the file */
	uint64_t seed;
};

/* Maps the file. On failure says why and returns false. A rest shorter than a page is ignored. */
bool corpus_open(struct corpus *corpus, const char *path, uint64_t seed);
void corpus_close(struct corpus *corpus);

/* Writes item `item` to `page`, BENCH_PAGE_SIZE bytes. */
void corpus_page(const struct corpus *corpus, uint64_t item, void *page);

/* The key an item is stored under: (copy, page). */
zc_key corpus_key(const struct corpus *corpus, uint64_t item);

/* Random numbers that depend on nothing but the state: the next one of splitmix64. */
uint64_t random_next(uint64_t *state);

/* Fills order[0 .. count) with a random permutation of 0 .. count - 1. */
void random_order(uint64_t seed, uint64_t *order, uint64_t count);

#endif
