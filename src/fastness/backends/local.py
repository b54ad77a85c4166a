"""
No isolation at all: the caller's own interpreter, as a child process.

This is not a tier.  It exists for a developer on a machine that they are happy to hand over, runs only where both the
environment variable and the argument ask for it, and its results say ``sandboxed=False``.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import anyio

from fastness.backends.base import Backend, BackendSession, Report, Sink, Staged
from fastness.errors import ConfigurationError, TierUnavailable
from fastness.runner.capture import HeadTail
from fastness.runs import Changes, File, Files, Outcome, OutcomeKind, RunRequest, Usage
from fastness.tier import Probe, Tier

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

    async def probe(self) -> Probe:
        """Nothing is promised, so nothing is proven."""
        return Probe(backend=self.name, tier=Tier.MEDIATED.value)

    async def run(self, request: RunRequest, staged: Staged, sink: Sink | None) -> Report:
        """Run in a temporary folder that is removed afterwards.  Raises TierUnavailable unless opened."""
        if not allowed():
            raise TierUnavailable("local", reason=f"unsandboxed runs are off; {VARIABLE}=1 would allow them")
        with tempfile.TemporaryDirectory(prefix="fastness-local-") as folder:
            for path, data in staged.files.items():
                target = Path(folder) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            return await self._run(request, Path(folder), dict(staged.files), sink)

    async def _run(self, request: RunRequest, folder: Path, before: dict[str, bytes], sink: Sink | None) -> Report:
        out, err = HeadTail(request.limits.output_bytes), HeadTail(request.limits.output_bytes)
        began = time.monotonic()
        timed_out = False
        written = [0]
        over = False

        async def pump(stream: anyio.abc.ByteReceiveStream, keep: HeadTail, name: str) -> None:
            nonlocal over
            async for data in stream:
                written[0] += len(data)
                keep.add(data)
                if sink is not None:
                    sink(name, data)
                if written[0] > request.limits.output_total_bytes:
                    over = True
                    process.kill()
                    return

        process = await anyio.open_process(
            [sys.executable, "-c", request.code or "", *request.args],
            stdin=subprocess.PIPE,
            cwd=folder,
            env=dict(request.env),
            start_new_session=True,
        )
        try:
            with anyio.move_on_after(request.limits.wall_s) as scope:
                async with anyio.create_task_group() as group:
                    assert process.stdout is not None and process.stderr is not None and process.stdin is not None
                    group.start_soon(pump, process.stdout, out, "stdout")
                    group.start_soon(pump, process.stderr, err, "stderr")
                    try:
                        await process.stdin.send(request.stdin)
                        await process.stdin.aclose()
                    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                        pass
                    await process.wait()
            timed_out = scope.cancelled_caught
        finally:
            _kill_group(process.pid)
            with anyio.CancelScope(shield=True):
                await process.wait()
                await process.aclose()
        kind, detail = OutcomeKind.OK, ""
        if timed_out:
            kind = OutcomeKind.TIMEOUT
        elif over:
            kind = OutcomeKind.OUTPUT_LIMIT
        elif process.returncode:
            kind = OutcomeKind.GUEST_ERROR if process.returncode > 0 else OutcomeKind.CRASHED
            detail = f"exit status {process.returncode}"
        files, changes = _collect(folder, before)
        return Report(
            outcome=Outcome(kind, detail, None, out.dropped + err.dropped),
            stdout=out.bytes(),
            stderr=err.bytes(),
            exit_code=process.returncode if kind in (OutcomeKind.OK, OutcomeKind.GUEST_ERROR) else None,
            files=files,
            changes=changes,
            usage=Usage(wall_s=time.monotonic() - began),
        )

    async def open_session(self, request: RunRequest) -> BackendSession:
        """The fallback has none."""
        raise ConfigurationError("tier", "local", "a tier that has sessions: wasm")

    async def aclose(self) -> None:
        """Nothing is kept."""


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
