/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Framing of the socket: a little-endian 32-bit length, then that many bytes of one protobuf
 * message.
 *
 * Used by both ends. The length counts the message only and is 1 .. ZC_FRAME_MAX; anything else
 * ends the connection, since the reader can no longer know where the next frame begins. Knows
 * nothing of sockets: it works on bytes. Thread safe (no state).
 */
#ifndef ZCACHED_PROTO_FRAME_H
#define ZCACHED_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define ZC_PROTOCOL_VERSION 1u
#define ZC_FRAME_HEADER	    4u
/* A value of 64 KiB and room for everything around it. */
#define ZC_FRAME_MAX (65536u + 4096u)
/* Replies can be longer: statistics of many pools. */
#define ZC_REPLY_MAX (1u << 20)

/*
 * Looks at `have` bytes of input. Returns 1 when they begin with a whole frame (*length is set), 0
 * when more bytes are needed (*length is set if the header is there, else 0), -EMSGSIZE when the
 * length is 0 or above `max`.
 */
int frame_parse(const void *input, size_t have, uint32_t max, uint32_t *length);

/*
 * Packs a message behind its frame header. Returns the number of bytes, or -EMSGSIZE when `room` is
 * too small or the message longer than `max`.
 */
int64_t frame_pack(const ProtobufCMessage *message, void *output, size_t room, uint32_t max);

/*
 * An arena for protobuf_c_message_unpack: hands out memory from one block and frees nothing until
 * frame_arena_reset. A message that needs more than the block fails to unpack (that is the bound on
 * what a peer can make us allocate: many tiny fields cost more than their bytes).
 */
struct frame_arena {
	ProtobufCAllocator allocator; /* hand this to protobuf-c */
	char *block;
	size_t size;
	size_t used;
};
/* ZC_FRAME_MAX of bytes, copied into fields, and the structs around them. */
#define ZC_ARENA_SIZE (2u * ZC_FRAME_MAX)
int frame_arena_init(struct frame_arena *arena, size_t size); /* 0 or -ENOMEM */
void frame_arena_reset(struct frame_arena *arena);
void frame_arena_destroy(struct frame_arena *arena);

#endif
