"""
What the broker writes down of each call, and where.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

__all__ = ["ANSWER", "LATE", "Intent", "Trail"]

#: What the code of an outcome begins with where the effect happened, or may have, and the answer was refused.
ANSWER = "answer_"
#: The code of an outcome that came when nobody waited for it any more: it was done all the same.
LATE = "late"


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """
    What is about to happen, or was refused: never a payload, a credential or a URL's query.

    ``leaves`` says that the effect leaves this machine or spends money, so that the record must be on disk before it.
    """

    run: str
    plugin: str
    owner: str
    capability: str
    operation: str
    target: str
    leaves: bool = False


class Trail(Protocol):
    """An audit trail.  Any thread may use it."""

    def intend(self, intent: Intent) -> int:
        """
        Record that this is about to happen, and return the record's number.

        It is committed when this returns, and on disk where the effect ``leaves``.  Raises BackendError: then it must
        not happen.
        """
        ...

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
        """
        Record how what record ``number`` announced has ended.

        ``code`` is empty where it went well; a denial code where it was refused before any effect; that with
        :data:`ANSWER` before it where the effect happened, or may have, and its answer was refused; :data:`LATE`;
        or a word for what went wrong.  ``cost`` is told where there is one, and ``dropped``, how many fields that only
        the host may say were left out of what the guest sent, where there were any.
        """
        ...

    def refused(self, intent: Intent, *, code: str) -> None:
        """Record that this was refused, and did not happen."""
        ...


class QuickTrail(Trail, Protocol):
    """A trail that can also tell that it would have to wait, in place of waiting."""

    def intend_at_once(self, intent: Intent) -> int | None:
        """As ``intend`` for what does not leave; None, and nothing recorded, where that would wait for others."""
        ...

    def done_at_once(
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
    ) -> bool:
        """As ``done``; False, and nothing recorded, where that would wait for others."""
        ...
