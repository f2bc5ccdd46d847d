/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of daemon/config.c: the service's command line, good and bad. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "config.h"

#define ARGUMENTS_MAX 80

static struct config config;
static char why[256];

/* Parses a command line of words that are separated by single spaces; "" is no word at all. */
static int
parse(const char *line)
{
	char copy[4096], *argv[ARGUMENTS_MAX] = {"zcached"}, *word = copy;
	int argc = 1;

	snprintf(copy, sizeof(copy), "%s", line);
	while (*line && word) {
		assert_true(argc < ARGUMENTS_MAX - 1);
		argv[argc++] = word;
		word = strchr(word, ' ');
		if (word)
			*word++ = 0;
	}
	why[0] = 0;
	return config_parse(argc, argv, &config, why, sizeof(why));
}

static void
assert_refused(const char *line, const char *named)
{
	if (parse(line) != -EINVAL)
		fail_msg("'%s' was accepted", line);
	if (!strstr(why, named) || strchr(why, '\n'))
		fail_msg("'%s': the error is '%s', without '%s'", line, why, named);
}

static void
test_defaults(void **state)
{
	(void)state;
	unsetenv("ZCACHED_SOCKET");
	assert_int_equal(parse(""), CONFIG_RUN);
	assert_string_equal(config.listener.path, "/run/zcached/zcached.sock");
	assert_int_equal(config.listener.mode, 0600);
	assert_true(config.listener.group == (gid_t)-1);
	assert_false(config.foreground);
	assert_int_equal(config.engine.workers, 0);
	assert_int_equal(config.engine.client_timeout, 10);
	assert_int_equal(config.engine.connections_max, 4096);
	assert_int_equal(config.engine.pools, 1);
	assert_string_equal(config.engine.pool[0].name, "default");
	assert_int_equal(config.engine.pool[0].kind, ZC_KIND_STORE);
	assert_int_equal(config.engine.pool[0].page_size, 4096);
	assert_int_equal(config.engine.pool[0].codec.codec, ZC_CODEC_LZ4);
	assert_true(config.engine.pool[0].auto_compact);
	assert_int_equal(config.engine.pool[0].owner_uid, geteuid());
	assert_true(config.engine.pool[0].limit == config.engine.limit);
	assert_true(config.engine.limit > 1u << 20);
}

static void
test_socket(void **state)
{
	(void)state;
	setenv("ZCACHED_SOCKET", "/from/environment", 1);
	assert_int_equal(parse(""), CONFIG_RUN);
	assert_string_equal(config.listener.path, "/from/environment");
	assert_int_equal(parse("--socket /x --socket-mode 660 --socket-group 7"), CONFIG_RUN);
	assert_string_equal(config.listener.path, "/x");
	assert_int_equal(config.listener.mode, 0660);
	assert_int_equal(config.listener.group, 7);
	setenv("ZCACHED_SOCKET", "", 1);
	assert_int_equal(parse("--socket-group root --socket-mode 0777"), CONFIG_RUN);
	assert_string_equal(config.listener.path, "/run/zcached/zcached.sock");
	assert_int_equal(config.listener.group, 0);
	unsetenv("ZCACHED_SOCKET");
	assert_refused("--socket-mode 1777", "--socket-mode");
	assert_refused("--socket-mode 888", "--socket-mode");
	assert_refused("--socket-mode rw", "--socket-mode");
	assert_refused("--socket-mode -1", "--socket-mode");
	assert_refused("--socket-mode 06600", "--socket-mode");
	assert_refused("--socket-group no-such-group", "no-such-group");
	assert_refused("--socket-group 4294967295", "--socket-group");
	assert_refused("--socket", "--socket");
}

static void
test_numbers(void **state)
{
	(void)state;
	assert_int_equal(parse("--workers 3 --client-timeout 60 --connections 100 --foreground"),
			 CONFIG_RUN);
	assert_int_equal(config.engine.workers, 3);
	assert_int_equal(config.engine.client_timeout, 60);
	assert_int_equal(config.engine.connections_max, 100);
	assert_true(config.foreground);
	assert_int_equal(parse("--workers 254"), CONFIG_RUN);
	assert_int_equal(parse("--workers 3 --workers auto"), CONFIG_RUN);
	assert_int_equal(config.engine.workers, 0);
	assert_refused("--workers 0", "auto or a number from 1 to 254");
	assert_refused("--workers 255", "--workers");
	assert_refused("--workers 256", "--workers");
	assert_refused("--workers -1", "--workers");
	assert_refused("--workers 4294967297", "--workers");
	assert_refused("--workers many", "--workers");
	assert_refused("--client-timeout 0", "--client-timeout");
	assert_refused("--client-timeout 10s", "--client-timeout");
	assert_refused("--connections 0", "--connections");
	assert_refused("--connections 65537", "--connections");
}

static void
test_limit_and_codec(void **state)
{
	(void)state;
	assert_int_equal(parse("--limit 64MiB --codec zstd:7"), CONFIG_RUN);
	assert_true(config.engine.limit == 64u << 20);
	assert_true(config.engine.pool[0].limit == 64u << 20);
	assert_int_equal(config.engine.pool[0].codec.codec, ZC_CODEC_ZSTD);
	assert_int_equal(config.engine.pool[0].codec.level, 7);
	assert_refused("--limit 0", "--limit");
	assert_refused("--limit 4095", "4K to 1T");
	assert_refused("--limit -1", "--limit");
	assert_refused("--limit 1e3", "'1e3'");
	assert_refused("--limit 2T", "--limit");
	assert_refused("--limit 18446744073709551616", "--limit");
	assert_refused("--codec gzip", "--codec");
	assert_refused("--codec zstd:20", "'zstd:20'");
}

static void
test_pools(void **state)
{
	const struct pool_config *pool = config.engine.pool;

	(void)state;
	/* Defaults count wherever they stand. */
	assert_int_equal(parse("--pool a --pool b.B_2-:kind=cache,page=64K,limit=1G,codec=zstd:3,"
			       "compact=manual,owner=12 --limit 32M --codec lz4:4"),
			 CONFIG_RUN);
	assert_int_equal(config.engine.pools, 2);
	assert_string_equal(pool[0].name, "a");
	assert_int_equal(pool[0].kind, ZC_KIND_STORE);
	assert_true(pool[0].limit == 32u << 20);
	assert_int_equal(pool[0].codec.level, 4);
	assert_string_equal(pool[1].name, "b.B_2-");
	assert_int_equal(pool[1].kind, ZC_KIND_CACHE);
	assert_int_equal(pool[1].page_size, 65536);
	assert_true(pool[1].limit == 1u << 30);
	assert_int_equal(pool[1].codec.codec, ZC_CODEC_ZSTD);
	assert_int_equal(pool[1].codec.level, 3);
	assert_false(pool[1].auto_compact);
	assert_int_equal(pool[1].owner_uid, 12);
	assert_int_equal(parse("--pool p:owner=root,kind=store,compact=auto"), CONFIG_RUN);
	assert_int_equal(pool[0].owner_uid, 0);
}

static void
test_bad_pools(void **state)
{
	char line[256] = "--pool ";

	(void)state;
	assert_refused("--pool a --pool a:kind=cache", "twice");
	assert_refused("--pool a/b", "'a/b'");
	assert_refused("--pool :kind=cache", "not a name");
	memset(line + 7, 'n', 64);
	assert_refused(line, "not a name");
	line[7 + 63] = 0;
	assert_int_equal(parse(line), CONFIG_RUN);
	memset(line + 7, ':', 248);
	assert_refused(line, "not a name");
	assert_refused("--pool p:", "key=value");
	assert_refused("--pool p:kind", "key=value");
	assert_refused("--pool p:kind,page=4K", "'kind'");
	assert_refused("--pool p:page=4K,", "key=value");
	assert_refused("--pool p:colour=red", "'colour'");
	assert_refused("--pool p:kind=durable", "swap service");
	assert_refused("--pool p:kind=fast", "'fast'");
	assert_refused("--pool p:page=5K", "power of two");
	assert_refused("--pool p:page=2K", "4K to 64K");
	assert_refused("--pool p:page=128K", "4K to 64K");
	assert_refused("--pool p:limit=", "limit");
	assert_refused("--pool p:codec=zip", "codec");
	assert_refused("--pool p:compact=never", "compact");
	assert_refused("--pool p:owner=no-such-user", "no-such-user");
}

static void
test_number_of_pools(void **state)
{
	char line[2048] = "";

	(void)state;
	for (int i = 0; i < 32; i++)
		snprintf(line + strlen(line), sizeof(line) - strlen(line), "--pool p%d ", i);
	line[strlen(line) - 1] = 0;
	assert_int_equal(parse(line), CONFIG_RUN);
	assert_int_equal(config.engine.pools, 32);
}

static void
test_what_is_no_option(void **state)
{
	(void)state;
	assert_refused("--speed 9", "--speed");
	assert_refused("-x", "-x");
	assert_refused("word", "word");
	assert_refused("--foreground=yes", "--foreground");
	assert_int_equal(parse("--version"), CONFIG_VERSION);
	assert_int_equal(parse("--help --speed"), CONFIG_HELP);
	assert_non_null(strstr(config_help(), "--client-timeout"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults),	cmocka_unit_test(test_socket),
		cmocka_unit_test(test_numbers),		cmocka_unit_test(test_limit_and_codec),
		cmocka_unit_test(test_pools),		cmocka_unit_test(test_bad_pools),
		cmocka_unit_test(test_number_of_pools), cmocka_unit_test(test_what_is_no_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
