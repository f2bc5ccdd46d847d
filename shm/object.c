/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two 32-bit numbers of an object header, and the checksum of a pool header.
 *
 * Engine and clients compute them on the same bytes, perhaps with different builds of this file:
 * XXH3 gives the same result whatever vector code computes it. No state, no locks.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "object.h"

uint32_t
key_hash(uint64_t seed, const struct page_key *key)
{
	return (uint32_t)XXH3_64bits_withSeed(key, sizeof(*key), seed);
}

static uint64_t
stored_xxh3(const void *stored, uint32_t length)
{
#if defined(__x86_64__)
	/* One load and a branch that never changes its mind: cheaper than a pointer. */
	if (__builtin_cpu_supports("avx2"))
		return object_xxh3_avx2(stored, length);
#endif
	return XXH3_64bits(stored, length);
}

/*
 * Codec and length enter by a multiplication behind the hash and not as its seed: a seeded XXH3
 * first derives a secret of 192 bytes, which costs as much as hashing half a kilobyte.
 */
uint32_t
object_checksum(const void *stored, uint32_t length, enum zc_codec codec)
{
	uint64_t kind = (uint64_t)codec << 32 | length;
	uint64_t mixed = (stored_xxh3(stored, length) ^ kind) * 0x9e3779b97f4a7c15ULL;

	return (uint32_t)(mixed >> 32);
}

uint64_t
pool_header_checksum(const struct pool_header *header)
{
	const char *first = (const char *)&header->abi_version;

	return XXH3_64bits(first, (size_t)((const char *)&header->checksum - first));
}
