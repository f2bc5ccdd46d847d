#!/usr/bin/python3
# SPDX-License-Identifier: BSD-2-Clause
"""A small client of zcached, written from docs/protocol.md and proto/zcache.proto alone.

It shares no code with the library, so that the two check each other. Used as a module by the
integration tests and as a command by hand:

    zcache_client.py --socket PATH put default 1:7 < page

Connection is not thread safe: one thread, or one process, each. Leaves out what the tests do not
need: reconnecting, and any speed beyond pipelining.
"""
import argparse
import errno
import os
import select
import socket
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
VERSION = 1
HEADER = struct.Struct("<I")
REPLY_MAX = 1 << 20


def load_messages():
    """The module protoc makes of zcache.proto; made on the fly where the build has not done it."""
    try:
        import zcache_pb2
    except ImportError:
        proto = os.path.join(HERE, "..", "..", "proto")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["protoc", "--python_out=" + folder, "--proto_path=" + proto,
                            "zcache.proto"], check=True)
            sys.path.insert(0, folder)
            import zcache_pb2
            sys.path.remove(folder)
    return zcache_pb2


pb = load_messages()


class ZcacheError(Exception):
    """The service answered with an error; `errno` is positive."""

    def __init__(self, number, text=""):
        super().__init__(f"{errno.errorcode.get(number, number)}: {text or os.strerror(number)}")
        self.errno = number
        self.text = text


class ProtocolError(Exception):
    """The service sent what docs/protocol.md does not allow."""


class Connection:
    """One connection. Methods named after operations send one request and wait for its answer."""

    def __init__(self, path, timeout=20.0, hello=True, name="zcache_client.py"):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.timeout = timeout
        self.next_id = 1
        self.input = bytearray()
        self.early = {}
        try:
            self.socket.settimeout(timeout)
            self.socket.connect(path)
            self.socket.setblocking(False)
            self.server = self.hello(name=name) if hello else None
        except BaseException:
            self.socket.close()
            raise

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    # ---- frames ----

    def send_bytes(self, data):
        """Sends, and reads when that is needed to go on: a service with many answers for us takes
        no more requests until we have read some."""
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self.socket.send(rest):]
            except BlockingIOError:
                if self.wait_for(select.POLLIN | select.POLLOUT) & select.POLLIN:
                    self.input += self.socket.recv(1 << 16)

    def wait_for(self, events):
        poll = select.poll()
        poll.register(self.socket, events)
        ready = poll.poll(self.timeout * 1000)
        if not ready:
            raise TimeoutError(f"no sign of the service for {self.timeout:g} s")
        return ready[0][1]

    def receive_frame(self):
        """The next frame's message, or None at the end of the connection."""
        frame = self.take_frame()
        while frame is None:
            self.wait_for(select.POLLIN)
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                # A peer that closes with our bytes unread; the same as an end to us.
                data = b""
            if not data:
                if self.input:
                    raise ProtocolError("connection ended inside a frame")
                return None
            self.input += data
            frame = self.take_frame()
        return frame

    def take_frame(self):
        if len(self.input) < HEADER.size:
            return None
        (length,) = HEADER.unpack_from(self.input)
        if not 0 < length <= REPLY_MAX:
            raise ProtocolError(f"frame of {length} bytes")
        end = HEADER.size + length
        if len(self.input) < end:
            return None
        frame = bytes(self.input[HEADER.size:end])
        del self.input[:end]
        return frame

    # ---- requests and responses ----

    def encode(self, operation, message):
        """The bytes of one request with a fresh id, and the id."""
        request = pb.Request(id=self.next_id)
        self.next_id += 1
        getattr(request, operation).CopyFrom(message)
        # An operation without a field set would not choose itself in the oneof.
        getattr(request, operation).SetInParent()
        body = request.SerializeToString()
        return HEADER.pack(len(body)) + body, request.id

    def submit(self, operation, message):
        """Sends without waiting; hand the result to wait()."""
        data, number = self.encode(operation, message)
        self.send_bytes(data)
        return number

    def receive(self):
        """The next response of any request, or None at the end of the connection."""
        frame = self.receive_frame()
        return None if frame is None else pb.Response.FromString(frame)

    def wait(self, number):
        """The response of one request, whatever its status; keeps others for their own wait()."""
        while number not in self.early:
            response = self.receive()
            if response is None:
                raise EOFError("the service closed the connection")
            if response.id == 0:
                raise ZcacheError(-response.status, response.message)
            self.early[response.id] = response
        return self.early.pop(number)

    def call(self, operation, message):
        response = self.wait(self.submit(operation, message))
        if response.status < 0:
            raise ZcacheError(-response.status, response.message)
        return response

    # ---- operations ----

    def hello(self, version=VERSION, name="zcache_client.py"):
        return self.call("hello", pb.Hello(version=version, client=name)).hello

    def ping(self):
        self.call("ping", pb.Ping())

    def pool_open(self, name="default"):
        return self.call("pool_open", pb.PoolOpen(name=name)).pool

    def pool_create(self, name, kind=0, page_size=0, limit=0, codec=""):
        return self.call("pool_create", pb.PoolCreate(
            name=name, kind=kind, page_size=page_size, limit=limit, codec=codec))

    def pool_destroy(self, name):
        self.call("pool_destroy", pb.PoolDestroy(name=name))

    def pool_list(self):
        return list(self.call("pool_list", pb.PoolList()).pool_list.pool)

    def put(self, pool, key, value, keep_old=False):
        self.call("put", put_message(pool, key, value, keep_old))

    def get(self, pool, key):
        """The value, or None for a miss."""
        try:
            return self.call("get", pb.Get(pool=handle(pool), key=make_key(key))).value.value
        except ZcacheError as error:
            if error.errno != errno.ENOENT:
                raise
            return None

    def delete(self, pool, key):
        """Whether there was something to delete."""
        return self.call_found("delete", pb.Delete(pool=handle(pool), key=make_key(key)))

    def exists(self, pool, key):
        return self.call_found("exists", pb.Exists(pool=handle(pool), key=make_key(key)))

    def call_found(self, operation, message):
        try:
            self.call(operation, message)
        except ZcacheError as error:
            if error.errno != errno.ENOENT:
                raise
            return False
        return True

    def delete_object(self, pool, number):
        message = pb.DeleteObject(pool=handle(pool), object=number)
        return self.call("delete_object", message).deleted.pages

    def flush(self, pool):
        return self.call("flush", pb.Flush(pool=handle(pool))).deleted.pages

    def stats(self, name=""):
        return self.call("stats", pb.Stats(pool=name)).stats

    def classes(self, name="default"):
        return list(self.call("classes", pb.Classes(pool=name)).classes.size_class)

    def compact_start(self, name="default", estimate_only=False):
        message = pb.CompactStart(pool=name, estimate_only=estimate_only)
        return self.call("compact_start", message).compact

    def compact_status(self, name="default"):
        return self.call("compact_status", pb.CompactStatus(pool=name)).compact


def handle(pool):
    return pool if isinstance(pool, int) else pool.handle


def make_key(key):
    return pb.Key(object=key[0], index=key[1])


def put_message(pool, key, value, keep_old=False):
    return pb.Put(pool=handle(pool), key=make_key(key), value=value, keep_old=keep_old)


# ---- the command ----

def parse_key(text):
    number, separator, index = text.partition(":")
    if not separator:
        raise argparse.ArgumentTypeError("a key is OBJECT:INDEX")
    return int(number, 0), int(index, 0)


def run_command(connection, arguments):
    pool_name, operation = arguments.pool, arguments.operation
    if operation in ("ping", "pool_list", "stats", "classes", "compact_start", "compact_status"):
        by_pool = operation not in ("ping", "pool_list")
        result = getattr(connection, operation)(*([pool_name] if by_pool else []))
        for part in result if isinstance(result, list) else [result]:
            print("ok" if part is None else part)
        return 0
    pool = connection.pool_open(pool_name)
    if operation == "flush":
        print(connection.flush(pool))
        return 0
    if operation == "put":
        connection.put(pool, arguments.key, sys.stdin.buffer.read())
        return 0
    if operation == "get":
        value = connection.get(pool, arguments.key)
        sys.stdout.buffer.write(value or b"")
        return 0 if value is not None else 1
    return 0 if getattr(connection, operation)(pool, arguments.key) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--socket", default=os.environ.get("ZCACHED_SOCKET",
                                                           "/run/zcached/zcached.sock"))
    parser.add_argument("operation", choices=[
        "ping", "pool_list", "stats", "classes", "compact_start", "compact_status", "flush",
        "put", "get", "delete", "exists"])
    parser.add_argument("pool", nargs="?", default="default")
    parser.add_argument("key", nargs="?", type=parse_key, default=(0, 0))
    arguments = parser.parse_args()
    try:
        with Connection(arguments.socket) as connection:
            return run_command(connection, arguments)
    except (OSError, EOFError, ProtocolError, ZcacheError) as error:
        print(f"zcache_client.py: {arguments.operation}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
