/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Checks a pool: index, allocator and the checksum of every object. For tests and `zcachectl check`.
 *
 * Runs online. The index is copied out bucket by bucket, then each entry is checked without a lock; what looks
 * wrong is looked up again, and is a fault only if the entry still says the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "pool_private.h"

struct check_entry {
	struct page_key key;
	uint64_t word;
};

struct check {
	struct pool *pool;
	struct pool_context *context;
	char *why;
	unsigned why_size;
	struct check_entry *entry; /* those with an object */
	size_t count, room;
};

#define KEY_FORMAT    "%llu:%llu"
#define KEY_ARGS(key) (unsigned long long)(key)->object, (unsigned long long)(key)->index

static int
collect(void *arg, const struct page_key *key, struct index_value value)
{
	struct check *check = arg;

	if (value.same_filled || location_codec(value.word) == ZC_CODEC_POISON)
		return 0;
	if (check->count == check->room) {
		size_t room = check->room ? 2 * check->room : 1024;
		void *grown = realloc(check->entry, room * sizeof(*check->entry));

		if (!grown)
			return -ENOMEM;
		check->entry = grown;
		check->room = room;
	}
	check->entry[check->count++] = (struct check_entry){*key, value.word};
	return 0;
}

/* Has the entry not changed since it was collected? Then what is wrong with it is wrong. */
static bool
still_there(struct check *check, const struct check_entry *entry)
{
	struct index_value value;
	uint32_t hash = key_hash(check->pool->view.hash_seed, &entry->key);

	return index_find(check->pool->index, &entry->key, hash, &value) && !value.same_filled &&
	       value.word == entry->word;
}

static int
fault(struct check *check, const struct check_entry *entry, const char *what)
{
	if (!still_there(check, entry))
		return 0;
	snprintf(check->why, check->why_size, "key " KEY_FORMAT ": %s", KEY_ARGS(&entry->key),
		 what);
	return -EUCLEAN;
}

static int
check_entry(struct check *check, const struct check_entry *entry)
{
	struct reader_result result;
	int error;

	if (!zs_object_exists(check->pool->allocator, location_offset(entry->word),
			      location_length(entry->word)))
		return fault(check, entry, "its location is no object in use");
	error = reader_get(&check->pool->view, &entry->key, check->context->stored, &result);
	if (error == -EBADMSG)
		return fault(check, entry, "its object is damaged");
	return 0;
}

static int
by_offset(const void *a, const void *b)
{
	uint64_t left = location_offset(((const struct check_entry *)a)->word);
	uint64_t right = location_offset(((const struct check_entry *)b)->word);

	return (left > right) - (left < right);
}

static int
check_overlaps(struct check *check)
{
	if (check->count)
		qsort(check->entry, check->count, sizeof(*check->entry), by_offset);
	for (size_t i = 1; i < check->count; i++) {
		const struct check_entry *one = &check->entry[i - 1], *other = &check->entry[i];

		if (by_offset(one, other) == 0 && still_there(check, one)) {
			int error = fault(check, other, "shares its object with another key");

			if (error)
				return error;
		}
	}
	return 0;
}

int
pool_check(struct pool *pool, struct pool_context *context, char *why, unsigned why_size)
{
	struct check check = {.pool = pool, .context = context, .why = why, .why_size = why_size};
	int64_t objects = zs_check(pool->allocator, why, why_size);
	int error = objects < 0 ? (int)objects : 0;

	if (!error) {
		error = index_walk(pool->index, collect, &check);
		if (error)
			snprintf(why, why_size, "index: %s", strerror(-error));
	}
	for (size_t i = 0; !error && i < check.count; i++)
		error = check_entry(&check, &check.entry[i]);
	if (!error)
		error = check_overlaps(&check);
	free(check.entry);
	return error;
}
