"""
Filters that are ready to be installed by one process after another.

A filter lets a guest signal itself alone, so the guest's number is part of it.  Putting the number in must not take
longer than installing the result.
"""

from __future__ import annotations

from fastness._linux import profiles


class Filter:
    """The program ``name`` for processes that are not known yet."""

    __slots__ = ("_code", "_places")

    def __init__(self, machine: str, name: str) -> None:
        """Raises ``OSError`` (``ENOSYS``) where there is no such program."""
        code, other = (profiles.program(machine, name, self_pid=pid) for pid in (1, 2))
        self._code = code
        # The constant of an instruction is its last four bytes of eight.
        self._places = [i for i in range(4, len(code), 8) if code[i : i + 4] != other[i : i + 4]]

    def for_process(self, pid: int) -> bytes:
        """The program for process ``pid``, as that process sees its number."""
        code = bytearray(self._code)
        constant = pid.to_bytes(4, "little")
        for place in self._places:
            code[place : place + 4] = constant
        return bytes(code)
