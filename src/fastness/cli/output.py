"""
Passes a guest's output on as it comes.
"""

from __future__ import annotations

import os
import sys

from fastness.cli.visible import VisibleStream


class Output:
    """
    Writes guest output to our own streams: safe to show, or with ``raw`` byte for byte.

    Writing goes to the descriptors themselves, so that each piece is out before the next is asked for.
    """

    def __init__(self, *, raw: bool) -> None:
        self._raw = raw
        self._streams = {"stdout": VisibleStream(), "stderr": VisibleStream()}
        self._gone = False
        sys.stdout.flush()
        sys.stderr.flush()

    def write(self, name: str, data: bytes) -> bool:
        """Pass one piece on; False once nobody reads standard output any more."""
        return self._put(name, data if self._raw else self._streams[name].feed(data).encode())

    def close(self) -> None:
        """Write out what was held back."""
        if not self._raw:
            for name, stream in self._streams.items():
                self._put(name, stream.close().encode())

    def _put(self, name: str, data: bytes) -> bool:
        if self._gone:
            return False
        descriptor = (sys.stdout if name == "stdout" else sys.stderr).fileno()
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except BrokenPipeError:
            self._gone = True
        return not self._gone
