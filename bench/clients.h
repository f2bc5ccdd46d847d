/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several clients at once: threads with a connection each, which share out a range of work.
 *
 * Used by subcommands of zcache-bench to load, check and empty a pool as fast as the service takes
 * it. clients_* are for the main thread; a work function runs in all client threads at once and
 * touches only its own struct client and what it knows to be its item's.
 */
#ifndef ZCACHED_BENCH_CLIENTS_H
#define ZCACHED_BENCH_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <zclient.h>

#include "pages.h"

#define CLIENTS_MAX 64u

struct client {
	struct zc *zc;
	struct zc_pool *pool; /* "default" */
	uint64_t verified, mismatches;
	char page[BENCH_PAGE_SIZE], value[BENCH_PAGE_SIZE];
};

struct clients {
	unsigned count;
	struct client *client; /* `count` of them */
};

/* Twice as many as CPUs, so that each CPU has one to serve while another waits. */
unsigned clients_default(void);

/* Connects. On failure says why and returns false. */
bool clients_open(struct clients *clients, const char *socket, unsigned count);
void clients_close(struct clients *clients);

/* Does one item. Returns 0, or a negative errno, which ends the run. */
typedef int client_work(struct client *client, uint64_t item, void *arg);

/*
 * Does the items first .. last - 1, in chunks, in no particular order, and shows progress as
 * `what`. Returns false, having said why, when one failed.
 */
bool clients_run(struct clients *clients, const char *what, uint64_t first, uint64_t last,
		 client_work *work, void *arg);

/* Totals over all clients. */
uint64_t clients_verified(const struct clients *clients);
uint64_t clients_mismatches(const struct clients *clients);

#endif
