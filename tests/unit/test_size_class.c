/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/size_class.c: what every user of the table relies on, for all page sizes and every
 * length, and a few numbers of the table for 4 KiB that must never change (they are part of the
 * layout).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "size_class.h"

static void
for_each_page_size(void (*check)(const struct size_class_table *))
{
	struct size_class_table table;

	for (uint32_t size = ZC_PAGE_SIZE_MIN; size <= ZC_PAGE_SIZE_MAX; size *= 2) {
		memset(&table, 0xa5, sizeof(table));
		size_class_table_init(&table, size);
		assert_int_equal(table.page_size, size);
		assert_int_equal(table.step, size / 256);
		assert_in_range(table.count, 2, SIZE_CLASSES_MAX);
		check(&table);
	}
}

static uint32_t
waste(const struct size_class *class, uint32_t page_size)
{
	return class->pages * page_size - class->objects * class->size;
}

static void
check_shape(const struct size_class_table *table)
{
	for (unsigned i = 0; i < table->count; i++) {
		const struct size_class *class = &table->class[i];

		assert_int_equal(class->size % table->step, 0);
		assert_in_range(class->pages, 1, ZC_CHAIN_MAX);
		assert_in_range(class->objects, 1, 256);
		assert_true(class->objects * class->size <= class->pages * table->page_size);
		/* Not one more would fit. */
		assert_true(waste(class, table->page_size) < class->size || class->objects == 256);
	}
}

static void
test_shape(void **state)
{
	(void)state;
	for_each_page_size(check_shape);
}

static void
check_order(const struct size_class_table *table)
{
	for (unsigned i = 1; i < table->count; i++) {
		const struct size_class *a = &table->class[i - 1], *b = &table->class[i];

		assert_true(a->size < b->size);
		assert_false(a->pages == b->pages && a->objects == b->objects);
		/* Larger objects are never packed closer: objects a page fall. */
		assert_true((uint32_t)a->objects * b->pages >= (uint32_t)b->objects * a->pages);
	}
}

static void
test_sizes_rise_and_neighbours_differ(void **state)
{
	(void)state;
	for_each_page_size(check_order);
}

static void
check_raw(const struct size_class_table *table)
{
	const struct size_class *raw = &table->class[table->count - 1];
	const struct size_class *last = raw - 1;

	assert_int_equal(raw->size, table->page_size);
	assert_int_equal(raw->objects, 1);
	assert_int_equal(raw->pages, 1);
	assert_int_equal(size_class_of(table, table->page_size), table->count - 1);
	for (unsigned i = 0; i < table->count - 1; i++)
		assert_true(table->class[i].objects > table->class[i].pages);
	/* The longest stored length fills the last class; one step more would gain nothing. */
	assert_int_equal(table->stored_max + ZC_OBJECT_HEADER_SIZE, last->size);
	assert_true(16 * table->page_size / (last->size + table->step) <= 16);
}

static void
test_raw_where_compression_gains_no_object(void **state)
{
	(void)state;
	for_each_page_size(check_raw);
}

static void
check_every_length(const struct size_class_table *table)
{
	unsigned last = 0;

	for (uint32_t length = 0; length <= table->stored_max; length++) {
		unsigned class = size_class_of(table, length);
		uint32_t size = length + ZC_OBJECT_HEADER_SIZE;

		assert_true(class < table->count - 1);
		assert_true(table->class[class].size >= size);
		assert_true(class == 0 || table->class[class - 1].size < size);
		assert_true(class >= last);
		last = class;
	}
	assert_int_equal(last, table->count - 2);
	for (uint32_t steps = (table->stored_max + 8) / table->step + 1; steps <= 256; steps++)
		assert_int_equal(table->of_step[steps], table->count - 1);
}

static void
test_every_length_has_the_smallest_class(void **state)
{
	(void)state;
	for_each_page_size(check_every_length);
}

static void
check_chain(const struct size_class_table *table)
{
	for (unsigned i = 0; i < table->count; i++) {
		const struct size_class *class = &table->class[i];

		for (uint32_t pages = 1; pages <= ZC_CHAIN_MAX; pages++) {
			uint32_t objects = pages * table->page_size / class->size;
			struct size_class other = {class->size, (uint16_t)objects, (uint16_t)pages};
			uint64_t a = (uint64_t)waste(class, table->page_size) * pages;
			uint64_t b = (uint64_t)waste(&other, table->page_size) * class->pages;

			if (objects > 256)
				break;
			assert_true(pages < class->pages ? a < b : a <= b);
		}
	}
}

static void
test_chain_wastes_least_and_is_shortest(void **state)
{
	(void)state;
	for_each_page_size(check_chain);
}

static void
check_waste(const struct size_class_table *table)
{
	for (unsigned i = 0; i < table->count; i++) {
		const struct size_class *class = &table->class[i];
		uint32_t tail = waste(class, table->page_size);

		/* Behind the last object: one percent. */
		assert_true(tail * 100 <= class->pages * table->page_size);
		/* Behind the bytes in a slot: a step, or what merging makes of it. */
		if (i > 0 && i < table->count - 1)
			assert_in_range((class->size - table->class[i - 1].size) / table->step, 1,
					4);
	}
}

static void
test_waste_is_bounded(void **state)
{
	(void)state;
	for_each_page_size(check_waste);
}

/* Scaling the page scales the sizes and nothing else. */
static void
check_scaled(const struct size_class_table *table)
{
	struct size_class_table small;
	uint32_t factor = table->page_size / ZC_PAGE_SIZE_MIN;

	size_class_table_init(&small, ZC_PAGE_SIZE_MIN);
	assert_int_equal(table->count, small.count);
	assert_memory_equal(table->of_step, small.of_step, sizeof(small.of_step));
	for (unsigned i = 0; i < small.count; i++) {
		assert_int_equal(table->class[i].size, small.class[i].size * factor);
		assert_int_equal(table->class[i].objects, small.class[i].objects);
		assert_int_equal(table->class[i].pages, small.class[i].pages);
	}
}

static void
test_same_classes_for_every_page_size(void **state)
{
	(void)state;
	for_each_page_size(check_scaled);
}

static void
test_numbers_of_the_layout(void **state)
{
	struct size_class_table table;

	(void)state;
	size_class_table_init(&table, 4096);
	assert_int_equal(table.class[0].size, 32);
	assert_int_equal(table.class[0].objects, 128);
	assert_int_equal(table.class[0].pages, 1);
	assert_int_equal(table.class[table.count - 2].size, 3840);
	assert_int_equal(table.class[table.count - 2].objects, 16);
	assert_int_equal(table.class[table.count - 2].pages, 15);
	assert_int_equal(table.stored_max, 3832);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shape),
		cmocka_unit_test(test_sizes_rise_and_neighbours_differ),
		cmocka_unit_test(test_raw_where_compression_gains_no_object),
		cmocka_unit_test(test_every_length_has_the_smallest_class),
		cmocka_unit_test(test_chain_wastes_least_and_is_shortest),
		cmocka_unit_test(test_waste_is_bounded),
		cmocka_unit_test(test_same_classes_for_every_page_size),
		cmocka_unit_test(test_numbers_of_the_layout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
