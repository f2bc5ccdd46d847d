/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Creating, destroying and listing pools, for clients.
 *
 * Any user who can connect may create pools and owns them. The limits of all pools that clients
 * made may not pass the service's --limit in sum: that is what the operator has given away.
 */
#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "config.h"
#include "control_private.h"
#include "keeper.h"
#include "registry.h"
#include "size.h"
#include "worker.h"

/* ---- create ---- */

static int
create_kind(struct control *control, const struct control_request *request,
	    struct pool_config *config)
{
	switch (request->kind) {
	case ZCACHE__V1__POOL_KIND__POOL_KIND_UNSPECIFIED:
	case ZCACHE__V1__POOL_KIND__POOL_KIND_STORE:
		config->kind = ZC_KIND_STORE;
		return 0;
	case ZCACHE__V1__POOL_KIND__POOL_KIND_CACHE:
		config->kind = ZC_KIND_CACHE;
		return 0;
	case ZCACHE__V1__POOL_KIND__POOL_KIND_DURABLE:
		return control_refuse(control, -EOPNOTSUPP,
				      "a durable pool needs the swap service, which this service "
				      "does not have");
	default:
		return control_refuse(control, -EINVAL, "kind is not known: cache or store");
	}
}

static int
create_config(struct control *control, const struct control_request *request,
	      struct pool_config *config)
{
	const struct engine_config *defaults = control->engine->config;

	*config = (struct pool_config){
		.page_size = request->page_size ? request->page_size : ZC_PAGE_SIZE_MIN,
		.limit = request->limit ? request->limit : defaults->limit,
		.codec = defaults->codec,
		.owner_uid = request->uid,
		.auto_compact = true,
	};
	memcpy(config->name, request->name, sizeof(config->name));
	if (!config_pool_name_valid(config->name))
		return control_refuse(control, -EINVAL,
				      "a pool's name is 1 to 63 of letters, digits, '.', '_', '-'");
	if (config->page_size < ZC_PAGE_SIZE_MIN || config->page_size > ZC_PAGE_SIZE_MAX ||
	    (config->page_size & (config->page_size - 1)) != 0)
		return control_refuse(control, -EINVAL,
				      "page size is a power of two from 4096 to 65536");
	if (*request->codec && codec_config_parse(request->codec, &config->codec) < 0)
		return control_refuse(
			control, -EINVAL,
			"codec is not known: lz4, lz4:ACCELERATION, zstd, zstd:LEVEL");
	return create_kind(control, request, config);
}

static int
create_room(struct control *control, const struct pool_config *config)
{
	uint64_t limit = control->engine->config->limit;
	uint64_t used = registry_client_limits(&control->engine->registry);
	char all[SIZE_TEXT], left[SIZE_TEXT];

	/* Subtract, never add: what the client asks for can be anything. */
	if (used <= limit && config->limit <= limit - used)
		return 0;
	return control_refuse(control, -ENOSPC,
			      "pools that clients create may have limits of %s in sum (--limit of "
			      "the service); %s is left",
			      size_format(limit, all),
			      size_format(used < limit ? limit - used : 0, left));
}

static int
create_failed(struct control *control, int status)
{
	switch (-status) {
	case EEXIST:
		return control_refuse(control, status, "there is a pool of this name");
	case ENOSPC:
		return control_refuse(
			control, status,
			"the limit does not hold an empty pool, or there are %u pools",
			ENGINE_POOLS_MAX);
	default:
		return control_refuse(control, status, "cannot make the pool: %s",
				      strerror(-status));
	}
}

int
control_pool_create(struct control *control, const struct control_request *request,
		    struct pool_entry *entry, Zcache__V1__Response *response)
{
	struct engine *engine = control->engine;
	struct pool_config config;
	int status = create_config(control, request, &config);

	(void)entry;
	if (status < 0)
		return status;
	if (!registry_has(&engine->registry, config.name))
		status = create_room(control, &config);
	if (status < 0)
		return status;
	status = registry_create_pool(&engine->registry, &config, engine->ceiling,
				      engine->worker_count, true);
	if (status < 0)
		return create_failed(control, status);
	control->info[0] = (Zcache__V1__PoolInfo)ZCACHE__V1__POOL_INFO__INIT;
	reply_fill_pool_info(registry_newest(&engine->registry), &control->info[0],
			     control->codec[0]);
	response->result_case = ZCACHE__V1__RESPONSE__RESULT_POOL;
	response->pool = &control->info[0];
	return 0;
}

/* ---- destroy ---- */

static void
quiescence_pass(struct worker *worker, struct message *message)
{
	(void)worker;
	sem_post(((struct quiescence *)message)->passed);
}

/* Returns when each worker has passed between two operations; see registry.h. */
static void
wait_for_quiescence(struct control *control)
{
	struct engine *engine = control->engine;
	sem_t passed;

	sem_init(&passed, 0, 0);
	for (unsigned i = 0; i < engine->worker_count; i++) {
		control->quiescence[i].passed = &passed;
		inbox_post(&engine->worker[i].inbox, &control->quiescence[i].message,
			   quiescence_pass);
	}
	for (unsigned i = 0; i < engine->worker_count; i++)
		while (sem_wait(&passed) < 0)
			;
	sem_destroy(&passed);
}

int
control_pool_destroy(struct control *control, const struct control_request *request,
		     struct pool_entry *entry, Zcache__V1__Response *response)
{
	(void)request;
	(void)response;
	if (!entry->by_client)
		return control_refuse(control, -EBUSY,
				      "the pool is of the service's configuration");
	registry_remove(&control->engine->registry, entry);
	keeper_forget(control->engine->keeper, entry);
	wait_for_quiescence(control);
	pool_destroy(&entry->pool);
	pool_entry_release(entry); /* the registry's reference; the caller has its own */
	return 0;
}

/* ---- list ---- */

int
control_pool_list(struct control *control, const struct control_request *request,
		  struct pool_entry *entry, Zcache__V1__Response *response)
{
	struct pool_entry *list[ENGINE_POOLS_MAX];
	unsigned count = registry_all(&control->engine->registry, list);
	Zcache__V1__PoolListReply *reply = &control->pool_list;

	(void)entry;
	*reply = (Zcache__V1__PoolListReply)ZCACHE__V1__POOL_LIST_REPLY__INIT;
	reply->pool = control->info_list;
	for (unsigned i = 0; i < count; i++) {
		Zcache__V1__PoolInfo *info = &control->info[reply->n_pool];

		if (pool_entry_permits(list[i], request->uid, control->engine->uid)) {
			*info = (Zcache__V1__PoolInfo)ZCACHE__V1__POOL_INFO__INIT;
			reply_fill_pool_info(list[i], info, control->codec[reply->n_pool]);
			control->info_list[reply->n_pool++] = info;
		}
		pool_entry_release(list[i]);
	}
	response->result_case = ZCACHE__V1__RESPONSE__RESULT_POOL_LIST;
	response->pool_list = reply;
	return 0;
}
