/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Buffers of a worker: memory for requests in flight, and for input and output that could not be
 * dealt with at once.
 *
 * They come in a few sizes and go back to a list for reuse, so that in steady state the data path
 * allocates nothing; what is kept for reuse is bounded by BUFFER_CACHE_MAX bytes a worker. How much
 * can be in use is bounded by the callers, per connection (connection.h).
 *
 * A cache belongs to one worker and is not locked.
 */
#ifndef ZCACHED_DAEMON_BUFFER_H
#define ZCACHED_DAEMON_BUFFER_H

#include <stdalign.h>
#include <stdint.h>

#define BUFFER_BINS	 6u
#define BUFFER_CACHE_MAX (1u << 20)

struct buffer {
	struct buffer *next; /* in the cache */
	uint32_t size;	     /* bytes of data that there is room for */
	uint32_t used;	     /* for the user */
	uint32_t begin;	     /* for the user */
	uint32_t bin;	     /* BUFFER_BINS: larger than any, never cached */
	alignas(16) char data[];
};

struct buffer_cache {
	struct buffer *free[BUFFER_BINS];
	uint64_t bytes; /* in the lists */
};

/* A buffer with room for at least `size` bytes, used and begin 0; NULL when there is no memory. */
struct buffer *buffer_take(struct buffer_cache *cache, uint32_t size);

/* Gives it back; *buffer becomes NULL. NULL is accepted. */
void buffer_give(struct buffer_cache *cache, struct buffer **buffer);

void buffer_cache_destroy(struct buffer_cache *cache);

#endif
