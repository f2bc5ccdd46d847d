/* SPDX-License-Identifier: BSD-2-Clause */
/* The pools there are; registry.h has the contract and the locking. */
#include "registry.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "atomic.h"

void
registry_init(struct registry *registry)
{
	*registry = (struct registry){0};
	pthread_mutex_init(&registry->mutex, NULL);
}

void
registry_destroy(struct registry *registry)
{
	for (unsigned i = 0; i < registry->count; i++) {
		struct pool_entry *entry = registry->entry[i];

		pool_destroy(&entry->pool);
		pool_entry_release(entry);
	}
	registry->count = 0;
	pthread_mutex_destroy(&registry->mutex);
}

static struct pool_entry *
entry_create(const struct pool_config *config, unsigned workers, bool by_client)
{
	struct pool_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		return NULL;
	entry->scan = calloc(workers, sizeof(*entry->scan));
	if (!entry->scan) {
		free(entry);
		return NULL;
	}
	for (unsigned i = 0; i < workers; i++)
		scan_queue_init(&entry->scan[i]);
	map_notes_init(&entry->mapped);
	entry->references = 1;
	entry->page_size = config->page_size;
	entry->owner_uid = config->owner_uid;
	entry->limit = config->limit;
	entry->by_client = by_client;
	return entry;
}

/* The caller holds the mutex, or is the control thread, which alone changes the list. */
static struct pool_entry *
find(const struct registry *registry, const char *name)
{
	for (unsigned i = 0; i < registry->count; i++)
		if (strcmp(pool_config(registry->entry[i]->pool)->name, name) == 0)
			return registry->entry[i];
	return NULL;
}

int
registry_create_pool(struct registry *registry, const struct pool_config *config,
		     struct ceiling *ceiling, unsigned workers, bool by_client)
{
	struct pool_entry *entry;
	int result;

	if (find(registry, config->name))
		return -EEXIST;
	if (registry->count == ENGINE_POOLS_MAX)
		return -ENOSPC;
	entry = entry_create(config, workers, by_client);
	if (!entry)
		return -ENOMEM;
	result = pool_create(config, ceiling, &entry->pool);
	if (result < 0) {
		pool_entry_release(entry);
		return result;
	}
	pthread_mutex_lock(&registry->mutex);
	registry->entry[registry->count++] = entry;
	pthread_mutex_unlock(&registry->mutex);
	return 0;
}

bool
registry_has(struct registry *registry, const char *name)
{
	return find(registry, name) != NULL;
}

const struct pool_entry *
registry_newest(const struct registry *registry)
{
	return registry->entry[registry->count - 1];
}

struct pool_entry *
registry_find(struct registry *registry, const char *name)
{
	struct pool_entry *entry;

	pthread_mutex_lock(&registry->mutex);
	entry = find(registry, name);
	/* Relaxed: the registry's own reference keeps it, and the mutex orders the rest. */
	if (entry)
		add_relaxed(&entry->references, 1);
	pthread_mutex_unlock(&registry->mutex);
	return entry;
}

unsigned
registry_all(struct registry *registry, struct pool_entry *list[ENGINE_POOLS_MAX])
{
	unsigned count;

	pthread_mutex_lock(&registry->mutex);
	count = registry->count;
	for (unsigned i = 0; i < count; i++) {
		list[i] = registry->entry[i];
		add_relaxed(&list[i]->references, 1); /* as in registry_find */
	}
	pthread_mutex_unlock(&registry->mutex);
	return count;
}

void
registry_remove(struct registry *registry, struct pool_entry *entry)
{
	unsigned i = 0;

	pthread_mutex_lock(&registry->mutex);
	while (registry->entry[i] != entry)
		i++;
	memmove(&registry->entry[i], &registry->entry[i + 1],
		(registry->count - i - 1) * sizeof(registry->entry[0]));
	registry->count--;
	pthread_mutex_unlock(&registry->mutex);
	/* Pairs with pool_entry_alive; who reads 0 is waited for, see registry.h. */
	store_release(&entry->destroyed, 1);
}

uint64_t
registry_client_limits(struct registry *registry)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < registry->count; i++)
		if (registry->entry[i]->by_client)
			sum += registry->entry[i]->limit;
	return sum;
}

void
pool_entry_release(struct pool_entry *entry)
{
	/* Each release happens before the last one frees. */
	if (__atomic_sub_fetch(&entry->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	assert(!entry->pool);
	map_notes_destroy(&entry->mapped);
	free(entry->scan);
	free(entry);
}

bool
pool_entry_permits(const struct pool_entry *entry, uint32_t uid, uint32_t service_uid)
{
	return uid == 0 || uid == service_uid || uid == entry->owner_uid;
}

bool
pool_entry_alive(const struct pool_entry *entry)
{
	/* Pairs with the store in registry_remove. */
	return !load_acquire(&entry->destroyed);
}
