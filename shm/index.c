/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The index, writing side: its operations. See index.h for who calls them, index_private.h for the
 * protocol towards readers, index_room.c for what happens when a bucket is full.
 *
 * Locking: each call takes the shard's lock and gives it back; index_put gives it back before the
 * index grows, and looks at everything again afterwards.
 *
 * Left out: moving an entry to its first candidate when that gets room. A reader fetches both
 * buckets at once, so it would gain little.
 */
#include "index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index_private.h"

/* ---- Finding ---------------------------------------------------------------------------- */

static bool
find_key(const struct shard *shard, const struct page_key *key, uint32_t hash, struct place *place)
{
	struct index_candidates candidates = shard_candidates(shard, hash);

	for (unsigned i = 0; i < 2; i++) {
		const struct index_bucket *bucket = shard_bucket(shard, candidates.bucket[i]);
		unsigned match = index_match(bucket, load_relaxed(&bucket->header), key);

		if (!match)
			continue;
		*place = (struct place){candidates.bucket[i], (unsigned)__builtin_ctz(match)};
		return true;
	}
	return false;
}

static bool
slot_points_at(const struct index_bucket *bucket, unsigned slot, uint64_t offset)
{
	struct index_value value = slot_value(bucket, slot);

	return bucket_valid(bucket) >> slot & 1 && !value.same_filled &&
	       location_codec(value.word) != ZC_CODEC_POISON &&
	       location_offset(value.word) == offset;
}

/* Finds by where the object lies: no two entries point there. */
static bool
find_object(const struct shard *shard, uint32_t hash, uint64_t offset, struct place *place)
{
	struct index_candidates candidates = shard_candidates(shard, hash);

	for (unsigned i = 0; i < 2 * ZC_BUCKET_ENTRIES; i++) {
		*place = (struct place){candidates.bucket[i / ZC_BUCKET_ENTRIES],
					i % ZC_BUCKET_ENTRIES};
		if (slot_points_at(shard_bucket(shard, place->bucket), place->slot, offset))
			return true;
	}
	return false;
}

int
index_find(struct index *index, const struct page_key *key, uint32_t hash,
	   struct index_value *value)
{
	struct shard *shard = shard_of(index, hash);
	struct place place;
	bool found;

	lock_acquire(&shard->lock);
	found = find_key(shard, key, hash, &place);
	if (found)
		*value = slot_value(shard_bucket(shard, place.bucket), place.slot);
	lock_release(&shard->lock);
	return found;
}

/* ---- Changing --------------------------------------------------------------------------- */

/*
 * Gives a valid slot another word of the same kind. Release: the new object's bytes come before
 * its location (pairs with the acquire load of the word in reader.c). The header store tells
 * readers that what they copied from the old location may have been freed.
 */
static void
slot_rewrite(struct shard *shard, struct index_bucket *bucket, unsigned slot, uint64_t word)
{
	store_release(&bucket->entry[slot].word, word);
	bucket_change(shard, bucket, 0, 0, false);
}

/* What index_put() was asked for, and how many splits it may still force. */
struct put {
	const struct page_key *key;
	uint32_t hash;
	struct index_value value;
	unsigned splits_left;
};

/* A free slot in the entry's own bucket, for a replace that changes kind. */
static bool
find_room_beside(struct shard *shard, struct place at, struct place *place)
{
	int slot = bucket_free_slot(shard_bucket(shard, at.bucket));

	if (slot < 0)
		return shard_make_room(shard, &at.bucket, 1, 1u << at.slot, place);
	*place = (struct place){at.bucket, (unsigned)slot};
	return true;
}

/*
 * A replace of the same kind rewrites the word. One that changes kind fills a second slot of the
 * same bucket, so that one store makes that valid and the old one invalid.
 */
static bool
replace(struct shard *shard, const struct put *put, struct place at, struct index_value *old)
{
	struct index_bucket *bucket = shard_bucket(shard, at.bucket);
	bool fill = put->value.same_filled;
	struct place place;

	*old = slot_value(bucket, at.slot);
	if (old->same_filled == fill) {
		slot_rewrite(shard, bucket, at.slot, put->value.word);
		return true;
	}
	if (!find_room_beside(shard, at, &place))
		return false;
	slot_write(bucket, place.slot, put->key, put->value.word);
	bucket_change(shard, bucket, 1u << at.slot, 1u << place.slot, fill);
	shard_count(&shard->same_filled, fill ? 1 : -1);
	return true;
}

/* The first candidate while it has room, then the second, then what displacement frees. */
static bool
find_room(struct shard *shard, uint32_t hash, struct place *place)
{
	struct index_candidates candidates = shard_candidates(shard, hash);

	for (unsigned i = 0; i < 2; i++) {
		int slot = bucket_free_slot(shard_bucket(shard, candidates.bucket[i]));

		if (slot < 0)
			continue;
		*place = (struct place){candidates.bucket[i], (unsigned)slot};
		return true;
	}
	return shard_make_room(shard, candidates.bucket, 2, 0, place);
}

static bool
insert(const struct index *index, struct shard *shard, const struct put *put)
{
	struct index_bucket *bucket;
	struct place place;

	shard_split_if_loaded(index, shard);
	if (!find_room(shard, put->hash, &place))
		return false;
	bucket = shard_bucket(shard, place.bucket);
	slot_write(bucket, place.slot, put->key, put->value.word);
	bucket_change(shard, bucket, 0, 1u << place.slot, put->value.same_filled);
	shard_count_entry(shard, put->value.same_filled, 1);
	return true;
}

/* Returns 0 (inserted), 1 (replaced), or what shard_split_forced() says when it gives up. */
static int
put_locked(const struct index *index, struct shard *shard, struct put *put, struct index_value *old)
{
	struct place place;
	int error;

	do {
		/* Looked up again after a split, which moves entries. */
		bool found = find_key(shard, put->key, put->hash, &place);

		if (found ? replace(shard, put, place, old) : insert(index, shard, put))
			return found;
		error = shard_split_forced(index, shard, &put->splits_left);
	} while (!error);
	return error;
}

int
index_put(struct index *index, const struct page_key *key, uint32_t hash, struct index_value value,
	  struct index_value *old)
{
	struct shard *shard = shard_of(index, hash);
	struct put put = {key, hash, value, FORCED_SPLITS};
	uint32_t buckets;
	int result;

	do {
		lock_acquire(&shard->lock);
		result = put_locked(index, shard, &put, old);
		buckets = shard->buckets;
		lock_release(&shard->lock);
		if (result != SPLIT_NEEDS_STRIPE)
			return result;
		result = index_grow_past(index, buckets);
	} while (!result);
	return result;
}

int
index_delete(struct index *index, const struct page_key *key, uint32_t hash,
	     struct index_value *old)
{
	struct shard *shard = shard_of(index, hash);
	struct place place;
	bool found;

	lock_acquire(&shard->lock);
	found = find_key(shard, key, hash, &place);
	if (found) {
		struct index_bucket *bucket = shard_bucket(shard, place.bucket);

		*old = slot_value(bucket, place.slot);
		bucket_change(shard, bucket, 1u << place.slot, 0, false);
		shard_count_entry(shard, old->same_filled, -1);
	}
	lock_release(&shard->lock);
	return found;
}

int
index_replace_if(struct index *index, const struct page_key *key, uint32_t hash, uint64_t from,
		 uint64_t to)
{
	struct shard *shard = shard_of(index, hash);
	struct place place;
	bool replaced = false;

	lock_acquire(&shard->lock);
	if (find_key(shard, key, hash, &place)) {
		struct index_bucket *bucket = shard_bucket(shard, place.bucket);
		struct index_value value = slot_value(bucket, place.slot);

		replaced = !value.same_filled && value.word == from;
		if (replaced)
			slot_rewrite(shard, bucket, place.slot, to);
	}
	lock_release(&shard->lock);
	return replaced;
}

/* Copies an object and points its entry at the copy. Returns the stored length, 0: does not fit. */
static uint32_t
move_object(struct shard *shard, struct place place, uint64_t to, void *destination,
	    const void *source, uint32_t room)
{
	struct index_bucket *bucket = shard_bucket(shard, place.bucket);
	uint64_t word = slot_value(bucket, place.slot).word;
	uint32_t length = location_length(word);

	if (length + ZC_OBJECT_HEADER_SIZE > room)
		return 0;
	fence_release(); /* R2: readers may still be copying what was there before */
	memcpy(destination, source, length + ZC_OBJECT_HEADER_SIZE);
	slot_rewrite(shard, bucket, place.slot,
		     location_pack(to, length, location_codec(word), location_flags(word)));
	return length;
}

uint32_t
index_move(struct index *index, uint32_t hash, uint64_t from, uint64_t to, void *destination,
	   const void *source, uint32_t room)
{
	struct shard *shard = shard_of(index, hash);
	struct place place;
	uint32_t length = 0;

	lock_acquire(&shard->lock);
	if (find_object(shard, hash, from, &place))
		length = move_object(shard, place, to, destination, source, room);
	lock_release(&shard->lock);
	return length;
}

/* ---- Scans ------------------------------------------------------------------------------ */

void
index_scan_begin(struct index *index, unsigned shard_number)
{
	struct shard *shard = &index->shard[shard_number];

	lock_acquire(&shard->lock);
	assert(!shard->scanning);
	shard->scanning = true;
	shard->scan_cursor = 0;
	lock_release(&shard->lock);
}

/* Removes by one store what the scan is to remove of a bucket; returns how many there were. */
static unsigned
remove_matching(struct shard *shard, uint32_t number, struct removed_entry entry[ZC_BUCKET_ENTRIES])
{
	struct index_bucket *bucket = shard_bucket(shard, number);
	unsigned remove = 0, n = 0;

	for (unsigned left = bucket_valid(bucket); left; left &= left - 1) {
		unsigned slot = (unsigned)__builtin_ctz(left);
		const struct page_key *key = &bucket->entry[slot].key;

		if (!shard->scan_everything && key->object != shard->scan_object)
			continue;
		entry[n] = (struct removed_entry){*key, slot_value(bucket, slot)};
		shard_count_entry(shard, entry[n++].value.same_filled, -1);
		remove |= 1u << slot;
	}
	if (remove)
		bucket_change(shard, bucket, remove, 0, false);
	return n;
}

/* Says what is to be removed, and takes over what was removed since the last slice. */
static unsigned
begin_slice(struct shard *shard, const uint64_t *object, struct removed_entry entry[PENDING_MAX])
{
	unsigned n;

	lock_acquire(&shard->lock);
	assert(shard->scanning);
	shard->scan_everything = !object;
	shard->scan_object = object ? *object : 0;
	n = shard->pending_count;
	memcpy(entry, shard->pending, n * sizeof(*entry));
	shard->pending_count = 0;
	lock_release(&shard->lock);
	return n;
}

/* Scans one bucket; false at the end of the shard as it is now. */
static bool
scan_bucket(struct shard *shard, struct removed_entry entry[ZC_BUCKET_ENTRIES], unsigned *n)
{
	bool more;

	lock_acquire(&shard->lock);
	more = shard->scan_cursor < shard->buckets;
	*n = more ? remove_matching(shard, shard->scan_cursor, entry) : 0;
	shard->scan_cursor = more ? shard->scan_cursor + 1 : 0;
	shard->scanning = more;
	lock_release(&shard->lock);
	return more;
}

static void
hand_over(const struct removed_entry *entry, unsigned n, index_removed_fn *removed, void *arg)
{
	for (unsigned i = 0; i < n; i++)
		removed(arg, &entry[i].key, entry[i].value);
}

bool
index_scan_slice(struct index *index, unsigned shard_number, const uint64_t *object,
		 uint32_t buckets, index_removed_fn *removed, void *arg)
{
	struct shard *shard = &index->shard[shard_number];
	struct removed_entry entry[PENDING_MAX];
	unsigned n = begin_slice(shard, object, entry);
	bool more = true;

	static_assert(PENDING_MAX >= ZC_BUCKET_ENTRIES, "room for the entries of a bucket");
	hand_over(entry, n, removed, arg);
	for (uint32_t i = 0; i < buckets && more; i++) {
		more = scan_bucket(shard, entry, &n);
		hand_over(entry, n, removed, arg);
	}
	return more;
}

/* ---- Statistics ------------------------------------------------------------------------- */

/* Relaxed loads: each number is right, at slightly different moments. */
void
index_stats(struct index *index, struct index_stats *stats)
{
	*stats = (struct index_stats){0};
	for (unsigned i = 0; i < ZC_SHARDS; i++) {
		const struct shard *shard = &index->shard[i];

		stats->entries += load_relaxed(&shard->entries);
		stats->same_filled += load_relaxed(&shard->same_filled);
		stats->buckets += load_relaxed(&shard->buckets);
		stats->displaced += load_relaxed(&shard->displaced);
		stats->splits += load_relaxed(&shard->splits);
		stats->collisions += load_relaxed(&shard->collisions);
	}
}

/* ---- Creation --------------------------------------------------------------------------- */

static void
shard_init(struct index *index, unsigned number)
{
	struct shard *shard = &index->shard[number];

	*shard = (struct shard){
		.base = index->segment->base + index_bucket_offset(number, 0),
		.word = &index->header->shard_word[number],
		.hash_seed = index->header->hash_seed,
		.buckets = 1,
	};
	lock_init(&shard->lock, LOCK_SHARD);
	/* Relaxed: the pool's magic, or its state, is released after this. */
	store_relaxed(shard->word, shard_word_pack(0, 0));
}

int
index_create(struct pool_header *header, struct segment *segment, struct budget *budget,
	     struct index **out)
{
	struct index *index = aligned_alloc(CACHE_LINE, sizeof(*index));
	uint64_t stripes = segment->reserve / ZC_STRIPE_SIZE;
	int error;

	if (!index)
		return -ENOMEM;
	*index = (struct index){
		.header = header,
		.segment = segment,
		.budget = budget,
		.stripes_max = stripes < INDEX_BUCKETS_MAX ? (uint32_t)stripes : INDEX_BUCKETS_MAX,
	};
	error = index_grow_past(index, 0);
	if (error) {
		free(index);
		return error;
	}
	for (unsigned i = 0; i < ZC_SHARDS; i++)
		shard_init(index, i);
	*out = index;
	return 0;
}

void
index_destroy(struct index **index)
{
	if (!*index)
		return;
	for (unsigned i = 0; i < ZC_SHARDS; i++)
		lock_destroy(&(*index)->shard[i].lock);
	free(*index);
	*index = NULL;
}
