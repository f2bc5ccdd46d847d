/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sizes as people write them, read strictly: a mistyped size is an error and never another size.
 *
 * Used for the options of zcached and zcachectl. Pure functions: no locks, no output.
 */
#ifndef ZCACHED_DAEMON_SIZE_H
#define ZCACHED_DAEMON_SIZE_H

#include <stddef.h>
#include <stdint.h>

/* What size_parse accepts, in words for an error message. */
#define SIZE_ACCEPTED "bytes, a number with K, M, G or T (powers of 1024), or N% of RAM"

/*
 * Reads decimal digits, then nothing (bytes), or K, M, G or T, which "iB" or "B" may follow (all
 * are powers of 1024: 4K == 4KiB == 4KB == 4096), or % (of the machine's RAM, at most 100). No
 * sign, space, fraction, exponent, or lower case. Returns 0, -EINVAL, or -ERANGE (above 2^64 - 1
 * bytes or 100 %); *bytes is set on success only.
 */
int size_parse(const char *text, uint64_t *bytes);

/* The same for an option that has bounds; on failure, one line for people is written to `why`. */
int size_parse_option(const char *option, const char *text, uint64_t min, uint64_t max,
		      uint64_t *bytes, char *why, size_t why_size);

/* Decimal digits and nothing else, min .. max. Returns 0, -EINVAL or -ERANGE. */
int number_parse(const char *text, uint64_t min, uint64_t max, uint64_t *number);

/* Writes a size with the largest unit that leaves no remainder: "64M", "65537". */
#define SIZE_TEXT 24u
const char *size_format(uint64_t bytes, char text[SIZE_TEXT]);

/* Bytes of RAM of the machine. */
uint64_t size_of_ram(void);

#endif
