/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for one page: put, get, delete, exists. Called by request_dispatch. */
#ifndef ZCACHED_DAEMON_PAGE_REQUEST_H
#define ZCACHED_DAEMON_PAGE_REQUEST_H

#include <stdbool.h>

#include "zcache.pb-c.h"

struct connection;

/* Each returns false when the request cannot be taken now, see request_dispatch. */
bool page_request_put(struct connection *connection, const Zcache__V1__Request *request);
bool page_request_get(struct connection *connection, const Zcache__V1__Request *request);
bool page_request_delete(struct connection *connection, const Zcache__V1__Request *request);
bool page_request_exists(struct connection *connection, const Zcache__V1__Request *request);

#endif
