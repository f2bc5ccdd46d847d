/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles: the numbers by which a connection names the pools it has opened.
 *
 * A handle is slot + 1 + ENGINE_POOLS_MAX * how often handles were given, so that one that is no
 * longer good is never mistaken for a later one. A pool that is opened again has the handle it had;
 * the slots of destroyed pools are used again, so the table is never full.
 *
 * A table belongs to one connection, and so to one worker. It is made at the first pool_open.
 */
#ifndef ZCACHED_DAEMON_HANDLE_H
#define ZCACHED_DAEMON_HANDLE_H

#include <stdint.h>

#include "registry.h"

struct handle_table {
	uint32_t given;
	struct {
		uint32_t handle; /* 0: the slot is free */
		struct pool_entry *entry;
	} slot[ENGINE_POOLS_MAX];
};

/*
 * Gives a handle, and keeps the caller's reference to the entry (or releases it, when the table has
 * one already). Returns the handle, or 0 when there is no memory for a table; the reference stays
 * the caller's then.
 */
uint32_t handle_give(struct handle_table **table, struct pool_entry *entry);

/* The entry of a handle, or NULL when it is not one of this table. No reference is taken. */
struct pool_entry *handle_find(const struct handle_table *table, uint32_t handle);

/* Releases all. *table becomes NULL; NULL is accepted. */
void handle_table_destroy(struct handle_table **table);

#endif
