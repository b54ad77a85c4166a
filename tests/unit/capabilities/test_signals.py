"""The capability ``signals``: who receives what of whom, how much waits, and where what leads to each other ends."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import house
from fastness.capabilities import _signals_store as stored
from fastness.capabilities.signals import SPEC, Handler, Signals, SignalsScope, shown
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import Limits
from fastness.testing import Case, check_capability

ALL = SignalsScope(publish=("*",), subscribe=("*",))
#: By owner: ``p`` publishes, the others listen.
RECEIVERS = {"o": [("p", ALL), ("q", ALL), ("r", SignalsScope(subscribe=("a.*",)))], "x": [("q", ALL)]}


def context(scope: SignalsScope = ALL, **fields: Any) -> CallContext:
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 60, "spent": {}}
    return CallContext(scope=scope, **{**given, **fields})


def ask(signals: Signals, name: str, of: CallContext | None = None, /, **arguments: Any) -> Any:
    operation = SPEC.operation(name)
    assert operation is not None
    decoded = msgspec.convert(arguments, operation.arguments, strict=True, builtin_types=(bytes,))
    return asyncio.run(signals.call(name, decoded, of or context()))


@pytest.fixture
def signals(tmp_path: Path) -> Iterator[Signals]:
    made = Signals(str(tmp_path / "signals.db"), lambda owner: RECEIVERS.get(owner, ()))
    yield made
    asyncio.run(made.aclose())


def waiting(signals: Signals, plugin: str, owner: str = "o") -> list[str]:
    return [topic for _, topic in signals.waiting(owner, plugin)]


# topics


def test_who_receives(signals: Signals) -> None:
    """Those of the same owner whose grant lists the topic, and the program; not whoever sent it."""
    assert ask(signals, "publish", topic="a.b", data={"n": 1}) == {"queued": 3, "dropped": 0}
    assert ask(signals, "publish", topic="b", data=None) == {"queued": 2, "dropped": 0}
    assert [waiting(signals, plugin) for plugin in "pqr"] == [[], ["a.b", "b"], ["a.b"]]
    assert waiting(signals, "q", "x") == []
    assert waiting(signals, "") == ["a.b", "b"]
    assert signals.publish("o", "b", 1) == (2, 0)
    assert [waiting(signals, plugin) for plugin in ("p", "")] == [["b"], ["a.b", "b"]]


def test_what_is_received(signals: Signals) -> None:
    """What was sent, by whom and when, the oldest first, once."""
    before = time.time()
    for number in range(5):
        ask(signals, "publish", topic="t", data=[number, b"\xff", 1 << 60, float("inf"), {"a": "\ud800"}])
    of = context(plugin="q")
    got = ask(signals, "take", of, most=3)
    assert [one["data"][0] for one in got["signals"]] == [0, 1, 2]
    one = got["signals"][0]
    assert (one["topic"], one["sender"], one["data"][1:]) == (
        "t",
        "p",
        [b"\xff", 1 << 60, float("inf"), {"a": "\ud800"}],
    )
    assert before <= one["at"] <= time.time()
    assert (got["dropped"], got["more"]) == (0, True)
    assert [one["data"][0] for one in ask(signals, "take", of)["signals"]] == [3, 4]
    assert ask(signals, "take", of) == {"signals": [], "dropped": 0, "more": False}
    assert of.bytes_in == 0


@pytest.mark.parametrize(
    "topic",
    ["", "A.b", "a..b", ".a", "a.", "a b", "a\n", "a\x00", "a*", "*", "ä", "a/b", "x" * 129, "\ud800", 1, None, ["a"]],
)
def test_topics_that_are_none(topic: Any, signals: Signals) -> None:
    with pytest.raises((msgspec.ValidationError, UnicodeEncodeError)):
        ask(signals, "publish", topic=topic)


@pytest.mark.parametrize("name", ["publish", "take"])
@pytest.mark.parametrize("field", ["owner", "plugin", "sender", "cause", "hop", "queue"])
def test_no_field_says_whose_it_is(name: str, field: str, signals: Signals) -> None:
    arguments = {"topic": "a"} if name == "publish" else {}
    with pytest.raises(msgspec.ValidationError, match=field):
        ask(signals, name, **arguments, **{field: "x"})


def test_what_was_not_granted(signals: Signals) -> None:
    """Another topic, or the other direction: an empty list allows nothing."""
    some = SignalsScope(publish=("a.*", "exact"))
    for topic in ("a", "b.a.c", "exact.more", "ex"):
        with pytest.raises(Denied, match="not_granted"):
            ask(signals, "publish", context(some), topic=topic)
    with pytest.raises(Denied, match="not_granted"):
        ask(signals, "take", context(some))
    with pytest.raises(Denied, match="not_granted"):
        ask(signals, "publish", context(SignalsScope(subscribe=("*",))), topic="a")
    assert signals.queues() == []
    with pytest.raises(Denied, match="unsupported"):
        asyncio.run(signals.call("erase", None, context()))


def test_a_scope_that_has_become_less(signals: Signals) -> None:
    """What waits and is not listed any more is dropped when the plugin takes, and it is told."""
    for topic in ("a.b", "c", "a.d"):
        ask(signals, "publish", topic=topic)
    got = ask(signals, "take", context(SignalsScope(subscribe=("a.*",)), plugin="q"))
    assert ([one["topic"] for one in got["signals"]], got["dropped"]) == (["a.b", "a.d"], 1)
    assert waiting(signals, "q") == []


# how much


def test_a_queue_is_full(signals: Signals) -> None:
    """One sender has half of it, all together have all of it; what finds no place is counted and told once."""
    small = SignalsScope(subscribe=("*",), queue=4)
    few = Signals(signals._store._database.path, lambda _: [("q", small)])
    assert [ask(few, "publish", topic="t", data=n)["dropped"] for n in range(4)] == [0, 0, 1, 1]
    assert [few.publish("o", "t", n)[1] for n in range(3)] == [0, 0, 1]
    assert ask(few, "publish", context(plugin="other"), topic="t") == {"queued": 1, "dropped": 1}
    got = ask(few, "take", context(small, plugin="q"))
    assert ([one["data"] for one in got["signals"]], got["dropped"]) == ([0, 1, 0, 1], 4)
    assert ask(few, "take", context(small, plugin="q"))["dropped"] == 0
    (_, queue) = few.queues("o")
    assert (queue.plugin, queue.waiting, queue.dropped) == ("q", 0, 4)


def test_sizes(signals: Signals) -> None:
    """What one signal carries is bounded by the grant, the program's by 64 KiB; nothing of a larger one is sent."""
    scope = SignalsScope(publish=("*",), signal_bytes=100)
    ask(signals, "publish", context(scope), topic="t", data="x" * 98)
    with pytest.raises(Denied, match="too_large"):
        ask(signals, "publish", context(scope), topic="t", data="x" * 99)
    with pytest.raises(Denied, match="too_large"):
        signals.publish("o", "t", "x" * (64 << 10))
    with pytest.raises(AdapterError, match="nested"):
        ask(signals, "publish", topic="t", data=eval("[" * 40 + "]" * 40))
    assert len(waiting(signals, "q")) == 1
    with pytest.raises(AdapterError, match="plain data"):
        signals.publish("o", "t", object())


def test_what_is_taken_fits_a_frame(signals: Signals) -> None:
    """More than one frame holds is left, and not lost; one alone is always given."""
    for number in range(4):
        signals.publish("o", "t", [number, "x" * 600])
    of = context(plugin="q", limits=Limits(frame_bytes=4096))
    seen = []
    while (got := ask(signals, "take", of))["signals"]:
        seen.append([one["data"][0] for one in got["signals"]])
    assert seen == [[0], [1], [2], [3]]
    assert of.bytes_in == 0


def test_forged_fields(signals: Signals) -> None:
    """They are left out, at every depth, and counted for the record; also of what the program sends."""
    of = context()
    ask(signals, "publish", of, topic="t", data={"owner": "x", "a": [{"approved": 1, "action": 2, "b": {"due_at": 3}}]})
    assert of.dropped == 4
    signals.publish("o", "t", {"approved": True, "b": 1})
    assert [one["data"] for one in ask(signals, "take", context(plugin="q"))["signals"]] == [
        {"a": [{"b": {}}]},
        {"b": 1},
    ]


def test_what_waits_too_long(tmp_path: Path) -> None:
    """After seven days it is gone, and counted, whatever the clock did in between."""
    now = [1_000_000.0]
    store = stored.Store(str(tmp_path / "s.db"), clock=lambda: now[0])

    def put(topic: str) -> None:
        store.put("o", "p", topic, b"1", (1, 1), [("q", 10)], lambda: None)

    put("first")
    now[0] -= 500_000
    put("second")
    now[0] += 500_000 + stored.KEEP_S - 1
    assert store.take("o", "q", 10, 100, lambda t: t == "none", lambda: None, leave=True) == ([], 1, False)
    assert [topic for _, topic in store.waiting("o", "q")] == ["first"]
    now[0] += 100
    put("third")
    assert [topic for _, topic in store.waiting("o", "q")] == ["third"]
    assert store.queues()[0].dropped == 2
    store.close()


def test_what_waits_too_long_for_a_method(tmp_path: Path) -> None:
    """Nobody has to send or take something first: it is neither seen nor handed over, and counted."""
    now = [1_000_000.0]
    store = stored.Store(str(tmp_path / "s.db"), clock=lambda: now[0])
    for topic in ("first", "second"):
        store.put("o", "p", topic, b"1", (1, 1), [("q", 10)], lambda: None)
        now[0] += 10
    (first, second) = [number for number, _ in store.waiting("o", "q")]
    now[0] += stored.KEEP_S - 15
    # Seen before it was too old, and claimed after.
    assert store.claim(first) is None
    assert [number for number, _ in store.waiting("o", "q")] == [second]
    now[0] += 10
    assert store.waiting("o", "q") == []
    assert [(one.waiting, one.dropped) for one in store.queues()] == [(0, 2)]
    store.close()


# causes


def test_a_cycle_ends(signals: Signals) -> None:
    """Runs that signals led to are as far from their cause as those; the ninth in a row is refused."""
    run, hops = "first", []
    sides = ["p", "q"]
    ask(signals, "publish", context(run=run, plugin="p"), topic="t")
    with pytest.raises(QuotaExceeded, match="8 times"):
        for turn in range(20):
            plugin = sides[(turn + 1) % 2]
            (number, _) = signals.waiting("o", plugin)[-1]
            signal = signals.claim(number)
            assert signal is not None
            hops.append(signal.hop)
            run = f"run {turn}"
            with signals.caused(run, signal):
                ask(signals, "publish", context(run=run, plugin=plugin), topic="t")
    assert hops == list(range(1, 9))
    assert signals._caused == {}
    # What began by itself is another cause.
    ask(signals, "publish", context(run="another", plugin="q"), topic="t")


def test_a_cycle_of_those_that_take_ends(signals: Signals) -> None:
    """Whoever takes a signal is as far from its cause as it is, with all that this run sends from then on."""
    turn = 0
    ask(signals, "publish", context(run="0"), topic="t")
    with pytest.raises(QuotaExceeded):
        while turn < 20:
            turn += 1
            of = context(run=str(turn), plugin="pq"[turn % 2])
            assert ask(signals, "take", of)["signals"]
            # Taking what is nearer, or nothing, brings nobody back.
            signals.publish("o", "t", None)
            ask(signals, "take", of)
            ask(signals, "publish", of, topic="t")
    assert turn == 8


def test_a_program_that_answers(signals: Signals) -> None:
    """What the program sends because of a signal is one more after it."""
    after = None
    with pytest.raises(QuotaExceeded):
        for turn in range(20):
            signals.publish("o", "t", turn, after)
            (one,) = [found for number, _ in signals.waiting("o", "q") if (found := signals.claim(number))]
            after = one.cause, one.hop
    assert after is not None
    assert after[1] == 8


def test_what_one_cause_may_lead_to(signals: Signals) -> None:
    """Each place in a queue counts, and each that there was not; another run goes on."""
    of = context(run="storm")
    sent = 0
    with pytest.raises(QuotaExceeded, match="256"):
        while sent < 1000:
            ask(signals, "publish", of, topic="t")
            sent += 1
    assert sent == stored.CAUSE_MAX // 2
    assert len(waiting(signals, "q")) == 50
    ask(signals, "publish", context(run="calm"), topic="t")


# the program, and ends


def test_the_program_takes_what_it_asks_for(signals: Signals) -> None:
    """Other topics stay."""
    for topic in ("a.b", "c", "a.d"):
        ask(signals, "publish", topic=topic)
    found, dropped, more = signals.received("o", lambda topic: topic.startswith("a."), 1)
    assert ([one.topic for one in found], dropped, more) == (["a.b"], 0, True)
    assert waiting(signals, "") == ["c", "a.d"]
    assert signals.received("x", lambda _: True, 10) == ([], 0, False)


def test_erasing_and_forgetting(signals: Signals, tmp_path: Path) -> None:
    """Of an owner, of one plugin of theirs, and of a plugin for every owner; what is erased is not in the file."""
    for owner in ("o", "x"):
        signals.publish(owner, "t", "marrowbone")
    assert signals.erase("o", "q") == 1
    assert [waiting(signals, "q", owner) for owner in ("o", "x")] == [[], ["t"]]
    assert signals.erase("o") == 1
    asyncio.run(signals.forget("q"))
    assert signals.queues() == []
    signals.publish("o", "t", 1)
    signals.revoked("q", "o")
    assert (waiting(signals, "q"), waiting(signals, "p")) == ([], ["t"])
    signals.revoked("p", None)
    assert waiting(signals, "p") == []


def test_a_bell(signals: Signals) -> None:
    """It rings where something waits now, and is silent once it was heard."""
    import select

    with signals.bell() as bell:
        assert select.select([bell], [], [], 0)[0] == []
        signals.publish("o", "t", 1)
        assert select.select([bell], [], [], 1)[0] == [bell]
        bell.heard()
        bell.heard()
        assert select.select([bell], [], [], 0)[0] == []
    signals.publish("o", "t", 1)
    bell.ring()


_OTHER = """
import sys
from fastness.capabilities.signals import Signals
signals = Signals(sys.argv[1], lambda _: ())
print("ready", flush=True)
sys.stdin.readline()
had = []
for number, _ in signals.waiting("o", "q"):
    one = signals.claim(number)
    if one is not None:
        had.append(number)
print(*had, flush=True)
"""


def test_processes_at_once(signals: Signals) -> None:
    """Each signal is one process's."""
    for number in range(50):
        ask(signals, "publish", context(run=str(number)), topic="t")
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    command = [sys.executable, "-c", _OTHER, signals._store._database.path]
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    had = [int(number) for process in processes for number in process.communicate(timeout=60)[0].split()]
    assert sorted(had) == sorted(set(had))
    assert len(had) == 50
    assert waiting(signals, "q") == []


_KILLED = """
import os, sys
from fastness.capabilities.signals import Signals, SignalsScope
signals = Signals(sys.argv[1], lambda _: [("q", SignalsScope(subscribe=("*",)))])
signals.publish("o", "sent", 1)
signals.claim(signals.waiting("o", "q")[0][0])
os.kill(os.getpid(), 9)
"""


def test_a_process_that_is_killed(signals: Signals) -> None:
    """What it had sent waits; what it had taken is gone; what it was about to take waits."""
    for topic in ("first", "second"):
        ask(signals, "publish", topic=topic)
    process = subprocess.run(
        [sys.executable, "-c", _KILLED, signals._store._database.path],
        env={**os.environ, "PYTHONPATH": str(house.SOURCE)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert process.returncode == -9, process.stderr
    assert waiting(signals, "q") == ["second", "sent"]


def test_threads_at_once(signals: Signals) -> None:
    """What one cause may lead to is one number for all of them."""
    sent: list[int] = []

    def storm() -> None:
        of = context(run="same")
        try:
            while True:
                ask(signals, "publish", of, topic="t")
                sent.append(1)
        except QuotaExceeded:
            pass

    threads = [threading.Thread(target=storm) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(sent) == stored.CAUSE_MAX // 2


def test_a_file_that_is_none(tmp_path: Path) -> None:
    """The error names no path."""
    (tmp_path / "s.db").write_bytes(b"x" * 5000)
    (tmp_path / "s.db").chmod(0o600)
    broken = Signals(str(tmp_path / "s.db"), lambda _: ())
    for work in (lambda: broken.publish("o", "t", 1), lambda: ask(broken, "publish", topic="t"), broken.queues):
        with pytest.raises(AdapterError) as error:
            work()
        assert str(error.value) == "the signals cannot be used"


def test_a_signal_that_is_damaged(signals: Signals) -> None:
    """Whoever reads it is told, and no more."""
    ask(signals, "publish", topic="t")
    with sqlite3.connect(signals._store._database.path) as connection:
        connection.execute("UPDATE signals SET data = x'ff'")
    connection.close()
    (found, _, _) = signals.received("o", lambda _: True, 1)
    with pytest.raises(AdapterError, match="damaged"):
        shown(found[0])


def test_the_kit(tmp_path: Path) -> None:
    """``check_capability`` finds nothing: cancelled at any moment, all was done or nothing."""
    made: list[Path] = []

    def make() -> Signals:
        made.append(tmp_path / f"{len(made)}.db")
        return Signals(str(made[-1]), lambda _: [("q", ALL)])

    def state() -> object:
        if not made[-1].exists():
            return []
        connection = sqlite3.connect(made[-1])
        try:
            return connection.execute("SELECT plugin, topic, data FROM signals").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    words = "what nobody is to read"
    cases = [
        Case(operation="publish", arguments={"topic": "a.b", "data": words}, scope=ALL, payloads=(words,)),
        Case(operation="publish", arguments={"topic": "a", "data": 1}, scope=SignalsScope(), code="not_granted"),
        Case(operation="take", arguments={}, scope=ALL),
        Case(operation="take", arguments={"most": 1}, scope=SignalsScope(publish=("a",)), code="not_granted"),
    ]
    assert asyncio.run(check_capability(make, cases, hidden=[str(tmp_path)], state=state)) == []


# scopes


@pytest.mark.parametrize(
    "fields",
    [
        {"publish": ("A",)},
        {"subscribe": ("a b",)},
        {"publish": ("a\n",)},
        {"subscribe": ("",)},
        {"subscribe": ("x" * 129,)},
        {"publish": ("a",) * 65},
        {"handlers": (Handler(topic="a?", method="on"),)},
        {"handlers": (Handler(topic="a", method="on-it"),)},
    ],
)
def test_scopes_that_are_none(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"publish|subscribe|handlers"):
        SignalsScope(**fields)


def test_handlers() -> None:
    """The first that fits a topic that is received."""
    scope = SignalsScope(
        subscribe=("a.*", "b"),
        handlers=(
            Handler(topic="a.x", method="one"),
            Handler(topic="a.*", method="two"),
            Handler(topic="c", method="no"),
        ),
    )
    assert [scope.handler(topic) for topic in ("a.x", "a.y", "b", "c")] == ["one", "two", None, None]


def test_what_both_allow() -> None:
    """The narrower of two topics that lie within each other; methods that are allowed by name, or all."""
    on = Handler(topic="a.*", method="on")
    asked = SignalsScope(publish=("a.*", "b"), subscribe=("a.*",), handlers=(on,), queue=500)
    assert SPEC.meet(asked, SignalsScope()) is None
    least = SPEC.meet(asked, SignalsScope(publish=("a.b", "c"), queue=10))
    assert least == SignalsScope(publish=("a.b",), queue=10)
    every = SignalsScope(publish=("*",), subscribe=("*",), handlers=(Handler(topic="*", method="*"),), queue=1000)
    assert SPEC.meet(asked, every) == asked
    others = SignalsScope(
        subscribe=("*",), handlers=(Handler(topic="*", method="off"), Handler(topic="a.b", method="on"))
    )
    assert SPEC.meet(asked, others) == SignalsScope(subscribe=("a.*",), queue=100)
    assert SPEC.exceeds(asked, every) == []
    assert SPEC.exceeds(asked, SignalsScope(subscribe=("a.*",))) == [
        "publish the topic a.*",
        "publish the topic b",
        "have its method on called by signals of a.*",
        "let 500 signals wait for it",
    ]


_TOPICS = st.lists(st.sampled_from(["*", "a", "a.*", "a.b", "a.*.c", "b*", "*.b"]), max_size=3).map(tuple)
_SCOPES = st.builds(
    SignalsScope,
    publish=_TOPICS,
    subscribe=_TOPICS,
    handlers=st.lists(
        st.builds(Handler, topic=st.sampled_from(["*", "a.*", "a.b"]), method=st.sampled_from(["on", "off", "*"])),
        max_size=2,
    ).map(tuple),
    queue=st.sampled_from([1, 10]),
)


@given(_SCOPES, _SCOPES, st.sampled_from(["a", "b", "a.b", "a.b.c", "x.b", "ba"]))
def test_no_meeting_allows_more_than_either(asked: SignalsScope, allowed: SignalsScope, topic: str) -> None:
    """Of topics, methods and places; and it has nothing beyond either in words."""
    both = SPEC.meet(asked, allowed)
    if both is None:
        return
    assert isinstance(both, SignalsScope)
    for one in (asked, allowed):
        assert not both.may_publish(topic) or one.may_publish(topic)
        assert not both.receives(topic) or one.receives(topic)
        assert both.queue <= one.queue
        assert SPEC.exceeds(both, one) == []
    method = both.handler(topic)
    assert method is None or any(one.method in (method, "*") for one in allowed.handlers)
