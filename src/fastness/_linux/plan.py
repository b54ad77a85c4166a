"""
System calls that are written down before a fork and made after it.

The kernel copies each page that a new process writes to, and to put the arguments of a call together writes to many.
Here that is done in the process that forks, where it costs no copy; the child only goes through a list, by way of
:mod:`fastness._linux.machine_code`.
"""

from __future__ import annotations

import ctypes as C
import errno
import struct

from fastness._linux import machine_code, syscalls
from fastness._linux.machine_code import ANSWER, DUE, PUT_AT, ROW, ROW_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    Bytes = C.Array[C.c_char]
    Numbers = C.Array[C.c_int]
    Words = C.Array[C.c_uint64]

#: Any result but an error will do.
ANY = -1
#: What there is to load where a number is to become nothing, one, or that of no descriptor.
ZERO, ONE, NONE = C.c_int(0), C.c_int(1), C.c_int(-1)
_SOL_SOCKET = _SCM_RIGHTS = _POLLIN = 1
#: Calls that a plan has room for at first.
_ROOM = 8


def memory(content: bytes | int) -> Bytes:
    """Memory with this content, or of so many bytes that are zero."""
    return (
        C.create_string_buffer(content) if isinstance(content, int) else C.create_string_buffer(content, len(content))
    )


def bytes_at(address: int, size: int) -> Bytes:
    """The bytes at an address in memory that somebody else keeps."""
    # SAFETY: the caller's: what is there outlives this and has so many bytes.
    return (C.c_char * size).from_address(address)


def content(memory: Bytes, size: int) -> bytes:
    """The first so many bytes of this."""
    # SAFETY: no more is read than there is.
    return C.string_at(memory, min(size, C.sizeof(memory)))


def words(count: int) -> Words:
    """So many words of 64 bits, all zero."""
    return (C.c_uint64 * count)()


def number() -> C.c_int:
    """An int that the kernel may write to, -1 until then."""
    return C.c_int(-1)


def numbers(count: int) -> Numbers:
    """So many ints that the kernel may write to, -1 until then."""
    return (C.c_int * count)(*[-1] * count)


def address(memory: C.Array[Any] | C.c_int, offset: int = 0) -> int:
    """Where this is, or what is so many bytes from its beginning."""
    return C.addressof(memory) + offset


def first_of(numbers: Numbers) -> C.c_int:
    """The first of these, by a name of its own: the kernel may write to it."""
    return C.c_int.from_buffer(numbers)


class Plan:
    """Calls in their order, with the memory that their arguments point to."""

    __slots__ = ("_held", "_lists", "_names", "_rows")

    def __init__(self) -> None:
        self._rows = words(ROW * _ROOM)
        #: This plan alone, for :func:`machine_code.make`.
        self._lists = words(3)
        self._names: list[str] = []
        self._held: list[object] = []

    def add(self, name: str, *arguments: int | bytes | C.Array[Any], result: int = 0, put_at: int = 0) -> int:
        """
        Add the system call ``name``, whose answer has to be ``result``; returns its index.

        An array is given to the kernel by its address and kept alive; bytes so too, with a zero after them.  The answer
        is put into an int at the address ``put_at``, if there is one.  Raises ``OSError`` (``ENOSYS``) where there is
        no such call.
        """
        number = syscalls.NUMBERS.get(name)
        if number is None:
            raise syscalls.oserror(name, errno.ENOSYS)
        index = len(self._names)
        if len(self._rows) < ROW * (index + 1):
            more = words(2 * len(self._rows))
            C.memmove(more, self._rows, C.sizeof(self._rows))
            self._rows = more
        row = ROW * index
        self._rows[row] = number
        for at, one in enumerate(arguments, row + 1):
            self._rows[at] = one if isinstance(one, int) else self._address(one)
        self._rows[row + DUE] = machine_code.ANY if result == ANY else result
        self._rows[row + PUT_AT] = put_at
        self._names.append(name)
        return index

    def load(self, place: int, put_at: int = 0, *, result: int = ANY) -> int:
        """
        Add, in the place of a call, what loads the int at the address ``place``; returns its index.

        It has to be ``result`` and is put into an int at the address ``put_at``, as the answer of a call.
        """
        index = self.add("getpid", place, result=result, put_at=put_at)
        self._rows[ROW * index] = machine_code.LOAD
        self._names[index] = "a number"
        return index

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

    def add_parts(self, socket: int, parts: list[Bytes], flags: int) -> None:
        """Add the sending of one message that consists of these, which are read when it is sent."""
        vector = words(2 * len(parts))
        vector[:] = [word for part in parts for word in (C.addressof(part), C.sizeof(part))]
        # As above, without any rights.
        header = (C.c_uint64 * 7)(0, 0, C.addressof(vector), len(parts), 0, 0, 0)
        self.hold((vector, *parts))
        self.add("sendmsg", socket, header, flags, result=ANY)

    def add_receipt(
        self, socket: int, parts: list[tuple[int, int]], count: int, flags: int, *, result: int
    ) -> tuple[int, Words, Words, Numbers]:
        """
        Add the receipt of a message into ``parts``, addresses with sizes, and of so many descriptors at most.

        Returns the index of the call, the message's header, the header of its descriptors, which is 0 where none came,
        and these (``recvmsg(2)``, ``cmsg(3)``).
        """
        vector = words(2 * len(parts))
        vector[:] = [word for part in parts for word in part]
        rights = words(2 + (count + 1) // 2)
        # A `struct msghdr`, as above; the kernel writes down how much of the rights there was, and the flags.
        header = (C.c_uint64 * 7)(0, 0, C.addressof(vector), len(parts), C.addressof(rights), C.sizeof(rights), 0)
        size = C.c_int(C.sizeof(rights))
        self.hold((vector, rights, size))
        self.load(C.addressof(size), address(header, 5 * 8))
        self.load(C.addressof(ZERO), address(rights))
        index = self.add("recvmsg", socket, header, flags, result=result)
        return index, header, rights, (C.c_int * count).from_buffer(rights, 16)

    def due(self, index: int, result: int) -> None:
        """Have a call be answered by this from now on."""
        self._rows[ROW * index + DUE] = result

    def put(self, index: int, *arguments: int) -> None:
        """Give a call other first arguments."""
        for at, one in enumerate(arguments, ROW * index + 1):
            self._rows[at] = one

    def put_answer_at(self, index: int, address: int) -> None:
        """Have the answer of a call put into an int at this address."""
        self._rows[ROW * index + PUT_AT] = address

    def words(self, index: int) -> list[int]:
        """The number of a call and its first five arguments."""
        return self._rows[ROW * index : ROW * index + 6]

    def argument_at(self, index: int, number: int) -> int:
        """The address of an argument of a call, the first being 1; good until another call is added."""
        return self.address(index) + 8 * number

    def address(self, index: int = 0) -> int:
        """The address of a call's row, or of what comes after the last; good until another call is added."""
        return C.addressof(self._rows) + ROW_BYTES * index

    def __len__(self) -> int:
        return len(self._names)

    def hold(self, memory: object) -> None:
        """Keep alive what an argument points to by way of something else."""
        self._held.append(memory)

    def _address(self, one: bytes | C.Array[Any]) -> int:
        held = C.create_string_buffer(one) if isinstance(one, bytes) else one
        self._held.append(held)
        return C.addressof(held)

    def run(self) -> None:
        """
        Make the calls.

        Raises ``OSError`` at the first whose answer is another than was planned.
        """
        lists = self._lists
        lists[0], lists[1] = self.address(), self.address(len(self._names))
        # SAFETY: whole rows, and what they point to is held by this object, or by what copied it at a fork.
        reached = machine_code.make(C.addressof(lists))
        if reached != C.addressof(lists) + 16:
            raise self.failed((reached - self.address()) // ROW_BYTES)

    def answer(self, index: int) -> int:
        """What was answered where something else was due; an error's number is below zero."""
        return C.c_int64(self._rows[ROW * index + ANSWER]).value

    def forget_answer(self, index: int) -> None:
        """Have :meth:`answer` say 0 until the call is answered otherwise than was due once more."""
        self._rows[ROW * index + ANSWER] = 0

    def failed(self, index: int) -> OSError:
        """What to raise for a call that was answered otherwise than was due."""
        name, answer = self._names[index], self.answer(index)
        if answer < 0:
            return syscalls.oserror(name, -answer)
        return OSError(errno.EIO, f"{name}: answered {answer} where {self._rows[ROW * index + DUE]} was due")


def quiet(fd: int, seconds: float) -> Plan:
    """What waits so long (less than a second) for nothing to be read from a descriptor; ``ppoll(2)``."""
    calls = Plan()
    # A `struct pollfd`, and a `struct timespec`, which the kernel makes the time that was left.
    asked = memory(struct.pack("=ihh", fd, _POLLIN, 0))
    pause, nanoseconds = words(2), C.c_int(int(seconds * 1e9))
    calls.hold(nanoseconds)
    calls.load(C.addressof(nanoseconds), address(pause, 8))
    calls.add("ppoll", asked, 1, pause, 0, 8)
    return calls


class Plans:
    """Plans one after another, to which nothing is added any more."""

    __slots__ = ("_lists", "address", "end", "plans")

    def __init__(self, plans: Iterable[Plan]) -> None:
        self.plans = tuple(plans)
        self._lists = words(2 * len(self.plans) + 1)
        for number, one in enumerate(self.plans):
            self._lists[2 * number], self._lists[2 * number + 1] = one.address(), one.address(len(one))
        #: For :func:`machine_code.make`, and what it returns where all was answered as was due.
        self.address = C.addressof(self._lists)
        self.end = self.address + 16 * len(self.plans)

    def at(self, reached: int) -> tuple[int, int]:
        """Which plan's which call it is that :func:`machine_code.make` has returned."""
        for number, one in enumerate(self.plans):
            if one.address() <= reached < one.address(len(one)):
                return number, (reached - one.address()) // ROW_BYTES
        raise ValueError("a call of none of these plans")

    def from_on(self, number: int) -> int:
        """The address for :func:`machine_code.make` of the plans from this one on."""
        return self.address + 16 * number
