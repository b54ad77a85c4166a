"""
The check that a broker makes at every call: does the grant behind it still stand?
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness.errors import BackendError

if TYPE_CHECKING:
    from fastness.plugins.store import Store

__all__ = ["NO_REVISION", "UNREADABLE", "Watch"]

#: What a check answers where no grant stands, and where the store cannot be read.  No grant has such a revision.
NO_REVISION = 0
UNREADABLE = -1


class Watch:
    """
    Tells the revision of one grant as it is now: call it.  It is the check that a broker makes at every call.

    The answer is the grant's revision while it stands: not revoked, its plugin enabled, and for the files that are
    installed.  Else it is ``NO_REVISION``, or ``UNREADABLE`` where the store cannot be read, and then ``failure`` is
    the error.  Whether a grant has expired is a matter of the clock, and is not looked at here.
    """

    __slots__ = ("_store", "_of", "_view", "_at", "_revision", "failure")

    def __init__(self, store: Store, plugin: str, owner: str, seen: tuple[memoryview, int, int] | None = None) -> None:
        self._store = store
        self._of = plugin, owner
        self._view, self._at, self._revision = seen or (store.changes.view, -1, NO_REVISION)
        self.failure: BackendError | None = None

    def __call__(self) -> int:
        """The revision as it is while this is called."""
        if self._view[0] == self._at:
            return self._revision
        return self._look()

    def _look(self) -> int:
        changes = self._store.changes
        self._at, self._view = -1, changes.view
        # Read before the database: what is committed after this makes it another number.
        before = changes.value
        try:
            revision = self._store.revision(*self._of)
        except BackendError as error:
            self.failure = error
            return UNREADABLE
        self.failure = None
        if before % 2 == 0 and changes.value == before:
            self._revision, self._at = revision, before
        return revision
