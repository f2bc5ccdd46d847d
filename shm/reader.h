/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reading side of a pool: find a key and copy its stored bytes out, without a lock, while the
 * engine changes everything. The same code serves the engine's own gets and the library's direct
 * reads.
 *
 * The caller's process may have mapped the pool read-only; nothing in it is trusted. reader.c
 * argues the correctness of the protocol; it may be called by any number of threads at once.
 */
#ifndef ZCACHED_SHM_READER_H
#define ZCACHED_SHM_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

/* A mapped pool, as a reader sees it. Sizes are of the mappings and were checked at attach. */
struct pool_view {
	const struct pool_header *header; /* start of the control mapping */
	const char *index;
	const char *data;
	uint64_t control_size; /* bytes that are mapped */
	uint64_t index_size;
	uint64_t data_size;
	uint32_t page_size; /* copies of immutable header fields */
	uint64_t hash_seed;
};

struct reader_result {
	uint64_t word; /* location or fill word */
	bool same_filled;
	uint32_t length; /* stored bytes copied out; 0 when same-filled */
};

/*
 * Looks up `key` and copies its stored bytes to `stored` (room for page_size bytes). After success
 * the bytes are those of one acknowledged put of that key, whole, with the right checksum; they are
 * still to be decoded (value.h). Returns
 *  0          found
 *  -ENOENT    not there, at a moment between call and return
 *  -EBADMSG   there and damaged: a poison entry, a wrong checksum or an impossible location
 *  -EAGAIN    changed at every one of the bounded number of tries: ask the engine
 *  -EHOSTDOWN the pool is not live (being recovered, or dead)
 */
int reader_get(const struct pool_view *view, const struct page_key *key, void *stored,
	       struct reader_result *result);

/*
 * Has the memory where the key's entry can be fetched into the processor's caches. Waits for nothing and
 * changes nothing; to be called some reads before the key's.
 */
void reader_prefetch(const struct pool_view *view, const struct page_key *key);

/* The same as reader_get without the bytes: 0, -ENOENT, -EBADMSG (poison), -EAGAIN, -EHOSTDOWN. */
int reader_exists(const struct pool_view *view, const struct page_key *key);

#endif
