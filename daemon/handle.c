/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles of a connection; handle.h has the contract. */
#include "handle.h"

#include <assert.h>
#include <stdlib.h>

#include "atomic.h"
#include "engine_private.h"
#include "worker.h"

bool
handle_table_make(struct handle_table **table)
{
	if (!*table)
		*table = calloc(1, sizeof(**table));
	return *table;
}

static void
handle_free(struct handle *handle)
{
	pool_entry_release(handle->entry);
	free(handle);
}

/* ---- the end of a handle ---- */

/* Home again: nobody knows it any more. */
static void
handle_arrive(struct worker *worker, struct message *message)
{
	handle_free((struct handle *)message);
	worker_request_returns(worker);
}

static void
handle_visit(struct worker *worker, struct message *message)
{
	struct handle *handle = (struct handle *)message;
	struct engine *engine = handle->home->engine;

	(void)worker;
	if (handle->visited < engine->worker_count)
		inbox_post(&engine->worker[handle->visited++].inbox, message, handle_visit);
	else
		inbox_post(&handle->home->inbox, message, handle_arrive);
}

/* ---- giving ---- */

/*
 * A free slot, or one whose pool is gone. There are as many slots as pools can live at once, and none
 * is created while this worker is in an operation on one that is being destroyed.
 */
static unsigned
slot_find(const struct handle_table *table)
{
	unsigned slot = 0;

	/* Relaxed, here and below: this thread alone stores. */
	while (load_relaxed(&table->slot[slot]) &&
	       pool_entry_alive(load_relaxed(&table->slot[slot])->entry)) {
		slot++;
		assert(slot < ENGINE_POOLS_MAX);
	}
	return slot;
}

/* Puts a handle, or nothing, into a slot; what was there goes on its last round. */
static void
slot_set(struct handle_table *table, unsigned slot, struct handle *handle, struct worker *worker)
{
	struct handle *old = load_relaxed(&table->slot[slot]);

	/* Pairs with the acquire in handle_find. */
	store_release(&table->slot[slot], handle);
	if (!old)
		return;
	old->home = worker;
	worker_request_leaves(worker);
	handle_visit(worker, &old->message);
}

static uint32_t
handle_of(const struct handle_table *table, const struct pool_entry *entry)
{
	for (unsigned slot = 0; slot < ENGINE_POOLS_MAX; slot++) {
		const struct handle *handle = load_relaxed(&table->slot[slot]);

		if (handle && handle->entry == entry)
			return handle->number;
	}
	return 0;
}

uint32_t
handle_give(struct handle_table **pointer, struct worker *worker, struct pool_entry *entry)
{
	struct handle_table *table;
	struct handle *handle;
	uint32_t number;
	unsigned slot;

	if (!handle_table_make(pointer))
		return 0;
	table = *pointer;
	number = handle_of(table, entry);
	if (number) {
		pool_entry_release(entry);
		return number;
	}
	handle = calloc(1, sizeof(*handle));
	if (!handle)
		return 0;
	slot = slot_find(table);
	handle->entry = entry;
	handle->number = table->given++ * ENGINE_POOLS_MAX + slot + 1;
	slot_set(table, slot, handle, worker);
	return handle->number;
}

struct pool_entry *
handle_find(const struct handle_table *table, uint32_t number)
{
	const struct handle *handle;

	if (!table || number == 0)
		return NULL;
	/* Acquire: pairs with the release in slot_set. */
	handle = load_acquire(&table->slot[(number - 1) % ENGINE_POOLS_MAX]);
	return handle && handle->number == number ? handle->entry : NULL;
}

void
handle_table_destroy(struct handle_table **table)
{
	for (unsigned slot = 0; *table && slot < ENGINE_POOLS_MAX; slot++)
		if ((*table)->slot[slot])
			handle_free((*table)->slot[slot]);
	free(*table);
	*table = NULL;
}
