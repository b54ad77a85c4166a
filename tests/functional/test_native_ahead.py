"""Guests that were made ahead, and what is imported before any guest is."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

import fastness
import house

TIERS = ("isolated", "confined")


@pytest.mark.parametrize("tier", TIERS)
def test_an_event_loop_goes_on_while_a_guest_that_waited_runs(tier: str) -> None:
    """
    A guest from the pool is waited for as the caller waits: other tasks run, and cancelling takes effect at once.

    It was made by a thread that waits in a way of its own.
    """
    house.require(f"{tier} tier")

    async def beats(until: asyncio.Event) -> float:
        worst = 0.0
        while not until.is_set():
            began = time.monotonic()
            await asyncio.sleep(0.01)
            worst = max(worst, time.monotonic() - began - 0.01)
        return worst

    async def go() -> tuple[float, float]:
        async with fastness.AsyncSandbox(tier=tier, pool=2) as box:
            await box.run("1")
            # The next ones come from the pool, which the keeper's thread has filled by then.
            await asyncio.sleep(0.5)
            over = asyncio.Event()
            beating = asyncio.create_task(beats(over))
            result = await box.run("import time; time.sleep(1.5)")
            assert result.ok
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(box.run("while True: pass", timeout=5), 0.3)
            cancelled = time.monotonic() - began
            over.set()
            return await beating, cancelled

    worst, cancelled = asyncio.run(go())
    # Far below the guest's own time, and far above what a busy machine adds.
    assert worst < 1.0
    assert cancelled < 3.0


@pytest.mark.parametrize("tier", TIERS)
def test_a_package_may_write_while_it_is_imported(tier: str, tmp_path: Path) -> None:
    """What it writes to the folder for temporary files is there for the import, and no guest sees it."""
    house.require(f"{tier} tier")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    package = tmp_path / "writer.py"
    package.write_text(
        "import os, tempfile\n"
        "path = os.path.join(tempfile.gettempdir(), 'cache')\n"
        "with open(path, 'w') as file: file.write('made')\n"
        "with open(path) as file: content = file.read()\n"
        "tempfile.tempdir = None\n"
    )
    package.chmod(0o644)
    look = """
import os, tempfile, writer
try:
    seen = open(writer.path).read()
except OSError as error:
    seen = type(error).__name__
[writer.content, seen, os.listdir(tempfile.gettempdir())]
"""
    with fastness.Sandbox(tier=tier, packages=[str(tmp_path)], preload=("writer",)) as box:
        result = box.run(look)
    # In confined the host's files can be asked for and not opened.
    refused = "FileNotFoundError" if tier == "isolated" else "PermissionError"
    assert result.value == ["made", refused, []], result.stderr


@pytest.mark.parametrize("tier", TIERS)
def test_practice_comes_before_code_or_not_at_all(tier: str) -> None:
    """A guest that was made ahead and waits for nothing else goes through a run; never once a program has changed it."""
    code = "import builtins\ndef broken(*a, **k):\n    raise SystemExit(7)\nbuiltins.print = broken\n1"
    with fastness.Sandbox(tier=tier, pool=1) as box:
        box.run("1")
        for number in range(60):
            time.sleep(0.001 * (number % 8))
            with box.session() as session:
                assert session.execute(code).value == 1
                time.sleep(0.004 * (number % 4))
                assert session.execute("2").value == 2
