/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands on pools as a whole: pool list, pool create, pool destroy.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format.h"
#include "parse.h"
#include "pool_json.h"
#include "report.h"
#include "service.h"
#include "table.h"

static int
print_list_json(const struct context *context, const struct zc_pool_info *list, int count)
{
	json_t *pools = json_array();

	for (int i = 0; i < count; i++)
		json_array_append_new(pools, pool_info_json(&list[i]));
	return print_json(context, json_pack("{s:o}", "pools", pools));
}

static int
print_list(const struct context *context, const struct zc_pool_info *list, int count)
{
	static const char *const head[] = {"NAME",  "KIND",  "PAGE SIZE", "LIMIT",
					   "CODEC", "OWNER", "ID"};
	struct table table;

	if (table_begin(&table, "llrllrl") < 0)
		return fail_memory(context);
	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++)
		table_cell(&table, "%s", head[i]);
	for (int i = 0; i < count; i++) {
		table_cell(&table, "%s", shown(list[i].name).s);
		table_cell(&table, "%s", kind_name(list[i].kind).s);
		table_cell(&table, "%" PRIu32, list[i].page_size);
		table_cell(&table, "%s", both_bytes(list[i].limit).s);
		table_cell(&table, "%s", shown(list[i].codec).s);
		table_cell(&table, "%" PRIu32, list[i].owner_uid);
		table_cell(&table, "0x%016" PRIx64, list[i].pool_id);
	}
	return table_end(&table, stdout) < 0 ? fail_memory(context) : EXIT_OK;
}

int
run_pool_list(struct context *context)
{
	struct zc_pool_info *list;
	int count;
	int rc = service_connect(context);

	if (rc != EXIT_OK)
		return rc;
	count = pool_list_all(context, &list);
	if (count < 0)
		return fail_call(context, CALL_ANY, count);
	if (context->options.given & OPTION_JSON)
		rc = print_list_json(context, list, count);
	else
		rc = print_list(context, list, count);
	free(list);
	return rc;
}

/* Checks NAME and makes it the pool that error lines are about. */
static int
name_operand(struct context *context)
{
	const char *name = pool_wanted(context, 0);

	if (!name)
		return EXIT_USAGE;
	snprintf(context->pool_name, sizeof(context->pool_name), "%s", shown(name).s);
	return EXIT_OK;
}

static int
fill_info(const struct context *context, struct zc_pool_info *info)
{
	const struct options *options = &context->options;

	info->struct_size = sizeof(*info);
	info->kind = options->kind;
	info->limit = options->limit;
	info->page_size = (uint32_t)options->page_size;
	snprintf(info->name, sizeof(info->name), "%s", context->operands[0]);
	if (!options->codec)
		return EXIT_OK;
	if (strlen(options->codec) >= sizeof(info->codec))
		return fail_usage(context, "'%s' is no --codec: write lz4 or zstd:3",
				  options->codec);
	snprintf(info->codec, sizeof(info->codec), "%s", options->codec);
	return EXIT_OK;
}

static int
report_pool(const struct context *context, const char *done)
{
	if (context->options.given & OPTION_JSON)
		return print_json(context,
				  json_pack("{s:s, s:b}", "pool", context->pool_name, done, 1));
	printf("pool '%s' %s\n", context->pool_name, done);
	return EXIT_OK;
}

int
run_pool_create(struct context *context)
{
	struct zc_pool_info info = {.struct_size = sizeof(info)};
	int rc = name_operand(context);

	if (rc == EXIT_OK)
		rc = fill_info(context, &info);
	if (rc == EXIT_OK)
		rc = service_connect(context);
	if (rc != EXIT_OK)
		return rc;
	rc = zc_pool_create(context->zc, &info);
	return rc < 0 ? fail_call(context, CALL_CREATE, rc) : report_pool(context, "created");
}

int
run_pool_destroy(struct context *context)
{
	int rc = name_operand(context);

	if (rc == EXIT_OK)
		rc = service_connect(context);
	if (rc != EXIT_OK)
		return rc;
	if (!confirmed(context, "Destroy pool '%s' and every page in it?", context->pool_name))
		return fail_with(context, EXIT_NEGATIVE, "not confirmed: the pool stays");
	rc = zc_pool_destroy(context->zc, context->operands[0]);
	return rc < 0 ? fail_call(context, CALL_DESTROY, rc) : report_pool(context, "destroyed");
}
