/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Size classes of a pool: which sizes objects are rounded up to, and how many pool pages make a
 * zspage of each.
 *
 * Sizes go in steps of page_size / 256 (16 bytes for pages of 4 KiB) from two steps up to the page
 * size. The chain length of a size is the number of pages, at most ZC_CHAIN_MAX, that leaves the
 * least share of the zspage unused behind the last object; ties go to the shorter chain.
 * Neighbouring sizes with the same chain length and object count are merged into the largest of
 * them. An object never crosses a zspage's end, and a zspage is contiguous in the file, so no
 * object is ever split.
 *
 * The last class is the raw class: one page, one object, header in the page table. Every size whose
 * class would hold no more objects a page than that is stored raw (`huge` in zsmalloc's words).
 * The table is a function of the page size alone, hence the same in engine, reader and recovery.
 */
#ifndef ZCACHED_SHM_SIZE_CLASS_H
#define ZCACHED_SHM_SIZE_CLASS_H

#include <stdint.h>

#include "layout.h"

#define SIZE_CLASSES_MAX 255u

struct size_class {
	uint32_t size;	  /* bytes of a slot, object header included (raw class: page size) */
	uint16_t objects; /* slots in a zspage: at most 256 */
	uint16_t pages;	  /* pool pages in a zspage: at most ZC_CHAIN_MAX */
};

struct size_class_table {
	uint32_t page_size;
	uint32_t step;	     /* bytes between sizes before merging */
	uint32_t stored_max; /* longest stored length that is not raw */
	unsigned count;	     /* classes, the raw one (index count - 1) included */
	struct size_class class[SIZE_CLASSES_MAX];
	uint8_t of_step[257]; /* (bytes + step - 1) / step -> class */
};

/* Fills the table. page_size: a power of two, ZC_PAGE_SIZE_MIN .. ZC_PAGE_SIZE_MAX. */
void size_class_table_init(struct size_class_table *table, uint32_t page_size);

/* Class of an object of `length` stored bytes; length == page_size means raw. */
static inline unsigned
size_class_of(const struct size_class_table *table, uint32_t length)
{
	if (length == table->page_size)
		return table->count - 1;
	assert(length <= table->stored_max);
	return table->of_step[(length + ZC_OBJECT_HEADER_SIZE + table->step - 1) / table->step];
}

#endif
