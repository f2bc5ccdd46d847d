/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Mapping of pools, see attachment.h. Called by client_attach.c when a connection is new: nothing here is
 * fast. No locks.
 */
#include "attachment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic.h"
#include "object.h"

enum {
	CONTROL,
	INDEX,
	DATA,
};

/* ---- the header ---- */

static bool
reserve_sane(uint64_t bytes)
{
	return bytes >= ZC_OS_PAGE_SIZE && bytes <= ZC_DATA_SIZE_MAX &&
	       bytes % ZC_OS_PAGE_SIZE == 0;
}

/* `header` is a private copy. */
static int
header_check(const struct pool_header *header, uint64_t pool_id, uint32_t page_size)
{
	if (header->abi_version != ZC_ABI_VERSION || header->header_size != sizeof(*header) ||
	    header->byte_order != ZC_BYTE_ORDER || header->checksum != pool_header_checksum(header))
		return -EPROTO;
	if (header->pool_id != pool_id || header->page_size != page_size ||
	    page_size < ZC_PAGE_SIZE_MIN || page_size > ZC_PAGE_SIZE_MAX ||
	    (page_size & (page_size - 1)) != 0)
		return -EPROTO;
	return reserve_sane(header->control_max) && reserve_sane(header->index_max) &&
			       reserve_sane(header->data_max)
		       ? 0
		       : -EPROTO;
}

static int
sealed(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_SHRINK ? 0 : -EBADFD;
}

static int
read_header(int control, uint64_t pool_id, uint32_t page_size, struct pool_header *header)
{
	const struct pool_header *shared;
	struct stat status;
	int error = sealed(control);

	if (error)
		return error;
	if (fstat(control, &status) < 0)
		return -errno;
	if (status.st_size < (off_t)sizeof(*header))
		return -EPROTO;
	shared = mmap(NULL, sizeof(*header), PROT_READ, MAP_SHARED, control, 0);
	if (shared == MAP_FAILED)
		return -errno;
	/* Acquire: pairs with the release in pool_build(). */
	error = load_acquire(&shared->magic) == ZC_POOL_MAGIC ? 0 : -EPROTO;
	/* Copied once, then checked. What changes while the pool lives is behind the gap. */
	memcpy(header, shared, offsetof(struct pool_header, gap));
	munmap((void *)shared, sizeof(*shared));
	return error ? error : header_check(header, pool_id, page_size);
}

/* ---- mapping ---- */

static int
map_file(struct attachment *attachment, unsigned file, uint64_t reserve)
{
	char *base;
	int error = sealed(attachment->fd[file]);

	if (error)
		return error;
	base = mmap(NULL, reserve, PROT_READ, MAP_SHARED | MAP_NORESERVE, attachment->fd[file], 0);
	if (base == MAP_FAILED)
		return -errno;
	attachment->base[file] = base;
	attachment->reserve[file] = reserve;
	/* A child has no right to it and does not know when it is gone. */
	if (madvise(base, reserve, MADV_DONTFORK) < 0)
		return -errno;
	/* A core file of ours need not hold everybody's pages; writing them would fill holes, too. */
	madvise(base, reserve, MADV_DONTDUMP);
	return 0;
}

static void
refresh_size(uint64_t *size, int fd, uint64_t reserve)
{
	struct stat status;

	if (fstat(fd, &status) < 0 || status.st_size < 0)
		return;
	/* Relaxed: see attachment_view(). Of two that refresh at once one may set it back a little;
	 * who meets that end looks again. */
	store_relaxed(size,
		      (uint64_t)status.st_size < reserve ? (uint64_t)status.st_size : reserve);
}

void
attachment_refresh(struct attachment *attachment)
{
	struct pool_view *view = &attachment->view;
	uint64_t *const size[] = {&view->control_size, &view->index_size, &view->data_size};

	for (unsigned file = 0; file < ATTACHMENT_FILES; file++)
		refresh_size(size[file], attachment->fd[file], attachment->reserve[file]);
}

static int
map_all(struct attachment *attachment, uint64_t pool_id, uint32_t page_size)
{
	struct pool_header header;
	int error = read_header(attachment->fd[CONTROL], pool_id, page_size, &header);

	if (!error)
		error = map_file(attachment, CONTROL, header.control_max);
	if (!error)
		error = map_file(attachment, INDEX, header.index_max);
	if (!error)
		error = map_file(attachment, DATA, header.data_max);
	if (error)
		return error;
	attachment->view = (struct pool_view){
		.header = (const struct pool_header *)(void *)attachment->base[CONTROL],
		.index = attachment->base[INDEX],
		.data = attachment->base[DATA],
		.page_size = page_size,
		.hash_seed = header.hash_seed,
	};
	attachment_refresh(attachment);
	/* The reader looks into the header without asking for its size. */
	return attachment->view.control_size >= sizeof(header) ? 0 : -EPROTO;
}

int
attachment_open(const int fd[ATTACHMENT_FILES], uint64_t pool_id, uint32_t page_size,
		struct attachment **out)
{
	struct attachment *attachment = calloc(1, sizeof(*attachment));
	int error;

	*out = NULL;
	if (!attachment) {
		for (unsigned file = 0; file < ATTACHMENT_FILES; file++)
			close(fd[file]);
		return -ENOMEM;
	}
	memcpy(attachment->fd, fd, sizeof(attachment->fd));
	error = map_all(attachment, pool_id, page_size);
	if (error)
		attachment_close(&attachment, false);
	*out = attachment;
	return error;
}

void
attachment_close(struct attachment **pointer, bool inherited)
{
	struct attachment *attachment = *pointer;

	*pointer = NULL;
	if (!attachment)
		return;
	for (unsigned file = 0; file < ATTACHMENT_FILES; file++) {
		if (attachment->base[file] && !inherited)
			munmap(attachment->base[file], attachment->reserve[file]);
		close(attachment->fd[file]);
	}
	free(attachment);
}
