/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests: decoding and dispatch, and those that are answered at once; request.h has the contract.
 * The protocol's rules are docs/protocol.md.
 */
#include "request.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "atomic.h"
#include "connection.h"
#include "control.h"
#include "engine_private.h"
#include "log.h"
#include "page_request.h"
#include "reply.h"
#include "scan.h"
#include "share_request.h"
#include "wire.h"
#include "worker.h"
#include "zcache.pb-c.h"

/* ---- in flight ---- */

void
request_begin(struct request *request, const struct request_kind *kind,
	      struct connection *connection, uint64_t id, uint32_t bytes)
{
	request->kind = kind;
	request->connection = connection;
	request->id = id;
	request->bytes = bytes;
	connection->in_flight++;
	connection->in_flight_bytes += bytes;
	worker_request_leaves(connection->worker);
}

static void
request_come_home(struct worker *worker, struct message *message)
{
	struct request *request = (struct request *)message;
	struct connection *connection = request->connection;

	worker_request_returns(worker);
	if (connection->ended)
		request_end(request);
	else
		STAILQ_INSERT_TAIL(&connection->answers, request, link);
	connection_make_ready(connection);
}

void
request_finish(struct request *request)
{
	inbox_post(&request->connection->worker->inbox, &request->message, request_come_home);
}

void
request_end(struct request *request)
{
	struct connection *connection = request->connection;

	connection->in_flight--;
	connection->in_flight_bytes -= request->bytes;
	request->kind->release(connection->worker, request);
}

/* ---- answered at once ---- */

static bool
request_hello(struct connection *connection, const Zcache__V1__Request *request)
{
	if (request->hello->version != ZC_PROTOCOL_VERSION) {
		static const char text[] = "this service speaks version 1 of the protocol";

		worker_count_add(&connection->worker->count.protocol_errors);
		reply_hello(connection, request->id, -EPROTONOSUPPORT, text);
		connection->closing = true;
		return true;
	}
	strncpy(connection->name, request->hello->client, sizeof(connection->name) - 1);
	connection->greeted = true;
	reply_hello(connection, request->id, 0, NULL);
	return true;
}

static bool
request_ping(struct connection *connection, const Zcache__V1__Request *request)
{
	reply_done(connection, request->id);
	return true;
}

static void
answer_pool_open(struct connection *connection, uint64_t id, struct pool_entry *entry)
{
	struct worker *worker = connection->worker;
	uint32_t handle;

	if (!pool_entry_permits(entry, connection->uid, worker->engine->uid)) {
		request_deny(worker->engine, connection->uid, pool_config(entry->pool)->name);
		reply_error(connection, id, -EACCES, "the pool belongs to another user");
		pool_entry_release(entry);
		return;
	}
	handle = handle_give(&connection->handles, worker, entry);
	if (handle == 0) {
		reply_error(connection, id, -ENOMEM, "no memory for a handle");
		pool_entry_release(entry);
		return;
	}
	reply_pool(connection, id, entry, handle);
}

static bool
request_pool_open(struct connection *connection, const Zcache__V1__Request *request)
{
	struct registry *registry = &connection->worker->engine->registry;
	struct pool_entry *entry = registry_find(registry, request->pool_open->name);

	if (entry && pool_entry_alive(entry)) {
		answer_pool_open(connection, request->id, entry);
		return true;
	}
	if (entry)
		pool_entry_release(entry);
	reply_error(connection, request->id, -ENOENT, "there is no pool of this name");
	return true;
}

void
request_deny(struct engine *engine, uint32_t uid, const char *pool)
{
	/* Relaxed: a number for statistics. */
	add_relaxed(&engine->denied, 1);
	log_limited(LOG_KIND_DENIED, LOG_WARNING, "pool %s: denied to uid %u", pool, (unsigned)uid);
}

/* ---- dispatch ---- */

typedef bool request_handler_fn(struct connection *connection, const Zcache__V1__Request *request);

static request_handler_fn *const handlers[] = {
	[ZCACHE__V1__REQUEST__OP_HELLO] = request_hello,
	[ZCACHE__V1__REQUEST__OP_PING] = request_ping,
	[ZCACHE__V1__REQUEST__OP_POOL_OPEN] = request_pool_open,
	[ZCACHE__V1__REQUEST__OP_POOL_CREATE] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_POOL_DESTROY] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_POOL_LIST] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_PUT] = page_request_put,
	[ZCACHE__V1__REQUEST__OP_GET] = page_request_get,
	[ZCACHE__V1__REQUEST__OP_DELETE] = page_request_delete,
	[ZCACHE__V1__REQUEST__OP_EXISTS] = page_request_exists,
	[ZCACHE__V1__REQUEST__OP_DELETE_OBJECT] = scan_request,
	[ZCACHE__V1__REQUEST__OP_FLUSH] = scan_request,
	[ZCACHE__V1__REQUEST__OP_STATS] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_CLASSES] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_COMPACT_START] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_COMPACT_STATUS] = control_request_submit,
	[ZCACHE__V1__REQUEST__OP_POOL_MAP] = share_request_pool,
	[ZCACHE__V1__REQUEST__OP_CHANNEL_OPEN] = share_request_channel,
};
static_assert(sizeof(handlers) / sizeof(handlers[0]) == ZCACHE__V1__REQUEST__OP_CHANNEL_OPEN + 1,
	      "a handler for each operation");

/* What ends the connection or needs no handler. True: it has been answered. */
static bool
dispatch_rule(struct connection *connection, const Zcache__V1__Request *request)
{
	bool hello = request->op_case == ZCACHE__V1__REQUEST__OP_HELLO;

	if (request->id == 0)
		reply_error(connection, 0, -EINVAL, "the id of a request must not be 0");
	else if (!connection->greeted && !hello)
		connection_reject(connection, request->id, -EPROTO,
				  "the first request must be hello");
	else if (connection->greeted && hello)
		connection_reject(connection, request->id, -EPROTO, "hello was said before");
	else if (request->op_case >= sizeof(handlers) / sizeof(handlers[0]) ||
		 !handlers[request->op_case])
		reply_error(connection, request->id, -EOPNOTSUPP,
			    "no operation, or one that this service does not know");
	else
		return false;
	return true;
}

/*
 * A name with a zero byte in it is the name of no pool; cut there, as the decoder hands it out, it
 * could be. True: there was one, and it has been answered.
 */
static bool
dispatch_cut_name(struct connection *connection, const Zcache__V1__Request *request,
		  const char *bytes, uint32_t length)
{
	if (handlers[request->op_case] != control_request_submit &&
	    handlers[request->op_case] != request_pool_open)
		return false;
	if (!wire_text_has_zero(bytes, length, request->op_case, WIRE_NAME_FIELD))
		return false;
	if (request->op_case == ZCACHE__V1__REQUEST__OP_POOL_CREATE)
		reply_error(connection, request->id, -EINVAL, "a zero byte in the pool's name");
	else
		reply_error(connection, request->id, -ENOENT, "there is no pool of this name");
	return true;
}

bool
request_dispatch(struct connection *connection, const char *bytes, uint32_t length)
{
	struct worker *worker = connection->worker;
	const Zcache__V1__Request *request;
	bool taken;

	frame_arena_reset(&worker->arena);
	request = zcache__v1__request__unpack(&worker->arena.allocator, length,
					      (const uint8_t *)bytes);
	if (!request) {
		connection_reject(connection, 0, -EBADMSG,
				  "a frame that is no request, or costs too much to decode");
		return true;
	}
	taken = dispatch_rule(connection, request) ||
		dispatch_cut_name(connection, request, bytes, length) ||
		handlers[request->op_case](connection, request);
	if (taken)
		worker_count_add(&worker->count.requests);
	return taken;
}
