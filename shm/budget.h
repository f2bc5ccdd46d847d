/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory is paid for before it is taken.
 *
 * A budget belongs to one pool: `used` OS pages of its three memfds may never pass `limit`. Behind
 * it stands the ceiling, one for the process: the room left under the memory cgroups the process is
 * in. Under a cgroup a first touch without room ends in SIGKILL and not in an errno, hence the
 * margin.
 *
 * budget_take() is arithmetic on two words, callable under any lock. When it fails for the ceiling,
 * ceiling_refresh() reads the cgroup files (system calls, no lock may be held) and the caller
 * tries once more. Counting is in OS pages (4 KiB).
 */
#ifndef ZCACHED_SHM_BUDGET_H
#define ZCACHED_SHM_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct ceiling; /* opaque: the chain of cgroups, kept open */

/*
 * Finds the memory cgroups (v2 and v1) of this process. `margin` bytes are never given out. Without
 * a limit anywhere in the chain the ceiling is infinite and costs nothing. Returns 0 or a negative
 * errno (-ENOMEM; unreadable cgroup files count as no limit).
 */
int ceiling_create(uint64_t margin, struct ceiling **out);
void ceiling_destroy(struct ceiling **ceiling);

/* Reads the cgroup files again. Returns the bytes of room now (UINT64_MAX: no limit). */
uint64_t ceiling_refresh(struct ceiling *ceiling);

struct budget {
	uint64_t limit; /* OS pages; atomic, may change while the pool lives */
	uint64_t used;	/* OS pages; atomic */
	struct ceiling *ceiling;
};

enum budget_result {
	BUDGET_OK,
	BUDGET_POOL_LIMIT, /* the pool's own limit: -ENOSPC */
	BUDGET_CEILING,	   /* the machine or a cgroup: refresh and retry, then -ENOMEM */
};

void budget_init(struct budget *budget, uint64_t limit_bytes, struct ceiling *ceiling);
enum budget_result budget_take(struct budget *budget, uint64_t pages);
void budget_return(struct budget *budget, uint64_t pages);

/* budget_take(), with a refresh of the ceiling where that may help. Makes system calls.
 * 0/-ENOSPC/-ENOMEM */
int budget_take_slow(struct budget *budget, uint64_t pages);

#endif
