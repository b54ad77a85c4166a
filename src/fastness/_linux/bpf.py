"""
An assembler for seccomp's classic BPF programs.

A table of rules by system call number becomes a program that checks the architecture, refuses the x32 numbers, finds
the call by binary search and then decides, looking at arguments where a rule asks for it.  See ``seccomp(2)`` and
``Documentation/userspace-api/seccomp_filter.rst``.

Arguments are 64-bit words that BPF reads as two halves.  A condition of ``width`` 64 looks at both.  ``width`` 32 looks
at the low half only and is right where the kernel's own parameter is an ``int``: the kernel throws the high half
away, so a rule that compared it could be stepped around by setting a bit there.

Two things are known only when a program is installed, so :func:`assemble_marked` tells where they are: answers that
are to be told to a supervisor (:data:`COUNTED`), and comparisons with the process's own number (:data:`SELF`).

This module runs when profiles are made, never in a confined process.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from fastness._linux.numbers import AUDIT_ARCH

ALLOW = 0x7FFF0000
LOG = 0x7FFC0000
#: The call waits until whoever holds the filter's listener has answered it (``seccomp_unotify(2)``).
NOTIFY = 0x7FC00000
#: Without a tracer the call fails with ``ENOSYS``; unlike an error it gives way to another filter's ``NOTIFY``.
TRACE = 0x7FF00000
KILL_PROCESS = 0x80000000
_ERRNO = 0x00050000
#: The call returns 0 and does nothing.
SUCCESS = _ERRNO

#: Added to an action: a program's variant with a supervisor tells it of this answer.
COUNTED = 1 << 32

#: As a value of a condition of width 32: the number of the process that installs the program.
SELF = 1 << 64

#: Stands in for :data:`SELF` until that is filled in.  No process has this number (``PID_MAX_LIMIT`` is 1 << 22), and
#: unlike 0 and -1 it stands for no group of processes either.
NO_PROCESS = 0x7FFFFFFF

#: The kernel takes no longer program (``BPF_MAXINSNS``).
MAX_INSTRUCTIONS = 4096

# Opcodes: class | size | mode, or class | operation | source.
_LOAD = 0x20
_JUMP_ALWAYS = 0x05
_JUMP_EQ = 0x15
_JUMP_GE = 0x35
_JUMP_ANY_BIT = 0x45
_AND = 0x54
_RETURN = 0x06

# Offsets in `struct seccomp_data`.
_NR = 0
_ARCH = 4
_ARGS = 16

#: Bit 30 marks x32 system calls, which reach the same kernel functions by other numbers.
_X32_BIT = 0x40000000

_LOW = 0xFFFFFFFF

# Stands for "the next rule" until the length of this one is known; no real 8-bit offset is this large.
_NEXT = 0x1FF

# How many instructions a conditional jump can skip.
_FARTHEST = 255

_Instruction = tuple[int, int, int, int]


def errno_action(number: int) -> int:
    """The action that makes a call fail with error ``number`` without being run."""
    if not 0 < number < 4096:
        raise ValueError(f"not an error number: {number}")
    return _ERRNO | number


def is_errno(action: int) -> bool:
    """Whether ``action`` gives an error, or success, without running the call."""
    return action & 0xFFFF0000 == _ERRNO


@dataclass(frozen=True)
class Condition:
    """
    A demand on argument ``arg`` (0 to 5): after ``ignore`` bits are cleared it must be one of ``values``.

    With ``only`` instead, no bit outside of ``only`` may be set.
    """

    arg: int
    values: tuple[int, ...] = ()
    ignore: int = 0
    only: int | None = None
    width: int = 64

    def __post_init__(self) -> None:
        if not 0 <= self.arg <= 5:
            raise ValueError(f"argument {self.arg}: system calls have arguments 0 to 5")
        if self.width not in (32, 64):
            raise ValueError(f"width {self.width}: 32 or 64")
        if (self.only is None) == (not self.values):
            raise ValueError("a condition names either `values` or `only`")
        if self.only is not None and self.ignore:
            raise ValueError("`ignore` has no meaning beside `only`")
        if SELF in self.values and (self.width != 32 or self.ignore):
            raise ValueError("a process number is compared as a whole, in 32 bits")
        limit = 1 << self.width
        plain = [value for value in self.values if value != SELF]
        for number in (*plain, self.ignore, self.only or 0):
            if not 0 <= number < limit:
                raise ValueError(f"{number:#x} does not fit {self.width} bits")
        if any(value & self.ignore for value in plain):
            raise ValueError("a value with ignored bits can never be met")
        if len({value >> 32 for value in plain}) > 1:
            raise ValueError("values with different high halves belong into separate rules")

    def _code(self) -> list[_Instruction]:
        low_offset = _ARGS + 8 * self.arg
        code: list[_Instruction] = []
        if self.only is not None:
            if self.width == 64:
                code += [(_LOAD, 0, 0, low_offset + 4), (_JUMP_ANY_BIT, _NEXT, 0, ~(self.only >> 32) & _LOW)]
            return [*code, (_LOAD, 0, 0, low_offset), (_JUMP_ANY_BIT, _NEXT, 0, ~self.only & _LOW)]
        if self.width == 64:
            code.append((_LOAD, 0, 0, low_offset + 4))
            if self.ignore >> 32:
                code.append((_AND, 0, 0, ~(self.ignore >> 32) & _LOW))
            code.append((_JUMP_EQ, 0, _NEXT, self.values[0] >> 32))
        code.append((_LOAD, 0, 0, low_offset))
        if self.ignore & _LOW:
            code.append((_AND, 0, 0, ~self.ignore & _LOW))
        last = len(self.values) - 1
        for index, value in enumerate(self.values):
            k = SELF if value == SELF else value & _LOW
            code.append((_JUMP_EQ, last - index, _NEXT if index == last else 0, k))
        return code


@dataclass(frozen=True)
class Rule:
    """``action``, which may be :data:`COUNTED`, for a call whose arguments meet all ``conditions``."""

    action: int
    conditions: tuple[Condition, ...] = field(default=())

    def _code(self) -> list[_Instruction]:
        code = [instruction for condition in self.conditions for instruction in condition._code()]
        code.append((_RETURN, 0, 0, self.action))
        if len(code) > 255:
            raise ValueError("a rule of this length cannot be jumped over; split its values")
        # An unmet condition goes to whatever follows this rule.
        return [
            (op, to_next if jt == _NEXT else jt, to_next if jf == _NEXT else jf, k)
            for to_next, (op, jt, jf, k) in zip(range(len(code) - 1, -1, -1), code, strict=True)
        ]


@dataclass(frozen=True)
class Assembled:
    """A program, and the indexes of its instructions that are changed when it is installed."""

    code: bytes
    #: Instructions that return a counted answer.
    counted: tuple[int, ...]
    #: Instructions that compare with the number of the installing process.
    own: tuple[int, ...]


def assemble(machine: str, table: dict[int, list[Rule]], default: int) -> bytes:
    """As :func:`assemble_marked`, the program alone: answers are not counted and no process is the own one."""
    return assemble_marked(machine, table, default).code


def assemble_marked(
    machine: str, table: dict[int, list[Rule]], default: int, beyond: tuple[int, int] | None = None
) -> Assembled:
    """
    The program for ``machine``: the first rule of a call's list that is met decides, else ``default``.

    ``beyond`` is a number and an action: calls from that number on, which no table knows, get that action.
    Another architecture and, on x86_64, an x32 number always end the process.  Raises ``ValueError`` for an unknown
    machine, a number out of range or a program that the kernel would not take.
    """
    if machine not in AUDIT_ARCH:
        raise ValueError(f"no architecture number for {machine}")
    for number in table:
        if not 0 <= number < (beyond[0] if beyond else _X32_BIT):
            raise ValueError(f"{number} is not a system call number")
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_JUMP_EQ, 1, 0, AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, KILL_PROCESS),
        (_LOAD, 0, 0, _NR),
    ]
    if machine == "x86_64":
        code += [(_JUMP_GE, 0, 1, _X32_BIT), (_RETURN, 0, 0, KILL_PROCESS)]
    spans = _spans(table, default)
    if beyond and beyond[1] != default:
        spans = [span for span in spans if span[0] < beyond[0]] + [(beyond[0], [(_RETURN, 0, 0, beyond[1])])]
    code += _Search(spans).code()
    if len(code) > MAX_INSTRUCTIONS:
        raise ValueError(f"{len(code)} instructions; the kernel takes {MAX_INSTRUCTIONS}")
    own = [index for index, (op, _, _, k) in enumerate(code) if op == _JUMP_EQ and k == SELF]
    for index in own:
        code[index] = (*code[index][:3], NO_PROCESS)
    return Assembled(
        b"".join(struct.pack("=HBBI", op, jt, jf, k & _LOW) for op, jt, jf, k in code),
        tuple(index for index, (op, _, _, k) in enumerate(code) if op == _RETURN and k & COUNTED),
        tuple(own),
    )


def _spans(table: dict[int, list[Rule]], default: int) -> list[tuple[int, list[_Instruction]]]:
    """Ascending ``(first number, code)`` that cover all numbers; neighbours with the same code are one span."""
    otherwise: list[_Instruction] = [(_RETURN, 0, 0, default)]
    spans: list[tuple[int, list[_Instruction]]] = [(0, otherwise)]

    def begin(first: int, code: list[_Instruction]) -> None:
        if spans[-1][0] == first:
            spans.pop()
        if not spans or spans[-1][1] != code:
            spans.append((first, code))

    for number in sorted(table):
        code = [instruction for rule in table[number] for instruction in rule._code()]
        if not table[number] or table[number][-1].conditions:
            code += otherwise
        begin(number, code)
        begin(number + 1, otherwise)
    return spans


class _Search:
    """
    Binary search over spans; the accumulator holds the number until a span's code loads something else.

    Instructions are made from the last to the first, so that whatever one jumps to has its place already.  One that is
    there already, and is followed by the same, is not made again as far as conditional jumps reach: what it decides
    depends on the accumulator and on what follows alone.  The kernel's time to install a program grows with its length.
    """

    def __init__(self, spans: list[tuple[int, list[_Instruction]]]) -> None:
        self._backward: list[_Instruction] = []
        #: Places by instruction and, where it is one that others follow, by the places of those.
        self._places: dict[tuple[object, ...], int] = {}
        self._reach(self._build(spans), _FARTHEST)

    def code(self) -> list[_Instruction]:
        return self._backward[::-1]

    def _emit(self, instruction: _Instruction) -> int:
        """Put ``instruction`` before all others; returns its place, counted from the end."""
        self._backward.append(instruction)
        return len(self._backward) - 1

    def _build(self, spans: list[tuple[int, list[_Instruction]]]) -> int | _Instruction:
        """The place where the search over ``spans`` begins, or the return that is all there is to it."""
        if len(spans) == 1:
            code = spans[0][1]
            return code[0] if len(code) == 1 else self._emit_span(code)
        if len(spans) == 3 and spans[0][1] == spans[2][1] and spans[2][0] == spans[1][0] + 1:
            # One number among others that are all treated alike.
            others, one = self._build(spans[:1]), self._build(spans[1:2])
            return self._jump(_JUMP_EQ, spans[1][0], one, others)
        middle = len(spans) // 2
        above, below = self._build(spans[middle:]), self._build(spans[:middle])
        return self._jump(_JUMP_GE, spans[middle][0], above, below)

    def _jump(self, code: int, number: int, where: int | _Instruction, otherwise: int | _Instruction) -> int:
        # One instruction may come between the first of these and the jump.
        to_where = self._reach(where, _FARTHEST - 1)
        to_otherwise = self._reach(otherwise, _FARTHEST)
        here = len(self._backward)
        return self._emit((code, here - to_where - 1, here - to_otherwise - 1, number))

    def _emit_span(self, code: list[_Instruction]) -> int:
        """The place of a span's code, each of whose jumps says how many of its instructions it skips."""
        # Whatever is used again must be reached from the first of these too, plain jumps between them included.
        farthest = _FARTHEST - 2 * len(code)
        places: list[int] = [0] * (len(code) + 1)
        for index in range(len(code) - 1, -1, -1):
            operation, true, false, k = code[index]
            follow: tuple[int, ...] = ()
            if operation in (_JUMP_EQ, _JUMP_GE, _JUMP_ANY_BIT):
                follow = places[index + 1 + true], places[index + 1 + false]
            elif operation != _RETURN:
                # It goes on with the next one, which has to be there.
                follow = (places[index + 1],)
            place = self._places.get((operation, k, follow))
            if place is None or len(self._backward) - place - 1 > farthest:
                here = len(self._backward)
                if len(follow) == 1 and follow[0] != here - 1:
                    follow = (self._emit((_JUMP_ALWAYS, 0, 0, here - follow[0] - 1)),)
                    here += 1
                true, false = (here - one - 1 for one in follow) if len(follow) == 2 else (0, 0)
                place = self._places[operation, k, follow] = self._emit((operation, true, false, k))
            places[index] = place
        return places[0]

    def _reach(self, target: int | _Instruction, farthest: int) -> int:
        """A place from which ``target`` follows, at most ``farthest`` instructions after the next that is made."""
        here = len(self._backward)
        if isinstance(target, int):
            # Conditional jumps reach 255 instructions, the plain jump any number.
            return target if here - target - 1 <= farthest else self._emit((_JUMP_ALWAYS, 0, 0, here - target - 1))
        known = _RETURN, target[3], ()
        place = self._places.get(known)
        if place is None or here - place - 1 > farthest:
            place = self._places[known] = self._emit(target)
        return place
