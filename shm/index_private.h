/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index's parts, for index.c (operations), index_room.c (displacement, splits, memory) and
 * index_check.c only.
 *
 * What readers see. A bucket changes by one store of its header word (bucket_publish). Slots are
 * written only while they are not valid, and a slot's word changes in place only where kind and key
 * stay. Four orders make that enough; R1 to R4 are cited where they are kept, and by reader.c:
 *
 * R1. A slot's key and word come before the header store that makes it valid (release; pairs with
 *     the acquire load of the header in reader.c).
 * R2. The header store that retires a slot or an object comes before the first new byte in it
 *     (release fence; pairs with the acquire fence before reader.c loads the header again). A
 *     reader that saw a new byte therefore sees a changed header.
 * R3. An entry that moves between two buckets is valid at its new place before it ceases to be at
 *     its old one (both release stores). A reader that looked at the new place too early and at the
 *     old one too late has acquired the second store, so its second look at the new place shows the
 *     first: a miss counts only if both headers are what they were.
 * R4. A split writes the new bucket, then the shard word, then the old bucket's header, see
 *     shard_split().
 *
 * Locking: functions that take a struct shard are called under its lock.
 */
#ifndef ZCACHED_SHM_INDEX_PRIVATE_H
#define ZCACHED_SHM_INDEX_PRIVATE_H

#include "atomic.h"
#include "index.h"
#include "lock.h"

#define CACHE_LINE 64

/* Removed by a scan, to be handed to its caller. */
struct removed_entry {
	struct page_key key;
	struct index_value value;
};
#define PENDING_MAX 32u

struct shard {
	struct lock lock;
	char *base;	    /* its bucket 0 in the index memfd */
	uint64_t *word;	    /* its shard word in the pool header */
	uint64_t hash_seed; /* of the pool */

	/* Written under the lock; atomic because index_stats() and index_reserve() hold none. */
	uint64_t entries;
	uint64_t same_filled;
	uint64_t displaced;
	uint64_t splits;
	uint64_t collisions;
	uint32_t buckets; /* 2^level + split */

	/* Under the lock. */
	uint64_t changes; /* header stores, for index_walk() */

	/* The scan, under the lock. What it removes: everything, or scan_object's entries. */
	bool scanning;
	bool scan_everything;
	uint64_t scan_object;
	uint32_t scan_cursor; /* buckets below it are scanned; 0 without a scan */
	uint32_t pending_count;
	struct removed_entry pending[PENDING_MAX]; /* before their turn, for want of room */

	uint64_t reserve_from; /* owner only: entries at which index_reserve() asks again */
} __attribute__((aligned(CACHE_LINE)));

struct index {
	struct pool_header *header;
	struct segment *segment;
	struct budget *budget;
	uint32_t stripes_max;
	uint32_t stripes; /* populated; atomic, written by the one who holds `growing` */
	uint32_t growing; /* atomic: 1 while somebody takes memory */
	struct shard shard[ZC_SHARDS];
};

/* A slot of a shard. */
struct place {
	uint32_t bucket;
	unsigned slot;
};

static inline struct shard *
shard_of(struct index *index, uint32_t hash)
{
	return &index->shard[index_shard(hash)];
}

static inline struct index_bucket *
shard_bucket(const struct shard *shard, uint32_t bucket)
{
	return (struct index_bucket *)(shard->base + (uint64_t)bucket * ZC_STRIPE_SIZE);
}

/* Relaxed, here and below: only holders of the shard lock write these words, and we are one. */
static inline struct index_candidates
shard_candidates(const struct shard *shard, uint32_t hash)
{
	return index_candidates(hash, load_relaxed(shard->word));
}

static inline unsigned
bucket_valid(const struct index_bucket *bucket)
{
	return index_valid_slots(load_relaxed(&bucket->header));
}

static inline unsigned
bucket_same_filled(const struct index_bucket *bucket)
{
	return index_same_filled_slots(load_relaxed(&bucket->header));
}

/* The lowest slot that is not valid, or -1. */
static inline int
bucket_free_slot(const struct index_bucket *bucket)
{
	unsigned free = ~bucket_valid(bucket) & ZC_BUCKET_SLOT_MASK;

	return free ? __builtin_ctz(free) : -1;
}

static inline struct index_value
slot_value(const struct index_bucket *bucket, unsigned slot)
{
	return (struct index_value){
		.word = load_relaxed(&bucket->entry[slot].word),
		.same_filled = bucket_same_filled(bucket) >> slot & 1,
	};
}

/* Does the scan that is under way still have to remove this entry of `bucket`? */
static inline bool
shard_awaits_scan(const struct shard *shard, uint32_t bucket, const struct page_key *key)
{
	return shard->scan_cursor && bucket >= shard->scan_cursor &&
	       (shard->scan_everything || key->object == shard->scan_object);
}

/* One writer at a time; relaxed, because whoever reads without the lock wants only some number. */
static inline void
shard_count(uint64_t *counter, int64_t change)
{
	store_relaxed(counter, *counter + (uint64_t)change);
}

/*
 * The one store. The sequence wraps after 2^44 changes of a bucket, far more than happen while a
 * reader copies an object. Release: R1 and R3; pairs with the acquire loads of headers in reader.c.
 */
static inline void
bucket_publish(struct shard *shard, struct index_bucket *bucket, unsigned valid,
	       unsigned same_filled)
{
	uint64_t sequence = (load_relaxed(&bucket->header) >> ZC_BUCKET_SEQUENCE_SHIFT) + 1;
	uint64_t slots = (uint64_t)valid << ZC_BUCKET_VALID_SHIFT | same_filled;

	shard->changes++;
	store_release(&bucket->header, sequence << ZC_BUCKET_SEQUENCE_SHIFT | slots);
}

/* Clears some slots and sets others in one store; `same_filled` is the kind of those that are set.
 */
static inline void
bucket_change(struct shard *shard, struct index_bucket *bucket, unsigned clear, unsigned set,
	      bool same_filled)
{
	unsigned valid = (bucket_valid(bucket) & ~clear) | set;
	unsigned fills = (bucket_same_filled(bucket) & ~(clear | set)) | (same_filled ? set : 0);

	bucket_publish(shard, bucket, valid, fills);
}

/* Fills a slot that is not valid. Relaxed stores: the fence gives R2, the header store R1. */
static inline void
slot_write(struct index_bucket *bucket, unsigned slot, const struct page_key *key, uint64_t word)
{
	struct index_entry *entry = &bucket->entry[slot];

	fence_release(); /* R2: pairs with the acquire fence in reader.c */
	store_relaxed(&entry->key.object, key->object);
	store_relaxed(&entry->key.index, key->index);
	store_relaxed(&entry->word, word);
}

static inline void
shard_count_entry(struct shard *shard, bool same_filled, int64_t change)
{
	shard_count(&shard->entries, change);
	if (same_filled)
		shard_count(&shard->same_filled, change);
}

/* ---- index_room.c ---- */

/*
 * Frees a slot in one of `n` full buckets by moving entries to their other candidates, as few as
 * possible; if a scan is in the way, by removing an entry that the scan would remove. `pinned` is a
 * set of slots of bucket[0] that stay. Changes nothing where it fails.
 */
bool shard_make_room(struct shard *shard, const uint32_t *bucket, unsigned n, unsigned pinned,
		     struct place *place);

/* Splits a bucket if one entry more calls for it and there is memory. */
void shard_split_if_loaded(const struct index *index, struct shard *shard);

/*
 * After shard_make_room() failed: splits a bucket, so that it may be tried again; at most
 * *splits_left times. Returns 0, SPLIT_NEEDS_STRIPE (take memory outside the lock, then try again),
 * or -EXFULL where splitting would not help.
 */
#define FORCED_SPLITS	   4u
#define SPLIT_NEEDS_STRIPE 2 /* neither result of index_put() */
int shard_split_forced(const struct index *index, struct shard *shard, unsigned *splits_left);

/*
 * Makes the index more than `buckets` stripes long; waits for another grower where there is one.
 * Makes system calls, so no lock may be held. Returns 0, -ENOSPC, -ENOMEM, or ftruncate(2)'s error.
 */
int index_grow_past(struct index *index, uint32_t buckets);

#endif
