/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What one codec is made of. Private to this folder: codec.c keeps the table of these and splits a
 * stream's memory among them, lz4.c and zstd.c define one each.
 *
 * A context is `context_size` bytes of the stream's memory, aligned to CODEC_CONTEXT_ALIGN and
 * already touched. The caller has checked config, lengths (1 .. value_max, 1 .. INT32_MAX) and
 * rooms (1 .. INT32_MAX); the bytes to decode are unchecked.
 */
#ifndef ZCACHED_CODEC_OPS_H
#define ZCACHED_CODEC_OPS_H

#include <stddef.h>
#include <stdint.h>

#define CODEC_CONTEXT_ALIGN 64u

struct codec_ops {
	const char *name;
	int level_min;
	int level_max;

	/* Bytes that init, compress and decompress need; value_max 0: decompress alone. */
	size_t (*context_size)(uint32_t value_max);
	int (*context_init)(void *context, uint32_t value_max);

	/* Bytes stored, 0 when they do not fit in `room`, or a negative errno. Level 0 means 1. */
	int32_t (*compress)(void *context, int level, const void *value, uint32_t length,
			    void *stored, uint32_t room);

	/* Length of the value (0 is possible: the caller refuses it) or -EBADMSG. */
	int32_t (*decompress)(void *context, const void *stored, uint32_t length, void *value,
			      uint32_t room);
};

extern const struct codec_ops codec_lz4;
extern const struct codec_ops codec_zstd;

static inline size_t
codec_align(size_t size)
{
	return (size + CODEC_CONTEXT_ALIGN - 1) & ~(size_t)(CODEC_CONTEXT_ALIGN - 1);
}

#endif
