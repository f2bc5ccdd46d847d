/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting and pools; service.h has the contract.
 */
#include "service.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "format.h"
#include "parse.h"
#include "report.h"

/*
 * zc_open has a deadline of its own, which --timeout cannot shorten: there is no connection to set
 * it on yet. An alarm does, and ends the process with the line that a timed-out call prints.
 */
static char late_line[512];
static size_t late_length;

static void
open_is_late(int signal)
{
	(void)signal;
	if (write(STDERR_FILENO, late_line, late_length) < 0)
		_exit(EXIT_TIMED_OUT);
	_exit(EXIT_TIMED_OUT);
}

static void
alarm_set(unsigned milliseconds)
{
	struct itimerval timer = {
		.it_value = {.tv_sec = milliseconds / 1000,
			     .tv_usec = (suseconds_t)(milliseconds % 1000) * 1000},
	};

	setitimer(ITIMER_REAL, &timer, NULL);
}

static void
alarm_arm(const struct context *context)
{
	struct sigaction action = {.sa_handler = open_is_late};

	late_length = failure_line(context, CALL_OPEN, -ETIMEDOUT, late_line, sizeof(late_line));
	sigaction(SIGALRM, &action, NULL);
	alarm_set(context->options.timeout);
}

int
service_connect(struct context *context)
{
	int rc;

	if (context->zc)
		return EXIT_OK;
	alarm_arm(context);
	rc = zc_open(context->options.socket, 0, &context->zc);
	alarm_set(0);
	if (rc < 0)
		return fail_call(context, CALL_OPEN, rc);
	zc_set_timeout(context->zc, context->options.timeout);
	return EXIT_OK;
}

const char *
pool_wanted(const struct context *context, int operand)
{
	const char *name = context->options.pool ? context->options.pool : "default";

	if (operand >= 0 && operand < context->operand_count) {
		name = context->operands[operand];
		if (context->options.pool) {
			fail_usage(context, "the pool is named twice, '%s' and --pool '%s'", name,
				   context->options.pool);
			return NULL;
		}
	}
	if (parse_pool_name(name) < 0) {
		fail_usage(context, "'%s' is no name of a pool: it has 1 to 63 bytes", name);
		return NULL;
	}
	return name;
}

int
pool_try_open(struct context *context, const char *name)
{
	zc_pool_close(&context->pool);
	snprintf(context->pool_name, sizeof(context->pool_name), "%s", shown(name).s);
	return zc_pool_open(context->zc, name, 0, &context->pool);
}

int
pool_open(struct context *context, const char *name)
{
	int rc = service_connect(context);

	if (rc != EXIT_OK)
		return rc;
	rc = pool_try_open(context, name);
	return rc < 0 ? fail_call(context, CALL_POOL, rc) : EXIT_OK;
}

int
pool_open_wanted(struct context *context, int operand)
{
	const char *name = pool_wanted(context, operand);

	return name ? pool_open(context, name) : EXIT_USAGE;
}

int
pool_list_all(struct context *context, struct zc_pool_info **list)
{
	size_t room = 64;

	for (;;) {
		int count;

		*list = calloc(room, sizeof(**list));
		if (!*list)
			return -ENOMEM;
		(*list)[0].struct_size = sizeof(**list);
		count = zc_pool_list(context->zc, *list, room);
		if (count >= 0 && (size_t)count <= room)
			return count;
		free(*list);
		*list = NULL;
		if (count < 0)
			return count;
		room = (size_t)count + 16; /* some may be created meanwhile */
	}
}

struct zc_pool_info
pool_facts(const struct context *context)
{
	struct zc_pool_info info = {.struct_size = sizeof(info)};

	/* Fails only for a struct_size it does not know. */
	zc_pool_info(context->pool, &info);
	return info;
}

bool
confirmed(const struct context *context, const char *format, ...)
{
	va_list arguments;
	char answer[16] = "";

	if ((context->options.given & OPTION_YES) || !isatty(STDIN_FILENO))
		return true;
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputs(" [y/N] ", stderr);
	if (!fgets(answer, sizeof(answer), stdin))
		fputc('\n', stderr);
	return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0;
}
