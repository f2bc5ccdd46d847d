/* SPDX-License-Identifier: BSD-2-Clause */
/* The allocator alone: slots, lists, lazy memory, trim, limits, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "page_maker.h"
#include "zspage.h"

struct fixture {
	struct ceiling *ceiling;
	struct budget budget;
	struct segment control, data;
	struct pool_header *header;
	struct allocator *allocator;
};

static void
open_allocator(struct fixture *f, uint32_t page_size, uint64_t limit)
{
	uint64_t data_max = 64ULL * page_size * 64;

	memset(f, 0, sizeof(*f));
	assert_int_equal(0, ceiling_create(0, &f->ceiling));
	budget_init(&f->budget, limit, f->ceiling);
	assert_int_equal(0, segment_create(&f->control, "control", 1 << 20));
	assert_int_equal(0, segment_create(&f->data, "data", data_max));
	assert_int_equal(0, segment_grow(&f->control, ZC_OS_PAGE_SIZE));
	f->header = (struct pool_header *)(void *)f->control.base;
	f->header->page_size = page_size;
	f->header->data_max = data_max;
	assert_int_equal(
		0, allocator_create(f->header, &f->control, &f->data, &f->budget, &f->allocator));
}

static void
close_allocator(struct fixture *f)
{
	allocator_destroy(&f->allocator);
	segment_close(&f->control);
	segment_close(&f->data);
	ceiling_destroy(&f->ceiling);
}

static int64_t
checked(struct fixture *f)
{
	char why[256] = "";
	int64_t objects = zs_check(f->allocator, why, sizeof(why));

	if (objects < 0)
		fail_msg("%s", why);
	return objects;
}

/* The kernel never counts more than we do; less where an object ends before its slot's last OS page. */
static void
check_resident(struct fixture *f)
{
	assert_true(segment_resident(&f->data) <=
		    allocator_resident(f->allocator) * ZC_OS_PAGE_SIZE);
}

struct object {
	uint64_t offset, seed;
	uint32_t length; /* 0: none */
};

static void
object_make(struct fixture *f, struct object *object, uint32_t length, uint64_t seed)
{
	static __thread unsigned char bytes[ZC_PAGE_SIZE_MAX];

	assert_int_equal(0, zs_malloc(f->allocator, length, &object->offset));
	object->length = length;
	object->seed = seed;
	make_value(bytes, length, VALUE_RANDOM, seed);
	zs_write(f->allocator, object->offset, seed, bytes, length);
}

static void
object_verify(struct fixture *f, const struct object *object)
{
	static __thread unsigned char bytes[ZC_PAGE_SIZE_MAX];
	const char *at = f->data.base + object->offset;

	make_value(bytes, object->length, VALUE_RANDOM, object->seed);
	if (object->length != f->header->page_size)
		at += ZC_OBJECT_HEADER_SIZE;
	assert_memory_equal(at, bytes, object->length);
}

static void
object_drop(struct fixture *f, struct object *object)
{
	object_verify(f, object);
	assert_true(zs_object_exists(f->allocator, object->offset, object->length));
	assert_true(zs_free(f->allocator, object->offset, object->length));
	object->length = 0;
}

static uint32_t
random_length(const struct allocator *allocator, uint64_t *random)
{
	const struct size_class_table *table = allocator_table(allocator);

	if (random_next(random) % 8 == 0)
		return table->page_size;
	return 1 + (uint32_t)(random_next(random) % table->stored_max);
}

/* Random allocations and frees against a model, with every invariant walked and every byte verified. */
static void
random_steps(uint32_t page_size, uint64_t seed)
{
	enum {
		OBJECTS = 300,
		STEPS = 20000
	};
	static struct object objects[OBJECTS];
	struct fixture f;
	int64_t live = 0;
	uint64_t random = seed;

	memset(objects, 0, sizeof(objects));
	open_allocator(&f, page_size, 1ULL << 40);
	for (unsigned step = 0; step < STEPS; step++) {
		struct object *object = &objects[random_next(&random) % OBJECTS];

		if (object->length) {
			object_drop(&f, object);
			live--;
		} else {
			object_make(&f, object, random_length(f.allocator, &random), step);
			live++;
		}
		if (step % 500 == 0)
			zs_trim(f.allocator, (uint32_t)(random_next(&random) % 64));
		if (step % 1000 == 0) {
			assert_int_equal(live, checked(&f));
			check_resident(&f);
		}
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		if (objects[i].length)
			object_drop(&f, &objects[i]);
	zs_trim(f.allocator, UINT32_MAX);
	assert_int_equal(0, checked(&f));
	assert_int_equal(0, zs_trimmable(f.allocator));
	assert_int_equal(0, allocator_resident(f.allocator));
	assert_int_equal(0, segment_resident(&f.data));
	close_allocator(&f);
}

static void
test_random(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 3; seed++)
		random_steps(4096, seed);
	random_steps(16384, 4);
	random_steps(65536, 5);
}

/* A zspage's memory comes page by page, from the front, and its tail goes back first. */
static void
test_lazy(void **state)
{
	enum {
		LENGTH = 1500
	};
	struct object objects[64];
	struct fixture f;
	unsigned count = 0;

	(void)state;
	open_allocator(&f, 4096, 1ULL << 40);
	object_make(&f, &objects[count++], LENGTH, 1);
	assert_int_equal(1, allocator_resident(f.allocator));
	while (count < 20) {
		object_make(&f, &objects[count], LENGTH, count);
		assert_true(objects[count].offset > objects[count - 1].offset);
		count++;
		check_resident(&f);
		assert_true(allocator_resident(f.allocator) * 4096 <= count * 1536u + 4096);
	}
	while (count > 1)
		object_drop(&f, &objects[--count]);
	assert_true(zs_trimmable(f.allocator) > 0);
	zs_trim(f.allocator, UINT32_MAX);
	assert_int_equal(1, allocator_resident(f.allocator));
	object_drop(&f, &objects[0]);
	zs_trim(f.allocator, UINT32_MAX);
	check_resident(&f);
	assert_int_equal(0, allocator_resident(f.allocator));
	close_allocator(&f);
}

/* The fullest zspage with room is used first. */
static void
test_fullest_first(void **state)
{
	struct object objects[40], next;
	struct fixture f;
	uint64_t second;

	(void)state;
	open_allocator(&f, 4096, 1ULL << 40);
	/* stored 1016: slots of 1024, four a page, a zspage of one page */
	for (unsigned i = 0; i < 12; i++)
		object_make(&f, &objects[i], 1016, i);
	second = objects[4].offset / 4096;
	object_drop(&f, &objects[0]);
	object_drop(&f, &objects[1]);
	object_drop(&f, &objects[5]); /* second zspage: three in use; first: two */
	object_make(&f, &next, 1016, 99);
	assert_int_equal(second, next.offset / 4096);
	close_allocator(&f);
}

/* At the limit: an error, memory never above it, and room again after a free, without any trim. */
static void
test_limit(void **state)
{
	enum {
		LIMIT = 40,
		LENGTH = 3000
	};
	static struct object objects[200];
	struct fixture f;
	uint64_t offset;
	unsigned count = 0;
	int error;

	(void)state;
	open_allocator(&f, 4096, LIMIT * 4096);
	for (; count < 200; count++) {
		error = zs_malloc(f.allocator, LENGTH, &offset);
		if (error)
			break;
		assert_true(zs_free(f.allocator, offset, LENGTH));
		object_make(&f, &objects[count], LENGTH, count);
		assert_true(segment_resident(&f.data) <= LIMIT * 4096);
	}
	assert_int_equal(-ENOSPC, error);
	assert_true(count >= LIMIT);
	checked(&f);
	for (unsigned i = 0; i < count; i++)
		object_drop(&f, &objects[i]);
	/* another class can have all of it at once */
	for (unsigned i = 0; i < LIMIT - 1; i++)
		object_make(&f, &objects[i], 4096, i);
	assert_true(segment_resident(&f.data) <= LIMIT * 4096);
	checked(&f);
	close_allocator(&f);
}

/* Locations that are no objects are refused and harm nothing. */
static void
test_damaged_locations(void **state)
{
	struct fixture f;
	struct object object;
	uint64_t random = 7;

	(void)state;
	open_allocator(&f, 4096, 1ULL << 40);
	object_make(&f, &object, 1000, 1);
	for (unsigned i = 0; i < 20000; i++) {
		uint64_t offset = random_next(&random) % (1u << 20);
		uint32_t length = (uint32_t)(random_next(&random) % 70000);

		if (offset != object.offset)
			assert_false(zs_free(f.allocator, offset, length));
	}
	assert_false(zs_free(f.allocator, UINT64_MAX, 1000));
	assert_false(zs_free(f.allocator, object.offset, 2000));
	assert_false(zs_free(f.allocator, object.offset, 0));
	assert_int_equal(1, checked(&f));
	object_drop(&f, &object);
	assert_false(zs_free(f.allocator, object.offset, 1000));
	close_allocator(&f);
}

struct thread_arg {
	struct fixture *f;
	uint64_t seed;
	unsigned steps;
};

static void *
allocate_and_free(void *arg)
{
	enum {
		OBJECTS = 100
	};
	struct object objects[OBJECTS] = {0};
	struct thread_arg *t = arg;
	uint64_t random = t->seed;

	for (unsigned step = 0; step < t->steps; step++) {
		struct object *object = &objects[random_next(&random) % OBJECTS];

		if (object->length)
			object_drop(t->f, object);
		else
			object_make(t->f, object, random_length(t->f->allocator, &random),
				    t->seed << 32 | step);
	}
	for (unsigned i = 0; i < OBJECTS; i++)
		if (objects[i].length)
			object_drop(t->f, &objects[i]);
	return NULL;
}

static void *
trim_all_the_time(void *arg)
{
	struct thread_arg *t = arg;

	for (unsigned step = 0; step < t->steps; step++)
		zs_trim(t->f->allocator, 8);
	return NULL;
}

static void
test_threads(void **state)
{
	enum {
		THREADS = 4
	};
	pthread_t thread[THREADS + 1];
	struct thread_arg arg[THREADS + 1];
	struct fixture f;

	(void)state;
	open_allocator(&f, 4096, 1ULL << 40);
	for (unsigned i = 0; i <= THREADS; i++) {
		arg[i] = (struct thread_arg){&f, i + 1, 5000};
		pthread_create(&thread[i], NULL,
			       i < THREADS ? allocate_and_free : trim_all_the_time, &arg[i]);
	}
	for (unsigned i = 0; i <= THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(0, checked(&f));
	zs_trim(f.allocator, UINT32_MAX);
	assert_int_equal(0, allocator_resident(f.allocator));
	assert_int_equal(0, segment_resident(&f.data));
	close_allocator(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lazy),   cmocka_unit_test(test_fullest_first),
		cmocka_unit_test(test_limit),  cmocka_unit_test(test_damaged_locations),
		cmocka_unit_test(test_random), cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
