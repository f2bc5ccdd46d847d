/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Encoding and decoding of values, see value.h. A value of a whole page, the normal case, has no prefix and
 * no flags; layout.h says how shorter ones are stored.
 */
#include "value.h"

#include <errno.h>
#include <string.h>

#define PREFIX 4u /* the little-endian length in front of a short value */

static void
prefix_write(unsigned char *bytes, uint32_t length)
{
	for (unsigned i = 0; i < PREFIX; i++)
		bytes[i] = (unsigned char)(length >> 8 * i);
}

static uint32_t
prefix_read(const unsigned char *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* A short value that did not compress: with its prefix while there is room for one. */
static void
encode_short_raw(const struct size_class_table *table, const void *value, uint32_t length,
		 unsigned char *scratch, struct stored_value *out)
{
	uint32_t prefix = length + PREFIX <= table->page_size ? PREFIX : 0;

	out->codec = ZC_CODEC_RAW;
	out->flags =
		prefix ? ZC_LOCATION_SHORT : (table->page_size - length) << ZC_LOCATION_LACKS_SHIFT;
	out->length =
		prefix && length + PREFIX <= table->stored_max ? length + PREFIX : table->page_size;
	if (prefix)
		prefix_write(scratch, length);
	memcpy(scratch + prefix, value, length);
	memset(scratch + prefix + length, 0, out->length - prefix - length);
}

static int
encode_short(struct codec_stream *stream, const struct codec_config *config,
	     const struct size_class_table *table, const void *value, uint32_t length,
	     unsigned char *scratch, struct stored_value *out)
{
	uint32_t room = table->stored_max - PREFIX;
	int32_t stored;

	if (room >= length)
		room = length - 1;
	stored = room ? codec_compress(stream, config, value, length, scratch + PREFIX, room) : 0;
	if (stored < 0)
		return stored;
	out->bytes = scratch;
	if (stored == 0) {
		encode_short_raw(table, value, length, scratch, out);
		return 0;
	}
	prefix_write(scratch, length);
	out->length = (uint32_t)stored + PREFIX;
	out->codec = config->codec;
	out->flags = ZC_LOCATION_SHORT;
	return 0;
}

int
value_encode(struct codec_stream *stream, const struct codec_config *config,
	     const struct size_class_table *table, const void *value, uint32_t length,
	     void *scratch, struct stored_value *out)
{
	int32_t stored;

	if (length < table->page_size)
		return encode_short(stream, config, table, value, length, scratch, out);
	stored = codec_compress(stream, config, value, length, scratch, table->stored_max);
	if (stored < 0)
		return stored;
	if (stored == 0)
		*out = (struct stored_value){value, length, ZC_CODEC_RAW, 0};
	else
		*out = (struct stored_value){scratch, (uint32_t)stored, config->codec, 0};
	return 0;
}

int
value_length(uint64_t location, const void *stored, uint32_t page_size)
{
	uint32_t length = location_length(location), value;
	unsigned flags = location_flags(location);
	unsigned lacks = flags >> ZC_LOCATION_LACKS_SHIFT & ZC_LOCATION_LACKS_MASK;
	bool raw = location_codec(location) == ZC_CODEC_RAW;

	if (flags & ZC_LOCATION_SHORT) {
		if (length <= PREFIX || lacks)
			return -EBADMSG;
		value = prefix_read(stored);
		if (value == 0 || value >= page_size || (raw && value > length - PREFIX))
			return -EBADMSG;
		return (int)value;
	}
	if (raw && length != page_size)
		return -EBADMSG;
	if (lacks && !raw)
		return -EBADMSG;
	return (int)(page_size - lacks);
}

int
value_decode(struct codec_stream *stream, uint64_t location, const void *stored, uint32_t page_size,
	     void *buffer, uint32_t size)
{
	uint32_t prefix = location_flags(location) & ZC_LOCATION_SHORT ? PREFIX : 0;
	const unsigned char *bytes = stored;
	int length = value_length(location, stored, page_size);

	if (length < 0)
		return length;
	if ((uint32_t)length > size)
		return -EMSGSIZE;
	if (location_codec(location) == ZC_CODEC_RAW)
		memcpy(buffer, bytes + prefix, (size_t)length);
	else if (codec_decompress(stream, location_codec(location), bytes + prefix,
				  location_length(location) - prefix, buffer,
				  (uint32_t)length) != length)
		return -EBADMSG;
	return length;
}
