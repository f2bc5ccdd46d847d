/* SPDX-License-Identifier: BSD-2-Clause */
/* Workers; worker.h has the overview. */
#include "worker.h"

#include <errno.h>
#include <event2/event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "atomic.h"
#include "connection.h"
#include "engine_private.h"
#include "log.h"

/* ---- the loop ---- */

static void
deliver_messages(struct worker *worker)
{
	struct message *message = inbox_take(&worker->inbox);

	while (message) {
		/* Delivered, a message may be freed or posted elsewhere. */
		struct message *next = message->next;

		message->deliver(worker, message);
		message = next;
	}
}

static void
run_ready(struct worker *worker)
{
	struct connection *connection;

	while ((connection = TAILQ_FIRST(&worker->ready))) {
		TAILQ_REMOVE(&worker->ready, connection, ready_link);
		connection->ready = false;
		connection_turn(connection, false);
	}
}

/* Waits for events, or, when there is something to do, only looks for them. */
static void
look_at_events(struct worker *worker, bool busy)
{
	int flags = EVLOOP_ONCE;

	if (busy || !inbox_may_sleep(&worker->inbox))
		flags |= EVLOOP_NONBLOCK;
	event_base_loop(worker->base, flags);
	inbox_awake(&worker->inbox);
}

static void
pin(const struct worker *worker)
{
	cpu_set_t *set;
	size_t size;

	if (worker->cpu < 0)
		return;
	set = CPU_ALLOC(worker->cpu + 1);
	if (!set)
		return;
	size = CPU_ALLOC_SIZE(worker->cpu + 1);
	CPU_ZERO_S(size, set);
	CPU_SET_S(worker->cpu, size, set);
	/* A CPU that was taken away meanwhile: the worker runs where it may. */
	if (sched_setaffinity(0, size, set) < 0)
		log_warning("worker %u is not pinned to CPU %d", worker->number, worker->cpu);
	CPU_FREE(set);
}

static void *
worker_main(void *arg)
{
	struct worker *worker = arg;

	pin(worker);
	for (;;) {
		bool busy;

		deliver_messages(worker);
		run_ready(worker);
		if (worker->stopping)
			break;
		/* Scans and rings go on between events, they do not wait for one. */
		busy = scan_step(worker);
		busy |= serve_turn(worker);
		if (!busy || serve_sockets_due(&worker->serve))
			look_at_events(worker, busy);
	}
	while (!LIST_EMPTY(&worker->connections))
		connection_shut(LIST_FIRST(&worker->connections));
	return NULL;
}

static void
on_wake(evutil_socket_t fd, short what, void *arg)
{
	/* That the loop goes round is all: messages are delivered at its head. */
	(void)fd;
	(void)what;
	(void)arg;
}

/* ---- stopping ---- */

void
worker_request_leaves(struct worker *worker)
{
	worker->away++;
}

void
worker_request_returns(struct worker *worker)
{
	worker->away--;
	if (worker->draining && worker->away == 0)
		sem_post(&worker->engine->drained);
}

static void
deliver_drain(struct worker *worker, struct message *message)
{
	struct connection *connection;

	(void)message;
	worker->draining = true;
	LIST_FOREACH(connection, &worker->connections, link)
	client_channels_close(connection);
	if (worker->away == 0)
		sem_post(&worker->engine->drained);
}

static void
deliver_stop(struct worker *worker, struct message *message)
{
	(void)message;
	worker->stopping = true;
}

void
worker_drain(struct worker *worker)
{
	inbox_post(&worker->inbox, &worker->order, deliver_drain);
}

void
worker_stop(struct worker *worker)
{
	inbox_post(&worker->inbox, &worker->order, deliver_stop);
}

/* ---- beginning and end ---- */

static int
make_base(struct worker *worker)
{
	struct timeval timeout = {.tv_sec = worker->engine->config->client_timeout};
	struct event_config *config = event_config_new();

	if (!config)
		return -ENOMEM;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
	event_config_require_features(config, EV_FEATURE_ET);
	worker->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!worker->base)
		return -ENOMEM;
	worker->client_timeout = event_base_init_common_timeout(worker->base, &timeout);
	worker->wake = event_new(worker->base, worker->inbox.wake_fd, EV_READ | EV_ET | EV_PERSIST,
				 on_wake, NULL);
	if (!worker->client_timeout || !worker->wake || event_add(worker->wake, NULL) < 0)
		return -ENOMEM;
	return 0;
}

static int
make_scratch(struct worker *worker)
{
	worker->input = malloc(WORKER_INPUT);
	worker->value = malloc(ZC_PAGE_SIZE_MAX);
	worker->output = malloc(WORKER_OUTPUT);
	if (!worker->input || !worker->value || !worker->output)
		return -ENOMEM;
	return frame_arena_init(&worker->arena, ZC_ARENA_SIZE);
}

int
worker_init(struct worker *worker, struct engine *engine, unsigned number, int cpu)
{
	int result;

	*worker = (struct worker){.engine = engine, .number = number, .cpu = cpu};
	LIST_INIT(&worker->connections);
	TAILQ_INIT(&worker->ready);
	TAILQ_INIT(&worker->scans);
	serve_init(&worker->serve, engine->spin_max_ns);
	result = inbox_init(&worker->inbox);
	if (result == 0)
		result = make_base(worker);
	if (result == 0)
		result = make_scratch(worker);
	if (result == 0)
		result = pool_context_create(number, &worker->context);
	return result;
}

int
worker_start(struct worker *worker)
{
	char name[16];
	int result;

	snprintf(name, sizeof(name), "zc-worker-%u", worker->number);
	result = engine_thread_create(&worker->thread, name, worker_main, worker);
	worker->started = result == 0;
	return result;
}

void
worker_destroy(struct worker *worker)
{
	pool_context_destroy(&worker->context);
	frame_arena_destroy(&worker->arena);
	buffer_cache_destroy(&worker->buffers);
	free(worker->output);
	free(worker->value);
	free(worker->input);
	if (worker->wake)
		event_free(worker->wake);
	if (worker->base)
		event_base_free(worker->base);
	inbox_destroy(&worker->inbox);
}

/* ---- small things ---- */

bool
worker_is_busy(struct worker *worker)
{
	return inbox_is_busy(&worker->inbox);
}

void
worker_count_add(uint64_t *counter)
{
	/* Relaxed, and no read-modify-write: one thread writes it, and its readers want a number. */
	store_relaxed(counter, load_relaxed(counter) + 1);
}

void
worker_count_requests(struct worker *worker, unsigned requests)
{
	/* Relaxed: as above. */
	store_relaxed(&worker->count.requests, load_relaxed(&worker->count.requests) + requests);
}
