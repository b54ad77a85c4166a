"""
No isolation at all: the caller's own interpreter, as a child process.

This is not a tier.  It exists for a developer on a machine that they are happy to hand over, runs only where both the
environment variable and the argument ask for it, and its results say ``sandboxed=False``.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.backends.calling import close_calls
from fastness.brokered import Calls
from fastness.errors import ConfigurationError, TierUnavailable
from fastness.runner.capture import HeadTail
from fastness.runs import Changes, File, Files, Outcome, OutcomeKind, RunRequest, Usage
from fastness.tier import Probe, Tier
from fastness.waiting import Waiting

VARIABLE = "FASTNESS_ALLOW_UNSANDBOXED"


def allowed() -> bool:
    """Whether the operator has opened the fallback."""
    return os.environ.get(VARIABLE) == "1"


class LocalBackend(Backend):
    """Runs Python in a child process of the same user, with the same files and network."""

    name = "local"
    tier = Tier.MEDIATED
    runtimes = frozenset({"python"})
    sandboxed = False

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting

    async def probe(self, *, afresh: bool = False) -> Probe:
        """Nothing is promised, so nothing is proven."""
        return Probe(backend=self.name, tier=Tier.MEDIATED.value)

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None, calls: Calls | None = None) -> Report:
        """Run in a temporary folder that is removed afterwards.  Raises TierUnavailable unless opened."""
        await _refuse_calls(calls, self._waiting)
        if not allowed():
            raise TierUnavailable("local", reason=f"unsandboxed runs are off; {VARIABLE}=1 would allow them")
        with tempfile.TemporaryDirectory(prefix=f"fastness-local-{os.getpid()}-") as folder:
            for path, data in staged.files.items():
                target = Path(folder) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            return await self._run(request, Path(folder), dict(staged.files), sink)

    async def _run(self, request: RunRequest, folder: Path, before: dict[str, bytes], sink: Sink | None) -> Report:
        stop = threading.Event()
        try:
            return await self._waiting.call(partial(_run_process, request, folder, before, sink, stop))
        finally:
            stop.set()

    async def open_session(self, request: RunRequest, calls: Calls | None = None) -> BackendSession:
        """The fallback has none."""
        await close_calls(calls, self._waiting)
        raise ConfigurationError("tier", "local", "a tier that has sessions: wasm")

    async def aclose(self) -> None:
        """Nothing is kept."""


async def _refuse_calls(calls: Calls | None, waiting: Waiting) -> None:
    """What asks for a ctx is not to be run without a sandbox.  Raises ConfigurationError."""
    if calls is not None:
        await close_calls(calls, waiting)
        raise ConfigurationError("tier", "local", "a tier with a sandbox: only there does a guest get a ctx")


def _run_process(
    request: RunRequest, folder: Path, before: dict[str, bytes], sink: Sink | None, stop: threading.Event
) -> Report:
    """Run the child to its end, its deadline, its output cap or until ``stop`` is set."""
    out, err = HeadTail(request.limits.output_bytes), HeadTail(request.limits.output_bytes)
    began = time.monotonic()
    kind, detail, written = OutcomeKind.OK, "", 0
    with tempfile.TemporaryFile() as stdin:
        stdin.write(request.stdin)
        stdin.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-c", request.code or "", *request.args],
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            cwd=folder, env=dict(request.env), start_new_session=True,
        )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, ("stdout", out))
            selector.register(process.stderr, selectors.EVENT_READ, ("stderr", err))
            while selector.get_map():
                if time.monotonic() - began > request.limits.wall_s:
                    kind = OutcomeKind.TIMEOUT
                elif stop.is_set():
                    kind = OutcomeKind.CANCELLED
                elif written > request.limits.output_total_bytes:
                    kind = OutcomeKind.OUTPUT_LIMIT
                if kind is not OutcomeKind.OK:
                    break
                for key, _ in selector.select(0.05):
                    data = os.read(key.fd, 1 << 16)
                    if not data:
                        selector.unregister(key.fileobj)
                        continue
                    name, keep = key.data
                    written += len(data)
                    keep.add(data)
                    if sink is not None:
                        sink(name, data)
    finally:
        _kill_group(process.pid)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    code = process.returncode
    if kind is OutcomeKind.OK and code:
        kind = OutcomeKind.GUEST_ERROR if code > 0 else OutcomeKind.CRASHED
        detail = f"exit status {code}"
    files, changes = _collect(folder, before)
    return Report(
        outcome=Outcome(kind, detail, None, out.dropped + err.dropped),
        stdout=out.bytes(),
        stderr=err.bytes(),
        exit_code=code if kind in (OutcomeKind.OK, OutcomeKind.GUEST_ERROR) else None,
        files=files,
        changes=changes,
        usage=Usage(wall_s=time.monotonic() - began),
    )


def _kill_group(leader: int) -> None:
    try:
        os.killpg(leader, 9)
    except (ProcessLookupError, PermissionError):
        pass


def _collect(folder: Path, before: dict[str, bytes]) -> tuple[Files, Changes]:
    files: dict[str, File] = {}
    added, changed = [], []
    seen = set()
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not path.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        seen.add(name)
        data = path.read_bytes()
        if name not in before:
            added.append(name)
        elif before[name] != data:
            changed.append(name)
        else:
            continue
        files[name] = File(data)
    return Files(files), Changes(tuple(added), tuple(changed), tuple(sorted(set(before) - seen)))
