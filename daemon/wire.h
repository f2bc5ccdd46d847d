/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One look at a request's bytes that the decoder does not give: protobuf-c hands texts out as C
 * strings, so that "a\0b" reads as "a". No state.
 */
#ifndef ZCACHED_DAEMON_WIRE_H
#define ZCACHED_DAEMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The pool's name in every message that has one. */
#define WIRE_NAME_FIELD 1u

/*
 * Whether field `inner` of the message in field `outer` of a request has a zero byte. For requests
 * that have been decoded without an error.
 */
bool wire_text_has_zero(const void *bytes, size_t length, uint32_t outer, uint32_t inner);

#endif
