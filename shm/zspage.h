/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The allocator: zspages of size classes in the data memfd.
 *
 * Who calls it: workers (zs_malloc, zs_free), the keeper (compact.c, zs_trim), tests (zs_check).
 *
 * Locking: one lock a class guards its zspages and lists; the run lock (a leaf) guards the map of
 *free runs. No lock is held while memory is taken or given back, or while object bytes are written:
 *a slot is reserved under the class lock, its bytes are touched after that.
 *
 * A zspage is a run of pool pages, contiguous in the file. Its memory comes lazily, OS page by OS
 *page, when an allocation first reaches one; pages that hold no object any more are given back by
 *zs_trim. Slots are taken lowest first. Each class keeps its zspages in lists by their exact number
 *of objects in use: allocation takes the fullest with room, compaction the emptiest as source.
 *
 * Invariants, checked by zs_check() (u: objects in use, P(z): OS pages of z that have memory):
 *	class.objects_used  == sum of u(z) over its zspages
 *	z is in list[u(z)] of its class, or isolated
 *	u(z)                == number of bits set in z.slots
 *	every OS page that holds a byte of a slot in use is in P(z)
 *	allocator.pages_resident == sum of |P(z)|  >=  st_blocks of the data memfd
 *	(an object may end before the last OS page of its slot, which then is paid for and not touched)
 *
 * Left out: zspages shared between classes, per-thread caches of slots (frees are cheap: one lock,
 * two words).
 */
#ifndef ZCACHED_SHM_ZSPAGE_H
#define ZCACHED_SHM_ZSPAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "budget.h"
#include "layout.h"
#include "lock.h"
#include "run.h"
#include "segment.h"
#include "size_class.h"

#define ZSPAGE_SLOTS_MAX    256u
#define ZSPAGE_OS_PAGES_MAX (ZC_CHAIN_MAX * ZC_PAGE_SIZE_MAX / ZC_OS_PAGE_SIZE) /* 256 */

struct zspage; /* private to zspage.c and compact.c, see zspage_private.h */
struct allocator;

/*
 * An allocator over `data`, whose page table is in `control`; `header` is the pool's. `max_pages`
 * pool pages at most. Returns 0 or a negative errno.
 */
int allocator_create(struct pool_header *header, struct segment *control, struct segment *data,
		     struct budget *budget, struct allocator **out);
void allocator_destroy(struct allocator **allocator);

/*
 * Reserves a slot for an object of `length` stored bytes and sets *offset to where it lies in the
 * data memfd (its header first; a raw object's bytes at once). The slot's pages are paid for; its
 * first touch is the caller's. Returns 0, -ENOSPC (the pool's limit or address range), -ENOMEM (a
 * memory cgroup's limit, or the engine's own memory).
 */
int zs_malloc(struct allocator *allocator, uint32_t length, uint64_t *offset);

/*
 * Writes an object into its slot: header and bytes. A release fence comes before the first byte, so
 * that a reader that sees a new byte also sees the header store that retired the old object there
 * (pairs with the acquire fence in reader.c).
 */
void zs_write(struct allocator *allocator, uint64_t offset, uint64_t object_header,
	      const void *stored, uint32_t length);

/*
 * Frees the object at a location. Memory goes back to the kernel later, by zs_trim. False, and nothing
 * done, where no object of that size class is in use there: the location was damaged.
 */
bool zs_free(struct allocator *allocator, uint64_t offset, uint32_t length);

/*
 * Gives memory back: runs without objects, and pages without objects in other zspages. At most
 * `max_zspages` are looked at; returns the number of OS pages given back. Makes system calls.
 */
uint64_t zs_trim(struct allocator *allocator, uint32_t max_zspages);

/* OS pages that zs_trim could give back now; an estimate, without a lock. */
uint64_t zs_trimmable(struct allocator *allocator);

/*
 * Memory that nobody paid for. A reader that touches a hole of the data file makes the kernel put a page there.
 * zs_excess says how many OS pages the kernel counts above the allocator's own sum (0: none; a moment's
 * difference, of pages that are just given back, can show). After zs_holes_begin, zs_holes_punch takes all
 * memory away that holds no object, in slices: call it until it returns false. One thread at a time.
 */
struct zs_holes {
	unsigned class;
	uint32_t word; /* of the map of runs */
};
uint64_t zs_excess(struct allocator *allocator);
void zs_holes_begin(struct zs_holes *holes);
bool zs_holes_punch(struct allocator *allocator, struct zs_holes *holes);

struct class_stats {
	uint32_t size;
	uint32_t pages_per_zspage; /* pool pages */
	uint32_t objects_per_zspage;
	uint64_t zspages;
	uint64_t objects_allocated; /* slots, used or not */
	uint64_t objects_used;
	uint64_t pages_resident;    /* OS pages */
	uint64_t zspages_freeable;  /* by compaction */
	uint64_t moves_lower_bound; /* objects in the emptiest zspages_freeable zspages */
	uint64_t fullness[11];	    /* zspages: empty, (0,10 %], (10,20 %], .. (90,100 %] */
};

/* Classes are numbered 0 .. allocator_classes() - 1. */
const struct size_class_table *allocator_table(const struct allocator *allocator);
unsigned allocator_classes(const struct allocator *allocator);
void allocator_class_stats(struct allocator *allocator, unsigned class, struct class_stats *stats);

/* OS pages of the data memfd that have memory, by the allocator's own count. */
uint64_t allocator_resident(struct allocator *allocator);

/* OS pages of the control memfd that have memory: the header and the groups in use. */
uint64_t allocator_control_resident(struct allocator *allocator);

/*
 * Walks everything and checks the invariants above; for tests and `zcachectl check`. Takes each
 * class lock in turn. Returns the number of objects in use, or -EUCLEAN after writing what is wrong
 * into `why`.
 */
int64_t zs_check(struct allocator *allocator, char *why, unsigned why_size);

/* Is there an object in use at `offset` whose size class is that of `length`? Any numbers may be asked. */
bool zs_object_exists(struct allocator *allocator, uint64_t offset, uint32_t length);

#endif
