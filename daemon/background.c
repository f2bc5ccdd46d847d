/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Going to the background; background.h has the contract. The child's errors need no way back: it
 * has the parent's stderr until it is ready.
 */
#include "background.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"

#define READY_TIMEOUT_MS 4500

static int
wait_for_end(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return status;
}

static void __attribute__((noreturn)) parent_wait(pid_t child, int ready_fd)
{
	struct pollfd wait = {.fd = ready_fd, .events = POLLIN};
	char byte;
	int status;

	if (poll(&wait, 1, READY_TIMEOUT_MS) == 0) {
		log_error("not ready after %d ms: stopped", READY_TIMEOUT_MS);
		kill(child, SIGKILL);
		wait_for_end(child);
		_exit(1);
	}
	if (read(ready_fd, &byte, 1) == 1)
		_exit(0);
	status = wait_for_end(child);
	if (WIFSIGNALED(status))
		log_error("ended by signal %d before it was ready", WTERMSIG(status));
	_exit(1);
}

int
background_enter(void)
{
	int ready[2];
	pid_t child;

	if (pipe2(ready, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child < 0)
		return -errno;
	if (child > 0) {
		close(ready[1]);
		parent_wait(child, ready[0]);
	}
	close(ready[0]);
	setsid();
	return ready[1];
}

void
background_ready(int ready_fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	log_to_syslog();
	for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
	/* If the parent is gone there is nobody to be told, and the service runs all the same. */
	if (write(ready_fd, "R", 1) < 0)
		log_warning("whoever started the service did not wait until it was ready");
	close(ready_fd);
}
