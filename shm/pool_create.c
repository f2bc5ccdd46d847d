/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Making and unmaking pools, and the scratch memory of their users. The control thread's business; no other
 * thread knows the pool yet, or any more, so nothing here locks.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "object.h"
#include "pool_private.h"

int
pool_context_create(unsigned thread, struct pool_context **out)
{
	struct pool_context *context = calloc(1, sizeof(*context));
	int error = context ? 0 : -ENOMEM;

	assert(thread < POOL_THREADS_MAX);
	if (!error) {
		context->thread = thread;
		context->value = malloc(ZC_PAGE_SIZE_MAX);
		context->stored = malloc(2 * ZC_PAGE_SIZE_MAX);
		error = codec_stream_create(ZC_PAGE_SIZE_MAX, &context->stream);
	}
	if (!error && (!context->value || !context->stored))
		error = -ENOMEM;
	if (error) {
		pool_context_destroy(&context);
	} else {
		/* Touched now, so that no request pays for it. */
		memset(context->value, 0, ZC_PAGE_SIZE_MAX);
		memset(context->stored, 0, 2 * ZC_PAGE_SIZE_MAX);
	}
	*out = context;
	return error;
}

void
pool_context_destroy(struct pool_context **pointer)
{
	struct pool_context *context = *pointer;

	*pointer = NULL;
	if (!context)
		return;
	codec_stream_destroy(&context->stream);
	free(context->value);
	free(context->stored);
	free(context);
}

static bool
config_valid(const struct pool_config *config)
{
	uint32_t size = config->page_size;

	return size >= ZC_PAGE_SIZE_MIN && size <= ZC_PAGE_SIZE_MAX && (size & (size - 1)) == 0 &&
	       (config->kind == ZC_KIND_CACHE || config->kind == ZC_KIND_STORE) &&
	       config->limit > 0 && config->limit <= ZC_DATA_SIZE_MAX && config->name[0] != '\0' &&
	       memchr(config->name, '\0', sizeof(config->name)) &&
	       (config->codec.codec == ZC_CODEC_LZ4 || config->codec.codec == ZC_CODEC_ZSTD);
}

/*
 * Address space of the data file: twice what the limit or the machine's memory is, since runs leave gaps and
 * the limit may be raised while the pool lives. Addresses cost nothing until they are used.
 */
static uint64_t
data_address_max(const struct pool_config *config)
{
	uint64_t unit = (uint64_t)config->page_size * ZC_GROUP_PAGES, bytes = config->address_max;
	struct sysinfo info;

	if (bytes == 0) {
		bytes = config->limit;
		if (sysinfo(&info) == 0 && (uint64_t)info.totalram * info.mem_unit > bytes)
			bytes = (uint64_t)info.totalram * info.mem_unit;
		bytes *= 2;
	}
	if (bytes > ZC_DATA_SIZE_MAX)
		bytes = ZC_DATA_SIZE_MAX;
	return (bytes + unit - 1) / unit * unit;
}

static uint64_t
os_pages_up(uint64_t bytes)
{
	return (bytes + ZC_OS_PAGE_SIZE - 1) / ZC_OS_PAGE_SIZE * ZC_OS_PAGE_SIZE;
}

/* A quarter of the data's address space holds an entry for every 128 bytes of data. */
#define INDEX_ADDRESS_MIN (64ULL << 20)

static void
geometry(const struct pool_config *config, struct pool_header *geometry)
{
	uint64_t groups;

	geometry->data_max = data_address_max(config);
	groups = geometry->data_max / config->page_size / ZC_GROUP_PAGES;
	geometry->control_max = os_pages_up(ZC_GROUPS_OFFSET + groups * sizeof(struct page_group));
	geometry->index_max = geometry->data_max / 4;
	if (geometry->index_max < INDEX_ADDRESS_MIN)
		geometry->index_max = INDEX_ADDRESS_MIN;
}

/* Fills the first page, all but the magic. */
static int
header_write(const struct pool_config *config, const struct pool_header *geometry,
	     struct pool_header *header)
{
	header->abi_version = ZC_ABI_VERSION;
	header->header_size = sizeof(*header);
	header->byte_order = ZC_BYTE_ORDER;
	header->page_size = config->page_size;
	header->kind = config->kind;
	header->owner_uid = config->owner_uid;
	if (getrandom(&header->pool_id, sizeof(header->pool_id), 0) != sizeof(header->pool_id) ||
	    getrandom(&header->hash_seed, sizeof(header->hash_seed), 0) !=
		    sizeof(header->hash_seed))
		return -EIO;
	header->data_max = geometry->data_max;
	header->index_max = geometry->index_max;
	header->control_max = geometry->control_max;
	memcpy(header->name, config->name, sizeof(header->name));
	header->checksum = pool_header_checksum(header);
	header->state = ZC_POOL_LIVE;
	header->epoch = 1;
	return 0;
}

static int
segments_create(struct pool *pool, const struct pool_header *geometry)
{
	int error = segment_create(&pool->control, "zcached-control", geometry->control_max);

	if (!error)
		error = segment_create(&pool->index_segment, "zcached-index", geometry->index_max);
	if (!error)
		error = segment_create(&pool->data, "zcached-data", geometry->data_max);
	if (!error)
		error = budget_take_slow(&pool->budget, 1);
	if (!error)
		error = segment_grow(&pool->control, ZC_OS_PAGE_SIZE);
	return error;
}

static void
read_only_close(struct pool *pool)
{
	for (unsigned file = 0; file < POOL_FILES; file++) {
		if (pool->read_only[file] >= 0)
			close(pool->read_only[file]);
		pool->read_only[file] = -1;
	}
}

/*
 * A description of its own for each file: a descriptor that was only duplicated would allow to write. Where /proc
 * is missing there are none, and clients read through rings and sockets.
 */
static void
read_only_open(struct pool *pool)
{
	const int files[POOL_FILES] = {pool->control.fd, pool->index_segment.fd, pool->data.fd};
	char path[32];

	for (unsigned file = 0; file < POOL_FILES; file++) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", files[file]);
		pool->read_only[file] = open(path, O_RDONLY | O_CLOEXEC);
		if (pool->read_only[file] < 0) {
			read_only_close(pool);
			return;
		}
	}
}

int
pool_read_only(const struct pool *pool, int fd[POOL_FILES])
{
	if (pool->read_only[0] < 0)
		return -EOPNOTSUPP;
	memcpy(fd, pool->read_only, sizeof(pool->read_only));
	return 0;
}

static int
pool_build(struct pool *pool, const struct pool_config *config)
{
	struct pool_header plan = {0};
	int error;

	geometry(config, &plan);
	error = segments_create(pool, &plan);
	if (error)
		return error;
	pool->header = (struct pool_header *)(void *)pool->control.base;
	error = header_write(config, &plan, pool->header);
	if (!error)
		error = index_create(pool->header, &pool->index_segment, &pool->budget,
				     &pool->index);
	if (!error)
		error = allocator_create(pool->header, &pool->control, &pool->data, &pool->budget,
					 &pool->allocator);
	pool->view = (struct pool_view){.header = pool->header,
					.index = pool->index_segment.base,
					.data = pool->data.base,
					.control_size = plan.control_max,
					.index_size = plan.index_max,
					.data_size = plan.data_max,
					.page_size = config->page_size,
					.hash_seed = pool->header->hash_seed};
	/*
	 * Last: whoever maps a half-made pool sees no magic. Pairs with the acquire load of the magic in what
	 * attaches to a pool.
	 */
	if (!error)
		store_release(&pool->header->magic, ZC_POOL_MAGIC);
	return error;
}

int
pool_create(const struct pool_config *config, struct ceiling *ceiling, struct pool **out)
{
	struct pool *pool;
	int error;

	*out = NULL;
	if (!config_valid(config))
		return -EINVAL;
	if (posix_memalign((void **)&pool, 64, sizeof(*pool)))
		return -ENOMEM;
	memset(pool, 0, sizeof(*pool));
	pool->config = *config;
	pool->control.fd = pool->index_segment.fd = pool->data.fd = -1;
	memset(pool->read_only, 0xff, sizeof(pool->read_only));
	budget_init(&pool->budget, config->limit, ceiling);
	error = pool_build(pool, config);
	if (error)
		pool_destroy(&pool);
	else
		read_only_open(pool);
	*out = pool;
	return error;
}

/* Readers that still have it mapped see DEAD; pages they hold mapped are freed all the same. */
static void
segment_retire(struct segment *segment)
{
	if (segment->fd >= 0 && segment->size)
		segment_punch(segment, 0, segment->size);
	segment_close(segment);
}

void
pool_destroy(struct pool **pointer)
{
	struct pool *pool = *pointer;

	*pointer = NULL;
	if (!pool)
		return;
	/* Pairs with the acquire load of the state in reader.c. */
	if (pool->header)
		store_release(&pool->header->state, (uint32_t)ZC_POOL_DEAD);
	read_only_close(pool);
	allocator_destroy(&pool->allocator);
	index_destroy(&pool->index);
	segment_retire(&pool->data);
	segment_retire(&pool->index_segment);
	segment_close(&pool->control); /* not punched: it says DEAD for as long as anybody looks */
	budget_return(&pool->budget, load_relaxed(&pool->budget.used));
	free(pool);
}
