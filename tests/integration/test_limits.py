# SPDX-License-Identifier: BSD-2-Clause
"""A pool's limit bounds what the kernel says it costs, at every moment; reaching it is an error
code, and leaves a miss or the old page and never stale data.
"""
import errno
import os
import random

import harness
from harness import MIB, ServiceTest, ZcacheError
from zcache_client import Connection

LIMIT = 24 * MIB


def memory_of(pid):
    """Bytes of all memory files a process has, from the kernel and not from the service."""
    files = {}
    for number in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{number}"
        try:
            if os.readlink(path).startswith("/memfd:"):
                status = os.stat(path)
                files[status.st_ino] = status.st_blocks * 512  # a pool's have two descriptors each
        except FileNotFoundError:
            pass  # closed since the listing
    return sum(files.values())


def sample_memory(stop, path, pid):
    """The highest resident size ever seen, by the kernel's count and by the service's."""
    highest = [0, 0]
    with Connection(path, timeout=20 * harness.TIME_FACTOR) as client:
        while not stop.is_set():
            highest[0] = max(highest[0], memory_of(pid))
            highest[1] = max(highest[1], client.stats("default").pool[0].resident_bytes)
    return highest


def write_and_delete(stop, path, number):
    """Keeps the pool at its limit. Each key holds its last acknowledged page, or nothing."""
    source = random.Random(harness.SEED + number)
    maker = harness.PageMaker(harness.SEED + number)
    model, refused, sequence = {}, 0, 0
    with Connection(path, timeout=20 * harness.TIME_FACTOR) as client:
        pool = client.pool_open()
        while not stop.is_set():
            key = (number, source.randrange(4000))
            sequence += 1
            choice = source.random()
            if choice < 0.70:
                keep_old = choice < 0.35
                try:
                    client.put(pool, key, maker.page(key, sequence), keep_old)
                    model[key] = sequence
                except ZcacheError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    refused += 1
                    if not keep_old:
                        model.pop(key, None)
            elif choice < 0.85:
                page = client.get(pool, key)
                seen = None if page is None else harness.page_sequence(key, page)
                if seen != model.get(key):
                    raise AssertionError(f"key {key}: {seen}, should be {model.get(key)}")
            elif client.delete(pool, key) != (model.pop(key, None) is not None):
                raise AssertionError(f"key {key}: delete disagrees")
    return refused, len(model)


class Limits(ServiceTest):
    ARGUMENTS = ("--limit", "24M")

    def setUp(self):
        super().setUp()
        self.client, self.pool = self.open_pool()
        self.source = random.Random(harness.SEED)
        self.workers = harness.Workers()
        self.workers.start(sample_memory, self.service.path, self.service.pid)
        self.addCleanup(self.check_samples)

    def check_samples(self):
        kernel, service = self.workers.join()[0]
        self.assertGreater(kernel, MIB)
        self.assertLessEqual(kernel, LIMIT, "by the kernel's count")
        self.assertLessEqual(service, LIMIT, "by the service's count")

    def fill(self, make, first=0):
        """Puts pages until the pool is full; returns the keys."""
        keys = []
        while True:
            key = (1, first + len(keys))
            try:
                self.client.put(self.pool, key, make(self.source))
            except ZcacheError as error:
                self.assertEqual(error.errno, errno.ENOSPC, error)
                return keys
            keys.append(key)
            self.assertLess(len(keys), 1000000)

    def test_full_of_raw_pages(self):
        keys = self.fill(harness.random_page)
        self.assertGreater(len(keys) * harness.PAGE, 0.9 * LIMIT, "the limit is made use of")
        stats = self.pool_stats()
        self.assertEqual(stats.refused_limit, 1)
        self.assertEqual(stats.entries, len(keys))
        self.assertFalse(self.client.exists(self.pool, (1, len(keys))))

    def test_deleted_space_is_used_again(self):
        keys = self.fill(harness.random_page)
        for _ in range(3):
            gone = set(self.source.sample(keys, len(keys) // 2))
            for key in gone:
                self.client.delete(self.pool, key)
            harness.wait_until("there is room again", self.has_room)
            added = self.fill(harness.random_page, first=1 << 32)
            self.assertGreater(len(added), 0.9 * len(gone))
            self.client.flush(self.pool)
            keys = self.fill(harness.random_page)
        self.assert_rests_empty()

    def has_room(self):
        try:
            self.client.put(self.pool, (2, 2), harness.random_page(self.source))
        except ZcacheError as error:
            self.assertEqual(error.errno, errno.ENOSPC)
            return False
        return True

    def test_another_size_finds_room_after_deletes(self):
        """Memory of one size class comes to another."""
        for make in (harness.text_page, harness.random_page, harness.mixed_page):
            keys = self.fill(make)
            self.assertGreater(len(keys), 1000)
            self.assertEqual(self.client.flush(self.pool), len(keys))

    def test_every_size_of_page_at_the_limit(self):
        """The first page of a class is counted before it is taken, too."""
        self.fill(harness.random_page)
        refused = 0
        for length in range(16, 4096, 16):
            try:
                self.client.put(self.pool, (3, length), self.source.randbytes(length))
            except ZcacheError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
                refused += 1
        self.assertGreater(refused, 0)

    def test_same_filled_pages_at_the_limit(self):
        """They need the index only; refused or not, what is answered is true."""
        self.fill(harness.random_page)
        stored = 0
        for index in range(1000):
            try:
                self.client.put(self.pool, (4, index), harness.zero_page())
                stored += 1
            except ZcacheError as error:
                self.assertEqual(error.errno, errno.ENOSPC)
                self.assertFalse(self.client.exists(self.pool, (4, index)))
        self.assertEqual(self.pool_stats().same_filled, stored)

    def refuse_overwrite(self, keep_old):
        old = harness.zero_page()
        self.client.put(self.pool, (5, 5), old)
        self.fill(harness.random_page)
        before = self.pool_stats()
        self.assert_error(errno.ENOSPC, self.client.put, self.pool, (5, 5),
                          harness.random_page(self.source), keep_old=keep_old)
        after = self.pool_stats()
        self.assertEqual(after.dropped_old - before.dropped_old, 0 if keep_old else 1)
        self.assertEqual(after.entries - before.entries, 0 if keep_old else -1)
        return old

    def test_a_refused_overwrite_leaves_a_miss(self):
        self.refuse_overwrite(keep_old=False)
        self.assertIsNone(self.client.get(self.pool, (5, 5)))
        self.assertFalse(self.client.delete(self.pool, (5, 5)))

    def test_a_refused_overwrite_that_keeps_the_old_page(self):
        old = self.refuse_overwrite(keep_old=True)
        self.assertEqual(self.client.get(self.pool, (5, 5)), old)

    def test_a_refused_new_page_is_a_miss(self):
        keys = self.fill(harness.random_page)
        refused = (1, len(keys))
        for keep_old in (False, True):
            self.assert_error(errno.ENOSPC, self.client.put, self.pool, refused,
                              harness.random_page(self.source), keep_old=keep_old)
            self.assertIsNone(self.client.get(self.pool, refused))

    def test_kept_at_the_limit_by_many(self):
        """B02: writers that fill and deleters that free the same keys."""
        writers = harness.Workers()
        for number in range(4):
            writers.start(write_and_delete, self.service.path, number)
        writers.run_for(harness.STRESS_SECONDS / 2)
        results = writers.join()
        self.assertGreater(sum(refused for refused, _ in results), 0, "the limit was reached")
        self.assertEqual(self.pool_stats().entries, sum(pages for _, pages in results))
        self.assert_rests_empty()


class TwoPools(ServiceTest):
    def test_a_full_pool_does_not_take_from_another(self):
        client = self.connect()
        source = random.Random(harness.SEED)
        client.pool_create("small", limit=8 * MIB)
        small, default = client.pool_open("small"), client.pool_open()
        with self.assertRaises(ZcacheError) as caught:
            for index in range(1 << 20):
                client.put(small, (1, index), harness.random_page(source))
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        client.put(default, (1, 1), harness.random_page(source))
        self.assertLessEqual(self.pool_stats("small").resident_bytes, 8 * MIB)


if __name__ == "__main__":
    harness.main()
