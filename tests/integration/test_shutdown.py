# SPDX-License-Identifier: BSD-2-Clause
"""SIGTERM and SIGINT end the service in time with status 0, whatever it is doing (fault B11), and
what a restart means for clients.
"""
import errno
import random
import signal
import time

import harness
from harness import ServiceTest, ZcacheError
from zcache_client import Connection, ProtocolError, pb, put_message


def load_until_the_end(_stop, path):
    """Puts and gets until the service is gone."""
    maker = harness.PageMaker(harness.SEED)
    rounds = 0
    try:
        with Connection(path, timeout=harness.PATIENCE) as client:
            pool = client.pool_open()
            while True:
                key = (1, rounds % 500)
                client.put(pool, key, maker.page(key, rounds))
                harness.page_sequence(key, client.get(pool, key))
                rounds += 1
    except (EOFError, OSError, ProtocolError):
        return rounds


class Shutdown(ServiceTest):
    def test_idle(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            self.service.stop(number)
            self.service = self.start(*self.ARGUMENTS)

    def test_with_idle_connections(self):
        clients = [self.connect() for _ in range(100)]
        self.service.stop()
        for client in clients:
            self.assertIsNone(client.receive())

    def test_under_load(self):
        for number in (signal.SIGTERM, signal.SIGINT) * 2:
            workers = harness.Workers()
            for _ in range(4):
                workers.start(load_until_the_end, self.service.path)
            harness.wait_until("there is load", lambda: self.pool_stats().hits > 100)
            self.service.stop(number)
            self.assertGreater(sum(workers.join()), 100)
            self.service = self.start(*self.ARGUMENTS)

    def test_right_after_a_compaction_was_started(self):
        """B11"""
        for number in range(8):
            client, pool = self.open_pool()
            source = random.Random(harness.SEED)
            pages = [((1, index), harness.text_page(source)) for index in range(1500)]
            harness.put_all(client, pool, pages)
            harness.delete_all(client, pool, [key for key, _ in pages if key[1] % 4])
            client.submit("compact_start", pb.CompactStart(pool="default"))
            time.sleep(number * 0.001)
            self.service.stop()
            self.service = self.start(*self.ARGUMENTS)

    def test_during_a_flush(self):
        client, pool = self.open_pool()
        harness.put_all(client, pool, [((1, index), bytes(harness.PAGE)) for index in range(5000)])
        client.submit("flush", pb.Flush(pool=pool.handle))
        self.service.stop()

    def test_with_clients_that_do_not_read(self):
        stuck = self.connect()
        pool = stuck.pool_open()
        stuck.put(pool, (1, 1), random.Random(1).randbytes(harness.PAGE))
        stuck.socket.settimeout(0.5)
        get, _ = stuck.encode("get", pb.Get(pool=pool.handle, key=pb.Key(object=1, index=1)))
        try:
            while True:
                stuck.socket.sendall(get)
        except TimeoutError:
            pass
        half = self.connect()
        half.send_bytes(b"\x10\0\0\0\x08")
        self.service.stop()

    def test_two_signals(self):
        self.connect()
        self.service.process.send_signal(signal.SIGTERM)
        self.service.stop(signal.SIGINT)

    def test_a_client_that_hangs_up_is_no_signal(self):
        """Writing to a closed socket must not end the service."""
        for _ in range(50):
            client, pool = self.open_pool()
            for _ in range(30):
                client.submit("put", put_message(pool, (1, 1), bytes(harness.PAGE)))
                client.submit("get", pb.Get(pool=pool.handle, key=pb.Key(object=1, index=1)))
            client.close()
        self.connect().ping()


class Restart(ServiceTest):
    def test_what_a_client_sees(self):
        client, pool = self.open_pool()
        client.put(pool, (1, 1), b"page")
        boot = client.stats().service.boot_id
        self.service.stop()
        self.assertIsNone(client.receive())
        self.service = self.start(*self.ARGUMENTS)
        again, same_name = self.open_pool()
        self.assertNotEqual(again.stats().service.boot_id, boot)
        self.assertNotEqual(same_name.pool_id, pool.pool_id, "pages of the old pool are gone")
        self.assertIsNone(again.get(same_name, (1, 1)))

    def test_after_a_kill(self):
        client, pool = self.open_pool()
        client.put(pool, (1, 1), b"page")
        self.service.kill()
        self.assertIsNone(client.receive())
        self.service = self.start(*self.ARGUMENTS)
        again, new = self.open_pool()
        try:
            self.assertIsNone(again.get(new, (1, 1)))
        except ZcacheError as error:
            self.fail(errno.errorcode[error.errno])


if __name__ == "__main__":
    harness.main()
