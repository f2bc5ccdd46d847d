/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's locks: adaptive mutexes, which spin a little and make no system call when nobody
 * else holds them. Called by zspage.c, run.c's callers and index.c; see lock.h for the order.
 *
 * Checking the order costs a few thread-local words a call and needs no lock of its own: each
 * thread counts what it holds by rank. Left out: a graph of the orders seen. With three ranks
 * the allowed orders are a table.
 */
#include "lock.h"

#ifdef ZC_CHECK_LOCKS

#include <stdio.h>
#include <stdlib.h>

#include "atomic.h"

#define RANKS 3u

static const char *const rank_name[RANKS] = {
	[LOCK_CLASS] = "class",
	[LOCK_RUN] = "run",
	[LOCK_SHARD] = "shard",
};

/* By rank wanted: the ranks a thread may hold meanwhile, as a set of bits. */
static const unsigned may_hold[RANKS] = {
	[LOCK_CLASS] = 0,
	[LOCK_RUN] = 1u << LOCK_CLASS,
	[LOCK_SHARD] = 1u << LOCK_CLASS,
};

/* How many locks of each rank this thread holds. */
static _Thread_local unsigned held_by_me[RANKS];

static void
check_order(enum lock_rank wanted)
{
	for (unsigned rank = 0; rank < RANKS; rank++) {
		if (!held_by_me[rank] || may_hold[wanted] & 1u << rank)
			continue;
		fprintf(stderr, "lock order: %s lock wanted while a %s lock is held\n",
			rank_name[wanted], rank_name[rank]);
		abort();
	}
}

/*
 * Relaxed: whoever holds the lock wrote these two words itself. Anyone else asks only to be
 * aborted, and reads a wrong owner or none, never itself.
 */
static int
is_mine(const struct lock *lock)
{
	return load_relaxed(&lock->held) &&
	       pthread_equal(load_relaxed(&lock->owner), pthread_self());
}

void
lock_assert_held(const struct lock *lock)
{
	if (is_mine(lock))
		return;
	fprintf(stderr, "lock order: a %s lock should be held here\n", rank_name[lock->rank]);
	abort();
}

void
lock_assert_no_lock(void)
{
	for (unsigned rank = 0; rank < RANKS; rank++) {
		if (!held_by_me[rank])
			continue;
		fprintf(stderr, "lock order: a %s lock is held across a system call\n",
			rank_name[rank]);
		abort();
	}
}

static void
note_acquired(struct lock *lock)
{
	store_relaxed(&lock->owner, pthread_self());
	store_relaxed(&lock->held, 1);
	held_by_me[lock->rank]++;
}

static void
note_released(struct lock *lock)
{
	lock_assert_held(lock);
	held_by_me[lock->rank]--;
	store_relaxed(&lock->held, 0);
}

#else

#define check_order(wanted) ((void)0)
#define note_acquired(lock) ((void)0)
#define note_released(lock) ((void)0)

#endif

void
lock_init(struct lock *lock, enum lock_rank rank)
{
	pthread_mutexattr_t attributes;
	int error;

	*lock = (struct lock){.rank = rank};
	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
	error = pthread_mutex_init(&lock->mutex, &attributes);
	assert(error == 0);
	pthread_mutexattr_destroy(&attributes);
}

void
lock_destroy(struct lock *lock)
{
	int error = pthread_mutex_destroy(&lock->mutex);

	assert(error == 0); /* EBUSY: still held */
}

void
lock_acquire(struct lock *lock)
{
	int error;

	check_order(lock->rank);
	error = pthread_mutex_lock(&lock->mutex);
	assert(error == 0);
	note_acquired(lock);
}

void
lock_release(struct lock *lock)
{
	int error;

	note_released(lock);
	error = pthread_mutex_unlock(&lock->mutex);
	assert(error == 0);
}
