/* SPDX-License-Identifier: BSD-2-Clause */
/* The pool's parts, for pool.c, pool_create.c and pool_check.c only. */
#ifndef ZCACHED_SHM_POOL_PRIVATE_H
#define ZCACHED_SHM_POOL_PRIVATE_H

#include "atomic.h"
#include "pool.h"

/*
 * What one thread counts. Its own cache lines; only that thread writes, anybody reads. The gauges are
 * differences: one thread stores a value, another may delete it, only the sum over all threads means something.
 */
struct pool_thread {
	struct pool_counters count;
	int64_t logical_bytes;
	int64_t stored_bytes;
	int64_t incompressible;
	int64_t poisoned;
} __attribute__((aligned(64)));

struct pool {
	struct pool_config config;
	struct pool_header *header;
	struct segment control, index_segment, data;
	int read_only[POOL_FILES]; /* descriptors; -1: there are none */
	struct budget budget;
	struct index *index;
	struct allocator *allocator;
	struct pool_view view;
	uint64_t objects_moved, objects_packed, zspages_freed, pages_freed,
		compactions; /* atomic */
	struct pool_thread thread[POOL_THREADS_MAX];
};

/* Relaxed: one writer, and a reader of statistics may see it late. */
#define COUNT_ADD(pool, context, field, n)                         \
	do {                                                       \
		__typeof__((pool)->thread[0].field) *count_ =      \
			&(pool)->thread[(context)->thread].field;  \
		store_relaxed(count_, load_relaxed(count_) + (n)); \
	} while (0)

#endif
