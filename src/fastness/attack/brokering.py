"""
Calls of a guest by the gate, the audit trail and the adapters that ship, and the careless host that has none of them.

All that the adapters reach is the attempt's own: a folder with one beside it that nobody may reach, a storage, servers
on loopback.  The careless host gives its guest a ``ctx`` of the same shape.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fastness.attack import asking, careless
from fastness.attack.model import Effect, Skip
from fastness.audit.log import AuditLog
from fastness.broker import portal
from fastness.broker.calls import RunCalls
from fastness.broker.functions import Functions, HostScope
from fastness.broker.gate import Gate
from fastness.broker.trail import Trail
from fastness.capabilities.fs import Fs
from fastness.capabilities.net import AddressGuard, Allowance, Net, NetScope, Secret
from fastness.capabilities.storage import Storage
from fastness.capability import Adapter, Scope
from fastness.errors import FastnessError, TierUnavailable
from fastness.grant import kind_of
from fastness.waiting import drive

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare
    from fastness.runs import RunResult

#: ``attempt`` goes on whatever comes of a call, and prints it.
PRELUDE = """
def attempt(call, *given, **named):
    try:
        value = call(*given, **named)
    except (NameError, SyntaxError):
        # Wrong in itself, and refused by nobody.
        raise
    except Exception as error:
        print('refused:', ascii(str(error)), flush=True)
        return None
    text = str(value)
    print(text if len(text) < 20000 else len(text), flush=True)
    return value
"""
#: ``by_hand`` makes a call without the guest's own ``ctx``, with arguments as text; see ``asking``.
_BY_HAND = """
def by_hand(capability, operation, text):
    by_hand.last += 1
    call(9000 + by_hand.last, capability, operation, text)
    print(answer(), flush=True)
by_hand.last = 0
"""
#: The same before the careless host: it judges what it sees first, and does what a reader of JSON makes of it.
_BY_HAND_OUTSIDE = """
def by_hand(capability, operation, text):
    first = re.search('"url": *"([^"]*)"', text.decode())
    if first and HOSTS and not any(host in first[1] for host in HOSTS):
        print('refused:', first[1], flush=True)
        return
    HOSTS.clear()
    attempt(getattr(getattr(ctx, capability), operation), **json.loads(text))
"""
_CALL_S = 30.0


class Names:
    """A resolver that knows a few names, and asks nobody.  Each name has answers that it gives one after another."""

    def __init__(self, known: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._known = {name: list(answers) for name, answers in known.items()}
        #: Every name that it was asked about.
        self.asked: list[str] = []

    async def __call__(self, name: str) -> Sequence[str]:
        """The next answers for a name.  Raises OSError."""
        self.asked.append(name)
        answers = self._known.get(name)
        if not answers:
            raise OSError("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]


def net(
    known: Mapping[str, Sequence[Sequence[str]]],
    *allowed: tuple[str, str, int],
    secrets: Sequence[Secret] = (),
    **more: Any,
) -> Net:
    """
    The adapter of ``net`` with a resolver that knows these names; the guard lets these addresses pass as public.

    Raises Skip where there is no client of HTTP, without which nothing is asked and so nothing is shown.
    """
    if importlib.util.find_spec("httpcore2") is None:
        raise Skip("no client of HTTP is installed; it comes with fastness[net]")
    guard = AddressGuard([Allowance(*one) for one in allowed])
    by_name = {secret.name: secret for secret in secrets}
    return Net(guard, resolve=Names(known), secrets=lambda owner, name: by_name.get(name), **more)


def everywhere(*ports: int, secrets: tuple[str, ...] = ()) -> NetScope:
    """A grant of all hosts."""
    return NetScope(hosts=("*",), schemes=("http",), ports=ports, secrets=secrets)


class Broker:
    """
    The broker of one attempt.

    ``root`` is the folder of ``fs`` and ``outside`` the one beside it, in which ``name`` holds the secret.
    """

    def __init__(
        self,
        arena: Arena,
        *,
        net: Net | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        more: Mapping[str, Adapter] | None = None,
    ) -> None:
        self.arena = arena
        self.folder = arena.folder / "broker"
        self.root, self.outside = self.folder / "root", self.folder / "outside"
        for folder in (self.folder, self.root, self.outside):
            folder.mkdir(0o700)
        (self.outside / "name").write_text(arena.token)
        self.audit, self.key = self.folder / "audit.db", self.folder / "audit.key"
        self.trail = AuditLog(str(self.audit), str(self.key), patience_s=0.2)
        self._storage = Storage(str(self.folder / "storage.db"))
        self._adapters: dict[str, Adapter] = {"fs": Fs(self.root), "storage": self._storage, **(more or {})}
        if net is not None:
            self._adapters["net"] = net
        if functions is not None:
            self._adapters["host"] = Functions(functions)

    def calls(self, *scopes: Scope, owner: str = "mine", plugin: str = "plugin", **how: Any) -> RunCalls:
        """The calls of a run that was granted these scopes; ``how`` is of the gate or of ``RunCalls``."""
        trail: Trail = how.pop("trail", self.trail)
        most, limits = how.pop("calls", 10_000), how.pop("limits", None)
        gate = Gate(
            {kind_of(scope): scope for scope in scopes},
            {kind: adapter.spec for kind, adapter in self._adapters.items()},
            self._adapters,
            **how,
        )
        return RunCalls(
            gate,
            trail,
            run="r",
            plugin=plugin,
            owner=owner,
            calls=most,
            value_bytes=8 << 20,
            deadline=time.monotonic() + _CALL_S,
            limits=limits,
        )

    def run(
        self,
        code: str,
        *scopes: Scope,
        owner: str = "mine",
        plugin: str = "plugin",
        how: Mapping[str, Any] | None = None,
        facts: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> RunResult:
        """
        A run in the tier under attack that was granted these scopes.  ``facts`` are names that the code knows.

        Raises RuntimeError where it asked for nothing.
        """
        calls = self.calls(*scopes, owner=owner, plugin=plugin, **(how or {}))
        sandbox = self.arena.box._sandbox()
        program = asking.program(self.arena, PRELUDE + _BY_HAND + code, **(facts or {}))
        request = sandbox._request(program, {"timeout": 8, **options})
        found = self.arena.came(drive(sandbox._runner.run(request, calls)))
        sure(found.usage.calls, f"no call came to the broker ({found.outcome.kind.value}: {found.outcome.detail})")
        return found

    def kept(self, owner: str = "mine", plugin: str = "plugin") -> dict[str, Any]:
        """All that the storage has for these two."""
        import sqlite3

        with sqlite3.connect(self.folder / "storage.db") as connection:
            rows = connection.execute("SELECT key, value FROM items WHERE plugin=? AND owner=?", (plugin, owner))
            return {bytes(key).decode(): bytes(value) for key, value in rows}

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        portal.wait(self._storage.aclose(), 5)
        try:
            self.trail.close()
        except FastnessError:
            # A trail that was attacked may not close in good order.
            pass


def host(*names: str) -> HostScope:
    """A grant of these functions of the host."""
    return HostScope(names=names)


def control(arena: Arena, code: str, *, limit_s: float = 6.0, **facts: Any) -> Bare:
    """
    The same text where the host is careless: its ``ctx`` does what it is told.

    ``ROOT`` is its folder, beside which is ``outside`` with the secret in ``name``, both made here; see ``careless``
    for its other facts.
    """
    folder = arena.folder / "careless"
    root = folder / "root"
    for each in (root, folder / "outside"):
        each.mkdir(parents=True, exist_ok=True)
    secret = folder / "outside" / "name"
    if not secret.exists():
        secret.write_text(arena.token)
    given = {**careless.FACTS, "ROOT": str(root), "SECRET": arena.token, **facts}
    # Calls are made the same way on both sides.
    return arena.outside.run(arena.python(careless.CTX + PRELUDE + _BY_HAND_OUTSIDE + code, **given), limit_s=limit_s)


def sure(true: object, what: str) -> None:
    """Raises RuntimeError, which voids the attempt, where what it rests on is not so."""
    if not true:
        raise RuntimeError(f"the attempt shows nothing: {what}")


def times(ran: RunResult | Bare, word: str) -> int:
    """How often the program printed this."""
    return ran.stdout_bytes.count(word.encode())


def every(arena: Arena, bare: Bare, number: int) -> Effect:
    """The control of an attempt that is made in ``number`` ways: the secret came by each of them."""
    count = times(bare, arena.token)
    return Effect(count >= number > 0, f"the secret came out by {count} of {number} ways")


def planted(root: Path, outside: Path, kind: str) -> None:
    """What somebody left in the folder of a plugin: an entry called ``name`` that leads outside, or blocks."""
    name, target = root / "name", outside / "name"
    if kind == "link":
        name.symlink_to(target)
    elif kind == "folder":
        (root / "folder").symlink_to(outside)
    elif kind == "magic":
        name.symlink_to(f"/proc/self/root{target}")
    elif kind == "hard":
        try:
            os.link(target, name)
        except OSError as error:
            raise Skip(f"no hard links here: {error.strerror}") from None
    elif kind == "fifo":
        os.mkfifo(name)
    elif kind == "device":
        try:
            os.mknod(name, 0o20666, os.makedev(1, 5))
            with name.open("rb"):
                pass
        except OSError as error:
            raise Skip(f"no devices can be made here: {error.strerror}") from None


@contextlib.contextmanager
def folders(arena: Arena, kind: str = "") -> Iterator[Path]:
    """The careless host's folder, with what was planted in it; gives the one outside."""
    top = arena.folder / "careless"
    root, outside = top / "root", top / "outside"
    for each in (root, outside):
        each.mkdir(parents=True)
    (outside / "name").write_text(arena.token)
    planted(root, outside, kind)
    yield outside


def changed(arena: Arena, outside: Path) -> bool:
    """Whether what is in the folder outside is no longer what it was."""
    return {path.name: path.read_bytes() for path in outside.iterdir()} != {"name": arena.token.encode()}


def stuck(ran: RunResult | Bare) -> Effect:
    """Whether the program began and never came past what it asked for."""
    begun, done = times(ran, "BEGUN"), times(ran, "DONE")
    result = None if hasattr(ran, "status") else ran
    return Effect(begun > done, "the call never ended" if begun > done else "the call ended", result)


def anywhere(folder: Path, word: str, pattern: str) -> bool:
    """Whether a file of the folder whose name fits has this in it."""
    found = [path.read_bytes() for path in folder.glob(pattern) if path.is_file()]
    return any(word.encode() in data for data in found)


class _Unsent:
    """In the place of what sends requests: answers itself."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def exchange(self, *_given: object, **_named: object) -> Any:
        """The answer, whoever was to be asked."""
        from fastness.capabilities._http import Answer

        return Answer(200, b"OK", [], self._body)


def unsent(adapter: Net, body: bytes) -> Net:
    """The adapter, with an answer of ours in the place of every request that passes its checks: nothing is sent."""
    adapter._made = _Unsent(body)  # type: ignore[assignment]  # the part of a client that is used
    return adapter


@contextlib.contextmanager
def programs(arena: Arena) -> Iterator[Broker]:
    """A broker whose adapter of ``process`` runs programs as the host of plugins does.  Raises Skip without a tier."""
    from fastness.capabilities.process import Ended, Process, Wanted
    from fastness.plugins.boxes import Boxes
    from fastness.runs import Outcome, OutcomeKind, RunResult

    boxes = Boxes()

    async def run(wanted: Wanted) -> Ended:
        ended = await boxes.run(wanted)
        outcome = Outcome(OutcomeKind(ended.outcome), "")
        # What of it shows whether the program came as far as what it was to try.
        arena.came(RunResult(outcome=outcome, runtime="command", exit_code=ended.exit_code, stderr_bytes=ended.stderr))
        return ended

    try:
        try:
            boxes.check("isolated")
        except TierUnavailable as unavailable:
            raise Skip(f"no programs: {unavailable}") from None
        with Broker(arena, more={"process": Process(run)}) as broker:
            yield broker
    finally:
        boxes.close()
