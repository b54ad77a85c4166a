"""The seccomp assembler: a machine that runs its program, against a reading of the rules."""

from __future__ import annotations

import errno
import struct

import fuzzing

import emulator
from fastness._linux import bpf
from fastness._linux.bpf import ALLOW, KILL_PROCESS, LOG, NOTIFY, SELF, Condition, Rule, errno_action
from fastness._linux.numbers import AUDIT_ARCH

ACTIONS = (ALLOW, KILL_PROCESS, errno_action(errno.EACCES), errno_action(errno.ENOSYS), LOG, NOTIFY)
ODD = (1 << 31, (1 << 32) - 1, 1 << 32, 1 << 32 | 3, 1 << 63, (1 << 64) - 1)
#: The instructions that the assembler has: loads of words, jumps, and, return.
OPCODES = frozenset((0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06))
_LOW = (1 << 32) - 1


def word(source: fuzzing.Source) -> int:
    """Few distinct bits, so that arguments meet conditions often; or any 64."""
    kind = source.byte()
    return kind & 7 if kind < 128 else ODD[kind % len(ODD)] if kind < 200 else source.number(8)


def condition(source: fuzzing.Source) -> Condition:
    """Raises ValueError for one that the assembler does not take."""
    kind, width = source.below(4), 32 if source.below(2) else 64
    limit = (1 << width) - 1
    if kind == 0:
        return Condition(source.below(6), only=word(source) & limit, width=width)
    if kind == 1:
        # Whatever comes, sensible or not.
        values = tuple(word(source) for _ in range(source.below(4)))
        return Condition(source.below(8), values, ignore=word(source), width=width)
    if kind == 2:
        return Condition(source.below(6), tuple(range(source.below(40))), width=width)
    ignore = word(source) & limit
    high = word(source) >> 32 << 32
    values = tuple({(high | word(source) & _LOW) & ~ignore & limit for _ in range(1 + source.below(5))})
    return Condition(source.below(6), values, ignore=ignore, width=width)


def check(program: bytes) -> None:
    """What the kernel demands of a program (``seccomp_check_filter``, ``bpf_check_classic``), and that it ends."""
    code = list(struct.iter_unpack("=HBBI", program))
    assert 0 < len(code) <= bpf.MAX_INSTRUCTIONS
    assert code[-1][0] == 0x06
    for at, (op, jt, jf, k) in enumerate(code):
        assert op in OPCODES
        if op == 0x20:
            assert k % 4 == 0 and k < 64
        elif op == 0x05:
            assert at + 1 + k < len(code)
        elif op in (0x15, 0x35, 0x45):
            assert at + 1 + max(jt, jf) < len(code)


def one(data: bytes) -> None:
    source = fuzzing.Source(data)
    default, first = source.pick(ACTIONS), 400 + source.byte()
    table: dict[int, list[Rule]] = {}
    calls: list[tuple[int, tuple[int, ...]]] = []
    own = Rule(errno_action(errno.EPERM) | bpf.COUNTED, (Condition(0, (0, SELF), width=32),))
    try:
        while source:
            kind, number = source.below(8), source.number(2) % 512
            if kind < 4:
                conditions = tuple(condition(source) for _ in range(source.below(4)))
                table.setdefault(number, []).append(Rule(source.pick(ACTIONS), conditions))
            elif kind == 4:
                for near in range(number, number + source.byte(), 1 + source.below(3)):
                    table.setdefault(near, []).append(Rule(source.pick(ACTIONS)))
            elif kind == 5:
                table.setdefault(number, []).append(own)
            else:
                calls.append((number, tuple(word(source) for _ in range(6))))
        marked = bpf.assemble_marked("x86_64", table, default, (first, errno_action(errno.ENOSYS)))
    except ValueError:
        # Said when it is written, which is what is promised.
        return
    check(marked.code)
    me = 1 + source.number(2)
    code = bytearray(marked.code)
    for index in marked.own:
        assert code[8 * index] == 0x15
        code[8 * index + 4 : 8 * index + 8] = me.to_bytes(4, "little")
    program = bytes(code)
    mine = {
        number: [
            Rule(rule.action & _LOW, (Condition(0, (0, me), width=32),)) if rule is own else rule for rule in rules
        ]
        for number, rules in table.items()
    }
    tried = [*calls, *((number, args) for number in (*list(table)[:16], first, 0) for args in [(me,) * 6, (0,) * 6])]
    for number, args in tried:
        expected = errno_action(errno.ENOSYS) if number >= first else emulator.verdict(mine, default, number, args)
        assert emulator.interpret(program, number, args) == expected
        assert emulator.interpret(program, number | 1 << 30, args) == KILL_PROCESS
        assert emulator.interpret(program, number, args, AUDIT_ARCH["aarch64"]) == KILL_PROCESS
    for index, (op, _, _, k) in enumerate(struct.iter_unpack("=HBBI", marked.code)):
        assert index not in marked.counted or (op, k) == (0x06, errno_action(errno.EPERM))


def seeds() -> list[bytes]:
    return [
        b"\0\0\0\1\0\0\0",
        b"\1\100\0\1\0\1\0\0\1\2\0\0\7\1\0" + b"\1" * 6,
        b"\1\100\1\2\0\2\3\1\1\1\1\2\3\2\0\0\1\2\3\4\5\6\7\2\0" + bytes(range(6)),
        b"\2\100\4\0\0\372\0" + b"\1" * 130 + b"\7\3\0" + b"\0" * 6,
        b"\3\100\5\76\0\7\76\0" + b"\5" * 6,
        b"\1\377" + b"".join(bytes((0, number, 0, 1, 2, 0, 39, number % 6)) for number in range(0, 240, 2)),
    ]


TARGET = fuzzing.Target(
    name="seccomp",
    says="a program that is made is one that the kernel takes, and decides each call as a reading of its table does",
    one=one,
    seeds=seeds,
    words=(b"\0\0\0\1\0", b"\4\0\0\377\0", b"\7\1\0\1\1\1\1\1\1", b"\310\0\0\0\0\0\0\0\200"),
    most=1024,
)
