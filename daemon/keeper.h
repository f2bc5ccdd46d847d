/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper: one thread that gives memory back and compacts, and sleeps without a timer while
 * nothing changes.
 *
 * Policy is here, mechanism in shm/ (zs_trim, compact_class). A free anywhere marks its pool dirty
 * and wakes a resting keeper, once. While pools are dirty it makes a pass over them every
 * KEEPER_PERIOD_MS; one pass after the last free a pool is trimmed for good, so a second after it
 * nothing that can be given back is kept. A pool is compacted by itself when that frees a sixteenth
 * of its data and 256 KiB, over what the last compaction had to leave; on command at any gain.
 *
 * The keeper runs at normal priority, on purpose. It takes class and shard locks that workers wait
 * for; a thread of low priority that loses its CPU with a lock held stalls every worker for as long
 * as anybody keeps the CPUs busy. It yields by sleeping instead, between zspages, with no lock
 * held: twice as long as it worked while any worker is busy.
 */
#ifndef ZCACHED_DAEMON_KEEPER_H
#define ZCACHED_DAEMON_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "compact.h"

struct engine;
struct keeper;
struct pool_entry;

#define KEEPER_PERIOD_MS 400

/* The running, or the last, compaction of a pool. */
struct compaction_status {
	bool running; /* or about to */
	unsigned classes_done, classes_total;
	struct compact_estimate estimate; /* of when it was started */
	struct compact_result result;
	uint64_t generation;	  /* compactions started on this pool */
	uint64_t resident_before; /* bytes */
};

/* What the keeper knows of a pool; part of its entry. */
struct tending {
	uint32_t dirty;	    /* atomic flag: something was freed since the last pass */
	bool settling;	    /* keeper: was dirty at the last pass */
	uint64_t left_over; /* keeper: OS pages that the last compaction could not free */
	unsigned punched;   /* keeper: passes in a row that had to punch holes, see hole_watch.h */

	/* guarded by the keeper's mutex */
	bool commanded;	      /* a compaction was asked for and has not begun */
	bool command_running; /* it has begun */
	struct compaction_status status;
};

int keeper_start(struct engine *engine, struct keeper **out);
/* Stops what it does and joins it; NULL is accepted. It answers questions until keeper_destroy. */
void keeper_stop(struct keeper *keeper);
void keeper_destroy(struct keeper **keeper);

/* Something was freed in the pool. Any worker; costs a load while the pool is marked already. */
void keeper_poke(struct keeper *keeper, struct pool_entry *entry);

/* Asks for a compaction and tells its state. Returns 0, or -EALREADY while one asked for runs. */
int keeper_compact(struct keeper *keeper, struct pool_entry *entry,
		   struct compaction_status *status);

/* The state of the running or last compaction. */
void keeper_status(struct keeper *keeper, struct pool_entry *entry,
		   struct compaction_status *status);

/* Returns when the keeper has let go of a pool that is marked destroyed. */
void keeper_forget(struct keeper *keeper, struct pool_entry *entry);

#endif
