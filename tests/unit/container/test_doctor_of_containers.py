"""
``doctor`` tells each refusal of the tier ``container`` with its cause and what to do, and nothing of it as holding.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

import fake_engines as fakes
import pytest

from fastness._container import probe
from fastness.backends import registry
from fastness.cli.doctor import probe_table
from fastness.tier import Tier
from fastness.waiting import drive

PODMAN = {**fakes.VERSION, "Components": [{"Name": "Podman Engine"}]}


@pytest.fixture(autouse=True)
def _soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    reach = probe.reach
    # What takes eight seconds is tried elsewhere.
    monkeypatch.setattr(probe, "reach", lambda variables, named=None: reach(variables, named, 0.4))


def shown(engine: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The tier's rows of ``doctor``, as one line of words."""
    from rich.console import Console

    monkeypatch.setenv("FASTNESS_ENGINE", engine)
    backend = registry.make(Tier.CONTAINER)
    try:
        found = drive(backend.probe(afresh=True))
    finally:
        drive(backend.aclose())
    assert not found.holds
    assert found.guarantees == ()
    assert "root on the machine" in found.notes[0]
    out = io.StringIO()
    Console(file=out, width=2000).print(probe_table(found))
    return re.sub(r"\s+", " ", out.getvalue())


@pytest.mark.parametrize(
    ("place", "words", "fix"),
    [
        ("unix://{}/none", "there is no", "systemctl start docker"),
        ("unix://{}/plain", "is no socket", "FASTNESS_ENGINE"),
        ("unix://{}/stale", "nobody listens", "systemctl start docker"),
        ("tcp://127.0.0.1:1", "cannot be connected to", "start the engine there"),
        ("tcp://192.0.2.1:2375", "without TLS", "DOCKER_TLS_VERIFY=1"),
        ("ssh://host", "no address that this client speaks", "ssh -L"),
    ],
)
def test_where_there_is_no_engine(
    place: str, words: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plain").write_text("x")
    with fakes.engine(fakes.mute, tmp_path / "stale"):
        pass
    text = shown(place.format(tmp_path), monkeypatch)
    assert words in text
    assert "Fix:" in text
    assert fix in text


@pytest.mark.parametrize("behave", [fakes.mute, fakes.drip, fakes.drip_body, fakes.half, fakes.ping_only])
def test_engines_that_do_not_answer(behave: fakes.Behave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with fakes.engine(behave, tmp_path / "s"):
        text = shown(f"unix://{tmp_path}/s", monkeypatch)
    assert "0.4 s" in text
    assert "restart" in text


@pytest.mark.parametrize(
    ("changes", "guarantee", "words", "fix"),
    [
        ({"Rootless": True}, "TOTAL_MEM_CAP", "ignores every limit", "version 2"),
        ({"SecurityOptions": ["name=seccomp", "name=rootless"]}, "TOTAL_MEM_CAP", "ignores every limit", "version 2"),
        ({"MemoryLimit": False}, "TOTAL_MEM_CAP", "cannot limit memory", "delegated"),
        ({"PidsLimit": False}, "PIDS_CAP", "cannot limit processes", "delegated"),
        ({"CpuCfsQuota": False}, "WALL_KILL", "cannot limit processor time", "delegated"),
        ({"SecurityOptions": []}, "SYSCALL_FILTERED", "filters no system calls", "with seccomp"),
        ({"SecurityOptions": ["name=seccomp,profile=unconfined"]}, "SYSCALL_FILTERED", "filters no", "with seccomp"),
        ({"Architecture": "aarch64"}, "SYSCALL_FILTERED", "runs on aarch64", "x86-64"),
        ({"OSType": "windows"}, "all", "containers of windows", "Linux"),
        ({}, "IMAGE_ROOT", "has no image", "fastness image build"),
        # Rootless with version 2 is no reason; that a user's part of the groups lacks one is.
        ({"Rootless": True, "CgroupVersion": "2", "CpuCfsQuota": False}, "WALL_KILL", "processor time", "delegated"),
        ({"Rootless": True, "CgroupVersion": "2"}, "IMAGE_ROOT", "has no image", "fastness image build"),
    ],
)
def test_engines_that_cannot_keep_it(
    changes: dict[str, object], guarantee: str, words: str, fix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with fakes.engine(fakes.answering(info={**fakes.INFO, **changes}), tmp_path / "s"):
        text = shown(f"unix://{tmp_path}/s", monkeypatch)
    assert f"NO {guarantee} " in text
    assert words in text
    assert fix in text


def test_podman_over_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    with fakes.engine(fakes.answering(version=PODMAN), ("127.0.0.1", 0)) as listener:
        text = shown(f"tcp://127.0.0.1:{listener.getsockname()[1]}", monkeypatch)
    assert "it is not on this machine" in text
    assert "podman.socket" in text


def test_a_runtime_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_ENGINE_RUNTIME", "runsc")
    with fakes.engine(fakes.answering(), tmp_path / "s"):
        text = shown(f"unix://{tmp_path}/s", monkeypatch)
    assert "it has no runtime 'runsc', but runc" in text
    assert "unset FASTNESS_ENGINE_RUNTIME" in text
