/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending file descriptors with a frame. Called for the answers to PoolMap and ChannelOpen.
 *
 * Descriptors on their way count against the service's user until the client has received them, and
 * too many would let nobody have any. So a client that does not read gets few.
 */
#ifndef ZCACHED_DAEMON_DESCRIPTOR_H
#define ZCACHED_DAEMON_DESCRIPTOR_H

#include <stdint.h>

#define DESCRIPTORS_MAX	       251u /* in one message; the kernel's limit is 253 */
#define DESCRIPTORS_UNREAD_MAX 8u   /* messages with descriptors */

/*
 * Sends `size` bytes with descriptors at the first of them, without waiting. Returns the bytes sent, or
 * -EAGAIN: there is no room, or the client has not read earlier ones (*unread counts these), or
 * another negative errno.
 */
int descriptor_send(int socket, uint32_t *unread, const char *bytes, uint32_t size, const int *fd,
		    unsigned count);

#endif
