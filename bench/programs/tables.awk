# SPDX-License-Identifier: BSD-2-Clause
#
# What an awk report keeps in memory: two tables of sums and one of text.
#
# Started by zcache-demo, which stores a copy of this process's memory. Prints a line when all is
# built, then waits until its input ends.
BEGIN {
	seed = 20
	for (i = 0; i < 60000; i++) {
		seed = (seed * 16807) % 2147483647
		customer = "customer-" seed % 20000
		item = "item-" int(seed / 20000) % 5000
		sum[customer, item] += seed % 1000 / 100
		last[customer] = i
		line[i] = customer " ordered " seed % 90 " of " item " on day " i % 365
	}
	print "ready"
	fflush()
	getline
}
