/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcache-bench: measures zcached. One subcommand a kind of measurement; each is a file of this
 * folder and a line of the table below.
 */
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "zcached_version.h"

static const struct command {
	const char *name;
	command_fn *run;
	const char *summary;
} commands[] = {
	{"density", command_density, "memory per page: compression, fragmentation, metadata"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void
usage(FILE *out)
{
	fputs("usage: zcache-bench COMMAND [OPTION...]\n"
	      "       zcache-bench --help | --version\n\ncommands:\n",
	      out);
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
	fputs("\nzcache-bench COMMAND --help tells a command's options.\n", out);
}

int
main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (!strcmp(name, "--help") || !strcmp(name, "-h")) {
		usage(stdout);
		return 0;
	}
	if (!strcmp(name, "--version")) {
		puts("zcache-bench " ZCACHED_VERSION);
		return 0;
	}
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(name, commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	if (*name)
		fprintf(stderr, "zcache-bench: unknown command \"%s\"\n", name);
	usage(stderr);
	return 2;
}
