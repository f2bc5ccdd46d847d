/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads pages.bin, the sample described in README.md, for unit tests. It lies beside this header,
 * whose path the compiler was given relative to the build folder: where meson runs tests.
 */
#ifndef ZCACHED_TESTS_SAMPLE_PAGES_H
#define ZCACHED_TESTS_SAMPLE_PAGES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLE_PAGE_SIZE   4096u
#define SAMPLE_PAGES	   96u
#define SAMPLE_SAME_FILLED 6u

static unsigned char sample_pages[SAMPLE_PAGES][SAMPLE_PAGE_SIZE];

static void
sample_pages_load(void)
{
	const char *header = __FILE__;
	const char *slash = strrchr(header, '/');
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%.*spages.bin", slash ? (int)(slash + 1 - header) : 0,
		 header);
	file = fopen(path, "rb");
	if (!file || fread(sample_pages, SAMPLE_PAGE_SIZE, SAMPLE_PAGES, file) != SAMPLE_PAGES) {
		perror(path);
		fprintf(stderr, "run this test in the build folder\n");
		exit(EXIT_FAILURE);
	}
	fclose(file);
}

#endif
