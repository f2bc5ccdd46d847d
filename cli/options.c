/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The options of zcachectl: one table for parsing and help. Options may stand anywhere on the
 * command line; which of them a command takes is in the table of commands, and checked by cli_run.
 */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"
#include "report.h"
#include "size.h"

/* What getopt_long returns for long options: far from any letter. */
#define LONG_BASE 1000

/* Of a pool; which sizes between them there are is the service's to say. */
#define PAGE_SIZE_MIN 4096
#define PAGE_SIZE_MAX 65536

const struct option_info option_table[] = {
	{OPTION_ALL, "all", NULL, "show empty size classes too"},
	{OPTION_CODEC, "codec", "CODEC",
	 "how pages are compressed: lz4, lz4:ACCELERATION, zstd, "
	 "zstd:LEVEL"},
	{OPTION_ESTIMATE, "estimate", NULL, "only say what a compaction would do"},
	{OPTION_HELP, "help", NULL, "show this help, or that of the command"},
	{OPTION_JSON, "json", NULL, "print a JSON object in place of text"},
	{OPTION_KEEP_OLD, "keep-old", NULL, "when the new value is refused, keep the old one"},
	{OPTION_KIND, "kind", "KIND",
	 "cache (may lose pages by policy) or store (refuses when "
	 "full; the default)"},
	{OPTION_LIMIT, "limit", "SIZE", "most memory the pool may use"},
	{OPTION_PAGE_SIZE, "page-size", "SIZE", "longest value: 4K (the default), 8K .. 64K"},
	{OPTION_POOL, "pool", "NAME", "the pool (default: default)"},
	{OPTION_SOCKET, "socket", "PATH", "where the service listens"},
	{OPTION_TIMEOUT, "timeout", "SECONDS",
	 "longest wait for one answer (default: 10; 0: no limit)"},
	{OPTION_VERSION, "version", NULL, "show the version"},
	{OPTION_YES, "yes", NULL, "do not ask"},
};
const size_t option_table_count = sizeof(option_table) / sizeof(option_table[0]);

const char *
option_name(uint32_t mask)
{
	for (size_t i = 0; i < option_table_count; i++)
		if (mask & option_table[i].bit)
			return option_table[i].name;
	return "";
}

static void
fill_getopt(struct option *longs)
{
	memset(longs, 0, (option_table_count + 1) * sizeof(*longs));
	for (size_t i = 0; i < option_table_count; i++) {
		longs[i].name = option_table[i].name;
		longs[i].has_arg = option_table[i].argument ? required_argument : no_argument;
		longs[i].val = LONG_BASE + (int)i;
	}
}

static int
set_size(const struct context *context, const char *option, const char *value, uint64_t min,
	 uint64_t max, uint64_t *out)
{
	char why[256];

	if (size_parse_option(option, value, min, max, out, why, sizeof(why)) < 0)
		return fail_usage(context, "%s", why);
	return EXIT_OK;
}

static int
set_option(struct context *context, const struct option_info *option, const char *value)
{
	struct options *options = &context->options;

	options->given |= option->bit;
	switch (option->bit) {
	case OPTION_SOCKET:
		options->socket = value;
		return EXIT_OK;
	case OPTION_POOL:
		options->pool = value;
		return EXIT_OK;
	case OPTION_CODEC:
		options->codec = value;
		return EXIT_OK;
	case OPTION_LIMIT:
		return set_size(context, "--limit", value, 1, UINT64_MAX, &options->limit);
	case OPTION_PAGE_SIZE:
		return set_size(context, "--page-size", value, PAGE_SIZE_MIN, PAGE_SIZE_MAX,
				&options->page_size);
	case OPTION_KIND:
		if (parse_kind(value, &options->kind) < 0)
			return fail_usage(context, "'%s' is no --kind: write cache or store",
					  value);
		return EXIT_OK;
	case OPTION_TIMEOUT:
		if (parse_seconds(value, &options->timeout) < 0)
			return fail_usage(context, "'%s' is no --timeout: write seconds, as 2.5",
					  value);
		return EXIT_OK;
	}
	return EXIT_OK; /* its bit says all */
}

int
options_parse(struct context *context, int argc, char **argv)
{
	struct option longs[OPTIONS_MAX + 1];
	int chosen;

	fill_getopt(longs);
	opterr = 0;
	optind = 0; /* start anew, also when called twice */
	while ((chosen = getopt_long(argc, argv, ":hV", longs, NULL)) != -1) {
		const struct option_info *option;
		int rc;

		if (chosen == ':')
			return fail_usage(context, "%s needs a value", argv[optind - 1]);
		if (chosen == '?')
			return fail_usage(context, "unknown option %s", argv[optind - 1]);
		if (chosen == 'h' || chosen == 'V') {
			context->options.given |= chosen == 'h' ? OPTION_HELP : OPTION_VERSION;
			continue;
		}
		option = &option_table[chosen - LONG_BASE];
		rc = set_option(context, option, optarg);
		if (rc != EXIT_OK)
			return rc;
	}
	return EXIT_OK;
}
