/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compaction of one class: see compact.h.
 *
 * A source is isolated, so that nothing is allocated in it. For each of its objects a slot is reserved in the
 * fullest zspage with room, its memory touched, and index_move() copies the object and re-points its entry under
 * the shard lock. An object that no entry points at is in flight (a put that has not published it yet, or
 * replaced and not yet freed): it stays where it is, and so does its zspage. The freed slots of a source are
 * released together.
 *
 * How many zspages can be freed is known beforehand (class_freeable), so exactly the emptiest ones are emptied
 * and no object is moved that need not be: the copies equal the lower bound unless others allocate or free
 * meanwhile. Compare __zs_compact in Linux's mm/zsmalloc.c since 6.4, which takes tenths of fullness for exact
 * numbers and may move the objects of a source it does not free.
 */
#include "compact.h"

#include <errno.h>

#include "zspage_private.h"

/* Sources that kept an object in flight, out of the lists until the class is done. */
#define BUSY_SOURCES_MAX 16

struct compaction {
	struct allocator *allocator;
	struct index *index;
	struct class *class;
	struct compact_result *result;
	struct zspage *busy[BUSY_SOURCES_MAX];
	unsigned busy_count;
	/* a reserved slot, kept when the object it was for did not move */
	struct zspage *target;
	unsigned target_slot;
};

/* OS pages that the first `objects` slots of a zspage lie in. */
static uint64_t
pages_of(const struct class *class, uint64_t objects)
{
	return (objects * class->size->size + ZC_OS_PAGE_SIZE - 1) / ZC_OS_PAGE_SIZE;
}

void
compact_estimate(struct allocator *allocator, struct compact_estimate *estimate)
{
	*estimate = (struct compact_estimate){0};
	for (unsigned number = 0; number < allocator->table.count; number++) {
		struct class *class = &allocator->class[number];
		struct class_stats stats;
		uint64_t after;

		allocator_class_stats(allocator, number, &stats);
		if (stats.zspages_freeable == 0)
			continue;
		/* At the worst, every zspage that remains is populated to its last page. */
		after = (stats.zspages - stats.fullness[0] - stats.zspages_freeable) *
			class->os_pages;
		if (stats.pages_resident > after)
			estimate->pages += stats.pages_resident - after;
		estimate->zspages += stats.zspages_freeable;
		estimate->moves_lower_bound += stats.moves_lower_bound;
	}
}

/* The emptiest zspage with objects, isolated; NULL when no zspage can be freed any more. */
static struct zspage *
take_source(struct compaction *compaction)
{
	struct class *class = compaction->class;
	struct zspage *source = NULL;
	int emptiest;

	lock_acquire(&class->lock);
	emptiest = class_lowest(class, 1);
	if (class_freeable(class) > compaction->busy_count && emptiest > 0 &&
	    emptiest < class->size->objects) {
		source = zspage_at(compaction->allocator, class->list[emptiest]);
		zspage_isolate(compaction->allocator, source);
	}
	lock_release(&class->lock);
	return source;
}

/*
 * The budget refused `missing` OS pages for a target. The ceiling's credit may only have run out, and what
 * this compaction has emptied can be given back. False when neither helps.
 */
static __attribute__((noinline)) bool
make_room(struct compaction *compaction, unsigned missing)
{
	struct allocator *allocator = compaction->allocator;
	uint32_t all = UINT32_MAX;
	uint64_t freed;

	if (budget_take_slow(allocator->budget, missing) == 0) {
		budget_return(allocator->budget, missing);
		return true;
	}
	freed = class_trim(allocator, compaction->class, &all);
	compaction->result->pages_freed += freed;
	return freed >= missing;
}

/* Others may take what was made room for. */
#define TARGET_TRIES 4

typedef int take_fn(struct compaction *compaction, void *arg);

/* Has `take` reserve a target slot, unless one is left over. False when there is none to give. */
static bool
reserve_target(struct compaction *compaction, take_fn *take, void *arg)
{
	for (unsigned try = 0; !compaction->target && try < TARGET_TRIES; try++) {
		int error;

		lock_acquire(&compaction->class->lock);
		error = take(compaction, arg);
		if (error)
			compaction->target = NULL;
		lock_release(&compaction->class->lock);
		if (error && (error != -ENOMEM || !make_room(compaction, compaction->target_slot)))
			return false;
	}
	return compaction->target != NULL;
}

/* In the fullest zspage with room. */
static int
take_fullest(struct compaction *compaction, void *arg)
{
	(void)arg;
	return class_take_slot(compaction->allocator, compaction->class, &compaction->target,
			       &compaction->target_slot);
}

static void
release_target(struct compaction *compaction)
{
	if (!compaction->target)
		return;
	lock_acquire(&compaction->class->lock);
	zspage_release_slot(compaction->allocator, compaction->target, compaction->target_slot);
	lock_release(&compaction->class->lock);
	compaction->target = NULL;
}

/* Takes the page faults of a slot before index_move copies under the shard lock. */
static void
touch(char *slot, uint32_t size)
{
	for (uint32_t offset = 0; offset < size; offset += ZC_OS_PAGE_SIZE)
		add_relaxed(slot + offset, 0);
	add_relaxed(slot + size - 1, 0);
}

/* Moves the object in `slot` of the source. Returns its stored length, 0 if it is in flight. */
static uint32_t
move_object(struct compaction *compaction, const struct zspage *source, unsigned slot)
{
	struct allocator *allocator = compaction->allocator;
	uint32_t size = compaction->class->size->size;
	uint64_t from = slot_offset(allocator, source, slot);
	uint64_t to = slot_offset(allocator, compaction->target, compaction->target_slot);
	char *base = allocator->data->base;
	/* Relaxed: a hash that is just being written finds no entry that points here. */
	uint32_t hash = (uint32_t)load_relaxed((uint64_t *)(void *)(base + from));

	touch(base + to, size);
	return index_move(compaction->index, hash, from, to, base + to, base + from, size);
}

/* Moves what can be moved; sets the bits of slots that are empty now. False when no target was left. */
static bool
drain(struct compaction *compaction, const struct zspage *source, const uint64_t slots[SLOT_WORDS],
      uint64_t moved[SLOT_WORDS])
{
	memset(moved, 0, SLOT_WORDS * sizeof(*moved));
	for (unsigned slot = 0; slot < compaction->class->size->objects; slot++) {
		uint32_t length;

		if (!bit_test(slots, slot))
			continue;
		if (!reserve_target(compaction, take_fullest, NULL))
			return false;
		length = move_object(compaction, source, slot);
		if (length == 0) {
			compaction->result->objects_busy++;
			continue;
		}
		compaction->target = NULL;
		bit_set(moved, slot);
		compaction->result->objects_moved++;
		compaction->result->bytes_copied += length;
	}
	return true;
}

static void
release_moved(struct compaction *compaction, struct zspage *source,
	      const uint64_t moved[SLOT_WORDS])
{
	for (unsigned slot = 0; slot < compaction->class->size->objects; slot++)
		if (bit_test(moved, slot))
			zspage_release_slot(compaction->allocator, source, slot);
}

/* Releases the slots that were moved, then puts the source back or, if it still holds objects, aside. */
static void
settle_source(struct compaction *compaction, struct zspage *source,
	      const uint64_t moved[SLOT_WORDS])
{
	struct allocator *allocator = compaction->allocator;
	struct class *class = compaction->class;

	lock_acquire(&class->lock);
	release_moved(compaction, source, moved);
	if (source->inuse == 0)
		compaction->result->zspages_freed++;
	if (source->inuse && compaction->busy_count < BUSY_SOURCES_MAX) {
		compaction->busy[compaction->busy_count++] = source;
	} else {
		zspage_put_back(allocator, source);
		zspage_list_for_trim(allocator, source);
	}
	lock_release(&class->lock);
}

static void
put_back_busy(struct compaction *compaction)
{
	lock_acquire(&compaction->class->lock);
	while (compaction->busy_count) {
		struct zspage *zspage = compaction->busy[--compaction->busy_count];

		zspage_put_back(compaction->allocator, zspage);
		zspage_list_for_trim(compaction->allocator, zspage);
	}
	lock_release(&compaction->class->lock);
}

/* Frees zspages until no more can be, or `proceed` says so. */
static void
free_zspages(struct compaction *compaction, compact_proceed_fn *proceed, void *arg)
{
	uint64_t slots[SLOT_WORDS], moved[SLOT_WORDS];
	struct zspage *source;
	bool room = true;

	while (room && compaction->busy_count < BUSY_SOURCES_MAX && proceed(arg)) {
		source = take_source(compaction);
		if (!source)
			break;
		lock_acquire(&compaction->class->lock);
		memcpy(slots, source->slots, sizeof(slots));
		lock_release(&compaction->class->lock);
		room = drain(compaction, source, slots, moved);
		release_target(compaction);
		settle_source(compaction, source, moved);
	}
	put_back_busy(compaction);
}

/*
 * The emptiest zspage, isolated, if packing it gives memory back: sets *limit to the first slot that is not
 * needed. That is the slot behind the objects which do not fit into the free slots of the other zspages.
 */
static struct zspage *
take_partial(struct compaction *compaction, unsigned *limit)
{
	struct class *class = compaction->class;
	uint64_t objects = class->size->objects;
	int emptiest = class_lowest(class, 1);
	struct zspage *zspage;
	uint64_t pages;

	lock_assert_held(&class->lock);
	if (class_freeable(class) || emptiest < 0 || emptiest == (int)objects)
		return NULL;
	zspage = zspage_at(compaction->allocator, class->list[emptiest]);
	pages = pages_of(class, class->objects_used % objects);
	*limit = (unsigned)(pages * ZC_OS_PAGE_SIZE / class->size->size);
	if (!bits_any(zspage->slots, *limit, (unsigned)objects - 1))
		return NULL;
	zspage_isolate(compaction->allocator, zspage);
	return zspage;
}

struct packing {
	struct zspage *zspage; /* isolated */
	unsigned limit;
};

/* A slot for an object of the zspage that is packed: in another zspage, else in itself below the limit. */
static int
take_for_packing(struct compaction *compaction, void *arg)
{
	struct class *class = compaction->class;
	struct packing *packing = arg;

	/* Not the empty ones: they are about to be given back. */
	if (class_highest(class, class->size->objects - 1) > 0)
		return take_fullest(compaction, NULL);
	if (bits_all(packing->zspage->slots, packing->limit))
		return -ENOENT;
	compaction->target = packing->zspage;
	return zspage_take_slot(compaction->allocator, packing->zspage, &compaction->target_slot);
}

/* Moves the objects at and behind `limit`, the last first. The zspage is isolated. */
static void
pack(struct compaction *compaction, struct zspage *zspage, unsigned limit,
     const uint64_t slots[SLOT_WORDS], uint64_t moved[SLOT_WORDS])
{
	struct packing packing = {zspage, limit};

	memset(moved, 0, SLOT_WORDS * sizeof(*moved));
	for (unsigned slot = compaction->class->size->objects; slot-- > limit;) {
		uint32_t length;

		if (!bit_test(slots, slot))
			continue;
		if (!reserve_target(compaction, take_for_packing, &packing))
			break;
		length = move_object(compaction, zspage, slot);
		if (length == 0) {
			compaction->result->objects_busy++;
			continue;
		}
		compaction->target = NULL;
		bit_set(moved, slot);
		compaction->result->objects_packed++;
		compaction->result->bytes_copied += length;
	}
	release_target(compaction);
}

static void
pack_partial(struct compaction *compaction)
{
	uint64_t slots[SLOT_WORDS], moved[SLOT_WORDS];
	struct class *class = compaction->class;
	struct zspage *zspage;
	unsigned limit;

	lock_acquire(&class->lock);
	zspage = take_partial(compaction, &limit);
	if (zspage)
		memcpy(slots, zspage->slots, sizeof(slots));
	lock_release(&class->lock);
	if (!zspage)
		return;
	pack(compaction, zspage, limit, slots, moved);
	lock_acquire(&class->lock);
	release_moved(compaction, zspage, moved);
	zspage_put_back(compaction->allocator, zspage);
	zspage_list_for_trim(compaction->allocator, zspage);
	lock_release(&class->lock);
}

void
compact_class(struct allocator *allocator, struct index *index, unsigned number,
	      compact_proceed_fn *proceed, void *arg, struct compact_result *result)
{
	struct compaction compaction = {.allocator = allocator,
					.index = index,
					.class = &allocator->class[number],
					.result = result};
	uint32_t all = UINT32_MAX;

	if (compaction.class->size->objects < 2)
		return;
	free_zspages(&compaction, proceed, arg);
	if (proceed(arg))
		pack_partial(&compaction);
	result->pages_freed += class_trim(allocator, compaction.class, &all);
}
