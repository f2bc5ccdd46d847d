/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory is paid for before it is taken.
 *
 * A budget belongs to one pool: `used` OS pages of its three memfds may never pass `limit`. Behind
 * it stands the ceiling, one for the process: the room left under the memory cgroups the process is
 * in, and on the machine. Under a cgroup a first touch without room ends in SIGKILL and not in an
 * errno, hence the margin.
 *
 * The ceiling hands out credit in small grants, so that the cgroup files are read once in about a
 * thousand pages. budget_take() is arithmetic on two words, callable under any lock. When it fails
 * for the ceiling, ceiling_refresh() reads the files (system calls, no lock may be held) and the
 * caller tries once more. Counting is in OS pages (4 KiB).
 *
 * What the margin must cover: what threads have taken from the budget but not yet touched when a
 * refresh reads the usage, plus what this process allocates elsewhere and what others in the same
 * cgroups take until the next refresh.
 */
#ifndef ZCACHED_SHM_BUDGET_H
#define ZCACHED_SHM_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct ceiling; /* opaque: the chain of cgroups, kept open */

/*
 * Finds the memory cgroups (v2 and v1) of this process, from its own to the outermost it can see.
 * `margin` bytes of each, and of the machine, are never given out. Files that cannot be read count
 * as no limit. Returns 0 or -ENOMEM.
 */
int ceiling_create(uint64_t margin, struct ceiling **out);
void ceiling_destroy(struct ceiling **ceiling);

/* The same with every path (of /proc and of cgroup mounts) looked up under `root`. For tests. */
int ceiling_create_under(const char *root, uint64_t margin, struct ceiling **out);

/*
 * Reads the cgroup files again and makes new credit of what they say. Returns the bytes of room
 * now, the margin taken off (UINT64_MAX: nothing limits).
 */
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

/* `ceiling` outlives the budget; NULL: only the pool's own limit counts. */
void budget_init(struct budget *budget, uint64_t limit_bytes, struct ceiling *ceiling);
enum budget_result budget_take(struct budget *budget, uint64_t pages);

/*
 * To be called after the memory has gone back to the kernel, or if it was never touched. The
 * ceiling's credit stays as it is: the next refresh finds the room in the kernel's own numbers.
 */
void budget_return(struct budget *budget, uint64_t pages);

/*
 * budget_take(), with a refresh of the ceiling where that may help; also for more pages than a
 * grant has. Makes system calls. Returns 0, -ENOSPC or -ENOMEM.
 */
int budget_take_slow(struct budget *budget, uint64_t pages);

#endif
