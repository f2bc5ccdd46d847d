/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pages: put, get, del, exists, and whole objects.
 *
 * Every function here may be done twice with the same end, so all are sent again after a lost
 * connection. Thread safe; no allocation.
 */
#include "client.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

static Zcache__V1__Key
make_key(zc_key key)
{
	Zcache__V1__Key message = ZCACHE__V1__KEY__INIT;

	message.object = key.object;
	message.index = key.index;
	return message;
}

/* What can be told without asking. */
static int
check_value(struct zc_pool *pool, const void *value, size_t length, unsigned flags)
{
	if (!pool)
		return -EINVAL;
	if (flags & ~(unsigned)ZC_KEEP_OLD)
		return client_error(pool->zc, -EINVAL, "unknown flag");
	if (!value || length == 0)
		return client_error(pool->zc, -EINVAL, "no value");
	if (length > pool->info.page_size)
		return client_error(pool->zc, -EMSGSIZE, "longer than a page of the pool");
	return 0;
}

int
zc_put(struct zc_pool *pool, zc_key key, const void *value, size_t length, unsigned flags)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Put put = ZCACHE__V1__PUT__INIT;
	Zcache__V1__Key put_key = make_key(key);
	struct call call = {.request = &request, .resend = true};
	int error = check_value(pool, value, length, flags);

	if (error)
		return error;
	put.key = &put_key;
	put.value.data = (uint8_t *)value;
	put.value.len = length;
	put.keep_old = flags & ZC_KEEP_OLD;
	request.op_case = ZCACHE__V1__REQUEST__OP_PUT;
	request.put = &put;
	return (int)client_pool_call(pool, &call, &put.pool);
}

struct value_buffer {
	void *data;
	size_t size;
};

static int64_t
take_value(const Zcache__V1__Response *response, void *into)
{
	const ProtobufCBinaryData *value = &response->value->value;
	const struct value_buffer *buffer = into;

	if (value->len == 0)
		return -EPROTO;
	if (value->len > buffer->size)
		return -EMSGSIZE;
	memcpy(buffer->data, value->data, value->len);
	return (int64_t)value->len;
}

int
zc_get(struct zc_pool *pool, zc_key key, void *buffer, size_t size)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Get get = ZCACHE__V1__GET__INIT;
	Zcache__V1__Key get_key = make_key(key);
	struct value_buffer value = {buffer, size};
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_VALUE,
		.take = take_value,
		.into = &value,
	};

	if (!buffer && size)
		return -EINVAL;
	get.key = &get_key;
	request.op_case = ZCACHE__V1__REQUEST__OP_GET;
	request.get = &get;
	return (int)client_pool_call(pool, &call, &get.pool);
}

int
zc_del(struct zc_pool *pool, zc_key key)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Delete del = ZCACHE__V1__DELETE__INIT;
	Zcache__V1__Key del_key = make_key(key);
	struct call call = {.request = &request, .resend = true};

	del.key = &del_key;
	request.op_case = ZCACHE__V1__REQUEST__OP_DELETE;
	request.delete_ = &del;
	return (int)client_pool_call(pool, &call, &del.pool);
}

int
zc_exists(struct zc_pool *pool, zc_key key)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Exists exists = ZCACHE__V1__EXISTS__INIT;
	Zcache__V1__Key exists_key = make_key(key);
	struct call call = {.request = &request, .resend = true};
	int64_t result;

	exists.key = &exists_key;
	request.op_case = ZCACHE__V1__REQUEST__OP_EXISTS;
	request.exists = &exists;
	result = client_pool_call(pool, &call, &exists.pool);
	if (result == -ENOENT)
		return 0;
	return result < 0 ? (int)result : 1;
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
