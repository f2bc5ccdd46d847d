/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Free runs, see run.h. Called by zspage.c under the run lock.
 *
 * Cost: the words from a hint up to the first that has the run, at most those below the file's end
 * (the first word behind it is empty). A hint rises as words are found without a run, and falls
 * only to a word that has one.
 *
 * Left out: a summary of the words. At 64 GiB of 4 KiB pages the map is 2 MiB, and full words
 * are skipped at a load and a compare each.
 */
#include "run.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define ALL_USED UINT64_MAX

static uint64_t
run_mask(unsigned first, unsigned length)
{
	return ((1ULL << length) - 1) << first;
}

/*
 * Bit i of the result: bits i .. i + length - 1 of `free` are all set. None crosses the word's
 * end, since zeros are shifted in there.
 */
static uint64_t
run_starts(uint64_t free, unsigned length)
{
	unsigned have = 1;

	while (have < length && free) {
		unsigned more = have < length - have ? have : length - have;

		free &= free >> more;
		have += more;
	}
	return free;
}

/* Length of the longest run of free pages, as far as ZC_CHAIN_MAX. */
static unsigned
longest_run(uint64_t free)
{
	unsigned length = 0;

	while (free && length < ZC_CHAIN_MAX) {
		free &= free >> 1;
		length++;
	}
	return length;
}

int
run_map_init(struct run_map *map, uint64_t pages)
{
	uint64_t words = pages / ZC_GROUP_PAGES;

	*map = (struct run_map){0};
	if (words == 0)
		return 0;
	if (words > RUN_NONE / ZC_GROUP_PAGES) /* page numbers are 32 bits */
		return -ENOMEM;
	map->used = calloc(words, sizeof(*map->used));
	if (!map->used)
		return -ENOMEM;
	map->words = (uint32_t)words;
	return 0;
}

void
run_map_destroy(struct run_map *map)
{
	free(map->used);
	*map = (struct run_map){0};
}

/* Lowest word with a run of `length`, or map->words. */
static uint32_t
find_word(const struct run_map *map, unsigned length)
{
	uint32_t word = map->hint[length];

	while (word < map->words &&
	       (map->used[word] == ALL_USED || !run_starts(~map->used[word], length)))
		word++;
	return word;
}

/* No word below `word` has a run of `length`, hence none has a longer one. */
static void
raise_hints(struct run_map *map, unsigned length, uint32_t word)
{
	for (; length <= ZC_CHAIN_MAX && map->hint[length] < word; length++)
		map->hint[length] = word;
}

/* Word `word` has runs of up to `length` now. */
static void
lower_hints(struct run_map *map, unsigned length, uint32_t word)
{
	for (; length > 0; length--)
		if (map->hint[length] > word)
			map->hint[length] = word;
}

uint32_t
run_alloc(struct run_map *map, unsigned length)
{
	uint32_t word;
	unsigned first;

	assert(length >= 1 && length <= ZC_CHAIN_MAX);
	word = find_word(map, length);
	raise_hints(map, length, word);
	if (word == map->words)
		return RUN_NONE;
	first = (unsigned)__builtin_ctzll(run_starts(~map->used[word], length));
	map->used[word] |= run_mask(first, length);
	if (map->words_high <= word)
		map->words_high = word + 1;
	return word * ZC_GROUP_PAGES + first;
}

void
run_free(struct run_map *map, uint32_t first, unsigned length)
{
	assert(length >= 1 && length <= ZC_CHAIN_MAX);
	assert(first % ZC_GROUP_PAGES + length <= ZC_GROUP_PAGES);
	run_word_give(map, first / ZC_GROUP_PAGES, run_mask(first % ZC_GROUP_PAGES, length));
}

uint64_t
run_word_take(struct run_map *map, uint32_t word)
{
	uint64_t pages = ~map->used[word];

	assert(word < map->words);
	map->used[word] = ALL_USED;
	return pages;
}

void
run_word_give(struct run_map *map, uint32_t word, uint64_t pages)
{
	assert(word < map->words);
	assert((map->used[word] & pages) == pages);
	map->used[word] &= ~pages;
	lower_hints(map, longest_run(~map->used[word]), word);
}
