"""
Where Fastness keeps its data: ``FASTNESS_HOME``, or the platform's own folders.

Native code lives under the cache folder and is loaded into processes, so a folder that somebody else could
write to is refused, not repaired: who made it so may have put something in it already.
"""

from __future__ import annotations

import os
import stat
import warnings

from fastness.errors import BackendError, ConfigurationError

_ENVIRONMENT_NAME = "FASTNESS_HOME"


def _base(kind: str) -> str:
    """Folder of one kind (``cache``, ``data``, ``runtime`` or ``config``); not made yet."""
    home = os.environ.get(_ENVIRONMENT_NAME)
    if home:
        if "\0" in home or not os.path.isabs(home):
            raise ConfigurationError(_ENVIRONMENT_NAME, home, "an absolute path")
        return os.path.join(os.path.normpath(home), kind)
    import platformdirs

    find = {
        "cache": platformdirs.user_cache_dir,
        "data": platformdirs.user_data_dir,
        "runtime": platformdirs.user_runtime_dir,
        "config": platformdirs.user_config_dir,
    }[kind]
    with warnings.catch_warnings():
        # Where no session has made a runtime folder there is one below the temporary folder, checked as any other.
        warnings.simplefilter("ignore")
        return str(find("fastness", appauthor=False))


def place(kind: str, *parts: str) -> str:
    """Path of ``kind/parts...``, which is neither made nor checked.  Raises ``ConfigurationError``."""
    return os.path.join(_base(kind), *parts)


def folder(kind: str, *parts: str) -> str:
    """
    The private folder ``kind/parts...``, made with mode 0700 where it is missing, and checked.

    Raises :class:`~fastness.errors.ConfigurationError` where it, or a folder of ours above it, is not a real
    folder, belongs to somebody else, or is writable by group or world; :class:`~fastness.errors.BackendError`
    where it cannot be made.
    """
    base = _base(kind)
    make_private(base)
    path = base
    for part in parts:
        path = os.path.join(path, part)
        make_private(path)
    return path


def make_private(path: str) -> None:
    """Make ``path`` (and missing folders above it) with mode 0700, or check what exists.  Raises as :func:`folder`."""
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            pass
        status = os.lstat(path)
    except OSError as error:
        raise BackendError(
            f"making the folder {path}",
            error.strerror or error,
            f"make it writable for this user, or set {_ENVIRONMENT_NAME} to a folder that is",
        ) from error
    check(path, status)


def check(path: str, status: os.stat_result) -> None:
    """What :func:`folder` checks of a folder that is there already; raises as it does, and ``OSError``."""
    check_private(path, status)
    _check_parents(path)


def check_private(path: str, status: os.stat_result) -> None:
    """Refuse a folder that is not wholly ours.  Raises :class:`~fastness.errors.ConfigurationError`."""
    if not stat.S_ISDIR(status.st_mode):
        raise ConfigurationError("folder", path, f"a folder; move the file away or set {_ENVIRONMENT_NAME}")
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            "folder",
            path,
            f"a folder of user {os.geteuid()} (it belongs to {status.st_uid}); "
            f"remove it or set {_ENVIRONMENT_NAME} to a folder of your own",
        )
    if status.st_mode & 0o022:
        raise ConfigurationError(
            "folder",
            path,
            f"a folder that only its owner may write to (its mode is {status.st_mode & 0o7777:04o}); "
            f"empty it, then run: chmod 700 {path}",
        )


def _check_parents(path: str) -> None:
    """Whoever may rename a folder above ours can put another in its place, so those must not be open to all."""
    current = os.path.realpath(os.path.dirname(path))
    while True:
        mode = os.stat(current).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise ConfigurationError(
                "folder", current, f"a folder that not everyone may write to; run: chmod o-w {current}"
            )
        above = os.path.dirname(current)
        if above == current:
            return
        current = above
