"""The exception that ends a guest from inside a host call.  Apart, so that clocks, output and calls may raise it."""

from __future__ import annotations


class Stop(Exception):
    """The run is over while the guest is inside a host call; ``reason`` says why, ``detail`` in words."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail
