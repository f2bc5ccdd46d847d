/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The protocol between index and reader, one instruction at a time. The CPU's trap flag raises a
 * signal after each instruction of one side, and the handler runs the other side:
 *
 * - a change of the index is stepped through, and readers look at it between any two instructions;
 * - a read is stepped through, and a change happens at once between two of its instructions,
 *   at a different place each time, until every place has had its turn.
 *
 * Threads (test_reader.c) hit windows of a few nanoseconds by luck; this hits each of them. What
 * it cannot show is a CPU that reorders: for that there are fences and their comments.
 * x86-64 only, and not under sanitizers, whose code would be stepped through as well.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <cmocka.h>

#include "bare_pool.h"
#include "index_private.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#if defined(__x86_64__) && !defined(SANITIZED)
#define CAN_STEP 1
#else
#define CAN_STEP 0
#endif

#if CAN_STEP

#define TRAP_FLAG   0x100u
#define INDEX_MAX   (1ULL << 20)
#define BUCKETS_MAX (INDEX_MAX / ZC_STRIPE_SIZE)
#define DATA_SIZE   (1ULL << 18)
#define OBJECT_SIZE 64u
#define SHARD	    23u /* all keys are of one shard: it grows while the others stay empty */
#define NUMBERS	    560u
#define PLACES	    40u	 /* in a read: closer than any two loads that matter */
#define KEYS	    460u /* stored at the start: a shard of some 50 buckets, loaded above 0.9 */

/* ---- A pool of numbered keys; each value is a version, which tells what it should be ---- */

struct world {
	struct bare_pool pool;
	struct pool_view view;
	uint64_t index_of[NUMBERS]; /* key.index of key number i */
	uint64_t version[NUMBERS];  /* 0: absent; even: an object, odd: same-filled */
	uint64_t next_version;
	uint64_t next_object;
};

static struct world world;

static struct page_key
key_of(unsigned number)
{
	return (struct page_key){1, world.index_of[number]};
}

static uint64_t
fill_word(unsigned number, uint64_t version)
{
	return version << 16 | number;
}

/* Objects go round the data segment: an old one stays whole until it is overwritten on purpose. */
static uint64_t
new_object(unsigned number, uint64_t version)
{
	struct page_key key = key_of(number);
	uint64_t stored[3] = {version, number, ~version};
	uint64_t offset = world.next_object++ % (DATA_SIZE / OBJECT_SIZE) * OBJECT_SIZE;
	uint64_t header = object_header_pack(bare_hash(&key),
					     object_checksum(stored, sizeof(stored), ZC_CODEC_LZ4));

	memcpy(world.pool.data.base + offset, &header, sizeof(header));
	memcpy(world.pool.data.base + offset + sizeof(header), stored, sizeof(stored));
	return location_pack(offset, sizeof(stored), ZC_CODEC_LZ4, 0);
}

static void
overwrite_object(struct index_value value)
{
	if (!value.same_filled)
		memset(world.pool.data.base + location_offset(value.word), 0x5a, OBJECT_SIZE);
}

/* The version of a key that a reader finds; 0: none; UINT64_MAX: something is wrong. */
static uint64_t
read_version(unsigned number)
{
	struct page_key key = key_of(number);
	struct reader_result result;
	uint64_t stored[BARE_PAGE_SIZE / 8];
	int answer = reader_get(&world.view, &key, stored, &result);

	if (answer == -ENOENT)
		return 0;
	if (answer)
		return UINT64_MAX;
	if (result.same_filled)
		return (result.word & 0xffff) == number ? result.word >> 16 : UINT64_MAX;
	return result.length == 24 && stored[1] == number && stored[2] == ~stored[0] ? stored[0]
										     : UINT64_MAX;
}

static int
put_version(unsigned number, uint64_t version, struct index_value *old)
{
	struct page_key key = key_of(number);
	struct index_value value = {.same_filled = version % 2};

	value.word = value.same_filled ? fill_word(number, version) : new_object(number, version);
	return bare_put(&world.pool, &key, value, old);
}

static void
world_open(void)
{
	uint64_t index = 0;

	memset(&world, 0, sizeof(world));
	bare_pool_open(&world.pool, INDEX_MAX, INDEX_MAX, DATA_SIZE);
	world.view = bare_pool_view(&world.pool);
	world.next_version = 2;
	for (unsigned number = 0; number < NUMBERS; number++) {
		do
			world.index_of[number] = ++index;
		while (index_shard(bare_hash(&(struct page_key){1, index})) != SHARD);
	}
	for (unsigned number = 0; number < KEYS; number++) {
		struct index_value old;

		world.version[number] = world.next_version++;
		assert_int_equal(put_version(number, world.version[number], &old), 0);
	}
}

static void
world_close(void)
{
	bare_pool_close(&world.pool);
}

/* ---- Changes of one key ---- */

enum change {
	INSERT,	 /* of a key that is absent */
	REPLACE, /* same kind */
	CHANGE_KIND,
	DELETE,
	MOVE,
	CHANGES,
};

/* The version after the change, chosen before it begins. */
static uint64_t
version_after(enum change change, unsigned number)
{
	uint64_t version = world.version[number];

	switch (change) {
	case INSERT:
		return world.next_version += 1 + world.next_version % 3;
	case REPLACE:
		return world.next_version += 2 - (world.next_version ^ version) % 2;
	case CHANGE_KIND:
		return world.next_version += 2 - (world.next_version ^ version ^ 1) % 2;
	case DELETE:
		return 0;
	default:
		return version;
	}
}

static void
move_object_of(unsigned number, struct index_value *old)
{
	struct page_key key = key_of(number);
	uint64_t to = world.next_object++ % (DATA_SIZE / OBJECT_SIZE) * OBJECT_SIZE;
	char *base = world.pool.data.base;

	index_find(world.pool.index, &key, bare_hash(&key), old);
	if (!old->same_filled)
		index_move(world.pool.index, bare_hash(&key), location_offset(old->word), to,
			   base + to, base + location_offset(old->word), OBJECT_SIZE);
}

/* What was there before is overwritten at once, as when its memory is used again. */
static void
make_change(enum change change, unsigned number, uint64_t version)
{
	struct page_key key = key_of(number);
	struct index_value old = {.same_filled = true};

	if (change == DELETE)
		index_delete(world.pool.index, &key, bare_hash(&key), &old);
	else if (change == MOVE)
		move_object_of(number, &old);
	else
		put_version(number, version, &old);
	overwrite_object(old);
}

/* ---- Stepping ---- */

typedef void step_fn(ucontext_t *context);
static step_fn *volatile on_step; /* NULL: steps are not counted */
static char trouble[200];

static void
handle_trap(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	if (on_step)
		on_step(context);
}

static void
begin_steps(step_fn *step)
{
	struct sigaction action = {.sa_sigaction = handle_trap, .sa_flags = SA_SIGINFO};

	trouble[0] = '\0';
	assert_int_equal(sigaction(SIGTRAP, &action, NULL), 0);
	on_step = step;
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() | TRAP_FLAG);
}

static void
end_steps(void)
{
	__builtin_ia32_writeeflags_u64(__builtin_ia32_readeflags_u64() & ~(uint64_t)TRAP_FLAG);
	on_step = NULL;
	if (trouble[0])
		fail_msg("%s", trouble);
}

static void
report(const char *what, enum change change, unsigned number, uint64_t version)
{
	if (!trouble[0])
		snprintf(trouble, sizeof(trouble), "%s: change %u, key %u, version %lld", what,
			 change, number, (long long)version);
}

/* ---- Readers between the instructions of a change ---- */

static struct {
	enum change change;
	unsigned number;
	uint64_t before, after;
	bool seen_after;
	uint64_t fingerprint;
	uint64_t steps, looks;
} stepped;

/* Changes with every store that readers could see, but for words that are rewritten in place. */
static uint64_t
fingerprint(void)
{
	uint64_t sum = world.pool.header->shard_word[SHARD];

	for (uint32_t bucket = 0; bucket < BUCKETS_MAX; bucket++) {
		uint64_t offset = index_bucket_offset(SHARD, bucket);

		if (offset < world.pool.header->index_size)
			sum = sum * 31 +
			      *(uint64_t *)(void *)(world.pool.index_segment.base + offset);
	}
	return sum;
}

static void
look_at_all(void)
{
	stepped.looks++;
	for (unsigned number = 0; number < NUMBERS; number++) {
		uint64_t version = number == stepped.number ? 0 : read_version(number);

		if (number != stepped.number && version != world.version[number])
			report("another key", stepped.change, number, version);
	}
}

static void
look_between_instructions(ucontext_t *context)
{
	uint64_t version = read_version(stepped.number), now = fingerprint();

	(void)context;
	stepped.steps++;
	if (version == stepped.after)
		stepped.seen_after = true;
	else if (version != stepped.before || stepped.seen_after)
		report("the key itself", stepped.change, stepped.number, version);
	if (now == stepped.fingerprint)
		return;
	stepped.fingerprint = now;
	look_at_all();
}

static void
step_through(enum change change, unsigned number)
{
	uint64_t after = version_after(change, number);

	stepped.change = change;
	stepped.number = number;
	stepped.before = world.version[number];
	stepped.after = after;
	stepped.seen_after = false;
	begin_steps(look_between_instructions);
	make_change(change, number, after);
	end_steps();
	assert_true(stepped.seen_after);
	world.version[number] = after;
	assert_int_equal(read_version(number), after);
}

static void
test_inserts_step_by_step(void **state)
{
	struct index_stats before, after;

	(void)state;
	world_open();
	index_stats(world.pool.index, &before);
	for (unsigned number = KEYS; number < KEYS + 8; number++)
		step_through(INSERT, number);
	index_stats(world.pool.index, &after);
	print_message("%u instructions, %u states; %u entries moved, %u splits\n",
		      (unsigned)stepped.steps, (unsigned)stepped.looks,
		      (unsigned)(after.displaced - before.displaced),
		      (unsigned)(after.splits - before.splits));
	assert_true(after.displaced > before.displaced && after.splits > before.splits);
	world_close();
}

static void
test_other_changes_step_by_step(void **state)
{
	(void)state;
	world_open();
	for (unsigned number = 0; number < 8; number++) {
		step_through(REPLACE, number);
		step_through(CHANGE_KIND, number);
		step_through(MOVE, number);
	}
	for (unsigned number = 8; number < 12; number++)
		step_through(DELETE, number);
	world_close();
}

/* ---- A change between the instructions of a read ---- */

/* The index as it was, private parts included: the same change is made again and again. */
static struct {
	struct index index;
	struct pool_header header;
	struct index_bucket bucket[BUCKETS_MAX];
	char data[DATA_SIZE];
	struct world world;
} saved;

static char *
bucket_address(uint32_t bucket)
{
	return world.pool.index_segment.base + index_bucket_offset(SHARD, bucket);
}

static void
save_all(void)
{
	memcpy(&saved.index, world.pool.index, sizeof(saved.index));
	memcpy(&saved.header, world.pool.header, sizeof(saved.header));
	memcpy(saved.data, world.pool.data.base, DATA_SIZE);
	for (uint32_t bucket = 0; bucket < BUCKETS_MAX; bucket++)
		memcpy(&saved.bucket[bucket], bucket_address(bucket), sizeof(struct index_bucket));
	saved.world = world;
}

static void
restore_all(void)
{
	memcpy(world.pool.index, &saved.index, sizeof(saved.index));
	memcpy(world.pool.header, &saved.header, sizeof(saved.header));
	memcpy(world.pool.data.base, saved.data, DATA_SIZE);
	for (uint32_t bucket = 0; bucket < BUCKETS_MAX; bucket++)
		memcpy(bucket_address(bucket), &saved.bucket[bucket], sizeof(struct index_bucket));
	world = saved.world;
}

static struct {
	enum change change;
	unsigned number; /* of the key that changes */
	uint64_t after;
	unsigned at;	/* the instruction of the read after which it does */
	unsigned count; /* instructions so far */
	bool done;
} interruption;

static void
interrupt_read(ucontext_t *context)
{
	if (interruption.count++ < interruption.at)
		return;
	context->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG; /* the rest at full speed */
	on_step = NULL;
	interruption.done = true;
	make_change(interruption.change, interruption.number, interruption.after);
}

/* One read of `number` with the change after instruction `at`; false if the read was over. */
static bool
read_interrupted(unsigned number, unsigned at, uint64_t *version)
{
	interruption.at = at;
	interruption.count = 0;
	interruption.done = false;
	begin_steps(interrupt_read);
	*version = read_version(number);
	end_steps();
	return interruption.done;
}

static unsigned
instructions_of_read(unsigned number)
{
	uint64_t version;

	assert_false(read_interrupted(number, UINT32_MAX, &version));
	return interruption.count;
}

/* Changes key `changed` at PLACES places of a read of `number`, each time from the same start. */
static void
interrupt_everywhere(enum change change, unsigned changed, unsigned number)
{
	unsigned stride = instructions_of_read(number) / PLACES + 1;
	uint64_t before = world.version[number], after, version;

	interruption.change = change;
	interruption.number = changed;
	interruption.after = version_after(change, changed);
	after = number == changed ? interruption.after : before;
	save_all();
	for (unsigned at = changed % stride; read_interrupted(number, at, &version); at += stride) {
		if (version != before && version != after)
			fail_msg("change %u of key %u after instruction %u of a read of key %u: "
				 "version %lld",
				 change, changed, at, number, (long long)version);
		restore_all();
	}
	restore_all();
}

/* Where a key lies: the bucket, UINT32_MAX for nowhere, and whether it is the second candidate. */
static uint32_t
bucket_holding(unsigned number, bool *second)
{
	struct page_key key = key_of(number);
	struct index_candidates candidates =
		index_candidates(bare_hash(&key), world.pool.header->shard_word[SHARD]);

	for (unsigned i = 0; i < 2; i++) {
		const struct index_bucket *bucket =
			(const struct index_bucket *)(const void *)bucket_address(
				candidates.bucket[i]);

		*second = i == 1;
		if (index_match(bucket, bucket->header, &key))
			return candidates.bucket[i];
	}
	return UINT32_MAX;
}

/*
 * A key that is displaced (or moved by a split) when `inserted` is. NUMBERS: none. Only the move
 * from the second candidate to the first can be missed by a reader that looks in that order.
 */
static unsigned
key_moved_by_insert(unsigned inserted, bool by_split)
{
	uint32_t where[NUMBERS], now;
	bool second[NUMBERS], second_now;
	unsigned found = NUMBERS;
	uint64_t word = world.pool.header->shard_word[SHARD];

	save_all();
	for (unsigned number = 0; number < NUMBERS; number++)
		where[number] = bucket_holding(number, &second[number]);
	make_change(INSERT, inserted, version_after(INSERT, inserted));
	if (by_split == (world.pool.header->shard_word[SHARD] != word)) {
		for (unsigned number = 0; number < NUMBERS; number++) {
			now = bucket_holding(number, &second_now);
			if (world.version[number] && now != where[number] &&
			    (by_split || (second[number] && !second_now)))
				found = number;
		}
	}
	restore_all();
	return found;
}

/* Inserts one key after the other, until `wanted` inserts have moved a key as asked. */
static void
interrupt_with_inserts(bool by_split, unsigned wanted)
{
	world_open();
	for (unsigned inserted = KEYS; inserted < NUMBERS && wanted; inserted++) {
		unsigned moved = key_moved_by_insert(inserted, by_split);
		uint64_t version = version_after(INSERT, inserted);

		if (moved < NUMBERS) {
			interrupt_everywhere(INSERT, inserted, moved);
			wanted--;
		}
		make_change(INSERT, inserted, version);
		world.version[inserted] = version;
	}
	assert_int_equal(wanted, 0);
	world_close();
}

static void
test_read_while_its_entry_is_displaced(void **state)
{
	(void)state;
	interrupt_with_inserts(false, 2);
}

static void
test_read_while_its_bucket_is_split(void **state)
{
	(void)state;
	interrupt_with_inserts(true, 2);
}

static void
test_read_while_its_key_changes(void **state)
{
	(void)state;
	world_open();
	for (enum change change = REPLACE; change < CHANGES; change++)
		interrupt_everywhere(change, 10, 10); /* an object */
	interrupt_everywhere(REPLACE, 11, 11);	      /* a same-filled page */
	interrupt_everywhere(CHANGE_KIND, 11, 11);
	interrupt_everywhere(INSERT, KEYS, KEYS);
	world_close();
}

#else

static void
test_cannot_step(void **state)
{
	(void)state;
	skip();
}

#endif

int
main(void)
{
	const struct CMUnitTest tests[] = {
#if CAN_STEP
		cmocka_unit_test(test_inserts_step_by_step),
		cmocka_unit_test(test_other_changes_step_by_step),
		cmocka_unit_test(test_read_while_its_entry_is_displaced),
		cmocka_unit_test(test_read_while_its_bucket_is_split),
		cmocka_unit_test(test_read_while_its_key_changes),
#else
		cmocka_unit_test(test_cannot_step),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
