/* SPDX-License-Identifier: BSD-2-Clause */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Enough to make a page unlike all others, too few to change how well it compresses (by 1.5 %). */
#define WORDS_CHANGED 3

static bool
map_file(struct corpus *corpus, int fd, const char *path)
{
	struct stat st;
	void *pages;

	if (fstat(fd, &st) < 0 || st.st_size < BENCH_PAGE_SIZE) {
		fprintf(stderr, "%s: holds no page of %u bytes\n", path, BENCH_PAGE_SIZE);
		return false;
	}
	corpus->count = (uint64_t)st.st_size / BENCH_PAGE_SIZE;
	pages = mmap(NULL, corpus->count * BENCH_PAGE_SIZE, PROT_READ, MAP_PRIVATE, fd, 0);
	if (pages == MAP_FAILED) {
		fprintf(stderr, "%s: cannot be mapped: %s\n", path, strerror(errno));
		return false;
	}
	corpus->pages = pages;
	return true;
}

bool
corpus_open(struct corpus *corpus, const char *path, uint64_t seed)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool mapped;

	*corpus = (struct corpus){.seed = seed};
	if (fd < 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return false;
	}
	mapped = map_file(corpus, fd, path);
	close(fd);
	return mapped;
}

void
corpus_close(struct corpus *corpus)
{
	if (corpus->pages)
		munmap((void *)corpus->pages, corpus->count * BENCH_PAGE_SIZE);
	corpus->pages = NULL;
}

void
corpus_page(const struct corpus *corpus, uint64_t item, void *page)
{
	uint64_t state = corpus->seed ^ (item + 1) * 0x9e3779b97f4a7c15ULL;

	memcpy(page, corpus->pages + item % corpus->count * BENCH_PAGE_SIZE, BENCH_PAGE_SIZE);
	if (item < corpus->count)
		return;
	for (int i = 0; i < WORDS_CHANGED; i++) {
		char *at = (char *)page + random_next(&state) % (BENCH_PAGE_SIZE / 8) * 8;
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		word ^= random_next(&state);
		memcpy(at, &word, sizeof(word));
	}
}

zc_key
corpus_key(const struct corpus *corpus, uint64_t item)
{
	return (zc_key){.object = item / corpus->count, .index = item % corpus->count};
}

uint64_t
random_next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void
random_order(uint64_t seed, uint64_t *order, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t other = random_next(&seed) % (i + 1);

		order[i] = order[other];
		order[other] = i;
	}
}
