/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the two kinds of density measurement share: a private service that never compacts by itself,
 * filled by several clients from a corpus.
 *
 * density.c owns it; density_sweep.c is called by it.
 */
#ifndef ZCACHED_BENCH_DENSITY_H
#define ZCACHED_BENCH_DENSITY_H

#include <stdbool.h>
#include <stdint.h>

#include <zclient.h>

#include "clients.h"
#include "pages.h"
#include "service.h"

struct density {
	/* options */
	const char *path;
	const char *codec;
	uint64_t copies, seed;
	bool json, sweep;
	/* state */
	struct corpus corpus;
	struct service service;
	struct clients clients;
	uint8_t *deleted; /* by item; NULL: none is */
};

/* client_work functions; `arg` is the struct density. */
int density_store(struct client *client, uint64_t item, void *arg);
int density_verify(struct client *client, uint64_t item, void *arg); /* deleted ones: a miss */

/* The pool's statistics once they have stopped changing. Returns false, having said why. */
bool density_measure(struct density *density, struct zc_stats *stats);

/* Index and page table, in bytes for each page stored. */
double density_metadata(const struct zc_stats *stats);

/* Pages of the largest step of the sweep. */
#define DENSITY_SWEEP_LAST 1000000u

/* `density --sweep`: returns the exit status. */
int density_sweep(struct density *density);

#endif
