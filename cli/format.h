/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers and names as text for people. Each function returns its text by value, so that a call can
 * stand among the arguments of printf: printf("%s", human_bytes(n).s).
 *
 * Pure functions: no locks, no allocation, no output.
 */
#ifndef ZCACHED_CLI_FORMAT_H
#define ZCACHED_CLI_FORMAT_H

#include <stddef.h>
#include <stdint.h>

struct text {
	char s[72];
};

/* "512 bytes", "4.0 KiB", "1.5 GiB": units of 1024, one decimal, rounded down. */
struct text human_bytes(uint64_t bytes);

/* "4.0 KiB (4096 bytes)"; below 1 KiB only the exact number. */
struct text both_bytes(uint64_t bytes);

/* "3 d 4 h", "5 min 6 s", "7 s": the two largest units. */
struct text duration(uint64_t milliseconds);

/* part / whole as "2.43", or "-" when there is no whole. */
struct text ratio(uint64_t part, uint64_t whole);

/* part / whole as "97.2 %", or "-" when there is no whole. */
struct text percentage(uint64_t part, uint64_t whole);

/* part / whole, or a negative number when there is no whole. */
double quotient(uint64_t part, uint64_t whole);

/*
 * A pool's name or codec as it may be shown: cut at the struct's size and with what a terminal
 * could take for a command, or JSON for an invalid string, replaced by '?'. Such text comes from
 * other users.
 */
struct text shown(const char *text);

/* The same in place, for text of any length. */
void make_printable(char *text);

/* Name of an enum zc_kind. */
struct text kind_name(uint32_t kind);

#endif
