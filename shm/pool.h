/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pool, as the engine owns it: three segments, an index and an allocator, and the operations on
 * pages that put them together.
 *
 * Who calls it: the worker that owns the key's shard (put, get, delete, scans), the keeper
 * (compaction through compact.h, trim), the control thread (create, destroy, stats), benches and
 * tests. pool_put and pool_delete of one shard must come from one thread at a time; everything else
 * is safe from any thread.
 *
 * Errors are negative errno values, one for each cause; errors leave the pool as it was, but for a
 * refused overwrite, which removes the old value (unless POOL_KEEP_OLD).
 */
#ifndef ZCACHED_SHM_POOL_H
#define ZCACHED_SHM_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "codec.h"
#include "compact.h"
#include "index.h"
#include "layout.h"
#include "reader.h"
#include "zspage.h"

struct pool_config {
	char name[ZC_POOL_NAME_SIZE];
	enum zc_pool_kind kind;
	uint32_t page_size;
	uint64_t limit;	      /* bytes of memory (st_blocks of all three memfds) */
	uint64_t address_max; /* bytes of data address space; 0: chosen from the limit */
	struct codec_config codec;
	uint32_t owner_uid;
	bool auto_compact;
};

struct pool;

/* Per thread: what an operation needs beside the pool. One thread at a time; never freed by a pool.
 */
struct pool_context {
	struct codec_stream *stream;
	unsigned thread; /* 0 .. POOL_THREADS_MAX - 1: whose counters to use */
	char *value;	 /* ZC_PAGE_SIZE_MAX bytes: a private copy of a value */
	char *stored;	 /* 2 * ZC_PAGE_SIZE_MAX bytes: compressed bytes */
};
#define POOL_THREADS_MAX 256u

int pool_context_create(unsigned thread, struct pool_context **out);
void pool_context_destroy(struct pool_context **context);

/*
 * -EINVAL: page size, kind, name or limit make no sense. -ENOSPC: the limit does not hold an empty
 * pool. -ENOMEM, -EMFILE, ...: from the system.
 */
int pool_create(const struct pool_config *config, struct ceiling *ceiling, struct pool **out);

/* Marks the pool DEAD for readers, punches its memory, closes it. No operation may be under way. */
void pool_destroy(struct pool **pool);

enum pool_flags {
	POOL_KEEP_OLD = 1, /* a refused overwrite keeps the old value */
};

/*
 * Stores `length` bytes (1 .. page_size) of `value` under `key`. `value` is copied before it is looked
 * at, so it may be memory that others write to. Returns
 *  0
 *  -EINVAL, -EMSGSIZE  length 0, or longer than a page: nothing has changed
 *  -ENOSPC  the pool's limit       }
 *  -ENOMEM  a memory cgroup's      } refused: an old value of the key is gone,
 *  -EXFULL  too many keys collide  } with POOL_KEEP_OLD it is kept
 */
int pool_put(struct pool *pool, struct pool_context *context, const struct page_key *key,
	     const void *value, uint32_t length, unsigned flags);

/*
 * Fetches the value of `key` into `buffer` (room for `size` bytes). Returns its length, -ENOENT, -EBADMSG
 * (damaged: until overwritten or deleted), -EMSGSIZE (longer than `size`; nothing is written). The thread that
 * owns the shard calls it: damage that it finds is made poison.
 */
int pool_get(struct pool *pool, struct pool_context *context, const struct page_key *key,
	     void *buffer, uint32_t size);

/* Returns 0 or -ENOENT. A damaged value is deleted like any other. */
int pool_delete(struct pool *pool, struct pool_context *context, const struct page_key *key);

/* Returns 0, -ENOENT or -EBADMSG. */
int pool_exists(struct pool *pool, struct pool_context *context, const struct page_key *key);

/* The shard of a key: requests are routed by it. */
unsigned pool_shard(const struct pool *pool, const struct page_key *key);

/*
 * Deletes in one shard everything of one object, or everything (object NULL), in slices. After
 * pool_scan_begin call pool_scan_slice until it returns false; *deleted is added to.
 */
void pool_scan_begin(struct pool *pool, unsigned shard);
bool pool_scan_slice(struct pool *pool, struct pool_context *context, unsigned shard,
		     const uint64_t *object, uint64_t *deleted);

/* One place for every number a pool counts: name, unit, what it means. */
#define POOL_COUNTERS(X)                                                                   \
	X(puts, "puts accepted")                                                           \
	X(hits, "gets that found their page")                                              \
	X(misses, "gets that found nothing")                                               \
	X(deletes, "pages deleted on request")                                             \
	X(refused_limit, "puts refused: the pool's limit")                                 \
	X(refused_memory, "puts refused: a memory cgroup's limit or the machine's memory") \
	X(refused_collision, "puts refused: too many keys collide")                        \
	X(refused_invalid, "puts refused: length 0 or longer than a page")                 \
	X(dropped_old, "old values removed because their overwrite was refused")           \
	X(damaged, "values found damaged")

struct pool_counters {
#define X(name, text) uint64_t name;
	POOL_COUNTERS(X)
#undef X
};

struct pool_stats {
	struct pool_counters count;
	uint64_t entries;	 /* pages stored */
	uint64_t logical_bytes;	 /* what they are for their owners */
	uint64_t stored_bytes;	 /* bytes of all objects, headers not counted (compressed or raw) */
	uint64_t same_filled;	 /* pages that are one word repeated: no object */
	uint64_t incompressible; /* pages stored raw */
	uint64_t poisoned;
	uint64_t data_bytes;	 /* memory of the data memfd, by the allocator's count */
	uint64_t index_bytes;	 /* memory of the index memfd */
	uint64_t control_bytes;	 /* memory of the control memfd: the page table */
	uint64_t resident_bytes; /* st_blocks of all three, from the kernel */
	uint64_t limit_bytes;
	uint64_t objects_moved, objects_packed, zspages_freed, pages_freed, compactions; /* ever */
	struct index_stats index;
};
void pool_stats(struct pool *pool, struct pool_stats *stats);

/* Changes the limit. Below what is in use, puts are refused until enough is deleted. */
int pool_set_limit(struct pool *pool, uint64_t bytes);

/*
 * The pool's files, control, index and data, as descriptors that allow to read only; made once, with the pool,
 * and shared by all who are given them. They stay the pool's. Returns 0, or -EOPNOTSUPP where the system
 * did not let us make them.
 */
#define POOL_FILES 3u
int pool_read_only(const struct pool *pool, int fd[POOL_FILES]);

/* Parts and immutable facts, for the keeper and for what maps pools into clients. */
const struct pool_config *pool_config(const struct pool *pool);
uint64_t pool_id(const struct pool *pool);
struct allocator *pool_allocator(struct pool *pool);
struct index *pool_index(struct pool *pool);
const struct pool_view *pool_view(const struct pool *pool);

/* Adds a compaction's result to the pool's statistics. */
void pool_count_compaction(struct pool *pool, const struct compact_result *result);

/*
 * Checks everything against everything: index, allocator, checksums. Returns 0, or -EUCLEAN with
 * the first fault in `why`. Objects in flight make no fault, so it can run online.
 */
int pool_check(struct pool *pool, struct pool_context *context, char *why, unsigned why_size);

#endif
