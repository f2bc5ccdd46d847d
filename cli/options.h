/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of options; options.c parses with it, help.c prints it.
 */
#ifndef ZCACHED_CLI_OPTIONS_H
#define ZCACHED_CLI_OPTIONS_H

#include "command.h"

struct option_info {
	uint32_t bit; /* enum option_bit */
	const char *name;
	const char *argument; /* NULL: takes none */
	const char *help;
};

extern const struct option_info option_table[]; /* by name */
extern const size_t option_table_count;
#define OPTIONS_MAX 32

/*
 * Fills context->options and sorts argv so that the operands stand at its end, from optind on.
 * Returns an enum exit_code, after an error line when it is not EXIT_OK.
 */
int options_parse(struct context *context, int argc, char **argv);

/* Name of the first option in `mask`, without its dashes. */
const char *option_name(uint32_t mask);

#endif
