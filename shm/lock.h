/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's locks, with their order checked by the machine.
 *
 * All locks live in the engine's private memory: no client can hold one. The order is
 *
 *	class (a size class of one pool)  ->  run (free runs of one pool)
 *	class                             ->  shard (a shard of one index)
 *
 * in words: a class lock is taken by a thread that holds nothing; run and shard locks are leaves.
 * No lock is held across a system call, a compression, or a first touch of memory. Builds with
 * ZC_CHECK_LOCKS count the locks each thread holds by rank and abort on a wrong order, and
 * lock_assert_no_lock() stands at the head of everything that makes a system call or compresses.
 */
#ifndef ZCACHED_SHM_LOCK_H
#define ZCACHED_SHM_LOCK_H

#include <assert.h>
#include <pthread.h>

enum lock_rank {
	LOCK_CLASS = 0,
	LOCK_RUN = 1,
	LOCK_SHARD = 2,
};

struct lock {
	pthread_mutex_t mutex;
	enum lock_rank rank;
#ifdef ZC_CHECK_LOCKS
	pthread_t owner;
	int held;
#endif
};

void lock_init(struct lock *lock, enum lock_rank rank);
void lock_destroy(struct lock *lock);
void lock_acquire(struct lock *lock);
void lock_release(struct lock *lock);

#ifdef ZC_CHECK_LOCKS
void lock_assert_held(const struct lock *lock);
void lock_assert_no_lock(void);
#else
#define lock_assert_held(lock) ((void)(lock))
#define lock_assert_no_lock()  ((void)0)
#endif

#endif
