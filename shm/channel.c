/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Channels; channel.h has the contract and the protocol of waking.
 *
 * Orders. A request is whole before its tail is published (release), and is copied after the tail was seen
 * (acquire); a completion likewise; an entry is used again after the other side's head was seen to pass it
 * (release and acquire of the heads). The two full fences are what lets one side sleep.
 */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "atomic.h"
#include "lock.h"
#include "sealed.h"

/* Newer than the C library of the oldest system we build on. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define RINGS_MAX  256u
#define CACHE_LINE 64u

/* Sequentially consistent: the store before and the load after must not pass each other. */
static inline void
fence_full(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* ---- geometry, creation, mapping ---- */

static bool
power_of_two(uint32_t n)
{
	return n && (n & (n - 1)) == 0;
}

static bool
geometry_allowed(const struct channel_geometry *geometry)
{
	return geometry->rings && geometry->rings <= RINGS_MAX && geometry->entries >= 2 &&
	       geometry->entries <= ZC_CHANNEL_ENTRIES_MAX && power_of_two(geometry->entries) &&
	       geometry->slots && geometry->slots <= ZC_CHANNEL_SLOTS_MAX &&
	       geometry->slot_size >= ZC_PAGE_SIZE_MIN && geometry->slot_size <= ZC_PAGE_SIZE_MAX &&
	       power_of_two(geometry->slot_size);
}

static uint64_t
round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* Two cache lines more than needed: with a power of two, the indices of all rings would share a cache set. */
static uint64_t
ring_stride(const struct channel_geometry *geometry)
{
	return round_up(sizeof(struct channel_ring) +
				geometry->entries * (sizeof(struct channel_request) +
						     sizeof(struct channel_completion)),
			CACHE_LINE) +
	       2 * CACHE_LINE;
}

static uint64_t
slots_offset(const struct channel_geometry *geometry)
{
	return round_up(sizeof(struct channel_header) + geometry->rings * ring_stride(geometry),
			ZC_OS_PAGE_SIZE);
}

uint64_t
channel_size(const struct channel_geometry *geometry)
{
	if (!geometry_allowed(geometry))
		return 0;
	return slots_offset(geometry) + (uint64_t)geometry->slots * geometry->slot_size;
}

static int
map(int fd, const struct channel_geometry *geometry, struct channel *channel)
{
	uint64_t size = channel_size(geometry);
	char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	/* A child must not write to its parent's rings. */
	if (madvise(base, size, MADV_DONTFORK) < 0) {
		munmap(base, size);
		return -errno;
	}
	*channel = (struct channel){.header = (struct channel_header *)(void *)base,
				    .geometry = *geometry,
				    .size = size,
				    .ring_stride = ring_stride(geometry),
				    .rings = base + sizeof(struct channel_header),
				    .slots = base + slots_offset(geometry)};
	return 0;
}

/*
 * All of the memory, now: a worker that touched a page later would take memory that may not be there any more,
 * and under a memory cgroup be killed for it.
 */
static int
populate(int fd, const struct channel *channel)
{
	if (madvise(channel->header, channel->size, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno == EINVAL && fallocate(fd, 0, 0, (off_t)channel->size) == 0)
		return 0;
	return -ENOMEM;
}

static void
header_fill(const struct channel *channel)
{
	struct channel_header *header = channel->header;

	header->abi_version = ZC_ABI_VERSION;
	header->header_size = sizeof(*header);
	header->rings = channel->geometry.rings;
	header->entries = channel->geometry.entries;
	header->slots = channel->geometry.slots;
	header->slot_size = channel->geometry.slot_size;
	header->rings_offset = sizeof(*header);
	header->ring_stride = channel->ring_stride;
	header->slots_offset = slots_offset(&channel->geometry);
	header->size = channel->size;
	/* Pairs with the acquire load in channel_map. */
	store_release(&header->magic, ZC_CHANNEL_MAGIC);
}

int
channel_create(const struct channel_geometry *geometry, struct channel *channel, int *fd)
{
	int error;

	*channel = (struct channel){0};
	if (channel_size(geometry) == 0)
		return -EINVAL;
	lock_assert_no_lock();
	*fd = sealed_memfd("zcached-channel");
	if (*fd < 0)
		return *fd;
	error = ftruncate(*fd, (off_t)channel_size(geometry)) < 0 ? -errno : 0;
	if (!error)
		error = sealed_close(*fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	if (!error)
		error = map(*fd, geometry, channel);
	if (!error)
		error = populate(*fd, channel);
	if (error) {
		channel_unmap(channel);
		close(*fd);
		*fd = -1;
		return error;
	}
	/* Clients' pages do not belong into a core file. Fails on no kernel that we run on. */
	madvise(channel->header, channel->size, MADV_DONTDUMP);
	header_fill(channel);
	return 0;
}

/* Copies the header once and checks the copy. */
static int
header_check(const struct channel_header *shared, uint64_t size, struct channel_geometry *geometry)
{
	struct channel_header header;

	if (load_acquire(&shared->magic) != ZC_CHANNEL_MAGIC)
		return -EPROTO;
	memcpy(&header, shared, sizeof(header));
	*geometry = (struct channel_geometry){header.rings, header.entries, header.slots,
					      header.slot_size};
	if (header.abi_version != ZC_ABI_VERSION || header.header_size != sizeof(header) ||
	    channel_size(geometry) != size || header.size != size ||
	    header.rings_offset != sizeof(header) || header.ring_stride != ring_stride(geometry) ||
	    header.slots_offset != slots_offset(geometry))
		return -EPROTO;
	return 0;
}

int
channel_map(int fd, struct channel *channel)
{
	struct channel_geometry geometry;
	struct stat status;
	void *head;
	int error, seals = fcntl(fd, F_GET_SEALS);

	*channel = (struct channel){0};
	/* Else the other side could make an access fault. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -EBADFD;
	if (fstat(fd, &status) < 0)
		return -errno;
	if (status.st_size < (off_t)sizeof(struct channel_header))
		return -EPROTO;
	head = mmap(NULL, sizeof(struct channel_header), PROT_READ, MAP_SHARED, fd, 0);
	if (head == MAP_FAILED)
		return -errno;
	error = header_check(head, (uint64_t)status.st_size, &geometry);
	munmap(head, sizeof(struct channel_header));
	return error ? error : map(fd, &geometry, channel);
}

void
channel_unmap(struct channel *channel)
{
	if (channel->header)
		munmap(channel->header, channel->size);
	*channel = (struct channel){0};
}

struct channel_end
channel_end(const struct channel *channel, uint32_t number)
{
	char *ring = channel->rings + number * channel->ring_stride;
	char *requests = ring + sizeof(struct channel_ring);
	uint32_t entries = channel->geometry.entries;

	return (struct channel_end){
		.ring = (struct channel_ring *)(void *)ring,
		.request = (struct channel_request *)(void *)requests,
		.completion =
			(struct channel_completion
				 *)(void *)(requests + entries * sizeof(struct channel_request)),
		.entries = entries,
	};
}

/* ---- the worker's side ---- */

bool
channel_serve_waiting(const struct channel_end *end)
{
	/* Relaxed: what is found is looked at again, by channel_serve_take. */
	return load_relaxed(&end->ring->submit_tail) != end->submit;
}

int
channel_serve_take(struct channel_end *end, struct channel_request *request)
{
	/* Acquire: pairs with the release in channel_submit_publish. */
	uint32_t there = load_acquire(&end->ring->submit_tail) - end->submit;

	if (there == 0)
		return 0;
	if (there > end->entries)
		return -EPROTO;
	*request = end->request[end->submit % end->entries];
	/* The copy is made here and now: what the client writes later changes nothing. */
	__asm__ volatile("" : : "r"(request) : "memory");
	end->submit++;
	return 1;
}

void
channel_serve_taken(struct channel_end *end)
{
	/* Release: the copies were made before; pairs with the acquire in channel_submit_room. */
	store_release(&end->ring->submit_head, end->submit);
}

int
channel_serve_complete(struct channel_end *end, uint64_t cookie, int32_t status)
{
	/* Acquire: the entry was read; pairs with the release in channel_reaped. */
	uint32_t used = end->complete - load_acquire(&end->ring->complete_head);

	if (used >= end->entries)
		return -EPROTO;
	end->completion[end->complete++ % end->entries] =
		(struct channel_completion){.cookie = cookie, .status = status};
	return 0;
}

bool
channel_serve_completed(struct channel_end *end, uint32_t before)
{
	uint32_t wake_at;

	/* Pairs with the acquire in channel_reap. */
	store_release(&end->ring->complete_tail, end->complete);
	fence_full(); /* pairs with the one in channel_wake_after */
	wake_at = load_relaxed(&end->ring->wake_at);
	/* Is wake_at one of before + 1 .. complete? */
	return wake_at - before - 1 < end->complete - before;
}

void
channel_serve_wake(struct channel *channel)
{
	add_relaxed(&channel->header->wakes, 1); /* ordered by the system call */
	syscall(SYS_futex, &channel->header->wakes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

bool
channel_serve_may_sleep(struct channel_end *end)
{
	store_relaxed(&end->ring->need_wakeup, 1); /* ordered by the fence */
	fence_full(); /* pairs with the one in channel_submit_publish */
	if (load_relaxed(&end->ring->submit_tail) == end->submit)
		return true;
	channel_serve_awake(end);
	return false;
}

void
channel_serve_awake(struct channel_end *end)
{
	/* Relaxed: a client that still sees 1 rings once too often. */
	store_relaxed(&end->ring->need_wakeup, 0);
}

/* ---- the client's side ---- */

int
channel_submit_room(const struct channel_end *end)
{
	/* Acquire: the entries were copied; pairs with the release in channel_serve_taken. */
	uint32_t used = end->submit - load_acquire(&end->ring->submit_head);

	return used > end->entries ? -EPROTO : (int)(end->entries - used);
}

void
channel_submit_add(struct channel_end *end, const struct channel_request *request)
{
	end->request[end->submit++ % end->entries] = *request;
}

bool
channel_submit_publish(struct channel_end *end)
{
	/* Pairs with the acquire in channel_serve_take. */
	store_release(&end->ring->submit_tail, end->submit);
	fence_full(); /* pairs with the one in channel_serve_may_sleep */
	return load_relaxed(&end->ring->need_wakeup);
}

int
channel_reap(struct channel_end *end, struct channel_completion *completion)
{
	/* Acquire: pairs with the release in channel_serve_completed. */
	uint32_t there = load_acquire(&end->ring->complete_tail) - end->complete;

	if (there == 0)
		return 0;
	if (there > end->entries)
		return -EPROTO;
	*completion = end->completion[end->complete++ % end->entries];
	return 1;
}

void
channel_reaped(struct channel_end *end)
{
	/* Release: the copies were made before; pairs with the acquire in channel_serve_complete. */
	store_release(&end->ring->complete_head, end->complete);
}

void
channel_wake_after(struct channel_end *end, uint32_t more)
{
	store_relaxed(&end->ring->wake_at, end->complete + more); /* ordered by the fence */
	fence_full(); /* pairs with the one in channel_serve_completed */
}

uint32_t
channel_wakes(const struct channel *channel)
{
	/* Acquire: completions are looked for after this. */
	return load_acquire(&channel->header->wakes);
}

int
channel_wait(const struct channel *channel, uint32_t seen, const struct timespec *deadline)
{
	/* With this bitset the time is absolute and of CLOCK_MONOTONIC. */
	long result = syscall(SYS_futex, &channel->header->wakes, FUTEX_WAIT_BITSET, seen, deadline,
			      NULL, FUTEX_BITSET_MATCH_ANY);

	if (result == 0 || errno == EAGAIN)
		return 0;
	return -errno;
}
