/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hash of a key, checksum of an object: the two 32-bit numbers of an object header.
 *
 * Both sides use them: the engine when it stores, every reader when it looks up and verifies.
 * Both are made from XXH3_64bits (xxhash 0.8; a fixed algorithm, the same on all machines).
 */
#ifndef ZCACHED_SHM_OBJECT_H
#define ZCACHED_SHM_OBJECT_H

#include <stdint.h>

#include "layout.h"

/*
 * Hash of a key under the pool's seed: the low 32 bits of XXH3_64bits_withSeed over its 16 bytes.
 * The top ZC_SHARD_BITS choose the shard, see index.h.
 */
uint32_t key_hash(uint64_t seed, const struct page_key *key);

/*
 * Checksum of `length` stored bytes: the high half of (XXH3_64bits ^ codec << 32 ^ length) times
 * 2^64 / phi. Codec and length take part, so a damaged location is found too.
 */
uint32_t object_checksum(const void *stored, uint32_t length, enum zc_codec codec);

/* XXH3 of the immutable part of a pool header. */
uint64_t pool_header_checksum(const struct pool_header *header);

#if defined(__x86_64__)
/* Private to object.c: XXH3_64bits for CPUs with AVX2 (object_avx2.c). */
uint64_t object_xxh3_avx2(const void *bytes, size_t length);
#endif

#endif
