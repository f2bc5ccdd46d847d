# SPDX-License-Identifier: BSD-2-Clause
#
# What a Perl log analyser keeps in memory: lines, and counts by host, path and status.
#
# Started by zcache-demo, which stores a copy of this process's memory. Prints a line when all is
# built, then waits until its input ends.
use strict;
use warnings;

srand(20);
$| = 1;

my @paths = map { "/" . join("/", map { ("users", "images", "static", "api")[rand 4] . int(rand 50) } 1 .. 3) } 1 .. 400;
my @status = (200, 200, 200, 200, 304, 404, 500);
my (@lines, %count, %seen);

for my $number (1 .. 60000) {
	my $host = join(".", 10, map { int(rand 64) } 1 .. 3);
	my $path = $paths[rand @paths];
	my $status = $status[rand @status];
	my $bytes = int(rand 90000);

	push @lines, sprintf('%s - - [%08d] "GET %s HTTP/1.1" %d %d', $host, $number * 7, $path,
			     $status, $bytes);
	$count{$path}{$status}++;
	$seen{$host} = [$number, $bytes, $path];
}

print "ready\n";
<STDIN>;
