"""
From a commented seccomp profile in ``data/seccomp`` to BPF.

A profile names *groups* of rules and *programs* made of groups.  Every rule lists calls, what to do with them, an
optional demand on their arguments, and why.  Rules of one call are tried in the order of the program's groups::

    {"calls": ["madvise"], "when": [{"arg": 2, "width": 32, "in": ["MADV_DONTNEED"]}],
     "action": "allow", "why": "the allocator gives pages back"}

A program may have a variant with a supervisor, ``"notify": "notify"``: there the default answer and those of rules
with ``"counted": true`` wait for the supervisor, which gives the answer that the plain variant has.  ``"notify":
"trace"`` is for a process whose descendants have a supervisor of their own: see :data:`fastness._linux.bpf.TRACE`.
The value ``SELF`` stands for the number of the process that installs the program.  ``beyond`` is the answer to calls
that are newer than our tables; ``ENOSYS`` makes C libraries fall back, which another error would not.

Confined processes never parse a profile: :mod:`fastness._linux.profiles` reads the assembled programs.
``python -m fastness._linux.profile_source --write`` makes them anew, and a test fails where the two differ.
"""

from __future__ import annotations

import errno
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastness._linux import bpf
from fastness._linux.constants import CONSTANTS
from fastness._linux.numbers import AUDIT_ARCH, TESTED, numbers_of

#: Where the profiles live.
FOLDER = Path(__file__).resolve().parent.parent / "data" / "seccomp"

_ACTIONS = {"allow": bpf.ALLOW, "log": bpf.LOG, "kill_process": bpf.KILL_PROCESS}

_NOTIFY = {"notify": bpf.NOTIFY, "trace": bpf.TRACE}

_KNOWN_ANYWHERE = frozenset(name for machine in AUDIT_ARCH for name in numbers_of(machine))


class ProfileError(ValueError):
    """A profile is wrong; the text says where."""


def read_profile(name: str) -> dict[str, Any]:
    """The profile ``name`` of this package, as data.  Raises :class:`ProfileError`."""
    try:
        profile = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ProfileError(f"{name}: {error}") from error
    if not isinstance(profile, dict):
        raise ProfileError(f"{name}: not an object")
    return profile


@dataclass(frozen=True)
class Compiled:
    """A program of a profile; ``answers`` has the errors of counted answers that are not the default's, by number."""

    program: bpf.Assembled
    #: What a counted answer becomes in the variant with a supervisor; 0 where there is no such variant.
    notify: int
    default_errno: int
    answers: dict[int, int]


def load_profile(profile: dict[str, Any], program: str, machine: str = "x86_64") -> bytes:
    """The plain variant of :func:`compile_program`, for a process without a supervisor and without a number."""
    return compile_program(profile, program, machine).program.code


def compile_program(profile: dict[str, Any], program: str, machine: str = "x86_64") -> Compiled:
    """
    Assemble ``program`` of ``profile`` for ``machine``.

    A call that only other machines have is left out.  Raises :class:`ProfileError` for an unknown name, key or
    value, a rule without a reason, a rule that can never be reached, or a call of which two counted answers differ:
    a supervisor is told the number of a call and could not tell them apart.
    """
    _check_keys("profile", profile, {"profile", "about", "default", "groups", "programs"}, {"beyond"})
    try:
        entry = profile["programs"][program]
    except KeyError:
        raise ProfileError(f"no program {program!r}") from None
    _check_keys(f"program {program}", entry, {"groups"}, {"notify"})
    numbers = numbers_of(machine)
    table = _table(profile["groups"], entry["groups"], numbers)
    default = _action("default", profile["default"])
    notify = 0
    if "notify" in entry:
        if entry["notify"] not in _NOTIFY:
            raise ProfileError(f"program {program}: no notification {entry['notify']!r}")
        notify = _NOTIFY[entry["notify"]]
        if bpf.is_errno(default):
            default |= bpf.COUNTED
    beyond = (max(numbers.values()) + 1, _action("beyond", profile["beyond"])) if "beyond" in profile else None
    try:
        assembled = bpf.assemble_marked(machine, table, default, beyond)
    except ValueError as error:
        raise ProfileError(f"program {program}: {error}") from error
    default_errno = default & 0xFFF if bpf.is_errno(default) else errno.EPERM
    return Compiled(assembled, notify, default_errno, _answers(table, default, default_errno) if notify else {})


def _table(groups: dict[str, Any], wanted: list[str], numbers: dict[str, int]) -> dict[int, list[bpf.Rule]]:
    table: dict[int, list[bpf.Rule]] = {}
    for group_name in wanted:
        if group_name not in groups:
            raise ProfileError(f"no group {group_name!r}")
        for index, entry in enumerate(groups[group_name]):
            where = f"group {group_name}, rule {index}"
            _check_keys(where, entry, {"calls", "action", "why"}, {"when", "counted"})
            if not entry["why"].strip():
                raise ProfileError(f"{where}: a rule must say why")
            action = _action(where, entry["action"])
            if entry.get("counted", False):
                if not bpf.is_errno(action):
                    raise ProfileError(f"{where}: only an errno answer can be counted")
                action |= bpf.COUNTED
            rule = bpf.Rule(action, _conditions(where, entry.get("when", [])))
            for call in entry["calls"]:
                if call not in _KNOWN_ANYWHERE:
                    raise ProfileError(f"{where}: no system call {call!r}")
                if call not in numbers:
                    continue
                rules = table.setdefault(numbers[call], [])
                if rules and not rules[-1].conditions:
                    raise ProfileError(f"{where}: {call} is decided by an earlier rule without a condition")
                rules.append(rule)
    return table


def _answers(table: dict[int, list[bpf.Rule]], default: int, default_errno: int) -> dict[int, int]:
    """The error that a supervisor answers each call with, where it is not the default's."""
    answers = {}
    for number, rules in table.items():
        actions = [rule.action for rule in rules] + ([default] if rules[-1].conditions else [])
        errors = {action & 0xFFF for action in actions if action & bpf.COUNTED}
        if len(errors) > 1:
            raise ProfileError(f"the counted answers to call {number} differ: {sorted(errors)}")
        if errors and errors != {default_errno}:
            answers[number] = errors.pop()
    return answers


def _check_keys(where: str, entry: dict[str, Any], needed: set[str], optional: set[str]) -> None:
    missing, unknown = needed - set(entry), set(entry) - needed - optional
    if missing or unknown:
        raise ProfileError(f"{where}: missing {sorted(missing)}, unknown {sorted(unknown)}")


def _action(where: str, action: object) -> int:
    if isinstance(action, dict) and set(action) == {"errno"} and isinstance(action["errno"], str):
        if action["errno"] == "SUCCESS":
            return bpf.SUCCESS
        number = getattr(errno, action["errno"], None)
        if isinstance(number, int):
            return bpf.errno_action(number)
    if isinstance(action, str) and action in _ACTIONS:
        return _ACTIONS[action]
    raise ProfileError(f"{where}: no action {action!r}")


def _number(where: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if value == "SELF":
        return bpf.SELF
    if isinstance(value, str):
        total = 0
        for name in value.split("|"):
            if name not in CONSTANTS:
                raise ProfileError(f"{where}: no constant {name!r}")
            total |= CONSTANTS[name]
        return total
    raise ProfileError(f"{where}: {value!r} is no number")


def _conditions(where: str, entries: list[dict[str, Any]]) -> tuple[bpf.Condition, ...]:
    conditions = []
    for entry in entries:
        _check_keys(where, entry, {"arg"}, {"in", "only_bits", "ignore_bits", "width"})
        only = entry.get("only_bits")
        try:
            conditions.append(
                bpf.Condition(
                    arg=entry["arg"],
                    values=tuple(_number(where, value) for value in entry.get("in", [])),
                    ignore=_number(where, entry.get("ignore_bits", 0)),
                    only=None if only is None else _number(where, only),
                    width=entry.get("width", 64),
                )
            )
        except (TypeError, ValueError) as error:
            raise ProfileError(f"{where}: {error}") from error
    return tuple(conditions)


# ----------------------------------------------------------------------------------------------- generated files

_HEAD = """\
# Assembled seccomp programs for {machine}{untested}, read by fastness._linux.profiles.
# Generated by "python -m fastness._linux.profile_source --write" from the commented profiles beside this; edit those.
#
# counted: what a counted answer becomes in the variant with a supervisor, and the instructions that return one
# self: the instructions that compare with the number of the installing process
# answers: by call number, the errors of counted answers; "default" is that of all others
# code: 8-byte BPF instructions as hexadecimal text
"""


def generate(machine: str) -> str:
    """The text of ``programs.MACHINE.txt``."""
    lines = [_HEAD.format(machine=machine, untested="" if machine in TESTED else " (untested)")]
    for path in sorted(FOLDER.glob("*.json")):
        profile = read_profile(path.stem)
        for name in sorted(profile["programs"]):
            compiled = compile_program(profile, name, machine)
            lines.append(f"\n[{path.stem}/{name}]\n")
            if compiled.notify:
                lines.append(f"counted {compiled.notify:08x} {_join(compiled.program.counted)}\n")
                pairs = "".join(f" {number}={error}" for number, error in sorted(compiled.answers.items()))
                lines.append(f"answers default={compiled.default_errno}{pairs}\n")
            if compiled.program.own:
                lines.append(f"self {_join(compiled.program.own)}\n")
            code = compiled.program.code.hex(" ", 8).split()
            lines.append("code\n")
            lines += [" ".join(code[at : at + 6]) + "\n" for at in range(0, len(code), 6)]
    return "".join(lines)


def _join(indexes: tuple[int, ...]) -> str:
    return " ".join(map(str, indexes))


def main(arguments: list[str]) -> int:
    """``--write`` makes the files anew, ``--check`` tells by its status whether they are up to date."""
    if arguments == ["--write"]:
        for machine in AUDIT_ARCH:
            (FOLDER / f"programs.{machine}.txt").write_text(generate(machine), "ascii")
        return 0
    if arguments == ["--check"]:
        return 0 if all(_is_current(machine) for machine in AUDIT_ARCH) else 1
    sys.stderr.write("usage: python -m fastness._linux.profile_source --write | --check\n")
    return 2


def _is_current(machine: str) -> bool:
    target = FOLDER / f"programs.{machine}.txt"
    return target.exists() and target.read_text("ascii") == generate(machine)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
