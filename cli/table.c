/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A table of text; table.h has the contract. Cells collect in one memory stream, so an allocation
 * that fails shows once, at the end.
 */
#include "table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32

int
table_begin(struct table *table, const char *align)
{
	memset(table, 0, sizeof(*table));
	table->align = align;
	table->cells = open_memstream(&table->text, &table->size);
	return table->cells ? 0 : -ENOMEM;
}

void
table_cell(struct table *table, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(table->cells, format, arguments);
	va_end(arguments);
	fputc('\0', table->cells);
}

static void
measure(const struct table *table, size_t columns, int *widths)
{
	const char *cell = table->text;

	memset(widths, 0, columns * sizeof(*widths));
	for (size_t column = 0; cell < table->text + table->size; column++) {
		int length = (int)strlen(cell);

		if (length > widths[column % columns])
			widths[column % columns] = length;
		cell += length + 1;
	}
}

/* Spaces wait until something follows them, so that none stands at the end of a line. */
static void
print_cells(const struct table *table, size_t columns, const int *widths, FILE *output)
{
	const char *cell = table->text;
	int spaces = 0;

	for (size_t i = 0; cell < table->text + table->size; i++) {
		size_t column = i % columns;
		int length = (int)strlen(cell);
		int padding = widths[column] - length;
		int before = table->align[column] == 'r' ? padding : 0;

		if (length > 0) {
			fprintf(output, "%*s%s", spaces + before, "", cell);
			spaces = 0;
			before = 0;
		}
		spaces += before + (table->align[column] == 'r' ? 0 : padding) + 2;
		if (column == columns - 1) {
			fputc('\n', output);
			spaces = 0;
		}
		cell += length + 1;
	}
}

int
table_end(struct table *table, FILE *output)
{
	size_t columns = strlen(table->align);
	int widths[COLUMNS_MAX];
	int failed = ferror(table->cells);

	failed |= fclose(table->cells);
	if (!failed) {
		measure(table, columns, widths);
		print_cells(table, columns, widths, output);
	}
	free(table->text);
	return failed ? -ENOMEM : 0;
}
