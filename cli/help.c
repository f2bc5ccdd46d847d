/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `zcachectl help`, --help and --version, from the tables of commands and options. With --json the
 * tables themselves, for the test that compares completions and man page with them.
 */
#include <stdio.h>
#include <string.h>

#include "help.h"
#include "options.h"
#include "report.h"
#include "zcached_version.h"

static void
print_usage_line(const struct command *command)
{
	printf("zcachectl %s%s%s%s\n", command->name, command->options ? " [OPTIONS]" : "",
	       command->operands ? " " : "", command->operands ? command->operands : "");
}

static void
print_options(uint32_t mask)
{
	for (size_t i = 0; i < option_table_count; i++) {
		const struct option_info *option = &option_table[i];
		char form[32];

		if (!(mask & option->bit))
			continue;
		snprintf(form, sizeof(form), "--%s%s%s", option->name, option->argument ? " " : "",
			 option->argument ? option->argument : "");
		printf("  %-20s  %s\n", form, option->help);
	}
}

static void
print_all(void)
{
	puts("Usage: zcachectl [OPTIONS] COMMAND [ARGUMENTS]\n\n"
	     "Shows and steers zcached, which keeps pages compressed in shared memory.\n\n"
	     "Commands:");
	for (size_t i = 0; i < command_count; i++)
		printf("  %-12s  %-10s  %s\n", commands[i].name,
		       commands[i].operands ? commands[i].operands : "", commands[i].summary);
	puts("\nOptions of every command:");
	print_options(OPTIONS_GLOBAL);
	puts("\nExit codes:");
	for (int code = 0; code < EXIT_CODES; code++)
		printf("  %d  %s\n", code, exit_code_text(code));
	puts("\nMore: zcachectl help COMMAND, zcachectl(1)");
}

void
help_print(const struct command *command)
{
	if (!command) {
		print_all();
		return;
	}
	fputs("Usage: ", stdout);
	print_usage_line(command);
	printf("\nzcachectl %s: %s.\n%s", command->name, command->summary, command->help);
	if (command->options) {
		puts("\nOptions:");
		print_options(command->options);
	}
	puts("\nOptions of every command:");
	print_options(OPTIONS_GLOBAL);
}

void
version_print(void)
{
	uint32_t library = zc_version();

	printf("zcachectl %s (libzclient %u.%u)\n", ZCACHED_VERSION, library >> 16,
	       library & 0xffff);
}

static json_t *
options_json(uint32_t mask)
{
	json_t *array = json_array();

	for (size_t i = 0; i < option_table_count; i++)
		if (mask & option_table[i].bit)
			json_array_append_new(array,
					      json_pack("{s:s, s:s?}", "name", option_table[i].name,
							"argument", option_table[i].argument));
	return array;
}

static json_t *
commands_json(void)
{
	json_t *array = json_array();

	for (size_t i = 0; i < command_count; i++)
		json_array_append_new(array,
				      json_pack("{s:s, s:s, s:s, s:o}", "name", commands[i].name,
						"operands",
						commands[i].operands ? commands[i].operands : "",
						"summary", commands[i].summary, "options",
						options_json(commands[i].options)));
	return array;
}

static json_t *
exit_codes_json(void)
{
	json_t *array = json_array();

	for (int code = 0; code < EXIT_CODES; code++)
		json_array_append_new(array, json_string(exit_code_text(code)));
	return array;
}

int
run_help(struct context *context)
{
	const struct command *command = NULL;
	int taken = 0;

	if (context->options.given & OPTION_JSON)
		return print_json(context, json_pack("{s:o, s:o, s:o}", "commands", commands_json(),
						     "options", options_json(OPTIONS_GLOBAL),
						     "exit_codes", exit_codes_json()));
	if (context->operand_count > 0) {
		command = command_find(context->operands, context->operand_count, &taken);
		if (!command || taken < context->operand_count)
			return fail_usage(context, "there is no such command");
	}
	help_print(command);
	return EXIT_OK;
}
