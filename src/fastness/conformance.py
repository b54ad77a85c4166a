"""
What every capability must keep to, whoever wrote it: the checks behind :func:`fastness.testing.check_capability`.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from fastness import conformance_calls as calls
from fastness.capability import Adapter, CallContext, Scope, Spec
from fastness.errors import AdapterError, Denied, QuotaExceeded, Revoked
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["Case", "check_capability"]

#: Turns of the loop after which a call is cancelled.
_TURNS = (0, 1, 2, 3, 5, 8)
#: Seconds after which nothing may happen any more that a cancelled call began.
_REST_S = 0.05
_CALL_S = 30.0
_CODES = frozenset(code.value for code in DenialCode)
#: How a call may end that makes no sense, and what a guest is told where the adapter raised what none may.
_ANSWERS = _CODES | {"", "invalid", "failed"}
_FELL = "the capability failed ("
_LATE = "the run's time is over"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """
    One call for :func:`check_capability`: ``operation`` with ``arguments``, as a guest gives them, under ``scope``.

    ``code`` is how it must end: empty where it works, else a ``DenialCode``, ``quota``, or ``failed`` for an
    AdapterError.  ``payloads`` are texts of the arguments that must not be in the record of the call.
    """

    operation: str
    arguments: dict[str, Any]
    scope: Scope
    code: str = ""
    payloads: tuple[str, ...] = ()


async def check_capability(
    make: Callable[[], Adapter],
    cases: Iterable[Case],
    *,
    hidden: Iterable[str] = (),
    state: Callable[[], object] | None = None,
) -> list[str]:
    """
    Check an adapter against what a broker relies on; returns the faults, empty where there are none.

    ``make`` gives an adapter over a fresh state, the same each time.  ``hidden`` are texts of the host, such as paths
    and addresses, that no guest may be told.  ``state`` gives what a reader can see of the adapter's last made state:
    then each call that works is also cancelled at several moments, and must have done all or nothing by then.

    Each call is made by itself and through a broker with a trail of its own: with its grant, without one, after the
    end of one, and where nothing can be recorded.  The first call of each operation that works is made once more with
    what no honest guest sends: then nothing outside may be read, changed or reached.  For asyncio.
    """
    check = _Check(make, (*hidden, *_of_this_host()), state)
    adapter = make()
    check.spec(adapter.spec)
    await _close(adapter, check)
    attacked: set[str] = set()
    for case in cases:
        before = len(check.faults)
        await check.case(case)
        if len(check.faults) > before or adapter.spec.operation(case.operation) is None:
            # What is wrong by itself is not told once more for each way to it.
            continue
        await check.brokered(case)
        if not case.code and case.operation not in attacked:
            attacked.add(case.operation)
            await check.attacked(case)
    return check.faults


def _of_this_host() -> set[str]:
    return {tempfile.gettempdir(), os.getcwd(), os.path.expanduser("~")} - {"/"}


async def _close(adapter: Adapter, check: _Check) -> None:
    try:
        await adapter.aclose()
        await adapter.aclose()
    except Exception as error:  # noqa: BLE001  # a fault of the adapter's, whatever it is
        check.faults.append(f"aclose, called twice, raised {type(error).__name__}")


class _Check:
    def __init__(
        self, make: Callable[[], Adapter], hidden: tuple[str, ...], state: Callable[[], object] | None
    ) -> None:
        self._make = make
        self._hidden = tuple(text for text in hidden if text)
        self._state = state
        self.faults: list[str] = []

    def _say(self, case: Case, text: str) -> None:
        self.faults.append(f"{case.operation} {case.arguments!r:.80}: {text}")

    def _hides(self, case: Case, what: str, *texts: object) -> None:
        for text in texts:
            for secret in self._hidden:
                if secret in str(text):
                    self._say(case, f"{what} names something of the host")

    # the description

    def spec(self, spec: Spec) -> None:
        """What does not depend on a call."""
        none = spec.scope()
        if spec.meet(none, none) not in (None, none):
            self.faults.append("meet: the least scope with itself is more than itself")
        if spec.exceeds(none, none):
            self.faults.append("exceeds: the least scope has something beyond itself")
        if not spec.risk(none) or not spec.enforced:
            self.faults.append("risk or enforced says nothing")
        names = [operation.name for operation in spec.operations]
        if len(names) != len(set(names)) or not names:
            self.faults.append("operations: none, or two of one name")
        for operation in spec.operations:
            config = operation.arguments.__struct_config__
            if not config.frozen or not config.forbid_unknown_fields:
                self.faults.append(f"{operation.name}: arguments that can be changed, or take unknown fields")
            words = operation.name.split(".")
            named = len(words) <= 2 and all(word.isidentifier() and word[:1] != "_" for word in words)
            if not named or "\n" in operation.summary:
                self.faults.append(f"{operation.name}: a name that a guest cannot call, or a summary of several lines")

    # one call

    async def case(self, case: Case) -> None:
        """All that is checked of one call."""
        adapter = self._make()
        operation = adapter.spec.operation(case.operation)
        if operation is None:
            self._say(case, "there is no such operation")
            await _close(adapter, self)
            return
        try:
            msgspec.convert(
                {**case.arguments, "x_unknown": 1}, operation.arguments, strict=True, builtin_types=(bytes,)
            )
        except msgspec.ValidationError:
            pass
        else:
            self._say(case, "an unknown argument is taken")
        arguments = msgspec.convert(case.arguments, operation.arguments, strict=True, builtin_types=(bytes,))
        target: object = operation.target(arguments)
        if not isinstance(target, str) or any(text in target for text in case.payloads):
            self._say(case, "the target is no text, or has a payload in it")
        self._hides(case, "the target", target)
        code = await self._end(adapter, case.operation, arguments, case.scope, case)
        await _close(adapter, self)
        if code != case.code:
            self._say(case, f"ended as {code or 'ok'!r}, not as {case.code or 'ok'!r}")
        if case.code or code:
            return
        self._laws(adapter.spec, case)
        await self._refusals(case, arguments)
        if self._state is not None:
            await self._cancelled(case, arguments)

    def _laws(self, spec: Spec, case: Case) -> None:
        """What must hold of any scope under which something works."""
        none = spec.scope()
        if spec.meet(case.scope, case.scope) != case.scope:
            self._say(case, "meet: a scope with itself is another")
        for first, second in ((case.scope, none), (none, case.scope)):
            if spec.meet(first, second) not in (None, none):
                self._say(case, "meet: a scope with the least one is more than that")
        if spec.exceeds(case.scope, case.scope) or spec.exceeds(none, case.scope):
            self._say(case, "exceeds: a scope has something beyond itself, or the least one beyond it")
        if not spec.exceeds(case.scope, none):
            self._say(case, "exceeds: a scope under which this works has nothing beyond the least one")
        if not spec.risk(case.scope):
            self._say(case, "risk says nothing")

    async def _refusals(self, case: Case, arguments: Any) -> None:
        """Under the scope that allows the least, and under another name, the same call does nothing."""
        for name, least in ((case.operation, True), ("no_such_operation", False)):
            adapter = self._make()
            before = self._state() if self._state is not None else None
            scope = adapter.spec.scope() if least else case.scope
            code = await self._end(adapter, name, arguments, scope, case)
            if code not in _CODES:
                self._say(case, f"{name if not least else 'outside the scope'}: ended as {code or 'ok'!r}, not refused")
            if self._state is not None and self._state() != before:
                self._say(case, "a refused call has changed something")
            await _close(adapter, self)

    async def _end(self, adapter: Adapter, name: str, arguments: Any, scope: Scope, case: Case) -> str:
        """How a call ended, in one word."""
        try:
            result = await adapter.call(name, arguments, _context(scope))
        except Denied as error:
            code = error.code.value if isinstance(error.code, DenialCode) else "no closed code"
            self._hides(case, "a refusal", error, error.target, error.args)
            return code
        except (QuotaExceeded, AdapterError, Revoked) as error:
            self._hides(case, "an error", error, error.args)
            return {QuotaExceeded: "quota", Revoked: "revoked"}.get(type(error), "failed")
        except Exception as error:  # noqa: BLE001  # a fault of the adapter's, whatever it is
            self._say(case, f"raised {type(error).__name__}, which is none of a capability's errors")
            return "raised"
        try:
            values.encode(result)
        except values.NotPlain as error:
            self._say(case, f"the answer is not plain data: {error.path}: {error.type_name}")
        self._hides(case, "the answer", repr(result))
        return ""

    # the same call through a broker

    async def brokered(self, case: Case) -> None:
        """What a broker's guest, its owner and whoever reads the trail rely on."""
        given = (case.operation, case.arguments)
        found = await calls.ask(self._make(), *given, case.scope)
        if found.code != case.code:
            self._say(case, f"through a broker it ended as {found.code or 'ok'!r}, not as {case.code or 'ok'!r}")
        self._hides(case, "what a guest is told", *found.said, repr(found.value))
        phases = [phase for phase, _ in found.rows]
        if phases[:1] != ["intent"] or phases.count("intent") != phases.count("outcome"):
            self._say(case, f"its records are {phases or 'none'}: a call has an intent and its outcome")
        for text in case.payloads:
            if text.encode("utf-8", "surrogatepass") in found.kept:
                self._say(case, "a payload is in the trail")
        for how, scope, gate, code in (
            ("without a grant", None, {}, DenialCode.NOT_GRANTED),
            ("after the end of its grant", case.scope, {"expires": 0.0}, DenialCode.EXPIRED),
            ("after it was revoked", case.scope, {"revision": lambda: 1}, DenialCode.REVOKED),
            ("where nothing can be recorded", case.scope, {"trail": calls.Unwritten()}, None),
        ):
            adapter = self._make()
            before = self._state() if self._state is not None else None
            refused = await calls.ask(adapter, *given, scope, **gate)
            if refused.code != (code.value if code is not None else "failed") or refused.reached:
                self._say(case, f"{how} it ended as {refused.code or 'ok'!r}, and the adapter was called")
            if scope is None and refused.offered:
                self._say(case, f"{how} a guest has it all the same")
            if self._state is not None and self._state() != before:
                self._say(case, f"{how} it has changed something")
        if not case.code:
            await self._stopped(case)

    async def _stopped(self, case: Case) -> None:
        """What an adapter does at once it does whole or not at all, and where it is told to stop it stops."""
        adapter = self._make()
        before = self._state() if self._state is not None else None
        if hasattr(adapter, "at_once"):
            ended = await calls.bare(adapter, *(case.operation, case.arguments), _context(case.scope))
            if ended == "later" and self._state is not None and self._state() != before:
                self._say(case, "at_once raised Later and had changed something")
            await _close(adapter, self)
            adapter = self._make()
        told: list[str] = []

        def stop(target: str) -> None:
            told.append(target)
            raise Denied(DenialCode.REVOKED, target)

        context = _context(case.scope)
        context.before = stop
        operation = adapter.spec.operation(case.operation)
        assert operation is not None
        arguments = msgspec.convert(case.arguments, operation.arguments, strict=True, builtin_types=(bytes,))
        try:
            await adapter.call(case.operation, arguments, context)
        except Exception as error:  # noqa: BLE001  # which one is what is asked
            if told and not (isinstance(error, Denied) and error.code is DenialCode.REVOKED):
                self._say(case, f"before stopped it, and it ended as {type(error).__name__}")
        else:
            if told:
                self._say(case, "before stopped it, and it went on")
        await _close(adapter, self)

    async def attacked(self, case: Case) -> None:
        """The call with what no honest guest sends, under its scope and then under the one that allows the least."""
        with calls.Outside() as outside:
            adapter = self._make()
            for arguments in calls.hostile(case.arguments, outside):
                found = await calls.ask(
                    adapter,
                    case.operation,
                    arguments,
                    case.scope,
                    trail=calls.Paper(),
                    seconds=calls.ODD_S,
                    close=False,
                )
                self._odd(case, f"with {str(arguments)[:60]!r}", arguments, found, outside)
            await calls.shut(adapter)
            adapter = self._make()
            before = self._state() if self._state is not None else None
            outside.knocked()
            for arguments in calls.hostile(case.arguments, outside):
                name = f"with {str(arguments)[:60]!r}"
                least = _context(adapter.spec.scope())
                if await calls.bare(adapter, case.operation, arguments, least) == "":
                    self._say(case, f"{name}, it works under the least scope")
                if outside.knocked():
                    self._say(case, f"{name}, it went to an address under the least scope")
                if outside.changed() or (self._state is not None and self._state() != before):
                    self._say(case, f"{name}, it changed something under the least scope")
                    break
            await _close(adapter, self)

    def _odd(
        self, case: Case, name: str, arguments: dict[str, Any], found: calls.Answered, outside: calls.Outside
    ) -> None:
        """What came of one such call under the scope of the case."""
        if found.code == "silent" or _LATE in found.said:
            self._say(case, f"{name}, it did not end in time")
        elif found.code not in _ANSWERS or any(text.startswith(_FELL) for text in found.said):
            self._say(case, f"{name}, it ended as {found.code!r}: {'; '.join(found.said)[:200]}")
        if not any(secret in str(arguments) for secret in self._hidden):
            self._hides(case, f"{name}, what a guest is told", *found.said, repr(found.value))
        if outside.secret in f"{found.said} {found.value!r}":
            self._say(case, f"{name}, it gave a file of the host")
        if outside.changed():
            self._say(case, f"{name}, it changed a file of the host")

    async def _cancelled(self, case: Case, arguments: Any) -> None:
        assert self._state is not None
        adapter = self._make()
        await adapter.call(case.operation, arguments, _context(case.scope))
        done = self._state()
        await _close(adapter, self)
        for turns in _TURNS:
            adapter = self._make()
            before = self._state()
            task = asyncio.ensure_future(adapter.call(case.operation, arguments, _context(case.scope)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()
            now = self._state()
            if now not in (before, done):
                self._say(case, f"cancelled after {turns} turns, it left something half done")
            await asyncio.sleep(_REST_S)
            if self._state() != now:
                self._say(case, f"cancelled after {turns} turns, it went on after its end")
            await _close(adapter, self)


def _context(scope: Scope) -> CallContext:
    return CallContext(
        plugin="check", owner="somebody", run="check-run", scope=scope, deadline=time.monotonic() + _CALL_S, spent={}
    )
