"""
What came of one invoke with a native guest: the report, from what was heard, what was read and how the process ended.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from fastness.backends.base import Report
from fastness.backends.native_endings import denial, signalled
from fastness.backends.telling import answered, claimed, exited
from fastness.errors import GuestProtocolError
from fastness.runs import Outcome, OutcomeKind, Usage
from fastness.wire.payload import GuestPayload, decode_claims, decode_payload

if TYPE_CHECKING:
    from fastness.backends.native_talk import Talk
    from fastness.runner.collect import Collected

#: Errors that say that a tree or a file is as large as it may be: EFBIG, ENOSPC, EDQUOT.
_FULL = frozenset({27, 28, 122})
_ENOMEM = 12
#: Rows of refusals that a result has; the rest is counted.
_DENIALS_MAX = 64


def report(
    talk: Talk,
    *,
    ended: dict[str, Any] | None,
    collected: Collected,
    records: list[dict[str, Any]],
    out_of_memory: bool,
    layers: dict[str, str],
    session: bool,
    queued: float,
) -> Report:
    """
    The report of this invoke.

    ``ended`` is how the kernel says that the process ended, where it did so by itself; ``records`` are refused
    system calls; ``out_of_memory`` is whether the kernel killed for memory.
    """
    answer: GuestPayload | None = None
    broken = ""
    if talk.payload:
        try:
            answer = decode_payload(talk.payload)
        except GuestProtocolError as error:
            broken = str(error)
    kind, detail, code, number = _outcome(talk, answer, broken, ended, out_of_memory)
    if kind is OutcomeKind.OK and collected.over:
        # Where the kernel has no such cap, or a file is mostly holes, it shows only at the end.
        kind, detail = OutcomeKind.DISK, collected.over
    good = answer is not None and kind is OutcomeKind.OK
    claims = answer.claims if answer is not None else decode_claims(talk.claims) if talk.claims else ()
    gathered = talk.gathered
    dropped = gathered.out.dropped + gathered.err.dropped
    kept = session and talk.result is not None and talk.reason is None
    out, err = gathered.out.bytes(), gathered.err.bytes()
    refused, refused_dropped = talk.calling.denials() if talk.calling is not None else ((), 0)
    denials = (*map(denial, records), *refused, *collected.denials, *claimed(claims))
    more = max(0, len(denials) - _DENIALS_MAX)
    return Report(
        outcome=Outcome(kind, detail[:2000], number, dropped),
        value=answer.value if good and answer is not None else None,
        value_repr=answer.value_repr if good and answer is not None else None,
        stdout=out,
        stderr=err,
        exit_code=code,
        files=collected.files,
        changes=collected.changes,
        denials=denials[:_DENIALS_MAX],
        usage=Usage(
            wall_s=talk.wall_s,
            cpu_s=_cpu_s(talk, ended),
            queue_s=queued,
            memory=talk.memory or 1024 * (ended or {}).get("rss", 0),
            stdout_bytes=talk.written["stdout"],
            stderr_bytes=talk.written["stderr"],
            file_bytes=collected.total_bytes,
            files=collected.total_files,
            calls=talk.calling.made if talk.calling is not None else 0,
            denials_dropped=more
            + refused_dropped
            + collected.refused_dropped
            + (answer.claims_dropped if answer is not None else 0),
        ),
        layers=layers,
        state="none" if not session else "kept" if kept else "lost",
        collected=collected,
    )


def _outcome(
    talk: Talk, answer: GuestPayload | None, broken: str, ended: dict[str, Any] | None, out_of_memory: bool
) -> tuple[OutcomeKind, str, int | None, int | None]:
    """Kind, detail, exit code and signal."""
    # The kernel may take its time to end all that a group holds, and closes what they have open first.
    if talk.reason is not None and not (talk.closed and out_of_memory):
        return *talk.reason, None, None
    if out_of_memory and (answer is None or answer.kind != "ok"):
        return OutcomeKind.MEMORY, "the kernel ended it at its memory limit", None, 9
    if broken:
        return OutcomeKind.PROTOCOL, broken, None, None
    if talk.result is not None:
        if talk.result.ending == "exit":
            return *exited(talk.result.exit_code or 0), None
        if talk.result.ending == "trap":
            return signalled(talk.result.trap.removeprefix("signal "))
        if answer is None:
            return OutcomeKind.PROTOCOL, "the guest returned without an answer", None, None
        if answer.kind == "exception" and answer.errno == _ENOMEM:
            # What the kernel says where the interpreter says MemoryError.
            return OutcomeKind.MEMORY, f"{answer.error_type}: {answer.error_message}", 1, None
        return *answered(answer, answer.errno in _FULL), None
    if ended is None or "status" not in ended:
        return OutcomeKind.CRASHED, "the guest's process ended and nobody saw how", None, None
    status = ended["status"]
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) == signal.SIGKILL and _cpu_s(talk, ended) >= talk.request.limits.cpu_s:
            # Its own limit was met before this side has looked.
            return OutcomeKind.CPU, "", None, None
        return signalled(str(os.WTERMSIG(status)))
    return *exited(os.WEXITSTATUS(status)), None


def _cpu_s(talk: Talk, ended: dict[str, Any] | None) -> float:
    """Seconds of processor time of this invoke: as last seen, or by what the kernel says of an ended guest."""
    whole: float = (ended or {}).get("cpu", 0.0)
    return max(talk.cpu_s, whole - talk.cpu_before)
