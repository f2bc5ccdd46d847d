/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What limits the memory of this process: the chain of memory cgroups from its own up to the
 * outermost it can see (v2 and v1), and the machine.
 *
 * Used by budget.c alone. The chain is found once; after that any number of threads may ask for the
 * room. Files are kept open, since a sandboxed engine cannot open any.
 */
#ifndef ZCACHED_SHM_MEMORY_CHAIN_H
#define ZCACHED_SHM_MEMORY_CHAIN_H

#include <stdbool.h>
#include <stdint.h>

#define MEMORY_LEVELS_MAX 16u /* the innermost, where there are more */
#define MEMORY_UNLIMITED  UINT64_MAX

/* One cgroup. One without a limit is kept too: limits may be set later. */
struct memory_level {
	bool v2;
	int limit_fd;
	int usage_fd;
	int stat_fd; /* -1: page cache counts as used */
};

struct memory_chain {
	struct memory_level level[MEMORY_LEVELS_MAX];
	unsigned levels;
	int meminfo_fd; /* -1: the machine counts as unlimited */
};

/* Bytes that can still be taken; MEMORY_UNLIMITED where nothing limits. */
struct memory_room {
	uint64_t cgroups;
	uint64_t machine;
};

/*
 * Finds the chain, with all paths looked up under `root` ("" outside tests). What cannot be read is
 * left out of the chain.
 */
void memory_chain_open(struct memory_chain *chain, const char *root);
void memory_chain_close(struct memory_chain *chain);

/*
 * The room now. Page cache that the kernel could reclaim counts as room only in those cgroups
 * which have less than `enough` bytes without it.
 */
struct memory_room memory_chain_room(const struct memory_chain *chain, uint64_t enough);

#endif
