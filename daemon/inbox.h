/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's inbox: messages from any thread, taken out by the worker alone.
 *
 * Messages are part of what they are about (a request, a scan, a connection), so posting allocates
 * nothing. The list is a stack that any thread pushes on with one compare-and-swap; the worker
 * takes all of it at once and turns it round: first in, first out, for each sender and in all.
 *
 * A system call is made only to wake a worker that sleeps. Poster and worker each write one word
 * and then read the other's (head and sleeping), so these four accesses are sequentially
 * consistent: at least one of the two sees the other's write, and no message is slept over.
 */
#ifndef ZCACHED_DAEMON_INBOX_H
#define ZCACHED_DAEMON_INBOX_H

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

struct worker;
struct message;

/* Called in the receiving worker's thread. The message is the callee's from here on. */
typedef void message_deliver_fn(struct worker *worker, struct message *message);

struct message {
	struct message *next;
	message_deliver_fn *deliver;
};

struct inbox {
	alignas(64) struct message *head; /* newest first */
	uint32_t sleeping;		  /* the worker is, or is about to be, in epoll_wait */
	int wake_fd;			  /* eventfd; watched edge-triggered and never read */
};

/* Returns 0 or a negative errno. */
int inbox_init(struct inbox *inbox);
/* Accepts an inbox that inbox_init failed on, or that is all zeros but for wake_fd -1. */
void inbox_destroy(struct inbox *inbox);

void inbox_post(struct inbox *inbox, struct message *message, message_deliver_fn *deliver);

/* All messages, linked oldest first; NULL when there are none. */
struct message *inbox_take(struct inbox *inbox);

/* A hint for the worker itself: whether there is nothing to take. */
bool inbox_is_empty(struct inbox *inbox);

/* Announces that the worker is going to sleep. False: there are messages, do not. */
bool inbox_may_sleep(struct inbox *inbox);
/* The worker does not sleep; cheap enough to be called at every turn. */
void inbox_awake(struct inbox *inbox);
/* A hint for others: whether the worker has something to do. */
bool inbox_is_busy(struct inbox *inbox);

#endif
