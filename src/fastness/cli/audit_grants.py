"""
What ``fastness audit`` says below refusals: the one command that grants what was refused, or why none does.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fastness.broker.trail import ANSWER
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import FastnessError
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastness.audit.record import AuditRecord
    from fastness.plugins.blocking import PluginHost

#: Refusals that a wider grant may lift.
_GRANTED = frozenset(
    code.value
    for code in (
        DenialCode.NOT_GRANTED, DenialCode.READ_ONLY, DenialCode.HOST, DenialCode.REDIRECT, DenialCode.QUOTA,
        DenialCode.TOO_LARGE, DenialCode.EXPIRED, DenialCode.REVOKED, DenialCode.NO_ADAPTER,
    )
)  # fmt: skip
#: Whose refusal is told once, and how many of them below one listing.
_MOST = 20


class Grants:
    """Tells each once, however often it is shown.  Nothing is opened where nothing was refused."""

    def __init__(self) -> None:
        self._told: set[tuple[str, str, str]] = set()

    def of(self, records: Iterable[AuditRecord]) -> list[tuple[str, ...]]:
        """For refusals of capabilities to installed plugins: a sentence and commands each."""
        wanted: dict[tuple[str, str, str], AuditRecord] = {}
        for record in records:
            whose = record.plugin, record.owner, record.capability
            code = record.code.removeprefix(ANSWER)
            # Ids with a colon are of plugins that a program loads by itself, which have no grants.
            if code in _GRANTED and record.plugin and ":" not in record.plugin and whose not in self._told:
                wanted[whose] = record
        if not wanted or not _any_installed():
            return []
        from fastness.cli.plugin_host import plugin_host

        found: list[tuple[str, ...]] = []
        try:
            with plugin_host() as host:
                for whose, record in list(wanted.items())[:_MOST]:
                    self._told.add(whose)
                    line = _line(host, record)
                    if line is not None:
                        found.append(line)
        except FastnessError as error:
            # The trail is shown whatever is wrong with the rest.
            found.append((f"what would grant these cannot be told: {one_line(str(error), 300)}",))
        return found


def _any_installed() -> bool:
    from fastness._wasi.home import place

    return os.path.lexists(place("data", "plugins.db"))


def _line(host: PluginHost, record: AuditRecord) -> tuple[str, ...] | None:
    from fastness.cli.plugin_hints import missing_of
    from fastness.cli.plugin_host import grant_command, known_specs, standing
    from fastness.cli.plugin_screen import of_a_program

    plugin, owner, kind = record.plugin, record.owner, record.capability
    known = known_specs()
    if kind not in known or plugin not in (one.id for one in host.plugins()):
        return None
    shown = host.show(plugin)
    what = f"record {record.seq}: {one_line(plugin)} may not do that with {kind} for {one_line(owner)}"
    want = next((one for one in shown.wants if one.kind == kind), None)
    if want is None:
        return (f"{what}, and no grant gives it: its manifest does not ask for {kind}",)
    if not want.permitted:
        return (f"{what}, and no grant gives it: the operator permits it to no plugin ([ceiling])",)
    if record.code.removeprefix(ANSWER) == DenialCode.NO_ADAPTER.value:
        return (f"{what}, and no grant gives it: {of_a_program(kind)}",)
    grant = standing(shown.grants, owner, shown.known.digest)
    if kind not in missing_of(shown, grant, host.ceiling, known):
        return (f"{what}, and no grant gives it: all that its manifest asks, and the operator permits, is granted",)
    words = f"{what}; to grant what it asks for ({spelled_out(want.risk)}):"
    return words, grant_command(shown.manifest, grant, owner, [kind], known)
