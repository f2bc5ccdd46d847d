/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Codecs: one small table from codec number to compress and decompress, and the streams (contexts
 * and scratch memory) a thread needs for them.
 *
 * A stream belongs to one thread at a time; nothing here locks. After codec_stream_create no call
 * allocates. Knows nothing of pools, sockets or who asks.
 */
#ifndef ZCACHED_CODEC_H
#define ZCACHED_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

struct codec_config {
	enum zc_codec codec; /* ZC_CODEC_LZ4 or ZC_CODEC_ZSTD */
	int level; /* zstd: -7 .. 19, 0 means 1. lz4: acceleration 1 .. 65537, 0 means 1 */
};

/*
 * Reads "lz4", "lz4:ACCELERATION", "zstd", "zstd:LEVEL", without a level: 0. Returns 0 or -EINVAL
 * and leaves *config alone. codec_config_format writes the same form.
 */
int codec_config_parse(const char *text, struct codec_config *config);
void codec_config_format(const struct codec_config *config, char text[16]);

/* Name for people: "raw", "lz4", "zstd", "poison", else "unknown". */
const char *codec_name(enum zc_codec codec);

struct codec_stream;

/*
 * Contexts for every codec, able to compress values of up to `value_max` bytes with any config;
 * with `value_max` 0 the stream only decompresses and takes far less memory. Returns 0, -ENOMEM or
 * -EINVAL (more than ZC_PAGE_SIZE_MAX). All memory is touched here.
 */
int codec_stream_create(uint32_t value_max, struct codec_stream **out);
void codec_stream_destroy(struct codec_stream **stream);

/*
 * Compresses `length` bytes of `value` to `stored`, which has room for `room` bytes. Returns the
 * number of bytes (1 .. room), or 0 when it does not fit (store it raw), or -EINVAL (a config out
 * of range, length 0 or above value_max), or -EIO (the library failed for another reason).
 * `value` must be private memory: a compressor must not see bytes change under it.
 */
int32_t codec_compress(struct codec_stream *stream, const struct codec_config *config,
		       const void *value, uint32_t length, void *stored, uint32_t room);

/*
 * Decodes `length` bytes of `stored` (untrusted: any bytes are safe) to `value`, which has room for
 * `room` bytes. Returns the length of the value (1 .. room) or -EBADMSG; never writes past `room`,
 * but may have written anything up to there when it fails. Nobody may change `stored` meanwhile.
 */
int32_t codec_decompress(struct codec_stream *stream, enum zc_codec codec, const void *stored,
			 uint32_t length, void *value, uint32_t room);

/*
 * If `page` is one 8-byte word repeated, stores it in *word. False for a length that is not a
 * multiple of 8, or 0. same_fill repeats `word`, its last copy cut at `length`.
 */
bool same_filled(const void *page, uint32_t length, uint64_t *word);
void same_fill(void *page, uint32_t length, uint64_t word);

#endif
