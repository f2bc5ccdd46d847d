/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Strict parsers of what a user types: numbers, keys, seconds, names of pools. No sign, no space,
 * no octal, nothing behind the number, no silent overflow. Sizes ("64M") have a parser of their
 * own, shared with the daemon (size.h).
 *
 * Pure functions: no locks, no output. They return 0 or -EINVAL or -ERANGE, and leave *out alone on
 * an error.
 */
#ifndef ZCACHED_CLI_PARSE_H
#define ZCACHED_CLI_PARSE_H

#include <stdint.h>

#include <zclient.h>

/* Decimal (leading zeros do not make it octal), or hexadecimal behind 0x. */
int parse_u64(const char *text, uint64_t *out);

/* OBJECT:INDEX, both as parse_u64 reads them. */
int parse_key(const char *text, struct zc_key *out);

/* Seconds with up to three decimals ("2", "0.25"), as milliseconds. */
int parse_seconds(const char *text, unsigned *milliseconds);

/* "cache" or "store", as an enum zc_kind. */
int parse_kind(const char *text, uint32_t *kind);

/* A pool's name is 1 byte or more and fits, with its zero, into zc_pool_info.name. */
int parse_pool_name(const char *text);

#endif
