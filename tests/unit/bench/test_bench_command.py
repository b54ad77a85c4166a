"""``fastness bench`` as a person types it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fastness.bench.rows import Row
from fastness.cli import bench
from fastness.cli.main import main


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two parts that take no time; the names of those that were measured."""
    measured: list[str] = []

    def part(name: str, row: Row) -> object:
        def measure(quick: bool) -> Iterator[Row]:
            measured.append(f"{name} {quick}")
            yield row

        return measure

    found = {
        "first": part("first", Row(name="a", value=2.5, judged=2.5, promise=2)),
        "second": part("second", Row(name="b", note="not here")),
    }
    monkeypatch.setattr(bench, "PARTS", found)
    return measured


def test_all_parts_are_measured(parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A promise that is not kept is said, and is no error."""
    assert main(["bench", "--json"]) == 0
    assert parts == ["first False", "second False"]
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["name"], row["kept"]) for row in rows] == [("a", False), ("b", None)]


def test_one_part_is_measured(parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """``--only`` leaves the others out."""
    assert main(["bench", "--quick", "--only", "second"]) == 0
    assert parts == ["second True"]
    assert "not here" in capsys.readouterr().out


def test_a_part_that_there_is_not(parts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Is wrong usage, told with those that there are, before anything is measured."""
    assert main(["bench", "--only", "first", "--only", "third"]) == 2
    assert not parts
    assert "first, second" in capsys.readouterr().err


def test_a_part_that_breaks_off_is_a_row(
    parts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it measured before stays, and so does every other part."""

    def breaks(quick: bool) -> Iterator[Row]:
        yield Row(name="before", value=1.0)
        raise TimeoutError("the machine is too busy")

    monkeypatch.setitem(bench.PARTS, "third", breaks)
    monkeypatch.setitem(bench.PARTS, "last", lambda quick: iter([Row(name="after", value=1.0)]))
    assert main(["bench", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["name"] for row in rows] == ["a", "b", "before", "third", "after"]
    assert rows[3]["note"] == "could not be measured: TimeoutError: the machine is too busy"
    assert main(["bench"]) == 0
    assert "too busy" in capsys.readouterr().out
