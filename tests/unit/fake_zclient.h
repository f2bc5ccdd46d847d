/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client library that only pretends: every function of zclient.h, answering as `fake` says. For
 * one test program, test_cli_run.c, which runs zcachectl's commands in front of it in child
 * processes; each child has its own copy of `fake`.
 *
 * Leaves out any memory of what was stored: get returns the same letter, whatever was put.
 */
#ifndef ZCACHED_TESTS_FAKE_ZCLIENT_H
#define ZCACHED_TESTS_FAKE_ZCLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <zclient.h>

#define FAKE_PAGE 4096u

struct zc {
	int opened;
};

struct zc_pool {
	char name[64];
};

/* Runs in the child process, where cmocka's asserts would go on with the next test. */
static void
expect(bool right)
{
	if (!right)
		_exit(101);
}

/* What the next runs find. Errors are positive errnos here; 0 means none. */
static struct {
	int open, pool_open, create, destroy, list, ping, service_stats;
	int put, get, del, exists, del_object, stats, classes;
	int estimate, start, status;
	bool silent;	     /* zc_open never returns */
	bool running;	     /* a compaction, when zc_compact_start says -EALREADY */
	bool restarted;	     /* statuses are of a service that knows of no compaction */
	unsigned statuses;   /* statuses until a compaction has ended */
	uint64_t freeable;   /* OS pages */
	size_t value_length; /* what get returns: that many 'v' */
	uint64_t limit;
	const char *text;		 /* the service's error text */
	const char *pool_name;		 /* of the only pool in the list; NULL: "default" */
	unsigned expect_flags;		 /* of put */
	size_t expect_length;		 /* of put; 0: any */
	struct zc_pool_info expect_pool; /* of create */
} fake;

static struct zc the_service;
static struct zc_pool the_pool;

uint32_t
zc_version(void)
{
	return ZC_VERSION_MAJOR << 16 | ZC_VERSION_MINOR;
}

const char *
zc_default_socket(void)
{
	return "/run/fake.sock";
}

int
zc_open(const char *socket_path, unsigned flags, struct zc **out)
{
	(void)socket_path;
	expect(flags == 0);
	while (fake.silent)
		pause();
	if (fake.open)
		return -fake.open;
	the_service.opened++;
	*out = &the_service;
	return 0;
}

void
zc_close(struct zc **zc)
{
	expect(!the_pool.name[0]); /* every pool is closed */
	if (*zc)
		(*zc)->opened--;
	*zc = NULL;
}

void
zc_set_timeout(struct zc *zc, unsigned milliseconds)
{
	(void)zc;
	(void)milliseconds;
}

int
zc_ping(struct zc *zc)
{
	(void)zc;
	return -fake.ping;
}

const char *
zc_error_text(struct zc *zc)
{
	(void)zc;
	return fake.text ? fake.text : "";
}

int
zc_pool_open(struct zc *zc, const char *name, unsigned flags, struct zc_pool **out)
{
	(void)zc;
	(void)flags;
	if (fake.pool_open)
		return -fake.pool_open;
	snprintf(the_pool.name, sizeof(the_pool.name), "%s", name);
	*out = &the_pool;
	return 0;
}

void
zc_pool_close(struct zc_pool **pool)
{
	if (*pool)
		(*pool)->name[0] = '\0';
	*pool = NULL;
}

static void
fill_pool_info(struct zc_pool_info *info, const char *name)
{
	info->kind = ZC_STORE;
	info->pool_id = UINT64_MAX;
	info->limit = fake.limit;
	info->page_size = FAKE_PAGE;
	info->owner_uid = 4000000000u;
	snprintf(info->name, sizeof(info->name), "%s", name);
	snprintf(info->codec, sizeof(info->codec), "%s", "lz4");
}

int
zc_pool_info(struct zc_pool *pool, struct zc_pool_info *info)
{
	fill_pool_info(info, pool->name);
	return 0;
}

int
zc_pool_create(struct zc *zc, const struct zc_pool_info *info)
{
	(void)zc;
	if (fake.create)
		return -fake.create;
	expect(memcmp(info, &fake.expect_pool, sizeof(*info)) == 0);
	return 0;
}

int
zc_pool_destroy(struct zc *zc, const char *name)
{
	(void)zc;
	(void)name;
	return -fake.destroy;
}

int
zc_pool_list(struct zc *zc, struct zc_pool_info *list, size_t room)
{
	(void)zc;
	if (fake.list)
		return -fake.list;
	expect(list[0].struct_size == sizeof(list[0]));
	expect(room > 0);
	fill_pool_info(list, fake.pool_name ? fake.pool_name : "default");
	return 1;
}

int
zc_put(struct zc_pool *pool, zc_key key, const void *value, size_t length, unsigned flags)
{
	(void)pool;
	(void)key;
	(void)value;
	if (fake.put)
		return -fake.put;
	expect(flags == fake.expect_flags);
	if (fake.expect_length)
		expect(length == fake.expect_length);
	return 0;
}

int
zc_get(struct zc_pool *pool, zc_key key, void *buffer, size_t size)
{
	(void)pool;
	(void)key;
	if (fake.get)
		return -fake.get;
	expect(size == FAKE_PAGE);
	memset(buffer, 'v', fake.value_length);
	return (int)fake.value_length;
}

int
zc_del(struct zc_pool *pool, zc_key key)
{
	(void)pool;
	(void)key;
	return -fake.del;
}

int
zc_exists(struct zc_pool *pool, zc_key key)
{
	(void)pool;
	if (fake.exists)
		return -fake.exists;
	return key.index == 1;
}

int64_t
zc_del_object(struct zc_pool *pool, uint64_t object)
{
	(void)pool;
	return fake.del_object ? -fake.del_object : (int64_t)object;
}

int64_t
zc_flush(struct zc_pool *pool)
{
	(void)pool;
	return 12;
}

int
zc_stats(struct zc_pool *pool, struct zc_stats *stats)
{
	(void)pool;
	if (fake.stats)
		return -fake.stats;
	stats->entries = 16;
	stats->logical_bytes = (uint64_t)16 * FAKE_PAGE;
	stats->stored_bytes = 24000;
	stats->data_bytes = 32768;
	stats->limit_bytes = fake.limit;
	stats->hits = 3;
	stats->misses = 1;
	stats->puts = INT64_MAX;
	return 0;
}

int
zc_service_stats(struct zc *zc, struct zc_service_stats *stats)
{
	(void)zc;
	if (fake.service_stats)
		return -fake.service_stats;
	stats->workers = 2;
	stats->boot_id = 0xfedcba9876543210;
	snprintf(stats->version, sizeof(stats->version), "%s", "0.1.0");
	return 0;
}

int
zc_classes(struct zc_pool *pool, struct zc_class *list, size_t room)
{
	(void)pool;
	if (fake.classes)
		return -fake.classes;
	expect(room >= 2);
	list[0].size = 32;
	list[1].size = 2048;
	list[1].pages_per_zspage = 4;
	list[1].objects_per_zspage = 8;
	list[1].zspages = 3;
	list[1].objects_allocated = 24;
	list[1].objects_used = 10;
	list[1].pages_resident = 11;
	list[1].zspages_freeable = 1;
	list[1].fullness[2] = 2;
	list[1].fullness[10] = 1;
	return 2;
}

static void
fill_compaction(struct zc_compaction *state, bool running)
{
	expect(state->struct_size == sizeof(*state));
	state->running = running;
	state->generation = fake.restarted ? 0 : 9;
	state->classes_total = 10;
	state->estimate_pages = fake.freeable;
	state->moves_lower_bound = fake.freeable * 2;
	state->resident_before = 1 << 20;
	state->resident_now = 1 << 20;
	if (!running) {
		state->pages_freed = fake.freeable;
		state->objects_moved = fake.freeable * 2;
		state->resident_now -= fake.freeable * FAKE_PAGE;
	}
}

int
zc_compact_start(struct zc_pool *pool, unsigned flags, struct zc_compaction *state)
{
	(void)pool;
	if (flags == ZC_ESTIMATE && fake.estimate)
		return -fake.estimate;
	if (flags == 0 && fake.start)
		return -fake.start;
	fill_compaction(state, flags == 0);
	state->generation = 9;
	return 0;
}

int
zc_compact_status(struct zc_pool *pool, struct zc_compaction *state)
{
	(void)pool;
	if (fake.status)
		return -fake.status;
	fill_compaction(state, fake.statuses > 0);
	if (fake.statuses > 0)
		fake.statuses--;
	return 0;
}

#endif
