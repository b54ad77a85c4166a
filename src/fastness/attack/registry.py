"""
Finds attacks: one file each, below the packages that entry points of the group ``fastness.attacks`` name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil
from types import ModuleType

from fastness.attack.model import Attack
from fastness.errors import ConfigurationError

GROUP = "fastness.attacks"


def packages() -> list[ModuleType]:
    """The shipped corpus first, then those of other distributions by name."""
    names = {entry.value for entry in importlib.metadata.entry_points(group=GROUP)}
    names.discard("fastness.attack.corpus")
    return [importlib.import_module(name) for name in ("fastness.attack.corpus", *sorted(names))]


#: The module that an attack is in, by its id, of those that were loaded.
_modules: dict[str, str] = {}


def load() -> list[Attack]:
    """
    Every attack, by family and name.  Raises ``ConfigurationError`` for a file that has none, or a misnamed one.
    """
    found: dict[str, Attack] = {}
    for package in packages():
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if info.ispkg or info.name.rpartition(".")[2].startswith("_"):
                continue
            attack = getattr(importlib.import_module(info.name), "ATTACK", None)
            expected = ".".join(info.name.split(".")[-2:])
            if not isinstance(attack, Attack) or attack.id != expected:
                raise ConfigurationError("attack", info.name, f"a file with ATTACK = Attack(id={expected!r}, ...)")
            if attack.id in found:
                raise ConfigurationError("attack", attack.id, "each id once")
            found[attack.id] = attack
            _modules[attack.id] = info.name
    return [found[name] for name in sorted(found)]


def module_of(attack: Attack) -> str:
    """The name of the module that has it as ``ATTACK``; that of its code, where nobody has loaded it from one."""
    return _modules.get(attack.id, attack.attack.__module__)


def select(only: tuple[str, ...]) -> list[Attack]:
    """Attacks whose id or family is in ``only``; all where it is empty.  Raises ``ConfigurationError``."""
    every = load()
    if not only:
        return every
    known = {name for attack in every for name in (attack.id, attack.family)}
    for name in only:
        if name not in known:
            raise ConfigurationError("--only", name, ", ".join(sorted({attack.family for attack in every})))
    return [attack for attack in every if attack.id in only or attack.family in only]
