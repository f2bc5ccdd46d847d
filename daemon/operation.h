/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One operation on one page: what a worker does to a pool for a request.
 *
 * Executed by the worker that owns the key's shard, at once when that is the connection's worker,
 * else out of a struct page_request (page_request.h).
 */
#ifndef ZCACHED_DAEMON_OPERATION_H
#define ZCACHED_DAEMON_OPERATION_H

#include <stdint.h>

#include "layout.h"
#include "registry.h"

struct worker;

enum operation_type {
	OPERATION_PUT,
	OPERATION_GET,
	OPERATION_DELETE,
	OPERATION_EXISTS,
};

struct operation {
	enum operation_type type;
	unsigned flags; /* of a put: enum pool_flags */
	struct pool_entry *entry;
	struct page_key key;
	char *value;	  /* of a put: what to store; of a get: where to, page_size bytes */
	uint32_t length;  /* of the value; of a get: set with the result */
	int32_t status;	  /* result: 0 or a negative errno */
	const char *text; /* result: for people, with an error */
};

void operation_execute(struct operation *operation, struct worker *worker);

#endif
