# SPDX-License-Identifier: BSD-2-Clause
#
# Thin: every target is one or two lines of meson. `make run` and `make check` work on a fresh
# Debian or Ubuntu machine; elsewhere docs/dependencies.md says what to install first.

BUILD ?= build
SANITIZE_OPTIONS = -Db_lundef=false -Dbuildtype=debugoptimized

# Sanitizers cost a factor of 2 to 15: stretch what tests wait for, not what they do.
SLOW_OPTIONS = --no-rebuild --print-errorlogs --timeout-multiplier 6

# Address space randomisation beyond what ThreadSanitizer's shadow can map ends it at once.
NO_ASLR := $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: all deps run check bench asan tsan lint install clean

all: $(BUILD)/build.ninja
	ninja -C $(BUILD)

deps:
	packaging/install-deps

# make run [PAGES=FILE]: stores real pages, reads them back, deletes, compacts, prints a table.
run: deps
	$(MAKE) --no-print-directory all
	$(BUILD)/bench/zcache-demo $(if $(PAGES),--pages '$(PAGES)',--programs bench/programs)

check: deps
	$(MAKE) --no-print-directory all
	meson test -C $(BUILD) --no-rebuild --print-errorlogs $(TESTS)

# make bench PAGES=FILE: a raw file of 4 KiB pages.
bench: all
	$(BUILD)/bench/zcache-bench density --pages '$(or $(PAGES),$(error make bench PAGES=FILE))'

asan: build-asan/build.ninja
	ninja -C build-asan
	meson test -C build-asan $(SLOW_OPTIONS) $(TESTS)

tsan: build-tsan/build.ninja
	ninja -C build-tsan
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
		$(NO_ASLR) meson test -C build-tsan $(SLOW_OPTIONS) $(TESTS)

lint: all
	packaging/lint $(BUILD)

install: all
	meson install -C $(BUILD) --no-rebuild

clean:
	rm -rf $(BUILD) build-asan build-tsan build-ci

$(BUILD)/build.ninja:
	meson setup $(BUILD)

build-asan/build.ninja:
	meson setup build-asan $(SANITIZE_OPTIONS) -Db_sanitize=address,undefined

build-tsan/build.ninja:
	meson setup build-tsan $(SANITIZE_OPTIONS) -Db_sanitize=thread
