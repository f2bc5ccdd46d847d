# SPDX-License-Identifier: BSD-2-Clause
"""In a memory cgroup that is smaller than the pool's limit, a put that does not fit is -ENOMEM and
not the end of the service by the kernel's OOM killer.

Needs root and a memory cgroup (version 1 or 2) it may make children in; else it is skipped.
"""
import errno
import glob
import itertools
import os
import random
import time

import harness
from harness import MIB, ServiceTest, ZcacheError

ROOT = "/sys/fs/cgroup"
LIMIT = 96 * MIB


class Cgroup:
    """A memory cgroup of its own, removed at the end."""

    def __init__(self, parent, limit_file, version):
        self.path = os.path.join(parent, f"zcached-test-{os.getpid()}")
        self.limit_file, self.version = limit_file, version

    def create(self, limit):
        self.remove_left()
        os.mkdir(self.path)
        self.write(self.limit_file, str(limit))

    def remove_left(self):
        """Removes those of runs that were killed."""
        for path in glob.glob(os.path.join(os.path.dirname(self.path), "zcached-test-*")):
            try:
                os.rmdir(path)
            except OSError:
                pass  # another run's, at work

    def write(self, name, text):
        with open(os.path.join(self.path, name), "w", encoding="ascii") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="ascii") as file:
            return file.read()

    def oom_kills(self):
        text = self.read("memory.events" if self.version == 2 else "memory.oom_control")
        return int(dict(line.split() for line in text.splitlines()).get("oom_kill", 0))

    def remove(self):
        end = harness.deadline(5)
        while True:
            try:
                os.rmdir(self.path)
                return
            except OSError as error:
                # Busy for a moment after its last process has ended.
                if error.errno != errno.EBUSY or time.monotonic() > end:
                    raise
                time.sleep(0.05)


def find_cgroup():
    """A memory cgroup to make, or the reason why there is none."""
    if os.getuid() != 0:
        return None, "not root"
    if os.path.exists(f"{ROOT}/memory/memory.limit_in_bytes"):
        return Cgroup(f"{ROOT}/memory", "memory.limit_in_bytes", 1), ""
    control = f"{ROOT}/cgroup.subtree_control"
    if not os.path.exists(control):
        return None, f"no memory cgroup under {ROOT}"
    with open(control, encoding="ascii") as file:
        if "memory" not in file.read().split():
            return None, f"no memory controller for children of {ROOT}"
    return Cgroup(ROOT, "memory.max", 2), ""


class CgroupTest(ServiceTest):
    ARGUMENTS = ("--limit", "4G")

    def setUp(self):
        self.cgroup, reason = find_cgroup()
        if self.cgroup is None:
            self.skipTest(reason)
        if os.environ.get("ZC_SANITIZED"):
            self.skipTest("the sanitizer's own memory counts too")
        try:
            self.cgroup.create(LIMIT)
        except OSError as error:
            self.skipTest(f"no cgroup could be made: {error}")
        self.addCleanup(self.cgroup.remove)
        super().setUp()

    def start(self, *arguments, **options):
        join = ("sh", "-c", 'echo $$ >"$0" && exec "$@"', f"{self.cgroup.path}/cgroup.procs")
        return super().start(*arguments, wrapper=join, **options)

    def fill(self, client, pool, make):
        source = random.Random(harness.SEED)
        pages = (((1, index), make(source)) for index in itertools.count())
        return len(harness.fill(client, pool, pages, errno.ENOMEM)[0])

    def test_no_room_is_an_error_code(self):
        client, pool = self.open_pool()
        for make in (harness.random_page, harness.mixed_page):
            pages = self.fill(client, pool, make)
            self.assertGreater(pages, 1000)
            self.assertGreater(self.pool_stats().resident_bytes, LIMIT / 4)
            client.ping()
            self.assertEqual(self.cgroup.oom_kills(), 0)
            self.assertEqual(client.flush(pool), pages)
        self.assertGreaterEqual(self.pool_stats().refused_memory, 2)
        self.assert_rests_empty()

    def test_refusal_is_of_the_new_page_only(self):
        client, pool = self.open_pool()
        maker = harness.PageMaker(harness.SEED)
        for index in range(100):
            client.put(pool, (2, index), maker.page((2, index), 1))
        self.fill(client, pool, harness.random_page)
        for index in range(100):
            self.assertEqual(harness.page_sequence((2, index), client.get(pool, (2, index))), 1)
        self.assertEqual(self.cgroup.oom_kills(), 0)

    def test_a_pool_that_does_not_fit(self):
        """A new pool is refused or limited; the service goes on."""
        client, pool = self.open_pool()
        self.fill(client, pool, harness.random_page)
        try:
            client.pool_create("another", limit=1 << 30)
        except ZcacheError as error:
            self.assertEqual(error.errno, errno.ENOMEM)
        client.ping()
        self.assertEqual(self.cgroup.oom_kills(), 0)


if __name__ == "__main__":
    harness.main()
