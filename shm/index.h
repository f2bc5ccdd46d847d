/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index, writing side: key -> word, in 64 shards of linear hashing.
 *
 * Who calls it: a shard's owning worker makes all its changes; the keeper's compaction moves
 * objects (index_move). The shard lock is between these two; it is taken and released inside each
 * call, and no call makes a system call or touches new memory under it. Readers (reader.h, in any
 * process) take nothing: the order of stores here is the protocol of design section 4 and is argued
 * at each store.
 *
 * Where a key lives: its hash gives the shard (top 6 bits) and two candidate buckets
 * (index_candidates). An entry goes to the first candidate, when that is full to the second, when
 * both are full an entry of one of them is moved to *its* other candidate (bucketized cuckoo
 * hashing, Erlingsson, Manasse, McSherry 2006, at depth 2 at most). That is how a load of 0.9 is
 * held at every moment although linear hashing leaves unsplit buckets twice as full as split ones.
 * A displaced entry is inserted at its new place before it is removed from its old one; a reader
 * that misses it rechecks both headers.
 *
 * Growth: one bucket at a time, when the load is above the target. The new bucket's memory is taken
 * before, outside the lock, by index_reserve(). Index memory is never given back while the pool
 * lives.
 */
#ifndef ZCACHED_SHM_INDEX_H
#define ZCACHED_SHM_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "budget.h"
#include "layout.h"
#include "segment.h"

struct index; /* private to the engine; allocated by index_create */

struct index_value {
	uint64_t word;
	bool same_filled;
};

/* The two candidate buckets of a hash in a shard with this shard word; shared with the reader. */
struct index_candidates {
	uint32_t bucket[2]; /* may be equal */
};

static inline unsigned index_shard(uint32_t hash)
{
	return hash >> (32 - ZC_SHARD_BITS);
}

static inline uint32_t index_address(uint32_t hash, unsigned level, uint32_t split)
{
	uint32_t bucket = hash & ((1u << level) - 1);

	return bucket < split ? hash & ((2u << level) - 1) : bucket;
}

/* Second hash: the 32-bit finalizer of MurmurHash3 (Appleby, public domain), a bijection. */
static inline uint32_t index_rehash(uint32_t hash)
{
	hash ^= hash >> 16;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35u;
	return hash ^ hash >> 16;
}

static inline struct index_candidates index_candidates(uint32_t hash, uint64_t shard_word)
{
	unsigned level = (unsigned)(shard_word >> 32 & 0xff);
	uint32_t split = (uint32_t)shard_word;

	return (struct index_candidates){{index_address(hash, level, split),
					  index_address(index_rehash(hash), level, split)}};
}

static inline uint64_t index_bucket_offset(unsigned shard, uint32_t bucket)
{
	return ((uint64_t)bucket * ZC_SHARDS + shard) * sizeof(struct index_bucket);
}

/*
 * An index over `segment`, whose shard words and in-use size are in `header`. The first stripe is
 * paid from the budget and populated here. Returns 0, -ENOMEM, -ENOSPC.
 */
int index_create(struct pool_header *header, struct segment *segment, struct budget *budget,
		 struct index **out);
void index_destroy(struct index **index);

/*
 * Takes memory for the next bucket of the hash's shard if its load calls for one soon. Makes system
 * calls. To be called before index_put of a key that may be new. A failure is not an error here:
 * put decides whether there is still room.
 */
void index_reserve(struct index *index, uint32_t hash);

/*
 * Inserts or replaces. Returns 0 (new), 1 (replaced: *old is what was there; the caller frees its
 * object), -ENOSPC when no bucket has room and none can be added (colliding keys, or the budget):
 * the index is unchanged then, an old value of the key included.
 */
int index_put(struct index *index, const struct zc_key *key, uint32_t hash,
	      struct index_value value, struct index_value *old);

/* Removes. Returns 1 (*old is what was there; the caller frees its object) or 0 (not there). */
int index_delete(struct index *index, const struct zc_key *key, uint32_t hash,
		 struct index_value *old);

/* Finds, as the owner of the shard. Returns 1 or 0. */
int index_find(struct index *index, const struct zc_key *key, uint32_t hash,
	       struct index_value *value);

/*
 * Replaces location `from` of the key by `to`, only if the entry still holds `from`. Used to
 * poison. Returns 1 if replaced, 0 if the entry has changed.
 */
int index_replace_if(struct index *index, const struct zc_key *key, uint32_t hash, uint64_t from,
		     uint64_t to);

/*
 * Moves an object: if an entry of this hash holds location `from`, copies `size` bytes from
 * `source` to `destination` (memory that has been touched before) and makes the entry hold `to`,
 * all under the shard lock. Returns 1, or 0 when no entry holds `from` (the object is in flight or
 * being freed).
 */
int index_move(struct index *index, uint32_t hash, uint64_t from, uint64_t to, void *destination,
	       const void *source, uint32_t size);

/*
 * Scans: remove every entry of `shard` that has key.object == *object (all entries where object is
 * NULL) and is there when the scan begins, in slices of `buckets`. One scan a shard at a time.
 *Values removed are handed to `removed` one by one, outside the shard lock.
 *
 *	index_scan_begin(index, shard);
 *	while (index_scan_slice(index, shard, object, 64, removed, arg)) ...
 *
 * While a scan is under way no entry is moved from the part not yet scanned to the part
 * that was. index_scan_slice returns true while there is more to do; the last call ends the scan.
 */
typedef void index_removed_fn(void *arg, struct index_value value);
void index_scan_begin(struct index *index, unsigned shard);
bool index_scan_slice(struct index *index, unsigned shard, const uint64_t *object, uint32_t buckets,
		      index_removed_fn *removed, void *arg);

struct index_stats {
	uint64_t entries; /* valid entries, same-filled and poisoned included */
	uint64_t same_filled;
	uint64_t buckets;
	uint64_t displaced; /* entries moved to their other candidate */
	uint64_t splits;
	uint64_t collisions; /* puts refused for lack of a slot */
};
void index_stats(struct index *index, struct index_stats *stats);

/*
 * For tests and zcachectl check: calls `visit` for every entry of every shard, each bucket under
 * its shard lock, after checking that the entry lies in one of its candidate buckets. Returns 0,
 * what `visit` returned first if that was not 0, or -EUCLEAN where the structure itself is wrong.
 */
typedef int index_visit_fn(void *arg, const struct zc_key *key, struct index_value value);
int index_walk(struct index *index, index_visit_fn *visit, void *arg);

#endif
