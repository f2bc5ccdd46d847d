/* SPDX-License-Identifier: BSD-2-Clause */
/* Inside the engine: what its threads share. Fields are constant while threads run unless marked. */
#ifndef ZCACHED_DAEMON_ENGINE_PRIVATE_H
#define ZCACHED_DAEMON_ENGINE_PRIVATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "engine.h"
#include "registry.h"

struct control;
struct keeper;
struct worker;

struct engine {
	const struct engine_config *config;
	uid_t uid; /* the service's user, who counts as root */
	uint64_t boot_id;
	struct timespec started;
	struct ceiling *ceiling;
	struct registry registry; /* has its own locking */
	struct worker *worker;	  /* worker_count of them */
	unsigned worker_count;
	struct control *control;
	struct keeper *keeper;
	sem_t drained;		/* posted by each draining worker once its requests are home */
	uint32_t spin_max_ns;	/* of a worker that waits for rings, see serve.h */
	uint32_t doorbells_max; /* eventfds of channels */
	struct budget channels; /* memory of channels; has its own atomics */

	/* atomic */
	uint32_t connections;
	uint64_t connections_total;
	uint64_t connections_refused;
	uint64_t denied;
	uint32_t doorbells;
};

/* The worker that owns a shard, of every pool. */
struct worker *engine_owner(const struct engine *engine, unsigned shard);

/* A thread with a small fixed stack and a name. Returns 0 or a negative errno. */
int engine_thread_create(pthread_t *thread, const char *name, void *(*main)(void *), void *arg);

#endif
