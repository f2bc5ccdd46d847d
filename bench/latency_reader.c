/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process that gets: never the one that stored, so nothing can come from its own memory. It is forked
 * before anybody has a connection, opens its own, and does one task after another as told through a socket pair.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "latency.h"

struct reader {
	pid_t pid;
	int fd;
};

/* In the child. */
struct reading {
	const struct latency *latency;
	struct zc *zc[2]; /* with shared memory, without */
	struct zc_pool *pool[2];
	double *each;
};

static bool
io_all(int fd, void *bytes, size_t size, bool out)
{
	char *at = bytes;

	while (size) {
		ssize_t n = out ? write(fd, at, size) : read(fd, at, size);

		if (n <= 0 && errno != EINTR)
			return false;
		if (n > 0) {
			at += n;
			size -= (size_t)n;
		}
	}
	return true;
}

static bool
is_right(const struct latency *latency, uint64_t item, const char *page, int64_t length)
{
	return length == BENCH_PAGE_SIZE &&
	       !memcmp(page, latency->pages + item * BENCH_PAGE_SIZE, BENCH_PAGE_SIZE);
}

/* One get after another. With a clock each is a sample and its bytes are compared; without, only counted. */
static void
get_each(struct reading *r, unsigned way, uint64_t count, bool clock, struct reader_result *result)
{
	const struct latency *latency = r->latency;
	static char page[BENCH_PAGE_SIZE];
	double begin = now_us();

	for (uint64_t i = 0; i < count; i++) {
		uint64_t item = latency->order[i];
		double before = clock ? now_us() : 0;
		int length = zc_get(r->pool[way], corpus_key(&latency->corpus, item), page,
				    sizeof(page));

		if (clock) {
			r->each[result->samples++] = now_us() - before;
			result->mismatches += !is_right(latency, item, page, length);
		} else {
			result->mismatches += length != BENCH_PAGE_SIZE;
		}
	}
	result->mean_us = (now_us() - begin) / (double)count;
	result->gets = count;
}

static void
get_many(struct reading *r, struct reader_result *result)
{
	static char pages[LATENCY_BATCH][BENCH_PAGE_SIZE];
	const struct latency *latency = r->latency;
	struct zc_item item[LATENCY_BATCH];
	double begin = now_us();

	for (uint64_t first = 0; first < latency->items; first += LATENCY_BATCH) {
		uint64_t left = latency->items - first;
		unsigned n = left < LATENCY_BATCH ? (unsigned)left : LATENCY_BATCH;

		for (unsigned i = 0; i < n; i++)
			item[i] = (struct zc_item){
				.key = corpus_key(&latency->corpus, latency->order[first + i]),
				.buffer = pages[i],
				.length = BENCH_PAGE_SIZE,
			};
		result->mismatches += n - (uint64_t)zc_get_many(r->pool[0], item, n);
	}
	result->mean_us = (now_us() - begin) / (double)latency->items;
	result->gets = latency->items;
}

static uint64_t
direct_gets(struct zc *zc)
{
	struct zc_paths paths = {.struct_size = sizeof(paths)};

	return zc_path_stats(zc, &paths) == 0 ? paths.direct_gets : 0;
}

static void
do_task(struct reading *r, enum reader_task task, struct reader_result *result)
{
	uint64_t before = direct_gets(r->zc[0]);

	if (task == READ_MANY)
		get_many(r, result);
	else if (task == READ_SOCKET)
		get_each(r, 1, r->latency->sample, true, result);
	else
		get_each(r, 0, r->latency->items, task == READ_EACH, result);
	result->direct_gets = direct_gets(r->zc[0]) - before;
}

static void
reader_main(const struct latency *latency, int fd)
{
	struct reading r = {.latency = latency};
	enum reader_task task;

	r.each = calloc(latency->items, sizeof(*r.each));
	for (unsigned way = 0; way < 2; way++)
		if (zc_open(latency->service.socket, way ? ZC_NO_SHM : 0, &r.zc[way]) ||
		    zc_pool_open(r.zc[way], NULL, 0, &r.pool[way]))
			_exit(1);
	while (io_all(fd, &task, sizeof(task), false)) {
		struct reader_result result = {0};

		do_task(&r, task, &result);
		if (!io_all(fd, &result, sizeof(result), true) ||
		    !io_all(fd, r.each, result.samples * sizeof(*r.each), true))
			_exit(1);
	}
	_exit(0);
}

struct reader *
reader_start(const struct latency *latency)
{
	struct reader *reader = calloc(1, sizeof(*reader));
	int fd[2];

	if (!reader || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) < 0) {
		perror("zcache-bench: latency");
		free(reader);
		return NULL;
	}
	reader->pid = fork();
	if (reader->pid == 0) {
		close(fd[0]);
		reader_main(latency, fd[1]);
	}
	close(fd[1]);
	reader->fd = fd[0];
	return reader;
}

bool
reader_run(struct reader *reader, enum reader_task task, struct reader_result *result,
	   struct samples *samples)
{
	double *each;
	bool good;

	if (!io_all(reader->fd, &task, sizeof(task), true) ||
	    !io_all(reader->fd, result, sizeof(*result), false))
		return false;
	each = calloc(result->samples + 1, sizeof(*each));
	good = io_all(reader->fd, each, result->samples * sizeof(*each), false);
	if (good && samples) {
		samples->us = realloc(samples->us,
				      (samples->count + result->samples + 1) * sizeof(*each));
		memcpy(samples->us + samples->count, each, result->samples * sizeof(*each));
		samples->count += result->samples;
	}
	free(each);
	return good;
}

void
reader_stop(struct reader **pointer)
{
	struct reader *reader = *pointer;

	*pointer = NULL;
	if (!reader)
		return;
	close(reader->fd);
	waitpid(reader->pid, NULL, 0);
	free(reader);
}
