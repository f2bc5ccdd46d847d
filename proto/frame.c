/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Framing and the arena protobuf-c unpacks into; frame.h has the contract.
 *
 * Called by the service's workers and control thread and by the library. No state and no locks; an
 * arena belongs to one thread at a time. Leaves reading and writing of sockets to the callers.
 */
#include "frame.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
frame_parse(const void *input, size_t have, uint32_t max, uint32_t *length)
{
	uint32_t header;

	*length = 0;
	if (have < ZC_FRAME_HEADER)
		return 0;
	memcpy(&header, input, sizeof(header));
	header = le32toh(header);
	if (header == 0 || header > max)
		return -EMSGSIZE;
	*length = header;
	/* Subtract, never add: have is at least the header, header + 4 could wrap. */
	return have - ZC_FRAME_HEADER >= header;
}

int64_t
frame_pack(const ProtobufCMessage *message, void *output, size_t room, uint32_t max)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	uint32_t header;

	/* A message of nothing but defaults has no bytes, and a frame has at least one. */
	if (length == 0 || length > max)
		return -EMSGSIZE;
	if (room < ZC_FRAME_HEADER || room - ZC_FRAME_HEADER < length)
		return -EMSGSIZE;
	header = htole32((uint32_t)length);
	memcpy(output, &header, sizeof(header));
	protobuf_c_message_pack(message, (uint8_t *)output + ZC_FRAME_HEADER);
	return (int64_t)(ZC_FRAME_HEADER + length);
}

/* Alignment of any struct that protobuf-c generates. */
#define ARENA_ALIGN _Alignof(max_align_t)

static void *
arena_alloc(void *data, size_t size)
{
	struct frame_arena *arena = data;
	size_t room = arena->size - arena->used;
	size_t padded;
	void *memory;

	if (size > room)
		return NULL;
	padded = (size + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
	memory = arena->block + arena->used;
	arena->used += padded < room ? padded : room;
	return memory;
}

static void
arena_free(void *data, void *memory)
{
	/* Everything goes at once, in frame_arena_reset. */
	(void)data;
	(void)memory;
}

int
frame_arena_init(struct frame_arena *arena, size_t size)
{
	arena->block = malloc(size);
	if (!arena->block)
		return -ENOMEM;
	arena->size = size;
	arena->used = 0;
	arena->allocator.alloc = arena_alloc;
	arena->allocator.free = arena_free;
	arena->allocator.allocator_data = arena;
	return 0;
}

void
frame_arena_reset(struct frame_arena *arena)
{
	arena->used = 0;
}

void
frame_arena_destroy(struct frame_arena *arena)
{
	free(arena->block);
	memset(arena, 0, sizeof(*arena));
}
