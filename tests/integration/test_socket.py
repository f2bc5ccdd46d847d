# SPDX-License-Identifier: BSD-2-Clause
"""The socket's path and its rights: who gets it (fault B39), who may connect (B40), and what a
connected user may do.
"""
import errno
import grp
import os
import socket
import stat
import unittest

import harness
from harness import MIB, NOBODY, Service, ServiceTest
from zcache_client import Connection, pb

needs_root = unittest.skipUnless(os.getuid() == 0, "needs root, to be another user for a while")


def as_nobody(stop, function, *arguments):
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return function(stop, *arguments)


def run_as_nobody(function, *arguments):
    workers = harness.Workers()
    workers.start(as_nobody, function, *arguments)
    return workers.join()[0]


class SocketPath(ServiceTest):
    """B39"""

    def refused(self, path, *arguments):
        """Starts a service that must not come up; returns what it said."""
        service = Service(self.folder, *arguments, socket_path=path)
        self.assertNotEqual(service.process.wait(10 * harness.TIME_FACTOR), 0)
        service.check_log()
        log = service.log().decode()
        self.assertIn(path[:100], log, "the message names the path")
        return log

    def test_a_second_service_is_refused(self):
        client, pool = self.open_pool()
        client.put(pool, (1, 1), b"first")
        for _ in range(5):
            self.refused(self.service.path)
        self.assertEqual(client.get(pool, (1, 1)), b"first")
        self.assertEqual(self.connect().stats().service.boot_id, client.stats().service.boot_id)

    def test_a_stale_socket_is_replaced(self):
        self.service.kill()
        self.assertTrue(os.path.exists(self.service.path))
        self.service = self.start("--limit", "64M")
        self.connect().ping()

    def test_a_socket_nobody_listens_on_is_replaced(self):
        path = os.path.join(self.folder, "left")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(path)
        self.start(socket_path=path).connect().close()

    def test_a_clean_end_removes_the_socket(self):
        self.service.stop()
        self.assertFalse(os.path.lexists(self.service.path))
        self.service = self.start("--limit", "64M")

    def test_a_regular_file_stays(self):
        path = os.path.join(self.folder, "file")
        with open(path, "w", encoding="ascii") as file:
            file.write("precious")
        self.refused(path)
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_a_directory_stays(self):
        path = os.path.join(self.folder, "directory")
        os.mkdir(path)
        self.refused(path)
        self.assertTrue(os.path.isdir(path))

    def test_a_dangling_link_stays(self):
        path = os.path.join(self.folder, "link")
        os.symlink("nowhere", path)
        self.refused(path)
        self.assertEqual(os.readlink(path), "nowhere")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "nowhere")))

    def test_a_link_to_a_file_stays(self):
        target, path = os.path.join(self.folder, "target"), os.path.join(self.folder, "link")
        with open(target, "w", encoding="ascii") as file:
            file.write("precious")
        os.symlink("target", path)
        self.refused(path)
        self.assertEqual(os.path.getsize(target), 8)
        self.assertTrue(os.path.islink(path))

    def test_paths_that_cannot_be(self):
        self.refused(os.path.join(self.folder, "nowhere", "z.sock"))
        self.refused(os.path.join(self.folder, "n" * 120))

    def start_at_once(self, path, count=20):
        services = [Service(self.folder, "--limit", "64M", socket_path=path) for _ in range(count)]
        for service in services:
            self.addCleanup(self.finish, service)
        harness.wait_until("all but one give up", lambda: self.running(services) <= 1, 30)
        winner = [service for service in services if service.process.poll() is None]
        self.assertEqual(len(winner), 1, "exactly one runs")
        winner[0].wait_ready()
        for service in services:
            if service is not winner[0]:
                self.assertGreater(service.process.returncode, 0)
                service.check_log()
        return winner[0]

    @staticmethod
    def running(services):
        return sum(service.process.poll() is None for service in services)

    def test_twenty_starts_at_once(self):
        path = os.path.join(self.folder, "many")
        self.start_at_once(path)

    def test_twenty_starts_at_once_on_a_stale_socket(self):
        path = os.path.join(self.folder, "many")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
            left.bind(path)
        self.start_at_once(path).connect().close()


class ConnectionLimit(ServiceTest):
    ARGUMENTS = ("--limit", "64M", "--connections", "8")

    def test_one_too_many(self):
        clients = [self.connect() for _ in range(8)]
        for _ in range(20):
            with self.assertRaises((EOFError, OSError)):
                self.service.connect()
        for client in clients:
            client.ping()
        self.assertEqual(clients[0].stats().service.connections_refused, 20)
        clients.pop().close()
        harness.wait_until("the place of a closed one is free again", self.can_connect)

    def can_connect(self):
        try:
            self.service.connect().close()
        except (EOFError, OSError):
            return False
        return True


class SocketMode(ServiceTest):
    """B40"""

    def check_mode(self, mode, umask):
        path = os.path.join(self.folder, f"mode-{mode:o}-{umask:o}")
        service = self.start("--limit", "64M", "--socket-mode", f"{mode:04o}", socket_path=path,
                             umask=umask)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode)
        service.stop()

    def test_mode_is_what_was_asked_for(self):
        for mode in (0o600, 0o660, 0o666):
            for umask in (0, 0o022, 0o077):
                with self.subTest(mode=f"{mode:o}", umask=f"{umask:o}"):
                    self.check_mode(mode, umask)

    def test_a_mode_that_makes_no_sense(self):
        for mode in ("", "9", "0888", "rw", "-1", "07777777", "0x1ff"):
            path = os.path.join(self.folder, "bad")
            service = Service(self.folder, "--socket-mode", mode, socket_path=path)
            self.assertNotEqual(service.process.wait(10 * harness.TIME_FACTOR), 0, mode)
            self.assertFalse(os.path.exists(path))

    @needs_root
    def test_group(self):
        group = grp.getgrgid(NOBODY).gr_name
        path = os.path.join(self.folder, "group")
        self.start("--limit", "64M", "--socket-group", group, "--socket-mode", "0660",
                   socket_path=path)
        self.assertEqual((os.stat(path).st_gid, os.stat(path).st_uid), (NOBODY, 0))
        self.assertEqual(run_as_nobody(try_connect, path), "connected")

    def test_a_group_that_is_not(self):
        path = os.path.join(self.folder, "group")
        service = Service(self.folder, "--socket-group", "no-such-group", socket_path=path)
        self.assertNotEqual(service.process.wait(10 * harness.TIME_FACTOR), 0)
        self.assertIn(b"no-such-group", service.log())

    @needs_root
    def test_another_user_is_refused(self):
        path = os.path.join(self.folder, "private")
        self.start("--limit", "64M", "--socket-mode", "0600", socket_path=path)
        self.assertEqual(run_as_nobody(try_connect, path), "EACCES")

    @needs_root
    def test_never_open_to_all_even_for_a_moment(self):
        path = os.path.join(self.folder, "moment")
        workers = harness.Workers()
        workers.start(as_nobody, hammer, path)
        for _ in range(25):
            self.start("--limit", "16M", "--socket-mode", "0600", socket_path=path,
                       umask=0).stop()
        (counts,) = workers.join()
        self.assertEqual(counts["connected"], 0, counts)
        self.assertGreater(counts["EACCES"], 0, "the socket was there to be tried")


def try_connect(_stop, path):
    try:
        Connection(path).close()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "connected"


def hammer(stop, path):
    counts = {"connected": 0, "EACCES": 0}
    while not stop.is_set():
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
            number = attempt.connect_ex(path)
        name = errno.errorcode[number] if number else "connected"
        counts[name] = counts.get(name, 0) + 1
    return counts


@needs_root
class Permissions(ServiceTest):
    """The service runs as root here; the other user is nobody."""

    ARGUMENTS = ("--limit", "64M", "--socket-mode", "0666", "--pool", "default",
                 "--pool", f"theirs:owner={NOBODY},limit=16M")

    def test_another_users_pool_is_out_of_reach(self):
        client = self.connect()
        client.pool_create("roots", limit=16 * MIB)
        for name in ("roots", "default"):
            client.put(client.pool_open(name), (1, 1), b"secret")
            before = self.service_stats().denied
            statuses = run_as_nobody(use_pool, self.service.path, name)
            self.assertEqual(statuses, {name: -errno.EACCES for name in statuses})
            self.assertEqual(self.service_stats().denied - before, len(statuses))
            self.assertEqual(client.get(client.pool_open(name), (1, 1)), b"secret")

    def test_another_users_pool_is_not_shown(self):
        client = self.connect()
        client.pool_create("roots", limit=16 * MIB)
        self.assertEqual(run_as_nobody(visible_pools, self.service.path), (["theirs"], ["theirs"]))
        self.assertEqual(sorted(pool.name for pool in client.pool_list()),
                         ["default", "roots", "theirs"])

    def test_the_owner_may_do_everything(self):
        for name in ("theirs", "nobodys"):
            statuses = run_as_nobody(use_everything, self.service.path, name)
            refused = {operation for operation, status in statuses.items()
                       if status not in (0, -errno.EALREADY)}
            self.assertEqual(refused, {"pool_create"} if name == "theirs" else set(), statuses)
        self.assertEqual(self.service_stats().denied, 0)

    def test_root_may_use_anybodys_pool(self):
        self.assertEqual(run_as_nobody(create_pool, self.service.path), NOBODY)
        client = self.connect()
        pool = client.pool_open("nobodys")
        self.assertEqual(pool.owner_uid, NOBODY)
        self.assertEqual(client.get(pool, (1, 1)), b"mine")
        client.flush(pool)
        client.pool_destroy("nobodys")


def statuses_of(client, requests):
    return {operation: client.wait(client.submit(operation, message)).status
            for operation, message in requests.items()}


def requests_by_name(name):
    return {"pool_open": pb.PoolOpen(name=name), "stats": pb.Stats(pool=name),
            "classes": pb.Classes(pool=name), "compact_start": pb.CompactStart(pool=name),
            "compact_status": pb.CompactStatus(pool=name)}


def use_pool(_stop, path, name):
    with Connection(path) as client:
        return statuses_of(client, requests_by_name(name)
                           | {"pool_destroy": pb.PoolDestroy(name=name)})


def use_everything(_stop, path, name):
    with Connection(path) as client:
        statuses = statuses_of(client, {"pool_create": pb.PoolCreate(name=name, limit=8 * MIB)})
        pool = client.pool_open(name).handle
        key = pb.Key(object=1, index=1)
        return statuses | statuses_of(client, requests_by_name(name)) | statuses_of(client, {
            "put": pb.Put(pool=pool, key=key, value=b"mine"), "get": pb.Get(pool=pool, key=key),
            "exists": pb.Exists(pool=pool, key=key), "delete": pb.Delete(pool=pool, key=key),
            "delete_object": pb.DeleteObject(pool=pool, object=1), "flush": pb.Flush(pool=pool)})


def visible_pools(_stop, path):
    with Connection(path) as client:
        return ([pool.name for pool in client.pool_list()],
                [pool.pool.name for pool in client.stats().pool])


def create_pool(_stop, path):
    with Connection(path) as client:
        client.pool_create("nobodys", limit=16 * MIB)
        pool = client.pool_open("nobodys")
        client.put(pool, (1, 1), b"mine")
        return pool.owner_uid


if __name__ == "__main__":
    harness.main()
