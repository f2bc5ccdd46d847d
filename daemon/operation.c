/* SPDX-License-Identifier: BSD-2-Clause */
/* One operation on one page; operation.h has the contract. */
#include "operation.h"

#include <errno.h>
#include <inttypes.h>

#include "engine_private.h"
#include "keeper.h"
#include "log.h"
#include "worker.h"

static const char *
operation_text(const struct operation *operation)
{
	switch (-operation->status) {
	case ENOENT:
		return "no such page";
	case EBADF:
		return "the pool was destroyed";
	case EBADMSG:
		return "the page is damaged";
	case EINVAL:
		return "the value is empty";
	case EMSGSIZE:
		return "the value is longer than the pool's page size";
	case ENOSPC:
		return "the pool's limit is reached";
	case ENOMEM:
		return "a memory cgroup or the machine has no room";
	case EXFULL:
		return "too many keys collide in the index";
	default:
		return "the operation failed";
	}
}

/* Explains an error in words; logs those that an operator should hear of. */
static void __attribute__((noinline)) operation_failed(struct operation *operation)
{
	const char *name;

	operation->text = operation_text(operation);
	if (operation->status == -EBADF)
		return;
	name = pool_config(operation->entry->pool)->name;
	if (operation->status == -ENOMEM)
		log_limited(
			LOG_KIND_MEMORY, LOG_WARNING,
			"pool %s: a put was refused: a memory cgroup or the machine has no room",
			name);
	else if (operation->status == -EBADMSG)
		log_limited(LOG_KIND_DAMAGED, LOG_ERR,
			    "pool %s: page %" PRIu64 ":%" PRIu64
			    " is damaged; it stays unreadable until it is overwritten or deleted",
			    name, operation->key.object, operation->key.index);
}

static int
operation_get(struct operation *operation, struct worker *worker)
{
	int length = pool_get(operation->entry->pool, worker->context, &operation->key,
			      operation->value, operation->entry->page_size);

	/* The bytes of a damaged value have been freed. */
	if (length == -EBADMSG)
		keeper_poke(worker->engine->keeper, operation->entry);
	if (length < 0)
		return length;
	operation->length = (uint32_t)length;
	return 0;
}

/* A put may have replaced a value; a refused one may have removed it. */
static int
operation_put(struct operation *operation, struct worker *worker)
{
	int status = pool_put(operation->entry->pool, worker->context, &operation->key,
			      operation->value, operation->length, operation->flags);

	keeper_poke(worker->engine->keeper, operation->entry);
	return status;
}

static int
operation_delete(struct operation *operation, struct worker *worker)
{
	int status = pool_delete(operation->entry->pool, worker->context, &operation->key);

	if (status == 0)
		keeper_poke(worker->engine->keeper, operation->entry);
	return status;
}

static int
operation_status(struct operation *operation, struct worker *worker)
{
	/* From here to the end of the operation the pool stays, see registry.h. */
	if (!pool_entry_alive(operation->entry))
		return -EBADF;
	switch (operation->type) {
	case OPERATION_PUT:
		return operation_put(operation, worker);
	case OPERATION_GET:
		return operation_get(operation, worker);
	case OPERATION_DELETE:
		return operation_delete(operation, worker);
	default:
		return pool_exists(operation->entry->pool, worker->context, &operation->key);
	}
}

void
operation_execute(struct operation *operation, struct worker *worker)
{
	operation->text = NULL;
	operation->status = operation_status(operation, worker);
	if (operation->status < 0)
		operation_failed(operation);
}
