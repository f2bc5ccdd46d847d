/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzzes every decoder with bytes nobody vouches for, and every compressor with any value.
 *
 *	byte 0		bits 0-3 the codec, bit 7: compress and decode again instead of decode
 *	byte 1, 2	room - 1 (little endian)
 *	byte 3		the level, when compressing
 *	the rest	stored bytes or value
 *
 * Run by libFuzzer, one thread. All buffers end at an inaccessible page: the compression libraries
 * themselves are not instrumented. One stream serves all inputs, as in the service, so what one
 * input breaks in it another one finds.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/guarded.h"
#include "codec.h"

#define HEADER	  4u
#define VALUE_MAX ZC_PAGE_SIZE_MAX

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct codec_stream *stream;
static struct guarded input_memory, stored_memory, result_memory;

static void
check(int good)
{
	if (!good)
		abort();
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	input_memory = guarded_create(VALUE_MAX);
	stored_memory = guarded_create(VALUE_MAX);
	result_memory = guarded_create(VALUE_MAX);
	check(codec_stream_create(VALUE_MAX, &stream) == 0);
	return 0;
}

static void
decode(enum zc_codec codec, const unsigned char *stored, uint32_t length, uint32_t room)
{
	unsigned char *value = guarded_tail(&result_memory, room);
	int32_t got = codec_decompress(stream, codec, stored, length, value, room);

	check(got == -EBADMSG || (got > 0 && (uint32_t)got <= room));
}

/* A stored value shorter than its room is decoded from a copy that ends at a guard, too. */
static void
round_trip(const struct codec_config *config, const unsigned char *value, uint32_t length,
	   uint32_t room)
{
	unsigned char *result = guarded_tail(&result_memory, length);
	unsigned char *stored = guarded_tail(&stored_memory, room);
	int32_t got = codec_compress(stream, config, value, length, stored, room);

	check(got >= 0 && (uint32_t)got <= room);
	if (got == 0)
		return;
	stored = memmove(guarded_tail(&stored_memory, (size_t)got), stored, (size_t)got);
	check(codec_decompress(stream, config->codec, stored, (uint32_t)got, result, length) ==
	      (int32_t)length);
	check(memcmp(result, value, length) == 0);
}

/* Every level there is: -7 .. 19 of zstd, small accelerations of lz4. */
static struct codec_config
choose_config(uint8_t codec, uint8_t level)
{
	if (codec & 1)
		return (struct codec_config){.codec = ZC_CODEC_LZ4, .level = level};
	return (struct codec_config){.codec = ZC_CODEC_ZSTD, .level = level % 27 - 7};
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct codec_config config;
	unsigned char *input;
	uint32_t length, room;

	if (size <= HEADER || size - HEADER > VALUE_MAX)
		return 0;
	length = (uint32_t)size - HEADER;
	room = 1 + (data[1] | (uint32_t)data[2] << 8);
	input = memcpy(guarded_tail(&input_memory, length), data + HEADER, length);
	config = choose_config(data[0], data[3]);
	if (data[0] & 0x80)
		round_trip(&config, input, length, room);
	else
		decode((enum zc_codec)(data[0] & 0xf), input, length, room);
	return 0;
}
