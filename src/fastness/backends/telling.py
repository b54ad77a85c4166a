"""
What backends tell of a run: output and files as they are gathered, and the words for outcomes and denials.

Everything here was written by a guest or by a process that a guest may have taken over: the typed decoders of ``wire``
have bounded each field; this module bounds the sums.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from fastness.backends.base import Sink
from fastness.errors import GuestProtocolError, StagingError
from fastness.runner.capture import HeadTail
from fastness.runner.staging import check_path
from fastness.runs import Denial, DenialCode, File, OutcomeKind, RunRequest
from fastness.wire import messages as m
from fastness.wire.payload import ClaimHead, GuestPayload


class CallbackRaised(BaseException):
    """The caller's own callback raised; ``error`` is what comes out of the run."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class ToldOnce:
    """A sink for a run that may begin anew: lines of its log that were told before are not told again."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        #: No more than a run may log.
        self._told: deque[Any] = deque()
        self._before: deque[Any] = deque()

    def __call__(self, name: str, data: Any) -> None:
        """Tell it, unless it is the next of the lines that were told before."""
        if name == "log":
            if self._before and self._before[0] == data:
                self._before.popleft()
                return
            self._before.clear()
            self._told.append(data)
        self._sink(name, data)

    def again(self) -> None:
        """The run begins anew."""
        self._before = self._told.copy()


class Gathered:
    """What has come of a run so far: survives every way in which it may end."""

    def __init__(self, request: RunRequest) -> None:
        limits = request.limits
        self.out = HeadTail(limits.output_bytes)
        self.err = HeadTail(limits.output_bytes)
        self.left = limits.output_total_bytes + (1 << 16)
        self.files: dict[str, File] = {}
        self.change: dict[str, str] = {}
        self.pieces: list[bytes] = []
        self.file_room = limits.file_bytes
        self.file_count = limits.files

    def output(self, name: str, data: bytes, sink: Sink | None) -> None:
        """Take output in and tell the caller of it.  Raises GuestProtocolError, CallbackRaised."""
        self.take(name, data)
        self.tell(name, data, sink)

    def take(self, name: str, data: bytes) -> None:
        """Take output in.  Raises GuestProtocolError."""
        if not data:
            return
        # The engine enforces this cap; one that does not is not to be trusted with anything.
        self.left -= len(data)
        if self.left < 0:
            raise GuestProtocolError("the engine sent more output than the run may write")
        (self.out if name == "stdout" else self.err).add(data)

    @staticmethod
    def tell(name: str, data: bytes, sink: Sink | None) -> None:
        """Tell the caller of output.  Raises CallbackRaised."""
        if sink is not None and data:
            try:
                sink(name, data)
            except BaseException as error:  # noqa: BLE001  # whatever a callback raises is its caller's
                # Carried past the handlers of our own errors, which it may look like.
                raise CallbackRaised(error) from None

    def artefact(self, message: m.Artefact, blob: bytes) -> None:
        """Take a piece of a file in.  Raises GuestProtocolError."""
        self.file_room -= len(blob)
        if self.file_room < 0 or (not self.pieces and len(self.files) >= self.file_count):
            raise GuestProtocolError("the engine sent more files than the run may leave")
        self.pieces.append(blob)
        if not message.more:
            try:
                path = check_path(message.path)
            except StagingError as error:
                raise GuestProtocolError(f"the engine sent a file with a bad path: {error.why}") from None
            self.files[path] = File(b"".join(self.pieces))
            self.change[path] = message.change
            self.pieces.clear()


def raised(answer: GuestPayload, full: bool) -> tuple[OutcomeKind, str, int | None]:
    """
    Kind, detail and exit code of a run that ended in an exception.

    ``full``: the guest's tree refused something for its size, or the error says that it is full.
    """
    detail = f"{answer.error_type}: {answer.error_message}" if answer.error_message else answer.error_type
    if answer.error_type == "MemoryError":
        return OutcomeKind.MEMORY, detail, 1
    if full:
        return OutcomeKind.DISK, detail, 1
    return OutcomeKind.GUEST_ERROR, detail, 1


def answered(answer: GuestPayload, full: bool) -> tuple[OutcomeKind, str, int | None]:
    """Kind, detail and exit code of a run that the boot code has told the end of."""
    if answer.kind == "ok":
        return OutcomeKind.OK, "", 0
    if answer.kind == "exit":
        return exited(answer.exit_code or 0)
    return raised(answer, full)


def exited(status: int) -> tuple[OutcomeKind, str, int | None]:
    """Kind, detail and exit code of a run that ended with an exit status."""
    return (OutcomeKind.OK, "", status) if not status else (OutcomeKind.GUEST_ERROR, f"exit status {status}", status)


_CAPABILITY = (("sock", "net"), ("socket", "net"), ("path_", "fs"), ("fd_", "fs"), ("proc_", "process"))


def capability_of(operation: str) -> str:
    """The kind of power that an operation belongs to."""
    for prefix, name in _CAPABILITY:
        if operation.startswith(prefix):
            return name
    if operation.startswith("ctypes"):
        return "native"
    if operation.startswith(("subprocess", "os.", "child_process")):
        return "process"
    return "net" if operation.startswith(("http", "dns", "net", "fetch")) else "wasi"


def claimed(claims: tuple[ClaimHead, ...]) -> list[Denial]:
    """Rows that a guest claims; they prove nothing by themselves."""
    return [
        Denial(
            capability=capability_of(row.operation),
            operation=row.operation,
            target=row.target,
            code=DenialCode.UNSUPPORTED,
            layer="guest",
            count=row.count,
            claimed=True,
        )
        for row in claims
    ]
