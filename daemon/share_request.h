/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for shared memory: a pool's, to read, and a channel. Their answers carry file descriptors.
 * Called by request_dispatch.
 */
#ifndef ZCACHED_DAEMON_SHARE_REQUEST_H
#define ZCACHED_DAEMON_SHARE_REQUEST_H

#include <stdbool.h>

#include "zcache.pb-c.h"

struct connection;

/* Each returns false when the request cannot be taken now, see request_dispatch. */
bool share_request_pool(struct connection *connection, const Zcache__V1__Request *request);
bool share_request_channel(struct connection *connection, const Zcache__V1__Request *request);

#endif
