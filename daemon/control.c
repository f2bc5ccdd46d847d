/* SPDX-License-Identifier: BSD-2-Clause */
/* The control thread: queue, permission, dispatch; control.h has the overview. */
#include "control.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "control_private.h"
#include "frame.h"
#include "registry.h"
#include "worker.h"

/* ---- on the worker's side ---- */

static void
control_request_answer(struct request *request)
{
	const struct control_request *control = (const struct control_request *)request;

	if (control->reply)
		connection_put_frame(request->connection, control->reply, control->reply_size);
	else
		reply_error(request->connection, request->id, -ENOMEM, "no memory for the answer");
}

static void
control_request_release(struct worker *worker, struct request *request)
{
	struct control_request *control = (struct control_request *)request;

	(void)worker;
	request->connection->control_pending = false;
	free(control->reply);
	free(control);
}

static const struct request_kind control_request_kind = {control_request_answer,
							 control_request_release};

/* A text that is too long to be right becomes "", which is never right either. */
static void
copy_text(char *to, size_t size, const char *text)
{
	if (strlen(text) < size)
		memcpy(to, text, strlen(text) + 1);
}

static void
copy_name(struct control_request *control, const char *name)
{
	control->named = *name != 0;
	copy_text(control->name, sizeof(control->name), name);
}

static void
copy_create(struct control_request *control, const Zcache__V1__PoolCreate *create)
{
	copy_name(control, create->name);
	control->kind = (uint32_t)create->kind;
	control->page_size = create->page_size;
	control->limit = create->limit;
	if (*create->codec)
		control->codec[0] = '?';
	copy_text(control->codec, sizeof(control->codec), create->codec);
}

static void
copy_request(struct control_request *control, const Zcache__V1__Request *request)
{
	switch (control->op) {
	case ZCACHE__V1__REQUEST__OP_POOL_CREATE:
		copy_create(control, request->pool_create);
		break;
	case ZCACHE__V1__REQUEST__OP_POOL_DESTROY:
		copy_name(control, request->pool_destroy->name);
		break;
	case ZCACHE__V1__REQUEST__OP_STATS:
		copy_name(control, request->stats->pool);
		break;
	case ZCACHE__V1__REQUEST__OP_CLASSES:
		copy_name(control, request->classes->pool);
		break;
	case ZCACHE__V1__REQUEST__OP_COMPACT_START:
		copy_name(control, request->compact_start->pool);
		control->estimate_only = request->compact_start->estimate_only;
		break;
	case ZCACHE__V1__REQUEST__OP_COMPACT_STATUS:
		copy_name(control, request->compact_status->pool);
		break;
	default:
		break;
	}
}

bool
control_request_submit(struct connection *connection, const Zcache__V1__Request *request)
{
	struct control *control = connection->worker->engine->control;
	struct control_request *copy;

	if (connection->control_pending || connection->in_flight >= CONNECTION_IN_FLIGHT_MAX)
		return false;
	copy = calloc(1, sizeof(*copy));
	if (!copy) {
		reply_error(connection, request->id, -ENOMEM, "no memory for the request");
		return true;
	}
	copy->op = request->op_case;
	copy->uid = connection->uid;
	copy_request(copy, request);
	request_begin(&copy->request, &control_request_kind, connection, request->id, 0);
	connection->control_pending = true;
	pthread_mutex_lock(&control->mutex);
	STAILQ_INSERT_TAIL(&control->queue, &copy->request, link);
	pthread_cond_signal(&control->wake);
	pthread_mutex_unlock(&control->mutex);
	return true;
}

/* ---- in the control thread ---- */

int
control_refuse(struct control *control, int status, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(control->text, sizeof(control->text), format, arguments);
	va_end(arguments);
	return status;
}

static const struct {
	control_handler_fn *run;
	bool needs_pool; /* it must be named, exist, and be open to the caller */
} handlers[] = {
	[ZCACHE__V1__REQUEST__OP_POOL_CREATE] = {control_pool_create, false},
	[ZCACHE__V1__REQUEST__OP_POOL_DESTROY] = {control_pool_destroy, true},
	[ZCACHE__V1__REQUEST__OP_POOL_LIST] = {control_pool_list, false},
	[ZCACHE__V1__REQUEST__OP_STATS] = {control_stats, false},
	[ZCACHE__V1__REQUEST__OP_CLASSES] = {control_classes, true},
	[ZCACHE__V1__REQUEST__OP_COMPACT_START] = {control_compact_start, true},
	[ZCACHE__V1__REQUEST__OP_COMPACT_STATUS] = {control_compact_status, true},
};

/* The pool that is named, with a reference, if it must exist or was named all the same. */
static int
find_pool(struct control *control, const struct control_request *request, struct pool_entry **entry)
{
	struct engine *engine = control->engine;

	*entry = NULL;
	if (!handlers[request->op].needs_pool &&
	    (request->op != ZCACHE__V1__REQUEST__OP_STATS || !request->named))
		return 0;
	*entry = registry_find(&engine->registry, request->name);
	if (!*entry)
		return control_refuse(control, -ENOENT, "there is no pool of this name");
	if (pool_entry_permits(*entry, request->uid, engine->uid))
		return 0;
	pool_entry_release(*entry);
	*entry = NULL;
	request_deny(engine, request->uid, request->name);
	return control_refuse(control, -EACCES, "the pool belongs to another user");
}

static void
pack_reply(struct control_request *request, const Zcache__V1__Response *response)
{
	size_t size = ZC_FRAME_HEADER + zcache__v1__response__get_packed_size(response);

	request->reply = malloc(size);
	if (!request->reply)
		return;
	request->reply_size = (uint32_t)size;
	/* Sized for it, and answers have an id or a status, so they are not empty. */
	if (frame_pack(&response->base, request->reply, size, ZC_REPLY_MAX) < 0)
		abort();
}

static void
control_execute(struct control *control, struct control_request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	struct pool_entry *entry;

	response.id = request->request.id;
	response.status = find_pool(control, request, &entry);
	if (response.status == 0)
		response.status = handlers[request->op].run(control, request, entry, &response);
	if (response.status == 0 && zcache__v1__response__get_packed_size(&response) > ZC_REPLY_MAX)
		response.status = control_refuse(control, -EMSGSIZE, "the answer is too long");
	if (response.status < 0) {
		response.message = control->text;
		response.result_case = ZCACHE__V1__RESPONSE__RESULT__NOT_SET;
	}
	if (entry)
		pool_entry_release(entry);
	pack_reply(request, &response);
	request_finish(&request->request);
}

/* The next request; NULL: the thread is to end. */
static struct request *
next_request(struct control *control)
{
	struct request *request;

	pthread_mutex_lock(&control->mutex);
	while (STAILQ_EMPTY(&control->queue) && !control->stop)
		pthread_cond_wait(&control->wake, &control->mutex);
	request = STAILQ_FIRST(&control->queue);
	if (request)
		STAILQ_REMOVE_HEAD(&control->queue, link);
	pthread_mutex_unlock(&control->mutex);
	return request;
}

static void *
control_main(void *arg)
{
	struct control *control = arg;
	struct request *request;

	while ((request = next_request(control)))
		control_execute(control, (struct control_request *)request);
	return NULL;
}

/* ---- beginning and end ---- */

static void
control_free(struct control *control)
{
	free(control->quiescence);
	pthread_cond_destroy(&control->wake);
	pthread_mutex_destroy(&control->mutex);
	free(control);
}

int
control_start(struct engine *engine, struct control **out)
{
	struct control *control = calloc(1, sizeof(*control));
	int result = -ENOMEM;

	if (!control)
		return -ENOMEM;
	control->engine = engine;
	STAILQ_INIT(&control->queue);
	pthread_mutex_init(&control->mutex, NULL);
	pthread_cond_init(&control->wake, NULL);
	control->quiescence = calloc(engine->worker_count, sizeof(*control->quiescence));
	if (control->quiescence)
		result =
			engine_thread_create(&control->thread, "zc-control", control_main, control);
	if (result < 0)
		control_free(control);
	else
		*out = control;
	return result;
}

void
control_stop(struct control **control)
{
	if (!*control)
		return;
	pthread_mutex_lock(&(*control)->mutex);
	(*control)->stop = true;
	pthread_cond_signal(&(*control)->wake);
	pthread_mutex_unlock(&(*control)->mutex);
	pthread_join((*control)->thread, NULL);
	control_free(*control);
	*control = NULL;
}
