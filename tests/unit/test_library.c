/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library against the real service: every public function, and a service that is killed.
 *
 * Run by meson. Starts $ZCACHED, or the zcached of the same build (../daemon beside this program),
 * on a socket in a folder of its own, once for each test; without one the test is skipped (77).
 * The service's faults are looked for in tests/integration/; this is about the library's side.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <zclient.h>

#define SEED	0x5eed0004u
#define PAGE	4096
#define THREADS 4
#define SKIPPED 77

static char program[4096];

struct service {
	char folder[64];
	char socket[96];
	pid_t pid;
	struct zc *zc;
	struct zc_pool *pool;
};

/* ---- the service ---- */

static bool
find_program(void)
{
	const char *given = getenv("ZCACHED");
	ssize_t length = readlink("/proc/self/exe", program, sizeof(program) - 32);
	char *slash;

	if (given) {
		snprintf(program, sizeof(program), "%s", given);
		return access(program, X_OK) == 0;
	}
	if (length < 0)
		return false;
	program[length] = '\0';
	slash = strrchr(program, '/');
	snprintf(slash, 32, "/../daemon/zcached");
	return access(program, X_OK) == 0;
}

static void
start(struct service *service)
{
	service->pid = fork();
	assert_true(service->pid >= 0);
	if (service->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "--foreground", "--socket", service->socket, "--limit",
		      "16M", "--workers", "2", (char *)NULL);
		_exit(127);
	}
}

static void
stop(struct service *service, int signal)
{
	int status;

	kill(service->pid, signal);
	assert_int_equal(waitpid(service->pid, &status, 0), service->pid);
	if (signal == SIGTERM)
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* zc_open does not wait for a service that is not there yet. */
static void
open_when_ready(struct service *service)
{
	int error = -ENOENT;

	for (int i = 0; i < 3000 && (error == -ENOENT || error == -ECONNREFUSED); i++) {
		assert_int_equal(waitpid(service->pid, NULL, WNOHANG), 0);
		error = zc_open(service->socket, 0, &service->zc);
		if (error)
			usleep(10000);
	}
	assert_int_equal(error, 0);
	zc_set_timeout(service->zc, 60000);
	assert_int_equal(zc_pool_open(service->zc, NULL, 0, &service->pool), 0);
}

static int
set_up(void **state)
{
	struct service *service = calloc(1, sizeof(*service));
	const char *folder = getenv("TMPDIR");

	snprintf(service->folder, sizeof(service->folder), "%s/zcached-test-XXXXXX",
		 folder && strlen(folder) < 40 ? folder : "/tmp");
	assert_non_null(mkdtemp(service->folder));
	snprintf(service->socket, sizeof(service->socket), "%s/z.sock", service->folder);
	start(service);
	open_when_ready(service);
	*state = service;
	return 0;
}

static int
tear_down(void **state)
{
	struct service *service = *state;
	char command[128];

	zc_pool_close(&service->pool);
	zc_close(&service->zc);
	stop(service, SIGTERM);
	/* The service may leave a lock file. */
	snprintf(command, sizeof(command), "rm -rf '%s'", service->folder);
	assert_int_equal(system(command), 0);
	free(service);
	return 0;
}

/* ---- pages ---- */

static uint32_t
next_random(uint32_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 17;
	*state ^= *state << 5;
	return *state;
}

/* A page that only `number` has: text-like, random, or one word repeated. */
static void
make_page(uint8_t *page, uint64_t number)
{
	uint32_t random = SEED ^ (uint32_t)(number * 2654435761u);

	if (number % 3 == 0)
		for (size_t i = 0; i < PAGE; i += sizeof(number))
			memcpy(page + i, &number, sizeof(number));
	else
		for (size_t i = 0; i < PAGE; i++)
			page[i] = number % 3 == 1 ? (uint8_t)("etaoin"[next_random(&random) % 6])
						  : (uint8_t)next_random(&random);
	memcpy(page, &number, sizeof(number));
}

static void
assert_page(struct zc_pool *pool, zc_key key, uint64_t number)
{
	uint8_t page[PAGE], back[PAGE];

	make_page(page, number);
	assert_int_equal(zc_get(pool, key, back, sizeof(back)), PAGE);
	assert_memory_equal(page, back, PAGE);
}

static int
put_page(struct zc_pool *pool, zc_key key, uint64_t number, unsigned flags)
{
	uint8_t page[PAGE];

	make_page(page, number);
	return zc_put(pool, key, page, PAGE, flags);
}

static zc_key
key_of(uint64_t object, uint64_t index)
{
	return (zc_key){.object = object, .index = index};
}

static void
test_pages(void **state)
{
	struct service *service = *state;
	struct zc_pool *pool = service->pool;
	char buffer[PAGE];

	assert_int_equal(zc_ping(service->zc), 0);
	for (uint64_t i = 0; i < 300; i++)
		assert_int_equal(put_page(pool, key_of(i % 3, i), i, 0), 0);
	for (uint64_t i = 0; i < 300; i++) {
		assert_page(pool, key_of(i % 3, i), i);
		assert_int_equal(zc_exists(pool, key_of(i % 3, i)), 1);
	}
	assert_int_equal(zc_get(pool, key_of(9, 9), buffer, sizeof(buffer)), -ENOENT);
	assert_int_equal(zc_exists(pool, key_of(9, 9)), 0);
	assert_int_equal(zc_del(pool, key_of(9, 9)), -ENOENT);
	assert_int_equal(zc_get(pool, key_of(0, 0), buffer, PAGE - 1), -EMSGSIZE);
	assert_int_equal(zc_del(pool, key_of(0, 0)), 0);
	assert_int_equal(zc_get(pool, key_of(0, 0), buffer, sizeof(buffer)), -ENOENT);
	assert_int_equal(zc_del_object(pool, 1), 100);
	assert_int_equal(zc_exists(pool, key_of(1, 1)), 0);
	assert_page(pool, key_of(2, 2), 2);
	assert_int_equal(zc_flush(pool), 199);
	assert_int_equal(zc_exists(pool, key_of(2, 2)), 0);
}

static void
test_values_of_every_length(void **state)
{
	struct service *service = *state;
	uint8_t page[PAGE], back[PAGE];

	make_page(page, 1);
	for (size_t length = 1; length <= PAGE; length += length < 40 ? 1 : 61) {
		zc_key key = {UINT64_MAX, length};

		assert_int_equal(zc_put(service->pool, key, page, length, 0), 0);
		assert_int_equal(zc_get(service->pool, key, back, sizeof(back)), length);
		assert_memory_equal(page, back, length);
	}
}

/* ---- pools ---- */

static void
test_pools(void **state)
{
	struct service *service = *state;
	struct zc_pool_info info = {.struct_size = sizeof(info)}, list[8] = {{0}};
	struct zc_pool *other, *same;
	char buffer[PAGE];
	int count;

	assert_int_equal(zc_pool_info(service->pool, &info), 0);
	assert_string_equal(info.name, "default");
	assert_int_equal(info.page_size, PAGE);
	assert_true(info.limit > 0 && info.pool_id != 0 && info.codec[0]);
	assert_int_equal(zc_pool_open(service->zc, "other", 0, &other), -ENOENT);
	assert_true(zc_error_text(service->zc)[0]);
	info = (struct zc_pool_info){
		.struct_size = sizeof(info), .name = "other", .limit = 8 << 20};
	assert_int_equal(zc_pool_create(service->zc, &info), 0);
	assert_int_equal(zc_pool_create(service->zc, &info), -EEXIST);
	assert_int_equal(zc_pool_open(service->zc, "other", 0, &other), 0);
	list[0].struct_size = sizeof(list[0]);
	count = zc_pool_list(service->zc, list, 8);
	assert_int_equal(count, 2);
	assert_true(strcmp(list[0].name, "other") == 0 || strcmp(list[1].name, "other") == 0);
	assert_int_equal(put_page(other, key_of(1, 1), 5, 0), 0);
	assert_int_equal(zc_exists(service->pool, key_of(1, 1)), 0);
	/* Opening and closing costs nothing that runs out. */
	for (int i = 0; i < 200; i++) {
		assert_int_equal(zc_pool_open(service->zc, "other", 0, &same), 0);
		assert_page(same, key_of(1, 1), 5);
		zc_pool_close(&same);
	}
	assert_int_equal(zc_pool_destroy(service->zc, "other"), 0);
	assert_int_equal(zc_get(other, key_of(1, 1), buffer, sizeof(buffer)), -EBADF);
	assert_int_equal(put_page(other, key_of(1, 1), 5, 0), -EBADF);
	assert_int_equal(zc_pool_destroy(service->zc, "other"), -ENOENT);
	zc_pool_close(&other);
	assert_int_equal(zc_pool_destroy(service->zc, "default"), -EBUSY);
}

/* A page of one word costs nothing; when the pool is full, what would replace it does not fit. */
static void
test_a_full_pool(void **state)
{
	struct service *service = *state;
	struct zc_pool *pool = service->pool;
	const zc_key old = {2, 0};
	uint64_t count = 0;
	int error;

	assert_int_equal(put_page(pool, old, 0, 0), 0);
	do
		error = put_page(pool, key_of(1, count), count * 3 + 2, 0);
	while (!error && ++count < 10000);
	assert_int_equal(error, -ENOSPC);
	assert_page(pool, key_of(1, count - 1), (count - 1) * 3 + 2);
	assert_int_equal(put_page(pool, old, 2, ZC_KEEP_OLD), -ENOSPC);
	assert_page(pool, old, 0);
	assert_int_equal(put_page(pool, old, 2, 0), -ENOSPC);
	assert_int_equal(zc_exists(pool, old), 0);
	assert_int_equal(zc_del(pool, key_of(1, 0)), 0);
	assert_int_equal(put_page(pool, old, 2, 0), 0);
	assert_page(pool, old, 2);
}

/* ---- statistics and compaction ---- */

static void
test_stats(void **state)
{
	struct service *service = *state;
	struct zc_stats stats = {.struct_size = sizeof(stats)};
	struct zc_service_stats numbers = {.struct_size = sizeof(numbers)};
	struct zc_class *classes = calloc(512, sizeof(*classes));
	uint64_t used = 0;
	char buffer[PAGE];
	int count;

	for (uint64_t i = 0; i < 99; i++)
		assert_int_equal(put_page(service->pool, key_of(1, i), i, 0), 0);
	assert_page(service->pool, key_of(1, 1), 1);
	assert_int_equal(zc_get(service->pool, key_of(2, 0), buffer, sizeof(buffer)), -ENOENT);
	assert_int_equal(zc_del(service->pool, key_of(1, 98)), 0);
	assert_int_equal(zc_stats(service->pool, &stats), 0);
	assert_int_equal(stats.entries, 98);
	assert_int_equal(stats.logical_bytes, 98 * PAGE);
	assert_int_equal(stats.same_filled, 33);
	assert_int_equal(stats.puts, 99);
	assert_int_equal(stats.hits, 1);
	assert_int_equal(stats.misses, 1);
	assert_int_equal(stats.deletes, 1);
	assert_true(stats.resident_bytes > 0 && stats.resident_bytes <= stats.limit_bytes);
	assert_int_equal(zc_service_stats(service->zc, &numbers), 0);
	assert_true(numbers.version[0] && numbers.boot_id);
	assert_int_equal(numbers.workers, 2);
	assert_int_equal(numbers.connections, 1);
	classes[0].struct_size = sizeof(*classes);
	count = zc_classes(service->pool, classes, 512);
	assert_true(count > 0 && count <= 512);
	for (int i = 0; i < count; i++)
		used += classes[i].objects_used;
	assert_int_equal(used, 98 - 33);
	assert_int_equal(zc_classes(service->pool, NULL, 0), count);
	free(classes);
}

static void
test_compaction(void **state)
{
	struct service *service = *state;
	struct zc_compaction estimate = {.struct_size = sizeof(estimate)};
	struct zc_compaction compaction = {.struct_size = sizeof(compaction)};
	int tries = 0;

	for (uint64_t i = 0; i < 900; i++)
		assert_int_equal(put_page(service->pool, key_of(1, i), i * 3 + 1, 0), 0);
	for (uint64_t i = 0; i < 900; i++)
		if (i % 5 < 3)
			assert_int_equal(zc_del(service->pool, key_of(1, i)), 0);
	assert_int_equal(zc_compact_start(service->pool, ZC_ESTIMATE, &estimate), 0);
	assert_int_equal(estimate.running, 0);
	assert_int_equal(zc_compact_start(service->pool, 0, &compaction), 0);
	while (compaction.running && tries++ < 1000) {
		usleep(10000);
		assert_int_equal(zc_compact_status(service->pool, &compaction), 0);
	}
	assert_int_equal(zc_compact_status(service->pool, &compaction), 0);
	assert_int_equal(compaction.running, 0);
	assert_true(compaction.generation > 0);
	for (uint64_t i = 0; i < 900; i++)
		if (i % 5 >= 3)
			assert_page(service->pool, key_of(1, i), i * 3 + 1);
}

/* ---- a service that is killed, and who uses it meanwhile ---- */

static void
test_the_service_is_killed_and_started(void **state)
{
	struct service *service = *state;
	char buffer[PAGE];
	int got;

	assert_int_equal(put_page(service->pool, key_of(1, 1), 1, 0), 0);
	stop(service, SIGKILL);
	zc_set_timeout(service->zc, 50);
	assert_int_equal(put_page(service->pool, key_of(1, 2), 2, 0), -EHOSTDOWN);
	zc_set_timeout(service->zc, 60000);
	start(service);
	assert_int_equal(put_page(service->pool, key_of(1, 2), 2, 0), 0);
	assert_page(service->pool, key_of(1, 2), 2);
	/* What was stored before is there or is not; it is nothing else. */
	got = zc_get(service->pool, key_of(1, 1), buffer, sizeof(buffer));
	if (got != -ENOENT)
		assert_page(service->pool, key_of(1, 1), 1);
}

struct worker {
	struct service *service;
	pthread_t thread;
	uint64_t number;
	atomic_bool *stop;
	int wrong;
	int rounds;
};

/* Puts and gets pages of its own object. A miss is right only if the service lost its memory. */
static void *
work(void *argument)
{
	struct worker *worker = argument;
	uint8_t page[PAGE], back[PAGE];

	for (uint64_t i = 0; !atomic_load(worker->stop); i++) {
		zc_key key = key_of(worker->number, i % 50);
		int put, got;

		make_page(page, i * THREADS + worker->number);
		put = zc_put(worker->service->pool, key, page, PAGE, 0);
		got = zc_get(worker->service->pool, key, back, PAGE);
		worker->wrong += put != 0 || (got != PAGE && got != -ENOENT);
		worker->wrong += got == PAGE && memcmp(page, back, PAGE) != 0;
		worker->rounds++;
	}
	return NULL;
}

static void
test_threads_while_the_service_is_killed(void **state)
{
	struct service *service = *state;
	struct worker workers[THREADS];
	atomic_bool done = false;

	for (uint64_t i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){.service = service, .number = i, .stop = &done};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		usleep(100000);
		stop(service, i % 2 ? SIGTERM : SIGKILL);
		start(service);
	}
	assert_int_equal(zc_ping(service->zc), 0);
	atomic_store(&done, true);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].wrong, 0);
		assert_true(workers[i].rounds > 0);
	}
}

static void
test_another_process(void **state)
{
	struct service *service = *state;
	int status;
	pid_t pid;

	assert_int_equal(put_page(service->pool, key_of(1, 1), 1, 0), 0);
	pid = fork();
	if (pid == 0) {
		uint8_t page[PAGE], back[PAGE];
		struct zc_pool *pool;
		struct zc *zc;

		make_page(page, 1);
		if (zc_ping(service->zc) != -EPERM || zc_open(service->socket, 0, &zc) ||
		    zc_pool_open(zc, NULL, 0, &pool))
			_exit(1);
		if (zc_get(pool, key_of(1, 1), back, PAGE) != PAGE || memcmp(page, back, PAGE) != 0)
			_exit(2);
		_exit(put_page(pool, key_of(1, 2), 2, 0) ? 3 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_page(service->pool, key_of(1, 2), 2);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pages),
		TEST(test_values_of_every_length),
		TEST(test_pools),
		TEST(test_a_full_pool),
		TEST(test_stats),
		TEST(test_compaction),
		TEST(test_the_service_is_killed_and_started),
		TEST(test_threads_while_the_service_is_killed),
		TEST(test_another_process),
	};

	if (!find_program()) {
		printf("skipped: no zcached ($ZCACHED, or of this build)\n");
		return SKIPPED;
	}
	return cmocka_run_group_tests_name("library", tests, NULL, NULL);
}
