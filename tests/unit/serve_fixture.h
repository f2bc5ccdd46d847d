/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers without threads, a pool, and a client with a channel, all in the calling thread: what happens, happens in
 * the order of the test. For the test of serving and the fuzzer of rings.
 *
 * The client's side of the channel is a mapping of its own. What cannot be set up aborts: the fuzzer has no other
 * way to say so.
 */
#ifndef ZCACHED_TESTS_SERVE_FIXTURE_H
#define ZCACHED_TESTS_SERVE_FIXTURE_H

#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "channel.h"
#include "client_channel.h"
#include "connection.h"
#include "engine_private.h"
#include "keeper.h"
#include "object.h"
#include "worker.h"

#define FIXTURE_WORKERS 2u
#define FIXTURE_LIMIT	(16u << 20)

struct fixture {
	struct engine_config config;
	struct engine engine;
};

struct client {
	struct connection *connection; /* gone once it has ended and its worker was pumped */
	struct client_channel *channel;
	int socket; /* the client's end */
	int memory_fd;
	struct channel memory; /* the client's mapping */
	struct channel_end ring[FIXTURE_WORKERS];
	uint32_t pool; /* handle */
};

static inline void
require(bool good)
{
	if (!good)
		abort();
}

static inline void
fixture_open(struct fixture *f, uint32_t page_size)
{
	struct pool_config pool = {.name = "pool",
				   .kind = ZC_KIND_STORE,
				   .page_size = page_size,
				   .limit = FIXTURE_LIMIT,
				   .codec = {.codec = ZC_CODEC_LZ4, .level = 1}};
	struct engine *engine = &f->engine;

	*f = (struct fixture){.config = {.client_timeout = 10}};
	engine->config = &f->config;
	engine->doorbells_max = 1000;
	budget_init(&engine->channels, ENGINE_CHANNELS_MAX, NULL);
	registry_init(&engine->registry);
	sem_init(&engine->drained, 0, 0);
	engine->worker =
		aligned_alloc(alignof(struct worker), FIXTURE_WORKERS * sizeof(struct worker));
	require(engine->worker && keeper_start(engine, &engine->keeper) == 0);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		require(worker_init(&engine->worker[i], engine, i, -1) == 0);
	engine->worker_count = FIXTURE_WORKERS;
	require(registry_create_pool(&engine->registry, &pool, NULL, FIXTURE_WORKERS, true) == 0);
}

static inline void
fixture_close(struct fixture *f)
{
	keeper_stop(f->engine.keeper);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		worker_destroy(&f->engine.worker[i]);
	free(f->engine.worker);
	keeper_destroy(&f->engine.keeper);
	registry_destroy(&f->engine.registry);
	sem_destroy(&f->engine.drained);
}

/* Inbox, connections and sockets of one worker, once; no rings. */
static inline void
pump_one(struct worker *worker)
{
	struct message *message = inbox_take(&worker->inbox), *next;
	struct connection *connection;

	for (; message; message = next) {
		next = message->next;
		message->deliver(worker, message);
	}
	while ((connection = TAILQ_FIRST(&worker->ready))) {
		TAILQ_REMOVE(&worker->ready, connection, ready_link);
		connection->ready = false;
		connection_turn(connection, false);
	}
	event_base_loop(worker->base, EVLOOP_NONBLOCK);
}

/* All workers, often enough for any message to get home. */
static inline void
pump(struct fixture *f)
{
	for (unsigned round = 0; round < 4; round++)
		for (unsigned i = 0; i < f->engine.worker_count; i++)
			pump_one(&f->engine.worker[i]);
}

/* The same with one turn of each worker's rings in each round. */
static inline void
serve_all(struct fixture *f)
{
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < f->engine.worker_count; i++) {
			pump_one(&f->engine.worker[i]);
			serve_turn(&f->engine.worker[i]);
		}
	}
	pump(f);
}

/* A client connected to worker `home`, without a channel yet. */
static inline void
client_connect(struct fixture *f, struct client *client, unsigned home)
{
	struct worker *worker = &f->engine.worker[home];
	int ends[2];

	*client = (struct client){.memory_fd = -1};
	require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	client->socket = ends[1];
	client->connection = connection_create(worker, ends[0], getuid(), getpid());
	require(client->connection);
	client->connection->greeted = true;
	f->engine.connections++;
	connection_adopt(worker, &client->connection->message);
	client->pool = handle_give(&client->connection->handles, worker,
				   registry_find(&f->engine.registry, "pool"));
	require(client->pool);
}

static inline void
client_open(struct fixture *f, struct client *client, unsigned home, uint32_t slots,
	    uint32_t entries, bool notify)
{
	struct channel_geometry geometry;
	uint32_t slot_size = registry_newest(&f->engine.registry)->page_size;

	client_connect(f, client, home);
	require(client_channel_plan(client->connection, slot_size, slots, entries, &geometry) == 0);
	require(client_channel_create(client->connection, &geometry, notify, &client->channel,
				      &client->memory_fd) == 0);
	client_channel_start(client->channel);
	require(channel_map(client->memory_fd, &client->memory) == 0);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		client->ring[i] = channel_end(&client->memory, i);
	pump(f);
}

/* Whether the service has ended the connection: then the client's end sees the end of the file. */
static inline bool
client_is_ended(const struct client *client)
{
	char byte;

	for (;;) {
		ssize_t got = recv(client->socket, &byte, 1, MSG_DONTWAIT);

		if (got <= 0)
			return got == 0;
	}
}

static inline void
client_close(struct fixture *f, struct client *client)
{
	close(client->socket);
	channel_unmap(&client->memory);
	if (client->memory_fd >= 0)
		close(client->memory_fd);
	pump(f);
}

/* ---- requests ---- */

static inline unsigned
ring_of(const struct fixture *f, const struct page_key *key)
{
	struct pool *pool = registry_newest(&f->engine.registry)->pool;

	return pool_shard(pool, key) % FIXTURE_WORKERS;
}

/* Puts a request into the ring of its key and publishes it. */
static inline void
client_submit(const struct fixture *f, struct client *client, const struct channel_request *request)
{
	struct page_key key = {request->object, request->index};
	unsigned ring = ring_of(f, &key);

	channel_submit_add(&client->ring[ring], request);
	if (channel_submit_publish(&client->ring[ring])) {
		uint64_t one = 1;

		require(write(client->channel->ring[ring].doorbell_fd, &one, sizeof(one)) ==
			sizeof(one));
	}
}

#endif
