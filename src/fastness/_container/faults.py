"""
What can be wrong between this process and an engine, in one exception with a cause and a fix.
"""

from __future__ import annotations

from typing import Literal

Kind = Literal[
    "absent", "stale", "not_a_socket", "denied", "no_host", "insecure", "busy", "silent", "broken", "status",
    "unsupported",
]  # fmt: skip


class EngineFault(Exception):
    """
    An engine cannot be used, or did not do what it was asked.

    ``kind`` is closed; ``cause`` says what was met and ``remedy`` what would mend it.  ``status`` is the engine's
    HTTP status where it answered with one (RFC 9110), else 0.
    """

    def __init__(self, kind: Kind, cause: str, remedy: str = "", status: int = 0) -> None:
        self.kind = kind
        self.cause = cause
        self.remedy = remedy
        self.status = status
        super().__init__(cause + (f". Fix: {remedy}" if remedy else ""))
