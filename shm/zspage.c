/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Allocate and free: see zspage.h for the whole, zspage_private.h for what is shared with trim.c and
 * compact.c.
 *
 * The file goes top down through a slot's life: lists, taking a slot, making a new zspage when no zspage of
 * the class has room, writing the object, freeing it.
 */
#include "zspage_private.h"

#include <errno.h>

/* ---- lists by exact fullness ---- */

int
class_lowest(const struct class *class, unsigned from)
{
	for (unsigned word = from / 64; word < FULLNESS_WORDS; word++) {
		uint64_t bits = class->occupied[word];

		if (word == from / 64)
			bits &= ~0ULL << from % 64;
		if (bits)
			return (int)(word * 64 + (unsigned)__builtin_ctzll(bits));
	}
	return -1;
}

int
class_highest(const struct class *class, int from)
{
	for (int word = from / 64; from >= 0 && word >= 0; word--) {
		uint64_t bits = class->occupied[word];

		if (word == from / 64)
			bits &= ~0ULL >> (63 - from % 64);
		if (bits)
			return word * 64 + 63 - __builtin_clzll(bits);
	}
	return -1;
}

void
zspage_link(struct allocator *allocator, struct zspage *zspage)
{
	struct class *class = &allocator->class[zspage->class];
	uint32_t number = zspage_number(allocator, zspage), *head = &class->list[zspage->inuse];

	lock_assert_held(&class->lock);
	assert(zspage->inuse <= class->size->objects);
	zspage->next = *head;
	zspage->prev = ZSPAGE_NONE;
	if (*head != ZSPAGE_NONE)
		zspage_at(allocator, *head)->prev = number;
	*head = number;
	class->count[zspage->inuse]++;
	bit_set(class->occupied, zspage->inuse);
}

void
zspage_unlink(struct allocator *allocator, struct zspage *zspage)
{
	struct class *class = &allocator->class[zspage->class];
	uint32_t *head = &class->list[zspage->inuse];

	lock_assert_held(&class->lock);
	if (zspage->prev != ZSPAGE_NONE)
		zspage_at(allocator, zspage->prev)->next = zspage->next;
	else
		*head = zspage->next;
	if (zspage->next != ZSPAGE_NONE)
		zspage_at(allocator, zspage->next)->prev = zspage->prev;
	if (--class->count[zspage->inuse] == 0)
		bit_clear(class->occupied, zspage->inuse);
}

void
zspage_isolate(struct allocator *allocator, struct zspage *zspage)
{
	assert(!zspage->isolated);
	zspage_unlink(allocator, zspage);
	zspage->isolated = 1;
	allocator->class[zspage->class].isolated++;
}

void
zspage_put_back(struct allocator *allocator, struct zspage *zspage)
{
	assert(zspage->isolated);
	zspage->isolated = 0;
	allocator->class[zspage->class].isolated--;
	zspage_link(allocator, zspage);
}

void
zspage_join(struct allocator *allocator, struct zspage *zspage)
{
	struct class *class = &allocator->class[zspage->class];
	uint32_t number = zspage_number(allocator, zspage);

	lock_assert_held(&class->lock);
	zspage->all_next = class->all;
	zspage->all_prev = ZSPAGE_NONE;
	if (class->all != ZSPAGE_NONE)
		zspage_at(allocator, class->all)->all_prev = number;
	class->all = number;
	add_relaxed(&class->zspages, 1);
}

void
zspage_part(struct allocator *allocator, struct zspage *zspage)
{
	struct class *class = &allocator->class[zspage->class];

	lock_assert_held(&class->lock);
	if (class->holes_at == zspage_number(allocator, zspage))
		class->holes_at = zspage->all_next;
	if (zspage->all_prev != ZSPAGE_NONE)
		zspage_at(allocator, zspage->all_prev)->all_next = zspage->all_next;
	else
		class->all = zspage->all_next;
	if (zspage->all_next != ZSPAGE_NONE)
		zspage_at(allocator, zspage->all_next)->all_prev = zspage->all_prev;
	sub_relaxed(&class->zspages, 1);
}

/* ---- slots and the OS pages under them ---- */

bool
zspage_page_in_use(const struct allocator *allocator, const struct zspage *zspage, unsigned os_page)
{
	const struct size_class *size = allocator->class[zspage->class].size;
	uint32_t first = os_page * ZC_OS_PAGE_SIZE / size->size;
	uint32_t last = (os_page * ZC_OS_PAGE_SIZE + ZC_OS_PAGE_SIZE - 1) / size->size;

	if (first >= size->objects)
		return false; /* the tail behind the last slot */
	if (last >= size->objects)
		last = size->objects - 1u;
	return bits_any(zspage->slots, first, last);
}

struct page_span {
	unsigned first, last; /* OS pages of the zspage that a slot touches */
};

static struct page_span
slot_span(const struct class *class, unsigned slot)
{
	uint32_t start = slot * class->size->size;

	return (struct page_span){start / ZC_OS_PAGE_SIZE,
				  (start + class->size->size - 1) / ZC_OS_PAGE_SIZE};
}

static unsigned
slot_lowest_free(const struct zspage *zspage)
{
	unsigned word = 0;

	while (zspage->slots[word] == ~0ULL)
		word++;
	return word * 64 + (unsigned)__builtin_ctzll(~zspage->slots[word]);
}

/*
 * Pays for the OS pages of a slot that have no memory yet, and counts the others as no longer idle.
 * Returns 0, or how many pages the budget refused.
 */
static unsigned
zspage_occupy_pages(struct allocator *allocator, struct zspage *zspage, struct page_span span)
{
	struct class *class = &allocator->class[zspage->class];
	unsigned missing = 0, idle = 0;

	for (unsigned page = span.first; page <= span.last; page++) {
		if (!bit_test(zspage->populated, page))
			missing++;
		else if (!zspage_page_in_use(allocator, zspage, page))
			idle++;
	}
	if (missing) {
		if (budget_take(allocator->budget, missing) != BUDGET_OK)
			return missing;
		for (unsigned page = span.first; page <= span.last; page++)
			bit_set(zspage->populated, page);
		add_relaxed(&class->pages_resident, missing);
	}
	if (idle)
		sub_relaxed(&class->pages_idle, idle);
	return 0;
}

int
zspage_take_slot(struct allocator *allocator, struct zspage *zspage, unsigned *slot)
{
	struct class *class = &allocator->class[zspage->class];
	unsigned missing;

	lock_assert_held(&class->lock);
	assert(zspage->inuse < class->size->objects);
	*slot = slot_lowest_free(zspage);
	missing = zspage_occupy_pages(allocator, zspage, slot_span(class, *slot));
	if (missing) {
		*slot = missing;
		return -ENOMEM;
	}
	if (!zspage->isolated)
		zspage_unlink(allocator, zspage);
	bit_set(zspage->slots, *slot);
	zspage->inuse++;
	if (!zspage->isolated)
		zspage_link(allocator, zspage);
	add_relaxed(&class->objects_used, 1);
	return 0;
}

int
class_take_slot(struct allocator *allocator, struct class *class, struct zspage **zspage,
		unsigned *slot)
{
	int fullest = class_highest(class, class->size->objects - 1);

	lock_assert_held(&class->lock);
	if (fullest < 0) {
		*slot = 0;
		return -ENOENT;
	}
	*zspage = zspage_at(allocator, class->list[fullest]);
	return zspage_take_slot(allocator, *zspage, slot);
}

void
zspage_list_for_trim(struct allocator *allocator, struct zspage *zspage)
{
	struct class *class = &allocator->class[zspage->class];

	lock_assert_held(&class->lock);
	if (zspage->trim_listed)
		return;
	zspage->trim_listed = 1;
	zspage->trim_next = class->trim_list;
	/* Relaxed: zs_trim peeks at it without the lock, and takes the lock before it follows it. */
	store_relaxed(&class->trim_list, zspage_number(allocator, zspage));
}

void
zspage_release_slot(struct allocator *allocator, struct zspage *zspage, unsigned slot)
{
	struct class *class = &allocator->class[zspage->class];
	struct page_span span = slot_span(class, slot);
	unsigned idle = 0;

	lock_assert_held(&class->lock);
	assert(bit_test(zspage->slots, slot));
	if (!zspage->isolated)
		zspage_unlink(allocator, zspage);
	bit_clear(zspage->slots, slot);
	zspage->inuse--;
	if (!zspage->isolated)
		zspage_link(allocator, zspage);
	sub_relaxed(&class->objects_used, 1);

	for (unsigned page = span.first; page <= span.last; page++)
		if (!zspage_page_in_use(allocator, zspage, page))
			idle++;
	if (idle) {
		add_relaxed(&class->pages_idle, idle);
		zspage_list_for_trim(allocator, zspage);
	}
	/* With no page of its own in memory to give back, an empty zspage must still be retired. */
	if (zspage->inuse == 0)
		zspage_list_for_trim(allocator, zspage);
}

/* ---- a new zspage ---- */

/* Pays for the page table up to the group of `page`, and makes the control file long enough. */
static int
control_extend(struct allocator *allocator, uint32_t page)
{
	uint64_t end =
		ZC_GROUPS_OFFSET + (page / ZC_GROUP_PAGES + 1ULL) * sizeof(struct page_group);
	uint64_t need = (end + ZC_OS_PAGE_SIZE - 1) / ZC_OS_PAGE_SIZE;
	uint64_t have = load_relaxed(&allocator->control_pages); /* only compared, then swapped */
	int error;

	while (have < need) {
		error = budget_take_slow(allocator->budget, need - have);
		if (!error)
			error = segment_grow(allocator->control, need * ZC_OS_PAGE_SIZE);
		if (error)
			return error;
		if (cas_acq_rel(&allocator->control_pages, &have, need))
			break;
		budget_return(allocator->budget, need - have);
	}
	return 0;
}

/* Tells readers how far into the data file objects may lie. */
static void
data_size_raise(struct pool_header *header, uint64_t size)
{
	uint64_t old = load_relaxed(&header->data_size); /* only raised, by a swap */

	while (old < size && !cas_acq_rel(&header->data_size, &old, size))
		;
}

/* Makes both files long enough for a run, and writes its page table entries. */
static int
run_prepare(struct allocator *allocator, const struct class *class, uint32_t first)
{
	uint64_t end = page_offset(allocator, first + class->size->pages);
	struct page_group *group;
	int error = control_extend(allocator, first);

	if (!error)
		error = segment_grow(allocator->data, end);
	if (error)
		return error;
	group = page_group(allocator, first);
	for (unsigned page = 0; page < class->size->pages; page++)
		store_relaxed(&group->meta[(first + page) % ZC_GROUP_PAGES],
			      page_meta_pack((unsigned)(class - allocator->class), page));
	data_size_raise(allocator->header, end);
	return 0;
}

/* A run and a descriptor; -ENOSPC when the address range is full. */
static int
run_take(struct allocator *allocator, unsigned pages, uint32_t *first, uint32_t *number)
{
	lock_acquire(&allocator->run_lock);
	*first = run_alloc(&allocator->runs, pages);
	if (*first != RUN_NONE) {
		*number = allocator->unused;
		if (*number != ZSPAGE_NONE)
			allocator->unused = zspage_at(allocator, *number)->next;
		else
			*number = allocator->zspages_high++;
	}
	lock_release(&allocator->run_lock);
	return *first == RUN_NONE ? -ENOSPC : 0;
}

static void
run_give(struct allocator *allocator, uint32_t first, unsigned pages, uint32_t number)
{
	lock_acquire(&allocator->run_lock);
	run_free(&allocator->runs, first, pages);
	zspage_at(allocator, number)->next = allocator->unused;
	allocator->unused = number;
	lock_release(&allocator->run_lock);
}

static __attribute__((noinline)) int
zspage_new(struct allocator *allocator, struct class *class)
{
	uint32_t first, number;
	struct zspage *zspage;
	int error = run_take(allocator, class->size->pages, &first, &number);

	if (error)
		return error;
	zspage = zspage_at(allocator, number);
	*zspage =
		(struct zspage){.first_page = first, .class = (uint8_t)(class - allocator->class)};
	error = run_prepare(allocator, class, first);
	if (error) {
		run_give(allocator, first, class->size->pages, number);
		return error;
	}
	store_relaxed(&allocator->zspage_of_page[first], number);
	lock_acquire(&class->lock);
	zspage_join(allocator, zspage);
	zspage_link(allocator, zspage);
	/* Should nobody use it (another thread made one too), trim takes it back. */
	zspage_list_for_trim(allocator, zspage);
	lock_release(&class->lock);
	return 0;
}

void
zspage_retire(struct allocator *allocator, struct zspage *zspage)
{
	const struct size_class *size = allocator->class[zspage->class].size;
	struct page_group *group = page_group(allocator, zspage->first_page);

	for (unsigned page = 0; page < size->pages; page++)
		store_relaxed(&group->meta[(zspage->first_page + page) % ZC_GROUP_PAGES], 0);
	run_give(allocator, zspage->first_page, size->pages, zspage_number(allocator, zspage));
}

/* ---- malloc, write, free ---- */

/*
 * The class had no slot to give: none of its zspages has room (missing == 0), or the lowest free slot's
 * memory, `missing` OS pages, was refused. 0 means try again. A pool at its limit first gives back
 * what is free but not yet returned; a cgroup's ceiling is read anew.
 */
static __attribute__((noinline)) int
zs_make_room(struct allocator *allocator, struct class *class, unsigned missing)
{
	int error;

	if (missing) {
		error = budget_take_slow(allocator->budget, missing);
		if (!error)
			budget_return(allocator->budget, missing);
	} else {
		error = zspage_new(allocator, class);
	}
	if ((error == -ENOSPC || error == -ENOMEM) && zs_trim(allocator, UINT32_MAX))
		return 0;
	return error;
}

/* Others may take what was made room for; a thread that loses so often is refused like at the limit. */
#define ZS_MALLOC_TRIES 64

int
zs_malloc(struct allocator *allocator, uint32_t length, uint64_t *offset)
{
	struct class *class = &allocator->class[size_class_of(&allocator->table, length)];
	struct zspage *zspage;
	unsigned slot;

	for (unsigned try = 0; try < ZS_MALLOC_TRIES; try++) {
		int error;

		lock_acquire(&class->lock);
		error = class_take_slot(allocator, class, &zspage, &slot);
		if (!error)
			*offset = slot_offset(allocator, zspage, slot);
		lock_release(&class->lock);
		if (!error)
			return 0;
		error = zs_make_room(allocator, class, slot);
		if (error)
			return error;
	}
	return -ENOSPC;
}

void
zs_write(struct allocator *allocator, uint64_t offset, uint64_t object_header, const void *stored,
	 uint32_t length)
{
	char *object = allocator->data->base + offset;
	uint32_t page = (uint32_t)(offset / allocator->page_size);

	lock_assert_no_lock();
	fence_release();
	if (length == allocator->page_size) {
		/* Relaxed: a reader uses it only after an acquire load of the bucket header that publishes it. */
		store_relaxed(&page_group(allocator, page)->object_header[page % ZC_GROUP_PAGES],
			      object_header);
	} else {
		store_relaxed((uint64_t *)(void *)object, object_header);
		object += ZC_OBJECT_HEADER_SIZE;
	}
	memcpy(object, stored, length);
}

struct zspage *
zspage_find(const struct allocator *allocator, uint64_t offset)
{
	uint32_t page = (uint32_t)(offset / allocator->page_size);
	/* Relaxed: both were written before the object was published, and the caller has seen that. */
	uint16_t meta = load_relaxed(&page_group(allocator, page)->meta[page % ZC_GROUP_PAGES]);

	assert(meta & ZC_PAGE_USED);
	return zspage_at(allocator,
			 load_relaxed(&allocator->zspage_of_page[page - (meta >> 8 & 0xf)]));
}

/*
 * The slot that an object of `length` stored bytes at `offset` would be in; false where the page table knows no
 * such slot. Any numbers may be asked. Whether it is in use is for the class lock's holder to see.
 */
static bool
slot_find(const struct allocator *allocator, uint64_t offset, uint32_t length,
	  struct zspage **zspage, unsigned *slot)
{
	const struct size_class_table *table = &allocator->table;
	uint32_t page = (uint32_t)(offset / allocator->page_size);
	unsigned class;
	uint64_t within;
	uint16_t meta;

	if (offset >= load_relaxed(&allocator->header->data_size) || length == 0 ||
	    (length > table->stored_max && length != table->page_size))
		return false;
	class = size_class_of(table, length);
	meta = load_relaxed(&page_group(allocator, page)->meta[page % ZC_GROUP_PAGES]);
	if (!(meta & ZC_PAGE_USED) || (meta & 0xff) != class)
		return false;
	*zspage = zspage_find(allocator, offset);
	within = offset - page_offset(allocator, (*zspage)->first_page);
	*slot = (unsigned)(within / table->class[class].size);
	return within % table->class[class].size == 0 && *slot < table->class[class].objects;
}

bool
zs_free(struct allocator *allocator, uint64_t offset, uint32_t length)
{
	struct zspage *zspage;
	struct class *class;
	unsigned slot;
	bool in_use;

	if (!slot_find(allocator, offset, length, &zspage, &slot))
		return false;
	class = &allocator->class[zspage->class];
	lock_acquire(&class->lock);
	in_use = bit_test(zspage->slots, slot);
	if (in_use)
		zspage_release_slot(allocator, zspage, slot);
	lock_release(&class->lock);
	return in_use;
}

bool
zs_object_exists(struct allocator *allocator, uint64_t offset, uint32_t length)
{
	struct zspage *zspage;
	struct class *class;
	unsigned slot;
	bool exists;

	if (!slot_find(allocator, offset, length, &zspage, &slot))
		return false;
	class = &allocator->class[zspage->class];
	lock_acquire(&class->lock);
	exists = bit_test(zspage->slots, slot);
	lock_release(&class->lock);
	return exists;
}
