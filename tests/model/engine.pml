/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: the writing side. Each inline has the name of the C function that it follows
 * (shm/pool.c, zspage.c, index.c, index_room.c, compact.c); stores are in the order of the code.
 *
 * With one thread locks are left out, so that nothing but the fences and release stores of the
 * protocol orders what it does. With two (case threads) they are there, see threads.pml.
 */

#define NONE 7

/* The allocator's and the caller's state, private to the engine. */
byte used;    /* set of objects that are allocated */
byte version; /* of K: how many values it was given */
byte phase;   /* SETUP, RUN or AFTER recovery */
byte deaths;  /* how often the engine may still be killed */

#define SETUP 0
#define RUN   1
#define AFTER 2

/* What an operation works with; reset by forget(), so that it makes no difference between states. */
#define SCRATCH                                                                            \
	byte op, key, place_bucket, place_slot, room_bucket, room_slot, object, to, word, old; \
	byte other, moved, n, at, value;                                                            \
	bool fill, old_fill, found

inline forget()
{
	d_step {
		op = 0; key = 0; place_bucket = 0; place_slot = 0; room_bucket = 0; room_slot = 0;
		object = 0; to = 0; word = 0; old = 0; other = 0; moved = 0; n = 0; at = 0; value = 0;
		fill = false; old_fill = false; found = false
	}
}

/* ---- Locks (lock.h): only where there are two threads ---- */

#if THREADS > 1
/* A read-modify-write with acquire. On x86 it also waits for the thread's own stores. */
inline lock_acquire(lock)
{
#ifdef WEAK
	d_step { memory[lock] == 0 -> memory[lock] = 1 }
#else
	d_step { memory[lock] == 0 && pending[me] == 0 -> memory[lock] = 1 }
#endif
}

inline lock_release(lock)
{
	store_release(lock, 0)
}
#else
inline lock_acquire(lock) { skip }
inline lock_release(lock) { skip }
#endif

/* ---- Parts of the index (index_private.h) ---- */

#define ALL_SLOTS	     ((1 << SLOTS) - 1)
#define IS_VALID(b, s)	     (VALID(latest[HEADER(b)]) >> (s) & 1)
#define IS_FILLED(b, s)	     (FILLED(latest[HEADER(b)]) >> (s) & 1)
#define IS_FULL(b)	     (VALID(latest[HEADER(b)]) == ALL_SLOTS)
#define FREE_SLOT(b)	     (VALID(latest[HEADER(b)]) & 1) /* the lowest, where it is not full */
#define EFFECT(key)	     (TAKES_EFFECT * ((key) == K))
#define FIRST(key)	     CANDIDATE(key, 0, latest[SHARD_WORD])
#define SECOND(key)	     CANDIDATE(key, 1, latest[SHARD_WORD])
#define OTHER(b, s)	     (FIRST(latest[KEY(b, s)]) == (b) -> SECOND(latest[KEY(b, s)]) : \
								FIRST(latest[KEY(b, s)]))
#define CAN_MOVE(b, s)	     ((s) < SLOTS && IS_FULL(b) && OTHER(b, s) != (b) && \
			      !IS_FULL(OTHER(b, s)))

/* Sets found, place_bucket and place_slot. */
inline find_key()
{
	d_step {
		do
		:: n < 2 * SLOTS && !found ->
			place_bucket = CANDIDATE(key, n / SLOTS, latest[SHARD_WORD]);
			place_slot = n % SLOTS;
			found = IS_VALID(place_bucket, place_slot) &&
				latest[KEY(place_bucket, place_slot)] == key;
			n++
		:: else -> break
		od;
		n = 0
	}
}

inline bucket_publish(bucket, valid, filled, effect)
{
	assert(SEQUENCE(latest[HEADER(bucket)]) < 15);
#ifdef MUTANT_PUBLISH_RELAXED
	store_relaxed(HEADER(bucket) | (effect),
		      HEADER_PACK(SEQUENCE(latest[HEADER(bucket)]) + 1, valid, filled))
#else
	store_release(HEADER(bucket) | (effect),
		      HEADER_PACK(SEQUENCE(latest[HEADER(bucket)]) + 1, valid, filled))
#endif
}

/* `set` becomes valid and, where `filled`, same-filled; `clear` becomes invalid. */
inline bucket_change(bucket, clear, set, filled, effect)
{
	bucket_publish(bucket, (VALID(latest[HEADER(bucket)]) & ~(clear)) | (set),
		       (FILLED(latest[HEADER(bucket)]) & ~((clear) | (set))) |
			       (filled) * (set), effect)
}

inline slot_write(bucket, slot, slot_key, slot_word)
{
#ifndef MUTANT_SLOT_WITHOUT_FENCE
	fence_release(); /* R2 */
#endif
	store_relaxed(KEY(bucket, slot), slot_key);
	store_relaxed(WORD(bucket, slot), slot_word)
}

/* A word of the same kind in place; the header store says that the old object goes. */
inline slot_rewrite(bucket, slot, slot_word, effect)
{
#ifdef MUTANT_REWRITE_RELAXED
	store_relaxed(WORD(bucket, slot) | (effect), slot_word);
#else
	store_release(WORD(bucket, slot) | (effect), slot_word);
#endif
#ifndef MUTANT_REWRITE_WITHOUT_SEQUENCE
	bucket_change(bucket, 0, 0, false, 0)
#endif
}

/* ---- Displacement (index_room.c) ---- */

/* Moves an entry to a free slot of its other candidate: valid there before invalid here. R3. */
inline move_entry(bucket, slot)
{
	other = OTHER(bucket, slot);
	moved = FREE_SLOT(other);
	slot_write(other, moved, latest[KEY(bucket, slot)], latest[WORD(bucket, slot)]);
#ifdef MUTANT_DISPLACE_REMOVES_FIRST
	n = IS_FILLED(bucket, slot);
	bucket_change(bucket, 1 << (slot), 0, false, 0);
	bucket_change(other, 0, 1 << moved, n, 0)
#else
	bucket_change(other, 0, 1 << moved, IS_FILLED(bucket, slot), 0);
	bucket_change(bucket, 1 << (slot), 0, false, 0)
#endif
}

/* Sets room_bucket and room_slot, the slot NONE where no entry of the two full buckets can move. */
inline shard_make_room(first, second, pinned)
{
	if
	:: CAN_MOVE(first, 0) && (pinned) != 0 -> room_bucket = first; room_slot = 0
	:: CAN_MOVE(first, 1) && (pinned) != 1 -> room_bucket = first; room_slot = 1
	:: CAN_MOVE(second, 0) && (pinned) != 0 -> room_bucket = second; room_slot = 0
	:: CAN_MOVE(second, 1) && (pinned) != 1 -> room_bucket = second; room_slot = 1
	:: else -> room_slot = NONE
	fi;
	if
	:: room_slot != NONE -> move_entry(room_bucket, room_slot)
	:: else
	fi
}

/* ---- Splits (index_room.c) ---- */

#define BELONGS(b, s) (CANDIDATE(latest[KEY(b, s)], 0, 1) == (b) || \
		       CANDIDATE(latest[KEY(b, s)], 1, 1) == (b))

/* Splits bucket 0 into 0 and 2. R4: the new bucket, then the shard word, then the old bucket. */
inline shard_split()
{
	do
	:: n < SLOTS ->
		if
		:: IS_VALID(0, n) && !BELONGS(0, n) ->
			slot_write(2, n, latest[KEY(0, n)], latest[WORD(0, n)]);
			moved = moved | 1 << n
		:: else
		fi;
		n++
	:: else -> break
	od;
#ifdef MUTANT_SPLIT_WORD_FIRST
	store_release(SHARD_WORD, 1);
#endif
	if
	:: moved -> bucket_publish(2, moved, FILLED(latest[HEADER(0)]) & moved, 0)
	:: else
	fi;
#ifdef MUTANT_SPLIT_OLD_BUCKET_FIRST
	if
	:: moved -> bucket_change(0, moved, 0, false, 0)
	:: else
	fi;
	store_release(SHARD_WORD, 1)
#else
#ifndef MUTANT_SPLIT_WORD_FIRST
#ifdef MUTANT_SPLIT_WORD_RELAXED
	store_relaxed(SHARD_WORD, 1);
#else
	store_release(SHARD_WORD, 1);
#endif
#endif
	if
	:: moved -> bucket_change(0, moved, 0, false, 0)
	:: else
	fi
#endif
}

/* ---- Operations of the index (index.c) ---- */

/* A replace that changes kind: a second slot of the same bucket, and one header store for both. */
inline replace_kind()
{
	room_bucket = place_bucket;
	room_slot = FREE_SLOT(place_bucket);
	if
	:: IS_FULL(place_bucket) -> shard_make_room(place_bucket, place_bucket, place_slot)
	:: else
	fi;
	if
	:: room_slot == NONE -> old = NONE
	:: else ->
		slot_write(place_bucket, room_slot, key, word);
		bucket_change(place_bucket, 1 << place_slot, 1 << room_slot, fill, EFFECT(key))
	fi
}

inline insert()
{
	if
	:: !IS_FULL(FIRST(key)) -> room_bucket = FIRST(key); room_slot = FREE_SLOT(room_bucket)
	:: IS_FULL(FIRST(key)) && !IS_FULL(SECOND(key)) ->
		room_bucket = SECOND(key);
		room_slot = FREE_SLOT(room_bucket)
	:: else -> shard_make_room(FIRST(key), SECOND(key), NONE)
	fi;
	if
	:: room_slot != NONE ->
		slot_write(room_bucket, room_slot, key, word);
		bucket_change(room_bucket, 0, 1 << room_slot, fill, EFFECT(key))
	:: else -> old = NONE
	fi
}

/* Sets `old` to the word that was replaced, 0 where there was none, NONE where there is no room. */
inline index_put()
{
	find_key();
	if
	:: found ->
		old = latest[WORD(place_bucket, place_slot)];
		old_fill = IS_FILLED(place_bucket, place_slot);
		if
		:: old_fill == fill -> slot_rewrite(place_bucket, place_slot, word, EFFECT(key))
		:: else -> replace_kind()
		fi
	:: else -> insert()
	fi
}

inline index_delete()
{
	find_key();
	if
	:: found ->
		old = latest[WORD(place_bucket, place_slot)];
		bucket_change(place_bucket, 1 << place_slot, 0, false, EFFECT(key))
	:: else
	fi
}

/* Sets place_bucket and place_slot to the entry that points at `object`. */
inline find_object()
{
	d_step {
		do
		:: n < BUCKETS * SLOTS && !found ->
			place_bucket = n / SLOTS;
			place_slot = n % SLOTS;
			found = IS_VALID(place_bucket, place_slot) &&
				!IS_FILLED(place_bucket, place_slot) &&
				latest[WORD(place_bucket, place_slot)] == LOCATION + object &&
				(place_bucket < 2 || latest[SHARD_WORD]);
			n++
		:: else -> break
		od;
		n = 0
	}
}

/* Copies `object` to the free object `to` and points its entry there. */
inline index_move()
{
	find_object();
	if
	:: found ->
#ifndef MUTANT_MOVE_WITHOUT_FENCE
		fence_release(); /* R2 */
#endif
		copy_bytes(to, latest[BYTE(object, 0)]);
#ifdef MUTANT_FREE_BEFORE_HEADER
		free_object(object);
#endif
#ifdef MUTANT_MOVE_WITHOUT_SEQUENCE
		store_release(WORD(place_bucket, place_slot), LOCATION + to)
#else
		slot_rewrite(place_bucket, place_slot, LOCATION + to, 0)
#endif
	:: else
	fi
}

/* ---- The allocator (zspage.c, trim.c) ---- */

/* In this order always: nothing tells the two bytes apart, and a reader loads them in either. */
inline copy_bytes(where, what)
{
	store_relaxed(BYTE(where, 0), what);
	store_relaxed(BYTE(where, 1), what)
}

/* The lowest free object, else NONE. */
inline zs_malloc(result)
{
	if
	:: !(used & 1) -> result = 0
	:: (used & 1) && !(used & 2) -> result = 1
	:: OBJECTS > 2 && (used & 3) == 3 && !(used & 4) -> result = 2
	:: used == (1 << OBJECTS) - 1 -> result = NONE
	fi;
	if
	:: result != NONE -> used = used | 1 << result
	:: else
	fi
}

inline zs_free(what)
{
	used = used & ~(1 << (what))
}

inline zs_write(where, what)
{
#ifndef MUTANT_OBJECT_WITHOUT_FENCE
	fence_release(); /* R2 */
#endif
	copy_bytes(where, what)
}

/* Memory of a free object goes back to the kernel and reads as zeros: a system call, so fenced. */
inline punch()
{
	zs_malloc(object);
	if
	:: object != NONE ->
		fence_release();
		copy_bytes(object, 0);
		fence_release();
		zs_free(object)
	:: else
	fi
}

/* ---- Operations of the pool (pool.c, compact.c) ---- */

inline free_object(what)
{
	lock_acquire(CLASS_LOCK);
	atomic {
		zs_free(what);
		lock_release(CLASS_LOCK)
	}
}

/* Gives `key` its next value: an object, or with `fill` a same-filled page. */
inline pool_put()
{
	if
	:: fill -> object = NONE
	:: else ->
		lock_acquire(CLASS_LOCK);
		atomic {
			zs_malloc(object);
			lock_release(CLASS_LOCK)
		}
	fi;
	atomic {
		if
		:: fill || object != NONE ->
			if
			:: key == K -> version++; word = version; assert(version < TORN)
			:: else -> word = FOREIGN(key)
			fi
		:: else
		fi
	}
	if
	:: word && !fill ->
		atomic {
			zs_write(object, word);
			word = LOCATION + object
		}
	:: else
	fi;
	if
	:: word ->
		lock_acquire(SHARD_LOCK);
		atomic {
			index_put();
			lock_release(SHARD_LOCK)
		}
		if
		:: old == NONE && !fill -> free_object(object) /* no room in the index */
		:: IS_LOCATION(old) -> free_object(old - LOCATION)
		:: else
		fi
	:: else
	fi
}

inline pool_delete()
{
	lock_acquire(SHARD_LOCK);
	atomic {
		index_delete();
		lock_release(SHARD_LOCK)
	}
	if
	:: IS_LOCATION(old) -> free_object(old - LOCATION)
	:: else
	fi
}

/* Moves any object that is in use, if an entry points at it, to any that is free. */
inline compact()
{
	lock_acquire(CLASS_LOCK);
	atomic {
		if
		:: used & 1 -> object = 0
		:: used & 2 -> object = 1
		:: used & 4 -> object = 2
		:: used == 0 -> object = NONE
		fi;
		zs_malloc(to);
		lock_release(CLASS_LOCK)
	}
	if
	:: object != NONE && to != NONE ->
		lock_acquire(SHARD_LOCK);
		atomic {
			index_move();
			lock_release(SHARD_LOCK)
		}
#ifdef MUTANT_FREE_BEFORE_HEADER
		if
		:: !found -> free_object(to)
		:: else
		fi
#else
		if
		:: found -> free_object(object)
		:: else -> free_object(to)
		fi
#endif
	:: to != NONE && object == NONE -> free_object(to)
	:: else
	fi
}

/* pool_destroy(): says DEAD, then punches the data, then the index. */
inline pool_destroy()
{
	store_release(STATE, DEAD);
	fence_release();
	copy_bytes(0, 0);
	fence_release();
	store_relaxed(HEADER(0), 0);
	store_relaxed(HEADER(1), 0)
}

/* ---- Recovery (design section 4): a new engine over what the old one left ---- */

#define MISPLACED(b, s)	((b) != FIRST(latest[KEY(b, s)]) && (b) != SECOND(latest[KEY(b, s)]))

/* Is the key of a valid, rightly placed entry also in its other candidate? */
inline find_duplicate(bucket, slot)
{
	d_step {
		other = OTHER(bucket, slot);
		found = false;
		moved = 0;
		do
		:: moved < SLOTS && !found ->
			found = other != (bucket) && IS_VALID(other, moved) &&
				latest[KEY(other, moved)] == latest[KEY(bucket, slot)];
			moved++
		:: else -> break
		od;
		moved = 0
	}
}

/* Drops the halves of a split and, whichever of the two, duplicates of a displacement. */
inline repair()
{
	do
	:: n < BUCKETS * SLOTS ->
		if
		:: IS_VALID(n / SLOTS, n % SLOTS) ->
			if
			:: MISPLACED(n / SLOTS, n % SLOTS) -> at = true
			:: else ->
				find_duplicate(n / SLOTS, n % SLOTS);
				if
				:: found -> at = true
				:: !found || other > n / SLOTS -> at = false
				fi
			fi;
			if
			:: at ->
				at = 0;
				found = false;
				bucket_change(n / SLOTS, 1 << (n % SLOTS), 0, false, 0)
			:: else
			fi
		:: else
		fi;
		other = 0;
		n++
	:: else -> break
	od;
	n = 0
}

/* The allocator's state, rebuilt from the index. */
inline rebuild()
{
	d_step {
		used = 0;
		do
		:: n < BUCKETS * SLOTS ->
			if
			:: IS_VALID(n / SLOTS, n % SLOTS) && !IS_FILLED(n / SLOTS, n % SLOTS) ->
				used = used | 1 << (latest[WORD(n / SLOTS, n % SLOTS)] - LOCATION)
			:: else
			fi;
			n++
		:: else -> break
		od;
		n = 0
	}
}

inline reread()
{
	d_step {
		do
		:: n < WORDS -> latest[n] = memory[n]; n++
		:: else -> break
		od;
		n = 0
	}
}

/*
 * The state before the epoch (release; pairs with the reader's acquire load of the epoch before that
 * of the state): a reader that has the new epoch must see that the pool is being recovered, or else
 * it would take the whole recovery for nothing.
 */
inline recover()
{
#ifdef MUTANT_RECOVERY_WITHOUT_EPOCH
	store_relaxed(STATE, RECOVERING);
#else
#ifdef MUTANT_RECOVERY_EPOCH_BEFORE_STATE
	store_release(EPOCH, latest[EPOCH] + 1);
	store_release(STATE, RECOVERING);
#else
	store_relaxed(STATE, RECOVERING);
#ifdef MUTANT_RECOVERY_EPOCH_RELAXED
	store_relaxed(EPOCH, latest[EPOCH] + 1);
#else
	store_release(EPOCH, latest[EPOCH] + 1);
#endif
#endif
#endif
	fence_release();
#ifndef MUTANT_RECOVERY_WITHOUT_REPAIR
	repair();
#endif
	rebuild();
	store_release(STATE, LIVE)
}
