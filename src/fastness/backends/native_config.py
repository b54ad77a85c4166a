"""
What a zygote is told: whose interpreter it is, which folders it shows to its guests, and how they are confined.
"""

from __future__ import annotations

import functools
import os
import re
import site
import sys
import sysconfig
from typing import Any

from fastness._linux import landlock, seccomp
from fastness._native import interior
from fastness.backends.native_launch import COMMAND_PATH, ENVIRONMENTS
from fastness.backends.own_files import text
from fastness.errors import ConfigurationError

#: What a guest is, inside: see :mod:`fastness._native.launcher`.
GUEST_UID = 1000
_MODULE_NAME = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"
_PRELOAD_MAX = 64
_FOLDERS_MAX = 64
#: What a confined interpreter may read of the system: libraries, and what says how text and time look.
_SYSTEM = (
    "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/usr/share/zoneinfo",
    "/usr/share/locale", "/etc/ld.so.cache", "/etc/localtime",
)  # fmt: skip
#: Folders of an isolated guest that hide what the machine has by these names.
_OF_THE_GUEST = ("/work", "/tmp", "/proc", "/dev", "/box", "/etc", "/var/tmp", "/var/run")  # noqa: S108  # inside
#: Where the guest finds what it could not see at its own place.
_ELSEWHERE = "/packages"


def check_preload(preload: tuple[Any, ...]) -> tuple[str, ...]:
    """Module names in the order given, without repeats.  Raises ConfigurationError."""
    if len(preload) > _PRELOAD_MAX:
        raise ConfigurationError("preload", f"{len(preload)} modules", f"at most {_PRELOAD_MAX}")
    for name in preload:
        if not isinstance(name, str) or len(name) > 200 or not re.fullmatch(_MODULE_NAME, name):
            raise ConfigurationError("preload", name, "dotted module names")
    return tuple(dict.fromkeys(preload))


def preload_failed(names: str, cause: object) -> ConfigurationError:
    """What a caller is told of a module of theirs that could not be imported ahead."""
    allowed = f"modules that can be imported before a run; importing it failed: {cause}"
    return ConfigurationError("preload", names, allowed)


@functools.cache
def _own_packages() -> tuple[str, ...]:
    found = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()]
    return tuple(dict.fromkeys(path for path in found if os.path.isdir(path)))


def packages_of(wanted: tuple[str, ...] | None) -> tuple[str, ...]:
    """
    Folders that guests may import from: those given, else those of the caller's own environment.

    Raises ConfigurationError for one that is no absolute path of a folder, or that a guest could not read.
    """
    if wanted is None:
        return _own_packages()
    if len(wanted) > _FOLDERS_MAX:
        raise ConfigurationError("packages", f"{len(wanted)} folders", f"at most {_FOLDERS_MAX}")
    for path in wanted:
        if os.path.isabs(path) and not os.path.lexists(path):
            raise ConfigurationError("packages", path, "folders that hold packages; there is no such folder")
        if not os.path.isabs(path) or not os.path.isdir(path) or os.path.normpath(path) == "/":
            raise ConfigurationError("packages", path, "absolute paths of folders that hold packages")
        if os.geteuid() == 0 and os.stat(path).st_mode & 0o005 != 0o005:
            # A guest that root starts has a user of its own.
            raise ConfigurationError("packages", path, "folders that every user may read (chmod o+rx)")
    return tuple(dict.fromkeys(os.path.normpath(path) for path in wanted))


def _interpreter() -> list[str]:
    """Folders that this interpreter's standard library and shared library are in."""
    # In a virtual environment the second of these is that environment, unless told otherwise, and that has packages.
    platform = sysconfig.get_path("platstdlib", vars={"platbase": sys.base_exec_prefix})
    found = {sys.base_prefix, sys.base_exec_prefix, sysconfig.get_path("stdlib"), platform}
    return sorted(os.path.realpath(path) for path in found if os.path.isdir(path) and path != "/")


def _standard_library() -> list[str]:
    """What a bare interpreter searches: this one's path, without what site and the caller have added."""
    version = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    standard = os.path.dirname(os.__file__)
    archive = os.path.join(os.path.dirname(standard), version)
    dynamic = os.path.join(sysconfig.get_path("platstdlib"), "lib-dynload")
    real = os.path.join(sys.base_exec_prefix, sys.platlibdir, os.path.basename(standard), "lib-dynload")
    return [archive, standard, dynamic if os.path.isdir(dynamic) else real]


def sources() -> dict[str, str]:
    """The texts that run inside guests."""
    return {name: text("guest", file) for name, file in interior.MODULES.items()}


def places(paths: list[str]) -> dict[str, str]:
    """Where an isolated guest sees each of the folders: at its own place, unless a folder of the guest's lies there."""
    found: dict[str, str] = {}
    for path in sorted(set(paths)):
        hidden = any(path == own or path.startswith(f"{own}/") for own in _OF_THE_GUEST)
        found[path] = f"{_ELSEWHERE}/{len(found)}" if hidden else path
    return found


def inside(path: str, shown: dict[str, str]) -> str:
    """Where an isolated guest sees what is at ``path`` on the machine, given the :func:`places` of folders."""
    for folder in sorted(shown, key=len, reverse=True):
        if path == folder or path.startswith(f"{folder}/"):
            return shown[folder] + path[len(folder) :]
    return path


def build(
    tier: str, kind: str, preload: tuple[str, ...], packages: tuple[str, ...], boxes: str
) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration and the environment of a zygote."""
    interpreter = _interpreter()
    isolated = tier == "isolated"
    python = kind == "python"
    profile = "command/run" if not python else "guest/isolated"
    zygote_profile = "zygote/preload"
    if not isolated:
        abi = landlock.abi()
        old = "" if abi >= 3 else "_old"
        # Without signals where Landlock does not scope them and others' code is imported: see data/seccomp/zygote.json.
        silent = "_silent" if preload and abi < 6 else ""
        profile, zygote_profile = f"guest/confined{old}", f"zygote/preload_confined{old}{silent}"
    shown = [*interpreter, *packages]
    placed = places(shown) if isolated else {}
    config = {
        "tier": tier,
        "kind": kind,
        "paths": shown,
        "places": placed,
        "readable": ["/"] if isolated else [*shown, *(path for path in _SYSTEM if os.path.exists(path))],
        "sys_path": [inside(path, placed) for path in (*_standard_library(), *packages)],
        "preload": list(preload),
        "profile": profile,
        "zygote_profile": zygote_profile,
        "into_groups": False,
        # Where packages may write while they are imported.
        "temporary": "/tmp",  # noqa: S108  # inside
        "record": seccomp.has_user_notification(),
        "guest_uid": GUEST_UID,
        "command": not python,
        "boxes": boxes,
        "hidden": [] if isolated else hidden([*shown, boxes]),
    }
    return config, dict(ENVIRONMENTS[kind])


def command_environment(interpreter_first: bool = True) -> dict[str, str]:
    """What every program of the runtime ``command`` finds in its environment before what the caller passes."""
    own = inside(os.path.join(os.path.realpath(sys.base_prefix), "bin"), places(_interpreter()))
    path = COMMAND_PATH if not interpreter_first or own.startswith("/usr") else f"{own}:{COMMAND_PATH}"
    # What tools keep in a home folder, and what Python keeps beside its sources, is not part of the project.
    home = {"HOME": "/tmp", "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108  # inside
    return {"LANG": "C.UTF-8", "PATH": path, "TERM": "dumb", **home}


def hidden(paths: list[str]) -> list[str]:
    """The topmost folders above ``paths`` that a user without rights of its own may not enter."""
    found: set[str] = set()
    for path in paths:
        current = ""
        for part in path.strip("/").split("/"):
            current = f"{current}/{part}"
            try:
                mode = os.stat(current).st_mode
            except OSError:
                break
            if not mode & 0o001 and os.path.isdir(current):
                found.add(current)
                break
    # Below another one it is dealt with already.
    return sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found))
