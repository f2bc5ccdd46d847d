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
 * hashing, Erlingsson, Manasse, McSherry 2006), three moves at most. That is how a load of 0.9 is
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

#include "atomic.h"
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

/* Buckets of a shard at most: beyond, bits that chose the shard would choose the bucket too. */
#define INDEX_LEVEL_MAX	  (32u - ZC_SHARD_BITS)
#define INDEX_BUCKETS_MAX (1u << INDEX_LEVEL_MAX)

static inline unsigned
index_shard(uint32_t hash)
{
	return hash >> (32 - ZC_SHARD_BITS);
}

static inline uint32_t
index_address(uint32_t hash, unsigned level, uint32_t split)
{
	uint32_t bucket = hash & ((1u << level) - 1);

	return bucket < split ? hash & ((2u << level) - 1) : bucket;
}

/* Second hash: the 32-bit finalizer of MurmurHash3 (Appleby, public domain), a bijection. */
static inline uint32_t
index_rehash(uint32_t hash)
{
	hash ^= hash >> 16;
	hash *= 0x85ebca6bu;
	hash ^= hash >> 13;
	hash *= 0xc2b2ae35u;
	return hash ^ hash >> 16;
}

static inline unsigned
index_level(uint64_t shard_word)
{
	return (unsigned)(shard_word >> 32 & 0xff);
}

static inline uint32_t
index_split(uint64_t shard_word)
{
	return (uint32_t)shard_word;
}

/* Could the engine have written this? Anything else would make the shifts below undefined. */
static inline bool
index_shard_word_possible(uint64_t shard_word)
{
	unsigned level = index_level(shard_word);

	return shard_word >> 40 == 0 && level <= INDEX_LEVEL_MAX &&
	       index_split(shard_word) < 1u << level;
}

static inline struct index_candidates
index_candidates(uint32_t hash, uint64_t shard_word)
{
	unsigned level = index_level(shard_word);
	uint32_t split = index_split(shard_word);

	return (struct index_candidates){{index_address(hash, level, split),
					  index_address(index_rehash(hash), level, split)}};
}

static inline uint64_t
index_bucket_offset(unsigned shard, uint32_t bucket)
{
	return ((uint64_t)bucket * ZC_SHARDS + shard) * sizeof(struct index_bucket);
}

static inline unsigned
index_valid_slots(uint64_t header)
{
	return (unsigned)(header >> ZC_BUCKET_VALID_SHIFT) & ZC_BUCKET_SLOT_MASK;
}

static inline unsigned
index_same_filled_slots(uint64_t header)
{
	return (unsigned)header & ZC_BUCKET_SLOT_MASK;
}

/*
 * The slots that are valid in `header`, loaded before, and hold `key`, as a set of bits. Relaxed: a
 * reader looks at the header again before it believes what it found. All slots are compared,
 * without a branch: which one matches cannot be predicted.
 */
static inline unsigned
index_match(const struct index_bucket *bucket, uint64_t header, const struct page_key *key)
{
	unsigned match = 0;

	for (unsigned slot = 0; slot < ZC_BUCKET_ENTRIES; slot++) {
		const struct page_key *other = &bucket->entry[slot].key;
		uint64_t differ = (load_relaxed(&other->object) ^ key->object) |
				  (load_relaxed(&other->index) ^ key->index);

		match |= (unsigned)(differ == 0) << slot;
	}
	return match & index_valid_slots(header);
}

/*
 * An index over `segment`, whose shard words and in-use size are in `header`. The first stripe is
 * paid from the budget and populated here; header->hash_seed must be set. Returns 0, -ENOMEM,
 * -ENOSPC, or ftruncate(2)'s error.
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
 * object), or where no bucket has room and none can be added: -EXFULL (too many keys collide),
 * -ENOSPC, -ENOMEM (the budget refuses a stripe). No entry is changed then, an old value of the key
 * included.
 */
int index_put(struct index *index, const struct page_key *key, uint32_t hash,
	      struct index_value value, struct index_value *old);

/* Removes. Returns 1 (*old is what was there; the caller frees its object) or 0 (not there). */
int index_delete(struct index *index, const struct page_key *key, uint32_t hash,
		 struct index_value *old);

/* Finds, as the owner of the shard. Returns 1 or 0. */
int index_find(struct index *index, const struct page_key *key, uint32_t hash,
	       struct index_value *value);

/*
 * Replaces location `from` of the key by `to`, only if the entry still holds `from`. Used to
 * poison. Returns 1 if replaced, 0 if the entry has changed.
 */
int index_replace_if(struct index *index, const struct page_key *key, uint32_t hash, uint64_t from,
		     uint64_t to);

/*
 * Moves an object: if an entry of this hash holds a location whose offset is `from`, copies its
 * object header and stored bytes from `source` to `destination` (memory that has been touched
 * before) and changes the offset to `to`, all under the shard lock. Returns the stored length, or 0
 * when no entry holds `from` (the object is in flight or being freed). `room`: bytes at source and
 * destination, header included; a longer object is not moved.
 */
uint32_t index_move(struct index *index, uint32_t hash, uint64_t from, uint64_t to,
		    void *destination, const void *source, uint32_t room);

/*
 * Scans: remove every entry of `shard` that has key.object == *object (all entries where object is
 * NULL) and is there when the scan begins, in slices of `buckets`. One scan a shard at a time.
 * Values removed are handed to `removed` one by one, outside the shard lock.
 *
 *	index_scan_begin(index, shard);
 *	while (index_scan_slice(index, shard, object, 64, removed, arg)) ...
 *
 * While a scan is under way no entry that it is to remove is moved from the part not yet scanned to
 * the part that was. An entry that is put meanwhile may be removed too. All slices of a scan have
 * the same `object`. index_scan_slice returns true while there is more to do; the last call ends
 * the scan.
 */
typedef void index_removed_fn(void *arg, const struct page_key *key, struct index_value value);
void index_scan_begin(struct index *index, unsigned shard);
bool index_scan_slice(struct index *index, unsigned shard, const uint64_t *object, uint32_t buckets,
		      index_removed_fn *removed, void *arg);

struct index_stats {
	uint64_t entries; /* valid entries, same-filled and poisoned included */
	uint64_t same_filled;
	uint64_t buckets;
	uint64_t displaced; /* entries moved to their other candidate */
	uint64_t splits;
	uint64_t collisions; /* puts refused with -EXFULL */
};
void index_stats(struct index *index, struct index_stats *stats);

/*
 * For tests and zcachectl check: calls `visit` for every entry of every shard, each bucket under
 * its shard lock, after checking that the entry lies in one of its candidate buckets. Returns 0,
 * what `visit` returned first if that was not 0, or -EUCLEAN where the structure itself is wrong.
 */
typedef int index_visit_fn(void *arg, const struct page_key *key, struct index_value value);
int index_walk(struct index *index, index_visit_fn *visit, void *arg);

#endif
