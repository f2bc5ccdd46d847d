/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subcommands of zcache-bench: what main.c's table points at.
 */
#ifndef ZCACHED_BENCH_COMMAND_H
#define ZCACHED_BENCH_COMMAND_H

/* argv[0] is the subcommand's name. Returns the exit status: 0, 1 (failed), 2 (usage). */
typedef int command_fn(int argc, char **argv);

command_fn command_density;

#endif
