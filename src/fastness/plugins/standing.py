"""
What stands for a plugin and an owner now, and the checked files of it: looked up anew only where something changed.

Both are kept beside the cheapest proof that they are what the disk says: a number that changes with every change of the
store, and what the kernel says of each file.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from fastness.capability import Spec
from fastness.grant import Grant
from fastness.manifest import Manifest, parse
from fastness.plugins.installed import Installed, open_installed
from fastness.plugins.states import Known
from fastness.plugins.store import Store

__all__ = ["Opened", "Standing", "Standings"]

#: Manifests, and plugins with their owners, that are kept.
_KEPT = 4096
#: Packages that are kept open, and bytes of them.
_OPEN = 64
_OPEN_BYTES = 256 << 20


class Standing(NamedTuple):
    """
    A plugin, what it asks for, and what an owner granted it.

    ``at`` is the even number of the store's changes at which this was so, and the view that it was read from; None
    where somebody was writing.
    """

    known: Known
    manifest: Manifest
    grant: Grant | None
    at: tuple[memoryview, int] | None = None


class Standings:
    """Every :class:`Standing` of one store.  Any thread may ask."""

    def __init__(self, store: Store, specs: Mapping[str, Spec]) -> None:
        self._store = store
        self._specs = specs
        self._lock = threading.Lock()
        self._view: object = None
        self._at = -1
        self._found: dict[tuple[str, str], Standing] = {}
        self._manifests: dict[bytes, Manifest] = {}

    def of(self, plugin: str, owner: str) -> Standing:
        """
        What stands while this is called.

        Raises ConfigurationError where there is no such plugin, ManifestError where its manifest is not valid with the
        capabilities of today, BackendError where the store cannot be read.
        """
        changes = self._store.changes
        view, now = changes.view, changes.value
        with self._lock:
            if view is self._view and now == self._at:
                found = self._found.get((plugin, owner))
                if found is not None:
                    return found
            else:
                self._found.clear()
                # Odd is somebody who writes just now: what is read may be another thing in a moment.
                self._view, self._at = view, -1 if now % 2 else now
        known, text, grant = self._store.standing(plugin, owner)
        manifest = self._manifest(text)
        with self._lock:
            # Read after the number was: had anybody written meanwhile, it would be another one.
            if self._view is not view or view is not changes.view or not self._at == now == changes.value:
                return Standing(known, manifest, grant)
            made = Standing(known, manifest, grant, (view, now))
            if len(self._found) < _KEPT:
                self._found[plugin, owner] = made
        return made

    def _manifest(self, text: bytes) -> Manifest:
        found = self._manifests.get(text)
        if found is None:
            found = parse(msgspec.json.decode(text), self._specs)
            if len(self._manifests) >= _KEPT:
                self._manifests.clear()
            self._manifests[text] = found
        return found


class Opened:
    """Installed packages that were read and found whole, those that were used last.  Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[str, Installed] = OrderedDict()

    def get(self, digest: str) -> Installed:
        """A package whose files are as they were installed.  Raises PackageChanged."""
        with self._lock:
            found = self._found.get(digest)
            if found is not None:
                self._found.move_to_end(digest)
        if found is not None and found.unchanged():
            return found
        self.forget(digest)
        found = open_installed(digest)
        with self._lock:
            self._found[digest] = found
            while len(self._found) > 1 and (len(self._found) > _OPEN or self._bytes() > _OPEN_BYTES):
                self._found.popitem(last=False)
        return found

    def forget(self, digest: str) -> None:
        """Read it anew the next time."""
        with self._lock:
            self._found.pop(digest, None)

    def _bytes(self) -> int:
        return sum(one.package.size for one in self._found.values())
