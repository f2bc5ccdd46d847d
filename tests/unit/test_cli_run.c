/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of zcachectl as a user or a script sees it: exit codes, error lines, output, files. Each run
 * is a child process that calls cli_run in front of fake_zclient.h, so that every error of zclient.h
 * can be had. tests/integration/test_zcachectl.py runs the program itself against a live service.
 */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "command.h"
#include "fake_zclient.h"
#include "report.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define WORDS_MAX    16

/* ---- running ---- */

static struct {
	int code;
	char out[65536];
	char err[8192];
} result;

/* What the runs read; rewound by each. */
static FILE *input;

static void
read_back(FILE *file, char *text, size_t room)
{
	size_t length;

	rewind(file);
	length = fread(text, 1, room - 1, file);
	text[length] = '\0';
	fclose(file);
}

static _Noreturn void
run_child(int argc, char **argv, int out, int err)
{
	rewind(input);
	if (dup2(fileno(input), STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 ||
	    dup2(err, STDERR_FILENO) < 0)
		_exit(100);
	exit(cli_run(argc, argv));
}

static int
wait_for(pid_t child)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Splits at spaces; a word "''" is an empty argument. */
static int
split(char *line, char **argv)
{
	int argc = 0;

	argv[argc++] = "zcachectl";
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " ")) {
		assert_true(argc < WORDS_MAX - 1);
		argv[argc++] = strcmp(word, "''") == 0 ? "" : word;
	}
	argv[argc] = NULL;
	return argc;
}

static int
run(const char *line)
{
	FILE *out = tmpfile();
	FILE *err = tmpfile();
	char words[512];
	char *argv[WORDS_MAX];
	int argc;
	pid_t child;

	snprintf(words, sizeof(words), "%s", line);
	argc = split(words, argv);
	fflush(stdout);
	fflush(stderr);
	child = fork();
	if (child == 0)
		run_child(argc, argv, fileno(out), fileno(err));
	result.code = wait_for(child);
	read_back(out, result.out, sizeof(result.out));
	read_back(err, result.err, sizeof(result.err));
	return result.code;
}

static void
set_input(const void *bytes, size_t length)
{
	if (input)
		fclose(input);
	input = tmpfile();
	assert_non_null(input);
	assert_int_equal(fwrite(bytes, 1, length, input), length);
	assert_int_equal(fflush(input), 0);
}

static int
reset(void **state)
{
	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.limit = 64 << 20;
	fake.value_length = 5;
	set_input("", 0);
	return 0;
}

/* One line on standard error that starts as all do, nothing on standard output. */
static void
assert_error_line(void)
{
	char *end = strchr(result.err, '\n');

	assert_int_equal(strncmp(result.err, "zcachectl: ", 11), 0);
	assert_non_null(end);
	assert_string_equal(end, "\n");
	assert_string_equal(result.out, "");
}

static void
assert_contains(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("'%s' is not in '%s'", part, text);
}

/* ---- tests ---- */

static void
test_usage_errors(void **state)
{
	static const char *const lines[] = {
		"",
		"nonsense",
		"''",
		"pool",
		"pool nonsense",
		"pool list x",
		"pool create",
		"pool create ''",
		"pool create a b",
		"pool create a --kind durable",
		"pool create a --limit 0",
		"pool create a --limit -1",
		"pool create a --limit ''",
		"pool create a --limit 99999999T",
		"pool create a --limit 18446744073709551616",
		"pool create a --page-size 5G",
		"pool create a --page-size 4k4",
		"pool create a --page-size 4095",
		"pool create a --page-size 128K",
		"pool create a --page-size 110%",
		"pool create a --codec zstd:1234567890123",
		"pool create a --pool b",
		"pool destroy",
		"stats a b",
		"stats a --pool b",
		"stats ''",
		"stats --yes",
		"stats --nonsense",
		"stats --socket",
		"flush a --pool a",
		"ping --timeout x",
		"ping --timeout -1",
		"ping --timeout 9999999999",
		"ping x",
		"put",
		"put 1",
		"put 1:",
		"put 1:2 file more",
		"get 1:2 --json",
		"get 1:2 - --json",
		"get -1:2",
		"del",
		"del 1:2 3",
		"exists 1:2 --keep-old",
		"del-object",
		"del-object 1:2",
		"del-object 0x",
		"help nonsense",
		"help put get",
		"classes --estimate",
		"compact --all",
		"compact --json=1",
	};

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		print_message("zcachectl %s\n", lines[i]);
		assert_int_equal(run(lines[i]), EXIT_USAGE);
		assert_error_line();
		assert_contains(result.err, "zcachectl help");
	}
}

static void
test_errors_of_the_service(void **state)
{
	static const struct {
		const char *line;
		int *error;
		int value;
		int code;
		const char *text;
	} cases[] = {
		{"ping", &fake.open, ENOENT, 3, "start zcached"},
		{"ping", &fake.open, ECONNREFUSED, 3, "/run/fake.sock"},
		{"ping --socket /a/b", &fake.open, ECONNREFUSED, 3, "/a/b"},
		{"ping", &fake.open, EHOSTDOWN, 3, "/run/fake.sock"},
		{"ping", &fake.open, EACCES, 4, "group"},
		{"ping", &fake.open, ETIMEDOUT, 7, "within 10 s"},
		{"ping --timeout 1.5", &fake.open, ETIMEDOUT, 7, "within 1.5 s"},
		{"ping", &fake.open, EPROTO, 6, "protocol"},
		{"ping", &fake.open, EPROTONOSUPPORT, 6, "version"},
		{"ping", &fake.open, EMFILE, 6, "Too many open files"},
		{"ping", &fake.ping, EHOSTDOWN, 3, "went away"},
		{"stats", &fake.service_stats, ETIMEDOUT, 7, "within"},
		{"stats a", &fake.pool_open, ENOENT, 1, "pool 'a' does not exist"},
		{"stats a", &fake.pool_open, EACCES, 4, "pool 'a'"},
		{"stats --json", &fake.pool_open, EACCES, 4, "pool 'default'"},
		{"stats a --json", &fake.stats, EHOSTDOWN, 3, "went away"},
		{"classes", &fake.classes, EHOSTDOWN, 3, "classes: "},
		{"put 1:2 --pool a", &fake.pool_open, ENOENT, 1, "put 1:2: pool 'a' does not"},
		{"put 0x1:2", &fake.put, ENOSPC, 4, "put 1:2: pool 'default' is at its limit"},
		{"put 1:2", &fake.put, ENOMEM, 4, "cgroup"},
		{"put 1:2", &fake.put, EXFULL, 4, "collide"},
		{"put 1:2", &fake.put, EACCES, 4, "permission"},
		{"put 1:2", &fake.put, EPERM, 4, "permitted"},
		{"put 1:2", &fake.put, EMSGSIZE, 2, "longer"},
		{"put 1:2", &fake.put, ETIMEDOUT, 7, "may or may not"},
		{"put 1:2", &fake.put, ENOENT, 1, "does not exist any more"},
		{"put 1:2", &fake.put, EIO, 6, "put 1:2: Input/output error"},
		{"get 1:2", &fake.get, ENOENT, 1, "get 1:2: not found in pool 'default'"},
		{"get 1:2", &fake.get, EBADMSG, 5, "damaged"},
		{"get 1:2", &fake.get, ETIMEDOUT, 7, "get 1:2"},
		{"del 1:2", &fake.del, ENOENT, 1, "del 1:2: not found"},
		{"exists 1:2", &fake.exists, EBADMSG, 5, "damaged"},
		{"del-object 3", &fake.del_object, EACCES, 4, "del-object 3"},
		{"pool list", &fake.list, EHOSTDOWN, 3, "pool list: "},
		{"pool create a", &fake.create, EEXIST, 4, "pool 'a' exists already"},
		{"pool create a", &fake.create, EINVAL, 2, "pool 'a'"},
		{"pool create a", &fake.create, EACCES, 4, "create pool 'a'"},
		{"pool create a", &fake.create, ENOSPC, 4, "room"},
		{"pool destroy a", &fake.destroy, ENOENT, 1, "does not exist"},
		{"pool destroy a", &fake.destroy, EACCES, 4, "owner"},
		{"pool destroy a", &fake.destroy, EBUSY, 4, "configuration"},
		{"pool destroy a", &fake.destroy, ECONNRESET, 3, "may or may not"},
		{"put 1:2", &fake.put, EBADF, 1, "does not exist any more"},
		{"ping", &fake.open, ECONNRESET, 3, "hung up"},
		{"compact", &fake.estimate, EACCES, 4, "owner"},
		{"compact --estimate", &fake.estimate, EHOSTDOWN, 3, "went away"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		reset(NULL);
		set_input("value", 5);
		*cases[i].error = cases[i].value;
		print_message("zcachectl %s: %s\n", cases[i].line, strerror(cases[i].value));
		assert_int_equal(run(cases[i].line), cases[i].code);
		assert_error_line();
		assert_contains(result.err, cases[i].text);
	}
}

/* The service's own words stand in the line, on one line, harmless for a terminal. */
static void
test_text_of_the_service(void **state)
{
	(void)state;
	set_input("value", 5);
	fake.put = ENOSPC;
	fake.text = "limit 64 MiB\n\033[31mreached";
	assert_int_equal(run("put 1:2"), EXIT_REFUSED);
	assert_string_equal(result.err, "zcachectl: put 1:2: pool 'default' is at its limit "
					"(limit 64 MiB??[31mreached): raise it or delete pages\n");
}

static void
test_silent_service(void **state)
{
	(void)state;
	fake.silent = true;
	assert_int_equal(run("stats --timeout 0.05"), EXIT_TIMED_OUT);
	assert_string_equal(result.err,
			    "zcachectl: stats: no answer from /run/fake.sock within 0.05 s\n");
}

static void
test_put(void **state)
{
	static char bytes[FAKE_PAGE + 1];

	(void)state;
	assert_int_equal(run("put 1:2"), EXIT_USAGE);
	assert_error_line();
	assert_contains(result.err, "empty");

	set_input(bytes, FAKE_PAGE + 1);
	assert_int_equal(run("put 1:2 -"), EXIT_USAGE);
	assert_error_line();
	assert_contains(result.err, "longer than a page of pool 'default', 4096 bytes");

	set_input(bytes, FAKE_PAGE);
	fake.expect_length = FAKE_PAGE;
	assert_int_equal(run("put 1:2 -"), EXIT_OK);
	assert_string_equal(result.out, "");
	assert_string_equal(result.err, "");

	fake.expect_flags = ZC_KEEP_OLD;
	assert_int_equal(run("--keep-old --json put 1:0x2"), EXIT_OK);
	assert_contains(result.out, "\"key\": \"1:2\"");
	assert_contains(result.out, "\"bytes\": 4096");

	assert_int_equal(run("put 1:2 /nowhere/at/all"), EXIT_OTHER);
	assert_error_line();
	assert_contains(result.err, "cannot read /nowhere/at/all: No such file");
	assert_int_equal(run("put 1:2 /"), EXIT_OTHER);
	assert_error_line();
}

static void
test_get(void **state)
{
	(void)state;
	assert_int_equal(run("get 1:2"), EXIT_OK);
	assert_string_equal(result.out, "vvvvv");
	assert_int_equal(run("get 1:2 -"), EXIT_OK);
	assert_string_equal(result.out, "vvvvv");
	assert_int_equal(run("get 1:2 /dev/stdout"), EXIT_OK);
	assert_string_equal(result.out, "vvvvv");
	assert_int_equal(run("get 1:2 /nowhere/at/all"), EXIT_OTHER);
	assert_error_line();
	assert_int_equal(run("get 1:2 /"), EXIT_OTHER);
	assert_error_line();
	assert_int_equal(run("get 1:2 /dev/full"), EXIT_OTHER);
	assert_contains(result.err, "cannot write /dev/full: No space left");
}

static void
write_text(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

static void
assert_file(const char *path, const char *text, mode_t mode)
{
	struct stat status;
	char have[64] = "";
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	assert_non_null(fgets(have, sizeof(have), file));
	fclose(file);
	assert_string_equal(have, text);
	assert_int_equal(lstat(path, &status), 0);
	assert_int_equal(status.st_mode, S_IFREG | mode);
}

/* Files are replaced as a whole or not at all; links and devices stay what they are. */
static void
test_get_to_files(void **state)
{
	char folder[] = P_tmpdir "/test_cli_run-XXXXXX";
	struct stat status;

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chdir(folder), 0);
	umask(027);

	assert_int_equal(run("get 1:2 new"), EXIT_OK);
	assert_string_equal(result.out, "");
	assert_file("new", "vvvvv", 0640);

	write_text("old", "something longer than the value", 0604);
	assert_int_equal(symlink("old", "link"), 0);
	fake.get = ENOENT;
	assert_int_equal(run("get 1:2 link"), EXIT_NEGATIVE);
	assert_file("old", "something longer than the value", 0604);
	fake.get = 0;
	assert_int_equal(run("get 1:2 link --json"), EXIT_OK);
	assert_contains(result.out, "\"bytes\": 5");
	assert_file("old", "vvvvv", 0604);
	assert_int_equal(lstat("link", &status), 0);
	assert_true(S_ISLNK(status.st_mode));

	assert_int_equal(run("get 1:2 /dev/null"), EXIT_OK);
	assert_int_equal(lstat("/dev/null", &status), 0);
	assert_true(S_ISCHR(status.st_mode));

	/* No temporary file is left: the folder is empty once what was made is gone. */
	assert_int_equal(unlink("new") | unlink("old") | unlink("link"), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(folder), 0);
}

static void
test_answers(void **state)
{
	(void)state;
	assert_int_equal(run("exists 5:1"), EXIT_OK);
	assert_string_equal(result.out, "yes\n");
	assert_int_equal(run("exists 5:2"), EXIT_NEGATIVE);
	assert_string_equal(result.out, "no\n");
	assert_string_equal(result.err, "");
	assert_int_equal(run("exists 5:2 --json"), EXIT_NEGATIVE);
	assert_contains(result.out, "\"exists\": false");
	assert_int_equal(run("del 5:2"), EXIT_OK);
	assert_string_equal(result.out, "");
	assert_int_equal(run("del-object 0x10"), EXIT_OK);
	assert_string_equal(result.out, "16 pages deleted from pool 'default'\n");
	assert_int_equal(run("flush other"), EXIT_OK);
	assert_string_equal(result.out, "12 pages deleted from pool 'other'\n");
	assert_int_equal(run("flush --pool third --json"), EXIT_OK);
	assert_contains(result.out, "\"pages_deleted\": 12");
	assert_int_equal(run("pool destroy a"), EXIT_OK);
	assert_string_equal(result.out, "pool 'a' destroyed\n");
}

static void
test_pool_create(void **state)
{
	(void)state;
	fake.expect_pool = (struct zc_pool_info){
		.struct_size = sizeof(struct zc_pool_info),
		.kind = ZC_CACHE,
		.page_size = 8192,
		.limit = 64 << 20,
		.name = "fast",
		.codec = "zstd:-1",
	};
	assert_int_equal(run("pool create fast --kind cache --page-size 8K --limit 64M --codec "
			     "zstd:-1"),
			 EXIT_OK);
	assert_string_equal(result.out, "pool 'fast' created\n");

	memset(&fake.expect_pool, 0, sizeof(fake.expect_pool));
	fake.expect_pool.struct_size = sizeof(fake.expect_pool);
	strcpy(fake.expect_pool.name, "x");
	assert_int_equal(run("--json pool create x"), EXIT_OK);
	assert_contains(result.out, "\"created\": true");
}

static json_t *
output_json(void)
{
	json_error_t error;
	json_t *object = json_loads(result.out, 0, &error);

	if (!object)
		fail_msg("%s in '%s'", error.text, result.out);
	return object;
}

static void
test_stats(void **state)
{
	json_t *object;
	json_t *pool;

	(void)state;
	fake.pool_name = "a\033[2Jb";
	fake.limit = 1ull << 63;
	assert_int_equal(run("stats"), EXIT_OK);
	assert_contains(result.out, "pool 'a?[2Jb': store, lz4");
	assert_contains(result.out, "64.0 KiB");
	assert_contains(result.out, "65536");
	assert_contains(result.out, "73.2 %");
	assert_contains(result.out, "9223372036854775808");

	assert_int_equal(run("stats --json"), EXIT_OK);
	object = output_json();
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(object, "service"), "boot_id")),
		"0xfedcba9876543210");
	pool = json_array_get(json_object_get(object, "pools"), 0);
	assert_string_equal(json_string_value(json_object_get(pool, "name")), "a?[2Jb");
	assert_int_equal(json_integer_value(json_object_get(pool, "puts")), INT64_MAX);
	assert_int_equal(json_integer_value(json_object_get(pool, "owner_uid")), 4000000000);
	assert_true(json_is_null(json_object_get(pool, "limit_bytes")));
	assert_true(json_real_value(json_object_get(pool, "ratio")) == 2.0);
	assert_true(json_real_value(json_object_get(pool, "hit_rate")) == 0.75);
	json_decref(object);

	/* A pool destroyed since it was listed is no error; one that was named is. */
	fake.pool_open = ENOENT;
	assert_int_equal(run("stats --json"), EXIT_OK);
	assert_contains(result.out, "\"pools\": []");
	assert_int_equal(run("stats --json a"), EXIT_NEGATIVE);
	assert_error_line();
}

static void
test_classes(void **state)
{
	json_t *object;
	json_t *class;

	(void)state;
	assert_int_equal(run("classes"), EXIT_OK);
	assert_null(strstr(result.out, "\n  32"));
	assert_contains(result.out, "\n 2048 ");
	assert_contains(result.out, "\ntotal ");
	assert_int_equal(run("classes --all"), EXIT_OK);
	assert_contains(result.out, "\n   32 ");

	assert_int_equal(run("classes --json"), EXIT_OK);
	object = output_json();
	assert_int_equal(json_array_size(json_object_get(object, "classes")), 1);
	class = json_array_get(json_object_get(object, "classes"), 0);
	assert_int_equal(json_integer_value(json_object_get(class, "pages_freeable")), 4);
	assert_int_equal(json_array_size(json_object_get(class, "fullness")), 11);
	json_decref(object);
}

static void
test_compact(void **state)
{
	(void)state;
	assert_int_equal(run("compact"), EXIT_OK);
	assert_contains(result.out, "nothing to do");
	assert_int_equal(run("compact --json"), EXIT_OK);
	assert_contains(result.out, "\"outcome\": \"nothing to do\"");

	assert_contains(result.out, "\"objects_moved\": 0");

	fake.freeable = 100;
	assert_int_equal(run("compact --estimate"), EXIT_OK);
	assert_contains(result.out, "100 OS pages or more, 400.0 KiB (409600 bytes)");
	assert_null(strstr(result.out, "compacted"));

	fake.statuses = 2;
	assert_int_equal(run("compact other"), EXIT_OK);
	assert_contains(result.out, "pool 'other': compacted");
	assert_contains(result.out, "resident before  1.0 MiB (1048576 bytes)");
	assert_contains(result.out, "resident after   624.0 KiB (638976 bytes)");
	assert_string_equal(result.err, "");
	assert_int_equal(run("compact --json"), EXIT_OK);
	assert_contains(result.out, "\"outcome\": \"compacted\"");
	assert_contains(result.out, "\"pages_freed\": 100");
	assert_contains(result.out, "\"resident_after_bytes\": 638976");

	fake.start = EACCES;
	assert_int_equal(run("compact"), EXIT_REFUSED);
	fake.start = 0;
	fake.status = EHOSTDOWN;
	assert_int_equal(run("compact"), EXIT_UNREACHABLE);
}

static void
test_compact_that_runs_already(void **state)
{
	(void)state;
	fake.freeable = 100;
	fake.statuses = 2;
	fake.estimate = EALREADY;
	assert_int_equal(run("compact --json"), EXIT_OK);
	assert_contains(result.err, "running already");
	assert_contains(result.out, "\"outcome\": \"followed\"");
	assert_contains(result.out, "\"pages_freed\": 100");
	assert_int_equal(run("compact --estimate --json"), EXIT_OK);
	assert_contains(result.out, "\"outcome\": \"estimated\"");

	fake.estimate = 0;
	fake.start = EALREADY;
	assert_int_equal(run("compact"), EXIT_OK);
	assert_contains(result.err, "running already");
}

static void
test_compact_and_restart(void **state)
{
	(void)state;
	fake.freeable = 100;
	fake.restarted = true;
	assert_int_equal(run("compact"), EXIT_OTHER);
	assert_contains(result.err, "restarted");
}

/* Runs on a terminal; what it showed is in result.out. */
static int
run_on_terminal(const char *line, const char *typed)
{
	char words[512];
	char *argv[WORDS_MAX];
	size_t have = 0;
	int terminal;
	pid_t child;

	snprintf(words, sizeof(words), "%s", line);
	fflush(stdout);
	fflush(stderr);
	child = forkpty(&terminal, NULL, NULL, NULL);
	if (child == 0)
		exit(cli_run(split(words, argv), argv));
	assert_int_equal(write(terminal, typed, strlen(typed)), (ssize_t)strlen(typed));
	for (;;) {
		ssize_t count = read(terminal, result.out + have, sizeof(result.out) - 1 - have);

		if (count <= 0)
			break;
		have += (size_t)count;
	}
	result.out[have] = '\0';
	close(terminal);
	return wait_for(child);
}

static void
test_questions(void **state)
{
	(void)state;
	assert_int_equal(run_on_terminal("flush", "n\n"), EXIT_NEGATIVE);
	assert_contains(result.out, "Delete every page of pool 'default'? [y/N]");
	assert_contains(result.out, "nothing was deleted");
	assert_int_equal(run_on_terminal("flush", "\n"), EXIT_NEGATIVE);
	assert_int_equal(run_on_terminal("flush", "\x04"), EXIT_NEGATIVE);
	assert_int_equal(run_on_terminal("flush", "yes, of course, but not now\n"), EXIT_NEGATIVE);
	assert_int_equal(run_on_terminal("flush", "y\n"), EXIT_OK);
	assert_contains(result.out, "12 pages deleted");
	assert_int_equal(run_on_terminal("flush --yes", ""), EXIT_OK);
	assert_null(strstr(result.out, "[y/N]"));
	assert_int_equal(run_on_terminal("pool destroy a", "no\n"), EXIT_NEGATIVE);
	assert_contains(result.out, "Destroy pool 'a' and every page in it? [y/N]");
}

static void
test_progress_bar(void **state)
{
	(void)state;
	fake.freeable = 100;
	fake.statuses = 3;
	assert_int_equal(run_on_terminal("compact", ""), EXIT_OK);
	assert_contains(result.out, "\r[....");
	assert_contains(result.out, "\r\033[Kpool 'default': compacted");
}

/* Output that does not arrive is an error; the line says why. */
static void
test_output_lost(void **state)
{
	static const char *const lines[] = {"stats",   "stats --json", "classes", "help",
					    "ping",    "pool list",    "get 1:2", "--version",
					    "compact", "exists 1:1"};

	(void)state;
	for (size_t i = 0; i < COUNT(lines); i++) {
		FILE *err = tmpfile();
		char words[64];
		char *argv[WORDS_MAX];
		int argc;
		pid_t child;

		print_message("zcachectl %s >/dev/full\n", lines[i]);
		snprintf(words, sizeof(words), "%s", lines[i]);
		argc = split(words, argv);
		fflush(stdout);
		fflush(stderr);
		child = fork();
		if (child == 0)
			run_child(argc, argv, open("/dev/full", O_WRONLY), fileno(err));
		assert_int_equal(wait_for(child), EXIT_OTHER);
		read_back(err, result.err, sizeof(result.err));
		assert_contains(result.err, "cannot write to standard output: No space left");
	}
}

static void
test_help(void **state)
{
	char line[64];

	(void)state;
	assert_int_equal(run("--help"), EXIT_OK);
	assert_contains(result.out, "pool create");
	assert_int_equal(run("help"), EXIT_OK);
	assert_int_equal(run("-V"), EXIT_OK);
	assert_int_equal(run("stats --version"), EXIT_OK);
	assert_contains(result.out, "zcachectl 0.1.0 (libzclient 0.1)");
	for (size_t i = 0; i < command_count; i++) {
		snprintf(line, sizeof(line), "help %s", commands[i].name);
		assert_int_equal(run(line), EXIT_OK);
		assert_contains(result.out, commands[i].summary);
		snprintf(line, sizeof(line), "%s -h", commands[i].name);
		assert_int_equal(run(line), EXIT_OK);
		assert_contains(result.out, commands[i].help);
	}
	assert_int_equal(run("help --json"), EXIT_OK);
	json_decref(output_json());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_usage_errors, reset),
		cmocka_unit_test_setup(test_errors_of_the_service, reset),
		cmocka_unit_test_setup(test_text_of_the_service, reset),
		cmocka_unit_test_setup(test_silent_service, reset),
		cmocka_unit_test_setup(test_put, reset),
		cmocka_unit_test_setup(test_get, reset),
		cmocka_unit_test_setup(test_get_to_files, reset),
		cmocka_unit_test_setup(test_answers, reset),
		cmocka_unit_test_setup(test_pool_create, reset),
		cmocka_unit_test_setup(test_stats, reset),
		cmocka_unit_test_setup(test_classes, reset),
		cmocka_unit_test_setup(test_compact, reset),
		cmocka_unit_test_setup(test_compact_that_runs_already, reset),
		cmocka_unit_test_setup(test_compact_and_restart, reset),
		cmocka_unit_test_setup(test_questions, reset),
		cmocka_unit_test_setup(test_progress_bar, reset),
		cmocka_unit_test_setup(test_output_lost, reset),
		cmocka_unit_test_setup(test_help, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
