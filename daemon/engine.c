/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: beginning and orderly end; engine.h has the contract.
 *
 * The end: accepting stops; the keeper stops what it does; workers drain, that is, take no more
 * requests and wait for those under way, while the control thread still answers its own; then the
 * control thread ends, the workers send what they can and end, and the pools are destroyed.
 */
#include "engine.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "acceptor.h"
#include "control.h"
#include "engine_private.h"
#include "keeper.h"
#include "log.h"
#include "size.h"
#include "worker.h"

/*
 * What is left to the rest of the service under a memory cgroup: threads, buffers of connections,
 * and what workers have paid for and not yet touched.
 */
#define CEILING_MARGIN (16ULL << 20)
#define THREAD_STACK   (512u << 10)
#define CPUS_MAX       (1u << 16)

struct worker *
engine_owner(const struct engine *engine, unsigned shard)
{
	return &engine->worker[shard % engine->worker_count];
}

int
engine_thread_create(pthread_t *thread, const char *name, void *(*main)(void *), void *arg)
{
	pthread_attr_t attributes;
	int error;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, THREAD_STACK);
	error = pthread_create(thread, &attributes, main, arg);
	pthread_attr_destroy(&attributes);
	if (error == 0)
		pthread_setname_np(*thread, name);
	return -error;
}

/* ---- CPUs and files ---- */

/* The CPUs this process may run on, in a set of *size bytes; NULL: unknown. */
static cpu_set_t *
allowed_cpus(size_t *size)
{
	for (unsigned cpus = 1024; cpus <= CPUS_MAX; cpus *= 2) {
		cpu_set_t *set = CPU_ALLOC(cpus);

		*size = CPU_ALLOC_SIZE(cpus);
		if (set && sched_getaffinity(0, *size, set) == 0)
			return set;
		CPU_FREE(set);
		/* EINVAL: the kernel knows more CPUs. */
		if (errno != EINVAL)
			return NULL;
	}
	return NULL;
}

/* The number of the `rank`th CPU in the set, counted round; numbers may have holes. */
static int
cpu_at(const cpu_set_t *set, size_t size, unsigned rank)
{
	int cpu = -1;

	if (!set)
		return -1;
	rank %= (unsigned)CPU_COUNT_S(size, set);
	for (unsigned seen = 0; seen <= rank;)
		if (CPU_ISSET_S(++cpu, size, set))
			seen++;
	return cpu;
}

static unsigned
choose_worker_count(const struct engine_config *config, const cpu_set_t *set, size_t size)
{
	unsigned count = config->workers;

	if (count == 0)
		count = set ? (unsigned)CPU_COUNT_S(size, set) : 1;
	return count < ENGINE_WORKERS_MAX ? count : ENGINE_WORKERS_MAX;
}

/* A worker that spins keeps its CPU from others: only where that leaves one for the client. */
static uint32_t
choose_spin(const cpu_set_t *set, size_t size, unsigned workers)
{
	unsigned cpus = set ? (unsigned)CPU_COUNT_S(size, set) : 1;

	return cpus > 1 && workers <= cpus ? SERVE_SPIN_NS : 0;
}

/* Each connection is a file, and each pool six; doorbells may be half of the rest. */
static void
raise_file_limit(struct engine *engine)
{
	struct rlimit limit, raised;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	raised = (struct rlimit){limit.rlim_max, limit.rlim_max};
	if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) < 0)
		log_warning("cannot raise the limit of open files: %s", strerror(errno));
	else
		limit.rlim_cur = limit.rlim_max;
	engine->doorbells_max =
		limit.rlim_cur / 2 < UINT32_MAX ? (uint32_t)(limit.rlim_cur / 2) : UINT32_MAX;
}

/* ---- beginning ---- */

static int
cannot(const char *what, int error)
{
	log_error("cannot %s: %s", what, strerror(-error));
	return error;
}

static int
make_workers(struct engine *engine)
{
	size_t size = 0;
	cpu_set_t *set = allowed_cpus(&size);
	unsigned count = choose_worker_count(engine->config, set, size);
	int result = -ENOMEM;

	engine->spin_max_ns = choose_spin(set, size, count);
	engine->worker = aligned_alloc(alignof(struct worker), count * sizeof(struct worker));
	if (engine->worker)
		result = 0;
	for (unsigned i = 0; result == 0 && i < count; i++) {
		result = worker_init(&engine->worker[i], engine, i, cpu_at(set, size, i));
		/* Counted in any case: worker_destroy accepts a half-made one. */
		engine->worker_count++;
	}
	CPU_FREE(set);
	return result < 0 ? cannot("set up the workers", result) : 0;
}

static int
make_pool(struct engine *engine, const struct pool_config *config)
{
	char limit[SIZE_TEXT];
	int result = registry_create_pool(&engine->registry, config, engine->ceiling,
					  engine->worker_count, false);

	if (result == -ENOSPC)
		log_error("cannot make pool %s: the limit of %s does not hold an empty pool",
			  config->name, size_format(config->limit, limit));
	else if (result < 0)
		log_error("cannot make pool %s: %s", config->name, strerror(-result));
	return result;
}

static int
make_pools(struct engine *engine)
{
	int result = ceiling_create(CEILING_MARGIN, &engine->ceiling);

	if (result < 0)
		return cannot("look at the memory cgroups", result);
	budget_init(&engine->channels, ENGINE_CHANNELS_MAX, engine->ceiling);
	for (unsigned i = 0; i < engine->config->pools && result == 0; i++)
		result = make_pool(engine, &engine->config->pool[i]);
	return result;
}

static int
start_threads(struct engine *engine)
{
	int result = keeper_start(engine, &engine->keeper);

	if (result == 0)
		result = control_start(engine, &engine->control);
	for (unsigned i = 0; i < engine->worker_count && result == 0; i++)
		result = worker_start(&engine->worker[i]);
	return result < 0 ? cannot("start the threads", result) : 0;
}

static int
engine_start(struct engine *engine)
{
	int result;

	clock_gettime(CLOCK_MONOTONIC, &engine->started);
	if (getrandom(&engine->boot_id, sizeof(engine->boot_id), 0) !=
	    (ssize_t)sizeof(engine->boot_id))
		return cannot("get random bytes", -EIO);
	raise_file_limit(engine);
	result = make_workers(engine);
	if (result == 0)
		result = make_pools(engine);
	if (result == 0)
		result = start_threads(engine);
	return result;
}

/* ---- end ---- */

static void
drain_workers(struct engine *engine)
{
	unsigned started = 0;

	for (unsigned i = 0; i < engine->worker_count; i++) {
		if (engine->worker[i].started) {
			worker_drain(&engine->worker[i]);
			started++;
		}
	}
	while (started)
		if (sem_wait(&engine->drained) == 0)
			started--;
}

static void
stop_workers(struct engine *engine)
{
	for (unsigned i = 0; i < engine->worker_count; i++)
		if (engine->worker[i].started)
			worker_stop(&engine->worker[i]);
	for (unsigned i = 0; i < engine->worker_count; i++)
		if (engine->worker[i].started)
			pthread_join(engine->worker[i].thread, NULL);
	for (unsigned i = 0; i < engine->worker_count; i++)
		worker_destroy(&engine->worker[i]);
	free(engine->worker);
}

static void
engine_stop(struct engine *engine)
{
	keeper_stop(engine->keeper);
	drain_workers(engine);
	control_stop(&engine->control);
	stop_workers(engine);
	keeper_destroy(&engine->keeper);
	registry_destroy(&engine->registry);
	ceiling_destroy(&engine->ceiling);
	sem_destroy(&engine->drained);
}

int
engine_run(const struct engine_config *config, int listening, int stop_fd,
	   const struct engine_events *events)
{
	struct engine engine = {.config = config, .uid = geteuid()};
	int result;

	registry_init(&engine.registry);
	sem_init(&engine.drained, 0, 0);
	result = engine_start(&engine);
	if (result == 0)
		result = acceptor_run(&engine, listening, stop_fd, events);
	engine_stop(&engine);
	return result;
}
