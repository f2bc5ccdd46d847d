/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library's ways through shared memory: direct reads, rings, and the socket where there is neither. Same answers
 * on all; what is mapped, when, and when no more; restarts, forks, threads.
 *
 * Against the service of fake_engine.h in this process. Batches, queues and a service that lies are in
 * test_zclient_shm_batch.c, _queue.c and _hostile.c.
 */
#include "shm_fixture.h"

#include <sys/wait.h>

#define SEED 0x5eed0006u

/* ---- the ways ---- */

static void
test_puts_by_ring_gets_direct(void **state)
{
	struct fixture f;
	struct zc_paths paths;

	(void)state;
	fixture_open(&f);
	for (uint64_t i = 0; i < 200; i++)
		put_page(&f, i, i * 7);
	for (uint64_t i = 0; i < 200; i++) {
		expect_page(&f, i, i * 7);
		assert_int_equal(zc_exists(f.pool, key_of(i)), 1);
	}
	assert_int_equal(zc_get(f.pool, key_of(500), f.back, PAGE), -ENOENT);
	assert_int_equal(zc_exists(f.pool, key_of(500)), 0);
	assert_int_equal(zc_del(f.pool, key_of(3)), 0);
	assert_int_equal(zc_del(f.pool, key_of(3)), -ENOENT);
	assert_int_equal(zc_get(f.pool, key_of(3), f.back, PAGE), -ENOENT);
	assert_int_equal(zc_get(f.pool, key_of(4), f.back, PAGE - 1), -EMSGSIZE);
	paths = paths_of(f.zc);
	assert_int_equal(paths.direct_gets, 203);
	assert_int_equal(paths.direct_exists, 201);
	assert_int_equal(paths.ring_puts, 200);
	assert_int_equal(paths.ring_dels, 2);
	assert_int_equal(paths.socket_gets + paths.socket_puts + paths.socket_dels +
				 paths.socket_exists + paths.ring_gets + paths.ring_exists +
				 paths.direct_retries,
			 0);
	assert_int_equal(atomic_load(&f.engine->maps), 1);
	assert_int_equal(atomic_load(&f.engine->channels_opened), 1);
	fixture_close(&f);
}

static void
test_without_shared_memory(void **state)
{
	struct zc_paths paths;
	struct fixture f;
	struct zc_pool *pool;
	struct zc *zc;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 11);
	for (int by_flag = 0; by_flag < 2; by_flag++) {
		setenv("ZC_NO_SHM", by_flag ? "0" : "1", 1);
		assert_int_equal(zc_open(f.engine->fake->path, by_flag ? ZC_NO_SHM : 0, &zc), 0);
		assert_int_equal(zc_pool_open(zc, NULL, 0, &pool), 0);
		assert_int_equal(zc_put(pool, key_of(2), "short", 5, 0), 0);
		assert_int_equal(zc_get(pool, key_of(1), f.back, PAGE), PAGE);
		assert_int_equal(zc_exists(pool, key_of(2)), 1);
		assert_int_equal(zc_del(pool, key_of(2)), 0);
		paths = paths_of(zc);
		assert_int_equal(paths.socket_puts, 1);
		assert_int_equal(paths.socket_gets, 1);
		assert_int_equal(paths.socket_exists, 1);
		assert_int_equal(paths.socket_dels, 1);
		assert_int_equal(paths.direct_gets + paths.ring_puts, 0);
		zc_pool_close(&pool);
		zc_close(&zc);
		unsetenv("ZC_NO_SHM");
	}
	assert_int_equal(atomic_load(&f.engine->maps), 1);
	fixture_close(&f);
}

/* Each half of what the service shares is of use without the other. */
static void
test_half_of_shared_memory(void **state)
{
	for (int map = 0; map < 2; map++) {
		struct zc_paths paths;
		struct fixture f;
		struct zc_pool *pool;
		struct zc *zc;

		(void)state;
		fixture_open(&f);
		atomic_store(&f.engine->no_map, !map);
		atomic_store(&f.engine->no_channel, map);
		assert_int_equal(zc_open(f.engine->fake->path, 0, &zc), 0);
		assert_int_equal(zc_pool_open(zc, NULL, 0, &pool), 0);
		for (uint64_t i = 0; i < 20; i++)
			assert_int_equal(zc_put(pool, key_of(i), "value", 5, 0), 0);
		for (uint64_t i = 0; i < 20; i++) {
			assert_int_equal(zc_get(pool, key_of(i), f.back, PAGE), 5);
			assert_memory_equal(f.back, "value", 5);
			assert_int_equal(zc_exists(pool, key_of(i)), 1);
		}
		assert_int_equal(zc_get(pool, key_of(1), f.back, 4), -EMSGSIZE);
		assert_int_equal(zc_del(pool, key_of(1)), 0);
		assert_int_equal(zc_exists(pool, key_of(1)), 0);
		paths = paths_of(zc);
		assert_int_equal(map ? paths.socket_puts : paths.ring_puts, 20);
		assert_int_equal(map ? paths.direct_gets : paths.ring_gets, 21);
		assert_int_equal(map ? paths.direct_exists : paths.ring_exists, 21);
		assert_int_equal(map ? paths.socket_dels : paths.ring_dels, 1);
		zc_pool_close(&pool);
		zc_close(&zc);
		fixture_close(&f);
	}
}

/* ---- the same answers on all ways ---- */

#define MODEL_KEYS 300
#define WAYS	   4

struct model_value {
	uint64_t seed;
	uint32_t length; /* 0: not there */
	enum value_kind kind;
};

struct model {
	struct fixture f;
	struct zc *zc[WAYS]; /* shared memory; socket; rings only; direct reads only */
	struct zc_pool *pool[WAYS];
	struct model_value value[MODEL_KEYS];
	uint64_t random;
};

static void
model_open(struct model *m, uint32_t page_size, const char *codec)
{
	memset(m, 0, sizeof(*m));
	m->random = SEED;
	fixture_open_pages(&m->f, page_size, codec);
	for (int way = 0; way < WAYS; way++) {
		atomic_store(&m->f.engine->no_map, way == 2);
		atomic_store(&m->f.engine->no_channel, way == 3);
		assert_int_equal(
			zc_open(m->f.engine->fake->path, way == 1 ? ZC_NO_SHM : 0, &m->zc[way]), 0);
		assert_int_equal(zc_pool_open(m->zc[way], NULL, 0, &m->pool[way]), 0);
		/* The channel is asked for at the first put. */
		assert_int_equal(zc_put(m->pool[way], key_of(0), "first", 5, 0), 0);
		assert_int_equal(zc_del(m->pool[way], key_of(0)), 0);
	}
}

static void
model_close(struct model *m)
{
	for (int way = 0; way < WAYS; way++) {
		zc_pool_close(&m->pool[way]);
		zc_close(&m->zc[way]);
	}
	fixture_close(&m->f);
}

static void
model_put(struct model *m, unsigned number, struct zc_pool *pool, uint32_t page_size)
{
	struct model_value *value = &m->value[number];

	value->seed = random_next(&m->random);
	value->kind = random_next(&m->random) % VALUE_KINDS;
	value->length = page_size;
	if (random_next(&m->random) % 4 == 0)
		value->length = 1 + (uint32_t)(random_next(&m->random) % page_size);
	make_value(m->f.value, value->length, value->kind, value->seed);
	assert_int_equal(zc_put(pool, key_of(number), m->f.value, value->length, 0), 0);
}

static void
model_get(struct model *m, unsigned number, struct zc_pool *pool, uint32_t page_size)
{
	struct model_value *value = &m->value[number];
	int length;

	memset(m->f.back, 0xee, page_size);
	length = zc_get(pool, key_of(number), m->f.back, page_size);
	assert_int_equal(length, value->length ? (int)value->length : -ENOENT);
	if (value->length)
		make_value(m->f.value, value->length, value->kind, value->seed);
	assert_memory_equal(m->f.back, m->f.value, value->length);
	for (uint32_t i = value->length; i < page_size; i++)
		assert_int_equal(m->f.back[i], 0xee);
}

static void
model_step(struct model *m, uint32_t page_size)
{
	unsigned number = (unsigned)(random_next(&m->random) % MODEL_KEYS);
	struct zc_pool *pool = m->pool[random_next(&m->random) % WAYS];

	switch (random_next(&m->random) % 8) {
	case 0:
	case 1:
	case 2:
		return model_put(m, number, pool, page_size);
	case 3:
		assert_int_equal(zc_exists(pool, key_of(number)), m->value[number].length > 0);
		return;
	case 4:
		assert_int_equal(zc_del(pool, key_of(number)),
				 m->value[number].length ? 0 : -ENOENT);
		m->value[number].length = 0;
		return;
	default:
		return model_get(m, number, pool, page_size);
	}
}

static void
test_the_same_answers_on_all_ways(void **state)
{
	static const struct {
		uint32_t page_size;
		const char *codec;
	} pools[] = {{4096, "lz4"}, {4096, "zstd:1"}, {16384, "lz4"}, {65536, "lz4"}};
	struct model *m = malloc(sizeof(*m));

	(void)state;
	for (unsigned i = 0; i < sizeof(pools) / sizeof(*pools); i++) {
		struct zc_paths paths[WAYS];

		model_open(m, pools[i].page_size, pools[i].codec);
		for (unsigned step = 0; step < 4000; step++)
			model_step(m, pools[i].page_size);
		for (int way = 0; way < WAYS; way++)
			paths[way] = paths_of(m->zc[way]);
		assert_true(paths[0].direct_gets && paths[0].ring_puts && !paths[0].socket_gets);
		assert_true(paths[1].socket_gets && paths[1].socket_puts && !paths[1].ring_puts);
		assert_true(paths[2].ring_gets && paths[2].ring_exists && !paths[2].direct_gets);
		assert_true(paths[3].direct_gets && paths[3].socket_puts && !paths[3].ring_puts);
		model_close(m);
	}
	free(m);
}

/* ---- mappings ---- */

/* The files grow by 16 MiB at least: what lies behind the end of a mapping is found all the same. */
static void
test_a_pool_that_grows(void **state)
{
	struct fixture f;
	uint64_t random = SEED;

	(void)state;
	fixture_open(&f);
	for (uint64_t i = 0; i < 6000; i++) {
		fill_random(f.value, PAGE, &random);
		memcpy(f.value, &i, sizeof(i));
		assert_int_equal(zc_put(f.pool, key_of(i), f.value, PAGE, 0), 0);
		if (i % 100 == 99)
			assert_int_equal(zc_get(f.pool, key_of(i), f.back, PAGE), PAGE);
	}
	for (uint64_t i = 0; i < 6000; i++) {
		assert_int_equal(zc_get(f.pool, key_of(i), f.back, PAGE), PAGE);
		assert_memory_equal(f.back, &i, sizeof(i));
	}
	assert_int_equal(paths_of(f.zc).direct_gets, 6060);
	assert_int_equal(paths_of(f.zc).direct_retries, 0);
	fixture_close(&f);
}

static void
test_nothing_is_left(void **state)
{
	unsigned descriptors = open_descriptors(), mappings = shared_mappings();
	struct fixture f;

	(void)state;
	for (int round = 0; round < 3; round++) {
		fixture_open(&f);
		put_page(&f, 1, 1);
		expect_page(&f, 1, 1);
		engine_die(f.engine);
		engine_return(f.engine, round == 1);
		put_page(&f, 2, 2);
		expect_page(&f, 2, 2);
		fixture_close(&f);
		assert_int_equal(open_descriptors(), descriptors);
		assert_int_equal(shared_mappings(), mappings);
	}
}

/* What the service finds damaged, it has to see: to count it, and to mark it. */
static void
test_damage_goes_to_the_service(void **state)
{
	struct fixture f;
	struct pool_stats stats;
	const struct pool_view *view;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	view = pool_view(f.engine->pool);
	pthread_mutex_lock(&f.engine->mutex);
	for (uint64_t i = 0; i < PAGE; i++)
		((char *)view->data)[i] ^= 0x10;
	pthread_mutex_unlock(&f.engine->mutex);
	assert_int_equal(zc_get(f.pool, key_of(1), f.back, PAGE), -EBADMSG);
	assert_int_equal(zc_exists(f.pool, key_of(1)), -EBADMSG);
	pool_stats(f.engine->pool, &stats);
	assert_int_equal(stats.count.damaged, 1);
	assert_int_equal(stats.poisoned, 1);
	assert_int_equal(paths_of(f.zc).ring_gets, 1);
	assert_int_equal(paths_of(f.zc).direct_retries, 2);
	put_page(&f, 1, 2);
	expect_page(&f, 1, 2);
	fixture_close(&f);
}

/* ---- a service that goes and comes ---- */

static void
test_restart_with_the_same_pool(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	for (int i = 2; i < 6; i++) {
		engine_die(f.engine);
		engine_return(f.engine, false);
		put_page(&f, (uint64_t)i, (uint64_t)i);
		for (uint64_t j = 1; j <= (uint64_t)i; j++)
			expect_page(&f, j, j);
	}
	assert_int_equal(atomic_load(&f.engine->maps), 5);
	/* Of each connection the first put goes by the socket, or none if nothing was noticed before. */
	assert_true(paths_of(f.zc).direct_gets >= 10);
	fixture_close(&f);
}

/* The old pool's header says LIVE for ever. */
static void
test_no_get_from_a_dead_service(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	expect_page(&f, 1, 1);
	engine_die(f.engine);
	engine_return(f.engine, true);
	usleep(50000);
	assert_int_equal(zc_get(f.pool, key_of(1), f.back, PAGE), -ENOENT);
	put_page(&f, 1, 2);
	expect_page(&f, 1, 2);
	assert_true(paths_of(f.zc).direct_gets >= 2);
	fixture_close(&f);
}

static void
test_a_service_that_stays_away(void **state)
{
	uint64_t start;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	zc_set_timeout(f.zc, 100);
	engine_die(f.engine);
	start = now_ms();
	assert_int_equal(zc_put(f.pool, key_of(1), f.value, PAGE, 0), -EHOSTDOWN);
	assert_true(now_ms() - start + 1 >= 100);
	assert_int_equal(zc_get(f.pool, key_of(1), f.back, PAGE), -EHOSTDOWN);
	engine_return(f.engine, false);
	zc_set_timeout(f.zc, 0);
	expect_page(&f, 1, 1);
	fixture_close(&f);
}

static atomic_int ring_deaths;

/* Answers nothing; the socket is cut instead. */
static bool
die_in_ring(struct fake_channel *channel, unsigned ring, const struct channel_request *request)
{
	(void)ring;
	(void)request;
	if (atomic_fetch_sub(&ring_deaths, 1) <= 0)
		return false;
	shutdown(channel->peer->fd, SHUT_RDWR);
	return true;
}

static void
test_a_request_in_flight_is_sent_again(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	atomic_store(&f.engine->ring_hook, die_in_ring);
	for (uint64_t i = 0; i < 10; i++) {
		put_page(&f, 100, i);
		atomic_store(&ring_deaths, 1);
		put_page(&f, i, i + 1);
		assert_true(atomic_load(&ring_deaths) <= 0);
		expect_page(&f, i, i + 1);
	}
	assert_true(paths_of(f.zc).ring_puts >= 5);
	fixture_close(&f);
}

/* ---- deadlines ---- */

static void
test_a_stalled_service(void **state)
{
	uint64_t start;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	atomic_store(&f.engine->stalled, true);
	zc_set_timeout(f.zc, 20);
	/* More than there are slots: those of requests that were given up stay the service's. */
	start = now_ms();
	for (uint64_t i = 0; i < 70; i++) {
		make_page(f.value, PAGE, i);
		assert_int_equal(zc_put(f.pool, key_of(2), f.value, PAGE, 0), -ETIMEDOUT);
	}
	assert_true(now_ms() - start + 1 >= 70 * 20);
	assert_int_equal(zc_del(f.pool, key_of(1)), -ETIMEDOUT);
	expect_page(&f, 1, 1);
	assert_int_equal(atomic_load(&f.engine->fake->connections), 1);
	atomic_store(&f.engine->stalled, false);
	zc_set_timeout(f.zc, 0);
	/* What was given up is done first, in order. */
	put_page(&f, 2, 1000);
	expect_page(&f, 2, 1000);
	/* The other key's may have found no room in its ring. */
	if (zc_del(f.pool, key_of(1)) != 0)
		assert_int_equal(zc_del(f.pool, key_of(1)), -ENOENT);
	assert_int_equal(zc_get(f.pool, key_of(1), f.back, PAGE), -ENOENT);
	for (uint64_t i = 0; i < 200; i++)
		put_page(&f, 2, i);
	expect_page(&f, 2, 199);
	assert_int_equal(paths_of(f.zc).socket_puts, 0);
	fixture_close(&f);
}

/* ---- threads ---- */

#define THREADS 8

struct worker {
	struct fixture *f;
	pthread_t thread;
	unsigned number;
	unsigned rounds;
	unsigned wrong;
};

static void
work_round(struct worker *w, unsigned round, unsigned char *page, unsigned char *back)
{
	zc_key key = {1000 + w->number, round % 16};
	uint64_t mark = (uint64_t)w->number << 32 | round;

	make_page(page, PAGE, mark);
	w->wrong += zc_put(w->f->pool, key, page, PAGE, 0) != 0;
	w->wrong += zc_get(w->f->pool, key, back, PAGE) != PAGE || memcmp(page, back, PAGE) != 0;
	if (round % 5 == 0) {
		w->wrong += zc_del(w->f->pool, key) != 0;
		w->wrong += zc_exists(w->f->pool, key) != 0;
	}
}

static void *
work(void *argument)
{
	struct worker *w = argument;
	unsigned char *page = malloc(PAGE), *back = malloc(PAGE);

	for (unsigned round = 0; round < w->rounds; round++)
		work_round(w, round, page, back);
	free(page);
	free(back);
	return NULL;
}

static void
work_all(struct fixture *f, unsigned threads, unsigned rounds)
{
	struct worker *w = calloc(threads, sizeof(*w));

	for (unsigned i = 0; i < threads; i++) {
		w[i] = (struct worker){.f = f, .number = i, .rounds = rounds};
		FAKE_CHECK(pthread_create(&w[i].thread, NULL, work, &w[i]) == 0);
	}
	for (unsigned i = 0; i < threads; i++)
		pthread_join(w[i].thread, NULL);
	for (unsigned i = 0; i < threads; i++)
		assert_int_equal(w[i].wrong, 0);
	free(w);
}

static void
test_threads(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	zc_set_timeout(f.zc, 0);
	work_all(&f, THREADS, 400);
	assert_true(paths_of(f.zc).direct_gets > THREADS * 300);
	fixture_close(&f);
}

/* More threads than slots of pages, and than places to read at. */
static void
test_more_threads_than_slots(void **state)
{
	struct fixture f;

	(void)state;
	f.engine = NULL;
	fixture_open(&f);
	f.engine->slots = 3;
	zc_set_timeout(f.zc, 0);
	work_all(&f, 80, 20);
	/* Only those that came while the channel was opened went by the socket. */
	assert_true(paths_of(f.zc).ring_puts > 1000);
	fixture_close(&f);
}

static void *
restart_often(void *argument)
{
	struct fixture *f = argument;

	for (int i = 0; i < 20; i++) {
		usleep(10000);
		engine_die(f->engine);
		engine_return(f->engine, false);
	}
	return NULL;
}

static void
test_threads_and_restarts(void **state)
{
	pthread_t thread;
	struct fixture f;

	(void)state;
	fixture_open(&f);
	zc_set_timeout(f.zc, 0);
	assert_int_equal(pthread_create(&thread, NULL, restart_often, &f), 0);
	for (int i = 0; i < 3; i++) {
		struct worker w[4];

		/* A delete that was done before the connection was lost says so the second time. */
		for (unsigned j = 0; j < 4; j++) {
			w[j] = (struct worker){.f = &f, .number = j, .rounds = 200};
			FAKE_CHECK(pthread_create(&w[j].thread, NULL, work, &w[j]) == 0);
		}
		for (unsigned j = 0; j < 4; j++) {
			pthread_join(w[j].thread, NULL);
			assert_true(w[j].wrong <= 20);
		}
	}
	pthread_join(thread, NULL);
	fixture_close(&f);
}

/* ---- forks ---- */

static int
child_of(struct fixture *f)
{
	bool good = zc_get(f->pool, key_of(1), f->back, PAGE) == -EPERM &&
		    zc_put(f->pool, key_of(1), f->value, PAGE, 0) == -EPERM &&
		    zc_exists(f->pool, key_of(1)) == -EPERM &&
		    zc_get_many(f->pool, &(struct zc_item){.key = key_of(1)}, 1) == -EPERM;
	struct zc_pool *pool;
	struct zc *zc;

	zc_pool_close(&f->pool);
	zc_close(&f->zc);
	good = good && zc_open(f->engine->fake->path, 0, &zc) == 0 &&
	       zc_pool_open(zc, NULL, 0, &pool) == 0 &&
	       zc_get(pool, key_of(1), f->back, PAGE) == PAGE &&
	       zc_put(pool, key_of(2), f->back, PAGE, 0) == 0;
	if (good) {
		good = paths_of(zc).direct_gets == 1 && paths_of(zc).ring_puts == 1;
		zc_pool_close(&pool);
		zc_close(&zc);
	}
	return good ? 0 : 1;
}

static void
test_fork(void **state)
{
	struct fixture f;
	int status;
	pid_t child;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	for (int i = 0; i < 3; i++) {
		child = fork();
		assert_true(child >= 0);
		if (child == 0)
			_exit(child_of(&f));
		for (uint64_t j = 10; j < 60; j++)
			put_page(&f, j, j);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		expect_page(&f, 2, 1);
		for (uint64_t j = 10; j < 60; j++)
			expect_page(&f, j, j);
	}
	fixture_close(&f);
}

static void
test_close_before_its_pools(void **state)
{
	struct fixture f;

	(void)state;
	fixture_open(&f);
	put_page(&f, 1, 1);
	zc_close(&f.zc);
	assert_int_equal(zc_get(f.pool, key_of(1), f.back, PAGE), -EBADF);
	assert_int_equal(zc_put(f.pool, key_of(1), f.value, PAGE, 0), -EBADF);
	assert_int_equal(zc_exists(f.pool, key_of(1)), -EBADF);
	assert_int_equal(zc_put_many(f.pool, &(struct zc_item){.key = key_of(1)}, 1, 0), -EBADF);
	fixture_close(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_puts_by_ring_gets_direct),
		cmocka_unit_test(test_without_shared_memory),
		cmocka_unit_test(test_half_of_shared_memory),
		cmocka_unit_test(test_the_same_answers_on_all_ways),
		cmocka_unit_test(test_a_pool_that_grows),
		cmocka_unit_test(test_nothing_is_left),
		cmocka_unit_test(test_damage_goes_to_the_service),
		cmocka_unit_test(test_restart_with_the_same_pool),
		cmocka_unit_test(test_no_get_from_a_dead_service),
		cmocka_unit_test(test_a_service_that_stays_away),
		cmocka_unit_test(test_a_request_in_flight_is_sent_again),
		cmocka_unit_test(test_a_stalled_service),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_more_threads_than_slots),
		cmocka_unit_test(test_threads_and_restarts),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_close_before_its_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
