/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library from C++: built by test_installed.sh against the installed header, and run. Returns 0
 * when a page came back as it was put.
 */
#include <cstring>

#include <zclient.h>

int
main()
{
	char page[4096] = "from C++";
	char back[4096];
	const zc_key key = {2, UINT64_MAX};
	struct zc_pool_info info = {}; /* there is a function of that name too */
	struct zc *connection;
	struct zc_pool *pool;

	if (zc_open(nullptr, 0, &connection) < 0)
		return 1;
	if (zc_pool_open(connection, nullptr, 0, &pool) < 0)
		return 2;
	info.struct_size = sizeof(info);
	const bool good = zc_pool_info(pool, &info) == 0 && info.page_size == sizeof(page) &&
			  zc_put(pool, key, page, sizeof(page), ZC_KEEP_OLD) == 0 &&
			  zc_get(pool, key, back, sizeof(back)) == int(sizeof(back)) &&
			  std::memcmp(page, back, sizeof(page)) == 0 && zc_del(pool, key) == 0;
	zc_pool_close(&pool);
	zc_close(&connection);
	return good ? 0 : 3;
}
