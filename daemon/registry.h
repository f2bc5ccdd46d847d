/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pools there are, by name, and how one is destroyed while others use it.
 *
 * Entries are counted references: the registry holds one, each handle of a connection one, and
 * whoever looked one up. They keep the entry, not the pool's memory. That is governed by
 * `destroyed` and by quiescence: a worker looks at `destroyed` at the beginning of each operation
 * and touches the pool only inside an operation; the control thread sets it, waits until every
 * worker has passed between two operations and the keeper has let go, and then destroys the pool.
 * So the data path pays one load, and nobody ever waits for the control thread.
 *
 * Who calls it: workers look up (pool_open), the control thread adds and removes, the keeper goes
 * through all. The mutex is a leaf, held for a few comparisons of names and never across a system
 * call.
 */
#ifndef ZCACHED_DAEMON_REGISTRY_H
#define ZCACHED_DAEMON_REGISTRY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "keeper.h"
#include "map_note.h"
#include "pool.h"
#include "scan.h"

struct pool_entry {
	struct pool *pool;	 /* NULL once it is destroyed */
	uint32_t references;	 /* atomic */
	uint32_t destroyed;	 /* atomic flag: no operation may begin */
	uint32_t unshared;	 /* atomic flag: its memory is given to no more clients */
	uint32_t page_size;	 /* of the pool */
	uint32_t owner_uid;	 /* of the pool */
	uint64_t limit;		 /* of the pool, bytes */
	bool by_client;		 /* not of the service's configuration */
	struct tending tending;	 /* the keeper's */
	struct map_notes mapped; /* who was given its memory */
	struct scan_queue *scan; /* one for each worker, and that worker's own */
};

struct registry {
	pthread_mutex_t mutex;
	struct pool_entry *entry[ENGINE_POOLS_MAX]; /* oldest first */
	unsigned count;
};

void registry_init(struct registry *registry);
/* Destroys the pools that are left; nobody else may use the registry any more. */
void registry_destroy(struct registry *registry);

/*
 * Creates a pool and adds it. Returns 0, -EEXIST, -ENOSPC (ENGINE_POOLS_MAX pools, or the limit
 * holds no empty pool), or what pool_create says. Control thread, or before threads.
 */
int registry_create_pool(struct registry *registry, const struct pool_config *config,
			 struct ceiling *ceiling, unsigned workers, bool by_client);

/* The control thread alone adds and removes; so these two are for it. */
bool registry_has(struct registry *registry, const char *name);
const struct pool_entry *registry_newest(const struct registry *registry);

/* The entry of that name with a reference for the caller, or NULL. */
struct pool_entry *registry_find(struct registry *registry, const char *name);

/* All entries with a reference each for the caller; returns how many. */
unsigned registry_all(struct registry *registry, struct pool_entry *list[ENGINE_POOLS_MAX]);

/* Takes the entry out and marks it destroyed; the registry's reference becomes the caller's. */
void registry_remove(struct registry *registry, struct pool_entry *entry);

/* Bytes that the limits of pools made by clients add up to. Control thread. */
uint64_t registry_client_limits(struct registry *registry);

/* Gives a reference back; the last one frees the entry. */
void pool_entry_release(struct pool_entry *entry);

/* Whether `uid` may use the pool: its owner, root, or the user the service runs as. */
bool pool_entry_permits(const struct pool_entry *entry, uint32_t uid, uint32_t service_uid);

/* Whether operations may still begin. */
bool pool_entry_alive(const struct pool_entry *entry);

#endif
