/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ways that one request for a page can go when it was not read directly; for client_page.c, client_batch.c
 * and queue.c. Thread safe. Results are those of the public functions.
 */
#ifndef ZCLIENT_CLIENT_PAGE_H
#define ZCLIENT_CLIENT_PAGE_H

#include "client.h"

/* Through the rings, else by the socket. Checks the request first. */
int64_t request_run(const struct zc_request *request, uint64_t deadline);

/* By the socket; and maps the pool if that was not tried on this connection. The request is good. */
int64_t request_by_socket(const struct zc_request *request, uint64_t deadline);

#endif
