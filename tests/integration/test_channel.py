# SPDX-License-Identifier: BSD-2-Clause
"""Channels and mapped pools as docs/protocol.md describes them: the same answers as on the socket,
waking, bounds, and what a client's end leaves behind.
"""
import ctypes
import errno
import fcntl
import mmap
import multiprocessing
import os
import random
import signal
import struct
import threading
import time

import harness
import zcache_channel
from harness import MIB, ServiceTest, ZcacheError
from zcache_channel import (COMPLETE_TAIL, DELETE, EXISTS, GET, KEEP_OLD, NEED_WAKEUP, PUT, WAKE_AT,
                            WAKES, ChannelConnection, full_fence)
from zcache_client import pb

FORK = multiprocessing.get_context("fork")


def channels_of(pid):
    """How many channels the service has mapped."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps:
        return sum("zcached-channel" in line for line in maps)


class ChannelTest(ServiceTest):
    def channel_client(self, pool="default", **options):
        """A connection with a channel, and an open pool."""
        connection = ChannelConnection(self.service.path, timeout=20 * harness.TIME_FACTOR)
        self.addCleanup(connection.close)
        pool = connection.pool_open(pool)
        channel = connection.channel_open(slot_size=pool.page_size, **options)
        self.addCleanup(channel.close)
        return connection, pool, channel

    def assert_all_gone(self, files):
        """Within a second: mappings and descriptors of clients that have ended."""
        harness.wait_until("channels are unmapped",
                           lambda: channels_of(self.service.pid) == 0, seconds=1)
        harness.wait_until("descriptors are closed",
                           lambda: self.service.open_files() <= files, seconds=1)


# ---- pages ----

class Pages(ChannelTest):
    def test_ring_and_socket_give_the_same_answers(self):
        """Random operations, each by either way, against a model."""
        connection, pool, channel = self.channel_client()
        source, model = random.Random(harness.SEED), {}
        for _ in range(3000):
            key = (1, source.randrange(40))
            way = source.choice((connection, channel))
            operation = source.randrange(5)
            if operation < 2:
                value = source.choice(harness.FILLERS)(source)[:source.randrange(1, 4097)]
                way.put(pool, key, value)
                model[key] = value
            elif operation == 2:
                self.assertEqual(way.get(pool, key), model.get(key))
            elif operation == 3:
                self.assertEqual(way.delete(pool, key), model.pop(key, None) is not None)
            else:
                self.assertEqual(way.exists(pool, key), key in model)
        stats = self.pool_stats()
        self.assertEqual(stats.entries, len(model))
        self.assertEqual(self.service_stats().protocol_errors, 0)

    def test_every_page_size(self):
        connection = self.connect()
        source = random.Random(harness.SEED)
        for shift in range(12, 17):
            connection.pool_create(f"p{shift}", page_size=1 << shift, limit=8 * MIB)
            _, pool, channel = self.channel_client(f"p{shift}")
            self.assertEqual(channel.slot_size, 1 << shift)
            for index in range(20):
                value = (harness.text_page(source) * 16)[:source.randrange(1, (1 << shift) + 1)]
                channel.put(pool, (1, index), value, slot=index % channel.slots)
                self.assertEqual(channel.get(pool, (1, index), slot=(index * 7) % channel.slots),
                                 value)

    def test_errors_are_those_of_the_socket(self):
        connection, pool, channel = self.channel_client()
        connection.pool_create("other", page_size=8192)
        longer = connection.pool_open("other")
        put, get = channel.call, channel.call
        self.assert_error(errno.EINVAL, put, PUT, pool, (1, 1), length=0)
        self.assert_error(errno.ENOENT, get, GET, pool, (1, 1), length=4096)
        self.assert_error(errno.EOPNOTSUPP, put, 5, pool, (1, 1))
        self.assert_error(errno.EOPNOTSUPP, put, PUT, pool, (1, 1), length=1, flags=2)
        connection.put(longer, (1, 1), harness.zero_page() * 2)
        self.assert_error(errno.EMSGSIZE, get, GET, longer, (1, 1), length=4096)
        channel.put(longer, (1, 1), b"short")
        self.assertEqual(connection.get(longer, (1, 1)), b"short")
        connection.pool_destroy("other")
        self.assert_error(errno.EBADF, put, PUT, longer, (1, 1), length=100)
        connection.ping()

    def test_a_refused_overwrite(self):
        connection = self.connect()
        connection.pool_create("small", limit=4 * MIB)
        _, pool, channel = self.channel_client("small")
        source = random.Random(harness.SEED)
        for key in ((5, 0), (5, 1)):
            channel.put(pool, key, harness.zero_page())
        with self.assertRaises(ZcacheError) as caught:
            for index in range(5000):
                channel.put(pool, (1, index), harness.random_page(source))
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        page = harness.random_page(source)
        self.assert_error(errno.ENOSPC, channel.put, pool, (5, 0), page, flags=KEEP_OLD)
        self.assert_error(errno.ENOSPC, channel.put, pool, (5, 1), page)
        self.assertEqual(channel.get(pool, (5, 0)), harness.zero_page())
        self.assertIsNone(channel.get(pool, (5, 1)))

    def assert_error(self, number, call, *arguments, **options):
        with self.assertRaises(ZcacheError) as caught:
            call(*arguments, **options)
        self.assertEqual(caught.exception.errno, number)

    def test_many_in_flight_in_order(self):
        """Full rings; completions of a ring come in the order of its requests."""
        _, pool, channel = self.channel_client(slots=4, entries=64)
        pages = [harness.same_page(number) for number in range(4)]
        for slot, page in enumerate(pages):
            channel.write_slot(slot, page)
        sent = [[] for _ in range(channel.rings)]
        for round_number in range(30):
            for index in range(200):
                ring = channel.ring_of(pool, (1, index))
                if len(sent[ring]) < channel.entries:
                    sent[ring].append(channel.add(ring, PUT, pool, (1, index),
                                                  slot=(index + round_number) % 4, length=4096))
            for ring, cookies in enumerate(sent):
                channel.publish(ring)
                for cookie in cookies:
                    self.assertEqual(channel.wait(ring), (cookie, 0))
                cookies.clear()
        self.assertEqual(self.service_stats().protocol_errors, 0)


# ---- waking ----

class Waking(ChannelTest):
    def wait_asleep(self, channel):
        for ring in range(channel.rings):
            harness.wait_until("the worker sleeps", lambda ring=ring: channel.load(ring, NEED_WAKEUP))

    def test_without_its_doorbell_a_sleeper_sleeps(self):
        _, pool, channel = self.channel_client()
        self.wait_asleep(channel)
        ring = channel.ring_of(pool, (1, 1))
        cookie = channel.add(ring, EXISTS, pool, (1, 1))
        channel.store(ring, zcache_channel.SUBMIT_TAIL, channel.ends[ring][0])
        time.sleep(0.2)
        self.assertIsNone(channel.reap(ring))
        channel.ring_doorbell(ring)
        self.assertEqual(channel.wait(ring), (cookie, -errno.ENOENT))

    def test_the_futex(self):
        """A thread waits; it is woken when, and not before, as many completions are there."""
        _, pool, channel = self.channel_client()
        ring = channel.ring_of(pool, (1, 1))
        wakes = ctypes.c_uint32.from_buffer(channel.memory, WAKES)
        try:
            seen = wakes.value
            channel.store(ring, WAKE_AT, channel.ends[ring][1] + 3)
            result = []
            waiter = threading.Thread(target=lambda: result.append(
                zcache_channel.futex_wait(wakes, seen, 30 * harness.TIME_FACTOR)))
            waiter.start()
            for number in range(1, 4):
                self.assertEqual(wakes.value, seen)
                channel.add(ring, EXISTS, pool, (1, 1))
                channel.publish(ring)
                harness.wait_until("it is done", lambda number=number: channel.load(
                    ring, COMPLETE_TAIL) == number)
            waiter.join()
            self.assertIn(result[0], (0, errno.EAGAIN))
            self.assertNotEqual(wakes.value, seen)
        finally:
            del wakes

    def test_a_frame_for_those_who_asked(self):
        for notify in (False, True):
            connection, pool, channel = self.channel_client(notify=notify)
            ring = channel.ring_of(pool, (1, 1))
            for _ in range(100):
                channel.store(ring, WAKE_AT, channel.ends[ring][1] + 1)
                full_fence()
                channel.add(ring, EXISTS, pool, (1, 1))
                channel.publish(ring)
                if notify:
                    response = connection.receive()
                    self.assertEqual(response.id, 0)
                    self.assertTrue(response.HasField("wakeup"))
                self.assertEqual(channel.wait(ring)[1], -errno.ENOENT)
            connection.ping()

    def test_frames_that_nobody_reads(self):
        """The client is not taken for one that stalls, and loses no answer."""
        connection, pool, channel = self.channel_client(notify=True)
        ring = channel.ring_of(pool, (1, 1))
        for _ in range(2000):
            channel.store(ring, WAKE_AT, channel.ends[ring][1] + 1)
            full_fence()
            self.assertFalse(channel.exists(pool, (1, 1)))
        number = connection.submit("ping", pb.Ping())
        while True:
            response = connection.receive()
            if response.id == number:
                break
            self.assertTrue(response.HasField("wakeup"))
        self.assertEqual(self.service_stats().stalled_clients, 0)

    def test_idle_costs_nothing(self):
        """Many clients with channels, all of which have worked: then not a tick, not a wake-up."""
        clients = [self.channel_client() for _ in range(20)]
        for number, (_, pool, channel) in enumerate(clients):
            for index in range(20):
                channel.put(pool, (number, index), harness.same_page(number))
        for _ in range(5):
            time.sleep(1.5)  # the keeper's passes
            before = self.work_done()
            time.sleep(2)
            after = self.work_done()
            if after == before:
                break
        self.assertEqual(after, before)

    def work_done(self):
        """Ticks of CPU time, and times that a thread went to sleep."""
        with open(f"/proc/{self.service.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        slept = 0
        for task in os.listdir(f"/proc/{self.service.pid}/task"):
            with open(f"/proc/{self.service.pid}/task/{task}/status", encoding="ascii") as status:
                slept += sum(int(line.split()[1]) for line in status
                             if line.startswith("voluntary_ctxt_switches"))
        return int(fields[11]) + int(fields[12]), slept


# ---- bounds ----

class Bounds(ChannelTest):
    def test_one_for_each_slot_size(self):
        connection, _, channel = self.channel_client()
        self.assertEqual((channel.slots, channel.entries), (64, 64))
        self.assert_error(errno.EEXIST, connection.channel_open)
        for size in (0, 1, 2048, 5000, 131072):
            self.assert_error(errno.EINVAL, connection.channel_open, slot_size=size)
        most = connection.channel_open(slot_size=65536, slots=5000, entries=100000)
        self.addCleanup(most.close)
        self.assertEqual((most.slots, most.entries), (60, 256))
        self.assert_error(errno.ENOSPC, connection.channel_open, slot_size=8192)
        connection.ping()

    def test_seals_and_modes(self):
        connection, pool, channel = self.channel_client()
        wanted = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        self.assertEqual(fcntl.fcntl(channel.memory_fd, fcntl.F_GET_SEALS) & wanted, wanted)
        for size in (0, 2 * len(channel.memory)):
            with self.assertRaises(PermissionError):
                os.ftruncate(channel.memory_fd, size)
        connection.put(pool, (1, 1), b"so that no file is empty")
        pool_id, files = connection.pool_map(pool)
        self.assertEqual(pool_id, pool.pool_id)
        self.assertEqual(len(files), 3)
        for file in files:
            self.addCleanup(os.close, file)
            self.assertEqual(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE, os.O_RDONLY)
            self.assertTrue(fcntl.fcntl(file, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK)
            with self.assertRaises(PermissionError):
                mmap.mmap(file, 4096)
            with self.assertRaises(OSError):
                os.ftruncate(file, 0)
        with mmap.mmap(files[0], 4096, prot=mmap.PROT_READ) as header:
            self.assertEqual(struct.unpack_from("<Q", header, 32)[0], pool.pool_id)
            self.assertEqual(struct.unpack_from("<Q", header, 40)[0], pool.hash_seed)

    def test_handles_of_pool_map(self):
        connection, pool, _ = self.channel_client()
        for number in (0, 2, 65, 1 << 31):
            self.assert_error(errno.EBADF, connection.pool_map, number)
        connection.pool_create("gone")
        gone = connection.pool_open("gone")
        connection.pool_destroy("gone")
        self.assert_error(errno.EBADF, connection.pool_map, gone)
        self.assertEqual(connection.pool_map(pool)[0], pool.pool_id)

    def test_descriptors_that_nobody_receives(self):
        """They count against the service, so there are few of them; reading makes it good."""
        connection, pool, _ = self.channel_client()
        numbers = [connection.submit("pool_map", pb.PoolMap(pool=pool.handle)) for _ in range(30)]
        time.sleep(0.3)
        answers = [connection.wait(number).status for number in numbers]
        self.assertEqual(answers.count(0), 8)
        self.assertEqual(answers.count(-errno.EAGAIN), 22)
        for descriptor in connection.socket.take():
            os.close(descriptor)
        for _ in range(30):
            for descriptor in connection.pool_map(pool)[1]:
                os.close(descriptor)

    def test_behind_output_that_is_not_read(self):
        """The answer waits until the client has read; descriptors come with its first byte."""
        connection, pool, _ = self.channel_client()
        connection.put(pool, (1, 1), harness.random_page(random.Random(harness.SEED)))
        get = pb.Get(pool=pool.handle, key=pb.Key(object=1, index=1))
        requests = [("get", get)] * 150 + [("pool_map", pb.PoolMap(pool=pool.handle))]
        data, numbers = bytearray(), []
        for operation, message in requests:
            encoded, number = connection.encode(operation, message)
            data += encoded
            numbers.append(number)
        connection.socket.setblocking(True)
        connection.socket.sendall(data)
        connection.socket.setblocking(False)
        time.sleep(0.3)
        for number in numbers[:-1]:
            self.assertEqual(len(connection.wait(number).value.value), 4096)
        response = connection.wait(numbers[-1])
        self.assertEqual((response.status, response.pool_mapped.pool_id), (0, pool.pool_id))
        self.assertEqual(len(connection.socket.descriptors), 3)

    def test_a_pool_of_another_user(self):
        """Its handle cannot be had, and so neither its memory nor a request by ring."""
        if os.getuid() != 0:
            self.skipTest("needs root")
        os.chmod(self.service.path, 0o777)
        child = FORK.Process(target=self.as_nobody)
        child.start()
        child.join()
        self.assertEqual(child.exitcode, 0)

    def as_nobody(self):
        os.setuid(harness.NOBODY)
        connection = ChannelConnection(self.service.path)
        self.assert_error(errno.EACCES, connection.pool_open)
        self.assert_error(errno.EBADF, connection.pool_map, 1)
        connection.channel_open().close()


# ---- the end of a client ----

def work_until_killed(path, number):
    """Keeps rings full of puts and gets."""
    connection = ChannelConnection(path)
    pool = connection.pool_open()
    channel = connection.channel_open()
    source = random.Random(number)
    page = harness.mixed_page(source)
    while True:
        for index in range(40):
            key = (1000 + number, source.randrange(100))
            ring = channel.ring_of(pool, key)
            if channel.ends[ring][0] - channel.ends[ring][1] < channel.entries:
                channel.write_slot(index, page)
                channel.add(ring, source.choice((PUT, PUT, GET, DELETE)), pool, key, slot=index,
                            length=4096)
                channel.publish(ring)
        for ring in range(channel.rings):
            while channel.reap(ring):
                pass


def good_ring_client(stop, path, number=1):
    """Puts, gets and checks marked pages by ring; any error ends the test."""
    maker = harness.PageMaker(harness.SEED + number)
    with ChannelConnection(path, timeout=20 * harness.TIME_FACTOR) as connection:
        pool = connection.pool_open()
        channel = connection.channel_open()
        sequence = 0
        while not stop.is_set() or sequence == 0:
            key = (number, sequence % 64)
            channel.put(pool, key, maker.page(key, sequence), slot=sequence % channel.slots)
            got = channel.get(pool, key, slot=(sequence + 1) % channel.slots)
            if harness.page_sequence(key, got) != sequence:
                raise AssertionError("another page than the one just put")
            sequence += 1
    return sequence


class Ends(ChannelTest):
    def test_killed_a_hundred_times(self):
        files = self.service.open_files()
        workers = harness.Workers()
        workers.start(good_ring_client, self.service.path)
        source = random.Random(harness.SEED)
        for number in range(100):
            victim = FORK.Process(target=work_until_killed, args=(self.service.path, number % 5))
            victim.start()
            time.sleep(source.random() * 0.05)
            victim.kill()
            victim.join()
        self.assertGreater(workers.join()[0], 10)
        self.assert_all_gone(files)
        stats = self.service_stats()
        self.assertEqual(stats.connections, 1)
        self.assertEqual(stats.protocol_errors, 0)
        self.assert_rests_empty()

    def test_stopped_in_the_middle(self):
        workers = harness.Workers()
        workers.start(good_ring_client, self.service.path)
        stopped = [FORK.Process(target=work_until_killed, args=(self.service.path, number))
                   for number in range(3)]
        for process in stopped:
            process.start()
        time.sleep(0.3)
        for process in stopped:
            os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.5)
        connection, pool, channel = self.channel_client()
        for index in range(200):
            channel.put(pool, (2, index), harness.same_page(index % 256))
            self.assertEqual(connection.get(pool, (2, index)), harness.same_page(index % 256))
        for process in stopped[1:]:
            os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.2)
        for process in stopped:
            self.assertTrue(process.is_alive(), "it works on")
            process.kill()
            process.join()
        self.assertGreater(workers.join()[0], 10)
        self.assertEqual(self.service_stats().protocol_errors, 0)

    def test_a_child_that_keeps_the_socket(self):
        """The death of the process that connected is the end, whoever has its descriptors."""
        files = self.service.open_files()
        reading, writing = os.pipe()
        connecting = FORK.Process(target=self.connect_and_fork, args=(writing,))
        connecting.start()
        os.close(writing)
        grandchild = int(os.read(reading, 20))
        try:
            self.assertEqual(channels_of(self.service.pid), 1)
            self.assertEqual(self.service_stats().connections, 2)
            connecting.kill()
            connecting.join()
            os.kill(grandchild, 0)
            self.assert_all_gone(files)
            harness.wait_until("the connection is gone",
                               lambda: self.service_stats().connections == 1, seconds=1)
        finally:
            os.kill(grandchild, signal.SIGKILL)
            os.close(reading)

    def connect_and_fork(self, writing):
        connection = ChannelConnection(self.service.path)
        channel = connection.channel_open()
        child = os.fork()
        if child == 0:
            time.sleep(600)
            os._exit(0)
        os.write(writing, str(child).encode())
        time.sleep(600)
        channel.close()

    def test_without_a_channel_a_child_may_have_it(self):
        """A connection that was handed over goes on."""
        reading, writing = os.pipe()
        connecting = FORK.Process(target=self.hand_over, args=(writing,))
        connecting.start()
        os.close(writing)
        connecting.join()
        self.assertEqual(os.read(reading, 10), b"good")
        os.close(reading)

    def hand_over(self, writing):
        connection = self.service.connect()
        parent = os.getpid()
        if os.fork() == 0:
            while os.getppid() == parent:
                time.sleep(0.01)
            time.sleep(0.1)
            connection.ping()
            os.write(writing, b"good")
        os._exit(0)

    def test_a_channel_ends_with_its_connection(self):
        files = self.service.open_files()
        for _ in range(20):
            connection = ChannelConnection(self.service.path)
            pool = connection.pool_open()
            channel = connection.channel_open()
            for index in range(30):
                ring = channel.ring_of(pool, (1, index))
                channel.add(ring, EXISTS, pool, (1, index))
                channel.publish(ring)
            connection.close()
            channel.close()
        self.assert_all_gone(files)

    def test_the_service_ends_while_rings_are_busy(self):
        clients = [FORK.Process(target=work_until_killed, args=(self.service.path, number))
                   for number in range(3)]
        for client in clients:
            client.start()
        harness.wait_until("they work", lambda: self.pool_stats().puts > 500)
        self.service.stop()
        for client in clients:
            client.kill()
            client.join()

    def test_acknowledged_is_done_when_the_service_ends(self):
        """What a ring has completed was done, and the client sees the end on its socket."""
        connection, pool, channel = self.channel_client()
        for index in range(100):
            channel.put(pool, (1, index), harness.same_page(index))
        self.service.stop()
        self.assertIsNone(connection.receive())


if __name__ == "__main__":
    harness.main()
