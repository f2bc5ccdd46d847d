/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of codecs, the text form of a configuration, and streams. All checks of arguments that
 * the codecs have in common are here; lz4.c and zstd.c only call their library.
 *
 * A stream is one block of memory: its struct, then each codec's context.
 */
#include "codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codec_ops.h"

#define CODECS 3

static const struct codec_ops *const codec_table[CODECS] = {
	[ZC_CODEC_LZ4] = &codec_lz4,
	[ZC_CODEC_ZSTD] = &codec_zstd,
};

struct codec_stream {
	uint32_t value_max;
	void *context[CODECS];
};

/* NULL where nothing compresses: raw, poison, numbers nobody gave a meaning yet. */
static const struct codec_ops *
codec_find(enum zc_codec codec)
{
	return (unsigned)codec < CODECS ? codec_table[codec] : NULL;
}

const char *
codec_name(enum zc_codec codec)
{
	const struct codec_ops *ops = codec_find(codec);

	if (ops)
		return ops->name;
	if (codec == ZC_CODEC_RAW)
		return "raw";
	return codec == ZC_CODEC_POISON ? "poison" : "unknown";
}

static bool
level_valid(const struct codec_ops *ops, int level)
{
	return level >= ops->level_min && level <= ops->level_max;
}

/* The part behind the colon: decimal digits, perhaps a minus, and not a character more. */
static int
level_parse(const char *text, const struct codec_ops *ops, int *level)
{
	const char *digits = text[0] == '-' ? text + 1 : text;
	char *end;
	long value;

	if (digits[0] < '0' || digits[0] > '9')
		return -EINVAL;
	value = strtol(text, &end, 10); /* too large a number is LONG_MAX, out of range as well */
	if (*end != '\0' || value < ops->level_min || value > ops->level_max)
		return -EINVAL;
	*level = (int)value;
	return 0;
}

static int
config_parse_as(const char *text, enum zc_codec codec, struct codec_config *config)
{
	const struct codec_ops *ops = codec_find(codec);
	size_t length = ops ? strlen(ops->name) : 0;
	int level = 0;

	if (!ops || strncmp(text, ops->name, length) != 0)
		return -EINVAL;
	if (text[length] == ':') {
		if (level_parse(text + length + 1, ops, &level) < 0)
			return -EINVAL;
	} else if (text[length] != '\0') {
		return -EINVAL;
	}
	*config = (struct codec_config){.codec = codec, .level = level};
	return 0;
}

int
codec_config_parse(const char *text, struct codec_config *config)
{
	for (unsigned codec = 0; codec < CODECS; codec++)
		if (config_parse_as(text, (enum zc_codec)codec, config) == 0)
			return 0;
	return -EINVAL;
}

void
codec_config_format(const struct codec_config *config, char text[16])
{
	if (config->level == 0)
		snprintf(text, 16, "%s", codec_name(config->codec));
	else
		snprintf(text, 16, "%s:%d", codec_name(config->codec), config->level);
}

static size_t
stream_size(uint32_t value_max)
{
	size_t size = codec_align(sizeof(struct codec_stream));

	for (unsigned codec = 0; codec < CODECS; codec++)
		if (codec_table[codec])
			size += codec_align(codec_table[codec]->context_size(value_max));
	return size;
}

static int
stream_init(struct codec_stream *stream, uint32_t value_max)
{
	char *at = (char *)stream + codec_align(sizeof(*stream));
	int error = 0;

	stream->value_max = value_max;
	for (unsigned codec = 0; codec < CODECS && !error; codec++) {
		if (!codec_table[codec])
			continue;
		stream->context[codec] = at;
		error = codec_table[codec]->context_init(at, value_max);
		at += codec_align(codec_table[codec]->context_size(value_max));
	}
	return error;
}

int
codec_stream_create(uint32_t value_max, struct codec_stream **out)
{
	struct codec_stream *stream;
	size_t size;
	int error;

	if (value_max > ZC_PAGE_SIZE_MAX)
		return -EINVAL;
	size = stream_size(value_max);
	stream = aligned_alloc(CODEC_CONTEXT_ALIGN, size);
	if (!stream)
		return -ENOMEM;
	memset(stream, 0, size); /* takes all page faults now */
	error = stream_init(stream, value_max);
	if (error)
		codec_stream_destroy(&stream);
	else
		*out = stream;
	return error;
}

void
codec_stream_destroy(struct codec_stream **stream)
{
	free(*stream);
	*stream = NULL;
}

int32_t
codec_compress(struct codec_stream *stream, const struct codec_config *config, const void *value,
	       uint32_t length, void *stored, uint32_t room)
{
	const struct codec_ops *ops = codec_find(config->codec);

	if (!ops || !level_valid(ops, config->level))
		return -EINVAL;
	if (length == 0 || length > stream->value_max)
		return -EINVAL;
	if (room == 0)
		return 0;
	if (room > INT32_MAX)
		room = INT32_MAX;
	return ops->compress(stream->context[config->codec], config->level, value, length, stored,
			     room);
}

static int32_t
raw_decompress(const void *stored, uint32_t length, void *value, uint32_t room)
{
	if (length > room)
		return -EBADMSG;
	memcpy(value, stored, length);
	return (int32_t)length;
}

int32_t
codec_decompress(struct codec_stream *stream, enum zc_codec codec, const void *stored,
		 uint32_t length, void *value, uint32_t room)
{
	const struct codec_ops *ops = codec_find(codec);
	int32_t got;

	if (room > INT32_MAX)
		room = INT32_MAX;
	if (length == 0 || length > INT32_MAX || room == 0)
		return -EBADMSG;
	if (codec == ZC_CODEC_RAW)
		return raw_decompress(stored, length, value, room);
	if (!ops)
		return -EBADMSG;
	got = ops->decompress(stream->context[codec], stored, length, value, room);
	return got > 0 ? got : -EBADMSG;
}
