/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * classes: the size classes of a pool, one row each, with a histogram of how full their zspages
 * are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format.h"
#include "report.h"
#include "service.h"
#include "table.h"

#define FULLNESS_GROUPS 11
#define OS_PAGE_SIZE	4096u

static int
list_classes(const struct context *context, struct zc_class **list)
{
	size_t room = 512;

	for (;;) {
		int count;

		*list = calloc(room, sizeof(**list));
		if (!*list)
			return -ENOMEM;
		(*list)[0].struct_size = sizeof(**list);
		count = zc_classes(context->pool, *list, room);
		if (count >= 0 && (size_t)count <= room)
			return count;
		free(*list);
		*list = NULL;
		if (count < 0)
			return count;
		room = (size_t)count;
	}
}

/*
 * OS pages in the zspages that compaction can free. They are the emptiest, which may not be
 * populated to their end: the class's own pages bound it as well.
 */
static uint64_t
freeable_pages(const struct zc_class *class, uint32_t page_size)
{
	uint64_t pages =
		class->zspages_freeable * class->pages_per_zspage * (page_size / OS_PAGE_SIZE);

	return pages < class->pages_resident ? pages : class->pages_resident;
}

static void
add_up(struct zc_class *total, const struct zc_class *class)
{
	total->zspages += class->zspages;
	total->objects_allocated += class->objects_allocated;
	total->objects_used += class->objects_used;
	total->pages_resident += class->pages_resident;
	total->zspages_freeable += class->zspages_freeable;
	total->moves_lower_bound += class->moves_lower_bound;
	for (unsigned i = 0; i < FULLNESS_GROUPS; i++)
		total->fullness[i] += class->fullness[i];
}

static bool
is_shown(const struct context *context, const struct zc_class *class)
{
	return class->zspages > 0 || (context->options.given & OPTION_ALL);
}

/* ---- text ---- */

static void
add_head(struct table *table)
{
	static const char *const head[] = {"SIZE",    "PAGES/ZSPAGE", "OBJECTS/ZSPAGE",
					   "ZSPAGES", "ALLOCATED",    "USED",
					   "PAGES",   "FREEABLE"};

	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		table_cell(table, "%s", head[i]);
	table_cell(table, "empty");
	for (unsigned i = 1; i < FULLNESS_GROUPS; i++)
		table_cell(table, "%u%%", i * 10);
}

/* The columns that rows and total have in common. */
static void
add_numbers(struct table *table, const struct zc_class *class, uint64_t freeable)
{
	table_cell(table, "%" PRIu64, class->zspages);
	table_cell(table, "%" PRIu64, class->objects_allocated);
	table_cell(table, "%" PRIu64, class->objects_used);
	table_cell(table, "%" PRIu64, class->pages_resident);
	table_cell(table, "%" PRIu64, freeable);
	for (unsigned i = 0; i < FULLNESS_GROUPS; i++) {
		if (class->fullness[i] > 0)
			table_cell(table, "%" PRIu64, class->fullness[i]);
		else /* a row of zeros would hide the others */
			table_cell(table, ".");
	}
}

static int
print_text(const struct context *context, const struct zc_class *list, int count,
	   uint32_t page_size)
{
	struct zc_class total = {0};
	uint64_t freeable_total = 0;
	struct table table;

	if (table_begin(&table, "rrrrrrrrrrrrrrrrrrr") < 0)
		return fail_memory(context);
	add_head(&table);
	for (int i = 0; i < count; i++) {
		uint64_t freeable = freeable_pages(&list[i], page_size);

		add_up(&total, &list[i]);
		freeable_total += freeable;
		if (!is_shown(context, &list[i]))
			continue;
		table_cell(&table, "%" PRIu32, list[i].size);
		table_cell(&table, "%" PRIu32, list[i].pages_per_zspage);
		table_cell(&table, "%" PRIu32, list[i].objects_per_zspage);
		add_numbers(&table, &list[i], freeable);
	}
	table_cell(&table, "total");
	table_cell(&table, "%s", "");
	table_cell(&table, "%s", "");
	add_numbers(&table, &total, freeable_total);
	return table_end(&table, stdout) < 0 ? fail_memory(context) : EXIT_OK;
}

/* ---- JSON ---- */

static json_t *
fullness_json(const struct zc_class *class)
{
	json_t *array = json_array();

	for (unsigned i = 0; i < FULLNESS_GROUPS; i++)
		json_array_append_new(array, json_u64(class->fullness[i]));
	return array;
}

/* The keys that a class and the total have in common. */
static json_t *
numbers_json(const struct zc_class *class, uint64_t freeable)
{
	return json_pack(
		"{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "zspages", json_u64(class->zspages),
		"objects_allocated", json_u64(class->objects_allocated), "objects_used",
		json_u64(class->objects_used), "pages_resident", json_u64(class->pages_resident),
		"zspages_freeable", json_u64(class->zspages_freeable), "pages_freeable",
		json_u64(freeable), "moves_lower_bound", json_u64(class->moves_lower_bound),
		"fullness", fullness_json(class));
}

static json_t *
class_json(const struct zc_class *class, uint64_t freeable)
{
	json_t *object = json_pack("{s:I, s:I, s:I}", "size", (json_int_t) class->size,
				   "pages_per_zspage", (json_int_t) class->pages_per_zspage,
				   "objects_per_zspage", (json_int_t) class->objects_per_zspage);

	json_object_update_new(object, numbers_json(class, freeable));
	return object;
}

static int
print_classes_json(const struct context *context, const struct zc_class *list, int count,
		   uint32_t page_size)
{
	struct zc_class total = {0};
	uint64_t freeable_total = 0;
	json_t *classes = json_array();

	for (int i = 0; i < count; i++) {
		uint64_t freeable = freeable_pages(&list[i], page_size);

		add_up(&total, &list[i]);
		freeable_total += freeable;
		if (is_shown(context, &list[i]))
			json_array_append_new(classes, class_json(&list[i], freeable));
	}
	return print_json(context,
			  json_pack("{s:s, s:o, s:o}", "pool", context->pool_name, "classes",
				    classes, "total", numbers_json(&total, freeable_total)));
}

int
run_classes(struct context *context)
{
	struct zc_class *list;
	uint32_t page_size;
	int count;
	int rc = pool_open_wanted(context, 0);

	if (rc != EXIT_OK)
		return rc;
	page_size = pool_facts(context).page_size;
	count = list_classes(context, &list);
	if (count < 0)
		return fail_call(context, CALL_ANY, count);
	if (context->options.given & OPTION_JSON)
		rc = print_classes_json(context, list, count, page_size);
	else
		rc = print_text(context, list, count, page_size);
	free(list);
	return rc;
}
