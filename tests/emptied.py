"""
Attacks with nothing in the place of what they do.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from fastness.attack.model import Attack

#: What the text of an attack is called in its file, with what does nothing in its place.
TEXTS: dict[str, Any] = {
    "CODE": "pass",
    "FIRST": "pass",
    "PLANTED": "pass",
    "CODES": ("pass",) * 2,
    "SOURCES": ("pass",),
    "VALUES": ("1",),
    "BODY": "(nop)",
    "SQL": "SELECT 1",
    "WAT": '(module (memory (export "memory") 1) (func (export "_start")))',
}
#: Whose text is JavaScript, beside the family of that name.
JAVASCRIPT = ("limits.javascript_loop", "network.javascript")
#: What these do is not all in such a text, or their control looks whether the text ran: what is taken away instead.
OTHERS: dict[str, dict[str, Any]] = {
    # What the engine answers.
    "containers.odd_answers": {"ODD": (), "VERY_ODD": ()},
    # What a container says of itself, under another name than the one that is looked for.
    "containers.swept": {"LABEL": "attack.nothing"},
    # It runs, and says what says so.
    "output.terminal": {"CODE": "print('No such thing')"},
    "output.terminal_escapes": {"CODE": "print('owned')"},
    # The id is its own.
    "plugins.borrowed_id": {"MANIFEST": 'MANIFEST = {"id": "another.plugin"}\n'},
    # It does as it did before, and no host is killed meanwhile.
    "plugins.integrations_killed": {"KILLED": 0},
    "plugins.llm_budget_killed": {"KILLED": 0},
    # It loses its grant, and others can write the trail.
    "plugins.revoked_while_locked": {"HELD": "BEGIN DEFERRED"},
}


def empty(attack: Attack, patch: pytest.MonkeyPatch) -> None:
    """Put nothing in the place of what an attack does.  Fails where it has nothing of a name that is known."""
    module = importlib.import_module(f"fastness.attack.corpus.{attack.id}")
    others = OTHERS.get(attack.id)
    texts = {name: nothing for name, nothing in TEXTS.items() if hasattr(module, name)} if others is None else others
    assert texts, "its text has none of the names that texts of attacks have"
    for name, nothing in texts.items():
        # Statements of Python are none of JavaScript, and would stop what follows them.
        given = _javascript(nothing) if _is_javascript(attack) else nothing
        patch.setattr(module, name, given)


def _is_javascript(attack: Attack) -> bool:
    return attack.id.startswith("javascript.") or attack.id in JAVASCRIPT


def _javascript(nothing: object) -> object:
    return (";",) * len(nothing) if isinstance(nothing, tuple) else ";"
