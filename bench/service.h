/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A zcached of our own: started on a private socket in a temporary folder, stopped when we end.
 *
 * Used by zcache-bench and zcache-demo. One service at a time in a process. It also stops when we
 * are interrupted or die, and the folder is removed unless we are killed outright. Not thread safe.
 */
#ifndef ZCACHED_BENCH_SERVICE_H
#define ZCACHED_BENCH_SERVICE_H

#include <stdbool.h>
#include <sys/types.h>

struct service {
	pid_t pid;
	char folder[256]; /* mode 0700; holds socket and log */
	char socket[280];
	char log[280];
};

/*
 * Starts $ZCACHED, else the zcached of the same build (../daemon beside our own binary), else the
 * one in $PATH, with --socket, --foreground and `arguments` (NULL ends them), and waits until it
 * answers. On failure says why, log included, and returns false; nothing is left behind.
 */
bool service_start(struct service *service, const char *const *arguments);

/* Stops it and removes the folder. Returns false, and says so, when it did not end in peace. */
bool service_stop(struct service *service);

#endif
