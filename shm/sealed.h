/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Anonymous files to be shared: close-on-exec, not executable where the kernel can say so, 0600 before
 * anything else, sealed. Used by segment.c and channel.c. All calls make system calls.
 */
#ifndef ZCACHED_SHM_SEALED_H
#define ZCACHED_SHM_SEALED_H

/* A new empty memfd of mode 0600, not sealed yet. Returns the descriptor or a negative errno. */
int sealed_memfd(const char *name);

/* Adds seals (F_SEAL_...) one by one and reads them back. 0, -EPERM when one is missing, or a negative errno. */
int sealed_close(int fd, int seals);

#endif
