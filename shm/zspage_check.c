/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Walks the allocator and compares everything with everything: the invariants at the head of zspage.h.
 *
 * For tests and `zcachectl check`. One class at a time under its lock; zspages that trim or compaction hold
 * isolated at that moment are counted, not looked into.
 */
#include <errno.h>
#include <stdio.h>

#include "zspage_private.h"

struct checker {
	struct allocator *allocator;
	struct class *class;
	char *why;
	unsigned why_size;
	uint64_t zspages, objects, resident, idle; /* sums over the class */
};

#define FAULT(checker, ...) (snprintf((checker)->why, (checker)->why_size, __VA_ARGS__), -EUCLEAN)

static unsigned
bits_count(const uint64_t *bits, unsigned words)
{
	unsigned count = 0;

	for (unsigned word = 0; word < words; word++)
		count += (unsigned)__builtin_popcountll(bits[word]);
	return count;
}

/* The page table must say of each page of the zspage that it belongs to it. */
static int
check_page_table(struct checker *checker, const struct zspage *zspage)
{
	struct allocator *allocator = checker->allocator;
	const struct page_group *group = page_group(allocator, zspage->first_page);

	for (unsigned page = 0; page < checker->class->size->pages; page++) {
		uint16_t meta =
			load_relaxed(&group->meta[(zspage->first_page + page) % ZC_GROUP_PAGES]);

		if (meta != page_meta_pack(zspage->class, page))
			return FAULT(checker,
				     "page %u: page table says %#x, zspage of class %u + %u",
				     zspage->first_page + page, meta, zspage->class, page);
	}
	if (zspage_find(allocator, page_offset(allocator, zspage->first_page)) != zspage)
		return FAULT(checker, "page %u: leads to another zspage", zspage->first_page);
	return 0;
}

static int
check_memory(struct checker *checker, const struct zspage *zspage)
{
	for (unsigned page = 0; page < checker->class->os_pages; page++) {
		bool used = zspage_page_in_use(checker->allocator, zspage, page);
		bool populated = bit_test(zspage->populated, page);

		if (used && !populated)
			return FAULT(checker, "zspage at page %u: OS page %u is used, not paid for",
				     zspage->first_page, page);
		checker->idle += populated && !used;
	}
	checker->resident += bits_count(zspage->populated, OS_PAGE_WORDS);
	return 0;
}

static int
check_zspage(struct checker *checker, const struct zspage *zspage, unsigned used)
{
	unsigned bits = bits_count(zspage->slots, SLOT_WORDS);
	int error;

	if (zspage->inuse != used || bits != used || zspage->isolated)
		return FAULT(checker, "zspage at page %u: in list %u, inuse %u, %u bits%s",
			     zspage->first_page, used, zspage->inuse, bits,
			     zspage->isolated ? ", isolated" : "");
	if (&checker->allocator->class[zspage->class] != checker->class)
		return FAULT(checker, "zspage at page %u: in a list of another class",
			     zspage->first_page);
	error = check_page_table(checker, zspage);
	checker->zspages++;
	checker->objects += used;
	return error ? error : check_memory(checker, zspage);
}

static int
check_list(struct checker *checker, unsigned used)
{
	struct class *class = checker->class;
	uint32_t length = 0, previous = ZSPAGE_NONE;

	for (uint32_t number = class->list[used]; number != ZSPAGE_NONE; length++) {
		const struct zspage *zspage = zspage_at(checker->allocator, number);
		int error = check_zspage(checker, zspage, used);

		if (error)
			return error;
		if (zspage->prev != previous)
			return FAULT(checker, "zspage at page %u: list is torn",
				     zspage->first_page);
		previous = number;
		number = zspage->next;
	}
	if (length != class->count[used] || bit_test(class->occupied, used) != (length > 0))
		return FAULT(checker, "class %u, list %u: %u zspages, counted %u, bit %d",
			     class->size->size, used, length, class->count[used],
			     bit_test(class->occupied, used));
	return 0;
}

/* Every zspage of the class is in class.all, once. */
static int
check_all(struct checker *checker)
{
	const struct class *class = checker->class;
	uint32_t previous = ZSPAGE_NONE;
	uint64_t count = 0;

	for (uint32_t number = class->all; number != ZSPAGE_NONE && count <= class->zspages;
	     count++) {
		const struct zspage *zspage = zspage_at(checker->allocator, number);

		if (zspage->all_prev != previous ||
		    &checker->allocator->class[zspage->class] != class)
			return FAULT(checker, "zspage at page %u: the list of all is torn",
				     zspage->first_page);
		previous = number;
		number = zspage->all_next;
	}
	if (count != class->zspages)
		return FAULT(checker, "class %u: %llu zspages in the list of all, counted %llu",
			     class->size->size, (unsigned long long)count,
			     (unsigned long long)class->zspages);
	return 0;
}

static int
check_sums(struct checker *checker)
{
	const struct class *class = checker->class;

	if (checker->zspages + class->isolated != class->zspages)
		return FAULT(checker,
			     "class %u: %llu zspages in lists and %u isolated, counted %llu",
			     class->size->size, (unsigned long long)checker->zspages,
			     class->isolated, (unsigned long long)class->zspages);
	if (class->isolated)
		return 0; /* the rest of the sums is not known now */
	if (checker->objects != class->objects_used || checker->resident != class->pages_resident ||
	    checker->idle != class->pages_idle)
		return FAULT(checker,
			     "class %u: objects %llu counted %llu, OS pages %llu counted %llu, "
			     "idle %llu counted %llu",
			     class->size->size, (unsigned long long)checker->objects,
			     (unsigned long long)class->objects_used,
			     (unsigned long long)checker->resident,
			     (unsigned long long)class->pages_resident,
			     (unsigned long long)checker->idle,
			     (unsigned long long)class->pages_idle);
	return 0;
}

static int
check_class(struct checker *checker)
{
	int error = 0;

	lock_acquire(&checker->class->lock);
	for (unsigned used = 0; !error && used <= checker->class->size->objects; used++)
		error = check_list(checker, used);
	if (!error)
		error = check_sums(checker);
	if (!error)
		error = check_all(checker);
	lock_release(&checker->class->lock);
	return error;
}

int64_t
zs_check(struct allocator *allocator, char *why, unsigned why_size)
{
	int64_t objects = 0;

	for (unsigned number = 0; number < allocator->table.count; number++) {
		struct checker checker = {.allocator = allocator,
					  .class = &allocator->class[number],
					  .why = why,
					  .why_size = why_size};
		int error = check_class(&checker);

		if (error)
			return error;
		objects += (int64_t)load_relaxed(&checker.class->objects_used);
	}
	return objects;
}
