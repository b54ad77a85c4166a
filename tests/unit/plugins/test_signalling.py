"""Signals of a plugin host: who is called with what, under which policy, and what becomes of what reaches nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fastness
from fastness.capabilities.signals import Handler, SignalsScope
from fastness.errors import (
    BackendError,
    ConfigurationError,
    Denied,
    GrantError,
    ManifestError,
    QuotaExceeded,
    TierUnavailable,
)
from fastness.plugins import signalling
from fastness.plugins.acting import act
from fastness.runs import Outcome, OutcomeKind, RunResult
from plugin_homes import own_home, package, rows

Ask = Callable[..., Any]


class Guests:
    """Methods of plugins as functions of this process, by plugin and name."""

    def __init__(self) -> None:
        self.methods: dict[str, Callable[[Ask, dict[str, Any]], Any]] = {}
        self.error: BaseException | None = None

    async def run(self, request: Any, calls: Any, *, run_id: str = "") -> RunResult:
        if self.error is not None:
            raise self.error
        call = request.plugin
        plugin = request.tenant.split("/")[1]
        value, kind, detail = None, OutcomeKind.OK, ""
        try:
            value = self.methods[f"{plugin}.{call.method}"](
                lambda operation, **given: act(calls, operation, given, 5.0), call.arguments
            )
        except fastness.CapabilityError as error:
            kind, detail = OutcomeKind.GUEST_ERROR, str(error)
        return RunResult(outcome=Outcome(kind, detail), tier=request.tier, runtime="python", run_id=run_id, value=value)

    async def aclose(self) -> None:
        pass


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    with own_home(tmp_path / "home") as made:
        yield made


@pytest.fixture
def guests() -> Guests:
    return Guests()


@pytest.fixture
def host(base: Path, guests: Guests) -> Iterator[fastness.PluginHost]:
    with fastness.PluginHost() as made:
        made._inner._runner = guests  # type: ignore[assignment]  # it has what an invocation uses
        yield made


def wish(publish: list[str], subscribe: list[str], *handlers: tuple[str, str], **more: Any) -> dict[str, Any]:
    named = [{"topic": topic, "method": method} for topic, method in handlers]
    return {"kind": "signals", "publish": publish, "subscribe": subscribe, "handlers": named, "reason": "x", **more}


def add(host: Any, base: Path, id: str, *wishes: dict[str, Any], owner: str = "ann", version: str = "1.0.0") -> None:
    source = package(
        base.parent / f"{id}-{version}", "x = 1\n", list(wishes), id=id, version=version, methods=["go", "on"]
    )
    host.install(source, upgrade=version != "1.0.0")
    if owner:
        host.grant(id, owner=owner, all=True)


def test_a_signal_leads_to_a_call(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """Of the method that the manifest names, with what was sent; each step is on record, and nothing of what it says."""
    add(host, base, "a", wish(["news.*"], []))
    add(host, base, "b", wish([], ["news.x"], ("news.*", "on")))
    guests.methods["a.go"] = lambda ask, _: ask(
        "signals.publish", topic="news.x", data={"text": "marrowbone", "owner": 1}
    )
    guests.methods["b.on"] = lambda _, given: given
    assert host.invoke("a", "go", owner="ann").value == {"queued": 2, "dropped": 0}
    (made,) = host.deliver()
    assert (made.owner, made.plugin, made.method, made.topic, made.sender, made.hop) == (
        "ann",
        "b",
        "on",
        "news.x",
        "a",
        1,
    )
    assert made.result is not None
    signal = made.result.value["signal"]
    assert (signal["topic"], signal["sender"], signal["data"], signal["at"]) == (
        "news.x",
        "a",
        {"text": "marrowbone"},
        made.at,
    )
    assert host.deliver() == []
    (deliver,) = rows(base, op="deliver")
    assert (deliver.plugin, deliver.owner, deliver.target, deliver.run) == (
        "b",
        "ann",
        "news.x from a, hop 1",
        made.result.run_id,
    )
    assert rows(base, op="invoke")[-1].run == made.result.run_id
    assert [row.dropped for row in rows(base, op="publish", phase="outcome")] == [1]
    assert not any(b"marrowbone" in path.read_bytes() for path in (base / "data").glob("audit*") if path.is_file())
    # The program has it too.
    (heard,) = host.signals("ann").signals
    assert (heard.topic, heard.sender, heard.data, heard.hop) == ("news.x", "a", {"text": "marrowbone"}, 1)
    used = {row.kind: row.calls for row in host.usage(owner="ann", plugin="a")}
    assert used["signals"] == 1


def test_two_that_answer_each_other(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """They come to an end, which is on record; what one begins anew goes as far again."""
    for one, other in (("a", "b"), ("b", "a")):
        add(host, base, one, wish([f"to.{other}"], [f"to.{one}"], ("*", "on")))
        guests.methods[f"{one}.on"] = guests.methods[f"{one}.go"] = lambda ask, _, to=other: ask(
            "signals.publish", topic=f"to.{to}"
        )
    for number in (1, 2):
        host.invoke("a", "go", owner="ann")
        done = host.deliver()
        assert [made.hop for made in done] == list(range(1, 9))
        assert done[-1].result is not None
        assert done[-1].result.outcome.kind is OutcomeKind.GUEST_ERROR
        assert len(rows(base, capability="signals", code="quota")) == number


def test_those_that_multiply(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """Each call sends four: together no more come of one cause than may, also where a program stands between."""
    for one, other in (("a", "b"), ("b", "a")):
        add(host, base, one, wish([f"to.{other}"], [f"to.{one}"], ("*", "on"), queue=1000))
        guests.methods[f"{one}.on"] = guests.methods[f"{one}.go"] = lambda ask, _, to=other: [
            ask("signals.publish", topic=f"to.{to}") for _ in range(4)
        ]
    host.invoke("a", "go", owner="ann")
    # Each is in two queues: the other one's, and the program's.
    assert len(host.deliver()) == 128
    heard = host.signals("ann", most=1000)
    assert len(heard.signals) == 128
    with pytest.raises(QuotaExceeded):
        host.publish("to.a", owner="ann", after=heard.signals[-1])
    assert host.publish("to.a", owner="ann").queued == 1


def test_the_program_in_a_cycle(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    add(host, base, "a", wish(["up"], ["down"], ("*", "on")))
    guests.methods["a.on"] = lambda ask, _: ask("signals.publish", topic="up")
    after = None
    turns = 0
    with pytest.raises(QuotaExceeded):
        while turns < 50:
            host.publish("down", owner="ann", after=after)
            host.deliver()
            (after,) = host.signals("ann").signals
            turns += 1
    assert turns == 4


@pytest.mark.parametrize(
    "how", ["revoked", "disabled", "quarantined", "expired", "removed", "less", "asks more", "publishes only"]
)
def test_the_policy_of_the_moment(how: str, host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """What waits for a plugin that may not have it by then reaches it not, then or later; that is on record."""
    topics = wish(["out"], ["news", "none"], ("*", "on"))
    add(host, base, "b", topics)
    if how == "expired":
        host.grant("b", owner="ann", all=True, expires=time.time() + 0.3)
    guests.methods["b.on"] = lambda _, given: given
    assert host.publish("news", owner="ann").queued == 1
    if how == "revoked":
        host.revoke("b", owner="ann")
    elif how == "disabled":
        host.disable("b")
    elif how == "quarantined":
        host.quarantine("b")
    elif how == "expired":
        time.sleep(0.35)
    elif how == "removed":
        host.remove("b")
    elif how == "less":
        host.grant("b", owner="ann", allowed=[SignalsScope(subscribe=("none",))])
    elif how == "publishes only":
        host.grant("b", owner="ann", allowed=[SignalsScope(publish=("out",))])
    else:
        add(host, base, "b", topics, {"kind": "storage", "quota": 10, "reason": "x"}, owner="", version="2.0.0")
    assert host.deliver() == []
    if how not in ("revoked", "removed"):
        (row,) = rows(base, op="deliver")
        code = "disabled" if how in ("disabled", "quarantined") else "expired" if how == "expired" else "not_granted"
        assert (row.plugin, row.owner, row.decision, row.code) == ("b", "ann", "refused", code)
        assert [queue.dropped for queue in host.signal_queues("ann")] == [1]
    if how == "quarantined":
        host.disable("b")
    if how in ("disabled", "quarantined"):
        host.enable("b")
    elif how == "removed":
        add(host, base, "b", topics, version="3.0.0")
    else:
        host.grant("b", owner="ann", all=True)
    assert host.deliver() == []
    assert host.publish("news", owner="ann").queued == 1
    assert len(host.deliver()) == 1


def test_an_upgrade_that_asks_for_no_more(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """What waited is handed to the new files, whose own manifest says to which method."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    host.publish("news", owner="ann")
    source = package(
        base.parent / "new", "x = 2\n", [wish([], ["news"])], id="b", version="2.0.0", methods=["go", "on"]
    )
    host.install(source, upgrade=True)
    # It names none: it waits until it is taken.
    assert host.deliver() == []
    assert [queue.waiting for queue in host.signal_queues()] == [1]
    guests.methods["b.go"] = lambda ask, _: [one["topic"] for one in ask("signals.take")["signals"]]
    assert host.invoke("b", "go", owner="ann").value == ["news"]


def test_owners(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """What one's plugins are told is handed over for them alone, and another owner's stays."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    host.grant("b", owner="bob", all=True)
    guests.methods["b.on"] = lambda _, given: given["signal"]["data"]
    assert host.publish("news", "for ann", owner="ann").queued == 1
    assert host.publish("news", "for bob", owner="bob").queued == 1
    assert host.publish("news", "for eve", owner="eve").queued == 0
    assert [(made.owner, made.result and made.result.value) for made in host.deliver(owner="bob")] == [
        ("bob", "for bob")
    ]
    assert [queue.owner for queue in host.signal_queues() if queue.waiting] == ["ann"]
    assert [made.owner for made in host.deliver()] == ["ann"]


def test_no_more_than_so_many(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    guests.methods["b.on"] = lambda _, given: given["signal"]["data"]
    for number in range(30):
        host.publish("news", number, owner="ann")
    found = [made.result.value for made in host.deliver(most=20) if made.result is not None]
    assert found == list(range(20))
    assert len(host.deliver()) == 10


@pytest.mark.parametrize(
    "error", [BackendError("s", "c", "h"), TierUnavailable("isolated", reason="x")], ids=["host", "tier"]
)
def test_a_host_that_cannot(error: Exception, host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """It raises, and the signal waits for the next that can."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    guests.methods["b.on"] = lambda _, given: given["signal"]["data"]
    host.publish("news", 1, owner="ann")
    guests.error = error
    with pytest.raises(type(error)):
        host.deliver()
    guests.error = None
    assert [made.result and made.result.value for made in host.deliver()] == [1]


def test_a_call_that_is_broken_off_again_and_again(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """It may be the signal's doing: after three times it is dropped, which is on record, and the next has its turn."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    guests.methods["b.on"] = lambda _, given: given["signal"]["data"]
    for number in (1, 2):
        host.publish("news", number, owner="ann")
    guests.error = TierUnavailable("isolated", reason="x")
    for _ in range(5):
        with pytest.raises(TierUnavailable):
            host.deliver()
    guests.error = BackendError("collecting the run's files", "c", "h")
    for _ in range(3):
        with pytest.raises(BackendError):
            host.deliver()
    assert [(row.decision, row.code) for row in rows(base, op="deliver")][-1] == ("refused", "failed")
    guests.error = None
    assert [made.result and made.result.value for made in host.deliver()] == [2]
    assert host.signal_queues()[0].dropped == 1


def test_what_is_no_doing_of_the_host(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """A call that is refused, for whatever reason of its own, uses the signal up; the reason is told and on record."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    host.publish("news", 1, owner="ann")
    guests.error = QuotaExceeded("no processor time is left")
    (made,) = host.deliver()
    assert (made.result, made.refused) == (None, "no processor time is left")
    assert rows(base, op="deliver")[-1].code == "quota"
    assert host.deliver() == []
    assert host.signal_queues()[0].dropped == 1


def test_it_survives_the_host(base: Path, guests: Guests) -> None:
    """What waits when a host ends is handed over by the next."""
    with fastness.PluginHost() as host:
        add(host, base, "b", wish([], ["news"], ("*", "on")))
        host.publish("news", "kept", owner="ann")
    guests.methods["b.on"] = lambda _, given: given["signal"]["data"]
    with fastness.PluginHost() as host:
        host._inner._runner = guests  # type: ignore[assignment]  # as above
        assert [made.result and made.result.value for made in host.deliver()] == ["kept"]


def test_serving(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """Until it is told to stop: what comes from this host, from another, and what that leads to."""
    add(host, base, "b", wish(["out"], ["news"], ("*", "on")))
    had: list[Any] = []
    both = threading.Event()

    def on(ask: Ask, given: dict[str, Any]) -> None:
        had.append(given["signal"]["data"])
        ask("signals.publish", topic="out", data=given["signal"]["data"])
        if len(had) == 2:
            both.set()

    guests.methods["b.on"] = on
    stop = threading.Event()
    serving = threading.Thread(target=host.serve_signals, args=(stop,))
    serving.start()
    try:
        host.publish("news", "here", owner="ann")
        with fastness.PluginHost() as other:
            other.publish("news", "there", owner="ann")
        assert both.wait(20)
    finally:
        stop.set()
        serving.join(20)
    assert not serving.is_alive()
    assert sorted(had) == ["here", "there"]
    assert sorted(one.data for one in host.signals("ann", ["o*"]).signals) == ["here", "there"]


def test_a_slow_one_holds_up_itself(host: fastness.PluginHost, base: Path, guests: Guests) -> None:
    """While one plugin's method goes on, what waits for another one is handed over; its own waits."""
    for id in ("slow", "quick"):
        add(host, base, id, wish([], ["news"], ("*", "on")))
    go_on, heard, begun = threading.Event(), threading.Event(), threading.Event()
    had: list[int] = []

    def slow(_: Ask, given: dict[str, Any]) -> None:
        had.append(given["signal"]["data"])
        begun.set()
        assert go_on.wait(20)

    guests.methods["slow.on"] = slow
    guests.methods["quick.on"] = lambda _, given: heard.set() if given["signal"]["data"] == 2 else None
    stop = threading.Event()
    serving = threading.Thread(target=host.serve_signals, args=(stop,))
    serving.start()
    try:
        for number in range(3):
            host.publish("news", number, owner="ann")
        assert heard.wait(20)
        assert begun.wait(20)
        assert had == [0]
        # What goes on when it is told to stop comes to its end, and nothing else is begun.
        stop.set()
        host.publish("news", 3, owner="ann")
        time.sleep(0.7)
        assert serving.is_alive()
    finally:
        stop.set()
        go_on.set()
        serving.join(20)
    assert not serving.is_alive()
    assert had == [0]
    assert {queue.plugin: queue.waiting for queue in host.signal_queues()}["slow"] == 3


def test_many_that_wait_keep_no_other_waiting(
    host: fastness.PluginHost, base: Path, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where more wait than have a place, whoever has one gives it up before all that waits for it is handed over."""
    monkeypatch.setattr(signalling, "_AT_ONCE", 1)
    monkeypatch.setattr(signalling, "_PLACE_S", 0.0)
    had: list[str] = []
    for id in ("first", "second", "third"):
        add(host, base, id, wish([], ["news"], ("*", "on")))
        guests.methods[f"{id}.on"] = partial(lambda name, *_: had.append(name), id)
    for _ in range(5):
        host.publish("news", owner="ann")
    stop = threading.Event()
    serving = threading.Thread(target=host.serve_signals, args=(stop,))
    serving.start()
    try:
        ends = time.monotonic() + 20
        while len(had) < 15 and time.monotonic() < ends:
            time.sleep(0.01)
    finally:
        stop.set()
        serving.join(20)
    assert had == ["first", "second", "third"] * 5


def test_serving_where_the_host_cannot(
    host: fastness.PluginHost, base: Path, guests: Guests, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and tried again."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    heard, stop = threading.Event(), threading.Event()
    guests.methods["b.on"] = lambda _, given: heard.set()
    guests.error = BackendError("starting a guest", "no room", "make some")
    serving = threading.Thread(target=host.serve_signals, args=(stop,))
    serving.start()
    try:
        host.publish("news", owner="ann")
        ends = time.monotonic() + 20
        while "no room" not in caplog.text and time.monotonic() < ends:
            time.sleep(0.01)
        guests.error = None
        assert heard.wait(20)
    finally:
        stop.set()
        serving.join(20)
    assert "signals wait that cannot be handed over: " in caplog.text


def test_on_a_loop(base: Path, guests: Guests) -> None:
    """The same as coroutines; a task that serves ends when it is cancelled."""

    async def main() -> None:
        async with fastness.AsyncPluginHost() as host:
            host._runner = guests  # type: ignore[assignment]  # as above
            source = package(base.parent / "b", "x = 1\n", [wish([], ["news"], ("*", "on"))], id="b", methods=["on"])
            await host.install(source)
            await host.grant("b", owner="ann", all=True)
            called = asyncio.Event()
            guests.methods["b.on"] = lambda _, given: called.set()
            assert (await host.publish("news", owner="ann")).queued == 1
            assert len(await host.deliver(owner="ann")) == 1
            called.clear()
            task = asyncio.create_task(host.serve_signals())
            await host.publish("news", owner="ann")
            await asyncio.wait_for(called.wait(), 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await host.signals("ann")).signals == ()
            assert host.signal_queues() == []
            await host.publish("news", owner="ann")
            assert await host.erase_signals("ann") == 1

    asyncio.run(main())
    assert rows(base, op="erase")[0].target == "signals: 1"


def test_a_plugin_of_data(host: fastness.PluginHost, base: Path) -> None:
    """What a program does because of its data it does under that plugin's policy."""
    add(host, base, "b", wish([], ["news"], ("*", "on")))
    source = package(base.parent / "words", {"a.txt": "one"}, [wish(["news"], ["more"])], id="words", runtime="data")
    host.install(source)
    host.grant("words", owner="ann", all=True)
    assert host.call("words", "signals.publish", {"topic": "news"}, owner="ann") == {"queued": 2, "dropped": 0}
    host.publish("more", [1], owner="ann")
    assert host.call("words", "signals.take", owner="ann")["signals"][0]["data"] == [1]
    with pytest.raises(Denied):
        host.call("words", "signals.publish", {"topic": "other"}, owner="ann")


def test_methods_that_a_manifest_has_not(host: fastness.PluginHost, base: Path) -> None:
    """A handler names a method of its plugin, and the manifest says so before anybody grants it."""
    for method in ("nope", "*"):
        source = package(base.parent / f"p{len(method)}", "x = 1\n", [wish([], ["a"], ("a", method))], methods=["go"])
        with pytest.raises(ManifestError, match=r"signals names .*, which is none of its methods"):
            host.install(source)


def test_a_ceiling(base: Path, guests: Guests) -> None:
    """An operator bounds topics and whether methods are called, whatever they are named."""
    scopes = (SignalsScope(subscribe=("news.*",), handlers=(Handler(topic="news.a", method="*"),), queue=2),)
    with fastness.PluginHost(ceiling=fastness.Ceiling(tiers=("isolated",), scopes=scopes)) as host:
        host._inner._runner = guests  # type: ignore[assignment]  # as above
        add(host, base, "b", wish([], ["*"], ("news.a", "on"), ("news.b", "on")))
        assert [host.publish(f"news.{topic}", owner="ann").queued for topic in "ab"] == [1, 0]
        assert host.publish("other", owner="ann").queued == 0
        guests.methods["b.on"] = lambda _, given: given["signal"]["topic"]
        assert [made.result and made.result.value for made in host.deliver()] == ["news.a"]


@pytest.mark.parametrize("topic", ["", "A", "a b", "*", "a..b", "x" * 200, 5, None])
def test_topics_of_a_program(topic: Any, host: fastness.PluginHost) -> None:
    with pytest.raises(ConfigurationError, match="topic"):
        host.publish(topic, owner="ann")


def test_a_text_in_place_of_topics(host: fastness.PluginHost) -> None:
    """It would be read letter by letter, and find nothing without a word."""
    with pytest.raises(ConfigurationError, match="a list of patterns"):
        host.signals("ann", "news")


def test_arguments_that_are_none(host: fastness.PluginHost) -> None:
    for call in (
        lambda: host.publish("a", owner=""),
        lambda: host.signals("ann", ["a b"]),
        lambda: host.signals("ann", most=0),
        lambda: host.deliver(most=0),
        lambda: host.deliver(owner="a\u200bb"),
        lambda: host.erase_signals(" "),
    ):
        with pytest.raises(ConfigurationError):
            call()
    with pytest.raises(Denied, match="too_large"):
        host.publish("a", "x" * (70 << 10), owner="ann")


def test_an_adapter_of_the_caller_s(base: Path) -> None:
    """One that only answers guests sends nothing for the program, and that is said."""

    class Other:
        from fastness.capabilities.signals import SPEC as spec

        async def call(self, operation: str, arguments: Any, context: Any) -> None:
            return None

        async def aclose(self) -> None:
            return None

    with fastness.PluginHost(adapters={"signals": Other()}) as host:
        with pytest.raises(ConfigurationError, match="one with a method publish"):
            host.publish("a", owner="ann")
        add(host, base, "b", wish([], ["news"]))
        host.revoke("b", owner="ann")
        with pytest.raises(GrantError):
            host.invoke("b", "go", owner="ann")
