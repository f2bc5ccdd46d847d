/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Responses, packed into the output scratch of the connection's worker. The caller has made room
 * (connection_has_room); the connection sends at the end of its turn.
 */
#ifndef ZCACHED_DAEMON_REPLY_H
#define ZCACHED_DAEMON_REPLY_H

#include <stdint.h>

#include "zcache.pb-c.h"

struct channel_geometry;
struct connection;
struct pool_entry;

void reply_done(struct connection *connection, uint64_t id);
/* `status` is a negative errno, `text` for people. */
void reply_error(struct connection *connection, uint64_t id, int32_t status, const char *text);
/* The answer to hello, or (status, text) with what this service speaks. */
void reply_hello(struct connection *connection, uint64_t id, int32_t status, const char *text);
void reply_value(struct connection *connection, uint64_t id, const void *value, uint32_t length);
void reply_deleted(struct connection *connection, uint64_t id, uint64_t pages);
void reply_pool(struct connection *connection, uint64_t id, const struct pool_entry *entry,
		uint32_t handle);

/*
 * Answers with descriptors, sent at once: connection_flush has just returned true. Return 0, or a negative
 * errno when nothing was sent.
 */
int reply_pool_mapped(struct connection *connection, uint64_t id, uint64_t pool_id, const int *fd,
		      unsigned count);
int reply_channel_opened(struct connection *connection, uint64_t id,
			 const struct channel_geometry *geometry, const int *fd);

/* Packs a wake-up into `frame`, which has REPLY_WAKEUP_SIZE bytes; returns its size. */
#define REPLY_WAKEUP_SIZE 16u
uint32_t reply_wakeup(char *frame);

/* Fills what a PoolInfo says of a living pool; `codec` is what info->codec will point to. */
#define REPLY_CODEC_TEXT 16u
void reply_fill_pool_info(const struct pool_entry *entry, Zcache__V1__PoolInfo *info,
			  char codec[REPLY_CODEC_TEXT]);

#endif
