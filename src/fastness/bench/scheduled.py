"""
How late calls are that are due at once, and what it takes to wait for them.

It is the firing itself that is measured: ten thousand rows of the real store, of a hundred owners, all due at one
moment, which the timer finds, claims in its transactions, hands to its threads and ends.  What is called does nothing
but look at the clock; a plugin's run takes what the rows of runs say besides.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Iterator

from fastness.bench.rows import Row, median
from fastness.capabilities._schedule_store import Due, Store
from fastness.plugins.timer import Timer

__all__ = ["FIRED", "WAITED", "scheduled"]

FIRED = "10,000 schedules due at once, the last one fired"
WAITED = "10,000 schedules waited for, processor time of a second"
_COUNT, _OWNERS = 10_000, 100
#: Seconds until they are due, in which the timer has nothing to do but wait, and those after which some are missing.
_AHEAD_S, _LATEST_S = 3.0, 60.0


def scheduled() -> Iterator[Row]:
    """Both rows."""
    with tempfile.TemporaryDirectory(prefix=f"fastness-bench-{os.getpid()}-") as folder:
        store = Store(f"{folder}/schedule.db")
        due = _fill(store)
        late: list[float] = []
        done = threading.Event()

        def fire(one: Due) -> int:
            late.append((time.time() * 1e6 - one.due) / 1e3)
            if len(late) == _COUNT:
                done.set()
            return 0

        timer = Timer(store, f"{folder}/timers", fire, lambda one, why: None)
        timer.start()
        try:
            # What it does at its start is no waiting.
            time.sleep(0.5)
            began, used = time.monotonic(), time.process_time()
            time.sleep(max(due / 1e6 - time.time() - 0.3, 0.1))
            waited = (time.process_time() - used) * 1e3 / (time.monotonic() - began)
            if not done.wait(_LATEST_S):
                raise RuntimeError(f"{len(late)} of {_COUNT} were fired")
        finally:
            timer.join()
            store.close()
    yield Row(name=FIRED, value=max(late), judged=max(late), against=f"the median, {median(late):.0f} ms")
    yield Row(name=WAITED, value=waited, judged=waited)


def _fill(store: Store) -> int:
    # As they are added one by one, but in one transaction.
    now = round(time.time() * 1e6)
    due = now + round(_AHEAD_S * 1e6)
    with store._database.writing() as connection:
        for number in range(_COUNT):
            connection.execute(
                "INSERT INTO schedules (plugin, owner, id, method, args, due, every, made, stepping)"
                " VALUES ('bench', ?, ?, 'hello', x'7b7d', ?, 0, ?, 0)",
                (f"owner {number % _OWNERS}", number + 1, due, now),
            )
    return due
