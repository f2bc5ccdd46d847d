/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A segment: one sealed memfd, mapped by the engine over the whole address range it may grow to.
 *
 * Used by pool.c for the control, index and data memfds. The file is created close-on-exec, not
 * executable where the kernel can say so, 0600 before anything else, and sealed against shrinking
 * and further seals. It grows in steps: a hole below its end is what a hostile reader could fill,
 * so it is never longer than what is in use plus a quarter, at least 16 MiB.
 *
 * Memory is taken by populating (or touching) and given back by punching. This file counts nothing
 * against limits: callers ask budget.h *before* they take memory. All calls make system calls, so
 * none may be made under a lock. Thread safe: growing never shrinks, populate and punch are given
 * ranges which their callers own.
 */
#ifndef ZCACHED_SHM_SEGMENT_H
#define ZCACHED_SHM_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#define SEGMENT_SLACK_MIN (16ULL << 20)

struct segment {
	int fd;
	char *base;	  /* `reserve` bytes of address space, shared, read-write */
	uint64_t reserve; /* bytes the file can grow to at most */
	uint64_t size;	  /* bytes of the file; atomic, grows only */
};

/*
 * Creates an empty segment that can grow to `reserve` bytes (a multiple of the OS page).
 * Returns 0, or -EMFILE, -ENFILE, -ENOMEM, or what memfd_create(2), fcntl(2), mmap(2) said,
 * negative.
 */
int segment_create(struct segment *segment, const char *name, uint64_t reserve);

/* Unmaps and closes. Accepts a segment that segment_create failed on, and one closed before. */
void segment_close(struct segment *segment);

/*
 * Makes the file at least `need` bytes long, where `need` bytes will be in use; it may become a
 * quarter (at least SEGMENT_SLACK_MIN) longer. Returns 0, -ENOSPC past `reserve`, or ftruncate(2)'s
 * error.
 */
int segment_grow(struct segment *segment, uint64_t need);

/*
 * Takes memory for a range inside the file, without waiting for a first touch. Returns 0 or a
 * negative errno; part of the range may have been taken then.
 */
int segment_populate(struct segment *segment, uint64_t offset, uint64_t length);

/* Gives the memory of a range back; it reads as zeros afterwards. Returns 0 or a negative errno. */
int segment_punch(struct segment *segment, uint64_t offset, uint64_t length);

/* What the kernel says the segment costs: st_blocks in bytes. */
uint64_t segment_resident(const struct segment *segment);

#endif
