/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The acceptor: takes connections and deals them out to the workers, in the thread that runs the
 * engine.
 */
#ifndef ZCACHED_DAEMON_ACCEPTOR_H
#define ZCACHED_DAEMON_ACCEPTOR_H

#include "engine_private.h"

/* Accepts until `stop_fd` is readable. Returns 0, or a negative errno when it could not begin. */
int acceptor_run(struct engine *engine, int listening, int stop_fd,
		 const struct engine_events *events);

#endif
