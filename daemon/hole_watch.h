/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Watching for readers that touch holes of a pool's memory; the keeper's business.
 *
 * A read of a hole makes the kernel put a page there that nobody paid for. A reader that lost a race with a
 * delete does it now and then, a hostile one could all the time. What is found is punched. What comes back
 * in a large amount after it was punched twice is no accident: the pool then leaves direct mode, that is,
 * its memory is given to nobody any more (who has it mapped keeps it), and the log names all who were given
 * it. At worst the pool costs its limit and the holes below the ends of its files.
 */
#ifndef ZCACHED_DAEMON_HOLE_WATCH_H
#define ZCACHED_DAEMON_HOLE_WATCH_H

#include <stdbool.h>

struct pool_entry;

/*
 * One look. `proceed` is called between slices, with no lock held; false stops. Returns whether to look
 * again soon.
 */
bool hole_watch(struct pool_entry *entry, bool (*proceed)(void *arg), void *arg);

#endif
