"""
The rules of the next guest for what it may read, made before it is asked for.
"""

from __future__ import annotations

import errno
import os

from fastness._linux import landlock
from fastness._native import box


class Rules:
    """
    Each guest adds rules of its own to a ruleset and has it for itself: one that got what another guest added could
    reach that guest's folders.

    ``rights`` are those to the folders that are open from :data:`box.FOLDERS` on.
    """

    def __init__(self, rights: list[int], *, programs: bool, isolated: bool) -> None:
        self._rights = rights
        self._programs = landlock.EXECUTE if programs else 0
        self._isolated = isolated
        self._rulesets: landlock.Rulesets | None = None
        #: The ruleset of the next guest, None where the kernel has none; and why not.
        self.ready: int | None = None
        self.why_none = ""

    def make(self) -> None:
        """
        Have one ready where there are any, which takes longer than most of a birth.

        Raises ``OSError``: a want of descriptors or memory passes, and what it costs is one birth and not the wall of
        all to come.
        """
        if self.ready is not None or self.why_none:
            return
        try:
            if self._rulesets is None:
                self._rulesets = landlock.Rulesets(
                    [
                        (box.FOLDERS + index, rights if rights == landlock.DEVICE else rights | self._programs)
                        for index, rights in enumerate(self._rights)
                    ]
                )
            self.ready = self._rulesets.make()
        except OSError as error:
            if not self._isolated or error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
                raise
            self.why_none = error.strerror or str(error)

    def taken(self) -> bool:
        """A guest has its own copy of what was ready; whether the next one needs another."""
        if self.ready is None:
            return False
        os.close(self.ready)
        self.ready = None
        return True
