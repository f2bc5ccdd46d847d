/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pools: open, close, list, create, destroy.
 *
 * An open pool is its name and the handle the service gave for it. The service has no way to give a
 * handle back: handles go with the connection. After a reconnect the transport asks for a new one
 * by name. Thread safe, but a pool is closed once, when nobody uses it.
 */
#include "client_attach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
fill_info(struct zc_pool_info *info, const Zcache__V1__PoolInfo *message)
{
	*info = (struct zc_pool_info){
		.struct_size = sizeof(*info),
		.kind = (uint32_t)message->kind,
		.pool_id = message->pool_id,
		.limit = message->limit,
		.page_size = message->page_size,
		.owner_uid = message->owner_uid,
	};
	snprintf(info->name, sizeof(info->name), "%s", message->name);
	snprintf(info->codec, sizeof(info->codec), "%s", message->codec);
}

/* ---- opening ---- */

static int64_t
take_pool(const Zcache__V1__Response *response, void *into)
{
	struct zc_pool *pool = into;

	fill_info(&pool->info, response->pool);
	/* Valid when it is known on which connection that was. */
	pool_handle_set(&pool->handle, 0, response->pool);
	return 0;
}

static int
ask_for_pool(struct zc *zc, const char *name, struct zc_pool *pool)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolOpen pool_open = ZCACHE__V1__POOL_OPEN__INIT;
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_POOL,
		.take = take_pool,
		.into = pool,
	};
	int error;

	pool_open.name = (char *)name;
	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_OPEN;
	request.pool_open = &pool_open;
	error = (int)client_call(zc, &call);
	if (error)
		return error;
	/* What we asked for, not what we were told: it is what we ask for again. */
	snprintf(pool->info.name, sizeof(pool->info.name), "%s", name);
	pool->handle.name = pool->info.name;
	pool->handle.generation = call.generation; /* nobody else knows it yet */
	return 0;
}

/* 0, or -EINVAL for what cannot be the name of a pool. */
static int
check_name(struct zc *zc, const char *name)
{
	if (!name || !*name || strlen(name) >= sizeof(((struct zc_pool_info *)0)->name))
		return client_error(zc, -EINVAL, "a pool's name has 1 to 63 bytes");
	return 0;
}

int
zc_pool_open(struct zc *zc, const char *name, unsigned flags, struct zc_pool **out)
{
	struct zc_pool *pool;
	int error;

	if (!zc || !out)
		return -EINVAL;
	*out = NULL;
	if (flags)
		return client_error(zc, -EINVAL, "unknown flag");
	name = name ? name : "default";
	error = check_name(zc, name);
	if (error)
		return error;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return client_error(zc, -ENOMEM, "");
	error = ask_for_pool(zc, name, pool);
	if (error) {
		free(pool);
		return error;
	}
	pool->zc = zc;
	pool->serial = client_serial();
	client_hold(zc);
	pool_attach(pool, client_deadline(zc));
	*out = pool;
	return 0;
}

void
zc_pool_close(struct zc_pool **pool)
{
	struct zc_pool *closing;

	if (!pool || !*pool)
		return;
	closing = *pool;
	*pool = NULL;
	pool_detach(closing);
	client_release(closing->zc);
	free(closing);
}

int
zc_pool_info(struct zc_pool *pool, struct zc_pool_info *info)
{
	if (!pool || !info || !struct_size_good(info->struct_size))
		return -EINVAL;
	struct_give(info, info->struct_size, &pool->info, sizeof(pool->info));
	return 0;
}

/* ---- listing ---- */

struct pool_room {
	struct zc_pool_info *list;
	size_t room;
	uint32_t size; /* of an element, as the caller sees it */
};

static int64_t
take_list(const Zcache__V1__Response *response, void *into)
{
	const Zcache__V1__PoolListReply *reply = response->pool_list;
	const struct pool_room *room = into;
	struct zc_pool_info info;

	for (size_t i = 0; i < reply->n_pool && i < room->room; i++) {
		fill_info(&info, reply->pool[i]);
		struct_give((char *)room->list + i * room->size, room->size, &info, sizeof(info));
	}
	return (int64_t)reply->n_pool;
}

int
zc_pool_list(struct zc *zc, struct zc_pool_info *list, size_t room)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolList pool_list = ZCACHE__V1__POOL_LIST__INIT;
	struct pool_room into = {list, room, 0};
	struct call call = {
		.request = &request,
		.resend = true,
		.expect = ZCACHE__V1__RESPONSE__RESULT_POOL_LIST,
		.take = take_list,
		.into = &into,
	};

	if (!zc || (room && !list))
		return -EINVAL;
	if (room)
		into.size = list->struct_size;
	if (room && !struct_size_good(into.size))
		return client_error(zc, -EINVAL, "struct_size");
	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_LIST;
	request.pool_list = &pool_list;
	return (int)client_call(zc, &call);
}

/* ---- creating and destroying ---- */

static bool
terminated(const char *text, size_t size)
{
	return strnlen(text, size) < size;
}

/* Copies what the caller wants, and checks what can be checked here. */
static int
accept_info(struct zc *zc, const struct zc_pool_info *from, struct zc_pool_info *info)
{
	static const uint64_t nothing[sizeof(info->reserved) / sizeof(uint64_t)];

	if (struct_accept(info, sizeof(*info), from) ||
	    memcmp(info->reserved, nothing, sizeof(nothing)) != 0)
		return client_error(zc, -EINVAL, "struct_size, or a field of a later version");
	if (!terminated(info->name, sizeof(info->name)) ||
	    !terminated(info->codec, sizeof(info->codec)))
		return client_error(zc, -EINVAL, "name or codec does not end");
	return check_name(zc, info->name);
}

int
zc_pool_create(struct zc *zc, const struct zc_pool_info *info)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolCreate create = ZCACHE__V1__POOL_CREATE__INIT;
	struct call call = {
		.request = &request,
		.expect = ZCACHE__V1__RESPONSE__RESULT_POOL,
	};
	struct zc_pool_info wanted;
	int error;

	if (!zc || !info)
		return -EINVAL;
	error = accept_info(zc, info, &wanted);
	if (error)
		return error;
	create.name = wanted.name;
	create.kind = (Zcache__V1__PoolKind)wanted.kind;
	create.page_size = wanted.page_size;
	create.limit = wanted.limit;
	create.codec = wanted.codec;
	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_CREATE;
	request.pool_create = &create;
	return (int)client_call(zc, &call);
}

int
zc_pool_destroy(struct zc *zc, const char *name)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__PoolDestroy destroy = ZCACHE__V1__POOL_DESTROY__INIT;
	struct call call = {.request = &request};
	int error;

	if (!zc)
		return -EINVAL;
	error = check_name(zc, name);
	if (error)
		return error;
	destroy.name = (char *)name;
	request.op_case = ZCACHE__V1__REQUEST__OP_POOL_DESTROY;
	request.pool_destroy = &destroy;
	return (int)client_call(zc, &call);
}
