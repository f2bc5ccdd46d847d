/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Direct reads, see direct.h. Called by client_page.c, client_batch.c and queue.c.
 *
 * Whether what is mapped is still the service's. Memory stays readable when the service has died, and where
 * no other service takes the pool over, its header says LIVE for ever. So a mapping counts only while the
 * connection that it came on is up, and about a hundred times a second one of those who read looks at the
 * socket (CHECK_INTERVAL): no get returns what a dead service held for longer than that.
 *
 * A value is decoded from private bytes whose checksum was right straight into the caller's buffer. A
 * decoder that fails all the same may have written to it: only a service that stored garbage on purpose
 * makes that happen.
 */
#include "direct.h"

#include <errno.h>

#include "atomic.h"
#include "client_attach.h"
#include "deadline.h"
#include "value.h"

#define CHECK_INTERVAL (10 * (uint64_t)NS_PER_MS)

/* How far ahead of its read a key's buckets are fetched from memory. */
#define PREFETCH_AHEAD 4u

/* Gets of a batch between two looks at the clock. */
#define CHUNK 16u

/* ---- taking part ---- */

/* The clock's last tick: a few nanoseconds to read, some milliseconds old. */
static uint64_t
coarse_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) void
check_service(struct zc *zc, uint64_t generation, uint64_t now)
{
	/* Relaxed: a clock that one thread moves on. */
	uint64_t due = load_relaxed(&zc->check_at);

	if (due > now || !cas_relaxed(&zc->check_at, &due, now + CHECK_INTERVAL))
		return;
	transport_check(&zc->transport, generation);
	attachments_reap(zc);
}

/* Takes a place to read the pool at `now`, or NULL. */
static struct reader_slot *
enter(struct zc_pool *pool, uint64_t now)
{
	struct zc *zc = pool->zc;
	struct reader_slot *slot;

	/* A child has none of the mappings. */
	if (client_inherited(zc))
		return NULL;
	slot = reader_slot_enter(&zc->readers, &pool->attachment);
	if (!slot)
		return NULL;
	if (load_relaxed(&zc->check_at) <= now) /* as in check_service() */
		check_service(zc, reader_slot_attachment(slot)->generation, now);
	if (reader_slot_attachment(slot)->generation == transport_live(&zc->transport))
		return slot;
	reader_slot_leave(slot);
	return NULL;
}

/* ---- reading ---- */

static int
decode(struct reader_slot *slot, const struct pool_view *view, const struct reader_result *found,
       void *buffer, size_t size)
{
	uint32_t room = size < view->page_size ? (uint32_t)size : view->page_size;

	if (!found->same_filled)
		return value_decode(slot->stream, found->word, slot->stored, view->page_size,
				    buffer, room);
	if (room < view->page_size)
		return -EMSGSIZE;
	same_fill(buffer, view->page_size, found->word);
	return (int)view->page_size;
}

static int
read_value(struct reader_slot *slot, const struct pool_view *view, const struct page_key *key,
	   void *buffer, size_t size)
{
	struct reader_result found;
	int error = reader_get(view, key, slot->stored, &found);

	return error ? error : decode(slot, view, &found, buffer, size);
}

/*
 * What the pool's memory does not settle: it is being recovered, changes too fast, or holds damage, which the
 * service has to see, to count and to mark.
 */
static bool
settled(int result)
{
	return result >= 0 || result == -ENOENT || result == -EMSGSIZE;
}

/* Looks whether the files are longer than `view` says. */
static bool
view_grown(struct reader_slot *slot, struct pool_view *view)
{
	struct pool_view old = *view;

	attachment_refresh(reader_slot_attachment(slot));
	*view = attachment_view(reader_slot_attachment(slot));
	return view->control_size != old.control_size || view->index_size != old.index_size ||
	       view->data_size != old.data_size;
}

/* -EAGAIN can mean that the files have grown: then once more. */
static __attribute__((noinline)) int
read_again(struct reader_slot *slot, struct pool_view *view, const struct page_key *key, int result,
	   void *buffer, size_t size)
{
	if (result == -EAGAIN && view_grown(slot, view))
		result = read_value(slot, view, key, buffer, size);
	return result;
}

static int
get(struct reader_slot *slot, struct pool_view *view, zc_key key, void *buffer, size_t size)
{
	struct page_key name = {key.object, key.index};
	int result = read_value(slot, view, &name, buffer, size);

	if (!settled(result))
		result = read_again(slot, view, &name, result, buffer, size);
	if (settled(result)) {
		READER_COUNT(slot, gets);
		return result;
	}
	READER_COUNT(slot, retries);
	return -EAGAIN;
}

int
direct_get(struct zc_pool *pool, zc_key key, void *buffer, size_t size)
{
	struct reader_slot *slot = enter(pool, coarse_now());
	struct pool_view view;
	int result;

	if (!slot)
		return -EAGAIN;
	view = attachment_view(reader_slot_attachment(slot));
	result = get(slot, &view, key, buffer, size);
	reader_slot_leave(slot);
	return result;
}

static int
find(struct reader_slot *slot, const struct page_key *key)
{
	struct pool_view view = attachment_view(reader_slot_attachment(slot));
	int result = reader_exists(&view, key);

	if (result == -EAGAIN && view_grown(slot, &view))
		result = reader_exists(&view, key);
	if (settled(result)) {
		READER_COUNT(slot, exists);
		return result == 0;
	}
	READER_COUNT(slot, retries);
	return -EAGAIN;
}

int
direct_exists(struct zc_pool *pool, zc_key key)
{
	struct reader_slot *slot = enter(pool, coarse_now());
	int result;

	if (!slot)
		return -EAGAIN;
	result = find(slot, &(struct page_key){key.object, key.index});
	reader_slot_leave(slot);
	return result;
}

/* ---- many ---- */

static void
prefetch(const struct pool_view *view, const struct zc_item *item)
{
	reader_prefetch(view, &(struct page_key){item->key.object, item->key.index});
}

/* Gets items[from .. to); those up to `count` come next. */
static void
get_chunk(struct reader_slot *slot, struct zc_item *items, size_t from, size_t to, size_t count)
{
	struct pool_view view = attachment_view(reader_slot_attachment(slot));

	for (size_t i = from; i < to; i++) {
		if (i + PREFETCH_AHEAD < count)
			prefetch(&view, &items[i + PREFETCH_AHEAD]);
		items[i].result =
			items[i].buffer || !items[i].length
				? get(slot, &view, items[i].key, items[i].buffer, items[i].length)
				: -EAGAIN; /* and -EINVAL then */
	}
}

size_t
direct_get_many(struct zc_pool *pool, struct zc_item *items, size_t count, uint64_t deadline)
{
	size_t done = 0;

	while (done < count) {
		size_t end = count - done < CHUNK ? count : done + CHUNK;
		uint64_t now = coarse_now();
		struct reader_slot *slot = now < deadline ? enter(pool, now) : NULL;

		if (!slot)
			break;
		get_chunk(slot, items, done, end, count);
		reader_slot_leave(slot);
		done = end;
	}
	return done;
}
