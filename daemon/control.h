/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control thread: everything that may block or take long, away from the workers. It creates and
 * destroys pools (system calls, waiting for workers), and makes long answers (statistics).
 *
 * Requests reach it through a queue and go home through their worker's inbox with the packed
 * answer. A connection has one request here at a time, so the queue is as long as there are
 * connections at most. The mutex guards the queue alone.
 */
#ifndef ZCACHED_DAEMON_CONTROL_H
#define ZCACHED_DAEMON_CONTROL_H

#include <stdbool.h>

#include "zcache.pb-c.h"

struct connection;
struct control;
struct engine;

/* Returns 0 or a negative errno. */
int control_start(struct engine *engine, struct control **out);

/* Does what is queued, then ends the thread. *control becomes NULL; NULL is accepted. */
void control_stop(struct control **control);

/* Hands a request to the control thread; see request_dispatch. */
bool control_request_submit(struct connection *connection, const Zcache__V1__Request *request);

#endif
