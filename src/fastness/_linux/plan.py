"""
System calls that are written down before a fork and made after it.

The kernel copies each page that a new process writes to, and to put the arguments of a call together writes to many.
Here that is done in the process that forks, where it costs no copy; the child only goes through a list.
"""

from __future__ import annotations

import ctypes as C
import errno

from fastness._linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Any result but an error will do.
ANY = -1


class Plan:
    """Calls in their order, with the memory that their arguments point to."""

    __slots__ = ("_call", "_held", "_rows")

    def __init__(self) -> None:
        # SAFETY: declared with seven words; each row has exactly so many.
        self._call = syscalls.word_call()
        self._rows: list[tuple[tuple[int, ...], int, str]] = []
        self._held: list[object] = []

    def add(self, name: str, *arguments: int | bytes | C.Array[Any], result: int = 0) -> int:
        """
        Add the system call ``name``, whose answer has to be ``result``; returns its index.

        An array is given to the kernel by its address and kept alive; bytes so too, with a zero after them.
        Raises ``OSError`` (``ENOSYS``) where there is no such call.
        """
        self._rows.append(self._row(name, arguments, result))
        return len(self._rows) - 1

    def put(self, index: int, *arguments: int) -> None:
        """Give a call other first arguments."""
        words, result, name = self._rows[index]
        self._rows[index] = (words[0], *arguments, *words[1 + len(arguments) :]), result, name

    def __len__(self) -> int:
        return len(self._rows)

    def hold(self, memory: object) -> None:
        """Keep alive what an argument points to by way of something else."""
        self._held.append(memory)

    def _row(
        self, name: str, arguments: tuple[int | bytes | C.Array[Any], ...], result: int
    ) -> tuple[tuple[int, ...], int, str]:
        number = syscalls.NUMBERS.get(name)
        if number is None:
            raise syscalls.oserror(name, errno.ENOSYS)
        words = [number]
        for one in arguments:
            if isinstance(one, int):
                words.append(one)
                continue
            held = C.create_string_buffer(one) if isinstance(one, bytes) else one
            self._held.append(held)
            words.append(C.addressof(held))
        return (*words, *(0,) * (7 - len(words))), result, name

    def run(self) -> None:
        """Make the calls.  Raises ``OSError`` at the first whose answer is another than was planned."""
        call = self._call
        for words, wanted, name in self._rows:
            # SAFETY: seven words, and what they point to is held by this object, or by what copied it at a fork.
            result = call(*words)
            if result != wanted and (result < 0 or wanted >= 0):
                if result < 0:
                    raise syscalls.oserror(name, C.get_errno())
                raise OSError(errno.EIO, f"{name}: answered {result} where {wanted} was due")
