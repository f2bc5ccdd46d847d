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
 *  - The head of the queue is woken when sending ends, when reading ends on a broken connection,
 *    when connecting ends, and when a head gives up. Whoever comes by may be faster: it wakes the
 *    head again when it has sent.
 *  - When reading ends, or a call leaves, one CALL_WAITING call is woken to read. A CALL_SENDING
 *    call is not: its thread could be stuck until somebody reads. It looks for itself when it
 *    comes to wait.
 *  - Each thread waits on a condition of its own: woken is who was meant, and condition variables
 *    shared by many have lost wake-ups in several releases of glibc.
 *
 * A call that passes its deadline leaves the list; its reply, when it comes, names nobody and is
 * dropped. Ids are never used twice, so a reply cannot reach another call.
 *
 * The service stops reading when we leave too many of its replies unread, so a sender that is stuck
 * reads, unless another thread does. It cannot know when that one leaves, and looks now and then.
 */
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "deadline.h"

#define BACK_OFF_FIRST (1 * (uint64_t)NS_PER_MS)
#define BACK_OFF_LAST  (100 * (uint64_t)NS_PER_MS)
/* How long a sender that is stuck relies on another thread's reading. */
#define LOOK_AGAIN (10 * (uint64_t)NS_PER_MS)
/* Larger numbers are not errors of Linux. */
#define ERRNO_LAST 4095

/* ---- opening and closing ---- */

static void
init_locks(struct transport *transport)
{
	pthread_condattr_init(&transport->monotonic);
	pthread_condattr_setclock(&transport->monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&transport->mutex, NULL);
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
	TAILQ_INIT(&transport->queue);
	TAILQ_INIT(&transport->calls);
	TAILQ_INIT(&transport->reopening);
	init_locks(transport);
	do {
		sleep_back_off(transport, deadline);
		error = connection_open(&transport->connection, path, deadline);
	} while (error == -EAGAIN && !deadline_passed(deadline));
	if (error) {
		transport_destroy(transport, false);
		return error == -EAGAIN ? -ETIMEDOUT : error;
	}
	transport->state = LINK_UP;
	transport->generation = 1;
	return 0;
}

void
transport_close(struct transport *transport, bool inherited)
{
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

static void
wake_a_sender(struct transport *transport)
{
	struct call *head = TAILQ_FIRST(&transport->queue);

	if (head)
		pthread_cond_signal(&head->wake);
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
	transport->state = LINK_DOWN;
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
	transport->state = error ? LINK_DOWN : LINK_UP;
	transport->generation += !error;
	wake_a_sender(transport);
	if (may_come_back(error) && error != -EACCES)
		return -EHOSTDOWN;
	return error == -ETIMEDOUT ? -EHOSTDOWN : error;
}

static bool
turn_is_free(const struct transport *transport)
{
	return transport->state == LINK_UP && !transport->sending;
}

/* Waits in the queue for a connection and the right to send on it, or makes the connection. */
static int
queue_up(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error = 0;

	TAILQ_INSERT_TAIL(&transport->queue, call, link);
	while (!error && !turn_is_free(transport)) {
		if (transport->state == LINK_DOWN && !transport->sending && !transport->reading)
			error = reconnect(transport, deadline);
		else
			error = wait_on(transport, &call->wake, deadline);
	}
	TAILQ_REMOVE(&transport->queue, call, link);
	return error == -ETIMEDOUT && transport->state != LINK_UP ? -EHOSTDOWN : error;
}

static int
take_turn(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error = turn_is_free(transport) ? 0 : queue_up(transport, call, deadline);

	if (error)
		wake_a_sender(transport);
	else
		transport->sending = true;
	return error;
}

static void
give_turn(struct transport *transport)
{
	transport->sending = false;
	wake_a_sender(transport);
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

/* Reads for all until this call's reply is there or its deadline passed. */
static void
read_for_all(struct transport *transport, struct call *call, uint64_t deadline)
{
	transport->reading = true;
	do
		read_one(transport, deadline);
	while (call->state == CALL_WAITING && !deadline_passed(deadline));
	transport->reading = false;
	if (transport->state == LINK_DOWN)
		wake_a_sender(transport);
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
	TAILQ_INSERT_TAIL(&transport->calls, call, link);
}

static void
leave_call(struct transport *transport, struct call *call)
{
	while (call->state == CALL_TAKING)
		pthread_cond_wait(&call->wake, &transport->mutex);
	TAILQ_REMOVE(&transport->calls, call, link);
	wake_a_reader(transport);
}

static int
flush_unlocked(struct transport *transport)
{
	int error;

	pthread_mutex_unlock(&transport->mutex);
	error = connection_flush(&transport->connection);
	pthread_mutex_lock(&transport->mutex);
	return error;
}

/* Waits, and reads or lets another read, until the socket may take more. */
static int
wait_to_send(struct transport *transport, uint64_t deadline)
{
	uint64_t look_again = deadline_now() + LOOK_AGAIN;
	bool reads = !transport->reading;
	int error;

	if (reads)
		transport->reading = true;
	else if (look_again < deadline)
		deadline = look_again;
	pthread_mutex_unlock(&transport->mutex);
	error = connection_wait(&transport->connection, reads, deadline);
	pthread_mutex_lock(&transport->mutex);
	if (!reads)
		return error;
	if (!error)
		read_one(transport, 0);
	transport->reading = false;
	return error;
}

static int
send_stuck_call(struct transport *transport, uint64_t deadline)
{
	int error;

	do {
		error = wait_to_send(transport, deadline);
		if (!error || error == -ETIMEDOUT)
			error = flush_unlocked(transport);
	} while (error == -EAGAIN && !deadline_passed(deadline));
	if (error != -EAGAIN)
		return error;
	connection_give_up(&transport->connection);
	return -ETIMEDOUT;
}

/* Sends; we have the turn, and give it back. */
static int
send_call(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error;

	pthread_mutex_unlock(&transport->mutex);
	error = connection_queue(&transport->connection, call->request);
	if (!error)
		error = connection_flush(&transport->connection);
	pthread_mutex_lock(&transport->mutex);
	if (error == -EAGAIN)
		error = send_stuck_call(transport, deadline);
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
	int error = take_turn(transport, call, deadline);

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

static int64_t
take_handle(const Zcache__V1__Response *response, void *into)
{
	*(uint32_t *)into = response->pool->handle;
	return 0;
}

/* Asks for a new handle. 0: got it, or the connection was lost again. */
static int
ask_for_handle(struct transport *transport, struct call *call, uint64_t deadline)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolOpen pool_open = ZCACHE__V1__POOL_OPEN__INIT;
	uint32_t handle;
	struct call open = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_POOL,
		.take = take_handle,
		.into = &handle,
	};
	enum outcome outcome;

	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_OPEN;
	request.pool_open = &pool_open;
	pool_open.name = (char *)call->pool->name;
	pthread_cond_init(&open.wake, &transport->monotonic);
	outcome = try_call(transport, &open, deadline);
	pthread_cond_destroy(&open.wake);
	if (outcome == OUTCOME_AGAIN)
		return 0;
	if (open.result == 0) {
		call->pool->handle = handle;
		call->pool->generation = open.generation;
	}
	memcpy(call->text, open.text, sizeof(call->text));
	return open.result == -ENOENT ? -EBADF : (int)open.result;
}

static int
await_handle(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error;

	TAILQ_INSERT_TAIL(&transport->reopening, call, link);
	error = wait_on(transport, &call->wake, deadline);
	TAILQ_REMOVE(&transport->reopening, call, link);
	return error;
}

/* Of whatever pool: who finds its own still without a handle asks or waits again. */
static void
wake_who_await_handles(struct transport *transport)
{
	struct call *call;

	for (call = TAILQ_FIRST(&transport->reopening); call; call = TAILQ_NEXT(call, link))
		pthread_cond_signal(&call->wake);
}

/* One thread asks for a new handle of the call's pool, the others wait for it. */
static enum outcome
reopen_pool(struct transport *transport, struct call *call, uint64_t deadline)
{
	int error;

	if (call->pool->reopening) {
		error = await_handle(transport, call, deadline);
	} else {
		call->pool->reopening = true;
		error = ask_for_handle(transport, call, deadline);
		call->pool->reopening = false;
		wake_who_await_handles(transport);
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
	pthread_cond_init(&call->wake, &transport->monotonic);
	pthread_mutex_lock(&transport->mutex);
	do {
		outcome = try_call(transport, call, deadline);
		if (outcome == OUTCOME_STALE)
			outcome = reopen_pool(transport, call, deadline);
	} while (outcome != OUTCOME_RESULT && !deadline_passed(deadline));
	if (outcome != OUTCOME_RESULT)
		call->result = transport->state == LINK_UP ? -ETIMEDOUT : -EHOSTDOWN;
	pthread_mutex_unlock(&transport->mutex);
	pthread_cond_destroy(&call->wake);
	pthread_setcancelstate(cancel_state, NULL);
	return call->result;
}
