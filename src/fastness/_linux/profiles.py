"""
Assembled seccomp programs, by machine and ``profile/program``.

They are made from the commented profiles in ``data/seccomp`` and lie beside those, one file for each machine, so that a
process that confines itself parses no profile.  This machine's file is read when this module is imported: later the
process may not be able to open it any more.
"""

from __future__ import annotations

import os

_FOLDER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "seccomp")

#: The kernel's highest limit of process numbers (``PID_MAX_LIMIT``).
_PID_LIMIT = 1 << 22

#: Ends the names of variants with a supervisor.
_NOTIFY = "_notify"

_texts: dict[str, str] = {}


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


def _section(machine: str, name: str) -> dict[str, str]:
    """The rows of program ``name`` by their first word.  Raises ``OSError``."""
    _, found, rest = _read(machine).partition(f"\n[{name}]\n")
    if not found:
        raise OSError(38, f"there is no system call filter {name} for {machine}")
    rows, _, code = rest.partition("\n[")[0].partition("code\n")
    section = {"code": code}
    for row in rows.splitlines():
        key, _, value = row.partition(" ")
        section[key] = value
    return section


def _variant(machine: str, name: str) -> dict[str, str]:
    """As :func:`_section`; ``name`` may be that of a variant, which has to exist."""
    if not name.endswith(_NOTIFY):
        return _section(machine, name)
    section = _section(machine, name.removesuffix(_NOTIFY))
    if "counted" not in section:
        raise OSError(38, f"there is no system call filter {name} for {machine}")
    return section


def program(machine: str, name: str, self_pid: int = 0) -> bytes:
    """
    The program ``name``, such as ``engine/serve``; with ``_notify`` added, its variant for a supervisor.

    ``self_pid`` is the number of the process that installs it, as that process sees it: the only one which it may
    signal.  With 0 it may signal none.  Raises ``OSError`` (``ENOSYS``) where there is no such program, and
    ``ValueError`` for what cannot be a process number.
    """
    if not 0 <= self_pid <= _PID_LIMIT:
        raise ValueError(f"not a process number: {self_pid}")
    section = _variant(machine, name)
    code = bytearray.fromhex(section["code"])
    # An instruction is 8 bytes, the last 4 of which are its constant; both machines are little-endian.
    if name.endswith(_NOTIFY):
        action, *indexes = section["counted"].split()
        constant = int(action, 16).to_bytes(4, "little")
        for index in map(int, indexes):
            code[8 * index + 4 : 8 * index + 8] = constant
    if self_pid:
        constant = self_pid.to_bytes(4, "little")
        for index in map(int, section.get("self", "").split()):
            code[8 * index + 4 : 8 * index + 8] = constant
    return bytes(code)


def answers(machine: str, name: str) -> tuple[int, dict[int, int]]:
    """
    What the supervisor of ``name`` answers: an error number for most calls, and those of the others by call number.

    0 means success: the call does nothing and its caller is told that it worked.  The plain variant of the program
    gives the same answers by itself.  Raises ``OSError`` (``ENOSYS``) where the program has no supervisor.
    """
    section = _variant(machine, name if name.endswith(_NOTIFY) else name + _NOTIFY)
    first, *others = section["answers"].split()
    pairs = (pair.partition("=") for pair in others)
    return int(first.partition("=")[2]), {int(number): int(error) for number, _, error in pairs}


if hasattr(os, "uname"):
    _read(os.uname().machine)
