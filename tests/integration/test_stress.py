# SPDX-License-Identifier: BSD-2-Clause
"""Client processes on marked pages while compaction loops (faults B01, B03, B04, B07, B09, B11).

Each process owns its keys and knows exactly what each must hold; it also reads the others' keys,
whose pages must be whole, theirs, and never older than one it saw before.
"""
import errno
import random

import harness
from harness import ServiceTest, ZcacheError
from zcache_client import Connection, pb, put_message

KEYS = 600


def compact_for_ever(stop, path):
    """Starts one compaction after another; returns how many there were."""
    with Connection(path, timeout=harness.PATIENCE) as client:
        before = client.compact_status().generation
        while not stop.is_set():
            try:
                client.compact_start()
            except ZcacheError as error:
                if error.errno != errno.EALREADY:
                    raise
        return client.compact_status().generation - before


class Owner:
    """One client process: its keys, what they must hold, and what it has seen of others."""

    def __init__(self, path, number, others):
        self.number, self.others = number, others
        self.source = random.Random(harness.SEED * 64 + number)
        self.maker = harness.PageMaker(harness.SEED * 64 + number)
        self.client = Connection(path, timeout=harness.PATIENCE)
        self.pool = self.client.pool_open()
        self.model, self.seen, self.sequence = {}, {}, 0

    def step(self):
        key = (self.number, self.source.randrange(KEYS))
        choice = self.source.random()
        if choice < 0.40:
            self.put(key)
        elif choice < 0.60:
            self.delete(key)
        elif choice < 0.85:
            self.check(key)
        elif choice < 0.95:
            self.look_at_others()
        else:
            self.put_many()

    def put(self, key):
        self.sequence += 1
        self.client.put(self.pool, key, self.maker.page(key, self.sequence))
        self.model[key] = self.sequence

    def put_many(self):
        """Puts in one go, one key among them twice."""
        numbers = []
        for index in self.source.sample(range(KEYS), 12) * 2:
            key = (self.number, index)
            self.sequence += 1
            message = put_message(self.pool, key, self.maker.page(key, self.sequence))
            numbers.append(self.client.submit("put", message))
            self.model[key] = self.sequence
        for number in numbers:
            if self.client.wait(number).status != 0:
                raise AssertionError("a put was refused")

    def delete(self, key):
        if self.client.delete(self.pool, key) != (self.model.pop(key, None) is not None):
            raise AssertionError(f"key {key}: delete disagrees")

    def check(self, key):
        page = self.client.get(self.pool, key)
        found = None if page is None else harness.page_sequence(key, page)
        if found != self.model.get(key):
            raise AssertionError(f"key {key}: {found}, should be {self.model.get(key)}")

    def look_at_others(self):
        key = (self.source.randrange(self.others), self.source.randrange(KEYS))
        page = self.client.get(self.pool, key)
        if page is None:
            return
        found = harness.page_sequence(key, page)
        if found < self.seen.get(key, 0):
            raise AssertionError(f"key {key}: {found} after {self.seen[key]}")
        self.seen[key] = found

    def finish(self):
        for index in range(KEYS):
            self.check((self.number, index))
        self.client.close()
        return len(self.model)


def own_keys(stop, path, number, others):
    owner = Owner(path, number, others)
    while not stop.is_set():
        owner.step()
    return owner.finish()


class CompactionUnderLoad(ServiceTest):
    def run_owners(self, count, seconds):
        compactor, owners = harness.Workers(), harness.Workers()
        compactor.start(compact_for_ever, self.service.path)
        for number in range(count):
            owners.start(own_keys, self.service.path, number, count)
        owners.run_for(seconds)
        pages = sum(owners.join(60))
        (compactions,) = compactor.join()
        self.assertGreater(compactions, 0)
        self.assertEqual(self.pool_stats().entries, pages)
        self.check_classes()
        stats = self.pool_stats()
        self.assertEqual((stats.damaged, stats.poisoned), (0, 0))
        self.assertGreater(stats.objects_moved, 0, "compaction had something to do")
        self.assert_rests_empty()

    def check_classes(self):
        """B03: the sums over the size classes are the pool's."""
        with self.service.connect() as client:
            used = sum(item.objects_used for item in client.classes())
            stats = client.stats("default").pool[0]
        self.assertEqual(used, stats.entries - stats.same_filled)

    def test_four_clients(self):
        self.run_owners(4, harness.STRESS_SECONDS)

    def test_eight_clients(self):
        self.run_owners(8, harness.STRESS_SECONDS)


class MassDelete(ServiceTest):
    ROUNDS = 8

    def fill(self, client, pool, count, make=harness.text_page):
        source = random.Random(harness.SEED)
        pages = [((7, index), make(source)) for index in range(count)]
        self.assertEqual(set(harness.put_all(client, pool, pages)), {0})

    def delete(self, client, pool, indexes):
        keys = [(7, index) for index in indexes]
        self.assertEqual(set(harness.delete_all(client, pool, keys)), {0})

    def wait_for_compaction(self, client):
        harness.wait_until("compaction ends", lambda: not client.compact_status().running, 30)

    def test_flush_and_compaction_at_the_same_moment(self):
        """B04, B11"""
        client, pool = self.open_pool()
        other = self.connect()
        for _ in range(self.ROUNDS):
            self.fill(client, pool, 2000)
            self.delete(client, pool, range(0, 2000, 3))
            flush = client.submit("flush", pb.Flush(pool=pool.handle))
            compact = other.submit("compact_start", pb.CompactStart(pool="default"))
            self.assertIn(other.wait(compact).status, (0, -errno.EALREADY))
            self.assertEqual(client.wait(flush).deleted.pages, 2000 - len(range(0, 2000, 3)))
            self.assertEqual(self.pool_stats().entries, 0)
            self.wait_for_compaction(client)
        self.assert_rests_empty()

    def test_deletes_by_many_and_compaction(self):
        """B04: four processes delete what a compaction moves."""
        client, pool = self.open_pool()
        for _ in range(self.ROUNDS):
            self.fill(client, pool, 2000)
            deleters = harness.Workers()
            for part in range(4):
                deleters.start(delete_part, self.service.path, part)
            try:
                client.compact_start()
            except ZcacheError as error:
                self.assertEqual(error.errno, errno.EALREADY)
            self.assertEqual(deleters.join(), [500] * 4)
            self.wait_for_compaction(client)
            self.assertEqual(self.pool_stats().entries, 0)
        self.assert_rests_empty()

    def test_only_one_compaction_at_a_time(self):
        """B06: the second is told, and both ways the count is true."""
        client, pool = self.open_pool()
        other = self.connect()
        self.fill(client, pool, 3000)
        self.delete(client, pool, [index for index in range(3000) if index % 4])
        before = client.compact_status().generation
        started = 0
        for _ in range(20):
            first = client.submit("compact_start", pb.CompactStart(pool="default"))
            second = other.submit("compact_start", pb.CompactStart(pool="default"))
            for status in (client.wait(first).status, other.wait(second).status):
                self.assertIn(status, (0, -errno.EALREADY))
                started += status == 0
        self.wait_for_compaction(client)
        self.assertGreaterEqual(client.compact_status().generation - before, started)
        self.assertGreater(started, 0)

    def test_overwritten_by_smaller_pages(self):
        """B09: large objects become small ones; nothing of them stays behind."""
        client, pool = self.open_pool()
        self.fill(client, pool, 4000, make=large_page)
        source = random.Random(harness.SEED)
        for index in source.sample(range(4000), 2000):
            client.put(pool, (7, index), harness.text_page(source))
        for _ in range(2):
            try:
                client.compact_start()
            except ZcacheError as error:
                self.assertEqual(error.errno, errno.EALREADY)
            self.wait_for_compaction(client)
        moved = self.pool_stats().objects_moved
        client.compact_start()
        self.wait_for_compaction(client)
        self.assertEqual(self.pool_stats().objects_moved, moved, "nothing was left to move")
        self.assert_rests_empty()


def large_page(source):
    """Compresses to 2.5 to 3.9 KB."""
    random_bytes = source.randrange(2300, 3700)
    return source.randbytes(random_bytes) + harness.text_page(source)[random_bytes:]


def delete_part(_stop, path, part):
    with Connection(path, timeout=harness.PATIENCE) as client:
        pool = client.pool_open()
        return sum(client.delete(pool, (7, index)) for index in range(part, 2000, 4))


if __name__ == "__main__":
    harness.main()
