# SPDX-License-Identifier: BSD-2-Clause
"""docs/protocol.md against the service, zcache.proto and Linux: the page is what others write
clients from, so it may not go stale.
"""
import errno
import os
import re

import harness
from harness import ServiceTest
from zcache_client import HEADER, pb

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs",
                        "protocol.md")


class Document(ServiceTest):
    def setUp(self):
        super().setUp()
        with open(DOCUMENT, encoding="utf-8") as file:
            self.text = file.read()

    def example(self, block):
        """The bytes of one block of the example: what is sent, and what comes back."""
        sent, received = bytearray(), bytearray()
        for line in block.splitlines():
            direction, data = re.match(r"([<>])\s+((?:[0-9a-f]{2} ?)+)", line).groups()
            (sent if direction == ">" else received).extend(bytes.fromhex(data))
        return bytes(sent), bytes(received)

    def test_the_example_is_what_the_service_speaks(self):
        blocks = [self.example(text) for text in re.findall(r"```\n([<>].*?)```", self.text, re.S)]
        self.assertEqual(len(blocks), 3)
        connection = self.connect(hello=False)
        connection.send_bytes(blocks[0][0])
        self.assertEqual(connection.receive().hello.version, 1)
        self.assertEqual(connection.receive().pool.handle, 1)
        for sent, expected in blocks[1:]:
            connection.send_bytes(sent)
            frame = connection.receive_frame()
            self.assertEqual((HEADER.pack(len(frame)) + frame).hex(" "), expected.hex(" "))

    def test_every_operation_is_described(self):
        described = re.findall(r"^\| `(\w+)` \|", self.text, re.M)
        operations = [field.name for field in pb.Request.DESCRIPTOR.oneofs_by_name["op"].fields]
        self.assertEqual(sorted(described), sorted(operations))

    def test_error_numbers_are_linux_numbers(self):
        rows = re.findall(r"^\| −(\d+) \| (\w+) \|", self.text, re.M)
        self.assertGreater(len(rows), 10)
        for number, name in rows:
            self.assertEqual(getattr(errno, name), int(number))

    def test_limits(self):
        server = self.connect().server
        self.assertIn(f"{server.max_frame:,} bytes (`ZC_FRAME_MAX`", self.text)
        self.assertIn(f"up to {server.max_in_flight} of one", self.text)


if __name__ == "__main__":
    harness.main()
