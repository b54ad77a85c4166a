"""What a filter decides, found in two ways that share nothing: its program run, and its table read."""

from __future__ import annotations

import struct

from fastness._linux.bpf import Condition, Rule
from fastness._linux.numbers import AUDIT_ARCH


def interpret(program: bytes, nr: int, args: tuple[int, ...] = (0,) * 6, arch: int = AUDIT_ARCH["x86_64"]) -> int:
    """An interpreter of classic BPF: what the kernel would decide."""
    data = struct.pack("=IIQ6Q", nr & 0xFFFFFFFF, arch, 0, *(a & (1 << 64) - 1 for a in args))
    code = list(struct.iter_unpack("=HBBI", program))
    accumulator = at = 0
    for _ in range(len(code)):
        op, jt, jf, k = code[at]
        at += 1
        if op == 0x20:
            assert k % 4 == 0
            accumulator = struct.unpack_from("=I", data, k)[0]
        elif op == 0x54:
            accumulator &= k
        elif op == 0x05:
            at += k
        elif op == 0x06:
            return int(k)
        else:
            met = {0x15: accumulator == k, 0x35: accumulator >= k, 0x45: bool(accumulator & k)}[op]
            at += jt if met else jf
    raise AssertionError("the program ran past its end")


def meets(condition: Condition, args: tuple[int, ...]) -> bool:
    """What a condition says, without BPF."""
    value = args[condition.arg] & (1 << condition.width) - 1
    if condition.only is not None:
        return value & ~condition.only == 0
    return value & ~condition.ignore in condition.values


def verdict(table: dict[int, list[Rule]], default: int, nr: int, args: tuple[int, ...]) -> int:
    """What a table says, without BPF."""
    for rule in table.get(nr, ()):
        if all(meets(condition, args) for condition in rule.conditions):
            return rule.action
    return default
