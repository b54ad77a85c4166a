"""
How an engine drives any preview 1 command module: a fresh instance for each run, and a call of ``_start``.
"""

from __future__ import annotations

from fastness._wasi import memfs, memfs_tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._wasi.binding import Instance, Linker


class CommandGuest:
    """
    Driver of a user's own module.

    The run's one writable tree is the work folder.  A preopen called ``/``, ``.`` or ``/work`` shows that folder;
    any other name shows a folder of that name inside it.
    """

    has_image = False
    #: Whether output looks like a terminal to the guest, which makes C programs flush at each line.
    tty = True
    fresh_only = True
    channel = -1

    def __init__(self, options: dict[str, Any]) -> None:
        self._preopens: list[str] = []

    def prepare(self, preopens: list[str]) -> None:
        """The names that the next run's guest sees."""
        self._preopens = preopens

    def imports(self, linker: Linker) -> None:
        """Nothing beside preview 1."""

    def arguments(self, args: list[str]) -> list[bytes]:
        """The argument vector, the program's name first."""
        return [a.encode("utf-8", "surrogateescape") for a in args]

    def environment(self, env: list[list[str]]) -> list[bytes]:
        """Exactly what the caller passed."""
        return [f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in env]

    def tree(self, quota: memfs.Quota, now: int) -> tuple[list[tuple[bytes, Any]], memfs.Dir]:
        """Preopens in the order asked for, and the work folder."""
        work = memfs.Dir(quota, False, now)
        preopens: list[tuple[bytes, Any]] = []
        for name in self._preopens:
            inside = name.strip("/").removeprefix("./")
            node: Any = work
            if inside not in ("", ".", "work"):
                node = memfs_tree.add(work, inside, None, now)
            preopens.append((name.encode(), node))
        return preopens, work

    def run(self, instance: Instance, host: Any, image: None, invoke: dict[str, Any], code: bytes) -> None:
        """Run ``_start``.  Raises ``Trap``; a return is an exit with status 0."""
        if instance.shape(b"_start") != (0, 0):
            raise RuntimeError("the module exports no function _start without parameters and results")
        instance.call_raw(b"_start", ())
