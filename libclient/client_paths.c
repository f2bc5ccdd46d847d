/* SPDX-License-Identifier: BSD-2-Clause */
/* Which way the calls on a zc went. Thread safe: all counts are atomic, and read in no order. */
#include <errno.h>

#include "atomic.h"
#include "client.h"

/* Direct reads are counted where they are made, by each place of a reader for itself. */
static void
sum_readers(struct reader_slots *readers, struct zc_paths *paths)
{
	for (unsigned i = 0; i < READER_SLOTS; i++) {
		const struct reader_slot *slot = &readers->slot[i];

		paths->direct_gets += load_relaxed(&slot->gets);
		paths->direct_exists += load_relaxed(&slot->exists);
		paths->direct_retries += load_relaxed(&slot->retries);
	}
}

int
zc_path_stats(struct zc *zc, struct zc_paths *out)
{
	struct zc_paths paths = {0};

	if (!zc || !out || !struct_size_good(out->struct_size))
		return -EINVAL;
	sum_readers(&zc->readers, &paths);
	paths.ring_gets = load_relaxed(&zc->counts.ring_gets);
	paths.socket_gets = load_relaxed(&zc->counts.socket_gets);
	paths.ring_puts = load_relaxed(&zc->counts.ring_puts);
	paths.socket_puts = load_relaxed(&zc->counts.socket_puts);
	paths.ring_dels = load_relaxed(&zc->counts.ring_dels);
	paths.socket_dels = load_relaxed(&zc->counts.socket_dels);
	paths.ring_exists = load_relaxed(&zc->counts.ring_exists);
	paths.socket_exists = load_relaxed(&zc->counts.socket_exists);
	struct_give(out, out->struct_size, &paths, sizeof(paths));
	return 0;
}
