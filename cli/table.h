/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table of text whose columns are as wide as their widest cell.
 *
 *	struct table table;
 *	if (table_begin(&table, "lr"))		// one letter a column: left or right
 *		...
 *	table_cell(&table, "size");
 *	table_cell(&table, "%u", 32u);
 *	rc = table_end(&table, stdout);		// prints and frees
 *
 * For one thread. Cells are ASCII: a byte is a column of the terminal.
 */
#ifndef ZCACHED_CLI_TABLE_H
#define ZCACHED_CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

struct table {
	const char *align;
	FILE *cells; /* memory stream: each cell ends in a zero byte */
	char *text;
	size_t size;
};

/* Returns 0 or -ENOMEM. `align` must outlive the table and have at most 32 letters. */
int table_begin(struct table *table, const char *align);
void table_cell(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns 0 or -ENOMEM, in which case nothing was printed. */
int table_end(struct table *table, FILE *output);

#endif
