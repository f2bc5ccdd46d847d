/* SPDX-License-Identifier: BSD-2-Clause */
/* Channels: both ends in one process through two mappings, wrong numbers from either side, sleeping and waking. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "atomic.h"
#include "channel.h"

static const struct channel_geometry small = {2, 8, 16, 4096};

struct both {
	struct channel engine, client;
	struct channel_end serve, use; /* of ring 1 */
	int fd;
};

static void
open_both(struct both *b)
{
	assert_int_equal(0, channel_create(&small, &b->engine, &b->fd));
	assert_int_equal(0, channel_map(b->fd, &b->client));
	b->serve = channel_end(&b->engine, 1);
	b->use = channel_end(&b->client, 1);
}

static void
close_both(struct both *b)
{
	channel_unmap(&b->engine);
	channel_unmap(&b->client);
	channel_unmap(&b->client);
	close(b->fd);
}

static void
test_geometry(void **state)
{
	const struct channel_geometry wrong[] = {
		{0, 8, 16, 4096},    {257, 8, 16, 4096}, {1, 0, 16, 4096},   {1, 3, 16, 4096},
		{1, 8192, 16, 4096}, {1, 8, 0, 4096},	 {1, 8, 5000, 4096}, {1, 8, 16, 2048},
		{1, 8, 16, 131072},  {1, 8, 16, 5000},
	};
	struct channel channel;
	int fd;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_int_equal(0, channel_size(&wrong[i]));
		assert_int_equal(-EINVAL, channel_create(&wrong[i], &channel, &fd));
	}
}

/* Nothing of the file can be changed but its bytes; what is not a channel is not mapped. */
static void
test_mapping(void **state)
{
	struct both b;
	struct channel other;
	int fd;

	(void)state;
	open_both(&b);
	assert_int_equal(-1, ftruncate(b.fd, 0));
	assert_int_equal(-1, ftruncate(b.fd, 1 << 30));
	assert_int_equal(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
			 fcntl(b.fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	for (unsigned at = 0; at < 64; at++) {
		((char *)b.engine.header)[at] ^= 0x40;
		assert_int_equal(-EPROTO, channel_map(b.fd, &other));
		((char *)b.engine.header)[at] ^= 0x40;
	}
	assert_int_equal(0, channel_map(b.fd, &other));
	channel_unmap(&other);
	close_both(&b);

	fd = memfd_create("other", MFD_CLOEXEC);
	assert_int_equal(-EBADFD, channel_map(fd, &other));
	close(fd);
	fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(0, fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	assert_int_equal(-EPROTO, channel_map(fd, &other));
	close(fd);
}

static void
submit(struct both *b, uint64_t cookie)
{
	struct channel_request request = {.cookie = cookie, .operation = ZC_CHANNEL_GET};

	assert_true(channel_submit_room(&b->use) > 0);
	channel_submit_add(&b->use, &request);
}

/* Many times around the ring, in batches of every size. */
static void
test_around(void **state)
{
	struct channel_completion completion;
	struct channel_request request;
	uint64_t sent = 0, served = 0, reaped = 0;
	struct both b;

	(void)state;
	open_both(&b);
	/* the indices wrap around 32 bits on the way */
	b.serve.submit = b.serve.complete = b.use.submit = b.use.complete = UINT32_MAX - 20;
	channel_serve_taken(&b.serve);
	channel_reaped(&b.use);
	channel_submit_publish(&b.use);
	channel_serve_completed(&b.serve, b.serve.complete);
	for (unsigned round = 0; round < 100; round++) {
		uint32_t before = b.serve.complete;

		for (unsigned i = 0; i <= round % 8; i++)
			submit(&b, sent++);
		assert_int_equal(0, channel_serve_take(&b.serve, &request));
		channel_submit_publish(&b.use);
		while (channel_serve_take(&b.serve, &request)) {
			assert_int_equal(served, request.cookie);
			assert_int_equal(0, channel_serve_complete(&b.serve, served++, 7));
		}
		channel_serve_taken(&b.serve);
		assert_int_equal(0, channel_reap(&b.use, &completion));
		channel_serve_completed(&b.serve, before);
		while (channel_reap(&b.use, &completion) == 1) {
			assert_int_equal(reaped++, completion.cookie);
			assert_int_equal(7, completion.status);
		}
		channel_reaped(&b.use);
		assert_int_equal(sent, reaped);
	}
	close_both(&b);
}

static void
test_full(void **state)
{
	struct channel_request request;
	struct both b;

	(void)state;
	open_both(&b);
	for (unsigned i = 0; i < small.entries; i++)
		submit(&b, i);
	assert_int_equal(0, channel_submit_room(&b.use));
	channel_submit_publish(&b.use);
	assert_int_equal(1, channel_serve_take(&b.serve, &request));
	assert_int_equal(0, channel_submit_room(&b.use));
	channel_serve_taken(&b.serve);
	assert_int_equal(1, channel_submit_room(&b.use));
	/* a client that takes no completions has no more of them than a ring holds */
	for (unsigned i = 0; i < small.entries; i++)
		assert_int_equal(0, channel_serve_complete(&b.serve, i, 0));
	assert_int_equal(-EPROTO, channel_serve_complete(&b.serve, 99, 0));
	close_both(&b);
}

/* Every index of the other side that cannot be is an error, whatever it is. */
static void
test_wrong_indices(void **state)
{
	const uint32_t wrong[] = {9, 100, 1u << 31, UINT32_MAX - 8};
	struct channel_completion completion;
	struct channel_request request;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct both b;

		open_both(&b);
		b.client.header->wakes = wrong[i];
		b.use.ring->submit_tail = wrong[i];
		assert_int_equal(-EPROTO, channel_serve_take(&b.serve, &request));
		b.use.ring->complete_head = wrong[i];
		assert_int_equal(-EPROTO, channel_serve_complete(&b.serve, 1, 0));
		b.serve.ring->submit_head = wrong[i];
		assert_int_equal(-EPROTO, channel_submit_room(&b.use));
		b.serve.ring->complete_tail = wrong[i];
		assert_int_equal(-EPROTO, channel_reap(&b.use, &completion));
		close_both(&b);
	}
}

/* The worker is asked to wake exactly when the index that the client named is passed. */
static void
test_wake_at(void **state)
{
	struct both b;
	uint32_t before;

	(void)state;
	open_both(&b);
	channel_wake_after(&b.use, 3);
	for (unsigned i = 1; i <= 5; i++) {
		before = b.serve.complete;
		assert_int_equal(0, channel_serve_complete(&b.serve, i, 0));
		assert_int_equal(i == 3, channel_serve_completed(&b.serve, before));
	}
	close_both(&b);
}

static void
test_doorbell(void **state)
{
	struct channel_request request;
	struct both b;

	(void)state;
	open_both(&b);
	submit(&b, 1);
	assert_false(channel_submit_publish(&b.use));
	assert_false(channel_serve_may_sleep(&b.serve));
	assert_int_equal(1, channel_serve_take(&b.serve, &request));
	assert_true(channel_serve_may_sleep(&b.serve));
	submit(&b, 2);
	assert_true(channel_submit_publish(&b.use));
	channel_serve_awake(&b.serve);
	close_both(&b);
}

/* ---- a worker and a client that both sleep whenever they can ---- */

#define ROUNDS 20000

struct worker {
	struct both *b;
	int doorbell;
};

static void *
serve(void *arg)
{
	struct worker *w = arg;
	struct channel_end *end = &w->b->serve;
	struct channel_request request;
	unsigned done = 0;

	while (done < ROUNDS) {
		uint32_t before = end->complete;
		uint64_t rings;

		if (channel_serve_take(end, &request) == 0) {
			if (channel_serve_may_sleep(end)) {
				assert_int_equal(8, read(w->doorbell, &rings, sizeof(rings)));
				channel_serve_awake(end);
			}
			continue;
		}
		channel_serve_taken(end);
		assert_int_equal(0, channel_serve_complete(end, request.cookie, (int32_t)done++));
		if (channel_serve_completed(end, before))
			channel_serve_wake(&w->b->engine);
	}
	return NULL;
}

static void
wait_for_one(struct both *b, uint64_t cookie)
{
	struct channel_completion completion;

	for (;;) {
		uint32_t seen = channel_wakes(&b->client);

		channel_wake_after(&b->use, 1);
		if (channel_reap(&b->use, &completion) == 1)
			break;
		assert_int_equal(0, channel_wait(&b->client, seen, NULL));
	}
	channel_reaped(&b->use);
	assert_int_equal(cookie, completion.cookie);
}

static void
test_ping_pong(void **state)
{
	struct both b;
	struct worker w = {.b = &b, .doorbell = eventfd(0, EFD_CLOEXEC)};
	uint64_t one = 1;
	pthread_t thread;

	(void)state;
	open_both(&b);
	pthread_create(&thread, NULL, serve, &w);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		submit(&b, i);
		if (channel_submit_publish(&b.use))
			assert_int_equal(8, write(w.doorbell, &one, sizeof(one)));
		wait_for_one(&b, i);
	}
	pthread_join(thread, NULL);
	close(w.doorbell);
	close_both(&b);
}

static void
test_wait_deadline(void **state)
{
	struct timespec past = {0, 1};
	struct both b;

	(void)state;
	open_both(&b);
	assert_int_equal(-ETIMEDOUT, channel_wait(&b.client, channel_wakes(&b.client), &past));
	assert_int_equal(0, channel_wait(&b.client, channel_wakes(&b.client) + 1, &past));
	close_both(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_geometry),      cmocka_unit_test(test_mapping),
		cmocka_unit_test(test_around),	      cmocka_unit_test(test_full),
		cmocka_unit_test(test_wrong_indices), cmocka_unit_test(test_wake_at),
		cmocka_unit_test(test_doorbell),      cmocka_unit_test(test_wait_deadline),
		cmocka_unit_test(test_ping_pong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
