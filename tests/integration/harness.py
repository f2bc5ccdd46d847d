# SPDX-License-Identifier: BSD-2-Clause
"""What the integration tests stand on: a live service on a private socket, pages whose content
proves where they come from, and client processes.

Every test file ends in harness.main(). Binaries come from the environment, which meson sets:
ZCACHED, ZCACHECTL, ZCLIENT_LIB. ZC_TIME_FACTOR stretches every deadline (sanitizer builds),
ZC_STRESS_SECONDS is how long each stress lasts, ZC_SEED makes the random choices of a run
repeatable.
"""
import collections
import errno
import functools
import hashlib
import itertools
import multiprocessing
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
import unittest

from zcache_client import Connection, ZcacheError, handle, make_key, pb, put_message

ZCACHED = os.environ.get("ZCACHED", "zcached")
TIME_FACTOR = float(os.environ.get("ZC_TIME_FACTOR", "1"))
STRESS_SECONDS = float(os.environ.get("ZC_STRESS_SECONDS", "10"))
SEED = int(os.environ.get("ZC_SEED", "0") or 0) or random.SystemRandom().randrange(1, 1 << 32)
PAGE = 4096
MIB = 1 << 20
STOP_SECONDS = 5 * TIME_FACTOR
PATIENCE = 60 * TIME_FACTOR  # with one answer: a busy machine may let a thread wait for seconds
SANITIZER = re.compile(rb"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:"
                       rb"|SUMMARY: \w+Sanitizer|Assertion .* failed")
NOBODY = 65534


def deadline(seconds):
    return time.monotonic() + seconds * TIME_FACTOR


def wait_until(what, condition, seconds=30):
    """Polls until the condition holds and returns its value; fails after the (stretched) time."""
    end = deadline(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds * TIME_FACTOR:g} s: {what}")
        time.sleep(0.01)


# ---- the service ----

class Service:
    """One zcached process. `arguments` are added to its command line."""

    def __init__(self, folder, *arguments, socket_path=None, wrapper=(), umask=-1):
        self.folder = folder
        self.path = socket_path or os.path.join(folder, "z.sock")
        self.log_path = tempfile.mkstemp(prefix="log-", dir=folder)[1]
        # However this process ends, a timeout of meson's included, no service is left behind.
        command = [*wrapper, "setpriv", "--pdeathsig", "KILL", "--", ZCACHED, "--foreground",
                   "--socket", self.path, *arguments]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, umask=umask)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with open(self.log_path, "rb") as log:
            return log.read()

    def wait_ready(self):
        wait_until("the service answers\n" + self.log().decode(errors="replace"), self.answers)
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"zcached ended with {self.process.returncode}:\n"
                                 + self.log().decode(errors="replace"))
        try:
            Connection(self.path, timeout=PATIENCE).close()
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        return True

    def connect(self, **options):
        options.setdefault("timeout", PATIENCE)
        return Connection(self.path, **options)

    def stop(self, number=signal.SIGTERM):
        """Asks the service to end; fails unless it does so in time, cleanly and quietly."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            text = f"still running {STOP_SECONDS:g} s after signal {number}"
            raise AssertionError(text) from None
        self.check_log()
        if status != 0:
            raise AssertionError(f"exit status {status}:\n" + self.log().decode(errors="replace"))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def check_log(self):
        log = self.log()
        if SANITIZER.search(log):
            raise AssertionError("a checker reported:\n" + log.decode(errors="replace"))

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def resident_set(self):
        """Bytes of private memory: what the process holds beside files and shared memory."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            fields = dict(line.split(":", 1) for line in status)
        return int(fields["RssAnon"].split()[0]) * 1024


class ServiceTest(unittest.TestCase):
    """A test with a service of its own: self.service, stopped and checked at the end."""

    ARGUMENTS = ("--limit", "64M")

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="zcached-test-")
        os.chmod(self.folder, 0o755)
        self.addCleanup(shutil.rmtree, self.folder)
        self.service = self.start(*self.ARGUMENTS)

    def start(self, *arguments, **options):
        service = Service(self.folder, *arguments, **options)
        self.addCleanup(self.finish, service)
        return service.wait_ready()

    def finish(self, service):
        if service.process.returncode is None:
            service.stop()

    def connect(self, **options):
        connection = self.service.connect(**options)
        self.addCleanup(connection.close)
        return connection

    def open_pool(self, name="default"):
        connection = self.connect()
        return connection, connection.pool_open(name)

    def assert_error(self, number, call, *arguments, **options):
        with self.assertRaises(ZcacheError) as caught:
            call(*arguments, **options)
        self.assertEqual(errno.errorcode.get(caught.exception.errno), errno.errorcode[number],
                         caught.exception.text)
        self.assertTrue(caught.exception.text, "an error comes with a text for people")
        return caught.exception

    def service_stats(self):
        with self.service.connect() as connection:
            return connection.stats().service

    def pool_stats(self, name="default"):
        with self.service.connect() as connection:
            return connection.stats(name).pool[0]

    def assert_rests_empty(self, name="default", slack=MIB):
        """Empties the pool; nothing may be left, but for `slack` bytes of memory."""
        connection, pool = self.open_pool(name)
        connection.flush(pool)
        stats = self.pool_stats(name)
        for gauge in ("entries", "logical_bytes", "stored_bytes", "same_filled", "incompressible",
                      "poisoned"):
            self.assertEqual(getattr(stats, gauge), 0, gauge)
        wait_until("the memory of deleted pages is given back",
                   lambda: self.pool_stats(name).data_bytes <= slack)


# ---- pages ----

WORDS = [word.encode() for word in
         "the page of this file was made by a test and says little that is new to anyone".split()]


def zero_page():
    return bytes(PAGE)


def same_page(byte):
    return bytes([byte]) * PAGE


def word_page(word):
    return struct.pack("<Q", word) * (PAGE // 8)


def random_page(source):
    return source.randbytes(PAGE)


@functools.cache
def text_bodies():
    """A few bodies of text, made once: making one takes longer than storing it."""
    source = random.Random(1)
    phrases = [b" ".join(source.choices(WORDS, k=4)) for _ in range(10)]
    return [b", ".join(source.choices(phrases, k=PAGE // 8))[:PAGE] for _ in range(32)]


def text_page(source):
    """Compresses about 4:1. No two are equal."""
    return source.randbytes(16) + source.choice(text_bodies())[16:]


def mixed_page(source):
    """Compresses about 2:1."""
    return source.choice(text_bodies())[:PAGE * 5 // 8] + source.randbytes(PAGE * 3 // 8)


FILLERS = (text_page, mixed_page, random_page)
MARK = struct.Struct("<QQQ")


class PageMaker:
    """Makes marked pages: key and sequence in front, a checksum of the rest at the end, so that a
    stale, torn, mixed or zeroed page is seen. Bodies are drawn from a few, for speed."""

    def __init__(self, seed):
        self.source = random.Random(seed)
        self.bodies = [filler(self.source) for filler in FILLERS for _ in range(8)]

    def page(self, key, sequence):
        body = self.source.choice(self.bodies)
        marked = MARK.pack(key[0], key[1], sequence) + body[MARK.size:-8]
        return marked + hashlib.blake2b(marked, digest_size=8).digest()


def page_sequence(key, page):
    """The sequence number of a marked page; fails if it is not whole or not this key's."""
    if len(page) != PAGE:
        raise AssertionError(f"key {key}: {len(page)} bytes")
    marked = page[:-8]
    if hashlib.blake2b(marked, digest_size=8).digest() != page[-8:]:
        raise AssertionError(f"key {key}: page is torn, begins with {page[:32].hex()}")
    first, second, sequence = MARK.unpack_from(page)
    if (first, second) != tuple(key):
        raise AssertionError(f"key {key}: page of key {(first, second)}")
    return sequence


# ---- many requests ----

def send_all(client, requests, window=24):
    """Sends (operation, message) pairs, some at a time; yields the responses in their order."""
    waiting = collections.deque()
    for operation, message in requests:
        if len(waiting) == window:
            yield client.wait(waiting.popleft())
        waiting.append(client.submit(operation, message))
    while waiting:
        yield client.wait(waiting.popleft())


def put_all(client, pool, pages, keep_old=False):
    """Puts (key, page) pairs and returns their statuses."""
    puts = (("put", put_message(pool, key, page, keep_old)) for key, page in pages)
    return [response.status for response in send_all(client, puts)]


def delete_all(client, pool, keys):
    """Deletes keys and returns their statuses."""
    deletes = (("delete", pb.Delete(pool=handle(pool), key=make_key(key))) for key in keys)
    return [response.status for response in send_all(client, deletes)]


def get_all(client, pool, keys):
    """Gets keys and returns their values, None for a miss."""
    gets = (("get", pb.Get(pool=handle(pool), key=make_key(key))) for key in keys)
    return [None if response.status == -errno.ENOENT else checked(response).value.value
            for response in send_all(client, gets)]


def checked(response):
    if response.status < 0:
        raise ZcacheError(-response.status, response.message)
    return response


def fill(client, pool, pages, error):
    """Puts (key, page) pairs, some at a time, until one is refused with `error`. Returns the keys
    that were stored and one that was refused."""
    stored = []
    while True:
        some = list(itertools.islice(pages, 24))
        statuses = put_all(client, pool, some)
        refused = [key for (key, _), status in zip(some, statuses) if status < 0]
        if not some or any(status not in (0, -error) for status in statuses):
            raise AssertionError(f"no page was refused, or one with another error: {statuses}")
        stored += [key for (key, _), status in zip(some, statuses) if status == 0]
        if refused:
            return stored, refused[0]


# ---- client processes ----

class Workers:
    """Processes that run a function until told to stop. The function gets `stop` (an event) first
    and returns something small; an exception in it fails join()."""

    def __init__(self):
        self.context = multiprocessing.get_context("fork")
        self.stop = self.context.Event()
        self.workers = []

    def start(self, function, *arguments):
        receiver, sender = self.context.Pipe(duplex=False)
        process = self.context.Process(target=self.run, args=(sender, function, arguments))
        process.start()
        sender.close()
        self.workers.append((process, receiver))
        return process

    def run(self, sender, function, arguments):
        try:
            sender.send((True, function(self.stop, *arguments)))
        except BaseException:
            sender.send((False, traceback.format_exc()))

    def failed(self):
        """Whether one has ended already: workers end when told to, so that means an error."""
        return any(process.exitcode is not None for process, _ in self.workers)

    def join(self, seconds=60):
        """Stops all and returns what their functions returned, in the order of start."""
        self.stop.set()
        results = [self.result(process, receiver, deadline(seconds))
                   for process, receiver in self.workers]
        self.workers = []
        errors = [text for good, text in results if not good]
        if errors:
            raise AssertionError("\n".join(errors))
        return [value for _, value in results]

    def result(self, process, receiver, end):
        try:
            if not receiver.poll(max(0, end - time.monotonic())):
                return False, f"{process.name} does not end"
            return receiver.recv()
        except EOFError:
            return False, f"{process.name} ended without a result"
        finally:
            process.join(1)
            if process.exitcode is None:
                process.kill()
                process.join()

    def run_for(self, seconds):
        """Lets the workers work, but not on after one has failed."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.failed():
            time.sleep(0.05)


# ---- running ----

class Result(unittest.TextTestResult):
    """Says aloud what was skipped."""

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.stream.writeln(f"SKIPPED {test.id()}: {reason}")


def main():
    """Runs the tests of the calling file. Exit status 77 means that all were skipped."""
    signal.alarm(int(570 * max(1, TIME_FACTOR)))  # a hang ends here, whoever runs the file
    print(f"ZC_SEED={SEED}", file=sys.stderr)
    runner = unittest.TextTestRunner(verbosity=2, resultclass=Result)
    program = unittest.main(module="__main__", testRunner=runner, exit=False)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    sys.exit(77 if result.testsRun and len(result.skipped) == result.testsRun else 0)
