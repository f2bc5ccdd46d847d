/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What zcachectl says about itself, on standard output.
 */
#ifndef ZCACHED_CLI_HELP_H
#define ZCACHED_CLI_HELP_H

#include "command.h"

/* Help of one command; of all with NULL. */
void help_print(const struct command *command);
void version_print(void);

#endif
