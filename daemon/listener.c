/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The listening socket; listener.h has the contract. The folder of the socket is trusted: whoever
 * can write there can replace the socket whatever we do.
 */
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"

static int
failed(const char *what, const char *path)
{
	int error = errno;

	log_error("%s %s: %s", what, path, strerror(error));
	return -error;
}

static int
address_set(struct sockaddr_un *address, const char *path)
{
	size_t length = strlen(path);

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (length == 0 || length >= sizeof(address->sun_path)) {
		log_error("--socket: the path '%.120s' is of %zu bytes; 1 to %zu are possible",
			  path, length, sizeof(address->sun_path) - 1);
		return -ENAMETOOLONG;
	}
	memcpy(address->sun_path, path, length);
	return 0;
}

/* Only the folder of the default path is made: a mistyped path shall not make one. */
static int
folder_ensure(const char *path)
{
	if (strcmp(path, LISTENER_DEFAULT_PATH) != 0)
		return 0;
	if (mkdir(LISTENER_DEFAULT_FOLDER, 0755) == 0) {
		/* Whatever the umask took away. */
		if (chmod(LISTENER_DEFAULT_FOLDER, 0755) < 0)
			return failed("cannot set the mode of", LISTENER_DEFAULT_FOLDER);
	} else if (errno != EEXIST) {
		return failed("cannot make the folder", LISTENER_DEFAULT_FOLDER);
	}
	return 0;
}

static int
lock_take(struct listener *listener)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];

	snprintf(path, sizeof(path), "%s.lock", listener->path);
	listener->lock_fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (listener->lock_fd < 0 && errno == ENOENT) {
		log_error("the folder of %s does not exist: make it or choose another --socket",
			  listener->path);
		return -ENOENT;
	}
	if (listener->lock_fd < 0)
		return failed("cannot open the lock file", path);
	if (flock(listener->lock_fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno != EWOULDBLOCK)
		return failed("cannot lock", path);
	log_error("another zcached runs on %s (it holds %s)", listener->path, path);
	return -EADDRINUSE;
}

/* Whether nobody listens on the socket at the path; the lock is held, so it is not one of us. */
static bool
socket_is_stale(const struct sockaddr_un *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool stale;

	if (fd < 0)
		return false;
	stale = connect(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 &&
		errno == ECONNREFUSED;
	close(fd);
	return stale;
}

/* Whether a socket is at the path, 1 or 0; anything else there is an error. */
static int
path_has_socket(const char *path)
{
	struct stat status;

	if (lstat(path, &status) < 0)
		return errno == ENOENT ? 0 : failed("cannot look at", path);
	if (S_ISSOCK(status.st_mode))
		return 1;
	log_error("%s is not a socket: it is left alone; remove it or choose another --socket",
		  path);
	return -EEXIST;
}

/* Makes room for the socket. */
static int
path_clear(const struct sockaddr_un *address)
{
	const char *path = address->sun_path;
	int found = path_has_socket(path);

	if (found <= 0)
		return found;
	if (!socket_is_stale(address)) {
		log_error("something listens on %s: stop it or choose another --socket", path);
		return -EADDRINUSE;
	}
	return unlink(path) < 0 ? failed("cannot remove the stale socket", path) : 0;
}

static int
socket_bind(struct listener *listener, const struct sockaddr_un *address)
{
	struct stat status;
	mode_t before;
	int result;

	listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0)
		return failed("cannot make a socket for", listener->path);
	/* 0600 from its first moment; connecting needs listen(2), and that comes last. */
	before = umask(0177);
	result = bind(listener->fd, (const struct sockaddr *)address, sizeof(*address));
	umask(before);
	if (result < 0)
		return failed("cannot bind", listener->path);
	if (lstat(listener->path, &status) < 0)
		return failed("cannot look at", listener->path);
	listener->device = status.st_dev;
	listener->inode = status.st_ino;
	return 0;
}

static int
socket_listen(struct listener *listener, const struct listener_config *config)
{
	if (config->group != (gid_t)-1 &&
	    fchownat(AT_FDCWD, config->path, (uid_t)-1, config->group, AT_SYMLINK_NOFOLLOW) < 0)
		return failed("cannot set the group of", config->path);
	if (chmod(config->path, config->mode) < 0)
		return failed("cannot set the mode of", config->path);
	if (listen(listener->fd, SOMAXCONN) < 0)
		return failed("cannot listen on", config->path);
	return 0;
}

static int
listener_make(const struct listener_config *config, struct listener *listener)
{
	struct sockaddr_un address;
	int result = address_set(&address, config->path);

	if (result == 0)
		result = folder_ensure(config->path);
	/* Looked at twice: no lock file is left beside what is no socket. */
	if (result == 0)
		result = path_has_socket(config->path);
	if (result >= 0)
		result = lock_take(listener);
	if (result == 0)
		result = path_clear(&address);
	if (result == 0)
		result = socket_bind(listener, &address);
	if (result == 0)
		result = socket_listen(listener, config);
	return result;
}

int
listener_open(const struct listener_config *config, struct listener *listener)
{
	int result;

	*listener = (struct listener){.path = config->path, .fd = -1, .lock_fd = -1};
	result = listener_make(config, listener);
	if (result < 0)
		listener_close(listener);
	return result;
}

void
listener_close(struct listener *listener)
{
	struct stat status;

	/* Device and inode are 0 until the socket has been made. */
	if (listener->inode && lstat(listener->path, &status) == 0 &&
	    status.st_dev == listener->device && status.st_ino == listener->inode)
		unlink(listener->path);
	if (listener->fd >= 0)
		close(listener->fd);
	/* Last: whoever gets the lock next finds no socket of ours. */
	if (listener->lock_fd >= 0)
		close(listener->lock_fd);
	*listener = (struct listener){.fd = -1, .lock_fd = -1};
}
