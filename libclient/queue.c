/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queues: the public functions, and where a request goes first. queue_private.h has the states.
 *
 * Any thread may call; the mutex is held in every call but while zc_wait sleeps. Memory is allocated for what
 * has to be held and for what goes by the socket, not on the way through rings.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client_page.h"
#include "deadline.h"
#include "direct.h"
#include "page_message.h"
#include "queue_private.h"

/* ---- states ---- */

static bool
is_change(const struct queued *queued)
{
	return queued->request.opcode == ZC_OP_PUT || queued->request.opcode == ZC_OP_DEL;
}

void
queue_finish(struct zc_queue *queue, struct queued *queued, int64_t result)
{
	queued->state = QUEUED_DONE;
	queued->result = result;
	if (is_change(queued))
		queue->changes[queued->filter]--;
	queue->ready++;
	TAILQ_INSERT_TAIL(&queue->done, queued, link);
}

void
queue_hold(struct zc_queue *queue, struct queued *queued)
{
	if (queued->request.opcode == ZC_OP_PUT &&
	    queue_keep_value(queued, queued->request.length)) {
		queue_finish(queue, queued, -ENOMEM);
		return;
	}
	queued->state = QUEUED_HELD;
	TAILQ_INSERT_TAIL(&queue->held, queued, link);
}

/* Sends a request that is in no list, or holds it behind those that are held. */
static void
send_or_hold(struct zc_queue *queue, struct queued *queued)
{
	if (!TAILQ_EMPTY(&queue->held) || queue_send(queue, queued))
		queue_hold(queue, queued);
}

/* The request is read when it is reaped. */
static void
make_readable(struct zc_queue *queue, struct queued *queued)
{
	queued->state = QUEUED_READABLE;
	queue->readable[queued->filter]++;
	queue->ready++;
	TAILQ_INSERT_TAIL(&queue->done, queued, link);
}

static void
unmake_readable(struct zc_queue *queue, struct queued *queued)
{
	queue->readable[queued->filter]--;
	queue->ready--;
	TAILQ_REMOVE(&queue->done, queued, link);
}

/* A change of their key is submitted: what was to be read goes in front of it. */
static void
send_readable(struct zc_queue *queue, uint16_t filter)
{
	struct queued *queued, *next;

	for (queued = TAILQ_FIRST(&queue->done); queued && queue->readable[filter];
	     queued = next) {
		next = TAILQ_NEXT(queued, link);
		if (queued->state != QUEUED_READABLE || queued->filter != filter)
			continue;
		unmake_readable(queue, queued);
		send_or_hold(queue, queued);
	}
}

/* ---- submitting ---- */

static uint16_t
filter_of(const struct zc_request *request)
{
	uint64_t hash = request->key.object * 0x9e3779b97f4a7c15u;

	hash = (hash ^ hash >> 32 ^ request->key.index ^ request->pool->serial << 40) *
	       0x9e3779b97f4a7c15u;
	return (uint16_t)(hash >> 54); /* below QUEUE_FILTER */
}

/* What makes no sense in itself. */
static int
check_request(const struct zc_queue *queue, const struct zc_request *request)
{
	const char *text;

	if (!request->pool || request->pool->zc != queue->zc)
		return -EINVAL;
	return page_check(request, &text);
}

/* The queue's record of a pool, made when it is seen first. NULL: no memory. */
static struct queue_pool *
find_pool(struct zc_queue *queue, const struct zc_pool *of)
{
	struct queue_pool *pool;

	SLIST_FOREACH(pool, &queue->pools, link)
		if (pool->serial == of->serial)
			return pool;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return NULL;
	pool->serial = of->serial;
	pool->page_size = of->info.page_size;
	memcpy(pool->name, of->info.name, sizeof(pool->name));
	SLIST_INSERT_HEAD(&queue->pools, pool, link);
	return pool;
}

static void
route(struct zc_queue *queue, struct queued *queued)
{
	queued->filter = filter_of(&queued->request);
	if (is_change(queued)) {
		if (queue->readable[queued->filter])
			send_readable(queue, queued->filter);
		queue->changes[queued->filter]++;
	} else if (!queue->changes[queued->filter] && direct_ready(queued->request.pool)) {
		make_readable(queue, queued);
		return;
	}
	queued->pool = find_pool(queue, queued->request.pool);
	if (queued->pool)
		send_or_hold(queue, queued);
	else
		queue_finish(queue, queued, -ENOMEM);
}

static void
submit_one(struct zc_queue *queue, const struct zc_request *request, uint64_t deadline)
{
	struct queued *queued = TAILQ_FIRST(&queue->unused);
	int error = check_request(queue, request);

	TAILQ_REMOVE(&queue->unused, queued, link);
	queue->in_use++;
	queued->request = *request;
	queued->pool = NULL;
	queued->value = NULL;
	queued->call.slot = RING_NO_SLOT;
	queued->serial++;
	queued->deadline = deadline;
	if (deadline < queue->next_deadline)
		queue->next_deadline = deadline;
	if (!error) {
		route(queue, queued);
		return;
	}
	queued->request.opcode = 0; /* no change, whatever it is */
	queue_finish(queue, queued, error);
	queued->request.opcode = request->opcode;
}

/* Everything that can be done now. */
static void
advance(struct zc_queue *queue)
{
	queue_link_advance(queue);
	queue_collect(queue);
	queue_send_held(queue);
}

static void
lock(struct zc_queue *queue, int *cancel_state)
{
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel_state);
	pthread_mutex_lock(&queue->mutex);
}

static void
unlock(struct zc_queue *queue, int cancel_state)
{
	queue_events_update(queue);
	pthread_mutex_unlock(&queue->mutex);
	pthread_setcancelstate(cancel_state, NULL);
}

int
zc_submit(struct zc_queue *queue, const struct zc_request *requests, unsigned count)
{
	uint64_t deadline;
	unsigned taken = 0;
	int error, cancel_state;

	if (!queue || (count && !requests))
		return -EINVAL;
	error = client_usable(queue->zc);
	if (error)
		return error;
	lock(queue, &cancel_state);
	deadline = client_deadline(queue->zc);
	while (taken < count && queue->in_use < queue->depth)
		submit_one(queue, &requests[taken++], deadline);
	advance(queue);
	unlock(queue, cancel_state);
	return (int)taken;
}

/* ---- reaping ---- */

/* Gives up what has been on its way for too long. */
static void
expire(struct zc_queue *queue)
{
	struct queued_list *const list[] = {&queue->sent, &queue->held};
	uint64_t now = deadline_now();

	if (now < queue->next_deadline)
		return;
	queue->next_deadline = DEADLINE_NEVER;
	for (unsigned i = 0; i < 2; i++) {
		struct queued *queued, *next;

		for (queued = TAILQ_FIRST(list[i]); queued; queued = next) {
			next = TAILQ_NEXT(queued, link);
			if (queued->deadline > now) {
				if (queued->deadline < queue->next_deadline)
					queue->next_deadline = queued->deadline;
				continue;
			}
			TAILQ_REMOVE(list[i], queued, link);
			queue_give_up(queue, queued);
		}
	}
}

/* The value that was fetched goes where the caller wants it. */
static void
give_value(struct queued *queued)
{
	if (queued->request.opcode == ZC_OP_GET && queued->result > 0 && queued->value)
		memcpy(queued->request.buffer, queued->value, (size_t)queued->result);
	free(queued->value);
	queued->value = NULL;
}

static void
give_slot_value(struct queued *queued)
{
	struct rings *rings = queued->pool ? queued->pool->rings : NULL;

	if (!rings || queued->call.slot == RING_NO_SLOT)
		return;
	pthread_mutex_lock(&rings->mutex);
	if (queued->result > 0)
		memcpy(queued->request.buffer, channel_slot(&rings->channel, queued->call.slot),
		       (size_t)queued->result);
	rings_give_slot(rings, queued->call.slot);
	queued->call.slot = RING_NO_SLOT;
	pthread_mutex_unlock(&rings->mutex);
}

/* False: it could not be read, and is on its way to the service now. */
static bool
read_now(struct zc_queue *queue, struct queued *queued)
{
	const struct zc_request *request = &queued->request;

	if (queued->state != QUEUED_READABLE)
		return true;
	queued->result = request->opcode == ZC_OP_GET
				 ? direct_get(request->pool, request->key, request->buffer,
					      request->length)
				 : direct_exists(request->pool, request->key);
	if (queued->result != -EAGAIN) {
		queue->readable[queued->filter]--;
		queued->state = QUEUED_DONE;
		return true;
	}
	unmake_readable(queue, queued);
	queued->pool = find_pool(queue, request->pool);
	if (queued->pool)
		send_or_hold(queue, queued);
	else
		queue_finish(queue, queued, -ENOMEM);
	return false;
}

static void
give_completion(struct zc_queue *queue, struct queued *queued, struct zc_completion *completion)
{
	give_slot_value(queued);
	give_value(queued);
	*completion = (struct zc_completion){
		.data = queued->request.data,
		.result = queued->result,
		.opcode = queued->request.opcode,
	};
	TAILQ_REMOVE(&queue->done, queued, link);
	TAILQ_INSERT_HEAD(&queue->unused, queued, link);
	queue->ready--;
	queue->in_use--;
}

static unsigned
take(struct zc_queue *queue, struct zc_completion *list, unsigned room)
{
	struct queued *queued, *next;
	unsigned count = 0;

	for (queued = TAILQ_FIRST(&queue->done); queued && count < room; queued = next) {
		next = TAILQ_NEXT(queued, link);
		if (read_now(queue, queued))
			give_completion(queue, queued, &list[count++]);
	}
	/* What could not be read, and what slots and places in the queue are free for now. */
	queue_send_held(queue);
	return count;
}

/* Reads what can be read, so that what is ready is known: it may have to go to the service after all. */
static void
read_all(struct zc_queue *queue)
{
	struct queued *queued, *next;

	for (queued = TAILQ_FIRST(&queue->done); queued; queued = next) {
		next = TAILQ_NEXT(queued, link);
		read_now(queue, queued);
	}
}

int
zc_reap(struct zc_queue *queue, struct zc_completion *list, unsigned room)
{
	int error, cancel_state;
	unsigned count;

	if (!queue || (room && !list))
		return -EINVAL;
	error = client_usable(queue->zc);
	if (error)
		return error;
	lock(queue, &cancel_state);
	advance(queue);
	expire(queue);
	count = take(queue, list, room);
	unlock(queue, cancel_state);
	return (int)count;
}

/* True: enough is ready, or nothing more will be. */
static bool
enough(struct zc_queue *queue, unsigned at_least)
{
	advance(queue);
	if (at_least > 0)
		read_all(queue);
	return queue->ready >= at_least || queue_in_flight(queue) == 0;
}

/* One thread waits at a time, the others for it. */
static int
wait_turn(struct zc_queue *queue, uint64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);
	int error = 0;

	while (queue->waiting && !error)
		error = deadline == DEADLINE_NEVER
				? pthread_cond_wait(&queue->turn, &queue->mutex)
				: pthread_cond_timedwait(&queue->turn, &queue->mutex, &until);
	queue->waiting = !error;
	return -error;
}

static int
wait_and_take(struct zc_queue *queue, unsigned at_least, struct zc_completion *list, unsigned room)
{
	uint64_t deadline = client_deadline(queue->zc);
	int result = wait_turn(queue, deadline);

	if (result)
		return result;
	expire(queue);
	while (!enough(queue, at_least) && !result) {
		if (deadline_passed(deadline))
			result = -ETIMEDOUT;
		else
			queue_sleep(queue, at_least - queue->ready, deadline);
	}
	queue->waiting = false;
	pthread_cond_signal(&queue->turn);
	return result ? result : (int)take(queue, list, room);
}

int
zc_wait(struct zc_queue *queue, unsigned at_least, struct zc_completion *list, unsigned room)
{
	int result, cancel_state;

	if (!queue || at_least > room || (room && !list))
		return -EINVAL;
	result = client_usable(queue->zc);
	if (result)
		return result;
	lock(queue, &cancel_state);
	result = wait_and_take(queue, at_least, list, room);
	unlock(queue, cancel_state);
	return result;
}

int
zc_queue_fd(struct zc_queue *queue)
{
	int error, cancel_state;

	if (!queue)
		return -EINVAL;
	error = client_usable(queue->zc);
	if (error)
		return error;
	lock(queue, &cancel_state);
	queue->polled = true;
	unlock(queue, cancel_state);
	return queue->event;
}

/* ---- opening and closing ---- */

static void
free_queue(struct zc_queue *queue)
{
	bool inherited = client_inherited(queue->zc);

	for (unsigned i = 0; i < PAGE_SIZES; i++)
		rings_destroy(&queue->rings[i], inherited);
	for (unsigned i = 0; i < queue->depth; i++)
		free(queue->record[i].value);
	while (!SLIST_EMPTY(&queue->pools)) {
		struct queue_pool *pool = SLIST_FIRST(&queue->pools);

		SLIST_REMOVE_HEAD(&queue->pools, link);
		free(pool);
	}
	connection_destroy(&queue->connection);
	queue_events_close(queue);
	if (!inherited) {
		pthread_cond_destroy(&queue->turn);
		pthread_mutex_destroy(&queue->mutex);
	}
	free(queue->record);
	free(queue);
}

static void
init_locks(struct zc_queue *queue)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->turn, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&queue->mutex, NULL);
}

static void
init_lists(struct zc_queue *queue)
{
	TAILQ_INIT(&queue->unused);
	TAILQ_INIT(&queue->held);
	TAILQ_INIT(&queue->sent);
	TAILQ_INIT(&queue->done);
	SLIST_INIT(&queue->pools);
	for (unsigned i = 0; i < queue->depth; i++)
		TAILQ_INSERT_TAIL(&queue->unused, &queue->record[i], link);
	for (unsigned i = 0; i < PAGE_SIZES; i++) {
		rings_init(&queue->rings[i], NULL);
		STAILQ_INIT(&queue->waiter[i].finished);
	}
}

static struct zc_queue *
new_queue(struct zc *zc, unsigned depth)
{
	struct zc_queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return NULL;
	queue->zc = zc;
	queue->depth = depth;
	queue->next_deadline = DEADLINE_NEVER;
	queue->event = queue->timer = queue->kick = -1;
	queue->record = calloc(depth, sizeof(*queue->record));
	if (!queue->record || connection_init(&queue->connection)) {
		free(queue->record);
		free(queue);
		return NULL;
	}
	init_locks(queue);
	init_lists(queue);
	return queue;
}

static int
open_queue(struct zc_queue *queue)
{
	int error = queue_events_open(queue);

	return error ? error : queue_link_open(queue);
}

int
zc_queue_open(struct zc *zc, unsigned depth, struct zc_queue **out)
{
	struct zc_queue *queue;
	int error, cancel_state;

	if (!zc || !out)
		return -EINVAL;
	*out = NULL;
	if (depth == 0 || depth > QUEUE_DEPTH_MAX)
		return client_error(zc, -EINVAL, "a queue's depth is 1 to 4096");
	error = client_usable(zc);
	if (error)
		return error;
	queue = new_queue(zc, depth);
	if (!queue)
		return client_error(zc, -ENOMEM, "");
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	error = open_queue(queue);
	pthread_setcancelstate(cancel_state, NULL);
	if (error) {
		free_queue(queue);
		return client_error(zc, error, "");
	}
	client_hold(zc);
	*out = queue;
	return 0;
}

void
zc_queue_close(struct zc_queue **queue)
{
	struct zc_queue *closing;
	struct zc *zc;

	if (!queue || !*queue)
		return;
	closing = *queue;
	*queue = NULL;
	zc = closing->zc;
	queue_link_close(closing);
	free_queue(closing);
	client_release(zc);
}
