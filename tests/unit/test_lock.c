/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/lock.c: mutual exclusion, and that each wrong order aborts (in a forked child, since
 * an abort is the point). The orders are skipped in builds that do not check them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lock.h"

#define THREADS 4
#define ROUNDS	50000
#define RANKS	3

struct counter {
	struct lock lock;
	uint64_t value;
};

static void *
count(void *arg)
{
	struct counter *counter = arg;

	for (int i = 0; i < ROUNDS; i++) {
		lock_acquire(&counter->lock);
		lock_assert_held(&counter->lock);
		counter->value++;
		lock_release(&counter->lock);
	}
	return NULL;
}

static void
test_one_thread_at_a_time(void **state)
{
	struct counter counter = {.value = 0};
	pthread_t thread[THREADS];

	(void)state;
	lock_init(&counter.lock, LOCK_CLASS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, &counter), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(counter.value, THREADS * ROUNDS);
	lock_assert_no_lock();
	lock_destroy(&counter.lock);
}

static void
acquire_both(enum lock_rank first, enum lock_rank second)
{
	struct lock lock[2];

	lock_init(&lock[0], first);
	lock_init(&lock[1], second);
	lock_acquire(&lock[0]);
	lock_acquire(&lock[1]);
	lock_release(&lock[0]); /* in any order */
	lock_assert_held(&lock[1]);
	lock_release(&lock[1]);
	lock_assert_no_lock();
	lock_destroy(&lock[0]);
	lock_destroy(&lock[1]);
}

static void
test_allowed_orders(void **state)
{
	(void)state;
	acquire_both(LOCK_CLASS, LOCK_RUN);
	acquire_both(LOCK_CLASS, LOCK_SHARD);
}

static void
test_leaves_one_after_the_other(void **state)
{
	struct lock lock[RANKS];

	(void)state;
	for (int i = 0; i < RANKS; i++)
		lock_init(&lock[i], (enum lock_rank)i);
	lock_acquire(&lock[LOCK_CLASS]);
	for (int i = LOCK_RUN; i < RANKS; i++) {
		lock_acquire(&lock[i]);
		lock_release(&lock[i]);
	}
	lock_release(&lock[LOCK_CLASS]);
	for (int i = 0; i < RANKS; i++)
		lock_destroy(&lock[i]);
}

#ifdef ZC_CHECK_LOCKS

struct fault {
	enum lock_rank first, second;
};

/* Runs `body` in a child whose complaint is not shown; says whether it aborted. */
static int
aborts(void (*body)(const struct fault *), const struct fault *fault)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGABRT, SIG_DFL); /* not cmocka's handler */
		close(STDERR_FILENO);
		body(fault);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void
wrong_order(const struct fault *fault)
{
	acquire_both(fault->first, fault->second);
}

static void
not_held(const struct fault *fault)
{
	struct lock lock;

	lock_init(&lock, fault->first);
	lock_assert_held(&lock);
}

static void *
hold_for_another(void *arg)
{
	lock_acquire(arg);
	return NULL;
}

static void
held_by_another(const struct fault *fault)
{
	struct lock lock;
	pthread_t thread;

	lock_init(&lock, fault->first);
	pthread_create(&thread, NULL, hold_for_another, &lock);
	pthread_join(thread, NULL);
	lock_assert_held(&lock);
}

static void
release_without(const struct fault *fault)
{
	struct lock lock;

	lock_init(&lock, fault->first);
	lock_release(&lock);
}

static void
system_call_under(const struct fault *fault)
{
	struct lock lock;

	lock_init(&lock, fault->first);
	lock_acquire(&lock);
	lock_assert_no_lock();
}

static void
test_wrong_orders_abort(void **state)
{
	static const struct fault faults[] = {
		{LOCK_CLASS, LOCK_CLASS}, {LOCK_RUN, LOCK_CLASS},   {LOCK_RUN, LOCK_RUN},
		{LOCK_RUN, LOCK_SHARD},	  {LOCK_SHARD, LOCK_CLASS}, {LOCK_SHARD, LOCK_RUN},
		{LOCK_SHARD, LOCK_SHARD},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		assert_true(aborts(wrong_order, &faults[i]));
	assert_false(aborts(wrong_order, &(struct fault){LOCK_CLASS, LOCK_RUN}));
}

static void
test_false_claims_abort(void **state)
{
	(void)state;
	for (int rank = 0; rank < RANKS; rank++) {
		const struct fault fault = {.first = (enum lock_rank)rank};

		assert_true(aborts(not_held, &fault));
		assert_true(aborts(held_by_another, &fault));
		assert_true(aborts(release_without, &fault));
		assert_true(aborts(system_call_under, &fault));
	}
}

#else

static void
test_wrong_orders_abort(void **state)
{
	(void)state;
	print_message("skipped: this build does not check the order of locks\n");
	skip();
}

static void
test_false_claims_abort(void **state)
{
	test_wrong_orders_abort(state);
}

#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_thread_at_a_time),
		cmocka_unit_test(test_allowed_orders),
		cmocka_unit_test(test_leaves_one_after_the_other),
		cmocka_unit_test(test_wrong_orders_abort),
		cmocka_unit_test(test_false_claims_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
