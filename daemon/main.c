/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * zcached: the service. This file is its start: command line, background, signals, socket; then the
 * engine runs. Exit status: 0 after SIGTERM or SIGINT, 1 when it could not start, 2 for a command
 * line that makes no sense.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "background.h"
#include "config.h"
#include "engine.h"
#include "listener.h"
#include "log.h"
#include "zcached_version.h"

#define EXIT_FAILED 1
#define EXIT_USAGE  2

struct service {
	const struct config *config;
	int ready_fd; /* for whoever waits for the one in the background; -1: nobody */
};

static void
on_ready(void *arg)
{
	struct service *service = arg;

	log_info("ready on %s", service->config->listener.path);
	if (service->ready_fd >= 0)
		background_ready(service->ready_fd);
	sd_notify(0, "READY=1");
}

static void
on_stopping(void *arg)
{
	(void)arg;
	sd_notify(0, "STOPPING=1");
}

/* Numbers 0 to 2 are not to become those of sockets, where libraries print to them. */
static void
open_standard_files(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

/* Blocks the signals that end the service, in all threads to come; returns where to read them. */
static int
stop_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int
serve(struct service *service, int stop_fd)
{
	const struct engine_events events = {on_ready, on_stopping, service};
	struct listener listener;
	int result = listener_open(&service->config->listener, &listener);

	if (result < 0)
		return EXIT_FAILED;
	result = engine_run(&service->config->engine, listener.fd, stop_fd, &events);
	listener_close(&listener);
	return result < 0 ? EXIT_FAILED : 0;
}

static int
run(const struct config *config)
{
	struct service service = {.config = config, .ready_fd = -1};
	int stop_fd;

	if (!config->foreground) {
		service.ready_fd = background_enter();
		if (service.ready_fd < 0) {
			log_error("cannot go to the background: %s", strerror(-service.ready_fd));
			return EXIT_FAILED;
		}
	}
	stop_fd = stop_signals();
	if (stop_fd < 0) {
		log_error("cannot receive signals: %s", strerror(errno));
		return EXIT_FAILED;
	}
	return serve(&service, stop_fd);
}

int
main(int argc, char **argv)
{
	static struct config config;
	char why[256];
	int result;

	open_standard_files();
	result = config_parse(argc, argv, &config, why, sizeof(why));
	log_open(config.verbose);
	switch (result) {
	case CONFIG_RUN:
		return run(&config);
	case CONFIG_HELP:
		return fputs(config_help(), stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : 0;
	case CONFIG_VERSION:
		return puts("zcached " ZCACHED_VERSION) < 0 || fflush(stdout) != 0 ? EXIT_FAILED
										   : 0;
	default:
		log_error("%s", why);
		return EXIT_USAGE;
	}
}
