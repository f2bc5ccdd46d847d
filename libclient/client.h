/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the public functions share: the public objects, the way a request goes out, the texts of
 * errors, and structs that may be of another size in the caller's build.
 *
 * Used by the client*.c and queue*.c files only.
 */
#ifndef ZCLIENT_CLIENT_H
#define ZCLIENT_CLIENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include <zclient.h>

#include "attachment.h"
#include "reader_slot.h"
#include "rings.h"
#include "transport.h"

/* Page sizes that pools can have: 4 to 64 KiB. There is a channel for each that is put to. */
#define PAGE_SIZES 5u

/* 0 .. PAGE_SIZES - 1, or PAGE_SIZES for what is no page size. */
static inline unsigned
page_size_number(uint32_t page_size)
{
	unsigned number = 0;

	while (number < PAGE_SIZES && page_size != ZC_PAGE_SIZE_MIN << number)
		number++;
	return number;
}

/*
 * What a channel is asked to have; the service may give less. Enough in flight to keep the workers of a large
 * machine busy; and with channels of all page sizes less than the 4 MiB that a connection may have.
 */
#define CHANNEL_ENTRIES_WANTED 64u
static inline uint32_t
channel_slots_wanted(uint32_t page_size)
{
	return page_size > 16384 ? (1u << 20) / page_size : 64;
}

/* Calls by the way they went; atomic, each counted once, in no order with anything. */
struct path_counts {
	uint64_t ring_gets, socket_gets;
	uint64_t ring_puts, socket_puts;
	uint64_t ring_dels, socket_dels;
	uint64_t ring_exists, socket_exists;
};

/* A connection. What is not atomic and does not lock for itself is set by zc_open for good. */
struct zc {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	uint64_t serial; /* never used again, unlike the address */
	unsigned forks;	 /* client_forks when it was opened */
	bool closed;	 /* zc_close was called before the last zc_pool_close */
	bool shared_memory;
	atomic_uint timeout;
	atomic_uint references; /* one, and one for each open pool and queue */
	struct transport transport;

	uint64_t
		check_at; /* atomic: when to look next whether the service is there, see direct.c */
	pthread_mutex_t retiring;
	struct attachment *retired; /* under `retiring`: replaced, and somebody may be reading */
	struct rings rings[PAGE_SIZES];
	struct path_counts counts;
	struct reader_slots readers;
};

struct zc_pool {
	struct zc *zc;
	uint64_t serial;	  /* never used again, unlike the address */
	struct zc_pool_info info; /* as the service told when it was opened; never changed */
	struct pool_handle handle;
	struct attachment *attachment; /* atomic; NULL: not mapped. See client_attach.c */
	uint64_t attach_tried;	       /* atomic: the connection on which it was tried last */
	uint32_t attaching;	       /* atomic: 1 while a thread is at it */
};

/* Forks of this process and of those it descends from, as far as the library was there. */
extern atomic_uint client_forks;

/* Whether this is a child of the process that opened. */
static inline bool
client_inherited(const struct zc *zc)
{
	/* Relaxed: fork() orders the increment before everything in the child. */
	return zc->forks != atomic_load_explicit(&client_forks, memory_order_relaxed);
}

/* A number that no object had before. */
uint64_t client_serial(void);

/* The deadline of a call that begins now. */
uint64_t client_deadline(struct zc *zc);

/* 0, -EPERM (in a child) or -EBADF (closed). */
int client_usable(struct zc *zc);

/*
 * Makes a call by the deadline of this moment, keeps the text of an error for zc_error_text, and
 * returns the result. -EINVAL (no zc), -EPERM (in a child), -EBADF (closed), else as
 * transport_call().
 */
int64_t client_call(struct zc *zc, struct call *call);

/* client_call() on a pool, whose handle goes to *handle. */
int64_t client_pool_call(struct zc_pool *pool, struct call *call, uint32_t *handle);

/* The same two with a deadline that began before. */
int64_t client_call_until(struct zc *zc, struct call *call, uint64_t deadline);
int64_t client_pool_call_until(struct zc_pool *pool, struct call *call, uint32_t *handle,
			       uint64_t deadline);

/* Keeps `text`, a constant, for zc_error_text in this thread and returns `error`. */
int client_error(struct zc *zc, int error, const char *text);

void client_hold(struct zc *zc);
void client_release(struct zc *zc);

/*
 * Public structs begin with the size that the caller's build knows. struct_size_good: whether a
 * size can be that of any version. struct_give: copies what both know to the caller and clears what
 * only he knows. struct_accept: copies what both know from him; -EINVAL when he has set something
 * that this version does not know.
 */
bool struct_size_good(uint32_t size);
void struct_give(void *to, uint32_t to_size, const void *from, uint32_t from_size);
int struct_accept(void *to, uint32_t to_size, const void *from);

#endif
