/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `zcache-bench latency` share: the corpus in memory, what is measured in a round, and the three
 * who measure it. Every time is in microseconds a page. See latency.c for the whole.
 */
#ifndef ZCACHED_BENCH_LATENCY_H
#define ZCACHED_BENCH_LATENCY_H

#include <stdbool.h>
#include <stdint.h>

#include <zclient.h>

#include "pages.h"
#include "service.h"

#define LATENCY_BATCH  64u
#define LATENCY_ROUNDS 64u

struct latency {
	const char *path;
	struct corpus corpus;
	uint64_t copies, items, seed;
	unsigned rounds;
	const char *codec; /* "lz4" or "zstd[:LEVEL]" */
	bool json;
	const char *plot;
	uint64_t *order; /* the random order of all gets and of the limits */
	char *pages;	 /* all items, one behind the other */
	uint64_t sample; /* items that slow ways are measured with */
	struct service service;
};

/* Times of single calls, of which percentiles are taken. */
struct samples {
	double *us;
	uint64_t count;
};

struct percentiles {
	double p50, p99, p999;
};

double now_us(void);
double cpu_us_self(void);		       /* CPU time of this process */
double cpu_us_process(int pid);		       /* of another; 0 when it cannot be read */
double median(double *values, unsigned count); /* sorts them */
struct percentiles percentiles_of(struct samples *samples); /* sorts them */

/* ---- the limits (latency_limit.c) ---- */

struct limit {
	double compress_us, decompress_us, memcpy_us;
};

struct limits; /* compressed copies of all items in a shared, touched mapping */
struct limits *limits_open(const struct latency *latency);
void limits_close(struct limits **limits);
struct limit limits_round(struct limits *limits);

/* ---- the process that gets (latency_reader.c) ---- */

enum reader_task {
	READ_MEAN,   /* zc_get of all items: the mean, without a clock between them */
	READ_EACH,   /* the same with a clock: samples */
	READ_MANY,   /* zc_get_many in batches */
	READ_SOCKET, /* zc_get of a sample with ZC_NO_SHM */
};

struct reader_result {
	double mean_us;
	uint64_t gets, direct_gets, mismatches;
	uint64_t samples; /* that follow */
};

struct reader;
/* Forks it. It opens connections of its own to the service. False after saying why. */
struct reader *reader_start(const struct latency *latency);
/* Has it do a task; adds samples of READ_EACH and READ_SOCKET to `samples` where that is not NULL. */
bool reader_run(struct reader *reader, enum reader_task task, struct reader_result *result,
		struct samples *samples);
void reader_stop(struct reader **reader);

/* ---- zram (latency_zram.c) ---- */

struct zram_result {
	double write_us, read_us;
	const char *why_not; /* NULL when it was measured */
};
void zram_round(const struct latency *latency, struct zram_result *result);

#endif
