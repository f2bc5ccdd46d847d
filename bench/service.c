/* SPDX-License-Identifier: BSD-2-Clause */
#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <zclient.h>

#define ARGUMENTS_MAX 24
#define START_SECONDS 20
#define STOP_SECONDS  10

/* For the signal handler, which removes what we would leave behind; and whose it is, since a forked
 * child inherits both. */
static struct service *running;
static pid_t owner;

static void
remove_folder(const struct service *service)
{
	static const char *const left[] = {"socket", "socket.lock", "log"};
	int folder = open(service->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t i = 0; folder >= 0 && i < sizeof(left) / sizeof(left[0]); i++)
		unlinkat(folder, left[i], 0);
	if (folder >= 0)
		close(folder);
	rmdir(service->folder);
}

/* Makes only calls that are allowed in a signal handler. */
static void
interrupted(int number)
{
	int saved = errno;

	if (running && getpid() == owner) {
		kill(running->pid, SIGTERM);
		waitpid(running->pid, NULL, 0);
		remove_folder(running);
	}
	errno = saved;
	raise(number); /* SA_RESETHAND: this time it ends us */
}

static void
catch_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction action = {.sa_handler = interrupted,
				   .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

/* The daemon's path: see service_start. Without a slash in it, execvp looks into $PATH. */
static const char *
find_daemon(char *path, size_t size)
{
	const char *named = getenv("ZCACHED");
	ssize_t length;

	if (named && *named)
		return named;
	length = readlink("/proc/self/exe", path, size - 1);
	if (length > 0) {
		char *folder;

		path[length] = 0;
		folder = dirname(path);
		length = (ssize_t)strlen(folder);
		snprintf(path + length, size - (size_t)length, "/../daemon/zcached");
		if (access(path, X_OK) == 0)
			return path;
	}
	return "zcached";
}

static bool
make_folder(struct service *service)
{
	const char *parent = getenv("TMPDIR");

	snprintf(service->folder, sizeof(service->folder), "%s/zcached-XXXXXX",
		 parent && *parent ? parent : "/tmp");
	if (!mkdtemp(service->folder)) { /* mode 0700 */
		fprintf(stderr, "cannot make %s: %s\n", service->folder, strerror(errno));
		return false;
	}
	snprintf(service->socket, sizeof(service->socket), "%s/socket", service->folder);
	snprintf(service->log, sizeof(service->log), "%s/log", service->folder);
	return true;
}

static void __attribute__((noreturn)) become_daemon(const struct service *service, const char *path,
						    const char *const *arguments, pid_t parent)
{
	const char *argv[ARGUMENTS_MAX + 1] = {path, "--foreground", "--socket", service->socket};
	int log = open(service->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	int count = 4;

	while (*arguments && count < ARGUMENTS_MAX)
		argv[count++] = *arguments++;
	if (log >= 0) {
		dup2(log, STDOUT_FILENO);
		dup2(log, STDERR_FILENO);
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent) /* it died before the line above */
		_exit(1);
	execvp(path, (char *const *)argv);
	fprintf(stderr, "cannot run %s: %s\n", path, strerror(errno));
	_exit(127);
}

static void
print_log(const struct service *service)
{
	FILE *log = fopen(service->log, "re");
	char line[512];

	while (log && fgets(line, sizeof(line), log))
		fprintf(stderr, "  %s", line);
	if (log)
		fclose(log);
}

static bool
answers(const struct service *service)
{
	struct zc *zc;
	int result = zc_open(service->socket, 0, &zc);

	if (result < 0)
		return false;
	result = zc_ping(zc);
	zc_close(&zc);
	return result == 0;
}

static void
sleep_ms(unsigned milliseconds)
{
	struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

static bool
wait_ready(struct service *service)
{
	for (int i = 0; i < START_SECONDS * 100; i++) {
		if (answers(service))
			return true;
		if (waitpid(service->pid, NULL, WNOHANG) == service->pid) {
			service->pid = 0;
			fprintf(stderr, "zcached did not start:\n");
			return false;
		}
		sleep_ms(10);
	}
	fprintf(stderr, "zcached does not answer after %d s:\n", START_SECONDS);
	return false;
}

bool
service_start(struct service *service, const char *const *arguments)
{
	char path[4096];
	const char *daemon_path = find_daemon(path, sizeof(path));

	*service = (struct service){0};
	if (!make_folder(service))
		return false;
	owner = getpid();
	service->pid = fork();
	if (service->pid == 0)
		become_daemon(service, daemon_path, arguments, owner);
	running = service;
	catch_signals();
	if (service->pid < 0)
		fprintf(stderr, "cannot start a process: %s\n", strerror(errno));
	else if (wait_ready(service))
		return true;
	print_log(service);
	if (service->pid > 0) {
		kill(service->pid, SIGKILL);
		waitpid(service->pid, NULL, 0);
	}
	service->pid = 0;
	service_stop(service);
	return false;
}

/* Waits for the end of the daemon; kills it when that takes too long. Returns the wait status. */
static int
wait_end(pid_t pid)
{
	int status;

	for (int i = 0; i < STOP_SECONDS * 100; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		sleep_ms(10);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return status;
}

bool
service_stop(struct service *service)
{
	bool peaceful = true;

	running = NULL;
	if (service->pid > 0) {
		kill(service->pid, SIGTERM);
		peaceful = wait_end(service->pid) == 0;
	}
	if (!peaceful) {
		fprintf(stderr, "zcached did not end in peace:\n");
		print_log(service);
	}
	remove_folder(service);
	service->pid = 0;
	return peaceful;
}
