"""
Which adapter does the work of each kind for one host: its caller's, else the built-in one, made when first needed.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastness._wasi import home
from fastness.broker import portal
from fastness.broker.functions import KIND, Functions
from fastness.capabilities import registry
from fastness.capability import Adapter, CallContext, Spec
from fastness.config import Config
from fastness.errors import ConfigurationError
from fastness.manifest import Manifest
from fastness.metering.ledger import Ledger
from fastness.plugins.boxes import Boxes

if TYPE_CHECKING:
    from fastness.capabilities._integration import Integration
    from fastness.capabilities.schedule import Schedule

__all__ = ["Adapters", "owner_word"]

_CLOSE_S = 10.0
#: Where built-in adapters keep things for plugins.
_KEEPING = {"memory": "memory", "schedule": "schedule.db", "signals": "signals.db", "storage": "storage.db"}


def _nobody(_owner: str) -> tuple[tuple[str, Any], ...]:
    return ()


def owner_word(owner: str) -> str:
    """An owner as a name of a folder or a tenant: the same for the same owner, whatever characters there are in it."""
    return hashlib.sha256(owner.encode()).hexdigest()[:32]


class Adapters(Mapping[str, Adapter]):
    """
    Adapters by kind.  ``specs`` are all capabilities of this host; a kind without an adapter is not in here.

    ``given`` replace built-in ones; those are their caller's, and are not closed here.  ``methods`` gives those of a
    plugin's manifest, ``receivers`` the plugins of an owner that may receive signals now, with their scopes.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        given: Mapping[str, Adapter] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        integrations: Sequence[Integration] = (),
        *,
        methods: Callable[[str], Collection[str]] = lambda plugin: (),
        receivers: Callable[[str], Iterable[tuple[str, Any]]] = _nobody,
    ) -> None:
        self._config = config
        self._methods = methods
        self._receivers = receivers
        self._ledger = ledger
        self._given = dict(given or {})
        self._integrations_given = tuple(integrations)
        mails = config.email is not None or config.integrations or self._integrations_given
        there = {"llm": config.llm is not None, "integrations": mails}
        #: Kinds that nobody here does the work of, as this machine's operator has not said how.
        self._absent = frozenset(kind for kind, said in there.items() if not said and kind not in self._given)
        for kind, adapter in self._given.items():
            spec = getattr(adapter, "spec", None)
            if not isinstance(spec, Spec) or spec.kind != kind or kind == KIND:
                raise ConfigurationError(f"adapters[{kind!r}]", type(adapter).__name__, f"an adapter of {kind!r}")
        # Without any it is a kind all the same: who manages plugins need not be who runs them.
        self._given[KIND] = Functions(functions or {})
        more = {kind: one.spec for kind, one in self._given.items() if kind not in registry.BUILT_IN}
        self.specs: Mapping[str, Spec] = registry.specs(more)
        self._boxes = Boxes(config.process_tier)
        self._lock = threading.Lock()
        self._made: dict[str, Adapter] = {}
        self._folders: dict[tuple[str, str], str] = {}

    def __getitem__(self, kind: str) -> Adapter:
        found = self._given.get(kind) or self._made.get(kind)
        if found is None:
            if kind in self._absent:
                raise KeyError(kind)
            make = {
                "fs": self._fs,
                "integrations": self._integrations,
                "llm": self._llm,
                "memory": self._memory,
                "net": self._net,
                "process": self._process,
                "schedule": self._schedule,
                "signals": self._signals,
                "storage": self._storage,
            }[kind]
            with self._lock:
                found = self._made.get(kind)
                if found is None:
                    found = self._made[kind] = make()
        return found

    def __iter__(self) -> Iterator[str]:
        yield from {*registry.BUILT_IN, *self._given} - self._absent

    def __len__(self) -> int:
        return len({*registry.BUILT_IN, *self._given} - self._absent)

    def lacking(self, manifest: Manifest) -> frozenset[str]:
        """Kinds that a plugin asks for and that nobody here does the work of, or not of all that it names."""
        functions: Any = self._given[KIND]
        found = {one.kind for one in manifest.capabilities if one.kind not in set(self)}
        asked: Any = manifest.scope(KIND)
        if asked is not None and not set(asked.names) <= set(functions.names):
            found.add(KIND)
        wanted: Any = manifest.scope("integrations")
        if wanted is not None and "integrations" not in found and not set(wanted.actions) <= self._actions():
            found.add("integrations")
        return frozenset(found)

    def kinds(self) -> tuple[str, ...]:
        """Every kind that there is, whether or not somebody does the work of it just now."""
        return tuple(sorted({*registry.BUILT_IN, *self._given}))

    @property
    def currency(self) -> str:
        """What prices are in."""
        return "" if self._config.llm is None else self._config.llm.currency

    def remembers(self) -> Any:
        """
        The adapter of ``memory``, which knows how to export and erase what it keeps for an owner.

        Raises ConfigurationError where it is the caller's own and does not.
        """
        found = self["memory"]
        for name in ("export", "erase"):
            if not callable(getattr(found, name, None)):
                raise ConfigurationError("adapters['memory']", type(found).__name__, f"one with a method {name}")
        return found

    def schedules(self) -> Schedule:
        """The adapter of ``schedule``.  Raises ConfigurationError where it is the caller's own."""
        from fastness.capabilities.schedule import Schedule

        found = self["schedule"]
        if not isinstance(found, Schedule):
            raise ConfigurationError("adapters['schedule']", type(found).__name__, "the one that is built in")
        return found

    def signals(self) -> Any:
        """
        The adapter of ``signals``, which knows how to send and hand over those of an owner.

        Raises ConfigurationError where it is the caller's own and does not.
        """
        found = self["signals"]
        for name in ("publish", "received", "claim"):
            if not callable(getattr(found, name, None)):
                raise ConfigurationError("adapters['signals']", type(found).__name__, f"one with a method {name}")
        return found

    def unsent(self, plugin: str, owner: str | None) -> None:
        """Drop what waits for a plugin that an owner, or everybody, has revoked.  Raises AdapterError."""
        if "signals" in self._given or os.path.lexists(home.place("data", "signals.db")):
            revoked = getattr(self["signals"], "revoked", None)
            if revoked is not None:
                revoked(plugin, owner)

    # built-in ones

    def _fs(self) -> Adapter:
        from fastness.capabilities.fs import Fs

        return Fs(self._config.fs_root or self._folder)

    def _actions(self) -> set[str]:
        """The actions of integrations that somebody here does."""
        return {one.name for one in self["integrations"].spec.operations}

    def _integrations(self) -> Adapter:
        from fastness.capabilities._integration_entries import used
        from fastness.capabilities.integrations import Counts, Email, Integrations

        made: list[Integration] = []
        if self._config.email is not None:
            password = self._config.email.password or home.place("config", "smtp.password")
            made.append(Email(self._config.email, password=password))
        counts = Counts(os.path.join(home.folder("data"), "integrations.db"))
        return Integrations([*made, *used(self._config.integrations), *self._integrations_given], counts)

    def _llm(self) -> Adapter:
        from fastness.capabilities.llm import Llm

        assert self._config.llm is not None
        key = self._config.llm.key or home.place("config", "llm.key")
        there = self._config.llm.key is not None or os.path.lexists(key)
        return Llm(self._config.llm, self._ledger, key=key if there else None)

    def _memory(self) -> Adapter:
        from fastness.capabilities.memory import Memory

        return Memory(home.folder("data", "memory"))

    def _net(self) -> Adapter:
        from fastness.capabilities.net import AddressGuard, Allowance, Net, SecretFile

        guard = AddressGuard([Allowance(one.host, one.address, one.port) for one in self._config.reach])
        path = self._config.secrets or home.place("config", "secrets.toml")
        there = self._config.secrets is not None or os.path.lexists(path)
        return Net(guard, secrets=SecretFile(path) if there else None, trust=self._config.trust)

    def _process(self) -> Adapter:
        from fastness.capabilities.process import Process

        return Process(self._boxes.run)

    def _schedule(self) -> Adapter:
        from fastness.capabilities.schedule import Schedule

        return Schedule(os.path.join(home.folder("data"), "schedule.db"), self._methods)

    def _signals(self) -> Adapter:
        from fastness.capabilities.signals import Signals

        return Signals(os.path.join(home.folder("data"), "signals.db"), self._receivers)

    def _storage(self) -> Adapter:
        from fastness.capabilities.storage import Storage

        return Storage(os.path.join(home.folder("data"), "storage.db"))

    def _folder(self, context: CallContext) -> str:
        """The folder of a plugin and an owner, as the host knows them; made where it is missing."""
        whose = context.plugin, context.owner
        found = self._folders.get(whose)
        if found is None or not os.path.isdir(found):
            found = self._folders[whose] = home.folder("data", "files", context.plugin, owner_word(context.owner))
        return found

    def check_process(self, tier: str) -> None:
        """Prove that programs can run in this tier.  Raises TierUnavailable."""
        if "process" not in self._given:
            self._boxes.check(tier)

    # ends

    def forget(self, plugin: str) -> None:
        """
        Delete what was kept for a plugin that is no more: another one of its name inherits nothing.

        An adapter that keeps something has a coroutine ``forget(plugin)``; one of the caller's may have.
        """
        keeping = dict(self._given)
        for kind, name in _KEEPING.items():
            if kind not in keeping and os.path.lexists(home.place("data", name)):
                keeping[kind] = self[kind]
        for adapter in keeping.values():
            forget = getattr(adapter, "forget", None)
            if forget is not None:
                portal.wait(forget(plugin), _CLOSE_S)
        folder = home.place("data", "files", plugin)
        if os.path.lexists(folder):
            # Of links only the links go.
            shutil.rmtree(folder, ignore_errors=True)
        for whose in [whose for whose in self._folders if whose[0] == plugin]:
            self._folders.pop(whose, None)

    def close(self) -> None:
        """Close what was made here.  Idempotent."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        for adapter in made:
            with contextlib.suppress(TimeoutError):
                portal.wait(adapter.aclose(), _CLOSE_S)
        self._boxes.close()
