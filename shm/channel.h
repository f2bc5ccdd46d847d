/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels: the rings and page slots that a client and the engine share.
 *
 * The engine makes the memfd, seals its size and hands it to the client; each side maps it. Functions named
 * channel_serve_* are the engine's (a ring belongs to one worker), channel_submit_* and channel_reap_* the
 * client's (its caller locks each ring). Nothing here makes a system call but create, map and wake.
 *
 * Neither side trusts the other: indices are private and only published, a request is copied once and then
 * checked by the engine, a completion by the client. An index of the other side that cannot be is -EPROTO, which
 * ends the channel. Memory of a channel may change at any moment, whatever was checked before.
 *
 * Waking. A worker that is about to sleep sets need_wakeup, then looks for requests once more; a client that
 * has submitted looks at need_wakeup after its tail. Both look after a full fence, so one of them sees the
 * other (as io_uring's SQPOLL does). A client that is about to wait sets wake_at in each ring, then looks for
 * completions once more; a worker looks at wake_at after its tail (as virtio's event index does).
 */
#ifndef ZCACHED_SHM_CHANNEL_H
#define ZCACHED_SHM_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "layout.h"

struct channel_geometry {
	uint32_t rings;	    /* 1 .. 256 */
	uint32_t entries;   /* 2 .. ZC_CHANNEL_ENTRIES_MAX, a power of two */
	uint32_t slots;	    /* 1 .. ZC_CHANNEL_SLOTS_MAX */
	uint32_t slot_size; /* ZC_PAGE_SIZE_MIN .. ZC_PAGE_SIZE_MAX, a power of two */
};

/* A mapped channel. The numbers are private copies. */
struct channel {
	struct channel_header *header;
	struct channel_geometry geometry;
	uint64_t size;
	uint64_t ring_stride;
	char *rings;
	char *slots;
};

/*
 * One ring, seen from one side. `submit` and `complete` are the own indices: of a worker the requests taken and the
 * completions made, of a client the requests made and the completions taken.
 */
struct channel_end {
	struct channel_ring *ring;
	struct channel_request *request;
	struct channel_completion *completion;
	uint32_t entries;
	uint32_t submit;
	uint32_t complete;
};

/* Bytes of a channel's memfd; 0 when the geometry is not allowed. */
uint64_t channel_size(const struct channel_geometry *geometry);

/*
 * Engine: makes a sealed memfd, takes all of its memory (the caller has paid for it), fills the header and maps
 * it. Returns 0 with the descriptor in *fd (the caller closes it; the mapping stays), -EINVAL, or a negative
 * errno of the system.
 */
int channel_create(const struct channel_geometry *geometry, struct channel *channel, int *fd);

/*
 * Client: maps a descriptor it was given. -EPROTO where header and size contradict each other or are of another
 * version, -EBADFD when the size is not sealed, or a negative errno of the system.
 */
int channel_map(int fd, struct channel *channel);

/* Unmaps; a channel that is not mapped is accepted. */
void channel_unmap(struct channel *channel);

/* The end of ring `number` (below geometry.rings), at its very beginning. */
struct channel_end channel_end(const struct channel *channel, uint32_t number);

/* Memory of a slot (below geometry.slots): slot_size bytes. */
static inline void *
channel_slot(const struct channel *channel, uint32_t slot)
{
	return channel->slots + (uint64_t)slot * channel->geometry.slot_size;
}

/* ---- the worker's side ---- */

/* Is there something to take, or an index that cannot be? A hint, without any order. */
bool channel_serve_waiting(const struct channel_end *end);

/* Copies the next request out. 1; 0 when there is none; -EPROTO. Publish with channel_serve_taken. */
int channel_serve_take(struct channel_end *end, struct channel_request *request);

/* Tells the client how many requests were taken: it may use their entries again. */
void channel_serve_taken(struct channel_end *end);

/* Adds a completion. 0, or -EPROTO when the client has more in flight than a ring holds. */
int channel_serve_complete(struct channel_end *end, uint64_t cookie, int32_t status);

/*
 * Publishes the completions added since `before` (end->complete then) and says whether the client asked to be
 * woken by one of them. Once for a batch: it costs a full fence.
 */
bool channel_serve_completed(struct channel_end *end, uint32_t before);

/* Wakes whoever waits in the client. A system call, which cannot block. */
void channel_serve_wake(struct channel *channel);

/*
 * Before sleeping: asks for the doorbell. True when there is nothing to take and the worker may sleep on this
 * ring; false when a request has come (the doorbell is not asked for then). -EPROTO shows at the next take.
 */
bool channel_serve_may_sleep(struct channel_end *end);
void channel_serve_awake(struct channel_end *end);

/* ---- the client's side ---- */

/* Requests that can still be added before some are taken. -EPROTO where the index cannot be. */
int channel_submit_room(const struct channel_end *end);

/* Adds a request. There is room. */
void channel_submit_add(struct channel_end *end, const struct channel_request *request);

/* Publishes the requests added. True when the worker sleeps and its doorbell must be rung. */
bool channel_submit_publish(struct channel_end *end);

/* Takes the next completion. 1, 0 when there is none, -EPROTO. */
int channel_reap(struct channel_end *end, struct channel_completion *completion);

/* Tells the engine how many completions were taken: it may use their entries again. */
void channel_reaped(struct channel_end *end);

/* Asks to be woken when `more` (1 ..) further completions of this ring are there. */
void channel_wake_after(struct channel_end *end, uint32_t more);

/* The futex word, to be read before the last look for completions. */
uint32_t channel_wakes(const struct channel *channel);

/*
 * Waits until channel_wakes() is no longer `seen`, or until `deadline` (CLOCK_MONOTONIC; NULL: for ever). 0, -ETIMEDOUT
 * or -EINTR; may return early.
 */
int channel_wait(const struct channel *channel, uint32_t seen, const struct timespec *deadline);

#endif
