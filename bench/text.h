/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers for people, and progress on a terminal.
 *
 * Used by zcache-bench and zcache-demo. Text functions write into the caller's
 * buffer and return where the text begins.
 */
#ifndef ZCACHED_BENCH_TEXT_H
#define ZCACHED_BENCH_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#define TEXT_SIZE 32

const char *text_count(uint64_t count, char text[TEXT_SIZE]); /* "1,048,576" */
const char *text_bytes(uint64_t bytes, char text[TEXT_SIZE]); /* "64.0 MiB" */

/* part / whole; 0 when there is no whole. */
double ratio(uint64_t part, uint64_t whole);

/* Reads a decimal number in minimum .. maximum, and nothing else. */
bool text_number(const char *text, uint64_t minimum, uint64_t maximum, uint64_t *number);

/* Shows how far `what` is, on standard error and only if that is a terminal. */
void progress(const char *what, uint64_t done, uint64_t total);
void progress_end(void); /* wipes the line */

#endif
