/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The client's side of a channel: what is in flight in its rings, which slots are free, and waiting for
 * completions.
 *
 * Used by client_ring.c and client_batch.c, where any number of threads use one of these at once, and by the
 * queue*.c files, where one does at a time. The mutex guards everything; functions are called and return with it
 * held unless they say otherwise. It is never held while a page is copied or while anything is waited for.
 *
 * Whatever the service writes into a ring is checked: a completion must name a request that is in flight there, by
 * index and generation, and have a result that such a request can have. Anything else ends the channel.
 *
 * A slot belongs to its request until the completion, also when nobody waits for it any more: the
 * service may still read or write it.
 */
#ifndef ZCLIENT_RINGS_H
#define ZCLIENT_RINGS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"

#define RINGS_MAX    256u
#define RING_NO_SLOT UINT32_MAX

struct transport;
struct ring_waiter;

/* One request, in its caller's memory until it is finished or given up. */
struct ring_call {
	struct ring_waiter *waiter;
	uint32_t slot; /* RING_NO_SLOT, or the caller's to give back when it is finished */
	/* The completion's; or -ECONNRESET (the channel ended first: it may or may not be done), -EPROTO. */
	int32_t status;
	uint16_t ring;
	uint16_t flight;
	STAILQ_ENTRY(ring_call) link;
};

STAILQ_HEAD(ring_calls, ring_call);

/* Somebody with requests in flight. */
struct ring_waiter {
	struct ring_calls finished; /* in the order of their completions */
	unsigned in_flight;	    /* atomic, written under the mutex */
	bool asleep;
	unsigned wanted; /* asleep until so few are in flight */
	pthread_cond_t wake;
	TAILQ_ENTRY(ring_waiter) link;
	/* While it waits for something else than its requests: counts as one in flight. */
	uint32_t slot; /* what it got */
	TAILQ_ENTRY(ring_waiter) hungry;
};

TAILQ_HEAD(ring_waiters, ring_waiter);

/* A request that the service has: what its completion has to fit. */
struct ring_flight {
	struct ring_call *call; /* NULL: given up; the slot is free when the completion comes */
	uint32_t slot;
	uint32_t generation; /* of this place in the table; in the cookie */
	uint32_t room;	     /* longest value that a get may bring */
	uint16_t operation;  /* 0: nothing in flight here */
};

struct ring {
	struct channel_end end;
	struct ring_flight *flight; /* as many as the ring has entries */
	uint16_t *unused;	    /* a stack of those that are not in flight */
	uint32_t unused_count;
	uint32_t reaped; /* atomic copy of end.complete, for who spins without the mutex */
	uint32_t armed;	 /* the completion to be woken at */
	int doorbell;
	bool unpublished; /* requests were added */
	struct ring_waiters want_room;
};

enum rings_state {
	RINGS_CLOSED,
	RINGS_OPENING, /* a thread asks the service for a channel */
	RINGS_OPEN,
	RINGS_ENDED, /* nothing in flight any more; unmapped when the last user has left */
};

struct rings {
	pthread_mutex_t mutex;
	enum rings_state state;
	uint64_t generation; /* the connection that the channel, or the refusal of one, came on */
	int error;	     /* why it ended */
	unsigned users;
	struct transport *transport; /* asked whether the service lives while one waits */
	struct channel channel;
	struct ring *ring;
	uint64_t free_slot[ZC_CHANNEL_SLOTS_MAX / 64]; /* bits */
	struct ring_waiters want_slot;		       /* first come, first served */
	/* Waiting, see rings_wait.c. */
	struct ring_waiters sleepers;
	struct ring_waiter *leader;
	bool spins;	 /* more than one CPU */
	uint32_t spin;	 /* nanoseconds to spin before sleeping */
	uint32_t unspun; /* waits since spinning was given up */
};

/* Without the mutex. `transport` may be NULL where rings_wait() is not used. */
void rings_init(struct rings *rings, struct transport *transport);
void rings_destroy(struct rings *rings, bool inherited);

/*
 * Takes a channel into use: descriptors[0] is its memory, the others are doorbells. Closed before. Takes the
 * descriptors whatever it returns: 0, -EPROTO, -ENOMEM, or what channel_map() says.
 */
int rings_open(struct rings *rings, const int *descriptors, unsigned count, uint32_t slot_size);

/*
 * Ends the channel: what is in flight finishes with `error`, -ECONNRESET or -EPROTO. It stays mapped
 * until rings_close().
 */
void rings_end(struct rings *rings, int error);

/* Unmaps; no users. In a child (`inherited`) the addresses may be somebody else's. */
void rings_close(struct rings *rings, bool inherited);

/* The ring of a key's hash. */
uint32_t rings_choose(const struct rings *rings, uint32_t hash);

/* True, and the slot is the caller's; or none is free. */
bool rings_take_slot(struct rings *rings, uint32_t *slot);
void rings_give_slot(struct rings *rings, uint32_t slot);

/*
 * Waits for a slot, or for a ring to have room for a request. 0, -ETIMEDOUT, or -EAGAIN: the channel has ended. Who
 * waits for a slot holds none.
 */
int rings_wait_slot(struct rings *rings, uint32_t *slot, uint64_t deadline);
int rings_wait_room(struct rings *rings, uint32_t number, uint64_t deadline);

/*
 * Adds a request, whose cookie is chosen here, to ring `number`. call->waiter and call->slot are set. 0, or -EAGAIN
 * where the ring is full or has ended.
 */
int rings_add(struct rings *rings, uint32_t number, struct channel_request *request,
	      struct ring_call *call);

/* Shows the service what was added. May let go of the mutex meanwhile, to wake a worker. */
void rings_publish(struct rings *rings);

/* Finishes what the service has completed. -EPROTO: wrong completions; the channel has ended then. */
int rings_reap(struct rings *rings);

/* Nobody waits for this request any more. */
void rings_give_up(struct rings *rings, struct ring_call *call);

/*
 * Before sleeping: asks the service to wake us when about as many requests are finished as the waiter still wants,
 * or, if `prompt`, whenever one is; then looks for completions once more. False: no more than `wanted` of the
 * waiter's requests are in flight.
 */
bool rings_may_sleep(struct rings *rings, const struct ring_waiter *waiter, unsigned wanted,
		     bool prompt);

/*
 * Waits until at most `wanted` of the waiter's requests are in flight. 0 or -ETIMEDOUT. A channel that
 * ends, or a service that does, finishes them. Lets go of the mutex meanwhile.
 */
int rings_wait(struct rings *rings, struct ring_waiter *waiter, unsigned wanted, uint64_t deadline);

/* The first part of that: awake, and only for as long as it pays. True: no more than `wanted`. */
bool rings_spin(struct rings *rings, const struct ring_waiter *waiter, unsigned wanted);

#endif
