/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The same pages through the kernel's zram: /dev/zram0, 4 KiB a request, O_DIRECT. Needs root and a zram0 that
 * nobody uses (disksize 0); it is reset afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "latency.h"

#define SYSFS "/sys/block/zram0/"

static bool
setting_write(const char *name, const char *value)
{
	char path[64];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), SYSFS "%s", name);
	file = fopen(path, "w");
	if (!file)
		return false;
	good = fputs(value, file) >= 0;
	return fclose(file) == 0 && good;
}

static bool
is_unused(void)
{
	char text[32] = "";
	FILE *file = fopen(SYSFS "disksize", "r");
	bool unused;

	if (!file)
		return false;
	unused = fgets(text, sizeof(text), file) && !strcmp(text, "0\n");
	fclose(file);
	return unused;
}

static const char *
zram_open(const struct latency *latency, int *fd)
{
	char codec[8], size[32];

	snprintf(codec, sizeof(codec), "%.4s", latency->codec);
	codec[strcspn(codec, ":")] = '\0';
	snprintf(size, sizeof(size), "%llu", (unsigned long long)latency->items * BENCH_PAGE_SIZE);
	if (geteuid() != 0)
		return "needs root";
	if (!is_unused())
		return "no /dev/zram0 that is not in use";
	if (!setting_write("comp_algorithm", codec))
		return "this kernel's zram does not have the codec";
	if (!setting_write("disksize", size))
		return "zram0 refuses its size";
	*fd = open("/dev/zram0", O_RDWR | O_DIRECT | O_CLOEXEC);
	return *fd < 0 ? "cannot open /dev/zram0" : NULL;
}

static const char *
measure(const struct latency *latency, int fd, struct zram_result *result)
{
	double begin, middle;
	char *page;

	if (posix_memalign((void **)&page, BENCH_PAGE_SIZE, BENCH_PAGE_SIZE))
		return "no memory";
	begin = now_us();
	for (uint64_t i = 0; i < latency->items; i++) {
		off_t at = (off_t)(latency->order[i] * BENCH_PAGE_SIZE);

		memcpy(page, latency->pages + at, BENCH_PAGE_SIZE);
		if (pwrite(fd, page, BENCH_PAGE_SIZE, at) != BENCH_PAGE_SIZE)
			return free(page), "a write failed";
	}
	middle = now_us();
	for (uint64_t i = 0; i < latency->items; i++)
		if (pread(fd, page, BENCH_PAGE_SIZE,
			  (off_t)(latency->order[i] * BENCH_PAGE_SIZE)) != BENCH_PAGE_SIZE)
			return free(page), "a read failed";
	result->write_us = (middle - begin) / (double)latency->items;
	result->read_us = (now_us() - middle) / (double)latency->items;
	free(page);
	return NULL;
}

void
zram_round(const struct latency *latency, struct zram_result *result)
{
	int fd = -1;

	*result = (struct zram_result){.why_not = zram_open(latency, &fd)};
	if (!result->why_not)
		result->why_not = measure(latency, fd, result);
	if (fd >= 0) {
		close(fd);
		setting_write("reset", "1");
	}
}
