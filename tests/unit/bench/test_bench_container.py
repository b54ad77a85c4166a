"""
The bench of the tier ``container`` where there is nothing to measure, and what it promises in the specification's words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import house
from fastness.bench import container, measure

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_without_an_engine_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_ENGINE", f"unix://{tmp_path}/none")
    rows = list(container.container(quick=True))
    assert [(row.name, row.value, row.kept) for row in rows] == [("container", None, None)]
    assert "there is no unix://" in rows[0].note


def test_it_is_a_part() -> None:
    assert measure.PARTS["container"] is container.container


def test_the_specification_promises_the_same() -> None:
    text = (house.SOURCE.parent / "SPECIFICATION.md").read_text("utf-8")
    part = text.split("## Speed of the tier `container`")[1].split("\n## ")[0]
    for promise in (
        f"| cold | at most {container.COLD} of the engine's command |",
        f"| at most {container.POOLED['docker']} of it on Docker, {container.POOLED['podman']} on Podman |",
        f"| a pool of four ready | at most {container.FOUR_MS:,} ms |",
        f"| {container.RUNS} runs, four at a time, all right | {container.RUNS} |",
    ):
        assert promise in part


def test_a_command_that_fails_is_no_figure() -> None:
    def fails() -> object:
        raise FileNotFoundError

    assert "not installed" in container._works(fails)
    assert container._works(lambda: None) == ""
