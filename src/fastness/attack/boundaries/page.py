"""
The page of boundaries, and a tier's part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fastness.attack.boundaries.behind import TIERS, breaches, limits, rules
from fastness.attack.boundaries.failures import FAILURES
from fastness.attack.boundaries.model import Question
from fastness.attack.boundaries.questions import QUESTIONS
from fastness.attack.boundaries.rules import RULES
from fastness.attack.boundaries.tiers import LIMITS
from fastness.attack.model import Attack
from fastness.tier import Tier

#: The command that writes the page.
COMMAND = "python tools/boundaries.py"

_HEAD = (
    "# What counts as a vulnerability\n"
    "\n"
    f"Made by `{COMMAND}` from the code and from [attacks.md](attacks.md); do not edit.\n"
    "This page says, for each tier of this version, what would break its guarantees and what would not.\n"
    "Behind each sentence stand the attacks that tried it; [attacks.md](attacks.md) says what each claims and"
    " what stopped it, and is made by running them.\n"
    "A sentence that no attack in that table backs is not made; where a test of this repository has tried it "
    "instead, it is named.\n"
    "\n"
    "All code and data of a guest is taken to be hostile from its first instruction, the interpreter's own "
    "memory included.\n"
    "Trusted are the kernel, the caller, the user whose account runs it, Python, wasmtime's compiler for the "
    "guests that ship, and the installed packages whose digests are checked.\n"
    "In the tier `worker` the guest's author is taken to mean well: its guarantees are about faults, and "
    "getting round its firewall on purpose is [no vulnerability](../choosing-a-tier.md#what-worker-is-for).\n"
    "[The threat model](threat-model.md) has the whole of that.\n"
    "\n"
    "Each attack is one file in `attack/corpus/`, has a control that shows that it works where nothing stops "
    "it, and runs alone with `fastness attack --only ID -v`.\n"
    "Those behind what is *not* stopped must have their effect in the tier too, or the sentence is wrong.\n"
    "The guarantees are also tried by `fastness doctor`, on your machine, before a tier is used; `fastness "
    "explain TIER` shows a tier's part of this page."
)
_RULES = (
    "## By rule of the broker\n"
    "\n"
    "These hold for guests with a `ctx` and for plugins, in every tier that isolates.\n"
    "A tier that does not hold what it promises may take them with it: in `worker` code that gets round the "
    "firewall is a process of the same user."
)
_END = (
    "## Not covered\n"
    "\n"
    "Bugs of the kernel and the hardware, side channels, physical access, denial of service within the "
    "limits, and everything on systems that [SPECIFICATION.md](../../SPECIFICATION.md) lists as untested.\n"
)

_FAILURES = (
    "# How others have failed\n"
    "\n"
    f"Made by `{COMMAND}` from the code; do not edit.\n"
    "Faults of other sandboxes that were reported in public, gathered before this one was built, each with what tries "
    "the same here: attacks of [the corpus](attacks.md), or tests where there is nothing for a guest to attack.\n"
    "Each attack must have held for its row to stand.\n"
    "Projects are named for what was learnt from their reports, whatever has become of them since."
)


def page(attacks: Sequence[Attack]) -> str:
    """The text of the page, of the attacks of the corpus."""
    parts = [_HEAD]
    parts += (_part(tier, attacks) for tier in TIERS)
    parts.append(_absent())
    parts.append(_rules(attacks))
    parts.append(_questions())
    parts.append(_END)
    return "\n\n".join(parts)


def _part(tier: str, attacks: Sequence[Attack]) -> str:
    lines = [f"## `{tier}`", "", "A vulnerability:", "", "| guarantee | if | attacks behind it |", "|---|---|---|"]
    lines += (
        f"| {one.of.value} | {one.breach.says} | {_ids(one.attacks, one.breach.elsewhere.get(tier))} |"
        for one in breaches(tier, attacks)
    )
    lines += ["", "No vulnerability:", "", "| beside | if | because |", "|---|---|---|"]
    lines += (
        f"| {of or 'the tier'} | {limit.says} | {_because(limit.why, ids)} |"
        for of, limit, ids in limits(tier, attacks)
    )
    return "\n".join(lines)


def _absent() -> str:
    lines = ["## Other tiers", ""]
    lines += (
        f"- `{tier.value}`: {limit.says[:-1]}: {limit.why}."
        for tier in Tier
        if tier.value not in TIERS
        for limit in LIMITS[tier]
    )
    lines += ["", "`mediated` promises nothing, and `vm` has no backend in this version; no attack tries them."]
    return "\n".join(lines)


def _rules(attacks: Sequence[Attack]) -> str:
    lines = [_RULES, "", "A vulnerability:", "", "| rule | if | attacks behind it |", "|---|---|---|"]
    lines += (f"| {one.of.value} | {one.breach.says} | {_ids(one.attacks)} |" for one in rules(attacks))
    lines += ["", "No vulnerability:", "", "| beside | if | because |", "|---|---|---|"]
    for boundary in RULES:
        lines += (f"| {boundary.of.value} | {limit.says} | {_because(limit.why)} |" for limit in boundary.limits)
    return "\n".join(lines)


def _questions() -> str:
    lines = ["## Is this a vulnerability?", "", "| if | tiers | answer | shown by |", "|---|---|---|---|"]
    lines += (
        f"| {one.asked[0].upper()}{one.asked[1:]}? | {_tiers(one)} | {one.answer} | {_ids(one.attacks)} |"
        for one in QUESTIONS
    )
    return "\n".join(lines)


def _tiers(question: Question) -> str:
    return ", ".join(f"`{tier}`" for tier in question.tiers) or "all"


def _ids(ids: Iterable[str], elsewhere: str | None = None) -> str:
    return ", ".join(f"`{name}`" for name in (*ids, *((elsewhere,) if elsewhere else ())))


def _because(why: str, ids: Sequence[str] = ()) -> str:
    shown = f"shown by {_ids(ids)}" if ids else ""
    return "; ".join(part for part in (why, shown) if part)


def failures(attacks: Sequence[Attack]) -> str:
    """The text of the page of how others have failed."""
    claims = {one.id: one.claim.says for one in attacks}
    lines = [_FAILURES]
    number = 0
    for subject, rows in FAILURES.items():
        lines += ["", f"## {subject}"]
        for row in rows:
            number += 1
            lines += ["", f"### {number}. {row.what}", "", f"Reported as {row.where}.", ""]
            lines += (f"- `{name}`" + (f": {claims[name]}" if name in claims else "") for name in row.tried)
    return "\n".join(lines) + "\n"


# for a terminal


def told(tier: str, attacks: Sequence[Attack]) -> Iterator[str]:
    """A tier's part in lines of text, with the families of many attacks in place of their names."""
    yield "A vulnerability, if:"
    for one in breaches(tier, attacks):
        elsewhere = one.breach.elsewhere.get(tier)
        yield f"  {one.of.value}: {one.breach.says}"
        yield f"      tried by {elsewhere or _families(one.attacks)}"
    yield ""
    yield "No vulnerability, if:"
    for of, limit, ids in limits(tier, attacks):
        yield f"  {of + ': ' if of else ''}{limit.says}"
        yield "      " + "; ".join(part for part in (limit.why, "shown by " + ", ".join(ids) if ids else "") if part)


def _families(ids: Sequence[str]) -> str:
    if len(ids) <= 3:
        return ", ".join(ids)
    counts: dict[str, int] = {}
    for name in ids:
        family = name.partition(".")[0]
        counts[family] = counts.get(family, 0) + 1
    return f"{len(ids)} attacks: " + ", ".join(f"{family} ({count})" for family, count in counts.items())
