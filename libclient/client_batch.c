/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Many pages in one call.
 *
 * Puts and deletes: as many as there are slots are in flight at once, in the rings of all workers. While
 * the workers compress some, the next are copied in. When all calls are used, the thread sleeps until about
 * half of them are finished, so it is woken rarely and the workers never run dry. Gets read directly, one
 * after the other, with the memory of those to come on its way.
 *
 * Items of one key go through one ring, in order. When the channel ends, what was not finished is done again, in
 * the order of the array; an item that finds no channel goes by the socket, alone, when nothing else is in flight.
 *
 * Thread safe; no allocation.
 */
#include <errno.h>
#include <string.h>

#include "client_page.h"
#include "client_ring.h"
#include "deadline.h"
#include "direct.h"
#include "page_message.h"

/* In flight at most: more than workers and wake-ups need, and pages enough to fill half a second-level cache. */
#define CALLS 64u
/* Copied in before the workers are shown them. */
#define CHUNK 16u

struct batch_call {
	struct ring_call call; /* first: a finished call is found by its address */
	size_t item;
	bool in_flight;
};

struct batch {
	struct zc_pool *pool;
	struct zc_item *items;
	size_t count;
	uint32_t opcode;
	uint32_t flags;
	uint64_t deadline;
	size_t next;	    /* the first that was never tried */
	size_t redo[CALLS]; /* tried and not done, in order; they come first */
	unsigned redo_count;
	size_t done;	     /* items whose result is set */
	size_t good;	     /* items with a result of 0 or more */
	uint32_t spare_slot; /* waited for and not used yet, or RING_NO_SLOT */
	bool full;	     /* the last request found its ring full: */
	uint32_t full_ring;
	struct pool_address address;
	struct ring_waiter waiter;
	struct batch_call call[CALLS];
	struct batch_call *unused[CALLS];
	unsigned unused_count;
};

/* ---- items ---- */

static struct zc_request
item_request(const struct batch *batch, size_t item)
{
	const struct zc_item *from = &batch->items[item];

	return (struct zc_request){
		.pool = batch->pool,
		.key = from->key,
		.buffer = from->buffer,
		.length = from->length,
		.opcode = batch->opcode,
		.flags = batch->flags,
	};
}

static void
set_result(struct batch *batch, size_t item, int64_t result)
{
	batch->items[item].result = result;
	batch->done++;
	batch->good += result >= 0;
}

/* The next item to be tried, those done again first. False: there is none. Bad ones are dealt with. */
static bool
next_item(struct batch *batch, size_t *item)
{
	if (batch->redo_count > 0) {
		*item = batch->redo[0];
		batch->redo_count--;
		memmove(batch->redo, batch->redo + 1, batch->redo_count * sizeof(*batch->redo));
		return true;
	}
	while (batch->next < batch->count) {
		struct zc_request request;
		const char *text;
		int error;

		*item = batch->next++;
		request = item_request(batch, *item);
		error = page_check(&request, &text);
		if (!error)
			return true;
		set_result(batch, *item, client_error(batch->pool->zc, error, text));
	}
	return false;
}

static void
try_again(struct batch *batch, size_t item)
{
	unsigned at = batch->redo_count++;

	while (at > 0 && batch->redo[at - 1] > item) {
		batch->redo[at] = batch->redo[at - 1];
		at--;
	}
	batch->redo[at] = item;
}

/* ---- through the rings ---- */

static bool
take_slot(struct batch *batch, struct rings *rings, uint32_t *slot)
{
	*slot = batch->spare_slot;
	batch->spare_slot = RING_NO_SLOT;
	return batch->opcode != ZC_OP_PUT || *slot != RING_NO_SLOT || rings_take_slot(rings, slot);
}

/* Takes what the next items need: up to CHUNK calls, for puts with slots. Returns how many. */
static unsigned
prepare_chunk(struct batch *batch, struct rings *rings, struct batch_call **chunk)
{
	unsigned count = 0;

	while (count < CHUNK && batch->unused_count > 0) {
		struct batch_call *call = batch->unused[batch->unused_count - 1];

		if (!take_slot(batch, rings, &call->call.slot))
			break;
		if (!next_item(batch, &call->item)) {
			rings_give_slot(rings, call->call.slot);
			break;
		}
		batch->unused_count--;
		chunk[count++] = call;
	}
	return count;
}

static void
copy_chunk(struct batch *batch, struct rings *rings, struct batch_call **chunk, unsigned count)
{
	pthread_mutex_unlock(&rings->mutex);
	for (unsigned i = 0; i < count; i++) {
		const struct zc_item *item = &batch->items[chunk[i]->item];

		memcpy(channel_slot(&rings->channel, chunk[i]->call.slot), item->buffer,
		       item->length);
	}
	pthread_mutex_lock(&rings->mutex);
}

static void
return_call(struct batch *batch, struct rings *rings, struct batch_call *call)
{
	rings_give_slot(rings, call->call.slot);
	call->in_flight = false;
	batch->unused[batch->unused_count++] = call;
}

/* False: a ring was full, or the channel has ended. */
static bool
submit_chunk(struct batch *batch, struct rings *rings, struct batch_call **chunk, unsigned count)
{
	batch->full = false;
	for (unsigned i = 0; i < count; i++) {
		struct zc_request request = item_request(batch, chunk[i]->item);
		struct channel_request entry = ring_request(&request, batch->address.handle);
		uint32_t number = ring_choose(rings, batch->address.seed, request.key);

		chunk[i]->call.waiter = &batch->waiter;
		chunk[i]->in_flight = !rings_add(rings, number, &entry, &chunk[i]->call);
		if (chunk[i]->in_flight)
			continue;
		/* A full ring stays full for the rest of this chunk, so order is kept. */
		try_again(batch, chunk[i]->item);
		return_call(batch, rings, chunk[i]);
		batch->full = true;
		batch->full_ring = number;
	}
	rings_publish(rings);
	return !batch->full;
}

static void
fill(struct batch *batch, struct rings *rings)
{
	struct batch_call *chunk[CHUNK];
	unsigned count;

	do {
		count = prepare_chunk(batch, rings, chunk);
		if (count > 0 && batch->opcode == ZC_OP_PUT)
			copy_chunk(batch, rings, chunk, count);
	} while (count > 0 && submit_chunk(batch, rings, chunk, count));
}

static void
collect(struct batch *batch, struct rings *rings)
{
	struct ring_call *finished;

	while ((finished = STAILQ_FIRST(&batch->waiter.finished))) {
		struct batch_call *call = (struct batch_call *)(void *)finished;

		STAILQ_REMOVE_HEAD(&batch->waiter.finished, link);
		if (finished->status == -ECONNRESET) {
			try_again(batch, call->item);
		} else {
			set_result(batch, call->item, page_result(batch->opcode, finished->status));
			client_count_ring(batch->pool->zc, batch->opcode);
		}
		return_call(batch, rings, call);
	}
}

/* The deadline passed. */
static void
give_up(struct batch *batch, struct rings *rings)
{
	for (unsigned i = 0; i < CALLS; i++) {
		struct batch_call *call = &batch->call[i];

		if (!call->in_flight)
			continue;
		rings_give_up(rings, &call->call);
		call->call.slot = RING_NO_SLOT; /* the service may still read it */
		set_result(batch, call->item, -ETIMEDOUT);
		return_call(batch, rings, call);
	}
}

/* Nothing of ours is in flight, and what the next item needs is others'. */
static int
wait_for_others(struct batch *batch, struct rings *rings)
{
	if (batch->full)
		return rings_wait_room(rings, batch->full_ring, batch->deadline);
	return rings_wait_slot(rings, &batch->spare_slot, batch->deadline);
}

/* Returns 0 when all is done, -ETIMEDOUT, or -EAGAIN: the channel has ended. Nothing is in flight then. */
static int
run(struct batch *batch, struct rings *rings)
{
	int error = 0;

	while (!error) {
		unsigned in_flight;
		bool more;

		fill(batch, rings);
		in_flight = batch->waiter.in_flight;
		more = batch->redo_count > 0 || batch->next < batch->count;
		if (in_flight > 0)
			error = rings_wait(rings, &batch->waiter, more ? in_flight / 2 : 0,
					   batch->deadline);
		else if (more)
			error = wait_for_others(batch, rings);
		else
			break;
		collect(batch, rings);
	}
	if (error == -ETIMEDOUT)
		give_up(batch, rings);
	rings_give_slot(rings, batch->spare_slot);
	batch->spare_slot = RING_NO_SLOT;
	return error;
}

/* False: there is no channel, or no more. */
static bool
by_rings(struct batch *batch)
{
	struct rings *rings;
	int error;

	rings = client_rings_enter(batch->pool, true, batch->deadline, &batch->address);
	if (!rings)
		return false;
	error = run(batch, rings);
	client_rings_leave(batch->pool->zc, rings);
	return error != -EAGAIN;
}

static void
by_socket(struct batch *batch)
{
	struct zc_request request;
	size_t item;

	if (!next_item(batch, &item))
		return;
	request = item_request(batch, item);
	set_result(batch, item, request_by_socket(&request, batch->deadline));
}

static void
run_all(struct batch *batch)
{
	size_t item;

	while (batch->done < batch->count && !deadline_passed(batch->deadline))
		if (!by_rings(batch))
			by_socket(batch);
	while (next_item(batch, &item))
		set_result(batch, item, client_error(batch->pool->zc, -ETIMEDOUT, ""));
}

/* ---- the public functions ---- */

static int
check_batch(struct zc_pool *pool, const struct zc_item *items, size_t count)
{
	if (!pool || (count && !items) || count > INT64_MAX)
		return -EINVAL;
	return client_usable(pool->zc);
}

static int64_t
change_many(struct zc_pool *pool, struct zc_item *items, size_t count, uint32_t opcode,
	    unsigned flags)
{
	struct batch batch = {
		.pool = pool,
		.items = items,
		.count = count,
		.opcode = opcode,
		.flags = flags,
		.deadline = client_deadline(pool->zc),
		.spare_slot = RING_NO_SLOT,
		.waiter = {.finished = STAILQ_HEAD_INITIALIZER(batch.waiter.finished)},
		.unused_count = CALLS,
	};
	int cancel_state;

	for (unsigned i = 0; i < CALLS; i++)
		batch.unused[i] = &batch.call[i];
	/* As in ring_run(). */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	run_all(&batch);
	pthread_setcancelstate(cancel_state, NULL);
	return (int64_t)batch.good;
}

int64_t
zc_put_many(struct zc_pool *pool, struct zc_item *items, size_t count, unsigned flags)
{
	int error = check_batch(pool, items, count);

	if (error)
		return error;
	if (flags & ~(unsigned)ZC_KEEP_OLD)
		return client_error(pool->zc, -EINVAL, "unknown flag");
	return change_many(pool, items, count, ZC_OP_PUT, flags);
}

int64_t
zc_del_many(struct zc_pool *pool, struct zc_item *items, size_t count)
{
	int error = check_batch(pool, items, count);

	return error ? error : change_many(pool, items, count, ZC_OP_DEL, 0);
}

/* What could not be read directly, alone. */
static int64_t
get_otherwise(struct zc_pool *pool, const struct zc_item *item, uint64_t deadline)
{
	struct zc_request request = {
		.pool = pool,
		.key = item->key,
		.buffer = item->buffer,
		.length = item->length,
		.opcode = ZC_OP_GET,
	};

	if (deadline_passed(deadline))
		return client_error(pool->zc, -ETIMEDOUT, "");
	return request_run(&request, deadline);
}

int64_t
zc_get_many(struct zc_pool *pool, struct zc_item *items, size_t count)
{
	int error = check_batch(pool, items, count);
	size_t done = 0, good = 0;
	uint64_t deadline;

	if (error)
		return error;
	deadline = client_deadline(pool->zc);
	while (done < count) {
		/* At least one: where nothing can be read directly, all go otherwise, one by one. */
		size_t end = done + direct_get_many(pool, items + done, count - done, deadline);

		if (end == done)
			items[end++].result = -EAGAIN;
		for (; done < end; done++) {
			if (items[done].result == -EAGAIN)
				items[done].result = get_otherwise(pool, &items[done], deadline);
			good += items[done].result >= 0;
		}
	}
	return (int64_t)good;
}
