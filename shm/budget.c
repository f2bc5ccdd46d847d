/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Budgets and the ceiling, see budget.h. Called by zspage.c, index.c and pool.c (budgets) and by
 * whoever creates pools (the ceiling). No locks: every change is a compare-and-swap of one word.
 *
 * The ceiling's word is {generation | credit in pages}:
 *
 *   63                     32 31                      0
 *  +-------------------------+-------------------------+
 *  |       generation        |         credit          |
 *  +-------------------------+-------------------------+
 *
 * A refresh sets the credit, it never adds to it, and the generation steps with it. So of two
 * refreshes at once the one that comes second sees a new generation and drops what it read: it may
 * have read the usage before the first one's credit was spent. Pages taken while it read count as
 * not yet in the usage.
 *
 * Left out: handing credit back in budget_return() (it would need proof that the kernel has the
 * memory back and that no refresh has seen it: one read of the files in a thousand pages is
 * cheaper), and a pause between refreshes that find no room (a refused put may be slow).
 */
#include "budget.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "atomic.h"
#include "layout.h"
#include "lock.h"
#include "memory_chain.h"

#define GRANT_MIN   (4ULL << 20)  /* bytes; all there is where others eat from the same cgroup */
#define GRANT_MAX   (64ULL << 20) /* bytes; on a machine with plenty */
#define CREDIT_MAX  UINT32_MAX	  /* pages */
#define TAKES_TRIED 16u

struct ceiling {
	struct memory_chain chain;
	uint64_t margin;
	uint64_t credit; /* atomic, see above */
};

static uint32_t
credit_pages(uint64_t credit)
{
	return (uint32_t)credit;
}

static uint32_t
credit_generation(uint64_t credit)
{
	return (uint32_t)(credit >> 32);
}

int
ceiling_create_under(const char *root, uint64_t margin, struct ceiling **out)
{
	struct ceiling *ceiling = calloc(1, sizeof(*ceiling));

	if (!ceiling)
		return -ENOMEM;
	ceiling->margin = margin;
	memory_chain_open(&ceiling->chain, root);
	*out = ceiling;
	return 0;
}

int
ceiling_create(uint64_t margin, struct ceiling **out)
{
	return ceiling_create_under("", margin, out);
}

void
ceiling_destroy(struct ceiling **ceiling)
{
	if (!*ceiling)
		return;
	memory_chain_close(&(*ceiling)->chain);
	free(*ceiling);
	*ceiling = NULL;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t
most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Room with the margin taken off. */
static uint64_t
usable(const struct ceiling *ceiling, struct memory_room room)
{
	uint64_t bytes = least(room.cgroups, room.machine);

	if (bytes == MEMORY_UNLIMITED)
		return bytes;
	return bytes > ceiling->margin ? bytes - ceiling->margin : 0;
}

/* Pages to hand out at once when there are `bytes` of room and someone wants `want` bytes. */
static uint32_t
grant_pages(struct memory_room room, uint64_t bytes, uint64_t want)
{
	uint64_t grant = GRANT_MIN;

	if (bytes == MEMORY_UNLIMITED)
		return CREDIT_MAX;
	if (room.cgroups == MEMORY_UNLIMITED)
		grant = most(grant, least(GRANT_MAX, bytes / 8));
	return (uint32_t)least(least(most(grant, want), bytes) / ZC_OS_PAGE_SIZE, CREDIT_MAX);
}

static void
set_credit(struct ceiling *ceiling, uint64_t before, uint32_t grant)
{
	uint64_t now = before;
	uint64_t next;

	/* Relaxed: the word guards nothing but itself, and the exchange checks it. */
	do {
		uint32_t taken = credit_pages(before) - credit_pages(now);

		if (credit_generation(now) != credit_generation(before))
			return;
		next = (uint64_t)(credit_generation(now) + 1) << 32;
		next |= grant > taken ? grant - taken : 0;
	} while (!cas_relaxed(&ceiling->credit, &now, next));
}

/* ceiling_refresh(), with credit for `want` bytes where there is room for them. */
static uint64_t
refresh(struct ceiling *ceiling, uint64_t want)
{
	/*
	 * Acquire: the usage is read after this, so that pages missing from this credit were taken
	 * before, or after by a step that set_credit() sees.
	 */
	uint64_t before = load_acquire(&ceiling->credit);
	struct memory_room room;
	uint64_t bytes;

	lock_assert_no_lock();
	room = memory_chain_room(&ceiling->chain, ceiling->margin + most(want, GRANT_MIN));
	bytes = usable(ceiling, room);
	set_credit(ceiling, before, grant_pages(room, bytes, want));
	return bytes;
}

uint64_t
ceiling_refresh(struct ceiling *ceiling)
{
	return refresh(ceiling, 0);
}

static bool
take_credit(struct ceiling *ceiling, uint64_t pages)
{
	/* Relaxed: the exchange checks it, and it guards nothing but itself. */
	uint64_t credit = load_relaxed(&ceiling->credit);

	while (pages <= credit_pages(credit))
		if (cas_relaxed(&ceiling->credit, &credit, credit - pages))
			return true;
	return false;
}

void
budget_init(struct budget *budget, uint64_t limit_bytes, struct ceiling *ceiling)
{
	*budget = (struct budget){.limit = limit_bytes / ZC_OS_PAGE_SIZE, .ceiling = ceiling};
}

static bool
fits(const struct budget *budget, uint64_t used, uint64_t pages)
{
	/* Relaxed: a limit that changes now may count from the next call on. */
	uint64_t limit = load_relaxed(&budget->limit);

	return used <= limit && pages <= limit - used;
}

/*
 * Credit before budget: a budget taken and then given back for want of credit would let another
 * thread meet a limit that is not reached. Credit lost to a full budget is made up at the next
 * refresh.
 */
enum budget_result
budget_take(struct budget *budget, uint64_t pages)
{
	/*
	 * Relaxed: the exchange checks it. That memory returned by one thread is free before another
	 * takes it is the kernel's order: it was punched before the count went down.
	 */
	uint64_t used = load_relaxed(&budget->used);

	if (!fits(budget, used, pages))
		return BUDGET_POOL_LIMIT;
	if (budget->ceiling && !take_credit(budget->ceiling, pages))
		return BUDGET_CEILING;
	while (fits(budget, used, pages))
		if (cas_relaxed(&budget->used, &used, used + pages))
			return BUDGET_OK;
	return BUDGET_POOL_LIMIT;
}

void
budget_return(struct budget *budget, uint64_t pages)
{
	uint64_t used = sub_relaxed(&budget->used, pages); /* as in budget_take() */

	assert(used >= pages);
}

int
budget_take_slow(struct budget *budget, uint64_t pages)
{
	lock_assert_no_lock();
	/* More than once: others may spend the credit between the refresh and the take. */
	for (unsigned tries = 0; tries < TAKES_TRIED; tries++) {
		switch (budget_take(budget, pages)) {
		case BUDGET_OK:
			return 0;
		case BUDGET_POOL_LIMIT:
			return -ENOSPC;
		case BUDGET_CEILING:
			break;
		}
		if (pages > CREDIT_MAX ||
		    refresh(budget->ceiling, pages * ZC_OS_PAGE_SIZE) < pages * ZC_OS_PAGE_SIZE)
			return -ENOMEM;
	}
	return -ENOMEM;
}
