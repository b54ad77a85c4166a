"""
What it takes to find notes among very many, and to hold and settle what a question to a model may cost.
"""

from __future__ import annotations

import asyncio
import math
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastness.bench.rows import Row, median, percentile
from fastness.capabilities import _memory_store as store
from fastness.capabilities.memory import Memory, MemoryScope, Search
from fastness.capability import CallContext
from fastness.metering.ledger import Ledger, Tally
from fastness.metering.quotas import Amounts, Quota

__all__ = ["NOTES", "SEARCHED", "remembered"]

NOTES = 100_000
SEARCHED = "100,000 notes searched"
#: Words of a note, and in all of them; a few are in most notes, and most in a few.
_WORDS, _VOCABULARY = 30, 20_000
#: What is looked for: a word that few notes have, one that many have, one that all have, and several together.
_SEARCHES = ("rare77", "w50", "w1", "every", "every w1", "w3 w50 w700", "w1 w2 w3 every")


def remembered(quick: bool) -> Iterator[Row]:
    """Searches of all kinds, of which the slowest is told; and the ledger."""
    with tempfile.TemporaryDirectory(prefix=f"fastness-bench-{os.getpid()}-") as folder:
        yield _searched(Path(folder), quick)
        yield _held(Path(folder), quick)


def _searched(folder: Path, quick: bool) -> Row:
    memory = Memory(str(folder))
    context = CallContext(
        plugin="bench", owner="me", run="bench", scope=MemoryScope(notes=NOTES, quota=1 << 30), deadline=math.inf
    )
    _fill(memory)

    async def work() -> dict[str, list[float]]:
        found: dict[str, list[float]] = {words: [] for words in _SEARCHES}
        for number in range(12 if quick else 60):
            for words, times in found.items():
                began = time.perf_counter()
                got = await memory.call("search", Search(words), context)
                if number > 1:
                    times.append((time.perf_counter() - began) * 1e3)
                if not got["notes"]:
                    raise RuntimeError(f"{words} were not found")
        await memory.aclose()
        return found

    found = asyncio.run(work())
    every = [one for times in found.values() for one in times]
    # What is promised is promised of each kind of search: the slowest one is judged.
    slowest = max(map(median, found.values()))
    return Row(name=SEARCHED, value=slowest, p99=percentile(every, 0.99), judged=slowest)


def _fill(memory: Memory) -> None:
    # As notes are added one by one, but in one transaction.
    choose = random.Random(1)  # noqa: S311  # words for a benchmark
    words = [f"w{min(int(choose.paretovariate(0.6)), _VOCABULARY)}" for _ in range(10 * _VOCABULARY)]
    kept: Any = memory._store("me", "bench")
    with kept._database.writing() as connection:
        for number in range(1, NOTES + 1):
            text = " ".join(choose.choices(words, k=_WORDS)) + f" every rare{number % 10_000}"
            size = store.size_of(text, ())
            connection.execute("INSERT INTO notes VALUES (?, 'bench', ?, '', 0, 0, ?)", (number, text, size))
            connection.execute(store.INDEX, (number, text, ""))
        connection.execute("INSERT INTO used VALUES ('bench', ?, 0)", (NOTES,))


def _held(folder: Path, quick: bool) -> Row:
    """What a question to a model may cost, held on disk and settled after, with a quota and a budget."""
    ledger = Ledger(str(folder / "usage.db"), [Quota(owner="*", per="month", cost=1 << 50)])
    budget = Quota(plugin="bench", owner="me", cost=1 << 50)
    amount = Amounts(cost=1000)
    found = []
    for _ in range(50 if quick else 300):
        began = time.perf_counter()
        held = ledger.take("bench", "me", "llm", amount, amount, more=(budget,), sync=True)
        ledger.settle([held], {"llm": Tally(cost=10)}, plugin="bench", owner="me")
        found.append((time.perf_counter() - began) * 1e3)
    ledger.close()
    return Row(name="money held, synced, and settled", value=median(found), p99=percentile(found, 0.99))
