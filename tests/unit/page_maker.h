/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes values for tests: any length, of every kind a pool treats differently, from a seed alone, so that a
 * test need remember no bytes. Same seed, same bytes.
 */
#ifndef ZCACHED_TESTS_PAGE_MAKER_H
#define ZCACHED_TESTS_PAGE_MAKER_H

#include <stdint.h>
#include <string.h>

enum value_kind {
	VALUE_ZERO,	   /* all zeros */
	VALUE_FILLED,	   /* one 8-byte word repeated */
	VALUE_NEAR_FILLED, /* the same, but for one byte somewhere */
	VALUE_TEXT,	   /* compresses about 4 : 1 */
	VALUE_MIXED,	   /* about 2 : 1 */
	VALUE_RANDOM,	   /* does not compress */
	VALUE_HARD,	   /* random but for a few zeros: around the border to raw */
	VALUE_KINDS,
};

static inline uint64_t
random_next(uint64_t *state)
{
	/* splitmix64 (Vigna, public domain) */
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline void
fill_random(unsigned char *bytes, uint32_t length, uint64_t *state)
{
	while (length) {
		uint64_t word = random_next(state);
		uint32_t n = length < 8 ? length : 8;

		memcpy(bytes, &word, n);
		bytes += n;
		length -= n;
	}
}

static inline void
fill_text(unsigned char *bytes, uint32_t length, uint64_t *state)
{
	static const char *const words[] = {"page ", "fault ", "swap ", "zspage ",
					    "the ",  "class ", "of ",	"object\n"};

	for (uint32_t at = 0; at < length;) {
		const char *word = words[random_next(state) % 8];

		for (; *word && at < length; word++)
			bytes[at++] = (unsigned char)*word;
	}
}

static inline void
fill_word(unsigned char *bytes, uint32_t length, uint64_t word)
{
	for (uint32_t at = 0; at < length; at++)
		bytes[at] = (unsigned char)(word >> 8 * (at % 8));
}

static inline void
make_value(unsigned char *bytes, uint32_t length, enum value_kind kind, uint64_t seed)
{
	uint64_t state = seed * 2 + 1;

	switch (kind) {
	case VALUE_ZERO:
		memset(bytes, 0, length);
		break;
	case VALUE_FILLED:
		fill_word(bytes, length, random_next(&state));
		break;
	case VALUE_NEAR_FILLED:
		fill_word(bytes, length, random_next(&state));
		bytes[random_next(&state) % length] ^= 1;
		break;
	case VALUE_TEXT:
		fill_text(bytes, length, &state);
		break;
	case VALUE_MIXED:
		fill_text(bytes, length, &state);
		fill_random(bytes + length / 2, length - length / 2, &state);
		break;
	case VALUE_HARD:
	case VALUE_RANDOM:
	case VALUE_KINDS:
		fill_random(bytes, length, &state);
		if (kind == VALUE_HARD)
			memset(bytes, 0, (uint32_t)(random_next(&state) % 400) % length);
		break;
	}
}

#endif
