/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JSON object of a pool's facts, as `pool list` and `stats` print it.
 */
#ifndef ZCACHED_CLI_POOL_JSON_H
#define ZCACHED_CLI_POOL_JSON_H

#include <jansson.h>
#include <zclient.h>

/* Returns a new object, or NULL without memory. */
json_t *pool_info_json(const struct zc_pool_info *info);

/* A 64-bit name as JSON: text, since numbers that large lose digits in many readers. */
json_t *json_id(uint64_t id);

#endif
