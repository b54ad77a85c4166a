"""
What native guests and their zygotes say: held to its form, kept no longer than it is asked for, told where it is awaited.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import anyio
import pytest
from wasm_support import eventually

import fastness
import house
from fastness import OutcomeKind
from fastness._native import belongings
from fastness.backends.native import NativeBackend
from fastness.backends.native_family import Family


@pytest.fixture(params=["confined", "isolated"])
def tier(request: pytest.FixtureRequest) -> str:
    house.require(f"{request.param} tier")
    return str(request.param)


def family_of(sandbox: fastness.Sandbox) -> Family:
    (backend,) = sandbox._inner._runner._backends.values()
    assert isinstance(backend, NativeBackend)
    (found,) = backend._families.values()
    return found


def package(folder: Path, text: str) -> dict[str, Any]:
    """Options of a run that imports this module first."""
    folder.mkdir(mode=0o755)
    # The zygote's own socket has the first of its own numbers.
    head = f"import json, os\ndef say(data):\n    os.write({belongings._OWN}, data)\n"
    (folder / "loud.py").write_text(head + text)
    return {"preload": ("loud",), "packages": (str(folder),)}


@pytest.mark.parametrize(
    "words",
    [
        b'{"exit": ["x"]}', b'{"exit": "b1", "status": "0"}', b"[]", b"1", b"{", b"\xff", b"[" * 100_000,
        b'{"denial": "b1", "count": -1}', b'{"ready": NaN}', b'{"failed": {}}', b'{"unborn": 1e400}',
    ],
)  # fmt: skip
def test_a_package_that_writes_what_is_no_message(words: bytes, tier: str, open_folder: Path) -> None:
    """Its zygote is ended for it, the caller is told whose fault it is, and other kinds go on."""
    with fastness.Sandbox(tier=tier) as sandbox:
        with pytest.raises(fastness.FastnessError, match=r"'loud'.*broke its protocol"):
            sandbox.run("1", **package(open_folder / "p", f"say({words!r})\n"))
        assert sandbox.run("6 * 7").value == 42


def test_a_package_that_speaks_of_other_guests(tier: str, open_folder: Path) -> None:
    """What it says of guests that nobody has asked for is not kept."""
    text = "for n in range(100): say(json.dumps({'exit': f'x{n}', 'status': 0}).encode())\n"
    with fastness.Sandbox(tier=tier) as sandbox:
        result = sandbox.run("import os; os._exit(3)", **package(open_folder / "p", text))
        assert result.exit_code == 3
        family = family_of(sandbox)
        assert family._zygote is not None
        told = family._zygote._told
        assert not any(name.startswith("x") for name in [*told._exits, *told._records, *told._unrecorded])


def test_a_package_that_never_stops_talking(tier: str, open_folder: Path) -> None:
    """A deadline is kept while its messages come without end."""
    text = 'while True: say(b\'{"exit": "x"}\')\n'
    with fastness.Sandbox(tier=tier) as sandbox:
        options = package(open_folder / "p", text)
        assert sandbox.run("1", deadline=1.0, **options).outcome.kind is OutcomeKind.TIMEOUT


def test_nothing_is_kept_of_guests_that_are_gone(tier: str) -> None:
    """A zygote serves thousands; what it has told of each goes with it."""
    with fastness.Sandbox(tier=tier) as sandbox:
        for _ in range(40):
            sandbox.run("import os; os.fork()")
        family = family_of(sandbox)
        made = family._zygote
        assert made is not None
        assert eventually(lambda: len(family._guests) == len(family._ready.values()), 10)
        made.pump()
        told = made._told
        waiting = {guest.box.name for guest in family._guests}
        assert told._asked == waiting
        assert set(told._exits) | set(told._records) | told._unrecorded <= waiting


@pytest.mark.parametrize("code", ["import os\nfor _ in range(30): os.write(1, b'x' * 60000)\nos._exit(3)", "print(1)"])
def test_output_is_told_where_it_is_waited_for(code: str, tier: str) -> None:
    """The callback is called in the caller's own thread, whatever thread has read the last of it."""
    found: list[int] = []
    sizes: list[int] = []

    def told(name: str, data: Any) -> None:
        found.append(threading.get_ident())
        sizes.append(len(data))

    async def main() -> None:
        async with fastness.AsyncSandbox(tier=tier, timeout=60) as sandbox:
            result = await sandbox.run(code, on_event=told)
            assert sum(sizes) == result.usage.stdout_bytes > 0

    anyio.run(main)
    assert set(found) == {threading.get_ident()}


def test_late_output_of_a_program_is_told_where_it_is_waited_for() -> None:
    """As above, where others hold the pipe after the first process."""
    house.require("isolated tier")
    house.require("control groups")
    found: list[int] = []

    async def main() -> None:
        async with fastness.AsyncSandbox(tier="isolated", timeout=60) as sandbox:
            command = ["/bin/sh", "-c", "(while :; do echo xxxxxxxxxxxxxxxxxxxxxxxx; done)& sleep 0.1"]
            await sandbox.run(command=command, on_event=lambda *event: found.append(threading.get_ident()))

    anyio.run(main)
    assert set(found) == {threading.get_ident()}
