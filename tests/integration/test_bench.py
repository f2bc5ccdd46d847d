# SPDX-License-Identifier: BSD-2-Clause
"""zcache-bench runs, says what it promises to say, and leaves nothing behind."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest

import harness

BENCH = os.environ.get("ZCACHE_BENCH", "zcache-bench")
PAGES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "pages.bin")
COPIES = 8
COUNTS = ("pages orig_bytes compr_bytes pool_bytes index_bytes page_table_bytes resident_bytes "
          "after_delete_pool_bytes after_compact_pool_bytes objects_moved moves_lower_bound "
          "objects_packed verified_pages mismatches copies seed").split()
RATIOS = "ratio utilization metadata_per_page after_compact_utilization".split()


class BenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zcached-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {**os.environ, "TMPDIR": self.folder, "ZCACHED": harness.ZCACHED}

    def start(self, *arguments, **environment):
        return subprocess.Popen([BENCH, *arguments], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**self.environment, **environment})

    def bench(self, *arguments, status=0, **environment):
        """Runs to the end and returns (output, errors); nothing may be left in the folder."""
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=100 * harness.TIME_FACTOR)
        self.assertEqual(process.returncode, status, errors)
        self.assertEqual(os.listdir(self.folder), [], errors)
        return output.decode(), errors.decode()


class Density(BenchTest):
    def density(self, *arguments):
        return json.loads(self.bench("density", "--pages", PAGES, "--copies", str(COPIES),
                                     "--json", *arguments)[0])

    def check(self, result):
        pages = os.path.getsize(PAGES) // harness.PAGE * COPIES
        for key in COUNTS:
            self.assertIsInstance(result[key], int, key)
        for key in RATIOS:
            self.assertIsInstance(result[key], float, key)
        self.assertEqual(result["pages"], pages)
        self.assertEqual(result["orig_bytes"], pages * harness.PAGE)
        self.assertEqual(result["mismatches"], 0)
        self.assertEqual(result["verified_pages"], 3 * pages)
        self.assertLessEqual(result["compr_bytes"], result["pool_bytes"])
        self.assertLessEqual(result["after_compact_pool_bytes"], result["after_delete_pool_bytes"])
        self.assertLessEqual(result["after_delete_pool_bytes"], result["pool_bytes"])
        self.assertLessEqual(result["after_compact_utilization"], 1)

    def test_lz4(self):
        self.check(self.density())

    def test_zstd(self):
        result = self.density("--codec", "zstd:3")
        self.check(result)
        self.assertEqual(result["codec"], "zstd:3")

    def test_same_seed_same_pages(self):
        first, second = self.density("--seed", "7"), self.density("--seed", "7")
        self.assertEqual(first["compr_bytes"], second["compr_bytes"])

    def test_table(self):
        output, errors = self.bench("density", "--pages", PAGES)
        for word in ("stored", "compacted", "lower bound", "0 wrong"):
            self.assertIn(word, output)
        self.assertEqual(errors, "")


class Refusals(BenchTest):
    def test_usage(self):
        for arguments in ((), ("densities",), ("density",), ("density", "--pages", PAGES, "more"),
                          ("density", "--pages", PAGES, "--copies", "0"),
                          ("density", "--pages", PAGES, "--copies", "-1"),
                          ("density", "--pages", PAGES, "--seed", "1x")):
            with self.subTest(arguments=arguments):
                self.assertIn("usage:", self.bench(*arguments, status=2)[1])

    def test_help(self):
        self.assertIn("density", self.bench("--help")[0])
        self.assertIn("--copies", self.bench("density", "--help")[0])

    def test_no_pages(self):
        missing = os.path.join(self.folder, "missing")
        self.assertIn(missing, self.bench("density", "--pages", missing, status=1)[1])
        self.assertIn("no page", self.bench("density", "--pages", "/dev/null", status=1)[1])

    def test_no_service(self):
        _, errors = self.bench("density", "--pages", PAGES, status=1, ZCACHED="/nonexistent")
        self.assertIn("cannot run /nonexistent", errors)

    def test_unknown_codec(self):
        _, errors = self.bench("density", "--pages", PAGES, "--codec", "zip", status=1)
        self.assertIn("zip", errors)

    def test_interrupted(self):
        process = self.start("density", "--pages", PAGES, "--sweep")
        harness.wait_until("the service runs", lambda: os.listdir(self.folder))
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30 * harness.TIME_FACTOR)
        self.assertEqual(process.returncode, -signal.SIGINT)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    harness.main()
