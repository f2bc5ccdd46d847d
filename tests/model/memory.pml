/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Shared memory and the store buffers in front of it. See README.md for what they stand for.
 *
 * memory[] is what readers see, one byte for each word of shm/layout.h that the protocol uses.
 * latest[] is what the engine has stored last; its threads may look at it where they hold the lock
 * that makes it theirs. A store goes into the buffer of its thread and from there, at any later
 * time, into memory: first in, first out (TSO), or with WEAK in any order that keeps
 *	two stores to one address in order,
 *	a release store behind all stores before it,
 *	all stores before a release fence before all stores behind it.
 */

/* ---- Addresses ---- */

#define BUCKETS 3 /* 0 and 1; 2 by the split of 0 */

#define EPOCH		      0
#define STATE		      1
#define SHARD_WORD	      2 /* only the split: 0, or 1 when bucket 0 is split */
#define HEADER(bucket)	      (3 + (bucket))
#define KEY(bucket, slot)     (6 + 2 * (bucket) + (slot))
#define WORD(bucket, slot)    (12 + 2 * (bucket) + (slot))
#define BYTE(object, n)	      (18 + 2 * (object) + (n)) /* two bytes an object */
#define CLASS_LOCK	      24
#define SHARD_LOCK	      25
#define WORDS		      26

#define LIVE	   1
#define RECOVERING 2
#define DEAD	   3

/*
 * A bucket's header: sequence, valid and same-filled slots. As many changes of one bucket as make
 * the sequence wrap are reported, because real ones have 44 bits.
 */
#define SEQUENCE(header)		 ((header) >> 4)
#define VALID(header)			 ((header) >> 2 & 3)
#define FILLED(header)			 ((header) & 3)
#define HEADER_PACK(sequence, valid, filled) ((sequence) << 4 | (valid) << 2 | (filled))

/*
 * A word is a location or, where the header says same-filled, the value itself. Values are the
 * versions 1, 2, ... of key K, and one for each foreign key. The bytes of an object are all equal
 * to its value. That location and value differ lets a reader be caught that mistakes one for the
 * other, and that takes a foreign key's value for its own.
 */
#define LOCATION	32
#define IS_LOCATION(word) ((word) >= LOCATION)
#define FOREIGN(key)	(16 + (key))
#define ABSENT		0
#define TORN		15

byte memory[WORDS];
byte latest[WORDS];

/* ---- What a lookup should find ---- */

/*
 * `current` is the value of K, or ABSENT. It changes where a store that TAKES_EFFECT reaches memory:
 * of the word for a replace of the same kind, of the header for all other changes. `seen` collects,
 * as a set of bits, what was current since the reader's try began.
 */
byte current;
short seen;

/*
 * The two candidate buckets of each key: hashes of two bits as index_address() takes them, with a
 * shard of level 1. 0 stays in bucket 0, 2 goes to bucket 2 when 0 is split, 1 is bucket 1.
 */
byte hash[2 * KEYS];

#define INDEX_ADDRESS(hash, split)   (((hash) & 1) | ((hash) & 2) * (((hash) & 1) < (split)))
#define CANDIDATE(key, n, split)     INDEX_ADDRESS(hash[2 * (key) + (n)], split)

/* What a lookup of K at one instant would find: sets `value`. */
inline lookup_at_once()
{
	value = ABSENT;
	n = 0;
	do
	:: n < 2 * SLOTS && value == ABSENT ->
		at = CANDIDATE(K, n / SLOTS, memory[SHARD_WORD]);
		if
		:: (VALID(memory[HEADER(at)]) >> (n % SLOTS) & 1) &&
		   memory[KEY(at, n % SLOTS)] == K ->
			value = memory[WORD(at, n % SLOTS)];
			if
			:: !(FILLED(memory[HEADER(at)]) >> (n % SLOTS) & 1) ->
				at = value - LOCATION;
				value = (memory[BYTE(at, 0)] == memory[BYTE(at, 1)] ->
						 memory[BYTE(at, 0)] : TORN)
			:: else
			fi
		:: else
		fi;
		n++
	:: else -> break
	od
}

/* ---- Store buffers ---- */

#define ADDRESS	     31
#define RELEASE	     32
#define TAKES_EFFECT 64
#define FENCE	     31 /* in place of an address */

byte target[THREADS * BUFFER]; /* address and flags */
byte stored[THREADS * BUFFER];
byte pending[THREADS];
byte left; /* operations still to come in this phase */

/* A thread's stores, by the process that has the thread's number in `me`. */
inline push(address_and_flags, what)
{
#if DEATHS
	/* The engine may be killed before any store. What it has stored will reach memory. */
	if
	:: true
	:: phase != SETUP && deaths > 0 -> goto killed
	fi;
#endif
	assert(pending[me] < BUFFER);
	latest[(address_and_flags) & ADDRESS] = what;
	target[me * BUFFER + pending[me]] = address_and_flags;
	stored[me * BUFFER + pending[me]] = what;
	pending[me]++
}

inline store_relaxed(address, what)
{
	push(address, what)
}

inline store_release(address, what)
{
	push((address) | RELEASE, what)
}

/* With TSO it orders nothing that is not ordered already: the compiler only. */
inline fence_release()
{
#ifdef WEAK
	if
	:: pending[me] > 0 ->
		target[me * BUFFER + pending[me]] = FENCE;
		pending[me]++;
		assert(pending[me] < BUFFER)
	:: else
	fi
#else
	skip
#endif
}

/* Takes entry i out of the buffer, and a fence that has come to its head. */
inline remove_entry()
{
	do
	:: i + 1 < pending[me] ->
		target[me * BUFFER + i] = target[me * BUFFER + i + 1];
		stored[me * BUFFER + i] = stored[me * BUFFER + i + 1];
		i++
	:: else -> break
	od;
	pending[me]--;
	target[me * BUFFER + pending[me]] = 0;
	stored[me * BUFFER + pending[me]] = 0;
	i = 0
}

/* Chooses an entry that may reach memory now. The first may always. */
inline choose_entry()
{
#ifdef WEAK
	do
	:: !(target[me * BUFFER + i] & RELEASE && passed) &&
	   !(passed >> (target[me * BUFFER + i] & ADDRESS) & 1) -> break
	:: i + 1 < pending[me] && target[me * BUFFER + i + 1] != FENCE ->
		passed = passed | 1 << (target[me * BUFFER + i] & ADDRESS);
		i++
	:: else -> i = 0; break
	od
#else
	skip
#endif
}

inline store_entry()
{
	at = target[me * BUFFER + i];
	memory[at & ADDRESS] = stored[me * BUFFER + i];
	remove_entry();
	do
	:: pending[me] > 0 && target[me * BUFFER] == FENCE -> remove_entry()
	:: else -> break
	od;
	passed = at;
	lookup_at_once();
	if
	:: passed & TAKES_EFFECT ->
		current = value;
		seen = seen | 1 << current
	:: else
	fi;
#ifndef MUTANT
	/* Mutants are for the reader to find. */
	assert(value == current || memory[STATE] == DEAD);
	assert(value != TORN || memory[STATE] == DEAD);
#endif
	passed = 0;
	n = 0;
	at = 0;
	value = 0
}

proctype store_buffer(byte me)
{
	byte i, n, at, value;
	int passed;

end:
	do
	:: atomic {
		pending[me] > (left > 0 -> LAG : 0) ->
		choose_entry();
		d_step { store_entry() }
	   }
	od
}
