/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Going to the background, for a service that was not started with --foreground.
 *
 * The process that was started stays until the one in the background says that it is ready, or
 * fails: its exit status is the answer. Used by main.c only, before there is any thread.
 */
#ifndef ZCACHED_DAEMON_BACKGROUND_H
#define ZCACHED_DAEMON_BACKGROUND_H

/*
 * Forks. In the child, returns the descriptor for background_ready, or a negative errno when there
 * could be no child. The parent does not return: it exits 0 when the child is ready, and with 1
 * when it ended before that or was not ready within 4.5 s (it is killed then).
 */
int background_enter(void);

/* Tells the parent, then closes stdin, stdout and stderr; the log goes to syslog from here on. */
void background_ready(int ready_fd);

#endif
