"""The conformance kit for capabilities: every adapter of ours passes it, and each kind of fault is found by it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fastness import conformance_calls
from fastness.capabilities.fs import Fs, FsScope
from fastness.capabilities.storage import Storage, StorageScope
from fastness.capability import CallContext, Later, Operation, Scope, Spec
from fastness.errors import AdapterError, Denied
from fastness.runs import DenialCode
from fastness.testing import Case, check_capability


def check(*arguments: Any, **options: Any) -> list[str]:
    return asyncio.run(check_capability(*arguments, **options))


# ours


def tree(top: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(top)): path.read_bytes() if path.is_file() else None for path in top.rglob("*")}


def test_fs(tmp_path: Path) -> None:
    """Reads, writes, listings; refusals, missing files, quotas; nothing half written when cancelled."""
    top = tmp_path / "secret-place"

    def make() -> Fs:
        shutil.rmtree(top, ignore_errors=True)
        (top / "sub").mkdir(parents=True)
        (top / "a.txt").write_bytes(b"old")
        (top / "link").symlink_to("/etc/passwd")
        return Fs(top)

    both, reads = FsScope(read=True, write=True), FsScope(read=True)
    big = "PAYLOAD" * 50_000
    cases = [
        Case(operation="read", arguments={"path": "a.txt"}, scope=reads),
        Case(operation="list", arguments={}, scope=reads),
        Case(operation="stat", arguments={"path": "sub"}, scope=reads),
        Case(operation="stat", arguments={"path": "gone"}, scope=reads),
        Case(operation="write", arguments={"path": "a.txt", "data": big}, scope=both, payloads=("PAYLOAD",)),
        Case(operation="write", arguments={"path": "sub/new", "data": b"PAYLOAD"}, scope=both, payloads=("PAYLOAD",)),
        Case(operation="delete", arguments={"path": "a.txt"}, scope=both),
        Case(operation="delete", arguments={"path": "sub"}, scope=both),
        Case(operation="mkdir", arguments={"path": "sub/deeper"}, scope=both),
        Case(operation="read", arguments={"path": "gone"}, scope=reads, code="absent"),
        Case(operation="read", arguments={"path": "../x"}, scope=reads, code="escape"),
        Case(operation="read", arguments={"path": "/etc/passwd"}, scope=reads, code="escape"),
        Case(operation="read", arguments={"path": "link"}, scope=reads, code="escape"),
        Case(operation="read", arguments={"path": "sub"}, scope=reads, code="failed"),
        Case(operation="write", arguments={"path": "x", "data": b""}, scope=reads, code="read_only"),
        Case(operation="write", arguments={"path": "x", "data": 5}, scope=both, code="failed"),
        Case(operation="write", arguments={"path": "x", "data": b"12"}, scope=FsScope(write=True, call_bytes=1), code="too_large"),
        Case(operation="write", arguments={"path": "x", "data": b"1"}, scope=FsScope(write=True, run_bytes=1), code="quota"),
    ]  # fmt: skip
    assert check(make, cases, hidden=["secret-place"], state=lambda: tree(top)) == []


def test_a_root_that_is_gone(tmp_path: Path) -> None:
    """Its name is not told either."""
    cases = [Case(operation="list", arguments={}, scope=FsScope(read=True), code="failed")]
    assert check(lambda: Fs(tmp_path / "secret-place"), cases, hidden=["secret-place"]) == []


def test_storage(tmp_path: Path) -> None:
    """The same for keys and values."""
    path = tmp_path / "secret-place" / "storage.db"

    def make() -> Storage:
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(mode=0o700)
        made = Storage(str(path))
        with made._database.writing() as connection:
            connection.execute("INSERT INTO items VALUES ('check', 'somebody', X'61', 0, X'01')")
            connection.execute("INSERT INTO used VALUES ('check', 'somebody', 130)")
        made._database.close()
        return made

    def state() -> list[Any]:
        with sqlite3.connect(path) as connection:
            found = [*connection.execute("SELECT * FROM items ORDER BY key"), *connection.execute("SELECT * FROM used")]
        connection.close()
        return found

    some = StorageScope(quota=1000)
    cases = [
        Case(operation="get", arguments={"key": "a"}, scope=some),
        Case(operation="get", arguments={"key": "gone"}, scope=some),
        Case(operation="put", arguments={"key": "a", "value": {"x": ["PAYLOAD"]}}, scope=some, payloads=("PAYLOAD",)),
        Case(operation="put", arguments={"key": "b", "value": b"PAYLOAD"}, scope=some, payloads=("PAYLOAD",)),
        Case(operation="delete", arguments={"key": "a"}, scope=some),
        Case(operation="list", arguments={"prefix": "a"}, scope=some),
        Case(operation="put", arguments={"key": "b", "value": b"x" * 1000}, scope=some, code="quota"),
        Case(operation="put", arguments={"key": "b", "value": b"12"}, scope=StorageScope(quota=1000, value_bytes=1), code="too_large"),
        Case(operation="put", arguments={"key": "\udc00", "value": 1}, scope=some, code="unsupported"),
        Case(operation="put", arguments={"key": "é" * 400, "value": 1}, scope=some, code="too_large"),
    ]  # fmt: skip
    assert check(make, cases, hidden=["secret-place"], state=state) == []


@pytest.mark.parametrize("what", ["folder", "no database", "gone"])
def test_a_storage_that_cannot_be_used(what: str, tmp_path: Path) -> None:
    """An error without the host's words."""
    path = tmp_path / "secret-place" / "storage.db"
    if what != "gone":
        path.parent.mkdir()
    if what == "folder":
        path.mkdir()
    elif what == "no database":
        path.write_bytes(b"x" * 5000)
        path.chmod(0o600)
    cases = [Case(operation="get", arguments={"key": "a"}, scope=StorageScope(quota=1), code="failed")]
    assert check(lambda: Storage(str(path)), cases, hidden=["secret-place"]) == []


# faults, each made on purpose


class Some(Scope, frozen=True, tag="some"):
    amount: int = 0


class Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""


class Loose(msgspec.Struct):
    text: str = ""


class Good:
    """An adapter without faults: adds up what it is told."""

    def __init__(self, **changes: Any) -> None:
        self.total = 0
        self.spec = Spec(
            **{
                "kind": "some",
                "scope": Some,
                "operations": (
                    Operation(name="add", arguments=Arguments, target=lambda a: "total", summary="Add one."),
                ),
                "meet": lambda a, b: Some(amount=min(a.amount, b.amount)) if min(a.amount, b.amount) else None,
                "exceeds": lambda a, b: ["more"] if a.amount > b.amount else [],
                "risk": lambda s: "It adds.",
                "enforced": ("It only adds.",),
                **changes,
            }
        )

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        if operation != "add":
            raise Denied(DenialCode.UNSUPPORTED, operation)
        if not context.scope.amount:
            raise Denied(DenialCode.NOT_GRANTED)
        return await self.work()

    async def work(self) -> Any:
        await asyncio.sleep(0)
        self.total += 2
        return self.total

    async def aclose(self) -> None:
        return None


CASE = Case(operation="add", arguments={"text": "PAYLOAD"}, scope=Some(amount=1), payloads=("PAYLOAD",))


def run(kind: Callable[[], Good], **options: Any) -> list[str]:
    made: list[Good] = []

    def make() -> Good:
        made.append(kind())
        return made[-1]

    return check(make, [CASE], state=lambda: made[-1].total, hidden=["/host/path"], **options)


def test_the_control() -> None:
    """An adapter without faults has none."""
    assert run(Good) == []


class HalfDone(Good):
    async def work(self) -> Any:
        self.total += 1
        await asyncio.sleep(0)
        self.total += 1
        return self.total


class GoesOn(Good):
    async def work(self) -> Any:
        task = asyncio.ensure_future(self.later())
        await asyncio.shield(task)
        return None

    async def later(self) -> None:
        await asyncio.sleep(0.01)
        self.total += 2


class TellsPath(Good):
    async def work(self) -> Any:
        return {"where": "/host/path/file"}


class RaisesPath(Good):
    async def work(self) -> Any:
        raise AdapterError("cannot open /host/path/file")


class NotPlain(Good):
    async def work(self) -> Any:
        return {"x": [object()]}


class Raises(Good):
    async def work(self) -> Any:
        raise KeyError("x")


class NoScope(Good):
    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        return await self.work()


class FreeCode(Good):
    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        if not context.scope.amount:
            raise Denied("because")
        return await super().call(operation, arguments, context)


class ClosesOnce(Good):
    closed = False

    async def aclose(self) -> None:
        if self.closed:
            raise ValueError
        self.closed = True


def one(**changes: Any) -> tuple[Operation, ...]:
    given = {"name": "add", "arguments": Arguments, "target": lambda a: "total", "summary": "Add one."}
    return (Operation(**{**given, **changes}),)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (HalfDone, "half done"),
        (GoesOn, "went on after its end"),
        (TellsPath, "the answer names something of the host"),
        (RaisesPath, "an error names something of the host"),
        (NotPlain, "not plain data: $.x[0]"),
        (Raises, "raised KeyError"),
        (NoScope, "outside the scope: ended as 'ok', not refused"),
        (FreeCode, "ended as 'no closed code'"),
        (ClosesOnce, "aclose"),
        (lambda: Good(operations=one(target=lambda a: a.text)), "has a payload in it"),
        (lambda: Good(operations=one(arguments=Loose)), "an unknown argument is taken"),
        (lambda: Good(operations=one(arguments=Loose)), "arguments that can be changed"),
        (lambda: Good(operations=one(summary="a\nb")), "a summary of several lines"),
        (lambda: Good(operations=(*one(), *one())), "two of one name"),
        (lambda: Good(meet=lambda a, b: Some(amount=9)), "meet:"),
        (lambda: Good(meet=lambda a, b: None), "meet: a scope with itself is another"),
        (lambda: Good(exceeds=lambda a, b: []), "exceeds: a scope under which this works"),
        (lambda: Good(exceeds=lambda a, b: ["x"]), "exceeds: the least scope"),
        (lambda: Good(risk=lambda s: ""), "risk"),
        (lambda: Good(enforced=()), "enforced says nothing"),
    ],
    ids=itertools.count(),
)
def test_faults_are_found(kind: Any, words: str) -> None:
    """Each fault, made on purpose, is told in these words."""
    faults = run(kind)
    assert any(words in fault for fault in faults), faults


# faults that only a broker's attacks show


class ActsWhenAsked(Good):
    """Does it when the call is named for the record."""

    def __init__(self) -> None:
        super().__init__(operations=one(target=self.name_it))

    def name_it(self, arguments: Any) -> str:
        self.total += 2
        return "total"


class GoesOnAnyway(Good):
    """Is told that it may not go where it was led, and goes."""

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        if context.before is not None and context.scope.amount and operation == "add":
            with contextlib.suppress(Denied):
                context.before("elsewhere")
        return await super().call(operation, arguments, context)


class ActsAndWaits(Good):
    """Says that it would have to wait after it has begun."""

    def at_once(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.total += 1
        raise Later


class NotesPayload(Good):
    """Has what it was given written down beside what was not accepted."""

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        if context.note is not None:
            context.note(arguments.text, "header")
        return await super().call(operation, arguments, context)


class Sensitive(Good):
    """Has a way for odd texts."""

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        if operation == "add" and context.scope.amount:
            odd = await self.odd(arguments.text)
            if odd is not None:
                return odd
        return await super().call(operation, arguments, context)

    async def odd(self, text: str) -> Any:
        return None


class FallsOver(Sensitive):
    async def odd(self, text: str) -> Any:
        return text.encode() and None


class TellsPathWhenOdd(Sensitive):
    async def odd(self, text: str) -> Any:
        if "\0" in text:
            raise AdapterError("cannot open /host/path/file")


class Hangs(Sensitive):
    async def odd(self, text: str) -> Any:
        if len(text) > 60_000:
            await asyncio.sleep(60)


def read_whatever(name: str) -> str:
    return Path("/tmp", name).read_text()


def write_whatever(name: str) -> None:
    if name.startswith("/") and "\0" not in name and Path(name).is_file():
        Path(name).write_text("PAYLOAD")


class ReadsAnything(Sensitive):
    async def odd(self, text: str) -> Any:
        with contextlib.suppress(OSError, ValueError):
            return read_whatever(text)


class WritesAnything(Sensitive):
    async def odd(self, text: str) -> Any:
        write_whatever(text)


class LooksFirst(Good):
    """Goes where it is asked to, and then looks whether it may."""

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        host, _, port = arguments.text.partition(":")
        if host == "127.0.0.1" and port.isdecimal():
            socket.create_connection((host, int(port)), 1).close()
        return await super().call(operation, arguments, context)


class LooksAtNothing(Good):
    """Asks for a grant unless there is nothing to add."""

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        if operation == "add" and not arguments.text:
            return await self.work()
        return await super().call(operation, arguments, context)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (ActsWhenAsked, "where nothing can be recorded it has changed something"),
        (GoesOnAnyway, "before stopped it, and it went on"),
        (ActsAndWaits, "at_once raised Later and had changed something"),
        (NotesPayload, "a payload is in the trail"),
        (FallsOver, "the capability failed (UnicodeEncodeError)"),
        (TellsPathWhenOdd, "what a guest is told names something of the host"),
        (Hangs, "it did not end in time"),
        (ReadsAnything, "it gave a file of the host"),
        (WritesAnything, "it changed a file of the host"),
        (LooksFirst, "it went to an address under the least scope"),
        (LooksAtNothing, "it works under the least scope"),
        (LooksAtNothing, "it changed something under the least scope"),
    ],
    ids=itertools.count(),
)
def test_faults_that_show_under_attack_are_found(kind: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is well behaved when it is asked as an honest guest asks, and is found by what a broker is asked."""
    monkeypatch.setattr(conformance_calls, "ODD_S", 0.3)
    faults = run(kind)
    assert any(words in fault for fault in faults), faults
