"""Attempts by way of the broker, and on hosts of plugins: for longer than the shipped ones, and what they leave alone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

import fastness
import house
from fastness._wasi import home
from fastness.attack import brokering, hosting, recording
from fastness.attack.arena import Arena
from fastness.attack.corpus.broker import fs_swapped, record_edited, storage_odd_data
from fastness.attack.corpus.plugins import another_id, files_changed
from fastness.errors import ConfigurationError, TierUnavailable
from fastness.plugins.boxes import Boxes
from fastness.runs import DenialCode, OutcomeKind

pytestmark = pytest.mark.attack

SECONDS = 10.0


@pytest.fixture(params=("worker", "confined", "isolated", "wasm"))
def box(request: pytest.FixtureRequest) -> Iterator[fastness.Sandbox]:
    house.require("python guest" if request.param == "wasm" else f"{request.param} tier")
    with fastness.Sandbox(tier=request.param) as made:
        yield made


@pytest.fixture
def worker() -> Iterator[fastness.Sandbox]:
    house.require("worker tier")
    with fastness.Sandbox(tier="worker") as made:
        yield made


@pytest.mark.long
def test_ten_seconds_of_swapped_names(box: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process swaps names for ten seconds while a guest reads and writes them: nothing outside is read or changed."""
    monkeypatch.setattr(fs_swapped, "SECONDS", SECONDS)
    with Arena(box.run("pass").tier, box) as arena:
        effect = fs_swapped.attack(arena)
        assert not effect.happened, effect.seen
        assert effect.result is not None
        assert effect.result.outcome.kind is OutcomeKind.OK
        # It was refused now and then, so the swaps were seen, and it was let through as well.
        # There is a row for each name and operation, and a link at ``folder`` is seldom met.
        assert sum(row.count for row in effect.result.denials if row.code is DenialCode.ESCAPE) > 10
        tries, _, reads, _ = effect.result.stdout.split()[-4:]
        assert int(tries) > 100
        assert int(reads) > 100


def _snapshot(kind: str) -> dict[str, tuple[int, int]]:
    """Every file of the user's own home of this kind, with its size and when it was changed."""
    top = Path(home.place(kind))
    found = {}
    for path in sorted(top.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_size if path.is_file() else 0, status.st_mtime_ns)
    return found


def test_attempts_on_plugins_leave_the_users_home_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What attempts install, grant and record is theirs: of the user's plugins, records and settings nothing changes."""
    house.require("worker tier")
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    for kind in ("data", "config"):
        home.folder(kind)
    before = {kind: _snapshot(kind) for kind in ("data", "config")}
    base = home._base
    with fastness.Sandbox(tier="worker") as worker:
        for module in (another_id, files_changed):
            with Arena("worker", worker) as arena:
                module.attack(arena)
    assert home._base is base
    assert {kind: _snapshot(kind) for kind in ("data", "config")} == before


def test_a_home_is_put_back_where_no_host_can_be_made(
    worker: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that ends at once leaves this process with the home that it had."""
    base = home._base
    monkeypatch.setenv("FASTNESS_TIER", "local")
    with Arena("worker", worker) as arena, pytest.raises(ConfigurationError, match="FASTNESS_TIER"):
        hosting.Home(arena)
    assert home._base is base


def test_attempts_leave_nothing_behind(worker: fastness.Sandbox) -> None:
    """Folders, processes and servers of an attempt are gone with its arena."""
    with Arena("worker", worker) as arena:
        above = arena._above
        another_id.attack(arena)
        another_id.control(arena)
        storage_odd_data.attack(arena)
        assert above.exists()
    assert not above.exists()


def test_what_an_attempt_rests_on_is_looked_at(worker: fastness.Sandbox) -> None:
    """Statements that change nothing void an attempt on the audit trail, and so does a run that asked for nothing."""
    with Arena("worker", worker) as arena, pytest.raises(RuntimeError, match="changed nothing"):
        recording.tampered(arena, "SELECT 1;")
    with pytest.raises(RuntimeError, match="shows nothing"):
        brokering.sure(False, "nobody asked")


def test_a_trail_that_is_not_verified_shows_the_attempt(
    worker: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt on a trail escapes where verifying finds nothing: it is the finding that is judged."""
    from fastness.audit.verify import Verdict

    monkeypatch.setattr(recording, "verify", lambda *_: Verdict())
    with Arena("worker", worker) as arena:
        assert record_edited.attack(arena).happened


def test_every_way_must_work_in_a_control(worker: fastness.Sandbox) -> None:
    """A control of an attempt that is made in three ways does not succeed by two of them."""
    with Arena("worker", worker) as arena:
        bare = arena.outside.run(f"print({arena.token!r})\nprint({arena.token!r})")
        assert brokering.every(arena, bare, 2).happened
        assert not brokering.every(arena, bare, 3).happened
        assert os.path.isdir(arena.folder)


def test_programs_that_cannot_be_run_are_not_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tier may hold and run no programs, as without control groups: that is told when they are granted."""
    house.require("isolated tier")
    boxes = Boxes()
    ready = boxes._ready()

    async def refuses(*_: object) -> NoReturn:
        raise TierUnavailable("isolated", reason="no group can be made here")

    # The tier itself is proven as it is.
    monkeypatch.setattr(ready, "run", refuses)
    try:
        with pytest.raises(TierUnavailable, match="no group"):
            boxes.check("isolated")
    finally:
        boxes.close()
