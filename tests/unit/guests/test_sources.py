"""Modules of a plugin that came with its call: found where files would be, and after what is built in."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import house

TEXTS = {
    "plug_main.py": "import plug_parts.one, plug_space.deep\nNAME = __name__\nX = plug_parts.one.X\n",
    "plug_parts/__init__.py": "from . import one as first\n",
    "plug_parts/one.py": "from .two import Y\nX = Y + 1\n",
    "plug_parts/two.py": "Y = 1\n",
    "plug_space/deep.py": "Z = 3\n",
    "plug_bad.py": "x = 1\n1 / 0  # here\n",
    "sys.py": "raise SystemExit\n",
}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    text = (house.SOURCE / "fastness" / "guest" / "sources.py").read_text()
    made = types.ModuleType("_fastness_sources")
    exec(compile(text, "<_fastness_sources>", "exec"), made.__dict__)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", sys.dont_write_bytecode)
    before = set(sys.modules)
    yield made
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_modules_and_packages(sources: Any, tmp_path: Path) -> None:
    """Each is as if its file were there: its name, its package, its place; no file is made."""
    found = sources.bring("plug_main", TEXTS)
    assert (found.NAME, found.X, found.__file__) == ("plug_main", 2, f"{tmp_path}/plug_main.py")
    parts = sys.modules["plug_parts"]
    assert parts.first is sys.modules["plug_parts.one"]
    assert (parts.__path__, sys.modules["plug_parts.one"].__package__) == ([f"{tmp_path}/plug_parts"], "plug_parts")
    assert sys.modules["plug_space.deep"].Z == 3
    assert importlib.util.find_spec("plug_none") is None
    assert os.listdir(tmp_path) == []
    assert sources.bring("plug_main", TEXTS) is found


def test_an_entry_below_a_folder(sources: Any) -> None:
    """It is imported by its dotted name, with the packages above it."""
    assert sources.bring("plug_parts.one", TEXTS).X == 2


def test_what_is_built_in_comes_first(sources: Any) -> None:
    """A package cannot put itself in the place of the interpreter's own modules."""
    assert sources.bring("sys", TEXTS) is sys
    sources.bring("plug_main", TEXTS)
    assert importlib.import_module("sys") is sys


def test_one_that_fails_is_not_there(sources: Any) -> None:
    """It can be imported anew, and its traceback shows its lines."""
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as caught:
            sources.bring("plug_bad", TEXTS)
        assert "plug_bad" not in sys.modules
        assert "# here" in "".join(traceback.format_exception(caught.value))


def test_files_are_used_where_there_are_no_texts(sources: Any, tmp_path: Path) -> None:
    """From the work folder, without bytecode beside them."""
    (tmp_path / "plug_file.py").write_text("X = 5\n")
    assert sources.bring("plug_file", None).X == 5
    assert sorted(os.listdir(tmp_path)) == ["plug_file.py"]
