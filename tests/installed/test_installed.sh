#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
#
# Installs into a folder of its own, builds the C program of the README and a C++ program there with
# nothing but pkg-config, and runs them against the installed service. Run by meson:
#
#   test_installed.sh BUILD README
#
# Exit status 77: a tool is missing, or there is no service in this build.
set -eu

build=$1
readme=$2
here=$(cd "$(dirname "$0")" && pwd)
cc=${CC:-cc}
cxx=${CXX:-c++}
service=

fail() {
	echo "test_installed: $*" >&2
	exit 1
}

skip() {
	echo "test_installed: skipped: $*" >&2
	exit 77
}

for tool in meson pkg-config "$cc" nm readelf; do
	command -v "$tool" >/dev/null || skip "no $tool"
done

folder=$(mktemp -d)
trap '[ -z "$service" ] || kill "$service"; rm -rf "$folder"' EXIT INT TERM
root=$folder/root

# Finds what was installed, whatever prefix and libdir the build has.
installed() {
	find "$root" -name "$1" | sort | head -n 1
}

DESTDIR=$root meson install -C "$build" --no-rebuild >"$folder/log" 2>&1 ||
	{ cat "$folder/log"; fail "meson install"; }
zcached=$(installed zcached)
[ -x "$zcached" ] || skip "no service was installed"

# ---- the files ----

pc=$(installed libzclient.pc)
[ -n "$pc" ] || fail "no libzclient.pc"
library=$(installed libzclient.so.0)
[ -n "$library" ] || fail "no libzclient.so.0"
readelf -d "$library" | grep -q 'SONAME.*\[libzclient\.so\.0\]' || fail "soname"
others=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v -E '^(zc_|ZCLIENT_)' || true)
[ -z "$others" ] || fail "exports what is not its own: $others"
# Every function of the header is there, and nothing beside them.
header=$(installed zclient.h)
grep -o -E '\bzc_[a-z_]+\(' "$header" | tr -d '(' | sort -u >"$folder/declared"
nm -D --defined-only "$library" | sed -n 's/.* \(zc_[a-z_]*\).*/\1/p' | sort -u >"$folder/exported"
diff "$folder/declared" "$folder/exported" || fail "header and exports differ"
if command -v scdoc >/dev/null; then
	while read -r name; do
		[ -n "$(installed "$name.3")" ] || fail "no man page $name(3)"
	done <"$folder/exported"
fi

# ---- the service ----

export LD_LIBRARY_PATH="${library%/*}"
export ZCACHED_SOCKET="$folder/z.sock"
"$zcached" --foreground --socket "$ZCACHED_SOCKET" --limit 16M >"$folder/log" 2>&1 &
service=$!
tries=0
until "$(installed zcachectl)" ping >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries -ge 200 ] || ! kill -0 "$service" 2>/dev/null; then
		cat "$folder/log"
		fail "the service does not answer"
	fi
	sleep 0.1
done

# ---- programs ----

export PKG_CONFIG_PATH="${pc%/*}"
export PKG_CONFIG_SYSROOT_DIR="$root"
cflags=$(pkg-config --cflags libzclient)
libs=$(pkg-config --libs libzclient)

awk '/^```c$/ { inside = 1; next } /^```/ && inside { exit } inside' "$readme" >"$folder/hello.c"
[ -s "$folder/hello.c" ] || fail "no C program in $readme"
# The flags are words for the compiler.
# shellcheck disable=SC2086
"$cc" -Wall $cflags "$folder/hello.c" $libs -o "$folder/hello" || fail "the program of the README"
"$folder/hello" || fail "the program of the README returned $?"

for standard in c99 c11; do
	echo '#include <zclient.h>' |
		"$cc" "-std=$standard" -Wall -Wextra -Wpedantic -Werror "-I${header%/*}" -fsyntax-only -x c - ||
		fail "the header as $standard"
done

if command -v "$cxx" >/dev/null; then
	# shellcheck disable=SC2086
	"$cxx" -std=c++11 -Wall -Wextra -Wpedantic -Werror $cflags "$here/hello.cpp" $libs \
		-o "$folder/hello-cpp" || fail "the program in C++"
	"$folder/hello-cpp" || fail "the program in C++ returned $?"
else
	echo "no C++ compiler: the header was not tried with one"
fi

kill "$service"
wait "$service" || fail "the service ended with $?"
service=
