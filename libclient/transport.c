/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many threads on one connection, see transport.h.
 *
 * There is no thread of our own. Requests of all threads are in flight together, and of the threads
 * that wait one reads for all: it hands each reply to the call it names, and when it has its own it
 * leaves and wakes another to read on. So no thread waits behind another's slow request.
 *
 * The mutex guards the list of calls and four facts about the connection; it is never held while
 * bytes are sent, received or copied. The connection itself is guarded by those facts:
 *
 *	sending		  set by the one thread that uses the sending half
 *	reading		  set by the one that uses the receiving half
 *	LINK_CONNECTING	  set by the one that replaces it, which nobody may do while either is set
 *	LINK_UP		  must hold before sending or reading is set
 *
 * Whoever finds the connection broken says LINK_DOWN, which also wakes the user of the other half,
 * and marks every unanswered call CALL_LOST; the next thread that wants to send connects anew.
 *
 * Rules of waking:
 *  - `turn` is signalled when sending ends, when reading ends on a broken connection, when
 *    connecting ends, and by a waiter that gives up (it may have been the one signalled).
 *  - When reading ends, or a call leaves, one CALL_WAITING call is woken to read. A CALL_SENDING
 *    call is not: its thread could be stuck until somebody reads. It looks for itself when it
 *    comes to wait.
 *
 * A call that passes its deadline leaves the list; its reply, when it comes, names nobody and is
 * dropped. Ids are never used twice, so a reply cannot reach another call.
 *
 * Left out: a sender does not read. The service stops reading while we leave it unanswered replies,
 * so a sender that is alone, after many calls that gave up, can be stuck until its deadline; the
 * service then ends the connection, and all goes on with a new one.
 */
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "atomic.h"
#include "deadline.h"

#define BACK_OFF_FIRST (1 * (uint64_t)NS_PER_MS)
#define BACK_OFF_LAST  (100 * (uint64_t)NS_PER_MS)
/* Larger numbers are not errors of Linux. */
#define ERRNO_LAST 4095

/* ---- opening and closing ---- */

static void
init_locks(struct transport *transport)
{
	pthread_condattr_init(&transport->monotonic);
	pthread_condattr_setclock(&transport->monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&transport->mutex, NULL);
	pthread_cond_init(&transport->turn, &transport->monotonic);
	pthread_cond_init(&transport->reopened, &transport->monotonic);
}

/* Release: pairs with the acquire in transport_live(), for who has what the old connection gave. */
static void
link_up(struct transport *transport)
{
	transport->state = LINK_UP;
	store_release(&transport->live, ++transport->generation);
}

static void
link_down(struct transport *transport)
{
	transport->state = LINK_DOWN;
	store_release(&transport->live, 0);
}

uint64_t
transport_live(const struct transport *transport)
{
	return load_acquire(&transport->live);
}

/* Sleeps before another attempt, less when the deadline is near, and longer each time. */
static void
sleep_back_off(struct transport *transport, uint64_t deadline)
{
	uint64_t until = deadline_now() + transport->back_off;
	struct timespec wake = deadline_timespec(until < deadline ? until : deadline);

	if (transport->back_off)
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, NULL) == EINTR)
			;
	transport->back_off = transport->back_off ? transport->back_off * 2 : BACK_OFF_FIRST;
	if (transport->back_off > BACK_OFF_LAST)
		transport->back_off = BACK_OFF_LAST;
}

int
transport_open(struct transport *transport, const char *path, uint64_t deadline)
{
	int error;

	*transport = (struct transport){.path = path, .last_id = CONNECTION_HELLO_ID};
	error = connection_init(&transport->connection);
	if (error)
		return error;
	TAILQ_INIT(&transport->calls);
	init_locks(transport);
	do {
		sleep_back_off(transport, deadline);
		error = connection_open(&transport->connection, path, deadline);
	} while (error == -EAGAIN && !deadline_passed(deadline));
	if (error) {
		transport_destroy(transport, false);
		return error == -EAGAIN ? -ETIMEDOUT : error;
	}
	link_up(transport);
	return 0;
}

void
transport_close(struct transport *transport, bool inherited)
{
	store_release(&transport->live, 0);
	/* A child may hold the socket open too: tell the service at once. */
	if (!inherited)
		connection_shutdown(&transport->connection);
	connection_close(&transport->connection);
}

void
transport_destroy(struct transport *transport, bool inherited)
{
	connection_destroy(&transport->connection);
	/* At the fork another thread may have held or waited: then there is no right way to end
	 * these, and no need, as they are nothing but memory. */
	if (inherited)
		return;
	pthread_cond_destroy(&transport->reopened);
	pthread_cond_destroy(&transport->turn);
	pthread_mutex_destroy(&transport->mutex);
	pthread_condattr_destroy(&transport->monotonic);
}

/* ---- from here on the mutex is held, except where a function lets go of it ---- */

static int
wait_on(struct transport *transport, pthread_cond_t *cond, uint64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);

	if (deadline == DEADLINE_NEVER)
		return -pthread_cond_wait(cond, &transport->mutex);
	return -pthread_cond_timedwait(cond, &transport->mutex, &until);
}

/* ---- the connection as a whole ---- */

/* The next one that wants to send connects again. `error` is what the unanswered calls get, or, if
 * it is -ECONNRESET, the reason to send them again. */
static void
connection_lost(struct transport *transport, int error)
{
	struct call *call;

	if (transport->state != LINK_UP)
		return;
	link_down(transport);
	connection_shutdown(&transport->connection);
	for (call = TAILQ_FIRST(&transport->calls); call; call = TAILQ_NEXT(call, link)) {
		if (call->state != CALL_SENDING && call->state != CALL_WAITING)
			continue;
		call->state = CALL_LOST;
		call->result = error;
		pthread_cond_signal(&call->wake);
	}
}

/* What a service that restarts makes us see. Its socket can exist before we may use it. */
static bool
may_come_back(int error)
{
	return error == -ENOENT || error == -ECONNREFUSED || error == -ECONNRESET ||
	       error == -EAGAIN || error == -EACCES;
}

/* Replaces the connection; nobody uses it. Lets go of the mutex meanwhile. */
static int
reconnect(struct transport *transport, uint64_t deadline)
{
	int error;

	transport->state = LINK_CONNECTING;
	pthread_mutex_unlock(&transport->mutex);
	connection_close(&transport->connection);
	do {
		sleep_back_off(transport, deadline);
		error = connection_open(&transport->connection, transport->path, deadline);
	} while (may_come_back(error) && !deadline_passed(deadline));
	pthread_mutex_lock(&transport->mutex);
	if (error)
		transport->state = LINK_DOWN;
	else
		link_up(transport);
	pthread_cond_signal(&transport->turn);
	if (may_come_back(error) && error != -EACCES)
		return -EHOSTDOWN;
	return error == -ETIMEDOUT ? -EHOSTDOWN : error;
}

/* Gets a connection and the right to send on it. */
static int
take_turn(struct transport *transport, uint64_t deadline)
{
	int error = 0;

	while (!error && (transport->state != LINK_UP || transport->sending)) {
		if (transport->state == LINK_DOWN && !transport->sending && !transport->reading)
			error = reconnect(transport, deadline);
		else
			error = wait_on(transport, &transport->turn, deadline);
	}
	if (!error) {
		transport->sending = true;
		return 0;
	}
	pthread_cond_signal(&transport->turn);
	return error == -ETIMEDOUT && transport->state != LINK_UP ? -EHOSTDOWN : error;
}

static void
give_turn(struct transport *transport)
{
	transport->sending = false;
	pthread_cond_signal(&transport->turn);
}

/* ---- replies ---- */

static int64_t
take_response(struct call *call, const Zcache__V1__Response *response)
{
	if (response->status > 0 || response->status < -ERRNO_LAST)
		return -EPROTO;
	if (response->status < 0) {
		snprintf(call->text, sizeof(call->text), "%s", response->message);
		return response->status;
	}
	if (response->result_case != call->expect)
		return -EPROTO;
	return call->take ? call->take(response, call->into) : 0;
}

static void
deliver(struct transport *transport, const Zcache__V1__Response *response)
{
	struct call *call = TAILQ_FIRST(&transport->calls);

	while (call && call->request->id != response->id)
		call = TAILQ_NEXT(call, link);
	/* Nobody's: its caller gave up, or has an answer already. */
	if (!call || (call->state != CALL_SENDING && call->state != CALL_WAITING))
		return;
	transport->back_off = 0;
	call->state = CALL_TAKING;
	pthread_mutex_unlock(&transport->mutex);
	call->descriptor_count = connection_take_descriptors(
		&transport->connection, call->descriptors, call->descriptor_room);
	call->result = take_response(call, response);
	pthread_mutex_lock(&transport->mutex);
	call->state = CALL_DONE;
	pthread_cond_signal(&call->wake);
}

/* Receives one response and passes it on. */
static void
read_one(struct transport *transport, uint64_t deadline)
{
	Zcache__V1__Response *response;
	int error;

	pthread_mutex_unlock(&transport->mutex);
	error = connection_receive(&transport->connection, &response, deadline);
	pthread_mutex_lock(&transport->mutex);
	if (error == -ETIMEDOUT)
		return;
	if (error)
		connection_lost(transport, error);
	else if (response->id <= CONNECTION_HELLO_ID || response->id > transport->last_id)
		/* Id 0: the service could not read us. Its reasons would be taken for those of a call:
		 * -EBADMSG is a damaged page there. */
		connection_lost(transport, -EPROTO);
	else
		deliver(transport, response);
}

/* The receiving half was ours and is free again. */
static void
stop_reading(struct transport *transport)
{
	transport->reading = false;
	if (transport->state == LINK_DOWN)
		pthread_cond_signal(&transport->turn);
}

/* Reads for all until this call's reply is there or its deadline passed. */
static void
read_for_all(struct transport *transport, struct call *call, uint64_t deadline)
{
	transport->reading = true;
	do
		read_one(transport, deadline);
	while (call->state == CALL_WAITING && !deadline_passed(deadline));
	stop_reading(transport);
}

static void
wake_a_reader(struct transport *transport)
{
	struct call *call;

	if (transport->reading)
		return;
	for (call = TAILQ_FIRST(&transport->calls); call; call = TAILQ_NEXT(call, link)) {
		if (call->state != CALL_WAITING)
			continue;
		pthread_cond_signal(&call->wake);
		return;
	}
}

static void
await_reply(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error = 0;

	if (call->state == CALL_SENDING)
		call->state = CALL_WAITING;
	while (call->state == CALL_WAITING && !error) {
		if (transport->reading) {
			error = wait_on(transport, &call->wake, deadline);
			continue;
		}
		read_for_all(transport, call, deadline);
		error = deadline_passed(deadline) ? -ETIMEDOUT : 0;
	}
}

/* ---- one call ---- */

static void
enter_call(struct transport *transport, struct call *call)
{
	call->request->id = ++transport->last_id;
	call->generation = transport->generation;
	call->state = CALL_SENDING;
	if (call->pool)
		*call->handle = call->pool->handle;
	pthread_cond_init(&call->wake, &transport->monotonic);
	TAILQ_INSERT_TAIL(&transport->calls, call, link);
}

static void
leave_call(struct transport *transport, struct call *call)
{
	while (call->state == CALL_TAKING)
		pthread_cond_wait(&call->wake, &transport->mutex);
	TAILQ_REMOVE(&transport->calls, call, link);
	pthread_cond_destroy(&call->wake);
	wake_a_reader(transport);
}

/* Sends; we have the turn, and give it back. */
static int
send_call(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error;

	pthread_mutex_unlock(&transport->mutex);
	error = connection_send(&transport->connection, call->request, deadline);
	pthread_mutex_lock(&transport->mutex);
	if (error && error != -ETIMEDOUT && error != -EMSGSIZE)
		connection_lost(transport, error);
	give_turn(transport);
	return error;
}

enum outcome {
	OUTCOME_RESULT, /* call->result is the answer */
	OUTCOME_STALE,	/* the call's pool has no handle on this connection */
	OUTCOME_AGAIN,	/* the connection was lost and the call may be sent on another */
};

/* Sends the call, our turn, and waits for its reply. */
static enum outcome
exchange(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error;

	enter_call(transport, call);
	error = send_call(transport, call, deadline);
	if (!error)
		await_reply(transport, call, deadline);
	leave_call(transport, call);
	if (call->state == CALL_DONE)
		return OUTCOME_RESULT;
	if (call->state != CALL_LOST)
		call->result = error ? error : -ETIMEDOUT;
	/* A request that did not go out as a whole was not done. */
	if (call->result == -ECONNRESET && (call->resend || error))
		return OUTCOME_AGAIN;
	return OUTCOME_RESULT;
}

static enum outcome
try_call(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error = take_turn(transport, deadline);

	if (error) {
		call->result = error;
		return OUTCOME_RESULT;
	}
	if (!call->pool || call->pool->generation == transport->generation)
		return exchange(transport, call, deadline);
	give_turn(transport);
	return OUTCOME_STALE;
}

/* ---- pools after a reconnect ---- */

void
pool_handle_set(struct pool_handle *handle, uint64_t generation, const Zcache__V1__PoolInfo *info)
{
	store_relaxed(&handle->generation, 0);
	fence_release(); /* pairs with the fence in pool_handle_read() */
	store_relaxed(&handle->seed, info->hash_seed);
	store_relaxed(&handle->handle, info->handle);
	store_relaxed(&handle->page_size, info->page_size);
	/* Release: pairs with the acquire in pool_handle_read(). */
	store_release(&handle->generation, generation);
}

struct pool_address
pool_handle_read(const struct pool_handle *handle)
{
	struct pool_address address = {
		.generation = load_acquire(&handle->generation),
		.seed = load_relaxed(&handle->seed),
		.handle = load_relaxed(&handle->handle),
		.page_size = load_relaxed(&handle->page_size),
	};

	/* No generation comes twice: if it is the same still, so was the rest. */
	fence_acquire();
	if (load_relaxed(&handle->generation) != address.generation)
		address.generation = 0;
	return address;
}

static int64_t
take_handle(const Zcache__V1__Response *response, void *into)
{
	Zcache__V1__PoolInfo *info = into;

	/* Of numbers only: the rest of the message is gone after this. */
	info->handle = response->pool->handle;
	info->hash_seed = response->pool->hash_seed;
	info->page_size = response->pool->page_size;
	return 0;
}

/* Asks for a new handle. 0: got it, or the connection was lost again. */
static int
ask_for_handle(struct transport *transport, struct call *call, uint64_t deadline)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolOpen pool_open = ZCACHE__V1__POOL_OPEN__INIT;
	Zcache__V1__PoolInfo info = ZCACHE__V1__POOL_INFO__INIT;
	struct call open = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_POOL,
		.take = take_handle,
		.into = &info,
	};

	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_OPEN;
	request.pool_open = &pool_open;
	pool_open.name = (char *)call->pool->name;
	if (try_call(transport, &open, deadline) == OUTCOME_AGAIN)
		return 0;
	if (open.result == 0)
		pool_handle_set(call->pool, open.generation, &info);
	memcpy(call->text, open.text, sizeof(call->text));
	return open.result == -ENOENT ? -EBADF : (int)open.result;
}

/* One thread asks for a new handle of the call's pool, the others wait for it. */
static enum outcome
reopen_pool(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error;

	if (call->pool->reopening) {
		error = wait_on(transport, &transport->reopened, deadline);
	} else {
		call->pool->reopening = true;
		error = ask_for_handle(transport, call, deadline);
		call->pool->reopening = false;
		pthread_cond_broadcast(&transport->reopened);
	}
	call->result = error;
	return error ? OUTCOME_RESULT : OUTCOME_AGAIN;
}

int64_t
transport_call(struct transport *transport, struct call *call, uint64_t deadline)
{
	enum outcome outcome;
	int cancel_state;

	/* A thread cancelled while it reads for all would leave the others without a reader. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&transport->mutex);
	do {
		outcome = try_call(transport, call, deadline);
		if (outcome == OUTCOME_STALE)
			outcome = reopen_pool(transport, call, deadline);
	} while (outcome != OUTCOME_RESULT && !deadline_passed(deadline));
	if (outcome != OUTCOME_RESULT)
		call->result = transport->state == LINK_UP ? -ETIMEDOUT : -EHOSTDOWN;
	pthread_mutex_unlock(&transport->mutex);
	pthread_setcancelstate(cancel_state, NULL);
	return call->result;
}

/* ---- for the users of shared memory ---- */

void
transport_check(struct transport *transport, uint64_t generation)
{
	int error;

	pthread_mutex_lock(&transport->mutex);
	if (transport_live(transport) == generation && !transport->reading) {
		transport->reading = true;
		pthread_mutex_unlock(&transport->mutex);
		error = connection_check(&transport->connection);
		pthread_mutex_lock(&transport->mutex);
		if (error)
			connection_lost(transport, error);
		stop_reading(transport);
		wake_a_reader(transport);
	}
	pthread_mutex_unlock(&transport->mutex);
}

void
transport_fail(struct transport *transport, uint64_t generation, int error)
{
	pthread_mutex_lock(&transport->mutex);
	if (transport_live(transport) == generation)
		connection_lost(transport, error);
	pthread_mutex_unlock(&transport->mutex);
}
