/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests in flight in the rings of a channel, see rings.h. Waiting is in rings_wait.c.
 *
 * A ring has a table of as many flights as it has entries, so neither side can find it full while there is a
 * flight to be had. The cookie is the flight's index and how often that was used.
 */
#include "rings.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "index.h"

/* Larger numbers are not errors of Linux. */
#define ERRNO_LAST 4095

/* ---- opening and closing ---- */

/* Whether the service can be at work while we spin. */
static bool
several_cpus(void)
{
	cpu_set_t set;

	return sysconf(_SC_NPROCESSORS_ONLN) > 1 &&
	       (sched_getaffinity(0, sizeof(set), &set) < 0 || CPU_COUNT(&set) > 1);
}

void
rings_init(struct rings *rings, struct transport *transport)
{
	*rings = (struct rings){.transport = transport, .spins = several_cpus()};
	pthread_mutex_init(&rings->mutex, NULL);
	TAILQ_INIT(&rings->want_slot);
	TAILQ_INIT(&rings->sleepers);
}

void
rings_destroy(struct rings *rings, bool inherited)
{
	rings_close(rings, inherited);
	/* In a child the mutex may be in any state. */
	if (!inherited)
		pthread_mutex_destroy(&rings->mutex);
}

static void
close_all(const int *descriptors, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(descriptors[i]);
}

/* An eventfd has no type; what has one could block us, or kill us with SIGPIPE. */
static bool
doorbells_good(const int *doorbells, unsigned count)
{
	struct stat status;

	for (unsigned i = 0; i < count; i++)
		if (fstat(doorbells[i], &status) < 0 || (status.st_mode & S_IFMT) != 0)
			return false;
	return true;
}

static int
ring_open(struct ring *ring, const struct channel *channel, uint32_t number, int doorbell)
{
	uint32_t entries = channel->geometry.entries;

	ring->doorbell = doorbell;
	TAILQ_INIT(&ring->want_room);
	ring->end = channel_end(channel, number);
	ring->flight = calloc(entries, sizeof(*ring->flight));
	ring->unused = malloc(entries * sizeof(*ring->unused));
	if (!ring->flight || !ring->unused)
		return -ENOMEM;
	for (uint32_t i = 0; i < entries; i++)
		ring->unused[ring->unused_count++] = (uint16_t)(entries - 1 - i);
	return 0;
}

static int
open_all(struct rings *rings, const int *doorbells)
{
	uint32_t count = rings->channel.geometry.rings;
	int error = 0;

	rings->ring = calloc(count, sizeof(*rings->ring));
	if (!rings->ring)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		rings->ring[i].doorbell = -1;
	for (uint32_t i = 0; i < count && !error; i++)
		error = ring_open(&rings->ring[i], &rings->channel, i, doorbells[i]);
	for (uint32_t slot = 0; slot < rings->channel.geometry.slots; slot++)
		rings_give_slot(rings, slot);
	return error;
}

int
rings_open(struct rings *rings, const int *descriptors, unsigned count, uint32_t slot_size)
{
	int error = count < 2 ? -EPROTO : channel_map(descriptors[0], &rings->channel);

	if (!error && (rings->channel.geometry.rings != count - 1 ||
		       rings->channel.geometry.slot_size != slot_size ||
		       !doorbells_good(descriptors + 1, count - 1)))
		error = -EPROTO;
	if (error) {
		close_all(descriptors, count);
		channel_unmap(&rings->channel);
		return error;
	}
	close(descriptors[0]); /* the mapping stays */
	error = open_all(rings, descriptors + 1);
	if (error) {
		/* Those that have not become a ring's yet are closed here, the others with it. */
		for (uint32_t i = 0; i < count - 1; i++)
			if (!rings->ring || rings->ring[i].doorbell < 0)
				close(descriptors[1 + i]);
		rings_close(rings, false);
		return error;
	}
	rings->state = RINGS_OPEN;
	rings->error = 0;
	return 0;
}

void
rings_close(struct rings *rings, bool inherited)
{
	for (uint32_t i = 0; rings->ring && i < rings->channel.geometry.rings; i++) {
		if (rings->ring[i].doorbell >= 0)
			close(rings->ring[i].doorbell);
		free(rings->ring[i].flight);
		free(rings->ring[i].unused);
	}
	free(rings->ring);
	rings->ring = NULL;
	if (!inherited)
		channel_unmap(&rings->channel);
	memset(rings->free_slot, 0, sizeof(rings->free_slot));
	rings->state = RINGS_CLOSED;
}

/* ---- slots ---- */

/* One of the waiter's requests, or what else it waits for, is no longer in flight. */
static void
arrive(struct rings *rings, struct ring_waiter *waiter)
{
	/* Relaxed: written under the mutex; who reads it without looks again. */
	store_relaxed(&waiter->in_flight, waiter->in_flight - 1);
	if (!waiter->asleep || waiter->in_flight > waiter->wanted)
		return;
	if (waiter == rings->leader)
		channel_serve_wake(&rings->channel);
	else
		pthread_cond_signal(&waiter->wake);
}

bool
rings_take_slot(struct rings *rings, uint32_t *slot)
{
	uint32_t words = (rings->channel.geometry.slots + 63) / 64;

	if (rings->state != RINGS_OPEN)
		return false;
	for (uint32_t word = 0; word < words; word++) {
		uint64_t free = rings->free_slot[word];

		if (!free)
			continue;
		rings->free_slot[word] = free & (free - 1);
		*slot = word * 64 + (uint32_t)__builtin_ctzll(free);
		return true;
	}
	return false;
}

void
rings_give_slot(struct rings *rings, uint32_t slot)
{
	struct ring_waiter *hungry = TAILQ_FIRST(&rings->want_slot);

	if (slot == RING_NO_SLOT)
		return;
	if (!hungry) {
		rings->free_slot[slot / 64] |= 1ULL << slot % 64;
		return;
	}
	TAILQ_REMOVE(&rings->want_slot, hungry, hungry);
	hungry->slot = slot;
	arrive(rings, hungry);
}

/* ---- submitting ---- */

uint32_t
rings_choose(const struct rings *rings, uint32_t hash)
{
	return index_shard(hash) % rings->channel.geometry.rings;
}

/* Fills in the call's flight. */
static uint64_t
take_off(struct ring *ring, const struct channel_request *request, struct ring_call *call)
{
	uint16_t index = ring->unused[--ring->unused_count];
	struct ring_flight *flight = &ring->flight[index];

	*flight = (struct ring_flight){
		.call = call,
		.slot = call->slot,
		.generation = flight->generation + 1,
		.room = request->length,
		.operation = request->operation,
	};
	call->flight = index;
	return (uint64_t)flight->generation << 32 | index;
}

int
rings_add(struct rings *rings, uint32_t number, struct channel_request *request,
	  struct ring_call *call)
{
	struct ring *ring;
	int room;

	if (rings->state != RINGS_OPEN)
		return -EAGAIN;
	ring = &rings->ring[number];
	if (ring->unused_count == 0)
		return -EAGAIN;
	/* There is room while there is a flight, if the service's index is right. */
	room = channel_submit_room(&ring->end);
	if (room < 0)
		rings_end(rings, -EPROTO);
	if (room <= 0)
		return -EAGAIN;
	call->ring = (uint16_t)number;
	request->slot = call->slot;
	request->cookie = take_off(ring, request, call);
	channel_submit_add(&ring->end, request);
	ring->unpublished = true;
	/* Relaxed: written under the mutex; who reads it without looks again. */
	store_relaxed(&call->waiter->in_flight, call->waiter->in_flight + 1);
	return 0;
}

static void
ring_bell(int doorbell)
{
	uint64_t one = 1;

	/* A counter that is full has woken the worker before. */
	if (write(doorbell, &one, sizeof(one)) < 0)
		return;
}

void
rings_publish(struct rings *rings)
{
	int doorbell[RINGS_MAX];
	unsigned count = 0;

	if (rings->state != RINGS_OPEN)
		return;
	for (uint32_t i = 0; i < rings->channel.geometry.rings; i++) {
		struct ring *ring = &rings->ring[i];

		if (!ring->unpublished)
			continue;
		ring->unpublished = false;
		if (channel_submit_publish(&ring->end))
			doorbell[count++] = ring->doorbell;
	}
	if (count == 0)
		return;
	pthread_mutex_unlock(&rings->mutex);
	while (count > 0)
		ring_bell(doorbell[--count]);
	pthread_mutex_lock(&rings->mutex);
}

/* ---- finishing ---- */

/* Lets all look for themselves. */
static void
release_all(struct rings *rings, struct ring_waiters *waiters)
{
	struct ring_waiter *waiter;

	while ((waiter = TAILQ_FIRST(waiters))) {
		TAILQ_REMOVE(waiters, waiter, hungry);
		arrive(rings, waiter);
	}
}

static void
land(struct rings *rings, struct ring *ring, uint16_t index, int32_t status)
{
	struct ring_flight *flight = &ring->flight[index];
	struct ring_call *call = flight->call;

	flight->operation = 0;
	ring->unused[ring->unused_count++] = index;
	release_all(rings, &ring->want_room);
	if (!call) {
		rings_give_slot(rings, flight->slot);
		return;
	}
	call->status = status;
	STAILQ_INSERT_TAIL(&call->waiter->finished, call, link);
	arrive(rings, call->waiter);
}

static bool
status_possible(const struct ring_flight *flight, int32_t status)
{
	if (status < 0)
		return status >= -ERRNO_LAST;
	if (flight->operation == ZC_CHANNEL_GET)
		return status > 0 && (uint32_t)status <= flight->room;
	return status == 0;
}

static int
complete(struct rings *rings, struct ring *ring, const struct channel_completion *completion)
{
	uint32_t index = (uint32_t)completion->cookie;
	const struct ring_flight *flight;

	if (index >= ring->end.entries)
		return -EPROTO;
	flight = &ring->flight[index];
	if (!flight->operation || flight->generation != completion->cookie >> 32 ||
	    !status_possible(flight, completion->status))
		return -EPROTO;
	land(rings, ring, (uint16_t)index, completion->status);
	return 0;
}

static int
reap_ring(struct rings *rings, struct ring *ring)
{
	struct channel_completion completion;
	uint32_t before = ring->end.complete;
	int there;

	while ((there = channel_reap(&ring->end, &completion)) == 1)
		if (complete(rings, ring, &completion) < 0)
			return -EPROTO;
	if (ring->end.complete != before) {
		channel_reaped(&ring->end);
		store_relaxed(&ring->reaped, ring->end.complete); /* a hint */
	}
	return there;
}

int
rings_reap(struct rings *rings)
{
	for (uint32_t i = 0; rings->state == RINGS_OPEN && i < rings->channel.geometry.rings; i++)
		if (reap_ring(rings, &rings->ring[i]) < 0)
			rings_end(rings, -EPROTO);
	return rings->state == RINGS_ENDED ? rings->error : 0;
}

void
rings_give_up(struct rings *rings, struct ring_call *call)
{
	rings->ring[call->ring].flight[call->flight].call = NULL;
	store_relaxed(&call->waiter->in_flight, call->waiter->in_flight - 1);
}

void
rings_end(struct rings *rings, int error)
{
	if (rings->state != RINGS_OPEN)
		return;
	rings->state = RINGS_ENDED;
	rings->error = error;
	for (uint32_t i = 0; i < rings->channel.geometry.rings; i++) {
		struct ring *ring = &rings->ring[i];

		for (uint32_t index = 0; index < ring->end.entries; index++)
			if (ring->flight[index].operation)
				land(rings, ring, (uint16_t)index, error);
	}
	release_all(rings, &rings->want_slot);
}
