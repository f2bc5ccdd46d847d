/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of what libclient/ does when the service is slow, hangs up, restarts or stays away, and when
 * many threads, a cancelled one or a forked child use one connection.
 *
 * Run alone by meson, against the service of fake_service.h. Times are only compared with bounds
 * that a loaded machine keeps: nothing ends before its deadline, and all ends long before the next
 * coarser one.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>

#include <cmocka.h>
#include <zclient.h>

#include "fake_service.h"

#define THREADS 8
/* Far more than any deadline here, in milliseconds. */
#define LONG_AFTER 20000

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
	fake_free(f->fake);
}

static zc_key
key_of(uint64_t index)
{
	return (zc_key){.object = 7, .index = index};
}

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static bool
is_get_of_0(const Zcache__V1__Request *request)
{
	return request->op_case == ZCACHE__V1__REQUEST__OP_GET && request->get->key->index == 0;
}

/* A gate that hooks wait at. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t opened;
	bool open;
} gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};

static void
gate_set(bool open)
{
	pthread_mutex_lock(&gate.mutex);
	gate.open = open;
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.mutex);
}

static void
gate_wait(void)
{
	pthread_mutex_lock(&gate.mutex);
	while (!gate.open)
		pthread_cond_wait(&gate.opened, &gate.mutex);
	pthread_mutex_unlock(&gate.mutex);
}

/* ---- deadlines ---- */

static bool
late_get(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (is_get_of_0(request))
		gate_wait();
	fake_answer_rightly(peer, request);
	return true;
}

static void
assert_times_out(struct fixture *f, unsigned timeout)
{
	uint64_t start = now_ms();
	char buffer[16];

	zc_set_timeout(f->zc, timeout);
	assert_int_equal(zc_get(f->pool, key_of(0), buffer, sizeof(buffer)), -ETIMEDOUT);
	assert_true(now_ms() - start + 1 >= timeout);
	assert_true(now_ms() - start < timeout + LONG_AFTER);
	zc_set_timeout(f->zc, 0);
}

static void
test_a_late_answer_reaches_nobody(void **state)
{
	struct fixture f;
	char buffer[16] = "";

	(void)state;
	gate_set(false);
	open_all(&f, late_get);
	assert_int_equal(zc_put(f.pool, key_of(0), "late", 4, 0), 0);
	assert_int_equal(zc_put(f.pool, key_of(1), "prompt", 6, 0), 0);
	assert_times_out(&f, 1);
	assert_times_out(&f, 40);
	gate_set(true);
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 6);
	assert_string_equal(buffer, "prompt");
	/* The service was slow, not gone. */
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static size_t half;

/* Answers half before the gate opens and half after. */
static bool
halved_get(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	uint8_t *frame;
	size_t length;

	if (!is_get_of_0(request))
		return false;
	frame = fake_right_answer(peer, request, &length);
	FAKE_CHECK(half < length);
	fake_send_bytes(peer, frame, half);
	gate_wait();
	fake_send_bytes(peer, frame + half, length - half);
	free(frame);
	return true;
}

static void
test_a_deadline_inside_an_answer(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, halved_get);
	assert_int_equal(zc_put(f.pool, key_of(0), "late", 4, 0), 0);
	assert_int_equal(zc_put(f.pool, key_of(1), "prompt", 6, 0), 0);
	for (half = 1; half < 14; half++) {
		char buffer[16] = "";

		gate_set(false);
		assert_times_out(&f, 3);
		gate_set(true);
		assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 6);
		assert_string_equal(buffer, "prompt");
	}
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

/* Reads nothing more until the gate opens. */
static bool
stop_at_get_of_0(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	(void)peer;
	if (is_get_of_0(request))
		gate_wait();
	return false;
}

/* Puts fill the socket until one is stuck in its middle; later ones finish what it began. */
static void
test_a_deadline_inside_a_request(void **state)
{
	uint8_t *page = calloc(1, FAKE_PAGE_SIZE), *back = malloc(FAKE_PAGE_SIZE);
	struct fixture f;

	(void)state;
	gate_set(false);
	open_all(&f, stop_at_get_of_0);
	assert_times_out(&f, 1);
	zc_set_timeout(f.zc, 5);
	for (int i = 1; i <= 20; i++) {
		memset(page, i, FAKE_PAGE_SIZE);
		assert_int_equal(
			zc_put(f.pool, key_of((uint64_t)i), page, FAKE_PAGE_SIZE - (size_t)i, 0),
			-ETIMEDOUT);
	}
	assert_true(atomic_load(&f.fake->puts) < 20);
	gate_set(true);
	zc_set_timeout(f.zc, 0);
	/* What was sent whole or in part is done, in order; what had not begun is not. */
	assert_int_equal(zc_put(f.pool, key_of(100), page, FAKE_PAGE_SIZE, 0), 0);
	for (int i = 1, done = atomic_load(&f.fake->puts) - 1; i <= 20; i++) {
		int result = zc_get(f.pool, key_of((uint64_t)i), back, FAKE_PAGE_SIZE);

		assert_int_equal(result, i <= done ? (int)FAKE_PAGE_SIZE - i : -ENOENT);
		if (i <= done)
			assert_true(back[0] == i && back[result - 1] == i);
	}
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
	free(page);
	free(back);
}

/* The service stops reading when nobody reads its answers; then whoever sends must read. */
static void
test_a_stuck_sender_reads(void **state)
{
	uint8_t *page = calloc(1, FAKE_PAGE_SIZE);
	struct fixture f;
	char buffer[8];

	(void)state;
	gate_set(false);
	open_all(&f, stop_at_get_of_0);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(zc_put(f.pool, key_of(1), page, FAKE_PAGE_SIZE, 0), 0);
	assert_times_out(&f, 1);
	zc_set_timeout(f.zc, 1);
	/* Questions that fill the socket, whose answers will fill it the other way. */
	for (int i = 0; i < 400; i++)
		assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -ETIMEDOUT);
	zc_set_timeout(f.zc, 0);
	gate_set(true);
	usleep(20000);
	assert_int_equal(zc_put(f.pool, key_of(2), page, FAKE_PAGE_SIZE, 0), 0);
	assert_int_equal(zc_get(f.pool, key_of(2), page, FAKE_PAGE_SIZE), FAKE_PAGE_SIZE);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
	free(page);
}

static void
interrupted(int signal)
{
	(void)signal;
}

struct interrupter {
	pthread_t target;
	atomic_bool stop;
};

static void *
interrupt(void *argument)
{
	struct interrupter *interrupter = argument;

	while (!atomic_load(&interrupter->stop)) {
		pthread_kill(interrupter->target, SIGUSR1);
		usleep(500);
	}
	return NULL;
}

static void
test_signals_change_nothing(void **state)
{
	struct sigaction action = {.sa_handler = interrupted};
	struct interrupter interrupter = {.target = pthread_self()};
	uint8_t page[4096] = {1};
	pthread_t thread;
	struct fixture f;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	gate_set(false);
	open_all(&f, late_get);
	assert_int_equal(pthread_create(&thread, NULL, interrupt, &interrupter), 0);
	for (uint64_t i = 1; i < 100; i++)
		assert_int_equal(zc_put(f.pool, key_of(i), page, sizeof(page), 0), 0);
	assert_times_out(&f, 50);
	atomic_store(&interrupter.stop, true);
	pthread_join(thread, NULL);
	gate_set(true);
	assert_int_equal(zc_ping(f.zc), 0);
	close_all(&f);
}

/* ---- a service that goes and comes ---- */

static void
test_idle_while_the_service_restarts(void **state)
{
	struct fixture f;
	char buffer[16] = "";

	(void)state;
	open_all(&f, NULL);
	assert_int_equal(zc_put(f.pool, key_of(1), "kept", 4, 0), 0);
	for (int i = 1; i <= 3; i++) {
		fake_stop(f.fake);
		fake_listen(f.fake);
		/* The pool has another handle on each connection; the service checks. */
		assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 4);
		assert_string_equal(buffer, "kept");
		assert_int_equal(atomic_load(&f.fake->connections), i + 1);
		assert_int_equal(atomic_load(&f.fake->opens), i + 1);
	}
	/* What needs no handle asks for none. */
	fake_stop(f.fake);
	fake_listen(f.fake);
	assert_int_equal(zc_ping(f.zc), 0);
	assert_int_equal(atomic_load(&f.fake->opens), 4);
	close_all(&f);
}

static void *
return_later(void *argument)
{
	usleep(60000);
	fake_listen(argument);
	return NULL;
}

static void
test_a_service_that_stays_away(void **state)
{
	uint64_t start = now_ms();
	pthread_t thread;
	struct fixture f;

	(void)state;
	open_all(&f, NULL);
	fake_stop(f.fake);
	zc_set_timeout(f.zc, 50);
	assert_int_equal(zc_put(f.pool, key_of(1), "page", 4, 0), -EHOSTDOWN);
	assert_int_equal(zc_ping(f.zc), -EHOSTDOWN);
	assert_true(now_ms() - start + 1 >= 100);
	assert_true(now_ms() - start < LONG_AFTER);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(pthread_create(&thread, NULL, return_later, f.fake), 0);
	assert_int_equal(zc_put(f.pool, key_of(1), "page", 4, 0), 0);
	assert_int_equal(zc_exists(f.pool, key_of(1)), 1);
	pthread_join(thread, NULL);
	close_all(&f);
}

static bool
without_pools(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case != ZCACHE__V1__REQUEST__OP_POOL_OPEN)
		return false;
	fake_respond_status(peer, request->id, -ENOENT, "no such pool");
	return true;
}

static void
test_a_pool_that_does_not_come_back(void **state)
{
	struct fixture f;
	char buffer[16];

	(void)state;
	open_all(&f, NULL);
	fake_stop(f.fake);
	atomic_store(&f.fake->hook, without_pools);
	fake_listen(f.fake);
	/* Not -ENOENT: that would be a miss. */
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -EBADF);
	assert_string_equal(zc_error_text(f.zc), "no such pool");
	assert_int_equal(zc_ping(f.zc), 0);
	atomic_store(&f.fake->hook, NULL);
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -ENOENT);
	close_all(&f);
}

static bool
another_version(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	fake_respond_status(peer, request->id, -EPROTONOSUPPORT, "version 2 only");
	return true;
}

static void
test_a_service_that_comes_back_as_another(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, NULL);
	fake_stop(f.fake);
	atomic_store(&f.fake->hook, another_version);
	fake_listen(f.fake);
	zc_set_timeout(f.zc, 0); /* no deadline, and yet no waiting */
	assert_int_equal(zc_ping(f.zc), -EPROTONOSUPPORT);
	atomic_store(&f.fake->hook, NULL);
	assert_int_equal(zc_ping(f.zc), 0);
	close_all(&f);
}

/* ---- connections that end at every point ---- */

/* Sends the first `cut_at` bytes of one answer and hangs up, once. */
static atomic_size_t cut_at;
static atomic_bool cut_done;
static atomic_int cut_op;

static bool
cut_answer(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	uint8_t *frame;
	size_t length, cut;

	if ((int)request->op_case != cut_op || atomic_exchange(&cut_done, true))
		return false;
	frame = fake_right_answer(peer, request, &length);
	cut = cut_at;
	fake_send_bytes(peer, frame, cut < length ? cut : length);
	free(frame);
	fake_hang_up(peer);
	return true;
}

static void
assert_survives_cuts(struct fixture *f, Zcache__V1__Request__OpCase op)
{
	cut_op = (int)op;
	for (cut_at = 0; cut_at < 30; cut_at++) {
		char buffer[16] = "";

		if (op == ZCACHE__V1__REQUEST__OP_HELLO ||
		    op == ZCACHE__V1__REQUEST__OP_POOL_OPEN) {
			atomic_store(&cut_done, true);
			fake_stop(f->fake);
			fake_listen(f->fake);
		}
		atomic_store(&cut_done, false);
		assert_int_equal(zc_put(f->pool, key_of(1), "page", 4, 0), 0);
		assert_int_equal(zc_get(f->pool, key_of(1), buffer, sizeof(buffer)), 4);
		assert_string_equal(buffer, "page");
		assert_true(atomic_load(&cut_done));
	}
}

static void
test_answers_cut_at_every_byte(void **state)
{
	struct fixture f;

	(void)state;
	atomic_store(&cut_done, true);
	open_all(&f, cut_answer);
	zc_set_timeout(f.zc, 0);
	assert_survives_cuts(&f, ZCACHE__V1__REQUEST__OP_GET);
	assert_survives_cuts(&f, ZCACHE__V1__REQUEST__OP_PUT);
	assert_survives_cuts(&f, ZCACHE__V1__REQUEST__OP_HELLO);
	assert_survives_cuts(&f, ZCACHE__V1__REQUEST__OP_POOL_OPEN);
	close_all(&f);
}

static void
test_open_says_at_once_that_the_service_hung_up(void **state)
{
	struct fake_service *fake = fake_start(cut_answer);
	struct zc *zc;

	(void)state;
	cut_op = ZCACHE__V1__REQUEST__OP_HELLO;
	for (cut_at = 0; cut_at < 10; cut_at++) {
		atomic_store(&cut_done, false);
		assert_int_equal(zc_open(fake->path, 0, &zc), -ECONNRESET);
		assert_null(zc);
	}
	fake_free(fake);
}

static bool
hang_up_at_once(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case == ZCACHE__V1__REQUEST__OP_HELLO)
		return false;
	fake_hang_up(peer);
	return true;
}

/* The deadline passed between two connections, or on one just before it ended. */
static void
assert_no_answer(int result)
{
	assert_true(result == -EHOSTDOWN || result == -ETIMEDOUT);
}

static void
test_a_service_that_always_hangs_up(void **state)
{
	struct fixture f;
	uint64_t start;

	(void)state;
	open_all(&f, NULL);
	atomic_store(&f.fake->hook, hang_up_at_once);
	zc_set_timeout(f.zc, 300);
	start = now_ms();
	assert_no_answer(zc_put(f.pool, key_of(1), "page", 4, 0));
	assert_true(now_ms() - start + 1 >= 300);
	/* Pauses of 1, 2, 4 .. 100 ms leave room for about ten attempts, not for thousands. */
	assert_true(atomic_load(&f.fake->connections) <= 12);
	close_all(&f);
}

/* ---- what must not be done twice ---- */

static atomic_int compactions;

static bool
hang_up_after_compact_start(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case != ZCACHE__V1__REQUEST__OP_COMPACT_START &&
	    request->op_case != ZCACHE__V1__REQUEST__OP_POOL_CREATE &&
	    request->op_case != ZCACHE__V1__REQUEST__OP_POOL_DESTROY)
		return false;
	atomic_fetch_add(&compactions, 1);
	fake_hang_up(peer);
	return true;
}

static void
test_what_must_not_be_sent_twice(void **state)
{
	struct zc_compaction compaction = {.struct_size = sizeof(compaction)};
	struct zc_pool_info info = {.struct_size = sizeof(info), .name = "new"};
	struct fixture f;

	(void)state;
	atomic_store(&compactions, 0);
	open_all(&f, hang_up_after_compact_start);
	assert_int_equal(zc_compact_start(f.pool, 0, &compaction), -ECONNRESET);
	assert_int_equal(atomic_load(&compactions), 1);
	assert_int_equal(zc_pool_create(f.zc, &info), -ECONNRESET);
	assert_int_equal(atomic_load(&compactions), 2);
	assert_int_equal(zc_pool_destroy(f.zc, "new"), -ECONNRESET);
	assert_int_equal(atomic_load(&compactions), 3);
	/* An estimate changes nothing: it is asked for again, until the deadline. */
	zc_set_timeout(f.zc, 50);
	assert_no_answer(zc_compact_start(f.pool, ZC_ESTIMATE, &compaction));
	assert_true(atomic_load(&compactions) > 4);
	/* The connection had ended before: nothing was sent, so it goes out on the next. */
	zc_set_timeout(f.zc, 0);
	assert_int_equal(zc_ping(f.zc), 0);
	fake_stop(f.fake);
	atomic_store(&f.fake->hook, NULL);
	fake_listen(f.fake);
	assert_int_equal(zc_compact_start(f.pool, 0, &compaction), 0);
	close_all(&f);
}

/* ---- many threads ---- */

struct worker {
	struct fixture *fixture;
	pthread_t thread;
	unsigned number;
	int rounds;
	int timed_out;
	int wrong; /* results that cannot be */
};

static atomic_int workers_done;

static void
fill_page(uint8_t *page, size_t length, unsigned number, int round)
{
	memset(page, (int)number * 16 + round % 16, length);
	memcpy(page, &round, sizeof(round));
}

static void
work_round(struct worker *worker, int round, uint8_t *page, uint8_t *back)
{
	struct zc_pool *pool = worker->fixture->pool;
	size_t length = 8 + (size_t)(worker->number * 1000 + (unsigned)round * 37) % 5000;
	zc_key key = {worker->number, (uint64_t)round % 8 + 1};
	int put, got;

	fill_page(page, length, worker->number, round);
	put = zc_put(pool, key, page, length, 0);
	got = zc_get(pool, key, back, FAKE_PAGE_SIZE);
	worker->timed_out += (put == -ETIMEDOUT) + (got == -ETIMEDOUT);
	worker->wrong += put != 0 && put != -ETIMEDOUT;
	/* A put that timed out may be done, or not, so what is there is ours but maybe older. */
	if (got > 0 && put == 0)
		worker->wrong += (size_t)got != length || memcmp(page, back, length) != 0;
	else if (got > 0)
		worker->wrong += back[got - 1] / 16 != worker->number;
	else
		worker->wrong += got != -ETIMEDOUT && !(got == -ENOENT && put != 0);
}

static void *
work(void *argument)
{
	struct worker *worker = argument;
	uint8_t *page = malloc(FAKE_PAGE_SIZE), *back = malloc(FAKE_PAGE_SIZE);

	for (int round = 0; round < worker->rounds; round++)
		work_round(worker, round, page, back);
	free(page);
	free(back);
	atomic_fetch_add(&workers_done, 1);
	return NULL;
}

/* Lets THREADS threads work on one connection; returns how many calls timed out. */
static int
work_all(struct fixture *f, int rounds)
{
	struct worker workers[THREADS] = {0};
	int timed_out = 0;

	for (unsigned i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.fixture = f, .number = i, .rounds = rounds};
		FAKE_CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(workers[i].thread, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		assert_int_equal(workers[i].wrong, 0);
		timed_out += workers[i].timed_out;
	}
	return timed_out;
}

static void
test_threads(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, NULL);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(work_all(&f, 300), 0);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

/* Answers that are held back; of the one connection of a test. */
static struct {
	uint8_t *frame[THREADS];
	size_t length[THREADS];
	int count;
} stash;

static void
send_stash(struct fake_peer *peer)
{
	while (stash.count > 0) {
		stash.count--;
		fake_send_bytes(peer, stash.frame[stash.count], stash.length[stash.count]);
		free(stash.frame[stash.count]);
	}
}

/* Holds answers back and sends them, last one first, when there are three or when it is pinged. */
static bool
reversed(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case == ZCACHE__V1__REQUEST__OP_PING)
		send_stash(peer);
	if (request->op_case != ZCACHE__V1__REQUEST__OP_PUT &&
	    request->op_case != ZCACHE__V1__REQUEST__OP_GET)
		return false;
	stash.frame[stash.count] = fake_right_answer(peer, request, &stash.length[stash.count]);
	if (++stash.count == 3)
		send_stash(peer);
	return true;
}

static void *
ping_until_done(void *argument)
{
	struct fixture *f = argument;

	while (atomic_load(&workers_done) < THREADS)
		FAKE_CHECK(zc_ping(f->zc) == 0);
	return NULL;
}

static void
test_answers_in_another_order(void **state)
{
	pthread_t thread;
	struct fixture f;

	(void)state;
	open_all(&f, reversed);
	zc_set_timeout(f.zc, 0);
	atomic_store(&workers_done, 0);
	assert_int_equal(pthread_create(&thread, NULL, ping_until_done, &f), 0);
	assert_int_equal(work_all(&f, 100), 0);
	pthread_join(thread, NULL);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

static atomic_int hang_up_count;

/* Ends the connection before, inside or after an answer, about every fiftieth time. */
static bool
hang_up_often(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	int count = atomic_fetch_add(&hang_up_count, 1);
	uint8_t *frame;
	size_t length;

	if (count % 50 != 49 || request->op_case == ZCACHE__V1__REQUEST__OP_HELLO)
		return false;
	frame = fake_right_answer(peer, request, &length);
	fake_send_bytes(peer, frame, (size_t)(count / 50) % 3 * (length / 2));
	free(frame);
	fake_hang_up(peer);
	return true;
}

static void
test_threads_on_a_connection_that_ends_often(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, hang_up_often);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(work_all(&f, 200), 0);
	assert_true(atomic_load(&f.fake->connections) > 20);
	close_all(&f);
}

/* Leaves requests unread until senders are stuck, most likely, and then hangs up. */
static bool
hang_up_on_senders(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case != ZCACHE__V1__REQUEST__OP_COMPACT_START)
		return false;
	usleep(3000);
	fake_hang_up(peer);
	return true;
}

static void *
start_compaction(void *argument)
{
	struct zc_compaction compaction = {.struct_size = sizeof(compaction)};
	struct worker *worker = argument;

	worker->wrong = zc_compact_start(worker->fixture->pool, 0, &compaction) != -ECONNRESET;
	return NULL;
}

static void *
put_large(void *argument)
{
	struct worker *worker = argument;
	uint8_t *page = calloc(1, FAKE_PAGE_SIZE);

	usleep(1000);
	worker->wrong =
		zc_put(worker->fixture->pool, key_of(worker->number), page, FAKE_PAGE_SIZE, 0);
	free(page);
	return NULL;
}

/* One thread reads for all and leaves for good when the connection ends; others are stuck in
 * sending, or wait to send. Whoever of them notices first, all must get on. */
static void
test_sender_and_reader_lose_the_connection(void **state)
{
	struct worker workers[THREADS];
	struct fixture f;

	(void)state;
	open_all(&f, hang_up_on_senders);
	zc_set_timeout(f.zc, 0);
	for (int round = 0; round < 20; round++) {
		for (unsigned i = 0; i < THREADS; i++) {
			workers[i] = (struct worker){.fixture = &f, .number = i};
			FAKE_CHECK(pthread_create(&workers[i].thread, NULL,
						  i ? put_large : start_compaction,
						  &workers[i]) == 0);
		}
		for (unsigned i = 0; i < THREADS; i++) {
			pthread_join(workers[i].thread, NULL);
			assert_int_equal(workers[i].wrong, 0);
		}
	}
	close_all(&f);
}

/* Now and then everybody's deadline passes. */
static bool
slow_often(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	static atomic_int count;

	(void)peer;
	if (request->op_case != ZCACHE__V1__REQUEST__OP_HELLO &&
	    atomic_fetch_add(&count, 1) % 40 == 39)
		usleep(8000);
	return false;
}

static void
test_threads_whose_deadlines_pass(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, slow_often);
	zc_set_timeout(f.zc, 4);
	assert_true(work_all(&f, 150) > 0);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(zc_ping(f.zc), 0);
	assert_int_equal(atomic_load(&f.fake->connections), 1);
	close_all(&f);
}

/* A flush is answered only after many others, on the same connection. */
static atomic_uint_least64_t flush_id;

static bool
slow_flush(struct fake_peer *peer, const Zcache__V1__Request *request)
{
	if (request->op_case == ZCACHE__V1__REQUEST__OP_FLUSH) {
		atomic_store(&flush_id, request->id);
		return true;
	}
	if (request->op_case == ZCACHE__V1__REQUEST__OP_PING) {
		Zcache__V1__Request flush = ZCACHE__V1__REQUEST__INIT;

		flush.id = atomic_load(&flush_id);
		flush.op_case = ZCACHE__V1__REQUEST__OP_FLUSH;
		fake_answer_rightly(peer, &flush);
	}
	return false;
}

struct flusher {
	struct fixture *fixture;
	atomic_bool returned;
	int64_t result;
};

static void *
flush(void *argument)
{
	struct flusher *flusher = argument;

	flusher->result = zc_flush(flusher->fixture->pool);
	atomic_store(&flusher->returned, true);
	return NULL;
}

static void
test_a_slow_call_holds_up_nobody(void **state)
{
	struct flusher flusher = {0};
	pthread_t thread;
	struct fixture f;

	(void)state;
	atomic_store(&flush_id, 0);
	open_all(&f, slow_flush);
	zc_set_timeout(f.zc, 0);
	flusher.fixture = &f;
	assert_int_equal(pthread_create(&thread, NULL, flush, &flusher), 0);
	while (!atomic_load(&flush_id))
		usleep(1000);
	assert_int_equal(work_all(&f, 20), 0);
	assert_false(atomic_load(&flusher.returned));
	assert_int_equal(zc_ping(f.zc), 0);
	pthread_join(thread, NULL);
	assert_int_equal(flusher.result, THREADS * 8);
	close_all(&f);
}

struct opener {
	const char *path;
	pthread_t thread;
	unsigned number;
	int failed;
};

static void *
open_and_close(void *argument)
{
	struct opener *opener = argument;

	for (int i = 0; i < 8; i++) {
		struct zc_pool *pool;
		struct zc *zc;
		char name[32];

		snprintf(name, sizeof(name), "pool-%u-%d", opener->number, i);
		if (zc_open(opener->path, 0, &zc)) {
			opener->failed++;
			continue;
		}
		opener->failed += zc_pool_open(zc, name, 0, &pool) != 0;
		opener->failed += zc_put(pool, key_of(opener->number), name, 4, 0) != 0;
		zc_pool_close(&pool);
		zc_close(&zc);
	}
	return NULL;
}

static void
test_many_open_at_once(void **state)
{
	struct fake_service *fake = fake_start(NULL);
	struct opener openers[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++) {
		openers[i] = (struct opener){.path = fake->path, .number = i};
		FAKE_CHECK(pthread_create(&openers[i].thread, NULL, open_and_close, &openers[i]) ==
			   0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(openers[i].thread, NULL);
		assert_int_equal(openers[i].failed, 0);
	}
	fake_free(fake);
}

struct own_text {
	struct fixture *fixture;
	char text[64];
};

static void *
fail_otherwise(void *argument)
{
	struct own_text *own = argument;

	zc_put(own->fixture->pool, key_of(1), "x", 0, 0);
	snprintf(own->text, sizeof(own->text), "%s", zc_error_text(own->fixture->zc));
	return NULL;
}

static void
test_each_thread_has_its_own_text(void **state)
{
	struct own_text own;
	pthread_t thread;
	struct fixture f;
	char buffer[8];

	(void)state;
	open_all(&f, NULL);
	own.fixture = &f;
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -ENOENT);
	assert_int_equal(pthread_create(&thread, NULL, fail_otherwise, &own), 0);
	pthread_join(thread, NULL);
	assert_string_equal(own.text, "no value");
	assert_string_equal(zc_error_text(f.zc), "no such page");
	close_all(&f);
}

static void *
get_and_be_cancelled(void *argument)
{
	struct fixture *f = argument;
	char buffer[16];

	zc_get(f->pool, key_of(0), buffer, sizeof(buffer));
	/* Not after all: AddressSanitizer does not bear the end of a cancelled thread. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return f;
}

/* It reads for the others: they must not lose their reader. */
static void
test_a_cancelled_thread_finishes_its_call(void **state)
{
	pthread_t thread;
	struct fixture f;
	void *result;

	(void)state;
	gate_set(false);
	open_all(&f, late_get);
	assert_int_equal(zc_put(f.pool, key_of(0), "late", 4, 0), 0);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(pthread_create(&thread, NULL, get_and_be_cancelled, &f), 0);
	while (atomic_load(&f.fake->gets) < 1)
		usleep(1000);
	pthread_cancel(thread);
	gate_set(true);
	assert_int_equal(zc_ping(f.zc), 0);
	pthread_join(thread, &result);
	assert_ptr_equal(result, &f);
	assert_int_equal(zc_ping(f.zc), 0);
	close_all(&f);
}

/* ---- fork and close ---- */

/* In the child: returns the number of the first thing that is not as it should be. */
static int
child(struct fixture *f)
{
	struct zc_stats stats = {.struct_size = sizeof(stats)};
	struct zc_pool *pool;
	struct zc *own;
	char buffer[8];

	if (zc_ping(f->zc) != -EPERM || zc_put(f->pool, key_of(1), "x", 1, 0) != -EPERM)
		return 1;
	if (zc_get(f->pool, key_of(1), buffer, sizeof(buffer)) != -EPERM)
		return 2;
	if (zc_stats(f->pool, &stats) != -EPERM || zc_flush(f->pool) != -EPERM)
		return 3;
	if (zc_pool_open(f->zc, NULL, 0, &pool) != -EPERM || pool)
		return 4;
	zc_pool_close(&f->pool);
	zc_close(&f->zc);
	if (zc_open(f->fake->path, 0, &own) || zc_pool_open(own, NULL, 0, &pool))
		return 5;
	if (zc_put(pool, key_of(2), "child", 5, 0))
		return 6;
	zc_pool_close(&pool);
	zc_close(&own);
	return 0;
}

static void
test_fork(void **state)
{
	struct fixture f;
	char buffer[8] = "";
	int status;
	pid_t pid;

	(void)state;
	open_all(&f, NULL);
	assert_int_equal(zc_put(f.pool, key_of(1), "parent", 6, 0), 0);
	pid = fork();
	if (pid == 0)
		_exit(child(&f));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* The child's close did not end the parent's connection. */
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), 6);
	assert_int_equal(zc_get(f.pool, key_of(2), buffer, sizeof(buffer)), 5);
	assert_int_equal(atomic_load(&f.fake->connections), 2);
	close_all(&f);
}

/* A thread is in a call, with whatever lock it holds, while the process forks. */
static void
test_fork_beside_a_call(void **state)
{
	struct worker worker = {.number = 1, .rounds = 400};
	struct fixture f;
	int status;

	(void)state;
	open_all(&f, NULL);
	zc_set_timeout(f.zc, 0);
	worker.fixture = &f;
	assert_int_equal(pthread_create(&worker.thread, NULL, work, &worker), 0);
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			if (zc_ping(f.zc) != -EPERM)
				_exit(1);
			zc_pool_close(&f.pool);
			zc_close(&f.zc);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	}
	pthread_join(worker.thread, NULL);
	assert_int_equal(worker.wrong, 0);
	close_all(&f);
}

static void
test_close_before_its_pools(void **state)
{
	struct zc_pool_info info = {.struct_size = sizeof(info)};
	struct fixture f;
	char buffer[8];

	(void)state;
	open_all(&f, NULL);
	zc_close(&f.zc);
	assert_int_equal(zc_get(f.pool, key_of(1), buffer, sizeof(buffer)), -EBADF);
	assert_int_equal(zc_put(f.pool, key_of(1), "x", 1, 0), -EBADF);
	assert_int_equal(zc_pool_info(f.pool, &info), 0);
	close_all(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_late_answer_reaches_nobody),
		cmocka_unit_test(test_a_deadline_inside_an_answer),
		cmocka_unit_test(test_a_deadline_inside_a_request),
		cmocka_unit_test(test_a_stuck_sender_reads),
		cmocka_unit_test(test_signals_change_nothing),
		cmocka_unit_test(test_idle_while_the_service_restarts),
		cmocka_unit_test(test_a_service_that_stays_away),
		cmocka_unit_test(test_a_pool_that_does_not_come_back),
		cmocka_unit_test(test_a_service_that_comes_back_as_another),
		cmocka_unit_test(test_answers_cut_at_every_byte),
		cmocka_unit_test(test_open_says_at_once_that_the_service_hung_up),
		cmocka_unit_test(test_a_service_that_always_hangs_up),
		cmocka_unit_test(test_what_must_not_be_sent_twice),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_answers_in_another_order),
		cmocka_unit_test(test_threads_on_a_connection_that_ends_often),
		cmocka_unit_test(test_sender_and_reader_lose_the_connection),
		cmocka_unit_test(test_threads_whose_deadlines_pass),
		cmocka_unit_test(test_a_slow_call_holds_up_nobody),
		cmocka_unit_test(test_many_open_at_once),
		cmocka_unit_test(test_each_thread_has_its_own_text),
		cmocka_unit_test(test_a_cancelled_thread_finishes_its_call),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_beside_a_call),
		cmocka_unit_test(test_close_before_its_pools),
	};

	return cmocka_run_group_tests_name("zclient_link", tests, NULL, NULL);
}
