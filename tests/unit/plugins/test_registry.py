"""Where capabilities are found: built in and by entry point, imported when they are asked for and not before."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import types

import msgspec
import pytest
from fake_specs import BOX, WEB, BoxScope

from fastness.capabilities import registry
from fastness.capability import Scope
from fastness.errors import ConfigurationError


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> object:
    """Let another distribution offer something under a name."""
    entries: list[importlib.metadata.EntryPoint] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [e for e in entries if e.group == group])

    def add(name: str, value: object, attribute: str = ":SPEC") -> None:
        if not isinstance(value, str):
            module = types.ModuleType(f"offered_{name}_{len(entries)}")
            module.SPEC = value  # type: ignore[attr-defined]
            monkeypatch.setitem(sys.modules, module.__name__, module)
            value = module.__name__ + attribute
        entries.append(importlib.metadata.EntryPoint(name, value, registry.GROUP))

    return add


def test_built_in() -> None:
    """Each built-in kind has a spec of its own kind; there is no other."""
    found = registry.specs()
    assert set(registry.BUILT_IN) <= set(found)
    for kind in registry.BUILT_IN:
        assert found[kind].kind == kind
        assert found[kind] is found[kind]
    assert "nothing" not in found
    assert found.get("nothing") is None
    with pytest.raises(KeyError):
        found["nothing"]


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    """Listing kinds imports none of them; asking for one imports that one."""
    code = (
        "import sys; from fastness.capabilities.registry import specs; s = specs(); list(s); 'net' in s\n"
        "print([n for n in ('fs', 'net', 'storage') if 'fastness.capabilities.' + n in sys.modules])\n"
        "s['storage']; print([n for n in ('fs', 'net', 'storage') if 'fastness.capabilities.' + n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "['storage']"]


def test_entry_points(offer: object) -> None:
    """Another distribution adds a kind, as an attribute or as a module's SPEC."""
    offer("web", WEB)  # type: ignore[operator]
    offer("box", BOX, "")  # type: ignore[operator]
    found = registry.specs()
    assert found["web"] is WEB
    assert found["box"] is BOX
    assert {"web", "box", "net"} <= set(found)


def test_of_this_host_alone() -> None:
    """A host adds a spec of its own, and cannot take the place of a built-in one."""
    assert registry.specs({"web": WEB})["web"] is WEB
    with pytest.raises(ConfigurationError):
        registry.specs({"net": msgspec.structs.replace(WEB, kind="net")})


def test_what_is_not_accepted(offer: object) -> None:
    """A kind of ours, a kind twice, a module that fails, and what is no spec of its kind."""
    offer("broken", "no_such_module_anywhere:SPEC")  # type: ignore[operator]
    offer("wrong", WEB)  # type: ignore[operator]
    offer("text", "fastness.limits:MIB")  # type: ignore[operator]
    found = registry.specs()
    for kind in ("broken", "wrong", "text"):
        with pytest.raises(ConfigurationError):
            found[kind]
    offer("net", WEB)  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match="net"):
        list(registry.specs())
    # Ours is found without looking at anybody else's.
    assert registry.specs()["net"].kind == "net"


def test_two_of_one_kind(offer: object) -> None:
    """Nobody guesses which of two is meant."""
    offer("web", WEB)  # type: ignore[operator]
    offer("web", BOX)  # type: ignore[operator]
    with pytest.raises(ConfigurationError, match="one place"):
        list(registry.specs())


class Reasoned(Scope, frozen=True, tag="reasoned"):
    reason: str = ""


class Needy(Scope, frozen=True, tag="needy"):
    host: str


@pytest.mark.parametrize("scope", [Reasoned, Needy, BoxScope])
def test_scopes_that_do_not_do(scope: type[Scope]) -> None:
    """A scope is tagged with its kind, all its fields have defaults, and none is called as a request's own."""
    kind = {"Reasoned": "reasoned", "Needy": "needy"}.get(scope.__name__, "other")
    with pytest.raises(ConfigurationError):
        registry.specs({kind: msgspec.structs.replace(WEB, kind=kind, scope=scope)})
