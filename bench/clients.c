/* SPDX-License-Identifier: BSD-2-Clause */
#include "clients.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "text.h"

#define CHUNK 64u /* items taken at a time: few enough that all threads end together */

/* One clients_run. `next` and `error` are atomic; the rest does not change while threads run. */
struct run {
	const char *what;
	uint64_t first, last;
	client_work *work;
	void *arg;
	uint64_t next;
	int error;
};

struct run_thread {
	pthread_t thread;
	struct run *run;
	struct client *client;
};

unsigned
clients_default(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	if (cpus < 1)
		return 2;
	return 2 * cpus > CLIENTS_MAX ? CLIENTS_MAX : 2 * (unsigned)cpus;
}

static int
client_open(struct client *client, const char *socket)
{
	int result = zc_open(socket, 0, &client->zc);

	if (result == 0)
		result = zc_pool_open(client->zc, NULL, 0, &client->pool);
	return result;
}

bool
clients_open(struct clients *clients, const char *socket, unsigned count)
{
	clients->count = count;
	clients->client = calloc(count, sizeof(struct client));
	if (!clients->client) {
		fprintf(stderr, "no memory for %u clients\n", count);
		return false;
	}
	for (unsigned i = 0; i < count; i++) {
		int result = client_open(&clients->client[i], socket);

		if (result < 0) {
			fprintf(stderr, "cannot connect client %u to %s: %s\n", i + 1, socket,
				strerror(-result));
			return false;
		}
	}
	return true;
}

void
clients_close(struct clients *clients)
{
	for (unsigned i = 0; clients->client && i < clients->count; i++) {
		zc_pool_close(&clients->client[i].pool);
		zc_close(&clients->client[i].zc);
	}
	free(clients->client);
	clients->client = NULL;
}

/* The first error ends the run, and is the one that is told. */
static void
fail(struct run *run, struct client *client, int error)
{
	const char *text = zc_error_text(client->zc);
	int none = 0;

	if (__atomic_compare_exchange_n(&run->error, &none, error, false, __ATOMIC_RELAXED,
					__ATOMIC_RELAXED))
		fprintf(stderr, "%s: %s%s%s\n", run->what, strerror(-error), *text ? ": " : "",
			text);
}

static void *
run_thread(void *arg)
{
	struct run_thread *self = arg;
	struct run *run = self->run;
	int error = 0;

	/* Relaxed throughout: threads share nothing but the counter, and pthread_join orders what
	 * they leave behind before the main thread reads it. */
	while (!error && !__atomic_load_n(&run->error, __ATOMIC_RELAXED)) {
		uint64_t item = __atomic_fetch_add(&run->next, CHUNK, __ATOMIC_RELAXED);
		uint64_t end = item + CHUNK < run->last ? item + CHUNK : run->last;

		if (item >= run->last)
			break;
		for (; item < end && !error; item++)
			error = run->work(self->client, item, run->arg);
	}
	if (error)
		fail(run, self->client, error);
	return NULL;
}

/* Waits for a thread, telling meanwhile how far all of them are. */
static void
join_showing_progress(const struct run *run, pthread_t thread)
{
	struct timespec until;
	uint64_t next;

	do {
		next = __atomic_load_n(&run->next, __ATOMIC_RELAXED);
		progress(run->what, (next < run->last ? next : run->last) - run->first,
			 run->last - run->first);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += until.tv_nsec / 800000000;
		until.tv_nsec = (until.tv_nsec + 200000000) % 1000000000;
	} while (pthread_timedjoin_np(thread, NULL, &until) == ETIMEDOUT);
}

bool
clients_run(struct clients *clients, const char *what, uint64_t first, uint64_t last,
	    client_work *work, void *arg)
{
	struct run run = {what, first, last, work, arg, first, 0};
	struct run_thread threads[CLIENTS_MAX];
	unsigned started = 0;

	for (; started < clients->count; started++) {
		struct run_thread *thread = &threads[started];
		int error;

		thread->run = &run;
		thread->client = &clients->client[started];
		error = pthread_create(&thread->thread, NULL, run_thread, thread);
		if (error) {
			fail(&run, thread->client, -error);
			break;
		}
	}
	for (unsigned i = 0; i < started; i++)
		join_showing_progress(&run, threads[i].thread);
	progress_end();
	return !run.error;
}

uint64_t
clients_verified(const struct clients *clients)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < clients->count; i++)
		sum += clients->client[i].verified;
	return sum;
}

uint64_t
clients_mismatches(const struct clients *clients)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < clients->count; i++)
		sum += clients->client[i].mismatches;
	return sum;
}
