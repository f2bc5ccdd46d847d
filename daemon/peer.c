/* SPDX-License-Identifier: BSD-2-Clause */
/* The process at the other end; peer.h has the contract. */
#include "peer.h"

#include <errno.h>
#include <event2/event.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "connection.h"
#include "worker.h"

/* Newer than the C library of the oldest system we build on. */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434 /* Linux 5.3 */
#endif

/* A descriptor of the process that connected; -ENOSYS: the kernel has no such thing. */
static int
peer_open(int fd, pid_t pid)
{
	int pidfd = -1;
	socklen_t size = sizeof(pidfd);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0)
		return pidfd;
	if (errno != ENOPROTOOPT)
		return errno == ENODATA || errno == EINVAL ? -ESRCH : -errno;
	if (pid <= 0)
		return -ENOSYS;
	/*
	 * By number, which another process may have by now if the peer has died. Then that one is
	 * watched, and the connection ends by its end of file or with that process, late at worst.
	 */
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return errno == EPERM ? -ENOSYS : -errno;
	return pidfd;
}

static void
on_death(evutil_socket_t fd, short what, void *arg)
{
	struct connection *connection = arg;

	(void)fd;
	(void)what;
	inbox_awake(&connection->worker->inbox);
	connection_end(connection);
	connection_turn(connection, false);
}

int
peer_watch(struct connection *connection)
{
	struct peer *peer = &connection->peer;
	int pidfd;

	if (peer->watched)
		return 0;
	pidfd = peer_open(connection->fd, connection->pid);
	if (pidfd < 0)
		return pidfd == -ENOSYS ? 0 : pidfd;
	event_assign(&peer->death, connection->worker->base, pidfd, EV_READ, on_death, connection);
	if (event_add(&peer->death, NULL) < 0) {
		close(pidfd);
		return -ENOMEM;
	}
	peer->pidfd = pidfd;
	peer->watched = true;
	return 0;
}

void
peer_unwatch(struct peer *peer)
{
	if (!peer->watched)
		return;
	peer->watched = false;
	event_del(&peer->death);
	close(peer->pidfd);
}
