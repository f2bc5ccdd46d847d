/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values in and out; value_io.h has the contract.
 */
#include "value_io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

bool
is_standard_stream(const char *path)
{
	return !path || strcmp(path, "-") == 0;
}

/* Reads until the end or until `room` is full. Returns how much, or a negative errno. */
static ssize_t
read_all(int fd, char *value, size_t room)
{
	size_t have = 0;

	while (have < room) {
		ssize_t count = read(fd, value + have, room - have);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0)
			break;
		have += (size_t)count;
	}
	return (ssize_t)have;
}

static int
write_all(int fd, const char *value, size_t length)
{
	while (length > 0) {
		ssize_t count = write(fd, value, length);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		value += count;
		length -= (size_t)count;
	}
	return 0;
}

static ssize_t
read_path(const char *path, char *value, size_t room)
{
	ssize_t count;
	int fd;

	if (is_standard_stream(path))
		return read_all(STDIN_FILENO, value, room);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	count = read_all(fd, value, room);
	close(fd);
	return count;
}

int
value_read(const struct context *context, const char *path, char *value, size_t max, size_t *length)
{
	/* One byte more than a value may have tells a longer one from the longest. */
	char *buffer = malloc(max + 1);
	ssize_t count;

	if (!buffer)
		return fail_memory(context);
	count = read_path(path, buffer, max + 1);
	if (count > 0 && (size_t)count <= max) {
		memcpy(value, buffer, (size_t)count);
		*length = (size_t)count;
	}
	free(buffer);
	if (count < 0)
		return fail_with(context, EXIT_OTHER, "cannot read %s: %s",
				 is_standard_stream(path) ? "standard input" : path,
				 strerror((int)-count));
	if (count == 0)
		return fail_with(context, EXIT_USAGE, "the value is empty: it needs 1 to %zu bytes",
				 max);
	if ((size_t)count > max)
		return fail_with(context, EXIT_USAGE,
				 "the value is longer than a page of pool '%s', %zu bytes",
				 context->pool_name, max);
	return EXIT_OK;
}

static int
write_close(int fd, const char *value, size_t length)
{
	int rc = write_all(fd, value, length);

	/* Some file systems tell of a full disk only here. */
	if (close(fd) < 0 && rc == 0)
		rc = -errno;
	return rc;
}

static int
overwrite(const char *path, const char *value, size_t length)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);

	return fd < 0 ? -errno : write_close(fd, value, length);
}

/* The name of a temporary file in the folder of `path`, for mkostemp; freed by the caller. */
static char *
temporary_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash + 1 - path) : 0;
	char *name;

	return asprintf(&name, "%.*s.zcachectl-XXXXXX", folder, path) < 0 ? NULL : name;
}

static int
replace_file(const char *path, mode_t mode, const char *value, size_t length)
{
	char *temporary = temporary_name(path);
	int fd;
	int rc;

	if (!temporary)
		return -ENOMEM;
	fd = mkostemp(temporary, O_CLOEXEC);
	if (fd < 0) {
		rc = -errno;
		free(temporary);
		return rc;
	}
	rc = fchmod(fd, mode) < 0 ? -errno : 0;
	if (rc < 0)
		close(fd);
	else
		rc = write_close(fd, value, length);
	if (rc == 0 && rename(temporary, path) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(temporary);
	free(temporary);
	return rc;
}

/* Replaces an existing regular file behind its symbolic links, which stay. */
static int
replace_resolved(const char *path, mode_t mode, const char *value, size_t length)
{
	char *resolved = realpath(path, NULL);
	int rc;

	if (!resolved)
		return -errno;
	rc = replace_file(resolved, mode, value, length);
	free(resolved);
	return rc;
}

static mode_t
new_file_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

static int
write_path(const char *path, const char *value, size_t length)
{
	struct stat status;

	if (stat(path, &status) == 0) {
		if (S_ISREG(status.st_mode))
			return replace_resolved(path, status.st_mode & 0777, value, length);
		return overwrite(path, value, length);
	}
	if (errno != ENOENT)
		return -errno;
	return replace_file(path, new_file_mode(), value, length);
}

/* Whether `path` is the file standard output goes to, as /dev/stdout is. */
static bool
is_standard_output(const char *path)
{
	struct stat named;
	struct stat output;

	return stat(path, &named) == 0 && fstat(STDOUT_FILENO, &output) == 0 &&
	       named.st_dev == output.st_dev && named.st_ino == output.st_ino;
}

int
value_write(const struct context *context, const char *path, const char *value, size_t length)
{
	int rc;

	if (is_standard_stream(path) || is_standard_output(path)) {
		fwrite(value, 1, length, stdout); /* finish_output finds what went wrong */
		return EXIT_OK;
	}
	rc = write_path(path, value, length);
	if (rc < 0)
		return fail_with(context, EXIT_OTHER, "cannot write %s: %s", path, strerror(-rc));
	return EXIT_OK;
}
