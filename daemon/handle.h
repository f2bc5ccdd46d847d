/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles: the numbers by which a connection names the pools it has opened.
 *
 * A handle is slot + 1 + ENGINE_POOLS_MAX * how often handles were given, so that one that is no
 * longer good is never mistaken for a later one. A pool that is opened again has the handle it had;
 * the slots of destroyed pools are used again, so the table is never full.
 *
 * A table belongs to one connection, made with the first handle or the first channel. The connection's
 * worker alone changes it. Other workers look into it for requests that come by ring: a slot is one
 * pointer, and a handle that leaves its slot is freed only after it has visited every worker's inbox,
 * so after every operation, and every request on its way, that may have seen it.
 */
#ifndef ZCACHED_DAEMON_HANDLE_H
#define ZCACHED_DAEMON_HANDLE_H

#include <stdint.h>

#include "inbox.h"
#include "registry.h"

struct handle {
	struct message message; /* first: takes it from worker to worker when it has ended */
	uint32_t number;
	unsigned visited; /* workers */
	struct worker *home;
	struct pool_entry *entry; /* holds a reference */
};

struct handle_table {
	uint32_t given;
	struct handle *slot[ENGINE_POOLS_MAX]; /* atomic; NULL: free */
};

/* Makes the table, unless there is one. False: no memory. */
bool handle_table_make(struct handle_table **table);

/*
 * Gives a handle, and keeps the caller's reference to the entry (or releases it, when the table has
 * one already). Returns the handle, or 0 when there is no memory; the reference stays the caller's
 * then. `worker` is the connection's.
 */
uint32_t handle_give(struct handle_table **table, struct worker *worker, struct pool_entry *entry);

/*
 * The entry of a handle, or NULL when it is not one of this table. No reference is taken: it is good
 * until the calling worker looks into its inbox again. Any worker.
 */
struct pool_entry *handle_find(const struct handle_table *table, uint32_t number);

/* Releases all. No other worker looks into it any more. *table becomes NULL; NULL is accepted. */
void handle_table_destroy(struct handle_table **table);

#endif
