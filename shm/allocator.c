/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The allocator as a whole: creation, destruction, statistics. See zspage.h.
 *
 * Creation and destruction are the control thread's, while nobody else knows the allocator. Statistics take one
 * class lock at a time.
 */
#include "zspage_private.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

/* ---- creation, destruction ---- */

static void *
reserve_zeroed(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int
class_init(struct allocator *allocator, unsigned number)
{
	struct class *class = &allocator->class[number];
	unsigned lists;

	class->size = &allocator->table.class[number];
	class->os_pages = class->size->pages * allocator->os_pages_per_page;
	class->trim_list = class->all = class->holes_at = ZSPAGE_NONE;
	lists = class->size->objects + 1u;
	lock_init(&class->lock, LOCK_CLASS);
	class->list = malloc(lists * sizeof(*class->list));
	class->count = calloc(lists, sizeof(*class->count));
	if (!class->list || !class->count)
		return -ENOMEM;
	memset(class->list, 0xff, lists * sizeof(*class->list));
	return 0;
}

int
allocator_create(struct pool_header *header, struct segment *control, struct segment *data,
		 struct budget *budget, struct allocator **out)
{
	uint64_t pages = header->data_max / header->page_size;
	struct allocator *allocator;
	int error;

	if (posix_memalign((void **)&allocator, 64, sizeof(*allocator)))
		return -ENOMEM;
	memset(allocator, 0, sizeof(*allocator));
	allocator->header = header;
	allocator->control = control;
	allocator->data = data;
	allocator->budget = budget;
	allocator->page_size = header->page_size;
	allocator->os_pages_per_page = header->page_size / ZC_OS_PAGE_SIZE;
	allocator->max_pages = (uint32_t)pages;
	allocator->unused = ZSPAGE_NONE;
	allocator->control_pages = ZC_GROUPS_OFFSET / ZC_OS_PAGE_SIZE;
	lock_init(&allocator->run_lock, LOCK_RUN);
	size_class_table_init(&allocator->table, header->page_size);
	error = run_map_init(&allocator->runs, pages);
	for (unsigned class = 0; !error && class < allocator->table.count; class ++)
		error = class_init(allocator, class);
	allocator->zspages = reserve_zeroed(pages * sizeof(struct zspage));
	allocator->zspage_of_page = reserve_zeroed(pages * sizeof(uint32_t));
	if (!allocator->zspages || !allocator->zspage_of_page)
		error = -ENOMEM;
	if (error)
		allocator_destroy(&allocator);
	*out = allocator;
	return error;
}

void
allocator_destroy(struct allocator **pointer)
{
	struct allocator *allocator = *pointer;
	uint64_t pages;

	if (!allocator)
		return;
	*pointer = NULL;
	pages = allocator->max_pages;
	for (unsigned number = 0; number < allocator->table.count; number++) {
		struct class *class = &allocator->class[number];

		free(class->list);
		free(class->count);
		if (class->size)
			lock_destroy(&class->lock);
	}
	if (allocator->zspages)
		munmap(allocator->zspages, pages * sizeof(struct zspage));
	if (allocator->zspage_of_page)
		munmap(allocator->zspage_of_page, pages * sizeof(uint32_t));
	run_map_destroy(&allocator->runs);
	lock_destroy(&allocator->run_lock);
	free(allocator);
}

/* ---- statistics ---- */

unsigned
allocator_classes(const struct allocator *allocator)
{
	return allocator->table.count;
}

const struct size_class_table *
allocator_table(const struct allocator *allocator)
{
	return &allocator->table;
}

uint64_t
class_freeable(const struct class *class)
{
	uint64_t objects = class->size->objects;
	uint64_t need = (class->objects_used + objects - 1) / objects;
	uint64_t busy = class->zspages - class->count[0]; /* isolated ones count as busy */

	return busy > need ? busy - need : 0;
}

/* Objects in the `zspages` emptiest zspages that hold any. The class lock is held. */
static uint64_t
class_moves_lower_bound(const struct class *class, uint64_t zspages)
{
	uint64_t moves = 0;

	for (unsigned used = 1; zspages && used <= class->size->objects; used++) {
		uint64_t take = class->count[used] < zspages ? class->count[used] : zspages;

		moves += take * used;
		zspages -= take;
	}
	return moves;
}

static unsigned
fullness_tenth(unsigned used, unsigned objects)
{
	return (used * 10 + objects - 1) / objects;
}

void
allocator_class_stats(struct allocator *allocator, unsigned number, struct class_stats *stats)
{
	struct class *class = &allocator->class[number];

	*stats = (struct class_stats){.size = class->size->size,
				      .pages_per_zspage = class->size->pages,
				      .objects_per_zspage = class->size->objects};
	lock_acquire(&class->lock);
	stats->zspages = class->zspages;
	stats->objects_used = class->objects_used;
	stats->objects_allocated = class->zspages * class->size->objects;
	stats->pages_resident = class->pages_resident;
	stats->zspages_freeable = class_freeable(class);
	stats->moves_lower_bound = class_moves_lower_bound(class, stats->zspages_freeable);
	for (unsigned used = 0; used <= class->size->objects; used++)
		stats->fullness[fullness_tenth(used, class->size->objects)] += class->count[used];
	lock_release(&class->lock);
}

/* Relaxed sums: a statistic may miss what happens while it is read. */
uint64_t
allocator_resident(struct allocator *allocator)
{
	uint64_t pages = 0;

	for (unsigned class = 0; class < allocator->table.count; class ++)
		pages += load_relaxed(&allocator->class[class].pages_resident);
	return pages;
}

uint64_t
allocator_control_resident(struct allocator *allocator)
{
	return load_relaxed(&allocator->control_pages);
}
