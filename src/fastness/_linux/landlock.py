"""
Landlock: giving up access to files, TCP ports, abstract sockets and foreign processes (``landlock(7)``).

An access right that a ruleset *handles* is denied wherever no rule allows it.  What a kernel can handle grows with
its ABI version; this module asks for everything that it knows and the kernel has, and says what that was.
The restriction holds for the calling thread and what it starts later, so apply it before there are others.
"""

from __future__ import annotations

import ctypes as C
import errno
import os

from fastness._linux.plan import ANY, ONE, Plan, address, number
from fastness._linux.syscalls import AT_FDCWD, raw

# Access rights to files, in the order of their bits.
EXECUTE = 1 << 0
WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REFER = 1 << 13
TRUNCATE = 1 << 14
IOCTL_DEV = 1 << 15

_MAKE_CHAR = 1 << 6
_MAKE_SOCK = 1 << 9
_MAKE_FIFO = 1 << 10
_MAKE_BLOCK = 1 << 11

#: What reading a tree takes.
READ = READ_FILE | READ_DIR
#: What using a harmless device takes.
DEVICE = READ_FILE | WRITE_FILE
#: Sockets and pipes with names.
MAKE_SPECIAL = _MAKE_SOCK | _MAKE_FIFO
#: Doing what one likes in a tree, but starting programs, making special files and controlling devices.
WRITE = ((1 << 13) - 1 | REFER | TRUNCATE) & ~(EXECUTE | _MAKE_CHAR | _MAKE_BLOCK | MAKE_SPECIAL)

#: The rights that make sense on something that is no directory.
_FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_BIND_TCP = 1 << 0
_CONNECT_TCP = 1 << 1

_SCOPE_ABSTRACT_UNIX = 1 << 0
_SCOPE_SIGNAL = 1 << 1

_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1


#: What :func:`abi` said, once the kernel was asked.
_known: list[int] = []


def abi() -> int:
    """The kernel's Landlock ABI version, asked once; 0 where Landlock is absent or switched off."""
    if not _known:
        try:
            # SAFETY: a null attribute of size 0 with this flag only asks for the version.
            _known.append(raw("landlock_create_ruleset", 0, 0, _CREATE_RULESET_VERSION))
        except OSError as error:
            if error.errno not in (errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM):
                raise
            _known.append(0)
    return _known[0]


def file_rights(version: int) -> int:
    """Every right to files that a kernel of this ABI version can handle."""
    rights = (1 << 13) - 1
    if version >= 2:
        rights |= REFER
    if version >= 3:
        rights |= TRUNCATE
    if version >= 5:
        rights |= IOCTL_DEV
    return rights


class Ruleset:
    """
    A ruleset under construction that handles everything the kernel can; then rules; then :meth:`restrict`.

    ``abi`` is the kernel's version.  Raises ``OSError`` (``ENOSYS``) where there is no Landlock.
    """

    __slots__ = ("abi", "fd", "handled_files")

    def __init__(self) -> None:
        self.fd = -1
        self.abi = abi()
        if not self.abi:
            raise OSError(errno.ENOSYS, "landlock: the kernel does not have it or it is switched off")
        self.handled_files = file_rights(self.abi)
        attribute, size = _handled(self.abi)
        # SAFETY: `attribute` is a `struct landlock_ruleset_attr` of at least `size` bytes and outlives the call.
        self.fd = raw("landlock_create_ruleset", C.addressof(attribute), size, 0)

    def allow_beneath(self, fd: int, rights: int) -> None:
        """Allow ``rights`` on the file or the tree that ``fd`` (``O_PATH`` will do) refers to.  Raises ``OSError``."""
        attribute = _beneath(rights & self.handled_files, fd)
        # SAFETY: the kernel reads 12 bytes of `attribute`, which outlives the call.
        raw("landlock_add_rule", self.fd, _RULE_PATH_BENEATH, C.addressof(attribute), 0)

    def allow_path(self, path: str, rights: int) -> None:
        """As :meth:`allow_beneath` for ``path``; a plain file gets those of ``rights`` that files have."""
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if os.fstat(fd).st_mode & 0o170000 != 0o040000:
                rights &= _FILE_RIGHTS
            self.allow_beneath(fd, rights)
        finally:
            os.close(fd)

    def restrict(self) -> str:
        """
        Put this thread under the ruleset for good and close it; returns what holds now, in words.

        Needs ``no_new_privs``.  Raises ``OSError``.
        """
        try:
            # SAFETY: integers only.
            raw("landlock_restrict_self", self.fd, 0)
        finally:
            self.close()
        return describe(self.abi)

    def close(self) -> None:
        """Drop the ruleset without applying it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _handled(version: int) -> tuple[C.Array[C.c_uint64], int]:
    """All that a kernel of this ABI version can handle, and the bytes of that which it knows."""
    network = _BIND_TCP | _CONNECT_TCP if version >= 4 else 0
    scopes = _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if version >= 6 else 0
    # The attribute grew with the ABI, and an older kernel refuses bytes that it does not know.
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    return (C.c_uint64 * 3)(file_rights(version), network, scopes), size


class Rulesets:
    """
    Makes rulesets as :class:`Ruleset` does, any number of them with the same rules.

    ``beneath`` are descriptors of files and trees, with the rights to each.  Raises ``OSError`` (``ENOSYS``) where
    there is no Landlock.
    """

    def __init__(self, beneath: list[tuple[int, int]]) -> None:
        version = abi()
        if not version:
            raise OSError(errno.ENOSYS, "landlock: the kernel does not have it or it is switched off")
        #: The calls that make one; its descriptor, -1 until then; and 1 once all of its rules are in it.
        self.calls = calls = Plan()
        self.made, self.whole = number(), C.c_int(0)
        calls.hold((self.made, self.whole))
        place = address(self.made)
        calls.add("landlock_create_ruleset", *_handled(version), 0, result=ANY, put_at=place)
        loads, rules = [], []
        for fd, rights in beneath:
            loads.append(calls.load(place))
            rule = _beneath(rights & file_rights(version), fd)
            rules.append(calls.add("landlock_add_rule", 0, _RULE_PATH_BENEATH, rule, 0))
        for load, index in zip(loads, rules, strict=True):
            calls.put_answer_at(load, calls.argument_at(index, 1))
        calls.load(address(ONE), address(self.whole))

    def make(self) -> None:
        """Make one, unless there is one.  Raises ``OSError``."""
        if self.whole.value:
            return
        self.drop()
        try:
            self.calls.run()
        except OSError as error:
            if self.made.value < 0:
                raise
            self.drop()
            # Never an error that says of a kernel that it has no Landlock.
            raise OSError(errno.EIO, str(error)) from None

    def drop(self) -> None:
        """Close what there is of one."""
        made, self.made.value, self.whole.value = self.made.value, -1, 0
        if made >= 0:
            os.close(made)


def plan_allow(calls: Plan, ruleset: int, path: C.Array[C.c_char], rights: int, free: int) -> None:
    """
    Add to ``calls`` what :meth:`Ruleset.allow_path` does for a directory, with the descriptor ``ruleset``.

    ``free`` is the lowest free number of a descriptor.  On anything but a directory the kernel refuses the rule.
    """
    calls.add("openat", AT_FDCWD, path, os.O_PATH | os.O_CLOEXEC, 0, result=free)
    calls.add("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, _beneath(rights & file_rights(abi()), free), 0)
    calls.add("close", free)


def _beneath(rights: int, fd: int) -> C.Array[C.c_uint32]:
    # `struct landlock_path_beneath_attr` is packed: 12 bytes.
    return (C.c_uint32 * 3)(rights & 0xFFFFFFFF, rights >> 32, fd)


def describe(version: int) -> str:
    """What a ruleset of this package denies on a kernel of ABI ``version``."""
    parts = ["files"]
    if version >= 4:
        parts.append("tcp")
    if version >= 6:
        parts += ["abstract sockets", "signals"]
    return f"landlock abi {version} ({', '.join(parts)})"


def deny_all() -> int:
    """
    Give up everything that Landlock handles; returns the ABI version that was applied.

    Raises ``OSError``, ``ENOSYS`` where there is no Landlock.
    """
    ruleset = Ruleset()
    ruleset.restrict()
    return ruleset.abi
