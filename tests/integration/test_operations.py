# SPDX-License-Identifier: BSD-2-Clause
"""Every operation of the protocol, once as it is meant and once for each error it can give."""
import errno
import os
import random
import subprocess
import sys
import unittest

import harness
from harness import PAGE, ServiceTest
from zcache_client import pb, put_message

LAST = (1 << 64) - 1


class Connecting(ServiceTest):
    def test_hello_says_what_the_service_is(self):
        server = self.connect().server
        self.assertEqual(server.version, 1)
        self.assertRegex(server.server, r"^zcached \d+\.\d+\.\d+")
        self.assertEqual(server.max_frame, 65536 + 4096)
        self.assertEqual(server.max_in_flight, 32)

    def test_ping(self):
        self.connect().ping()

    def test_requests_may_follow_hello_at_once(self):
        connection = self.connect(hello=False)
        first = connection.submit("hello", pb.Hello(version=1))
        second = connection.submit("pool_open", pb.PoolOpen(name="default"))
        self.assertEqual(connection.wait(second).status, 0)
        self.assertEqual(connection.wait(first).status, 0)

    def test_any_name_of_a_client_is_welcome(self):
        for name in ("", "n" * 64, "n" * 65, "n" * 60000, "new\nline \x1b[31m"):
            connection = self.connect(hello=False)
            self.assertEqual(connection.hello(name=name).version, 1)


class Pages(ServiceTest):
    def setUp(self):
        super().setUp()
        self.client, self.pool = self.open_pool()
        self.source = random.Random(harness.SEED)

    def check_round_trip(self, key, value):
        self.client.put(self.pool, key, value)
        self.assertEqual(self.client.get(self.pool, key), value)
        self.assertTrue(self.client.exists(self.pool, key))

    def test_put_get_delete(self):
        page = harness.text_page(self.source)
        self.assertIsNone(self.client.get(self.pool, (1, 7)))
        self.check_round_trip((1, 7), page)
        self.assertTrue(self.client.delete(self.pool, (1, 7)))
        self.assertIsNone(self.client.get(self.pool, (1, 7)))
        self.assertFalse(self.client.exists(self.pool, (1, 7)))
        self.assertFalse(self.client.delete(self.pool, (1, 7)))
        self.assert_rests_empty()

    def test_values_of_every_length_near_an_edge(self):
        for length in (1, 2, 7, 8, 9, 31, 32, 33, 2047, 2048, 4087, 4088, 4089, 4095, 4096):
            for value in (bytes(length), self.source.randbytes(length),
                          harness.text_page(self.source)[:length]):
                with self.subTest(length=length, begins=value[:4].hex()):
                    self.check_round_trip((2, length), value)
        self.assert_rests_empty()

    def test_any_key_is_a_key(self):
        numbers = (0, 1, 1 << 31, 1 << 32, 1 << 63, LAST - 1, LAST)
        keys = [(first, second) for first in numbers for second in numbers]
        maker = harness.PageMaker(harness.SEED)
        for key in keys:
            self.client.put(self.pool, key, maker.page(key, 1))
        for key in keys:
            self.assertEqual(harness.page_sequence(key, self.client.get(self.pool, key)), 1)

    def test_overwrite_replaces(self):
        makers = (harness.text_page, harness.random_page, harness.mixed_page)
        for _ in range(100):
            self.check_round_trip((3, 3), self.source.choice(makers)(self.source))
        stats = self.pool_stats()
        self.assertEqual((stats.entries, stats.puts), (1, 100))
        self.assert_rests_empty()

    def test_first_request_deletes_or_gets_what_never_was(self):
        """B20: nothing is there, and the numbers say so."""
        before = self.pool_stats()
        for key in ((0, 0), (LAST, LAST), (0, LAST), (LAST, 0)):
            self.assertFalse(self.client.delete(self.pool, key))
            self.assertIsNone(self.client.get(self.pool, key))
            self.assertFalse(self.client.exists(self.pool, key))
            self.assertEqual(self.client.delete_object(self.pool, key[0]), 0)
        self.assertEqual(self.client.flush(self.pool), 0)
        after = self.pool_stats()
        self.assertEqual(after.misses - before.misses, 4)
        for gauge in ("entries", "logical_bytes", "stored_bytes", "deletes", "puts", "data_bytes"):
            self.assertEqual(getattr(after, gauge), getattr(before, gauge), gauge)

    def test_same_filled_pages_cost_nothing(self):
        """B18: exact bytes, exact counter, no memory."""
        word = 0xDEADBEEF00C0FFEE
        pages = [harness.zero_page(), harness.same_page(0xFF), harness.same_page(1),
                 harness.word_page(word), harness.word_page(1), harness.word_page(1 << 63)]
        before = self.pool_stats()
        for index, page in enumerate(pages):
            self.check_round_trip((4, index), page)
            self.assertEqual(self.pool_stats().same_filled, index + 1)
        stats = self.pool_stats()
        self.assertEqual(stats.data_bytes, before.data_bytes)
        self.assertEqual(stats.stored_bytes, 0)
        self.assertEqual(stats.logical_bytes, len(pages) * PAGE)
        for index in range(len(pages)):
            self.client.delete(self.pool, (4, index))
            self.assertEqual(self.pool_stats().same_filled, len(pages) - index - 1)

    def test_nearly_same_filled_pages_are_not(self):
        """B18: one byte or word off is another page."""
        page = harness.word_page(0xDEADBEEF00C0FFEE)
        for position in (0, 7, 8, PAGE // 2, PAGE - 8, PAGE - 1):
            near = bytearray(page)
            near[position] ^= 1
            self.check_round_trip((5, position), bytes(near))
        self.assertEqual(self.pool_stats().same_filled, 0)

    def test_same_filled_to_others_and_back(self):
        """B18: each change of kind."""
        values = [harness.zero_page(), harness.text_page(self.source), harness.same_page(0xFF),
                  harness.random_page(self.source), harness.zero_page(), harness.same_page(7),
                  harness.random_page(self.source), harness.text_page(self.source)]
        for value in values:
            self.check_round_trip((6, 0), value)
            stats = self.pool_stats()
            self.assertEqual(stats.same_filled, int(len(set(value)) == 1))
            self.assertEqual(stats.entries, 1)
            self.assertTrue(self.client.delete(self.pool, (6, 0)))
            self.assertEqual(self.pool_stats().same_filled, 0)
            self.client.put(self.pool, (6, 0), value)
        self.assert_rests_empty()

    def test_incompressible_pages(self):
        """B17: stored raw, counted, exact; a page costs itself and a little."""
        pages = [harness.random_page(self.source) for _ in range(2000)]
        keys = [(7, index) for index in range(len(pages))]
        harness.put_all(self.client, self.pool, zip(keys, pages))
        stats = self.pool_stats()
        self.assertEqual(stats.incompressible, len(pages))
        self.assertEqual(stats.stored_bytes, len(pages) * PAGE)
        self.assertLess(stats.resident_bytes, len(pages) * (PAGE + 100) + harness.MIB)
        self.assertEqual(harness.get_all(self.client, self.pool, keys), pages)
        self.assert_rests_empty()

    def test_pages_that_hardly_compress(self):
        """B17: from just not to clearly compressible, a few bytes at a time."""
        lengths = [*range(0, 128), *range(128, 1024, 16)]
        for zeros in lengths:
            self.check_round_trip((8, zeros), self.source.randbytes(PAGE - zeros) + bytes(zeros))
        stats = self.pool_stats()
        self.assertGreater(stats.incompressible, 0)
        self.assertLess(stats.incompressible, len(lengths))
        self.assertLess(stats.stored_bytes, len(lengths) * PAGE)

    def test_delete_object(self):
        for index in range(300):
            self.client.put(self.pool, (index % 3, index), harness.text_page(self.source))
        self.assertEqual(self.client.delete_object(self.pool, 1), 100)
        for index in range(300):
            self.assertEqual(self.client.exists(self.pool, (index % 3, index)), index % 3 != 1)
        self.assertEqual(self.client.delete_object(self.pool, 1), 0)

    def test_flush(self):
        for index in range(300):
            self.client.put(self.pool, (index, index), harness.text_page(self.source))
        self.assertEqual(self.client.flush(self.pool), 300)
        self.assertEqual(self.client.flush(self.pool), 0)
        self.assert_rests_empty()

    def test_errors(self):
        page = harness.zero_page()
        key = (9, 9)
        self.client.put(self.pool, key, page)
        nowhere = self.pool.handle + 1000
        for unknown in (0, nowhere, 0xFFFFFFFF):
            self.assert_error(errno.EBADF, self.client.put, unknown, key, page)
            self.assert_error(errno.EBADF, self.client.get, unknown, key)
            self.assert_error(errno.EBADF, self.client.delete, unknown, key)
            self.assert_error(errno.EBADF, self.client.exists, unknown, key)
            self.assert_error(errno.EBADF, self.client.delete_object, unknown, 9)
            self.assert_error(errno.EBADF, self.client.flush, unknown)
        for operation, kind in (("put", pb.Put), ("get", pb.Get), ("delete", pb.Delete),
                                ("exists", pb.Exists)):
            without_key = kind(pool=self.pool.handle)
            if operation == "put":
                without_key.value = page
            self.assert_error(errno.EINVAL, self.client.call, operation, without_key)
        self.assert_error(errno.EINVAL, self.client.put, self.pool, key, b"")
        self.assert_error(errno.EMSGSIZE, self.client.put, self.pool, key, bytes(PAGE + 1))
        self.assert_error(errno.EMSGSIZE, self.client.put, self.pool, key, bytes(65536))
        self.assertEqual(self.client.get(self.pool, key), page, "refused nonsense changes nothing")
        self.assertEqual(self.pool_stats().refused_invalid, 3)

    def test_a_handle_is_of_its_connection(self):
        other = self.connect()
        self.assert_error(errno.EBADF, other.get, self.pool, (1, 1))

    def test_an_id_of_0_is_refused(self):
        request = pb.Request(id=0, ping=pb.Ping())
        body = request.SerializeToString()
        self.client.send_bytes(len(body).to_bytes(4, "little") + body)
        response = self.client.receive()
        self.assertEqual((response.id, response.status), (0, -errno.EINVAL))
        self.client.ping()


class Pipelining(ServiceTest):
    def setUp(self):
        super().setUp()
        self.client, self.pool = self.open_pool()

    def test_one_key_is_done_in_order(self):
        maker = harness.PageMaker(harness.SEED)
        numbers = []
        for sequence in range(200):
            put = put_message(self.pool, (1, 1), maker.page((1, 1), sequence))
            get = pb.Get(pool=self.pool.handle, key=pb.Key(object=1, index=1))
            numbers.append((self.client.submit("put", put), self.client.submit("get", get)))
        for sequence, (put, get) in enumerate(numbers):
            self.assertEqual(self.client.wait(put).status, 0)
            page = self.client.wait(get).value.value
            self.assertEqual(harness.page_sequence((1, 1), page), sequence)

    def test_answers_for_one_key_come_in_order(self):
        first = [self.client.submit("get", pb.Get(pool=self.pool.handle, key=pb.Key(object=5)))
                 for _ in range(30)]
        self.assertEqual([self.client.receive().id for _ in first], first)

    def test_a_flush_keeps_its_place(self):
        """It is done after what came before it, and before what comes after."""
        for _ in range(50):
            puts = [self.client.submit("put", put_message(self.pool, (1, index), b"before"))
                    for index in range(20)]
            flush = self.client.submit("flush", pb.Flush(pool=self.pool.handle))
            later = self.client.submit("put", put_message(self.pool, (1, 0), b"after"))
            for number in puts + [later]:
                self.assertEqual(self.client.wait(number).status, 0)
            self.assertGreaterEqual(self.client.wait(flush).deleted.pages, 20)
            self.assertEqual(self.pool_stats().entries, 1)

    def test_more_than_the_service_takes_at_once(self):
        """Beyond max_in_flight the service waits; nothing is lost."""
        gets = [self.client.submit("get", pb.Get(pool=self.pool.handle, key=pb.Key(index=index)))
                for index in range(1000)]
        for number in gets:
            self.assertEqual(self.client.wait(number).status, -errno.ENOENT)


class Pools(ServiceTest):
    def test_the_default_pool(self):
        client, pool = self.open_pool()
        self.assertEqual((pool.name, pool.page_size), ("default", PAGE))
        self.assertEqual(pool.limit, 64 * harness.MIB)
        self.assertGreater(pool.handle, 0)
        listed = client.pool_list()
        self.assertEqual([(item.name, item.handle) for item in listed], [("default", 0)])
        self.assertEqual(listed[0].pool_id, pool.pool_id)

    def test_a_pool_opened_twice(self):
        client, pool = self.open_pool()
        self.assertEqual(client.pool_open().handle, pool.handle)
        client.put(pool, (1, 1), b"one")
        self.assertEqual(client.get(pool, (1, 1)), b"one")

    def test_a_pool_of_ones_own(self):
        client, default = self.open_pool()
        client.pool_create("mine", kind=pb.POOL_KIND_STORE, page_size=65536, limit=32 << 20,
                           codec="zstd:3")
        mine = client.pool_open("mine")
        self.assertEqual((mine.name, mine.page_size, mine.limit, mine.codec, mine.owner_uid),
                         ("mine", 65536, 32 << 20, "zstd:3", os.getuid()))
        self.assertNotEqual(mine.pool_id, default.pool_id)
        value = harness.text_page(random.Random(1)) * 16
        client.put(mine, (1, 1), value)
        self.assertEqual(client.get(mine, (1, 1)), value)
        self.assertIsNone(client.get(default, (1, 1)))
        self.assertEqual(sorted(pool.name for pool in client.pool_list()), ["default", "mine"])
        client.pool_destroy("mine")
        self.assert_error(errno.EBADF, client.get, mine, (1, 1))
        self.assert_error(errno.ENOENT, client.pool_open, "mine")
        self.assertEqual(len(client.pool_list()), 1)

    def test_a_new_pool_of_an_old_name_is_empty(self):
        client = self.connect()
        client.pool_create("again", limit=16 << 20)
        old = client.pool_open("again")
        client.put(old, (1, 1), b"old")
        client.pool_destroy("again")
        client.pool_create("again", limit=16 << 20)
        new = client.pool_open("again")
        self.assertNotEqual(new.pool_id, old.pool_id)
        self.assertIsNone(client.get(new, (1, 1)))
        self.assert_error(errno.EBADF, client.get, old, (1, 1))

    def test_create_and_destroy_again_and_again(self):
        client = self.connect()
        files = self.service.open_files()
        for _ in range(50):
            client.pool_create("brief", limit=16 << 20)
            client.pool_destroy("brief")
        harness.wait_until("files of destroyed pools are closed",
                           lambda: self.service.open_files() <= files)

    @unittest.skipIf(os.environ.get("ZC_SANITIZED") == "thread",
                     "ThreadSanitizer has no address space for that many")
    def test_there_can_be_64(self):
        client = self.connect()
        for number in range(63):
            client.pool_create(f"pool{number}", limit=harness.MIB)
        self.assert_error(errno.ENOSPC, client.pool_create, "one-more", limit=harness.MIB)
        handles = {client.pool_open(pool.name).handle for pool in client.pool_list()}
        self.assertEqual(len(handles), 64)
        client.pool_destroy("pool7")
        client.pool_create("one-more", limit=harness.MIB)
        self.assertNotIn(client.pool_open("one-more").handle, handles)

    def test_limits_of_clients_pools_have_a_sum(self):
        client = self.connect()
        client.pool_create("most", limit=60 * harness.MIB)
        self.assert_error(errno.ENOSPC, client.pool_create, "too-much", limit=8 * harness.MIB)
        client.pool_destroy("most")
        client.pool_create("now", limit=8 * harness.MIB)

    def test_errors(self):
        client = self.connect()
        create = client.pool_create
        self.assert_error(errno.ENOENT, client.pool_open, "nowhere")
        self.assert_error(errno.ENOENT, client.pool_open, "n" * 60000)
        self.assert_error(errno.ENOENT, client.pool_open, "")
        self.assert_error(errno.ENOENT, client.pool_destroy, "nowhere")
        self.assert_error(errno.ENOENT, client.stats, "nowhere")
        self.assert_error(errno.ENOENT, client.classes, "nowhere")
        self.assert_error(errno.ENOENT, client.compact_start, "nowhere")
        self.assert_error(errno.ENOENT, client.compact_status, "nowhere")
        self.assert_error(errno.EEXIST, create, "default")
        self.assert_error(errno.EBUSY, client.pool_destroy, "default")
        for name in ("", "n" * 64, "n" * 1000, "a/b", "new\nline"):
            self.assert_error(errno.EINVAL, create, name)
        for page_size in (1, 2048, 4095, 4097, 12288, 65537, 131072, 0xFFFFFFFF):
            self.assert_error(errno.EINVAL, create, "p", page_size=page_size)
        for codec in ("none", "lz4:", "lz4:-1", "zstd:99", "zstd:x", "c" * 1000):
            self.assert_error(errno.EINVAL, create, "p", codec=codec)
        self.assert_error(errno.EINVAL, create, "p", kind=9)
        self.assert_error(errno.ENOSPC, create, "p", limit=4096)
        self.assert_error(errno.ENOSPC, create, "p", limit=64 * harness.MIB + 4096)
        self.assertEqual(len(client.pool_list()), 1)


class Statistics(ServiceTest):
    def test_numbers_of_a_pool_add_up(self):
        client, pool = self.open_pool()
        source = random.Random(harness.SEED)
        kinds = [(1, 500, harness.text_page), (2, 100, harness.random_page),
                 (3, 100, lambda source: harness.zero_page())]
        for number, count, make in kinds:
            harness.put_all(client, pool, [((number, index), make(source))
                                           for index in range(count)])
        for index in range(60):
            client.get(pool, (1, index))
            client.get(pool, (4, index))
            client.delete(pool, (2, index))
        stats = self.pool_stats()
        self.assertEqual(stats.pool.name, "default")
        self.assertEqual((stats.puts, stats.hits, stats.misses, stats.deletes), (700, 60, 60, 60))
        self.assertEqual((stats.entries, stats.same_filled, stats.incompressible), (640, 100, 40))
        self.assertEqual(stats.logical_bytes, 640 * PAGE)
        self.assertGreater(stats.stored_bytes, 40 * PAGE)
        self.assertLess(stats.stored_bytes, 540 * PAGE)
        self.assertGreaterEqual(stats.data_bytes, stats.stored_bytes)
        parts = stats.data_bytes + stats.index_bytes + stats.control_bytes
        self.assertLess(abs(stats.resident_bytes - parts), harness.MIB)
        self.assertLessEqual(stats.resident_bytes, stats.pool.limit)

    def test_all_pools_at_once(self):
        client = self.connect()
        for number in range(5):
            client.pool_create(f"pool{number}", limit=8 << 20)
        names = sorted(pool.pool.name for pool in client.stats().pool)
        self.assertEqual(names, ["default"] + [f"pool{number}" for number in range(5)])

    def test_numbers_of_the_service(self):
        first, second = self.connect(), self.connect()
        stats = first.stats().service
        self.assertRegex(stats.version, r"^\d+\.\d+\.\d+")
        self.assertEqual(stats.connections, 2)
        self.assertGreaterEqual(stats.connections_total, 2)
        self.assertGreaterEqual(stats.workers, 1)
        requests = stats.requests
        for _ in range(100):
            second.ping()
        later = first.stats().service
        self.assertGreaterEqual(later.requests - requests, 100)
        self.assertGreaterEqual(later.uptime_ms, stats.uptime_ms)
        self.assertEqual(later.boot_id, stats.boot_id)
        self.assertEqual((later.protocol_errors, later.stalled_clients, later.denied), (0, 0, 0))
        second.close()
        harness.wait_until("the closed connection is gone",
                           lambda: first.stats().service.connections == 1)

    def test_classes_agree_with_the_pool(self):
        client, pool = self.open_pool()
        maker = harness.PageMaker(harness.SEED)
        harness.put_all(client, pool, [((1, index), maker.page((1, index), 1))
                                       for index in range(1000)])
        classes = client.classes()
        self.assertEqual(sum(item.objects_used for item in classes), 1000)
        for item in classes:
            self.assertEqual(len(item.fullness), 11)
            self.assertEqual(sum(item.fullness), item.zspages)
            self.assertLessEqual(item.objects_used, item.objects_allocated)
            self.assertEqual(item.objects_allocated, item.zspages * item.objects_per_zspage)
        resident = sum(item.pages_resident for item in classes) * PAGE
        self.assertLessEqual(abs(resident - self.pool_stats().data_bytes), harness.MIB)


class Compaction(ServiceTest):
    def test_it_gives_memory_back_and_keeps_every_page(self):
        client, pool = self.open_pool()
        maker = harness.PageMaker(harness.SEED)
        source = random.Random(harness.SEED)
        keys = [(1, index) for index in range(3000)]
        harness.put_all(client, pool, [(key, maker.page(key, 1)) for key in keys])
        harness.delete_all(client, pool, source.sample(keys, 1800))
        client.compact_start(estimate_only=True)
        try:
            client.compact_start()
        except harness.ZcacheError as error:
            self.assertEqual(error.errno, errno.EALREADY)
        harness.wait_until("compaction ends", lambda: not client.compact_status().running, 30)
        status = client.compact_status()
        self.assertGreaterEqual(status.generation, 1)
        stats = self.pool_stats()
        self.assertGreater(stats.objects_moved, 0)
        self.assertGreater(stats.pages_freed, 0)
        self.assertLess(stats.data_bytes, 1.2 * stats.stored_bytes)
        pages = zip(keys, harness.get_all(client, pool, keys))
        self.assertEqual(sum(harness.page_sequence(key, page) for key, page in pages if page), 1200)
        self.assert_rests_empty()


class Command(ServiceTest):
    """The client as a command, as a person would use it."""

    def run_client(self, *arguments, data=b""):
        client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zcache_client.py")
        return subprocess.run([sys.executable, client, "--socket", self.service.path, *arguments],
                              input=data, stdout=subprocess.PIPE, check=False)

    def test_put_and_get(self):
        page = harness.random_page(random.Random(1))
        self.assertEqual(self.run_client("put", "default", "0x10:7", data=page).returncode, 0)
        self.assertEqual(self.run_client("get", "default", "16:7").stdout, page)
        self.assertEqual(self.run_client("delete", "default", "16:7").returncode, 0)
        self.assertEqual(self.run_client("get", "default", "16:7").returncode, 1)
        self.assertIn(b"puts: 1", self.run_client("stats").stdout)
        self.assertEqual(self.run_client("get", "nowhere", "1:1").returncode, 2)


if __name__ == "__main__":
    harness.main()
