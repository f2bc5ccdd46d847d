/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The limits: what the codec costs by itself, on the same pages in the same random order. Compressed bytes are
 * read from a shared mapping as large as what the pool holds and touched before, so that caches and TLB
 * have the same work as with the pool.
 */
#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "latency.h"

struct limits {
	const struct latency *latency;
	char *stored; /* compressed items, one behind the other, as in a pool */
	uint64_t *offset;
	uint32_t *length;
	uint64_t size;
	int level; /* 0: lz4 */
	ZSTD_CCtx *compress;
	ZSTD_DCtx *decompress;
};

static uint32_t
compress(struct limits *limits, const char *page, char *to)
{
	size_t n;

	if (limits->level == 0)
		return (uint32_t)LZ4_compress_default(page, to, BENCH_PAGE_SIZE,
						      LZ4_COMPRESSBOUND(BENCH_PAGE_SIZE));
	n = ZSTD_compressCCtx(limits->compress, to, ZSTD_COMPRESSBOUND(BENCH_PAGE_SIZE), page,
			      BENCH_PAGE_SIZE, limits->level);
	return (uint32_t)n;
}

static void
decompress(struct limits *limits, uint64_t item, char *to)
{
	const char *from = limits->stored + limits->offset[item];

	if (limits->level == 0)
		LZ4_decompress_safe(from, to, (int)limits->length[item], BENCH_PAGE_SIZE);
	else
		ZSTD_decompressDCtx(limits->decompress, to, BENCH_PAGE_SIZE, from,
				    limits->length[item]);
}

static int
codec_level(const char *codec)
{
	if (!strcmp(codec, "lz4"))
		return 0;
	return strchr(codec, ':') ? atoi(strchr(codec, ':') + 1) : 1;
}

struct limits *
limits_open(const struct latency *latency)
{
	struct limits *limits = calloc(1, sizeof(*limits));
	uint64_t used = 0;

	limits->latency = latency;
	limits->level = codec_level(latency->codec);
	limits->compress = ZSTD_createCCtx();
	limits->decompress = ZSTD_createDCtx();
	limits->offset = calloc(latency->items, sizeof(*limits->offset));
	limits->length = calloc(latency->items, sizeof(*limits->length));
	limits->size = latency->items * 2 * BENCH_PAGE_SIZE;
	limits->stored = mmap(NULL, limits->size, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (limits->stored == MAP_FAILED)
		abort();
	for (uint64_t item = 0; item < latency->items; item++) {
		limits->offset[item] = used;
		limits->length[item] = compress(limits, latency->pages + item * BENCH_PAGE_SIZE,
						limits->stored + used);
		used += (limits->length[item] + 15) / 16 * 16;
	}
	return limits;
}

void
limits_close(struct limits **pointer)
{
	struct limits *limits = *pointer;

	*pointer = NULL;
	munmap(limits->stored, limits->size);
	ZSTD_freeCCtx(limits->compress);
	ZSTD_freeDCtx(limits->decompress);
	free(limits->offset);
	free(limits->length);
	free(limits);
}

struct limit
limits_round(struct limits *limits)
{
	static char page[2 * BENCH_PAGE_SIZE];
	const struct latency *latency = limits->latency;
	struct limit limit;
	double times[4];

	times[0] = now_us();
	for (uint64_t i = 0; i < latency->items; i++)
		compress(limits, latency->pages + latency->order[i] * BENCH_PAGE_SIZE, page);
	times[1] = now_us();
	for (uint64_t i = 0; i < latency->items; i++)
		decompress(limits, latency->order[i], page);
	times[2] = now_us();
	for (uint64_t i = 0; i < latency->items; i++) {
		memcpy(page, latency->pages + latency->order[i] * BENCH_PAGE_SIZE, BENCH_PAGE_SIZE);
		__asm__ volatile("" : : "r"(page) : "memory");
	}
	times[3] = now_us();
	limit.compress_us = (times[1] - times[0]) / (double)latency->items;
	limit.decompress_us = (times[2] - times[1]) / (double)latency->items;
	limit.memcpy_us = (times[3] - times[2]) / (double)latency->items;
	return limit;
}
