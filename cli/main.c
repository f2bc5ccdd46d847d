/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcachectl: the operator's tool. Prepares the process; everything else is cli_run.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "command.h"

/*
 * A standard descriptor that was closed must not become the socket's. It is opened the wrong way
 * round, so that using it still fails as it would have.
 */
static void
occupy_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			exit(6);
}

int
main(int argc, char **argv)
{
	occupy_standard_descriptors();
	/* A reader that went away is a write error, reported as any other. */
	signal(SIGPIPE, SIG_IGN);
	return cli_run(argc, argv);
}
