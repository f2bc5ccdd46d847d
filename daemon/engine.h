/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine: everything that serves, between a listening socket and pools of memory.
 *
 * engine_run is its whole interface: it starts workers, control thread and keeper, accepts
 * connections in the calling thread, and returns when all of them have ended. It makes no socket
 * and reads no configuration, so that another process can do both and hand them over; it keeps
 * nothing global but the log.
 */
#ifndef ZCACHED_DAEMON_ENGINE_H
#define ZCACHED_DAEMON_ENGINE_H

#include <stdint.h>

#include "pool.h"

#define ENGINE_POOLS_MAX       64u
#define ENGINE_WORKERS_MAX     (POOL_THREADS_MAX - 2) /* control thread and keeper count as well */
#define ENGINE_CONNECTIONS_MAX 65536u
#define ENGINE_CLIENT_TIMEOUT  10u
#define ENGINE_CLIENT_SECONDS  86400u
#define ENGINE_CHANNELS_MAX    (1ULL << 30) /* bytes of all clients' channels */

struct engine_config {
	uint64_t limit; /* of a pool that names none; of all pools clients create, in sum */
	struct codec_config codec; /* of a pool that names none */
	unsigned workers;	   /* 0: one for each CPU */
	unsigned client_timeout;   /* seconds */
	unsigned connections_max;
	struct pool_config pool[ENGINE_POOLS_MAX];
	unsigned pools;
};

/* Told to whoever runs the engine, in the calling thread; each may be NULL. */
struct engine_events {
	void (*ready)(void *arg);    /* connections are accepted */
	void (*stopping)(void *arg); /* no more are */
	void *arg;
};

/*
 * Serves connections of `listening` (a stream socket, non-blocking) until `stop_fd` becomes
 * readable. Closes neither. Returns 0 after an orderly end, or a negative errno when it could not
 * start; the log says why.
 */
int engine_run(const struct engine_config *config, int listening, int stop_fd,
	       const struct engine_events *events);

#endif
