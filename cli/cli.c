/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One run of zcachectl: options, command, dispatch, end. Called by main and, with a library that
 * only pretends, by the unit test.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "options.h"
#include "report.h"

/* What zc_open uses as well. */
#define TIMEOUT_DEFAULT 10000

static int
find_command(struct context *context)
{
	int taken;

	if (context->operand_count == 0)
		return fail_usage(context, "no command given");
	context->command = command_find(context->operands, context->operand_count, &taken);
	if (context->command) {
		context->operands += taken;
		context->operand_count -= taken;
		snprintf(context->subject, sizeof(context->subject), "%s", context->command->name);
		return EXIT_OK;
	}
	if (command_is_group(context->operands[0]))
		return fail_usage(context, "'%s' needs one of its commands behind it",
				  context->operands[0]);
	return fail_usage(context, "there is no command '%s'", context->operands[0]);
}

static int
check_usage(const struct context *context)
{
	const struct command *command = context->command;
	uint32_t odd = context->options.given & ~(command->options | OPTIONS_GLOBAL);

	if (odd)
		return fail_usage(context, "--%s is no option of this command", option_name(odd));
	if (context->operand_count < command->operands_min)
		return fail_usage(context, "arguments are missing: %s", command->operands);
	if (context->operand_count > command->operands_max)
		return fail_usage(context, "'%s' is one argument too many",
				  context->operands[command->operands_max]);
	return EXIT_OK;
}

static int
dispatch(struct context *context)
{
	uint32_t given = context->options.given;
	int rc;

	if (given & OPTION_VERSION) {
		version_print();
		return EXIT_OK;
	}
	if ((given & OPTION_HELP) && context->operand_count == 0) {
		help_print(NULL);
		return EXIT_OK;
	}
	rc = find_command(context);
	if (rc != EXIT_OK)
		return rc;
	if (given & OPTION_HELP) {
		help_print(context->command);
		return EXIT_OK;
	}
	rc = check_usage(context);
	return rc == EXIT_OK ? context->command->run(context) : rc;
}

int
cli_run(int argc, char **argv)
{
	struct context context = {.options = {.timeout = TIMEOUT_DEFAULT}};
	int rc = options_parse(&context, argc, argv);

	if (rc == EXIT_OK) {
		context.operands = argv + optind;
		context.operand_count = argc - optind;
		rc = dispatch(&context);
	}
	zc_pool_close(&context.pool);
	zc_close(&context.zc);
	return finish_output(&context, rc);
}
