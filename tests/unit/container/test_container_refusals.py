"""
The tier on engines that are none, or that cannot keep it: refused with cause and fix, and nothing is asked to run.
"""

from __future__ import annotations

import threading
from pathlib import Path

import fake_engines as fakes
import pytest

import fastness
from fastness.backends import registry
from fastness.backends.container import ContainerBackend
from fastness.errors import BackendError, ConfigurationError, TierUnavailable
from fastness.runs import RunRequest
from fastness.tier import Tier
from fastness.waiting import drive


class Recording:
    """An engine that answers, and remembers what it was asked."""

    def __init__(self, **changes: object) -> None:
        self.asked: list[tuple[str, str]] = []
        self._answer = fakes.answering(info={**fakes.INFO, **changes})

    def __call__(self, conn: object, over: threading.Event) -> None:
        class Peek:
            def recv(inner, size: int) -> bytes:
                data: bytes = conn.recv(size)  # type: ignore[attr-defined]  # it is a socket
                if data:
                    method, path, _ = data.split(b" ", 2)
                    self.asked.append((method.decode(), path.decode()))
                return data

            def sendall(inner, data: bytes) -> None:
                conn.sendall(data)  # type: ignore[attr-defined]  # it is a socket

        self._answer(Peek(), over)  # type: ignore[arg-type]  # as much of a socket as is used


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"Rootless": True}, "ignores every limit"),
        ({"MemoryLimit": False}, "cannot limit memory"),
        ({"SecurityOptions": []}, "filters no system calls"),
    ],
)
def test_an_engine_that_cannot_keep_it(
    changes: dict[str, object], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Recording(**changes)
    monkeypatch.setenv("FASTNESS_ENGINE", f"unix://{tmp_path}/s")
    with fakes.engine(engine, tmp_path / "s"), pytest.raises(TierUnavailable) as caught:
        fastness.run("1", tier="container")
    assert words in str(caught.value)
    assert "Fix:" in str(caught.value)
    assert {method for method, _ in engine.asked} == {"GET"}


def test_an_engine_without_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not pulled, not even asked for by a name that could be."""
    engine = Recording()
    monkeypatch.setenv("FASTNESS_ENGINE", f"unix://{tmp_path}/s")
    with fakes.engine(engine, tmp_path / "s"), pytest.raises(TierUnavailable) as caught:
        fastness.run("1", tier="container")
    assert "fastness image build" in str(caught.value)
    assert caught.value.failures[0].guarantee == "IMAGE_ROOT"
    assert {method for method, _ in engine.asked} == {"GET"}


def test_no_engine_says_what_to_do() -> None:
    with pytest.raises(TierUnavailable) as caught:
        fastness.run("1", tier="container")
    assert "Fix:" in str(caught.value)


def test_the_probe_tells_the_same(tmp_path: Path) -> None:
    backend = ContainerBackend(engine=f"unix://{tmp_path}/nothing")
    probe = drive(backend.probe())
    drive(backend.aclose())
    assert not probe.holds
    assert probe.failures[0].remedy
    assert any("root" in note for note in probe.notes)


def test_a_run_where_the_engine_has_gone_since(tmp_path: Path) -> None:
    from fastness.backends.base import Staged

    with fakes.engine(fakes.answering(), tmp_path / "s"):
        backend = ContainerBackend(engine=f"unix://{tmp_path}/s")
        backend.engine()
    backend.access.forget()
    with pytest.raises((TierUnavailable, BackendError)) as caught:
        drive(backend.run(RunRequest(code="1", tier="container"), Staged(), None))
    assert "the engine that made it is gone" in str(caught.value)
    drive(backend.aclose())


def test_the_registry_makes_it() -> None:
    backend = registry.make(Tier.CONTAINER)
    assert (backend.tier, backend.name, backend.sandboxed) == (Tier.CONTAINER, "container", True)
    drive(backend.aclose())


def test_an_empty_name_of_an_image_is_not_that_of_the_default() -> None:
    """It comes of a variable that is not set: the run must not be in another image than somebody meant."""
    with pytest.raises(ConfigurationError, match="image is not accepted"):
        fastness.run("1", tier="container", image="")
