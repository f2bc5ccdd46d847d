/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers of a worker; buffer.h has the contract. */
#include "buffer.h"

#include <stdlib.h>

/* Values of 0, 4, 8, 16, 32 and 64 KiB, or whole frames, and the structs in front of them. */
static const uint32_t bin_size[BUFFER_BINS] = {512, 4864, 9216, 17408, 33792, 73728};

static uint32_t
bin_of(uint32_t size)
{
	uint32_t bin = 0;

	while (bin < BUFFER_BINS && size > bin_size[bin])
		bin++;
	return bin;
}

static struct buffer *__attribute__((noinline)) buffer_allocate(uint32_t size, uint32_t bin)
{
	struct buffer *buffer = malloc(sizeof(*buffer) + size);

	if (buffer)
		*buffer = (struct buffer){.size = size, .bin = bin};
	return buffer;
}

struct buffer *
buffer_take(struct buffer_cache *cache, uint32_t size)
{
	uint32_t bin = bin_of(size);
	struct buffer *buffer;

	if (bin == BUFFER_BINS)
		return buffer_allocate(size, bin);
	buffer = cache->free[bin];
	if (!buffer)
		return buffer_allocate(bin_size[bin], bin);
	cache->free[bin] = buffer->next;
	cache->bytes -= buffer->size;
	buffer->used = 0;
	buffer->begin = 0;
	return buffer;
}

void
buffer_give(struct buffer_cache *cache, struct buffer **pointer)
{
	struct buffer *buffer = *pointer;

	*pointer = NULL;
	if (!buffer)
		return;
	if (buffer->bin == BUFFER_BINS || cache->bytes + buffer->size > BUFFER_CACHE_MAX) {
		free(buffer);
		return;
	}
	cache->bytes += buffer->size;
	buffer->next = cache->free[buffer->bin];
	cache->free[buffer->bin] = buffer;
}

void
buffer_cache_destroy(struct buffer_cache *cache)
{
	for (unsigned bin = 0; bin < BUFFER_BINS; bin++) {
		while (cache->free[bin]) {
			struct buffer *next = cache->free[bin]->next;

			free(cache->free[bin]);
			cache->free[bin] = next;
		}
	}
	cache->bytes = 0;
}
