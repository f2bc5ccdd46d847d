/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads without a lock. See reader.h for who calls it, index_private.h for the order in which the
 * engine stores (R1 to R4, cited here).
 *
 * Locking: none, no state, no system call. The mapping may be read-only and its bytes anything.
 *
 * One try:
 *	epoch and state; shard word; the two candidate buckets;
 *	for each: header (acquire), keys of its valid slots;
 *	found: word (acquire), bounds, copy of object header and bytes (plain loads, raced with);
 *	acquire fence; header, epoch and state still what they were?  else again
 *	not found: acquire fence; both headers, shard word, epoch and state still what they were?
 *
 * Why a hit is right. The header loaded first says that the slot holds this key (R1 gives its key and
 * word). Bytes that were freed and used again show in the second look at the header (R2: whoever
 * wrote a byte that we saw had stored a header before it, and our fence makes us see that). So if
 * the header has not changed, the bytes are those the word points at, whole, and they were the
 * key's value when the header was loaded or later: never older than what was acknowledged before
 * the call. A word that changed between the two looks without a change of header is one whose
 * header store is still on its way: its object is whole (release of the word), and nothing is
 * freed before that header store.
 *
 * Why a miss is right. If neither header has changed between the first look and the second, there was a
 * moment, between the two, when both were as we saw them, and slots that are valid keep their keys.
 * If the shard word has not changed either, the key had no other candidate then. R3 and R4 say why
 * an entry on its way between buckets is not missed.
 *
 * A checksum tells nothing before the second look, since torn bytes are normal until then; after
 * it a wrong one is damage.
 */
#include "reader.h"

#include <errno.h>
#include <string.h>

#include "atomic.h"
#include "index.h"
#include "object.h"

#define TRIES	  64
#define TRY_AGAIN 1 /* something changed; never returned to callers */

/* What one try looked at, to be looked at again. */
struct attempt {
	const struct pool_view *view;
	const struct page_key *key;
	uint32_t hash;
	uint64_t epoch;
	uint64_t shard_word;
	const struct index_bucket *bucket[2];
	uint64_t header[2];
};

/* Room for the bytes of an object, and what they are checked against. */
struct copy {
	void *stored; /* NULL: the bytes are not wanted */
	uint64_t object_header;
};

static bool
in_range(uint64_t offset, uint64_t size, uint64_t limit)
{
	return size <= limit && offset <= limit - size;
}

#if defined(__SANITIZE_THREAD__)
#define COPY_WITHOUT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define COPY_WITHOUT_TSAN 1
#endif
#endif

/*
 * Copies bytes that the engine may be writing at the same moment. That race is part of the protocol:
 * what was copied counts only after the second look. It is kept in this function so that
 * ThreadSanitizer watches everything else; under it the bytes are moved one by one, since its
 * memcpy() reports for its caller. The asm keeps the compiler from copying again later, or less.
 */
__attribute__((no_sanitize("thread"))) static void
copy_raced(void *to, const void *from, size_t size)
{
#ifdef COPY_WITHOUT_TSAN
	volatile char *target = to;
	const volatile char *source = from;

	for (size_t i = 0; i < size; i++)
		target[i] = source[i];
#else
	memcpy(to, from, size);
#endif
	__asm__ volatile("" : : "r"(to) : "memory");
}

/* Sets the object's size. -EBADMSG: the engine writes no such location. */
static int
check_location(const struct pool_view *view, uint64_t word, uint64_t *size)
{
	uint32_t length = location_length(word);
	bool raw = length == view->page_size;
	uint64_t offset = location_offset(word);
	const unsigned flags = ZC_LOCATION_SHORT | ZC_LOCATION_LACKS_MASK
							   << ZC_LOCATION_LACKS_SHIFT;

	*size = raw ? length : length + ZC_OBJECT_HEADER_SIZE;
	if (location_codec(word) > ZC_CODEC_ZSTD || location_flags(word) & ~flags)
		return -EBADMSG;
	if (length == 0 || length > view->page_size || (raw && offset % view->page_size))
		return -EBADMSG;
	/* Relaxed: it only grows, and grew before the header was stored that we acquired. */
	if (!in_range(offset, *size, load_relaxed(&view->header->data_size)))
		return -EBADMSG;
	return in_range(offset, *size, view->data_size) ? 0 : -EAGAIN; /* mapped too short */
}

/* A raw object fills its pages, so its header is in the page table. */
static int
copy_raw(const struct pool_view *view, uint64_t offset, struct copy *copy)
{
	uint64_t page = offset / view->page_size;
	uint64_t header = ZC_GROUPS_OFFSET + page / ZC_GROUP_PAGES * sizeof(struct page_group) +
			  offsetof(struct page_group, object_header) +
			  page % ZC_GROUP_PAGES * sizeof(uint64_t);

	if (!in_range(header, sizeof(uint64_t), view->control_size))
		return -EAGAIN;
	copy_raced(&copy->object_header, (const char *)view->header + header, sizeof(uint64_t));
	copy_raced(copy->stored, view->data + offset, view->page_size);
	return 0;
}

static int
copy_object(const struct pool_view *view, uint64_t word, struct copy *copy)
{
	uint64_t offset = location_offset(word);
	const char *object = view->data + offset;
	uint64_t size;
	int error;

	error = check_location(view, word, &size);
	if (error || !copy->stored)
		return error;
	if (location_length(word) == view->page_size)
		return copy_raw(view, offset, copy);
	copy_raced(&copy->object_header, object, ZC_OBJECT_HEADER_SIZE);
	copy_raced(copy->stored, object + ZC_OBJECT_HEADER_SIZE, location_length(word));
	return 0;
}

static int
verify(const struct copy *copy, uint32_t hash, uint64_t word)
{
	uint32_t checksum =
		object_checksum(copy->stored, location_length(word), location_codec(word));

	return copy->object_header == object_header_pack(hash, checksum) ? 0 : -EBADMSG;
}

/* The second look, at the pool as a whole. Relaxed after the fence: R2, R3, R4. */
static bool
pool_unchanged(const struct attempt *attempt)
{
	const struct pool_header *header = attempt->view->header;

	return load_relaxed(&header->epoch) == attempt->epoch &&
	       load_relaxed(&header->state) == ZC_POOL_LIVE;
}

static bool
bucket_unchanged(const struct attempt *attempt, unsigned i)
{
	return load_relaxed(&attempt->bucket[i]->header) == attempt->header[i];
}

static bool
shard_unchanged(const struct attempt *attempt)
{
	const uint64_t *word = &attempt->view->header->shard_word[index_shard(attempt->hash)];

	return load_relaxed(word) == attempt->shard_word;
}

static __attribute__((noinline)) int
miss(const struct attempt *attempt)
{
	fence_acquire(); /* R3, R4 */
	return bucket_unchanged(attempt, 0) && bucket_unchanged(attempt, 1) &&
			       shard_unchanged(attempt) && pool_unchanged(attempt)
		       ? -ENOENT
		       : TRY_AGAIN;
}

static int
read_slot(const struct attempt *attempt, unsigned i, unsigned slot, void *stored,
	  struct reader_result *result)
{
	bool same_filled = index_same_filled_slots(attempt->header[i]) >> slot & 1;
	/* Acquire: pairs with the release of the word in slot_rewrite(). */
	uint64_t word = load_acquire(&attempt->bucket[i]->entry[slot].word);
	struct copy copy = {.stored = stored};
	int error = same_filled ? 0 : copy_object(attempt->view, word, &copy);

	fence_acquire(); /* R2: pairs with the release fences before slots and objects are written */
	if (!bucket_unchanged(attempt, i) || !pool_unchanged(attempt))
		return TRY_AGAIN;
	*result = (struct reader_result){
		.word = word,
		.same_filled = same_filled,
		.length = same_filled || !stored ? 0 : location_length(word),
	};
	return error || !result->length ? error : verify(&copy, attempt->hash, word);
}

/* A shard word that leads nowhere, if it stays so. */
static __attribute__((noinline)) int
lost(const struct attempt *attempt, int error)
{
	fence_acquire(); /* as in miss() */
	return shard_unchanged(attempt) && pool_unchanged(attempt) ? error : TRY_AGAIN;
}

static void
prefetch_bucket(const char *bucket)
{
	for (unsigned i = 0; i < sizeof(struct index_bucket); i += 64)
		__builtin_prefetch(bucket + i);
}

/* Finds the candidate buckets, both inside what is in use and what is mapped. */
static int
find_buckets(struct attempt *attempt)
{
	const struct pool_view *view = attempt->view;
	unsigned shard = index_shard(attempt->hash);
	struct index_candidates candidates;

	/* Acquire: pairs with the release in shard_split(); R4. */
	attempt->shard_word = load_acquire(&view->header->shard_word[shard]);
	if (!index_shard_word_possible(attempt->shard_word))
		return lost(attempt, -EBADMSG);
	candidates = index_candidates(attempt->hash, attempt->shard_word);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t offset = index_bucket_offset(shard, candidates.bucket[i]);

		/* Relaxed: it grew before the shard word that we acquired. */
		if (!in_range(offset, sizeof(struct index_bucket),
			      load_relaxed(&view->header->index_size)))
			return lost(attempt, -EBADMSG);
		if (!in_range(offset, sizeof(struct index_bucket), view->index_size))
			return lost(attempt, -EAGAIN); /* mapped too short */
		attempt->bucket[i] = (const struct index_bucket *)(view->index + offset);
		prefetch_bucket(view->index + offset);
	}
	return 0;
}

static int
try_once(struct attempt *attempt, void *stored, struct reader_result *result)
{
	const struct pool_header *header = attempt->view->header;
	int error;

	/* Acquire, both: nothing below is loaded before. Pair with recovery's stores. */
	attempt->epoch = load_acquire(&header->epoch);
	if (load_acquire(&header->state) != ZC_POOL_LIVE)
		return -EHOSTDOWN;
	error = find_buckets(attempt);
	if (error)
		return error;
	for (unsigned i = 0; i < 2; i++) {
		unsigned match;

		/* Acquire: pairs with the release in bucket_publish(); R1, R3. */
		attempt->header[i] = load_acquire(&attempt->bucket[i]->header);
		match = index_match(attempt->bucket[i], attempt->header[i], attempt->key);
		if (match)
			return read_slot(attempt, i, (unsigned)__builtin_ctz(match), stored,
					 result);
	}
	return miss(attempt);
}

static int
read_key(const struct pool_view *view, const struct page_key *key, void *stored,
	 struct reader_result *result)
{
	struct attempt attempt = {.view = view, .key = key, .hash = key_hash(view->hash_seed, key)};

	for (unsigned i = 0; i < TRIES; i++) {
		int error = try_once(&attempt, stored, result);

		if (error != TRY_AGAIN)
			return error;
		pause_cpu();
	}
	return -EAGAIN;
}

int
reader_get(const struct pool_view *view, const struct page_key *key, void *stored,
	   struct reader_result *result)
{
	return read_key(view, key, stored, result);
}

int
reader_exists(const struct pool_view *view, const struct page_key *key)
{
	struct reader_result result;

	return read_key(view, key, NULL, &result);
}

void
reader_prefetch(const struct pool_view *view, const struct page_key *key)
{
	uint32_t hash = key_hash(view->hash_seed, key);
	unsigned shard = index_shard(hash);
	/* Relaxed: a wrong guess costs nothing but time. */
	uint64_t shard_word = load_relaxed(&view->header->shard_word[shard]);
	struct index_candidates candidates;

	if (!index_shard_word_possible(shard_word))
		return;
	candidates = index_candidates(hash, shard_word);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t offset = index_bucket_offset(shard, candidates.bucket[i]);

		if (in_range(offset, sizeof(struct index_bucket), view->index_size))
			prefetch_bucket(view->index + offset);
	}
}
