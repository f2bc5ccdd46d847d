/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pools are mapped to be read directly: once for each connection, by whoever notices first that the pool is
 * not mapped on this one. What fails, for whatever reason, is not an error: pages then go by the socket, and
 * the next connection is the next attempt.
 *
 * A mapping that was replaced is unmapped when no thread is inside (reader_slot.h); until then it is in the
 * zc's list, which is looked through at each replacement and now and then by readers.
 */
#include "client_attach.h"

#include <errno.h>
#include <unistd.h>

#include "atomic.h"

/* ---- replaced mappings ---- */

/* Takes those out of the list that nobody is inside. */
static struct attachment *
take_unused(struct zc *zc)
{
	struct attachment *unused = NULL, **link = &zc->retired;

	while (*link) {
		struct attachment *attachment = *link;

		if (reader_slots_inside(&zc->readers, attachment)) {
			link = &attachment->next;
			continue;
		}
		store_relaxed(link, attachment->next);
		attachment->next = unused;
		unused = attachment;
	}
	return unused;
}

void
attachments_reap(struct zc *zc)
{
	struct attachment *unused;

	/* Relaxed: a moment late is no harm. */
	if (!load_relaxed(&zc->retired))
		return;
	pthread_mutex_lock(&zc->retiring);
	unused = take_unused(zc);
	pthread_mutex_unlock(&zc->retiring);
	while (unused) {
		struct attachment *next = unused->next;

		attachment_close(&unused, client_inherited(zc));
		unused = next;
	}
}

static void
retire(struct zc *zc, struct attachment *attachment)
{
	pthread_mutex_lock(&zc->retiring);
	attachment->next = zc->retired;
	store_relaxed(&zc->retired, attachment);
	pthread_mutex_unlock(&zc->retiring);
	attachments_reap(zc);
}

/* Sequentially consistent: see reader_slot.h. */
static void
attachment_replace(struct zc_pool *pool, struct attachment *attachment)
{
	struct attachment *old =
		__atomic_exchange_n(&pool->attachment, attachment, __ATOMIC_SEQ_CST);

	if (old)
		retire(pool->zc, old);
}

/* ---- attaching ---- */

static int64_t
take_pool_id(const Zcache__V1__Response *response, void *into)
{
	*(uint64_t *)into = response->pool_mapped->pool_id;
	return 0;
}

static struct attachment *
ask_for_memory(struct zc_pool *pool, uint64_t deadline, uint64_t *generation)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolMap pool_map = ZCACHE__V1__POOL_MAP__INIT;
	struct attachment *attachment = NULL;
	int fd[ATTACHMENT_FILES];
	uint64_t pool_id = 0;
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_POOL_MAPPED,
		.take = take_pool_id,
		.into = &pool_id,
		.descriptors = fd,
		.descriptor_room = ATTACHMENT_FILES,
	};
	int64_t error;

	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_MAP;
	request.pool_map = &pool_map;
	error = client_pool_call_until(pool, &call, &pool_map.pool, deadline);
	/* Too many descriptors on their way: another time. */
	*generation = error == -EAGAIN ? 0 : call.generation ? call.generation : *generation;
	if (error || call.descriptor_count < ATTACHMENT_FILES) {
		while (call.descriptor_count > 0)
			close(fd[--call.descriptor_count]);
		return NULL;
	}
	if (attachment_open(fd, pool_id, pool->info.page_size, &attachment) == 0)
		attachment->generation = call.generation;
	return attachment;
}

static void
attach(struct zc_pool *pool, uint64_t live, uint64_t deadline)
{
	uint64_t generation = live;

	attachment_replace(pool, ask_for_memory(pool, deadline, &generation));
	/* Relaxed, here and below: who sees it late tries once more. */
	store_relaxed(&pool->attach_tried, generation);
}

void
pool_attach(struct zc_pool *pool, uint64_t deadline)
{
	uint64_t live = transport_live(&pool->zc->transport);

	if (!pool->zc->shared_memory || live == 0 || load_relaxed(&pool->attach_tried) == live)
		return;
	/* Pairs with the release below: one thread at a time, the others go another way. */
	if (exchange_acquire(&pool->attaching, 1u))
		return;
	if (load_relaxed(&pool->attach_tried) != live)
		attach(pool, live, deadline);
	store_release(&pool->attaching, 0u);
}

void
pool_detach(struct zc_pool *pool)
{
	/* The last call on the pool. */
	attachment_close(&pool->attachment, client_inherited(pool->zc));
}
