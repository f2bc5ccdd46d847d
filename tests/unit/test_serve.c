/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of daemon/serve.c and client_channel.c, step by step: what requests do, which client ends for what, turns,
 * sleeping, the end of channels and handles.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>

#include "atomic.h"
#include "frame.h"
#include "serve_fixture.h"
#include "zcache.pb-c.h"

#define NOTHING INT32_MIN

/* The status of the client's one request in flight, or NOTHING. */
static int32_t
reap(const struct fixture *f, struct client *client, const struct channel_request *request)
{
	struct page_key key = {request->object, request->index};
	struct channel_end *ring = &client->ring[ring_of(f, &key)];
	struct channel_completion completion;

	if (channel_reap(ring, &completion) != 1)
		return NOTHING;
	channel_reaped(ring);
	assert_int_equal(request->cookie, completion.cookie);
	return completion.status;
}

static int32_t
call(struct fixture *f, struct client *client, struct channel_request request)
{
	static uint64_t cookie;

	request.cookie = ++cookie;
	client_submit(f, client, &request);
	serve_all(f);
	return reap(f, client, &request);
}

static char *
slot(const struct client *client, uint32_t number)
{
	return channel_slot(&client->memory, number);
}

static struct channel_request
request_of(const struct client *client, enum zc_channel_operation operation, uint64_t index)
{
	return (struct channel_request){.object = 7,
					.index = index,
					.pool = client->pool,
					.slot = index % client->memory.geometry.slots,
					.length = client->memory.geometry.slot_size,
					.operation = (uint16_t)operation};
}

static int32_t
simple(struct fixture *f, struct client *client, enum zc_channel_operation operation,
       uint64_t index)
{
	return call(f, client, request_of(client, operation, index));
}

static uint64_t
protocol_errors(const struct fixture *f)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		sum += f->engine.worker[i].count.protocol_errors;
	return sum;
}

/* ---- operations ---- */

static void
test_operations(void **state)
{
	struct fixture f;
	struct client client;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, false);
	for (uint64_t index = 0; index < 50; index++) {
		struct channel_request get = request_of(&client, ZC_CHANNEL_GET, index);
		uint32_t number = get.slot;

		assert_int_equal(-ENOENT, simple(&f, &client, ZC_CHANNEL_EXISTS, index));
		memset(slot(&client, number), (int)index, 4096);
		strcpy(slot(&client, number), "a page");
		assert_int_equal(0, simple(&f, &client, ZC_CHANNEL_PUT, index));
		memset(slot(&client, number), 0xee, 4096);
		assert_int_equal(4096, call(&f, &client, get));
		assert_string_equal("a page", slot(&client, number));
		assert_int_equal((unsigned char)index, (unsigned char)slot(&client, number)[4095]);
		/* with too little room nothing is written */
		memset(slot(&client, number), 0xee, 4096);
		get.length = 4095;
		assert_int_equal(-EMSGSIZE, call(&f, &client, get));
		assert_int_equal(0xee, (unsigned char)slot(&client, number)[0]);
		assert_int_equal(0, simple(&f, &client, ZC_CHANNEL_EXISTS, index));
		assert_int_equal(0, simple(&f, &client, ZC_CHANNEL_DELETE, index));
		assert_int_equal(-ENOENT, simple(&f, &client, ZC_CHANNEL_DELETE, index));
		assert_int_equal(-ENOENT, simple(&f, &client, ZC_CHANNEL_GET, index));
	}
	assert_int_equal(50 * 8,
			 f.engine.worker[0].count.requests + f.engine.worker[1].count.requests);
	client_close(&f, &client);
	fixture_close(&f);
}

/* Requests that make no sense are answered; the client goes on. */
static void
test_refusals(void **state)
{
	struct fixture f;
	struct client client;
	struct channel_request request;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 1, 8, 8, false);
	for (unsigned operation = 0; operation < 65536; operation = operation * 3 + 1) {
		if (operation >= ZC_CHANNEL_PUT && operation <= ZC_CHANNEL_EXISTS)
			continue;
		assert_int_equal(-EOPNOTSUPP,
				 simple(&f, &client, (enum zc_channel_operation)operation, 1));
	}
	for (unsigned bit = 0; bit < 16; bit++) {
		request = request_of(&client, ZC_CHANNEL_PUT, bit);
		request.flags = (uint16_t)(1u << bit);
		assert_int_equal(request.flags == ZC_CHANNEL_KEEP_OLD ? 0 : -EOPNOTSUPP,
				 call(&f, &client, request));
		request.operation = ZC_CHANNEL_EXISTS;
		assert_int_equal(-EOPNOTSUPP, call(&f, &client, request));
	}
	for (unsigned i = 0; i < 3; i++) {
		request = request_of(&client, ZC_CHANNEL_GET, 0);
		request.spare[i] = 1ULL << 63;
		assert_int_equal(-EOPNOTSUPP, call(&f, &client, request));
	}
	request = request_of(&client, ZC_CHANNEL_PUT, 1);
	request.length = 0;
	assert_int_equal(-EINVAL, call(&f, &client, request));
	for (unsigned i = 0; i < 4; i++) {
		const uint32_t wrong[] = {0, client.pool + 1, client.pool + ENGINE_POOLS_MAX,
					  UINT32_MAX};

		request = request_of(&client, ZC_CHANNEL_PUT, 1);
		request.pool = wrong[i];
		assert_int_equal(-EBADF, call(&f, &client, request));
	}
	/* slot and length mean nothing to those that have no page */
	request = request_of(&client, ZC_CHANNEL_EXISTS, 0);
	request.slot = request.length = UINT32_MAX;
	assert_int_equal(0, call(&f, &client, request));
	assert_int_equal(0, protocol_errors(&f));
	assert_false(client_is_ended(&client));
	client_close(&f, &client);
	fixture_close(&f);
}

/* A channel of small slots is good for a pool of long pages, as far as they fit. */
static void
test_small_slots(void **state)
{
	struct channel_geometry geometry;
	struct fixture f;
	struct client client;

	(void)state;
	fixture_open(&f, 65536);
	client_connect(&f, &client, 0);
	assert_int_equal(0, client_channel_plan(client.connection, 4096, 8, 8, &geometry));
	assert_int_equal(0, client_channel_create(client.connection, &geometry, false,
						  &client.channel, &client.memory_fd));
	client_channel_start(client.channel);
	assert_int_equal(0, channel_map(client.memory_fd, &client.memory));
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		client.ring[i] = channel_end(&client.memory, i);
	memset(slot(&client, 1), 'x', 4096);
	assert_int_equal(0, simple(&f, &client, ZC_CHANNEL_PUT, 1));
	assert_int_equal(4096, simple(&f, &client, ZC_CHANNEL_GET, 1));
	client_close(&f, &client);
	fixture_close(&f);
}

static void
test_destroyed_pool(void **state)
{
	struct fixture f;
	struct client client;
	struct pool_entry *entry;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, false);
	assert_int_equal(0, simple(&f, &client, ZC_CHANNEL_PUT, 1));
	entry = registry_find(&f.engine.registry, "pool");
	/* Relaxed: there is one thread. The pool stays, for ring_of. */
	store_relaxed(&entry->destroyed, 1);
	assert_int_equal(-EBADF, simple(&f, &client, ZC_CHANNEL_GET, 1));
	store_relaxed(&entry->destroyed, 0);
	assert_int_equal(4096, simple(&f, &client, ZC_CHANNEL_GET, 1));
	pool_entry_release(entry);
	client_close(&f, &client);
	fixture_close(&f);
}

/* ---- clients that break the rules ---- */

typedef void break_fn(struct fixture *f, struct client *client);

static void
tail_too_far(struct fixture *f, struct client *client)
{
	(void)f;
	client->ring[0].ring->submit_tail = 9;
}

static void
tail_backwards(struct fixture *f, struct client *client)
{
	(void)f;
	client->ring[1].ring->submit_tail--;
}

static void
head_too_far(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_EXISTS, 1);
	struct page_key key = {request.object, request.index};

	client->ring[ring_of(f, &key)].ring->complete_head += 1;
	client_submit(f, client, &request);
}

static void
head_backwards(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_EXISTS, 1);
	struct page_key key = {request.object, request.index};

	client->ring[ring_of(f, &key)].ring->complete_head -= 8;
	client_submit(f, client, &request);
}

static void
nothing_reaped(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_EXISTS, 1);

	for (unsigned i = 0; i < 9; i++) {
		client_submit(f, client, &request);
		if (i < 8)
			serve_all(f);
	}
}

static void
bad_slot(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_GET, 1);

	request.slot = 8;
	client_submit(f, client, &request);
}

static void
bad_slot_of_put(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_PUT, 1);

	request.slot = UINT32_MAX;
	client_submit(f, client, &request);
}

static void
bad_length(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_PUT, 1);

	request.length = 4097;
	client_submit(f, client, &request);
}

static void
bad_room(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_GET, 1);

	request.length = UINT32_MAX;
	client_submit(f, client, &request);
}

static void
wrong_ring(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_DELETE, 1);
	struct page_key key = {request.object, request.index};
	struct channel_end *ring = &client->ring[1 - ring_of(f, &key)];
	uint64_t one = 1;

	channel_submit_add(ring, &request);
	channel_submit_publish(ring);
	require(write(client->channel->ring[1 - ring_of(f, &key)].doorbell_fd, &one, 8) == 8);
}

static void
ring_all_doorbells(struct client *client)
{
	uint64_t one = 1;

	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		require(write(client->channel->ring[i].doorbell_fd, &one, 8) == 8);
}

static void
test_rules(void **state)
{
	break_fn *const ways[] = {tail_too_far,	  tail_backwards, head_too_far,	   head_backwards,
				  nothing_reaped, bad_slot,	  bad_slot_of_put, bad_length,
				  bad_room,	  wrong_ring};
	struct fixture f;
	struct client good, bad;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &good, 0, 8, 8, false);
	assert_int_equal(0, simple(&f, &good, ZC_CHANNEL_PUT, 1));
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		client_open(&f, &bad, i % 2, 8, 8, false);
		assert_int_equal(0, simple(&f, &bad, ZC_CHANNEL_EXISTS, 1));
		ways[i](&f, &bad);
		if (!client_is_ended(&bad))
			ring_all_doorbells(&bad);
		serve_all(&f);
		assert_true(client_is_ended(&bad));
		assert_int_equal(i + 1, protocol_errors(&f));
		assert_int_equal(1, f.engine.connections);
		client_close(&f, &bad);
		assert_int_equal(4096, simple(&f, &good, ZC_CHANNEL_GET, 1));
	}
	assert_int_equal(good.channel->os_pages, f.engine.channels.used);
	assert_int_equal(FIXTURE_WORKERS, f.engine.doorbells);
	client_close(&f, &good);
	assert_int_equal(0, f.engine.channels.used);
	assert_int_equal(0, f.engine.doorbells);
	fixture_close(&f);
}

/* What a client writes after a request was taken changes nothing. */
static void
test_copied_once(void **state)
{
	struct channel_request request;
	struct fixture f;
	struct client client;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, false);
	request = request_of(&client, ZC_CHANNEL_EXISTS, 1);
	client_submit(&f, &client, &request);
	serve_all(&f);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		memset(client.ring[i].request, 0xff, 8 * sizeof(struct channel_request));
	serve_all(&f);
	assert_int_equal(-ENOENT, reap(&f, &client, &request));
	assert_false(client_is_ended(&client));
	client_close(&f, &client);
	fixture_close(&f);
}

/* ---- turns ---- */

static unsigned
reap_all(struct client *client, unsigned ring)
{
	struct channel_completion completion;
	unsigned count = 0;

	while (channel_reap(&client->ring[ring], &completion) == 1)
		count++;
	channel_reaped(&client->ring[ring]);
	return count;
}

/* As many requests as a ring has room for, all of one ring; returns its number. */
static unsigned
fill_ring(struct fixture *f, struct client *client)
{
	struct channel_request request = request_of(client, ZC_CHANNEL_EXISTS, 1);
	struct page_key key = {request.object, request.index};
	unsigned ring = ring_of(f, &key);

	while (channel_submit_room(&client->ring[ring]) > 0)
		client_submit(f, client, &request);
	return ring;
}

static void
test_round_robin(void **state)
{
	struct fixture f;
	struct client first, second;
	struct worker *worker;
	unsigned ring;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &first, 0, 1, 64, false);
	client_open(&f, &second, 0, 1, 64, false);
	serve_all(&f); /* all rings sleep */
	ring = fill_ring(&f, &first);
	assert_int_equal(ring, fill_ring(&f, &second));
	worker = &f.engine.worker[ring];
	pump_one(worker);
	for (unsigned turn = 0; turn < 8; turn++) {
		assert_true(serve_turn(worker));
		assert_int_equal(turn % 2 ? 0 : SERVE_BATCH, reap_all(&first, ring));
		assert_int_equal(turn % 2 ? SERVE_BATCH : 0, reap_all(&second, ring));
	}
	/* One more for one of them: the other is looked at, and both go to sleep after it. */
	fill_ring(&f, &second);
	for (unsigned turn = 0; turn < 4; turn++)
		assert_true(serve_turn(worker));
	assert_false(serve_turn(worker));
	assert_int_equal(64, reap_all(&second, ring));
	client_close(&f, &first);
	client_close(&f, &second);
	fixture_close(&f);
}

static void
test_sleeping(void **state)
{
	struct channel_request request;
	struct fixture f;
	struct client client;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 1, 8, 8, false);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++) {
		assert_false(TAILQ_EMPTY(&f.engine.worker[i].serve.active));
		assert_int_equal(0, client.ring[i].ring->need_wakeup);
		assert_false(serve_turn(&f.engine.worker[i]));
		assert_true(TAILQ_EMPTY(&f.engine.worker[i].serve.active));
		assert_int_equal(1, client.ring[i].ring->need_wakeup);
	}
	/* without the doorbell nobody looks */
	request = request_of(&client, ZC_CHANNEL_EXISTS, 1);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		store_relaxed(&client.ring[i].ring->need_wakeup, 0);
	client_submit(&f, &client, &request);
	serve_all(&f);
	assert_int_equal(NOTHING, reap(&f, &client, &request));
	/* any number of rings is one event, and the second one is another */
	for (unsigned i = 0; i < 10000; i++)
		ring_all_doorbells(&client);
	serve_all(&f);
	assert_int_equal(-ENOENT, reap(&f, &client, &request));
	assert_int_equal(-ENOENT, simple(&f, &client, ZC_CHANNEL_EXISTS, 1));
	client_close(&f, &client);
	fixture_close(&f);
}

/* A full counter takes no more writes; the ring has been woken before, and is served. */
static void
test_full_doorbell(void **state)
{
	uint64_t most = UINT64_MAX - 1, one = 1;
	struct fixture f;
	struct client client;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, false);
	serve_all(&f);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++) {
		int fd = client.channel->ring[i].doorbell_fd;

		require(write(fd, &most, 8) == 8);
		assert_int_equal(-1, write(fd, &one, 8));
	}
	pump(&f);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		serve_turn(&f.engine.worker[i]);
	assert_int_equal(1, client.ring[0].ring->need_wakeup);
	client_close(&f, &client);
	fixture_close(&f);
}

/* An empty ring that is looked at while others are busy sleeps on its own in the end. */
static void
test_patience(void **state)
{
	struct fixture f;
	struct client busy, quiet;
	unsigned ring;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &quiet, 0, 1, 64, false);
	client_open(&f, &busy, 0, 1, 64, false);
	ring = fill_ring(&f, &busy);
	for (unsigned i = 0; i < 200 && !quiet.ring[ring].ring->need_wakeup; i++) {
		assert_true(serve_turn(&f.engine.worker[ring]));
		reap_all(&busy, ring);
		fill_ring(&f, &busy);
	}
	assert_int_equal(1, quiet.ring[ring].ring->need_wakeup);
	assert_int_equal(0, busy.ring[ring].ring->need_wakeup);
	client_close(&f, &busy);
	client_close(&f, &quiet);
	fixture_close(&f);
}

/* ---- spinning ---- */

static void
nap(unsigned ms)
{
	struct timespec time = {.tv_nsec = ms * 1000000L};

	nanosleep(&time, NULL);
}

static void
test_spinning_learns(void **state)
{
	struct fixture f;
	struct client client;
	struct serve *serve;
	struct page_key key = {7, 1};

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, false);
	serve = &f.engine.worker[ring_of(&f, &key)].serve;
	simple(&f, &client, ZC_CHANNEL_EXISTS, 1);
	assert_int_equal(0, serve->spin_ns);
	/* Requests that come soon: a second is soon here, whatever else the machine does. */
	serve->spin_max_ns = 1000000000;
	simple(&f, &client, ZC_CHANNEL_EXISTS, 1);
	assert_true(serve->spin_ns > 0);
	/* Requests that come late. */
	serve->spin_max_ns = 1000000;
	serve->spin_ns = 100000;
	for (unsigned i = 0; i < 10; i++) {
		nap(2);
		simple(&f, &client, ZC_CHANNEL_EXISTS, 1);
	}
	assert_int_equal(0, serve->spin_ns);
	/* Doorbells alone teach nothing. */
	serve->spin_max_ns = 1000000000;
	for (unsigned i = 0; i < 10; i++) {
		ring_all_doorbells(&client);
		serve_all(&f);
	}
	assert_int_equal(0, serve->spin_ns);
	client_close(&f, &client);
	fixture_close(&f);
}

/* ---- bounds ---- */

static void
test_plan(void **state)
{
	struct channel_geometry geometry;
	struct fixture f;
	struct client client;

	(void)state;
	fixture_open(&f, 4096);
	client_connect(&f, &client, 0);
	assert_int_equal(0, client_channel_plan(client.connection, 4096, 0, 0, &geometry));
	assert_int_equal(CHANNEL_SLOTS, geometry.slots);
	assert_int_equal(CHANNEL_ENTRIES, geometry.entries);
	assert_int_equal(FIXTURE_WORKERS, geometry.rings);
	assert_int_equal(0, client_channel_plan(client.connection, 65536, UINT32_MAX, UINT32_MAX,
						&geometry));
	assert_int_equal(CONNECTION_SLOTS_MAX / 65536, geometry.slots);
	assert_int_equal(CHANNEL_ENTRIES_MAX, geometry.entries);
	assert_int_equal(0, client_channel_plan(client.connection, 8192, 1, 1, &geometry));
	assert_int_equal(1, geometry.slots);
	assert_int_equal(2, geometry.entries);
	for (unsigned i = 0; i < 6; i++) {
		const uint32_t wrong[] = {0, 1, 2048, 6000, 131072, UINT32_MAX};

		assert_int_equal(-EINVAL,
				 client_channel_plan(client.connection, wrong[i], 1, 1, &geometry));
	}
	assert_int_equal(0, client_channel_plan(client.connection, 4096, UINT32_MAX, 0, &geometry));
	assert_int_equal(1024, geometry.slots);
	assert_int_equal(0, client_channel_create(client.connection, &geometry, false,
						  &client.channel, &client.memory_fd));
	assert_int_equal(-EEXIST, client_channel_plan(client.connection, 4096, 1, 1, &geometry));
	assert_int_equal(-ENOSPC, client_channel_plan(client.connection, 8192, 1, 1, &geometry));
	/* one that was never started ends at once */
	client_channel_close(client.channel);
	assert_int_equal(0, client_channel_plan(client.connection, 8192, 1, 1, &geometry));
	assert_int_equal(0, f.engine.channels.used);
	client_close(&f, &client);
	fixture_close(&f);
}

static unsigned
open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned count = 0;

	require(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static void
test_shares_of_the_service(void **state)
{
	struct channel_geometry geometry;
	struct fixture f;
	struct client client;
	unsigned files;

	(void)state;
	fixture_open(&f, 4096);
	client_connect(&f, &client, 0);
	files = open_files();
	assert_int_equal(0, client_channel_plan(client.connection, 4096, 64, 64, &geometry));
	f.engine.doorbells_max = FIXTURE_WORKERS - 1;
	assert_int_equal(-EMFILE, client_channel_create(client.connection, &geometry, false,
							&client.channel, &client.memory_fd));
	f.engine.doorbells_max = FIXTURE_WORKERS;
	f.engine.channels.limit = 64;
	assert_int_equal(-ENOSPC, client_channel_create(client.connection, &geometry, false,
							&client.channel, &client.memory_fd));
	assert_int_equal(0, f.engine.doorbells);
	assert_int_equal(0, f.engine.channels.used);
	assert_int_equal(files, open_files());
	client_close(&f, &client);
	fixture_close(&f);
}

/* ---- the end ---- */

/* With requests in its rings, and rings still on their way to their workers. */
static void
test_end_at_any_moment(void **state)
{
	struct channel_geometry geometry;
	struct fixture f;
	struct client client;
	unsigned files;

	(void)state;
	fixture_open(&f, 4096);
	files = open_files();
	client_open(&f, &client, 0, 8, 8, false);
	fill_ring(&f, &client);
	client_close(&f, &client);
	assert_int_equal(files, open_files());

	client_connect(&f, &client, 1);
	assert_int_equal(0, client_channel_plan(client.connection, 4096, 8, 8, &geometry));
	assert_int_equal(0, client_channel_create(client.connection, &geometry, false,
						  &client.channel, &client.memory_fd));
	client_channel_start(client.channel);
	connection_end(client.connection);
	connection_make_ready(client.connection);
	client_close(&f, &client);
	assert_int_equal(files, open_files());
	assert_int_equal(0, f.engine.connections);
	assert_int_equal(0, f.engine.channels.used);
	fixture_close(&f);
}

/* A draining worker takes no more requests and is drained when its channels are gone. */
static void
test_drain(void **state)
{
	struct fixture f;
	struct client client;
	unsigned ring;
	int posts;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 64, false);
	ring = fill_ring(&f, &client);
	for (unsigned i = 0; i < FIXTURE_WORKERS; i++)
		worker_drain(&f.engine.worker[i]);
	pump_one(&f.engine.worker[0]);
	assert_false(serve_turn(&f.engine.worker[0]));
	pump_one(&f.engine.worker[1]);
	assert_false(serve_turn(&f.engine.worker[1]));
	pump(&f);
	assert_int_equal(0, sem_getvalue(&f.engine.drained, &posts));
	assert_int_equal(FIXTURE_WORKERS, posts);
	assert_int_equal(0, f.engine.channels.used);
	assert_int_equal(0, reap_all(&client, ring));
	connection_shut(client.connection);
	client_close(&f, &client);
	fixture_close(&f);
}

/* ---- waking ---- */

static Zcache__V1__Response *
read_response(const struct client *client)
{
	char bytes[256];
	ssize_t got = recv(client->socket, bytes, sizeof(bytes), MSG_DONTWAIT);
	uint32_t length;

	if (got <= 0)
		return NULL;
	assert_int_equal(1, frame_parse(bytes, (size_t)got, ZC_REPLY_MAX, &length));
	assert_int_equal(got, ZC_FRAME_HEADER + length);
	return zcache__v1__response__unpack(NULL, length, (uint8_t *)bytes + ZC_FRAME_HEADER);
}

static void
test_notify(void **state)
{
	Zcache__V1__Response *response;
	struct fixture f;
	struct client client;
	struct page_key key = {7, 1};
	uint32_t wakes;
	unsigned ring;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, true);
	ring = ring_of(&f, &key);
	wakes = channel_wakes(&client.memory);
	simple(&f, &client, ZC_CHANNEL_EXISTS, 1);
	assert_null(read_response(&client));
	assert_int_equal(wakes, channel_wakes(&client.memory));
	/* one for each time it was asked for */
	for (unsigned i = 1; i <= 3; i++) {
		channel_wake_after(&client.ring[ring], 1);
		simple(&f, &client, ZC_CHANNEL_EXISTS, 1);
		assert_int_equal(wakes + i, channel_wakes(&client.memory));
		response = read_response(&client);
		assert_non_null(response);
		assert_int_equal(0, response->id);
		assert_int_equal(ZCACHE__V1__RESPONSE__RESULT_WAKEUP, response->result_case);
		zcache__v1__response__free_unpacked(response, NULL);
	}
	client_close(&f, &client);
	fixture_close(&f);
}

/* Any number of them can go unread: the client is not taken for one that stalls. */
static void
test_unread_wakeups(void **state)
{
	struct fixture f;
	struct client client;
	struct page_key key = {7, 1};
	unsigned ring;

	(void)state;
	fixture_open(&f, 4096);
	client_open(&f, &client, 0, 8, 8, true);
	ring = ring_of(&f, &key);
	for (unsigned i = 0; i < 2000; i++) {
		channel_wake_after(&client.ring[ring], 1);
		client_channel_wake(client.channel);
		pump_one(&f.engine.worker[0]);
		assert_null(client.connection->output);
	}
	assert_int_equal(0, client.connection->stall);
	assert_int_equal(-ENOENT, simple(&f, &client, ZC_CHANNEL_EXISTS, 1));
	assert_false(client_is_ended(&client));
	client_close(&f, &client);
	fixture_close(&f);
}

/* ---- handles ---- */

/* Pools that come and go: their handles end, their slots are used again, and what ended is freed. */
static void
test_handles_come_and_go(void **state)
{
	struct pool_config config = {.name = "other",
				     .kind = ZC_KIND_STORE,
				     .page_size = 4096,
				     .limit = FIXTURE_LIMIT,
				     .codec = {.codec = ZC_CODEC_LZ4, .level = 1}};
	struct fixture f;
	struct client client;
	struct handle_table **table;
	uint32_t last = 0;

	(void)state;
	fixture_open(&f, 4096);
	client_connect(&f, &client, 1);
	table = &client.connection->handles;
	for (unsigned i = 0; i < 2 * ENGINE_POOLS_MAX; i++) {
		struct registry *registry = &f.engine.registry;
		struct pool_entry *entry;
		uint32_t number;

		assert_int_equal(
			0, registry_create_pool(registry, &config, NULL, FIXTURE_WORKERS, true));
		entry = registry_find(registry, "other");
		number = handle_give(table, client.connection->worker, entry);
		assert_true(number != 0 && number != last);
		assert_ptr_equal(entry, handle_find(*table, number));
		assert_null(handle_find(*table, last));
		last = number;
		registry_remove(registry, entry);
		keeper_forget(f.engine.keeper, entry);
		pool_destroy(&entry->pool);
		pool_entry_release(entry);
		assert_ptr_equal(entry, handle_find(*table, number));
		assert_false(pool_entry_alive(handle_find(*table, number)));
		if (i % 3 == 0)
			pump(&f);
	}
	pump(&f);
	assert_int_equal(0, client.connection->worker->away);
	client_close(&f, &client);
	fixture_close(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_small_slots),
		cmocka_unit_test(test_destroyed_pool),
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_copied_once),
		cmocka_unit_test(test_round_robin),
		cmocka_unit_test(test_sleeping),
		cmocka_unit_test(test_full_doorbell),
		cmocka_unit_test(test_patience),
		cmocka_unit_test(test_spinning_learns),
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_shares_of_the_service),
		cmocka_unit_test(test_end_at_any_moment),
		cmocka_unit_test(test_drain),
		cmocka_unit_test(test_notify),
		cmocka_unit_test(test_unread_wakeups),
		cmocka_unit_test(test_handles_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
