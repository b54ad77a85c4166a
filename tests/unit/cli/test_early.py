"""What is guessed from a command's arguments before anything that understands them is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import house
from fastness.cli import early


@pytest.fixture(autouse=True)
def _nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FASTNESS_TIER", "FASTNESS_RUNTIME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "guessed"),
    [
        ("exec -- /bin/true", ("isolated", "command")),
        ("exec --work . --apply -- make", ("isolated", "command")),
        ("exec --tier isolated -- make", ("isolated", "command")),
        ("exec -- make --help", ("isolated", "command")),
        ("exec --tier container -- make", None),
        ("exec --help", None),
        ("run -c 1", None),
        ("run --tier wasm -c 1", None),
        ("run --tier isolated -c 1", ("isolated", "python")),
        ("run -c 1 --tier=confined", ("confined", "python")),
        ("run --tier", None),
        # Its zygote would be another.
        ("run --tier isolated --preload numpy -c 1", None),
        ("run --tier isolated --preload=numpy -c 1", None),
        ("doctor", None),
        ("", None),
    ],
)
def test_the_guess(arguments: str, guessed: tuple[str, str] | None) -> None:
    """Only where a zygote without preloaded modules will be asked for; what comes after -- is the program's."""
    assert early.guess(arguments.split()) == guessed


@pytest.mark.parametrize(
    ("name", "value", "guessed"),
    [
        ("FASTNESS_TIER", "isolated", ("isolated", "python")),
        ("FASTNESS_TIER", "wasm", None),
        ("FASTNESS_RUNTIME", "native", ("isolated", "python")),
        ("FASTNESS_RUNTIME", "docker", None),
    ],
)
def test_the_guess_heeds_the_environment(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, guessed: tuple[str, str] | None
) -> None:
    """As the command will, and an option goes before it."""
    monkeypatch.setenv(name, value)
    assert early.guess(["run", "-c", "1"]) == guessed
    assert early.guess(["run", "--tier", "confined", "-c", "1"]) == ("confined", "python")


def test_guessing_imports_nothing_to_speak_of() -> None:
    """What it saves would be spent otherwise."""
    # Modules of the environment may be imported at every start, for purposes of their own.
    code = (
        f"import sys; sys.path.insert(0, {str(house.SOURCE)!r}); from fastness.cli import early; "
        "early.begin(['doctor']); early.end()\n"
        "print(sorted({'click', 'msgspec', 'typing', 'subprocess', 'socket'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr
