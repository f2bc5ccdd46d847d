/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way through rings, see client_ring.h.
 *
 * A zc has one channel for each page size that is put to, opened at the first put or delete on each connection.
 * While there is one, every put and delete goes through it, if need be after waiting for a free slot: what
 * somebody gave up may still be in a ring, and a later request that went by the socket could overtake it.
 *
 * A channel ends with its connection. What was in flight then goes by the socket, which connects again.
 */
#include "client_ring.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "atomic.h"
#include "object.h"

/* ---- opening a channel ---- */

/* Asks for a channel. Returns the number of descriptors, 0 where there is none. */
static unsigned
ask_for_channel(struct zc *zc, uint32_t page_size, uint64_t deadline, int *descriptors,
		uint64_t *generation)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__ChannelOpen ask = ZCACHE__V1__CHANNEL_OPEN__INIT;
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_CHANNEL_OPENED,
		.descriptors = descriptors,
		.descriptor_room = 1 + RINGS_MAX,
	};
	int64_t error;

	ask.slot_size = page_size;
	ask.slots = channel_slots_wanted(page_size);
	ask.entries = CHANNEL_ENTRIES_WANTED;
	request.op_case = ZCACHE__V1__REQUEST__OP_CHANNEL_OPEN;
	request.channel_open = &ask;
	error = client_call_until(zc, &call, deadline);
	*generation = call.generation;
	while (error && call.descriptor_count > 0)
		close(descriptors[--call.descriptor_count]);
	return call.descriptor_count;
}

/* RINGS_CLOSED, locked; lets go meanwhile. `generation`: the connection that we want it on. */
static void
open_channel(struct zc *zc, struct rings *rings, uint32_t page_size, uint64_t generation,
	     uint64_t deadline)
{
	int descriptors[1 + RINGS_MAX];
	unsigned count;
	uint64_t got;

	rings->state = RINGS_OPENING;
	pthread_mutex_unlock(&rings->mutex);
	count = ask_for_channel(zc, page_size, deadline, descriptors, &got);
	pthread_mutex_lock(&rings->mutex);
	rings->state = RINGS_CLOSED;
	/* Where it fails, we do not ask again on this connection. */
	rings->generation = count && got ? got : generation;
	if (count)
		rings_open(rings, descriptors, count, page_size);
}

/* The channel is of another connection, or there is none. True: there is one on the right connection now. */
static __attribute__((noinline)) bool
renew(struct zc *zc, struct rings *rings, uint32_t page_size, uint64_t generation,
      uint64_t deadline)
{
	/* Ours may be the old one, of a pool that nobody has mapped anew. */
	if (transport_live(&zc->transport) != generation)
		return false;
	rings_end(rings, -ECONNRESET);
	if (rings->state == RINGS_ENDED && rings->users == 0)
		rings_close(rings, false);
	if (rings->state == RINGS_CLOSED && rings->generation != generation)
		open_channel(zc, rings, page_size, generation, deadline);
	return rings->state == RINGS_OPEN && rings->generation == generation;
}

/* Where the pool's requests go now; false: not through rings. */
static bool
find_address(struct zc_pool *pool, struct pool_address *address)
{
	*address = pool_handle_read(&pool->handle);
	return pool->zc->shared_memory && !client_inherited(pool->zc) && address->generation &&
	       address->generation == transport_live(&pool->zc->transport) &&
	       address->page_size == pool->info.page_size &&
	       page_size_number(address->page_size) < PAGE_SIZES;
}

struct rings *
client_rings_enter(struct zc_pool *pool, bool open, uint64_t deadline, struct pool_address *address)
{
	struct zc *zc = pool->zc;
	struct rings *rings;
	bool good;

	if (!find_address(pool, address))
		return NULL;
	rings = &zc->rings[page_size_number(address->page_size)];
	pthread_mutex_lock(&rings->mutex);
	good = rings->state == RINGS_OPEN && rings->generation == address->generation;
	if (!good && open)
		good = renew(zc, rings, address->page_size, address->generation, deadline);
	if (good) {
		rings->users++;
		return rings;
	}
	pthread_mutex_unlock(&rings->mutex);
	return NULL;
}

void
client_rings_leave(struct zc *zc, struct rings *rings)
{
	uint64_t broken = 0;

	rings->users--;
	if (rings->state == RINGS_ENDED) {
		broken = rings->error == -EPROTO ? rings->generation : 0;
		if (rings->users == 0)
			rings_close(rings, false);
	}
	pthread_mutex_unlock(&rings->mutex);
	/* A service that breaks the protocol is left, as if it had done so on the socket. */
	if (broken)
		transport_fail(&zc->transport, broken, -EPROTO);
}

/* ---- one request ---- */

uint32_t
ring_choose(const struct rings *rings, uint64_t seed, zc_key key)
{
	return rings_choose(rings, key_hash(seed, &(struct page_key){key.object, key.index}));
}

struct channel_request
ring_request(const struct zc_request *request, uint32_t handle)
{
	static const uint16_t operation[] = {
		[ZC_OP_PUT] = ZC_CHANNEL_PUT,
		[ZC_OP_GET] = ZC_CHANNEL_GET,
		[ZC_OP_DEL] = ZC_CHANNEL_DELETE,
		[ZC_OP_EXISTS] = ZC_CHANNEL_EXISTS,
	};
	bool value = request->opcode == ZC_OP_PUT || request->opcode == ZC_OP_GET;
	uint32_t page_size = request->pool->info.page_size;

	return (struct channel_request){
		.object = request->key.object,
		.index = request->key.index,
		.pool = handle,
		.length = !value			? 0
			  : request->length < page_size ? (uint32_t)request->length
							: page_size,
		.operation = operation[request->opcode],
		.flags = request->flags & ZC_KEEP_OLD ? ZC_CHANNEL_KEEP_OLD : 0,
	};
}

static int64_t
wait_for(struct rings *rings, struct ring_call *call, uint64_t deadline)
{
	if (rings_wait(rings, call->waiter, 0, deadline)) {
		rings_give_up(rings, call);
		call->slot = RING_NO_SLOT; /* the service may still use it */
		return -ETIMEDOUT;
	}
	return call->status == -ECONNRESET ? -EAGAIN : call->status;
}

/* The caller's page is copied while nobody has to wait for it. */
static void
copy_page(struct rings *rings, void *to, const void *from, size_t length)
{
	pthread_mutex_unlock(&rings->mutex);
	memcpy(to, from, length);
	pthread_mutex_lock(&rings->mutex);
}

static int64_t
exchange(struct rings *rings, const struct zc_request *request, const struct pool_address *address,
	 struct ring_call *call, uint64_t deadline)
{
	struct channel_request entry = ring_request(request, address->handle);
	uint32_t number = ring_choose(rings, address->seed, request->key);
	int64_t result;

	if (request->opcode == ZC_OP_PUT)
		copy_page(rings, channel_slot(&rings->channel, call->slot), request->buffer,
			  request->length);
	while (rings_add(rings, number, &entry, call)) {
		result = rings_wait_room(rings, number, deadline);
		if (result)
			return result;
	}
	rings_publish(rings);
	result = wait_for(rings, call, deadline);
	if (request->opcode == ZC_OP_GET && result > 0)
		copy_page(rings, request->buffer, channel_slot(&rings->channel, call->slot),
			  (size_t)result);
	return result;
}

static int64_t
run(struct rings *rings, const struct zc_request *request, const struct pool_address *address,
    uint64_t deadline)
{
	struct ring_waiter waiter = {.finished = STAILQ_HEAD_INITIALIZER(waiter.finished)};
	struct ring_call call = {.waiter = &waiter, .slot = RING_NO_SLOT};
	bool slot = request->opcode == ZC_OP_PUT || request->opcode == ZC_OP_GET;
	int64_t result = slot ? rings_wait_slot(rings, &call.slot, deadline) : 0;

	if (!result)
		result = exchange(rings, request, address, &call, deadline);
	rings_give_slot(rings, call.slot);
	return result;
}

void
client_count_ring(struct zc *zc, uint32_t opcode)
{
	uint64_t *const counts[] = {
		[ZC_OP_PUT] = &zc->counts.ring_puts,
		[ZC_OP_GET] = &zc->counts.ring_gets,
		[ZC_OP_DEL] = &zc->counts.ring_dels,
		[ZC_OP_EXISTS] = &zc->counts.ring_exists,
	};

	add_relaxed(counts[opcode], 1);
}

int64_t
ring_run(const struct zc_request *request, uint64_t deadline)
{
	struct zc_pool *pool = request->pool;
	bool change = request->opcode == ZC_OP_PUT || request->opcode == ZC_OP_DEL;
	struct pool_address address;
	int64_t result = -EAGAIN;
	struct rings *rings;
	int cancel_state;

	/* A thread cancelled while it leads would leave the others without a leader. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	rings = client_rings_enter(pool, change, deadline, &address);
	if (rings) {
		result = run(rings, request, &address, deadline);
		client_rings_leave(pool->zc, rings);
	}
	pthread_setcancelstate(cancel_state, NULL);
	if (result != -EAGAIN)
		client_count_ring(pool->zc, request->opcode);
	return result;
}
