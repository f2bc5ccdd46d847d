/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Size classes: the table, computed once a pool from its page size. See size_class.h for the rules
 * and who relies on the table being the same everywhere. No state, no locks.
 *
 * Left out: classes fitted to a workload. Readers and recovery would have to learn them.
 */
#include "size_class.h"

#include <assert.h>
#include <stdbool.h>

#define STEPS_MIN   2u	 /* the smallest size, in steps */
#define STEPS_MAX   256u /* the page size, in steps */
#define OBJECTS_MAX 256u

/* Bytes behind the last object of a zspage. */
static uint32_t
tail_waste(const struct size_class *class, uint32_t page_size)
{
	return class->pages * page_size - class->objects * class->size;
}

/* Compares waste as a share of the zspage, in whole numbers: a / b < c / d as a * d < c * b. */
static bool
wastes_less(const struct size_class *class, const struct size_class *than, uint32_t page_size)
{
	return (uint64_t)tail_waste(class, page_size) * than->pages <
	       (uint64_t)tail_waste(than, page_size) * class->pages;
}

static struct size_class
best_chain(uint32_t size, uint32_t page_size)
{
	struct size_class best = {size, (uint16_t)(page_size / size), 1};

	for (uint16_t pages = 2; pages <= ZC_CHAIN_MAX; pages++) {
		uint32_t objects = pages * page_size / size;
		struct size_class longer = {size, (uint16_t)objects, pages};

		if (objects > OBJECTS_MAX)
			break;
		if (wastes_less(&longer, &best, page_size))
			best = longer;
	}
	return best;
}

static void
add_class(struct size_class_table *table, struct size_class class)
{
	struct size_class *last = table->count ? &table->class[table->count - 1] : NULL;

	if (last && last->pages == class.pages && last->objects == class.objects) {
		last->size = class.size; /* merged: the larger size holds both */
		return;
	}
	assert(table->count < SIZE_CLASSES_MAX);
	table->class[table->count++] = class;
}

void
size_class_table_init(struct size_class_table *table, uint32_t page_size)
{
	const uint32_t step = page_size / STEPS_MAX;
	unsigned steps;

	assert(page_size >= ZC_PAGE_SIZE_MIN && page_size <= ZC_PAGE_SIZE_MAX);
	assert((page_size & (page_size - 1)) == 0);
	*table = (struct size_class_table){.page_size = page_size, .step = step};

	for (steps = STEPS_MIN; steps < STEPS_MAX; steps++) {
		struct size_class class = best_chain(steps * step, page_size);

		/* Larger sizes hold no more: a chain's object count only falls with the size. */
		if (class.objects <= class.pages)
			break;
		add_class(table, class);
		table->of_step[steps] = (uint8_t)(table->count - 1);
	}
	table->stored_max = (steps - 1) * step - ZC_OBJECT_HEADER_SIZE;

	add_class(table, (struct size_class){page_size, 1, 1});
	for (; steps <= STEPS_MAX; steps++)
		table->of_step[steps] = (uint8_t)(table->count - 1);
}
