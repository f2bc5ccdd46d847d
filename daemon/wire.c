/* SPDX-License-Identifier: BSD-2-Clause */
/* A request's bytes; wire.h has the contract. Bounds are checked, although the decoder did so. */
#include "wire.h"

#include <string.h>

struct wire {
	const uint8_t *at;
	const uint8_t *end;
};

static bool
wire_varint(struct wire *wire, uint64_t *value)
{
	*value = 0;
	for (unsigned shift = 0; wire->at < wire->end && shift < 64; shift += 7) {
		uint8_t byte = *wire->at++;

		*value |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
	}
	return false;
}

/*
 * Steps over one field; *field is its number, and *content what it holds if that is counted in
 * bytes, else empty. False at the end.
 */
static bool
wire_next(struct wire *wire, uint32_t *field, struct wire *content)
{
	uint64_t tag, length = 0;

	*content = (struct wire){0};
	if (!wire_varint(wire, &tag))
		return false;
	*field = (uint32_t)(tag >> 3);
	switch (tag & 7) {
	case 0:
		return wire_varint(wire, &length);
	case 1:
		length = 8;
		break;
	case 5:
		length = 4;
		break;
	default:
		if (!wire_varint(wire, &length))
			return false;
	}
	if (length > (uint64_t)(wire->end - wire->at))
		return false;
	if ((tag & 7) == 2)
		*content = (struct wire){wire->at, wire->at + length};
	wire->at += length;
	return true;
}

static bool
field_has_zero(struct wire message, uint32_t wanted)
{
	struct wire content;
	uint32_t field;

	while (wire_next(&message, &field, &content))
		if (field == wanted && content.at &&
		    memchr(content.at, 0, (size_t)(content.end - content.at)))
			return true;
	return false;
}

bool
wire_text_has_zero(const void *bytes, size_t length, uint32_t outer, uint32_t inner)
{
	struct wire request = {bytes, (const uint8_t *)bytes + length}, content;
	uint32_t field;

	while (wire_next(&request, &field, &content))
		if (field == outer && content.at && field_has_zero(content, inner))
			return true;
	return false;
}
