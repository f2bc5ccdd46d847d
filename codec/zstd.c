/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zstd frames without magic number, content size, checksum and dictionary id: the object header
 * and the pool's page size say all that, and 6 to 14 bytes a page are worth having.
 *
 *	 header   window      block header, little endian        block
 *	+------+------------+------------+---------+--------+------------
 *	|  0   | descriptor | size << 3  | type<<1 |  last  | bytes  ...  one or more blocks
 *	+------+------------+------------+---------+--------+------------
 *	 8 bits   8 bits       21 bits      2 bits    1 bit
 *
 * Both contexts are static ones, in memory that the stream allocated for the largest level and
 * value it will see. A static context never allocates: where it would have to, it returns an error.
 * The window size in a frame is not limited, since decoding in one call straight to the value needs
 * no window; every copy is checked against the value's bounds.
 */
#define ZSTD_STATIC_LINKING_ONLY
#include <errno.h>
#include <stdbool.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "codec_ops.h"

#define LEVEL_MIN (-7)
#define LEVEL_MAX 19

/* zstd has one table of parameters for inputs up to this size and another one above. */
#define SMALL_INPUT 16384u

#define FRAME_HEADER_SIZE 2u
#define BLOCK_HEADER_SIZE 3u
#define BLOCK_REPEATS	  1u /* the type of a block that is one byte, to be repeated */

struct zstd_context {
	ZSTD_CCtx *compressor;
	ZSTD_DCtx *decompressor;
	int level; /* the one the compressor is set to */
};

static size_t
max_size(size_t a, size_t b)
{
	return a > b ? a : b;
}

/*
 * Before 1.5 one-shot compression took the buffers of the streaming one, so the estimate is for
 * streaming; with parameters for so short an input the difference is small.
 */
static size_t
compressor_size_at(int level, uint32_t length)
{
	return ZSTD_estimateCStreamSize_usingCParams(ZSTD_getCParams(level, length, 0));
}

/* Room for every level; a short value can need more than a long one (see SMALL_INPUT). */
static size_t
compressor_size(uint32_t value_max)
{
	uint32_t small = value_max < SMALL_INPUT ? value_max : SMALL_INPUT;
	size_t size = 0;

	if (value_max == 0)
		return 0;
	for (int level = LEVEL_MIN; level <= LEVEL_MAX; level++) {
		size = max_size(size, compressor_size_at(level, small));
		size = max_size(size, compressor_size_at(level, value_max));
	}
	return codec_align(size);
}

static size_t
zstd_context_size(uint32_t value_max)
{
	return codec_align(sizeof(struct zstd_context)) + codec_align(ZSTD_estimateDCtxSize()) +
	       compressor_size(value_max);
}

static int
decompressor_init(struct zstd_context *zstd, void *memory, size_t size)
{
	zstd->decompressor = ZSTD_initStaticDCtx(memory, size);
	if (!zstd->decompressor)
		return -ENOMEM;
	return ZSTD_isError(ZSTD_DCtx_setParameter(zstd->decompressor, ZSTD_d_format,
						   ZSTD_f_zstd1_magicless))
		       ? -EINVAL
		       : 0;
}

static int
set_level(struct zstd_context *zstd, int level)
{
	if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd->compressor, ZSTD_c_compressionLevel, level)))
		return -EINVAL;
	zstd->level = level;
	return 0;
}

static int
compressor_init(struct zstd_context *zstd, void *memory, size_t size)
{
	static const struct {
		ZSTD_cParameter parameter;
		int value;
	} frame[] = {
		{ZSTD_c_format, ZSTD_f_zstd1_magicless},
		{ZSTD_c_contentSizeFlag, 0},
		{ZSTD_c_checksumFlag, 0},
		{ZSTD_c_dictIDFlag, 0},
	};

	zstd->compressor = ZSTD_initStaticCCtx(memory, size);
	if (!zstd->compressor)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(frame) / sizeof(frame[0]); i++)
		if (ZSTD_isError(ZSTD_CCtx_setParameter(zstd->compressor, frame[i].parameter,
							frame[i].value)))
			return -EINVAL;
	return set_level(zstd, 1);
}

static int
zstd_context_init(void *context, uint32_t value_max)
{
	struct zstd_context *zstd = context;
	char *memory = (char *)context + codec_align(sizeof(*zstd));
	size_t size = codec_align(ZSTD_estimateDCtxSize());
	int error = decompressor_init(zstd, memory, size);

	zstd->compressor = NULL;
	if (error || value_max == 0)
		return error;
	return compressor_init(zstd, memory + size, compressor_size(value_max));
}

/* ZSTD_compress2 tells the compressor the length first, so the parameters fit a value so short. */
static int32_t
zstd_compress(void *context, int level, const void *value, uint32_t length, void *stored,
	      uint32_t room)
{
	struct zstd_context *zstd = context;
	size_t got;

	if (level == 0)
		level = 1;
	if (level != zstd->level && set_level(zstd, level) < 0)
		return -EINVAL;
	got = ZSTD_compress2(zstd->compressor, stored, room, value, length);
	if (!ZSTD_isError(got))
		return (int32_t)got;
	return ZSTD_getErrorCode(got) == ZSTD_error_dstSize_tooSmall ? 0 : -EIO;
}

/*
 * Whether `stored` is one frame of the form drawn above, whose last block ends where `stored` ends.
 * The library would take more than that (frames one behind the other, skippable and legacy ones),
 * and version 1.5.4, for one, looks for a magic number in four bytes even where fewer are left.
 */
static bool
frame_is_whole(const unsigned char *stored, uint32_t length)
{
	uint32_t at = FRAME_HEADER_SIZE;

	if (length < FRAME_HEADER_SIZE || stored[0] != 0)
		return false;
	while (length - at >= BLOCK_HEADER_SIZE) {
		uint32_t block =
			stored[at] | (uint32_t)stored[at + 1] << 8 | (uint32_t)stored[at + 2] << 16;
		uint32_t size = (block >> 1 & 3) == BLOCK_REPEATS ? 1 : block >> 3;

		at += BLOCK_HEADER_SIZE;
		if (size > length - at)
			return false;
		at += size;
		if (block & 1)
			return at == length;
	}
	return false;
}

static int32_t
zstd_decompress(void *context, const void *stored, uint32_t length, void *value, uint32_t room)
{
	struct zstd_context *zstd = context;
	size_t got;

	if (!frame_is_whole(stored, length))
		return -EBADMSG;
	got = ZSTD_decompressDCtx(zstd->decompressor, value, room, stored, length);
	return ZSTD_isError(got) ? -EBADMSG : (int32_t)got;
}

const struct codec_ops codec_zstd = {
	.name = "zstd",
	.level_min = LEVEL_MIN,
	.level_max = LEVEL_MAX,
	.context_size = zstd_context_size,
	.context_init = zstd_context_init,
	.compress = zstd_compress,
	.decompress = zstd_decompress,
};
