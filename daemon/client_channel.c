/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection's channels; client_channel.h has the overview. */
#include "client_channel.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "atomic.h"
#include "connection.h"
#include "engine_private.h"
#include "worker.h"

#define MEMBER_OF(type, member, pointer) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* ---- what a client may have ---- */

static uint64_t
slots_in_use(const struct connection *connection)
{
	const struct client_channel *channel;
	uint64_t bytes = 0;

	LIST_FOREACH(channel, &connection->channels, link)
	bytes += (uint64_t)channel->shared.geometry.slots * channel->shared.geometry.slot_size;
	return bytes;
}

static bool
has_slot_size(const struct connection *connection, uint32_t slot_size)
{
	const struct client_channel *channel;

	LIST_FOREACH(channel, &connection->channels, link)
	if (channel->shared.geometry.slot_size == slot_size)
		return true;
	return false;
}

static uint32_t
up_to_power_of_two(uint32_t n)
{
	uint32_t power = 2;

	while (power < n)
		power *= 2;
	return power;
}

static uint32_t
at_most(uint32_t wanted, uint32_t otherwise, uint64_t max)
{
	uint64_t n = wanted ? wanted : otherwise;

	return (uint32_t)(n < max ? n : max);
}

int
client_channel_plan(const struct connection *connection, uint32_t slot_size, uint32_t slots,
		    uint32_t entries, struct channel_geometry *geometry)
{
	unsigned rings = connection->worker->engine->worker_count;
	uint64_t left = CONNECTION_SLOTS_MAX - slots_in_use(connection);

	if (rings > CHANNEL_RINGS_MAX)
		return -EOPNOTSUPP;
	if (slot_size < ZC_PAGE_SIZE_MIN || slot_size > ZC_PAGE_SIZE_MAX ||
	    (slot_size & (slot_size - 1)) != 0)
		return -EINVAL;
	if (has_slot_size(connection, slot_size))
		return -EEXIST;
	if (left < slot_size)
		return -ENOSPC;
	entries = at_most(entries, CHANNEL_ENTRIES, CHANNEL_ENTRIES_MAX);
	*geometry = (struct channel_geometry){
		.rings = rings,
		.entries = up_to_power_of_two(entries),
		.slots = at_most(slots, CHANNEL_SLOTS, left / slot_size),
		.slot_size = slot_size,
	};
	return 0;
}

/* ---- making one ---- */

/* The engine's share of memory and files, for this channel. */
static int
channel_pay(struct engine *engine, const struct channel_geometry *geometry, uint64_t os_pages)
{
	int error;

	/* Relaxed: a bound, and add and compare are one operation. */
	if (add_relaxed(&engine->doorbells, geometry->rings) + geometry->rings >
	    engine->doorbells_max) {
		sub_relaxed(&engine->doorbells, geometry->rings);
		return -EMFILE;
	}
	error = budget_take_slow(&engine->channels, os_pages);
	if (error)
		sub_relaxed(&engine->doorbells, geometry->rings);
	return error;
}

static void
channel_pay_back(struct engine *engine, const struct channel_geometry *geometry, uint64_t os_pages)
{
	budget_return(&engine->channels, os_pages);
	sub_relaxed(&engine->doorbells, geometry->rings);
}

static int
make_doorbells(struct client_channel *channel)
{
	uint32_t rings = channel->shared.geometry.rings;

	for (uint32_t i = 0; i < rings; i++)
		channel->ring[i].doorbell_fd = -1;
	for (uint32_t i = 0; i < rings; i++) {
		channel->ring[i].doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (channel->ring[i].doorbell_fd < 0)
			return -errno;
	}
	return 0;
}

static void
close_doorbells(struct client_channel *channel)
{
	for (uint32_t i = 0; i < channel->shared.geometry.rings; i++)
		if (channel->ring[i].doorbell_fd >= 0)
			close(channel->ring[i].doorbell_fd);
}

static void
fill_rings(struct client_channel *channel)
{
	struct engine *engine = channel->connection->worker->engine;

	for (uint32_t i = 0; i < channel->shared.geometry.rings; i++) {
		struct ring *ring = &channel->ring[i];

		ring->channel = channel;
		ring->worker = &engine->worker[i];
		ring->end = channel_end(&channel->shared, i);
	}
}

/* All but memory and files of the channel are there. */
static int
channel_make(struct client_channel *channel, const struct channel_geometry *geometry, int *fd)
{
	int error;

	if (!handle_table_make(&channel->connection->handles))
		return -ENOMEM;
	channel->handles = channel->connection->handles;
	error = channel_create(geometry, &channel->shared, fd);
	if (error)
		return error;
	error = make_doorbells(channel);
	if (error) {
		close_doorbells(channel);
		channel_unmap(&channel->shared);
		close(*fd);
		return error;
	}
	fill_rings(channel);
	return 0;
}

int
client_channel_create(struct connection *connection, const struct channel_geometry *geometry,
		      bool notify, struct client_channel **out, int *fd)
{
	struct engine *engine = connection->worker->engine;
	struct client_channel *channel =
		calloc(1, sizeof(*channel) + geometry->rings * sizeof(channel->ring[0]));
	int error = channel ? 0 : -ENOMEM;

	if (error)
		return error;
	channel->connection = connection;
	channel->notify = notify;
	channel->os_pages = channel_size(geometry) / ZC_OS_PAGE_SIZE;
	error = channel_pay(engine, geometry, channel->os_pages);
	if (!error) {
		error = channel_make(channel, geometry, fd);
		if (error)
			channel_pay_back(engine, geometry, channel->os_pages);
	}
	if (error) {
		free(channel);
		return error;
	}
	LIST_INSERT_HEAD(&connection->channels, channel, link);
	*out = channel;
	return 0;
}

/* ---- the way of a ring ---- */

static void
channel_free(struct client_channel *channel)
{
	struct worker *worker = channel->connection->worker;
	struct channel_geometry geometry = channel->shared.geometry;

	LIST_REMOVE(channel, link);
	connection_make_ready(channel->connection);
	close_doorbells(channel);
	channel_unmap(&channel->shared);
	channel_pay_back(worker->engine, &geometry, channel->os_pages);
	free(channel);
	worker_request_returns(worker);
}

static void
ring_arrives(struct worker *worker, struct message *message)
{
	struct ring *ring = MEMBER_OF(struct ring, open, message);

	if (ring_open(worker, ring) < 0)
		client_channel_fail(ring->channel, NULL);
}

static void
ring_comes_home(struct worker *worker, struct message *message)
{
	struct client_channel *channel = MEMBER_OF(struct ring, close, message)->channel;

	(void)worker;
	if (--channel->rings_away == 0)
		channel_free(channel);
}

static void
ring_leaves(struct worker *worker, struct message *message)
{
	struct ring *ring = MEMBER_OF(struct ring, close, message);

	ring_close(worker, ring);
	inbox_post(&ring->channel->connection->worker->inbox, message, ring_comes_home);
}

void
client_channel_start(struct client_channel *channel)
{
	channel->rings_away = channel->shared.geometry.rings;
	for (uint32_t i = 0; i < channel->shared.geometry.rings; i++)
		inbox_post(&channel->ring[i].worker->inbox, &channel->ring[i].open, ring_arrives);
}

void
client_channel_close(struct client_channel *channel)
{
	if (channel->closing)
		return;
	channel->closing = true;
	worker_request_leaves(channel->connection->worker);
	if (channel->rings_away == 0) {
		channel_free(channel);
		return;
	}
	for (uint32_t i = 0; i < channel->shared.geometry.rings; i++)
		inbox_post(&channel->ring[i].worker->inbox, &channel->ring[i].close, ring_leaves);
}

void
client_channels_close(struct connection *connection)
{
	struct client_channel *channel, *next;

	for (channel = LIST_FIRST(&connection->channels); channel; channel = next) {
		next = LIST_NEXT(channel, link);
		client_channel_close(channel);
	}
}

/* ---- what workers tell the connection ---- */

static void
deliver_failure(struct worker *worker, struct message *message)
{
	struct client_channel *channel = MEMBER_OF(struct client_channel, failure, message);

	(void)worker;
	connection_fault(channel->connection, channel->fault);
}

void
client_channel_fail(struct client_channel *channel, const char *fault)
{
	/* The first one tells. Its fault is released by the post. */
	if (exchange_acq_rel(&channel->failed, 1))
		return;
	channel->fault = fault;
	inbox_post(&channel->connection->worker->inbox, &channel->failure, deliver_failure);
}

static void
deliver_wakeup(struct worker *worker, struct message *message)
{
	struct client_channel *channel = MEMBER_OF(struct client_channel, wakeup, message);

	(void)worker;
	/*
	 * Before the frame is sent: completions made from here on send another one. Acquire: those
	 * made before are in the client's sight when it gets this one.
	 */
	exchange_acq_rel(&channel->waking, 0);
	connection_send_wakeup(channel->connection);
}

void
client_channel_wake(struct client_channel *channel)
{
	channel_serve_wake(&channel->shared);
	/* Release: pairs with the exchange in deliver_wakeup. */
	if (channel->notify && !exchange_acq_rel(&channel->waking, 1))
		inbox_post(&channel->connection->worker->inbox, &channel->wakeup, deliver_wakeup);
}
