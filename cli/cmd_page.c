/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Commands on pages: put, get, del, exists, del-object, flush.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format.h"
#include "parse.h"
#include "report.h"
#include "service.h"
#include "value_io.h"

/* A key as JSON text: its numbers can pass what JSON readers hold. */
static struct text
key_text(zc_key key)
{
	struct text text;

	snprintf(text.s, sizeof(text.s), "%" PRIu64 ":%" PRIu64, key.object, key.index);
	return text;
}

/* Reads KEY and opens the pool of --pool. */
static int
key_open(struct context *context, zc_key *key)
{
	const char *text = context->operands[0];

	if (parse_key(text, key) < 0)
		return fail_usage(context,
				  "'%s' is no key: write OBJECT:INDEX, two numbers below 2^64, "
				  "decimal or 0x",
				  text);
	snprintf(context->subject, sizeof(context->subject), "%s %s", context->command->name,
		 key_text(*key).s);
	return pool_open_wanted(context, -1);
}

static const char *
file_operand(const struct context *context)
{
	return context->operand_count > 1 ? context->operands[1] : NULL;
}

static int
print_moved(const struct context *context, zc_key key, size_t length)
{
	if (!(context->options.given & OPTION_JSON))
		return EXIT_OK;
	return print_json(context, json_pack("{s:s, s:s, s:I}", "pool", context->pool_name, "key",
					     key_text(key).s, "bytes", (json_int_t)length));
}

static int
put_value(const struct context *context, zc_key key, char *value, size_t max)
{
	unsigned flags = context->options.given & OPTION_KEEP_OLD ? ZC_KEEP_OLD : 0;
	size_t length = 0;
	int rc = value_read(context, file_operand(context), value, max, &length);

	if (rc != EXIT_OK)
		return rc;
	rc = zc_put(context->pool, key, value, length, flags);
	if (rc < 0)
		return fail_call(context, CALL_PUT, rc);
	return print_moved(context, key, length);
}

int
run_put(struct context *context)
{
	zc_key key;
	uint32_t page_size;
	char *value;
	int rc = key_open(context, &key);

	if (rc != EXIT_OK)
		return rc;
	page_size = pool_facts(context).page_size;
	value = malloc(page_size);
	if (!value)
		return fail_memory(context);
	rc = put_value(context, key, value, page_size);
	free(value);
	return rc;
}

static int
get_value(const struct context *context, zc_key key, char *value, size_t room)
{
	const char *path = file_operand(context);
	int length = zc_get(context->pool, key, value, room);
	int rc;

	if (length < 0)
		return fail_call(context, CALL_PAGE, length);
	rc = value_write(context, path, value, (size_t)length);
	return rc == EXIT_OK ? print_moved(context, key, (size_t)length) : rc;
}

int
run_get(struct context *context)
{
	zc_key key;
	uint32_t page_size;
	char *value;
	int rc;

	if ((context->options.given & OPTION_JSON) && is_standard_stream(file_operand(context)))
		return fail_usage(context, "--json needs a FILE: the value takes standard output");
	rc = key_open(context, &key);
	if (rc != EXIT_OK)
		return rc;
	page_size = pool_facts(context).page_size;
	value = malloc(page_size);
	if (!value)
		return fail_memory(context);
	rc = get_value(context, key, value, page_size);
	free(value);
	return rc;
}

int
run_delete(struct context *context)
{
	zc_key key;
	int rc = key_open(context, &key);

	if (rc != EXIT_OK)
		return rc;
	rc = zc_del(context->pool, key);
	if (rc < 0)
		return fail_call(context, CALL_PAGE, rc);
	if (!(context->options.given & OPTION_JSON))
		return EXIT_OK;
	return print_json(context, json_pack("{s:s, s:s}", "pool", context->pool_name, "key",
					     key_text(key).s));
}

int
run_exists(struct context *context)
{
	zc_key key;
	int there;
	int rc = key_open(context, &key);

	if (rc != EXIT_OK)
		return rc;
	there = zc_exists(context->pool, key);
	if (there < 0)
		return fail_call(context, CALL_PAGE, there);
	if (context->options.given & OPTION_JSON)
		rc = print_json(context, json_pack("{s:s, s:s, s:b}", "pool", context->pool_name,
						   "key", key_text(key).s, "exists", there));
	else
		puts(there ? "yes" : "no");
	if (rc != EXIT_OK)
		return rc;
	return there ? EXIT_OK : EXIT_NEGATIVE;
}

/* Says how many pages a mass delete removed, or why it failed. */
static int
report_deleted(const struct context *context, int64_t deleted)
{
	if (deleted < 0)
		return fail_call(context, CALL_ANY, (int)deleted);
	if (context->options.given & OPTION_JSON)
		return print_json(context, json_pack("{s:s, s:I}", "pool", context->pool_name,
						     "pages_deleted", (json_int_t)deleted));
	printf("%" PRId64 " pages deleted from pool '%s'\n", deleted, context->pool_name);
	return EXIT_OK;
}

int
run_delete_object(struct context *context)
{
	const char *text = context->operands[0];
	uint64_t object;
	int rc;

	if (parse_u64(text, &object) < 0)
		return fail_usage(context,
				  "'%s' is no object: write a number below 2^64, decimal or 0x",
				  text);
	snprintf(context->subject, sizeof(context->subject), "del-object %" PRIu64, object);
	rc = pool_open_wanted(context, -1);
	return rc == EXIT_OK ? report_deleted(context, zc_del_object(context->pool, object)) : rc;
}

int
run_flush(struct context *context)
{
	int rc = pool_open_wanted(context, 0);

	if (rc != EXIT_OK)
		return rc;
	if (!confirmed(context, "Delete every page of pool '%s'?", context->pool_name))
		return fail_with(context, EXIT_NEGATIVE, "not confirmed: nothing was deleted");
	return report_deleted(context, zc_flush(context->pool));
}
