/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inside the control thread: one request, and the memory its answer is made of. Shared by control.c
 * (queue, permission, dispatch), control_pool.c (pools) and control_report.c (numbers).
 */
#ifndef ZCACHED_DAEMON_CONTROL_PRIVATE_H
#define ZCACHED_DAEMON_CONTROL_PRIVATE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine_private.h"
#include "inbox.h"
#include "reply.h"
#include "request.h"
#include "size_class.h"
#include "zcache.pb-c.h"

#define CONTROL_TEXT 160u

struct control_request {
	struct request request; /* first: see request.h */
	Zcache__V1__Request__OpCase op;
	uint32_t uid;		      /* of the peer */
	char name[ZC_POOL_NAME_SIZE]; /* "": none, or one too long to be a pool's */
	bool named;		      /* there was one */
	uint32_t kind, page_size;     /* of pool_create */
	uint64_t limit;
	char codec[REPLY_CODEC_TEXT];
	bool estimate_only;
	char *reply; /* result: the packed frame, malloc; NULL: no memory */
	uint32_t reply_size;
};

/* Tells when a worker has passed between two operations. */
struct quiescence {
	struct message message; /* first */
	sem_t *passed;
};

struct control {
	struct engine *engine;
	pthread_t thread;
	pthread_mutex_t mutex;
	pthread_cond_t wake;
	struct request_queue queue;
	bool stop;
	struct quiescence *quiescence; /* one for each worker */

	/* What answers are made of; of the request that is being answered. */
	char text[CONTROL_TEXT];
	Zcache__V1__PoolInfo info[ENGINE_POOLS_MAX], *info_list[ENGINE_POOLS_MAX];
	char codec[ENGINE_POOLS_MAX][REPLY_CODEC_TEXT];
	Zcache__V1__PoolStats stats[ENGINE_POOLS_MAX], *stats_list[ENGINE_POOLS_MAX];
	Zcache__V1__ServiceStats service;
	Zcache__V1__SizeClass size_class[SIZE_CLASSES_MAX], *size_class_list[SIZE_CLASSES_MAX];
	uint64_t fullness[SIZE_CLASSES_MAX][11];
	Zcache__V1__PoolListReply pool_list;
	Zcache__V1__StatsReply stats_reply;
	Zcache__V1__ClassesReply classes_reply;
	Zcache__V1__CompactReply compact_reply;
};

/*
 * What does one kind of request: fills the result and returns 0, or returns a negative errno after
 * writing a text for people to control->text. `entry` is the pool that was named, where it must
 * exist, and permission has been checked.
 */
typedef int control_handler_fn(struct control *control, const struct control_request *request,
			       struct pool_entry *entry, Zcache__V1__Response *response);

control_handler_fn control_pool_create, control_pool_destroy, control_pool_list;
control_handler_fn control_stats, control_classes, control_compact_start, control_compact_status;

/* Writes control->text and returns `status`. */
int control_refuse(struct control *control, int status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
