/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing, errors and their texts, and what the library keeps outside its objects.
 *
 * That is three things: a count of forks and a count of objects made, both for telling one from
 * another, and in each thread the text of its last error. A text could not live in the zc,
 * where another thread's error would replace it while it is read, and a thread-specific key for
 * each zc would use up the process's few keys.
 *
 * Thread safe; a zc is closed once, when nobody uses it.
 */
#include "client.h"

#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_attach.h"
#include "deadline.h"

#define DEFAULT_SOCKET	"/run/zcached/zcached.sock"
#define DEFAULT_TIMEOUT 10000 /* ms */

static pthread_once_t process_once = PTHREAD_ONCE_INIT;
static int process_error;
atomic_uint client_forks;
/* Relaxed: each value is handed out once, whatever the order. */
static _Atomic uint64_t process_serials;

static _Thread_local struct {
	uint64_t serial;
	const char *text; /* a constant, or `copy` */
	char copy[CALL_TEXT_MAX];
} last_error;

/* ---- the process ---- */

static void
count_fork(void)
{
	atomic_fetch_add_explicit(&client_forks, 1, memory_order_relaxed);
}

static void
prepare_process(void)
{
	process_error = -pthread_atfork(NULL, NULL, count_fork);
}

uint64_t
client_serial(void)
{
	return 1 + atomic_fetch_add_explicit(&process_serials, 1, memory_order_relaxed);
}

uint32_t
zc_version(void)
{
	return ZC_VERSION_MAJOR << 16 | ZC_VERSION_MINOR;
}

const char *
zc_default_socket(void)
{
	/* Not from the environment of a program with more rights than who starts it. */
	const char *path = secure_getenv("ZCACHED_SOCKET");

	return path && *path ? path : DEFAULT_SOCKET;
}

/* ---- errors ---- */

int
client_error(struct zc *zc, int error, const char *text)
{
	last_error.serial = zc->serial;
	last_error.text = text;
	return error;
}

static void
keep_text(struct zc *zc, const char *text)
{
	snprintf(last_error.copy, sizeof(last_error.copy), "%s", text);
	client_error(zc, 0, last_error.copy);
}

const char *
zc_error_text(struct zc *zc)
{
	return zc && last_error.serial == zc->serial ? last_error.text : "";
}

/* ---- calls ---- */

uint64_t
client_deadline(struct zc *zc)
{
	/* Relaxed: it is one number, and whoever sets it while calls start cannot say which obey. */
	return deadline_in(atomic_load_explicit(&zc->timeout, memory_order_relaxed));
}

int
client_usable(struct zc *zc)
{
	if (client_inherited(zc))
		return client_error(zc, -EPERM, "opened by the parent process");
	if (zc->closed)
		return client_error(zc, -EBADF, "the connection was closed");
	return 0;
}

int64_t
client_call_until(struct zc *zc, struct call *call, uint64_t deadline)
{
	int64_t result = client_usable(zc);

	if (result)
		return result;
	result = transport_call(&zc->transport, call, deadline);
	if (result < 0)
		keep_text(zc, call->text);
	return result;
}

int64_t
client_call(struct zc *zc, struct call *call)
{
	return zc ? client_call_until(zc, call, client_deadline(zc)) : -EINVAL;
}

int64_t
client_pool_call_until(struct zc_pool *pool, struct call *call, uint32_t *handle, uint64_t deadline)
{
	call->pool = &pool->handle;
	call->handle = handle;
	return client_call_until(pool->zc, call, deadline);
}

int64_t
client_pool_call(struct zc_pool *pool, struct call *call, uint32_t *handle)
{
	if (!pool)
		return -EINVAL;
	return client_pool_call_until(pool, call, handle, client_deadline(pool->zc));
}

void
zc_set_timeout(struct zc *zc, unsigned milliseconds)
{
	if (zc)
		atomic_store_explicit(&zc->timeout, milliseconds, memory_order_relaxed);
}

int
zc_ping(struct zc *zc)
{
	Zcache__V1__Request request = ZCACHE__V1__REQUEST__INIT;
	Zcache__V1__Ping ping = ZCACHE__V1__PING__INIT;
	struct call call = {.request = &request, .resend = true};

	request.op_case = ZCACHE__V1__REQUEST__OP_PING;
	request.ping = &ping;
	return (int)client_call(zc, &call);
}

/* ---- opening and closing ---- */

/* All but the transport. */
static void
free_shared(struct zc *zc, bool inherited)
{
	attachments_reap(zc);
	for (unsigned i = 0; i < PAGE_SIZES; i++)
		rings_destroy(&zc->rings[i], inherited);
	reader_slots_destroy(&zc->readers);
	if (!inherited)
		pthread_mutex_destroy(&zc->retiring);
}

void
client_hold(struct zc *zc)
{
	/* Relaxed: the caller has a reference, so nobody frees it meanwhile. */
	atomic_fetch_add_explicit(&zc->references, 1, memory_order_relaxed);
}

void
client_release(struct zc *zc)
{
	/* Release: our use of it comes before the freeing. Acquire: so does everybody else's. */
	if (atomic_fetch_sub_explicit(&zc->references, 1, memory_order_acq_rel) > 1)
		return;
	free_shared(zc, client_inherited(zc));
	transport_destroy(&zc->transport, client_inherited(zc));
	free(zc);
}

/* Whether memory may be shared at all. */
static bool
shared_memory_wanted(unsigned flags)
{
	const char *off = getenv("ZC_NO_SHM");

	return !(flags & ZC_NO_SHM) && (!off || !*off || strcmp(off, "0") == 0);
}

static int
new_zc(const char *path, unsigned flags, struct zc **out)
{
	size_t length = strlen(path);
	struct zc *zc;

	if (length == 0 || length >= sizeof(zc->path))
		return -EINVAL;
	pthread_once(&process_once, prepare_process);
	if (process_error)
		return process_error;
	if (posix_memalign((void **)&zc, alignof(struct zc), sizeof(*zc)))
		return -ENOMEM;
	memset(zc, 0, sizeof(*zc));
	memcpy(zc->path, path, length + 1);
	zc->serial = client_serial();
	zc->forks = atomic_load_explicit(&client_forks, memory_order_relaxed);
	zc->shared_memory = shared_memory_wanted(flags);
	atomic_init(&zc->timeout, DEFAULT_TIMEOUT);
	atomic_init(&zc->references, 1);
	pthread_mutex_init(&zc->retiring, NULL);
	for (unsigned i = 0; i < PAGE_SIZES; i++)
		rings_init(&zc->rings[i], &zc->transport);
	*out = zc;
	return 0;
}

int
zc_open(const char *socket_path, unsigned flags, struct zc **out)
{
	struct zc *zc;
	int error;

	if (!out)
		return -EINVAL;
	*out = NULL;
	if (flags & ~(unsigned)ZC_NO_SHM)
		return -EINVAL;
	error = new_zc(socket_path ? socket_path : zc_default_socket(), flags, &zc);
	if (error)
		return error;
	error = transport_open(&zc->transport, zc->path, deadline_in(DEFAULT_TIMEOUT));
	if (error) {
		free_shared(zc, false);
		free(zc);
		return error;
	}
	*out = zc;
	return 0;
}

void
zc_close(struct zc **zc)
{
	struct zc *closing;

	if (!zc || !*zc)
		return;
	closing = *zc;
	*zc = NULL;
	closing->closed = true;
	for (unsigned i = 0; i < PAGE_SIZES; i++)
		rings_close(&closing->rings[i], client_inherited(closing));
	transport_close(&closing->transport, client_inherited(closing));
	client_release(closing);
}

/* ---- structs of another size ---- */

/* Room for 64 times what the largest of today has; nobody passes more by mistake of a version. */
#define STRUCT_SIZE_MAX 32768
#define STRUCT_SIZE_MIN 8

bool
struct_size_good(uint32_t size)
{
	return size >= STRUCT_SIZE_MIN && size <= STRUCT_SIZE_MAX;
}

void
struct_give(void *to, uint32_t to_size, const void *from, uint32_t from_size)
{
	uint32_t both = to_size < from_size ? to_size : from_size;

	memcpy(to, from, both);
	memset((char *)to + both, 0, to_size - both);
	memcpy(to, &to_size, sizeof(to_size));
}

int
struct_accept(void *to, uint32_t to_size, const void *from)
{
	uint32_t from_size;

	memcpy(&from_size, from, sizeof(from_size));
	if (!struct_size_good(from_size))
		return -EINVAL;
	for (uint32_t i = to_size; i < from_size; i++)
		if (((const char *)from)[i])
			return -EINVAL;
	memset(to, 0, to_size);
	memcpy(to, from, to_size < from_size ? to_size : from_size);
	return 0;
}
