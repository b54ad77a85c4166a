"""
Installed packages: each a folder that is named for its content, below ``data/plugins``.

Only such a copy ever runs.  Opening one reads every file through descriptors, compares it with the listing whose
SHA-256 is the folder's name, and hands out the very bytes that were compared: what changes on the disk after that is
not what runs, and is found the next time.

``<digest>/listing`` is the listing and ``<digest>/files`` holds the files.  A folder appears whole, by a rename.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator
from types import MappingProxyType

from fastness._linux import beneath
from fastness._wasi import home
from fastness.errors import BackendError, ConfigurationError, PackageChanged
from fastness.plugins.package import MANIFEST_NAME, Package, digest_of, read_folder

__all__ = ["Installed", "arriving", "install", "open_installed", "prune", "remove", "sweep"]

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NEW = ".new-"
_GONE = ".gone-"
_LISTING_MAX = 32 << 20
#: Seconds for which removing what no plugin is waits for installs that go on.
_PATIENCE_S = 2.0
_STEP_S = 0.01
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_FIX = "free space on the device, or set FASTNESS_HOME to a folder on another"


class Installed:
    """
    An installed package that was read and found whole; ``package`` holds its bytes.

    :meth:`unchanged` is a cheap look at whether anything was written to since: it compares what the kernel says of each
    file and folder (its number, size, and the times that only the kernel sets), not the content.
    """

    def __init__(self, package: Package, look: Callable[[], tuple[object, ...]], seen: tuple[object, ...]) -> None:
        self.package = package
        self._look = look
        self._seen = seen

    def unchanged(self) -> bool:
        """Whether no file was written, renamed, added or removed since it was opened."""
        try:
            return self._look() == self._seen
        except OSError:
            return False


def check_digest(digest: str) -> str:
    """A digest as a name of a folder.  Raises ConfigurationError."""
    if _DIGEST.fullmatch(digest) is None:
        raise ConfigurationError("digest", digest, "the SHA-256 of a package in hex")
    return digest


def install(package: Package) -> str:
    """
    Keep a package and return its digest.  Where it is there already it is checked, and put right where it was changed.

    Raises BackendError where it cannot be written; then nothing is left of it.
    """
    base = home.folder("data", "plugins")
    final = os.path.join(base, check_digest(package.digest))
    if os.path.lexists(final):
        try:
            open_installed(package.digest)
        except PackageChanged:
            remove(package.digest)
        else:
            return package.digest
    try:
        sweep()
        with _claimed(base) as (folder, top):
            _write_all(top, package)
            try:
                os.rename(folder, final)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                # Another process was quicker; what it wrote is looked at before anything of it runs, as ours would be.
        _sync(base)
    except OSError as error:
        raise BackendError("installing a plugin", error.strerror or error, _FIX) from error
    return package.digest


@contextlib.contextmanager
def _claimed(base: str) -> Iterator[tuple[str, int]]:
    """A new folder that is held locked, so that no sweep takes it; it is gone afterwards unless it was renamed."""
    while True:
        folder = os.path.join(base, _NEW + os.urandom(8).hex())
        os.mkdir(folder, 0o700)
        top = -1
        try:
            top = os.open(folder, _FOLDER | os.O_CLOEXEC)
            fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.stat(folder, follow_symlinks=False)
            break
        except (BlockingIOError, FileNotFoundError):
            # A sweep came between the making and the locking.
            if top >= 0:
                os.close(top)
    try:
        yield folder, top
    finally:
        os.close(top)
        _delete(folder)


def _write_all(top: int, package: Package) -> None:
    _write(top, "listing", package.listing.encode(), 0o400)
    os.mkdir("files", 0o700, dir_fd=top)
    made = {""}
    for path, member in package.files.items():
        parent = ""
        for part in path.split("/")[:-1]:
            parent = f"{parent}/{part}" if parent else part
            if parent not in made:
                made.add(parent)
                os.mkdir(f"files/{parent}", 0o700, dir_fd=top)
        _write(top, f"files/{path}", member.content, 0o500 if member.executable else 0o400)
    for path in sorted(made, key=len, reverse=True):
        descriptor = os.open(f"files/{path}", _FOLDER | os.O_CLOEXEC, dir_fd=top)
        os.fsync(descriptor)
        os.close(descriptor)
    os.fsync(top)


def _write(top: int, path: str, content: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600, dir_fd=top)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        # The mode says it whatever this process's umask is.
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(path: str) -> None:
    descriptor = os.open(path, _FOLDER | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_installed(digest: str) -> Installed:
    """
    Read an installed package whole, and check every byte of it.

    Raises PackageChanged, which names what is not as it was installed.
    """
    folder = os.path.join(home.folder("data", "plugins"), check_digest(digest))
    try:
        top = os.open(folder, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise PackageChanged(digest, [f"it is not there: {error.strerror}"]) from None
    try:
        files = beneath.open_child(top, "files", _FOLDER)
        try:
            return _open(folder, digest, top, files)
        finally:
            os.close(files)
    except OSError as error:
        raise PackageChanged(digest, [f"it cannot be read: {error.strerror}"]) from None
    finally:
        os.close(top)


def _open(folder: str, digest: str, top: int, files: int) -> Installed:
    def look() -> tuple[object, ...]:
        return tuple(_times(path) for path in watched)

    listing = _read_listing(top)
    if hashlib.sha256(listing).hexdigest() != digest:
        raise PackageChanged(digest, ["its listing is not the one that the digest names"])
    lines = {line.split(" ", 3)[3]: line for line in listing.decode().splitlines()[1:]}
    parents = {"", *(path[:at] for path in lines for at, sign in enumerate(path) if sign == "/")}
    below = [os.path.join(folder, "files", path) for path in sorted({*lines, *parents})]
    watched = [folder, os.path.join(folder, "listing"), *below]
    # Looked at before it is read: what is written meanwhile shows as a change.
    seen = look()
    problems = [f"{name}: it was added" for name in sorted(os.listdir(top)) if name not in ("files", "listing")]
    found, more, left_out = read_folder(files)
    problems += more + [f"{path}: it was added" for path in left_out]
    if not problems:
        made, _ = digest_of(found)
        if made.encode() != listing:
            problems = _differences(lines, made)
    if problems:
        raise PackageChanged(digest, problems)
    package = Package(MappingProxyType(found), listing.decode(), digest, _single(lines))
    return Installed(package, look, seen)


def _times(path: str) -> tuple[int, ...]:
    """What of a file's status changes with its content; nobody sets the last of its times but the kernel."""
    try:
        status = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _read_listing(top: int) -> bytes:
    descriptor = beneath.open_child(top, "listing", os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        parts: list[bytes] = []
        left = _LISTING_MAX
        while left > 0 and (part := os.read(descriptor, left)):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _differences(expected: dict[str, str], made: str) -> list[str]:
    found = {line.split(" ", 3)[3]: line for line in made.splitlines()[1:]}
    words: list[str] = []
    for path in sorted({*expected, *found}):
        if path not in found:
            words.append(f"{path}: it is missing")
        elif path not in expected:
            words.append(f"{path}: it was added")
        elif found[path] != expected[path]:
            words.append(f"{path}: it was changed")
    return words


def _single(lines: dict[str, str]) -> str:
    """The file's name where a package is one file: then there is no manifest beside it."""
    return next(iter(lines)) if len(lines) == 1 and MANIFEST_NAME not in lines else ""


def remove(digest: str) -> None:
    """Remove an installed package.  Idempotent.  Raises BackendError where it cannot be."""
    base = home.folder("data", "plugins")
    gone = os.path.join(base, _GONE + os.urandom(8).hex())
    try:
        # At once and whole, so that nobody opens half of it.
        os.rename(os.path.join(base, check_digest(digest)), gone)
    except FileNotFoundError:
        return
    except OSError as error:
        raise BackendError("removing a plugin", error.strerror or error, f"make {base} writable") from error
    _delete(gone)


@contextlib.contextmanager
def arriving() -> Iterator[None]:
    """
    From the writing of a package until it is noted whose it is: nothing is pruned meanwhile, in any process.

    Raises OSError where the folder of packages cannot be locked.
    """
    with _locked(fcntl.LOCK_SH):
        yield


@contextlib.contextmanager
def _locked(how: int) -> Iterator[None]:
    """The folder of packages, locked (``flock(2)``); the end of a process unlocks it.  Raises BlockingIOError."""
    descriptor = os.open(home.folder("data", "plugins"), _FOLDER | os.O_CLOEXEC)
    try:
        ends = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(descriptor, how | (fcntl.LOCK_NB if how == fcntl.LOCK_EX else 0))
                break
            except BlockingIOError:
                if time.monotonic() >= ends:
                    raise
                time.sleep(_STEP_S)
        yield
    finally:
        os.close(descriptor)


def prune(keep: Callable[[], Collection[str]]) -> list[str]:
    """
    Remove packages that are not in what ``keep`` returns, and return their digests.

    Where somebody goes on installing for seconds nothing is removed: the next time will do.
    """
    base = home.folder("data", "plugins")
    sweep()
    gone: list[str] = []
    with contextlib.suppress(BlockingIOError), _locked(fcntl.LOCK_EX):
        # Asked only now: whoever wrote a package before has said whose it is.
        kept = keep()
        for name in sorted(os.listdir(base)):
            if _DIGEST.fullmatch(name) and name not in kept:
                remove(name)
                gone.append(name)
    return gone


def sweep() -> None:
    """Remove what processes that were killed left behind.  Never raises ``OSError``."""
    base = home.folder("data", "plugins")
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if name.startswith(_GONE):
            _delete(path)
        elif name.startswith(_NEW):
            try:
                top = os.open(path, _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(top, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _delete(path)
            except OSError:
                # Its maker is still writing.
                pass
            finally:
                os.close(top)


def _delete(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
