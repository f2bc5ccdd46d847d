/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The commands of zcachectl and what they share: the table that drives dispatch, help and the tests
 * of completions and man page, and the context of one run.
 *
 * One thread, one command a process: nothing here locks.
 */
#ifndef ZCACHED_CLI_COMMAND_H
#define ZCACHED_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <zclient.h>

/* One bit an option, for the masks in struct command and struct options. */
enum option_bit {
	OPTION_SOCKET = 1 << 0,
	OPTION_POOL = 1 << 1,
	OPTION_JSON = 1 << 2,
	OPTION_TIMEOUT = 1 << 3,
	OPTION_HELP = 1 << 4,
	OPTION_VERSION = 1 << 5,
	OPTION_ALL = 1 << 6,
	OPTION_CODEC = 1 << 7,
	OPTION_ESTIMATE = 1 << 8,
	OPTION_KEEP_OLD = 1 << 9,
	OPTION_KIND = 1 << 10,
	OPTION_LIMIT = 1 << 11,
	OPTION_PAGE_SIZE = 1 << 12,
	OPTION_YES = 1 << 13,
};

/* What every command takes. */
#define OPTIONS_GLOBAL (OPTION_SOCKET | OPTION_JSON | OPTION_TIMEOUT | OPTION_HELP | OPTION_VERSION)

struct options {
	uint32_t given; /* enum option_bit: named on the command line */
	const char *socket;
	const char *pool;
	const char *codec;
	uint64_t limit;	    /* bytes */
	uint64_t page_size; /* bytes */
	uint32_t kind;	    /* enum zc_kind */
	unsigned timeout;   /* milliseconds */
};

struct context {
	const struct command *command; /* NULL until it is known */
	struct options options;
	char **operands; /* what follows the command's name */
	int operand_count;
	char subject[128];  /* "put 1:2": where an error line starts */
	char pool_name[72]; /* as it may be shown; "" when none is open */
	struct zc *zc;
	struct zc_pool *pool;
};

struct command {
	const char *name;     /* "stats", "pool list" */
	const char *operands; /* as in help: "KEY [FILE]" */
	int operands_min, operands_max;
	uint32_t options; /* enum option_bit, beyond OPTIONS_GLOBAL */
	const char *summary;
	const char *help;		     /* whole lines */
	int (*run)(struct context *context); /* returns an enum exit_code */
};

extern const struct command commands[];
extern const size_t command_count;

/*
 * The command named by the first one or two words, and how many words that took. NULL: none.
 * command_is_group tells whether `word` alone starts the name of a command, as "pool" does.
 */
const struct command *command_find(char **words, int count, int *words_taken);
bool command_is_group(const char *word);

/* Parses argv, runs the command, closes what it opened. Returns the exit code of the process. */
int cli_run(int argc, char **argv);

int run_classes(struct context *context);
int run_compact(struct context *context);
int run_delete(struct context *context);
int run_delete_object(struct context *context);
int run_exists(struct context *context);
int run_flush(struct context *context);
int run_get(struct context *context);
int run_help(struct context *context);
int run_ping(struct context *context);
int run_pool_create(struct context *context);
int run_pool_destroy(struct context *context);
int run_pool_list(struct context *context);
int run_put(struct context *context);
int run_stats(struct context *context);

#endif
