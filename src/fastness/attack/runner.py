"""
Runs attacks against a tier, each with its control, and judges.
"""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from fastness.attack.arena import Arena
from fastness.attack.begun import fell
from fastness.attack.control import Controls
from fastness.attack.model import Attack, Effect, Expect, Layer, Outcome, Skip, Verdict
from fastness.errors import FastnessError

if TYPE_CHECKING:
    from fastness.runs import RunResult
    from fastness.sync import Sandbox

#: What a run's ``layers`` must name where one of these is said to have stopped an attack.
_MECHANISMS: dict[Layer, tuple[str, ...]] = {
    Layer.LANDLOCK: ("landlock",),
    Layer.NAMESPACE: ("mountns", "pidns", "netns"),
    Layer.FILTER: ("seccomp",),
    Layer.CGROUP: ("cgroup",),
    Layer.RLIMIT: ("rlimit",),
    Layer.PRIVILEGE: ("capset", "prctl"),
}


def run(attacks: Iterable[Attack], tier: str, box: Sandbox) -> Iterator[Outcome]:
    """One outcome for each attack that applies to ``tier``, as it comes."""
    for attack in attacks:
        if tier in attack.tiers:
            yield tried(attack, tier, box, Controls(attack))


def tried(attack: Attack, tier: str, box: Sandbox, controls: Controls) -> Outcome:
    """What came of an attack on a tier that it applies to, with how long that took."""
    began = time.monotonic()
    outcome = judge(attack, attack.tiers[tier], tier, box, controls)
    return dataclasses.replace(outcome, seconds=time.monotonic() - began)


def judge(attack: Attack, expect: Expect, tier: str, box: Sandbox, controls: Controls | None = None) -> Outcome:
    """Run one attack and its control, each in an arena of its own."""
    try:
        with Arena(tier, box) as arena:
            inside = attack.attack(arena)
    except Skip as reason:
        return Outcome(attack, tier, Verdict.SKIPPED, detail=str(reason))
    except Exception as error:  # noqa: BLE001  # whatever went wrong is the verdict, and the next attack follows
        return Outcome(attack, tier, Verdict.UNEXPECTED, detail=f"it could not be tried: {_words(error)}")
    took = 0.0
    try:
        control, took = (controls or Controls(attack)).of(tier, box)
    except Skip as reason:
        # An effect that happened needs no control to be one.
        if not inside.happened:
            return Outcome(attack, tier, Verdict.SKIPPED, detail=f"no control: {reason}", seen=inside.seen)
        control = Effect(True, f"not tried: {reason}")
    except Exception as error:  # noqa: BLE001  # as above
        detail = f"the control could not be tried: {_words(error)}"
        return Outcome(attack, tier, Verdict.VOID, detail=detail, seen=inside.seen)
    wrong, by = "", ""
    if expect.layer is Layer.NOTHING:
        verdict, wrong = _allowed(inside, control)
        by = "nothing" if inside.happened else ""
    elif inside.happened:
        verdict, wrong = Verdict.ESCAPED, inside.seen
    elif not control.happened:
        verdict, wrong = Verdict.VOID, f"the control failed: {control.seen}"
    else:
        wrong, by = explain(inside, expect)
        wrong = wrong or fell(arena.results, expect)
        verdict = Verdict.UNEXPECTED if wrong else Verdict.HELD
    return Outcome(attack, tier, verdict, by, wrong, inside.seen, control.seen, control_seconds=took)


def _allowed(inside: Effect, control: Effect) -> tuple[Verdict, str]:
    """What is to be said of an attack that a tier is said not to stop, and what is wrong with what is said."""
    if inside.happened:
        return Verdict.ALLOWED, ""
    if not control.happened:
        return Verdict.VOID, f"the control failed: {control.seen}"
    return Verdict.UNEXPECTED, f"it is said not to be stopped, and had no effect: {inside.seen}"


def _words(error: Exception) -> str:
    """An error of ours has the whole story in its message; for any other its kind is needed too."""
    return str(error) if isinstance(error, FastnessError) else f"{type(error).__name__}: {error}"


#: Rows of the broker's about answers are the broker's.
_OF_BROKER = {"answer": Layer.BROKER.value}


def explain(inside: Effect, expect: Expect) -> tuple[str, str]:
    """(what differs from what was stated, what stopped it); the first is empty where nothing differs."""
    if inside.result is None:
        stated = expect.layer in (Layer.HOST, Layer.ENGINE, Layer.FRESH)
        return ("" if stated else f"there is no result to show what stopped it: {inside.seen}"), expect.layer.value
    wrong, by = _explain(inside.result, expect)
    for result in inside.also:
        if not wrong:
            wrong, _ = _explain(result, expect)
    return wrong, by


def _explain(result: RunResult, expect: Expect) -> tuple[str, str]:
    kind = result.outcome.kind.value
    if kind not in expect.outcomes:
        return f"the run ended as {kind} ({result.outcome.detail}), not {' or '.join(expect.outcomes)}", kind
    if expect.layer is Layer.LIMIT:
        return "", f"limit: {kind}"
    if expect.layer is Layer.KILLED:
        return (
            "" if result.outcome.signal == signal.SIGSYS else f"not ended by the filter: {result.outcome}"
        ), "killed"
    if expect.code is None:
        wanted = _MECHANISMS.get(expect.layer, ())
        there = [name for name in wanted if any(name in text for text in result.layers.values())]
        if wanted and not there:
            return f"no layer of the run is {' or '.join(wanted)}; layers: {dict(result.layers)}", ""
        return "", expect.layer.value
    own = expect.layer.value if expect.layer in (Layer.SECCOMP, Layer.BROKER) else ""
    rows = [row for row in result.denials if row.claimed == (expect.layer is Layer.GUEST)]
    for row in rows:
        if (
            row.code.value == expect.code
            and own in ("", _OF_BROKER.get(row.layer, row.layer))
            and (not expect.calls or row.operation in expect.calls)
        ):
            return "", f"{own or row.layer}: {row.operation if own else row.code.value}" + (
                " (claimed)" if row.claimed else ""
            )
    had = ", ".join(f"{row.operation} {row.code.value} ({row.layer})" for row in result.denials) or "none"
    named = f" for {' or '.join(expect.calls)}" if expect.calls else ""
    return f"no {expect.layer.value} row with the code {expect.code}{named}; rows: {had}", ""
