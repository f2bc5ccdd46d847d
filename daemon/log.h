/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The log: one line a message, to stderr, or to syslog once the service is in the background.
 *
 * It is the only global state of the service. Callable from any thread; never blocks: a line that
 * the reader of stderr has no room for is lost. Severities are those of syslog(3).
 *
 * Whatever a client can cause goes through log_limited, so that nobody can fill a disk with it.
 */
#ifndef ZCACHED_DAEMON_LOG_H
#define ZCACHED_DAEMON_LOG_H

#include <stdbool.h>
#include <syslog.h>

/* `verbose`: LOG_INFO lines are written too. Under journald each line carries its severity. */
void log_open(bool verbose);

/* From here on lines go to syslog: stderr is about to be closed. */
void log_to_syslog(void);

void log_line(int severity, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...)	 log_line(LOG_ERR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...)	 log_line(LOG_INFO, __VA_ARGS__)

/* Kinds of lines that are limited: each to LOG_BURST lines in LOG_PERIOD seconds. */
enum log_kind {
	LOG_KIND_ACCEPT,   /* connections that could not be accepted */
	LOG_KIND_PROTOCOL, /* connections ended for what they sent */
	LOG_KIND_STALLED,  /* connections ended for not reading or not finishing */
	LOG_KIND_DENIED,   /* requests refused for missing permission */
	LOG_KIND_MEMORY,   /* puts refused, connections lost: no memory */
	LOG_KIND_DAMAGED,  /* values found damaged */
	LOG_KINDS,
};
#define LOG_BURST  5u
#define LOG_PERIOD 10

void log_limited(enum log_kind kind, int severity, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
