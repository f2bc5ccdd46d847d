/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Taking back memory that readers made by touching holes of the data file.
 *
 * A client maps the file read-only, and a read of a hole makes the kernel put a page of zeros there, which
 * nobody paid for. No seal forbids that. So the keeper compares what the kernel counts with what was paid
 * for, and punches what holds no object: the pages of a zspage that have no memory by our count, while the
 * zspage is isolated, and free runs, while they are taken out of the map. Nothing can be written there meanwhile.
 *
 * Slices are short: at most one word of the map, or one zspage, is away from the others at a time. What trim or
 * compaction hold isolated is left out, the next round finds it.
 *
 * Left out: asking the kernel where there is memory (SEEK_DATA): punching a hole is as cheap.
 */
#include "zspage_private.h"

/* Zspages looked at under the lock in one slice. */
#define LOOK_MAX 256u

/*
 * Pages are counted before they are touched, and punched before they are counted out, so the kernel never
 * counts more; but the two numbers are not read in one moment, hence ours on both sides of the kernel's.
 */
uint64_t
zs_excess(struct allocator *allocator)
{
	uint64_t before = allocator_resident(allocator);
	uint64_t kernel = segment_resident(allocator->data) / ZC_OS_PAGE_SIZE;
	uint64_t after = allocator_resident(allocator);
	uint64_t ours = before > after ? before : after;

	return kernel > ours ? kernel - ours : 0;
}

/* The next zspage with pages that have no memory, isolated; NULL: none among those looked at. */
static struct zspage *
next_with_holes(struct allocator *allocator, struct class *class)
{
	for (unsigned looked = 0; class->holes_at != ZSPAGE_NONE && looked < LOOK_MAX; looked++) {
		struct zspage *zspage = zspage_at(allocator, class->holes_at);

		class->holes_at = zspage->all_next;
		if (zspage->isolated || bits_all(zspage->populated, class->os_pages))
			continue;
		zspage_isolate(allocator, zspage);
		return zspage;
	}
	return NULL;
}

/* Trim passes over what is isolated; what it may have passed over is listed again. */
static void
put_back(struct allocator *allocator, struct zspage *zspage)
{
	bool idle = zspage->inuse == 0;

	for (unsigned page = 0; !idle && page < allocator->class[zspage->class].os_pages; page++)
		idle = bit_test(zspage->populated, page) &&
		       !zspage_page_in_use(allocator, zspage, page);
	zspage_put_back(allocator, zspage);
	if (idle)
		zspage_list_for_trim(allocator, zspage);
}

/* One slice of a class. False when all its zspages have been looked at. */
static bool
punch_in_class(struct allocator *allocator, struct class *class)
{
	uint64_t pages[OS_PAGE_WORDS];
	struct zspage *zspage;
	bool more;

	lock_acquire(&class->lock);
	zspage = next_with_holes(allocator, class);
	more = class->holes_at != ZSPAGE_NONE;
	if (zspage)
		for (unsigned word = 0; word < OS_PAGE_WORDS; word++)
			pages[word] = ~zspage->populated[word];
	lock_release(&class->lock);
	if (!zspage)
		return more;
	zspage_punch(allocator, zspage, pages, class->os_pages);
	lock_acquire(&class->lock);
	put_back(allocator, zspage);
	more = class->holes_at != ZSPAGE_NONE;
	lock_release(&class->lock);
	return more;
}

static void
class_begin(struct allocator *allocator, unsigned number)
{
	struct class *class = &allocator->class[number];

	lock_acquire(&class->lock);
	class->holes_at = class->all;
	lock_release(&class->lock);
}

/* Punches the free pages of one word of the map, one run after the other. */
static void
punch_free(struct allocator *allocator, uint32_t word)
{
	uint64_t pages, left;

	lock_acquire(&allocator->run_lock);
	pages = run_word_take(&allocator->runs, word);
	lock_release(&allocator->run_lock);
	for (left = pages; left;) {
		unsigned first = (unsigned)__builtin_ctzll(left);
		uint64_t from = left >> first;
		unsigned length = ~from ? (unsigned)__builtin_ctzll(~from) : 64;

		segment_punch(allocator->data,
			      page_offset(allocator, word * ZC_GROUP_PAGES + first),
			      (uint64_t)length * allocator->page_size);
		left &= first + length < 64 ? ~0ULL << (first + length) : 0;
	}
	if (!pages)
		return;
	lock_acquire(&allocator->run_lock);
	run_word_give(&allocator->runs, word, pages);
	lock_release(&allocator->run_lock);
}

/* Words of the map that the file reaches, its slack included. */
static uint32_t
words_of_file(const struct allocator *allocator)
{
	uint64_t unit = (uint64_t)allocator->page_size * ZC_GROUP_PAGES;
	/* Relaxed: a file that grows just now has its new holes punched next time. */
	uint64_t words = (load_relaxed(&allocator->data->size) + unit - 1) / unit;

	return words < allocator->runs.words ? (uint32_t)words : allocator->runs.words;
}

void
zs_holes_begin(struct zs_holes *holes)
{
	*holes = (struct zs_holes){.class = UINT32_MAX};
}

bool
zs_holes_punch(struct allocator *allocator, struct zs_holes *holes)
{
	if (holes->word < words_of_file(allocator)) {
		punch_free(allocator, holes->word++);
		return true;
	}
	if (holes->class != UINT32_MAX &&
	    punch_in_class(allocator, &allocator->class[holes->class]))
		return true;
	if (++holes->class == allocator->table.count)
		return false;
	class_begin(allocator, holes->class);
	return true;
}
