/* SPDX-License-Identifier: BSD-2-Clause */
/* Mapping the pools of a connection; for client*.c and direct.c. Thread safe but for pool_detach(). */
#ifndef ZCLIENT_CLIENT_ATTACH_H
#define ZCLIENT_CLIENT_ATTACH_H

#include "client.h"

/* Maps the pool, unless that was tried on this connection. Waits at most until `deadline`. */
void pool_attach(struct zc_pool *pool, uint64_t deadline);

/* Nobody uses the pool any more. */
void pool_detach(struct zc_pool *pool);

/* Unmaps what was replaced and is not being read. */
void attachments_reap(struct zc *zc);

#endif
