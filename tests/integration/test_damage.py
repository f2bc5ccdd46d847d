# SPDX-License-Identifier: BSD-2-Clause
"""Fault B25: bits that flip in the pool's memory are found. A damaged page is an error of its own,
never another page and never a miss, until it is overwritten or deleted; others are not touched.

The bits are flipped from outside, through /proc, which the service cannot prevent for its own user.
"""
import errno
import os
import random

import harness
from harness import PAGE, ServiceTest

HEADER = 8  # bytes in front of an object that is not raw
KEY = (1, 1)


class DamageTest(ServiceTest):
    def setUp(self):
        super().setUp()
        self.client, self.pool = self.open_pool()
        self.source = random.Random(harness.SEED)

    def open_memory(self):
        """The pool's data, as the service holds it."""
        folder = f"/proc/{self.service.pid}/fd"
        for number in os.listdir(folder):
            path = os.path.join(folder, number)
            if os.readlink(path).startswith("/memfd:zcached-data"):
                return open(path, "r+b", buffering=0)
        raise AssertionError("the service has no data file")

    def put_and_find(self, key, page):
        """Puts a page; returns where in the data its object begins."""
        with self.open_memory() as memory:
            before = memory.read()
            self.client.put(self.pool, key, page)
            memory.seek(0)
            after = memory.read()
        before = before.ljust(len(after), b"\0")  # the file has grown
        for start in range(0, len(after), PAGE):
            if after[start:start + PAGE] != before[start:start + PAGE]:
                for offset in range(start, start + PAGE):
                    if after[offset] not in (0, before[offset]):
                        return offset & ~7
        raise AssertionError("no object was written")

    def flip_bit(self, offset, bit):
        with self.open_memory() as memory:
            memory.seek(offset)
            byte = memory.read(1)[0]
            memory.seek(offset)
            memory.write(bytes([byte ^ 1 << bit]))

    def assert_damaged(self):
        for _ in range(2):
            self.assert_error(errno.EBADMSG, self.client.get, self.pool, KEY)
            self.assert_error(errno.EBADMSG, self.client.exists, self.pool, KEY)
        stats = self.pool_stats()
        self.assertGreaterEqual(stats.damaged, 1)
        self.assertEqual((stats.poisoned, stats.entries), (1, 1))
        harness.wait_until("the damage is logged", lambda: b"damaged" in self.service.log())

    def check_damage(self, page, offset, bit=0):
        """`offset` counts from the first byte of the page's object."""
        self.flip_bit(self.put_and_find(KEY, page) + offset, bit)
        self.assert_damaged()
        other = harness.random_page(self.source)
        self.client.put(self.pool, (2, 2), other)
        self.assertEqual(self.client.get(self.pool, (2, 2)), other)
        self.client.delete(self.pool, (2, 2))
        self.client.put(self.pool, KEY, page)
        self.assertEqual(self.client.get(self.pool, KEY), page, "an overwrite heals")
        self.assertEqual(self.pool_stats().poisoned, 0)
        self.flip_bit(self.put_and_find(KEY, page) + offset, bit)
        self.assert_damaged()
        self.assertTrue(self.client.delete(self.pool, KEY), "a delete heals")
        self.assertIsNone(self.client.get(self.pool, KEY))
        self.assertEqual(self.pool_stats().poisoned, 0)
        self.assert_rests_empty()


class Damage(DamageTest):
    def test_in_a_compressed_page(self):
        self.check_damage(harness.text_page(self.source), HEADER)
        self.check_damage(harness.text_page(self.source), HEADER + 500, 7)

    def test_in_an_objects_header(self):
        """Its key's hash, or its checksum."""
        for offset in range(HEADER):
            self.check_damage(harness.text_page(self.source), offset, 3)

    def test_in_a_raw_page(self):
        for offset in (0, 1000, PAGE - 1):
            self.check_damage(harness.random_page(self.source), offset, 6)

    def test_a_compaction_does_not_launder_it(self):
        """What is moved stays damaged, or what it was."""
        self.flip_bit(self.put_and_find(KEY, harness.text_page(self.source)) + HEADER + 50, 0)
        keys = [(3, index) for index in range(2000)]
        harness.put_all(self.client, self.pool,
                        [(key, harness.text_page(self.source)) for key in keys])
        harness.delete_all(self.client, self.pool, [key for key in keys if key[1] % 5])
        try:
            self.client.compact_start()
        except harness.ZcacheError as error:
            self.assertEqual(error.errno, errno.EALREADY)
        harness.wait_until("compaction ends", lambda: not self.client.compact_status().running)
        self.assert_error(errno.EBADMSG, self.client.get, self.pool, KEY)
        self.assertEqual(len([page for page in harness.get_all(self.client, self.pool, keys)
                              if page]), 400)


class ZstdDamage(DamageTest):
    ARGUMENTS = ("--limit", "64M", "--codec", "zstd:1")

    def test_in_a_compressed_page(self):
        for offset in (0, 1, 20, 200):
            self.check_damage(harness.text_page(self.source), HEADER + offset, 4)


if __name__ == "__main__":
    harness.main()
