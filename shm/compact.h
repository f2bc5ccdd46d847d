/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compaction, so that memory can be given back. For each class:
 *
 * 1. It frees zspages: the objects of the emptiest go to the fullest.
 * 2. It packs: one zspage of the class stays partly filled. Its objects behind the last page that is
 *    needed go to free slots in front, of any zspage, and its tail is given back. In a small pool with
 *    many classes this is a tenth of the memory (docs/performance.md).
 *
 * One compactor at a time in a pool; the keeper is the only caller outside tests. Mechanism only: when to
 * compact is the keeper's decision (daemon/keeper.c).
 */
#ifndef ZCACHED_SHM_COMPACT_H
#define ZCACHED_SHM_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

#include "index.h"
#include "zspage.h"

struct compact_estimate {
	uint64_t zspages; /* zspages that can be freed */
	uint64_t
		moves_lower_bound; /* objects in the emptiest of that number: no algorithm can copy fewer */
	uint64_t pages;		   /* OS pages that will be given back, at least */
};

struct compact_result {
	uint64_t zspages_freed;
	uint64_t pages_freed;	 /* OS pages given back */
	uint64_t objects_moved;	 /* to free zspages */
	uint64_t objects_packed; /* to shorten the zspage that stays partly filled */
	uint64_t objects_busy;	 /* skipped: in flight or being freed */
	uint64_t bytes_copied;
};

void compact_estimate(struct allocator *allocator, struct compact_estimate *estimate);

/*
 * Compacts one class. `proceed` is called between zspages, with no lock held; compaction of the
 * class ends early when it returns false. It may sleep. Results are added to *result.
 */
typedef bool compact_proceed_fn(void *arg);
void compact_class(struct allocator *allocator, struct index *index, unsigned class,
		   compact_proceed_fn *proceed, void *arg, struct compact_result *result);

#endif
