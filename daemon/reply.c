/* SPDX-License-Identifier: BSD-2-Clause */
/* Responses; reply.h has the contract. */
#include "reply.h"

#include <assert.h>
#include <errno.h>

#include "connection.h"
#include "frame.h"
#include "registry.h"
#include "worker.h"
#include "zcached_version.h"

static char server_name[] = "zcached " ZCACHED_VERSION;

static void
reply_pack(struct connection *connection, const Zcache__V1__Response *response)
{
	struct worker *worker = connection->worker;
	int64_t bytes = frame_pack(&response->base, worker->output + worker->output_used,
				   WORKER_OUTPUT - worker->output_used, ZC_FRAME_MAX);

	assert(bytes > 0);
	worker->output_used += (uint32_t)bytes;
}

void
reply_done(struct connection *connection, uint64_t id)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;

	response.id = id;
	reply_pack(connection, &response);
}

void
reply_error(struct connection *connection, uint64_t id, int32_t status, const char *text)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;

	response.id = id;
	response.status = status;
	response.message = (char *)text;
	reply_pack(connection, &response);
}

void
reply_hello(struct connection *connection, uint64_t id, int32_t status, const char *text)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__HelloReply hello = ZCACHE__V1__HELLO_REPLY__INIT;

	hello.version = ZC_PROTOCOL_VERSION;
	hello.server = server_name;
	hello.max_frame = ZC_FRAME_MAX;
	hello.max_in_flight = CONNECTION_IN_FLIGHT_MAX;
	response.id = id;
	response.status = status;
	if (text)
		response.message = (char *)text;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_HELLO;
	response.hello = &hello;
	reply_pack(connection, &response);
}

void
reply_value(struct connection *connection, uint64_t id, const void *value, uint32_t length)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__Value message = ZCACHE__V1__VALUE__INIT;

	message.value.data = (uint8_t *)value;
	message.value.len = length;
	response.id = id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
	response.value = &message;
	reply_pack(connection, &response);
}

void
reply_deleted(struct connection *connection, uint64_t id, uint64_t pages)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__Deleted deleted = ZCACHE__V1__DELETED__INIT;

	deleted.pages = pages;
	response.id = id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_DELETED;
	response.deleted = &deleted;
	reply_pack(connection, &response);
}

void
reply_fill_pool_info(const struct pool_entry *entry, Zcache__V1__PoolInfo *info,
		     char codec[REPLY_CODEC_TEXT])
{
	const struct pool_config *config = pool_config(entry->pool);

	codec_config_format(&config->codec, codec);
	info->pool_id = pool_id(entry->pool);
	info->name = (char *)config->name;
	info->kind = (Zcache__V1__PoolKind)config->kind;
	info->page_size = config->page_size;
	info->limit = config->limit;
	info->codec = codec;
	info->owner_uid = config->owner_uid;
}

void
reply_pool(struct connection *connection, uint64_t id, const struct pool_entry *entry,
	   uint32_t handle)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__PoolInfo info = ZCACHE__V1__POOL_INFO__INIT;
	char codec[REPLY_CODEC_TEXT];

	reply_fill_pool_info(entry, &info, codec);
	info.handle = handle;
	info.hash_seed = pool_view(entry->pool)->hash_seed;
	response.id = id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_POOL;
	response.pool = &info;
	reply_pack(connection, &response);
}

/* ---- answers with descriptors ---- */

static int
reply_descriptors(struct connection *connection, const Zcache__V1__Response *response,
		  const int *fd, unsigned count)
{
	char frame[64];
	int64_t size = frame_pack(&response->base, frame, sizeof(frame), ZC_FRAME_MAX);

	assert(size > 0);
	return connection_send_descriptors(connection, frame, (uint32_t)size, fd, count);
}

int
reply_pool_mapped(struct connection *connection, uint64_t id, uint64_t pool, const int *fd,
		  unsigned count)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__PoolMapped mapped = ZCACHE__V1__POOL_MAPPED__INIT;

	mapped.pool_id = pool;
	response.id = id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_POOL_MAPPED;
	response.pool_mapped = &mapped;
	return reply_descriptors(connection, &response, fd, count);
}

int
reply_channel_opened(struct connection *connection, uint64_t id,
		     const struct channel_geometry *geometry, const int *fd)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__ChannelOpened opened = ZCACHE__V1__CHANNEL_OPENED__INIT;

	opened.rings = geometry->rings;
	opened.slots = geometry->slots;
	opened.entries = geometry->entries;
	response.id = id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_CHANNEL_OPENED;
	response.channel_opened = &opened;
	return reply_descriptors(connection, &response, fd, 1 + geometry->rings);
}

uint32_t
reply_wakeup(char *frame)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__Wakeup wakeup = ZCACHE__V1__WAKEUP__INIT;
	int64_t size;

	response.result_case = ZCACHE__V1__RESPONSE__RESULT_WAKEUP;
	response.wakeup = &wakeup;
	size = frame_pack(&response.base, frame, REPLY_WAKEUP_SIZE, ZC_FRAME_MAX);
	assert(size > 0);
	return (uint32_t)size;
}
