/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Values in and out: files, standard input, standard output ("-", or NULL for no file named).
 *
 * Both return an enum exit_code, after an error line when it is not EXIT_OK.
 */
#ifndef ZCACHED_CLI_VALUE_IO_H
#define ZCACHED_CLI_VALUE_IO_H

#include "command.h"

/* Whether `path` means a standard stream. */
bool is_standard_stream(const char *path);

/* Reads the whole of `path`; a value that is empty or longer than `max` bytes is an error. */
int value_read(const struct context *context, const char *path, char *value, size_t max,
	       size_t *length);

/*
 * Writes to `path`. A regular file is replaced as a whole, by a rename in its own folder: other
 * processes see the old or the new one. Anything else (a device, a pipe) is written to.
 */
int value_write(const struct context *context, const char *path, const char *value, size_t length);

#endif
