/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compaction: empties the emptiest zspages of a class into the fullest, so that whole runs can be
 * given back. One compactor at a time in a pool; the keeper is the only caller outside tests.
 *
 * Mechanism only; when to compact is the keeper's decision (daemon/keeper.c).
 */
#ifndef ZCACHED_SHM_COMPACT_H
#define ZCACHED_SHM_COMPACT_H

#include <stdbool.h>
#include <stdint.h>

#include "index.h"
#include "zspage.h"

struct compact_estimate {
	uint64_t zspages;	    /* zspages that can be freed */
	uint64_t pages;		    /* OS pages they hold */
	uint64_t moves_lower_bound; /* objects in them: no algorithm can copy fewer */
};

struct compact_result {
	uint64_t zspages_freed;
	uint64_t pages_freed; /* OS pages given back */
	uint64_t objects_moved;
	uint64_t objects_busy; /* skipped: in flight or being freed */
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
