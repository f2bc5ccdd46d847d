/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages: put, get, del, exists, and whole objects.
 *
 * A get or exists reads the pool's memory (direct.c); what cannot, and every put and delete, goes through a ring
 * (client_ring.c), and where there is none by the socket. Every function here may be done twice with the same
 * end, so all are sent again after a lost connection. Thread safe; no allocation.
 */
#include "client_page.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "atomic.h"
#include "client_attach.h"
#include "client_ring.h"
#include "deadline.h"
#include "direct.h"
#include "page_message.h"

/* ---- by the socket ---- */

static int64_t
take_page(const Zcache__V1__Response *response, void *into)
{
	return page_message_take(response, into);
}

static void
count_socket(struct zc *zc, uint32_t opcode)
{
	uint64_t *const counts[] = {
		[ZC_OP_PUT] = &zc->counts.socket_puts,
		[ZC_OP_GET] = &zc->counts.socket_gets,
		[ZC_OP_DEL] = &zc->counts.socket_dels,
		[ZC_OP_EXISTS] = &zc->counts.socket_exists,
	};

	add_relaxed(counts[opcode], 1);
}

int64_t
request_by_socket(const struct zc_request *request, uint64_t deadline)
{
	struct zc_request into = *request;
	struct page_message message;
	struct call call = {
		.request = &message.request,
		.resend = true,
		.expect = page_message_expect(request->opcode),
		.take = take_page,
		.into = &into,
	};
	uint32_t *handle = page_message_make(&message, request);
	int64_t result = client_pool_call_until(request->pool, &call, handle, deadline);

	count_socket(request->pool->zc, request->opcode);
	pool_attach(request->pool, deadline);
	return page_result(request->opcode, result);
}

/* ---- otherwise ---- */

int64_t
request_run(const struct zc_request *request, uint64_t deadline)
{
	const char *text;
	int error = page_check(request, &text);
	int64_t result;

	if (error)
		return client_error(request->pool->zc, error, text);
	result = ring_run(request, deadline);
	if (result == -EAGAIN)
		return request_by_socket(request, deadline);
	result = page_result(request->opcode, result);
	return result < 0 ? client_error(request->pool->zc, (int)result, "") : result;
}

static int64_t
run_now(struct zc_pool *pool, zc_key key, void *buffer, size_t length, uint32_t opcode,
	unsigned flags)
{
	struct zc_request request = {
		.pool = pool,
		.key = key,
		.buffer = buffer,
		.length = length,
		.opcode = opcode,
		.flags = flags,
	};

	return request_run(&request, client_deadline(pool->zc));
}

/* ---- the public functions ---- */

int
zc_put(struct zc_pool *pool, zc_key key, const void *value, size_t length, unsigned flags)
{
	if (!pool)
		return -EINVAL;
	return (int)run_now(pool, key, (void *)value, length, ZC_OP_PUT, flags);
}

int
zc_get(struct zc_pool *pool, zc_key key, void *buffer, size_t size)
{
	int length;

	if (!pool || (!buffer && size))
		return -EINVAL;
	length = direct_get(pool, key, buffer, size);
	if (length >= 0)
		return length;
	if (length != -EAGAIN)
		return client_error(pool->zc, length, "");
	return (int)run_now(pool, key, buffer, size, ZC_OP_GET, 0);
}

int
zc_del(struct zc_pool *pool, zc_key key)
{
	return pool ? (int)run_now(pool, key, NULL, 0, ZC_OP_DEL, 0) : -EINVAL;
}

int
zc_exists(struct zc_pool *pool, zc_key key)
{
	int result = pool ? direct_exists(pool, key) : -EINVAL;

	return result == -EAGAIN ? (int)run_now(pool, key, NULL, 0, ZC_OP_EXISTS, 0) : result;
}

/* ---- many at once ---- */

static int64_t
take_deleted(const Zcache__V1__Response *response, void *into)
{
	uint64_t pages = response->deleted->pages;

	(void)into;
	return pages < INT64_MAX ? (int64_t)pages : INT64_MAX;
}

int64_t
zc_del_object(struct zc_pool *pool, uint64_t object)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__DeleteObject del = ZCACHE__V1__DELETE_OBJECT__INIT;
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_DELETED,
		.take = take_deleted,
	};

	del.object = object;
	request.op_case = ZCACHE__V1__REQUEST__OP_DELETE_OBJECT;
	request.delete_object = &del;
	return client_pool_call(pool, &call, &del.pool);
}

int64_t
zc_flush(struct zc_pool *pool)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Flush flush = ZCACHE__V1__FLUSH__INIT;
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_DELETED,
		.take = take_deleted,
	};

	request.op_case = ZCACHE__V1__REQUEST__OP_FLUSH;
	request.flush = &flush;
	return client_pool_call(pool, &call, &flush.pool);
}
