"""
Whether programs of an attack came as far as what they were to try: a broken one is stopped by nothing.

An attack that fell over its own first line has no effect either, and its control, which runs elsewhere, has one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fastness.attack.model import Expect, Layer

if TYPE_CHECKING:
    from fastness.runs import RunResult

#: Errors of a program that is wrong in itself.
_WRONG = frozenset({"SyntaxError", "IndentationError", "TabError", "NameError", "UnboundLocalError"})
#: Errors of a program that has not found what it needs, which is what stops an attack only where that is said.
_MISSING = frozenset({"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "ReferenceError"})
#: Layers by which an attack is stopped because what it needs is not there.
_ABSENT = frozenset({Layer.ABSENT, Layer.GUEST, Layer.WASI})
#: What a command ends with that could not be started.
_NOT_STARTED = (126, 127)


def fell(results: Iterable[RunResult], expect: Expect) -> str:
    """Which of the runs of an attack fell over something else than what was to stop it, in words, or nothing."""
    errors = _WRONG if expect.layer in _ABSENT else _WRONG | _MISSING
    if expect.layer is Layer.ENGINE:
        # What is said to come to its end inside may be what reads the source.
        errors -= {"SyntaxError"}
    for result in results:
        if result.outcome.kind.value != "guest_error":
            continue
        if result.runtime == "command":
            if result.exit_code in _NOT_STARTED:
                return f"a program was not started (status {result.exit_code}), so nothing was tried"
            lines = result.stderr.strip().splitlines()
            last = lines[-1] if lines and "Traceback" in result.stderr else ""
        else:
            last = result.outcome.detail
        if last.partition(":")[0].strip() in errors:
            return f"a program fell over itself, so nothing was tried: {last[:200]}"
    return ""
