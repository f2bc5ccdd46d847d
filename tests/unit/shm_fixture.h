/* SPDX-License-Identifier: BSD-2-Clause */
/* What the test_zclient_shm*.c programs share: a service with shared memory, a connection to it, and values. */
#ifndef ZCACHED_TESTS_SHM_FIXTURE_H
#define ZCACHED_TESTS_SHM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>
#include <dirent.h>
#include <zclient.h>

#include "fake_engine.h"
#include "page_maker.h"

#define PAGE 4096u

struct fixture {
	struct fake_engine *engine;
	struct zc *zc;
	struct zc_pool *pool;
	unsigned char *value, *back;
};

static inline void
fixture_open_pages(struct fixture *f, uint32_t page_size, const char *codec)
{
	f->engine = engine_start(page_size, codec);
	assert_int_equal(zc_open(f->engine->fake->path, 0, &f->zc), 0);
	assert_int_equal(zc_pool_open(f->zc, NULL, 0, &f->pool), 0);
	f->value = malloc(ZC_PAGE_SIZE_MAX);
	f->back = malloc(ZC_PAGE_SIZE_MAX);
}

static inline void
fixture_open(struct fixture *f)
{
	fixture_open_pages(f, PAGE, "lz4");
}

static inline void
fixture_close(struct fixture *f)
{
	zc_pool_close(&f->pool);
	zc_close(&f->zc);
	engine_stop(f->engine);
	free(f->value);
	free(f->back);
}

static inline zc_key
key_of(uint64_t number)
{
	return (zc_key){.object = number / 50, .index = number % 50};
}

static inline uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static inline struct zc_paths
paths_of(struct zc *zc)
{
	struct zc_paths paths = {.struct_size = sizeof(paths)};

	assert_int_equal(zc_path_stats(zc, &paths), 0);
	return paths;
}

/* A page that compresses, marked with a number. */
static inline void
make_page(unsigned char *page, uint32_t length, uint64_t number)
{
	make_value(page, length, VALUE_TEXT, number);
	memcpy(page, &number, length < sizeof(number) ? length : sizeof(number));
}

static inline void
put_page(struct fixture *f, uint64_t number, uint64_t mark)
{
	make_page(f->value, PAGE, mark);
	assert_int_equal(zc_put(f->pool, key_of(number), f->value, PAGE, 0), 0);
}

static inline void
expect_page(struct fixture *f, uint64_t number, uint64_t mark)
{
	make_page(f->value, PAGE, mark);
	memset(f->back, 0xee, PAGE);
	assert_int_equal(zc_get(f->pool, key_of(number), f->back, PAGE), PAGE);
	assert_memory_equal(f->back, f->value, PAGE);
}

static inline unsigned
count_entries(const char *path)
{
	DIR *folder = opendir(path);
	unsigned count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

static inline unsigned
open_descriptors(void)
{
	return count_entries("/proc/self/fd");
}

/* Mappings of pools and channels in this process. */
static inline unsigned
shared_mappings(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	unsigned count = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		count += strstr(line, "memfd:zcached") != NULL;
	fclose(maps);
	return count;
}

#endif
