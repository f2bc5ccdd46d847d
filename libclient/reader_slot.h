/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Places for threads that read a pool directly: scratch memory, a decoder, and the fact that somebody is
 * inside a mapping, so that it is not unmapped under him.
 *
 * Used by direct.c and client_attach.c. A thread takes a place by writing the attachment it is about to
 * read into it, with the one atomic exchange that the way of a get has, and then looks whether that is still
 * the pool's (a hazard pointer; Michael 2004). Whoever replaces a pool's attachment first stores the new
 * one, then looks through the places: either he sees the reader, or the reader sees the new one. These four
 * accesses are sequentially consistent; no other order would do.
 *
 * No locks, no system calls. Memory is allocated when a place is used for the first time.
 */
#ifndef ZCLIENT_READER_SLOT_H
#define ZCLIENT_READER_SLOT_H

#include <stdbool.h>
#include <stdint.h>

#include "attachment.h"
#include "codec.h"

/* Threads that can read directly at the same moment; each more goes another way. */
#define READER_SLOTS 64u

struct reader_slot {
	struct attachment *inside; /* atomic; NULL: free */
	/* Of the thread that is inside. The counts are atomic, for others to read. */
	struct codec_stream *stream;
	char *stored; /* ZC_PAGE_SIZE_MAX bytes */
	uint64_t gets, exists, retries;
} __attribute__((aligned(64)));

struct reader_slots {
	struct reader_slot slot[READER_SLOTS];
};

/*
 * Takes a place for reading what *current, an atomic pointer, points at. NULL: that is NULL or has just changed,
 * no place is free, or there is no memory for it.
 */
struct reader_slot *reader_slot_enter(struct reader_slots *slots, struct attachment **current);
void reader_slot_leave(struct reader_slot *slot);

/* What one is in. Relaxed: one's own store, which others only try to replace. */
static inline struct attachment *
reader_slot_attachment(const struct reader_slot *slot)
{
	return __atomic_load_n(&slot->inside, __ATOMIC_RELAXED);
}

/* Whether somebody is inside an attachment that is nobody's current one any more. */
bool reader_slots_inside(struct reader_slots *slots, const struct attachment *attachment);

void reader_slots_destroy(struct reader_slots *slots);

/* Adds to a count of a place that one is in. Relaxed: one writer, and readers who want only some number. */
#define READER_COUNT(slot, count) \
	__atomic_store_n(&(slot)->count, (slot)->count + 1, __ATOMIC_RELAXED)

#endif
