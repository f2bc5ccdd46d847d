/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Giving memory back: pages that hold no object any more.
 *
 * Called by the keeper when there is enough to give back or nothing else to do, and by zs_malloc when the pool
 * is at its limit. A zspage is isolated under its class lock, so that nothing is allocated in it, then its
 * empty pages are punched without any lock, then it goes back to its list, or, when it holds no object at all,
 * its run goes back to the free runs. Frees go on in an isolated zspage: they only clear bits.
 *
 * Memory is returned to the budget after the punch, never before: the limit holds at every moment.
 */
#include "zspage_private.h"

unsigned
zspage_punch(struct allocator *allocator, const struct zspage *zspage,
	     uint64_t pages[OS_PAGE_WORDS], unsigned count)
{
	uint64_t base = page_offset(allocator, zspage->first_page);
	unsigned punched = 0;

	for (unsigned page = 0; page < count; page++) {
		unsigned first = page;

		while (page < count && bit_test(pages, page))
			page++;
		if (page == first)
			continue;
		if (segment_punch(allocator->data, base + (uint64_t)first * ZC_OS_PAGE_SIZE,
				  (uint64_t)(page - first) * ZC_OS_PAGE_SIZE) == 0)
			punched += page - first;
		else
			for (unsigned kept = first; kept < page; kept++)
				bit_clear(pages, kept);
	}
	return punched;
}

/* The pages of a zspage that have memory and no object: sets their bits and counts them. */
static unsigned
zspage_idle_pages(const struct allocator *allocator, const struct zspage *zspage, unsigned count,
		  uint64_t pages[OS_PAGE_WORDS])
{
	unsigned idle = 0;

	memset(pages, 0, OS_PAGE_WORDS * sizeof(*pages));
	for (unsigned page = 0; page < count; page++) {
		if (bit_test(zspage->populated, page) &&
		    !zspage_page_in_use(allocator, zspage, page)) {
			bit_set(pages, page);
			idle++;
		}
	}
	return idle;
}

/* The next listed zspage with something to give back, isolated; NULL when the list is empty. */
static struct zspage *
class_next_to_trim(struct allocator *allocator, struct class *class, uint32_t *max)
{
	while (class->trim_list != ZSPAGE_NONE && *max) {
		struct zspage *zspage = zspage_at(allocator, class->trim_list);

		/* Isolated by compaction or holes.c, which list it again if something is left. */
		store_relaxed(&class->trim_list, zspage->trim_next);
		zspage->trim_listed = 0;
		--*max;
		if (zspage->isolated)
			continue;
		zspage_isolate(allocator, zspage);
		return zspage;
	}
	return NULL;
}

/*
 * Punches what is idle in an isolated zspage and puts it back or retires it. Called with the class lock, returns
 * without it. A zspage of which something could not be punched stays: its next free lists it again.
 */
static unsigned
zspage_trim(struct allocator *allocator, struct class *class, struct zspage *zspage)
{
	uint64_t pages[OS_PAGE_WORDS];
	unsigned idle = zspage_idle_pages(allocator, zspage, class->os_pages, pages), punched;
	bool retire = zspage->inuse == 0;

	lock_release(&class->lock);
	punched = zspage_punch(allocator, zspage, pages, class->os_pages);
	retire = retire && punched == idle;
	lock_acquire(&class->lock);
	for (unsigned word = 0; word < OS_PAGE_WORDS; word++)
		zspage->populated[word] &= ~pages[word];
	sub_relaxed(&class->pages_resident, punched);
	sub_relaxed(&class->pages_idle, punched);
	if (retire) {
		class->isolated--;
		zspage_part(allocator, zspage);
	} else {
		zspage_put_back(allocator, zspage);
	}
	lock_release(&class->lock);
	budget_return(allocator->budget, punched);
	if (retire)
		zspage_retire(allocator, zspage);
	return punched;
}

uint64_t
class_trim(struct allocator *allocator, struct class *class, uint32_t *max)
{
	uint64_t freed = 0;

	for (;;) {
		struct zspage *zspage;

		lock_acquire(&class->lock);
		zspage = class_next_to_trim(allocator, class, max);
		if (!zspage)
			break;
		freed += zspage_trim(allocator, class, zspage); /* releases the lock */
	}
	lock_release(&class->lock);
	return freed;
}

uint64_t
zs_trim(struct allocator *allocator, uint32_t max)
{
	uint64_t freed = 0;

	for (unsigned number = 0; number < allocator->table.count && max; number++) {
		struct class *class = &allocator->class[number];

		/* Relaxed: a list that grows right now is looked at next time. */
		if (load_relaxed(&class->trim_list) != ZSPAGE_NONE)
			freed += class_trim(allocator, class, &max);
	}
	return freed;
}

uint64_t
zs_trimmable(struct allocator *allocator)
{
	uint64_t pages = 0;

	for (unsigned class = 0; class < allocator->table.count; class ++)
		pages += load_relaxed(&allocator->class[class].pages_idle);
	return pages;
}
