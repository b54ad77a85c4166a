"""
What the frames of protocol version 1 say: one frozen struct per frame type.

The struct is the JSON head; the blob stays raw bytes beside it.  The type is the frame's, never a field of the JSON.
Every number is bounded, every text and list capped, and unknown fields are refused, so a head that decodes is safe to
look at.  It is not thereby *true*: a frame proves nothing about which code in the guest's process wrote it, and
its texts may hold anything but lone surrogates.

Lengths of texts are in code points.  Sizes are in bytes.
"""

from __future__ import annotations

import functools
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from fastness.errors import GuestProtocolError, HostProtocolError, ProtocolError
from fastness.wire import frames

#: JSON's numbers are exact up to here in every language.
EXACT_MAX: Final = 2**53

#: Most rows of refusals or claims that one result carries; the rest is only counted.
ROWS_MAX: Final = 64
#: Most paths in each list of a result; the rest is only counted.
PATHS_MAX: Final = 4096

Id: TypeAlias = Annotated[int, Meta(ge=1, le=EXACT_MAX)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=EXACT_MAX)]
Size: TypeAlias = Annotated[int, Meta(ge=0, le=EXACT_MAX)]
Length: TypeAlias = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=1e9)]
Signed64: TypeAlias = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
#: A WASI exit code is u32, a POSIX one fits in it, and -1 to -64 are signals as Python's subprocess counts them.
ExitCode: TypeAlias = Annotated[int, Meta(ge=-(2**31), le=2**32 - 1)]
Name: TypeAlias = Annotated[str, Meta(max_length=64)]
Label: TypeAlias = Annotated[str, Meta(max_length=256)]
Text: TypeAlias = Annotated[str, Meta(max_length=8192)]
#: PATH_MAX of Linux, limits.h.
Path: TypeAlias = Annotated[str, Meta(min_length=1, max_length=4096)]
Paths: TypeAlias = Annotated[tuple[Path, ...], Meta(max_length=PATHS_MAX)]
#: SHA-256 in lower-case hex, or "" where the sender computed none.
Digest: TypeAlias = Annotated[str, Meta(max_length=64)]
Scalar: TypeAlias = bool | int | float | Text | None

#: The values of ``fastness.runs.DenialCode``; a test holds the two together.
Code: TypeAlias = Literal[
    "not_granted", "outside", "read_only", "absent", "quota", "unsupported", "too_large", "escape", "host", "address",
    "redirect", "header", "revoked", "expired", "rate", "cancelled", "no_adapter", "syscall", "wasi_refused",
]  # fmt: skip


class Head(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """Base of all heads and their parts.  They hold plain data only, so they can form no cycle."""


# Host to guest.


class Start(Head, frozen=True):
    """First word of the host: which runtime to make ready, and its options."""

    runtime: Name
    options: Annotated[dict[Name, Scalar], Meta(max_length=64)] = {}


class Stage(Head, frozen=True):
    """
    A piece of an input file for the next invoke; the blob is the piece.

    ``size`` is the whole file's; pieces of one file follow each other, and ``last`` marks the final one.
    """

    path: Path
    size: Size
    last: bool


class LimitsHead(Head, frozen=True, kw_only=True):
    """
    Limits of one invoke; units as in ``fastness.limits.Limits``.

    ``frame_bytes`` is of the guest's answer, ``call_bytes`` of the arguments of a call.
    """

    wall_s: Seconds
    cpu_s: Seconds
    memory: Size
    fds: Count
    files: Count
    file_bytes: Size
    output_bytes: Size
    output_total_bytes: Size
    frame_bytes: Size = frames.GUEST_MAX_BLOB
    call_bytes: Size = frames.GUEST_MAX_BLOB
    calls_in_flight: Count = 16
    log_bytes: Size = 1 << 20


class PreopenHead(Head, frozen=True):
    """A folder that the guest finds open: its path inside, and whether it may be written."""

    path: Path
    writable: bool = False


class Invoke(Head, frozen=True, kw_only=True):
    """
    Do one thing.  The blob is ``code_len`` bytes of code, then ``stdin_len`` bytes of standard input, then
    ``context_len`` bytes of JSON: what the guest finds as ctx.  A guest that is handed none cannot call.

    ``op``: ``run`` code in a clean guest; ``open`` a session, ``execute`` in it, ``close`` it; ``image``: save the
    session under the name ``image``; ``ping``: answer at once; ``compare`` what waits with its image.
    ``session`` is 0 outside a session; ``image`` names the saved state that ``run`` and ``open`` start from, "" for the
    runtime's own.  ``time_ns`` is nanoseconds since 1970 at which the guest's clock stands still.  ``want_value`` and
    ``want_files`` say what is to be sent back.
    """

    id: Id
    op: Literal["run", "open", "execute", "close", "ping", "image", "compare"]
    session: Count = 0
    runtime: Name = ""
    image: Label = ""
    code_len: Length = 0
    stdin_len: Length = 0
    context_len: Length = 0
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    preopens: tuple[PreopenHead, ...] = ()
    preload: tuple[Label, ...] = ()
    limits: LimitsHead | None = None
    seed: Signed64 | None = None
    time_ns: Signed64 | None = None
    fresh: bool = False
    filename: Annotated[str, Meta(max_length=4096)] = ""
    want_value: bool = True
    want_files: bool = True


class Interrupt(Head, frozen=True):
    """Raise the language's interrupt in this invoke (KeyboardInterrupt); it may go on, a session keeps its state."""

    id: Id


class Cancel(Head, frozen=True):
    """End this invoke now; its result says ``cancelled``, or what it was if it had already ended."""

    id: Id


class Reply(Head, frozen=True):
    """The answer to a call; the blob is the value as ``values`` encodes it."""

    id: Id


class Fault(Head, frozen=True):
    """A call was refused or failed: a code and a short text that names nothing of the host."""

    id: Id
    code: Name
    message: Text = ""


# Guest to host.


class Hello(Head, frozen=True):
    """First word of the guest: what it is and which layers of confinement it has put on itself (a claim)."""

    protocol: Annotated[int, Meta(ge=0, le=65_535)]
    guest: Name
    layers: Annotated[dict[Name, Label], Meta(max_length=64)] = {}
    pid: Count = 0
    timings: Annotated[dict[Name, float], Meta(max_length=64)] = {}


class Ready(Head, frozen=True):
    """
    Invokes may come.

    ``images`` names the saved states that are at hand.  ``layers`` are the mechanisms that the guest's process has put
    on itself by now, ``gaps`` those that it could not have, with the reason; ``timings`` are milliseconds of its start.
    """

    images: Annotated[tuple[Label, ...], Meta(max_length=256)] = ()
    layers: Annotated[dict[Name, Label], Meta(max_length=64)] = {}
    gaps: Annotated[tuple[tuple[Label, Label], ...], Meta(max_length=64)] = ()
    timings: Annotated[dict[Name, float], Meta(max_length=64)] = {}


class Call(Head, frozen=True):
    """Ask the broker for an operation of a capability; the blob is its arguments as ``values`` encodes them."""

    id: Id
    capability: Name
    operation: Name


class Drop(Head, frozen=True):
    """The guest has no more use for the answer to this call."""

    id: Id


class Log(Head, frozen=True):
    """A line for the run's log."""

    level: Literal["debug", "info", "warning", "error"]
    text: Text


class Event(Head, frozen=True):
    """
    Something while the invoke runs; the blob is its content.

    ``stdout`` and ``stderr`` carry output as it comes; ``dropped`` counts bytes before this blob that were not kept.
    """

    name: Name
    dropped: Size = 0


class Artefact(Head, frozen=True):
    """
    A piece of an output file of invoke ``id``; the blob is the piece.

    ``size`` is the whole file's; pieces of one file follow each other, and all but the last have ``more`` set.
    """

    id: Id
    path: Path
    size: Size
    more: bool = False
    change: Literal["added", "changed"] = "added"
    sha256: Digest = ""


class UsageHead(Head, frozen=True, kw_only=True):
    """
    What an invoke used.  ``*_us`` are microseconds: of the guest's time, of its processor time, and of making its
    instance.  ``memory_bytes`` is the linear memory or resident set at its largest.  ``reset``: an instance was reset
    in place rather than made.
    """

    wall_us: Count = 0
    cpu_us: Count = 0
    instance_us: Count = 0
    memory_bytes: Size = 0
    stdout_bytes: Size = 0
    stderr_bytes: Size = 0
    file_bytes: Size = 0
    files: Count = 0
    calls: Count = 0
    reset: bool = False


class DenialHead(Head, frozen=True):
    """A refusal that the guest's host layer saw itself; equal ones are merged into ``count``.

    ``at_us`` is microseconds from the invoke's start to the first of them.
    """

    operation: Name
    target: Label
    code: Code
    layer: Name
    count: Annotated[int, Meta(ge=1, le=EXACT_MAX)] = 1
    at_us: Count = 0


class Result(Head, frozen=True, kw_only=True):
    """
    How an invoke ended.  The blob is the rest of stdout, the rest of stderr, the guest's own payload, and the claims
    that it told as they happened.

    ``exit_code`` where the guest exited; ``trap`` names what stopped it.  ``deleted``, ``added`` and ``changed`` are
    paths below the work folder, without those that artefacts have named.
    """

    id: Id
    ending: Literal[
        "returned", "exit", "trap", "deadline", "cpu", "cancelled", "output_limit", "memory", "payload", "stub",
        "refused",
    ]  # fmt: skip
    exit_code: ExitCode | None = None
    trap: Label = ""
    usage: UsageHead = UsageHead()
    denials: Annotated[tuple[DenialHead, ...], Meta(max_length=ROWS_MAX)] = ()
    denials_dropped: Count = 0
    added: Paths = ()
    changed: Paths = ()
    deleted: Paths = ()
    changes_dropped: Count = 0
    stdout_len: Length = 0
    stderr_len: Length = 0
    payload_len: Length = 0
    claims_len: Length = 0
    stdout_dropped: Size = 0
    stderr_dropped: Size = 0
    session_state: Literal["none", "kept", "lost"] = "none"


class Error(Head, frozen=True):
    """
    The machinery in the guest's process failed at the step ``where``: no result will come for invoke ``id``.

    With ``id`` 0 it is the guest's last word, whatever is in flight: it cannot start, or not go on.
    """

    id: Count
    where: Name
    message: Text = ""


class Bye(Head, frozen=True):
    """The guest takes no more invokes and ends."""

    reason: Label = ""


HostMessage: TypeAlias = Start | Stage | Invoke | Interrupt | Cancel | Reply | Fault
GuestMessage: TypeAlias = Hello | Ready | Call | Drop | Log | Event | Artefact | Result | Error | Bye
Message: TypeAlias = HostMessage | GuestMessage

#: The frame type of each struct.
TYPE_OF: Final[dict[type[Head], int]] = {
    Start: frames.START, Stage: frames.STAGE, Invoke: frames.INVOKE, Interrupt: frames.INTERRUPT,
    Cancel: frames.CANCEL, Reply: frames.REPLY, Fault: frames.FAULT,
    Hello: frames.HELLO, Ready: frames.READY, Call: frames.CALL, Drop: frames.DROP, Log: frames.LOG,
    Event: frames.EVENT, Artefact: frames.ARTEFACT, Result: frames.RESULT, Error: frames.ERROR, Bye: frames.BYE,
}  # fmt: skip

_HEADS: Final = {kind: head for head, kind in TYPE_OF.items()}
_encode = msgspec.json.Encoder().encode
#: Frames whose blob means something; any other must come without one.
_WITH_BLOB: Final = frozenset(
    {frames.STAGE, frames.INVOKE, frames.REPLY, frames.CALL, frames.EVENT, frames.ARTEFACT, frames.RESULT}
)


@functools.cache
def _decoder(kind: int) -> msgspec.json.Decoder[Any]:
    """Made when the first frame of its type comes, for most processes meet few of them."""
    return msgspec.json.Decoder(_HEADS[kind])


def encode_head(message: Message) -> bytes:
    """The JSON of a head.  Raises HostProtocolError where a text cannot be written as UTF-8."""
    try:
        return _encode(message)
    except (UnicodeEncodeError, OverflowError) as error:
        raise HostProtocolError(f"{type(message).__name__.lower()} cannot be written: {error}") from None


def encode(message: Message, blob: bytes = b"") -> bytes:
    """The whole frame of a message.  Raises HostProtocolError as :func:`encode_head` does."""
    return frames.encode(TYPE_OF[type(message)], encode_head(message), blob)


def decode(frame: frames.Frame) -> Message:
    """
    The typed head of a frame whose type the parser has let through.

    Raises GuestProtocolError, or HostProtocolError for a frame of the host's: no JSON, a field that is missing,
    unknown, of a wrong type or out of bounds, nesting too deep, lengths that do not add up to the blob.
    """
    kind = frame.type
    try:
        message: Any = _decoder(kind).decode(frame.head)
    except RecursionError:
        raise _error(kind, "its head is nested too deeply") from None
    except KeyError:
        raise _error(kind, "no such frame type") from None
    except ValueError as error:  # all of msgspec's errors are one
        raise _error(kind, str(error)) from None
    size = len(frame.blob)
    if kind == frames.RESULT:
        total = message.stdout_len + message.stderr_len + message.payload_len + message.claims_len
    elif kind == frames.INVOKE:
        total = message.code_len + message.stdin_len + message.context_len
    else:
        if size and kind not in _WITH_BLOB:
            raise _error(kind, f"it carries a blob of {size} bytes and should have none")
        return message  # type: ignore[no-any-return]  # each decoder of the table makes a Message
    if total != size:
        raise _error(kind, f"it announces {total} bytes of blob and carries {size}")
    return message  # type: ignore[no-any-return]  # as above


def _error(kind: int, why: str) -> ProtocolError:
    # What msgspec says may quote a field name that the other side chose; that is as long as the head.
    text = f"the {frames.NAMES.get(kind, hex(kind))} frame is not valid: {why[:300]}"
    return HostProtocolError(text) if kind in frames.HOST_TYPES else GuestProtocolError(text)
