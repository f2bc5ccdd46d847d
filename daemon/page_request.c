/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests for one page. A key of this worker's own shards is dealt with on the spot, out of the
 * decoder's memory: no copy, no allocation. Otherwise key and value are copied to a request in
 * flight, which the owner of the shard executes and sends back.
 */
#include "page_request.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "buffer.h"
#include "connection.h"
#include "engine_private.h"
#include "operation.h"
#include "reply.h"
#include "request.h"
#include "worker.h"

/* Lies in a struct buffer of the connection's worker. */
struct page_request {
	struct request request;
	struct operation operation;
	char value[]; /* of a put, or room for that of a get */
};
static_assert(sizeof(struct page_request) <= 512, "fits the smallest buffer");

static void
answer_operation(struct connection *connection, uint64_t id, const struct operation *operation)
{
	if (operation->status < 0)
		reply_error(connection, id, operation->status, operation->text);
	else if (operation->type == OPERATION_GET)
		reply_value(connection, id, operation->value, operation->length);
	else
		reply_done(connection, id);
}

static void
page_request_answer(struct request *request)
{
	struct page_request *page = (struct page_request *)request;

	answer_operation(request->connection, request->id, &page->operation);
}

static void
page_request_release(struct worker *worker, struct request *request)
{
	struct buffer *buffer =
		(struct buffer *)(void *)((char *)request - offsetof(struct buffer, data));

	buffer_give(&worker->buffers, &buffer);
}

static const struct request_kind page_request_kind = {page_request_answer, page_request_release};

/* In the owner's thread. */
static void
page_request_execute(struct worker *worker, struct message *message)
{
	struct page_request *page = (struct page_request *)message;

	operation_execute(&page->operation, worker);
	request_finish(&page->request);
}

/* Value memory that an operation in flight needs. */
static uint32_t
value_size(const struct operation *operation)
{
	if (operation->type == OPERATION_PUT)
		return operation->length;
	return operation->type == OPERATION_GET ? operation->entry->page_size : 0;
}

static bool
page_request_post(struct connection *connection, uint64_t id, const struct operation *operation,
		  struct worker *owner)
{
	uint32_t size = value_size(operation);
	struct page_request *page;
	struct buffer *buffer;

	if (connection->in_flight >= CONNECTION_IN_FLIGHT_MAX)
		return false;
	if (connection->in_flight && connection->in_flight_bytes + size > CONNECTION_VALUES_MAX)
		return false;
	buffer = buffer_take(&connection->worker->buffers, (uint32_t)sizeof(*page) + size);
	if (!buffer) {
		/* No answer: an error would promise that an old value of the key is gone. */
		connection_end_no_memory(connection);
		return true;
	}
	page = (struct page_request *)(void *)buffer->data;
	page->operation = *operation;
	page->operation.value = page->value;
	if (operation->type == OPERATION_PUT && size) /* protobuf-c gives NULL for no bytes */
		memcpy(page->value, operation->value, size);
	request_begin(&page->request, &page_request_kind, connection, id, size);
	inbox_post(&owner->inbox, &page->request.message, page_request_execute);
	return true;
}

static bool
page_request_do(struct connection *connection, uint64_t id, struct operation *operation)
{
	struct worker *worker = connection->worker, *owner = worker;

	/* The pool may be looked at while it is alive; if it is not, anybody can say so. */
	if (pool_entry_alive(operation->entry))
		owner = engine_owner(worker->engine,
				     pool_shard(operation->entry->pool, &operation->key));
	if (owner != worker)
		return page_request_post(connection, id, operation, owner);
	if (operation->type == OPERATION_GET)
		operation->value = worker->value;
	operation_execute(operation, worker);
	answer_operation(connection, id, operation);
	return true;
}

/* Handle and key; false when they are no good, and that has been answered. */
static bool
page_request_name(struct connection *connection, uint64_t id, uint32_t handle,
		  const Zcache__V1__Key *key, struct operation *operation)
{
	operation->entry = handle_find(connection->handles, handle);
	if (!operation->entry) {
		reply_error(connection, id, -EBADF, "no such handle on this connection");
		return false;
	}
	if (!key) {
		reply_error(connection, id, -EINVAL, "the key is missing");
		return false;
	}
	operation->key.object = key->object;
	operation->key.index = key->index;
	return true;
}

bool
page_request_put(struct connection *connection, const Zcache__V1__Request *request)
{
	const Zcache__V1__Put *put = request->put;
	struct operation operation = {.type = OPERATION_PUT,
				      .flags = put->keep_old ? POOL_KEEP_OLD : 0,
				      .value = (char *)put->value.data,
				      .length = (uint32_t)put->value.len};

	if (!page_request_name(connection, request->id, put->pool, put->key, &operation))
		return true;
	return page_request_do(connection, request->id, &operation);
}

bool
page_request_get(struct connection *connection, const Zcache__V1__Request *request)
{
	const Zcache__V1__Get *get = request->get;
	struct operation operation = {.type = OPERATION_GET};

	if (!page_request_name(connection, request->id, get->pool, get->key, &operation))
		return true;
	return page_request_do(connection, request->id, &operation);
}

bool
page_request_delete(struct connection *connection, const Zcache__V1__Request *request)
{
	const Zcache__V1__Delete *delete = request->delete_;
	struct operation operation = {.type = OPERATION_DELETE};

	if (!page_request_name(connection, request->id, delete->pool, delete->key, &operation))
		return true;
	return page_request_do(connection, request->id, &operation);
}

bool
page_request_exists(struct connection *connection, const Zcache__V1__Request *request)
{
	const Zcache__V1__Exists *exists = request->exists;
	struct operation operation = {.type = OPERATION_EXISTS};

	if (!page_request_name(connection, request->id, exists->pool, exists->key, &operation))
		return true;
	return page_request_do(connection, request->id, &operation);
}
