/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Serving rings: what one worker does with the rings of clients' channels (client_channel.h).
 *
 * A ring is active or asleep. Asleep, its need_wakeup is set and the worker watches its doorbell, an
 * eventfd that is never read (edge-triggered: each write by the client is an event). Active rings are
 * looked at by turns, SERVE_BATCH requests a turn in all, round robin; between turns the worker sees to
 * its inbox, and every SERVE_SOCKETS_NS to its sockets. When no active ring has a request the worker
 * spins for a moment, since going to sleep and being woken costs more than most pauses between two
 * requests; then it lets the rings go to sleep and does so itself. No timer: idle costs nothing.
 *
 * The time of spinning learns: it doubles when a request came so soon that spinning longer would have
 * caught it, and halves when it did not. With one CPU, or more workers than CPUs, it is always 0: then
 * spinning only keeps the client from running.
 *
 * What a client can write is copied once and then checked. What breaks the rules of the channel ends
 * that client (client_channel_fail); what only makes no sense is answered with an error.
 *
 * Everything here belongs to the worker; nothing is locked.
 */
#ifndef ZCACHED_DAEMON_SERVE_H
#define ZCACHED_DAEMON_SERVE_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "channel.h"
#include "inbox.h"

#define SERVE_BATCH	 16u
#define SERVE_SOCKETS_NS 100000u
#define SERVE_SPIN_NS	 50000u /* at most: two wake-ups of another process */

struct client_channel;
struct worker;

/* One ring of a channel. Its worker's from ring_open until ring_close. */
struct ring {
	struct message open, close; /* bring it to its worker; close brings it home again */
	TAILQ_ENTRY(ring) link;	    /* in serve->active */
	struct client_channel *channel;
	struct worker *worker;
	struct channel_end end;
	struct event doorbell;
	int doorbell_fd;
	bool active;
	bool failed;	 /* its client broke the rules: not served any more */
	uint64_t served; /* serve->served when it had its last request */
};

TAILQ_HEAD(ring_queue, ring);

struct serve {
	struct ring_queue active;
	uint64_t served;	/* requests, of all rings */
	uint64_t quiet_since;	/* ns: when the last request was done */
	uint64_t sockets_since; /* ns: when the worker last looked at its sockets */
	uint32_t spin_ns, spin_max_ns;
	struct channel_request request[SERVE_BATCH]; /* of the ring at turn */
};

void serve_init(struct serve *serve, uint32_t spin_max_ns);

/*
 * Takes a ring over, active: its client may have sent requests already. Closing it again is its end in
 * this worker. Returns 0 or a negative errno.
 */
int ring_open(struct worker *worker, struct ring *ring);
void ring_close(struct worker *worker, struct ring *ring);

/*
 * One turn. True: there is, or soon may be, more to do. False: all rings are asleep, the worker may
 * go to sleep too.
 */
bool serve_turn(struct worker *worker);

/* Whether it is time for the worker's sockets, though there are requests in rings. */
bool serve_sockets_due(struct serve *serve);

#endif
