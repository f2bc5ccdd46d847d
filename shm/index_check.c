/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks the index against itself: index_walk(), for tests, pool_check() and recovery's proofs.
 *
 * Locking: the shard's lock for a bucket at a time, so a walk may run beside puts and moves. What
 * holds at every moment is always checked, the counts only where nothing changed meanwhile.
 */
#include <errno.h>

#include "index_private.h"
#include "object.h"

/* What a walk of a shard has seen, to be compared with the private counts. */
struct walk {
	index_visit_fn *visit;
	void *arg;
	uint64_t entries;
	uint64_t same_filled;
	uint64_t changes; /* of the shard when the walk began */
};

static bool
has_key(const struct index_bucket *bucket, const struct page_key *key)
{
	return index_match(bucket, load_relaxed(&bucket->header), key) != 0;
}

/* An entry must lie in a candidate of its shard, and no other slot of both may have its key. */
static bool
entry_is_right(const struct index *index, const struct shard *shard, uint32_t number, unsigned slot)
{
	const struct index_bucket *bucket = shard_bucket(shard, number);
	const struct page_key *key = &bucket->entry[slot].key;
	uint32_t hash = key_hash(shard->hash_seed, key);
	struct index_candidates candidates = shard_candidates(shard, hash);
	unsigned other = candidates.bucket[0] == number;

	if (shard != &index->shard[index_shard(hash)] || candidates.bucket[!other] != number)
		return false;
	if (index_match(bucket, load_relaxed(&bucket->header), key) != 1u << slot)
		return false;
	return candidates.bucket[other] == number ||
	       !has_key(shard_bucket(shard, candidates.bucket[other]), key);
}

static int
walk_bucket(const struct index *index, const struct shard *shard, uint32_t number,
	    struct walk *walk)
{
	const struct index_bucket *bucket = shard_bucket(shard, number);

	if (bucket_same_filled(bucket) & ~bucket_valid(bucket) || bucket->spare)
		return -EUCLEAN;
	walk->entries += (unsigned)__builtin_popcount(bucket_valid(bucket));
	walk->same_filled += (unsigned)__builtin_popcount(bucket_same_filled(bucket));
	for (unsigned left = bucket_valid(bucket); left; left &= left - 1) {
		unsigned slot = (unsigned)__builtin_ctz(left);
		int error;

		if (!entry_is_right(index, shard, number, slot))
			return -EUCLEAN;
		error = walk->visit(walk->arg, &bucket->entry[slot].key, slot_value(bucket, slot));
		if (error)
			return error;
	}
	return 0;
}

static bool
shard_word_is_right(const struct index *index, const struct shard *shard)
{
	uint64_t word = load_relaxed(shard->word);
	/* Relaxed: it only grows, and a bucket of ours is below any size we could see. */
	uint64_t size = load_relaxed(&index->header->index_size);

	return index_shard_word_possible(word) &&
	       (1u << index_level(word)) + index_split(word) == shard->buckets &&
	       (uint64_t)shard->buckets * ZC_STRIPE_SIZE <= size;
}

static int
walk_end(const struct index *index, const struct shard *shard, const struct walk *walk)
{
	if (!shard_word_is_right(index, shard))
		return -EUCLEAN;
	if (shard->changes != walk->changes)
		return 0;
	return walk->entries == shard->entries && walk->same_filled == shard->same_filled
		       ? 0
		       : -EUCLEAN;
}

static int
walk_shard(const struct index *index, struct shard *shard, struct walk *walk)
{
	bool more = true;
	int error = 0;

	for (uint32_t number = 0; more && !error; number++) {
		lock_acquire(&shard->lock);
		if (number == 0)
			walk->changes = shard->changes;
		more = number < shard->buckets;
		error = more ? walk_bucket(index, shard, number, walk)
			     : walk_end(index, shard, walk);
		lock_release(&shard->lock);
	}
	return error;
}

int
index_walk(struct index *index, index_visit_fn *visit, void *arg)
{
	int error = 0;

	for (unsigned i = 0; i < ZC_SHARDS && !error; i++) {
		struct walk walk = {.visit = visit, .arg = arg};

		error = walk_shard(index, &index->shard[i], &walk);
	}
	return error;
}
