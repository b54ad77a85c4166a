"""
gVisor as an engine's runtime: used where it is installed and named, reported with its version, and known from what
only has its name.
"""

from __future__ import annotations

import os
import shutil

import pytest

import fastness
from engines import FALSE_GVISOR
from fastness._container import gvisor
from fastness._container.probe import Engine
from fastness.backends.container import ContainerBackend
from fastness.errors import TierUnavailable
from fastness.waiting import drive


def _run_once() -> None:
    with fastness.Sandbox(tier="container") as box:
        box.run("1")


def test_a_runtime_that_has_only_its_name_is_refused(
    named: str, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what a container sees, where the engine takes the name; by what the engine says, where it does not."""
    monkeypatch.setenv("FASTNESS_ENGINE_RUNTIME", FALSE_GVISOR)
    with pytest.raises(TierUnavailable) as caught:
        _run_once()
    words = "no gVisor" if engine.kind == "docker" else "Runtime is"
    assert words in str(caught.value)


def test_a_runtime_that_is_not_there_is_refused(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_ENGINE_RUNTIME", "no-such-runtime")
    with pytest.raises(TierUnavailable, match="it has no runtime 'no-such-runtime'") as caught:
        _run_once()
    assert "FASTNESS_ENGINE_RUNTIME" in str(caught.value)


def test_gvisor(named: str, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed the tier holds with it; where it is not, nothing stands in for it."""
    monkeypatch.setenv("FASTNESS_ENGINE_RUNTIME", "runsc")
    if engine.kind == "podman" or shutil.which("runsc") is None:
        # Podman takes the name of a runtime from its own settings alone.
        with pytest.raises(TierUnavailable):
            _run_once()
        return
    backend = ContainerBackend(engine=named)
    try:
        proven = drive(backend.probe(afresh=True))
    finally:
        drive(backend.aclose())
    assert proven.failures == ()
    assert proven.versions["gVisor"] == gvisor.version(engine, "runsc")
    assert proven.versions["gVisor"][0].isdigit() or "release" in proven.versions["gVisor"]
    with fastness.Sandbox(tier="container") as box:
        result = box.run("import os; open('made', 'w'); os.uname().release")
        assert result.value != os.uname().release
        assert list(result.files) == ["made"]
        assert result.layers["SYSCALL_FILTERED"] == "gVisor"
        assert box.run(command=["python3", "-c", "print(6 * 7)"]).stdout == "42\n"
