"""
The rules of the next guest for what it may read, made before it is asked for.
"""

from __future__ import annotations

import errno

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
        #: What makes them; None where the kernel has none, and then why not.
        self.rulesets: landlock.Rulesets | None = None
        self.why_none = ""

    def make(self) -> None:
        """
        Have them ready where there are any, which takes longer than most of a birth.

        Raises ``OSError``: a want of descriptors or memory passes, and what it costs is one birth and not the wall of
        all to come.
        """
        if self.why_none:
            return
        try:
            if self.rulesets is None:
                self.rulesets = landlock.Rulesets(
                    [
                        (box.FOLDERS + index, rights if rights == landlock.DEVICE else rights | self._programs)
                        for index, rights in enumerate(self._rights)
                    ]
                )
            self.rulesets.make()
        except OSError as error:
            if not self._isolated or error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
                raise
            self.rulesets, self.why_none = None, error.strerror or str(error)
