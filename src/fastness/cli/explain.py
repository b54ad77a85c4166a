"""
``fastness explain``: what a tier promises, what it does not, and whether it holds here.
"""

from __future__ import annotations

import textwrap

from fastness.cli import exits
from fastness.cli.console import say, stdout_console
from fastness.cli.doctor import PROMISES, in_lines, probe_table, probe_tier
from fastness.errors import TierUnavailable
from fastness.tier import LIMITS_OF, Tier

#: For whom each tier is, of those that hold somewhere.
CHOOSE = {
    Tier.MEDIATED: "plugins of your own in your own process: a policy, time limits and an account of what they do",
    Tier.WORKER: "code that you have read, kept apart for its faults alone",
    Tier.CONFINED: "as isolated, on a machine that gives no namespaces",
    Tier.ISOLATED: "plugins and code of strangers that need native packages, and any program",
    Tier.WASM: "code of a model or of a stranger, and plugins in JavaScript",
}


def explain(name: str) -> int:
    """Explain the tier called ``name``.  Raises ``ConfigurationError``."""
    # What may stand where a tier is asked for, auto and local, promises nothing of its own.
    tier = Tier.parse(name)
    console = stdout_console()
    console.print(f"{tier.value}: strength {tier.strength} of 4\n")
    if tier.guarantees:
        console.print("It promises:")
        for guarantee, promise in PROMISES.items():
            if guarantee in tier.guarantees:
                console.print(f"  {guarantee.value:17} {promise}")
    else:
        console.print("It promises no isolation at all.")
    console.print(f"\nIt does not stop: {LIMITS_OF[tier]}.\n")
    _boundaries(tier)
    if tier in CHOOSE:
        console.print(f"Choose it for: {CHOOSE[tier]}.\n")
    if tier is Tier.MEDIATED:
        console.print("Here: it needs nothing of a machine.  See fastness.sandbox_plugin and DefaultPluginHost.")
        return exits.OK
    try:
        probe = probe_tier(tier)
    except TierUnavailable as error:
        console.print(f"Here: unavailable.  {error}")
        return exits.OK
    console.print(f"Here: {'it holds' if probe.holds else 'it does NOT hold'} (backend {probe.backend}).")
    console.print(probe_table(probe))
    for note in probe.notes:
        say(in_lines(note))
    return exits.OK


def _boundaries(tier: Tier) -> None:
    """The tier's part of the page of boundaries, which are said of tiers of this version alone."""
    from fastness.attack import registry
    from fastness.attack.boundaries.behind import TIERS, shipped
    from fastness.attack.boundaries.page import told

    if tier.value not in TIERS:
        return
    for line in told(tier.value, shipped(registry.load())):
        text = line.lstrip()
        indent = " " * (len(line) - len(text))
        say(
            textwrap.fill(
                text,
                78,
                initial_indent=indent,
                subsequent_indent=indent + "  ",
                break_long_words=False,
                break_on_hyphens=False,
            )
        )
    say("\nEach attack runs alone with: fastness attack --only ID -v\n")
