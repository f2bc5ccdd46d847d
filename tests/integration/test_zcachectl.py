# SPDX-License-Identifier: BSD-2-Clause
"""zcachectl as operators and scripts use it: the program against a live service, its exit codes and
its JSON, and that completions and man page know what the program knows.

Errors that a healthy service never gives are in tests/unit/test_cli_run.c.
"""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
import unittest

import harness
from harness import NOBODY, PAGE, ServiceTest

ZCACHECTL = os.environ.get("ZCACHECTL", "zcachectl")
TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
BASH = os.path.join(TOP, "packaging", "completions", "zcachectl.bash")
ZSH = os.path.join(TOP, "packaging", "completions", "_zcachectl")
MAN = os.path.join(TOP, "docs", "man", "zcachectl.1.scd")

NEGATIVE, USAGE, UNREACHABLE, REFUSED, DAMAGED, OTHER, TIMED_OUT = range(1, 8)


def zcachectl(*arguments, value=None, **options):
    """Runs the program; never waits for ever, never without an end of standard input."""
    options.setdefault("timeout", 60 * harness.TIME_FACTOR)
    return subprocess.run([ZCACHECTL, *arguments], input=value or b"", capture_output=True,
                          check=False, **options)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Tables(unittest.TestCase):
    """Commands and options are declared once, in the program; what repeats them must agree."""

    @classmethod
    def setUpClass(cls):
        result = zcachectl("help", "--json")
        cls.help = json.loads(result.stdout)
        cls.commands = {command["name"]: command for command in cls.help["commands"]}
        cls.general = {"--" + option["name"] for option in cls.help["options"]}

    def options_of(self, name):
        own = {"--" + option["name"] for option in self.commands[name]["options"]}
        return own | self.general

    def complete(self, line):
        """What bash offers at the end of the line."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _zcachectl; '
                  'printf "%s\\n" "${COMPREPLY[@]}"')
        result = subprocess.run(["bash", "-c", script, "bash", BASH, *line.split(" ")],
                                capture_output=True, check=True, text=True, cwd=TOP)
        self.assertEqual(result.stderr, "")
        return {word for word in result.stdout.split("\n") if word}

    def test_bash_knows_the_commands(self):
        first = {name.split()[0] for name in self.commands}
        self.assertEqual(self.complete("zcachectl "), first)
        self.assertEqual(self.complete("zcachectl help "), first)
        self.assertEqual(self.complete("zcachectl --socket x --json "), first)
        self.assertEqual(self.complete("zcachectl del"), {"del", "del-object"})
        second = {name.split()[1] for name in self.commands if " " in name}
        self.assertEqual(self.complete("zcachectl pool "), second)
        self.assertEqual(self.complete("zcachectl help pool "), second)

    def test_bash_knows_the_options(self):
        for name in self.commands:
            with self.subTest(command=name):
                self.assertEqual(self.complete(f"zcachectl {name} --"), self.options_of(name))
        self.assertEqual(self.complete("zcachectl --"), self.general)

    def test_bash_completes_operands(self):
        self.assertEqual(self.complete("zcachectl put 1 : 2 meson.b"), {"meson.build"})
        self.assertEqual(self.complete("zcachectl get --pool x 1 : 2 meson.b"), {"meson.build"})
        self.assertEqual(self.complete("zcachectl get 1 : 2 a meson.b"), set())
        self.assertEqual(self.complete("zcachectl pool create x --kind "), {"cache", "store"})
        self.assertEqual(self.complete("zcachectl pool create x --kind = c"), {"cache"})

    def test_zsh_knows_them_too(self):
        text = read(ZSH)
        for name in self.commands:
            with self.subTest(command=name):
                last = name.split()[-1]
                self.assertRegex(text, rf"'{last}:")
                found = re.search(rf"\n\t(\S+ \| )?{last}( \| \S+)?\)(.*?);;", text, re.DOTALL)
                offered = set(re.findall(r"['\"](--[a-z-]+)\[", found[3]))
                if "$named" in found[3]:
                    offered.add("--pool")
                self.assertIn("$global", found[3])
                self.assertEqual(offered | self.general, self.options_of(name))
        for option in self.general:
            self.assertIn(f"'{option}[", text)
        if shutil.which("zsh"):
            subprocess.run(["zsh", "-n", ZSH], check=True)

    def test_the_man_page_knows_them(self):
        text = read(MAN)
        for name, command in self.commands.items():
            self.assertRegex(text, rf"(?m)^\*{name}\*", name)
            for word in command["operands"].strip("[]").replace("[", "").split():
                self.assertIn(f"_{word}_", text)
        for option in set().union(*(self.options_of(name) for name in self.commands)):
            self.assertRegex(text, rf"(?m)^\*{option}\*", option)
        for code in range(len(self.help["exit_codes"])):
            self.assertRegex(text, rf"(?m)^\*{code}\*$")


class Command(ServiceTest):
    """Base of the tests with a service: runs zcachectl on it."""

    def run_tool(self, *arguments, code=0, **options):
        result = zcachectl("--socket", self.service.path, *arguments, **options)
        self.assertEqual(result.returncode, code, result.stderr.decode())
        if code > NEGATIVE:
            self.assertRegex(result.stderr.decode(), r"\Azcachectl: [^\n]+\n\Z")
        if code == 0:
            self.assertEqual(result.stderr, b"")
        return result.stdout

    def run_json(self, *arguments, **options):
        return json.loads(self.run_tool("--json", *arguments, **options))

    def fill(self, count, pool="default", object_number=1):
        connection, handle = self.open_pool(pool)
        maker = harness.PageMaker(harness.SEED)
        for index in range(count):
            key = (object_number, index)
            connection.put(handle, key, maker.page(key, 0))
        return connection, handle


class Pages(Command):
    def test_values_of_every_kind_come_back(self):
        source = random.Random(harness.SEED)
        for length in (1, 2, 4095, PAGE):
            for value in (bytes(length), source.randbytes(length), b"a" * length):
                with self.subTest(length=length, begins=value[:4]):
                    self.assertEqual(self.run_tool("put", "0x10:1", value=value), b"")
                    self.assertEqual(self.run_tool("get", "16:0x1"), value)

    def test_keys_are_those_of_the_protocol(self):
        connection, pool = self.open_pool()
        for text, key in (("0:0", (0, 0)), ("0xff:010", (255, 10)),
                          ("18446744073709551615:0xffffffffffffffff", ((1 << 64) - 1,) * 2)):
            self.run_tool("put", text, value=text.encode())
            self.assertEqual(connection.get(pool, key), text.encode())

    def test_files(self):
        source, target = (os.path.join(self.folder, name) for name in ("source", "target"))
        with open(source, "wb") as file:
            file.write(os.urandom(PAGE))
        self.run_tool("put", "1:1", source)
        self.run_tool("get", "1:1", target)
        with open(source, "rb") as first, open(target, "rb") as second:
            self.assertEqual(first.read(), second.read())
        before = os.stat(target)
        self.run_tool("get", "1:2", target, code=NEGATIVE)
        self.assertEqual(os.stat(target), before)
        missing = os.path.join(self.folder, "missing")
        self.run_tool("get", "1:2", missing, code=NEGATIVE)
        self.assertFalse(os.path.exists(missing))
        self.assertEqual([name for name in os.listdir(self.folder) if "zcachectl" in name], [])

    def test_a_reader_never_sees_half_a_file(self):
        target = os.path.join(self.folder, "target")
        values = [bytes([65 + i]) * PAGE for i in range(2)]
        for index, value in enumerate(values):
            self.run_tool("put", f"1:{index}", value=value)
        self.run_tool("get", "1:0", target)
        writers = [subprocess.Popen(
            ["sh", "-c", 'for i in $(seq 20); do "$1" --socket "$2" get "1:$((i % 2))" "$3"; done',
             "sh", ZCACHECTL, self.service.path, target]) for _ in range(2)]
        while any(writer.poll() is None for writer in writers):
            with open(target, "rb") as file:
                self.assertIn(file.read(), values)
        self.assertEqual([writer.returncode for writer in writers], [0, 0])

    def test_bad_values(self):
        self.run_tool("put", "1:1", value=b"old")
        self.run_tool("put", "1:1", code=USAGE)
        self.run_tool("put", "1:1", value=b"x" * (PAGE + 1), code=USAGE)
        self.run_tool("put", "1:1", value=b"x" * (1 << 20), code=USAGE)
        self.assertEqual(self.run_tool("get", "1:1"), b"old")

    def test_large_pages(self):
        self.run_tool("pool", "create", "large", "--page-size", "64K", "--limit", "16M")
        value = os.urandom(65536)
        self.run_tool("put", "1:1", "--pool", "large", value=value)
        self.assertEqual(self.run_tool("--pool", "large", "get", "1:1"), value)
        self.run_tool("put", "1:1", "--pool", "large", value=value + b"x", code=USAGE)

    def test_deleting(self):
        self.fill(10, object_number=1)
        self.fill(5, object_number=2)
        self.assertEqual(self.run_tool("exists", "1:3"), b"yes\n")
        self.run_tool("del", "1:3")
        self.assertEqual(self.run_tool("exists", "1:3", code=NEGATIVE), b"no\n")
        self.run_tool("del", "1:3", code=NEGATIVE)
        self.run_tool("get", "1:3", code=NEGATIVE)
        self.assertEqual(self.run_json("del-object", "1")["pages_deleted"], 9)
        self.assertEqual(self.run_json("exists", "2:0")["exists"], True)
        self.assertEqual(self.run_json("flush")["pages_deleted"], 5)
        self.assertEqual(self.run_json("flush", "--pool", "default")["pages_deleted"], 0)
        self.assert_rests_empty()

    def test_the_limit(self):
        self.run_tool("pool", "create", "small", "--limit", "1M")
        connection, pool = self.open_pool("small")
        source = random.Random(harness.SEED)
        full = harness.deadline(60)
        result = None
        for index in range(1000):
            result = zcachectl("--socket", self.service.path, "put", f"1:{index}", "--pool",
                               "small", value=harness.random_page(source))
            if result.returncode or time.monotonic() > full:
                break
        self.assertEqual(result.returncode, REFUSED)
        self.assertIn(b"pool 'small' is at its limit", result.stderr)
        self.assertEqual(result.stderr.count(b"\n"), 1)

        key = (1, 0)
        value = connection.get(pool, key)
        page = harness.random_page(source)
        self.run_tool("put", "1:0", "--pool", "small", "--keep-old", value=page, code=REFUSED)
        self.assertEqual(connection.get(pool, key), value)
        stats = self.run_json("stats", "small")["pools"][0]
        self.assertEqual(stats["refused_limit"], 2)
        self.assertLessEqual(stats["resident_bytes"], 1 << 20)


class Pools(Command):
    def names(self):
        return [pool["name"] for pool in self.run_json("pool", "list")["pools"]]

    def test_create_list_destroy(self):
        self.assertEqual(self.names(), ["default"])
        self.run_tool("pool", "create", "a", "--kind", "cache", "--page-size", "8K", "--limit",
                      "8M", "--codec", "zstd:3")
        self.run_tool("pool", "create", "b", "--limit", "8M")
        pools = {pool["name"]: pool for pool in self.run_json("pool", "list")["pools"]}
        self.assertEqual(set(pools), {"default", "a", "b"})
        expected = {"kind": "cache", "page_size": 8192, "limit_bytes": 8 << 20, "codec": "zstd:3",
                    "owner_uid": os.getuid()}
        self.assertEqual({key: pools["a"][key] for key in expected}, expected)
        self.assertEqual(pools["b"]["kind"], "store")
        self.assertEqual(pools["b"]["page_size"], PAGE)
        self.assertIn(b"8.0 MiB (8388608 bytes)", self.run_tool("pool", "list"))
        self.run_tool("pool", "create", "a", code=REFUSED)
        self.run_tool("pool", "destroy", "a")
        self.run_tool("pool", "destroy", "a", code=NEGATIVE)
        self.run_tool("stats", "a", code=NEGATIVE)
        self.assertEqual(set(self.names()), {"default", "b"})

    def test_what_no_pool_can_be(self):
        for arguments in (("--page-size", "5000"), ("--codec", "gzip"), ("--codec", "zstd:99"),
                          ("--limit", "99999999T"), ("--limit", "-1"), ("--limit", "1e3"),
                          ("--limit", " 10M")):
            with self.subTest(arguments=arguments):
                self.run_tool("pool", "create", "x", *arguments, code=USAGE)
        self.run_tool("pool", "create", "n" * 64, code=USAGE)
        self.assertEqual(self.names(), ["default"])

    @unittest.skipUnless(os.getuid() == 0, "needs root, to be another user for a while")
    def test_others_may_not_destroy_or_compact(self):
        os.chmod(self.service.path, 0o666)
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        try:
            self.run_tool("ping", **other)
        except PermissionError:
            self.skipTest("another user cannot run the program where it was built")
        self.run_tool("pool", "create", "x")
        self.run_tool("pool", "destroy", "x", code=REFUSED, **other)
        self.run_tool("compact", "x", code=REFUSED, **other)
        os.chmod(self.service.path, 0o600)
        self.run_tool("ping", code=REFUSED, **other)


class Numbers(Command):
    # What each stands for in the protocol, where that has another name.
    PROTOCOL_NAMES = {"page_table_bytes": "control_bytes"}

    def test_json_has_the_numbers_of_the_protocol(self):
        self.fill(500)
        shown = self.run_json("stats", "default")
        self.assertEqual(set(shown), {"service", "pools"})
        stats = self.pool_stats()
        pool = shown["pools"][0]
        for field in type(stats).DESCRIPTOR.fields:
            if field.name == "pool":
                continue
            names = [key for key, name in self.PROTOCOL_NAMES.items() if name == field.name]
            self.assertEqual(pool[(names or [field.name])[0]], getattr(stats, field.name),
                             field.name)
        self.assertEqual(pool["limit_bytes"], stats.pool.limit)
        self.assertEqual(pool["id"], f"0x{stats.pool.pool_id:016x}")
        self.assertAlmostEqual(pool["ratio"], stats.logical_bytes / stats.data_bytes, 5)
        self.assertAlmostEqual(pool["utilization"], stats.stored_bytes / stats.data_bytes, 5)
        service = self.service_stats()
        self.assertEqual(shown["service"]["boot_id"], f"0x{service.boot_id:016x}")
        self.assertEqual(shown["service"]["version"], service.version)
        self.assertEqual(shown["service"]["workers"], service.workers)

    def test_the_man_page_explains_every_key(self):
        text = read(MAN)
        self.fill(10)
        objects = [self.run_json("stats"), self.run_json("classes"), self.run_json("compact"),
                   self.run_json("ping"), self.run_json("pool", "list"),
                   self.run_json("exists", "1:1"), self.run_json("del", "1:1"),
                   self.run_json("put", "1:1", value=b"x"), self.run_json("del-object", "1"),
                   self.run_json("pool", "create", "x"), self.run_json("pool", "destroy", "x"),
                   self.run_json("flush")]
        while objects:
            part = objects.pop()
            if isinstance(part, list):
                objects += part
            elif isinstance(part, dict):
                objects += part.values()
                for key in part:
                    self.assertIn(f"*{key}*", text)

    def test_text_names_what_it_shows(self):
        self.fill(100)
        text = self.run_tool("stats").decode()
        for label in ("logical", "stored", "pool data", "index", "page table", "resident",
                      "limit", "ratio", "utilization", "same-filled pages",
                      "incompressible pages", "hits", "misses", "hit rate", "refused: limit",
                      "objects moved", "OS pages freed", "damaged pages"):
            self.assertRegex(text, rf"(?m)^  {label}  ", label)
        self.assertIn("64.0 MiB  67108864", text)

    def test_every_pool_or_one(self):
        for name in ("a", "b"):
            self.run_tool("pool", "create", name, "--limit", "4M")
        names = {pool["name"] for pool in self.run_json("stats")["pools"]}
        self.assertEqual(names, {"default", "a", "b"})
        names = {pool["name"] for pool in self.run_json("stats", "b")["pools"]}
        self.assertEqual(names, {"b"})

    def test_classes_add_up(self):
        self.fill(2000)
        shown = self.run_json("classes")
        stats = self.run_json("stats", "default")["pools"][0]
        for key in ("objects_used", "pages_resident", "zspages", "fullness"):
            parts = [one[key] for one in shown["classes"]]
            total = [sum(column) for column in zip(*parts)] if key == "fullness" else sum(parts)
            self.assertEqual(total, shown["total"][key], key)
        self.assertEqual(shown["total"]["objects_used"],
                         stats["entries"] - stats["same_filled"])
        self.assertEqual(sum(shown["total"]["fullness"]), shown["total"]["zspages"])
        text = self.run_tool("classes").decode().splitlines()
        self.assertEqual(len(text), len(shown["classes"]) + 2)
        everything = self.run_tool("classes", "--all").decode().splitlines()
        self.assertGreater(len(everything), len(text))
        self.assertEqual(everything[-1].split(), text[-1].split())

    def test_json_while_pools_come_and_go(self):
        """B55"""
        churn = subprocess.Popen(
            ["sh", "-c", 'while :; do "$1" --socket "$2" pool create x --limit 4M; '
             '"$1" --socket "$2" flush x; "$1" --socket "$2" pool destroy x; done',
             "sh", ZCACHECTL, self.service.path],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            for _ in range(50):
                result = zcachectl("--socket", self.service.path, "--json", "stats")
                if result.returncode == 0:
                    self.assertIn("pools", json.loads(result.stdout))
                else:  # destroyed between being opened and being asked
                    self.assertEqual(result.returncode, NEGATIVE, result.stderr)
                    self.assertEqual(result.stdout, b"")
        finally:
            churn.kill()
            churn.wait()


class Compaction(Command):
    # The keeper must not be faster.
    ARGUMENTS = ("--limit", "64M", "--pool", "default:compact=manual")

    def fragment(self, count=4000):
        connection, pool = self.fill(count)
        source = random.Random(harness.SEED)
        for index in source.sample(range(count), count * 6 // 10):
            connection.delete(pool, (1, index))
        return connection, pool

    def test_nothing_to_do(self):
        result = self.run_json("compact")
        self.assertEqual(result["outcome"], "nothing to do")
        self.assertEqual(result["objects_moved"], 0)
        self.assertIn(b"nothing to do", self.run_tool("compact"))

    def test_estimate_then_compact(self):
        self.fragment()
        estimate = self.run_json("compact", "--estimate")
        self.assertEqual(estimate["outcome"], "estimated")
        result = self.run_json("compact")
        self.assertEqual(result["outcome"], "compacted")
        self.assertGreater(estimate["estimate_pages"], 0)
        self.assertGreaterEqual(result["pages_freed"], estimate["estimate_pages"])
        self.assertGreater(result["objects_moved"], 0)
        self.assertLess(result["resident_after_bytes"], result["resident_before_bytes"])
        stats = self.pool_stats()
        self.assertGreaterEqual(stats.pages_freed, result["pages_freed"])
        self.assertIn(b"nothing to do", self.run_tool("compact"))

    def test_text_shows_before_and_after(self):
        self.fragment()
        text = self.run_tool("compact").decode()
        self.assertRegex(text, r"a compaction can free \d+ OS pages or more")
        for label in ("resident before", "resident after", "OS pages freed", "zspages freed",
                      "objects moved", "objects packed", "objects busy"):
            self.assertIn(f"\n  {label} ", text)

    def test_two_at_once(self):
        self.fragment()
        tools = [subprocess.Popen([ZCACHECTL, "--socket", self.service.path, "--json", "compact"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                 for _ in range(4)]
        for tool in tools:
            output, errors = tool.communicate(timeout=60 * harness.TIME_FACTOR)
            self.assertEqual(tool.returncode, 0, errors)
            self.assertIn(json.loads(output)["outcome"],
                          ("compacted", "followed", "nothing to do"))


class Trouble(Command):
    def test_no_service(self):
        for path in (os.path.join(self.folder, "nowhere"), os.path.join(self.folder, "file")):
            result = zcachectl("--socket", path, "ping")
            self.assertEqual(result.returncode, UNREACHABLE, result.stderr)
            self.assertIn(path.encode(), result.stderr)
            with open(os.path.join(self.folder, "file"), "w", encoding="ascii"):
                pass
        self.assertEqual(zcachectl("--socket", "n" * 200, "ping").returncode, USAGE)

    def test_the_environment_names_the_socket(self):
        result = zcachectl("ping", env={**os.environ, "ZCACHED_SOCKET": self.service.path})
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_service_that_hangs(self):
        self.service.process.send_signal(signal.SIGSTOP)
        try:
            for command in (("ping",), ("stats", "--json"), ("get", "1:1")):
                start = time.monotonic()
                self.run_tool("--timeout", "0.3", *command, code=TIMED_OUT)
                self.assertLess(time.monotonic() - start, 5 * harness.TIME_FACTOR)
        finally:
            self.service.process.send_signal(signal.SIGCONT)
        self.run_tool("ping")

    def test_output_that_is_lost(self):
        self.run_tool("put", "1:1", value=b"x")
        for command in (("stats",), ("stats", "--json"), ("get", "1:1"), ("ping",)):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([ZCACHECTL, "--socket", self.service.path, *command],
                                        stdout=full, stderr=subprocess.PIPE, check=False)
            self.assertEqual(result.returncode, OTHER, command)
            self.assertIn(b"No space left", result.stderr)

    def test_a_reader_that_goes_away(self):
        reading, writing = os.pipe()
        os.close(reading)
        result = subprocess.run([ZCACHECTL, "--socket", self.service.path, "stats"],
                                stdout=writing, stderr=subprocess.PIPE, check=False)
        os.close(writing)
        self.assertEqual(result.returncode, OTHER)
        self.assertIn(b"Broken pipe", result.stderr)

    def test_closed_standard_streams(self):
        script = '"$1" --socket "$2" stats >&-'
        result = subprocess.run(["sh", "-c", script, "sh", ZCACHECTL, self.service.path],
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, OTHER)
        script = '"$1" --socket "$2" put 1:1 <&-'
        result = subprocess.run(["sh", "-c", script, "sh", ZCACHECTL, self.service.path],
                                capture_output=True, check=False)
        self.assertEqual(result.returncode, OTHER)
        self.assertIn(b"cannot read standard input", result.stderr)


if __name__ == "__main__":
    harness.main()
