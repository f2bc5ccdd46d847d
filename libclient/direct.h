/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gets that read the pool's memory themselves: no system call, no lock, no other process.
 *
 * Thread safe. All return -EAGAIN, and have done nothing, where the request has to go another way.
 */
#ifndef ZCLIENT_DIRECT_H
#define ZCLIENT_DIRECT_H

#include "client.h"

/* Length, -ENOENT, -EMSGSIZE; `buffer` is as it was on an error. */
int direct_get(struct zc_pool *pool, zc_key key, void *buffer, size_t size);

/* 1 or 0. */
int direct_exists(struct zc_pool *pool, zc_key key);

/*
 * The same for items[0 .. count), as far as they can be read: each result is set, to -EAGAIN where it has to go
 * another way. Returns how many were dealt with: fewer where none can be read now, or at the deadline.
 */
size_t direct_get_many(struct zc_pool *pool, struct zc_item *items, size_t count,
		       uint64_t deadline);

#endif
