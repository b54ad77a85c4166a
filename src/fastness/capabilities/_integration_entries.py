"""
Integrations of other distributions, by entry point: those that the operator names, and no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fastness.capabilities._integration import Integration, check_integration
from fastness.errors import ConfigurationError, meant

__all__ = ["GROUP", "used"]

#: Entry points of other distributions: the action as the name, ``package.module:OBJECT`` as the value.
GROUP = "fastness.integrations"


def used(names: Iterable[str], field: str = "integrations.use") -> Iterator[Integration]:
    """
    The integrations of these names.  Raises ConfigurationError for one that there is not, or not once, or is none.
    """
    import importlib.metadata

    names = tuple(names)
    if not names:
        return
    found: dict[str, str] = {}
    for entry in importlib.metadata.entry_points(group=GROUP):
        if found.setdefault(entry.name, entry.value) != entry.value and entry.name in names:
            raise ConfigurationError(field, entry.name, f"each action from one place; see {entry.value}")
    for name in names:
        if name not in found:
            known = ", ".join(sorted(found)) or "none: no installed package brings one"
            raise ConfigurationError(field, name, f"actions that installed packages bring: {known}{meant(name, found)}")
        module, _, attribute = found[name].partition(":")
        try:
            made = getattr(importlib.import_module(module), attribute)
        except Exception as error:  # code of another distribution may fail in any way
            words = f"an entry point that can be imported; {found[name]} failed: {type(error).__name__}: {error}"
            raise ConfigurationError(field, name, words) from error
        checked = check_integration(made)
        if checked.name != name:
            raise ConfigurationError(field, name, f"an entry point of the name of its action, {checked.name}")
        yield checked
