/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A zcached of a few lines for tests of the library: it keeps pages in a table and can be told to
 * answer wrongly.
 *
 * Included by the test_zclient*.c programs. It listens on a socket in a folder of its own, with one
 * thread for accepting and one for each connection. A test's hook sees each request first and may
 * answer it in any way, or not; what it leaves alone is answered as a service should. All functions
 * abort with a line on what they do not expect: the threads here are not cmocka's.
 */
#ifndef ZCACHED_TESTS_FAKE_SERVICE_H
#define ZCACHED_TESTS_FAKE_SERVICE_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "frame.h"
#include "zcache.pb-c.h"

#define FAKE_CONNECTIONS 256
#define FAKE_PAGES	 512
#define FAKE_PAGE_SIZE	 65536u

#define FAKE_CHECK(condition)                                                                 \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, \
				#condition, errno);                                           \
			abort();                                                              \
		}                                                                             \
	} while (0)

struct fake_page {
	Zcache__V1__Key key;
	uint8_t *value; /* NULL: none */
	size_t length;
};

struct fake_peer;

/* Returns true when it has dealt with the request. */
typedef bool fake_hook(struct fake_peer *peer, const Zcache__V1__Request *request);

/* Told when a connection has ended, by its thread. */
typedef void fake_ended(struct fake_peer *peer);

struct fake_service {
	char folder[64];
	char path[96];
	int listener;
	pthread_t acceptor;
	fake_hook *_Atomic hook;
	fake_ended *_Atomic ended;
	void *context; /* the hook's */
	uint32_t page_size;
	atomic_int connections; /* accepted so far */
	atomic_int requests;	/* read so far, with Hello and PoolOpen */
	atomic_int puts, gets, opens;
	pthread_mutex_t mutex; /* guards what follows */
	int peers;
	struct fake_peer *peer[FAKE_CONNECTIONS];
	struct fake_page page[FAKE_PAGES];
};

struct fake_peer {
	struct fake_service *fake;
	pthread_t thread;
	int fd;
	int number;	 /* of the connection, from 1 */
	uint32_t handle; /* of the pool; another on each connection */
	bool hung_up;
	uint8_t in[ZC_FRAME_HEADER + ZC_FRAME_MAX];
	size_t have;
};

/* ---- bytes ---- */

static inline void
fake_hang_up(struct fake_peer *peer)
{
	peer->hung_up = true;
}

static inline void
fake_send_bytes(struct fake_peer *peer, const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	while (length > 0) {
		ssize_t sent = send(peer->fd, at, length, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return fake_hang_up(peer);
		at += sent;
		length -= (size_t)sent;
	}
}

/* The frame of a response, to be freed. */
static inline uint8_t *
fake_pack(const Zcache__V1__Response *response, size_t *length)
{
	size_t room = ZC_FRAME_HEADER + ZC_REPLY_MAX;
	uint8_t *frame = malloc(room);
	int64_t packed = frame_pack(&response->base, frame, room, ZC_REPLY_MAX);

	FAKE_CHECK(packed > 0);
	*length = (size_t)packed;
	return frame;
}

static inline void
fake_respond(struct fake_peer *peer, const Zcache__V1__Response *response)
{
	size_t length;
	uint8_t *frame = fake_pack(response, &length);

	fake_send_bytes(peer, frame, length);
	free(frame);
}

static inline void
fake_respond_status(struct fake_peer *peer, uint64_t id, int status, const char *text)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;

	response.id = id;
	response.status = status;
	response.message = (char *)text;
	fake_respond(peer, &response);
}

/* ---- a service as it should be ---- */

static inline struct fake_page *
fake_find(struct fake_service *fake, const Zcache__V1__Key *key)
{
	struct fake_page *unused = NULL;

	FAKE_CHECK(key);
	for (int i = 0; i < FAKE_PAGES; i++) {
		struct fake_page *page = &fake->page[i];

		if (page->value && page->key.object == key->object && page->key.index == key->index)
			return page;
		if (!page->value && !unused)
			unused = page;
	}
	FAKE_CHECK(unused);
	unused->key.object = key->object;
	unused->key.index = key->index;
	return unused;
}

static inline void
fake_drop(struct fake_page *page)
{
	free(page->value);
	page->value = NULL;
}

static inline int
fake_put(struct fake_service *fake, const Zcache__V1__Put *put)
{
	struct fake_page *page = fake_find(fake, put->key);

	FAKE_CHECK(put->value.len > 0);
	fake_drop(page);
	page->value = malloc(put->value.len);
	page->length = put->value.len;
	memcpy(page->value, put->value.data, page->length);
	return 0;
}

static inline uint64_t
fake_delete_all(struct fake_service *fake, const uint64_t *object)
{
	uint64_t count = 0;

	for (int i = 0; i < FAKE_PAGES; i++) {
		struct fake_page *page = &fake->page[i];

		if (!page->value || (object && page->key.object != *object))
			continue;
		fake_drop(page);
		count++;
	}
	return count;
}

/* One answer and everything it may point at. */
struct fake_answer {
	Zcache__V1__Response response;
	Zcache__V1__HelloReply hello;
	Zcache__V1__PoolInfo pool;
	Zcache__V1__Value value;
	Zcache__V1__Deleted deleted;
	Zcache__V1__CompactReply compact;
};

static inline void
fake_answer_hello(struct fake_answer *answer)
{
	answer->hello.version = ZC_PROTOCOL_VERSION;
	answer->hello.max_frame = ZC_FRAME_MAX;
	answer->hello.max_in_flight = 32;
	answer->response.result_case = ZCACHE__V1__RESPONSE__RESULT_HELLO;
	answer->response.hello = &answer->hello;
}

static inline void
fake_answer_pool(struct fake_peer *peer, struct fake_answer *answer, char *name)
{
	answer->pool.handle = peer->handle;
	answer->pool.pool_id = 77;
	answer->pool.name = name;
	answer->pool.kind = ZCACHE__V1__POOL_KIND__POOL_KIND_STORE;
	answer->pool.page_size = peer->fake->page_size;
	answer->pool.limit = 1 << 20;
	answer->pool.codec = "lz4";
	answer->response.result_case = ZCACHE__V1__RESPONSE__RESULT_POOL;
	answer->response.pool = &answer->pool;
}

static inline void
fake_answer_deleted(struct fake_answer *answer, uint64_t count)
{
	answer->deleted.pages = count;
	answer->response.result_case = ZCACHE__V1__RESPONSE__RESULT_DELETED;
	answer->response.deleted = &answer->deleted;
}

static inline void
fake_answer_get(struct fake_peer *peer, struct fake_answer *answer, const Zcache__V1__Get *get)
{
	struct fake_page *page = fake_find(peer->fake, get->key);

	FAKE_CHECK(get->pool == peer->handle);
	if (!page->value) {
		answer->response.status = -ENOENT;
		answer->response.message = "no such page";
		return;
	}
	answer->value.value.data = page->value;
	answer->value.value.len = page->length;
	answer->response.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
	answer->response.value = &answer->value;
}

static inline int
fake_status_of(struct fake_peer *peer, uint32_t handle, const Zcache__V1__Key *key)
{
	FAKE_CHECK(handle == peer->handle);
	return fake_find(peer->fake, key)->value ? 0 : -ENOENT;
}

static inline void
fake_answer_delete(struct fake_peer *peer, struct fake_answer *answer,
		   const Zcache__V1__Delete *del)
{
	answer->response.status = fake_status_of(peer, del->pool, del->key);
	fake_drop(fake_find(peer->fake, del->key));
}

/* Fills in an answer; its bytes live as long as the mutex is held. */
static inline void
fake_fill(struct fake_peer *peer, const Zcache__V1__Request *request, struct fake_answer *answer)
{
	struct fake_service *fake = peer->fake;

	zcache__v1__response__init(&answer->response);
	zcache__v1__hello_reply__init(&answer->hello);
	zcache__v1__pool_info__init(&answer->pool);
	zcache__v1__value__init(&answer->value);
	zcache__v1__deleted__init(&answer->deleted);
	zcache__v1__compact_reply__init(&answer->compact);
	answer->response.id = request->id;
	switch (request->op_case) {
	case ZCACHE__V1__REQUEST__OP_HELLO:
		return fake_answer_hello(answer);
	case ZCACHE__V1__REQUEST__OP_PING:
	case ZCACHE__V1__REQUEST__OP_POOL_DESTROY:
		return;
	case ZCACHE__V1__REQUEST__OP_POOL_OPEN:
		return fake_answer_pool(peer, answer, request->pool_open->name);
	case ZCACHE__V1__REQUEST__OP_POOL_CREATE:
		return fake_answer_pool(peer, answer, request->pool_create->name);
	case ZCACHE__V1__REQUEST__OP_PUT:
		FAKE_CHECK(request->put->pool == peer->handle);
		answer->response.status = fake_put(fake, request->put);
		return;
	case ZCACHE__V1__REQUEST__OP_GET:
		return fake_answer_get(peer, answer, request->get);
	case ZCACHE__V1__REQUEST__OP_EXISTS:
		answer->response.status =
			fake_status_of(peer, request->exists->pool, request->exists->key);
		return;
	case ZCACHE__V1__REQUEST__OP_DELETE:
		return fake_answer_delete(peer, answer, request->delete_);
	case ZCACHE__V1__REQUEST__OP_DELETE_OBJECT:
		return fake_answer_deleted(answer,
					   fake_delete_all(fake, &request->delete_object->object));
	case ZCACHE__V1__REQUEST__OP_FLUSH:
		return fake_answer_deleted(answer, fake_delete_all(fake, NULL));
	case ZCACHE__V1__REQUEST__OP_COMPACT_START:
	case ZCACHE__V1__REQUEST__OP_COMPACT_STATUS:
		answer->response.result_case = ZCACHE__V1__RESPONSE__RESULT_COMPACT;
		answer->response.compact = &answer->compact;
		return;
	default:
		answer->response.status = -EOPNOTSUPP;
	}
}

/* The frame of the right answer, to be freed. */
static inline uint8_t *
fake_right_answer(struct fake_peer *peer, const Zcache__V1__Request *request, size_t *length)
{
	struct fake_answer answer;
	uint8_t *frame;

	pthread_mutex_lock(&peer->fake->mutex);
	fake_fill(peer, request, &answer);
	frame = fake_pack(&answer.response, length);
	pthread_mutex_unlock(&peer->fake->mutex);
	return frame;
}

static inline void
fake_answer_rightly(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	size_t length;
	uint8_t *frame = fake_right_answer(peer, request, &length);

	fake_send_bytes(peer, frame, length);
	free(frame);
}

/* ---- connections ---- */

/* The next request, to be freed; NULL at the end. Anything but a good frame is a fault of the
 * library. */
static inline Zcache__V1__Request *
fake_receive(struct fake_peer *peer)
{
	Zcache__V1__Request *request;
	uint32_t length;
	int whole;

	while (!(whole = frame_parse(peer->in, peer->have, ZC_FRAME_MAX, &length))) {
		ssize_t got =
			recv(peer->fd, peer->in + peer->have, sizeof(peer->in) - peer->have, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return NULL;
		peer->have += (size_t)got;
	}
	FAKE_CHECK(whole == 1);
	request = zcache__v1__request__unpack(NULL, length, peer->in + ZC_FRAME_HEADER);
	FAKE_CHECK(request && request->id != 0);
	peer->have -= ZC_FRAME_HEADER + length;
	memmove(peer->in, peer->in + ZC_FRAME_HEADER + length, peer->have);
	atomic_fetch_add(&peer->fake->requests, 1);
	if (request->op_case == ZCACHE__V1__REQUEST__OP_PUT)
		atomic_fetch_add(&peer->fake->puts, 1);
	if (request->op_case == ZCACHE__V1__REQUEST__OP_GET)
		atomic_fetch_add(&peer->fake->gets, 1);
	if (request->op_case == ZCACHE__V1__REQUEST__OP_POOL_OPEN)
		atomic_fetch_add(&peer->fake->opens, 1);
	return request;
}

static inline void *
fake_serve(void *argument)
{
	struct fake_peer *peer = argument;

	while (!peer->hung_up) {
		Zcache__V1__Request *request = fake_receive(peer);
		fake_hook *hook = atomic_load(&peer->fake->hook);

		if (!request)
			break;
		if (!hook || !hook(peer, request))
			fake_answer_rightly(peer, request);
		zcache__v1__request__free_unpacked(request, NULL);
	}
	shutdown(peer->fd, SHUT_RDWR);
	if (atomic_load(&peer->fake->ended))
		atomic_load(&peer->fake->ended)(peer);
	return NULL;
}

static inline void *
fake_accept(void *argument)
{
	struct fake_service *fake = argument;
	int fd;

	while ((fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct fake_peer *peer = calloc(1, sizeof(*peer));

		peer->fake = fake;
		peer->fd = fd;
		pthread_mutex_lock(&fake->mutex);
		FAKE_CHECK(fake->peers < FAKE_CONNECTIONS);
		fake->peer[fake->peers++] = peer;
		peer->number = 1 + atomic_fetch_add(&fake->connections, 1);
		peer->handle = 1000 + (uint32_t)peer->number;
		FAKE_CHECK(pthread_create(&peer->thread, NULL, fake_serve, peer) == 0);
		pthread_mutex_unlock(&fake->mutex);
	}
	return NULL;
}

/* Listens, on the path it had before if it was stopped. */
static inline void
fake_listen(struct fake_service *fake)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	unlink(fake->path);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->path);
	fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	FAKE_CHECK(fake->listener >= 0);
	FAKE_CHECK(bind(fake->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
	FAKE_CHECK(listen(fake->listener, 16) == 0);
	FAKE_CHECK(pthread_create(&fake->acceptor, NULL, fake_accept, fake) == 0);
}

/* Ends every connection and stops listening; the pages stay. */
static inline void
fake_stop(struct fake_service *fake)
{
	shutdown(fake->listener, SHUT_RDWR);
	pthread_join(fake->acceptor, NULL);
	close(fake->listener);
	unlink(fake->path);
	for (int i = 0; i < fake->peers; i++) {
		shutdown(fake->peer[i]->fd, SHUT_RDWR);
		pthread_join(fake->peer[i]->thread, NULL);
		close(fake->peer[i]->fd);
		free(fake->peer[i]);
	}
	fake->peers = 0;
}

static inline struct fake_service *
fake_start(fake_hook *hook)
{
	struct fake_service *fake = calloc(1, sizeof(*fake));
	const char *folder = getenv("TMPDIR");

	snprintf(fake->folder, sizeof(fake->folder), "%s/zclient-test-XXXXXX",
		 folder && strlen(folder) < 40 ? folder : "/tmp");
	FAKE_CHECK(mkdtemp(fake->folder));
	snprintf(fake->path, sizeof(fake->path), "%s/z.sock", fake->folder);
	pthread_mutex_init(&fake->mutex, NULL);
	fake->page_size = FAKE_PAGE_SIZE;
	atomic_store(&fake->hook, hook);
	fake_listen(fake);
	return fake;
}

static inline void
fake_free(struct fake_service *fake)
{
	fake_stop(fake);
	fake_delete_all(fake, NULL);
	rmdir(fake->folder);
	pthread_mutex_destroy(&fake->mutex);
	free(fake);
}

#endif
