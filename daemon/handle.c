/* SPDX-License-Identifier: BSD-2-Clause */
/* Handles of a connection; handle.h has the contract. */
#include "handle.h"

#include <assert.h>
#include <stdlib.h>

/*
 * A free slot, or one whose pool is gone. There are as many slots as pools can live at once, and
 * none is created while this worker is in an operation on one that is being destroyed.
 */
static unsigned
slot_take(struct handle_table *table)
{
	unsigned slot = 0;

	while (table->slot[slot].handle && pool_entry_alive(table->slot[slot].entry)) {
		slot++;
		assert(slot < ENGINE_POOLS_MAX);
	}
	if (table->slot[slot].handle)
		pool_entry_release(table->slot[slot].entry);
	return slot;
}

uint32_t
handle_give(struct handle_table **pointer, struct pool_entry *entry)
{
	struct handle_table *table = *pointer;
	unsigned slot;

	if (!table)
		table = *pointer = calloc(1, sizeof(*table));
	if (!table)
		return 0;
	for (slot = 0; slot < ENGINE_POOLS_MAX; slot++) {
		if (table->slot[slot].handle && table->slot[slot].entry == entry) {
			pool_entry_release(entry);
			return table->slot[slot].handle;
		}
	}
	slot = slot_take(table);
	table->slot[slot].entry = entry;
	table->slot[slot].handle = table->given++ * ENGINE_POOLS_MAX + slot + 1;
	return table->slot[slot].handle;
}

struct pool_entry *
handle_find(const struct handle_table *table, uint32_t handle)
{
	unsigned slot = (handle - 1) % ENGINE_POOLS_MAX;

	if (!table || handle == 0 || table->slot[slot].handle != handle)
		return NULL;
	return table->slot[slot].entry;
}

void
handle_table_destroy(struct handle_table **table)
{
	for (unsigned slot = 0; *table && slot < ENGINE_POOLS_MAX; slot++)
		if ((*table)->slot[slot].handle)
			pool_entry_release((*table)->slot[slot].entry);
	free(*table);
	*table = NULL;
}
