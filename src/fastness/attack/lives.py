"""
Plugins that live as long as their host: in the host that ships, and in a careless one that runs them as they are.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fastness.plugins.isolated import IsolatedPlugin
from fastness.plugins.lifecycle import DefaultPluginHost, PluginState

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.model import Effect
    from fastness.attack.outside import Bare
    from fastness.broker.trail import Intent
    from fastness.runs import RunResult

TIERS = ("wasm", "worker", "confined", "isolated")
#: Seconds that a phase may take, and those within which a host must have gone on.
SECONDS = 1.0
STALLED_S = 20.0
_MANIFEST = 'MANIFEST = {"id": "attacker", "version": "1.0.0"}\n'
#: Runs the plugin in its own process as a host without any of it would; its ctx does what it is told.
_CARELESS = r"""
import os, pathlib

class Ctx:
    def __init__(self, known):
        self.values = dict(known)

    def lookup(self, name):
        return self.values.get(name)

    def provide(self, name, value):
        self.values[name] = value

    def declare_capability(self, tag):
        pass

    def log(self, level, text):
        pass

ctx = Ctx({'client': {'send': pathlib.Path(MARK_FILE).touch}, 'secrets:vault': SECRET, 'shared:client': 'of another'})
space = {'__name__': 'attacker'}
try:
    exec(PLUGIN, space)
    if 'setup' in space:
        space['setup'](ctx)
except Exception as error:
    print(error)
print('WENT ON', flush=True)
"""


class Paper:
    """A trail that is gone with the attempt, so that nothing is written to the user's own."""

    def intend(self, intent: Intent) -> int:
        """Taken note of by nobody."""
        return 1

    def done(
        self,
        number: int,
        intent: Intent,
        *,
        code: str,
        micros: int,
        bytes_in: int,
        bytes_out: int,
        cost: int = 0,
        dropped: int = 0,
    ) -> None:
        """As above."""

    def refused(self, intent: Intent, *, code: str) -> None:
        """As above."""


class Life:
    """A host with the attacker in the tier under attack, and another plugin after it."""

    def __init__(self, host: DefaultPluginHost, plugin: IsolatedPlugin) -> None:
        self.host = host
        self.plugin = plugin
        self.took = 0.0

    def start(self) -> None:
        """Start both; nothing is raised, whatever the attacker does."""
        began = time.monotonic()
        self.host.start()
        self.took = time.monotonic() - began

    @property
    def result(self) -> RunResult | None:
        """Of the attacker's setup."""
        return self.plugin.results.get("setup")

    @property
    def went_on(self) -> bool:
        """Whether the host has started the other one, in time, and knows that the attacker failed."""
        states = self.host.states()
        return states == {"attacker": PluginState.ERROR, "other": PluginState.STARTED} and self.took < STALLED_S


@contextlib.contextmanager
def life(
    arena: Arena, code: str, *, policy: Mapping[str, Any] | None = None, known: Mapping[str, Any] | None = None
) -> Iterator[Life]:
    """A host that knows these values; all of it is gone after the block."""
    folder = arena.folder / "attacker"
    folder.mkdir()
    (folder / "attacker.py").write_text(_MANIFEST + code)
    plugin = IsolatedPlugin.load(
        folder / "attacker.py", tier=arena.tier, policy=policy, setup_timeout=SECONDS, trail=Paper()
    )
    host = DefaultPluginHost(on_log=lambda *row: None)
    try:
        for name, value in (known or {}).items():
            host.provide(name, value)
        host.register(plugin)
        host.register(SimpleNamespace(manifest={"id": "other"}))
        yield Life(host, plugin)
    finally:
        for result in plugin.results.values():
            arena.came(result)
        host.stop()
        plugin.close()


def marked(arena: Arena, life: Life) -> Effect:
    """Whether it has made the file at ``mark_file``."""
    return arena.marked(_ran(life))


def leaked(arena: Arena, life: Life) -> Effect:
    """Whether the secret is in anything that its setup could send out."""
    return arena.leaked(_ran(life))


def _ran(life: Life) -> RunResult:
    if life.result is None:
        raise RuntimeError("it did not run at all")
    return life.result


def careless(arena: Arena, code: str, after: str = "", *, limit_s: float = 3.0) -> Bare:
    """The control: a host that runs the plugin as it is, and then what is ``after``."""
    facts = {"PLUGIN": code, "SECRET": arena.token}
    return arena.outside.run(arena.python(_CARELESS + after, **facts), limit_s=limit_s)
