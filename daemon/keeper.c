/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The keeper; keeper.h has the overview.
 *
 * Locking: one mutex, for what is asked of the keeper and what it says of itself; held for a few
 * assignments only. The dirty marks are atomics: workers set them in passing.
 */
#include "keeper.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "atomic.h"
#include "engine_private.h"
#include "hole_watch.h"
#include "registry.h"
#include "worker.h"

#define TRIM_BATCH     256u /* zspages looked at between two looks at the clock */
#define TRIM_FRUITLESS 64u
#define WORTH_PAGES    64u /* 256 KiB */
#define WORTH_SHARE    16u
#define SLICE_NS       500000
#define SLEEP_MAX_NS   5000000
#define NS_PER_S       1000000000L

struct keeper {
	struct engine *engine;
	pthread_t thread;
	uint32_t poked;	   /* atomic flag: a pool became dirty since the last pass began */
	uint32_t resting;  /* atomic flag: waits without a timer */
	uint32_t stop;	   /* atomic flag */
	uint32_t commands; /* atomic: compactions asked for that have not begun */

	pthread_mutex_t mutex;
	pthread_cond_t wake;	 /* for the keeper */
	pthread_cond_t released; /* for keeper_forget */
	struct pool_entry *current;
};

/* One compaction or trim, as its proceed function sees it. */
struct task {
	struct keeper *keeper;
	struct pool_entry *entry;
	bool commanded;
	bool stopped;	     /* before its end */
	int64_t slice_begin; /* ns */
	struct compact_result result;
};

static int64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* ---- standing back ---- */

static bool
workers_busy(const struct engine *engine)
{
	for (unsigned i = 0; i < engine->worker_count; i++)
		if (worker_is_busy(&engine->worker[i]))
			return true;
	return false;
}

static void
stand_back(struct task *task)
{
	int64_t worked = now_ns() - task->slice_begin;
	struct timespec pause = {0};

	if (worked < SLICE_NS)
		return;
	if (workers_busy(task->keeper->engine)) {
		pause.tv_nsec = 2 * worked < SLEEP_MAX_NS ? 2 * worked : SLEEP_MAX_NS;
		nanosleep(&pause, NULL);
	}
	task->slice_begin = now_ns();
}

/* Called between steps, with no lock held. False: the pool is to be let go at once. */
static bool
may_go_on(struct task *task)
{
	stand_back(task);
	/* Relaxed: looked at again soon. */
	return !load_relaxed(&task->keeper->stop) && pool_entry_alive(task->entry);
}

/* The same, for what is given an argument. */
static bool
task_may_go_on(void *arg)
{
	return may_go_on(arg);
}

/* ---- trimming ---- */

/* Gives back what can be; a list may hold zspages that have nothing to give any more. */
static void
trim(struct keeper *keeper, struct pool_entry *entry)
{
	struct task task = {.keeper = keeper, .entry = entry, .slice_begin = now_ns()};
	struct allocator *allocator = pool_allocator(entry->pool);
	unsigned fruitless = 0;

	while (zs_trimmable(allocator) > 0 && fruitless < TRIM_FRUITLESS && may_go_on(&task))
		if (zs_trim(allocator, TRIM_BATCH) == 0)
			fruitless++;
}

/* True: it wants another look soon. */
static bool
watch_holes(struct keeper *keeper, struct pool_entry *entry)
{
	struct task task = {.keeper = keeper, .entry = entry, .slice_begin = now_ns()};

	return hole_watch(entry, task_may_go_on, &task);
}

/* OS pages that are worth some work. */
static uint64_t
worth(struct allocator *allocator)
{
	uint64_t share = allocator_resident(allocator) / WORTH_SHARE;

	return share > WORTH_PAGES ? share : WORTH_PAGES;
}

/* ---- compaction ---- */

static uint64_t
resident_bytes(struct pool *pool)
{
	struct pool_stats stats;

	pool_stats(pool, &stats);
	return stats.resident_bytes;
}

static void
compaction_begin(struct task *task, unsigned classes, const struct compact_estimate *estimate)
{
	struct tending *tending = &task->entry->tending;
	uint64_t resident = resident_bytes(task->entry->pool);

	pthread_mutex_lock(&task->keeper->mutex);
	if (task->commanded) {
		/* It was counted when it was asked for. */
		tending->commanded = false;
		tending->command_running = true;
		sub_relaxed(&task->keeper->commands, 1);
	} else {
		tending->status.generation++;
	}
	tending->status.running = true;
	tending->status.classes_done = 0;
	tending->status.classes_total = classes;
	tending->status.estimate = *estimate;
	tending->status.result = task->result;
	tending->status.resident_before = resident;
	pthread_mutex_unlock(&task->keeper->mutex);
}

static void
compaction_step(struct task *task, unsigned done)
{
	struct tending *tending = &task->entry->tending;

	pthread_mutex_lock(&task->keeper->mutex);
	tending->status.classes_done = done;
	tending->status.result = task->result;
	pthread_mutex_unlock(&task->keeper->mutex);
}

static void
compaction_end(struct task *task)
{
	struct tending *tending = &task->entry->tending;

	pthread_mutex_lock(&task->keeper->mutex);
	tending->command_running = false;
	tending->status.running = false;
	tending->status.result = task->result;
	pthread_mutex_unlock(&task->keeper->mutex);
}

/* Called between zspages, with no lock held. False: stop here. */
static bool
proceed(void *arg)
{
	struct task *task = arg;
	struct keeper *keeper = task->keeper;

	/* What somebody waits for goes before what nobody asked for. Relaxed: looked at again soon. */
	task->stopped = !may_go_on(task) || (!task->commanded && load_relaxed(&keeper->commands));
	pthread_mutex_lock(&keeper->mutex);
	task->entry->tending.status.result = task->result;
	pthread_mutex_unlock(&keeper->mutex);
	return !task->stopped;
}

/* Returns whether it came to its end. */
static bool
compact(struct keeper *keeper, struct pool_entry *entry, bool commanded,
	struct compact_estimate *estimate)
{
	struct task task = {
		.keeper = keeper, .entry = entry, .commanded = commanded, .slice_begin = now_ns()};
	struct allocator *allocator = pool_allocator(entry->pool);
	unsigned classes = allocator_classes(allocator), done = 0;

	compaction_begin(&task, classes, estimate);
	while (done < classes && proceed(&task)) {
		compact_class(allocator, pool_index(entry->pool), done, proceed, &task,
			      &task.result);
		compaction_step(&task, ++done);
	}
	trim(keeper, entry);
	pool_count_compaction(entry->pool, &task.result);
	compact_estimate(allocator, estimate);
	if (!task.stopped)
		entry->tending.left_over = estimate->pages;
	compaction_end(&task);
	return !task.stopped;
}

/*
 * Compacts if the gain is worth it. What the last one had to leave is not counted as gain. Returns
 * false when there is more to do.
 */
static bool
compact_if_worth(struct keeper *keeper, struct pool_entry *entry)
{
	struct allocator *allocator = pool_allocator(entry->pool);
	struct tending *tending = &entry->tending;
	struct compact_estimate estimate;

	if (!pool_config(entry->pool)->auto_compact)
		return true;
	compact_estimate(allocator, &estimate);
	if (estimate.pages < tending->left_over)
		tending->left_over = estimate.pages;
	if (estimate.pages < tending->left_over + worth(allocator))
		return true;
	return compact(keeper, entry, false, &estimate);
}

/* ---- passes ---- */

/* Takes hold of the pool, unless it is destroyed; keeper_forget waits for the end of it. */
static bool
hold(struct keeper *keeper, struct pool_entry *entry)
{
	bool alive;

	pthread_mutex_lock(&keeper->mutex);
	alive = pool_entry_alive(entry);
	if (alive)
		keeper->current = entry;
	pthread_mutex_unlock(&keeper->mutex);
	return alive;
}

static void
let_go(struct keeper *keeper)
{
	pthread_mutex_lock(&keeper->mutex);
	keeper->current = NULL;
	pthread_cond_broadcast(&keeper->released);
	pthread_mutex_unlock(&keeper->mutex);
}

static bool
is_commanded(struct keeper *keeper, struct pool_entry *entry)
{
	bool commanded;

	pthread_mutex_lock(&keeper->mutex);
	commanded = entry->tending.commanded;
	pthread_mutex_unlock(&keeper->mutex);
	return commanded;
}

static void
obey(struct keeper *keeper, struct pool_entry *entry)
{
	struct compact_estimate estimate;

	if (!is_commanded(keeper, entry))
		return;
	compact_estimate(pool_allocator(entry->pool), &estimate);
	compact(keeper, entry, true, &estimate);
}

/* True: the pool wants another pass. */
static bool
tend(struct keeper *keeper, struct pool_entry *entry)
{
	struct tending *tending = &entry->tending;
	struct allocator *allocator = pool_allocator(entry->pool);
	/* Acquire: what was freed before the mark was set is seen below. */
	bool dirty = exchange_acquire(&tending->dirty, 0);

	if (!dirty && !tending->settling)
		return false;
	tending->settling = !compact_if_worth(keeper, entry) || dirty;
	if (!dirty || zs_trimmable(allocator) >= worth(allocator))
		trim(keeper, entry);
	tending->settling |= watch_holes(keeper, entry);
	return tending->settling;
}

/* Looks after every pool once. True: there should be another pass soon. */
static bool
pass(struct keeper *keeper)
{
	struct pool_entry *list[ENGINE_POOLS_MAX];
	unsigned count = registry_all(&keeper->engine->registry, list);
	bool more = false;

	/* Before the pools' own marks are taken: a mark set later sets this again. */
	__atomic_store_n(&keeper->poked, 0, __ATOMIC_SEQ_CST);
	for (unsigned i = 0; i < count; i++) {
		if (hold(keeper, list[i])) {
			obey(keeper, list[i]);
			more |= tend(keeper, list[i]);
			let_go(keeper);
		}
		pool_entry_release(list[i]);
	}
	return more;
}

/* ---- waiting ---- */

static bool
has_business(struct keeper *keeper)
{
	/* Relaxed: the caller holds the mutex that both are changed under. */
	return load_relaxed(&keeper->stop) || load_relaxed(&keeper->commands);
}

static void
wait_a_period(struct keeper *keeper)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += KEEPER_PERIOD_MS * (NS_PER_S / 1000);
	if (end.tv_nsec >= NS_PER_S) {
		end.tv_sec++;
		end.tv_nsec -= NS_PER_S;
	}
	while (!has_business(keeper) &&
	       pthread_cond_timedwait(&keeper->wake, &keeper->mutex, &end) == 0)
		;
}

/*
 * Keeper and worker each write one word and then read the other's (resting and poked): one of them
 * sees the other's write, hence sequential consistency.
 */
static void
rest(struct keeper *keeper)
{
	__atomic_store_n(&keeper->resting, 1, __ATOMIC_SEQ_CST);
	while (!has_business(keeper) && !__atomic_load_n(&keeper->poked, __ATOMIC_SEQ_CST))
		pthread_cond_wait(&keeper->wake, &keeper->mutex);
	__atomic_store_n(&keeper->resting, 0, __ATOMIC_SEQ_CST);
}

static void *
keeper_main(void *arg)
{
	struct keeper *keeper = arg;

	/* Relaxed: keeper_stop wakes it under the mutex. */
	while (!load_relaxed(&keeper->stop)) {
		bool more = pass(keeper);

		pthread_mutex_lock(&keeper->mutex);
		if (more)
			wait_a_period(keeper);
		else
			rest(keeper);
		pthread_mutex_unlock(&keeper->mutex);
	}
	return NULL;
}

/* ---- what others call ---- */

static void __attribute__((noinline)) poke(struct keeper *keeper, struct pool_entry *entry)
{
	/* Pairs with the exchange in tend. */
	store_release(&entry->tending.dirty, 1);
	__atomic_store_n(&keeper->poked, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&keeper->resting, __ATOMIC_SEQ_CST))
		return;
	pthread_mutex_lock(&keeper->mutex);
	pthread_cond_signal(&keeper->wake);
	pthread_mutex_unlock(&keeper->mutex);
}

void
keeper_poke(struct keeper *keeper, struct pool_entry *entry)
{
	/*
	 * Relaxed: a mark that is seen although the keeper is just taking it away is made good by the
	 * pass that follows a dirty one, KEEPER_PERIOD_MS later.
	 */
	if (!load_relaxed(&entry->tending.dirty))
		poke(keeper, entry);
}

int
keeper_compact(struct keeper *keeper, struct pool_entry *entry, struct compaction_status *status)
{
	struct tending *tending = &entry->tending;
	struct compact_estimate estimate;
	int result = -EALREADY;

	compact_estimate(pool_allocator(entry->pool), &estimate);
	pthread_mutex_lock(&keeper->mutex);
	if (!tending->commanded && !tending->command_running) {
		tending->commanded = true;
		tending->status.generation++;
		add_relaxed(&keeper->commands, 1);
		pthread_cond_signal(&keeper->wake);
		result = 0;
	}
	*status = tending->status;
	pthread_mutex_unlock(&keeper->mutex);
	status->running = true;
	status->estimate = estimate;
	return result;
}

void
keeper_status(struct keeper *keeper, struct pool_entry *entry, struct compaction_status *status)
{
	pthread_mutex_lock(&keeper->mutex);
	*status = entry->tending.status;
	status->running |= entry->tending.commanded;
	pthread_mutex_unlock(&keeper->mutex);
}

void
keeper_forget(struct keeper *keeper, struct pool_entry *entry)
{
	pthread_mutex_lock(&keeper->mutex);
	while (keeper->current == entry)
		pthread_cond_wait(&keeper->released, &keeper->mutex);
	/* A compaction that was asked for and will not be. */
	if (entry->tending.commanded) {
		entry->tending.commanded = false;
		sub_relaxed(&keeper->commands, 1);
	}
	pthread_mutex_unlock(&keeper->mutex);
}

int
keeper_start(struct engine *engine, struct keeper **out)
{
	struct keeper *keeper = calloc(1, sizeof(*keeper));
	pthread_condattr_t monotonic;
	int result;

	if (!keeper)
		return -ENOMEM;
	keeper->engine = engine;
	pthread_mutex_init(&keeper->mutex, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&keeper->wake, &monotonic);
	pthread_cond_init(&keeper->released, NULL);
	pthread_condattr_destroy(&monotonic);
	result = engine_thread_create(&keeper->thread, "zc-keeper", keeper_main, keeper);
	if (result < 0) {
		free(keeper);
		return result;
	}
	*out = keeper;
	return 0;
}

void
keeper_stop(struct keeper *keeper)
{
	if (!keeper)
		return;
	pthread_mutex_lock(&keeper->mutex);
	store_relaxed(&keeper->stop, 1);
	pthread_cond_signal(&keeper->wake);
	pthread_mutex_unlock(&keeper->mutex);
	pthread_join(keeper->thread, NULL);
}

void
keeper_destroy(struct keeper **keeper)
{
	if (!*keeper)
		return;
	pthread_cond_destroy(&(*keeper)->wake);
	pthread_cond_destroy(&(*keeper)->released);
	pthread_mutex_destroy(&(*keeper)->mutex);
	free(*keeper);
	*keeper = NULL;
}
