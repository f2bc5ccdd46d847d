/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carries requests of any number of threads to the service and each reply to its thread.
 *
 * Used by the public functions through client_call(). It is the way of everything that is not a page, and
 * of pages where there is no shared memory; it also knows best whether the service is there, which is what
 * the users of shared memory ask it for.
 */
#ifndef ZCLIENT_TRANSPORT_H
#define ZCLIENT_TRANSPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "connection.h"

/* Longest error text kept, with its NUL. */
#define CALL_TEXT_MAX 256

/*
 * What a pool is called: its name for ever, its handle on one connection. Guarded by the
 * transport's mutex, except that nobody else knows it while it is opened first; and the four atomics
 * can be read together without it, see pool_handle_read().
 */
struct pool_handle {
	const char *name;
	uint64_t generation; /* atomic: the connection on which the next three are valid */
	uint64_t seed;	     /* atomic, of the hash of keys */
	uint32_t handle;     /* atomic */
	uint32_t page_size;  /* atomic */
	bool reopening;	     /* a thread asks for a new handle */
};

/* Takes what PoolOpen was answered with on a connection. */
void pool_handle_set(struct pool_handle *handle, uint64_t generation,
		     const Zcache__V1__PoolInfo *info);

/* What belongs together of a handle. */
struct pool_address {
	uint64_t generation; /* 0: none */
	uint64_t seed;
	uint32_t handle;
	uint32_t page_size;
};
struct pool_address pool_handle_read(const struct pool_handle *handle);

enum call_state {
	CALL_SENDING, /* in the list: a reply can come from the first byte sent on */
	CALL_WAITING, /* sent; its thread may be asked to read for all */
	CALL_TAKING,  /* a reader passes the reply to take(): `into` must stay */
	CALL_DONE,    /* answered */
	CALL_LOST,    /* the connection ended first */
};

/* One request on its way. Lives on the stack of the thread that makes it. */
struct call {
	/* Set by the caller; the transport fills in the request's id and, if there is a pool, its
	 * handle in *handle. */
	Zcache__V1__Request *request;
	struct pool_handle *pool;
	uint32_t *handle;
	/* Doing it twice is as good as once: it is sent again when the connection was lost. */
	bool resend;
	Zcache__V1__Response__ResultCase expect;
	/* Takes what is wanted out of a good response; its return value becomes the call's. Runs in
	 * any thread that happens to read, so it must neither wait nor call back. NULL: nothing is
	 * wanted. */
	int64_t (*take)(const Zcache__V1__Response *response, void *into);
	void *into;
	/* Room for the descriptors of the response. How many came is set whatever the result is, and
	 * they are the caller's. */
	int *descriptors;
	unsigned descriptor_room;
	unsigned descriptor_count;

	/* Results. */
	int64_t result;
	uint64_t generation;	  /* the connection it was answered on */
	char text[CALL_TEXT_MAX]; /* the service's words for an error */

	/* The transport's, under its mutex. */
	enum call_state state;
	pthread_cond_t wake;
	TAILQ_ENTRY(call) link;
};

enum link_state {
	LINK_DOWN,
	LINK_CONNECTING, /* one thread is at it */
	LINK_UP,
};

struct transport {
	const char *path;
	pthread_condattr_t monotonic;
	pthread_mutex_t mutex; /* guards all that follows but the connection, see transport.c */
	pthread_cond_t turn;   /* the right to send, or to connect, may be free */
	pthread_cond_t reopened;
	/* Atomic, written under the mutex: the generation while the connection is up, else 0. */
	uint64_t live;
	enum link_state state;
	bool sending; /* a thread has the right to send */
	bool reading; /* a thread reads for all */
	uint64_t generation;
	uint64_t last_id;
	uint64_t back_off; /* nanoseconds to wait before the next attempt to connect */
	TAILQ_HEAD(, call) calls;
	struct connection connection;
};

/*
 * Connects for the first time: without patience for a service that is not there. `path` must stay.
 * Returns 0, -ENOMEM, or what connection_open() says. On an error nothing is left to be closed.
 */
int transport_open(struct transport *transport, const char *path, uint64_t deadline);

/*
 * No call is under way. In a child of the process that opened, `inherited` is true: the connection
 * is the parent's and goes on there, and the mutex may be in any state.
 */
void transport_close(struct transport *transport, bool inherited);
void transport_destroy(struct transport *transport, bool inherited);

/*
 * Makes a call and returns its result: what take() returned or 0, or an error of the service (with
 * call->text), or
 *  -ETIMEDOUT   no reply in time
 *  -EHOSTDOWN   no connection in time
 *  -ECONNRESET  the connection was lost after the request went out, and `resend` is not set
 *  -EBADF       after a reconnect the pool is gone
 *  -EPROTO      a response that cannot be
 *  -EMSGSIZE    longer than the service accepts
 */
int64_t transport_call(struct transport *transport, struct call *call, uint64_t deadline);

/*
 * The generation of the connection while it is thought to be up, else 0. What was made on another one
 * (handles, mappings, channels) is not to be used any more.
 */
uint64_t transport_live(const struct transport *transport);

/* Looks whether the service has hung up on this generation, unless somebody reads and so looks anyway. */
void transport_check(struct transport *transport, uint64_t generation);

/* Ends the connection of this generation for `error`, as if it had been met on the socket. */
void transport_fail(struct transport *transport, uint64_t generation, int error);

#endif
