"""The assembler's programs decide as the table that they were made from, judged by an interpreter of our own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator import verdict
from fastness._linux import bpf
from fastness._linux.bpf import ALLOW, KILL_PROCESS, Condition, Rule, errno_action
from fastness._linux.numbers import AUDIT_ARCH

Interpret = Callable[..., int]

EACCES = errno_action(13)

actions = st.sampled_from([ALLOW, KILL_PROCESS, EACCES, errno_action(38)])
# Few distinct bits, so that random arguments meet random conditions often.
words = st.one_of(
    st.integers(0, 7),
    st.sampled_from([1 << 31, (1 << 32) - 1, 1 << 32, 1 << 32 | 3, 1 << 63, (1 << 64) - 1]),
    st.integers(0, (1 << 64) - 1),
)
arguments = st.tuples(*[words] * 6)


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    width = draw(st.sampled_from([32, 64]))
    limit = (1 << width) - 1
    arg = draw(st.integers(0, 5))
    if draw(st.booleans()):
        return Condition(arg, only=draw(words) & limit, width=width)
    ignore = draw(words) & limit
    high = draw(words) >> 32 << 32
    values = {(high | draw(words) & 0xFFFFFFFF) & ~ignore & limit for _ in range(draw(st.integers(1, 5)))}
    return Condition(arg, tuple(sorted(values)), ignore=ignore, width=width)


rules = st.builds(Rule, actions, st.lists(conditions(), max_size=3).map(tuple))
tables = st.dictionaries(st.integers(0, 470), st.lists(rules, max_size=4), max_size=60)


@given(tables, actions, st.lists(st.tuples(st.integers(0, 500), arguments), min_size=1, max_size=40))
@settings(deadline=None)
def test_program_decides_as_its_table(
    interpret: Interpret,
    table: dict[int, list[Rule]],
    default: int,
    calls: list[tuple[int, tuple[int, ...]]],
) -> None:
    """For any table and any call, the program's answer is the first rule that is met, else the default."""
    program = bpf.assemble("x86_64", table, default)
    for nr, args in [*calls, *((nr, calls[0][1]) for nr in table)]:
        assert interpret(program, nr, args) == verdict(table, default, nr, args)


@given(tables, st.integers(471, 520), st.integers(1, 1 << 22), st.lists(st.tuples(st.integers(0, 540), arguments)))
@settings(deadline=None)
def test_marks_are_where_the_program_has_them(
    interpret: Interpret,
    table: dict[int, list[Rule]],
    first: int,
    me: int,
    calls: list[tuple[int, tuple[int, ...]]],
) -> None:
    """Counted answers, comparisons with the own number and calls beyond the table, filled in by their indexes."""
    own = Rule(EACCES | bpf.COUNTED, (Condition(0, (0, bpf.SELF), width=32),))
    marked = bpf.assemble_marked(
        "x86_64", {**table, 62: [own]}, errno_action(1) | bpf.COUNTED, (first, errno_action(38))
    )
    code = bytearray(marked.code)
    for index in marked.counted:
        code[8 * index + 4 : 8 * index + 8] = bpf.NOTIFY.to_bytes(4, "little")
    for index in marked.own:
        code[8 * index + 4 : 8 * index + 8] = me.to_bytes(4, "little")
    for nr, args in [*calls, *((nr, (me, *args[1:])) for nr, args in calls), (62, (me,) * 6), (62, (0,) * 6)]:
        if nr >= first:
            expected = errno_action(38)
        elif nr == 62:
            expected = bpf.NOTIFY
        else:
            expected = verdict(table, bpf.NOTIFY, nr, args)
        assert interpret(bytes(code), nr, args) == expected
    assert interpret(marked.code, 62, (bpf.NO_PROCESS, 0, 0, 0, 0, 0)) == EACCES
    assert interpret(marked.code, 62, (me, 0, 0, 0, 0, 0)) == errno_action(1)


@given(tables, st.integers(0, (1 << 32) - 1), st.integers(0, 500))
@settings(deadline=None)
def test_another_architecture_is_always_killed(
    interpret: Interpret, table: dict[int, list[Rule]], arch: int, nr: int
) -> None:
    """A 32-bit call has other numbers for the same things, so it never reaches the table."""
    program = bpf.assemble("x86_64", table, ALLOW)
    expected = verdict(table, ALLOW, nr, (0,) * 6) if arch == AUDIT_ARCH["x86_64"] else KILL_PROCESS
    assert interpret(program, nr, arch=arch) == expected


@pytest.mark.parametrize("nr", [1 << 30, 1 << 30 | 39, 1 << 31, (1 << 32) - 1])
def test_x32_numbers_are_killed_even_where_everything_is_allowed(interpret: Interpret, nr: int) -> None:
    """The x32 numbers reach the same kernel functions and are refused before the table is looked at."""
    assert interpret(bpf.assemble("x86_64", {}, ALLOW), nr) == KILL_PROCESS


def test_aarch64_has_no_x32_numbers(interpret: Interpret) -> None:
    """Bit 30 means nothing on aarch64; such a number is merely unknown there."""
    program = bpf.assemble("aarch64", {}, EACCES)
    assert interpret(program, 1 << 30, arch=AUDIT_ARCH["aarch64"]) == EACCES


def test_high_half_counts_for_wide_arguments_only(interpret: Interpret) -> None:
    """A set high half makes a 64-bit argument another value, and is thrown away where the kernel takes an int."""
    table = {1: [Rule(ALLOW, (Condition(0, (3,)),))], 2: [Rule(ALLOW, (Condition(0, (3,), width=32),))]}
    program = bpf.assemble("x86_64", table, KILL_PROCESS)
    assert interpret(program, 1, (3 | 1 << 32, 0, 0, 0, 0, 0)) == KILL_PROCESS
    assert interpret(program, 2, (3 | 1 << 32, 0, 0, 0, 0, 0)) == ALLOW


def test_deny_rule_on_an_int_cannot_be_stepped_around_by_bit_32(interpret: Interpret) -> None:
    """A refusal of TIOCSTI that compares 32 bits also refuses TIOCSTI | 1 << 32."""
    table = {16: [Rule(EACCES, (Condition(1, (0x5412,), width=32),)), Rule(ALLOW)]}
    program = bpf.assemble("x86_64", table, KILL_PROCESS)
    assert interpret(program, 16, (0, 0x5412 | 1 << 32, 0, 0, 0, 0)) == EACCES
    assert interpret(program, 16, (0, 0x5413, 0, 0, 0, 0)) == ALLOW


def test_far_jumps_reach_every_rule(interpret: Interpret) -> None:
    """A table too large for 8-bit jumps still decides each call."""
    table = {
        nr: [Rule(ALLOW, (Condition(0, tuple(range(nr, nr + 12))), Condition(1, only=nr)))] for nr in range(0, 240, 2)
    }
    program = bpf.assemble("x86_64", table, KILL_PROCESS)
    assert len(program) // 8 > 1000
    for nr in range(241):
        args = (nr + 5, 0, 0, 0, 0, 0)
        assert interpret(program, nr, args) == (ALLOW if nr in table else KILL_PROCESS)
        assert interpret(program, nr, (nr + 12, 0, 0, 0, 0, 0)) == KILL_PROCESS


def test_too_long_a_program_is_refused() -> None:
    """The kernel takes 4,096 instructions; more is an error here, not an EINVAL at some start."""
    table = {nr: [Rule(ALLOW, (Condition(0, tuple(range(nr, nr + 12))),))] for nr in range(0, 800, 2)}
    with pytest.raises(ValueError, match="instructions"):
        bpf.assemble("x86_64", table, KILL_PROCESS)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Condition(6, (1,)),
        lambda: Condition(0, (1,), width=16),
        lambda: Condition(0),
        lambda: Condition(0, (1,), only=1),
        lambda: Condition(0, (1 << 32,), width=32),
        lambda: Condition(0, (3,), ignore=1),
        lambda: Condition(0, (1, 1 << 32)),
        lambda: Condition(0, only=1, ignore=2),
        lambda: errno_action(0),
        lambda: errno_action(4096),
        lambda: bpf.assemble("riscv64", {}, ALLOW),
        lambda: Condition(0, (bpf.SELF,)),
        lambda: Condition(0, (bpf.SELF,), ignore=1, width=32),
        lambda: bpf.assemble("x86_64", {1 << 30: [Rule(ALLOW)]}, ALLOW),
        lambda: bpf.assemble_marked("x86_64", {470: [Rule(ALLOW)]}, ALLOW, (470, EACCES)),
        lambda: bpf.assemble("x86_64", {0: [Rule(ALLOW, (Condition(0, tuple(range(300))),))]}, ALLOW),
    ],
)
def test_nonsense_is_refused(make: object) -> None:
    """A condition that can never mean what it says is an error when it is written."""
    with pytest.raises(ValueError):  # the texts differ; that each is refused is the rule
        make()  # type: ignore[operator]  # each entry is a callable
