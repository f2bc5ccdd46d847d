/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcache-bench density --sweep: what index and page table cost for each page, at every size.
 *
 * An index that grows has sizes at which it has just grown and is emptiest; one measurement at one
 * size proves nothing. So one pool is filled from 100,000 to 1,000,000 real pages and measured
 * every 10 %, and the worst step counts. All pages are compared at the end.
 */
#include "density.h"

#include <jansson.h>
#include <stdio.h>

#include "text.h"

#define FIRST_STEP   100000u
#define STEP_PERCENT 10u
#define STEPS_MAX    32u

struct sweep {
	struct zc_stats step[STEPS_MAX];
	unsigned steps;
	unsigned worst; /* its index in step[] */
};

static uint64_t
next_step(uint64_t pages)
{
	pages += pages * STEP_PERCENT / 100;
	return pages < DENSITY_SWEEP_LAST ? pages : DENSITY_SWEEP_LAST;
}

static bool
sweep_step(struct density *density, struct sweep *sweep, uint64_t first, uint64_t last)
{
	struct zc_stats *stats = &sweep->step[sweep->steps];

	if (!clients_run(&density->clients, "storing", first, last, density_store, density) ||
	    !density_measure(density, stats))
		return false;
	if (density_metadata(stats) > density_metadata(&sweep->step[sweep->worst]))
		sweep->worst = sweep->steps;
	sweep->steps++;
	return true;
}

static bool
sweep_all(struct density *density, struct sweep *sweep)
{
	uint64_t done = 0;

	for (uint64_t pages = FIRST_STEP; done < DENSITY_SWEEP_LAST; pages = next_step(pages)) {
		if (!sweep_step(density, sweep, done, pages))
			return false;
		done = pages;
	}
	return clients_run(&density->clients, "comparing", 0, done, density_verify, density);
}

static json_t *
step_json(const struct zc_stats *stats)
{
	return json_pack("{sI sI sI sf}", "pages", (json_int_t)stats->entries, "index_bytes",
			 (json_int_t)stats->index_bytes, "page_table_bytes",
			 (json_int_t)stats->control_bytes, "metadata_per_page",
			 density_metadata(stats));
}

static void
print_json(const struct density *density, const struct sweep *sweep)
{
	json_t *steps = json_array();
	json_t *json;

	for (unsigned i = 0; i < sweep->steps; i++)
		json_array_append_new(steps, step_json(&sweep->step[i]));
	json = json_pack("{so sf sI sI sI ss}", "steps", steps, "worst_metadata_per_page",
			 density_metadata(&sweep->step[sweep->worst]), "worst_pages",
			 (json_int_t)sweep->step[sweep->worst].entries, "verified_pages",
			 (json_int_t)clients_verified(&density->clients), "mismatches",
			 (json_int_t)clients_mismatches(&density->clients), "codec",
			 density->codec);
	json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
	putchar('\n');
	json_decref(json);
}

static void
print_table(const struct density *density, const struct sweep *sweep)
{
	char pages[TEXT_SIZE], index[TEXT_SIZE], table[TEXT_SIZE];

	printf("%12s %12s %12s %14s\n", "pages", "index", "page table", "metadata/page");
	for (unsigned i = 0; i < sweep->steps; i++) {
		const struct zc_stats *stats = &sweep->step[i];

		printf("%12s %12s %12s %14.2f%s\n", text_count(stats->entries, pages),
		       text_bytes(stats->index_bytes, index),
		       text_bytes(stats->control_bytes, table), density_metadata(stats),
		       i == sweep->worst ? "  worst" : "");
	}
	printf("\ncompared: %s pages, %s wrong\n",
	       text_count(clients_verified(&density->clients), pages),
	       text_count(clients_mismatches(&density->clients), table));
}

int
density_sweep(struct density *density)
{
	struct sweep sweep = {0};

	if (!sweep_all(density, &sweep))
		return 1;
	if (density->json)
		print_json(density, &sweep);
	else
		print_table(density, &sweep);
	return clients_mismatches(&density->clients) ? 1 : 0;
}
