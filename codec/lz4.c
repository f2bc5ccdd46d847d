/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * LZ4 blocks. The context is the compressor's hash table, nothing else: decoding needs none.
 *
 * LZ4 clears the whole table (16 KiB) before each block. Its variant with a fast reset is no way
 * out: it clears the table all the same for inputs of 4 KiB and more, and the shared library does
 * not export it.
 */
#include <errno.h>
#include <lz4.h>

#include "codec_ops.h"

static size_t
lz4_context_size(uint32_t value_max)
{
	return value_max ? (size_t)LZ4_sizeofState() : 0;
}

static int
lz4_context_init(void *context, uint32_t value_max)
{
	(void)context;
	(void)value_max;
	return 0;
}

static int32_t
lz4_compress(void *context, int level, const void *value, uint32_t length, void *stored,
	     uint32_t room)
{
	int acceleration = level ? level : 1;

	return LZ4_compress_fast_extState(context, value, stored, (int)length, (int)room,
					  acceleration);
}

static int32_t
lz4_decompress(void *context, const void *stored, uint32_t length, void *value, uint32_t room)
{
	int32_t got = LZ4_decompress_safe(stored, value, (int)length, (int)room);

	(void)context;
	return got >= 0 ? got : -EBADMSG;
}

const struct codec_ops codec_lz4 = {
	.name = "lz4",
	.level_min = 0,
	.level_max = 65537,
	.context_size = lz4_context_size,
	.context_init = lz4_context_init,
	.compress = lz4_compress,
	.decompress = lz4_decompress,
};
