/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/holes.c: a reader with nothing but the pool's read-only descriptors fills every hole; what is
 * punched holds no value, also while threads put, delete, trim and compact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "page_maker.h"
#include "pool.h"

#define LIMIT (48ULL << 20)

static struct pool *
make_pool(uint32_t page_size)
{
	struct pool_config config = {.name = "holes",
				     .kind = ZC_KIND_STORE,
				     .page_size = page_size,
				     .limit = LIMIT,
				     .codec = {.codec = ZC_CODEC_LZ4, .level = 1}};
	struct pool *pool;

	assert_int_equal(0, pool_create(&config, NULL, &pool));
	return pool;
}

static int
data_file(struct pool *pool)
{
	int fd[POOL_FILES];

	assert_int_equal(0, pool_read_only(pool, fd));
	return fd[2];
}

/* Reads a byte of every page, as a client can. Returns the pages. */
static uint64_t
touch_everything(int fd)
{
	struct stat status;
	const char *map;

	assert_int_equal(0, fstat(fd, &status));
	if (status.st_size == 0)
		return 0;
	map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(MAP_FAILED, map);
	/* Relaxed: others write it; what is read is of no interest. */
	for (off_t at = 0; at < status.st_size; at += ZC_OS_PAGE_SIZE)
		load_relaxed(map + at);
	munmap((void *)map, (size_t)status.st_size);
	return (uint64_t)status.st_size / ZC_OS_PAGE_SIZE;
}

static void
punch_everything(struct pool *pool)
{
	struct zs_holes holes;

	zs_holes_begin(&holes);
	while (zs_holes_punch(pool_allocator(pool), &holes))
		;
}

/* ---- values that say whose they are ---- */

struct user {
	struct pool *pool;
	struct pool_context *context;
	uint64_t object;
	uint32_t page_size;
	uint32_t *seed_of; /* by index; 0: not there */
	unsigned keys;
	unsigned char *value, *back;
};

static void
user_open(struct user *user, struct pool *pool, unsigned number, unsigned keys)
{
	*user = (struct user){.pool = pool,
			      .object = number,
			      .page_size = pool_config(pool)->page_size,
			      .seed_of = calloc(keys, sizeof(uint32_t)),
			      .keys = keys,
			      .value = malloc(ZC_PAGE_SIZE_MAX),
			      .back = malloc(ZC_PAGE_SIZE_MAX)};
	assert_int_equal(0, pool_context_create(number, &user->context));
}

static void
user_close(struct user *user)
{
	pool_context_destroy(&user->context);
	free(user->seed_of);
	free(user->value);
	free(user->back);
}

/* Any length and kind, of the seed alone. */
static uint32_t
value_of(const struct user *user, uint32_t seed)
{
	uint64_t random = seed;
	uint32_t length = 1 + (uint32_t)(random_next(&random) % user->page_size);

	make_value(user->value, length, (enum value_kind)(random_next(&random) % VALUE_KINDS),
		   seed);
	return length;
}

static void
user_put(struct user *user, unsigned index, uint32_t seed)
{
	struct page_key key = {user->object, index};
	uint32_t length = value_of(user, seed);

	assert_int_equal(0, pool_put(user->pool, user->context, &key, user->value, length, 0));
	user->seed_of[index] = seed;
}

static void
user_delete(struct user *user, unsigned index)
{
	struct page_key key = {user->object, index};

	assert_int_equal(user->seed_of[index] ? 0 : -ENOENT,
			 pool_delete(user->pool, user->context, &key));
	user->seed_of[index] = 0;
}

static void
user_check(struct user *user, unsigned index)
{
	struct page_key key = {user->object, index};
	int length = pool_get(user->pool, user->context, &key, user->back, ZC_PAGE_SIZE_MAX);

	if (!user->seed_of[index]) {
		assert_int_equal(-ENOENT, length);
		return;
	}
	assert_int_equal(value_of(user, user->seed_of[index]), length);
	assert_memory_equal(user->value, user->back, length);
}

static void
check_all(struct user *user)
{
	char why[256] = "";

	for (unsigned index = 0; index < user->keys; index++)
		user_check(user, index);
	if (pool_check(user->pool, user->context, why, sizeof(why)))
		fail_msg("%s", why);
}

/* ---- one thread ---- */

static void
test_read_only(void **state)
{
	struct pool *pool = make_pool(4096);
	int fd[POOL_FILES];

	(void)state;
	assert_int_equal(0, pool_read_only(pool, fd));
	for (unsigned i = 0; i < POOL_FILES; i++) {
		assert_int_equal(O_RDONLY, fcntl(fd[i], F_GETFL) & O_ACCMODE);
		assert_int_equal(FD_CLOEXEC, fcntl(fd[i], F_GETFD));
		assert_ptr_equal(MAP_FAILED,
				 mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd[i], 0));
		assert_int_equal(-1, ftruncate(fd[i], 0));
		assert_int_equal(
			-1, fallocate(fd[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096));
		assert_int_equal(-1, fcntl(fd[i], F_ADD_SEALS, F_SEAL_WRITE));
	}
	pool_destroy(&pool);
	assert_null(pool);
}

static void
touch_and_punch(uint32_t page_size)
{
	struct pool *pool = make_pool(page_size);
	struct allocator *allocator = pool_allocator(pool);
	unsigned keys = 2000 * 4096 / page_size;
	struct user user;

	user_open(&user, pool, 0, keys);
	for (unsigned index = 0; index < keys; index++)
		user_put(&user, index, index + 1);
	for (unsigned index = 0; index < keys; index++)
		if (index % 3)
			user_delete(&user, index);
	assert_int_equal(0, zs_excess(allocator));
	zs_trim(allocator, UINT32_MAX);
	assert_int_equal(0, zs_excess(allocator));

	assert_true(touch_everything(data_file(pool)) > SEGMENT_SLACK_MIN / ZC_OS_PAGE_SIZE);
	assert_true(zs_excess(allocator) > SEGMENT_SLACK_MIN / ZC_OS_PAGE_SIZE / 2);
	punch_everything(pool);
	assert_int_equal(0, zs_excess(allocator));
	check_all(&user);
	/* and all of it can be used as before */
	for (unsigned index = 0; index < keys; index++)
		user_put(&user, index, index + 7);
	check_all(&user);
	user_close(&user);
	pool_destroy(&pool);
}

static void
test_touch_and_punch(void **state)
{
	(void)state;
	touch_and_punch(4096);
	touch_and_punch(65536);
}

static void
test_of_nothing(void **state)
{
	struct pool *pool = make_pool(4096);

	(void)state;
	punch_everything(pool);
	assert_int_equal(0, zs_excess(pool_allocator(pool)));
	pool_destroy(&pool);
}

/* ---- threads ---- */

#define WRITERS 2u
#define ROUNDS	4u
#define KEYS	600u

static void *
write_and_delete(void *arg)
{
	struct user *user = arg;
	uint64_t random = 17 + user->object;

	for (unsigned step = 0; step < ROUNDS * KEYS; step++) {
		unsigned index = (unsigned)(random_next(&random) % user->keys);

		if (random_next(&random) % 3)
			user_put(user, index, (uint32_t)random_next(&random) | 1);
		else
			user_delete(user, index);
		user_check(user, (unsigned)(random_next(&random) % user->keys));
		if (step % 64 == 0)
			zs_trim(pool_allocator(user->pool), UINT32_MAX);
	}
	return NULL;
}

struct toucher {
	int fd;
	uint32_t stop; /* atomic flag */
};

static void *
touch_again_and_again(void *arg)
{
	struct toucher *toucher = arg;

	while (!load_relaxed(&toucher->stop))
		touch_everything(toucher->fd);
	return NULL;
}

static bool
always(void *arg)
{
	(void)arg;
	return true;
}

/* The keeper's part: holes, trim and compaction are one thread's. */
static void
keep(struct pool *pool)
{
	struct compact_result result = {0};
	struct allocator *allocator = pool_allocator(pool);

	punch_everything(pool);
	for (unsigned class = 0; class < allocator_classes(allocator); class ++)
		compact_class(allocator, pool_index(pool), class, always, NULL, &result);
	zs_trim(allocator, UINT32_MAX);
}

static void
test_among_others(void **state)
{
	struct pool *pool = make_pool(4096);
	struct toucher toucher = {.fd = data_file(pool)};
	struct user user[WRITERS];
	pthread_t writer[WRITERS], reader;

	(void)state;
	assert_int_equal(0, pthread_create(&reader, NULL, touch_again_and_again, &toucher));
	for (unsigned i = 0; i < WRITERS; i++) {
		user_open(&user[i], pool, i, KEYS);
		assert_int_equal(0, pthread_create(&writer[i], NULL, write_and_delete, &user[i]));
	}
	for (unsigned i = 0; i < WRITERS; i++)
		while (pthread_tryjoin_np(writer[i], NULL) == EBUSY)
			keep(pool);
	store_relaxed(&toucher.stop, 1);
	pthread_join(reader, NULL);
	punch_everything(pool);
	assert_int_equal(0, zs_excess(pool_allocator(pool)));
	for (unsigned i = 0; i < WRITERS; i++) {
		check_all(&user[i]);
		user_close(&user[i]);
	}
	pool_destroy(&pool);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read_only),
		cmocka_unit_test(test_of_nothing),
		cmocka_unit_test(test_touch_and_punch),
		cmocka_unit_test(test_among_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
