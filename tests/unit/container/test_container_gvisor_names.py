"""
gVisor is told by a runtime's name, and its version by the program that both an engine and this process would find.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastness._container import gvisor, spec
from fastness._container.endpoint import Endpoint
from fastness._container.probe import Engine
from fastness.guest import checks


def engine(path: str = "", runtime: str = "runc", socket: str = "/x") -> Engine:
    return Engine(
        endpoint=Endpoint(path=socket) if socket else Endpoint(host="127.0.0.1", port=1),
        kind="docker", version="1", api="1.41", runtime=runtime, runtimes=("runc", "runsc"), paths=(("runsc", path),),
    )  # fmt: skip


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "runsc"
    made.write_text("#!/bin/sh\necho runsc version release-20990101.0\necho spec: 1.0.2\n")
    made.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    gvisor._asked.cache_clear()
    return made


def test_by_its_name_or_as_the_engines_own() -> None:
    assert gvisor.is_gvisor(engine(), "runsc")
    assert gvisor.is_gvisor(engine(runtime="runsc-kvm"), "")
    assert not gvisor.is_gvisor(engine(), "")
    assert not gvisor.is_gvisor(engine(runtime="runsc"), "runc")


def test_its_version(program: Path) -> None:
    assert gvisor.version(engine(str(program)), "runsc") == "release-20990101.0"


@pytest.mark.parametrize("other", ["/nowhere/runsc", "runsc", ""])
def test_another_program_is_not_started(other: str, program: Path) -> None:
    assert gvisor.version(engine(other), "runsc") == "of unknown version"


def test_that_of_another_machine_is_not_known(program: Path) -> None:
    assert gvisor.version(engine(str(program), socket=""), "runsc") == "of unknown version"


def test_one_that_says_nothing(program: Path) -> None:
    program.write_text("#!/bin/sh\nexit 1\n")
    assert gvisor.version(engine(str(program)), "runsc") == "of unknown version"


def test_tasks_are_counted() -> None:
    """All of the machine's that can be seen: in a container those of the guest."""
    assert checks.tasks() > 0


def test_what_is_expected_names_the_kernel() -> None:
    ask = spec.Ask(memory=1, work=1, files=1, pids=1, fds=1)
    assert spec.expected(ask)["gvisor_of"] == ""
    assert spec.expected(ask, gvisor_of="6.1")["gvisor_of"] == "6.1"
