/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A service with shared memory, for tests of the library: fake_service.h with a real pool behind it, which it lets
 * clients map, and channels, each ring of which a thread serves.
 *
 * Included by the test_zclient_shm*.c programs. Its knobs make it stall, refuse, die, and write anything into its
 * rings. The pool's operations are made under one mutex, whichever way a request came.
 */
#ifndef ZCACHED_TESTS_FAKE_ENGINE_H
#define ZCACHED_TESTS_FAKE_ENGINE_H

#include <poll.h>
#include <sys/eventfd.h>

#include "atomic.h"
#include "channel.h"
#include "fake_service.h"
#include "pool.h"

#define ENGINE_RINGS	2u
#define ENGINE_CHANNELS 64
#define ENGINE_POOLS	8

struct fake_channel;

/* Sees each request that was taken from a ring; true: it has dealt with it. */
typedef bool engine_hook(struct fake_channel *channel, unsigned ring,
			 const struct channel_request *request);

struct fake_ring {
	struct fake_channel *of;
	unsigned number;
	pthread_t thread;
	int doorbell;
	struct channel_end end;
};

struct fake_channel {
	struct fake_engine *engine;
	struct fake_peer *peer;
	struct channel channel;
	int fd;
	bool notify;
	atomic_bool stop;
	struct fake_ring ring[ENGINE_RINGS];
};

struct fake_engine {
	struct fake_service *fake;
	struct ceiling *ceiling;
	pthread_mutex_t mutex; /* of pool operations, and what follows */
	struct pool *pool;
	struct pool *former[ENGINE_POOLS]; /* of engines that died */
	unsigned formers;
	struct pool_context *context;
	struct fake_channel *channel[ENGINE_CHANNELS];
	unsigned channels;
	uint32_t slots; /* at most so many */
	fake_hook *_Atomic socket_hook;
	engine_hook *_Atomic ring_hook;
	atomic_bool stalled; /* nothing is taken from rings */
	atomic_bool no_map, no_channel;
	atomic_int maps, channels_opened, doorbells;
	atomic_int ring_requests;
};

static inline struct fake_engine *
engine_of(struct fake_peer *peer)
{
	return peer->fake->context;
}

/* ---- the pool ---- */

static inline struct pool *
engine_new_pool(struct fake_engine *engine, uint32_t page_size, const char *codec)
{
	struct pool_config config = {
		.name = "default",
		.kind = ZC_KIND_STORE,
		.page_size = page_size,
		.limit = 64 << 20,
		.address_max = 256 << 20,
	};
	struct pool *pool;

	FAKE_CHECK(codec_config_parse(codec, &config.codec) == 0);
	FAKE_CHECK(pool_create(&config, engine->ceiling, &pool) == 0);
	return pool;
}

static inline int
engine_operate(struct fake_engine *engine, unsigned operation, const struct page_key *key,
	       void *value, uint32_t length, unsigned flags)
{
	int result = -EOPNOTSUPP;

	pthread_mutex_lock(&engine->mutex);
	if (operation == ZC_CHANNEL_PUT)
		result = pool_put(engine->pool, engine->context, key, value, length, flags);
	else if (operation == ZC_CHANNEL_GET)
		result = pool_get(engine->pool, engine->context, key, value, length);
	else if (operation == ZC_CHANNEL_DELETE)
		result = pool_delete(engine->pool, engine->context, key);
	else if (operation == ZC_CHANNEL_EXISTS)
		result = pool_exists(engine->pool, engine->context, key);
	pthread_mutex_unlock(&engine->mutex);
	return result;
}

/* ---- rings ---- */

static inline void
engine_notify(struct fake_channel *channel)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__Wakeup wakeup = ZCACHE__V1__WAKEUP__INIT;
	size_t length;
	uint8_t *frame;

	response.result_case = ZCACHE__V1__RESPONSE__RESULT_WAKEUP;
	response.wakeup = &wakeup;
	frame = fake_pack(&response, &length);
	/* Lost when the client has much to read, as it may be. */
	if (send(channel->peer->fd, frame, length, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		FAKE_CHECK(errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
	free(frame);
}

static inline void
engine_complete(struct fake_channel *channel, unsigned ring, uint64_t cookie, int32_t status)
{
	struct channel_end *end = &channel->ring[ring].end;
	uint32_t before = end->complete;

	FAKE_CHECK(channel_serve_complete(end, cookie, status) == 0);
	if (!channel_serve_completed(end, before))
		return;
	channel_serve_wake(&channel->channel);
	if (channel->notify)
		engine_notify(channel);
}

static inline void
engine_serve(struct fake_channel *channel, unsigned ring, const struct channel_request *request)
{
	struct fake_engine *engine = channel->engine;
	struct page_key key = {request->object, request->index};
	bool value = request->operation == ZC_CHANNEL_PUT || request->operation == ZC_CHANNEL_GET;

	FAKE_CHECK(request->pool == channel->peer->handle);
	FAKE_CHECK(!value || request->slot < channel->channel.geometry.slots);
	FAKE_CHECK(request->length <= channel->channel.geometry.slot_size);
	FAKE_CHECK(!request->spare[0] && !request->spare[1] && !request->spare[2]);
	pthread_mutex_lock(&engine->mutex);
	FAKE_CHECK(pool_shard(engine->pool, &key) % ENGINE_RINGS == ring);
	pthread_mutex_unlock(&engine->mutex);
	engine_complete(
		channel, ring, request->cookie,
		engine_operate(engine, request->operation, &key,
			       value ? channel_slot(&channel->channel, request->slot) : NULL,
			       request->length, request->flags));
}

static inline void
engine_sleep(struct fake_ring *ring)
{
	struct pollfd bell = {.fd = ring->doorbell, .events = POLLIN};
	uint64_t rung;

	if (!channel_serve_may_sleep(&ring->end))
		return;
	/* Woken by the doorbell alone, but for the end of the test. */
	while (poll(&bell, 1, 20) == 0 && !atomic_load(&ring->of->stop))
		;
	if (bell.revents && read(ring->doorbell, &rung, sizeof(rung)) == sizeof(rung))
		atomic_fetch_add(&ring->of->engine->doorbells, (int)rung);
	channel_serve_awake(&ring->end);
}

static inline void *
engine_work(void *argument)
{
	struct fake_ring *ring = argument;
	struct fake_channel *channel = ring->of;
	struct fake_engine *engine = channel->engine;

	while (!atomic_load(&channel->stop)) {
		struct channel_request request;
		engine_hook *hook = atomic_load(&engine->ring_hook);
		int there = 0;

		if (!atomic_load(&engine->stalled))
			there = channel_serve_take(&ring->end, &request);
		else
			usleep(1000);
		FAKE_CHECK(there >= 0);
		if (there == 0) {
			engine_sleep(ring);
			continue;
		}
		channel_serve_taken(&ring->end);
		atomic_fetch_add(&engine->ring_requests, 1);
		if (!hook || !hook(channel, ring->number, &request))
			engine_serve(channel, ring->number, &request);
	}
	return NULL;
}

static inline void
engine_channel_start(struct fake_channel *channel)
{
	for (unsigned i = 0; i < ENGINE_RINGS; i++) {
		struct fake_ring *ring = &channel->ring[i];

		ring->of = channel;
		ring->number = i;
		ring->doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		ring->end = channel_end(&channel->channel, i);
		FAKE_CHECK(ring->doorbell >= 0);
		FAKE_CHECK(pthread_create(&ring->thread, NULL, engine_work, ring) == 0);
	}
}

static inline void
engine_channel_stop(struct fake_channel *channel)
{
	atomic_store(&channel->stop, true);
	for (unsigned i = 0; i < ENGINE_RINGS; i++) {
		pthread_join(channel->ring[i].thread, NULL);
		close(channel->ring[i].doorbell);
	}
	channel_unmap(&channel->channel);
	close(channel->fd);
	free(channel);
}

/* Ends the channels of one connection, or (NULL) of all. */
static inline void
engine_end_channels(struct fake_engine *engine, struct fake_peer *peer)
{
	for (;;) {
		struct fake_channel *channel = NULL;

		pthread_mutex_lock(&engine->mutex);
		for (unsigned i = 0; i < engine->channels && !channel; i++) {
			if (peer && engine->channel[i]->peer != peer)
				continue;
			channel = engine->channel[i];
			engine->channel[i] = engine->channel[--engine->channels];
		}
		pthread_mutex_unlock(&engine->mutex);
		if (!channel)
			return;
		engine_channel_stop(channel);
	}
}

static inline void
engine_peer_ended(struct fake_peer *peer)
{
	engine_end_channels(engine_of(peer), peer);
}

/* ---- the socket ---- */

/* Sends a response with descriptors on its first byte, as the service does. */
static inline void
engine_send_fds(struct fake_peer *peer, const Zcache__V1__Response *response, const int *fds,
		unsigned count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(253 * sizeof(int))];
	} control;
	size_t length;
	uint8_t *frame = fake_pack(response, &length);
	struct iovec part = {frame, length};
	struct msghdr message = {
		.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *header;

	memset(&control, 0, sizeof(control));
	header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	if (sendmsg(peer->fd, &message, MSG_NOSIGNAL) != (ssize_t)length)
		fake_hang_up(peer);
	free(frame);
}

static inline bool
engine_open_pool(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__PoolInfo info = ZCACHE__V1__POOL_INFO__INIT;
	struct fake_engine *engine = engine_of(peer);

	pthread_mutex_lock(&engine->mutex);
	info.handle = peer->handle;
	info.pool_id = pool_id(engine->pool);
	info.page_size = pool_config(engine->pool)->page_size;
	info.hash_seed = pool_view(engine->pool)->hash_seed;
	pthread_mutex_unlock(&engine->mutex);
	info.name = "default";
	info.kind = ZCACHE__V1__POOL_KIND__POOL_KIND_STORE;
	info.codec = "lz4";
	response.id = request->id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_POOL;
	response.pool = &info;
	fake_respond(peer, &response);
	return true;
}

static inline bool
engine_map_pool(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__PoolMapped mapped = ZCACHE__V1__POOL_MAPPED__INIT;
	struct fake_engine *engine = engine_of(peer);
	int fd[POOL_FILES];

	if (atomic_load(&engine->no_map))
		return false; /* -EOPNOTSUPP */
	FAKE_CHECK(request->pool_map->pool == peer->handle);
	pthread_mutex_lock(&engine->mutex);
	FAKE_CHECK(pool_read_only(engine->pool, fd) == 0);
	mapped.pool_id = pool_id(engine->pool);
	pthread_mutex_unlock(&engine->mutex);
	response.id = request->id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_POOL_MAPPED;
	response.pool_mapped = &mapped;
	atomic_fetch_add(&engine->maps, 1);
	engine_send_fds(peer, &response, fd, POOL_FILES);
	return true;
}

static inline struct fake_channel *
engine_new_channel(struct fake_peer *peer, const Zcache__V1__ChannelOpen *ask)
{
	struct fake_engine *engine = engine_of(peer);
	struct fake_channel *channel = calloc(1, sizeof(*channel));
	struct channel_geometry geometry = {
		.rings = ENGINE_RINGS,
		.entries = ask->entries < 256 ? ask->entries : 256,
		.slots = ask->slots < engine->slots ? ask->slots : engine->slots,
		.slot_size = ask->slot_size,
	};

	channel->engine = engine;
	channel->peer = peer;
	channel->notify = ask->notify;
	FAKE_CHECK(channel_create(&geometry, &channel->channel, &channel->fd) == 0);
	engine_channel_start(channel);
	pthread_mutex_lock(&engine->mutex);
	FAKE_CHECK(engine->channels < ENGINE_CHANNELS);
	engine->channel[engine->channels++] = channel;
	pthread_mutex_unlock(&engine->mutex);
	return channel;
}

static inline bool
engine_open_channel(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__ChannelOpened opened = ZCACHE__V1__CHANNEL_OPENED__INIT;
	struct fake_engine *engine = engine_of(peer);
	struct fake_channel *channel;
	int fd[1 + ENGINE_RINGS];

	if (atomic_load(&engine->no_channel))
		return false;
	channel = engine_new_channel(peer, request->channel_open);
	fd[0] = channel->fd;
	for (unsigned i = 0; i < ENGINE_RINGS; i++)
		fd[1 + i] = channel->ring[i].doorbell;
	opened.rings = ENGINE_RINGS;
	opened.slots = channel->channel.geometry.slots;
	opened.entries = channel->channel.geometry.entries;
	response.id = request->id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_CHANNEL_OPENED;
	response.channel_opened = &opened;
	atomic_fetch_add(&engine->channels_opened, 1);
	engine_send_fds(peer, &response, fd, 1 + ENGINE_RINGS);
	return true;
}

static inline bool
engine_answer(struct fake_peer *peer, uint64_t id, unsigned operation, const Zcache__V1__Key *key,
	      void *value, size_t length, unsigned flags)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__Value got = ZCACHE__V1__VALUE__INIT;
	int result = engine_operate(engine_of(peer), operation,
				    &(struct page_key){key->object, key->index}, value,
				    (uint32_t)length, flags);

	response.id = id;
	response.status = result < 0 ? result : 0;
	if (operation == ZC_CHANNEL_GET && result > 0) {
		got.value.data = value;
		got.value.len = (size_t)result;
		response.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
		response.value = &got;
	}
	fake_respond(peer, &response);
	return true;
}

static inline bool
engine_get(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	char *value = malloc(ZC_PAGE_SIZE_MAX);

	FAKE_CHECK(request->get->pool == peer->handle);
	engine_answer(peer, request->id, ZC_CHANNEL_GET, request->get->key, value, ZC_PAGE_SIZE_MAX,
		      0);
	free(value);
	return true;
}

static inline bool
engine_request(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	fake_hook *hook = atomic_load(&engine_of(peer)->socket_hook);

	if (hook && hook(peer, request))
		return true;
	switch (request->op_case) {
	case ZCACHE__V1__REQUEST__OP_POOL_OPEN:
		return engine_open_pool(peer, request);
	case ZCACHE__V1__REQUEST__OP_POOL_MAP:
		return engine_map_pool(peer, request);
	case ZCACHE__V1__REQUEST__OP_CHANNEL_OPEN:
		return engine_open_channel(peer, request);
	case ZCACHE__V1__REQUEST__OP_PUT:
		FAKE_CHECK(request->put->pool == peer->handle);
		return engine_answer(peer, request->id, ZC_CHANNEL_PUT, request->put->key,
				     request->put->value.data, request->put->value.len,
				     request->put->keep_old ? POOL_KEEP_OLD : 0);
	case ZCACHE__V1__REQUEST__OP_GET:
		return engine_get(peer, request);
	case ZCACHE__V1__REQUEST__OP_DELETE:
		return engine_answer(peer, request->id, ZC_CHANNEL_DELETE, request->delete_->key,
				     NULL, 0, 0);
	case ZCACHE__V1__REQUEST__OP_EXISTS:
		return engine_answer(peer, request->id, ZC_CHANNEL_EXISTS, request->exists->key,
				     NULL, 0, 0);
	default:
		return false;
	}
}

/* ---- life and death ---- */

static inline struct fake_engine *
engine_start(uint32_t page_size, const char *codec)
{
	struct fake_engine *engine = calloc(1, sizeof(*engine));

	FAKE_CHECK(ceiling_create(0, &engine->ceiling) == 0);
	FAKE_CHECK(pool_context_create(0, &engine->context) == 0);
	pthread_mutex_init(&engine->mutex, NULL);
	engine->slots = ZC_CHANNEL_SLOTS_MAX;
	engine->pool = engine_new_pool(engine, page_size, codec);
	engine->fake = fake_start(NULL);
	engine->fake->context = engine;
	atomic_store(&engine->fake->ended, engine_peer_ended);
	atomic_store(&engine->fake->hook, engine_request);
	return engine;
}

/*
 * The engine dies without a word and another one comes: with the same pool (adopted), or a new one; the old one's
 * header stays as it is.
 */
static inline void
engine_die(struct fake_engine *engine)
{
	fake_stop(engine->fake);
}

static inline void
engine_return(struct fake_engine *engine, bool new_pool)
{
	if (new_pool) {
		const struct pool_config *config = pool_config(engine->pool);
		char codec[16];

		FAKE_CHECK(engine->formers < ENGINE_POOLS);
		codec_config_format(&config->codec, codec);
		engine->former[engine->formers++] = engine->pool;
		engine->pool = engine_new_pool(engine, config->page_size, codec);
	}
	fake_listen(engine->fake);
}

static inline void
engine_stop(struct fake_engine *engine)
{
	atomic_store(&engine->stalled, false);
	fake_free(engine->fake);
	engine_end_channels(engine, NULL);
	pool_destroy(&engine->pool);
	while (engine->formers > 0)
		pool_destroy(&engine->former[--engine->formers]);
	pool_context_destroy(&engine->context);
	ceiling_destroy(&engine->ceiling);
	pthread_mutex_destroy(&engine->mutex);
	free(engine);
}

#endif
