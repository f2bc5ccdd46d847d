/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The JSON object of a pool's facts; pool_json.h has the contract.
 */
#include "pool_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "format.h"
#include "report.h"

json_t *
json_id(uint64_t id)
{
	char text[24];

	snprintf(text, sizeof(text), "0x%016" PRIx64, id);
	return json_string(text);
}

json_t *
pool_info_json(const struct zc_pool_info *info)
{
	return json_pack("{s:s, s:o, s:s, s:I, s:o, s:s, s:I}", "name", shown(info->name).s, "id",
			 json_id(info->pool_id), "kind", kind_name(info->kind).s, "page_size",
			 (json_int_t)info->page_size, "limit_bytes", json_u64(info->limit), "codec",
			 shown(info->codec).s, "owner_uid", (json_int_t)info->owner_uid);
}
