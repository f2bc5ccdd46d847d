/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How zcachectl answers: exit codes, error lines, JSON, and whether the output arrived.
 *
 * Every error is one line on standard error, "zcachectl: SUBJECT: TEXT", and one exit code. What a
 * negative errno of the library means depends on the call that returned it: a table in report.c
 * says so.
 */
#ifndef ZCACHED_CLI_REPORT_H
#define ZCACHED_CLI_REPORT_H

#include <jansson.h>

#include "command.h"

/* Part of the interface, documented in the man page: numbers never change their meaning. */
enum exit_code {
	EXIT_OK = 0,
	EXIT_NEGATIVE = 1,    /* not found, not there, not confirmed */
	EXIT_USAGE = 2,	      /* an argument or a value that cannot be right */
	EXIT_UNREACHABLE = 3, /* no service */
	EXIT_REFUSED = 4,     /* limit, memory, permission, exists already */
	EXIT_DAMAGED = 5,     /* stored and damaged */
	EXIT_OTHER = 6,
	EXIT_TIMED_OUT = 7,
};
#define EXIT_CODES 8

/* What an exit code means, in a few words. */
const char *exit_code_text(enum exit_code code);

/* The call that failed: it decides what the errno is about. */
enum call {
	CALL_ANY, /* in the table only: errors that mean the same everywhere */
	CALL_OPEN,
	CALL_POOL,
	CALL_PAGE,
	CALL_PUT,
	CALL_COMPACT,
	CALL_CREATE,
	CALL_DESTROY,
};

/* Print the error line and return the exit code. `error` is a negative errno. */
int fail_with(const struct context *context, enum exit_code code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
int fail_usage(const struct context *context, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int fail_call(const struct context *context, enum call call, int error);
int fail_memory(const struct context *context);

/* fail_call's line without printing it: for a signal handler. Returns its length. */
size_t failure_line(const struct context *context, enum call call, int error, char *line,
		    size_t size);

/*
 * Prints `object` (which is freed) on standard output. NULL, from a failed allocation, is an error
 * line. Returns an exit code.
 */
int print_json(const struct context *context, json_t *object);

/* A JSON integer; null for what a JSON reader with 64-bit signed integers cannot hold. */
json_t *json_u64(uint64_t number);

/* part / whole; null without a whole. */
json_t *json_quotient(uint64_t part, uint64_t whole);

/*
 * Flushes standard output. When some of it could not be written, says so and returns EXIT_OTHER in
 * place of EXIT_OK; any other code stays.
 */
int finish_output(const struct context *context, int code);

#endif
