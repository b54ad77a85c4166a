"""
Proof that the confinement of an engine holds here: try to break it, in throw-away processes, and look.

Every attempt is made twice, without confinement and with it, so that "refused" means refused by us and not merely
impossible on this machine.  The caller's process is never forked and never a target.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fastness._linux import require_support
from fastness._linux.namespaces import NOBODY
from fastness._linux.proof_attempts import ATTEMPTS
from fastness._linux.proof_child import LAYERS

_SOURCE = Path(__file__).resolve().parent.parent.parent

#: What a refusal looks like, by layer: the filter ends the process or answers EACCES; the other walls answer.
_REFUSALS = {
    "all": frozenset({"SIGSYS", "EACCES"}),
    "landlock": frozenset({"EACCES", "EPERM", "EXDEV"}),
    "namespaces": frozenset({"ENETUNREACH", "ECONNREFUSED"}),
    "privileges": frozenset({"EPERM", "EINVAL"}),
}

#: Bytes of the child's report that are read.
_REPORT_CAP = 1 << 16


@dataclass(frozen=True)
class Observation:
    """
    One attempt and what came of it.

    ``guarantee`` is the value of a ``Guarantee``; ``layer`` is ``all`` for the whole confinement or the one wall that
    stood alone; ``expected`` lists the outcomes that count as refused; ``control`` is what came of the same
    attempt without confinement, where anything but ``succeeded`` means that this machine refuses it anyway.
    """

    guarantee: str
    attempt: str
    layer: str
    expected: str
    observed: str
    control: str
    held: bool


def prove_engine(python: str, timeout: float = 20.0) -> list[Observation]:
    """
    Try every attempt against the confinement of an engine that runs under the interpreter ``python``.

    Takes at most about ``timeout`` seconds; attempts that were not reached by then are observed as ``not tried`` and
    do not hold.  Raises ``OSError`` where the helper process cannot be started or the platform is not supported.
    """
    require_support()
    folder = tempfile.mkdtemp(prefix=f"fastness-proof-{os.getpid()}-")
    try:
        canary = os.path.join(folder, "canary")
        Path(canary).write_bytes(b"canary")
        if os.geteuid() == 0:
            # An engine of root's becomes nobody, and then only confinement may stand in its way to the canary.
            os.chown(canary, NOBODY, NOBODY)
            os.chown(folder, NOBODY, NOBODY)
        abstract = "fastness-proof-" + secrets.token_hex(8)
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener, socket.socket(socket.AF_UNIX) as local:
            local.bind("\0" + abstract)
            local.listen(64)
            report = _run(python, timeout, canary, listener.getsockname()[1], abstract)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _judge(report)


def held_guarantees(observations: list[Observation]) -> frozenset[str]:
    """The guarantees of which every attempt against the whole confinement was refused."""
    tried = {o.guarantee for o in observations if _decides(o)}
    return frozenset(tried - {o.guarantee for o in observations if _decides(o) and not o.held})


def _decides(observation: Observation) -> bool:
    # Whether the flag is set cannot be asked under the filter, so the layer that sets it answers for it.
    return observation.layer == "all" or observation.guarantee == "no_new_privs"


def _run(python: str, timeout: float, canary: str, port: int, abstract: str) -> dict[tuple[str, str], str]:
    child = str(Path(__file__).with_name("proof_child.py"))
    seconds = str(max(int(timeout), 1))
    process = subprocess.Popen(
        [python, "-I", "-S", child, str(_SOURCE), canary, str(port), abstract, seconds],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        start_new_session=True,
    )
    try:
        output = process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        _end_group(process.pid)
        output = process.communicate()[0]
    finally:
        _end_group(process.pid)
        process.wait()
    report = {}
    for line in output[:_REPORT_CAP].decode("utf-8", "replace").splitlines():
        parts = line.split("\t")
        if len(parts) == 3:
            report[parts[0], parts[1]] = parts[2]
    return report


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, 9)
    except ProcessLookupError:
        pass


def _judge(report: dict[tuple[str, str], str]) -> list[Observation]:
    observations = []
    for layer, attempts in LAYERS.items():
        if layer == "none":
            continue
        refusals = _REFUSALS[layer]
        for attempt in attempts:
            observed = report.get((layer, attempt), "not tried")
            observations.append(
                Observation(
                    guarantee=ATTEMPTS[attempt][1],
                    attempt=attempt,
                    layer=layer,
                    expected=" or ".join(sorted(refusals)),
                    observed=observed,
                    control=report.get(("none", attempt), "not tried"),
                    held=observed in refusals,
                )
            )
    return observations
