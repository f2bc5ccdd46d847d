/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libzclient: keep pages compressed in zcached's shared memory.
 *
 * Functions return 0 or a positive result, or a negative errno; they print nothing, never abort and
 * keep no state outside the objects they return but a thread's last error text. All are thread safe:
 * a struct zc or zc_pool may be used by any number of threads at once; slow calls of one do not hold
 * up the others. Every call ends by its deadline (zc_set_timeout), and no call is a cancellation
 * point. When the service restarts, the library connects again by itself, within the deadline of
 * the call that noticed: zclient(7) says what that means for what was stored.
 *
 * Errors every call that talks to the service can return:
 *  -ETIMEDOUT     the deadline passed; a put or delete may or may not have been done
 *  -EHOSTDOWN     the service is not there and did not come back before the deadline; likewise
 *  -EACCES        it came back and this user may not connect, or may not do this
 *  -ECONNRESET    zc_pool_create, zc_pool_destroy, zc_compact_start: the connection was lost and
 *                 it is not known whether it was done; zc_open: the service hung up
 *  -EBADF         of a pool: it was destroyed, or the service came back without it; or zc_close
 *                 was called before
 *  -EPROTO        the service sent what is not the protocol, or says that we did
 *  -EPROTONOSUPPORT  it speaks another version
 *  -ENOMEM        of a call that stores nothing: no memory in this process
 *  -EPERM         called in a child of the process that opened (open again there)
 *  -EINVAL        an argument that makes no sense
 */
#ifndef ZCLIENT_H
#define ZCLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

#define ZC_VERSION_MAJOR 0
#define ZC_VERSION_MINOR 1

struct zc;	/* a connection to one service */
struct zc_pool; /* an open pool */

/* A page's name in its pool: e.g. a swap area and a slot, a file and a page, a hash and 0. */
typedef struct zc_key {
	uint64_t object;
	uint64_t index;
} zc_key;

/* Version of the library at run time, (major << 16 | minor). */
uint32_t zc_version(void);

/*
 * Where the service listens by default: $ZCACHED_SOCKET (not in set-user-id programs), or
 * /run/zcached/zcached.sock. Never NULL.
 */
const char *zc_default_socket(void);

enum zc_open_flags {
	ZC_NO_SHM = 1, /* use the socket only; so does ZC_NO_SHM=1 in the environment */
};

/*
 * Connects to the service at `socket_path` (NULL: zc_default_socket()). `flags`: enum zc_open_flags.
 * Returns 0 and the connection in *out; the caller closes it with zc_close after every pool opened
 * on it. Waits at most 10 s, and not at all for a service that is not there: -ENOENT (no such
 * socket), -ECONNREFUSED (nobody listens), -EACCES. -EINVAL (flags, path too long), -ENOMEM,
 * -EMFILE and whatever else socket(2) says, and the errors above.
 */
int zc_open(const char *socket_path, unsigned flags, struct zc **out);

/*
 * Closes and frees. *zc becomes NULL; NULL is accepted. No other call on it may be under way. A
 * pool still open stays to be closed: everything else on it returns -EBADF.
 */
void zc_close(struct zc **zc);

/* Deadline of each call from now on, in milliseconds; 0 means wait for ever. Default: 10,000. */
void zc_set_timeout(struct zc *zc, unsigned milliseconds);

/* Asks the service for a sign of life. 0 or an error. */
int zc_ping(struct zc *zc);

/*
 * What is known in words about the last error a call on `zc` or its pools returned to this thread,
 * mostly the service's; "" if there is nothing to add to the number. A thread keeps one text:
 * that of its last error on any connection. Valid until this thread's next call.
 */
const char *zc_error_text(struct zc *zc);

/* ---- pools ---- */

enum zc_kind {
	ZC_CACHE = 1,	/* may lose entries by policy */
	ZC_STORE = 2,	/* refuses when full */
	ZC_DURABLE = 3, /* for swap and disks */
};

/* What a pool is. All sizes in bytes. */
struct zc_pool_info {
	uint32_t struct_size; /* set by the caller: sizeof(struct zc_pool_info) */
	uint32_t kind;	      /* enum zc_kind */
	uint64_t pool_id;
	uint64_t limit;	    /* memory it may use */
	uint32_t page_size; /* longest value */
	uint32_t owner_uid;
	char name[64];
	char codec[16]; /* "lz4", "zstd:3" */
	uint64_t reserved[4];
};

/*
 * Opens an existing pool; NULL means "default". Returns 0 and the pool in *out (close it with
 * zc_pool_close before zc_close). -ENOENT: no such pool. -EACCES: the service does not let this
 * user. -EMFILE: too many pools on this connection. `flags` is 0 for now.
 */
int zc_pool_open(struct zc *zc, const char *name, unsigned flags, struct zc_pool **out);
void zc_pool_close(struct zc_pool **pool);

/* Facts of an open pool, as of when it was opened. 0 or -EINVAL (struct_size). */
int zc_pool_info(struct zc_pool *pool, struct zc_pool_info *info);

/*
 * Creates a pool from info->name, kind, page_size, limit and codec (0 and "" mean the service's
 * defaults). -EEXIST, -EINVAL, -EACCES, -ENOMEM, -ENOSPC.
 */
int zc_pool_create(struct zc *zc, const struct zc_pool_info *info);

/*
 * Destroys a pool and everything in it. -ENOENT, -EACCES (its owner and root may), -EBUSY (it is
 * part of the service's configuration).
 */
int zc_pool_destroy(struct zc *zc, const char *name);

/*
 * Lists the pools the caller may see: fills up to `room` elements of `list` (struct_size of the
 * first set by the caller) and returns how many there are, which may be more than `room`.
 */
int zc_pool_list(struct zc *zc, struct zc_pool_info *list, size_t room);

/* ---- pages ---- */

enum zc_put_flags {
	ZC_KEEP_OLD = 1, /* a refused overwrite keeps the old value; without it, it leaves a miss */
};

/*
 * Stores `length` bytes (1 .. the pool's page size) under `key`, replacing what was there. When it
 * returns 0, every later get, of any process, returns these bytes or newer ones. The buffer is the
 * caller's again on return. -EINVAL (length 0, unknown flag), -EMSGSIZE (longer than a page)
 *  -ENOSPC   the pool's limit is reached
 *  -ENOMEM   the service's memory cgroup or the machine has no room
 *  -EXFULL   too many keys collide in the index
 */
int zc_put(struct zc_pool *pool, zc_key key, const void *value, size_t length, unsigned flags);

/*
 * Fetches the value of `key` into `buffer` of `size` bytes. Returns its length in bytes (1 .. page
 * size); on an error the buffer is as it was.
 *  -ENOENT    not there (never stored, deleted, or dropped from a cache)
 *  -EBADMSG   it was stored and is damaged: until it is overwritten or deleted
 *  -EMSGSIZE  longer than `size`
 */
int zc_get(struct zc_pool *pool, zc_key key, void *buffer, size_t size);

/*
 * Deletes. 0, or -ENOENT when there was nothing (also when the connection was lost and the first
 * of two attempts did it).
 */
int zc_del(struct zc_pool *pool, zc_key key);

/* 1: there. 0: not there. -EBADMSG: there, and damaged. */
int zc_exists(struct zc_pool *pool, zc_key key);

/*
 * Deletes every page of `object` that was acknowledged before the call. Returns how many (at most
 * INT64_MAX). Takes time in proportion to the pool, in slices: other clients go on meanwhile.
 */
int64_t zc_del_object(struct zc_pool *pool, uint64_t object);

/* The same for every page of the pool. */
int64_t zc_flush(struct zc_pool *pool);

/* ---- batches ---- */

/* One page of a batch. */
struct zc_item {
	zc_key key;
	void *buffer;	/* put: the value, not changed; get: where it goes; del: not used */
	size_t length;	/* put: bytes of the value; get: room in the buffer */
	int64_t result; /* set: what zc_put, zc_get or zc_del would have returned */
};

/*
 * The same as zc_put, zc_get and zc_del for each of `count` items, and faster: the service's workers share the work.
 * Items of one key are done in the order of the array, others in any. Each item's result is set. Returns how many
 * items have a result of 0 or more; or, when nothing could be tried (-EINVAL, -EPERM, -EBADF), that error, with no
 * result set. The deadline is one for the whole batch: items that did not make it have -ETIMEDOUT.
 */
int64_t zc_put_many(struct zc_pool *pool, struct zc_item *items, size_t count, unsigned flags);
int64_t zc_get_many(struct zc_pool *pool, struct zc_item *items, size_t count);
int64_t zc_del_many(struct zc_pool *pool, struct zc_item *items, size_t count);

/* ---- asynchronous requests ---- */

struct zc_queue; /* requests in flight, with a channel of their own */

enum zc_opcode {
	ZC_OP_PUT = 1,
	ZC_OP_GET = 2,
	ZC_OP_DEL = 3,
	ZC_OP_EXISTS = 4,
};

struct zc_request {
	struct zc_pool *pool; /* of the zc that the queue was opened on */
	zc_key key;
	void *buffer;  /* put: the value, copied by zc_submit; get: written by zc_reap or zc_wait */
	size_t length; /* put: bytes of the value; get: room in the buffer */
	uint32_t opcode;
	uint32_t flags; /* of a put: enum zc_put_flags */
	void *data;	/* comes back in the completion */
};

struct zc_completion {
	void *data;
	int64_t result; /* what zc_put, zc_get, zc_del or zc_exists would have returned */
	uint32_t opcode;
	uint32_t pad;
};

/*
 * Opens a queue for at most `depth` (1 .. 4096) requests in flight. It uses a connection of its own. Requests of one
 * key in one queue are done in the order they were submitted, and a get sees the queue's earlier puts.
 * Any thread may use a queue; calls on one wait for each other. -EINVAL, -ENOMEM, and what zc_open returns.
 */
int zc_queue_open(struct zc *zc, unsigned depth, struct zc_queue **out);

/*
 * Cancels what is in flight (a put or delete may or may not be done; no buffer is touched any more) and closes. To be
 * called before zc_close. *queue becomes NULL; NULL is accepted.
 */
void zc_queue_close(struct zc_queue **queue);

/*
 * A descriptor that is readable when completions may be there: for poll(2) or an event loop, level-triggered.
 * After it was readable call zc_reap until it returns less than asked for. The queue's; not to be read or closed.
 */
int zc_queue_fd(struct zc_queue *queue);

/*
 * Submits up to `count` requests in order. Returns how many were taken: fewer when `depth` are in flight (0 is
 * possible). A request that is wrong in itself (-EINVAL, -EMSGSIZE) is taken and completes with that error.
 * -EPERM, -EBADF.
 */
int zc_submit(struct zc_queue *queue, const struct zc_request *requests, unsigned count);

/* Takes up to `room` completions that are there; never waits. Returns how many, each request's once. */
int zc_reap(struct zc_queue *queue, struct zc_completion *list, unsigned room);

/*
 * Waits until `at_least` (0 .. room) completions are there or nothing is in flight, then takes up to `room`. Returns
 * how many, or -ETIMEDOUT at the zc's deadline when fewer came (zc_reap takes those).
 */
int zc_wait(struct zc_queue *queue, unsigned at_least, struct zc_completion *list, unsigned room);

/* Which way the calls on a zc and its queues went so far. */
struct zc_paths {
	uint32_t struct_size; /* set by the caller */
	uint32_t pad;
	uint64_t direct_gets, ring_gets,
		socket_gets; /* direct: read from the pool's memory, no other process */
	uint64_t ring_puts, socket_puts;
	uint64_t ring_dels, socket_dels;
	uint64_t direct_exists, ring_exists, socket_exists;
	uint64_t direct_retries; /* direct reads that had to go another way */
	uint64_t reserved[6];
};
int zc_path_stats(struct zc *zc, struct zc_paths *paths);

/* ---- statistics and compaction ---- */

/*
 * Numbers of one pool. "OS pages" are of 4 KiB. Counters count since the pool was created; they and
 * the gauges are read at about the same moment.
 */
struct zc_stats {
	uint32_t struct_size; /* set by the caller: sizeof(struct zc_stats) */
	uint32_t pad;
	uint64_t entries;	 /* pages stored */
	uint64_t logical_bytes;	 /* what they are for their owners */
	uint64_t stored_bytes;	 /* compressed (or raw) bytes of all objects */
	uint64_t data_bytes;	 /* memory of the data segment: the pool proper */
	uint64_t index_bytes;	 /* memory of the index */
	uint64_t control_bytes;	 /* memory of the page table */
	uint64_t resident_bytes; /* what the kernel says all three cost (st_blocks) */
	uint64_t limit_bytes;	 /* resident_bytes never passes it */
	uint64_t same_filled;	 /* pages of one repeated word: they cost no data */
	uint64_t incompressible; /* pages stored raw */
	uint64_t poisoned;	 /* damaged pages not yet overwritten or deleted */
	uint64_t puts, hits, misses, deletes;
	uint64_t refused_limit, refused_memory, refused_collision, refused_invalid;
	uint64_t dropped_old; /* old values removed by a refused overwrite */
	uint64_t damaged;     /* damages found */
	uint64_t objects_moved, zspages_freed, pages_freed, compactions;
	uint64_t objects_packed; /* moved to shorten partly filled zspages */
	uint64_t reserved[7];
};
int zc_stats(struct zc_pool *pool, struct zc_stats *stats);

/* Numbers of the service itself. */
struct zc_service_stats {
	uint32_t struct_size; /* set by the caller */
	uint32_t workers;
	uint64_t uptime_ms;
	uint64_t connections, connections_total, connections_refused;
	uint64_t requests, protocol_errors, stalled_clients, denied;
	uint64_t boot_id; /* random at each start */
	char version[32];
	uint64_t reserved[8];
};
int zc_service_stats(struct zc *zc, struct zc_service_stats *stats);

/* One size class. */
struct zc_class {
	uint32_t struct_size; /* of the first element: set by the caller */
	uint32_t size;	      /* bytes of a slot */
	uint32_t pages_per_zspage, objects_per_zspage;
	uint64_t zspages, objects_allocated, objects_used;
	uint64_t pages_resident; /* OS pages */
	uint64_t zspages_freeable, moves_lower_bound;
	uint64_t fullness[11]; /* zspages: empty, then (0,10 %] .. (90,100 %] in use */
	uint64_t reserved[4];
};
/* Fills up to `room` classes (struct_size of the first set by the caller); returns how many there
 * are. */
int zc_classes(struct zc_pool *pool, struct zc_class *list, size_t room);

/* State of the running or of the last compaction of a pool. */
struct zc_compaction {
	uint32_t struct_size; /* set by the caller */
	uint32_t running;     /* 0 or 1 */
	uint32_t classes_done, classes_total;
	uint64_t estimate_pages, estimate_zspages, moves_lower_bound; /* when it started */
	uint64_t objects_moved, objects_busy, zspages_freed, pages_freed;
	uint64_t generation;			/* compactions started on this pool so far */
	uint64_t resident_before, resident_now; /* bytes */
	uint64_t objects_packed;		/* moved to shorten partly filled zspages */
	uint64_t reserved[3];
};

enum zc_compact_flags {
	ZC_ESTIMATE = 1, /* only say what it would do */
};
/*
 * Starts a compaction and returns at once with its estimate. -EALREADY while one runs. -EACCES:
 * only the pool's owner and root.
 */
int zc_compact_start(struct zc_pool *pool, unsigned flags, struct zc_compaction *state);
int zc_compact_status(struct zc_pool *pool, struct zc_compaction *state);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
