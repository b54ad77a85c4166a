"""
Assembled seccomp programs, by machine and ``profile/program``.

They are made from the commented profiles in ``data/seccomp`` and lie beside those, one file for each machine, so that a
process that confines itself parses no profile.  This machine's file is read when this module is imported: later the
process may not be able to open it any more.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "seccomp")

#: The kernel's highest limit of process numbers (``PID_MAX_LIMIT``).
_PID_LIMIT = 1 << 22

#: Ends the names of variants with a supervisor.
_NOTIFY = "_notify"

# Texts of files by machine, and of each program the code with the indexes of its instructions that are changed.
_texts: dict[str, str] = {}
_codes: dict[tuple[str, str], tuple[bytes, list[int]]] = {}


def _read(machine: str) -> str:
    text = _texts.get(machine)
    if text is None:
        try:
            with open(os.path.join(_FOLDER, f"programs.{machine}.txt"), "rb") as file:
                text = file.read().decode("ascii")
        except FileNotFoundError:
            text = ""
        _texts[machine] = text
    return text


def _rows(machine: str, name: str) -> dict[str, str]:
    """The rows of program ``name`` by their first word.  Raises ``OSError``."""
    text = _read(machine)
    plain = name.removesuffix(_NOTIFY)
    start = text.find(f"\n[{plain}]\n")
    if start >= 0:
        start += len(plain) + 4
        middle = text.index("code\n", start)
        end = text.find("\n[", middle)
        rows = {"code": text[middle + 5 : end if end >= 0 else len(text)]}
        for row in text[start:middle].splitlines():
            key, _, value = row.partition(" ")
            rows[key] = value
        if plain == name or "counted" in rows:
            return rows
    raise OSError(38, f"there is no system call filter {name} for {machine}")


def _code(machine: str, name: str) -> tuple[bytes, list[int]]:
    made = _codes.get((machine, name))
    if made is None:
        rows = _rows(machine, name)
        code = bytearray.fromhex(rows["code"])
        if name.endswith(_NOTIFY):
            action, *indexes = rows["counted"].split()
            _patch(code, map(int, indexes), int(action, 16))
        made = _codes[machine, name] = bytes(code), [int(index) for index in rows.get("self", "").split()]
    return made


def _patch(code: bytearray, indexes: Iterable[int], constant: int) -> None:
    # An instruction is 8 bytes, the last 4 of which are its constant; both machines are little-endian.
    data = constant.to_bytes(4, "little")
    for index in indexes:
        code[8 * index + 4 : 8 * index + 8] = data


def program(machine: str, name: str, self_pid: int = 0) -> bytes:
    """
    The program ``name``, such as ``engine/serve``; with ``_notify`` added, its variant for a supervisor.

    ``self_pid`` is the number of the process that installs it, as that process sees it: the only one which it may
    signal.  With 0 it may signal none.  A program that was asked for once is ready: a process that forks others asks
    for theirs before.  Raises ``OSError`` (``ENOSYS``) where there is no such program, and ``ValueError`` for what
    cannot be a process number.
    """
    if not 0 <= self_pid <= _PID_LIMIT:
        raise ValueError(f"not a process number: {self_pid}")
    plain, own = _code(machine, name)
    if not self_pid or not own:
        return plain
    code = bytearray(plain)
    _patch(code, own, self_pid)
    return bytes(code)


def forget_texts() -> None:
    """Keep only the programs that were asked for: whoever goes on has no use for the others."""
    for machine in _texts:
        _texts[machine] = ""


def own_number(machine: str, name: str) -> list[int]:
    """The instructions of a program whose constant is the number of the process that installs it."""
    return list(_code(machine, name)[1])


def answers(machine: str, name: str) -> tuple[int, dict[int, int]]:
    """
    What the supervisor of ``name`` answers: an error number for most calls, and those of the others by call number.

    0 means success: the call does nothing and its caller is told that it worked.  The plain variant of the program
    gives the same answers by itself.  Raises ``OSError`` (``ENOSYS``) where the program has no supervisor.
    """
    rows = _rows(machine, name if name.endswith(_NOTIFY) else name + _NOTIFY)
    first, *others = rows["answers"].split()
    pairs = (pair.partition("=") for pair in others)
    return int(first.partition("=")[2]), {int(number): int(error) for number, _, error in pairs}


if hasattr(os, "uname"):
    _read(os.uname().machine)
