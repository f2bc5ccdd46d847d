/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/budget.c and shm/memory_chain.c: the arithmetic; chains of cgroups as different
 * systems show them, in made-up /proc and cgroup files; and once for real, a child in a memory
 * cgroup of 64 MiB that takes memory until it is refused and must not be killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "budget.h"
#include "segment.h"

#define PAGE	    4096ull
#define MIB	    (1ull << 20)
#define MIB_PAGES   (MIB / PAGE)
#define GRANT_PAGES (4 * MIB_PAGES)
#define THREADS	    4

/* The pool's own limit. */

static void
test_limit_is_exact(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, 10 * PAGE + PAGE - 1, NULL);
	assert_int_equal(budget_take(&budget, 4), BUDGET_OK);
	assert_int_equal(budget_take(&budget, 7), BUDGET_POOL_LIMIT);
	assert_int_equal(budget_take(&budget, 6), BUDGET_OK);
	assert_int_equal(budget_take(&budget, 0), BUDGET_OK);
	assert_int_equal(budget_take(&budget, 1), BUDGET_POOL_LIMIT);
	assert_int_equal(budget_take_slow(&budget, 1), -ENOSPC);
	budget_return(&budget, 3);
	assert_int_equal(budget_take_slow(&budget, 3), 0);
	assert_int_equal(budget.used, 10);
}

static void
test_limit_changes(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, 10 * PAGE, NULL);
	assert_int_equal(budget_take(&budget, 8), BUDGET_OK);
	budget.limit = 4;
	assert_int_equal(budget_take(&budget, 1), BUDGET_POOL_LIMIT);
	budget_return(&budget, 5);
	assert_int_equal(budget_take(&budget, 2), BUDGET_POOL_LIMIT);
	assert_int_equal(budget_take(&budget, 1), BUDGET_OK);
	budget.limit = 100;
	assert_int_equal(budget_take(&budget, 96), BUDGET_OK);
}

static void
test_no_sum_wraps(void **state)
{
	struct budget budget;

	(void)state;
	budget_init(&budget, UINT64_MAX, NULL);
	assert_int_equal(budget_take(&budget, 5), BUDGET_OK);
	assert_int_equal(budget_take(&budget, UINT64_MAX), BUDGET_POOL_LIMIT);
	assert_int_equal(budget_take(&budget, UINT64_MAX - 4), BUDGET_POOL_LIMIT);
	assert_int_equal(budget.used, 5);
}

struct taker {
	struct budget *budget;
	unsigned seed;
	uint64_t over; /* times the limit was passed */
};

static void *
take_and_return(void *arg)
{
	struct taker *taker = arg;
	uint64_t held = 0;

	for (int i = 0; i < 50000; i++) {
		uint64_t pages = (uint64_t)rand_r(&taker->seed) % 8;

		if (budget_take(taker->budget, pages) == BUDGET_OK) {
			held += pages;
		} else {
			budget_return(taker->budget, held);
			held = 0;
		}
		if (__atomic_load_n(&taker->budget->used, __ATOMIC_RELAXED) > 100)
			taker->over++;
	}
	budget_return(taker->budget, held);
	return NULL;
}

static void
test_limit_holds_for_many_threads(void **state)
{
	struct taker taker[THREADS];
	pthread_t thread[THREADS];
	struct budget budget;

	(void)state;
	budget_init(&budget, 100 * PAGE, NULL);
	for (unsigned i = 0; i < THREADS; i++) {
		taker[i] = (struct taker){&budget, i, 0};
		pthread_create(&thread[i], NULL, take_and_return, &taker[i]);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(taker[i].over, 0);
	}
	assert_int_equal(budget.used, 0);
}

/* Made-up systems: a directory that stands for the root of the file system. */

struct fake {
	char root[PATH_MAX];
};

static int
make_fake(void **state)
{
	struct fake *fake = malloc(sizeof(*fake));
	const char *tmp = getenv("TMPDIR");

	snprintf(fake->root, sizeof(fake->root), "%s/zcached-test-XXXXXX", tmp ? tmp : "/tmp");
	*state = fake;
	return mkdtemp(fake->root) ? 0 : -1;
}

static int
remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

static int
remove_fake(void **state)
{
	struct fake *fake = *state;
	int error = nftw(fake->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	free(fake);
	return error;
}

/* Writes a file and makes the directories on its way. A file that is there keeps its inode. */
static void
put_file(struct fake *fake, const char *path, const char *text)
{
	char full[2 * PATH_MAX];
	int fd;

	snprintf(full, sizeof(full), "%s%s", fake->root, path);
	for (char *slash = full + strlen(fake->root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

static void
put_number(struct fake *fake, const char *directory, const char *name, uint64_t number)
{
	char path[512], text[32];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	snprintf(text, sizeof(text), "%llu\n", (unsigned long long)number);
	put_file(fake, path, text);
}

static void
put_v2(struct fake *fake, const char *directory, uint64_t limit, uint64_t usage)
{
	put_number(fake, directory, "memory.max", limit);
	put_number(fake, directory, "memory.current", usage);
}

static void
put_v1(struct fake *fake, const char *directory, uint64_t limit, uint64_t usage)
{
	put_number(fake, directory, "memory.limit_in_bytes", limit);
	put_number(fake, directory, "memory.usage_in_bytes", usage);
}

#define V1_UNLIMITED 9223372036854771712ull

/* A machine with only v2, as systemd sets it up; the process is in /a/b. */
static void
put_v2_system(struct fake *fake)
{
	put_file(fake, "/proc/self/cgroup", "0::/a/b\n");
	put_file(
		fake, "/proc/self/mountinfo",
		"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
		"31 22 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
	put_file(fake, "/sys/fs/cgroup/cgroup.procs", ""); /* the root has no memory files */
	put_file(fake, "/sys/fs/cgroup/a/b/memory.max", "max\n");
	put_file(fake, "/sys/fs/cgroup/a/b/memory.current", "50000000\n");
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 60 * MIB);
}

/* One look at the room of a fake system. */
static uint64_t
room_of(struct fake *fake, uint64_t margin)
{
	struct ceiling *ceiling;
	uint64_t room;

	assert_int_equal(ceiling_create_under(fake->root, margin, &ceiling), 0);
	room = ceiling_refresh(ceiling);
	ceiling_destroy(&ceiling);
	assert_null(ceiling);
	ceiling_destroy(&ceiling);
	return room;
}

static void
test_nothing_to_read_is_no_limit(void **state)
{
	struct ceiling *ceiling;
	struct budget budget;

	assert_int_equal(room_of(*state, MIB), UINT64_MAX);
	assert_int_equal(ceiling_create_under("/nonexistent", 0, &ceiling), 0);
	budget_init(&budget, 1ull << 50, ceiling);
	assert_int_equal(budget_take_slow(&budget, 1ull << 30), 0);
	assert_int_equal(budget_take(&budget, 1), BUDGET_OK);
	ceiling_destroy(&ceiling);
}

static void
test_v2_limit_of_a_parent(void **state)
{
	put_v2_system(*state);
	assert_int_equal(room_of(*state, 0), 40 * MIB);
	assert_int_equal(room_of(*state, 10 * MIB), 30 * MIB);
	assert_int_equal(room_of(*state, 40 * MIB), 0);
	assert_int_equal(room_of(*state, UINT64_MAX), 0);
}

static void
test_v2_least_room_of_all_levels(void **state)
{
	put_v2_system(*state);
	put_v2(*state, "/sys/fs/cgroup/a/b", 80 * MIB, 55 * MIB);
	assert_int_equal(room_of(*state, 0), 25 * MIB);
	put_v2(*state, "/sys/fs/cgroup", 70 * MIB,
	       64 * MIB); /* as in a container: a root that has */
	assert_int_equal(room_of(*state, 0), 6 * MIB);
	put_v2(*state, "/sys/fs/cgroup", 70 * MIB, 71 * MIB);
	assert_int_equal(room_of(*state, 0), 0);
}

static void
test_v1_beside_an_empty_v2(void **state)
{
	struct fake *fake = *state;

	put_file(fake, "/proc/self/cgroup",
		 "9:name=memory:/wrong\n4:cpu,memory:/x/y\n1:cpuset:/\n0::/\n");
	put_file(fake, "/proc/self/mountinfo",
		 "34 31 0:31 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
		 "35 31 0:32 / /cg/memory rw master:2 - cgroup cgroup rw,cpu,memory\n"
		 "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n");
	put_v1(fake, "/cg/memory", V1_UNLIMITED, 900 * MIB);
	put_v1(fake, "/cg/memory/x/y", V1_UNLIMITED, 100 * MIB);
	put_v1(fake, "/cg/memory/x", 300 * MIB, 200 * MIB);
	put_v1(fake, "/cg/memory/wrong", MIB, MIB);
	assert_int_equal(room_of(fake, MIB), 99 * MIB);
	put_v1(fake, "/cg/memory/x", V1_UNLIMITED, 200 * MIB);
	assert_int_equal(room_of(fake, MIB), UINT64_MAX);
}

/* The mount shows a part of the hierarchy only. */
static void
test_mount_of_a_subtree(void **state)
{
	struct fake *fake = *state;

	put_file(fake, "/proc/self/cgroup", "0::/docker/abc/own\n");
	put_file(fake, "/proc/self/mountinfo",
		 "41 31 0:38 /docker/ab /other rw - cgroup2 cgroup2 rw\n"
		 "42 31 0:38 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put_v2(fake, "/other/c/own", MIB, MIB);
	put_v2(fake, "/other", MIB, MIB);
	put_v2(fake, "/sys/fs/cgroup/own", 20 * MIB, 3 * MIB);
	put_v2(fake, "/sys/fs/cgroup", 20 * MIB, 4 * MIB);
	put_v2(fake, "/sys/fs", MIB, MIB); /* above the mount: not a cgroup */
	assert_int_equal(room_of(fake, 0), 16 * MIB);
	put_file(fake, "/proc/self/cgroup", "0::/docker/abc\n");
	put_v2(fake, "/sys/fs/cgroup/own", MIB, MIB);
	assert_int_equal(room_of(fake, 0), 16 * MIB);
}

static void
test_cgroup_outside_the_mount(void **state)
{
	put_v2_system(*state);
	put_file(*state, "/proc/self/cgroup", "0::/../a\n");
	assert_int_equal(room_of(*state, 0), UINT64_MAX);
	put_file(*state, "/proc/self/cgroup", "0::/\n");
	assert_int_equal(room_of(*state, 0), UINT64_MAX);
}

static void
test_removed_cgroup_leaves_its_parents(void **state)
{
	put_v2_system(*state);
	put_file(*state, "/proc/self/cgroup", "0::/a/gone (deleted)\n");
	assert_int_equal(room_of(*state, 0), 40 * MIB);
}

static void
test_mount_point_with_a_space(void **state)
{
	put_file(*state, "/proc/self/cgroup", "0::/a\n");
	put_file(*state, "/proc/self/mountinfo",
		 "42 31 0:38 / /odd\\040\\134place rw - cgroup2 cgroup2 rw\n");
	put_v2(*state, "/odd \\place/a", 9 * MIB, 2 * MIB);
	assert_int_equal(room_of(*state, 0), 7 * MIB);
}

static void
test_garbage_is_no_limit(void **state)
{
	struct fake *fake = *state;

	put_v2_system(fake);
	put_file(fake, "/sys/fs/cgroup/a/memory.max", "");
	assert_int_equal(room_of(fake, 0), UINT64_MAX);
	put_file(fake, "/sys/fs/cgroup/a/memory.max", "-1\n");
	assert_int_equal(room_of(fake, 0), UINT64_MAX);
	put_file(fake, "/proc/self/mountinfo", "\n - \n1 2 3 - cgroup2\n\\ - cgroup2 a b\n");
	assert_int_equal(room_of(fake, 0), UINT64_MAX);
	put_file(fake, "/proc/self/cgroup", "\n:\n::\n0\n0:\n4:memory\n");
	assert_int_equal(room_of(fake, 0), UINT64_MAX);
}

static void
test_deep_chain_keeps_the_innermost(void **state)
{
	char own[256] = "", line[264], directory[288];

	put_v2_system(*state);
	for (int depth = 1; depth <= 40; depth++) {
		snprintf(own + strlen(own), sizeof(own) - strlen(own), "/%d", depth);
		snprintf(directory, sizeof(directory), "/sys/fs/cgroup%s", own);
		/* Tight at depth 24, the outermost of two dozen; 25 is the 16th from inside. */
		put_v2(*state, directory, 100 * MIB, depth == 24 ? 99 * MIB : 50 * MIB);
	}
	snprintf(line, sizeof(line), "0::%s\n", own);
	put_file(*state, "/proc/self/cgroup", line);
	assert_int_equal(room_of(*state, 0), 50 * MIB);
	put_v2(*state,
	       "/sys/fs/cgroup/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/"
	       "24/25",
	       100 * MIB, 90 * MIB);
	assert_int_equal(room_of(*state, 0), 10 * MIB);
}

static void
test_page_cache_counts_when_all_is_used(void **state)
{
	struct fake *fake = *state;

	put_v2_system(fake);
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 100 * MIB);
	put_file(fake, "/sys/fs/cgroup/a/memory.stat",
		 "anon 10\nfile 73400320\ninactive_anon 5\nactive_file 10485760\n"
		 "inactive_file 20971520\nworkingset_inactive_file 1\nactive_file_not 7\n");
	assert_int_equal(room_of(fake, 5 * MIB), 25 * MIB);
	/* Nearly all counts as all: less than the margin and one grant is left. */
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 92 * MIB);
	assert_int_equal(room_of(fake, 5 * MIB), 33 * MIB);
	/* Enough without it: not looked at. */
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 91 * MIB);
	assert_int_equal(room_of(fake, 5 * MIB), 4 * MIB);
	/* More than the usage itself cannot be. */
	put_v2(fake, "/sys/fs/cgroup/a", MIB, 2 * MIB);
	assert_int_equal(room_of(fake, 0), MIB);
}

static void
test_v1_page_cache_of_the_whole_subtree(void **state)
{
	struct fake *fake = *state;

	put_file(fake, "/proc/self/cgroup", "4:memory:/x\n");
	put_file(fake, "/proc/self/mountinfo", "35 31 0:32 / /cg rw - cgroup cgroup rw,memory\n");
	put_v1(fake, "/cg/x", 50 * MIB, 50 * MIB);
	put_file(fake, "/cg/x/memory.stat",
		 "inactive_file 1\nactive_file 1\ntotal_inactive_file 4194304\n"
		 "total_active_file 2097152\n");
	assert_int_equal(room_of(fake, 0), 6 * MIB);
}

static void
test_machine_is_the_last_level(void **state)
{
	struct fake *fake = *state;

	put_file(fake, "/proc/meminfo",
		 "MemTotal:       16384000 kB\nMemFree:           10000 kB\n"
		 "MemAvailable:      30720 kB\nBuffers:               0 kB\n");
	assert_int_equal(room_of(fake, 10 * MIB), 20 * MIB);
	put_v2_system(fake);
	assert_int_equal(room_of(fake, 10 * MIB), 20 * MIB);
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 75 * MIB);
	assert_int_equal(room_of(fake, 10 * MIB), 15 * MIB);
}

static void
test_limit_that_is_set_later(void **state)
{
	struct fake *fake = *state;
	struct ceiling *ceiling;

	put_v2_system(fake);
	assert_int_equal(ceiling_create_under(fake->root, 0, &ceiling), 0);
	assert_int_equal(ceiling_refresh(ceiling), 40 * MIB);
	put_v2(fake, "/sys/fs/cgroup/a/b", 60 * MIB, 55 * MIB);
	assert_int_equal(ceiling_refresh(ceiling), 5 * MIB);
	put_file(fake, "/sys/fs/cgroup/a/b/memory.max", "max\n");
	put_file(fake, "/sys/fs/cgroup/a/memory.max", "max\n");
	assert_int_equal(ceiling_refresh(ceiling), UINT64_MAX);
	ceiling_destroy(&ceiling);
}

/* Credit. */

static void
test_credit_is_set_and_not_added(void **state)
{
	struct fake *fake = *state;
	struct ceiling *ceiling;
	struct budget budget;

	put_v2_system(fake);
	assert_int_equal(ceiling_create_under(fake->root, 0, &ceiling), 0);
	budget_init(&budget, 1ull << 40, ceiling);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
	assert_int_equal(budget.used, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(ceiling_refresh(ceiling), 40 * MIB);
	assert_int_equal(budget_take(&budget, GRANT_PAGES - 1), BUDGET_OK);
	assert_int_equal(budget_take(&budget, 2), BUDGET_CEILING);
	assert_int_equal(budget_take(&budget, 1), BUDGET_OK);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
	/* Pages that come back are room only when the kernel says so. */
	budget_return(&budget, 100);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
	assert_int_equal(budget.used, GRANT_PAGES - 100);
	ceiling_destroy(&ceiling);
}

static void
test_credit_is_never_more_than_the_room(void **state)
{
	struct fake *fake = *state;
	struct ceiling *ceiling;
	struct budget budget;

	put_v2_system(fake);
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 98 * MIB + 1);
	assert_int_equal(ceiling_create_under(fake->root, MIB, &ceiling), 0);
	budget_init(&budget, 1ull << 40, ceiling);
	assert_int_equal(budget_take_slow(&budget, MIB_PAGES), -ENOMEM);
	assert_int_equal(budget_take_slow(&budget, MIB_PAGES - 1), 0);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
	/* A refresh that finds no room takes back credit that was left. */
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 90 * MIB);
	assert_int_equal(ceiling_refresh(ceiling), 9 * MIB);
	put_v2(fake, "/sys/fs/cgroup/a", 100 * MIB, 100 * MIB);
	assert_int_equal(ceiling_refresh(ceiling), 0);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
	assert_int_equal(budget_take_slow(&budget, 1), -ENOMEM);
	ceiling_destroy(&ceiling);
}

static void
test_more_pages_than_a_grant(void **state)
{
	struct fake *fake = *state;
	struct ceiling *ceiling;
	struct budget budget;

	put_v2_system(fake);
	assert_int_equal(ceiling_create_under(fake->root, 0, &ceiling), 0);
	budget_init(&budget, UINT64_MAX, ceiling);
	assert_int_equal(budget_take_slow(&budget, 40 * MIB_PAGES + 1), -ENOMEM);
	assert_int_equal(budget_take_slow(&budget, UINT64_MAX / PAGE), -ENOMEM);
	assert_int_equal(budget_take_slow(&budget, 40 * MIB_PAGES), 0);
	assert_int_equal(budget.used, 40 * MIB_PAGES);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
	ceiling_destroy(&ceiling);
}

static void
test_larger_grants_without_a_cgroup_limit(void **state)
{
	static const struct {
		unsigned room, grant; /* MiB */
	} cases[] = {{10000, 64}, {512, 64}, {320, 40}, {32, 4}, {8, 4}, {3, 3}, {0, 0}};
	struct fake *fake = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ceiling *ceiling;
		struct budget budget;
		char text[64];

		snprintf(text, sizeof(text), "MemAvailable: %u kB\n", cases[i].room * 1024);
		put_file(fake, "/proc/meminfo", text);
		assert_int_equal(ceiling_create_under(fake->root, 0, &ceiling), 0);
		budget_init(&budget, 1ull << 40, ceiling);
		assert_int_equal(ceiling_refresh(ceiling), cases[i].room * MIB);
		assert_int_equal(budget_take(&budget, cases[i].grant * MIB_PAGES), BUDGET_OK);
		assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING);
		ceiling_destroy(&ceiling);
	}
}

static void
test_a_full_pool_does_not_refresh(void **state)
{
	struct ceiling *ceiling;
	struct budget budget;

	put_v2_system(*state);
	assert_int_equal(ceiling_create_under(((struct fake *)*state)->root, 0, &ceiling), 0);
	budget_init(&budget, 2 * PAGE, ceiling);
	assert_int_equal(budget_take(&budget, 3), BUDGET_POOL_LIMIT);
	assert_int_equal(budget_take_slow(&budget, 3), -ENOSPC);
	assert_int_equal(budget_take(&budget, 1), BUDGET_CEILING); /* still no credit */
	ceiling_destroy(&ceiling);
}

/* The machine the test runs on. */

static void
test_this_machine(void **state)
{
	struct ceiling *ceiling;
	struct budget budget;
	uint64_t room;

	(void)state;
	assert_int_equal(ceiling_create(MIB, &ceiling), 0);
	room = ceiling_refresh(ceiling);
	assert_true(room > 0 && room < UINT64_MAX);
	budget_init(&budget, 1ull << 40, ceiling);
	assert_int_equal(budget_take_slow(&budget, 1), 0);
	ceiling_destroy(&ceiling);
}

#define CGROUP_LIMIT  (64 * MIB)
#define CGROUP_MARGIN (8 * MIB)
#define BATCH_PAGES   16u

struct cgroup {
	char path[3 * PATH_MAX];
	int v2;
};

/* What the child tells the parent, in memory they share. */
struct report {
	uint64_t pages;
	int error; /* what the last take said; 0: something else failed */
};

static int
write_in(const struct cgroup *cgroup, const char *name, uint64_t number)
{
	char path[3 * PATH_MAX + 64], text[32];
	int length = snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
	int fd, written;

	snprintf(path, sizeof(path), "%s/%s", cgroup->path, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	written = write(fd, text, (size_t)length) == length;
	close(fd);
	return written ? 0 : -EIO;
}

/* How often the group ran into its limit: v1 memory.failcnt, v2 the line "max" of memory.events. */
static long
limit_hits(const struct cgroup *cgroup)
{
	char path[3 * PATH_MAX + 64], line[128];
	long hits = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", cgroup->path,
		 cgroup->v2 ? "memory.events" : "memory.failcnt");
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, cgroup->v2 ? "max %ld" : "%ld", &hits) == 1)
			break;
	if (file)
		fclose(file);
	return hits;
}

static int
try_cgroup(struct cgroup *cgroup, const char *parent, int v2)
{
	snprintf(cgroup->path, sizeof(cgroup->path), "%s/zcached-test-%d", parent, (int)getpid());
	cgroup->v2 = v2;
	if (mkdir(cgroup->path, 0755))
		return 0;
	if (write_in(cgroup, v2 ? "memory.max" : "memory.limit_in_bytes", CGROUP_LIMIT) == 0)
		return 1;
	rmdir(cgroup->path); /* no memory controller here */
	return 0;
}

/* A child of our own cgroup, or of the root where v2 forbids that; says whether it worked. */
static int
make_cgroup(struct cgroup *cgroup)
{
	char line[PATH_MAX], own[PATH_MAX], parent[2 * PATH_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");
	int made = 0;

	*cgroup = (struct cgroup){.v2 = 0};
	while (file && !made && fgets(line, sizeof(line), file)) {
		int v2 = sscanf(line, "0::%4095s", own) == 1;

		if (!v2 && sscanf(line, "%*d:memory:%4095s", own) != 1)
			continue;
		snprintf(parent, sizeof(parent), "/sys/fs/cgroup%s%s", v2 ? "" : "/memory", own);
		made = try_cgroup(cgroup, parent, v2) ||
		       (v2 && try_cgroup(cgroup, "/sys/fs/cgroup", v2));
	}
	if (file)
		fclose(file);
	return made;
}

struct eater {
	struct segment *segment;
	struct budget *budget;
	uint64_t *next; /* offset nobody has taken yet */
	int error;
};

/* Pays, then takes: what every user of a budget does. */
static void *
eat(void *arg)
{
	struct eater *eater = arg;
	const uint64_t bytes = BATCH_PAGES * PAGE;

	while (!(eater->error = budget_take_slow(eater->budget, BATCH_PAGES))) {
		uint64_t offset = __atomic_fetch_add(eater->next, bytes, __ATOMIC_RELAXED);

		if (segment_grow(eater->segment, offset + bytes) ||
		    segment_populate(eater->segment, offset, bytes))
			break;
	}
	return NULL;
}

static int
eat_all(struct segment *segment, struct budget *budget)
{
	struct eater eater[THREADS];
	pthread_t thread[THREADS];
	uint64_t next = 0;
	int error = -ENOMEM;

	for (unsigned i = 0; i < THREADS; i++) {
		eater[i] = (struct eater){segment, budget, &next, 0};
		if (pthread_create(&thread[i], NULL, eat, &eater[i]))
			_exit(2);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		if (eater[i].error != -ENOMEM)
			error = eater[i].error;
	}
	return error;
}

/* In the cgroup: take all there is, give a part back, take that again. */
static int
live_in_cgroup(struct report *report)
{
	struct ceiling *ceiling;
	struct budget budget;
	struct segment segment;

	if (ceiling_create(CGROUP_MARGIN, &ceiling) || segment_create(&segment, "test", 1ull << 32))
		return 2;
	budget_init(&budget, 1ull << 40, ceiling);
	report->error = eat_all(&segment, &budget);
	report->pages = segment_resident(&segment) / PAGE;
	if (report->pages != budget.used)
		return 3;
	if (segment_punch(&segment, 0, 8 * MIB))
		return 4;
	budget_return(&budget, 8 * MIB_PAGES);
	if (budget_take_slow(&budget, 4 * MIB_PAGES) || segment_populate(&segment, 0, 4 * MIB))
		return 5;
	segment_close(&segment);
	ceiling_destroy(&ceiling);
	return 0;
}

static int
run_in_cgroup(const struct cgroup *cgroup, struct report *report)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (child == 0) {
		if (write_in(cgroup, "cgroup.procs", (uint64_t)getpid()))
			_exit(77);
		_exit(live_in_cgroup(report));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	return status;
}

static void
test_a_real_cgroup_refuses_and_does_not_kill(void **state)
{
	struct report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cgroup cgroup;
	int status;
	long hits;

	(void)state;
	assert_true(report != MAP_FAILED);
	if (!make_cgroup(&cgroup)) {
		print_message("SKIPPED: no memory cgroup can be made here (needs root)\n");
		skip();
	}
	status = run_in_cgroup(&cgroup, report);
	hits = limit_hits(&cgroup);
	for (int tries = 0; rmdir(cgroup.path) && tries < 100; tries++)
		usleep(10000);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("SKIPPED: a child could not enter the memory cgroup\n");
		skip();
	}
	assert_false(WIFSIGNALED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(report->error, -ENOMEM);
	print_message("cgroup of 64 MiB: %llu MiB taken, limit hit %ld times\n",
		      (unsigned long long)(report->pages / MIB_PAGES), hits);
	assert_int_equal(hits, 0);
	assert_in_range(report->pages, (CGROUP_LIMIT - 2 * CGROUP_MARGIN) / PAGE,
			(CGROUP_LIMIT - CGROUP_MARGIN) / PAGE);
	munmap(report, sizeof(*report));
}

#define with_fake(test) cmocka_unit_test_setup_teardown(test, make_fake, remove_fake)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_limit_is_exact),
		cmocka_unit_test(test_limit_changes),
		cmocka_unit_test(test_no_sum_wraps),
		cmocka_unit_test(test_limit_holds_for_many_threads),
		with_fake(test_nothing_to_read_is_no_limit),
		with_fake(test_v2_limit_of_a_parent),
		with_fake(test_v2_least_room_of_all_levels),
		with_fake(test_v1_beside_an_empty_v2),
		with_fake(test_mount_of_a_subtree),
		with_fake(test_cgroup_outside_the_mount),
		with_fake(test_removed_cgroup_leaves_its_parents),
		with_fake(test_mount_point_with_a_space),
		with_fake(test_garbage_is_no_limit),
		with_fake(test_deep_chain_keeps_the_innermost),
		with_fake(test_page_cache_counts_when_all_is_used),
		with_fake(test_v1_page_cache_of_the_whole_subtree),
		with_fake(test_machine_is_the_last_level),
		with_fake(test_limit_that_is_set_later),
		with_fake(test_credit_is_set_and_not_added),
		with_fake(test_credit_is_never_more_than_the_room),
		with_fake(test_more_pages_than_a_grant),
		with_fake(test_larger_grants_without_a_cgroup_limit),
		with_fake(test_a_full_pool_does_not_refresh),
		cmocka_unit_test(test_this_machine),
		cmocka_unit_test(test_a_real_cgroup_refuses_and_does_not_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
