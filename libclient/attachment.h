/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A pool's memory, mapped to be read.
 *
 * Made from the three descriptors that the service sends, after everything in them has been checked
 * that a reader relies on: the files cannot shrink (an access would fault), their header is one of this
 * version and is the pool's. What is behind the header is the reader's business, which trusts none of it.
 *
 * An attachment does not change but for the sizes of its files, which only grow. Any number of threads may
 * read and refresh it; who closes it sees to it that nobody does any more.
 */
#ifndef ZCLIENT_ATTACHMENT_H
#define ZCLIENT_ATTACHMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "reader.h"

#define ATTACHMENT_FILES 3u

struct attachment {
	struct pool_view view;	  /* its three sizes are atomic: see attachment_view() */
	uint64_t generation;	  /* of the connection that it came on, */
	int fd[ATTACHMENT_FILES]; /* control, index, data */
	char *base[ATTACHMENT_FILES];
	uint64_t reserve[ATTACHMENT_FILES];
	struct attachment *next; /* the owner's */
};

/*
 * Maps the pool behind `fd`; its id must be `pool_id` and its pages of `page_size` bytes. Takes the
 * descriptors, whatever it returns: 0, -EPROTO (not such a pool), -EBADFD (its size is not sealed), -ENOMEM, or
 * what the system said.
 */
int attachment_open(const int fd[ATTACHMENT_FILES], uint64_t pool_id, uint32_t page_size,
		    struct attachment **out);

/* Unmaps and closes. In a child (`inherited`) the addresses may be somebody else's, so they stay. */
void attachment_close(struct attachment **attachment, bool inherited);

/* Looks how long the files are now. Makes system calls. */
void attachment_refresh(struct attachment *attachment);

/* The pool as a reader sees it at this moment. */
static inline struct pool_view
attachment_view(const struct attachment *attachment)
{
	const struct pool_view *view = &attachment->view;

	/* Relaxed sizes: a file was as long as this once, and does not shrink. */
	return (struct pool_view){
		.header = view->header,
		.index = view->index,
		.data = view->data,
		.control_size = __atomic_load_n(&view->control_size, __ATOMIC_RELAXED),
		.index_size = __atomic_load_n(&view->index_size, __ATOMIC_RELAXED),
		.data_size = __atomic_load_n(&view->data_size, __ATOMIC_RELAXED),
		.page_size = view->page_size,
		.hash_seed = view->hash_seed,
	};
}

#endif
