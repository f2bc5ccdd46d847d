/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of a queue, for the queue*.c files only.
 *
 * A request is in one of these states; everything is done under the queue's mutex, by whoever calls:
 *
 *	submit ──► HELD ──► IN_RING or IN_SOCKET ──► DONE ──► reaped
 *	   │        ▲  ▲              │
 *	   │        │  └── connection lost
 *	   └──► READABLE ──► (read directly when it is reaped)
 *
 *	HELD	   it cannot be sent now: no connection, pool not open there, no slot, ring full
 *	READABLE   a get or exists with none of the queue's own changes of that key before it
 *
 * Order. Requests that are sent go out in the order of submission: while some are held, later ones are held behind
 * them. All of one key go through one ring, or by the socket, and a connection does not change between the two. A
 * READABLE request has not been done yet: when a change of its key is submitted, it is held in front of it.
 *
 * Buffers. A value to be put is copied by zc_submit, into a slot or, for what is held or goes by the socket, into
 * memory of its own; so the request can be sent again. A value that was fetched stays in its slot, or in memory of its
 * own, until its completion is taken: no buffer of the caller's is written before.
 */
#ifndef ZCLIENT_QUEUE_PRIVATE_H
#define ZCLIENT_QUEUE_PRIVATE_H

#include "client.h"

#define QUEUE_DEPTH_MAX 4096u
/* Keys are told apart by so many bits of a hash where it is about order. */
#define QUEUE_FILTER 1024u

struct queue_pool;

enum queued_state {
	QUEUED_HELD,
	QUEUED_READABLE,
	QUEUED_IN_RING,
	QUEUED_IN_SOCKET,
	QUEUED_DONE,
};

struct queued {
	struct ring_call call; /* first: a finished call is found by its address */
	struct zc_request request;
	struct queue_pool *pool;
	enum queued_state state;
	uint16_t filter; /* of its key */
	uint32_t serial; /* of its use of this record, in ids of messages */
	uint64_t deadline;
	void *value; /* private copy, or NULL */
	int64_t result;
	TAILQ_ENTRY(queued) link; /* in one list of the queue */
};

TAILQ_HEAD(queued_list, queued);

enum queue_pool_state {
	QUEUE_POOL_UNKNOWN,
	QUEUE_POOL_OPENED, /* has a handle; a channel is asked for */
	QUEUE_POOL_READY,
};

/* A pool on the queue's connection. */
struct queue_pool {
	uint64_t serial; /* of the zc_pool: another may have its address later */
	char name[sizeof(((struct zc_pool_info *)0)->name)];
	uint32_t page_size; /* as the zc_pool says */
	enum queue_pool_state state;
	struct pool_address address;
	struct rings *rings; /* NULL: by the socket */
	SLIST_ENTRY(queue_pool) link;
};

enum queue_link {
	QUEUE_LINK_DOWN,
	QUEUE_LINK_HELLO, /* connected; the service has not answered the hello */
	QUEUE_LINK_UP,
};

struct zc_queue {
	struct zc *zc;
	unsigned depth;
	pthread_mutex_t mutex; /* guards all that follows */

	struct queued *record; /* `depth` of them */
	struct queued_list unused, held, sent, done;
	unsigned in_use; /* submitted and not reaped */
	unsigned ready;	 /* in the list `done` */
	/* Requests of keys with this hash: changes that are not done, and READABLE ones. */
	uint16_t changes[QUEUE_FILTER], readable[QUEUE_FILTER];
	uint64_t next_deadline; /* none passes before */

	struct connection connection;
	enum queue_link link;
	uint64_t link_number; /* of the connection */
	int link_error;	      /* why there is none */
	uint64_t retry_at, back_off;
	uint64_t last_control; /* id of the last control message */
	struct queue_pool *asking; /* what it was about; NULL: it was answered */
	SLIST_HEAD(, queue_pool) pools;
	struct rings rings[PAGE_SIZES];
	struct ring_waiter waiter[PAGE_SIZES]; /* of all requests in those */
	unsigned in_socket;		       /* requests not answered there */

	int event;	/* epoll: the socket and the timer; what the caller polls */
	int timer;	/* ready when the caller should reap for another reason than the socket */
	int kick;	/* wakes the thread in zc_wait */
	bool polled;	/* the caller has asked for `event` */
	bool unsent;	/* `event` waits for room in the socket */
	uint64_t timer_at; /* what the timer is set to */
	bool waiting;	   /* a thread is in zc_wait */
	pthread_cond_t turn; /* it is not any more */
};

/* ---- queue.c ---- */

/* The request is finished. It is in no list. */
void queue_finish(struct zc_queue *queue, struct queued *queued, int64_t result);

/* The request has to be sent and cannot be now; the value is copied. Behind or in front of the others. */
void queue_hold(struct zc_queue *queue, struct queued *queued);

/* ---- queue_link.c ---- */

/* The connection for the first time; waits. As zc_open. */
int queue_link_open(struct zc_queue *queue);
void queue_link_close(struct zc_queue *queue);

/*
 * Does what can be done without waiting: connects if requests are held, sends what is left to send, takes all
 * responses.
 */
void queue_link_advance(struct zc_queue *queue);

/* The connection is not good any more: -ECONNRESET, what was sent is held again; else it ends with `error`. */
void queue_link_lost(struct zc_queue *queue, int error);

/* The pool of a request on this connection; asks for it, one at a time. NULL: not ready yet. */
struct queue_pool *queue_link_pool(struct zc_queue *queue, struct queue_pool *pool);

/* ---- queue_send.c ---- */

/* Sends what is held, as far as that goes; shows the service what is in the rings. */
void queue_send_held(struct zc_queue *queue);

/* 0; -EAGAIN: it has to be held. */
int queue_send(struct zc_queue *queue, struct queued *queued);
void queue_publish(struct zc_queue *queue);

/* Takes what is completed in the rings. */
void queue_collect(struct zc_queue *queue);

/* Takes a response of the socket to a request. */
void queue_take_response(struct zc_queue *queue, const Zcache__V1__Response *response);

/* Gives a request up whose deadline passed. */
void queue_give_up(struct zc_queue *queue, struct queued *queued);

/* Makes a private copy of a value that is in a slot or the caller's buffer. 0 or -ENOMEM. */
int queue_keep_value(struct queued *queued, size_t length);

/* ---- queue_wait.c ---- */

int queue_events_open(struct zc_queue *queue);
void queue_events_close(struct zc_queue *queue);

/* The socket is a new one, or (before it is closed) no more. */
void queue_events_add(struct zc_queue *queue);
void queue_events_remove(struct zc_queue *queue);

/* Before the mutex is let go of: sees to it that the caller's descriptor and the thread in zc_wait notice. */
void queue_events_update(struct zc_queue *queue);

/* Sleeps, without the mutex, until something may have happened; `more` completions are wanted. */
void queue_sleep(struct zc_queue *queue, unsigned more, uint64_t deadline);

/* Requests submitted and not done. */
static inline unsigned
queue_in_flight(const struct zc_queue *queue)
{
	return queue->in_use - queue->ready;
}

#endif
