"""
From a commented seccomp profile in ``data/seccomp`` to BPF.

A profile names *groups* of rules and *programs* made of groups.  Every rule lists calls, what to do with them, an
optional demand on their arguments, and why.  Rules of one call are tried in the order of the program's groups::

    {"calls": ["madvise"], "when": [{"arg": 2, "width": 32, "in": ["MADV_DONTNEED"]}],
     "action": "allow", "why": "the allocator gives pages back"}

Confined processes never parse a profile: :mod:`fastness._linux.profiles` holds the assembled programs.
``python -m fastness._linux.profile_source --write`` makes that file anew, and a test fails where the two differ.
"""

from __future__ import annotations

import errno
import json
import sys
from pathlib import Path
from typing import Any

from fastness._linux import bpf
from fastness._linux.numbers import AUDIT_ARCH, TESTED, numbers_of

#: Where the profiles live.
FOLDER = Path(__file__).resolve().parent.parent / "data" / "seccomp"

#: Names that a profile may use instead of numbers, from the kernel's user headers.
CONSTANTS = {
    "PROT_NONE": 0,
    "PROT_READ": 1,
    "PROT_WRITE": 2,
    "PROT_EXEC": 4,
    "MAP_PRIVATE": 0x02,
    "MAP_FIXED": 0x10,
    "MAP_ANONYMOUS": 0x20,
    "MAP_NORESERVE": 0x4000,
    "MAP_POPULATE": 0x8000,
    "MAP_STACK": 0x20000,
    "MREMAP_MAYMOVE": 1,
    "MADV_DONTNEED": 4,
    "MADV_FREE": 8,
    "MADV_HUGEPAGE": 14,
    "MADV_NOHUGEPAGE": 15,
    "MADV_DONTDUMP": 16,
    "MADV_DODUMP": 17,
    "MADV_POPULATE_READ": 22,
    "MADV_POPULATE_WRITE": 23,
    "MADV_GUARD_INSTALL": 102,
    "MADV_GUARD_REMOVE": 103,
    "MFD_CLOEXEC": 1,
    "MFD_ALLOW_SEALING": 2,
    "MFD_NOEXEC_SEAL": 8,
    "F_GETFD": 1,
    "F_SETFD": 2,
    "F_GETFL": 3,
    "F_ADD_SEALS": 1033,
    "F_GET_SEALS": 1034,
    "PAGEMAP_SCAN": 0xC0606610,
    "FUTEX_WAIT": 0,
    "FUTEX_WAKE": 1,
    "FUTEX_WAIT_BITSET": 9,
    "FUTEX_WAKE_BITSET": 10,
    "FUTEX_PRIVATE_FLAG": 128,
    "FUTEX_CLOCK_REALTIME": 256,
    "SECCOMP_SET_MODE_FILTER": 1,
    "SECCOMP_FILTER_FLAG_TSYNC": 1,
    "PR_SET_NAME": 15,
    "PR_SET_VMA": 0x53564D41,
    # CLONE_VM FS FILES SIGHAND THREAD SYSVSEM SETTLS PARENT_SETTID CHILD_CLEARTID: how glibc starts a thread;
    # musl adds CLONE_DETACHED, which the kernel ignores.
    "CLONE_THREAD_OF_GLIBC": 0x3D0F00,
    "CLONE_THREAD_OF_MUSL": 0x7D0F00,
}

_ACTIONS = {"allow": bpf.ALLOW, "log": bpf.LOG, "kill_process": bpf.KILL_PROCESS}

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


def load_profile(profile: dict[str, Any], program: str, machine: str = "x86_64") -> bytes:
    """
    Assemble ``program`` of ``profile`` for ``machine``.

    A call that only other machines have is left out.  Raises :class:`ProfileError` for an unknown name, key or
    value, a rule without a reason, or a rule that can never be reached.
    """
    _check_keys("profile", profile, {"profile", "about", "default", "groups", "programs"}, set())
    try:
        group_names = profile["programs"][program]["groups"]
    except KeyError:
        raise ProfileError(f"no program {program!r}") from None
    numbers = numbers_of(machine)
    table: dict[int, list[bpf.Rule]] = {}
    for group_name in group_names:
        if group_name not in profile["groups"]:
            raise ProfileError(f"program {program}: no group {group_name!r}")
        for index, entry in enumerate(profile["groups"][group_name]):
            where = f"group {group_name}, rule {index}"
            _check_keys(where, entry, {"calls", "action", "why"}, {"when"})
            if not entry["why"].strip():
                raise ProfileError(f"{where}: a rule must say why")
            rule = bpf.Rule(_action(where, entry["action"]), _conditions(where, entry.get("when", [])))
            for call in entry["calls"]:
                if call not in _KNOWN_ANYWHERE:
                    raise ProfileError(f"{where}: no system call {call!r}")
                if call not in numbers:
                    continue
                rules = table.setdefault(numbers[call], [])
                if rules and not rules[-1].conditions:
                    raise ProfileError(f"{where}: {call} is decided by an earlier rule without a condition")
                rules.append(rule)
    try:
        return bpf.assemble(machine, table, _action("default", profile["default"]))
    except ValueError as error:
        raise ProfileError(f"program {program}: {error}") from error


def _check_keys(where: str, entry: dict[str, Any], needed: set[str], optional: set[str]) -> None:
    missing, unknown = needed - set(entry), set(entry) - needed - optional
    if missing or unknown:
        raise ProfileError(f"{where}: missing {sorted(missing)}, unknown {sorted(unknown)}")


def _action(where: str, action: object) -> int:
    if isinstance(action, dict) and set(action) == {"errno"} and isinstance(action["errno"], str):
        number = getattr(errno, action["errno"], None)
        if isinstance(number, int):
            return bpf.errno_action(number)
    if isinstance(action, str) and action in _ACTIONS:
        return _ACTIONS[action]
    raise ProfileError(f"{where}: no action {action!r}")


def _number(where: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
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


# ------------------------------------------------------------------------------------------- generated module

_HEAD = '''"""
Assembled seccomp programs.

Generated by ``python -m fastness._linux.profile_source --write`` from the commented profiles in ``data/seccomp``;
edit those.  Hexadecimal text of 8-byte BPF instructions, by machine and ``profile/program``.
"""

from __future__ import annotations

_PROGRAMS = {
'''

_TAIL = '''}


def program(machine: str, name: str) -> bytes:
    """The program ``name``, such as ``engine/serve``.  Raises ``OSError`` (``ENOSYS``) where there is none."""
    text = _PROGRAMS.get((machine, name))
    if text is None:
        raise OSError(38, f"there is no system call filter {name} for {machine}")
    return bytes.fromhex(text)
'''


def generate() -> str:
    """The source text of :mod:`fastness._linux.profiles`."""
    lines = [_HEAD]
    for machine in TESTED:
        for path in sorted(FOLDER.glob("*.json")):
            profile = read_profile(path.stem)
            for name in sorted(profile["programs"]):
                code = load_profile(profile, name, machine).hex()
                lines.append(f'    ("{machine}", "{path.stem}/{name}"): """\n')
                lines += [code[at : at + 96] + "\n" for at in range(0, len(code), 96)]
                lines.append('""",\n')
    return "".join([*lines, _TAIL])


def main(arguments: list[str]) -> int:
    """``--write`` makes the module anew, ``--check`` tells by its status whether it is up to date."""
    target = Path(__file__).with_name("profiles.py")
    text = generate()
    if arguments == ["--write"]:
        target.write_text(text, "utf-8")
        return 0
    if arguments == ["--check"]:
        return 0 if target.exists() and target.read_text("utf-8") == text else 1
    sys.stderr.write("usage: python -m fastness._linux.profile_source --write | --check\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
