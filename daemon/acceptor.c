/* SPDX-License-Identifier: BSD-2-Clause */
/* The acceptor; acceptor.h says what it is. Its event loop is its own; it shares only counters. */
#include "acceptor.h"

#include <errno.h>
#include <event2/event.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "atomic.h"
#include "connection.h"
#include "log.h"
#include "worker.h"

#define ACCEPT_BATCH 64

struct acceptor {
	struct engine *engine;
	struct event_base *base;
	struct event *listen, *stop, *retry;
	int listening;
	unsigned next; /* worker */
	bool failing;  /* since the last connection that was accepted */
	bool stopped;
};

/* Counts and closes a connection that is not wanted. */
static void
refuse(struct acceptor *acceptor, int fd, const char *why)
{
	/* Relaxed: a number for statistics. */
	add_relaxed(&acceptor->engine->connections_refused, 1);
	log_limited(LOG_KIND_ACCEPT, LOG_WARNING, "a connection was refused: %s", why);
	close(fd);
}

static void
welcome(struct acceptor *acceptor, int fd)
{
	struct engine *engine = acceptor->engine;
	struct worker *worker = &engine->worker[acceptor->next++ % engine->worker_count];
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t size = sizeof(peer);
	struct connection *connection;

	/* Relaxed: this thread alone adds; it may see a connection that has just ended. */
	if (load_relaxed(&engine->connections) >= engine->config->connections_max) {
		refuse(acceptor, fd, "there are as many as --connections allows");
		return;
	}
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
		refuse(acceptor, fd, "the kernel does not say whose it is");
		return;
	}
	connection = connection_create(worker, fd, peer.uid, peer.pid);
	if (!connection) {
		refuse(acceptor, fd, "no memory");
		return;
	}
	add_relaxed(&engine->connections, 1);
	add_relaxed(&engine->connections_total, 1);
	inbox_post(&worker->inbox, &connection->message, connection_adopt);
}

/* Accepting would fail again at once: rests for a second. Said once, until it works again. */
static void
pause_accepting(struct acceptor *acceptor, int error)
{
	static const struct timeval second = {.tv_sec = 1};

	if (!acceptor->failing)
		log_limited(LOG_KIND_ACCEPT, LOG_ERR,
			    "cannot accept connections: %s; tries every second", strerror(error));
	acceptor->failing = true;
	event_del(acceptor->listen);
	event_add(acceptor->retry, &second);
}

static void
on_connection(evutil_socket_t listening, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)what;
	for (int i = 0; i < ACCEPT_BATCH; i++) {
		int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			acceptor->failing = false;
			welcome(acceptor, fd);
			continue;
		}
		if (errno == ECONNABORTED || errno == EINTR)
			continue;
		if (errno != EAGAIN)
			pause_accepting(acceptor, errno);
		return;
	}
}

static void
on_retry(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)fd;
	(void)what;
	event_add(acceptor->listen, NULL);
}

static void
on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct acceptor *acceptor = arg;

	(void)fd;
	(void)what;
	acceptor->stopped = true;
	event_base_loopbreak(acceptor->base);
}

static int
acceptor_make(struct acceptor *acceptor, int stop_fd)
{
	struct event_config *config = event_config_new();

	if (!config)
		return -ENOMEM;
	event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
	acceptor->base = event_base_new_with_config(config);
	event_config_free(config);
	if (!acceptor->base)
		return -ENOMEM;
	acceptor->listen = event_new(acceptor->base, acceptor->listening, EV_READ | EV_PERSIST,
				     on_connection, acceptor);
	acceptor->stop = event_new(acceptor->base, stop_fd, EV_READ, on_stop, acceptor);
	acceptor->retry = evtimer_new(acceptor->base, on_retry, acceptor);
	if (!acceptor->listen || !acceptor->stop || !acceptor->retry ||
	    event_add(acceptor->listen, NULL) < 0 || event_add(acceptor->stop, NULL) < 0)
		return -ENOMEM;
	return 0;
}

static void
acceptor_unmake(struct acceptor *acceptor)
{
	struct event *events[] = {acceptor->listen, acceptor->stop, acceptor->retry};

	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i])
			event_free(events[i]);
	if (acceptor->base)
		event_base_free(acceptor->base);
}

int
acceptor_run(struct engine *engine, int listening, int stop_fd, const struct engine_events *events)
{
	struct acceptor acceptor = {.engine = engine, .listening = listening};
	int result = acceptor_make(&acceptor, stop_fd);

	if (result == 0) {
		if (events->ready)
			events->ready(events->arg);
		event_base_dispatch(acceptor.base);
		/* The loop has no other end, unless the kernel refuses to wait. */
		result = acceptor.stopped ? 0 : -EIO;
		if (events->stopping)
			events->stopping(events->arg);
	}
	acceptor_unmake(&acceptor);
	return result;
}
