/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Error lines, exit codes and JSON output; report.h has the contract.
 */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "format.h"

/* Text of other users or of the service is cut to fit; a line is always whole. */
#define LINE_SIZE 1024

struct line {
	char *text;
	size_t size;
	size_t length;
};

static void __attribute__((format(printf, 2, 3)))
line_add(struct line *line, const char *format, ...)
{
	va_list arguments;
	int wanted;

	va_start(arguments, format);
	wanted = vsnprintf(line->text + line->length, line->size - line->length, format, arguments);
	va_end(arguments);
	if (wanted < 0)
		return;
	line->length += (size_t)wanted;
	if (line->length >= line->size)
		line->length = line->size - 1;
}

const char *
exit_code_text(enum exit_code code)
{
	static const char *const texts[EXIT_CODES] = {
		[EXIT_OK] = "done",
		[EXIT_NEGATIVE] = "not found, or a negative answer",
		[EXIT_USAGE] = "usage error: an argument or a value that cannot be right",
		[EXIT_UNREACHABLE] = "the service cannot be reached",
		[EXIT_REFUSED] = "refused: limit, memory, permission, or it exists already",
		[EXIT_DAMAGED] = "the page is stored and damaged",
		[EXIT_OTHER] = "another error, of a file or of the output for example",
		[EXIT_TIMED_OUT] = "timed out",
	};

	return texts[code];
}

/*
 * What a negative errno means. The first line whose call (or CALL_ANY) and errno match counts. In
 * texts and advices @p is the pool, @s the socket, @t the deadline.
 */
static const struct failure {
	enum call call;
	int error;
	enum exit_code code;
	const char *text;
	const char *advice; /* NULL: none */
} failures[] = {
	{CALL_OPEN, ENOENT, EXIT_UNREACHABLE, "there is no socket @s",
	 "start zcached, or name its socket with --socket"},
	{CALL_OPEN, ECONNREFUSED, EXIT_UNREACHABLE, "nobody listens on @s",
	 "start zcached, or name its socket with --socket"},
	{CALL_OPEN, EACCES, EXIT_REFUSED, "no permission to use the socket @s",
	 "become a member of its group"},
	{CALL_OPEN, EINVAL, EXIT_USAGE, "@s cannot be the path of a socket", NULL},
	{CALL_OPEN, ECONNRESET, EXIT_UNREACHABLE, "the service at @s hung up", NULL},
	{CALL_OPEN, ETIMEDOUT, EXIT_TIMED_OUT, "no answer from @s within @t", NULL},

	{CALL_POOL, ENOENT, EXIT_NEGATIVE, "@p does not exist", "see 'zcachectl pool list'"},
	{CALL_POOL, EINVAL, EXIT_USAGE, "@p cannot be the name of a pool", NULL},
	{CALL_POOL, EACCES, EXIT_REFUSED, "the service does not let you use @p", NULL},

	{CALL_PAGE, ENOENT, EXIT_NEGATIVE, "not found in @p", NULL},
	{CALL_PAGE, EBADMSG, EXIT_DAMAGED, "stored in @p and damaged",
	 "it stays so until it is overwritten or deleted"},

	{CALL_PUT, ENOSPC, EXIT_REFUSED, "@p is at its limit", "raise it or delete pages"},
	{CALL_PUT, ENOMEM, EXIT_REFUSED,
	 "the service's memory cgroup or the machine has no room for @p",
	 "raise the cgroup's limit or delete pages"},
	{CALL_PUT, EXFULL, EXIT_REFUSED, "too many keys of @p collide in its index",
	 "delete some of them or use others"},
	{CALL_PUT, EMSGSIZE, EXIT_USAGE, "longer than a page of @p", NULL},

	{CALL_COMPACT, EACCES, EXIT_REFUSED, "only its owner and root may compact @p", NULL},

	{CALL_CREATE, EEXIST, EXIT_REFUSED, "@p exists already", NULL},
	{CALL_CREATE, EINVAL, EXIT_USAGE, "the service cannot make @p with these settings", NULL},
	{CALL_CREATE, EACCES, EXIT_REFUSED, "the service does not let you create @p", NULL},
	{CALL_CREATE, ENOSPC, EXIT_REFUSED, "the service has no room for @p", "lower its limit"},
	{CALL_CREATE, ENOMEM, EXIT_REFUSED, "the service has no memory for @p", "lower its limit"},

	{CALL_DESTROY, ENOENT, EXIT_NEGATIVE, "@p does not exist", "see 'zcachectl pool list'"},
	{CALL_DESTROY, EINVAL, EXIT_USAGE, "@p cannot be the name of a pool", NULL},
	{CALL_DESTROY, EACCES, EXIT_REFUSED, "only its owner and root may destroy @p", NULL},

	{CALL_DESTROY, EBUSY, EXIT_REFUSED, "@p is part of the service's configuration",
	 "remove it there and start the service again"},

	{CALL_ANY, EBADF, EXIT_NEGATIVE, "@p does not exist any more", NULL},
	{CALL_ANY, ENOENT, EXIT_NEGATIVE, "@p does not exist any more", NULL},
	{CALL_ANY, ETIMEDOUT, EXIT_TIMED_OUT, "no answer from @s within @t",
	 "what was asked for may or may not have been done"},
	{CALL_ANY, ECONNREFUSED, EXIT_UNREACHABLE, "nobody listens on @s any more", NULL},
	{CALL_ANY, EHOSTDOWN, EXIT_UNREACHABLE, "the service at @s went away and did not come back",
	 NULL},
	{CALL_ANY, ECONNRESET, EXIT_UNREACHABLE, "the connection to @s was lost",
	 "what was asked for may or may not have been done"},
	{CALL_ANY, EACCES, EXIT_REFUSED, "no permission", NULL},
	{CALL_ANY, EPERM, EXIT_REFUSED, "not permitted", NULL},
	{CALL_ANY, ENOSPC, EXIT_REFUSED, "@p is at its limit", NULL},
	{CALL_ANY, ENOMEM, EXIT_OTHER, "out of memory", NULL},
	{CALL_ANY, EPROTO, EXIT_OTHER, "what answers on @s does not speak zcached's protocol",
	 NULL},
	{CALL_ANY, EPROTONOSUPPORT, EXIT_OTHER,
	 "the service at @s speaks another version of the protocol",
	 "use the zcachectl of its version"},
};

static const struct failure *
failure_find(enum call call, int error)
{
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		const struct failure *failure = &failures[i];

		if (failure->error == -error &&
		    (failure->call == call || failure->call == CALL_ANY))
			return failure;
	}
	return NULL;
}

static const char *
socket_path(const struct context *context)
{
	return context->options.socket ? context->options.socket : zc_default_socket();
}

/* Adds `text` with its @p, @s and @t filled in. */
static void
line_expand(struct line *line, const struct context *context, const char *text)
{
	for (; *text; text++) {
		if (*text != '@') {
			line_add(line, "%c", *text);
			continue;
		}
		switch (*++text) {
		case 'p':
			line_add(line, "pool '%s'", context->pool_name);
			break;
		case 's':
			line_add(line, "%s", socket_path(context));
			break;
		case 't':
			if (context->options.timeout > 0)
				line_add(line, "%g s", context->options.timeout / 1000.0);
			else /* of connecting, which has a deadline in any case */
				line_add(line, "the deadline");
			break;
		}
	}
}

static void
line_start(struct line *line, const struct context *context)
{
	line_add(line, "zcachectl: ");
	if (context->subject[0])
		line_add(line, "%s: ", context->subject);
}

/* Ends the line: its text may hold what other users wrote. */
static void
line_end(struct line *line)
{
	make_printable(line->text);
	if (line->length > line->size - 2)
		line->length = line->size - 2;
	line->text[line->length++] = '\n';
	line->text[line->length] = '\0';
}

size_t
failure_line(const struct context *context, enum call call, int error, char *text, size_t size)
{
	const struct failure *failure = failure_find(call, error);
	const char *service_text = context->zc ? zc_error_text(context->zc) : "";
	struct line line = {.text = text, .size = size};

	line_start(&line, context);
	if (failure)
		line_expand(&line, context, failure->text);
	else
		line_add(&line, "%s", strerror(-error));
	if (service_text[0])
		line_add(&line, " (%s)", service_text);
	if (failure && failure->advice) {
		line_add(&line, ": ");
		line_expand(&line, context, failure->advice);
	}
	line_end(&line);
	return line.length;
}

int
fail_call(const struct context *context, enum call call, int error)
{
	const struct failure *failure = failure_find(call, error);
	char text[LINE_SIZE];

	failure_line(context, call, error, text, sizeof(text));
	fputs(text, stderr);
	return failure ? failure->code : EXIT_OTHER;
}

static void __attribute__((format(printf, 3, 0)))
fail_text(const struct context *context, const char *hint, const char *format, va_list arguments)
{
	char text[LINE_SIZE];
	struct line line = {.text = text, .size = sizeof(text)};
	char message[LINE_SIZE];

	vsnprintf(message, sizeof(message), format, arguments);
	line_start(&line, context);
	line_add(&line, "%s", message);
	if (hint)
		line_add(&line, "; see 'zcachectl help%s%s'", hint[0] ? " " : "", hint);
	line_end(&line);
	fputs(text, stderr);
}

int
fail_with(const struct context *context, enum exit_code code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fail_text(context, NULL, format, arguments);
	va_end(arguments);
	return code;
}

int
fail_usage(const struct context *context, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fail_text(context, context->command ? context->command->name : "", format, arguments);
	va_end(arguments);
	return EXIT_USAGE;
}

int
fail_memory(const struct context *context)
{
	return fail_with(context, EXIT_OTHER, "out of memory");
}

json_t *
json_u64(uint64_t number)
{
	return number <= INT64_MAX ? json_integer((json_int_t)number) : json_null();
}

json_t *
json_quotient(uint64_t part, uint64_t whole)
{
	return whole > 0 ? json_real(quotient(part, whole)) : json_null();
}

int
print_json(const struct context *context, json_t *object)
{
	int rc;

	if (!object)
		return fail_memory(context);
	rc = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	json_decref(object);
	if (rc == 0)
		putchar('\n');
	/* A stream that failed is reported once, by finish_output. */
	return rc == 0 || ferror(stdout) ? EXIT_OK : fail_memory(context);
}

int
finish_output(const struct context *context, int code)
{
	int error;

	if (fflush(stdout) == 0 && !ferror(stdout))
		return code;
	error = errno;
	clearerr(stdout);
	fail_with(context, EXIT_OTHER, "cannot write to standard output: %s", strerror(error));
	return code == EXIT_OK ? EXIT_OTHER : code;
}
