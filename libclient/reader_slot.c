/* SPDX-License-Identifier: BSD-2-Clause */
/* Places of threads that read directly; reader_slot.h has the protocol. */
#include "reader_slot.h"

#include <stdlib.h>

#include "atomic.h"

/* Threads begin their search at different places, so that each mostly has one of its own. */
static unsigned
first_place(void)
{
	static unsigned threads;
	static _Thread_local unsigned number;

	if (number == 0)
		number = 1 + add_relaxed(&threads, 1); /* any number does */
	return number;
}

static __attribute__((noinline)) bool
prepare(struct reader_slot *slot)
{
	if (!slot->stored)
		slot->stored = malloc(ZC_PAGE_SIZE_MAX);
	if (slot->stored && !slot->stream && codec_stream_create(0, &slot->stream) < 0)
		slot->stream = NULL;
	return slot->stream;
}

static struct reader_slot *
take(struct reader_slots *slots, struct attachment *attachment)
{
	unsigned first = first_place();

	for (unsigned i = 0; i < READER_SLOTS; i++) {
		struct reader_slot *slot = &slots->slot[(first + i) % READER_SLOTS];
		struct attachment *nobody = NULL;

		/* Also an acquire: pairs with the release in reader_slot_leave(). */
		if (__atomic_compare_exchange_n(&slot->inside, &nobody, attachment, false,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			return slot;
	}
	return NULL;
}

struct reader_slot *
reader_slot_enter(struct reader_slots *slots, struct attachment **current)
{
	/* Relaxed: it is looked at again. */
	struct attachment *attachment = load_relaxed(current);
	struct reader_slot *slot = attachment ? take(slots, attachment) : NULL;

	if (!slot)
		return NULL;
	/* Also an acquire: pairs with the exchange in attachment_replace(), for what it points at. */
	if (__atomic_load_n(current, __ATOMIC_SEQ_CST) == attachment &&
	    (slot->stream || prepare(slot)))
		return slot;
	reader_slot_leave(slot);
	return NULL;
}

void
reader_slot_leave(struct reader_slot *slot)
{
	/* Release: what was read was read before; pairs with the acquires of take() and
	 * reader_slots_inside(). */
	store_release(&slot->inside, NULL);
}

bool
reader_slots_inside(struct reader_slots *slots, const struct attachment *attachment)
{
	for (unsigned i = 0; i < READER_SLOTS; i++)
		if (__atomic_load_n(&slots->slot[i].inside, __ATOMIC_SEQ_CST) == attachment)
			return true;
	return false;
}

void
reader_slots_destroy(struct reader_slots *slots)
{
	for (unsigned i = 0; i < READER_SLOTS; i++) {
		codec_stream_destroy(&slots->slot[i].stream);
		free(slots->slot[i].stored);
	}
}
