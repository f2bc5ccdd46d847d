/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes what either end does with bytes from its peer: cut them into frames, unpack each as a
 * request and as a response.
 *
 * Run by libFuzzer (or by a driver that feeds files); one thread. Links proto_dep. What the service
 * then does with a request is left to the tests of the live service.
 */
#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "zcache.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check(int good)
{
	if (!good)
		abort();
}

/* What was unpacked can be packed, and says the same each time. */
static void
check_repack(const ProtobufCMessage *message)
{
	size_t length = protobuf_c_message_get_packed_size(message);
	size_t room = ZC_FRAME_HEADER + length;
	uint8_t *first = malloc(room), *second = malloc(room);
	ProtobufCMessage *again = NULL;
	uint32_t parsed;

	check(first && second);
	if (length > 0) {
		check(frame_pack(message, first, room, UINT32_MAX) == (int64_t)room);
		check(frame_parse(first, room, UINT32_MAX, &parsed) == 1 && parsed == length);
		again = protobuf_c_message_unpack(message->descriptor, NULL, length,
						  first + ZC_FRAME_HEADER);
	}
	/* NULL for an unknown field of number 0: protobuf-c reads it in two bytes, not in one. */
	if (again) {
		check(frame_pack(again, second, room, UINT32_MAX) == (int64_t)room);
		check(memcmp(first, second, room) == 0);
		protobuf_c_message_free_unpacked(again, NULL);
	}
	free(first);
	free(second);
}

/*
 * Once in an arena, once on the heap, where AddressSanitizer sees every single allocation. The
 * arena may refuse what the heap takes, never the other way round.
 */
static void
unpack(struct frame_arena *arena, const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
       size_t length)
{
	ProtobufCMessage *bounded, *heap;

	frame_arena_reset(arena);
	bounded = protobuf_c_message_unpack(type, &arena->allocator, length, bytes);
	check(arena->used <= arena->size);
	heap = protobuf_c_message_unpack(type, NULL, length, bytes);
	check(heap || !bounded);
	if (heap)
		check_repack(heap);
	if (heap)
		protobuf_c_message_free_unpacked(heap, NULL);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_arena arena;
	uint32_t length;

	check(frame_arena_init(&arena, ZC_ARENA_SIZE) == 0);
	/* The input as one message, without luck in four bytes of header. */
	unpack(&arena, &zcache__v1__request__descriptor, data, size);
	unpack(&arena, &zcache__v1__response__descriptor, data, size);
	while (frame_parse(data, size, ZC_FRAME_MAX, &length) == 1) {
		data += ZC_FRAME_HEADER;
		unpack(&arena, &zcache__v1__request__descriptor, data, length);
		data += length;
		size -= ZC_FRAME_HEADER + length;
	}
	frame_arena_destroy(&arena);
	return 0;
}
