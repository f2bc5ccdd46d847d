/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of commands. Whoever adds one adds it here, in the completions (packaging/completions)
 * and in the man page (docs/man/zcachectl.1.scd); a test compares the four.
 */
#include "command.h"

#include <string.h>

const struct command commands[] = {
	{
		.name = "ping",
		.summary = "ask the service for a sign of life",
		.help = "Prints how long the answer took.\n",
		.run = run_ping,
	},
	{
		.name = "stats",
		.operands = "[POOL]",
		.operands_max = 1,
		.options = OPTION_POOL,
		.summary = "show the numbers of the service and its pools",
		.help = "Without POOL: of every pool you may see. What each number means is in\n"
			"zcachectl(1).\n",
		.run = run_stats,
	},
	{
		.name = "classes",
		.operands = "[POOL]",
		.operands_max = 1,
		.options = OPTION_POOL | OPTION_ALL,
		.summary = "show the size classes of a pool",
		.help = "One row a size class. The columns 'empty' to '100%' count its zspages by "
			"how\n"
			"full they are: '30%' means more than 20 and at most 30 percent in use.\n",
		.run = run_classes,
	},
	{
		.name = "compact",
		.operands = "[POOL]",
		.operands_max = 1,
		.options = OPTION_POOL | OPTION_ESTIMATE,
		.summary = "move pages together and give memory back",
		.help = "Says what it will free at least, compacts, and shows what came of it. "
			"Where "
			"a\n"
			"compaction runs already, follows that one. Stopping zcachectl does not "
			"stop a\n"
			"compaction.\n",
		.run = run_compact,
	},
	{
		.name = "put",
		.operands = "KEY [FILE]",
		.operands_min = 1,
		.operands_max = 2,
		.options = OPTION_POOL | OPTION_KEEP_OLD,
		.summary = "store a page",
		.help = "KEY is OBJECT:INDEX, two numbers, each decimal or hexadecimal behind 0x. "
			"The\n"
			"value is read from FILE or standard input and has 1 byte to a page. When "
			"it is\n"
			"refused, the key's old value is removed too, unless --keep-old is "
			"given.\n",
		.run = run_put,
	},
	{
		.name = "get",
		.operands = "KEY [FILE]",
		.operands_min = 1,
		.operands_max = 2,
		.options = OPTION_POOL,
		.summary = "fetch a page",
		.help = "The value goes to FILE or standard output. FILE is replaced as a whole, "
			"and\n"
			"only when there is a value.\n",
		.run = run_get,
	},
	{
		.name = "del",
		.operands = "KEY",
		.operands_min = 1,
		.operands_max = 1,
		.options = OPTION_POOL,
		.summary = "delete a page",
		.help = "Exit code 1 when there was nothing to delete.\n",
		.run = run_delete,
	},
	{
		.name = "exists",
		.operands = "KEY",
		.operands_min = 1,
		.operands_max = 1,
		.options = OPTION_POOL,
		.summary = "tell whether a page is stored",
		.help = "Prints yes or no; the exit code is 0 or 1, or 5 for a damaged page.\n",
		.run = run_exists,
	},
	{
		.name = "del-object",
		.operands = "OBJECT",
		.operands_min = 1,
		.operands_max = 1,
		.options = OPTION_POOL,
		.summary = "delete every page of an object",
		.help = "OBJECT is the first number of the keys. Takes time in proportion to the "
			"pool;\n"
			"other clients go on meanwhile.\n",
		.run = run_delete_object,
	},
	{
		.name = "flush",
		.operands = "[POOL]",
		.operands_max = 1,
		.options = OPTION_POOL | OPTION_YES,
		.summary = "delete every page of a pool",
		.help = "Asks first when standard input is a terminal, unless --yes is given.\n",
		.run = run_flush,
	},
	{
		.name = "pool list",
		.summary = "list the pools you may see",
		.help = "Name, kind, page size, limit, codec, user number of the owner, id.\n",
		.run = run_pool_list,
	},
	{
		.name = "pool create",
		.operands = "NAME",
		.operands_min = 1,
		.operands_max = 1,
		.options = OPTION_KIND | OPTION_PAGE_SIZE | OPTION_LIMIT | OPTION_CODEC,
		.summary = "create a pool",
		.help = "What is not given is the service's default.\n",
		.run = run_pool_create,
	},
	{
		.name = "pool destroy",
		.operands = "NAME",
		.operands_min = 1,
		.operands_max = 1,
		.options = OPTION_YES,
		.summary = "destroy a pool and every page in it",
		.help = "Only its owner and root may. Asks first when standard input is a "
			"terminal,\n"
			"unless --yes is given.\n",
		.run = run_pool_destroy,
	},
	{
		.name = "help",
		.operands = "[COMMAND]",
		.operands_max = 2,
		.summary = "show this help, or that of a command",
		.help = "With --json: the tables of commands, options and exit codes.\n",
		.run = run_help,
	},
};
const size_t command_count = sizeof(commands) / sizeof(commands[0]);

/* Whether the first words are the command's name; returns how many words that takes, or 0. */
static int
words_match(const struct command *command, char **words, int count)
{
	size_t first = strcspn(command->name, " ");

	if (count < 1 || strlen(words[0]) != first || strncmp(command->name, words[0], first) != 0)
		return 0;
	if (command->name[first] == '\0')
		return 1;
	return count > 1 && strcmp(command->name + first + 1, words[1]) == 0 ? 2 : 0;
}

const struct command *
command_find(char **words, int count, int *words_taken)
{
	for (size_t i = 0; i < command_count; i++) {
		*words_taken = words_match(&commands[i], words, count);
		if (*words_taken > 0)
			return &commands[i];
	}
	return NULL;
}

bool
command_is_group(const char *word)
{
	size_t length = strlen(word);

	for (size_t i = 0; i < command_count; i++)
		if (strncmp(commands[i].name, word, length) == 0 && commands[i].name[length] == ' ')
			return true;
	return false;
}
