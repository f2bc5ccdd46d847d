/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A worker's inbox; inbox.h has the contract and says why four accesses are sequentially
 * consistent (a plain release or acquire would let a store pass a later load).
 */
#include "inbox.h"

#include <errno.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "atomic.h"

int
inbox_init(struct inbox *inbox)
{
	*inbox = (struct inbox){0};
	inbox->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return inbox->wake_fd < 0 ? -errno : 0;
}

void
inbox_destroy(struct inbox *inbox)
{
	if (inbox->wake_fd >= 0)
		close(inbox->wake_fd);
	inbox->wake_fd = -1;
}

static void __attribute__((noinline)) inbox_wake(struct inbox *inbox)
{
	uint64_t one = 1;

	/* Of several posters one wakes. */
	if (!__atomic_exchange_n(&inbox->sleeping, 0, __ATOMIC_SEQ_CST))
		return;
	/* Fails only when the counter is full, and then the worker has been woken before. */
	if (write(inbox->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void
inbox_post(struct inbox *inbox, struct message *message, message_deliver_fn *deliver)
{
	/* Relaxed: only a guess that the compare-and-swap verifies. */
	struct message *head = load_relaxed(&inbox->head);

	message->deliver = deliver;
	/* Releases the message's content; pairs with the exchange in inbox_take. */
	do
		message->next = head;
	while (!__atomic_compare_exchange_n(&inbox->head, &head, message, true, __ATOMIC_SEQ_CST,
					    __ATOMIC_RELAXED));
	if (__atomic_load_n(&inbox->sleeping, __ATOMIC_SEQ_CST))
		inbox_wake(inbox);
}

struct message *
inbox_take(struct inbox *inbox)
{
	struct message *newest, *oldest = NULL;

	/* Relaxed: a message that is missed here is found before the worker sleeps. */
	if (!load_relaxed(&inbox->head))
		return NULL;
	/* Pairs with the compare-and-swap in inbox_post. */
	newest = exchange_acquire(&inbox->head, NULL);
	while (newest) {
		struct message *next = newest->next;

		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	return oldest;
}

bool
inbox_is_empty(struct inbox *inbox)
{
	/* Relaxed: a message that is missed here is found before the worker sleeps. */
	return !load_relaxed(&inbox->head);
}

bool
inbox_may_sleep(struct inbox *inbox)
{
	__atomic_store_n(&inbox->sleeping, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&inbox->head, __ATOMIC_SEQ_CST))
		return true;
	inbox_awake(inbox);
	return false;
}

void
inbox_awake(struct inbox *inbox)
{
	/* Relaxed: a poster that still sees 1 makes one needless system call. */
	if (load_relaxed(&inbox->sleeping))
		store_relaxed(&inbox->sleeping, 0);
}

bool
inbox_is_busy(struct inbox *inbox)
{
	/* Relaxed: a hint. */
	return !load_relaxed(&inbox->sleeping);
}
