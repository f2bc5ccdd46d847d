/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a value to stored bytes and back: which codec, which flags, and what is stored raw.
 *
 * The engine encodes; the engine and every reader decode. No locks, no state but the caller's stream.
 */
#ifndef ZCACHED_SHM_VALUE_H
#define ZCACHED_SHM_VALUE_H

#include <stdint.h>

#include "codec.h"
#include "layout.h"
#include "size_class.h"

struct stored_value {
	const void *bytes; /* in the caller's scratch memory, or the value itself */
	uint32_t length;   /* 1 .. table.stored_max, or the page size (raw class) */
	enum zc_codec codec;
	unsigned flags; /* ZC_LOCATION_... */
};

/*
 * Encodes `length` bytes (1 .. page size) of `value`, private memory. `scratch` has room for a page.
 * Returns 0 or what the codec said, negative.
 */
int value_encode(struct codec_stream *stream, const struct codec_config *config,
		 const struct size_class_table *table, const void *value, uint32_t length,
		 void *scratch, struct stored_value *out);

/*
 * Length of the value that a location and its stored bytes stand for: 1 .. page_size, or -EBADMSG where they
 * contradict each other. `stored` is read only as far as the location's length.
 */
int value_length(uint64_t location, const void *stored, uint32_t page_size);

/*
 * Decodes the stored bytes of a location (untrusted, but private: copied before) into `buffer`. Returns the
 * value's length, -EBADMSG, or -EMSGSIZE when it is longer than `size` (nothing is written then).
 */
int value_decode(struct codec_stream *stream, uint64_t location, const void *stored,
		 uint32_t page_size, void *buffer, uint32_t size);

#endif
