/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stats and ping. Each number is declared once, in a table of label, JSON key, place and meaning,
 * which makes both the text and the JSON. The man page lists the JSON keys; a test compares.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format.h"
#include "pool_json.h"
#include "report.h"
#include "service.h"
#include "table.h"

enum unit {
	UNIT_COUNT,
	UNIT_BYTES,
};

struct number {
	const char *label;
	const char *key;
	enum unit unit;
	size_t offset; /* in the struct it is about: a uint64_t */
	const char *meaning;
};

#define SERVICE_NUMBER(field, label, meaning)                                                \
	{                                                                                    \
		label, #field, UNIT_COUNT, offsetof(struct zc_service_stats, field), meaning \
	}
static const struct number service_numbers[] = {
	SERVICE_NUMBER(connections, "connections open", ""),
	SERVICE_NUMBER(connections_total, "connections so far", ""),
	SERVICE_NUMBER(connections_refused, "connections refused", "too many at once"),
	SERVICE_NUMBER(requests, "requests", ""),
	SERVICE_NUMBER(protocol_errors, "protocol errors", "connections ended for what they sent"),
	SERVICE_NUMBER(stalled_clients, "stalled clients", "connections ended for not going on"),
	SERVICE_NUMBER(denied, "requests denied", "for missing permission"),
};

#define POOL_NUMBER(field, key, unit, label, meaning)                       \
	{                                                                   \
		label, key, unit, offsetof(struct zc_stats, field), meaning \
	}
static const struct number pool_numbers[] = {
	POOL_NUMBER(entries, "entries", UNIT_COUNT, "pages stored", ""),
	POOL_NUMBER(logical_bytes, "logical_bytes", UNIT_BYTES, "logical",
		    "the pages as their owners see them"),
	POOL_NUMBER(stored_bytes, "stored_bytes", UNIT_BYTES, "stored",
		    "the pages as compressed (or raw) bytes"),
	POOL_NUMBER(data_bytes, "data_bytes", UNIT_BYTES, "pool data",
		    "memory that holds the stored bytes"),
	POOL_NUMBER(index_bytes, "index_bytes", UNIT_BYTES, "index", "memory of the index"),
	POOL_NUMBER(control_bytes, "page_table_bytes", UNIT_BYTES, "page table",
		    "memory of the page table"),
	POOL_NUMBER(resident_bytes, "resident_bytes", UNIT_BYTES, "resident",
		    "what the kernel says these three cost"),
	POOL_NUMBER(limit_bytes, "limit_bytes", UNIT_BYTES, "limit", "resident never passes it"),
	POOL_NUMBER(same_filled, "same_filled", UNIT_COUNT, "same-filled pages",
		    "one word repeated: no pool data"),
	POOL_NUMBER(incompressible, "incompressible", UNIT_COUNT, "incompressible pages",
		    "stored raw"),
	POOL_NUMBER(poisoned, "poisoned", UNIT_COUNT, "damaged pages",
		    "until overwritten or deleted"),
	POOL_NUMBER(puts, "puts", UNIT_COUNT, "puts", ""),
	POOL_NUMBER(deletes, "deletes", UNIT_COUNT, "deletes", ""),
	POOL_NUMBER(hits, "hits", UNIT_COUNT, "hits", "gets that found their page"),
	POOL_NUMBER(misses, "misses", UNIT_COUNT, "misses", "gets that did not"),
	POOL_NUMBER(refused_limit, "refused_limit", UNIT_COUNT, "refused: limit",
		    "puts at the pool's limit"),
	POOL_NUMBER(refused_memory, "refused_memory", UNIT_COUNT, "refused: memory",
		    "puts without room in cgroup or machine"),
	POOL_NUMBER(refused_collision, "refused_collision", UNIT_COUNT, "refused: collision",
		    "puts of keys that collide in the index"),
	POOL_NUMBER(refused_invalid, "refused_invalid", UNIT_COUNT, "refused: invalid",
		    "puts empty or longer than a page"),
	POOL_NUMBER(dropped_old, "dropped_old", UNIT_COUNT, "old values dropped",
		    "by a refused overwrite"),
	POOL_NUMBER(damaged, "damaged", UNIT_COUNT, "damages found", "so far"),
	POOL_NUMBER(compactions, "compactions", UNIT_COUNT, "compactions", ""),
	POOL_NUMBER(objects_moved, "objects_moved", UNIT_COUNT, "objects moved", "by compaction"),
	POOL_NUMBER(objects_packed, "objects_packed", UNIT_COUNT, "objects packed",
		    "moved to shorten zspages"),
	POOL_NUMBER(zspages_freed, "zspages_freed", UNIT_COUNT, "zspages freed", "by compaction"),
	POOL_NUMBER(pages_freed, "pages_freed", UNIT_COUNT, "OS pages freed",
		    "of 4 KiB, by compaction"),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint64_t
number_value(const struct number *number, const void *numbers)
{
	uint64_t value;

	memcpy(&value, (const char *)numbers + number->offset, sizeof(value));
	return value;
}

/* ---- text ---- */

/* A row: label, for people, exact, meaning. */
static void
add_row(struct table *table, const char *label, const char *human, const char *exact,
	const char *meaning)
{
	table_cell(table, "  %s", label);
	table_cell(table, "%s", human);
	table_cell(table, "%s", exact);
	table_cell(table, "%s", meaning);
}

static void
add_numbers(struct table *table, const struct number *list, size_t count, const void *numbers)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t value = number_value(&list[i], numbers);
		char exact[24];

		snprintf(exact, sizeof(exact), "%" PRIu64, value);
		add_row(table, list[i].label,
			list[i].unit == UNIT_BYTES ? human_bytes(value).s : "", exact,
			list[i].meaning);
	}
}

static int
print_service(const struct context *context, const struct zc_service_stats *stats)
{
	struct table table;
	char workers[16];

	if (table_begin(&table, "lrrl") < 0)
		return fail_memory(context);
	snprintf(workers, sizeof(workers), "%" PRIu32, stats->workers);
	add_row(&table, "up for", duration(stats->uptime_ms).s, "", "");
	add_row(&table, "workers", "", workers, "");
	add_numbers(&table, service_numbers, COUNT(service_numbers), stats);
	printf("service %s\n", shown(stats->version).s);
	return table_end(&table, stdout) < 0 ? fail_memory(context) : EXIT_OK;
}

static int
print_pool(const struct context *context, const struct zc_pool_info *info,
	   const struct zc_stats *stats)
{
	struct table table;

	if (table_begin(&table, "lrrl") < 0)
		return fail_memory(context);
	add_numbers(&table, pool_numbers, COUNT(pool_numbers), stats);
	add_row(&table, "ratio", ratio(stats->logical_bytes, stats->data_bytes).s, "",
		"logical / pool data");
	add_row(&table, "utilization", percentage(stats->stored_bytes, stats->data_bytes).s, "",
		"stored / pool data");
	add_row(&table, "limit in use", percentage(stats->resident_bytes, stats->limit_bytes).s, "",
		"resident / limit");
	add_row(&table, "hit rate", percentage(stats->hits, stats->hits + stats->misses).s, "",
		"hits / gets");
	printf("\npool '%s': %s, %s, values of up to %" PRIu32 " bytes, owner uid %" PRIu32 "\n",
	       shown(info->name).s, kind_name(info->kind).s, shown(info->codec).s, info->page_size,
	       info->owner_uid);
	return table_end(&table, stdout) < 0 ? fail_memory(context) : EXIT_OK;
}

/* ---- JSON ---- */

static void
set_numbers(json_t *object, const struct number *list, size_t count, const void *numbers)
{
	for (size_t i = 0; i < count; i++)
		json_object_set_new(object, list[i].key, json_u64(number_value(&list[i], numbers)));
}

static json_t *
service_json(const struct zc_service_stats *stats)
{
	json_t *object =
		json_pack("{s:s, s:o, s:o, s:I}", "version", shown(stats->version).s, "boot_id",
			  json_id(stats->boot_id), "uptime_ms", json_u64(stats->uptime_ms),
			  "workers", (json_int_t)stats->workers);

	set_numbers(object, service_numbers, COUNT(service_numbers), stats);
	return object;
}

static json_t *
pool_json(const struct zc_pool_info *info, const struct zc_stats *stats)
{
	json_t *object = pool_info_json(info);

	set_numbers(object, pool_numbers, COUNT(pool_numbers), stats);
	json_object_set_new(object, "ratio",
			    json_quotient(stats->logical_bytes, stats->data_bytes));
	json_object_set_new(object, "utilization",
			    json_quotient(stats->stored_bytes, stats->data_bytes));
	json_object_set_new(object, "hit_rate",
			    json_quotient(stats->hits, stats->hits + stats->misses));
	return object;
}

/* ---- the commands ---- */

/* Shows the open pool: as text, or in the JSON array `pools` when that is not NULL. */
static int
show_pool(const struct context *context, json_t *pools)
{
	struct zc_stats stats = {.struct_size = sizeof(stats)};
	struct zc_pool_info info = pool_facts(context);
	int rc = zc_stats(context->pool, &stats);

	if (rc < 0)
		return fail_call(context, CALL_ANY, rc);
	if (!pools)
		return print_pool(context, &info, &stats);
	json_array_append_new(pools, pool_json(&info, &stats));
	return EXIT_OK;
}

static int
show_every_pool(struct context *context, json_t *pools)
{
	struct zc_pool_info *list;
	int count = pool_list_all(context, &list);
	int rc = EXIT_OK;

	if (count < 0)
		return fail_call(context, CALL_ANY, count);
	for (int i = 0; i < count && rc == EXIT_OK; i++) {
		int error = pool_try_open(context, list[i].name);

		if (error == -ENOENT) /* destroyed since it was listed */
			continue;
		rc = error < 0 ? fail_call(context, CALL_POOL, error) : show_pool(context, pools);
	}
	free(list);
	return rc;
}

/* The open pool, or every pool when none is. */
static int
show_pools(struct context *context, json_t *pools)
{
	return context->pool ? show_pool(context, pools) : show_every_pool(context, pools);
}

static int
show_json(struct context *context, const struct zc_service_stats *stats)
{
	json_t *pools = json_array();
	int rc = pools ? show_pools(context, pools) : fail_memory(context);

	if (rc == EXIT_OK)
		return print_json(context, json_pack("{s:o, s:o}", "service", service_json(stats),
						     "pools", pools));
	json_decref(pools);
	return rc;
}

int
run_stats(struct context *context)
{
	struct zc_service_stats stats = {.struct_size = sizeof(stats)};
	bool named = context->operand_count > 0 || context->options.pool;
	int rc = named ? pool_open_wanted(context, 0) : service_connect(context);

	if (rc != EXIT_OK)
		return rc;
	rc = zc_service_stats(context->zc, &stats);
	if (rc < 0)
		return fail_call(context, CALL_ANY, rc);
	if (context->options.given & OPTION_JSON)
		return show_json(context, &stats);
	rc = print_service(context, &stats);
	return rc == EXIT_OK ? show_pools(context, NULL) : rc;
}

static uint64_t
now_microseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

int
run_ping(struct context *context)
{
	uint64_t start;
	uint64_t took;
	int rc = service_connect(context);

	if (rc != EXIT_OK)
		return rc;
	start = now_microseconds();
	rc = zc_ping(context->zc);
	took = now_microseconds() - start;
	if (rc < 0)
		return fail_call(context, CALL_ANY, rc);
	if (context->options.given & OPTION_JSON)
		return print_json(context, json_pack("{s:o}", "microseconds", json_u64(took)));
	printf("answer after %" PRIu64 " microseconds\n", took);
	return EXIT_OK;
}
