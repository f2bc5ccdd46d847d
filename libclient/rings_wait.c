/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Waiting for completions, or for what they set free: first awake, then asleep.
 *
 * Spinning is for one request only, whose answer takes about as long as going to sleep and being woken. It stops by
 * itself where it is in vain: the time to spin grows when an answer came meanwhile and halves when none
 * did, down to nothing; then only now and then one spins, to see whether it pays again. On one CPU nobody does.
 *
 * Asleep, one thread, the leader, waits on the channel's futex and finishes what is completed for all;
 * the others wait for their own requests. A leader that has what it wants wakes another to lead. The rings are
 * armed for the leader alone in such a way that it is woken rarely, and as soon as somebody else sleeps too, for
 * every completion.
 *
 * A service that has died wakes nobody, and the futex knows nothing of the socket: the leader looks at that
 * every LOOK_INTERVAL.
 */
#include <errno.h>

#include "atomic.h"
#include "deadline.h"
#include "rings.h"
#include "transport.h"

#define LOOK_INTERVAL (50 * (uint64_t)NS_PER_MS)

/* Waking a process costs some 25 to 50 us: to spin for longer cannot pay. In nanoseconds. */
#define SPIN_MAX 50000u
#define SPIN_MIN 1000u
/* One wait in so many spins although the last ones did in vain. */
#define SPIN_RETRY 64u
/* Looks between two looks at the clock. */
#define SPIN_LOOKS 32u

/* ---- awake ---- */

/* Without the mutex: a hint, and it is looked at again under the mutex. */
static bool
completions_there(const struct rings *rings)
{
	for (uint32_t i = 0; i < rings->channel.geometry.rings; i++) {
		const struct ring *ring = &rings->ring[i];

		if (load_relaxed(&ring->end.ring->complete_tail) != load_relaxed(&ring->reaped))
			return true;
	}
	return false;
}

static bool
satisfied(const struct ring_waiter *waiter, unsigned wanted)
{
	return load_relaxed(&waiter->in_flight) <= wanted; /* a hint without the mutex */
}

/* When spinning must end; 0: it does not pay. */
static uint64_t
spin_until(struct rings *rings)
{
	if (!rings->spins || (rings->spin == 0 && ++rings->unspun % SPIN_RETRY))
		return 0;
	return deadline_now() + (rings->spin ? rings->spin : SPIN_MAX);
}

static void
spin_adapt(struct rings *rings, bool paid)
{
	if (paid)
		rings->spin += (SPIN_MAX - rings->spin) / 4;
	else
		rings->spin = rings->spin / 2 < SPIN_MIN ? 0 : rings->spin / 2;
}

/* Without the mutex. False: it is time to stop. */
static bool
spin_once(const struct rings *rings, const struct ring_waiter *waiter, unsigned wanted,
	  uint64_t until)
{
	do {
		for (unsigned i = 0; i < SPIN_LOOKS; i++) {
			if (satisfied(waiter, wanted) || completions_there(rings))
				return true;
			pause_cpu();
		}
	} while (deadline_now() < until);
	return false;
}

bool
rings_spin(struct rings *rings, const struct ring_waiter *waiter, unsigned wanted)
{
	uint64_t until = spin_until(rings);
	bool more = until != 0;

	while (more && waiter->in_flight > wanted) {
		pthread_mutex_unlock(&rings->mutex);
		more = spin_once(rings, waiter, wanted, until);
		pthread_mutex_lock(&rings->mutex);
		rings_reap(rings);
	}
	if (until)
		spin_adapt(rings, waiter->in_flight <= wanted);
	return waiter->in_flight <= wanted;
}

/* ---- asleep ---- */

static uint32_t
in_flight(const struct ring *ring)
{
	return ring->end.entries - ring->unused_count;
}

/* Whether the completion that we are to be woken at is still to come. */
static bool
armed(const struct ring *ring)
{
	return ring->armed - ring->end.complete - 1 < ring->end.entries;
}

static void
arm(struct ring *ring, uint32_t more)
{
	/* Not farther than it is already. That came with a fence before our look at the completions. */
	if (ring->armed - ring->end.complete - 1 < more)
		return;
	ring->armed = ring->end.complete + more;
	channel_wake_after(&ring->end, more);
}

/* A ring's share of the completions that are wanted, at least one. */
static uint32_t
share(const struct ring *ring, const struct ring_waiter *waiter, unsigned wanted)
{
	uint64_t part =
		(uint64_t)in_flight(ring) * (waiter->in_flight - wanted) / waiter->in_flight;

	return part ? (uint32_t)part : 1;
}

/* True when every ring with something in flight is armed. What was reaped may have passed it. */
static bool
all_armed(const struct rings *rings)
{
	for (uint32_t i = 0; i < rings->channel.geometry.rings; i++)
		if (in_flight(&rings->ring[i]) && !armed(&rings->ring[i]))
			return false;
	return true;
}

bool
rings_may_sleep(struct rings *rings, const struct ring_waiter *waiter, unsigned wanted, bool prompt)
{
	do {
		for (uint32_t i = 0; i < rings->channel.geometry.rings; i++) {
			struct ring *ring = &rings->ring[i];

			if (waiter->in_flight > wanted && in_flight(ring))
				arm(ring, prompt ? 1 : share(ring, waiter, wanted));
		}
		rings_reap(rings);
		if (waiter->in_flight <= wanted)
			return false;
	} while (!all_armed(rings));
	return true;
}

/* Nobody answers any more if the connection was lost. */
static void
look_after_service(struct rings *rings)
{
	uint64_t generation = rings->generation;

	pthread_mutex_unlock(&rings->mutex);
	transport_check(rings->transport, generation);
	pthread_mutex_lock(&rings->mutex);
	if (transport_live(rings->transport) != generation)
		rings_end(rings, -ECONNRESET);
}

/* Waits for the service once, for all. */
static void
lead(struct rings *rings, struct ring_waiter *waiter, unsigned wanted, uint64_t deadline)
{
	uint32_t seen = channel_wakes(&rings->channel);
	bool alone = TAILQ_FIRST(&rings->sleepers) == waiter && !TAILQ_NEXT(waiter, link);
	uint64_t until = deadline_now() + LOOK_INTERVAL;
	struct timespec time = deadline_timespec(until < deadline ? until : deadline);
	int error;

	if (!rings_may_sleep(rings, waiter, wanted, !alone || waiter->in_flight == 1))
		return;
	rings->leader = waiter;
	pthread_mutex_unlock(&rings->mutex);
	error = channel_wait(&rings->channel, seen, &time);
	pthread_mutex_lock(&rings->mutex);
	rings->leader = NULL;
	rings_reap(rings);
	if (error == -ETIMEDOUT && waiter->in_flight > wanted)
		look_after_service(rings);
}

static int
follow(struct rings *rings, struct ring_waiter *waiter, unsigned wanted, uint64_t deadline)
{
	struct timespec until = deadline_timespec(deadline);

	if (!rings_may_sleep(rings, waiter, wanted, true))
		return 0;
	if (deadline == DEADLINE_NEVER)
		return -pthread_cond_wait(&waiter->wake, &rings->mutex);
	return -pthread_cond_timedwait(&waiter->wake, &rings->mutex, &until);
}

static void
cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

static int
sleep_until(struct rings *rings, struct ring_waiter *waiter, unsigned wanted, uint64_t deadline)
{
	struct ring_waiter *next;
	int error = 0;

	waiter->asleep = true;
	waiter->wanted = wanted;
	cond_init(&waiter->wake);
	TAILQ_INSERT_TAIL(&rings->sleepers, waiter, link);
	while (waiter->in_flight > wanted && !error) {
		if (rings->leader) {
			error = follow(rings, waiter, wanted, deadline);
			continue;
		}
		lead(rings, waiter, wanted, deadline);
		error = deadline_passed(deadline) ? -ETIMEDOUT : 0;
	}
	waiter->asleep = false;
	TAILQ_REMOVE(&rings->sleepers, waiter, link);
	pthread_cond_destroy(&waiter->wake);
	next = TAILQ_FIRST(&rings->sleepers);
	if (!rings->leader && next)
		pthread_cond_signal(&next->wake);
	return error;
}

int
rings_wait(struct rings *rings, struct ring_waiter *waiter, unsigned wanted, uint64_t deadline)
{
	rings_reap(rings);
	if (waiter->in_flight - wanted == 1)
		rings_spin(rings, waiter, wanted);
	if (waiter->in_flight > wanted)
		sleep_until(rings, waiter, wanted, deadline);
	return waiter->in_flight > wanted ? -ETIMEDOUT : 0;
}

/* ---- for what a request needs before it can go ---- */

static int
wait_among(struct rings *rings, struct ring_waiters *waiters, struct ring_waiter *waiter,
	   uint64_t deadline)
{
	TAILQ_INSERT_TAIL(waiters, waiter, hungry);
	if (rings_wait(rings, waiter, 0, deadline)) {
		TAILQ_REMOVE(waiters, waiter, hungry);
		return -ETIMEDOUT;
	}
	return rings->state == RINGS_OPEN ? 0 : -EAGAIN;
}

int
rings_wait_slot(struct rings *rings, uint32_t *slot, uint64_t deadline)
{
	struct ring_waiter waiter = {.in_flight = 1, .slot = RING_NO_SLOT};
	int error;

	if (rings->state != RINGS_OPEN)
		return -EAGAIN;
	if (rings_take_slot(rings, slot))
		return 0;
	error = wait_among(rings, &rings->want_slot, &waiter, deadline);
	*slot = waiter.slot;
	return error;
}

int
rings_wait_room(struct rings *rings, uint32_t number, uint64_t deadline)
{
	struct ring_waiter waiter = {.in_flight = 1};

	if (rings->state != RINGS_OPEN)
		return -EAGAIN;
	return wait_among(rings, &rings->ring[number].want_room, &waiter, deadline);
}
