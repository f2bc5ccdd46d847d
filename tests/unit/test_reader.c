/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of shm/reader.c: what it says of each state of a pool, whether it survives any bytes, and
 * whether what it returns is right while a writer changes everything, for threads and for another
 * process with a read-only mapping.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bare_pool.h"

#define INDEX_MAX (64ULL << 20)
#define NO_LIMIT  (1ULL << 40)
#define PAGES	  512u
#define DATA_SIZE ((uint64_t)PAGES * BARE_PAGE_SIZE)

/* ---- Objects ---- */

static uint64_t *
raw_header(struct bare_pool *pool, uint64_t offset)
{
	struct page_group *group =
		(struct page_group *)(void *)(pool->control.base + ZC_GROUPS_OFFSET);
	uint64_t page = offset / BARE_PAGE_SIZE;

	return &group[page / ZC_GROUP_PAGES].object_header[page % ZC_GROUP_PAGES];
}

/* As zs_write() does it: a fence, then header and bytes. */
static void
write_object(struct bare_pool *pool, const struct page_key *key, uint64_t offset,
	     const void *stored, uint32_t length, enum zc_codec codec)
{
	char *object = pool->data.base + offset;
	uint64_t header =
		object_header_pack(bare_hash(key), object_checksum(stored, length, codec));

	fence_release(); /* pairs with the acquire fence in reader.c */
	if (length == BARE_PAGE_SIZE) {
		store_relaxed(raw_header(pool, offset), header); /* the fence gives the order */
		memcpy(object, stored, length);
	} else {
		store_relaxed((uint64_t *)(void *)object, header); /* as above */
		memcpy(object + ZC_OBJECT_HEADER_SIZE, stored, length);
	}
}

static uint64_t
put_object(struct bare_pool *pool, const struct page_key *key, uint64_t offset, const void *stored,
	   uint32_t length, enum zc_codec codec)
{
	struct index_value value = {location_pack(offset, length, codec, 0), false}, old;

	write_object(pool, key, offset, stored, length, codec);
	assert_in_range(bare_put(pool, key, value, &old), 0, 1);
	return value.word;
}

/* ---- One state at a time ---- */

struct one {
	struct bare_pool pool;
	struct pool_view view;
	struct page_key key;
	uint64_t word; /* of the key's object, at offset 64 */
	char value[1000];
	char stored[BARE_PAGE_SIZE];
	struct reader_result result;
};

static int
open_one(void **state)
{
	struct one *one = calloc(1, sizeof(*one));

	*state = one;
	bare_pool_open(&one->pool, INDEX_MAX, NO_LIMIT, DATA_SIZE);
	one->view = bare_pool_view(&one->pool);
	one->key = (struct page_key){1, 2};
	memset(one->value, 'v', sizeof(one->value));
	one->word =
		put_object(&one->pool, &one->key, 64, one->value, sizeof(one->value), ZC_CODEC_LZ4);
	return 0;
}

static int
close_one(void **state)
{
	struct one *one = *state;

	bare_pool_close(&one->pool);
	free(one);
	return 0;
}

static int
get(struct one *one)
{
	memset(one->stored, 0, sizeof(one->stored));
	return reader_get(&one->view, &one->key, one->stored, &one->result);
}

static int
exists(struct one *one)
{
	return reader_exists(&one->view, &one->key);
}

static void
assert_intact(struct one *one)
{
	assert_int_equal(get(one), 0);
	assert_int_equal(exists(one), 0);
	assert_true(one->result.word == one->word);
	assert_false(one->result.same_filled);
	assert_int_equal(one->result.length, sizeof(one->value));
	assert_memory_equal(one->stored, one->value, sizeof(one->value));
}

static void
set_word(struct one *one, uint64_t word)
{
	struct index_value old;

	assert_int_equal(bare_put(&one->pool, &one->key, (struct index_value){word, false}, &old),
			 1);
}

static void
test_hit_and_miss(void **state)
{
	struct one *one = *state;
	struct page_key other = {1, 3};

	assert_intact(one);
	assert_int_equal(reader_get(&one->view, &other, one->stored, &one->result), -ENOENT);
	assert_int_equal(reader_exists(&one->view, &other), -ENOENT);
}

static void
test_same_filled(void **state)
{
	struct one *one = *state;
	struct index_value fill = {0xdeadbeef00c0ffeeULL, true}, old;

	assert_int_equal(bare_put(&one->pool, &one->key, fill, &old), 1);
	assert_int_equal(get(one), 0);
	assert_true(one->result.same_filled);
	assert_true(one->result.word == fill.word);
	assert_int_equal(one->result.length, 0);
	assert_int_equal(exists(one), 0);
}

static void
test_raw(void **state)
{
	struct one *one = *state;
	char page[BARE_PAGE_SIZE];

	for (unsigned i = 0; i < sizeof(page); i++)
		page[i] = (char)(i * 7 + i / 256);
	put_object(&one->pool, &one->key, 70 * BARE_PAGE_SIZE, page, sizeof(page), ZC_CODEC_RAW);
	assert_int_equal(get(one), 0);
	assert_int_equal(one->result.length, sizeof(page));
	assert_memory_equal(one->stored, page, sizeof(page));
	*raw_header(&one->pool, 70 * BARE_PAGE_SIZE) ^= 1ULL << 40;
	assert_int_equal(get(one), -EBADMSG);
	assert_int_equal(exists(one), 0);
}

static void
test_damaged_object(void **state)
{
	struct one *one = *state;
	char *object = one->pool.data.base + 64;

	for (unsigned bit = 0; bit < 8 * (ZC_OBJECT_HEADER_SIZE + sizeof(one->value)); bit++) {
		object[bit / 8] ^= (char)(1 << bit % 8);
		assert_int_equal(get(one), -EBADMSG);
		object[bit / 8] ^= (char)(1 << bit % 8);
	}
	assert_intact(one);
}

static void
test_damaged_location(void **state)
{
	struct one *one = *state;

	for (unsigned bit = 0; bit < 64; bit++) {
		if (bit >= 58 && bit < 61)
			continue; /* flags that are for value.c to understand */
		set_word(one, one->word ^ 1ULL << bit);
		assert_int_equal(get(one), -EBADMSG);
	}
	set_word(one, one->word);
	assert_intact(one);
}

static void
test_impossible_locations(void **state)
{
	const struct {
		uint64_t offset;
		uint32_t length;
		enum zc_codec codec;
	} bad[] = {
		{0, 0, ZC_CODEC_POISON},
		{64, 0, ZC_CODEC_LZ4},
		{64, BARE_PAGE_SIZE + 1, ZC_CODEC_LZ4},
		{64, 0x1ffff, ZC_CODEC_LZ4},
		{64, 1000, (enum zc_codec)3},
		{64, BARE_PAGE_SIZE, ZC_CODEC_RAW}, /* raw objects begin with a page */
		{DATA_SIZE - 1000, 1000, ZC_CODEC_LZ4},
		{DATA_SIZE, BARE_PAGE_SIZE, ZC_CODEC_RAW},
		{ZC_DATA_SIZE_MAX - 8, BARE_PAGE_SIZE - 1, ZC_CODEC_ZSTD},
	};
	struct one *one = *state;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set_word(one, location_pack(bad[i].offset, bad[i].length, bad[i].codec, 0));
		assert_int_equal(get(one), -EBADMSG);
		assert_int_equal(exists(one), -EBADMSG);
	}
}

/* The engine has grown what we have mapped too little of: it can answer, we cannot. */
static void
test_mapped_too_short(void **state)
{
	struct one *one = *state;

	one->view.data_size = 64 + ZC_OBJECT_HEADER_SIZE + sizeof(one->value) - 1;
	assert_int_equal(get(one), -EAGAIN);
	one->view.data_size++;
	assert_intact(one);
	one->view.index_size = index_shard(bare_hash(&one->key)) * sizeof(struct index_bucket);
	assert_int_equal(get(one), -EAGAIN);
	assert_int_equal(exists(one), -EAGAIN);
}

static void
test_pool_that_is_not_live(void **state)
{
	const uint32_t states[] = {0, ZC_POOL_RECOVERING, ZC_POOL_DEAD, 77};
	struct one *one = *state;

	for (unsigned i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		one->pool.header->state = states[i];
		assert_int_equal(get(one), -EHOSTDOWN);
		assert_int_equal(exists(one), -EHOSTDOWN);
	}
	one->pool.header->state = ZC_POOL_LIVE;
	one->pool.header->epoch++;
	assert_intact(one);
}

static void
test_damaged_header(void **state)
{
	const uint64_t words[] = {
		1,	    0x100000000ULL * 27,   0x100000000ULL * 255,  UINT64_MAX,
		1ULL << 40, shard_word_pack(1, 2), shard_word_pack(20, 0)};
	struct one *one = *state;
	uint64_t *word = &one->pool.header->shard_word[index_shard(bare_hash(&one->key))];
	uint64_t right = *word;

	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		*word = words[i];
		assert_int_equal(get(one), -EBADMSG);
		assert_int_equal(exists(one), -EBADMSG);
	}
	*word = right;
	one->pool.header->index_size = 0;
	assert_int_equal(get(one), -EBADMSG);
}

/* ---- Any bytes ---- */

/* Buffers of exactly the sizes a view claims, so that AddressSanitizer sees a step outside. */
struct garbage {
	struct pool_view view;
	char *control, *index, *data;
	uint64_t random;
};

static char *
exact_buffer(uint64_t size)
{
	void *buffer = NULL;

	assert_int_equal(posix_memalign(&buffer, 4096, size), 0);
	memset(buffer, 0, size);
	return buffer;
}

static void
garbage_open(struct garbage *garbage, uint64_t control_size, uint64_t index_size,
	     uint64_t data_size, uint32_t page_size)
{
	*garbage = (struct garbage){.random = control_size + page_size};
	garbage->control = exact_buffer(control_size);
	garbage->index = exact_buffer(index_size);
	garbage->data = exact_buffer(data_size);
	garbage->view = (struct pool_view){
		.header = (const struct pool_header *)(void *)garbage->control,
		.index = garbage->index,
		.data = garbage->data,
		.control_size = control_size,
		.index_size = index_size,
		.data_size = data_size,
		.page_size = page_size,
		.hash_seed = BARE_SEED,
	};
}

static void
garbage_close(struct garbage *garbage)
{
	free(garbage->control);
	free(garbage->index);
	free(garbage->data);
}

static void
scramble(struct garbage *garbage, char *bytes, uint64_t size)
{
	for (uint64_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word = bare_random(&garbage->random);
		uint64_t more = bare_random(&garbage->random), mask = bare_random(&garbage->random);

		/* Small and large numbers, many bits set, few bits set. */
		if (word % 4 == 1)
			word >>= word / 4 % 64;
		else if (word % 4 == 2)
			word |= more | mask;
		else if (word % 4 == 3)
			word &= more & mask;
		memcpy(bytes + i, &word, 8);
	}
}

/* Headers and words that pass the first checks, so that the later ones are reached too. */
static void
make_plausible(struct garbage *garbage, const struct page_key *key)
{
	struct pool_header *header = (struct pool_header *)(void *)garbage->control;
	uint64_t *random = &garbage->random;
	uint64_t shard_word = shard_word_pack(1, bare_random(random) % 2);
	struct index_candidates candidates;
	unsigned shard = index_shard(bare_hash(key));

	header->state = ZC_POOL_LIVE;
	if (bare_random(random) % 4)
		header->shard_word[shard] = shard_word;
	if (bare_random(random) % 4)
		header->index_size = garbage->view.index_size;
	if (bare_random(random) % 4)
		header->data_size = garbage->view.data_size;
	candidates = index_candidates(bare_hash(key), shard_word);
	for (unsigned i = 0; i < 2; i++) {
		uint64_t offset = index_bucket_offset(shard, candidates.bucket[i]);
		struct index_bucket *bucket =
			(struct index_bucket *)(void *)(garbage->index + offset);
		struct index_entry *entry = &bucket->entry[bare_random(random) % ZC_BUCKET_ENTRIES];

		if (offset + sizeof(*bucket) > garbage->view.index_size)
			continue;
		entry->key = *key;
		if (bare_random(random) % 2)
			entry->word = location_pack(
				bare_random(random) % (2 * garbage->view.data_size) & ~7ULL,
				bare_random(random) % 4 ? bare_random(random) % 4096
							: garbage->view.page_size,
				(enum zc_codec)(bare_random(random) % 4), 0);
	}
}

static void
assert_answer(int answer)
{
	assert_true(answer == 0 || answer == -ENOENT || answer == -EBADMSG || answer == -EAGAIN ||
		    answer == -EHOSTDOWN);
}

static void
fuzz(struct garbage *garbage, unsigned rounds, unsigned answers[5])
{
	char *stored = malloc(garbage->view.page_size); /* exact, for AddressSanitizer */
	struct reader_result result;

	for (unsigned round = 0; round < rounds; round++) {
		struct page_key key = {round % 3, bare_random(&garbage->random) % 16};
		int answer;

		if (round % 16 == 0) {
			scramble(garbage, garbage->control, garbage->view.control_size);
			scramble(garbage, garbage->index, garbage->view.index_size);
		}
		if (round % 8)
			make_plausible(garbage, &key);
		answer = reader_get(&garbage->view, &key, stored, &result);
		assert_answer(answer);
		assert_answer(reader_exists(&garbage->view, &key));
		answers[answer == -ENOENT    ? 1
			: answer == -EBADMSG ? 2
			: answer == -EAGAIN  ? 3
			: answer	     ? 4
					     : 0]++;
	}
	free(stored);
}

static void
test_any_bytes(void **state)
{
	const struct {
		uint64_t control, index, data;
		uint32_t page_size;
	} sizes[] = {
		{4096, 4096, 4096, 4096},
		{4096, 3 * ZC_STRIPE_SIZE, 16 * 4096, 4096},
		{8192, 2 * ZC_STRIPE_SIZE + 4096, 100 * 4096, 4096},
		{8192, 3 * ZC_STRIPE_SIZE, 4 * 65536, 65536},
	};
	unsigned answers[5] = {0};

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct garbage garbage;

		garbage_open(&garbage, sizes[i].control, sizes[i].index, sizes[i].data,
			     sizes[i].page_size);
		scramble(&garbage, garbage.data, garbage.view.data_size);
		fuzz(&garbage, 20000, answers);
		garbage_close(&garbage);
	}
	print_message("found %u (same-filled), not there %u, damaged %u, ask %u, not live %u\n",
		      answers[0], answers[1], answers[2], answers[3], answers[4]);
	for (unsigned i = 0; i < 5; i++)
		assert_true(answers[i] > 0);
}

/* A good pool with flipped bits: what is found is right, whatever else was hit. */
static void
test_flipped_bits(void **state)
{
	struct bare_pool pool;
	struct garbage garbage;
	char value[100], stored[BARE_PAGE_SIZE];
	unsigned right = 0;

	(void)state;
	bare_pool_open(&pool, INDEX_MAX, NO_LIMIT, 64 * BARE_PAGE_SIZE);
	for (uint64_t i = 0; i < 2000; i++) {
		memset(value, (int)(i % 251), sizeof(value));
		put_object(&pool, &(struct page_key){0, i}, i * 112, value, sizeof(value),
			   ZC_CODEC_ZSTD);
	}
	garbage_open(&garbage, 8192, pool.header->index_size, 64 * BARE_PAGE_SIZE, BARE_PAGE_SIZE);
	for (unsigned round = 0; round < 60; round++) {
		memcpy(garbage.control, pool.control.base, 4096);
		memcpy(garbage.index, pool.index_segment.base, pool.header->index_size);
		memcpy(garbage.data, pool.data.base, 64 * BARE_PAGE_SIZE);
		for (unsigned flip = 0; flip < 300; flip++) {
			uint64_t random = bare_random(&garbage.random);

			garbage.index[random / 8 % garbage.view.index_size] ^=
				(char)(1 << random % 8);
			random = bare_random(&garbage.random);
			garbage.data[random / 8 % garbage.view.data_size] ^=
				(char)(1 << random % 8);
			random = bare_random(&garbage.random);
			if (round % 2) /* bytes that change: sizes, epoch, shard words */
				garbage.control[528 + random / 8 % 1008] ^= (char)(1 << random % 8);
		}
		for (uint64_t i = 0; i < 2000; i++) {
			struct reader_result result;
			int answer = reader_get(&garbage.view, &(struct page_key){0, i}, stored,
						&result);

			assert_answer(answer);
			if (answer || result.same_filled)
				continue; /* a fill word is all there is to a same-filled page */
			right++;
			memset(value, (int)(i % 251), sizeof(value));
			assert_int_equal(result.length, sizeof(value));
			assert_memory_equal(stored, value, sizeof(value));
		}
	}
	print_message("%u of %u found\n", right, 60 * 2000);
	assert_true(right > 20000);
	garbage_close(&garbage);
	bare_pool_close(&pool);
}

/* ---- Readers beside a writer ---- */

/*
 * Keys of the race: the first PERMANENT are never deleted. What the writer does to a key is
 * numbered, 1, 2, 3, and the number says what it is (operation_of), so a reader can judge what it
 * finds: it must be the result of an operation that was the last one acknowledged before the read
 * began, or a later one that had been started when the read was over.
 */
#define PERMANENT 48u
#define VOLATILE  48u
#define RACE_KEYS (PERMANENT + VOLATILE)
#define READERS	  2u
#define SLOT_SIZE 640u /* objects; with the raw pages behind them */
#define SLOTS	  (2 * RACE_KEYS)
#define RAW_PAGES (2 * RACE_KEYS)
#define RAW_START (256u * BARE_PAGE_SIZE)
static_assert(SLOTS * SLOT_SIZE <= RAW_START, "slots lie before the raw pages");
static_assert(256 + RAW_PAGES <= PAGES, "raw pages lie in the data segment");

enum operation {
	STORE,	   /* an object in a slot */
	STORE_RAW, /* a whole page */
	STORE_FILL,
	DELETE,
};

/* Shared with the reading process, beside the pool. All words atomic. */
struct race_shared {
	uint64_t started[RACE_KEYS];
	uint64_t acknowledged[RACE_KEYS];
	uint32_t stop;
	uint32_t ready; /* readers that have begun */
};

struct race {
	struct bare_pool pool;
	struct race_shared *shared;
	uint64_t random;
	uint64_t word[RACE_KEYS]; /* location, 0: none */
	uint32_t free_slot[SLOTS], free_raw[RAW_PAGES];
	unsigned free_slots, free_raws;
	uint64_t fillers;
	uint64_t moves;
	pthread_mutex_t
		freeing;     /* the allocator's class lock, so to speak: owner and keeper free */
	uint64_t moving_key; /* atomic */
};

struct reader {
	struct pool_view view;
	struct race_shared *shared;
	uint64_t random;
	uint64_t hits, misses, again;
	char why[160]; /* empty: nothing was wrong */
};

static struct page_key
race_key(unsigned number)
{
	return (struct page_key){77, number};
}

static uint64_t
mix(uint64_t a, uint64_t b)
{
	uint64_t state = a * 0x100000001b3ULL + b;

	return bare_random(&state);
}

static enum operation
operation_of(unsigned number, uint64_t version)
{
	uint64_t random = mix(number, version) % 16;

	if (version == 0)
		return DELETE;
	if (random < 4)
		return number < PERMANENT ? STORE : DELETE;
	return random < 6 ? STORE_RAW : random < 8 ? STORE_FILL : STORE;
}

static uint64_t
fill_word(unsigned number, uint64_t version)
{
	return (uint64_t)number << 48 | version;
}

/* Marked bytes: version, then words that follow from key and version. Returns their length. */
static uint32_t
make_value(unsigned number, uint64_t version, uint64_t *value)
{
	uint32_t length = BARE_PAGE_SIZE;

	if (operation_of(number, version) == STORE)
		length = 16 + (uint32_t)(mix(version, number) % ((SLOT_SIZE - 24) / 8)) * 8;
	value[0] = version;
	for (uint32_t i = 1; i < length / 8; i++)
		value[i] = mix(number, version) + i;
	return length;
}

/* The free list is last in, first out: freed bytes are used again at once. */
static uint64_t
race_alloc(struct race *race, enum operation operation)
{
	uint64_t offset;

	pthread_mutex_lock(&race->freeing);
	if (operation == STORE)
		offset = (uint64_t)race->free_slot[--race->free_slots] * SLOT_SIZE;
	else
		offset = RAW_START + (uint64_t)race->free_raw[--race->free_raws] * BARE_PAGE_SIZE;
	pthread_mutex_unlock(&race->freeing);
	return offset;
}

static void
race_free(struct race *race, uint64_t offset)
{
	pthread_mutex_lock(&race->freeing);
	if (offset < RAW_START)
		race->free_slot[race->free_slots++] = (uint32_t)(offset / SLOT_SIZE);
	else
		race->free_raw[race->free_raws++] =
			(uint32_t)((offset - RAW_START) / BARE_PAGE_SIZE);
	pthread_mutex_unlock(&race->freeing);
}

static void
race_release(struct race *race, struct index_value value)
{
	if (!value.same_filled)
		race_free(race, location_offset(value.word));
}

static struct index_value
race_value(struct race *race, unsigned number, uint64_t version, enum operation operation)
{
	uint64_t value[BARE_PAGE_SIZE / 8];
	struct page_key key = race_key(number);
	enum zc_codec codec = operation == STORE ? ZC_CODEC_LZ4 : ZC_CODEC_RAW;
	uint64_t offset;
	uint32_t length;

	if (operation == STORE_FILL)
		return (struct index_value){fill_word(number, version), true};
	length = make_value(number, version, value);
	offset = race_alloc(race, operation);
	write_object(&race->pool, &key, offset, value, length, codec);
	return (struct index_value){location_pack(offset, length, codec, 0), false};
}

static void
race_operate(struct race *race, unsigned number)
{
	struct page_key key = race_key(number);
	uint64_t version = load_relaxed(&race->shared->started[number]) + 1; /* our own word */
	enum operation operation = operation_of(number, version);
	struct index_value old;
	int result;

	/* Release and acquire in pairs with read_once(): before the change, and after it. */
	store_release(&race->shared->started[number], version);
	if (operation == DELETE)
		result = index_delete(race->pool.index, &key, bare_hash(&key), &old);
	else
		result = bare_put(&race->pool, &key, race_value(race, number, version, operation),
				  &old);
	assert_true(result == 0 || result == 1);
	if (result == 1)
		race_release(race, old);
	store_release(&race->shared->acknowledged[number], version);
}

/* Entries that only make the index grow: buckets split, entries are displaced. */
static void
race_grow(struct race *race)
{
	struct page_key key = {78, race->fillers++};
	struct index_value old;

	assert_int_equal(bare_put(&race->pool, &key, (struct index_value){1, true}, &old), 0);
}

static void
race_open(struct race *race)
{
	memset(race, 0, sizeof(*race));
	bare_pool_open(&race->pool, INDEX_MAX, NO_LIMIT, DATA_SIZE);
	race->shared = mmap(NULL, sizeof(*race->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(race->shared != MAP_FAILED);
	pthread_mutex_init(&race->freeing, NULL);
	for (uint32_t i = 0; i < SLOTS; i++)
		race->free_slot[race->free_slots++] = i;
	for (uint32_t i = 0; i < RAW_PAGES; i++)
		race->free_raw[race->free_raws++] = i;
	for (unsigned number = 0; number < PERMANENT; number++)
		race_operate(race, number);
}

static void
race_close(struct race *race)
{
	bare_pool_close(&race->pool);
	munmap(race->shared, sizeof(*race->shared));
	pthread_mutex_destroy(&race->freeing);
}

/* Moves the objects of random keys; takes them from the index, as compaction does from a zspage. */
static void *
mover_thread(void *arg)
{
	struct race *race = arg;
	uint64_t random = 99;

	/* Relaxed: a moment late is no harm. */
	while (!load_relaxed(&race->shared->stop)) {
		struct page_key key = race_key(bare_random(&random) % RACE_KEYS);
		struct index_value value;
		uint64_t from, to;

		if (!index_find(race->pool.index, &key, bare_hash(&key), &value) ||
		    value.same_filled || location_length(value.word) == BARE_PAGE_SIZE)
			continue;
		from = location_offset(value.word);
		to = race_alloc(race, STORE);
		if (index_move(race->pool.index, bare_hash(&key), from, to,
			       race->pool.data.base + to, race->pool.data.base + from, SLOT_SIZE)) {
			race_free(race, from);
			if (race->moves++ == 0)
				add_relaxed(&race->shared->ready, 1); /* only counted */
		} else {
			race_free(race, to);
		}
	}
	return NULL;
}

static bool
wrong(struct reader *reader, const char *what, unsigned number, uint64_t version, uint64_t low,
      uint64_t high)
{
	snprintf(reader->why, sizeof(reader->why), "%s: key %u, version %llu of %llu .. %llu", what,
		 number, (unsigned long long)version, (unsigned long long)low,
		 (unsigned long long)high);
	return false;
}

/* A hit must be whole, of this key, and of a version between the two words. */
static bool
check_hit(struct reader *reader, unsigned number, const struct reader_result *result,
	  const uint64_t *stored, uint64_t low, uint64_t high)
{
	uint64_t value[BARE_PAGE_SIZE / 8];
	uint64_t version = result->same_filled ? result->word & 0xffffffffffff : stored[0];
	enum operation operation = operation_of(number, version);

	reader->hits++;
	if (version < low || version > high)
		return wrong(reader, "not of its time", number, version, low, high);
	if (result->same_filled != (operation == STORE_FILL) || operation == DELETE)
		return wrong(reader, "wrong kind", number, version, low, high);
	if (result->same_filled)
		return result->word == fill_word(number, version) ||
		       wrong(reader, "fill word of another key", number, version, low, high);
	if (result->length != make_value(number, version, value) ||
	    memcmp(value, stored, result->length) != 0)
		return wrong(reader, "torn or of another key", number, version, low, high);
	return true;
}

static bool
check_miss(struct reader *reader, unsigned number, uint64_t low, uint64_t high)
{
	reader->misses++;
	for (uint64_t version = low; version <= high; version++)
		if (operation_of(number, version) == DELETE)
			return true;
	return wrong(reader, "missed", number, 0, low, high);
}

static bool
read_once(struct reader *reader)
{
	unsigned number = (unsigned)(bare_random(&reader->random) % RACE_KEYS);
	struct page_key key = race_key(number);
	uint64_t stored[BARE_PAGE_SIZE / 8];
	/* Acquire: pairs with the release after the change. */
	uint64_t low = load_acquire(&reader->shared->acknowledged[number]), high;
	struct reader_result result;
	int answer = reader_get(&reader->view, &key, stored, &result);

	fence_acquire(); /* what was started before the change that we saw */
	high = load_acquire(&reader->shared->started[number]);
	if (answer == 0)
		return check_hit(reader, number, &result, stored, low, high);
	if (answer == -ENOENT)
		return check_miss(reader, number, low, high);
	reader->again++;
	return answer == -EAGAIN || wrong(reader, "error", number, (uint64_t)-answer, low, high);
}

static void
read_until_stopped(struct reader *reader)
{
	bool ready = false;

	/* Relaxed: a moment late is no harm. */
	while (!load_relaxed(&reader->shared->stop) && read_once(reader)) {
		if (ready || !reader->hits || !reader->misses)
			continue;
		ready = true;
		add_relaxed(&reader->shared->ready, 1); /* only counted */
	}
	if (!ready) /* a fault: nobody is to wait for us */
		add_relaxed(&reader->shared->ready, 1);
}

static void *
reader_thread(void *arg)
{
	read_until_stopped(arg);
	return NULL;
}

/*
 * The writer's side: runs for `operations`, growing the index all the while. It begins when every reader has
 * had a hit and a miss and the mover has moved something, however late they get a CPU.
 */
static void
race_write(struct race *race, unsigned operations)
{
	while (load_relaxed(&race->shared->ready) < READERS + 1) /* only counted */
		sched_yield();
	for (unsigned i = 0; i < operations; i++) {
		race_operate(race, (unsigned)(bare_random(&race->random) % RACE_KEYS));
		race_grow(race);
	}
	store_relaxed(&race->shared->stop, 1); /* a moment late is no harm */
}

static void
assert_read_well(const struct reader *reader)
{
	if (reader->why[0])
		fail_msg("%s", reader->why);
	print_message("%llu hits, %llu misses, %llu undecided\n", (unsigned long long)reader->hits,
		      (unsigned long long)reader->misses, (unsigned long long)reader->again);
	assert_true(reader->hits > 0 && reader->misses > 0);
}

#define OPERATIONS 60000u

static void
test_threads_beside_a_writer(void **state)
{
	struct race *race = malloc(sizeof(*race));
	struct reader reader[READERS];
	pthread_t thread[READERS + 1];

	(void)state;
	race_open(race);
	for (unsigned i = 0; i < READERS; i++) {
		reader[i] =
			(struct reader){bare_pool_view(&race->pool), race->shared, i, 0, 0, 0, ""};
		assert_int_equal(pthread_create(&thread[i], NULL, reader_thread, &reader[i]), 0);
	}
	assert_int_equal(pthread_create(&thread[READERS], NULL, mover_thread, race), 0);
	race_write(race, OPERATIONS);
	for (unsigned i = 0; i <= READERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	print_message("%llu moves\n", (unsigned long long)race->moves);
	assert_true(race->moves > 0);
	for (unsigned i = 0; i < READERS; i++)
		assert_read_well(&reader[i]);
	race_close(race);
	free(race);
}

static const void *
map_read_only(const struct segment *segment)
{
	void *map = mmap(NULL, segment->reserve, PROT_READ, MAP_SHARED, segment->fd, 0);

	if (map == MAP_FAILED)
		_exit(2);
	return map;
}

/* A client: another process, another mapping, read-only. */
static void
run_client(const struct race *race, unsigned number)
{
	struct reader reader = {bare_pool_view(&race->pool), race->shared, number, 0, 0, 0, ""};

	reader.view.header = map_read_only(&race->pool.control);
	reader.view.index = map_read_only(&race->pool.index_segment);
	reader.view.data = map_read_only(&race->pool.data);
	read_until_stopped(&reader);
	if (reader.why[0])
		fprintf(stderr, "client %u: %s\n", number, reader.why);
	_exit(reader.why[0] || !reader.hits || !reader.misses);
}

static void
test_processes_beside_a_writer(void **state)
{
	struct race *race = malloc(sizeof(*race));
	pid_t child[READERS];
	pthread_t mover;

	(void)state;
	race_open(race);
	for (unsigned i = 0; i < READERS; i++) {
		child[i] = fork();
		assert_true(child[i] >= 0);
		if (child[i] == 0)
			run_client(race, i);
	}
	assert_int_equal(pthread_create(&mover, NULL, mover_thread, race), 0);
	race_write(race, OPERATIONS);
	assert_int_equal(pthread_join(mover, NULL), 0);
	for (unsigned i = 0; i < READERS; i++) {
		int status;

		assert_int_equal(waitpid(child[i], &status, 0), child[i]);
		assert_int_equal(status, 0);
	}
	race_close(race);
	free(race);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_hit_and_miss, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_same_filled, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_raw, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_damaged_object, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_damaged_location, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_impossible_locations, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_mapped_too_short, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_pool_that_is_not_live, open_one, close_one),
		cmocka_unit_test_setup_teardown(test_damaged_header, open_one, close_one),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_flipped_bits),
		cmocka_unit_test(test_threads_beside_a_writer),
		cmocka_unit_test(test_processes_beside_a_writer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
