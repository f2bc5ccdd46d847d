# SPDX-License-Identifier: BSD-2-Clause
"""What a Python service keeps in memory: records, an index over them, cached answers.

Started by zcache-demo, which stores a copy of this process's memory. Prints a line when all is
built, then waits until its input ends.
"""
import json
import random
import sys

RECORDS = 24000

random.seed(20)
words = sorted({word for module in list(sys.modules.values())
                for word in (vars(module).get("__doc__") or "").split() if word.isalpha()})


class Record:
    def __init__(self, number):
        self.number = number
        self.name = " ".join(random.choices(words, k=2))
        self.address = f"{self.name.replace(' ', '.').lower()}@example.org"
        self.position = (random.uniform(-90, 90), random.uniform(-180, 180))
        self.tags = set(random.choices(words, k=4))
        self.visits = [random.randrange(1 << 32) for _ in range(8)]


records = [Record(number) for number in range(RECORDS)]
index = {}
for record in records:
    for tag in record.tags:
        index.setdefault(tag, []).append(record)
answers = {record.number: json.dumps({"name": record.name, "mail": record.address,
                                      "at": record.position, "visits": record.visits})
           for record in records[::2]}
random.shuffle(records)
del records[::5]

print("ready", flush=True)
sys.stdin.read()
