/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the allocator share: zspage.c (allocate, free), trim.c (give memory back), holes.c (take back
 * what readers touched), compact.c (move objects), zspage_check.c (walk). Nobody else includes this.
 *
 * Locking: everything in a struct class, and every zspage of that class, is guarded by class.lock.
 * allocator.runs and the chain of unused descriptors are guarded by run_lock. Fields marked atomic are
 * read without a lock for statistics and for decisions that bear being a little wrong.
 */
#ifndef ZCACHED_SHM_ZSPAGE_PRIVATE_H
#define ZCACHED_SHM_ZSPAGE_PRIVATE_H

#include <string.h>

#include "atomic.h"
#include "zspage.h"

#define ZSPAGE_NONE    UINT32_MAX
#define SLOT_WORDS     (ZSPAGE_SLOTS_MAX / 64)
#define OS_PAGE_WORDS  (ZSPAGE_OS_PAGES_MAX / 64)
#define FULLNESS_WORDS ((ZSPAGE_SLOTS_MAX + 64) / 64)

/*
 * Descriptor of a zspage, named by its number in allocator.zspages. At rest
 *	inuse == bits set in slots, and z is in class.list[inuse], unless isolated
 */
struct zspage {
	uint32_t first_page; /* pool page */
	uint32_t next, prev; /* in class.list[inuse]; next also chains unused descriptors */
	uint32_t trim_next;  /* in class.trim_list */
	uint32_t all_next, all_prev; /* in class.all */
	uint16_t inuse;
	uint8_t class;
	uint8_t isolated; /* in no list: trim or compaction is at work on it; nothing is allocated */
	uint8_t trim_listed; /* in class.trim_list: some page may hold memory and no object */
	uint8_t pad[3];
	uint64_t slots[SLOT_WORDS];	   /* bit set: slot in use */
	uint64_t populated[OS_PAGE_WORDS]; /* bit set: OS page has memory */
};

struct class
{
	struct lock lock;
	const struct size_class *size;
	uint32_t os_pages;		   /* in one zspage */
	uint32_t *list;			   /* heads, by objects in use: 0 .. size->objects */
	uint32_t *count;		   /* their lengths */
	uint64_t occupied[FULLNESS_WORDS]; /* bit u set: list[u] is not empty */
	uint32_t all;	   /* every zspage of the class, for walks that let go of the lock */
	uint32_t holes_at; /* in it: the next that holes.c looks at */
	uint32_t trim_list;
	uint32_t isolated;	 /* zspages in no list */
	uint64_t zspages;	 /* atomic */
	uint64_t objects_used;	 /* atomic */
	uint64_t pages_resident; /* atomic: OS pages that have memory */
	uint64_t pages_idle;	 /* atomic: of these, the ones that hold no object */
} __attribute__((aligned(64)));

struct allocator {
	struct pool_header *header;
	struct segment *control;
	struct segment *data;
	struct budget *budget;
	struct size_class_table table;
	uint32_t page_size;
	uint32_t os_pages_per_page;
	uint32_t max_pages;

	struct lock run_lock;
	struct run_map runs;
	uint32_t unused;       /* chain of unused descriptors */
	uint32_t zspages_high; /* descriptors ever used */

	struct zspage *zspages; /* by descriptor number; reserved address space */
	uint32_t
		*zspage_of_page; /* by first pool page: descriptor number; reserved address space */
	uint64_t control_pages;	 /* atomic: OS pages of the control memfd that are paid for */
	struct class class[SIZE_CLASSES_MAX];
};

static inline struct page_group *
page_group(const struct allocator *allocator, uint32_t page)
{
	return (struct page_group *)(void *)(allocator->control->base + ZC_GROUPS_OFFSET) +
	       page / ZC_GROUP_PAGES;
}

static inline uint64_t
page_offset(const struct allocator *allocator, uint32_t page)
{
	return (uint64_t)page * allocator->page_size;
}

static inline uint64_t
slot_offset(const struct allocator *allocator, const struct zspage *zspage, unsigned slot)
{
	return page_offset(allocator, zspage->first_page) +
	       (uint64_t)slot * allocator->class[zspage->class].size->size;
}

static inline bool
bit_test(const uint64_t *bits, unsigned bit)
{
	return bits[bit / 64] >> bit % 64 & 1;
}

static inline void
bit_set(uint64_t *bits, unsigned bit)
{
	bits[bit / 64] |= 1ULL << bit % 64;
}

static inline void
bit_clear(uint64_t *bits, unsigned bit)
{
	bits[bit / 64] &= ~(1ULL << bit % 64);
}

/* Is a bit of [first, last] set? */
static inline bool
bits_any(const uint64_t *bits, unsigned first, unsigned last)
{
	uint64_t low = ~0ULL << first % 64, high = ~0ULL >> (63 - last % 64);
	unsigned word = first / 64, end = last / 64;

	if (word == end)
		return bits[word] & low & high;
	if (bits[word] & low || bits[end] & high)
		return true;
	while (++word < end)
		if (bits[word])
			return true;
	return false;
}

/* Are all of the first `count` bits set? */
static inline bool
bits_all(const uint64_t *bits, unsigned count)
{
	unsigned word = 0;

	for (; word < count / 64; word++)
		if (bits[word] != ~0ULL)
			return false;
	return count % 64 == 0 || (~bits[word] & ~(~0ULL << count % 64)) == 0;
}

/* Lists by number of objects in use. The class lock is held. */
void zspage_link(struct allocator *allocator, struct zspage *zspage);
void zspage_unlink(struct allocator *allocator, struct zspage *zspage);
void zspage_isolate(struct allocator *allocator, struct zspage *zspage);
void zspage_put_back(struct allocator *allocator, struct zspage *zspage);

/* Has trim look at it: it may hold memory without objects. The class lock is held. */
void zspage_list_for_trim(struct allocator *allocator, struct zspage *zspage);

/* Adds a new zspage to those of its class, or takes one out for good. The class lock is held. */
void zspage_join(struct allocator *allocator, struct zspage *zspage);
void zspage_part(struct allocator *allocator, struct zspage *zspage);

/* Is any object in OS page `os_page` of the zspage? The class lock is held. */
bool zspage_page_in_use(const struct allocator *allocator, const struct zspage *zspage,
			unsigned os_page);

/* Clears a slot of a zspage and keeps every count; z is relinked unless isolated. The class lock is held. */
void zspage_release_slot(struct allocator *allocator, struct zspage *zspage, unsigned slot);

/*
 * Takes the lowest free slot of a zspage that has one. 0, or -ENOMEM when the budget refused memory (*slot is the
 * number of OS pages it refused). The class lock is held.
 */
int zspage_take_slot(struct allocator *allocator, struct zspage *zspage, unsigned *slot);

/* The same of the fullest zspage with room; -ENOENT when the class has none (*slot is 0). */
int class_take_slot(struct allocator *allocator, struct class *class, struct zspage **zspage,
		    unsigned *slot);

/*
 * Punches the runs of set bits of `pages` in the zspage; clears the bits of what the kernel refused to punch.
 * Returns the pages given back. No lock is held; nothing is allocated in the zspage meanwhile.
 */
unsigned zspage_punch(struct allocator *allocator, const struct zspage *zspage,
		      uint64_t pages[OS_PAGE_WORDS], unsigned count);

/* Returns a zspage without objects (isolated, memory gone) to the free runs. No lock is held. */
void zspage_retire(struct allocator *allocator, struct zspage *zspage);

/* Gives back the memory of at most *max listed zspages of one class; returns OS pages. No lock is held. */
uint64_t class_trim(struct allocator *allocator, struct class *class, uint32_t *max);

/* The zspage an object lies in; the object was published or reserved before. No lock needed. */
struct zspage *zspage_find(const struct allocator *allocator, uint64_t offset);

/* How many zspages compaction can free, and the objects in that many emptiest ones. Class lock held. */
uint64_t class_freeable(const struct class *class);

static inline struct zspage *
zspage_at(const struct allocator *allocator, uint32_t number)
{
	return &allocator->zspages[number];
}

static inline uint32_t
zspage_number(const struct allocator *allocator, const struct zspage *zspage)
{
	return (uint32_t)(zspage - allocator->zspages);
}

/* Lowest list index >= from that is not empty, or -1; highest <= from, or -1. */
int class_lowest(const struct class *class, unsigned from);
int class_highest(const struct class *class, int from);

#endif
