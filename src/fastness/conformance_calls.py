"""
What a broker's attacks show of a capability that somebody else wrote: its calls made as a guest's are, with a real
trail, under grants that it has not, before records that cannot be written, and with what no honest guest sends.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fastness.audit.log import AuditLog
from fastness.audit.reading import records
from fastness.broker import portal
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.broker.trail import Intent, Trail
from fastness.capability import Adapter, CallContext, Later, Scope
from fastness.errors import BackendError, Denied, FastnessError
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["Answered", "Outside", "Paper", "Unwritten", "ask", "bare", "hostile", "shut"]

#: Seconds that a call may take, and one that nobody honest makes.
CALL_S, ODD_S = 30.0, 3.0
#: Bytes of a text that is longer than any capability has use for.
_LONG = 70_000
_POLL_S = 0.001
_VALUE_BYTES = 8 << 20


class Answered(msgspec.Struct, frozen=True):
    """
    How a call ended that was made through a broker: ``code`` is empty where it went well.

    ``said`` is all that the guest was told in words, and ``value`` what it was given; ``rows`` are the records of it,
    each as its phase and code, and ``kept`` the bytes of the whole trail; ``reached`` is whether the adapter was
    called, and ``offered`` whether the guest's ctx had the capability.
    """

    code: str
    said: tuple[str, ...]
    value: Any
    rows: tuple[tuple[str, str], ...]
    kept: bytes
    reached: bool
    offered: bool


class _Spy:
    """An adapter that notes whether it was called."""

    def __init__(self, adapter: Adapter) -> None:
        self.spec = adapter.spec
        self.reached = False
        self._adapter = adapter
        at_once = getattr(adapter, "at_once", None)
        if at_once is not None:
            self.at_once = self._noted(at_once)

    def _noted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self.reached = True
            return function(*arguments)

        return call

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.reached = True
        return await self._adapter.call(operation, arguments, context)

    async def aclose(self) -> None:
        await self._adapter.aclose()


class Paper:
    """A trail that keeps nothing, for calls whose records nobody looks at."""

    def intend(self, intent: Intent) -> int:
        """Taken note of by nobody."""
        return 1

    def done(
        self,
        number: int,
        intent: Intent,
        *,
        code: str,
        micros: int,
        bytes_in: int,
        bytes_out: int,
        cost: int = 0,
        dropped: int = 0,
    ) -> None:
        """As above."""

    def refused(self, intent: Intent, *, code: str) -> None:
        """As above."""


class Unwritten(Paper):
    """A trail that nothing can be written to, as on a full disk: then nothing may happen."""

    def intend(self, intent: Intent) -> int:
        """It cannot be recorded."""
        raise BackendError("recording", "there is no room", "make some")

    def refused(self, intent: Intent, *, code: str) -> None:
        """It cannot either."""
        raise BackendError("recording", "there is no room", "make some")


async def ask(
    adapter: Adapter,
    operation: str,
    arguments: Mapping[str, Any],
    scope: Scope | None,
    *,
    trail: Trail | None = None,
    seconds: float = CALL_S,
    close: bool = True,
    **gate: Any,
) -> Answered:
    """
    Make a call as a guest does; the adapter is closed after it, unless ``close`` is False.

    ``scope`` is what was granted, None for nothing; ``trail`` is another one than a real one; ``gate`` has options of
    the grant.  Raises nothing that the adapter raises.
    """
    spy = _Spy(adapter)
    kind = adapter.spec.kind
    with tempfile.TemporaryDirectory(prefix="fastness-check-") as folder:
        log = AuditLog(f"{folder}/audit.db", f"{folder}/audit.key")
        calls = RunCalls(
            Gate({} if scope is None else {kind: scope}, {kind: spy.spec}, {kind: spy}, **gate),
            trail or log,
            run="check-run",
            plugin="check",
            owner="somebody",
            calls=1,
            value_bytes=_VALUE_BYTES,
            deadline=time.monotonic() + seconds,
        )
        try:
            offered = bool(calls.granted)
            calls.submit(1, kind, operation, values.encode(dict(arguments)))
            ends = time.monotonic() + seconds + 2.0
            while not (found := calls.answers()) and time.monotonic() < ends:  # noqa: ASYNC110  # they come from another loop
                await asyncio.sleep(_POLL_S)
            # Its outcome is recorded while the guest takes the answer.
            await asyncio.to_thread(calls.close)
        finally:
            if close:
                await shut(adapter)
        denied, _ = calls.denials()
        with contextlib.suppress(FastnessError):
            log.close()
        rows: tuple[tuple[str, str], ...] = ()
        if trail is None and Path(log.path).exists():  # noqa: ASYNC240  # a small file of our own
            rows = tuple((str(row.phase), row.code) for row in records(log.path) if row.capability == kind)
        kept = b"".join(path.read_bytes() for path in Path(folder).glob("audit.db*"))  # noqa: ASYNC240  # as above
    if not found:
        return Answered("silent", (), None, rows, kept, spy.reached, offered)
    (answer,) = found
    value = values.decode(answer.value) if answer.value else None
    said = (answer.message, *(row.target for row in denied))
    return Answered(answer.code, said, value, rows, kept, spy.reached, offered)


async def shut(adapter: Adapter) -> None:
    """Close an adapter where its calls were served; whether that works is checked elsewhere."""

    def wait() -> None:
        with contextlib.suppress(Exception):  # see above
            portal.wait(adapter.aclose(), 5.0)

    await asyncio.to_thread(wait)


async def bare(adapter: Adapter, operation: str, arguments: Mapping[str, Any], context: CallContext) -> str:
    """
    Call an adapter without a broker, in the way that waits for nobody where it has one; how that ended, in one word.

    ``no arguments`` where they are refused before it sees them.
    """
    found = adapter.spec.operation(operation)
    assert found is not None
    try:
        given = msgspec.convert(dict(arguments), found.arguments, strict=True, builtin_types=(bytes,))
    except (msgspec.ValidationError, UnicodeEncodeError):
        return "no arguments"
    at_once = getattr(adapter, "at_once", None)
    try:
        if at_once is not None and not found.leaves:
            with contextlib.suppress(Later):
                at_once(operation, given, context)
                return ""
            return "later"
        await asyncio.wait_for(adapter.call(operation, given, context), ODD_S)
    except Denied as error:
        return error.code.value if isinstance(error.code, DenialCode) else "no closed code"
    except TimeoutError:
        return "silent"
    except Exception as error:  # noqa: BLE001  # whatever it is has a name
        return type(error).__name__
    return ""


class Outside:
    """
    What lies outside of every grant: a folder with a file that has a secret, and a door of this machine.

    A context manager; both are gone after it.
    """

    def __enter__(self) -> Outside:
        self._folder = tempfile.TemporaryDirectory(prefix="fastness-outside-")
        self.secret = "canary-" + secrets.token_hex(12)
        self.file = Path(self._folder.name) / "name"
        self.file.write_text(self.secret)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.setblocking(False)
        self.port = int(self._door.getsockname()[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._door.close()
        self._folder.cleanup()

    def knocked(self) -> bool:
        """Whether anybody came to the door since this was asked last."""
        try:
            self._door.accept()[0].close()
        except BlockingIOError:
            return False
        return True

    def changed(self) -> bool:
        """Whether the folder is no longer what it was."""
        try:
            found = {path.name: path.read_text() for path in self.file.parent.iterdir()}
        except (OSError, UnicodeDecodeError):
            return True
        return found != {"name": self.secret}


def hostile(arguments: Mapping[str, Any], outside: Outside) -> Iterator[dict[str, Any]]:
    """What no honest guest sends in the place of these arguments: one of them is another each time."""
    for name, value in arguments.items():
        for other in _others(value, outside):
            yield {**arguments, name: other}


def _others(value: Any, outside: Outside) -> Iterator[Any]:
    path = str(outside.file)
    new = str(outside.file.with_name("new"))
    if isinstance(value, str):
        yield from (path, new, "../" * 16 + path.lstrip("/"), f"./{'../' * 16}{path.lstrip('/')}", f"file://{path}")
        yield from (f"http://127.0.0.1:{outside.port}/", f"127.0.0.1:{outside.port}")
        yield from ("", "\0", f"{value}\0", "\ud800", f"{value}\r\nx: y", "\x1b[2J\u202e", "x" * _LONG, "%s%n{0}'\";--")
    elif isinstance(value, bytes):
        yield from (b"", b"\0" * _LONG)
    elif isinstance(value, (int, float)):
        yield from (-1, 0, 2**53 - 1, -(2**53), 1e308, float("nan"), float("inf"))
    elif isinstance(value, list):
        yield from ([], value * 1000 if value else [0] * 1000)
    elif isinstance(value, dict):
        yield from ({}, {str(number): value for number in range(1000)})
    # Of another type, and nested deeper than anything that is read.
    yield from (None, [[[[[[[[value]]]]]]]], {"__class__": "x", "x": value})
