"""The capability ``integrations``: which actions there are, who may ask for them, how often, and what they may answer."""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import listeners
import mails
from fastness.broker.gate import Allowed, Gate
from fastness.capabilities import _integration_entries, registry
from fastness.capabilities.integrations import SPEC, Counts, Credential, Email, Integrations, IntegrationsScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, ConfigurationError, Denied, QuotaExceeded
from fastness.runs import DenialCode
from fastness.testing import Case, check_capability

KEY = "key-held-by-the-host-0123456789"


@pytest.fixture(autouse=True)
def _only_here() -> Iterator[None]:
    with listeners.nothing_leaves():
        yield


class Open(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ticket."""

    project: str
    title: str = ""


class Tickets:
    """An integration of an operator's: it keeps what it was asked, and answers as it is told."""

    name = "tickets.open"
    arguments: type[msgspec.Struct] = Open
    summary = "Open a ticket."

    def __init__(self, credential: Credential | None = None, **changes: Any) -> None:
        self.credential = credential
        self.asked: list[Any] = []
        self.answer: Any = {"number": 1}
        for name, value in changes.items():
            setattr(self, name, value)

    def targets(self, arguments: Any) -> Sequence[str]:
        return [arguments.project]

    async def run(self, arguments: Any, context: CallContext) -> Any:
        if self.credential is not None:
            await self.credential.value()
        self.asked.append(arguments)
        context.effect = True
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def aclose(self) -> None:
        self.asked.clear()


SCOPE = IntegrationsScope(actions=("tickets.open",), per_day=10, targets=("tickets.open:support-*",))


def made(base: Path, *some: Any, **how: Any) -> Integrations:
    return Integrations(some or [Tickets()], Counts(str(base / "counts.db")), **how)


def ask(
    adapter: Integrations, scope: IntegrationsScope = SCOPE, *, action: str = "tickets.open", seconds: float = 10.0,
    owner: str = "o", **arguments: Any,
) -> Any:  # fmt: skip
    found = adapter.spec.operation(action)
    assert found is not None
    decoded = msgspec.convert({"project": "support-1", **arguments}, found.arguments, strict=True)
    context = CallContext(plugin="p", owner=owner, run="r", scope=scope, deadline=time.monotonic() + seconds)
    return asyncio.run(adapter.call(action, decoded, context))


# what there is


def test_what_a_gate_offers(tmp_path: Path) -> None:
    """What is granted and done by somebody; what nobody does is refused as that, what is not granted as that."""
    adapter = made(tmp_path, Tickets(), Tickets(name="tickets.close"))
    scope = IntegrationsScope(actions=("tickets.open", "email.send", "sms.send"), per_day=1, recipients=("*",))
    gate = Gate({"integrations": scope}, {"integrations": SPEC}, {"integrations": adapter})
    assert [(kind, one.name) for kind, one in gate.operations()] == [("integrations", "tickets.open")]
    assert isinstance(gate.decide("integrations", "tickets.open"), Allowed)
    codes = {
        action: gate.decide("integrations", action).code  # type: ignore[union-attr]  # they are refusals
        for action in ("email.send", "sms.send", "tickets.close", "tickets.drop", "email", "")
    }
    assert codes == {
        "email.send": DenialCode.NO_ADAPTER,
        "sms.send": DenialCode.NO_ADAPTER,
        "tickets.close": DenialCode.NOT_GRANTED,
        "tickets.drop": DenialCode.NOT_GRANTED,
        "email": DenialCode.NOT_GRANTED,
        "": DenialCode.NOT_GRANTED,
    }
    without = Gate({"integrations": scope}, {"integrations": SPEC}, {})
    assert without.operations() == []
    assert without.decide("integrations", "tickets.open").code is DenialCode.NO_ADAPTER  # type: ignore[union-attr]  # as above


@pytest.mark.parametrize(
    ("scope", "code"),
    [
        (IntegrationsScope(), "not_granted"),
        (IntegrationsScope(actions=("tickets.open",)), "not_granted"),
        (IntegrationsScope(actions=("tickets.open",), per_day=5), "not_granted"),
        (IntegrationsScope(actions=("tickets.open",), per_day=5, targets=("tickets.close:*",)), "not_granted"),
        (IntegrationsScope(actions=("tickets.open",), per_day=5, targets=("tickets.open:support",)), "not_granted"),
        (IntegrationsScope(actions=("tickets.close",), per_day=5, targets=("tickets.open:*",)), "not_granted"),
        (IntegrationsScope(actions=("tickets.open",), per_day=5, targets=("tickets.open:*",), message_bytes=5), "too_large"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_not_granted(scope: IntegrationsScope, code: str, tmp_path: Path) -> None:
    """An empty list denies; the adapter looks too, whoever asks it."""
    tickets = Tickets()
    with pytest.raises(Denied) as raised:
        ask(made(tmp_path, tickets), scope)
    assert raised.value.code.value == code
    assert tickets.asked == []


def test_an_action(tmp_path: Path) -> None:
    """Its answer is the integration's; the record names what it acts on."""
    tickets = Tickets()
    adapter = made(tmp_path, tickets)
    assert ask(adapter, title="help") == {"number": 1}
    assert tickets.asked == [Open("support-1", "help")]
    operation = adapter.spec.operation("tickets.open")
    assert operation is not None
    assert (operation.target(Open("support-1", "secret")), operation.leaves) == ("support-1", True)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "tickets"}, "a name such as"),
        ({"name": "Tickets.open"}, "a name such as"),
        ({"name": "tickets.import"}, "a name such as"),
        ({"name": "__proto__.x"}, "a name such as"),
        ({"name": "a.b.c"}, "a name such as"),
        ({"name": "email.send"}, "that of Send"),
        ({"arguments": dict}, "msgspec.Struct"),
        ({"arguments": msgspec.defstruct("Loose", ["a"])}, "frozen"),
        ({"run": None}, "method run"),
        ({"targets": None}, "method targets"),
        ({"summary": None}, "a line"),
        ({"credential": "secret"}, "Credential"),
    ],
    ids=str,
)
def test_what_is_no_integration(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    """It is told to whoever brings it, before any plugin runs."""
    with pytest.raises(ConfigurationError, match=words):
        made(tmp_path, Tickets(**changes))


# how often


def test_how_many_a_day(tmp_path: Path) -> None:
    """So many for each owner, in whichever process, and again the next day."""
    tickets = Tickets()
    now = [1_000_000.0]
    adapter = Integrations([tickets], Counts(str(tmp_path / "counts.db"), clock=lambda: now[0]))
    for _ in range(10):
        ask(adapter)
    with pytest.raises(QuotaExceeded, match="no more than 10 a day"):
        ask(adapter)
    assert len(tickets.asked) == 10
    ask(adapter, owner="other")
    code = (
        "import sys; from fastness.capabilities._integration_counts import Counts\n"
        "c = Counts(sys.argv[1], clock=lambda: 1e6)\n"
        "try: c.take('p', 'o', 1, 10)\nexcept Exception as e: print(type(e).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "counts.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "QuotaExceeded\n"
    now[0] += 86_400
    ask(adapter)
    # A clock that is set back finds the day as it was.
    now[0] -= 86_400
    with pytest.raises(QuotaExceeded):
        ask(adapter)


def test_many_at_once(tmp_path: Path) -> None:
    """No number of callers at once passes the ceiling."""
    counts = Counts(str(tmp_path / "counts.db"))
    went: list[bool] = []

    def take() -> None:
        for _ in range(5):
            try:
                counts.take("p", "o", 3, 40)
                went.append(True)
            except QuotaExceeded:
                went.append(False)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert went.count(True) == 13


def test_what_failed_counts(tmp_path: Path) -> None:
    """Whether another's integration had its effect is not known here."""
    adapter = made(tmp_path, Tickets(answer=AdapterError("it was down")))
    for _ in range(10):
        with pytest.raises(AdapterError, match="it was down"):
            ask(adapter)
    with pytest.raises(QuotaExceeded):
        ask(adapter)


def test_counts_that_cannot_be_kept(tmp_path: Path) -> None:
    """Then nothing is done."""
    tickets = Tickets()
    adapter = made(tmp_path, tickets)
    (tmp_path / "counts.db").write_bytes(b"no database, and longer than the header of one" * 10)
    with pytest.raises(AdapterError, match="cannot be counted"):
        ask(adapter)
    assert tickets.asked == []


# what comes back


def key_file(base: Path, text: str = KEY) -> str:
    path = base / "key"
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


@pytest.mark.parametrize(
    "answer",
    [
        KEY,
        {"a": [KEY, {"b": f"x{KEY}y"}]},
        {KEY: 1},
        base64.b64encode(b"id:" + KEY.encode()).decode(),
        KEY.encode(),
        KEY.encode().hex(),
        AdapterError(f"wrong: {KEY}"),
        Denied(DenialCode.HOST, KEY),
        QuotaExceeded(KEY),
        ValueError(KEY),
        type(KEY, (Exception,), {})(),
    ],
    ids=lambda value: f"{type(value).__name__}-{value!s:.12}",
)
def test_a_credential_in_an_answer(answer: Any, tmp_path: Path) -> None:
    """It is not in what comes back, nor in what is raised."""
    adapter = made(tmp_path, Tickets(Credential(key_file(tmp_path)), answer=answer))
    try:
        said = repr(ask(adapter))
    except (AdapterError, Denied, QuotaExceeded) as error:
        said = f"{error!s} {error!r} {getattr(error, 'target', '')}"
    for form in (KEY, base64.b64encode(b"id:" + KEY.encode()).decode()[8:24], KEY.encode().hex()):
        assert form not in said


@pytest.mark.parametrize(
    "error",
    [AdapterError(KEY), Denied(DenialCode.HOST, KEY), type(KEY, (Exception,), {})()],
    ids=lambda error: type(error).__name__,
)
def test_a_credential_in_what_targets_raises(error: Exception, tmp_path: Path) -> None:
    """That is told as what the action itself raises is."""

    class Careless(Tickets):
        def targets(self, arguments: Any) -> Sequence[str]:
            raise error

    credential = Credential(key_file(tmp_path))
    asyncio.run(credential.value())
    with pytest.raises((AdapterError, Denied)) as raised:
        ask(made(tmp_path, Careless(credential)))
    assert KEY not in f"{raised.value!s} {raised.value!r}"


def test_a_credential_that_changes(tmp_path: Path) -> None:
    """It is read again, and the one before is looked for too; one that cannot be read ends calls."""
    credential = Credential(key_file(tmp_path))
    assert asyncio.run(credential.value()) == KEY
    key_file(tmp_path, "another-key-of-the-host-0123456789")
    assert asyncio.run(credential.value()).startswith("another")
    assert KEY not in credential.clean(f"{KEY} another-key-of-the-host-0123456789")
    assert "another" not in credential.clean("another-key-of-the-host-0123456789")
    (tmp_path / "key").chmod(0o644)
    with pytest.raises(AdapterError, match="cannot be read") as raised:
        asyncio.run(credential.value())
    assert str(tmp_path) not in str(raised.value)
    for text in ("short", "has a space in it", "two\nlines-of-it", "", "ä" * 20):
        key_file(tmp_path, text)
        with pytest.raises(AdapterError, match="cannot be read"):
            asyncio.run(credential.value())


def test_one_that_never_ends(tmp_path: Path) -> None:
    """One deadline bounds the call."""

    class Slow(Tickets):
        async def run(self, arguments: Any, context: CallContext) -> Any:
            await asyncio.sleep(60)

    with pytest.raises(AdapterError, match="did not end in time"):
        ask(made(tmp_path, Slow(), call_s=0.05))


def test_one_that_breaks_off(tmp_path: Path) -> None:
    """What it waits for was cancelled, and nobody cancelled the call: it fails, and is no call without an answer."""
    with pytest.raises(AdapterError, match="broke off"):
        ask(made(tmp_path, Tickets(answer=asyncio.CancelledError())))

    class Slow(Tickets):
        async def run(self, arguments: Any, context: CallContext) -> Any:
            await asyncio.sleep(60)

    async def cancelled() -> None:
        context = CallContext(plugin="p", owner="o", run="r", scope=SCOPE, deadline=time.monotonic() + 20)
        task = asyncio.create_task(made(tmp_path, Slow()).call("tickets.open", Open("support-1"), context))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())


def test_one_that_fails(tmp_path: Path) -> None:
    """Its words name nothing of the host."""
    with pytest.raises(AdapterError) as raised:
        ask(made(tmp_path, Tickets(answer=OSError("/srv/secret"))))
    assert str(raised.value) == "tickets.open failed (OSError)"


# scopes


def test_scopes() -> None:
    """Recipients are kept as they are compared; what is no name, address or pattern is refused."""
    assert IntegrationsScope(recipients=("A@Example.COM", "EXAMPLE.com")).recipients == ("A@example.com", "example.com")
    for fields in (
        {"actions": ("email",)}, {"actions": ("*",)}, {"actions": ("email.*",)}, {"recipients": ("a b",)}, {"recipients": ("*@example.com",)},
        {"recipients": ("",)}, {"targets": ("support",)}, {"targets": ("tickets.open:",)}, {"targets": ("x:y",)}, {"recipients": ("ann@*.test",)},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"actions|recipients|targets"):
            IntegrationsScope(**fields)  # type: ignore[arg-type]  # of several fields


SCOPES = st.builds(
    IntegrationsScope,
    actions=st.lists(st.sampled_from(["email.send", "tickets.open", "sms.send"]), max_size=3).map(tuple),
    per_day=st.sampled_from([0, 1, 5]),
    message_bytes=st.sampled_from([1, 1000]),
    recipients=st.lists(st.sampled_from(["*", "a@x.test", "x.test", "*.x.test", "y.test"]), max_size=3).map(tuple),
    targets=st.lists(st.sampled_from(["tickets.open:*", "tickets.open:a*", "tickets.open:*b", "sms.send:1"]), max_size=3).map(
        tuple
    ),
)  # fmt: skip


@given(SCOPES, SCOPES)
def test_scopes_that_meet(one: IntegrationsScope, other: IntegrationsScope) -> None:
    """What two have in common exceeds neither, and is nothing where it allows nothing."""
    both = SPEC.meet(one, other)
    assert both == SPEC.meet(one, other)
    if both is None:
        return
    assert SPEC.exceeds(both, one) == SPEC.exceeds(both, other) == []
    assert SPEC.offered is not None
    assert set(SPEC.offered(both)) <= set(SPEC.offered(one)) & set(SPEC.offered(other))
    assert SPEC.offered(both)
    assert SPEC.meet(both, one) == both or SPEC.exceeds(both, SPEC.meet(both, one)) == []


def test_in_words() -> None:
    """What it lets a plugin do, and what it asks beyond what was granted."""
    scope = IntegrationsScope(
        actions=("email.send", "tickets.open"), per_day=5, recipients=("ann@x.test", "y.test", "*.z.test"), targets=("tickets.open:a*",)
    )  # fmt: skip
    risk = SPEC.risk(scope)
    for word in ("ann@x.test", "anybody at y.test", "anybody below z.test", "tickets.open", "5 times a day"):
        assert word in risk
    assert "anybody." in SPEC.risk(IntegrationsScope(actions=("email.send",), per_day=1, recipients=("*",)))
    assert SPEC.risk(IntegrationsScope(actions=("email.send",), per_day=5)) == "It can ask no integration for anything."
    had = IntegrationsScope(actions=("email.send",), per_day=4, recipients=("y.test",), message_bytes=10)
    assert SPEC.exceeds(scope, had) == [
        "do tickets.open", "have up to 5 effects a day for each owner", "calls of up to 256 KiB", "send mail to ann@x.test",
        "send mail to anybody below z.test", "do tickets.open to a*",
    ]  # fmt: skip


# where they are from


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of other distributions are used where the operator names them, and nothing of the rest is imported."""
    found = [importlib.metadata.EntryPoint(name, value, _integration_entries.GROUP) for name, value in (
        ("tickets.open", f"{__name__}:TICKETS"), ("other.name", f"{__name__}:TICKETS"), ("broken.one", "no.such.module:X"),
        ("twice.here", "a:X"), ("twice.here", "b:X"),
    )]  # fmt: skip
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [e for e in found if e.group == group])
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    assert list(_integration_entries.used(["tickets.open"])) == [TICKETS]
    assert list(_integration_entries.used([])) == []
    for name, words in (
        ("gone.one", "that installed packages bring"),
        ("broken.one", "can be imported"),
        ("other.name", "of the name of its action"),
        ("twice.here", "from one place"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            list(_integration_entries.used([name]))


TICKETS = Tickets()


def test_the_kit(tmp_path: Path) -> None:
    """It keeps to what every capability must keep to."""
    server = mails.Mails()
    try:
        adapters = iter(range(1000))

        def adapter() -> Integrations:
            counts = Counts(str(tmp_path / f"counts-{next(adapters)}.db"))
            return Integrations([Email(server.settings())], counts)

        scope = IntegrationsScope(actions=("email.send",), per_day=5, recipients=("example.com",))
        given = {"to": "ann@example.com", "subject": "SUBJECT", "text": "PAYLOAD"}
        cases = [
            Case(operation="email.send", arguments=given, scope=scope, payloads=("SUBJECT", "PAYLOAD")),
            Case(operation="email.send", arguments={**given, "to": "eve@evil.test"}, scope=scope, code="not_granted"),
            Case(operation="email.send", arguments={**given, "to": "x"}, scope=scope, code="unsupported"),
            Case(operation="email.send", arguments={**given, "subject": "a\nb"}, scope=scope, code="header"),
            Case(operation="email.send", arguments={**given, "to": [f"a{n}@example.com" for n in range(6)]}, scope=scope, code="quota"),
        ]  # fmt: skip
        assert asyncio.run(check_capability(adapter, cases, hidden=["127.0.0.1", str(server.port)])) == []
    finally:
        server.close()
    assert registry.specs()["integrations"] is SPEC
