/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcache-bench latency: what a put and a get cost, beside what the codec alone costs.
 *
 * Starts a service of its own. This process stores; another one gets (latency_reader.c). The limits
 * (latency_limit.c), the product and zram (latency_zram.c) are measured in turn in each of several rounds, in one
 * run, and the medians over the rounds are compared: only ratios of one run mean anything on a machine whose
 * speed changes. All orders are random and come from the seed. Bytes are compared in the timed single gets; the
 * gets of the mean check lengths only, so that a comparison is not counted as the product's time.
 *
 * CPU time is that of this process and of the service, a page.
 */
#include "latency.h"

#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "text.h"

/* What a round yields besides percentiles. */
#define LATENCY_VALUES(X) \
	X(compress)       \
	X(decompress)     \
	X(memcpy)         \
	X(fill)           \
	X(fill_cpu)       \
	X(put_many)       \
	X(put_many_cpu)   \
	X(put)            \
	X(get)            \
	X(get_many)       \
	X(socket_get)     \
	X(socket_put)     \
	X(zram_write)     \
	X(zram_read)

enum latency_value {
#define X(name) VALUE_##name,
	LATENCY_VALUES(X)
#undef X
	VALUES
};

struct latency_run {
	struct latency latency;
	struct limits *limits;
	struct reader *reader;
	struct zc *zc, *zc_socket;
	struct zc_pool *pool, *pool_socket;
	double round[VALUES][LATENCY_ROUNDS];
	double median[VALUES];
	struct samples get, put, socket_get, socket_put, get_compacting;
	uint64_t gets, direct_gets, mismatches;
	const char *zram_why_not;
};

double
now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double
cpu_us_self(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

double
cpu_us_process(int pid)
{
	struct timespec now;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &now))
		return 0;
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int
by_value(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

double
median(double *values, unsigned count)
{
	qsort(values, count, sizeof(*values), by_value);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

struct percentiles
percentiles_of(struct samples *samples)
{
	if (samples->count == 0)
		return (struct percentiles){0};
	qsort(samples->us, samples->count, sizeof(*samples->us), by_value);
	return (struct percentiles){samples->us[samples->count / 2],
				    samples->us[samples->count * 99 / 100],
				    samples->us[samples->count * 999 / 1000]};
}

static void
sample_add(struct samples *samples, double us)
{
	if ((samples->count & (samples->count - 1)) == 0)
		samples->us = realloc(samples->us, (samples->count * 2 + 1) * sizeof(*samples->us));
	samples->us[samples->count++] = us;
}

/* ---- what this process does: puts ---- */

/* One batch after another of all items; counts refusals as mismatches. */
static void
put_all(struct latency_run *run)
{
	struct latency *l = &run->latency;
	struct zc_item item[LATENCY_BATCH];

	for (uint64_t first = 0; first < l->items; first += LATENCY_BATCH) {
		uint64_t left = l->items - first;
		unsigned n = left < LATENCY_BATCH ? (unsigned)left : LATENCY_BATCH;

		for (unsigned i = 0; i < n; i++) {
			uint64_t number = l->order[first + i];

			item[i] = (struct zc_item){.key = corpus_key(&l->corpus, number),
						   .buffer = l->pages + number * BENCH_PAGE_SIZE,
						   .length = BENCH_PAGE_SIZE};
		}
		run->mismatches += n - (uint64_t)zc_put_many(run->pool, item, n, 0);
	}
}

static void
put_all_timed(struct latency_run *run, double *wall, double *cpu)
{
	double begin = now_us(), used = cpu_us_self() + cpu_us_process(run->latency.service.pid);

	put_all(run);
	*wall = (now_us() - begin) / (double)run->latency.items;
	*cpu = (cpu_us_self() + cpu_us_process(run->latency.service.pid) - used) /
	       (double)run->latency.items;
}

static double
put_each(struct latency_run *run, struct zc_pool *pool, struct samples *samples)
{
	struct latency *l = &run->latency;
	double begin = now_us();

	for (uint64_t i = 0; i < l->sample; i++) {
		uint64_t number = l->order[i];
		double before = now_us();

		run->mismatches +=
			zc_put(pool, corpus_key(&l->corpus, number),
			       l->pages + number * BENCH_PAGE_SIZE, BENCH_PAGE_SIZE, 0) != 0;
		sample_add(samples, now_us() - before);
	}
	return (now_us() - begin) / (double)l->sample;
}

/* ---- rounds ---- */

static bool
read_task(struct latency_run *run, enum reader_task task, double *mean, struct samples *samples)
{
	struct reader_result result;

	if (!reader_run(run->reader, task, &result, samples))
		return false;
	if (mean)
		*mean = result.mean_us;
	run->mismatches += result.mismatches;
	if (task == READ_MEAN || task == READ_EACH) {
		run->gets += result.gets;
		run->direct_gets += result.direct_gets;
	}
	return true;
}

static void
zram_values(struct latency_run *run, unsigned round)
{
	struct zram_result zram;

	zram_round(&run->latency, &zram);
	if (zram.why_not)
		run->zram_why_not = zram.why_not;
	run->round[VALUE_zram_write][round] = zram.write_us;
	run->round[VALUE_zram_read][round] = zram.read_us;
}

/* The first put of every page into an empty pool. */
static void
fill(struct latency_run *run, unsigned round)
{
	zc_flush(run->pool);
	usleep(1500000); /* the keeper gives the memory back: the next fill takes it anew */
	put_all_timed(run, &run->round[VALUE_fill][round], &run->round[VALUE_fill_cpu][round]);
}

static bool
one_round(struct latency_run *run, unsigned round)
{
	struct limit limit = limits_round(run->limits);

	run->round[VALUE_compress][round] = limit.compress_us;
	run->round[VALUE_decompress][round] = limit.decompress_us;
	run->round[VALUE_memcpy][round] = limit.memcpy_us;
	fill(run, round);
	if (!read_task(run, READ_MEAN, &run->round[VALUE_get][round], NULL) ||
	    !read_task(run, READ_MANY, &run->round[VALUE_get_many][round], NULL) ||
	    !read_task(run, READ_EACH, NULL, &run->get) ||
	    !read_task(run, READ_SOCKET, &run->round[VALUE_socket_get][round], &run->socket_get))
		return false;
	put_all_timed(run, &run->round[VALUE_put_many][round],
		      &run->round[VALUE_put_many_cpu][round]);
	run->round[VALUE_put][round] = put_each(run, run->pool, &run->put);
	run->round[VALUE_socket_put][round] = put_each(run, run->pool_socket, &run->socket_put);
	zram_values(run, round);
	return true;
}

/* Gets while compaction is at work all the time: pages are deleted and stored again beside them. */
static bool
compaction_round(struct latency_run *run)
{
	struct latency *l = &run->latency;
	struct zc_compaction state = {.struct_size = sizeof(state)};

	for (uint64_t i = 0; i < l->items; i++)
		if (l->order[i] % 5 < 3)
			zc_del(run->pool, corpus_key(&l->corpus, l->items + i)); /* misses */
	zc_compact_start(run->pool, 0, &state);
	return read_task(run, READ_EACH, NULL, &run->get_compacting);
}
