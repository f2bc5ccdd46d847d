/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory for unit tests that ends where an inaccessible page begins: a read or write past the end
 * is a crash, also in libraries that no sanitizer has instrumented. Single-threaded.
 */
#ifndef ZCACHED_TESTS_GUARDED_H
#define ZCACHED_TESTS_GUARDED_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GUARD_SIZE 65536u /* a multiple of every page size Linux has */

struct guarded {
	unsigned char *map; /* a guard, `size` bytes, a guard */
	size_t size;
};

static inline struct guarded
guarded_create(size_t size)
{
	struct guarded guarded = {.size = (size + GUARD_SIZE - 1) / GUARD_SIZE * GUARD_SIZE};

	guarded.map = mmap(NULL, guarded.size + 2 * GUARD_SIZE, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (guarded.map == MAP_FAILED ||
	    mprotect(guarded.map + GUARD_SIZE, guarded.size, PROT_READ | PROT_WRITE) != 0) {
		perror("guarded_create");
		exit(EXIT_FAILURE);
	}
	return guarded;
}

static inline void
guarded_destroy(struct guarded *guarded)
{
	munmap(guarded->map, guarded->size + 2 * GUARD_SIZE);
	guarded->map = NULL;
}

/* The last `size` bytes in front of the rear guard. */
static inline unsigned char *
guarded_tail(const struct guarded *guarded, size_t size)
{
	return guarded->map + GUARD_SIZE + guarded->size - size;
}

#endif
