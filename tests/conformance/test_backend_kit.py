"""The conformance kit: the real backend has no faults, a broken one has, and the fake does what it says."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import anyio
import pytest

import fastness
import house
from fastness.backends.base import Report, Staged
from fastness.backends.native import NativeBackend
from fastness.backends.wasm import WasmBackend
from fastness.runs import Outcome, OutcomeKind, RunRequest
from fastness.testing import HOSTILE, FakeBackend, check_backend, fake_sandbox
from fastness.tier import Guarantee, Tier

_RIGHT = {code: next(iter(sorted(kinds))) for _, code, kinds in HOSTILE}


def well_behaved(request: RunRequest, staged: Staged) -> Report:
    """What a good backend would tell."""
    if request.code in _RIGHT:
        return Report(outcome=Outcome(_RIGHT[request.code]))
    return Report(outcome=Outcome(OutcomeKind.OK), stdout=b"42\n", exit_code=0)


class Endless(list[Any]):
    """A script that never ends."""

    def __init__(self, answer: Any) -> None:
        super().__init__([answer])

    def pop(self, index: Any = -1) -> Any:
        return self[0]


def faults_of(answer: Any, **options: Any) -> list[str]:
    """What the kit finds in a backend that always answers so."""

    def make() -> FakeBackend:
        backend = FakeBackend(**options)
        backend._answers = Endless(answer)
        return backend

    return anyio.run(check_backend, make)


def test_the_wasm_backend() -> None:
    """Every hostile program ends as it should, and a harmless one works after each."""
    house.require("python guest")
    assert anyio.run(check_backend, lambda: WasmBackend(engines=1)) == []


@pytest.mark.parametrize("tier", [Tier.ISOLATED, Tier.CONFINED])
def test_native_backends(tier: Tier) -> None:
    """The same of the backend whose guests are processes."""
    house.require(f"{tier.value} tier")
    assert anyio.run(partial(check_backend, wall_s=1.5), lambda: NativeBackend(tier)) == []


def test_a_good_fake() -> None:
    """The kit finds nothing where there is nothing."""
    assert faults_of(well_behaved) == []


def test_a_backend_that_calls_everything_good() -> None:
    """``ok`` for a loop without end is a fault, for every program."""
    faults = faults_of(Report(outcome=Outcome(OutcomeKind.OK), stdout=b"42\n"))
    assert len(faults) == len(HOSTILE)
    assert all("ended as ok" in fault for fault in faults)


def test_a_backend_that_does_not_recover() -> None:
    """A harmless run that fails after a hostile one is a fault that names both."""

    def broken(request: RunRequest, staged: Staged) -> Report:
        if request.code in _RIGHT:
            return well_behaved(request, staged)
        return Report(outcome=Outcome(OutcomeKind.CRASHED), stdout=b"")

    faults = faults_of(broken)
    assert len(faults) == len(HOSTILE)
    assert all("the next run ended as crashed" in fault for fault in faults)


def test_a_backend_that_mixes_outputs() -> None:
    """The right outcome with another run's output is a fault too."""

    def mixed(request: RunRequest, staged: Staged) -> Report:
        report = well_behaved(request, staged)
        return report if request.code in _RIGHT else Report(outcome=report.outcome, stdout=b"xxx42\n")

    assert len(faults_of(mixed)) == len(HOSTILE)


def test_a_backend_with_one_fault() -> None:
    """Exactly the program that ended wrongly is named."""

    def wrong(request: RunRequest, staged: Staged) -> Report:
        if request.code == "while True: pass":
            return Report(outcome=Outcome(OutcomeKind.CRASHED, "oops"))
        return well_behaved(request, staged)

    assert faults_of(wrong) == ["endless loop: ended as crashed (oops)"]


def test_a_backend_that_lacks_a_guarantee() -> None:
    """What is not proven is refused before anything runs."""
    with pytest.raises(fastness.TierUnavailable, match="NET_CONFINED"):
        faults_of(well_behaved, lacking=[Guarantee.NET_CONFINED])


# The fake, as its users use it.


def test_a_script() -> None:
    """Answers are used in order; then every run is ``ok`` and empty; what came is recorded."""
    backend = FakeBackend(
        [
            Report(outcome=Outcome(OutcomeKind.OK), value=1, stdout=b"one"),
            Report(outcome=Outcome(OutcomeKind.TIMEOUT, "slow")),
            fastness.BackendError("running", "broken", "mend it"),
            lambda request, staged: Report(outcome=Outcome(OutcomeKind.OK), stdout=staged.files["f"]),
        ]
    )
    heard: list[tuple[str, bytes]] = []

    async def main() -> None:
        async with fake_sandbox(backend, timeout=7) as box:
            first = await box.run("a", on_event=lambda name, data: heard.append((name, data)))
            assert (first.value, first.stdout, first.sandboxed, first.tier) == (1, "one", True, "wasm")
            second = await box.run("b")
            with pytest.raises(fastness.RunTimeout):
                second.raise_for_outcome()
            with pytest.raises(fastness.BackendError):
                await box.run("c")
            assert (await box.run("d", files={"f": b"content"})).stdout == "content"
            last = await box.run("e")
            assert (last.outcome.kind, last.stdout) == (OutcomeKind.OK, "")

    anyio.run(main)
    assert heard == [("stdout", b"one")]
    assert [request.code for request in backend.requests] == ["a", "b", "c", "d", "e"]
    assert {request.limits.wall_s for request in backend.requests} == {7.0}
    assert backend.staged[3].files == {"f": b"content"}
    assert backend.closed


def test_mistakes_are_still_told() -> None:
    """A fake behind it changes nothing about what the API checks: the request never reaches it."""
    backend = FakeBackend()

    async def main() -> None:
        async with fake_sandbox(backend) as box:
            for options in ({"timeout": -1}, {"files": {"../x": b""}}, {"nonsense": 1}):
                with pytest.raises(fastness.FastnessError):
                    await box.run("a", **options)  # type: ignore[arg-type]  # mistakes

    anyio.run(main)
    assert backend.requests == []


def test_sessions_of_a_fake() -> None:
    """A session answers from the same script."""
    backend = FakeBackend([Report(outcome=Outcome(OutcomeKind.OK), value=n) for n in (1, 2)])

    async def main() -> list[Any]:
        async with fake_sandbox(backend) as box, box.session() as session:
            return [(await session.execute("x")).value for _ in range(2)]

    assert anyio.run(main) == [1, 2]


@pytest.mark.parametrize("tier", [Tier.WASM, Tier.ISOLATED, Tier.CONTAINER])
def test_a_fake_of_any_tier(tier: Tier) -> None:
    """Tiers that have no real backend here can be tried with a fake."""

    async def main() -> str:
        async with fake_sandbox(FakeBackend(tier=tier)) as box:
            return (await box.run("x")).tier

    assert anyio.run(main) == tier.value
    assert threading.active_count() < 50
