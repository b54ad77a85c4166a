"""
Whatever the source text is, the answer is a result or a clear error; the caller and the engine live on.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import fastness
from fastness import OutcomeKind

pytestmark = pytest.mark.tiers("wasm", "isolated", "confined")

_DEEP = 100_000


@pytest.fixture(autouse=True)
def _still_serving(box: fastness.Sandbox) -> object:
    """After every source of this file the next run works, and nothing of the former is there."""
    yield
    result = box.run("print(sorted(n for n in dir() if not n.startswith('__'))); 6 * 7")
    assert (result.outcome.kind, result.value, result.stdout) == (OutcomeKind.OK, 42, "[]\n")


@pytest.mark.parametrize(
    "source",
    [
        "(" * _DEEP + ")" * _DEEP,
        "(" * _DEEP,
        "[" * _DEEP + "]" * _DEEP,
        "{" * _DEEP + "}" * _DEEP,
        "-" * _DEEP + "1",
        "not " * _DEEP + "1",
        "1" + "+1" * _DEEP,
        "1" + "**1" * _DEEP,
        "x" + ".x" * _DEEP,
        "x" + "[0]" * _DEEP,
        "f" + "()" * _DEEP,
        "lambda: " * _DEEP + "1",
        "f'" + "{f'" * 500 + "x" + "'}" * 500 + "'",
        "\n".join(" " * i + "if 1:" for i in range(2000)) + "\n" + " " * 2000 + "pass",
        "x" + " if x else x" * _DEEP,
        "a" + "=a" * _DEEP,
        "@f\n" * _DEEP + "def f(): pass",
        "a:" + "list[" * 5000 + "int" + "]" * 5000,
        "match x:\n case " + "[" * 5000 + "]" * 5000 + ": pass",
        "from __future__ import braces",
        "def",
        "\\",
        "'''",
        "\t\n  x",
        "return 1",
        "await x",
        "\N{SNOWMAN}",
        "\ufeff\ufeff1",
        "x = 1\x1a",
        "\f" * 1000 + "(",
    ],
    ids=range(30),
)
def test_sources_that_do_not_run(box: fastness.Sandbox, source: str) -> None:
    """Nested 100,000 deep, cut off or wrong: an error of the guest, or at worst a trap, never anything of ours."""
    result = box.run(source, timeout=15)
    assert result.outcome.kind in (OutcomeKind.GUEST_ERROR, OutcomeKind.CRASHED, OutcomeKind.MEMORY)
    assert result.outcome.detail
    if result.outcome.kind is OutcomeKind.GUEST_ERROR:
        assert "Error" in result.stderr


def test_source_with_nul(box: fastness.Sandbox) -> None:
    """NUL is a syntax error, told as one."""
    result = box.run("print(1)\0print(2)")
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    assert "null bytes" in result.outcome.detail
    assert result.stdout == ""


def test_syntax_error_shows_the_line(box: fastness.Sandbox) -> None:
    """The guest's own report is on stderr, with the file name that the caller chose and no path of the host."""
    result = box.run("x = 1\ny = = 2\n", filename="analysis.py")
    assert result.outcome.kind is OutcomeKind.GUEST_ERROR
    assert result.outcome.detail == "SyntaxError: invalid syntax (analysis.py, line 2)"
    assert '"analysis.py", line 2' in result.stderr and "y = = 2" in result.stderr
    assert "fastness" not in result.stderr


def test_large_source(box: fastness.Sandbox) -> None:
    """Source up to the cap runs, whether one line or many."""
    assert box.run("#" * (11 << 20) + "\n42").value == 42
    assert box.run("x = 1\n" * 20_000 + "x").value == 1
    assert box.run("len('" + "y" * (8 << 20) + "')").value == 8 << 20


@pytest.mark.parametrize("source", ["", "\n", "   ", "# only a comment", "pass", "None"])
def test_source_of_nothing(box: fastness.Sandbox, source: str) -> None:
    """Nothing to do is done well."""
    result = box.run(source)
    assert (result.outcome.kind, result.value, result.value_repr, result.stderr) == (OutcomeKind.OK, None, None, "")


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("# -*- coding: latin-1 -*-\n'\xe9'", "\xe9"),
        ("'\N{SNOWMAN}\U0001f600'", "\N{SNOWMAN}\U0001f600"),
        ("1\r\n2\r\n3", 3),
        ("x = 1;", None),
        ("1; 2; 3", 3),
        ("if True:\n  5", None),
        ("'\\ud800' + 'x'", "\ud800x"),
    ],
)
def test_encodings_and_endings(box: fastness.Sandbox, source: str, value: object) -> None:
    """Text is text: no coding line, line ending or mark changes it."""
    result = box.run(source)
    assert result.outcome.kind is OutcomeKind.OK, result.stderr
    assert result.value == value


def test_lone_surrogate_in_source(box: fastness.Sandbox) -> None:
    """A clear error that says where."""
    with pytest.raises(fastness.ConfigurationError, match="character 4"):
        box.run("x = \ud800")


def test_mark_at_the_start_of_a_file(box: fastness.Sandbox, tmp_path: Path) -> None:
    """A byte order mark is part of a file's encoding, as for CPython; the name of the file is the program's."""
    (tmp_path / "prog.py").write_bytes(b"\xef\xbb\xbfimport sys\n[__file__, sys.argv]")
    result = box.run(entry=tmp_path / "prog.py", args=["a"])
    file, arguments = result.value
    assert arguments == ["prog.py", "a"]
    assert file.endswith("/work/prog.py")
