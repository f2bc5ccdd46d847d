/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room in the index: displacement, splits of buckets, and the memory for new ones. Called by
 * index.c; the protocol towards readers is in index_private.h.
 *
 * Why three moves. While a shard is partly split, its unsplit buckets (U) are twice as likely for a
 * key as the split ones (S). With displacement U fills up entirely, S stays at 0.85 and has all the
 * room; a tenth of the entries of U can move to S. Two moves look at 220 entries and find such a
 * one but for one insertion in some thousands, three moves always, as long as the load allows.
 *
 * Locking: memory is taken outside all locks, by one thread at a time (`growing`); everything else
 * here runs under the shard lock.
 *
 * Left out: merging buckets (index memory is never given back while the pool lives).
 */
#include <errno.h>
#include <sched.h>

#include "index_private.h"
#include "object.h"

#define MOVES_MAX 3u

/*
 * Loads, in percent of a shard's slots. Memory comes in stripes, so all shards have room for as
 * many buckets as the fullest needs. Hence two marks. Above LOAD_SPLIT a shard splits a bucket if its
 * memory is there already, which keeps insertion cheap in all but the fullest shards. Above
 * grow_load() it asks for more memory; that mark decides what an entry costs. Where an entry finds
 * no room below LOAD_FORCED, keys collide and memory would not help.
 */
#define LOAD_SPLIT    85u
#define LOAD_GROW_MIN 94u
#define LOAD_GROW_MAX 97u
#define LOAD_FORCED   75u

#define TINY_BUCKETS	 16u  /* up to here chance alone fills a bucket at any load */
#define GROW_FRACTION	 128u /* a growth step is 1/128 of the stripes */
#define RESERVE_PATIENCE 16u  /* entries a shard waits for after memory was refused */

#define STRIPE_OS_PAGES (ZC_STRIPE_SIZE / ZC_OS_PAGE_SIZE)
static_assert(ZC_STRIPE_SIZE % ZC_OS_PAGE_SIZE == 0, "stripes are whole OS pages");

/* ---- Displacement ----------------------------------------------------------------------- */

/* A scan must meet what it removes: no such entry moves from the part to be scanned to the other. */
static bool
may_move(const struct shard *shard, const struct page_key *key, uint32_t from, uint32_t to)
{
	return from != to && (to >= shard->scan_cursor || !shard_awaits_scan(shard, from, key));
}

/* Moves an entry to a free slot of its other candidate. R3. */
static void
move_entry(struct shard *shard, struct place from, struct place to)
{
	struct index_bucket *source = shard_bucket(shard, from.bucket);
	struct index_bucket *target = shard_bucket(shard, to.bucket);
	struct index_value value = slot_value(source, from.slot);

	slot_write(target, to.slot, &source->entry[from.slot].key, value.word);
	bucket_change(shard, target, 0, 1u << to.slot, value.same_filled);
	bucket_change(shard, source, 1u << from.slot, 0, false);
	shard_count(&shard->displaced, 1);
}

/* For each entry of a full bucket, its other candidate; fetched, since all are looked at next. */
static void
other_candidates(const struct shard *shard, uint32_t from, uint32_t other[ZC_BUCKET_ENTRIES])
{
	const struct index_bucket *bucket = shard_bucket(shard, from);

	for (unsigned slot = 0; slot < ZC_BUCKET_ENTRIES; slot++) {
		uint32_t hash = key_hash(shard->hash_seed, &bucket->entry[slot].key);
		struct index_candidates candidates = shard_candidates(shard, hash);

		other[slot] = candidates.bucket[candidates.bucket[0] == from];
		__builtin_prefetch(shard_bucket(shard, other[slot]));
	}
}

/* A path of moves: where it stands, where it came from, which slots stay, how many moves are left.
 */
struct path {
	uint32_t bucket;
	uint32_t avoid;
	unsigned pinned;
	unsigned moves;
};

/*
 * Frees a slot of a full bucket and returns it, or -1 with nothing changed. With more than one
 * move, the last of the path comes first: it fills a free slot, each other the slot that the one
 * before it has freed.
 * A path never comes back to the bucket it set out from, whose entries the caller has looked at.
 */
static int
displace(struct shard *shard, struct path path)
{
	const struct index_bucket *bucket = shard_bucket(shard, path.bucket);
	uint32_t other[ZC_BUCKET_ENTRIES];

	other_candidates(shard, path.bucket, other);
	for (unsigned slot = 0; slot < ZC_BUCKET_ENTRIES; slot++) {
		int target;

		if (path.pinned >> slot & 1 || other[slot] == path.avoid ||
		    !may_move(shard, &bucket->entry[slot].key, path.bucket, other[slot]))
			continue;
		target = path.moves == 1 ? bucket_free_slot(shard_bucket(shard, other[slot]))
					 : displace(shard, (struct path){other[slot], path.bucket,
									 0, path.moves - 1});
		if (target < 0)
			continue;
		move_entry(shard, (struct place){path.bucket, slot},
			   (struct place){other[slot], (unsigned)target});
		return (int)slot;
	}
	return -1;
}

/*
 * Towards the end of a scan of everything nothing may move but into the few buckets that are left.
 * So room is made by removing what the scan is about to remove; it hands it to its caller later.
 */
static int
remove_early(struct shard *shard, uint32_t number, unsigned pinned)
{
	struct index_bucket *bucket = shard_bucket(shard, number);

	for (unsigned slot = 0; slot < ZC_BUCKET_ENTRIES; slot++) {
		const struct page_key *key = &bucket->entry[slot].key;
		struct index_value value = slot_value(bucket, slot);

		if (pinned >> slot & 1 || !shard_awaits_scan(shard, number, key) ||
		    shard->pending_count == PENDING_MAX)
			continue;
		shard->pending[shard->pending_count++] = (struct removed_entry){*key, value};
		bucket_change(shard, bucket, 1u << slot, 0, false);
		shard_count_entry(shard, value.same_filled, -1);
		return (int)slot;
	}
	return -1;
}

bool
shard_make_room(struct shard *shard, const uint32_t *bucket, unsigned n, unsigned pinned,
		struct place *place)
{
	for (unsigned i = 0; i < (MOVES_MAX + 1) * n; i++) {
		uint32_t from = bucket[i % n];
		unsigned moves = i / n + 1;
		int slot = moves <= MOVES_MAX
				   ? displace(shard, (struct path){from, from, pinned, moves})
				   : remove_early(shard, from, pinned);

		if (slot < 0)
			continue;
		*place = (struct place){from, (unsigned)slot};
		return true;
	}
	return false;
}

/* ---- Splits ----------------------------------------------------------------------------- */

static bool
load_above(uint64_t entries, uint32_t buckets, unsigned percent)
{
	return entries * 100 > (uint64_t)buckets * ZC_BUCKET_ENTRIES * percent;
}

static bool
can_split(const struct index *index, const struct shard *shard)
{
	/* Acquire: pairs with the release in grow_by(): the stripe is there. */
	return load_relaxed(&shard->buckets) < load_acquire(&index->stripes);
}

static uint64_t
shard_word_next(uint64_t word)
{
	unsigned level = index_level(word);
	uint32_t split = index_split(word) + 1;

	return split == 1u << level ? shard_word_pack(level + 1, 0) : shard_word_pack(level, split);
}

/* Copies to `target` the entries of bucket `from` that do not belong there under `next`. */
static unsigned
split_copy(const struct shard *shard, uint32_t from, struct index_bucket *target, uint64_t next)
{
	const struct index_bucket *source = shard_bucket(shard, from);
	unsigned moved = 0;

	for (unsigned left = bucket_valid(source); left; left &= left - 1) {
		unsigned slot = (unsigned)__builtin_ctz(left);
		const struct index_entry *entry = &source->entry[slot];
		uint32_t hash = key_hash(shard->hash_seed, &entry->key);
		struct index_candidates candidates = index_candidates(hash, next);

		if (candidates.bucket[0] == from || candidates.bucket[1] == from)
			continue;
		slot_write(target, slot, &entry->key, entry->word);
		moved |= 1u << slot;
	}
	return moved;
}

/*
 * Splits bucket b = `split` into b and the new last bucket n, whose memory is zero. Entries that
 * both could hold stay in b. R4, the order of the three stores and what a reader sees after each:
 *
 * 1. n's header. No shard word leads to n yet.
 * 2. The shard word (release; pairs with the acquire load in reader.c). A reader with the old word
 *    still finds everything where it was, b included. One with the new word finds n complete; for
 *    a key that moved it looks into n and not into b, so no reader meets both copies of an entry.
 *    An entry whose candidates changed but that lies in its other candidate is untouched.
 * 3. b's header without the entries that moved. A reader with the old word that misses one of them
 *    has acquired this store, hence its second look at the shard word shows the new one, and it
 *    starts again. One that copies what b's entry points at is told by b's header, as after any
 *    change: whatever frees that object comes after this store.
 *
 * The lock is held throughout: no entry that exists twice changes. An engine killed in between
 * leaves entries in b that belong to n, or copies in n that no shard word leads to: recovery drops
 * both.
 *
 * Under a scan: entries only move up. Those of a scanned bucket are scanned again in n, those of
 * another are met in n, because a scan ends at the last bucket there is then.
 */
static void
shard_split(struct shard *shard)
{
	uint64_t next = shard_word_next(load_relaxed(shard->word));
	uint32_t from = index_split(load_relaxed(shard->word));
	struct index_bucket *source = shard_bucket(shard, from);
	struct index_bucket *target = shard_bucket(shard, shard->buckets);
	unsigned moved = split_copy(shard, from, target, next);

	if (moved)
		bucket_publish(shard, target, moved, bucket_same_filled(source) & moved);
	store_release(shard->word, next);
	if (moved)
		bucket_change(shard, source, moved, 0, false);
	store_relaxed(&shard->buckets, shard->buckets + 1); /* who has no lock takes any value */
	shard_count(&shard->splits, 1);
}

void
shard_split_if_loaded(const struct index *index, struct shard *shard)
{
	if (load_above(shard->entries + 1, shard->buckets, LOAD_SPLIT) && can_split(index, shard))
		shard_split(shard);
}

int
shard_split_forced(const struct index *index, struct shard *shard, unsigned *splits_left)
{
	bool tiny = shard->buckets <= TINY_BUCKETS;

	if (*splits_left == 0 ||
	    !(tiny || load_above(shard->entries, shard->buckets, LOAD_FORCED))) {
		shard_count(&shard->collisions, 1);
		return -EXFULL;
	}
	if (!can_split(index, shard))
		return SPLIT_NEEDS_STRIPE;
	(*splits_left)--;
	shard_split(shard);
	return 0;
}

/* ---- Memory ----------------------------------------------------------------------------- */

/*
 * The load at which a shard asks for memory. The fewer buckets, the more the fullest shard is above
 * the mean (by 6 % at 100,000 entries, 2 % at a million), and it decides for all. Therefore
 * small indexes are packed tighter: an entry costs 28 to 29 bytes at every size, and large ones
 * need fewer moves for it.
 */
static unsigned
grow_load(uint32_t buckets)
{
	unsigned log2 = 31 - (unsigned)__builtin_clz(buckets);
	unsigned load = LOAD_GROW_MAX + 7 - (log2 < 7 ? 7 : log2);

	return load > LOAD_GROW_MIN ? load : LOAD_GROW_MIN;
}

/* Gives back what a failed growth took. What cannot be given back stays paid for. */
static void
ungrow(struct index *index, uint64_t offset, uint64_t length)
{
	if (segment_punch(index->segment, offset, length) == 0)
		budget_return(index->budget, length / ZC_OS_PAGE_SIZE);
}

static int
grow_by(struct index *index, uint32_t step)
{
	uint32_t stripes = load_relaxed(&index->stripes); /* only growers write it, and we are it */
	uint64_t offset = (uint64_t)stripes * ZC_STRIPE_SIZE;
	uint64_t length = (uint64_t)step * ZC_STRIPE_SIZE;
	int error;

	if (step > index->stripes_max - stripes)
		return -ENOSPC;
	error = budget_take_slow(index->budget, (uint64_t)step * STRIPE_OS_PAGES);
	if (error)
		return error;
	error = segment_grow(index->segment, offset + length);
	if (!error)
		error = segment_populate(index->segment, offset, length);
	if (error) {
		ungrow(index, offset, length);
		return error;
	}
	/* Release: whoever acquires a shard word that leads to the new buckets sees this size. */
	store_release(&index->header->index_size, offset + length);
	store_release(&index->stripes, stripes + step); /* pairs with can_split() */
	return 0;
}

/* Takes the next step of stripes, or one if that is too much. The caller holds `growing`. */
static int
grow(struct index *index)
{
	uint32_t step = load_relaxed(&index->stripes) / GROW_FRACTION; /* as in grow_by() */

	if (step > 1 && grow_by(index, step) == 0)
		return 0;
	return grow_by(index, 1);
}

static bool
try_begin_growing(struct index *index)
{
	return !exchange_acquire(&index->growing, 1); /* pairs with the release in end_growing() */
}

static void
end_growing(struct index *index)
{
	store_release(&index->growing, 0); /* pairs with try_begin_growing() */
}

/* Owner only, without the lock: entries and buckets may be any recent numbers, put looks again. */
void
index_reserve(struct index *index, uint32_t hash)
{
	struct shard *shard = shard_of(index, hash);
	uint64_t entries = load_relaxed(&shard->entries);
	uint32_t buckets = load_relaxed(&shard->buckets);

	if (!load_above(entries + 1, buckets, grow_load(buckets)) || can_split(index, shard))
		return;
	if (entries < shard->reserve_from || !try_begin_growing(index))
		return;
	lock_assert_no_lock();
	shard->reserve_from = grow(index) ? entries + RESERVE_PATIENCE : 0;
	end_growing(index);
}

int
index_grow_past(struct index *index, uint32_t buckets)
{
	int error = 0;

	lock_assert_no_lock();
	while (!try_begin_growing(index))
		sched_yield();
	if (load_relaxed(&index->stripes) <= buckets) /* we are the only writer */
		error = grow(index);
	end_growing(index);
	return error;
}
