/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the public functions share: the two public objects, the way a request goes out, the texts of
 * errors, and structs that may be of another size in the caller's build.
 *
 * Used by the client*.c files only.
 */
#ifndef ZCLIENT_CLIENT_H
#define ZCLIENT_CLIENT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include <zclient.h>

#include "transport.h"

/* A connection. All but the two atomics and the transport is set by zc_open for good. */
struct zc {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	uint64_t serial; /* never used again, unlike the address */
	unsigned forks;	 /* client_forks() when it was opened */
	bool closed;	 /* zc_close was called before the last zc_pool_close */
	atomic_uint timeout;
	atomic_uint references; /* one, and one for each open pool */
	struct transport transport;
};

struct zc_pool {
	struct zc *zc;
	struct zc_pool_info info; /* as the service told when it was opened; never changed */
	struct pool_handle handle;
};

/*
 * Makes a call by the deadline of this moment, keeps the text of an error for zc_error_text, and
 * returns the result. -EINVAL (no zc), -EPERM (in a child), -EBADF (closed), else as
 * transport_call().
 */
int64_t client_call(struct zc *zc, struct call *call);

/* client_call() on a pool, whose handle goes to *handle. */
int64_t client_pool_call(struct zc_pool *pool, struct call *call, uint32_t *handle);

/* Keeps `text` for zc_error_text in this thread and returns `error`. */
int client_error(struct zc *zc, int error, const char *text);

void client_hold(struct zc *zc);
void client_release(struct zc *zc);

/*
 * Public structs begin with the size that the caller's build knows. struct_size_good: whether a
 * size can be that of any version. struct_give: copies what both know to the caller and clears what
 * only he knows. struct_accept: copies what both know from him; -EINVAL when he has set something
 * that this version does not know.
 */
bool struct_size_good(uint32_t size);
void struct_give(void *to, uint32_t to_size, const void *from, uint32_t from_size);
int struct_accept(void *to, uint32_t to_size, const void *from);

#endif
