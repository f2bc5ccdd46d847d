/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connecting, and which pool a command is about. Where nothing else is said, a function
 * returns an enum exit_code, after an error line when it is not EXIT_OK. What is opened here is
 * closed by cli_run.
 */
#ifndef ZCACHED_CLI_SERVICE_H
#define ZCACHED_CLI_SERVICE_H

#include "command.h"

/* Connects to --socket (or the default) with the deadline of --timeout. */
int service_connect(struct context *context);

/*
 * The pool named by operand `operand` or by --pool, else "default"; both at once is an error. With
 * `operand` < 0 only --pool counts. Returns NULL after an error line, of a usage error.
 */
const char *pool_wanted(const struct context *context, int operand);

/*
 * Opens `name`, closing the pool that was open before; connects first if needed. pool_try_open
 * needs the connection, prints nothing and returns 0 or a negative errno.
 */
int pool_open(struct context *context, const char *name);
int pool_try_open(struct context *context, const char *name);

/* pool_wanted and pool_open. */
int pool_open_wanted(struct context *context, int operand);

/*
 * Lists the pools the user may see, in *list (freed by the caller). Returns how many, or a negative
 * errno.
 */
int pool_list_all(struct context *context, struct zc_pool_info **list);

/* Facts of the open pool. */
struct zc_pool_info pool_facts(const struct context *context);

/*
 * Asks on a terminal; true without asking after --yes and where standard input is no terminal. The
 * format is a question without its "[y/N]".
 */
bool confirmed(const struct context *context, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
