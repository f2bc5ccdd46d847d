/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Finding the memory cgroups of this process and reading the room under them, see memory_chain.h.
 * Called by budget.c: open and close once, room from any thread. No locks, no state but open files.
 *
 * Page cache is looked at last because reading memory.stat makes the kernel add up the counters of
 * all CPUs. Shared memory is not in the file lists of memory.stat, so a pool's own pages never
 * count as reclaimable.
 *
 * Left out: memory.high (it slows down, it does not kill); swap (a pool that lives in swap is worse
 * than a refused put); a process that is moved to another cgroup after the chain was found.
 */
#include "memory_chain.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* cgroup v1 says "no limit" as a number near 2^63. */
#define UNLIMITED_AT (1ULL << 62)

/* The longest memory.stat is about half of this. */
#define STAT_SIZE 8192u

/* Reads a whole small file of proc or cgroup, however often. Returns false on any error. */
static bool
read_text(int fd, char *text, size_t size)
{
	ssize_t length;

	do
		length = pread(fd, text, size - 1, 0);
	while (length < 0 && errno == EINTR);
	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

/* A limit or usage file: one number, or "max". */
static uint64_t
read_bytes(int fd)
{
	char text[32];
	unsigned long long bytes;

	if (!read_text(fd, text, sizeof(text)) || !isdigit((unsigned char)text[0]))
		return MEMORY_UNLIMITED;
	bytes = strtoull(text, NULL, 10);
	return bytes >= UNLIMITED_AT ? MEMORY_UNLIMITED : bytes;
}

/* The number behind `name` in lines of "name number"; 0 where there is no such line. */
static uint64_t
find_value(const char *text, const char *name)
{
	size_t length = strlen(name);

	while (text) {
		if (strncmp(text, name, length) == 0 && text[length] == ' ')
			return strtoull(text + length, NULL, 10);
		text = strchr(text, '\n');
		if (text)
			text++;
	}
	return 0;
}

/* Page cache of the cgroup and those below it. */
static uint64_t
read_page_cache(const struct memory_level *level)
{
	char text[STAT_SIZE];

	if (level->stat_fd < 0 || !read_text(level->stat_fd, text, sizeof(text)))
		return 0;
	if (level->v2)
		return find_value(text, "inactive_file") + find_value(text, "active_file");
	return find_value(text, "total_inactive_file") + find_value(text, "total_active_file");
}

static uint64_t
level_room(const struct memory_level *level, uint64_t enough)
{
	uint64_t limit = read_bytes(level->limit_fd);
	uint64_t usage, cache;

	if (limit == MEMORY_UNLIMITED)
		return MEMORY_UNLIMITED;
	usage = read_bytes(level->usage_fd);
	if (usage == MEMORY_UNLIMITED)
		return MEMORY_UNLIMITED;
	if (usage < limit && limit - usage >= enough)
		return limit - usage;
	cache = read_page_cache(level);
	usage -= cache < usage ? cache : usage;
	return usage < limit ? limit - usage : 0;
}

static uint64_t
machine_room(int meminfo_fd)
{
	char text[STAT_SIZE];

	if (meminfo_fd < 0 || !read_text(meminfo_fd, text, sizeof(text)))
		return MEMORY_UNLIMITED;
	return find_value(text, "MemAvailable:") << 10;
}

struct memory_room
memory_chain_room(const struct memory_chain *chain, uint64_t enough)
{
	struct memory_room room = {MEMORY_UNLIMITED, machine_room(chain->meminfo_fd)};

	for (unsigned i = 0; i < chain->levels; i++) {
		uint64_t bytes = level_room(&chain->level[i], enough);

		if (bytes < room.cgroups)
			room.cgroups = bytes;
	}
	return room;
}

/* Below: finding the chain. */

static void
close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void
close_level(struct memory_level *level)
{
	close_fd(level->limit_fd);
	close_fd(level->usage_fd);
	close_fd(level->stat_fd);
}

/* Adds the cgroup at `path`, if it has the memory controller (the root of v2 has none). */
static void
add_level(struct memory_chain *chain, const char *path, bool v2)
{
	const int flags = O_RDONLY | O_CLOEXEC;
	int directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct memory_level level = {.v2 = v2};

	if (directory < 0)
		return;
	level.limit_fd = openat(directory, v2 ? "memory.max" : "memory.limit_in_bytes", flags);
	level.usage_fd = openat(directory, v2 ? "memory.current" : "memory.usage_in_bytes", flags);
	level.stat_fd = openat(directory, "memory.stat", flags);
	close(directory);
	if (level.limit_fd < 0 || level.usage_fd < 0)
		close_level(&level);
	else
		chain->level[chain->levels++] = level;
}

/* Adds the cgroup at `path` and those above it, up to and with the one at path[0 .. mount). */
static void
add_levels(struct memory_chain *chain, char *path, size_t mount, bool v2)
{
	size_t length = strlen(path);

	while (chain->levels < MEMORY_LEVELS_MAX) {
		add_level(chain, path, v2);
		if (length <= mount)
			break;
		while (length > mount && path[length - 1] != '/')
			length--;
		if (length > mount)
			length--; /* the slash */
		path[length] = '\0';
	}
}

/* Is `word` one of the words of a comma-separated list? */
static bool
list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	while (list) {
		if (strncmp(list, word, length) == 0 && (!list[length] || list[length] == ','))
			return true;
		list = strchr(list, ',');
		if (list)
			list++;
	}
	return false;
}

/* Octal escapes of mountinfo (space, tab, newline, backslash), in place. */
static void
unescape(char *text)
{
	char *out = text;

	for (; *text; text++) {
		unsigned octal;

		if (text[0] == '\\' && sscanf(text + 1, "%3o", &octal) == 1) {
			*out++ = (char)octal;
			text += 3;
		} else {
			*out++ = *text;
		}
	}
	*out = '\0';
}

/* One line of mountinfo. */
struct mount {
	char root[PATH_MAX]; /* what of the file system is mounted */
	char point[PATH_MAX];
	char type[32];
	char options[1024];
};

static bool
parse_mount(const char *line, struct mount *mount)
{
	const char *rest = strstr(line, " - ");

	if (!rest || sscanf(rest, " - %31s %*s %1023s", mount->type, mount->options) != 2)
		return false;
	if (sscanf(line, "%*s %*s %*s %4095s %4095s", mount->root, mount->point) != 2)
		return false;
	unescape(mount->root);
	unescape(mount->point);
	return true;
}

static bool
mount_has_memory(const struct mount *mount, bool v2)
{
	if (v2)
		return strcmp(mount->type, "cgroup2") == 0;
	return strcmp(mount->type, "cgroup") == 0 && list_has(mount->options, "memory");
}

/*
 * The part of `own` below `root`, or NULL where `own` is not in there: the mount shows other
 * cgroups than ours.
 */
static const char *
below(const char *own, const char *root)
{
	size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(own, "/..", 3) == 0 || strncmp(own, root, length) != 0)
		return NULL;
	own += length;
	if (strcmp(own, "/") == 0)
		return "";
	return *own == '/' || !*own ? own : NULL;
}

static FILE *
open_under(const char *root, const char *path)
{
	char full[PATH_MAX];

	if (snprintf(full, sizeof(full), "%s%s", root, path) >= (int)sizeof(full))
		return NULL;
	return fopen(full, "re");
}

/* Adds the chain from `own`, a path of /proc/self/cgroup, in the first mount that shows it. */
static void
add_chain(struct memory_chain *chain, const char *root, const char *own, bool v2)
{
	FILE *mounts = open_under(root, "/proc/self/mountinfo");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	while (mounts && !found && getline(&line, &size, mounts) > 0) {
		struct mount mount;
		char path[PATH_MAX];
		const char *rest;

		if (!parse_mount(line, &mount) || !mount_has_memory(&mount, v2))
			continue;
		rest = below(own, mount.root);
		if (!rest || snprintf(path, sizeof(path), "%s%s%s", root, mount.point, rest) >=
				     (int)sizeof(path))
			continue;
		add_levels(chain, path, strlen(root) + strlen(mount.point), v2);
		found = true;
	}
	free(line);
	if (mounts)
		fclose(mounts);
}

/*
 * One line of /proc/self/cgroup: "number:controllers:path", v2 with the number 0 and no
 * controllers.
 */
static void
add_cgroup(struct memory_chain *chain, const char *root, char *line)
{
	char *controllers = strchr(line, ':');
	char *path = controllers ? strchr(controllers + 1, ':') : NULL;

	if (!path)
		return;
	*controllers++ = '\0';
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	if (strcmp(line, "0") == 0 && !*controllers)
		add_chain(chain, root, path, true);
	else if (list_has(controllers, "memory"))
		add_chain(chain, root, path, false);
}

static int
open_meminfo(const char *root)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/proc/meminfo", root) >= (int)sizeof(path))
		return -1;
	return open(path, O_RDONLY | O_CLOEXEC);
}

void
memory_chain_open(struct memory_chain *chain, const char *root)
{
	FILE *cgroups = open_under(root, "/proc/self/cgroup");
	char *line = NULL;
	size_t size = 0;

	*chain = (struct memory_chain){.meminfo_fd = open_meminfo(root)};
	while (cgroups && getline(&line, &size, cgroups) > 0)
		add_cgroup(chain, root, line);
	free(line);
	if (cgroups)
		fclose(cgroups);
}

void
memory_chain_close(struct memory_chain *chain)
{
	for (unsigned i = 0; i < chain->levels; i++)
		close_level(&chain->level[i]);
	close_fd(chain->meminfo_fd);
	*chain = (struct memory_chain){.meminfo_fd = -1};
}
