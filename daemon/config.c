/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The command line; config.h has the contract. Pools are read last, whatever the order of options,
 * since what they do not say comes from --limit and --codec.
 */
#include "config.h"

#include <errno.h>
#include <getopt.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "size.h"

#define POOL_TEXT	    256u
#define CONNECTIONS_DEFAULT 4096u

/* The command line while it is read. */
struct parser {
	struct config *config;
	const char *pool[ENGINE_POOLS_MAX];
	unsigned pools;
	char *why;
	size_t why_size;
};

static int __attribute__((format(printf, 2, 3)))
refuse(struct parser *parser, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(parser->why, parser->why_size, format, arguments);
	va_end(arguments);
	return -EINVAL;
}

bool
config_pool_name_valid(const char *name)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				      "0123456789._-";
	size_t length = strspn(name, allowed);

	return length > 0 && length < ZC_POOL_NAME_SIZE && name[length] == 0;
}

/* ---- values of options ---- */

static int
parse_number(struct parser *parser, const char *option, const char *text, unsigned min,
	     unsigned max, unsigned *value)
{
	uint64_t number;

	if (number_parse(text, min, max, &number) < 0)
		return refuse(parser, "%s: '%.40s' is not a number from %u to %u", option, text,
			      min, max);
	*value = (unsigned)number;
	return 0;
}

static int
parse_mode(struct parser *parser, const char *text)
{
	size_t digits = strspn(text, "01234567");

	if (digits == 0 || digits > 4 || text[digits] || strtoul(text, NULL, 8) > 0777)
		return refuse(parser,
			      "--socket-mode: '%.40s' is not an octal mode; accepted: "
			      "0 to 0777, as in 0660",
			      text);
	parser->config->listener.mode = (mode_t)strtoul(text, NULL, 8);
	return 0;
}

static int
parse_group(struct parser *parser, const char *text)
{
	const struct group *group = getgrnam(text);
	uint64_t number;

	if (group)
		parser->config->listener.group = group->gr_gid;
	else if (number_parse(text, 0, UINT32_MAX - 1, &number) == 0)
		parser->config->listener.group = (gid_t)number;
	else
		return refuse(parser, "--socket-group: there is no group '%.40s'", text);
	return 0;
}

static int
parse_user(struct parser *parser, const char *text, uint32_t *uid)
{
	const struct passwd *user = getpwnam(text);
	uint64_t number;

	if (user)
		*uid = user->pw_uid;
	else if (number_parse(text, 0, UINT32_MAX - 1, &number) == 0)
		*uid = (uint32_t)number;
	else
		return refuse(parser, "--pool: owner: there is no user '%.40s'", text);
	return 0;
}

static int
parse_codec(struct parser *parser, const char *option, const char *text, struct codec_config *codec)
{
	if (codec_config_parse(text, codec) < 0)
		return refuse(parser,
			      "%s: '%.40s' is not a codec; accepted: lz4, "
			      "lz4:ACCELERATION (1 to 65537), zstd, zstd:LEVEL (-7 to 19)",
			      option, text);
	return 0;
}

static int
parse_workers(struct parser *parser, const char *text)
{
	unsigned *workers = &parser->config->engine.workers;

	if (strcmp(text, "auto") == 0) {
		*workers = 0;
		return 0;
	}
	if (parse_number(parser, "--workers", text, 1, ENGINE_WORKERS_MAX, workers) < 0)
		return refuse(parser, "--workers: '%.40s' is not auto or a number from 1 to %u",
			      text, ENGINE_WORKERS_MAX);
	return 0;
}

static int
parse_limit(struct parser *parser, const char *option, const char *text, uint64_t *limit)
{
	return size_parse_option(option, text, ZC_OS_PAGE_SIZE, ZC_DATA_SIZE_MAX, limit,
				 parser->why, parser->why_size);
}

/* ---- --pool NAME[:key=value[,key=value...]] ---- */

static int
parse_kind(struct parser *parser, const char *text, enum zc_pool_kind *kind)
{
	if (strcmp(text, "cache") == 0)
		*kind = ZC_KIND_CACHE;
	else if (strcmp(text, "store") == 0)
		*kind = ZC_KIND_STORE;
	else if (strcmp(text, "durable") == 0)
		return refuse(parser, "--pool: kind=durable needs the swap service, which this "
				      "service does not have; accepted: cache, store");
	else
		return refuse(parser, "--pool: kind '%.40s' is not known; accepted: cache, store",
			      text);
	return 0;
}

static int
parse_page(struct parser *parser, const char *text, uint32_t *page_size)
{
	uint64_t bytes;
	int result = size_parse_option("--pool: page", text, ZC_PAGE_SIZE_MIN, ZC_PAGE_SIZE_MAX,
				       &bytes, parser->why, parser->why_size);

	if (result == 0 && (bytes & (bytes - 1)) != 0)
		return refuse(parser, "--pool: page: '%.40s' is not a power of two", text);
	if (result == 0)
		*page_size = (uint32_t)bytes;
	return result;
}

static int
parse_compact(struct parser *parser, const char *text, bool *automatic)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "manual") != 0)
		return refuse(parser,
			      "--pool: compact '%.40s' is not known; accepted: auto, manual", text);
	*automatic = strcmp(text, "auto") == 0;
	return 0;
}

static int
parse_pool_key(struct parser *parser, const char *key, const char *value, struct pool_config *pool)
{
	if (strcmp(key, "kind") == 0)
		return parse_kind(parser, value, &pool->kind);
	if (strcmp(key, "page") == 0)
		return parse_page(parser, value, &pool->page_size);
	if (strcmp(key, "limit") == 0)
		return parse_limit(parser, "--pool: limit", value, &pool->limit);
	if (strcmp(key, "codec") == 0)
		return parse_codec(parser, "--pool: codec", value, &pool->codec);
	if (strcmp(key, "compact") == 0)
		return parse_compact(parser, value, &pool->auto_compact);
	if (strcmp(key, "owner") == 0)
		return parse_user(parser, value, &pool->owner_uid);
	return refuse(parser,
		      "--pool: there is no key '%.40s'; accepted: kind, page, limit, codec, "
		      "compact, owner",
		      key);
}

static int
parse_pool_keys(struct parser *parser, char *keys, struct pool_config *pool)
{
	char *next;
	int result = 0;

	for (char *key = keys; key && result == 0; key = next) {
		char *value = strchr(key, '=');

		next = strchr(key, ',');
		if (next)
			*next++ = 0;
		if (!value || (next && value >= next - 1))
			return refuse(parser, "--pool: '%.40s' is not key=value", key);
		*value = 0;
		result = parse_pool_key(parser, key, value + 1, pool);
	}
	return result;
}

static void
pool_defaults(const struct engine_config *engine, struct pool_config *pool)
{
	*pool = (struct pool_config){
		.kind = ZC_KIND_STORE,
		.page_size = ZC_PAGE_SIZE_MIN,
		.limit = engine->limit,
		.codec = engine->codec,
		.owner_uid = geteuid(),
		.auto_compact = true,
	};
}

static int
parse_pool(struct parser *parser, const char *text)
{
	struct engine_config *engine = &parser->config->engine;
	struct pool_config *pool = &engine->pool[engine->pools];
	char copy[POOL_TEXT], *keys;

	pool_defaults(engine, pool);
	if (strlen(text) >= sizeof(copy))
		return refuse(parser, "--pool: '%.40s...' is longer than %u bytes", text,
			      POOL_TEXT - 1);
	memcpy(copy, text, strlen(text) + 1);
	keys = strchr(copy, ':');
	if (keys)
		*keys++ = 0;
	if (!config_pool_name_valid(copy))
		return refuse(parser,
			      "--pool: '%.70s' is not a name; accepted: 1 to 63 of letters, "
			      "digits, '.', '_' and '-'",
			      copy);
	for (unsigned i = 0; i < engine->pools; i++)
		if (strcmp(engine->pool[i].name, copy) == 0)
			return refuse(parser, "--pool: '%s' is given twice", copy);
	memcpy(pool->name, copy, strlen(copy) + 1);
	engine->pools++;
	return parse_pool_keys(parser, keys, pool);
}

/* ---- the whole ---- */

enum {
	OPTION_SOCKET = 256,
	OPTION_SOCKET_MODE,
	OPTION_SOCKET_GROUP,
	OPTION_FOREGROUND,
	OPTION_LIMIT,
	OPTION_CODEC,
	OPTION_WORKERS,
	OPTION_POOL,
	OPTION_CLIENT_TIMEOUT,
	OPTION_CONNECTIONS,
	OPTION_VERBOSE,
	OPTION_VERSION,
	OPTION_HELP,
};

static const struct option options[] = {
	{"socket", required_argument, NULL, OPTION_SOCKET},
	{"socket-mode", required_argument, NULL, OPTION_SOCKET_MODE},
	{"socket-group", required_argument, NULL, OPTION_SOCKET_GROUP},
	{"foreground", no_argument, NULL, OPTION_FOREGROUND},
	{"limit", required_argument, NULL, OPTION_LIMIT},
	{"codec", required_argument, NULL, OPTION_CODEC},
	{"workers", required_argument, NULL, OPTION_WORKERS},
	{"pool", required_argument, NULL, OPTION_POOL},
	{"client-timeout", required_argument, NULL, OPTION_CLIENT_TIMEOUT},
	{"connections", required_argument, NULL, OPTION_CONNECTIONS},
	{"verbose", no_argument, NULL, OPTION_VERBOSE},
	{"version", no_argument, NULL, OPTION_VERSION},
	{"help", no_argument, NULL, OPTION_HELP},
	{NULL, 0, NULL, 0},
};

const char *
config_help(void)
{
	return "usage: zcached [OPTION]...\n"
	       "Keeps memory pages compressed in shared memory for many processes.\n"
	       "\n"
	       "  --socket PATH         where to listen ($ZCACHED_SOCKET, else\n"
	       "                        " LISTENER_DEFAULT_PATH ")\n"
	       "  --socket-mode MODE    its mode, octal (0600)\n"
	       "  --socket-group NAME   its group\n"
	       "  --foreground          do not go to the background\n"
	       "  --limit SIZE          memory of a pool that names no limit, and of all pools "
	       "that\n"
	       "                        clients create (25%)\n"
	       "  --codec CODEC         lz4, lz4:ACCELERATION, zstd or zstd:LEVEL (lz4)\n"
	       "  --workers N|auto      worker threads (auto: one for each CPU)\n"
	       "  --pool NAME[:KEY=VALUE[,KEY=VALUE]...]\n"
	       "                        make this pool; repeatable (default). Keys: "
	       "kind=cache|store,\n"
	       "                        page=4K..64K, limit=SIZE, codec=CODEC, "
	       "compact=auto|manual,\n"
	       "                        owner=USER\n"
	       "  --client-timeout N    seconds after which a client that stops in a request, or "
	       "does\n"
	       "                        not read, is dropped (10)\n"
	       "  --connections N       connections at most (4096)\n"
	       "  --verbose             say when the service is ready\n"
	       "  --version, --help     print and exit\n"
	       "\n"
	       "SIZE: " SIZE_ACCEPTED ".\n";
}

static int
parse_option(struct parser *parser, int option)
{
	struct config *config = parser->config;

	switch (option) {
	case OPTION_SOCKET:
		config->listener.path = optarg;
		return 0;
	case OPTION_SOCKET_MODE:
		return parse_mode(parser, optarg);
	case OPTION_SOCKET_GROUP:
		return parse_group(parser, optarg);
	case OPTION_FOREGROUND:
		config->foreground = true;
		return 0;
	case OPTION_LIMIT:
		return parse_limit(parser, "--limit", optarg, &config->engine.limit);
	case OPTION_CODEC:
		return parse_codec(parser, "--codec", optarg, &config->engine.codec);
	case OPTION_WORKERS:
		return parse_workers(parser, optarg);
	case OPTION_POOL:
		if (parser->pools == ENGINE_POOLS_MAX)
			return refuse(parser, "--pool: more than %u pools", ENGINE_POOLS_MAX);
		parser->pool[parser->pools++] = optarg;
		return 0;
	case OPTION_CLIENT_TIMEOUT:
		return parse_number(parser, "--client-timeout", optarg, 1, ENGINE_CLIENT_SECONDS,
				    &config->engine.client_timeout);
	case OPTION_CONNECTIONS:
		return parse_number(parser, "--connections", optarg, 1, ENGINE_CONNECTIONS_MAX,
				    &config->engine.connections_max);
	case OPTION_VERBOSE:
		config->verbose = true;
		return 0;
	case OPTION_VERSION:
		return CONFIG_VERSION;
	default:
		return CONFIG_HELP;
	}
}

static void
config_defaults(struct config *config)
{
	const char *path = getenv("ZCACHED_SOCKET");
	uint64_t quarter = size_of_ram() / 4;

	*config = (struct config){
		.listener = {.path = path && *path ? path : LISTENER_DEFAULT_PATH,
			     .mode = 0600,
			     .group = (gid_t)-1},
		.engine = {.limit = quarter < ZC_DATA_SIZE_MAX ? quarter : ZC_DATA_SIZE_MAX,
			   .codec = {.codec = ZC_CODEC_LZ4},
			   .client_timeout = ENGINE_CLIENT_TIMEOUT,
			   .connections_max = CONNECTIONS_DEFAULT},
	};
}

static int
parse_options(struct parser *parser, int argc, char **argv)
{
	int option, result;

	optind = 0; /* glibc: begin anew, for callers that parse more than once */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (option == ':')
			return refuse(parser, "%s needs a value", argv[optind - 1]);
		if (option == '?')
			return refuse(parser, "unknown option or needless value: %.80s",
				      argv[optind - 1]);
		result = parse_option(parser, option);
		if (result != 0)
			return result;
	}
	if (optind < argc)
		return refuse(parser, "unexpected argument: %.80s", argv[optind]);
	return 0;
}

int
config_parse(int argc, char **argv, struct config *config, char *why, size_t why_size)
{
	struct parser parser = {.config = config, .why = why, .why_size = why_size};
	int result;

	config_defaults(config);
	result = parse_options(&parser, argc, argv);
	if (parser.pools == 0)
		parser.pool[parser.pools++] = "default";
	for (unsigned i = 0; i < parser.pools && result == 0; i++)
		result = parse_pool(&parser, parser.pool[i]);
	return result < 0 ? -EINVAL : result;
}
