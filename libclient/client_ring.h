/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for pages through the rings of a zc's channels; for client_page.c and client_batch.c. Thread safe.
 */
#ifndef ZCLIENT_CLIENT_RING_H
#define ZCLIENT_CLIENT_RING_H

#include "client.h"

/*
 * Makes a request and waits for its result: the service's status (of a get the length, with the value in its
 * buffer), -ETIMEDOUT, -EPROTO; or -EAGAIN: it has to go by the socket, and may have been done already if it changes
 * something.
 */
int64_t ring_run(const struct zc_request *request, uint64_t deadline);

/*
 * The channel for the pool's pages, locked, with what requests need there in *address, and the caller counted as its
 * user until client_rings_leave(). NULL: there is none. `open`: ask for one if that was not done yet.
 */
struct rings *client_rings_enter(struct zc_pool *pool, bool open, uint64_t deadline,
				 struct pool_address *address);
void client_rings_leave(struct zc *zc, struct rings *rings);

/* A request as rings have it, but for its slot, and the ring that it belongs to. */
struct channel_request ring_request(const struct zc_request *request, uint32_t handle);
uint32_t ring_choose(const struct rings *rings, uint64_t seed, zc_key key);

/* For zc_path_stats(). */
void client_count_ring(struct zc *zc, uint32_t opcode);

#endif
