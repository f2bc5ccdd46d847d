# SPDX-License-Identifier: BSD-2-Clause
"""Clients that do not read, or stop in the middle (faults B08, B14, B45): they cost a bounded
amount of memory for a bounded time, and nobody waits for them.
"""
import os
import random
import select
import signal
import time

import harness
from harness import MIB, PAGE, ServiceTest
from zcache_client import HEADER, Connection, pb, put_message

TIMEOUT = max(1, round(harness.TIME_FACTOR))
SLOW_TIMEOUT = 3 * TIMEOUT


def busy_client(stop, path):
    """Gets and checks one page; returns the longest time that took."""
    maker = harness.PageMaker(harness.SEED)
    longest = 0.0
    with Connection(path, timeout=harness.PATIENCE) as client:
        pool = client.pool_open()
        while not stop.is_set():
            begin = time.monotonic()
            client.put(pool, (5, 5), maker.page((5, 5), 5))
            harness.page_sequence((5, 5), client.get(pool, (5, 5)))
            longest = max(longest, time.monotonic() - begin)
    return longest


class StalledTest(ServiceTest):
    ARGUMENTS = ("--limit", "64M", "--client-timeout", str(TIMEOUT))

    def setUp(self):
        super().setUp()
        self.workers = harness.Workers()
        self.workers.start(busy_client, self.service.path)
        self.addCleanup(self.workers.join)

    def assert_ended(self, connection):
        """The service hangs up, however late on a busy machine; nothing is read meanwhile."""
        poll = select.poll()
        poll.register(connection.socket, select.POLLRDHUP)
        self.assertTrue(poll.poll(60000 * harness.TIME_FACTOR), "the connection ends")

    def assert_stalled(self, count):
        harness.wait_until(f"{count} stalled clients are counted",
                           lambda: self.service_stats().stalled_clients >= count)
        self.assertEqual(self.service_stats().stalled_clients, count)

    def prepare(self):
        client, pool = self.open_pool()
        source = random.Random(harness.SEED)
        for index in range(16):
            client.put(pool, (1, index), harness.random_page(source))
        for number in range(30):
            client.pool_create(f"pool{number}", limit=MIB)

    def fill_until_blocked(self, connection, data):
        """Sends without reading until nothing more is taken for a while."""
        poll = select.poll()
        poll.register(connection.socket, select.POLLOUT)
        while poll.poll(200):
            try:
                connection.socket.send(data)
            except BlockingIOError:
                pass
            except OSError:
                return


class StoppedInFrame(StalledTest):
    def test_anywhere_in_a_frame(self):
        example = self.connect()
        data, _ = example.encode("put", put_message(1, (1, 1), bytes(PAGE)))
        stopped = []
        for length in (1, 3, 4, 5, HEADER.size + 2048, len(data) - 1):
            stopped.append(self.connect())
            stopped[-1].send_bytes(data[:length])
        for connection in stopped:
            self.assert_ended(connection)
        self.assert_stalled(len(stopped))

    def test_before_hello(self):
        connection = self.connect(hello=False)
        connection.send_bytes(b"\x0c")
        self.assert_ended(connection)
        self.assert_stalled(1)

    def test_after_good_frames(self):
        connection = self.connect()
        data, _ = connection.encode("ping", pb.Ping())
        connection.send_bytes(data * 3 + data[:-1])
        self.assert_ended(connection)
        self.assert_stalled(1)

    def test_a_frame_that_trickles(self):
        """The time is for the frame, not for each byte."""
        connection = self.connect()
        data, _ = connection.encode("put", put_message(1, (1, 1), bytes(PAGE)))
        with self.assertRaises(OSError, msg="the connection ends before the frame is complete"):
            for byte in data[:600]:
                connection.send_bytes(bytes([byte]))
                time.sleep(0.1 * TIMEOUT)
        self.assert_stalled(1)

    def test_idle_between_frames_is_no_stall(self):
        connection, pool = self.open_pool()
        silent = self.connect(hello=False)
        time.sleep(2.5 * TIMEOUT)
        connection.put(pool, (1, 1), b"still here")
        self.assertEqual(connection.get(pool, (1, 1)), b"still here")
        silent.hello()
        self.assert_stalled(0)

    def test_many(self):
        """B14: a client that announces much is given room for what it sends, at most."""
        before = self.service.resident_set()
        half, _ = self.connect().encode("put", put_message(1, (1, 1), bytes(65536)))
        stopped = [self.connect() for _ in range(200)]
        for connection in stopped:
            connection.send_bytes(half[:2048])
        if not os.environ.get("ZC_SANITIZED"):
            self.assertLess(self.service.resident_set() - before, 200 * 80 * 1024)
        for connection in stopped:
            self.assert_ended(connection)
        self.assert_stalled(len(stopped))


class NeverReads(StalledTest):
    def gets(self, connection):
        pool = connection.pool_open()
        return b"".join(connection.encode("get", pb.Get(pool=pool.handle, key=pb.Key(
            object=1, index=index % 16)))[0] for index in range(256))

    def test_gets(self):
        self.prepare()
        connection = self.connect()
        self.fill_until_blocked(connection, self.gets(connection))
        self.assert_ended(connection)
        self.assert_stalled(1)

    def test_fifty_at_once(self):
        """B45, with the longest answers there are."""
        self.prepare()
        before = self.service.resident_set()
        clients = [self.connect() for _ in range(50)]
        for connection in clients:
            stats = connection.encode("stats", pb.Stats())[0] * 5000
            connection.send_bytes(stats)
        time.sleep(0.5)  # the answers are on their way
        if not os.environ.get("ZC_SANITIZED"):
            self.assertLess(self.service.resident_set() - before, 50 * MIB)
        for connection in clients:
            self.assert_ended(connection)
        self.assert_stalled(len(clients))

    def test_a_client_that_is_stopped(self):
        """B08: SIGSTOP with a get unread does not hold up compaction."""
        client, pool = self.open_pool()
        maker = harness.PageMaker(harness.SEED)
        keys = [(2, index) for index in range(3000)]
        harness.put_all(client, pool, [(key, maker.page(key, 1)) for key in keys])
        process = self.workers.start(self.read_when_woken, self.service.path)
        os.kill(process.pid, signal.SIGSTOP)
        harness.delete_all(client, pool, [key for key in keys if key[1] % 5])
        try:
            client.compact_start()
        except harness.ZcacheError:
            pass  # the service has begun by itself
        harness.wait_until("compaction ends", lambda: not client.compact_status().running, 30)
        os.kill(process.pid, signal.SIGCONT)
        for key in keys[::5]:
            self.assertEqual(harness.page_sequence(key, client.get(pool, key)), 1)

    @staticmethod
    def read_when_woken(stop, path):
        with Connection(path, timeout=60 * harness.TIME_FACTOR) as client:
            pool = client.pool_open()
            while not stop.is_set():
                client.submit("get", pb.Get(pool=pool.handle, key=pb.Key(object=2, index=5)))
                client.receive()


class Slow(StalledTest):
    """Time enough for a test that the machine holds up, too."""

    ARGUMENTS = ("--limit", "64M", "--client-timeout", str(SLOW_TIMEOUT))

    def test_slow_is_not_stalled(self):
        """A client that reads a little now and then, all the time, keeps its connection."""
        self.prepare()
        connection = self.connect()
        pool = connection.pool_open()
        numbers = [connection.submit("get", pb.Get(pool=pool.handle, key=pb.Key(
            object=1, index=index % 16))) for index in range(200)]
        for number in numbers:
            self.assertEqual(len(connection.wait(number).value.value), PAGE)
            time.sleep(2 * SLOW_TIMEOUT / len(numbers))
        self.assert_stalled(0)


if __name__ == "__main__":
    harness.main()
