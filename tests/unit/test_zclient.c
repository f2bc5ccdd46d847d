/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of libclient/ against a service in this process that answers well, and wrongly in every way:
 * cut, joined, misaddressed, of another kind, too long, garbage.
 *
 * Run alone by meson. Deadlines, reconnects, threads and forks are in test_zclient_link.c; the real
 * service is in test_library.c.
 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <zclient.h>

#include "fake_service.h"

#define SEED 0x5eed0002u

struct fixture {
	struct fake_service *fake;
	struct zc *zc;
	struct zc_pool *pool;
};

static void
open_all(struct fixture *f, fake_hook *hook)
{
	f->fake = fake_start(hook);
	assert_int_equal(zc_open(f->fake->path, 0, &f->zc), 0);
	assert_int_equal(zc_pool_open(f->zc, NULL, 0, &f->pool), 0);
}

static void
close_all(struct fixture *f)
{
	zc_pool_close(&f->pool);
	zc_close(&f->zc);
	assert_null(f->pool);
	assert_null(f->zc);
	fake_free(f->fake);
}

static zc_key
key_of(uint64_t index)
{
	return (zc_key){.object = 7, .index = index};
}

static uint32_t
next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* ---- calls that work ---- */

static void
test_put_get_del_exists(void **state)
{
	struct fixture f;
	char buffer[64];

	(void)state;
	open_all(&f, NULL);
	assert_int_equal(zc_ping(f.zc), 0);
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -ENOENT);
	assert_string_equal(zc_error_text(f.zc), "no such page");
	assert_int_equal(zc_exists(f.pool, key_of(1)), 0);
	assert_int_equal(zc_del(f.pool, key_of(1)), -ENOENT);
	assert_int_equal(zc_put(f.pool, key_of(1), "hello", 5, 0), 0);
	assert_int_equal(zc_exists(f.pool, key_of(1)), 1);
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 5);
	assert_memory_equal(buffer, "hello", 5);
	assert_int_equal(zc_put(f.pool, key_of(2), "x", 1, ZC_KEEP_OLD), 0);
	assert_int_equal(zc_put(f.pool, (zc_key){0, 0}, "zero", 4, 0), 0);
	assert_int_equal(zc_get(f.pool, (zc_key){0, 0}, buffer, sizeof(buffer)), 4);
	assert_int_equal(zc_del(f.pool, key_of(1)), 0);
	assert_int_equal(zc_exists(f.pool, key_of(1)), 0);
	assert_int_equal(zc_del_object(f.pool, 7), 1);
	assert_int_equal(zc_flush(f.pool), 1);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static void
test_pages_of_every_size(void **state)
{
	static const size_t lengths[] = {1, 2, 127, 128, 4095, 4096, 16384, 65535, 65536};
	uint8_t *page = malloc(FAKE_PAGE_SIZE), *back = malloc(FAKE_PAGE_SIZE);
	uint32_t random = SEED;
	struct fixture f;

	(void)state;
	open_all(&f, NULL);
	for (size_t i = 0; i < FAKE_PAGE_SIZE; i++)
		page[i] = (uint8_t)next_random(&random);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		zc_key key = {UINT64_MAX - i, UINT64_MAX};

		assert_int_equal(zc_put(f.pool, key, page, lengths[i], 0), 0);
		memset(back, 0xee, FAKE_PAGE_SIZE);
		assert_int_equal(zc_get(f.pool, key, back, lengths[i]), lengths[i]);
		assert_memory_equal(back, page, lengths[i]);
	}
	close_all(&f);
	free(page);
	free(back);
}

static void
test_what_makes_no_sense_is_not_asked(void **state)
{
	struct zc_stats stats = {.struct_size = 0};
	struct zc_compaction compaction = {.struct_size = 1 << 20};
	struct zc_pool_info info = {.struct_size = 4};
	struct zc_pool *pool;
	struct fixture f;
	char name[65], buffer[8];
	int before;

	(void)state;
	open_all(&f, NULL);
	f.fake->page_size = 4096;
	zc_pool_close(&f.pool);
	assert_int_equal(zc_pool_open(f.zc, "small", 0, &f.pool), 0);
	before = atomic_load(&f.fake->requests);
	assert_int_equal(zc_put(f.pool, key_of(1), buffer, 0, 0), -EINVAL);
	assert_int_equal(zc_put(f.pool, key_of(1), NULL, 1, 0), -EINVAL);
	assert_int_equal(zc_put(f.pool, key_of(1), buffer, 1, 2), -EINVAL);
	assert_int_equal(zc_put(f.pool, key_of(1), buffer, 4097, 0), -EMSGSIZE);
	assert_string_equal(zc_error_text(f.zc), "longer than a page of the pool");
	assert_int_equal(zc_put(f.pool, key_of(1), buffer, SIZE_MAX, 0), -EMSGSIZE);
	assert_int_equal(zc_put(NULL, key_of(1), buffer, 1, 0), -EINVAL);
	assert_int_equal(zc_get(f.pool, key_of(1), NULL, 1), -EINVAL);
	assert_int_equal(zc_get(NULL, key_of(1), buffer, 1), -EINVAL);
	assert_int_equal(zc_exists(NULL, key_of(1)), -EINVAL);
	assert_int_equal(zc_del(NULL, key_of(1)), -EINVAL);
	assert_int_equal(zc_flush(NULL), -EINVAL);
	assert_int_equal(zc_ping(NULL), -EINVAL);
	assert_int_equal(zc_stats(f.pool, &stats), -EINVAL);
	assert_int_equal(zc_stats(f.pool, NULL), -EINVAL);
	assert_int_equal(zc_compact_status(f.pool, &compaction), -EINVAL);
	assert_int_equal(zc_pool_info(f.pool, &info), -EINVAL);
	assert_int_equal(zc_pool_list(f.zc, &info, 1), -EINVAL);
	assert_int_equal(zc_pool_list(f.zc, NULL, 1), -EINVAL);
	memset(name, 'n', 64);
	name[64] = '\0';
	assert_int_equal(zc_pool_open(f.zc, name, 0, &pool), -EINVAL);
	assert_null(pool);
	assert_int_equal(zc_pool_open(f.zc, "", 0, &pool), -EINVAL);
	assert_int_equal(zc_pool_open(f.zc, "x", 1, &pool), -EINVAL);
	assert_int_equal(zc_pool_destroy(f.zc, NULL), -EINVAL);
	assert_int_equal(zc_pool_destroy(f.zc, name), -EINVAL);
	assert_int_equal(atomic_load(&f.fake->requests), before);
	close_all(&f);
}

static void
test_null_is_closed(void **state)
{
	struct zc *zc = NULL;
	struct zc_pool *pool = NULL;

	(void)state;
	zc_close(NULL);
	zc_close(&zc);
	zc_pool_close(NULL);
	zc_pool_close(&pool);
	zc_set_timeout(NULL, 1);
	assert_string_equal(zc_error_text(NULL), "");
	assert_int_equal(zc_version(), ZC_VERSION_MAJOR << 16 | ZC_VERSION_MINOR);
}

static void
test_default_socket(void **state)
{
	(void)state;
	unsetenv("ZCACHED_SOCKET");
	assert_string_equal(zc_default_socket(), "/run/zcached/zcached.sock");
	setenv("ZCACHED_SOCKET", "", 1);
	assert_string_equal(zc_default_socket(), "/run/zcached/zcached.sock");
	setenv("ZCACHED_SOCKET", "/elsewhere", 1);
	assert_string_equal(zc_default_socket(), "/elsewhere");
	unsetenv("ZCACHED_SOCKET");
}

/* ---- opening ---- */

static void
assert_open_fails(const char *path, int error)
{
	struct zc *zc = (struct zc *)&error;

	assert_int_equal(zc_open(path, 0, &zc), error);
	assert_null(zc);
}

static void
test_open_without_a_service(void **state)
{
	struct fake_service *fake = fake_start(NULL);
	char path[sizeof(fake->path) + 8], long_path[200];
	FILE *file;

	(void)state;
	snprintf(path, sizeof(path), "%s.file", fake->path);
	memset(long_path, 'p', sizeof(long_path) - 1);
	long_path[sizeof(long_path) - 1] = '\0';
	assert_open_fails(path, -ENOENT);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
	assert_open_fails(path, -ECONNREFUSED);
	unlink(path);
	assert_open_fails(long_path, -EINVAL);
	assert_open_fails("", -EINVAL);
	assert_int_equal(zc_open(fake->path, 2, &(struct zc *){NULL}), -EINVAL);
	assert_int_equal(zc_open(fake->path, 0, NULL), -EINVAL);
	fake_free(fake);
}

/* What the next Hello is answered with. */
static struct {
	uint32_t version;
	uint32_t max_frame;
	int status;
	uint64_t id_added;
	int as_ping;
} hello_script;

static bool
scripted_hello(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__HelloReply hello = ZCACHE__V1__HELLO_REPLY__INIT;

	if (request->op_case != ZCACHE__V1__REQUEST__OP_HELLO)
		return false;
	FAKE_CHECK(request->hello->version == ZC_PROTOCOL_VERSION);
	FAKE_CHECK(strlen(request->hello->client) > 0 && strlen(request->hello->client) <= 64);
	hello.version = hello_script.version;
	hello.max_frame = hello_script.max_frame;
	response.id = request->id + hello_script.id_added;
	response.status = hello_script.status;
	if (!hello_script.as_ping) {
		response.result_case = ZCACHE__V1__RESPONSE__RESULT_HELLO;
		response.hello = &hello;
	}
	fake_respond(peer, &response);
	return true;
}

static void
test_hello_refused(void **state)
{
	struct fake_service *fake = fake_start(scripted_hello);

	(void)state;
	hello_script.version = 2;
	assert_open_fails(fake->path, -EPROTONOSUPPORT);
	hello_script.version = 0;
	assert_open_fails(fake->path, -EPROTONOSUPPORT);
	hello_script.version = 1;
	hello_script.status = -EPROTONOSUPPORT;
	assert_open_fails(fake->path, -EPROTONOSUPPORT);
	hello_script.status = -EUSERS;
	assert_open_fails(fake->path, -EUSERS);
	hello_script.status = 5;
	assert_open_fails(fake->path, -EPROTO);
	hello_script.status = 0;
	hello_script.as_ping = 1;
	assert_open_fails(fake->path, -EPROTO);
	hello_script.as_ping = 0;
	hello_script.id_added = 1;
	assert_open_fails(fake->path, -EPROTO);
	hello_script.id_added = 0;
	fake_free(fake);
}

static void
test_service_with_a_small_frame(void **state)
{
	uint8_t *page = calloc(1, FAKE_PAGE_SIZE);
	struct fixture f;

	(void)state;
	hello_script.version = 1;
	hello_script.max_frame = 5000;
	open_all(&f, scripted_hello);
	assert_int_equal(zc_put(f.pool, key_of(1), page, 4096, 0), 0);
	assert_int_equal(zc_put(f.pool, key_of(1), page, 5000, 0), -EMSGSIZE);
	assert_int_equal(zc_get(f.pool, key_of(1), page, 4096), 4096);
	close_all(&f);
	hello_script.max_frame = 0;
	free(page);
}

/* ---- replies that are cut and joined ---- */

static size_t split_at;

static bool
split_reply(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	size_t length;
	uint8_t *frame = fake_right_answer(peer, request, &length);
	size_t first = split_at < length ? split_at : length;

	fake_send_bytes(peer, frame, first);
	usleep(300);
	fake_send_bytes(peer, frame + first, length - first);
	free(frame);
	return true;
}

static void
test_a_reply_split_at_every_byte(void **state)
{
	struct fixture f;
	char buffer[64];

	(void)state;
	split_at = 1;
	open_all(&f, split_reply);
	assert_int_equal(zc_put(f.pool, key_of(1), "some bytes of a page", 20, 0), 0);
	for (split_at = 1; split_at < 40; split_at++) {
		memset(buffer, 0, sizeof(buffer));
		assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 20);
		assert_string_equal(buffer, "some bytes of a page");
	}
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static bool
bytewise_reply(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	size_t length;
	uint8_t *frame = fake_right_answer(peer, request, &length);

	for (size_t i = 0; i < length; i++)
		fake_send_bytes(peer, frame + i, 1);
	free(frame);
	return true;
}

static void
test_a_reply_of_single_bytes(void **state)
{
	uint8_t page[4096], back[4096];
	struct fixture f;

	(void)state;
	memset(page, 0x5a, sizeof(page));
	open_all(&f, bytewise_reply);
	assert_int_equal(zc_put(f.pool, key_of(1), page, sizeof(page), 0), 0);
	assert_int_equal(zc_get(f.pool, key_of(1), back, sizeof(back)), sizeof(back));
	assert_memory_equal(page, back, sizeof(page));
	close_all(&f);
}

/* Answers a get with an old answer, again and again, and then the right one: all in one piece. */
static bool
with_old_answers(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response old = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__Value value = ZCACHE__V1__VALUE__INIT;
	size_t right, length, used = 0;
	uint8_t *all, *frame;

	if (request->op_case != ZCACHE__V1__REQUEST__OP_GET)
		return false;
	value.value.data = (uint8_t *)"old";
	value.value.len = 3;
	old.id = request->id - 1;
	old.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
	old.value = &value;
	all = malloc(1 << 20);
	for (int i = 0; i < 1000; i++) {
		frame = fake_pack(&old, &length);
		memcpy(all + used, frame, length);
		used += length;
		free(frame);
	}
	frame = fake_right_answer(peer, request, &right);
	memcpy(all + used, frame, right);
	fake_send_bytes(peer, all, used + right);
	free(frame);
	free(all);
	return true;
}

static void
test_answers_to_what_is_over_are_dropped(void **state)
{
	struct fixture f;
	char buffer[8] = "";

	(void)state;
	open_all(&f, with_old_answers);
	assert_int_equal(zc_put(f.pool, key_of(1), "new", 3, 0), 0);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 3);
		assert_string_equal(buffer, "new");
	}
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

/* ---- wrong answers ---- */

/* Gets of index 0 are answered by *wrong_response; all else rightly. */
static Zcache__V1__Response wrong_response;
static int64_t wrong_id_added;
static bool wrong_id_is_0;

static bool
wrong_get(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case != ZCACHE__V1__REQUEST__OP_GET || request->get->key->index != 0)
		return false;
	wrong_response.id = wrong_id_is_0 ? 0 : request->id + (uint64_t)wrong_id_added;
	fake_respond(peer, &wrong_response);
	return true;
}

static void
reset_wrong_response(void)
{
	zcache__v1__response__init(&wrong_response);
	wrong_id_added = 0;
	wrong_id_is_0 = false;
}

/* The wrong answer gives `error`, changes nothing in the buffer, and the next call is good again. */
static void
assert_wrong_get(struct fixture *f, int error)
{
	char buffer[8] = "before";

	assert_int_equal(zc_get(f->pool, key_of(0), buffer, sizeof(buffer)), error);
	assert_string_equal(buffer, "before");
	assert_int_equal(zc_put(f->pool, key_of(1), "good", 5, 0), 0);
	assert_int_equal(zc_get(f->pool, key_of(1), buffer, sizeof(buffer)), 5);
	assert_string_equal(buffer, "good");
}

static void
test_an_answer_to_nobody(void **state)
{
	struct fixture f;
	Zcache__V1__Value value = ZCACHE__V1__VALUE__INIT;

	(void)state;
	reset_wrong_response();
	open_all(&f, wrong_get);
	value.value.data = (uint8_t *)"wrong";
	value.value.len = 5;
	wrong_response.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
	wrong_response.value = &value;
	wrong_id_added = 1;
	assert_wrong_get(&f, -EPROTO);
	wrong_id_added = INT64_MAX;
	assert_wrong_get(&f, -EPROTO);
	wrong_id_is_0 = true;
	assert_wrong_get(&f, -EPROTO);
	assert_int_equal(atomic_load(&f.fake->connections), 4);
	/* Not the error of this get, though it looks like one. */
	wrong_response.result_case = ZCACHE__V1__RESPONSE__RESULT__NOT_SET;
	wrong_response.status = -EBADMSG;
	assert_wrong_get(&f, -EPROTO);
	close_all(&f);
}

static void
test_a_status_that_cannot_be(void **state)
{
	static const int statuses[] = {1, 4095, INT_MAX, -4096, INT_MIN};
	struct fixture f;

	(void)state;
	reset_wrong_response();
	open_all(&f, wrong_get);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		wrong_response.status = statuses[i];
		assert_wrong_get(&f, -EPROTO);
	}
	wrong_response.status = -4095;
	assert_wrong_get(&f, -4095);
	wrong_response.status = -ECONNRESET; /* the service's word, not the connection's state */
	assert_wrong_get(&f, -ECONNRESET);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static void
test_values_that_cannot_be(void **state)
{
	Zcache__V1__Value value = ZCACHE__V1__VALUE__INIT;
	uint8_t *bytes = calloc(1, 1 << 20);
	struct fixture f;

	(void)state;
	reset_wrong_response();
	open_all(&f, wrong_get);
	wrong_response.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
	wrong_response.value = &value;
	assert_wrong_get(&f, -EPROTO);
	value.value.data = bytes;
	value.value.len = 9;
	assert_wrong_get(&f, -EMSGSIZE);
	value.value.len = (1 << 20) - 100; /* about as long as a reply may be */
	assert_wrong_get(&f, -EMSGSIZE);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
	free(bytes);
}

/* Every operation but Hello is answered by wrong_response, with its id. */
static bool
wrong_all(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case == ZCACHE__V1__REQUEST__OP_HELLO)
		return false;
	wrong_response.id = request->id;
	fake_respond(peer, &wrong_response);
	return true;
}

static void
assert_all_fail(struct fixture *f, int error, int get_error)
{
	struct zc_pool_info info = {.struct_size = sizeof(info), .name = "new"};
	struct zc_stats stats = {.struct_size = sizeof(stats)};
	struct zc_service_stats service = {.struct_size = sizeof(service)};
	struct zc_class class = {.struct_size = sizeof(class)};
	struct zc_compaction compaction = {.struct_size = sizeof(compaction)};
	struct zc_pool *pool;
	char buffer[8];

	assert_int_equal(zc_pool_open(f->zc, "other", 0, &pool), error);
	assert_int_equal(zc_pool_create(f->zc, &info), error);
	assert_int_equal(zc_pool_list(f->zc, &info, 1), error);
	assert_int_equal(zc_get(f->pool, key_of(1), buffer, sizeof(buffer)), get_error);
	assert_int_equal(zc_del_object(f->pool, 1), error);
	assert_int_equal(zc_flush(f->pool), error);
	assert_int_equal(zc_stats(f->pool, &stats), error);
	assert_int_equal(zc_service_stats(f->zc, &service), error);
	assert_int_equal(zc_classes(f->pool, &class, 1), error);
	assert_int_equal(zc_compact_start(f->pool, 0, &compaction), error);
	assert_int_equal(zc_compact_status(f->pool, &compaction), error);
}

static void
test_answers_of_another_kind(void **state)
{
	Zcache__V1__Value value = ZCACHE__V1__VALUE__INIT;
	struct fixture f;

	(void)state;
	reset_wrong_response();
	open_all(&f, NULL);
	atomic_store(&f.fake->hook, wrong_all);
	assert_all_fail(&f, -EPROTO, -EPROTO); /* no result at all */
	value.value.data = (uint8_t *)"value";
	value.value.len = 5;
	wrong_response.result_case = ZCACHE__V1__RESPONSE__RESULT_VALUE;
	wrong_response.value = &value;
	assert_all_fail(&f, -EPROTO, 5);
	assert_int_equal(zc_put(f.pool, key_of(1), "x", 1, 0), -EPROTO);
	assert_int_equal(zc_del(f.pool, key_of(1)), -EPROTO);
	assert_int_equal(zc_exists(f.pool, key_of(1)), -EPROTO);
	assert_int_equal(zc_ping(f.zc), -EPROTO);
	assert_int_equal(zc_pool_destroy(f.zc, "x"), -EPROTO);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static void
test_errors_come_through(void **state)
{
	static const int errors[] = {-ENOSPC,	-ENOMEM, -EXFULL, -EBADF,     -EACCES,
				     -EALREADY, -EPERM,	 -EAGAIN, -ETIMEDOUT, -EBADMSG};
	struct fixture f;

	(void)state;
	reset_wrong_response();
	open_all(&f, NULL);
	atomic_store(&f.fake->hook, wrong_all);
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		wrong_response.status = errors[i];
		wrong_response.message = "a reason";
		assert_all_fail(&f, errors[i], errors[i]);
		assert_string_equal(zc_error_text(f.zc), "a reason");
		assert_int_equal(zc_exists(f.pool, key_of(1)), errors[i]);
	}
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static void
test_a_long_text_is_cut(void **state)
{
	char *text = malloc(10001);
	struct fixture f;
	char buffer[8];

	(void)state;
	memset(text, 't', 10000);
	text[10000] = '\0';
	reset_wrong_response();
	wrong_response.status = -EIO;
	wrong_response.message = text;
	open_all(&f, wrong_get);
	assert_int_equal(zc_get(f.pool, key_of(0), buffer, sizeof(buffer)), -EIO);
	assert_true(strlen(zc_error_text(f.zc)) > 100);
	assert_memory_equal(zc_error_text(f.zc), text, strlen(zc_error_text(f.zc)));
	close_all(&f);
	free(text);
}

static void
test_a_text_belongs_to_its_connection(void **state)
{
	struct fixture f, other;
	char buffer[8];

	(void)state;
	open_all(&f, NULL);
	open_all(&other, NULL);
	assert_string_equal(zc_error_text(f.zc), "");
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -ENOENT);
	assert_string_equal(zc_error_text(f.zc), "no such page");
	assert_string_equal(zc_error_text(other.zc), "");
	close_all(&f);
	close_all(&other);
}

/* ---- bytes that are no answer ---- */

static const uint8_t *raw_bytes;
static size_t raw_length;

static bool
raw_get(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case != ZCACHE__V1__REQUEST__OP_GET || request->get->key->index != 0)
		return false;
	fake_send_bytes(peer, raw_bytes, raw_length);
	return true;
}

static void
test_frames_that_cannot_be(void **state)
{
	static const struct {
		uint8_t bytes[16];
		size_t length;
	} frames[] = {
		{{0, 0, 0, 0}, 4},			       /* of no bytes */
		{{1, 0, 16, 0}, 4},			       /* ZC_REPLY_MAX + 1 */
		{{255, 255, 255, 127}, 4},		       /* */
		{{0, 0, 0, 128}, 4},			       /* */
		{{255, 255, 255, 255}, 4},		       /* */
		{{3, 0, 0, 0, 255, 255, 255}, 7},	       /* no protobuf */
		{{4, 0, 0, 0, 0x3a, 0x7f, 1, 1}, 8},	       /* a field longer than the frame */
		{{2, 0, 0, 0, 0x0a, 0x05}, 6},		       /* cut */
		{{4, 0, 0, 0, 0x3a, 0x02, 0x0a, 0x05}, 8},     /* cut further inside */
		{{1, 0, 0, 0, 0}, 5},			       /* field 0 */
		{{'H', 'T', 'T', 'P', '/', '1', '.', '1'}, 8}, /* another protocol */
	};
	struct fixture f;

	(void)state;
	reset_wrong_response();
	open_all(&f, raw_get);
	for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
		raw_bytes = frames[i].bytes;
		raw_length = frames[i].length;
		assert_wrong_get(&f, -EPROTO);
		assert_int_equal(atomic_load(&f.fake->connections), i + 2);
	}
	close_all(&f);
}

/* A frame as long as may be, of nothing but tiny fields that become large structs. */
static void
test_a_reply_that_grows_when_decoded(void **state)
{
	/* stats { pool {} pool {} ... } */
	static const uint8_t stats[] = {0x00, 0x00, 0x10, 0x00, 0x4a, 0xfc, 0xff, 0x3f};
	static const uint8_t pool[] = {0x12, 0x00};
	uint8_t *bytes = malloc(ZC_FRAME_HEADER + ZC_REPLY_MAX);
	struct fixture f;

	(void)state;
	memcpy(bytes, stats, sizeof(stats));
	for (size_t i = sizeof(stats); i < ZC_FRAME_HEADER + ZC_REPLY_MAX; i += sizeof(pool))
		memcpy(bytes + i, pool, sizeof(pool));
	reset_wrong_response();
	open_all(&f, raw_get);
	raw_bytes = bytes;
	raw_length = ZC_FRAME_HEADER + ZC_REPLY_MAX;
	assert_wrong_get(&f, -EPROTO);
	assert_int_equal(atomic_load(&f.fake->connections), 2);
	close_all(&f);
	free(bytes);
}

static uint32_t mutation;

/* Flips some bits of the answers to gets of index 0. */
static bool
mutated_get(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	uint8_t *frame;
	size_t length;

	if (request->op_case != ZCACHE__V1__REQUEST__OP_GET || request->get->key->index != 0)
		return false;
	frame = fake_right_answer(peer, request, &length);
	for (uint32_t flips = 1 + next_random(&mutation) % 3; flips; flips--) {
		uint32_t random = next_random(&mutation);

		frame[random % length] ^= (uint8_t)(1 + (random >> 16) % 255);
	}
	fake_send_bytes(peer, frame, length);
	fake_hang_up(peer);
	free(frame);
	return true;
}

static void
test_damaged_replies(void **state)
{
	struct fixture f;
	char buffer[64];

	(void)state;
	mutation = SEED;
	open_all(&f, mutated_get);
	assert_int_equal(zc_put(f.pool, key_of(0), "twelve bytes", 12, 0), 0);
	zc_set_timeout(f.zc, 30);
	/* Whatever it says, it says so in time, stays inside the buffer (sanitizers look), and is
	 * well again. Each costs a connection or two. */
	for (int i = 0; i < 100; i++) {
		int result = zc_get(f.pool, key_of(0), buffer, sizeof(buffer));

		assert_true(result <= (int)sizeof(buffer));
		atomic_store(&f.fake->hook, NULL);
		zc_set_timeout(f.zc, 10000);
		assert_int_equal(zc_get(f.pool, key_of(0), buffer, sizeof(buffer)), 12);
		assert_memory_equal(buffer, "twelve bytes", 12);
		zc_set_timeout(f.zc, 30);
		atomic_store(&f.fake->hook, mutated_get);
	}
	close_all(&f);
}

/* ---- public structs ---- */

static bool
full_lists(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	enum {
		POOLS = 6000,
		CLASSES = 256
	};
	static uint64_t fullness[20];
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__PoolListReply pools = ZCACHE__V1__POOL_LIST_REPLY__INIT;
	Zcache__V1__PoolInfo pool = ZCACHE__V1__POOL_INFO__INIT, *pool_list[POOLS];
	Zcache__V1__ClassesReply classes = ZCACHE__V1__CLASSES_REPLY__INIT;
	Zcache__V1__SizeClass class = ZCACHE__V1__SIZE_CLASS__INIT, *class_list[CLASSES];

	response.id = request->id;
	pool.name = "a name that is longer than sixty-three bytes, which none may be, at all";
	pool.codec = "a codec whose name is too long";
	pool.kind = 3;
	pool.limit = UINT64_MAX;
	pool.page_size = 65536;
	pool.owner_uid = 12;
	pool.pool_id = 99;
	class.size = 48;
	class.objects_used = 5;
	class.n_fullness = 20;
	class.fullness = fullness;
	for (int i = 0; i < POOLS; i++)
		pool_list[i] = &pool;
	for (int i = 0; i < CLASSES; i++)
		class_list[i] = &class;
	for (uint64_t i = 0; i < 20; i++)
		fullness[i] = i + 100;
	if (request->op_case == ZCACHE__V1__REQUEST__OP_POOL_LIST) {
		pools.n_pool = POOLS;
		pools.pool = pool_list;
		response.result_case = ZCACHE__V1__RESPONSE__RESULT_POOL_LIST;
		response.pool_list = &pools;
	} else if (request->op_case == ZCACHE__V1__REQUEST__OP_CLASSES) {
		classes.n_size_class = CLASSES;
		classes.size_class = class_list;
		response.result_case = ZCACHE__V1__RESPONSE__RESULT_CLASSES;
		response.classes = &classes;
	} else {
		return false;
	}
	fake_respond(peer, &response);
	return true;
}

static void
test_lists_longer_than_their_room(void **state)
{
	struct zc_pool_info pools[3];
	struct zc_class classes[2];
	struct fixture f;

	(void)state;
	open_all(&f, full_lists);
	memset(pools, 0xee, sizeof(pools));
	memset(classes, 0xee, sizeof(classes));
	pools[0].struct_size = sizeof(pools[0]);
	classes[0].struct_size = sizeof(classes[0]);
	assert_int_equal(zc_pool_list(f.zc, pools, 2), 6000);
	assert_int_equal(pools[1].struct_size, sizeof(pools[0]));
	assert_int_equal(strlen(pools[1].name), 63);
	assert_int_equal(strlen(pools[1].codec), 15);
	assert_int_equal(pools[1].kind, ZC_DURABLE);
	assert_int_equal(pools[1].limit, UINT64_MAX);
	assert_int_equal(pools[1].reserved[3], 0);
	assert_int_equal(pools[2].kind, 0xeeeeeeee);
	assert_int_equal(zc_pool_list(f.zc, NULL, 0), 6000);
	assert_int_equal(zc_classes(f.pool, classes, 1), 256);
	assert_int_equal(classes[0].size, 48);
	assert_int_equal(classes[0].fullness[10], 110);
	assert_int_equal(classes[0].reserved[0], 0);
	assert_int_equal(classes[1].size, 0xeeeeeeee);
	assert_int_equal(zc_classes(f.pool, NULL, 0), 256);
	close_all(&f);
}

static void
test_structs_of_another_size(void **state)
{
	struct {
		struct zc_pool_info info;
		uint64_t later[2];
	} larger;
	struct {
		uint32_t struct_size, kind;
		uint64_t pool_id;
		uint64_t beyond;
	} smaller = {.struct_size = 16, .beyond = 0x1234};
	struct fixture f;

	(void)state;
	open_all(&f, NULL);
	memset(&larger, 0xee, sizeof(larger));
	larger.info.struct_size = sizeof(larger);
	assert_int_equal(zc_pool_info(f.pool, &larger.info), 0);
	assert_int_equal(larger.info.struct_size, sizeof(larger));
	assert_string_equal(larger.info.name, "default");
	assert_string_equal(larger.info.codec, "lz4");
	assert_int_equal(larger.info.page_size, FAKE_PAGE_SIZE);
	assert_int_equal(larger.later[0], 0);
	assert_int_equal(larger.later[1], 0);
	assert_int_equal(zc_pool_info(f.pool, (struct zc_pool_info *)(void *)&smaller), 0);
	assert_int_equal(smaller.pool_id, 77);
	assert_int_equal(smaller.kind, ZC_STORE);
	assert_int_equal(smaller.beyond, 0x1234);
	/* Asked for with fields of a later version: refused, unless they say nothing. */
	assert_int_equal(zc_pool_create(f.zc, &larger.info), 0);
	larger.later[1] = 1;
	assert_int_equal(zc_pool_create(f.zc, &larger.info), -EINVAL);
	larger.later[1] = 0;
	larger.info.reserved[2] = 1;
	assert_int_equal(zc_pool_create(f.zc, &larger.info), -EINVAL);
	larger.info.reserved[2] = 0;
	memset(larger.info.codec, 'c', sizeof(larger.info.codec));
	assert_int_equal(zc_pool_create(f.zc, &larger.info), -EINVAL);
	close_all(&f);
}

/* Sets every number in a message to the number of its field. */
static void
number_fields(ProtobufCMessage *message)
{
	for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		uint8_t *at = (uint8_t *)message + field->offset;
		uint64_t number = field->id;

		if (field->label == PROTOBUF_C_LABEL_REPEATED)
			continue;
		if (field->type == PROTOBUF_C_TYPE_UINT64 || field->type == PROTOBUF_C_TYPE_FIXED64)
			memcpy(at, &number, sizeof(uint64_t));
		if (field->type == PROTOBUF_C_TYPE_UINT32)
			memcpy(at, &field->id, sizeof(uint32_t));
		if (field->type == PROTOBUF_C_TYPE_BOOL)
			*(protobuf_c_boolean *)at = 1;
	}
}

static void
respond_numbered_stats(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__StatsReply stats = ZCACHE__V1__STATS_REPLY__INIT;
	Zcache__V1__PoolStats pool = ZCACHE__V1__POOL_STATS__INIT, *pools[] = {&pool, &pool};
	Zcache__V1__PoolInfo info = ZCACHE__V1__POOL_INFO__INIT;
	Zcache__V1__ServiceStats service = ZCACHE__V1__SERVICE_STATS__INIT;

	number_fields(&info.base);
	number_fields(&pool.base);
	number_fields(&service.base);
	info.limit = 4711;
	service.version = "0.1.0";
	pool.pool = &info;
	stats.service = &service;
	stats.n_pool = *request->stats->pool ? 1 : 2;
	stats.pool = pools;
	response.id = request->id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_STATS;
	response.stats = &stats;
	fake_respond(peer, &response);
}

static void
respond_numbered_class(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__ClassesReply classes = ZCACHE__V1__CLASSES_REPLY__INIT;
	Zcache__V1__SizeClass class = ZCACHE__V1__SIZE_CLASS__INIT, *list[] = {&class};

	number_fields(&class.base);
	classes.n_size_class = 1;
	classes.size_class = list;
	response.id = request->id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_CLASSES;
	response.classes = &classes;
	fake_respond(peer, &response);
}

static bool
numbered(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	Zcache__V1__Response response = ZCACHE__V1__RESPONSE__INIT;
	Zcache__V1__CompactReply compact = ZCACHE__V1__COMPACT_REPLY__INIT;

	if (request->op_case == ZCACHE__V1__REQUEST__OP_STATS) {
		respond_numbered_stats(peer, request);
		return true;
	}
	if (request->op_case == ZCACHE__V1__REQUEST__OP_CLASSES) {
		respond_numbered_class(peer, request);
		return true;
	}
	if (request->op_case != ZCACHE__V1__REQUEST__OP_COMPACT_STATUS)
		return false;
	number_fields(&compact.base);
	response.id = request->id;
	response.result_case = ZCACHE__V1__RESPONSE__RESULT_COMPACT;
	response.compact = &compact;
	fake_respond(peer, &response);
	return true;
}

static void
test_each_number_of_a_pool_has_its_place(void **state)
{
	struct zc_stats stats = {.struct_size = sizeof(stats)};
	struct fixture f;

	(void)state;
	open_all(&f, numbered);
	assert_int_equal(zc_stats(f.pool, &stats), 0);
	assert_int_equal(stats.entries, 2);
	assert_int_equal(stats.logical_bytes, 3);
	assert_int_equal(stats.stored_bytes, 4);
	assert_int_equal(stats.data_bytes, 5);
	assert_int_equal(stats.index_bytes, 6);
	assert_int_equal(stats.control_bytes, 7);
	assert_int_equal(stats.resident_bytes, 8);
	assert_int_equal(stats.limit_bytes, 4711);
	assert_int_equal(stats.same_filled, 9);
	assert_int_equal(stats.incompressible, 10);
	assert_int_equal(stats.poisoned, 11);
	assert_int_equal(stats.puts, 12);
	assert_int_equal(stats.hits, 13);
	assert_int_equal(stats.misses, 14);
	assert_int_equal(stats.deletes, 15);
	assert_int_equal(stats.refused_limit, 16);
	assert_int_equal(stats.refused_memory, 17);
	assert_int_equal(stats.refused_collision, 18);
	assert_int_equal(stats.refused_invalid, 19);
	assert_int_equal(stats.dropped_old, 20);
	assert_int_equal(stats.damaged, 21);
	assert_int_equal(stats.objects_moved, 22);
	assert_int_equal(stats.zspages_freed, 23);
	assert_int_equal(stats.pages_freed, 24);
	assert_int_equal(stats.compactions, 25);
	assert_int_equal(stats.objects_packed, 26);
	close_all(&f);
}

static void
test_each_number_of_the_service_has_its_place(void **state)
{
	struct zc_service_stats service = {.struct_size = sizeof(service)};
	struct fixture f;

	(void)state;
	open_all(&f, numbered);
	assert_int_equal(zc_service_stats(f.zc, &service), 0);
	assert_string_equal(service.version, "0.1.0");
	assert_int_equal(service.uptime_ms, 2);
	assert_int_equal(service.workers, 3);
	assert_int_equal(service.connections, 4);
	assert_int_equal(service.connections_total, 5);
	assert_int_equal(service.connections_refused, 6);
	assert_int_equal(service.requests, 7);
	assert_int_equal(service.protocol_errors, 8);
	assert_int_equal(service.stalled_clients, 9);
	assert_int_equal(service.denied, 10);
	assert_int_equal(service.boot_id, 11);
	close_all(&f);
}

static void
test_each_number_of_classes_and_compaction_has_its_place(void **state)
{
	struct zc_class class = {.struct_size = sizeof(class)};
	struct zc_compaction compaction = {.struct_size = sizeof(compaction)};
	struct fixture f;

	(void)state;
	open_all(&f, numbered);
	assert_int_equal(zc_classes(f.pool, &class, 1), 1);
	assert_int_equal(class.size, 1);
	assert_int_equal(class.pages_per_zspage, 2);
	assert_int_equal(class.objects_per_zspage, 3);
	assert_int_equal(class.zspages, 4);
	assert_int_equal(class.objects_allocated, 5);
	assert_int_equal(class.objects_used, 6);
	assert_int_equal(class.pages_resident, 7);
	assert_int_equal(class.zspages_freeable, 8);
	assert_int_equal(class.moves_lower_bound, 9);
	assert_int_equal(zc_compact_status(f.pool, &compaction), 0);
	assert_int_equal(compaction.running, 1);
	assert_int_equal(compaction.classes_done, 2);
	assert_int_equal(compaction.classes_total, 3);
	assert_int_equal(compaction.estimate_pages, 4);
	assert_int_equal(compaction.estimate_zspages, 5);
	assert_int_equal(compaction.moves_lower_bound, 6);
	assert_int_equal(compaction.objects_moved, 7);
	assert_int_equal(compaction.objects_busy, 8);
	assert_int_equal(compaction.zspages_freed, 9);
	assert_int_equal(compaction.pages_freed, 10);
	assert_int_equal(compaction.generation, 11);
	assert_int_equal(compaction.resident_before, 12);
	assert_int_equal(compaction.resident_now, 13);
	assert_int_equal(compaction.objects_packed, 14);
	close_all(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_put_get_del_exists),
		cmocka_unit_test(test_pages_of_every_size),
		cmocka_unit_test(test_what_makes_no_sense_is_not_asked),
		cmocka_unit_test(test_null_is_closed),
		cmocka_unit_test(test_default_socket),
		cmocka_unit_test(test_open_without_a_service),
		cmocka_unit_test(test_hello_refused),
		cmocka_unit_test(test_service_with_a_small_frame),
		cmocka_unit_test(test_a_reply_split_at_every_byte),
		cmocka_unit_test(test_a_reply_of_single_bytes),
		cmocka_unit_test(test_answers_to_what_is_over_are_dropped),
		cmocka_unit_test(test_an_answer_to_nobody),
		cmocka_unit_test(test_a_status_that_cannot_be),
		cmocka_unit_test(test_values_that_cannot_be),
		cmocka_unit_test(test_answers_of_another_kind),
		cmocka_unit_test(test_errors_come_through),
		cmocka_unit_test(test_a_long_text_is_cut),
		cmocka_unit_test(test_a_text_belongs_to_its_connection),
		cmocka_unit_test(test_frames_that_cannot_be),
		cmocka_unit_test(test_a_reply_that_grows_when_decoded),
		cmocka_unit_test(test_damaged_replies),
		cmocka_unit_test(test_lists_longer_than_their_room),
		cmocka_unit_test(test_structs_of_another_size),
		cmocka_unit_test(test_each_number_of_a_pool_has_its_place),
		cmocka_unit_test(test_each_number_of_the_service_has_its_place),
		cmocka_unit_test(test_each_number_of_classes_and_compaction_has_its_place),
	};

	return cmocka_run_group_tests_name("zclient", tests, NULL, NULL);
}
