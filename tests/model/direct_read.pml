/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The model of direct reads: which keys, places and operations, by case. run.sh gives
 * -DCASE_..., -DWEAK for the weaker memory, and -DMUTANT_... for what must fail. README.md explains.
 *
 * Each case is a number of operations that the engine does, each chosen freely from a menu, after a
 * setup that no reader sees, while a reader looks for key K.
 */

#define K 0 /* the key the reader looks for */
#define F 1 /* foreign keys */
#define G 2
#define KEYS 3

#define PUT	1
#define FILL	2 /* put a same-filled page */
#define DELETE	3
#define MOVE	4
#define SPLIT	5
#define PUNCH	6
#define DESTROY 7
#define NOTHING 0

#define DO(what, which) op = what; key = which

#ifdef CASE_REPLACE
/* Insert, replace, kind change, delete, move, reuse of freed bytes and slots; one bucket. */
#define SLOTS	2
#define OBJECTS 3
#define SETUP_OPERATIONS 2
#ifndef OPERATIONS
#define OPERATIONS	 3
#endif
#define SETUP_MENU \
	if \
	:: left == 1 -> DO(PUT, K) \
	:: left == 1 -> DO(FILL, K) \
	:: left == 1 -> DO(NOTHING, K) \
	:: left == 0 -> DO(PUT, F) \
	:: left == 0 -> DO(NOTHING, F) \
	fi
#define MENU \
	if \
	:: DO(PUT, K) \
	:: DO(FILL, K) \
	:: DO(DELETE, K) \
	:: DO(PUT, F) \
	:: DO(FILL, F) \
	:: DO(DELETE, F) \
	:: DO(MOVE, K) \
	:: DO(PUNCH, K) \
	fi
#define HASHES CANDIDATES(K, 0, 0); CANDIDATES(F, 0, 0)
#endif

#ifdef CASE_DISPLACE
/* Two buckets of one slot: inserting F or G moves K to its other candidate, and back. */
#define SLOTS	1
#define OBJECTS 3
#define SETUP_OPERATIONS 1
#ifndef OPERATIONS
#define OPERATIONS	 4
#endif
#define SETUP_MENU \
	if \
	:: DO(PUT, K) \
	:: DO(FILL, K) \
	fi
#define MENU \
	if \
	:: DO(PUT, F) \
	:: DO(PUT, G) \
	:: DO(DELETE, F) \
	:: DO(DELETE, G) \
	:: DO(PUT, K) \
	:: DO(FILL, K) \
	:: DO(DELETE, K) \
	:: DO(MOVE, K) \
	fi
#define HASHES \
	if \
	:: CANDIDATES(K, 0, 1) \
	:: CANDIDATES(K, 1, 0) \
	fi; \
	CANDIDATES(F, 0, 0); \
	CANDIDATES(G, 1, 1)
#endif

#ifdef CASE_SPLIT
#define SHARD_CHANGES
/* Bucket 0 is split, K in it or in its other candidate, with whatever goes on before and after. */
#define SLOTS	1
#define OBJECTS 3
#define SETUP_OPERATIONS 2
#ifndef OPERATIONS
#define OPERATIONS	 3
#endif
#define SETUP_MENU \
	if \
	:: left == 1 -> DO(PUT, F) \
	:: left == 1 -> DO(NOTHING, F) \
	:: left == 0 -> DO(PUT, K) \
	:: left == 0 -> DO(FILL, K) \
	fi
#define MENU \
	if \
	:: DO(SPLIT, K) \
	:: DO(PUT, F) \
	:: DO(DELETE, F) \
	:: DO(PUT, K) \
	:: DO(FILL, K) \
	:: DO(DELETE, K) \
	:: DO(MOVE, K) \
	fi
#define HASHES \
	if \
	:: CANDIDATES(K, 2, 1) \
	:: CANDIDATES(K, 1, 2) \
	:: CANDIDATES(K, 2, 2) \
	:: CANDIDATES(K, 0, 2) \
	:: CANDIDATES(K, 2, 0) \
	fi; \
	if \
	:: CANDIDATES(F, 0, 1) \
	:: CANDIDATES(F, 1, 1) \
	fi
#endif

#ifndef SETUP_OPERATIONS
#define SETUP_OPERATIONS 1
#endif
#ifndef AFTER_MENU
#define AFTER_OPERATIONS 0
#define AFTER_MENU skip
#endif
#ifndef THREADS
#define THREADS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef BUFFER
#define BUFFER 16
#endif
#ifndef LAG
#ifdef WEAK
#define LAG 1
#else
#define LAG 0
#endif
#endif

#define CANDIDATES(key, first, second) hash[2 * (key)] = first; hash[2 * (key) + 1] = second

#include "memory.pml"
#include "engine.pml"
#include "reader.pml"

inline perform()
{
	if
	:: op == PUT -> pool_put()
	:: op == FILL -> fill = true; pool_put()
	:: op == DELETE -> pool_delete()
	:: op == MOVE -> compact()
	:: op == SPLIT && !latest[SHARD_WORD] -> shard_split()
	:: op == SPLIT && latest[SHARD_WORD]
	:: op == PUNCH -> punch()
	:: op == DESTROY -> pool_destroy()
	:: op == NOTHING
	fi;
	forget()
}

/* What the setup stored is in memory before anybody looks. */
inline settle()
{
	d_step {
		do
		:: n < WORDS -> memory[n] = latest[n]; n++
		:: else -> break
		od;
		n = 0;
		do
		:: pending[me] > 0 ->
			pending[me]--;
			target[me * BUFFER + pending[me]] = 0;
			stored[me * BUFFER + pending[me]] = 0
		:: else -> break
		od;
		lookup_at_once();
		current = value;
		at = 0;
		n = 0;
		value = 0
	}
}

#if THREADS == 1
active proctype engine()
{
	SCRATCH;
	byte me;

	atomic {
		HASHES;
		latest[EPOCH] = 1;
		latest[STATE] = LIVE;
		left = SETUP_OPERATIONS;
		do
		:: phase == SETUP && left > 0 ->
			left--;
			SETUP_MENU;
			perform()
		:: phase == SETUP && left == 0 ->
			settle();
			phase = RUN;
			left = OPERATIONS;
			deaths = DEATHS;
			run store_buffer(0);
			run reader()
		:: phase == RUN && left > 0 ->
			pending[0] <= LAG;
			left--;
			MENU;
			perform()
		:: phase == AFTER && left > 0 ->
			pending[0] <= LAG;
			left--;
			AFTER_MENU;
			perform()
		:: phase != SETUP && left == 0 -> break
		od;
		pending[0] == 0;
		goto finished;
killed:
		forget();
		deaths--;
		left = 0;
		pending[0] == 0;
		reread();
		recover();
		forget();
		phase = AFTER;
		left = AFTER_OPERATIONS;
	}
finished:
	skip /* reached */
}
#endif
