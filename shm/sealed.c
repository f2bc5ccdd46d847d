/* SPDX-License-Identifier: BSD-2-Clause */
/* Sealed memfds, see sealed.h. */
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Newer than the C library of the oldest system we build on. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

int
sealed_memfd(const char *name)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int error, fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* a kernel that does not know the flag */
		fd = memfd_create(name, flags);
	if (fd < 0)
		return -errno;
	/* Until it is set, /proc would let others open the file. */
	if (fchmod(fd, 0600) < 0) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

int
sealed_close(int fd, int seals)
{
	int got;

	/* The seal on further seals goes last. */
	if (fcntl(fd, F_ADD_SEALS, seals & ~F_SEAL_SEAL) < 0 ||
	    (seals & F_SEAL_SEAL && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) < 0))
		return -errno;
	got = fcntl(fd, F_GET_SEALS);
	if (got < 0)
		return -errno;
	return (got & seals) == seals ? 0 : -EPERM;
}
