# SPDX-License-Identifier: BSD-2-Clause
"""Mapped pools and channels for zcache_client.py, written from docs/protocol.md alone.

Hostile tests use it too: memory, indices and doorbells are open to them. One thread, or one process,
each. Leaves out reading mapped pools: the library does that, and its tests.
"""
import array
import ctypes
import errno
import mmap
import os
import socket
import struct
import time

import harness
from zcache_client import Connection, ZcacheError, handle, pb

MASK = (1 << 64) - 1
PUT, GET, DELETE, EXISTS = 1, 2, 3, 4
KEEP_OLD = 1
HEADER = struct.Struct("<QIIIIIIQQQQ")  # of the channel's memory
MAGIC = 0x006C656E6E616863
WAKES = 128
REQUEST = struct.Struct("<QQQIIIHH24x")
COMPLETION = struct.Struct("<QiI")
SUBMIT_TAIL, COMPLETE_HEAD, WAKE_AT = 0, 64, 68
SUBMIT_HEAD, NEED_WAKEUP, COMPLETE_TAIL = 128, 132, 192
RING = 256
ONE = struct.pack("<Q", 1)


def key_hash(seed, key):
    """Low 32 bits of XXH3 (64 bits) over the key's 16 bytes, with the pool's seed."""
    low = key[0] ^ ((0x1F67B3B7A4A44072 ^ 0x78E5C0CC4EE679CB) + seed & MASK)
    high = key[1] ^ ((0x2172FFCC7DD05A82 ^ 0x8E2443F7744608B8) - seed & MASK)
    product = low * high
    swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
    h = 16 + swapped + high + ((product & MASK) ^ (product >> 64)) & MASK
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & MASK
    return (h ^ h >> 32) & 0xFFFFFFFF


def key_ring(seed, key, rings):
    return (key_hash(seed, key) >> 26) % rings


class DescriptorSocket:
    """A socket that keeps the descriptors that come along."""

    def __init__(self, plain):
        self.plain = plain
        self.descriptors = []

    def __getattr__(self, name):
        return getattr(self.plain, name)

    def recv(self, size):
        data, ancillary, _, _ = self.plain.recvmsg(size, socket.CMSG_SPACE(253 * 4),
                                                   socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                numbers = array.array("i")
                numbers.frombytes(content[:len(content) // 4 * 4])
                self.descriptors += numbers
        return data

    def take(self):
        descriptors, self.descriptors = self.descriptors, []
        return descriptors

    def close(self):
        for descriptor in self.take():
            os.close(descriptor)
        self.plain.close()


class ChannelConnection(Connection):
    """A connection that can ask for shared memory."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.socket = DescriptorSocket(self.socket)

    def pool_map(self, pool):
        """The pool's id, and descriptors of control, index and data."""
        reply = self.call("pool_map", pb.PoolMap(pool=handle(pool))).pool_mapped
        return reply.pool_id, self.socket.take()

    def channel_open(self, slot_size=4096, slots=0, entries=0, notify=False):
        reply = self.call("channel_open", pb.ChannelOpen(
            slot_size=slot_size, slots=slots, entries=entries, notify=notify)).channel_opened
        return Channel(self, reply, self.socket.take())


class Channel:
    """Rings and slots. `ends` are the client's own indices: submitted and reaped of each ring."""

    def __init__(self, connection, reply, descriptors):
        self.connection = connection
        self.rings, self.slots, self.entries = reply.rings, reply.slots, reply.entries
        self.memory_fd, *self.doorbells = descriptors
        self.memory = mmap.mmap(self.memory_fd, os.fstat(self.memory_fd).st_size)
        self.words = memoryview(self.memory).cast("I")
        (magic, self.abi, _, rings, entries, slots, self.slot_size, self.rings_at, self.stride,
         self.slots_at, size) = HEADER.unpack_from(self.memory)
        assert (magic, rings, entries, slots) == (MAGIC, self.rings, self.entries, self.slots)
        assert size == len(self.memory)
        self.ends = [[0, 0] for _ in range(self.rings)]
        self.cookie = 0

    def close(self):
        self.words.release()
        self.memory.close()
        for descriptor in (self.memory_fd, *self.doorbells):
            os.close(descriptor)

    # ---- words: each is loaded and stored as a whole, which struct does not do ----

    def ring_at(self, ring, word):
        return self.rings_at + ring * self.stride + word

    def load(self, ring, word):
        return self.words[self.ring_at(ring, word) // 4]

    def store(self, ring, word, value):
        self.words[self.ring_at(ring, word) // 4] = value & 0xFFFFFFFF

    def request_at(self, ring, number):
        return self.ring_at(ring, RING + number % self.entries * REQUEST.size)

    def completion_at(self, ring, number):
        return self.ring_at(ring, RING + self.entries * REQUEST.size
                            + number % self.entries * COMPLETION.size)

    def slot_at(self, slot):
        return self.slots_at + slot * self.slot_size

    def write_slot(self, slot, value):
        self.memory[self.slot_at(slot):self.slot_at(slot) + len(value)] = value

    def read_slot(self, slot, length):
        return self.memory[self.slot_at(slot):self.slot_at(slot) + length]

    # ---- requests and completions ----

    def ring_of(self, pool, key):
        return key_ring(pool.hash_seed, key, self.rings)

    def add(self, ring, operation, pool=0, key=(0, 0), slot=0, length=0, flags=0):
        """Writes a request, published by publish(). Returns its cookie."""
        self.cookie += 1
        end = self.ends[ring]
        REQUEST.pack_into(self.memory, self.request_at(ring, end[0]), self.cookie, key[0], key[1],
                          pool if isinstance(pool, int) else pool.handle, slot, length, operation,
                          flags)
        end[0] += 1
        return self.cookie

    def publish(self, ring):
        self.store(ring, SUBMIT_TAIL, self.ends[ring][0])
        full_fence()
        if self.load(ring, NEED_WAKEUP):
            self.ring_doorbell(ring)

    def ring_doorbell(self, ring):
        os.write(self.doorbells[ring], ONE)

    def reap(self, ring):
        """The next completion, (cookie, status), or None."""
        end = self.ends[ring]
        if self.load(ring, COMPLETE_TAIL) == end[1] & 0xFFFFFFFF:
            return None
        cookie, status, _ = COMPLETION.unpack_from(self.memory, self.completion_at(ring, end[1]))
        end[1] += 1
        self.store(ring, COMPLETE_HEAD, end[1])
        return cookie, status

    def wait(self, ring, seconds=20):
        end = harness.deadline(seconds)
        while True:
            completion = self.reap(ring)
            if completion:
                return completion
            if time.monotonic() > end:
                raise TimeoutError(f"no completion in ring {ring}")
            time.sleep(0)

    def call(self, operation, pool, key, **options):
        """One request and its completion: the status, an exception when it is an error."""
        ring = self.ring_of(pool, key)
        cookie = self.add(ring, operation, pool, key, **options)
        self.publish(ring)
        got, status = self.wait(ring)
        assert got == cookie, (got, cookie)
        if status < 0:
            raise ZcacheError(-status, "by ring")
        return status

    # ---- operations ----

    def put(self, pool, key, value, slot=0, flags=0):
        self.write_slot(slot, value)
        self.call(PUT, pool, key, slot=slot, length=len(value), flags=flags)

    def get(self, pool, key, slot=0):
        try:
            length = self.call(GET, pool, key, slot=slot, length=self.slot_size)
        except ZcacheError as error:
            if error.errno != errno.ENOENT:
                raise
            return None
        return self.read_slot(slot, length)

    def delete(self, pool, key):
        return self.found(DELETE, pool, key)

    def exists(self, pool, key):
        return self.found(EXISTS, pool, key)

    def found(self, operation, pool, key):
        try:
            self.call(operation, pool, key)
        except ZcacheError as error:
            if error.errno != errno.ENOENT:
                raise
            return False
        return True


LIBC = ctypes.CDLL(None, use_errno=True)


def full_fence():
    """A store before it and a load after it do not pass each other. Python has no fence of its own;
    this system call takes a lock, which is one."""
    os.sched_yield()


def futex_wait(address, seen, seconds):
    """FUTEX_WAIT at the address of a ctypes object; 0, or the errno."""
    number = {"x86_64": 202, "aarch64": 98}[os.uname().machine]
    timeout = struct.pack("qq", int(seconds), int(seconds % 1 * 1e9))
    if LIBC.syscall(number, ctypes.byref(address), 0, seen, timeout, None, 0) == 0:
        return 0
    return ctypes.get_errno()
