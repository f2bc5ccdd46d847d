/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The reader: shm/reader.c, looking for key K for ever.
 *
 * One try is a set of loads, `todo`. Each is one step; between any two, anything may happen to
 * memory. A load may be done when those that must come before it are done: with TSO all that are
 * before it in the program (but for the two bytes of a copy, which string instructions may load in
 * any order); with WEAK only the acquire loads before it and the load that its address comes from,
 * and after the acquire fence all of the first look. So a processor may load a key, a word or a byte
 * before it knows whether it will be wanted. That is why a try begins with a guess of how it will
 * end: which slot holds the key, or none. A try that turns out otherwise starts again.
 */

/* Loads, in the order of the program. */
#define AT(load) (1 << (load))
#define L_EPOCH	 0
#define L_STATE	 1
#define L_SHARD	 2
#define L_HEADER(i) (3 + 3 * (i))
#define L_KEY(i, slot) (4 + 3 * (i) + (slot))
#define L_WORD	 9
#define L_BYTE0	 10
#define L_BYTE1	 11
#define FIRST_LOOK 4095
#define S_HEADER(i) (12 + (i))
#define S_SHARD	 14
#define S_EPOCH	 15
#define S_STATE	 16

#define MISS 4 /* a guess; else 2 * i + slot */

#define BEFORE(load) (AT(load) - 1)

#define BYTES (AT(L_BYTE0) | AT(L_BYTE1))

#ifdef WEAK

#ifdef MUTANT_EPOCH_LOAD_RELAXED
#define EPOCH_ACQUIRE 0
#else
#define EPOCH_ACQUIRE AT(L_EPOCH)
#endif
#define ACQUIRES (EPOCH_ACQUIRE | AT(L_STATE) | AT(L_SHARD) | AT(L_HEADER(0)) | \
		      AT(L_HEADER(1)) | AT(L_WORD))
#define NEEDS(load)  (ACQUIRES & BEFORE(load))
#define NEEDS_BYTE1  NEEDS(L_BYTE0)
#ifdef MUTANT_READER_WITHOUT_FENCE
#define NEEDS_SECOND(load) ACQUIRES
#else
#define NEEDS_SECOND(load) FIRST_LOOK
#endif

#else

#define NEEDS(load)	   BEFORE(load)
#define NEEDS_BYTE1	   BEFORE(L_BYTE0)
#define NEEDS_SECOND(load) BEFORE(load)

#endif

#define READY(load, needs) ((todo & AT(load)) && !(todo & (needs)))
#define DONE(load)	   todo = todo & ~AT(load)
#define BUCKET(i)	   CANDIDATE(K, i, shard)

/* What the second look is at. */
#ifdef MUTANT_HIT_IGNORES_HEADER
#define HIT_HEADER(i) 0
#else
#define HIT_HEADER(i) AT(S_HEADER(i))
#endif
#ifdef MUTANT_MISS_IGNORES_HEADERS
#define MISS_HEADERS 0
#else
#ifdef MUTANT_MISS_IGNORES_FIRST_HEADER
#define MISS_HEADERS AT(S_HEADER(1))
#else
#define MISS_HEADERS (AT(S_HEADER(0)) | AT(S_HEADER(1)))
#endif
#endif
#ifdef MUTANT_MISS_IGNORES_SHARD
#define MISS_SHARD 0
#else
#define MISS_SHARD AT(S_SHARD)
#endif
#ifdef MUTANT_READER_IGNORES_EPOCH
#define POOL_EPOCH 0
#else
#define POOL_EPOCH AT(S_EPOCH)
#endif
#ifdef MUTANT_READER_IGNORES_STATE
#define POOL_STATE 0
#else
#define POOL_STATE AT(S_STATE)
#endif
/* Words that do not change in a case are not looked at. */
#ifdef POOL_CHANGES
#define FIRST_OF_POOL (AT(L_EPOCH) | AT(L_STATE))
#define POOL	      (POOL_EPOCH | POOL_STATE)
#else
#define FIRST_OF_POOL 0
#define POOL	      0
#endif
#ifdef SHARD_CHANGES
#define FIRST_OF_SHARD AT(L_SHARD)
#else
#define FIRST_OF_SHARD 0
#undef MISS_SHARD
#define MISS_SHARD 0
#endif

#define OBJECT (AT(L_WORD) | BYTES)

/* The keys of the valid slots of a bucket below `end`. */
#define VALID_KEYS(i, header, end) \
	((VALID(header) & (1 << (end)) - 1) << L_KEY(i, 0))

/*
 * What follows the load of the header of bucket i: the key is in one of its valid slots, or not.
 * Keys behind the one that matches do not matter, nor do those of slots that are not valid.
 */
inline guess_outcome(i, header)
{
	if
	:: VALID(header) & 1 ->
		guess = 2 * (i);
		todo = todo | VALID_KEYS(i, header, 1) | OBJECT | HIT_HEADER(i) | POOL
	:: VALID(header) & 2 ->
		guess = 2 * (i) + 1;
		todo = todo | VALID_KEYS(i, header, 2) | OBJECT | HIT_HEADER(i) | POOL
	:: (i) == 0 -> todo = todo | VALID_KEYS(0, header, 2) | AT(L_HEADER(1))
	:: (i) == 1 ->
		todo = todo | VALID_KEYS(1, header, 2) | MISS_HEADERS | MISS_SHARD | POOL
	fi
}

inline load_header(i, header)
{
	atomic {
		READY(L_HEADER(i), NEEDS(L_HEADER(i))) ->
		DONE(L_HEADER(i));
		header = memory[HEADER(BUCKET(i))];
		guess_outcome(i, header)
	}
}

inline load_key(i, slot)
{
	atomic {
		READY(L_KEY(i, slot), NEEDS(L_KEY(i, 0))) ->
		DONE(L_KEY(i, slot));
		if
		:: (memory[KEY(BUCKET(i), slot)] == K) != (guess == 2 * (i) + (slot)) ->
			goto other_outcome
		:: else
		fi
	}
}

inline look_again(load, address, expected)
{
	atomic {
		READY(load, NEEDS_SECOND(load)) ->
		DONE(load);
		if
		:: memory[address] != (expected) -> goto try_again
		:: else
		fi
	}
}

/* Everything of a try but its begin. */
inline try_once()
{
	do
	:: d_step {
		READY(L_EPOCH, NEEDS(L_EPOCH)) ->
		DONE(L_EPOCH);
		epoch = memory[EPOCH]
	   }
	:: atomic {
		READY(L_STATE, NEEDS(L_STATE)) ->
		DONE(L_STATE);
		if
		:: memory[STATE] != LIVE -> goto not_live
		:: else
		fi
	   }
	:: d_step {
		READY(L_SHARD, NEEDS(L_SHARD)) ->
		DONE(L_SHARD);
		shard = memory[SHARD_WORD]
	   }
	:: load_header(0, header0)
	:: load_key(0, 0)
	:: load_key(0, 1)
	:: load_header(1, header1)
	:: load_key(1, 0)
	:: load_key(1, 1)
	:: d_step {
		READY(L_WORD, NEEDS(L_WORD)) ->
		DONE(L_WORD);
		word = memory[WORD(BUCKET(guess / 2), guess % 2)];
		if
		:: !IS_LOCATION(word) -> todo = todo & ~BYTES
		:: else
		fi
	   }
	:: d_step {
		READY(L_BYTE0, NEEDS(L_BYTE0)) ->
		DONE(L_BYTE0);
		byte0 = memory[BYTE(word - LOCATION, 0)]
	   }
	:: d_step {
		READY(L_BYTE1, NEEDS_BYTE1) ->
		DONE(L_BYTE1);
		byte1 = memory[BYTE(word - LOCATION, 1)]
	   }
	:: look_again(S_HEADER(0), HEADER(BUCKET(0)), header0)
	:: look_again(S_HEADER(1), HEADER(BUCKET(1)), header1)
	:: look_again(S_SHARD, SHARD_WORD, shard)
	:: look_again(S_EPOCH, EPOCH, epoch)
	:: look_again(S_STATE, STATE, LIVE)
	:: atomic { todo == 0 -> goto unchanged }
	od
}

/* The answer of a try that saw nothing change. */
inline check_answer()
{
	if
	:: guess == MISS ->
		assert(seen & AT(ABSENT)) /* reached */
	:: guess != MISS && FILLED((guess < 2 -> header0 : header1)) >> (guess % 2) & 1 ->
		assert(!IS_LOCATION(word)); /* reached */
		assert(word < TORN && seen >> word & 1)
	:: else ->
		assert(IS_LOCATION(word));     /* reached */
		assert(byte0 == byte1);	       /* one version */
		assert(byte0 < TORN);	       /* not a foreign key's */
		assert(byte0 != ABSENT);       /* not memory that was punched */
		assert(seen >> byte0 & 1)      /* neither too old nor never current */
	fi
}

proctype reader()
{
	byte guess, epoch, shard, header0, header1, word, byte0, byte1;
	int todo;

begin:
	atomic {
		guess = MISS;
		todo = FIRST_OF_POOL | FIRST_OF_SHARD | AT(L_HEADER(0));
		seen = 1 << current
	}
	try_once();
unchanged:
	atomic {
		check_answer();
		goto end_of_try;
not_live: /* -EHOSTDOWN */
		skip; /* reached by death */
		goto end_of_try;
try_again:
		skip; /* reached */
other_outcome:
end_of_try:
		skip;
		d_step {
			guess = 0;
			todo = 0;
			epoch = 0;
			shard = 0;
			header0 = 0;
			header1 = 0;
			word = 0;
			byte0 = 0;
			byte1 = 0;
			seen = 0
		}
	}
	goto begin
}
