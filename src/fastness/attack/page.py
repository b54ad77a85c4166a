"""
What came of attacks as one page for people: no scripts, nothing from elsewhere, and every text of a guest escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any

from fastness.attack import matrix
from fastness.attack.model import Outcome, Verdict
from fastness.attack.report import Proof, counts, good, summary, tried
from fastness.tier import LIMITS_OF, Tier
from fastness.unseen import spelled_out

#: A page may hold what a guest said, so a reader's browser is told to fetch and run nothing whatever it says.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --quiet: #777; --good: #18794e; --bad: #c62a2f; --odd: #ad5700; }
@media (prefers-color-scheme: dark) { :root { --good: #4cc38a; --bad: #ff6369; --odd: #f1a10d; --quiet: #999; } }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; } .wide { overflow-x: auto; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; min-width: 5rem; }
code, pre { font: 13px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
.held { color: var(--good); } .escaped { color: var(--bad); font-weight: bold; }
.allowed { color: var(--odd); }
.void, .unexpected { color: var(--odd); font-weight: bold; } .quiet, .skipped { color: var(--quiet); }
.verdict { font-size: 1.2rem; padding: .6rem 1rem; border-left: .4rem solid; }
details { border-bottom: 1px solid var(--line); padding: .2rem 0; } summary { cursor: pointer; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: .4rem 0 1rem 1rem; }
dt { color: var(--quiet); } dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
"""


def make(proof: Proof) -> str:
    """The page."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_text(_POLICY)}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>Fastness: attacks on this machine</title><style>{_STYLE}</style></head><body>",
        "<h1>Attacks on this machine</h1>",
        *_summary(proof),
        *_machine(proof),
        *_tiers(proof),
        *_matrix(proof),
        *_attacks(proof),
        "</body></html>",
        "",
    ]
    return "\n".join(parts)


def _text(value: object) -> str:
    """Escaped, with what cannot be seen, or turns text around, spelled out."""
    return escape(spelled_out(str(value)), quote=True)


def _said(words: str, mark: str) -> str:
    return f'<span class="{_text(mark)}">{_text(words)}</span>'


def _rows(rows: Iterable[Iterable[str]], *heads: str) -> Iterator[str]:
    """A table; its cells are markup already."""
    yield '<div class="wide"><table>'
    if heads:
        yield f"<tr>{''.join(f'<th>{_text(head)}</th>' for head in heads)}</tr>"
    for row in rows:
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>"
    yield "</table></div>"


def _summary(proof: Proof) -> Iterator[str]:
    found = counts(proof.outcomes)
    mark = next((verdict.value for verdict, count in found.items() if count and not verdict.good), "held")
    if not tried(proof.outcomes):
        mark, words = "void", "Nothing was tried, so nothing is proven."
    elif good(proof.outcomes):
        words = "Everything that was tried was stopped, by what is said to stop it."
        if found[Verdict.ALLOWED]:
            words = "Everything that was tried was stopped by what is said to stop it, or is said not to be stopped."
    else:
        words = "Not everything was stopped as it should be."
    yield f'<p class="verdict {mark}">{_text(words)}</p>'
    yield f"<p>{_text(summary(proof.outcomes))}.</p>"
    if proof.quick:
        yield "<p>Only a few attacks were made of each family, as <code>--quick</code> asks.</p>"
    yield (
        "<p>Each attack was made inside the tier, and once more where nothing stops it: its control. "
        "An attack is <em>stopped</em> where it had no effect inside, for the reason that is stated, and had it in "
        "its control. It is <em>void</em> where the control failed too: then nothing is proven. It is "
        "<em>unexpected</em> where something else stopped it than is stated, and "
        "<em>escaped</em> where it had its effect inside. "
        "<em>Allowed</em> are attacks that a tier is said not to stop, and has not; <em>not promised</em> those on "
        "what it does not promise, which were not made.</p>"
    )


def _machine(proof: Proof) -> Iterator[str]:
    yield "<h2>The machine</h2>"
    facts: dict[str, Any] = {
        **proof.machine,
        "attacks at once": proof.lanes,
        "seconds in all": f"{proof.seconds:.0f}",
    }
    if "root" in facts:
        facts["root"] = "yes" if facts["root"] else "no"
    yield from _rows((_text(name), _text(value)) for name, value in facts.items())


def _tiers(proof: Proof) -> Iterator[str]:
    yield "<h2>The tiers</h2>"
    rows = []
    for name, standing in proof.standings.items():
        probe = standing.probe
        if standing.holds:
            says = _said("holds", "held")
            more = "<br>".join(f"{_text(key)}: {_text(layer)}" for key, layer in probe.layers.items())
        else:
            says = _said("does not hold here: nothing was tried in it", "void")
            more = "<br>".join(
                f"{_text(failure.guarantee)}: {_text(failure.cause)}. Fix: {_text(failure.remedy)}"
                for failure in probe.failures
            )
            more += f"<br>Check again: <code>fastness doctor --tier {_text(name)}</code>"
        versions = "<br>".join(f"{_text(key)} {_text(value)}" for key, value in probe.versions.items())
        rows.append((_text(name), says, more, versions, _text(LIMITS_OF[Tier(name)])))
    yield from _rows(rows, "tier", "here", "what keeps each guarantee, or what is missing", "versions", "not stopped")


def _matrix(proof: Proof) -> Iterator[str]:
    yield "<h2>Families by tiers</h2>"
    rows = []
    for family, row in proof.matrix.items():
        cells = [f'<a href="#{_text(family)}">{_text(family)}</a>']
        for tier, cell in row.items():
            if proof.standings[tier].holds:
                cells.append("<br>".join(_said(words, mark) for words, mark in matrix.lines(cell, everything=True)))
            else:
                cells.append(_said("does not hold here", "quiet"))
        rows.append(cells)
    yield from _rows(rows, "family", *proof.standings)


def _attacks(proof: Proof) -> Iterator[str]:
    yield "<h2>Each attack</h2>"
    by_attack: dict[str, list[Outcome]] = {}
    for outcome in proof.outcomes:
        by_attack.setdefault(outcome.attack.id, []).append(outcome)
    family = ""
    for name in sorted(by_attack):
        outcomes = by_attack[name]
        if outcomes[0].attack.family != family:
            family = outcomes[0].attack.family
            yield f'<h3 id="{_text(family)}">{_text(family)}</h3>'
        yield from _attack(outcomes)


def _attack(outcomes: list[Outcome]) -> Iterator[str]:
    attack = outcomes[0].attack
    bad = any(not outcome.verdict.good for outcome in outcomes)
    marks = ", ".join(_said(f"{outcome.tier} {_word(outcome)}", outcome.verdict.value) for outcome in outcomes)
    claim = attack.claim
    head = f"<code>{_text(attack.id)}</code>: {_text(claim.says)} {marks}"
    yield f"<details{' open' if bad else ''}><summary>{head}</summary>"
    yield "<dl>"
    yield f"<dt>claims</dt><dd>{_text(claim.guarantee.value)}: {_text(claim.says)}</dd>"
    for outcome in outcomes:
        yield f"<dt>{_text(outcome.tier)}</dt><dd>{_account(outcome)}</dd>"
    yield "</dl></details>"


def _account(outcome: Outcome) -> str:
    """What came of it in one tier.  White space is shown as it is, for a guest may have said something with it."""
    head = _said(_word(outcome), outcome.verdict.value)
    if outcome.stopped_by:
        head += f", by {_text(outcome.stopped_by)}"
    if outcome.verdict is not Verdict.SKIPPED:
        head += f" ({outcome.seconds:.2f} s)"
    lines = [head]
    if outcome.says != outcome.attack.claim.says:
        lines.append(_text(outcome.says))
    for word, text in (("", outcome.detail), ("inside: ", outcome.seen), ("control: ", outcome.control)):
        if text:
            lines.append(f"{word}{_text(text)}")
    if outcome.before:
        lines.append(f"tried twice; at first {_text(outcome.before)}")
    return "<br>".join(line for line in lines if line)


def _word(outcome: Outcome) -> str:
    return "stopped" if outcome.verdict is Verdict.HELD else matrix.WORDS[outcome.verdict][0]
