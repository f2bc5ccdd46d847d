/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Segments: creation, growth, population, punching. See segment.h.
 *
 * About the mapping. MADV_NOHUGEPAGE: a huge page would take 2 MiB where 4 KiB were paid for, and
 * punching part of one gives nothing back until the kernel has split it. MADV_DONTFORK: a forked
 * child of the engine must not keep a pool mapped writable. MADV_DONTDUMP: the bytes are clients'
 * pages, which a core file must not spill, and a core as large as the pool delays the restart;
 * nothing is lost, since the pool outlives the engine and can be looked at in its memfd.
 *
 * Left out: shrinking (the seal forbids it; punching gives the same memory back) and huge pages.
 */
#include "segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "layout.h"
#include "lock.h"
#include "sealed.h"

/* Newer than the C library of the oldest system we build on. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

static bool
os_page_aligned(uint64_t bytes)
{
	return (bytes & (ZC_OS_PAGE_SIZE - 1)) == 0;
}

static int
map_reserve(int fd, uint64_t reserve, char **base)
{
	void *map = mmap(NULL, reserve, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (map == MAP_FAILED)
		return -errno;
	/* Fails only on kernels without huge pages. */
	madvise(map, reserve, MADV_NOHUGEPAGE);
	if (madvise(map, reserve, MADV_DONTFORK) || madvise(map, reserve, MADV_DONTDUMP)) {
		int error = -errno;

		munmap(map, reserve);
		return error;
	}
	*base = map;
	return 0;
}

int
segment_create(struct segment *segment, const char *name, uint64_t reserve)
{
	int fd, error;

	lock_assert_no_lock();
	*segment = (struct segment){.fd = -1};
	if (reserve == 0 || !os_page_aligned(reserve))
		return -EINVAL;
	fd = sealed_memfd(name);
	if (fd < 0)
		return fd;
	error = sealed_close(fd, F_SEAL_SHRINK | F_SEAL_SEAL);
	if (!error)
		error = map_reserve(fd, reserve, &segment->base);
	if (error) {
		close(fd);
		return error;
	}
	segment->fd = fd;
	segment->reserve = reserve;
	return 0;
}

void
segment_close(struct segment *segment)
{
	lock_assert_no_lock();
	if (!segment->base)
		return;
	munmap(segment->base, segment->reserve);
	close(segment->fd);
	*segment = (struct segment){.fd = -1};
}

/*
 * Raises the size. Release: pairs with the acquire in segment_grow(), so that a thread that is told
 * "long enough" does not touch the file before it is.
 */
static void
note_size(struct segment *segment, uint64_t size)
{
	uint64_t seen = load_relaxed(&segment->size); /* the exchange checks it */

	while (seen < size && !cas_acq_rel(&segment->size, &seen, size))
		;
}

/* The seal has refused an ftruncate: a concurrent call made the file longer than we meant to. */
static int
adopt_size(struct segment *segment, uint64_t need)
{
	struct stat status;

	if (fstat(segment->fd, &status))
		return -errno;
	if ((uint64_t)status.st_size < need)
		return -EPERM;
	note_size(segment, (uint64_t)status.st_size);
	return 0;
}

static uint64_t
grown_size(const struct segment *segment, uint64_t need)
{
	uint64_t slack = need / 4 > SEGMENT_SLACK_MIN ? need / 4 : SEGMENT_SLACK_MIN;

	if (slack > segment->reserve - need)
		return segment->reserve;
	return (need + slack) & ~(uint64_t)(ZC_OS_PAGE_SIZE - 1);
}

static __attribute__((noinline)) int
grow_file(struct segment *segment, uint64_t need)
{
	uint64_t size;

	if (need > segment->reserve)
		return -ENOSPC;
	size = grown_size(segment, need);
	while (ftruncate(segment->fd, (off_t)size)) {
		if (errno == EPERM)
			return adopt_size(segment, need);
		if (errno != EINTR)
			return -errno;
	}
	note_size(segment, size);
	return 0;
}

int
segment_grow(struct segment *segment, uint64_t need)
{
	lock_assert_no_lock();
	/* Acquire: pairs with the release in note_size(). */
	if (need <= load_acquire(&segment->size))
		return 0;
	return grow_file(segment, need);
}

/* For kernels before 5.14: takes the memory, leaves the page tables to the first touch. */
static int
populate_by_fallocate(struct segment *segment, uint64_t offset, uint64_t length)
{
	while (fallocate(segment->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)length)) {
		if (errno != EINTR)
			return errno == ENOSPC ? -ENOMEM : -errno;
	}
	return 0;
}

int
segment_populate(struct segment *segment, uint64_t offset, uint64_t length)
{
	lock_assert_no_lock();
	assert(os_page_aligned(offset) && os_page_aligned(length));
	assert(offset + length <= load_relaxed(&segment->size)); /* the caller has seen it grow */
	if (length == 0)
		return 0;
	while (madvise(segment->base + offset, length, MADV_POPULATE_WRITE)) {
		if (errno == EINVAL)
			return populate_by_fallocate(segment, offset, length);
		/* A write would end in SIGBUS. Inside the file that means: no memory. */
		if (errno == EFAULT)
			return -ENOMEM;
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int
segment_punch(struct segment *segment, uint64_t offset, uint64_t length)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	lock_assert_no_lock();
	assert(os_page_aligned(offset) && os_page_aligned(length));
	if (length == 0)
		return 0;
	while (fallocate(segment->fd, mode, (off_t)offset, (off_t)length)) {
		if (errno != EINTR)
			return -errno;
	}
	return 0;
}

uint64_t
segment_resident(const struct segment *segment)
{
	struct stat status;
	int failed;

	lock_assert_no_lock();
	failed = fstat(segment->fd, &status);
	assert(!failed); /* an open memfd always has a status */
	return (uint64_t)status.st_blocks * 512;
}
