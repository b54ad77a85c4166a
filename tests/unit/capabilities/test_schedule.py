"""The capability ``schedule``: what may stand, for whom, when it is due, who claims it, and what the clock does to it."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._schedule_store import Due, Ended, Store
from fastness.capabilities._schedule_times import instant
from fastness.capabilities.schedule import ARGS_BYTES, GRACE_S, SPEC, Schedule, ScheduleScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.testing import Case, check_capability
from fastness.wire import values

DAY = 86_400.0
SCOPE = ScheduleScope(standing=10, interval_s=60, ahead_s=30 * DAY)
#: 2026-10-24T12:00:00Z; clocks in the middle of Europe are put back in the night after it.
NOW = 1_792_843_200.0
GRACE = round(GRACE_S * 1e6)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def schedule(tmp_path: Path, clock: Clock) -> Iterator[Schedule]:
    made = Schedule(str(tmp_path / "schedule.db"), lambda plugin: ("work", "other"), clock=clock)
    yield made
    asyncio.run(made.aclose())


def context(scope: ScheduleScope = SCOPE, **fields: Any) -> CallContext:
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 60}
    return CallContext(scope=scope, **{**given, **fields})


def ask(schedule: Schedule, name: str, of: CallContext | None = None, /, **arguments: Any) -> Any:
    operation = SPEC.operation(name)
    assert operation is not None
    decoded = msgspec.convert(arguments, operation.arguments, strict=True, builtin_types=(bytes,))
    assert isinstance(operation.target(decoded), str)
    return asyncio.run(schedule.call(name, decoded, of or context()))


def code_of(schedule: Schedule, name: str, of: CallContext | None = None, **arguments: Any) -> str:
    try:
        ask(schedule, name, of, **arguments)
    except Denied as error:
        return str(error.code.value)
    except QuotaExceeded:
        return "quota"
    except msgspec.ValidationError:
        return "invalid"
    return ""


def claim(
    schedule: Schedule, at: float, name: str = "a", most: int = 100, each: int = 100, **more: Any
) -> tuple[list[Due], list[Due]]:
    given: dict[str, Any] = {"busy": {}, "grace": GRACE, **more}
    return schedule.store.claim(name, round(at * 1e6), most=most, each=each, **given)


def numbers(found: list[Due]) -> list[int]:
    return [one.id for one in found]


# what is put on, shown and taken off


def test_what_stands(schedule: Schedule) -> None:
    """What was scheduled is listed, by its number, until it is taken off."""
    assert ask(schedule, "at", when=NOW + 100, method="work", args={"n": 1}) == 1
    assert ask(schedule, "every", seconds=90, method="other") == 2
    found = ask(schedule, "list")
    assert found == {
        "schedules": [
            {"id": 1, "method": "work", "due": NOW + 100, "every": None, "fired": 0},
            {"id": 2, "method": "other", "due": NOW + 90, "every": 90.0, "fired": 0},
        ],
        "more": False,
    }
    assert [ask(schedule, "cancel", id=number) for number in (1, 1, 3)] == [True, False, False]
    assert [one["id"] for one in ask(schedule, "list")["schedules"]] == [2]
    assert ask(schedule, "at", when=NOW + 100, method="work") == 3


def test_others(schedule: Schedule) -> None:
    """Nobody sees, counts or takes off what is another plugin's or owner's, and numbers tell of no other."""
    ask(schedule, "at", when=NOW + 100, method="work")
    for of in (context(owner="other"), context(plugin="other"), context(plugin="p/o", owner="")):
        assert ask(schedule, "list", of) == {"schedules": [], "more": False}
        assert ask(schedule, "cancel", of, id=1) is False
        assert ask(schedule, "at", of, when=NOW + 100, method="work") == 1
    assert len(list(schedule.standing())) == 4
    assert [(one.plugin, one.owner) for one in schedule.standing(owner="other")] == [("p", "other")]
    assert [one.plugin for one in schedule.standing("other")] == ["other"]


def test_pages(schedule: Schedule) -> None:
    """A hundred are listed at once, and more from a number on; the operator is shown all."""
    scope = msgspec.structs.replace(SCOPE, standing=1000)
    for _ in range(105):
        ask(schedule, "at", context(scope), when=NOW + 100, method="work")
    found = ask(schedule, "list")
    assert (len(found["schedules"]), found["more"]) == (100, True)
    found = ask(schedule, "list", after=100)
    assert ([one["id"] for one in found["schedules"]], found["more"]) == ([101, 102, 103, 104, 105], False)
    assert len(list(schedule.standing())) == 105


def test_methods_are_its_own(schedule: Schedule) -> None:
    """A method that is not in the plugin's manifest is absent, whatever it is called."""
    for method in ("another", "work ", "__init__", "other.plugin:work", "invoke"):
        assert code_of(schedule, "at", when=NOW, method=method) == "absent"
        assert code_of(schedule, "every", seconds=60, method=method) == "absent"
    assert code_of(schedule, "at", when=NOW, method="") == "invalid"


def test_arguments(schedule: Schedule) -> None:
    """They are kept as they are, but for what only the host may say; names of parameters, and so many bytes."""
    of = context()
    args = {"n": b"x", "owner": "b", "deep": [{"due_at": 0, "a": {"approved": True, "action": 1}}], "f": float("inf")}
    ask(schedule, "at", of, when=NOW, method="work", args=args)
    (one,), _ = claim(schedule, NOW)
    assert values.decode(one.args) == {"n": b"x", "deep": [{"a": {}}], "f": float("inf")}
    assert (of.dropped, of.bytes_out) == (4, len(one.args))
    for bad in ({"not a name": 1}, {f"n{number}": 1 for number in range(257)}):
        with pytest.raises(AdapterError, match="256 at most"):
            ask(schedule, "at", when=NOW, method="work", args=bad)
    assert code_of(schedule, "at", when=NOW, method="work", args={"n": "x" * ARGS_BYTES}) == "too_large"


def test_forged_fields(schedule: Schedule) -> None:
    """Beside the arguments of a call there is no place for any."""
    for name in ("owner", "plugin", "action", "due_at", "approved", "run", "scope", "policy"):
        assert code_of(schedule, "at", when=NOW, method="work", **{name: "x"}) == "invalid"
        assert code_of(schedule, "every", seconds=60, method="work", **{name: "x"}) == "invalid"
    assert list(schedule.standing()) == []


def test_nothing_granted(schedule: Schedule) -> None:
    """A scope of nothing allows nothing."""
    for name, arguments in (("at", {"when": NOW, "method": "work"}), ("list", {}), ("cancel", {"id": 1})):
        assert code_of(schedule, name, context(ScheduleScope()), **arguments) == "not_granted"


# times


@pytest.mark.parametrize(
    ("when", "code"),
    [
        (NOW, ""),
        (NOW - 59, ""),
        (NOW - 61, "outside"),
        (0, "outside"),
        (-(10**18), "unsupported"),
        (NOW + 30 * DAY, ""),
        (NOW + 30 * DAY + 1, "outside"),
        (NOW + 300 * 366 * DAY, "outside"),
        ("2326-10-24T12:00:00Z", "outside"),
        ("9999-12-31T23:59:59.999999-23:59", "outside"),
        ("0001-01-01T00:00:00+23:59", "outside"),
        (1e300, "unsupported"),
        (10**400, "invalid"),
        (float("nan"), "unsupported"),
        (float("inf"), "unsupported"),
        ("2026-10-24T12:00:00Z", ""),
        ("2026-10-25T02:30:00+02:00", ""),
        ("2026-10-25T02:30:00", "unsupported"),
        ("2026-10-25", "unsupported"),
        ("2026-10-25T02:30:00 Europe/Berlin", "unsupported"),
        ("tomorrow", "unsupported"),
        ("", "unsupported"),
        ("2026-10-25T02:30:00Z\0", "unsupported"),
        ("\ud800", "unsupported"),
        (True, "invalid"),
        (None, "invalid"),
        ([NOW], "invalid"),
    ],
)
def test_times(when: Any, code: str, schedule: Schedule) -> None:
    """An instant from a minute ago to as far as is granted; nothing else."""
    assert code_of(schedule, "at", when=when, method="work") == code
    if when is not None:
        assert code_of(schedule, "every", seconds=60, method="work", first=when) == code
    assert len(list(schedule.standing())) == (2 if not code else 0)


def test_the_hour_that_comes_twice(schedule: Schedule) -> None:
    """Half past two of both offsets are two instants, an hour apart; what is late by a moment is now."""
    for when in ("2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", NOW - 5):
        ask(schedule, "at", when=when, method="work")
    first, second, now = (one.due for one in schedule.standing())
    assert (first, second - first, now) == (1_792_888_200.0, 3600.0, NOW)


@given(st.floats(), st.integers(0, 2**40), st.floats(1, 1e8))
def test_instants(when: float, now: int, ahead_s: float) -> None:
    """Whatever is named: within the bounds, or refused."""
    try:
        due = instant(when, now * 1000, ahead_s)
    except Denied:
        return
    assert now * 1000 <= due <= now * 1000 + ahead_s * 1e6 + 1


@pytest.mark.parametrize(
    ("seconds", "code"),
    [(60, ""), (59.99, "rate"), (0, "rate"), (-1, "rate"), (1e-300, "rate"), (float("nan"), "rate"),
     (30 * DAY + 1, "outside"), (float("inf"), "outside"), (10**400, "invalid"), ("60", "invalid"), (False, "invalid")],
)  # fmt: skip
def test_intervals(seconds: Any, code: str, schedule: Schedule) -> None:
    """From the least that is granted to as far ahead as is."""
    assert code_of(schedule, "every", seconds=seconds, method="work") == code


# how many


def test_how_many_stand(schedule: Schedule) -> None:
    """So many and no more; one that is taken off makes room."""
    scope = msgspec.structs.replace(SCOPE, standing=3)
    codes = [code_of(schedule, "at", context(scope), when=NOW + 100, method="work") for _ in range(5)]
    assert codes == ["", "", "", "quota", "quota"]
    assert code_of(schedule, "every", context(scope), seconds=60, method="work") == "quota"
    ask(schedule, "cancel", id=2)
    assert code_of(schedule, "every", context(scope), seconds=60, method="work") == ""
    assert code_of(schedule, "at", context(scope, owner="other"), when=NOW, method="work") == ""


def test_what_was_called_counts_a_while(schedule: Schedule, clock: Clock) -> None:
    """So a plugin that schedules itself anew is called no more often than its scope says."""
    scope = msgspec.structs.replace(SCOPE, standing=2)
    called = 0
    for _ in range(200):
        for _ in range(3):
            code_of(schedule, "at", context(scope), when=clock.now, method="work")
        found, _ = claim(schedule, clock.now)
        called += len(found)
        frees = round((clock.now + scope.interval_s) * 1e6)
        claim(schedule, clock.now, ended=[Ended(one.key, one.every > 0, frees) for one in found], most=0)
        clock.now += 3
    assert called == 2 * 600 / 60
    # Nothing is left of what counts no more.
    claim(schedule, clock.now + 100, ended=[Ended(0, again=False)], most=0)
    assert rows_of(schedule) == 0


def test_taken_off_and_put_on_again(schedule: Schedule, clock: Clock) -> None:
    """One that is called again and again counts until its next time, also where it is taken off."""
    scope = msgspec.structs.replace(SCOPE, standing=1)
    called = 0
    for _ in range(300):
        if not code_of(schedule, "every", context(scope), seconds=60, method="work", first=clock.now):
            found, _ = claim(schedule, clock.now)
            called += len(found)
            # In its own call, or after it.
            number = found[0].id
            if number % 2:
                assert ask(schedule, "cancel", id=number) is True
            claim(schedule, clock.now, ended=[Ended(one.key, again=True) for one in found], most=0)
            if not number % 2:
                assert ask(schedule, "cancel", id=number) is True
        clock.now += 1
    assert called == 300 / 60


def rows_of(schedule: Schedule) -> int:
    found = schedule.store._database.read("SELECT count(*) FROM schedules", ())
    assert found is not None
    return int(found[0])


# what is due


def test_claims(schedule: Schedule) -> None:
    """What is due is claimed once, the longest due first, whoever asks; what is not due is not."""
    for after in (30, 10, 20, 100):
        ask(schedule, "at", when=NOW + after, method="work")
    found, missed = claim(schedule, NOW + 30)
    assert (numbers(found), missed) == ([2, 3, 1], [])
    assert claim(schedule, NOW + 30, "b") == ([], [])
    assert schedule.store.next() == round((NOW + 100) * 1e6)
    # What fires stands no more, and is not taken off.
    assert [one["id"] for one in ask(schedule, "list")["schedules"]] == [4]
    assert ask(schedule, "cancel", id=1) is False
    # Only whoever claimed it ends it.
    claim(schedule, NOW + 30, "b", ended=[Ended(one.key, again=False) for one in found], most=0)
    assert rows_of(schedule) == 4
    claim(schedule, NOW + 30, "a", ended=[Ended(one.key, again=False) for one in found], most=0)
    assert rows_of(schedule) == 1


def test_steps(schedule: Schedule) -> None:
    """It is called once for all times that have come, goes on in step, and not before the call before has ended."""
    ask(schedule, "every", seconds=60, method="work", first=NOW + 10)
    (one,), _ = claim(schedule, NOW + 10)
    assert (one.times, one.due) == (1, round((NOW + 10) * 1e6))
    assert claim(schedule, NOW + 500) == ([], [])
    (one,), _ = claim(schedule, NOW + 500, ended=[Ended(one.key, again=True)])
    assert (one.times, one.due) == (8, round((NOW + 490) * 1e6))
    claim(schedule, NOW + 500, ended=[Ended(one.key, again=True)], most=0)
    assert schedule.store.next() == round((NOW + 550) * 1e6)
    assert [found.fired for found in schedule.standing()] == [2]


def test_what_is_late(schedule: Schedule) -> None:
    """What is called once is called within its grace, and missed after it; once for all else is called however late."""
    ask(schedule, "at", when=NOW + 10, method="work")
    ask(schedule, "at", when=NOW + 11, method="work")
    ask(schedule, "every", seconds=60, method="work")
    found, missed = claim(schedule, NOW + 10.5 + GRACE_S)
    assert (numbers(found), numbers(missed)) == ([2, 3], [1])
    assert claim(schedule, NOW + 10.5 + GRACE_S) == ([], [])


def test_shares(schedule: Schedule) -> None:
    """One plugin and owner with very many do not keep others from being called, and all are at last."""
    scope = msgspec.structs.replace(SCOPE, standing=1000)
    for _ in range(300):
        ask(schedule, "at", context(scope), when=NOW, method="work")
    ask(schedule, "at", context(owner="other"), when=NOW + 1, method="work")
    found, _ = claim(schedule, NOW + 1, most=10, each=4, behind=False)
    assert [one.owner for one in found] == ["o"] * 4
    again, _ = claim(schedule, NOW + 1, most=6, each=5, busy={("p", "o"): 4})
    assert [one.owner for one in again] == ["o", "other"]
    found += again[:1]
    count = 0
    while found:
        count += len(found)
        found, _ = claim(schedule, NOW + 1, most=10, each=4, ended=[Ended(one.key, again=False) for one in found])
    assert count == 300


@pytest.mark.parametrize("side", ["plugin", "owner"])
def test_shares_of_one_side(schedule: Schedule, side: str) -> None:
    """A plugin of many owners, and an owner of many plugins, have so many together; what is due behind theirs is found."""
    scope = msgspec.structs.replace(SCOPE, standing=1000)
    for name in ("a", "b", "c"):
        for _ in range(50):
            whose = {"owner": name} if side == "plugin" else {"plugin": name}
            ask(schedule, "at", context(scope, **whose), when=NOW, method="work")
    ask(schedule, "at", context(scope, owner="other", plugin="q"), when=NOW + 1, method="work")
    found, _ = claim(schedule, NOW + 1, most=10, each=4, side=6)
    assert [one.owner for one in found][6:] == ["other"]
    assert len(found) == 7
    busy = {one.whose: 2 for one in found[:3]} | {("p", "d") if side == "plugin" else ("d", "o"): 6}
    assert claim(schedule, NOW + 1, most=10, each=9, side=6, busy=busy) == ([], [])


@pytest.mark.parametrize("every", [0, 60])
def test_one_that_is_removed_while_it_fires(schedule: Schedule, every: int) -> None:
    """The end of its call ends nothing of another plugin's, and it leaves nothing; installed anew it begins anew."""
    more = {"seconds": every, "first": NOW} if every else {"when": NOW}
    ask(schedule, "every" if every else "at", context(plugin="gone"), method="work", **more)
    (old,), _ = claim(schedule, NOW)
    schedule.store.forget("gone")
    assert list(schedule.standing()) == []
    assert ask(schedule, "every", seconds=60, method="work", first=NOW) == 1
    assert ask(schedule, "at", context(plugin="gone"), when=NOW + 50, method="work") == 1
    (other,), _ = claim(schedule, NOW)
    claim(schedule, NOW, most=0, ended=[Ended(old.key, old.every > 0, round(NOW * 1e6) + 1)])
    assert claim(schedule, NOW + 30) == ([], [])
    assert {one.plugin for one in schedule.standing()} == {"p", "gone"}
    claim(schedule, NOW + 31, most=0, ended=[Ended(other.key, again=True)])
    schedule.store.forget("p")
    schedule.store.forget("gone")
    assert schedule.store._database.read("SELECT count(*) FROM schedules", ()) == (0,)


def test_one_that_is_removed_and_killed(schedule: Schedule) -> None:
    """Nobody is told of it, and it leaves nothing."""
    ask(schedule, "at", when=NOW, method="work")
    claim(schedule, NOW, "gone")
    schedule.store.forget("p")
    assert schedule.store.lost(lambda: ()) == []
    assert schedule.store._database.read("SELECT count(*) FROM schedules", ()) == (0,)


def test_one_of_many_claims_it(tmp_path: Path, schedule: Schedule) -> None:
    """Stores of one file that claim at once never claim the same."""
    import threading

    scope = msgspec.structs.replace(SCOPE, standing=1000)
    for _ in range(200):
        ask(schedule, "at", context(scope), when=NOW, method="work")
    found: list[int] = []

    def work(name: str) -> None:
        store = Store(str(tmp_path / "schedule.db"))
        while got := store.claim(name, round(NOW * 1e6), most=3, each=100, busy={}, grace=GRACE)[0]:
            found.extend(numbers(got))
        store.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 201))


def test_whoever_is_gone(schedule: Schedule) -> None:
    """What they had claimed is over, and not claimed again; what is called again and again goes on."""
    ask(schedule, "at", when=NOW, method="work")
    ask(schedule, "every", seconds=60, method="work", first=NOW)
    ask(schedule, "at", when=NOW + 5, method="work")
    claim(schedule, NOW, "gone")
    assert schedule.store.lost(lambda: ["gone", "other"]) == []
    assert numbers(schedule.store.lost(lambda: ["other"])) == [1, 2]
    assert schedule.store.lost(list) == []
    assert numbers(claim(schedule, NOW + 60, "b")[0]) == [3, 2]


# the clock


def test_the_clock_is_put_back(schedule: Schedule, clock: Clock) -> None:
    """What is called again and again is called within a step of then; an instant stays where it is."""
    ask(schedule, "every", seconds=60, method="work")
    ask(schedule, "every", seconds=60, method="work", first=NOW + DAY)
    ask(schedule, "at", when=NOW + 100, method="work")
    schedule.store.restep(round((NOW - 7 * DAY - 5) * 1e6))
    # In step with what it was: sixty seconds before and after it.
    assert [one.due - NOW for one in schedule.standing()] == [-7 * DAY, DAY, 100]
    # And what was called counts no longer than it would have.
    found, _ = claim(schedule, NOW + 100)
    frees = round((NOW + 160) * 1e6)
    claim(schedule, NOW + 100, ended=[Ended(one.key, one.every > 0, frees) for one in found], most=0)
    before = rows_of(schedule)
    schedule.store.restep(round((NOW - DAY) * 1e6))
    claim(schedule, NOW - DAY, ended=[Ended(0, again=False)], most=0)
    assert rows_of(schedule) == before - 1


@given(st.integers(1, 10**6), st.integers(0, 10**9), st.integers(-(10**9), 10**9))
def test_steps_stay_in_step(every: int, ahead: int, now: int) -> None:
    """However far the clock is put: the next time is within one step, and a whole number of steps from the last."""
    store = Store(":memory:")
    connection = sqlite3.connect(":memory:", isolation_level=None)
    from fastness.capabilities._schedule_store import _SCHEDULES

    connection.execute(_SCHEDULES)
    connection.execute(
        "INSERT INTO schedules (plugin, owner, id, method, args, due, every, made, stepping) VALUES"
        " ('p', 'o', 1, 'm', x'', ?, ?, 0, 1)",
        (now + ahead, every),
    )

    class Here:
        def renewed(self) -> bool:
            return False

        def writing(self) -> Any:
            import contextlib

            return contextlib.nullcontext(connection)

    store._database = Here()  # type: ignore[assignment]  # without a file
    store.restep(now)
    (due,) = connection.execute("SELECT due FROM schedules").fetchone()
    connection.close()
    assert due <= now + every
    assert (now + ahead - due) % every == 0
    assert due == now + ahead or due > now


# of the host


def test_the_operator(schedule: Schedule) -> None:
    """Sees and takes off whatever stands; a plugin that is removed leaves nothing, and its numbers begin anew."""
    changes: list[int] = []
    schedule.changed.append(lambda: changes.append(1))
    for owner in ("o", "other"):
        ask(schedule, "at", context(owner=owner), when=NOW + 1, method="work")
    ask(schedule, "at", context(plugin="q"), when=NOW + 1, method="work")
    assert schedule.cancel("p", "other", 1) is True
    assert schedule.cancel("p", "other", 1) is False
    asyncio.run(schedule.forget("p"))
    assert [(one.plugin, one.owner) for one in schedule.standing()] == [("q", "o")]
    assert ask(schedule, "at", when=NOW + 1, method="work") == 1
    assert len(changes) == 4


def test_scopes() -> None:
    """The narrower of two in each field; words for what goes beyond, and for what it means at worst."""
    wide = ScheduleScope(standing=100, interval_s=10, ahead_s=100 * DAY)
    assert SPEC.meet(wide, SCOPE) == SPEC.meet(SCOPE, wide) == SCOPE
    assert SPEC.meet(wide, ScheduleScope()) is None
    assert SPEC.exceeds(wide, SCOPE) == [
        "have up to 100 calls of itself scheduled for each owner",
        "be called every 10 seconds",
        "be called up to 100 days from when it asks",
    ]
    assert SPEC.exceeds(SCOPE, wide) == SPEC.exceeds(ScheduleScope(interval_s=1), SCOPE) == []
    assert "up to 10 times in 1 minute, up to 30 days ahead" in SPEC.risk(SCOPE)
    assert SPEC.risk(ScheduleScope()) == "It can schedule nothing."
    for bad in ({"standing": -1}, {"standing": 10_001}, {"interval_s": 0}, {"ahead_s": 0}, {"ahead_s": 1e12}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(bad, ScheduleScope)


def test_a_file_that_cannot_be_used(tmp_path: Path, clock: Clock) -> None:
    """It is told in words that name no path, and nothing is promised."""
    (tmp_path / "schedule.db").write_text("no database")
    (tmp_path / "schedule.db").chmod(0o600)
    broken = Schedule(str(tmp_path / "schedule.db"), lambda plugin: ("work",), clock=clock)
    attempts: list[Callable[[], object]] = [
        lambda: ask(broken, "at", when=NOW, method="work"),
        lambda: ask(broken, "list"),
        lambda: list(broken.standing()),
        lambda: broken.cancel("p", "o", 1),
        lambda: asyncio.run(broken.forget("p")),
    ]
    for attempt in attempts:
        with pytest.raises(AdapterError, match="the schedule cannot be used") as caught:
            attempt()
        assert str(tmp_path) not in str(caught.value)


def test_the_kit_for_schedules(tmp_path: Path) -> None:
    """``check_capability`` finds nothing: cancelled at any moment, all was done or nothing."""
    count = iter(range(10_000))
    made: list[Path] = []

    def make() -> Schedule:
        made.append(tmp_path / str(next(count)))
        return Schedule(str(made[-1]), lambda plugin: ("work",), clock=lambda: NOW)

    def state() -> object:
        if not made[-1].exists():
            return []
        connection = sqlite3.connect(made[-1])
        try:
            return connection.execute("SELECT plugin, owner, id, args FROM schedules").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    words = "what nobody is to read"
    at = {"when": NOW + 5, "method": "work", "args": {"words": words}}
    cases = [
        Case(operation="at", arguments=at, scope=SCOPE, payloads=(words,)),
        Case(operation="every", arguments={"seconds": 60, "method": "work"}, scope=SCOPE),
        Case(operation="cancel", arguments={"id": 1}, scope=SCOPE),
        Case(operation="list", arguments={}, scope=SCOPE),
        Case(operation="at", arguments={**at, "when": 0}, scope=SCOPE, code="outside", payloads=(words,)),
        Case(operation="at", arguments=at, scope=ScheduleScope(), code="not_granted", payloads=(words,)),
    ]
    assert asyncio.run(check_capability(make, cases, hidden=[str(tmp_path)], state=state)) == []
