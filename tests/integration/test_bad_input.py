# SPDX-License-Identifier: BSD-2-Clause
"""Faults B42 and B43: whatever a client sends, it gets its own error or loses its own connection,
is counted, and no other client notices.

Every test has a good client beside it that puts, gets and checks pages all the time.
"""
import array
import errno
import os
import random
import socket
import struct

import harness
from harness import PAGE, ServiceTest
from zcache_client import HEADER, Connection, pb, put_message

FRAME_MAX = 65536 + 4096


def good_client(stop, path):
    """Puts, gets and checks; any error ends the test."""
    maker = harness.PageMaker(harness.SEED)
    with Connection(path, timeout=20 * harness.TIME_FACTOR) as client:
        pool = client.pool_open()
        sequence = 0
        while True:
            key = (0x600D, sequence % 64)
            client.put(pool, key, maker.page(key, sequence))
            if harness.page_sequence(key, client.get(pool, key)) != sequence:
                raise AssertionError("another page than the one just put")
            sequence += 1
            if stop.is_set():
                return sequence


class BadInputTest(ServiceTest):
    """Has a good client, and looks at what the service counts."""

    def setUp(self):
        super().setUp()
        self.workers = harness.Workers()
        self.workers.start(good_client, self.service.path)
        self.addCleanup(self.check_good_client)
        self.counted = self.service_stats().protocol_errors

    def check_good_client(self):
        (rounds,) = self.workers.join()
        self.assertGreater(rounds, 0)

    def frame(self, body):
        return HEADER.pack(len(body)) + body

    def assert_closed(self, connection):
        self.assertIsNone(connection.receive(), "the connection is closed")

    def assert_refused(self, connection, number, identity=0):
        """One error response, then the end, counted once."""
        response = connection.receive()
        self.assertIsNotNone(response, "an error response comes before the end")
        self.assertEqual((response.id, response.status), (identity, -number), response.message)
        self.assertTrue(response.message)
        if number == errno.EPROTONOSUPPORT:
            self.assertEqual(response.hello.version, 1)
        self.assert_closed(connection)
        self.assert_counted(1)

    def assert_counted(self, more):
        self.counted += more
        harness.wait_until("the protocol error is counted",
                           lambda: self.service_stats().protocol_errors >= self.counted)
        self.assertEqual(self.service_stats().protocol_errors, self.counted)


class Frames(BadInputTest):
    def test_lengths_out_of_range(self):
        for length in (0, FRAME_MAX + 1, 1 << 20, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF):
            for hello in (True, False):
                with self.subTest(length=length, hello=hello):
                    connection = self.connect(hello=hello)
                    connection.send_bytes(HEADER.pack(length) + b"\0" * 100)
                    self.assert_refused(connection, errno.EMSGSIZE)

    def test_the_longest_frame_is_read(self):
        """Length is within bounds, hence the value's own error, and the connection goes on."""
        connection = self.connect()
        pool = connection.pool_open()
        message = put_message(pool, (1, 1), bytes(FRAME_MAX))
        too_much = len(connection.encode("put", message)[0]) - HEADER.size - FRAME_MAX
        message.value = bytes(FRAME_MAX - too_much)
        data, number = connection.encode("put", message)
        self.assertEqual(len(data), HEADER.size + FRAME_MAX)
        connection.send_bytes(data)
        self.assertEqual(connection.wait(number).status, -errno.EMSGSIZE)
        connection.ping()

    def test_frames_of_one_byte(self):
        for byte in range(256):
            connection = self.connect()
            connection.send_bytes(self.frame(bytes([byte])))
            self.assert_refused(connection, errno.EBADMSG)

    def test_bytes_that_are_no_message(self):
        connection = self.connect()
        good, _ = connection.encode("put", put_message(1, (1, 1), b"value" * 20))
        body = good[HEADER.size:]
        bad = [body[:-1], body[:len(body) // 2], body + b"\xff", body + b"\x0a\x7f", b"\x42\xff",
               b"\x08" + b"\xff" * 11, b"\x00\x00", b"\x0c", b"\x42\xff\xff\xff\xff\x0f",
               b"\x42\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00"]
        for data in bad:
            with self.subTest(data=data.hex()):
                connection = self.connect()
                connection.send_bytes(self.frame(data))
                self.assert_refused(connection, errno.EBADMSG)

    def test_messages_that_cost_more_than_their_bytes(self):
        """Each of these decodes to megabytes; the decoder has a bound."""
        for unit in (b"\x42\x00", b"\x08\x01", b"\xf8\x06\x01", b"\xfa\x06\x00"):
            connection = self.connect()
            connection.send_bytes(self.frame(unit * (FRAME_MAX // len(unit))))
            self.assert_refused(connection, errno.EBADMSG)

    def test_trailing_fields_nobody_knows(self):
        connection = self.connect()
        data, number = connection.encode("ping", pb.Ping())
        connection.send_bytes(self.frame(data[HEADER.size:] + b"\xfa\x06\x03xyz\xf8\x06\x2a"))
        self.assertEqual(connection.wait(number).status, 0)

    def test_a_connection_that_ends_anywhere_in_a_frame(self):
        connection = self.connect()
        data, _ = connection.encode("put", put_message(1, (1, 1), b"value" * 20))
        for length in range(len(data)):
            cut = self.connect()
            cut.send_bytes(data[:length])
            cut.close()
        connection.ping()
        self.assert_counted(len(data) - 1)

    def test_a_frame_sent_byte_by_byte(self):
        connection = self.connect()
        pool = connection.pool_open()
        data, number = connection.encode("put", put_message(pool, (1, 1), b"value" * 20))
        for byte in data:
            connection.send_bytes(bytes([byte]))
        self.assertEqual(connection.wait(number).status, 0)
        self.assertEqual(connection.get(pool, (1, 1)), b"value" * 20)

    def test_many_frames_in_one_write(self):
        connection = self.connect()
        pool = connection.pool_open()
        frames = [connection.encode("put", put_message(pool, (1, index), b"v%d" % index))
                  for index in range(300)]
        connection.send_bytes(b"".join(data for data, _ in frames))
        for _, number in frames:
            self.assertEqual(connection.wait(number).status, 0)
        self.assertEqual(connection.get(pool, (1, 299)), b"v299")

    def test_good_requests_before_a_bad_frame(self):
        """What was answered stays; the bad frame takes only its connection."""
        connection = self.connect()
        pool = connection.pool_open()
        connection.put(pool, (2, 2), b"kept")
        connection.send_bytes(HEADER.pack(0))
        self.assert_refused(connection, errno.EMSGSIZE)
        other = self.connect()
        self.assertEqual(other.get(other.pool_open(), (2, 2)), b"kept")


class Requests(BadInputTest):
    def test_anything_but_hello_first(self):
        for operation, message in (("ping", pb.Ping()), ("pool_open", pb.PoolOpen(name="default")),
                                   ("put", put_message(1, (1, 1), b"v")), ("stats", pb.Stats())):
            with self.subTest(operation=operation):
                connection = self.connect(hello=False)
                number = connection.submit(operation, message)
                self.assert_refused(connection, errno.EPROTO, number)

    def test_no_operation_first(self):
        connection = self.connect(hello=False)
        connection.send_bytes(self.frame(pb.Request(id=5).SerializeToString()))
        self.assert_refused(connection, errno.EPROTO, 5)

    def test_other_versions(self):
        for version in (0, 2, 0x7FFFFFFF, 0xFFFFFFFF):
            with self.subTest(version=version):
                connection = self.connect(hello=False)
                number = connection.submit("hello", pb.Hello(version=version))
                self.assert_refused(connection, errno.EPROTONOSUPPORT, number)

    def test_an_id_of_0(self):
        """Refused, since 0 marks what could not be read; even before hello it ends nothing."""
        connection = self.connect(hello=False)
        for message in (pb.Request(ping=pb.Ping()), pb.Request(hello=pb.Hello(version=1)),
                        pb.Request(stats=pb.Stats())):
            connection.send_bytes(self.frame(message.SerializeToString()))
            response = connection.receive()
            self.assertEqual((response.id, response.status), (0, -errno.EINVAL))
        connection.hello()
        connection.ping()

    def test_a_client_cannot_write_the_log(self):
        """Its name comes out in one line and without control characters."""
        connection = self.connect(hello=False)
        connection.hello(name="red\x1b[31m\nzcached: forged line")
        connection.send_bytes(HEADER.pack(0))
        self.assert_refused(connection, errno.EMSGSIZE)
        harness.wait_until("it is logged", lambda: b"forged" in self.service.log())
        self.assertNotIn(b"\x1b", self.service.log())
        for line in self.service.log().splitlines():
            self.assertFalse(line.startswith(b"zcached: forged"), line)

    def test_a_second_hello(self):
        connection = self.connect()
        number = connection.submit("hello", pb.Hello(version=1))
        self.assert_refused(connection, errno.EPROTO, number)

    def test_unknown_operations(self):
        """A later client's request is refused; its connection goes on."""
        connection = self.connect()
        for field in (20, 21, 100, 1000, 536870911):
            tag = self.varint(field << 3 | 2)
            connection.send_bytes(self.frame(b"\x08\x63" + tag + b"\x02\x08\x01"))
            response = connection.receive()
            self.assertEqual((response.id, response.status), (0x63, -errno.EOPNOTSUPP))
            self.assertTrue(response.message)
        connection.ping()
        self.assert_counted(0)

    def test_no_operation(self):
        connection = self.connect()
        connection.send_bytes(self.frame(pb.Request(id=77).SerializeToString()))
        response = connection.receive()
        self.assertEqual((response.id, response.status), (77, -errno.EOPNOTSUPP))
        connection.ping()

    def test_names_with_any_bytes(self):
        connection = self.connect()
        names = [b"\xff\xfe", b"\0" * 60000, b"../" * 1000, b"%s%n" * 100, b"\n" * 65000,
                 b"a\0b", b"default\0", b"\0default"]
        for operation in (4, 5, 6, 14, 15, 16, 17):
            for name in names:
                body = b"\x0a" + self.varint(len(name)) + name
                request = b"\x08\x07" + self.varint(operation << 3 | 2) + self.varint(len(body))
                connection.send_bytes(self.frame(request + body))
                response = connection.receive()
                self.assertEqual(response.id, 7)
                self.assertIn(response.status, (-errno.ENOENT, -errno.EINVAL), (operation, name))
        connection.ping()

    def test_numbers_at_every_edge(self):
        """B43: nothing a request says is added or multiplied before it is checked."""
        connection = self.connect()
        edges = (1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
        wide = edges + ((1 << 63) - 1, 1 << 63, (1 << 64) - 1)
        for page_size in edges:
            for limit in wide:
                number = connection.submit("pool_create", pb.PoolCreate(
                    name="edge", page_size=page_size, limit=limit))
                self.assertLess(connection.wait(number).status, 0)
        for limit in wide:
            number = connection.submit("pool_create", pb.PoolCreate(name="edge", limit=limit))
            response = connection.wait(number)
            if response.status == 0:
                connection.pool_destroy("edge")
            else:
                self.assertIn(response.status, (-errno.EINVAL, -errno.ENOSPC, -errno.ENOMEM))
        connection.ping()

    @staticmethod
    def varint(value):
        data = bytearray()
        while value > 0x7F:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        return bytes(data + bytes([value]))


class Garbage(BadInputTest):
    ROUNDS = 300

    def send_garbage(self, data, hello):
        with self.connect(hello=hello) as connection:
            try:
                connection.send_bytes(data)
                connection.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # it was closed before all was sent
            while connection.receive() is not None:
                pass

    def test_random_bytes(self):
        source = random.Random(harness.SEED)
        for number in range(self.ROUNDS):
            self.send_garbage(source.randbytes(source.choice((1, 3, 4, 5, 64, 4096, 65536))),
                              hello=number % 2 == 0)

    def test_random_bytes_in_good_frames(self):
        source = random.Random(harness.SEED)
        for _ in range(self.ROUNDS):
            self.send_garbage(self.frame(source.randbytes(source.randrange(1, 300))), hello=True)

    def test_damaged_requests(self):
        source = random.Random(harness.SEED)
        with self.connect() as connection:
            pool = connection.pool_open()
            good = bytearray(connection.encode(
                "put", put_message(pool, (0xBAD, 0), source.randbytes(PAGE)))[0])
        for _ in range(self.ROUNDS):
            data = bytearray(good)
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(HEADER.size, 40)] = source.randrange(256)
            self.send_garbage(bytes(data), hello=True)

    def test_files_of_other_kinds(self):
        png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\1\0\0\0\1\0\x08\x06" + bytes(1000)
        http = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for data in (png, http, b"\x7fELF" + bytes(60), b"set k 0 0 4096\r\n", b"*1\r\n$4\r\nPING\r\n"):
            self.send_garbage(data, hello=False)
            self.send_garbage(data, hello=True)


class Descriptors(BadInputTest):
    def send_with_files(self, connection, data, files):
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
        connection.socket.sendmsg([data], ancillary)

    def assert_taken_by_nobody(self, count, at_frame_start=True):
        files = self.service.open_files()
        connection = self.connect()
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        data, _ = connection.encode("ping", pb.Ping())
        if not at_frame_start:
            connection.send_bytes(data[:5])
            data = data[5:]
        self.send_with_files(connection, data, [writing] * count)
        os.close(writing)
        while connection.receive() is not None:
            pass
        self.assert_counted(1)
        self.assertEqual(os.read(reading, 1), b"", "nobody keeps the other end open")
        connection.close()
        harness.wait_until("no descriptor is left",
                           lambda: self.service.open_files() <= files)

    def test_one(self):
        self.assert_taken_by_nobody(1)

    def test_as_many_as_there_can_be(self):
        self.assert_taken_by_nobody(253)

    def test_in_the_middle_of_a_frame(self):
        self.assert_taken_by_nobody(1, at_frame_start=False)

    def test_before_hello(self):
        connection = self.connect(hello=False)
        data, _ = connection.encode("hello", pb.Hello(version=1))
        self.send_with_files(connection, data, [connection.socket.fileno()])
        while connection.receive() is not None:
            pass
        self.assert_counted(1)

    def test_credentials_are_no_descriptors(self):
        """A client may announce who it is; the service asks the kernel anyway."""
        connection = self.connect()
        data, number = connection.encode("ping", pb.Ping())
        credentials = struct.pack("3i", os.getpid(), os.getuid(), os.getgid())
        connection.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS,
                                            credentials)])
        self.assertEqual(connection.wait(number).status, 0)


if __name__ == "__main__":
    harness.main()
