/* SPDX-License-Identifier: BSD-2-Clause */
/* Serving rings; serve.h has the overview. */
#include "serve.h"

#include <errno.h>
#include <event2/event.h>
#include <string.h>
#include <time.h>

#include "client_channel.h"
#include "engine_private.h"
#include "operation.h"
#include "worker.h"

#define SPIN_START_NS 4000u
#define SPIN_MIN_NS   1000u
/* A ring that had no request while the worker did so many sleeps, however busy others are. */
#define RING_PATIENCE 256u

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

void
serve_init(struct serve *serve, uint32_t spin_max_ns)
{
	*serve = (struct serve){.spin_max_ns = spin_max_ns};
	TAILQ_INIT(&serve->active);
}

/* ---- one request ---- */

struct request_rule {
	enum operation_type type;
	bool known;
	bool has_page; /* it names a slot, and a length */
	uint16_t flags;
};

static const struct request_rule rules[] = {
	[ZC_CHANNEL_PUT] = {OPERATION_PUT, true, true, ZC_CHANNEL_KEEP_OLD},
	[ZC_CHANNEL_GET] = {OPERATION_GET, true, true, 0},
	[ZC_CHANNEL_DELETE] = {OPERATION_DELETE, true, false, 0},
	[ZC_CHANNEL_EXISTS] = {OPERATION_EXISTS, true, false, 0},
};

/* NULL: an operation, or bits, that this service does not know. */
static const struct request_rule *
request_rule(const struct channel_request *request)
{
	const struct request_rule *rule;

	if (request->operation >= sizeof(rules) / sizeof(rules[0]))
		return NULL;
	rule = &rules[request->operation];
	if (!rule->known || request->flags & ~rule->flags ||
	    (request->spare[0] | request->spare[1] | request->spare[2]))
		return NULL;
	return rule;
}

/* The owner of a key's shard serves its requests, else their order would be lost. */
static bool
is_routed_here(const struct worker *worker, const struct operation *operation)
{
	/* The pool may be looked at while it is alive; if it is not, anybody can say so. */
	return !pool_entry_alive(operation->entry) ||
	       engine_owner(worker->engine, pool_shard(operation->entry->pool, &operation->key)) ==
		       worker;
}

/* The result of a get goes to the slot: decoders never work in memory that a client can write. */
static int32_t
deliver_value(const struct operation *operation, char *slot, uint32_t room)
{
	if (operation->length > room)
		return -EMSGSIZE;
	memcpy(slot, operation->value, operation->length);
	return (int32_t)operation->length;
}

static int32_t
execute(struct worker *worker, struct operation *operation, char *slot, uint32_t room)
{
	/* A put copies the slot before it looks at the bytes. */
	operation->value = operation->type == OPERATION_PUT ? slot : worker->value;
	operation_execute(operation, worker);
	if (operation->type == OPERATION_GET && operation->status == 0)
		return deliver_value(operation, slot, room);
	return operation->status;
}

/*
 * Checks a request, which is a private copy, and does it. NULL with the result in *status, or what the
 * client did wrong.
 */
static const char *
request_do(struct worker *worker, const struct client_channel *channel,
	   const struct channel_request *request, int32_t *status)
{
	const struct channel_geometry *geometry = &channel->shared.geometry;
	const struct request_rule *rule = request_rule(request);
	struct operation operation = {.key = {request->object, request->index},
				      .length = request->length};
	char *slot = NULL;

	*status = -EOPNOTSUPP;
	if (!rule)
		return NULL;
	if (rule->has_page) {
		if (request->slot >= geometry->slots)
			return "it named a slot that its channel does not have";
		if (request->length > geometry->slot_size)
			return "it named more bytes than a slot has";
		slot = channel_slot(&channel->shared, request->slot);
	}
	*status = -EBADF;
	operation.entry = handle_find(channel->handles, request->pool);
	if (!operation.entry)
		return NULL;
	if (!is_routed_here(worker, &operation))
		return "a request was in the ring of another worker";
	operation.type = rule->type;
	operation.flags = request->flags & ZC_CHANNEL_KEEP_OLD ? POOL_KEEP_OLD : 0;
	*status = execute(worker, &operation, slot, request->length);
	return NULL;
}

/* ---- one ring ---- */

static void
ring_activate(struct serve *serve, struct ring *ring)
{
	channel_serve_awake(&ring->end);
	ring->active = true;
	ring->served = serve->served;
	TAILQ_INSERT_TAIL(&serve->active, ring, link);
}

static void
ring_deactivate(struct serve *serve, struct ring *ring)
{
	if (ring->active)
		TAILQ_REMOVE(&serve->active, ring, link);
	ring->active = false;
}

static void
ring_sleep(struct serve *serve, struct ring *ring)
{
	if (channel_serve_may_sleep(&ring->end))
		ring_deactivate(serve, ring);
}

static void __attribute__((noinline))
ring_fail(struct worker *worker, struct ring *ring, const char *fault)
{
	ring->failed = true;
	ring_deactivate(&worker->serve, ring);
	event_del(&ring->doorbell);
	client_channel_fail(ring->channel, fault);
}

/* Copies out what there is, `room` requests at most; from here on the client may use their entries. */
static int
ring_take(struct ring *ring, struct channel_request *request, unsigned room)
{
	unsigned count = 0;
	int result = 1;

	while (count < room && (result = channel_serve_take(&ring->end, &request[count])) > 0)
		count++;
	if (count)
		channel_serve_taken(&ring->end);
	return result < 0 ? result : (int)count;
}

/* Does requests in the order of the ring. NULL, or what the client did wrong: none after that is done. */
static const char *
ring_do(struct worker *worker, struct ring *ring, unsigned count)
{
	uint32_t before = ring->end.complete;
	const char *fault = NULL;

	for (unsigned i = 0; i < count && !fault; i++) {
		const struct channel_request *request = &worker->serve.request[i];
		int32_t status;

		fault = request_do(worker, ring->channel, request, &status);
		if (!fault && channel_serve_complete(&ring->end, request->cookie, status) < 0)
			fault = "it had more requests in flight than a ring has entries";
	}
	if (ring->end.complete != before && channel_serve_completed(&ring->end, before))
		client_channel_wake(ring->channel);
	return fault;
}

/* Returns the number of requests taken. */
static unsigned
ring_serve(struct worker *worker, struct ring *ring, unsigned room)
{
	struct serve *serve = &worker->serve;
	int count = ring_take(ring, serve->request, room);
	const char *fault = "an index of a ring was out of range";

	if (count > 0) {
		serve->served += (unsigned)count;
		ring->served = serve->served;
		worker_count_requests(worker, (unsigned)count);
	}
	if (count >= 0)
		fault = ring_do(worker, ring, (unsigned)count);
	if (fault)
		ring_fail(worker, ring, fault);
	else if (count == 0 && serve->served - ring->served > RING_PATIENCE)
		ring_sleep(serve, ring);
	return count > 0 ? (unsigned)count : 0;
}

/* ---- spinning and sleeping ---- */

/* A request came after a pause. */
static void
spin_learn(struct serve *serve, uint64_t pause_ns)
{
	uint32_t spin = serve->spin_ns;

	if (pause_ns > serve->spin_max_ns)
		spin = spin / 2 < SPIN_MIN_NS ? 0 : spin / 2;
	else
		spin = spin ? 2 * spin : SPIN_START_NS;
	serve->spin_ns = spin < serve->spin_max_ns ? spin : serve->spin_max_ns;
}

static bool
is_any_waiting(const struct serve *serve)
{
	const struct ring *ring;

	TAILQ_FOREACH(ring, &serve->active, link)
	if (channel_serve_waiting(&ring->end))
		return true;
	return false;
}

/* Waits a moment. True: there is something to do. */
static bool
spin(struct worker *worker)
{
	struct serve *serve = &worker->serve;

	while (serve->spin_ns) {
		uint64_t pause = now_ns() - serve->quiet_since;

		if (is_any_waiting(serve)) {
			spin_learn(serve, pause);
			return true;
		}
		if (!inbox_is_empty(&worker->inbox))
			return true;
		if (pause >= serve->spin_ns)
			break;
		cpu_relax();
	}
	return false;
}

/* Sends all rings to sleep. True: all of them are. */
static bool
sleep_all(struct serve *serve)
{
	struct ring *ring, *next;

	for (ring = TAILQ_FIRST(&serve->active); ring; ring = next) {
		next = TAILQ_NEXT(ring, link);
		ring_sleep(serve, ring);
	}
	return TAILQ_EMPTY(&serve->active);
}

/* Every ring once, or as many as the turn's requests last for. Returns the number of requests. */
static unsigned
serve_rings(struct worker *worker)
{
	struct ring_queue *active = &worker->serve.active;
	struct ring *last = TAILQ_LAST(active, ring_queue), *ring = NULL;
	unsigned done = 0;

	while (ring != last && done < SERVE_BATCH) {
		ring = TAILQ_FIRST(active);
		TAILQ_REMOVE(active, ring, link);
		TAILQ_INSERT_TAIL(active, ring, link);
		done += ring_serve(worker, ring, SERVE_BATCH - done);
	}
	return done;
}

bool
serve_turn(struct worker *worker)
{
	struct serve *serve = &worker->serve;

	/* A worker that drains takes no more; its rings are about to be asked back. */
	if (TAILQ_EMPTY(&serve->active) || worker->draining)
		return false;
	if (serve_rings(worker) > 0) {
		serve->quiet_since = now_ns();
		return true;
	}
	return spin(worker) || !sleep_all(serve);
}

bool
serve_sockets_due(struct serve *serve)
{
	uint64_t now;

	if (TAILQ_EMPTY(&serve->active))
		return true;
	now = now_ns();
	if (now - serve->sockets_since < SERVE_SOCKETS_NS)
		return false;
	serve->sockets_since = now;
	return true;
}

/* ---- beginning and end ---- */

static void
on_doorbell(evutil_socket_t fd, short what, void *arg)
{
	struct ring *ring = arg;
	struct serve *serve = &ring->worker->serve;

	(void)fd;
	(void)what;
	inbox_awake(&ring->worker->inbox);
	if (ring->active || ring->failed)
		return;
	if (TAILQ_EMPTY(&serve->active) && channel_serve_waiting(&ring->end))
		spin_learn(serve, now_ns() - serve->quiet_since);
	ring_activate(serve, ring);
}

int
ring_open(struct worker *worker, struct ring *ring)
{
	event_assign(&ring->doorbell, worker->base, ring->doorbell_fd, EV_READ | EV_ET | EV_PERSIST,
		     on_doorbell, ring);
	if (event_add(&ring->doorbell, NULL) < 0) {
		ring->failed = true;
		return -ENOMEM;
	}
	ring_activate(&worker->serve, ring);
	return 0;
}

void
ring_close(struct worker *worker, struct ring *ring)
{
	ring_deactivate(&worker->serve, ring);
	event_del(&ring->doorbell);
}
