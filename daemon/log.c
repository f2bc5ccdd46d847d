/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log; log.h has the contract. The mutex guards the limits only and is not held while a line is
 * written; a line is one write(2), so lines of different threads do not mix.
 */
#include "log.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_SIZE 512u

static struct {
	bool verbose;
	bool journal;
	bool syslog;
	pthread_mutex_t mutex;
	struct {
		time_t begin; /* of the current period */
		unsigned lines;
		uint64_t suppressed;
	} limit[LOG_KINDS];
} log_state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void
log_open(bool verbose)
{
	log_state.verbose = verbose;
	log_state.journal = getenv("JOURNAL_STREAM") != NULL;
}

void
log_to_syslog(void)
{
	openlog("zcached", LOG_PID | LOG_NDELAY, LOG_DAEMON);
	log_state.syslog = true;
}

/* Control bytes in what clients sent shall not make two lines of one, or steer a terminal. */
static void
clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			*text = '?';
}

static void
write_line(int severity, const char *text)
{
	struct pollfd error = {.fd = STDERR_FILENO, .events = POLLOUT};
	char line[LINE_SIZE + 16];
	int length;

	if (log_state.journal)
		length = snprintf(line, sizeof(line), "<%d>%s\n", severity, text);
	else
		length = snprintf(line, sizeof(line), "zcached: %s\n", text);
	if (poll(&error, 1, 0) != 1)
		return;
	/* A failed write has nobody to be told to. */
	if (write(STDERR_FILENO, line, (size_t)length) < 0)
		return;
}

static void __attribute__((format(printf, 2, 0)))
log_write(int severity, const char *format, va_list arguments)
{
	char text[LINE_SIZE];

	if (severity == LOG_INFO && !log_state.verbose)
		return;
	vsnprintf(text, sizeof(text), format, arguments);
	clean(text);
	if (log_state.syslog)
		syslog(severity, "%s", text);
	else
		write_line(severity, text);
}

void
log_line(int severity, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	log_write(severity, format, arguments);
	va_end(arguments);
}

/* Whether a line of this kind may be written now; how many were suppressed before it. */
static bool
limit_pass(enum log_kind kind, uint64_t *suppressed)
{
	struct timespec now;
	bool pass;

	clock_gettime(CLOCK_MONOTONIC, &now);
	*suppressed = 0;
	pthread_mutex_lock(&log_state.mutex);
	if (now.tv_sec - log_state.limit[kind].begin >= LOG_PERIOD) {
		*suppressed = log_state.limit[kind].suppressed;
		log_state.limit[kind].begin = now.tv_sec;
		log_state.limit[kind].lines = 0;
		log_state.limit[kind].suppressed = 0;
	}
	pass = log_state.limit[kind].lines < LOG_BURST;
	if (pass)
		log_state.limit[kind].lines++;
	else
		log_state.limit[kind].suppressed++;
	pthread_mutex_unlock(&log_state.mutex);
	return pass;
}

void
log_limited(enum log_kind kind, int severity, const char *format, ...)
{
	uint64_t suppressed;
	va_list arguments;

	if (!limit_pass(kind, &suppressed))
		return;
	if (suppressed)
		log_line(severity, "%llu lines like the next one were suppressed",
			 (unsigned long long)suppressed);
	va_start(arguments, format);
	log_write(severity, format, arguments);
	va_end(arguments);
}
