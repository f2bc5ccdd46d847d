/* SPDX-License-Identifier: BSD-2-Clause */
/* Watching for readers that touch holes; hole_watch.h has the overview. */
#include "hole_watch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "atomic.h"
#include "log.h"
#include "registry.h"

/* OS pages. Races with deletes leave a few pages; somebody who means it, the slack of a file at least. */
#define WORTH_PUNCHING 16u
#define NO_ACCIDENT    256u
#define PUNCHED_TWICE  2u

/*
 * The excess, if it shows in each of several looks. One look can be wrong, when the thread loses its CPU
 * between the allocator's count and the kernel's.
 */
static uint64_t
excess_of(struct allocator *allocator)
{
	uint64_t least = UINT64_MAX;

	for (unsigned look = 0; look < 3 && least >= WORTH_PUNCHING; look++) {
		uint64_t excess = zs_excess(allocator);

		least = excess < least ? excess : least;
	}
	return least < WORTH_PUNCHING ? 0 : least;
}

static void
punch(struct allocator *allocator, bool (*proceed)(void *arg), void *arg)
{
	struct zs_holes holes;

	zs_holes_begin(&holes);
	while (zs_holes_punch(allocator, &holes) && proceed(arg))
		;
}

/* A process that has ended has no mapping. Of another user's kill(2) says EPERM. */
static bool
is_alive(const struct map_note *note)
{
	return note->pid <= 0 || kill(note->pid, 0) == 0 || errno != ESRCH;
}

static void
name_readers(struct pool_entry *entry)
{
	struct map_note *list = calloc(MAP_NOTES, sizeof(*list));
	const char *pool = pool_config(entry->pool)->name;
	unsigned count = list ? map_notes_list(&entry->mapped, list) : 0;

	for (unsigned i = 0; i < count; i++)
		if (is_alive(&list[i]))
			log_warning("pool %s is mapped by pid %d, uid %u%s%s", pool,
				    (int)list[i].pid, (unsigned)list[i].uid,
				    list[i].name[0] ? ", " : "", list[i].name);
	free(list);
}

static void
leave_direct_mode(struct pool_entry *entry)
{
	/* Relaxed: a request that just misses it is like one that came before. */
	store_relaxed(&entry->unshared, 1);
	log_warning(
		"pool %s: a reader touches memory that holds no page, again and again; the pool's "
		"memory is given to no more clients until it is made anew, they use rings and "
		"sockets. One of these does it:",
		pool_config(entry->pool)->name);
	name_readers(entry);
}

bool
hole_watch(struct pool_entry *entry, bool (*proceed)(void *arg), void *arg)
{
	struct allocator *allocator = pool_allocator(entry->pool);
	struct tending *tending = &entry->tending;
	uint64_t excess;

	/* Relaxed: the first to map it has not touched much. */
	if (!load_relaxed(&entry->mapped.made))
		return false;
	excess = excess_of(allocator);
	if (excess < NO_ACCIDENT)
		tending->punched = 0;
	else if (tending->punched < PUNCHED_TWICE)
		tending->punched++;
	else if (!load_relaxed(&entry->unshared))
		leave_direct_mode(entry);
	if (excess)
		punch(allocator, proceed, arg);
	/* Once the pool has left direct mode there is no hurry: the next free or put wakes the keeper. */
	return tending->punched > 0 && !load_relaxed(&entry->unshared);
}
