"""What tests of ctx share: a broker with a small adapter, and runs of a backend with its calls."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from fastness.backends.base import Backend, BackendSession, Report, Staged
from fastness.broker.calls import RunCalls
from fastness.broker.functions import Functions, HostScope
from fastness.broker.gate import Gate
from fastness.broker.trail import Intent
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.runner import request as requests
from fastness.runs import DenialCode, OutcomeKind, PluginCall
from fastness.waiting import drive


class BoxScope(Scope, frozen=True, tag="box"):
    keys: tuple[str, ...] = ()


class Key(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str


class Put(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    value: Any = None


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Number(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    number: int = 0


SPEC = Spec(
    kind="box",
    scope=BoxScope,
    operations=(
        Operation(name="get", arguments=Key, target=lambda given: given.key, summary="A value."),
        Operation(name="put", arguments=Put, target=lambda given: given.key, summary="Keep a value."),
        Operation(name="echo", arguments=Put, target=lambda given: given.key, summary="The value."),
        Operation(name="slow", arguments=Number, target=lambda given: "", summary="Never comes back."),
        Operation(name="large", arguments=Number, target=lambda given: "", summary="So many bytes."),
        Operation(name="meet", arguments=Number, target=lambda given: "", summary="Waits for so many at once."),
        Operation(name="noop", arguments=Nothing, target=lambda given: "", summary="Nothing."),
    ),
    meet=lambda asked, allowed: asked,
    exceeds=lambda asked, allowed: [],
    risk=lambda scope: "",
    enforced=(),
)


class Box:
    """An adapter that keeps values, and counts what is under way."""

    spec = SPEC

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.now = 0
        self.most = 0
        self.met = False
        self.began: list[str] = []
        self.cancelled = 0
        #: Set when a slow call has begun.
        self.slow = threading.Event()

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        self.began.append(operation)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            return await self._do(operation, arguments)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.now -= 1

    async def _do(self, operation: str, arguments: Any) -> Any:
        if operation == "put":
            if arguments.key == "forbidden":
                raise Denied(DenialCode.OUTSIDE, arguments.key)
            if arguments.key == "quota":
                raise QuotaExceeded("no room")
            if arguments.key == "broken":
                raise AdapterError("it broke")
            self.values[arguments.key] = arguments.value
            return None
        if operation == "get":
            return self.values.get(arguments.key)
        if operation == "echo":
            await asyncio.sleep(0)
            return arguments.value
        if operation == "large":
            return b"x" * arguments.number
        if operation == "meet":
            while not self.met:
                self.met = self.now >= arguments.number
                await asyncio.sleep(0)
        if operation == "slow":
            self.slow.set()
            await asyncio.sleep(3600)
        return None

    async def aclose(self) -> None:
        pass


class Paper:
    """A trail in memory."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, ...]] = []

    def intend(self, intent: Intent) -> int:
        self.rows.append(("intent", intent.capability, intent.operation, intent.target))
        return len(self.rows)

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
        self.rows.append(("outcome", intent.capability, intent.operation, code))

    def refused(self, intent: Intent, *, code: str) -> None:
        self.rows.append(("refused", intent.capability, intent.operation, code))


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class Host:
    """A backend and what its guests may call."""

    def __init__(self, backend: Backend, runtime: str) -> None:
        self.backend = backend
        self.runtime = runtime
        self.box = Box()
        self.paper = Paper()
        self.functions = Functions({"add": add})
        self.events: list[tuple[str, Any]] = []
        self.calls: RunCalls | None = None

    def make_calls(self, **options: Any) -> RunCalls:
        scopes: dict[str, Scope] = options.pop("scopes", {"box": BoxScope(), "host": HostScope(names=("add",))})
        gate = Gate(scopes, {"box": SPEC, "host": self.functions.spec}, {"box": self.box, "host": self.functions})
        fixed: dict[str, Any] = {"run": "r", "plugin": "p", "owner": "o", "calls": 10_000, "value_bytes": 4 << 20}
        self.calls = RunCalls(gate, self.paper, **{**fixed, "deadline": time.monotonic() + 60, **options})
        return self.calls

    def request(self, code: str, plugin: PluginCall | None = None, **options: Any) -> Any:
        preload = {"preload": ()} if self.runtime == "python" else {}
        made = requests.make(code, {"runtime": self.runtime, "timeout": 20, **preload, **options}, {})
        return msgspec.structs.replace(made, plugin=plugin)

    async def run_async(self, code: str, files: dict[str, bytes] | None = None, **options: Any) -> Report:
        calls = options.pop("calls", None)
        if calls is None:
            calls = self.make_calls(**{name: options.pop(name) for name in ("scopes",) if name in options})
        sink = options.pop("sink", lambda name, data: self.events.append((name, data)))
        return await self.backend.run(self.request(code, **options), Staged(files=files or {}), sink, calls)

    def run(self, code: str, files: dict[str, bytes] | None = None, **options: Any) -> Report:
        return drive(self.run_async(code, files, **options))

    def value(self, code: str, **options: Any) -> Any:
        """The value of a run that must be ok."""
        report = self.run(code, **options)
        assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
        return report.value

    def open(self, **options: Any) -> tuple[BackendSession, RunCalls]:
        calls = self.make_calls(**options)
        return drive(self.backend.open_session(self.request("1"), calls)), calls

    def execute(self, session: BackendSession, code: str, **options: Any) -> Report:
        sink: Callable[[str, Any], None] = lambda name, data: self.events.append((name, data))  # noqa: E731
        return drive(session.execute(self.request(code, **options), Staged(), sink))
