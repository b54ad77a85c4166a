"""
For those who build on Fastness: a fake backend, and conformance kits for real ones and for capabilities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from fastness.api import AsyncSandbox
from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.brokered import Calls
from fastness.runs import Outcome, OutcomeKind, RunRequest
from fastness.tier import Guarantee, Probe, ProbeFailure, Tier

if TYPE_CHECKING:
    from fastness.conformance import Case, check_capability

__all__ = ["Case", "FakeBackend", "Report", "check_backend", "check_capability", "fake_sandbox"]

Answer = Report | Exception | Callable[[RunRequest, Staged], Report]


def __getattr__(name: str) -> Any:
    # What checks a capability needs a loop, and what fakes a backend does not.
    if name in ("Case", "check_capability"):
        from fastness import conformance

        return getattr(conformance, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class FakeBackend(Backend):
    """
    Answers from a script instead of running anything.

    ``answers`` are used up in order: a Report, an exception to raise, or a function of the request; after the last
    every run is ``ok`` and empty.  ``lacking`` are guarantees that its probe cannot prove.  ``requests`` and
    ``staged`` record what came.
    """

    name = "fake"
    runtimes = frozenset({"python", "javascript", "wasi", "command"})

    def __init__(
        self, answers: Iterable[Answer] = (), *, tier: Tier = Tier.WASM, lacking: Iterable[Guarantee] = ()
    ) -> None:
        self.tier = tier
        self._answers = list(answers)
        self._lacking = frozenset(lacking)
        self.requests: list[RunRequest] = []
        self.staged: list[Staged] = []
        self.closed = False

    async def probe(self, *, afresh: bool = False) -> Probe:
        """All guarantees of the tier but those that are lacking."""
        return Probe(
            backend=self.name,
            tier=self.tier.value,
            guarantees=tuple(sorted(g.value for g in self.tier.guarantees - self._lacking)),
            failures=tuple(
                ProbeFailure(guarantee=g.value, cause="the fake lacks it", remedy="use another fake")
                for g in sorted(self._lacking, key=lambda g: g.value)
            ),
        )

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """The next answer of the script; its output goes to the sink, as a real backend's would."""
        self.requests.append(request)
        self.staged.append(staged)
        if calls is not None:
            calls.close()
        answer: Answer = self._answers.pop(0) if self._answers else Report(outcome=Outcome(OutcomeKind.OK), exit_code=0)
        if isinstance(answer, Exception):
            raise answer
        report = answer if isinstance(answer, Report) else answer(request, staged)
        if sink is not None:
            for name, data in (("stdout", report.stdout), ("stderr", report.stderr)):
                if data:
                    sink(name, data)
        return report

    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """A session that answers from the same script."""
        if calls is not None:
            calls.close()
        return _FakeSession(self)

    async def aclose(self) -> None:
        """Remember that it was closed."""
        self.closed = True


class _FakeSession(BackendSession):
    def __init__(self, backend: FakeBackend) -> None:
        self._backend = backend

    async def execute(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        return await self._backend.run(request, staged, sink)

    async def aclose(self) -> None:
        return None


def fake_sandbox(backend: FakeBackend, **options: Any) -> AsyncSandbox:
    """A sandbox whose tier is served by ``backend``."""
    return AsyncSandbox(tier=backend.tier.value, _make=lambda tier: backend, **options)


#: Python programs that a backend must survive, with the outcomes that are right.
HOSTILE: tuple[tuple[str, str, frozenset[OutcomeKind]], ...] = (
    ("endless loop", "while True: pass", frozenset({OutcomeKind.TIMEOUT, OutcomeKind.CPU})),
    ("sleep for ever", "import time; time.sleep(1e6)", frozenset({OutcomeKind.TIMEOUT})),
    (
        "unstoppable loop",
        "while True:\n  try:\n    while True: pass\n  except BaseException: pass",
        frozenset({OutcomeKind.TIMEOUT, OutcomeKind.CPU}),
    ),
    ("allocation without end", "x = []\nwhile True: x.append(bytearray(1 << 20))", frozenset({OutcomeKind.MEMORY})),
    ("output without end", "while True: print('x' * 65536)", frozenset({OutcomeKind.OUTPUT_LIMIT})),
    ("exit with a status", "import sys; sys.exit(3)", frozenset({OutcomeKind.GUEST_ERROR})),
    ("immediate exit", "import os; os._exit(4)", frozenset({OutcomeKind.GUEST_ERROR})),
    ("uncaught exception", "raise ValueError('x')", frozenset({OutcomeKind.GUEST_ERROR})),
    (
        "deep recursion in C",
        "t = ()\nfor _ in range(10**6): t = (t,)\nhash(t)",
        frozenset({OutcomeKind.CRASHED, OutcomeKind.GUEST_ERROR, OutcomeKind.MEMORY}),
    ),
    ("deep recursion", "def f(): f()\nf()", frozenset({OutcomeKind.GUEST_ERROR})),
    ("syntax error", "def", frozenset({OutcomeKind.GUEST_ERROR})),
    ("full disk", "open('f', 'wb').write(b'x' * (16 << 20))", frozenset({OutcomeKind.DISK})),
)


async def check_backend(make: Callable[[], Backend], *, wall_s: float = 3.0) -> list[str]:
    """
    Run every hostile program against a backend and check what it says; returns the faults, empty where there are none.

    After each program a harmless one must work: nothing may have been left behind.
    """
    faults: list[str] = []
    made = make()
    async with AsyncSandbox(tier=made.tier.value, _make=lambda tier: made) as box:
        probe = await box.probe()
        missing = {g.value for g in made.tier.guarantees} - set(probe.guarantees)
        if missing:
            faults.append(f"not proven: {', '.join(sorted(missing))}")
        for name, code, right in HOSTILE:
            limits = {"file_bytes": 1 << 20, "output_total_bytes": 8 << 20}
            result = await box.run(code, timeout=wall_s, memory="64M", limits=limits)
            if result.outcome.kind not in right:
                faults.append(f"{name}: ended as {result.outcome.kind.value} ({result.outcome.detail})")
            after = await box.run("print(6 * 7)", timeout=30)
            if after.stdout != "42\n":
                faults.append(f"{name}: the next run ended as {after.outcome.kind.value}, output {after.stdout!r}")
    return faults
