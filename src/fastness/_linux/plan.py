"""
System calls that are written down before a fork and made after it.

The kernel copies each page that a new process writes to, and to put the arguments of a call together writes to many.
Here that is done in the process that forks, where it costs no copy; the child only goes through a list.
"""

from __future__ import annotations

import ctypes as C
import errno
import struct

from fastness._linux import syscalls

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Bytes = C.Array[C.c_char]
    Numbers = C.Array[C.c_int]
    Words = C.Array[C.c_uint64]

#: Any result but an error will do.
ANY = -1
_SOL_SOCKET = _SCM_RIGHTS = 1


def memory(content: bytes | int) -> Bytes:
    """Memory with this content, or of so many bytes that are zero."""
    return (
        C.create_string_buffer(content) if isinstance(content, int) else C.create_string_buffer(content, len(content))
    )


def words(count: int) -> Words:
    """So many words of 64 bits, all zero."""
    return (C.c_uint64 * count)()


def first_of(numbers: Numbers) -> C.c_int:
    """The first of these, by a name of its own: the kernel may write to it."""
    return C.c_int.from_buffer(numbers)


class Plan:
    """Calls in their order, with the memory that their arguments point to."""

    __slots__ = ("_call", "_held", "_names", "_rows")

    def __init__(self) -> None:
        # SAFETY: declared with seven words; each row has exactly so many.
        self._call = syscalls.word_call()
        self._rows: list[tuple[tuple[int, ...], int]] = []
        #: Apart from the rest: what is made to go through all of them writes to each thing that it meets.
        self._names: list[str] = []
        self._held: list[object] = []

    def add(self, name: str, *arguments: int | bytes | C.Array[Any], result: int = 0) -> int:
        """
        Add the system call ``name``, whose answer has to be ``result``; returns its index.

        An array is given to the kernel by its address and kept alive; bytes so too, with a zero after them.
        Raises ``OSError`` (``ENOSYS``) where there is no such call.
        """
        self._rows.append((self._words(name, arguments), result))
        self._names.append(name)
        return len(self._rows) - 1

    def add_message(self, socket: int, message: Bytes, count: int) -> tuple[Words, Numbers]:
        """
        Add the sending of ``message`` with so many descriptors (``sendmsg(2)``, ``cmsg(3)``).

        Returns two words, the second of which is the length of the message, and the descriptors; all of it is read when
        the message is sent.
        """
        part = (C.c_uint64 * 2)(C.addressof(message), C.sizeof(message))
        # A `struct cmsghdr` of 16 bytes, the descriptors, and what pads them to whole words.
        size = 16 + 4 * count
        rights = C.create_string_buffer((size + 7) // 8 * 8)
        struct.pack_into("=QII", rights, 0, size, _SOL_SOCKET, _SCM_RIGHTS)
        # A `struct msghdr` of a 64-bit machine: no name, one part, the rights.
        header = (C.c_uint64 * 7)(0, 0, C.addressof(part), 1, C.addressof(rights), C.sizeof(rights), 0)
        self.hold((message, part, rights))
        self.add("sendmsg", socket, header, 0, result=ANY)
        return part, (C.c_int * count).from_buffer(rights, 16)

    def put(self, index: int, *arguments: int) -> None:
        """Give a call other first arguments."""
        words, result = self._rows[index]
        self._rows[index] = (words[0], *arguments, *words[1 + len(arguments) :]), result

    def words(self, index: int) -> tuple[int, ...]:
        """The number of a call and its arguments, which this object keeps alive."""
        return self._rows[index][0]

    def __len__(self) -> int:
        return len(self._rows)

    def hold(self, memory: object) -> None:
        """Keep alive what an argument points to by way of something else."""
        self._held.append(memory)

    def _words(self, name: str, arguments: tuple[int | bytes | C.Array[Any], ...]) -> tuple[int, ...]:
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
        return (*words, *(0,) * (7 - len(words)))

    def run(self) -> int:
        """
        Make the calls; returns the answer of the last one.

        Raises ``OSError`` at the first whose answer is another than was planned.
        """
        call: Callable[..., int] = self._call
        result = 0
        for words, wanted in self._rows:
            # SAFETY: seven words, and what they point to is held by this object, or by what copied it at a fork.
            result = call(*words)
            if result < 0 or (wanted >= 0 and result != wanted):
                raise self._failed(words, wanted, result)
        return result

    def _failed(self, words: tuple[int, ...], wanted: int, result: int) -> OSError:
        number = C.get_errno()
        name = next(name for (one, _), name in zip(self._rows, self._names, strict=True) if one is words)
        if result < 0:
            return syscalls.oserror(name, number)
        return OSError(errno.EIO, f"{name}: answered {result} where {wanted} was due")
