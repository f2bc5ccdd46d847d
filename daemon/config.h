/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the service is told on its command line, checked.
 *
 * Called by main.c and tests, before there are threads. Prints nothing: errors are one line of text
 * for the caller to show.
 */
#ifndef ZCACHED_DAEMON_CONFIG_H
#define ZCACHED_DAEMON_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "engine.h"
#include "listener.h"

struct config {
	struct listener_config listener;
	struct engine_config engine;
	bool foreground;
	bool verbose;
};

enum config_result {
	CONFIG_RUN,
	CONFIG_HELP,	/* --help was given */
	CONFIG_VERSION, /* --version was given */
};

/*
 * Reads the command line (getopt_long, so argv may be reordered) and the environment
 * ($ZCACHED_SOCKET). Returns an enum config_result, or -EINVAL with the reason in `why`. Strings in
 * the result point into argv and the environment.
 */
int config_parse(int argc, char **argv, struct config *config, char *why, size_t why_size);

/* The text of --help. */
const char *config_help(void);

/* [A-Za-z0-9._-], 1 to 63 of them. */
bool config_pool_name_valid(const char *name);

#endif
