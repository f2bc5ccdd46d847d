/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/segment.c: what others may do with the file, how far it grows, and that memory comes
 * and goes page by page, all as the kernel sees it. Kernels that lack a call are played by a
 * seccomp filter in a forked child.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lock.h"
#include "segment.h"

#define PAGE	4096ull
#define MIB	(1ull << 20)
#define RESERVE (256 * MIB)
#define THREADS 4

static int
open_segment(void **state)
{
	struct segment *segment = malloc(sizeof(*segment));

	*state = segment;
	return segment_create(segment, "test", RESERVE);
}

static int
close_segment(void **state)
{
	segment_close(*state);
	free(*state);
	return 0;
}

static uint64_t
file_size(const struct segment *segment)
{
	struct stat status;

	assert_int_equal(fstat(segment->fd, &status), 0);
	return (uint64_t)status.st_size;
}

static void
test_new_file_is_private_sealed_and_empty(void **state)
{
	struct segment *segment = *state;
	struct stat status;
	int seals = fcntl(segment->fd, F_GET_SEALS);

	assert_int_equal(fstat(segment->fd, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(status.st_size, 0);
	assert_int_equal(fcntl(segment->fd, F_GETFD), FD_CLOEXEC);
	assert_true(seals & F_SEAL_SHRINK);
	assert_true(seals & F_SEAL_SEAL);
	assert_false(seals & (F_SEAL_GROW | F_SEAL_WRITE));
	assert_int_equal(fcntl(segment->fd, F_ADD_SEALS, F_SEAL_GROW), -1);
	assert_int_equal(segment_resident(segment), 0);
}

static void
test_growth_is_bounded_and_never_back(void **state)
{
	static const uint64_t needs[] = {1,	      PAGE,	17 * MIB,	 17 * MIB + 1,
					 100 * MIB,   99 * MIB, 150 * MIB + 123, 210 * MIB,
					 RESERVE - 1, RESERVE};
	struct segment *segment = *state;
	uint64_t before = 0;

	for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++) {
		uint64_t need = needs[i];
		uint64_t slack = need / 4 > 16 * MIB ? need / 4 : 16 * MIB;
		uint64_t size;

		assert_int_equal(segment_grow(segment, need), 0);
		size = file_size(segment);
		assert_int_equal(size, segment->size);
		assert_true(size >= need && size >= before && size <= RESERVE);
		assert_true(size == before || size <= need + slack);
		assert_int_equal(size % PAGE, 0);
		before = size;
	}
	assert_int_equal(segment_grow(segment, RESERVE + 1), -ENOSPC);
	assert_int_equal(segment_grow(segment, UINT64_MAX), -ENOSPC);
	assert_int_equal(ftruncate(segment->fd, PAGE), -1);
	assert_int_equal(errno, EPERM);
	assert_int_equal(file_size(segment), RESERVE);
	assert_int_equal(segment_resident(segment), 0);
}

/* The loser of two concurrent calls: the file is longer than it knows, and shrinking is sealed. */
static void
test_growth_adopts_a_longer_file(void **state)
{
	struct segment *segment = *state;
	struct segment stale = *segment;

	assert_int_equal(segment_grow(segment, 100 * MIB), 0);
	assert_int_equal(segment_grow(&stale, PAGE), 0);
	assert_int_equal(stale.size, segment->size);
	assert_int_equal(file_size(segment), segment->size);
}

struct grower {
	struct segment *segment;
	unsigned seed;
	int failures;
};

static void *
grow_often(void *arg)
{
	struct grower *grower = arg;

	for (uint64_t step = 1; step <= 64; step++) {
		uint64_t need = step * RESERVE / 64 - (uint64_t)rand_r(&grower->seed) % MIB;
		struct stat status;

		if (segment_grow(grower->segment, need) || fstat(grower->segment->fd, &status) ||
		    (uint64_t)status.st_size < need)
			grower->failures++;
	}
	return NULL;
}

static void
test_concurrent_growth(void **state)
{
	struct grower grower[THREADS];
	pthread_t thread[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		grower[i] = (struct grower){*state, i, 0};
		pthread_create(&thread[i], NULL, grow_often, &grower[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(grower[i].failures, 0);
	}
}

static int
all_bytes_are(const char *bytes, uint64_t length, char value)
{
	for (uint64_t i = 0; i < length; i++)
		if (bytes[i] != value)
			return 0;
	return 1;
}

static void
test_memory_comes_and_goes_by_the_page(void **state)
{
	struct segment *segment = *state;

	assert_int_equal(segment_grow(segment, 64 * PAGE), 0);
	assert_int_equal(segment_populate(segment, 8 * PAGE, 0), 0);
	assert_int_equal(segment_resident(segment), 0);
	assert_int_equal(segment_populate(segment, 8 * PAGE, 16 * PAGE), 0);
	assert_int_equal(segment_resident(segment), 16 * PAGE);
	assert_true(all_bytes_are(segment->base + 8 * PAGE, 16 * PAGE, 0));

	memset(segment->base + 8 * PAGE, 'x', 16 * PAGE);
	assert_int_equal(segment_populate(segment, 4 * PAGE, 16 * PAGE), 0); /* overlaps */
	assert_int_equal(segment_resident(segment), 20 * PAGE);
	assert_true(all_bytes_are(segment->base + 8 * PAGE, 16 * PAGE, 'x'));

	assert_int_equal(segment_punch(segment, 10 * PAGE, 2 * PAGE), 0);
	assert_int_equal(segment_punch(segment, 10 * PAGE, 2 * PAGE), 0); /* already a hole */
	assert_int_equal(segment_punch(segment, 10 * PAGE, 0), 0);
	assert_int_equal(segment_resident(segment), 18 * PAGE);
	assert_true(all_bytes_are(segment->base + 8 * PAGE, 2 * PAGE, 'x'));
	assert_true(all_bytes_are(segment->base + 12 * PAGE, 12 * PAGE, 'x'));
	assert_true(all_bytes_are(segment->base + 10 * PAGE, 2 * PAGE, 0)); /* touches it again */
	assert_int_equal(file_size(segment), segment->size);
}

static void
test_first_touch_takes_one_page(void **state)
{
	struct segment *segment = *state;

	assert_int_equal(segment_grow(segment, 4 * MIB), 0);
	segment->base[2 * MIB] = 1;
	assert_int_equal(segment_resident(segment), PAGE);
}

static void
test_large_address_space_costs_nothing(void **state)
{
	struct segment segment;

	(void)state;
	assert_int_equal(segment_create(&segment, "test", 256ull << 30), 0);
	assert_int_equal(segment_resident(&segment), 0);
	assert_int_equal(segment_grow(&segment, (200ull << 30) + 1), 0);
	assert_true(file_size(&segment) <= 250ull << 30);
	assert_int_equal(segment_populate(&segment, 200ull << 30, PAGE), 0);
	assert_int_equal(segment_resident(&segment), PAGE);
	segment_close(&segment);
}

static int
lowest_free_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

static void
test_failed_creation_leaves_nothing(void **state)
{
	static const struct {
		uint64_t reserve;
		int error;
	} bad[] = {{0, -EINVAL}, {PAGE + 1, -EINVAL}, {1ull << 62, -ENOMEM}};
	int fd = lowest_free_fd();

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct segment segment;

		assert_int_equal(segment_create(&segment, "test", bad[i].reserve), bad[i].error);
		segment_close(&segment);
		segment_close(&segment);
		assert_int_equal(lowest_free_fd(), fd);
	}
}

static void
test_no_descriptor_left(void **state)
{
	struct rlimit old, none;
	struct segment segment;
	int error;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){(rlim_t)lowest_free_fd(), old.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	error = segment_create(&segment, "test", PAGE);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(error, -EMFILE);
	segment_close(&segment);
}

static void
test_close_twice(void **state)
{
	struct segment segment;
	int fd = lowest_free_fd();

	(void)state;
	assert_int_equal(segment_create(&segment, "test", RESERVE), 0);
	segment_close(&segment);
	segment_close(&segment);
	assert_null(segment.base);
	assert_int_equal(lowest_free_fd(), fd);
}

/* Runs `body` in a child; returns its wait status. */
static int
in_child(int (*body)(struct segment *), struct segment *segment)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
		signal(SIGSEGV, SIG_DFL);
		signal(SIGABRT, SIG_DFL);
		_exit(body(segment));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static int
touch(struct segment *segment)
{
	return *(volatile char *)segment->base;
}

static void
test_a_forked_child_has_no_mapping(void **state)
{
	struct segment *segment = *state;
	int status;

	assert_int_equal(segment_grow(segment, PAGE), 0);
	assert_int_equal(segment_populate(segment, 0, PAGE), 0);
	status = in_child(touch, segment);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

/* From now on this process gets EINVAL for system call `number` when argument `arg` is `value`. */
static int
refuse(unsigned number, unsigned arg, uint32_t value)
{
	const uint32_t low_half = offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, low_half),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

enum {
	WORKED,
	FAILED,
	NO_FILTER
};

static int
populate_on_an_old_kernel(struct segment *unused)
{
	struct segment segment;

	(void)unused;
	if (refuse(SYS_madvise, 2, 23)) /* MADV_POPULATE_WRITE */
		return NO_FILTER;
	if (segment_create(&segment, "test", RESERVE) || segment_grow(&segment, MIB) ||
	    segment_populate(&segment, 3 * PAGE, 5 * PAGE))
		return FAILED;
	if (segment_resident(&segment) != 5 * PAGE ||
	    !all_bytes_are(segment.base + 3 * PAGE, 5 * PAGE, 0))
		return FAILED;
	segment_close(&segment);
	return WORKED;
}

static int
create_on_an_old_kernel(struct segment *unused)
{
	struct segment segment;

	(void)unused;
	/* MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL */
	if (refuse(SYS_memfd_create, 1, 1 | 2 | 8))
		return NO_FILTER;
	if (segment_create(&segment, "test", RESERVE))
		return FAILED;
	segment_close(&segment);
	return WORKED;
}

static void
check_on_an_old_kernel(int (*body)(struct segment *))
{
	int status = in_child(body, NULL);

	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NO_FILTER) {
		print_message("skipped: no seccomp filters here\n");
		skip();
	}
	assert_int_equal(WEXITSTATUS(status), WORKED);
}

static void
test_kernels_that_cannot_populate(void **state)
{
	(void)state;
	check_on_an_old_kernel(populate_on_an_old_kernel);
}

static void
test_kernels_without_noexec(void **state)
{
	(void)state;
	check_on_an_old_kernel(create_on_an_old_kernel);
}

#ifdef ZC_CHECK_LOCKS
static int
grow_under_a_lock(struct segment *segment)
{
	struct lock lock;

	close(STDERR_FILENO);
	lock_init(&lock, LOCK_RUN);
	lock_acquire(&lock);
	return segment_grow(segment, PAGE);
}
#endif

static void
test_no_call_under_a_lock(void **state)
{
#ifdef ZC_CHECK_LOCKS
	int status = in_child(grow_under_a_lock, *state);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#else
	(void)state;
	print_message("skipped: this build does not check locks\n");
	skip();
#endif
}

#define with_segment(test) cmocka_unit_test_setup_teardown(test, open_segment, close_segment)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		with_segment(test_new_file_is_private_sealed_and_empty),
		with_segment(test_growth_is_bounded_and_never_back),
		with_segment(test_growth_adopts_a_longer_file),
		with_segment(test_concurrent_growth),
		with_segment(test_memory_comes_and_goes_by_the_page),
		with_segment(test_first_touch_takes_one_page),
		cmocka_unit_test(test_large_address_space_costs_nothing),
		cmocka_unit_test(test_failed_creation_leaves_nothing),
		cmocka_unit_test(test_no_descriptor_left),
		cmocka_unit_test(test_close_twice),
		with_segment(test_a_forked_child_has_no_mapping),
		cmocka_unit_test(test_kernels_that_cannot_populate),
		cmocka_unit_test(test_kernels_without_noexec),
		with_segment(test_no_call_under_a_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
