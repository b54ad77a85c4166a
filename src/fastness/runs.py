"""
The data of one run: what is asked for, and what came of it.  Frozen; unknown fields are refused.

The meaning of each field is part of the public contract; ``SPECIFICATION.md`` and the API reference repeat it.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from fastness import errors
from fastness.files import File, Files
from fastness.limits import Limits

__all__ = [
    "JSON_SCHEMA",
    "Applied",
    "Changes",
    "Denial",
    "DenialCode",
    "File",
    "Files",
    "Outcome",
    "OutcomeKind",
    "PluginCall",
    "RunRequest",
    "RunResult",
    "Usage",
]

#: Version of the object that ``--json`` prints.
JSON_SCHEMA = 1


class OutcomeKind(enum.StrEnum):
    """How a run ended.  Closed: free text is only in ``Outcome.detail``."""

    OK = "ok"
    GUEST_ERROR = "guest_error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MEMORY = "memory"
    CPU = "cpu"
    OUTPUT_LIMIT = "output_limit"
    CALL_LIMIT = "call_limit"
    DISK = "disk"
    PROTOCOL = "protocol"
    CRASHED = "crashed"


class DenialCode(enum.StrEnum):
    """Why something was refused.  Closed."""

    NOT_GRANTED = "not_granted"
    OUTSIDE = "outside"
    READ_ONLY = "read_only"
    ABSENT = "absent"
    QUOTA = "quota"
    UNSUPPORTED = "unsupported"
    TOO_LARGE = "too_large"
    ESCAPE = "escape"
    HOST = "host"
    ADDRESS = "address"
    REDIRECT = "redirect"
    HEADER = "header"
    REVOKED = "revoked"
    EXPIRED = "expired"
    RATE = "rate"
    CANCELLED = "cancelled"
    NO_ADAPTER = "no_adapter"
    SYSCALL = "syscall"
    WASI_REFUSED = "wasi_refused"


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    How the run ended.

    ``detail`` is a short text (an exception's last line, a trap's name).  ``signal`` is set where a native guest
    died of one.  ``dropped_bytes`` counts output that was written and not kept.
    """

    kind: OutcomeKind
    detail: str = ""
    signal: int | None = None
    dropped_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether the guest ran to its end without an error."""
        return self.kind is OutcomeKind.OK


class Denial(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    A recorded refusal.

    ``claimed`` rows come from inside the guest and prove nothing by themselves; all others were refused by the host.
    ``count`` is how often the same thing was refused; ``at`` is seconds since the run's start, of the first time.
    """

    capability: str
    operation: str
    target: str
    code: DenialCode
    layer: str
    count: int = 1
    claimed: bool = False
    at: float = 0.0


class Usage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What a run used: ``wall_s`` and ``cpu_s`` of the guest, ``queue_s`` waiting for a free guest, ``memory`` in bytes
    (linear memory or resident set at its largest, the warm guest included), bytes written and files left.

    ``cost`` is what its calls cost, in billionths of the operator's currency.
    """

    wall_s: float = 0.0
    cpu_s: float = 0.0
    queue_s: float = 0.0
    memory: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    file_bytes: int = 0
    files: int = 0
    calls: int = 0
    cost: int = 0
    denials_dropped: int = 0


class Changes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Paths below the work folder that the run added, changed or deleted, sorted.

    ``links`` gives, for each of them that is a symbolic link, where it leads.  Of runs on a project: ``modes`` gives
    permission bits in octal where a file's changed, or where a new file's are not 0644; ``left_out`` names what the
    guest did not get, and why.  A folder is seen through what is in it.
    """

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    links: dict[str, str] = {}
    modes: dict[str, str] = {}
    left_out: dict[str, str] = {}


class Applied(msgspec.Struct, frozen=True, kw_only=True):
    """What was brought into the project ``folder``: paths below it, sorted."""

    folder: str = ""
    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class PluginCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What to run of a plugin: ``method`` of ``module``, with a ctx and ``arguments``, which are plain data by name.

    Python imports the module from the work folder by its name; a JavaScript module's text is the request's code, and
    ``module`` is what it is called in a traceback.  ``sources`` are texts of Python modules by their path, found as if
    they were files there: what is all code needs none.
    """

    module: str
    method: str
    arguments: dict[str, Any] = {}
    sources: dict[str, str] = {}


class RunRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    One execution, fully described.  Exactly one of ``code``, ``entry``, ``module`` and ``command`` is given.

    ``files`` maps a path relative to the work folder to ``bytes``, ``str`` (content) or ``pathlib.Path`` (a host
    file).  ``work`` is the absolute path of a project that a command gets a copy of; ``include`` names what of it
    looks like a secret and is wanted all the same.  ``bind`` is the absolute path of a folder that is the work folder
    itself, where the tier is made of containers.
    ``time`` is seconds since 1970 at which the guest's clock stands still.  ``deadline`` is seconds that also cover
    waiting for a free guest.  ``on_event(name, data)`` is called with output as it comes.  ``plugin`` runs a plugin's
    method; the value is what it returns.  ``functions`` are the host's, where a plain run's guest may call any, as a
    ``broker.functions.Functions``.  ``stack`` is bytes that the stack of a native guest's first thread may take, where
    that is not to be what the system gives it; other tiers have stacks of their own.
    """

    code: str | None = None
    entry: str | None = None
    module: bytes | None = None
    command: tuple[str, ...] | None = None
    runtime: str = "python"
    tier: str = "wasm"
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    stdin: bytes = b""
    files: dict[str, Any] = {}
    work: str | None = None
    include: tuple[str, ...] = ()
    bind: str | None = None
    preload: tuple[str, ...] | None = None
    packages: tuple[str, ...] | None = None
    preopens: tuple[str, ...] | None = None
    image: str | None = None
    tenant: str = "default"
    limits: Limits = Limits()
    seed: int | None = None
    time: float | None = None
    deadline: float | None = None
    fresh: bool = False
    filename: str = ""
    on_event: Callable[[str, Any], None] | None = None
    plugin: PluginCall | None = None
    functions: Any = None
    stack: int | None = None


class RunResult(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """
    Everything that came of a run.  What the guest did is here as data; only ``raise_for_outcome`` raises.

    ``value`` is the last expression's value where it is plain data, else None with a capped ``value_repr``.
    ``stdout_bytes`` is exact as far as kept; ``stdout`` has U+FFFD for invalid UTF-8.
    ``guarantees`` were proven on this host; ``layers`` names the mechanism that kept each.
    ``state`` of a session after the run: ``none`` (no session), ``kept`` or ``lost``.
    """

    outcome: Outcome
    value: Any = None
    value_repr: str | None = None
    stdout_bytes: bytes = b""
    stderr_bytes: bytes = b""
    exit_code: int | None = None
    files: Files = msgspec.field(default_factory=Files)
    changes: Changes = Changes()
    artefacts: tuple[Any, ...] = ()
    denials: tuple[Denial, ...] = ()
    usage: Usage = Usage()
    tier: str = ""
    backend: str = ""
    runtime: str = ""
    guarantees: tuple[str, ...] = ()
    layers: dict[str, str] = {}
    sandboxed: bool = False
    state: str = "none"
    policy_digest: str = ""
    run_id: str = ""

    @property
    def ok(self) -> bool:
        """Whether the outcome is ``ok``."""
        return self.outcome.kind is OutcomeKind.OK

    @property
    def stdout(self) -> str:
        """Kept standard output as text."""
        return self.stdout_bytes.decode("utf-8", "replace")

    @property
    def stderr(self) -> str:
        """Kept standard error as text."""
        return self.stderr_bytes.decode("utf-8", "replace")

    def raise_for_outcome(self) -> RunResult:
        """
        Return self where the outcome is ``ok``; raise otherwise.

        guest_error and crashed raise GuestError; timeout RunTimeout; cancelled RunCancelled; memory, cpu,
        output_limit, call_limit and disk LimitExceeded; protocol GuestProtocolError.  All are RunFailed.
        """
        kind = self.outcome.kind
        if kind is OutcomeKind.OK:
            return self
        if kind in (OutcomeKind.GUEST_ERROR, OutcomeKind.CRASHED):
            raise errors.GuestError(self)
        if kind is OutcomeKind.TIMEOUT:
            raise errors.RunTimeout(self)
        if kind is OutcomeKind.CANCELLED:
            raise errors.RunCancelled(self)
        if kind is OutcomeKind.PROTOCOL:
            raise errors.GuestProtocolError(f"the run ended as protocol: {self.outcome.detail}", self)
        raise errors.LimitExceeded(self, *_met(self))

    def apply(self, *, allow: Sequence[str] = (), failed: bool = False) -> Applied:
        """
        Bring the changes of a command's run into the project that it worked on a copy of: all of them, or none.

        ``allow`` names changed files, or folders, that tools run by themselves (``.git``, ``package.json``...).
        The changes of a command that did not end well are half of something, so ``failed`` must ask for them.
        Raises ApplyRefused with every problem, and nothing touched; ConfigurationError where the run had no ``work``;
        BackendError where writing failed, with everything put back.
        """
        how: Callable[[Sequence[str]], Applied] | None = self.__dict__.get("_apply")
        if how is None:
            raise errors.ConfigurationError("apply", self.run_id, "the result of a command's run with work=FOLDER")
        if isinstance(allow, str) or not all(isinstance(item, str) for item in allow):
            raise errors.ConfigurationError("allow", allow, "a list of paths")
        if not self.ok and not failed:
            detail = f": {self.outcome.detail}" if self.outcome.detail else ""
            why = f"the command did not end well ({self.outcome.kind.value}{detail})"
            raise errors.ApplyRefused([f"{why}; apply(failed=True) brings its changes in all the same"])
        return how(allow)

    def to_dict(self) -> dict[str, Any]:
        """
        The object that ``--json`` prints: every field by name, enums by value, files as {path, size, sha256}.

        Values that JSON has no number or text for are strings; lone surrogates appear as escapes.
        """
        value = _plain(self.value)
        return {
            "schema": JSON_SCHEMA,
            "outcome": msgspec.to_builtins(self.outcome),
            "value": value,
            "value_repr": self.value_repr,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "files": [{"path": p, "size": f.size, "sha256": f.sha256} for p, f in self.files.items()],
            "changes": msgspec.to_builtins(self.changes),
            "artefacts": msgspec.to_builtins(self.artefacts),
            "denials": msgspec.to_builtins(self.denials),
            "usage": msgspec.to_builtins(self.usage),
            "tier": self.tier,
            "backend": self.backend,
            "runtime": self.runtime,
            "guarantees": list(self.guarantees),
            "layers": dict(self.layers),
            "sandboxed": self.sandboxed,
            "state": self.state,
            "policy_digest": self.policy_digest,
            "run_id": self.run_id,
        }

    def to_json(self) -> str:
        """``to_dict`` as one line of JSON text."""
        # ASCII only: in a terminal even C1 and direction controls of a guest must stay text.
        return json.dumps(self.to_dict(), separators=(",", ":"), allow_nan=False).replace("\x7f", "\\u007f")


def _met(result: RunResult) -> tuple[str, int | float | None]:
    """The field of ``Limits`` that a run met, and how much of it was used; kind and None where that is not known."""
    kind, detail, usage = result.outcome.kind, result.outcome.detail, result.usage
    if kind is OutcomeKind.DISK:
        if detail.endswith("(files)"):
            return "files", usage.files
        return ("file_bytes", usage.file_bytes) if detail.endswith("(file_bytes)") else (kind.value, None)
    return {
        OutcomeKind.MEMORY: ("memory", usage.memory or None),
        OutcomeKind.CPU: ("cpu_s", usage.cpu_s),
        OutcomeKind.OUTPUT_LIMIT: ("output_total_bytes", usage.stdout_bytes + usage.stderr_bytes),
        OutcomeKind.CALL_LIMIT: ("calls", usage.calls),
    }.get(kind, (kind.value, None))


def _plain(value: Any) -> Any:
    """A value as JSON can carry it; it was decoded by us, so its types are the plain ones."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return repr(value)[2:-1]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        # The interpreter refuses to print huge integers in decimal; hexadecimal has no such limit.
        return str(value) if value.bit_length() < 2_000 else hex(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value
