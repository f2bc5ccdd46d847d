# SPDX-License-Identifier: BSD-2-Clause
"""A client that breaks the rules of its channel, by mistake or on purpose: it ends, and nobody else notices
(faults B26, B31, B42 for shared memory).

Every test has a good client beside it that works by ring and checks its pages all the time.
"""
import errno
import os
import random
import struct
import time

import harness
from harness import ServiceTest
from test_channel import channels_of, good_ring_client
from zcache_channel import (COMPLETE_HEAD, DELETE, EXISTS, GET, NEED_WAKEUP, ONE, PUT, SUBMIT_TAIL,
                            ChannelConnection)

DOORBELLS = 1000000 if harness.TIME_FACTOR == 1 else 100000


class HostileRing(ServiceTest):
    def setUp(self):
        super().setUp()
        self.files = self.service.open_files()
        self.workers = harness.Workers()
        self.workers.start(good_ring_client, self.service.path)
        self.addCleanup(self.check_good_client)
        self.errors = 0

    def check_good_client(self):
        self.assertGreater(self.workers.join()[0], 0)
        harness.wait_until("nothing is left of any client",
                           lambda: channels_of(self.service.pid) == 0
                           and self.service.open_files() <= self.files)

    def open(self, **options):
        """A fresh client with a channel of few entries, to be ended."""
        connection = ChannelConnection(self.service.path, timeout=20 * harness.TIME_FACTOR)
        self.addCleanup(connection.close)
        pool = connection.pool_open()
        options.setdefault("entries", 8)
        channel = connection.channel_open(**options)
        self.addCleanup(channel.close)
        return connection, pool, channel

    def ring_doorbells(self, channel):
        for ring in range(channel.rings):
            channel.ring_doorbell(ring)

    def assert_ended(self, connection, channel):
        """The end of the file, without a word, counted once and logged."""
        self.ring_doorbells(channel)
        self.assertIsNone(connection.receive(), "the connection has ended")
        self.errors += 1
        harness.wait_until("it is counted",
                           lambda: self.service_stats().protocol_errors >= self.errors)
        self.assertEqual(self.service_stats().protocol_errors, self.errors)
        self.assertIn(f"connection of pid {os.getpid()}, uid {os.getuid()}, zcache_client.py "
                      "ended: ".encode(), self.service.log())

    def break_rule(self, way):
        with self.subTest(way.__name__):
            connection, pool, channel = self.open()
            channel.put(pool, (7, 7), harness.same_page(7))
            way(pool, channel)
            self.assert_ended(connection, channel)

    # ---- one wrong word ----

    def test_indices(self):
        for ring in range(2):
            for distance in (9, 100, 1 << 16, 1 << 31, -1, -8, -(1 << 30)):
                def tail(_, channel):
                    channel.store(ring, SUBMIT_TAIL, channel.ends[ring][0] + distance)
                self.break_rule(tail)

    def test_heads(self):
        """Completions taken that were not there; heads that move backwards."""
        for distance in (1, 8, 1 << 31, -8, -9, -1000):
            def head(pool, channel):
                ring = channel.ring_of(pool, (1, 1))
                channel.store(ring, COMPLETE_HEAD, channel.ends[ring][1] + distance)
                channel.add(ring, EXISTS, pool, (1, 1))
                channel.publish(ring)
            self.break_rule(head)

    def test_completions_that_nobody_takes(self):
        def nobody(pool, channel):
            ring = channel.ring_of(pool, (1, 1))
            for number in range(9):
                before = channel.load(ring, 192)
                channel.add(ring, EXISTS, pool, (1, 1))
                channel.publish(ring)
                if number < 8:
                    harness.wait_until("it is done", lambda: channel.load(ring, 192) != before)
        self.break_rule(nobody)

    def test_slots_and_lengths(self):
        for operation in (PUT, GET):
            for slot, length in ((64, 1), (1 << 31, 1), (0xFFFFFFFF, 4096), (0, 4097),
                                 (0, 1 << 31), (63, 0xFFFFFFFF), (64, 0)):
                def page(pool, channel):
                    ring = channel.ring_of(pool, (1, 1))
                    channel.add(ring, operation, pool, (1, 1), slot=slot, length=length)
                    channel.publish(ring)
                self.break_rule(page)

    def test_the_ring_of_another_worker(self):
        for operation in (PUT, GET, DELETE, EXISTS):
            def wrong(pool, channel):
                ring = (channel.ring_of(pool, (1, 1)) + 1) % channel.rings
                channel.add(ring, operation, pool, (1, 1), length=1)
                channel.publish(ring)
            connection, _, channel = self.open()
            if channel.rings == 1:
                self.skipTest("one worker: there is no other ring")
            connection.close()
            self.break_rule(wrong)

    def test_nothing_after_the_fault_is_done(self):
        connection, pool, channel = self.open(entries=64)
        other, other_pool = self.open_pool()
        other.put(other_pool, (9, 9), b"stays")
        ring = channel.ring_of(pool, (9, 9))
        channel.add(ring, PUT, pool, (9, 9), slot=1000)
        channel.add(ring, DELETE, pool, (9, 9))
        channel.publish(ring)
        self.assert_ended(connection, channel)
        self.assertEqual(other.get(other_pool, (9, 9)), b"stays")

    # ---- everything at once ----

    def test_garbage(self):
        """Random words over rings, headers and slots, while requests are on their way."""
        source = random.Random(harness.SEED)
        end = time.monotonic() + harness.STRESS_SECONDS / 2
        ended = 0
        while time.monotonic() < end:
            connection, pool, channel = self.open()
            for _ in range(50):
                self.scribble(source, pool, channel)
            self.ring_doorbells(channel)
            time.sleep(0.002)
            ended += self.is_ended(connection)
            connection.close()
        self.assertGreater(ended, 3)
        self.assertLessEqual(ended, self.service_stats().protocol_errors)

    def scribble(self, source, pool, channel):
        ring = source.randrange(channel.rings)
        choice = source.randrange(6)
        if choice < 3:
            key = (1, source.randrange(100))
            ring = channel.ring_of(pool, key)
            channel.add(ring, source.choice((PUT, GET, DELETE, EXISTS)), pool, key,
                        slot=source.randrange(64), length=source.randrange(4097))
            channel.publish(ring)
        elif choice == 3:
            channel.store(ring, source.choice((0, 64, 68, 128, 132, 192)),
                          source.choice((0, 1, channel.ends[ring][0] + 1, source.getrandbits(32))))
        elif choice == 4:
            at = channel.rings_at + source.randrange(channel.stride * channel.rings - 64)
            channel.memory[at:at + 64] = source.randbytes(64)
        else:
            self.ring_doorbells(channel)

    def is_ended(self, connection):
        try:
            return connection.socket.recv(1) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True

    def test_descriptors_changed_all_the_time(self):
        """A request's words flip while the worker copies it. A child process does that; whatever is copied
        is checked, and what is checked is done."""
        stop = time.monotonic() + harness.STRESS_SECONDS / 4
        flippers = harness.Workers()
        while time.monotonic() < stop:
            connection, pool, channel = self.open(entries=64)
            child = os.fork()
            if child == 0:
                self.flip(channel)
            source = random.Random(harness.SEED)
            while time.monotonic() < stop and not self.is_ended(connection):
                key = (1, source.randrange(100))
                ring = channel.ring_of(pool, key)
                if (channel.ends[ring][0] - channel.load(ring, 192)) & 0xFFFFFFFF < 64:
                    channel.add(ring, source.choice((PUT, GET)), pool, key, slot=3, length=4096)
                    channel.publish(ring)
                channel.reap(ring)
            os.kill(child, 9)
            os.waitpid(child, 0)
        flippers.join()

    def flip(self, channel):
        """In a child: slots, lengths and operations of every entry, right and wrong in turn."""
        good = struct.pack("<IIHH", 3, 4096, PUT, 0)
        bad = struct.pack("<IIHH", 0x7FFFFFFF, 0x7FFFFFFF, GET, 1)
        try:
            while True:
                for value in (good, bad):
                    for ring in range(channel.rings):
                        for number in range(64):
                            at = channel.request_at(ring, number) + 28
                            channel.memory[at:at + len(value)] = value
        finally:
            os._exit(0)

    # ---- doorbells ----

    def test_a_million_doorbells(self):
        """They cost the one who rings, and teach nobody to spin."""
        connection, pool, channel = self.open()
        for ring in range(channel.rings):
            doorbell = channel.doorbells[ring]
            for _ in range(DOORBELLS // channel.rings):
                os.write(doorbell, ONE)
        channel.put(pool, (1, 1), b"alive")
        self.assertEqual(channel.get(pool, (1, 1)), b"alive")
        harness.wait_until("the workers sleep", lambda: all(
            channel.load(ring, NEED_WAKEUP) for ring in range(channel.rings)))
        self.assertEqual(self.service_stats().protocol_errors, 0)
        connection.ping()

    def test_a_full_doorbell(self):
        """The client has cleared O_NONBLOCK and filled the counter: nobody waits for it."""
        _, pool, channel = self.open()
        for doorbell in channel.doorbells:
            os.set_blocking(doorbell, True)
            os.write(doorbell, struct.pack("<Q", (1 << 64) - 2))
        self.assertFalse(channel.exists(pool, (1, 1)))

    def test_a_doorbell_that_was_read(self):
        _, pool, channel = self.open()
        for doorbell in channel.doorbells:
            os.write(doorbell, ONE)
            os.read(doorbell, 8)
        for index in range(100):
            self.assertFalse(channel.exists(pool, (1, index)))

    def test_a_header_of_lies(self):
        """The service does not read it."""
        _, pool, channel = self.open()
        channel.memory[:4096] = b"\xff" * 4096
        for index in range(100):
            channel.put(pool, (1, index), harness.same_page(index))
            self.assertEqual(channel.get(pool, (1, index)), harness.same_page(index))

    def test_slots_changed_while_they_are_read(self):
        """Whatever is stored is whole: a get gives a page, by its checksum, or an error."""
        connection, pool, channel = self.open()
        child = os.fork()
        if child == 0:
            source = random.Random(harness.SEED)
            while True:
                channel.write_slot(0, harness.random_page(source))
                channel.write_slot(0, harness.zero_page())
        try:
            for index in range(300):
                channel.call(PUT, pool, (1, index % 10), slot=0, length=4096)
                self.assertEqual(len(connection.get(pool, (1, index % 10))), 4096)
                channel.call(GET, pool, (1, index % 10), slot=0, length=4096)
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
        self.assertEqual(self.pool_stats().damaged, 0)

    # ---- resources ----

    def test_as_many_channels_as_there_can_be(self):
        """B37: clients that take all they can, and do not go; then one more."""
        clients = [self.open(slot_size=4096, slots=1024) for _ in range(30)]
        for connection, _, _ in clients:
            with self.assertRaises(Exception) as caught:
                connection.channel_open(slot_size=8192)
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
        connection, pool, channel = self.open()
        channel.put(pool, (1, 1), b"one more")
        for connection, _, _ in clients:
            connection.close()
        harness.wait_until("their memory is given back",
                           lambda: channels_of(self.service.pid) == 2)


if __name__ == "__main__":
    harness.main()
