"""
The ``path_*`` calls: names below an open directory.

A path is resolved one component at a time inside the tree of its descriptor; ``..`` above that descriptor and a leading
slash are refused with PERM and recorded.  There are no symbolic links, so nothing else can lead out.
"""

from __future__ import annotations

from .memfs import NAME_MAX, Dir, File, Node, rename
from .preview1_abi import (
    BADF,
    EXIST,
    FD_FLAGS_ALL,
    ILSEQ,
    INVAL,
    ISDIR,
    LOOKUP_ALL,
    MFILE,
    NAMETOOLONG,
    NOENT,
    NOTCAPABLE,
    NOTDIR,
    NOTSUP,
    O_ALL,
    O_CREAT,
    O_DIRECTORY,
    O_EXCL,
    O_TRUNC,
    PERM,
    R_ALL,
    R_FD_WRITE,
    R_PATH_CREATE_DIRECTORY,
    R_PATH_CREATE_FILE,
    R_PATH_FILESTAT_GET,
    R_PATH_FILESTAT_SET_SIZE,
    R_PATH_FILESTAT_SET_TIMES,
    R_PATH_OPEN,
    R_PATH_READLINK,
    R_PATH_REMOVE_DIRECTORY,
    R_PATH_RENAME_SOURCE,
    R_PATH_RENAME_TARGET,
    R_PATH_UNLINK_FILE,
    RIGHTS_DIRECTORY,
    RIGHTS_FILE,
    SUCCESS,
    Errno,
)
from .preview1_descriptors import Descriptors
from .preview1_memory import Fd
from .preview1_state import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

#: Longest path of one call in bytes, the usual PATH_MAX.
PATH_MAX = 4096


#: Paths that the language runtimes themselves look for: a row for them would tell nobody anything.
_QUIET = frozenset(
    ("usr", "usr/local", "usr/local/bin", "usr/local/lib", "usr/local/bin/python.wasm", "dev/urandom", "etc/localtime")
)


class Found:
    """
    Where a path leads.

    ``name`` is the last component in ``parent``, or empty where the path ends in ``.``, ``..`` or names the descriptor
    itself.  ``node`` is None where the name is free.  ``slash``: the path demands a directory.
    """

    __slots__ = ("fd", "name", "node", "parent", "path", "slash")

    def __init__(self, fd: Fd, parent: Dir, name: str, node: Node | None, slash: bool, path: str) -> None:
        self.fd = fd
        self.parent = parent
        self.name = name
        self.node = node
        self.slash = slash
        self.path = path

    def target(self) -> str:
        """The path as a denial shows it."""
        return join(self.fd.path, self.path)


class Paths(Descriptors):
    """Calls that take a path."""

    __slots__ = ()

    def _text(self, address: int, length: int) -> str:
        if length > PATH_MAX:
            raise Errno(NAMETOOLONG)
        try:
            path = self.read(address, length).decode()
        except UnicodeDecodeError:
            raise Errno(ILSEQ) from None
        if "\0" in path:
            raise Errno(INVAL)
        return path

    def _outside(self, operation: str, fd: Fd, path: str) -> Errno:
        self.denials.add(operation, path if path[0] == "/" else join(fd.path, path), "outside")
        return Errno(PERM)

    def _missing(self, operation: str, above: Dir, depth: int, name: str, path: str) -> Errno:
        """The error for a name that is not there; records it where it is one of the root's."""
        # Below /tmp too: that is where a file of the host, or another run's, is most likely looked for.
        lost = (depth == 0 and above is self.root) or (self.root is not None and path.startswith("tmp/"))
        if lost and path not in _QUIET:
            self.denials.add(operation, "/" + path, "absent")
        return Errno(NAMETOOLONG if len(name.encode()) > NAME_MAX else NOENT)

    def _find(
        self, operation: str, number: int, address: int, length: int, rights: int, creating: bool = False
    ) -> Found:
        """
        Resolve a path.  With ``creating`` a free last name is an answer, not NOENT.

        Raises BADF, NOTDIR, NOTCAPABLE (any of ``rights`` missing), FAULT, ILSEQ, INVAL, NAMETOOLONG, NOENT, PERM.
        """
        fd = self.fds.get(number)
        if fd is None:
            raise Errno(BADF)
        here = fd.node
        if not isinstance(here, Dir):
            raise Errno(NOTDIR)
        if rights & ~fd.allowed:
            raise Errno(NOTCAPABLE)
        path = self._text(address, length)
        if not path:
            raise Errno(NOENT)
        if path[0] == "/":
            raise self._outside(operation, fd, path)
        parts = path.split("/")
        last = parts.pop()
        slash = False
        while not last:
            slash = True
            last = parts.pop()
        # The directories passed on the way down; `..` goes back along them and never past the descriptor's own.
        trail: list[Dir] = []
        for part in parts:
            if not part or part == ".":
                continue
            if part == "..":
                if not trail:
                    raise self._outside(operation, fd, path)
                here = trail.pop()
                continue
            child = here.entries.get(part)
            if child is None:
                raise self._missing(operation, here, len(trail), part, path)
            if not isinstance(child, Dir):
                raise Errno(NOTDIR)
            trail.append(here)
            here = child
        if last == ".":
            return Found(fd, here, "", here, True, path)
        if last == "..":
            if not trail:
                raise self._outside(operation, fd, path)
            here = trail.pop()
            return Found(fd, here, "", here, True, path)
        node = here.entries.get(last)
        if node is None:
            if not creating:
                raise self._missing(operation, here, len(trail), last, path)
        elif slash and not node.is_dir:
            raise Errno(NOTDIR)
        return Found(fd, here, last, node, slash, path)

    # ---- opening

    def path_open(
        self,
        number: int,
        lookup: int,
        address: int,
        length: int,
        oflags: int,
        rights: int,
        inheriting: int,
        fdflags: int,
        out: int,
    ) -> int:
        """openat(2)."""
        if lookup & ~LOOKUP_ALL or oflags & ~O_ALL or fdflags & ~FD_FLAGS_ALL:
            return INVAL
        if oflags & O_DIRECTORY and oflags & (O_CREAT | O_EXCL | O_TRUNC):
            return INVAL
        needed = R_PATH_OPEN
        if oflags & O_CREAT:
            needed |= R_PATH_CREATE_FILE
        if oflags & O_TRUNC:
            needed |= R_PATH_FILESTAT_SET_SIZE
        found = self._find("path_open", number, address, length, needed, bool(oflags & O_CREAT))
        fd = found.fd
        # Bits that preview 1 does not define are ignored: some runtimes ask for all 64.
        rights &= R_ALL
        inheriting &= R_ALL
        if (rights | inheriting) & ~fd.inheriting:
            return NOTCAPABLE
        # Nothing may be made or cut before it is sure that a descriptor can be given back.
        self.check(out, 4)
        if len(self.fds) >= self.max_fds:
            return MFILE
        node = self._open_node(found, oflags, bool(rights & R_FD_WRITE))
        if node.is_dir:
            opened = Fd(node, rights & RIGHTS_DIRECTORY, inheriting, fdflags, found.target())
        else:
            opened = Fd(node, rights & RIGHTS_FILE, inheriting, fdflags, found.target())
        self.write_u32(out, self.allocate_fd(opened))
        return SUCCESS

    def _open_node(self, found: Found, oflags: int, writing: bool) -> Node:
        node = found.node
        if node is None:
            if found.slash:
                raise Errno(ISDIR)
            return self._make(found, "path_open", found.parent.create_file)
        if oflags & O_CREAT and oflags & O_EXCL:
            raise Errno(EXIST)
        if not isinstance(node, File):
            if writing or oflags & (O_CREAT | O_TRUNC):
                raise Errno(ISDIR)
            return node
        if oflags & O_DIRECTORY:
            raise Errno(NOTDIR)
        if node.read_only and (writing or oflags & O_TRUNC):
            raise self.read_only("path_open", found.target())
        if oflags & O_TRUNC:
            node.resize(0, self.clock.realtime())
        return node

    def _make(self, found: Found, operation: str, create: Callable[[str, int], Node]) -> Node:
        try:
            return create(found.name, self.clock.realtime())
        except Errno as error:
            self.refused(error, operation, found.target())
            raise

    # ---- status

    def path_filestat_get(self, number: int, lookup: int, address: int, length: int, out: int) -> int:
        """fstatat(2)."""
        if lookup & ~LOOKUP_ALL:
            return INVAL
        found = self._find("path_filestat_get", number, address, length, R_PATH_FILESTAT_GET)
        assert found.node is not None
        self.store_filestat(found.node, out)
        return SUCCESS

    def path_filestat_set_times(
        self, number: int, lookup: int, address: int, length: int, atim: int, mtim: int, flags: int
    ) -> int:
        """utimensat(2)."""
        if lookup & ~LOOKUP_ALL:
            return INVAL
        found = self._find("path_filestat_set_times", number, address, length, R_PATH_FILESTAT_SET_TIMES)
        assert found.node is not None
        self.set_times(found.node, atim, mtim, flags, "path_filestat_set_times", found.target())
        return SUCCESS

    # ---- making, removing, moving

    def path_create_directory(self, number: int, address: int, length: int) -> int:
        """mkdirat(2)."""
        found = self._find("path_create_directory", number, address, length, R_PATH_CREATE_DIRECTORY, True)
        if found.node is not None:
            return EXIST
        self._make(found, "path_create_directory", found.parent.create_dir)
        return SUCCESS

    def path_unlink_file(self, number: int, address: int, length: int) -> int:
        """unlinkat(2) without AT_REMOVEDIR."""
        found = self._find("path_unlink_file", number, address, length, R_PATH_UNLINK_FILE)
        if not isinstance(found.node, File):
            return ISDIR
        try:
            found.parent.unlink(found.name, self.clock.realtime())
        except Errno as error:
            self.refused(error, "path_unlink_file", found.target())
            raise
        return SUCCESS

    def path_remove_directory(self, number: int, address: int, length: int) -> int:
        """unlinkat(2) with AT_REMOVEDIR."""
        found = self._find("path_remove_directory", number, address, length, R_PATH_REMOVE_DIRECTORY)
        if not isinstance(found.node, Dir):
            return NOTDIR
        if not found.name:
            return INVAL
        try:
            found.parent.rmdir(found.name, self.clock.realtime())
        except Errno as error:
            self.refused(error, "path_remove_directory", found.target())
            raise
        return SUCCESS

    def path_rename(
        self, number: int, address: int, length: int, new_number: int, new_address: int, new_length: int
    ) -> int:
        """renameat(2)."""
        old = self._find("path_rename", number, address, length, R_PATH_RENAME_SOURCE)
        new = self._find("path_rename", new_number, new_address, new_length, R_PATH_RENAME_TARGET, True)
        if not old.name or not new.name:
            return INVAL
        if new.slash and isinstance(old.node, File):
            return NOTDIR
        try:
            rename(old.parent, old.name, new.parent, new.name, self.clock.realtime())
        except Errno as error:
            from_source = old.parent.read_only or (old.node is not None and old.node.read_only)
            self.refused(error, "path_rename", old.target() if from_source else new.target())
            raise
        return SUCCESS

    # ---- links: there are none

    def path_readlink(self, number: int, address: int, length: int, buffer: int, size: int, out: int) -> int:
        """readlinkat(2)."""
        # Every name that exists is a file or a directory, for which readlink(2) says EINVAL.
        self._find("path_readlink", number, address, length, R_PATH_READLINK)
        return INVAL

    def path_link(
        self,
        number: int,
        lookup: int,
        address: int,
        length: int,
        new_number: int,
        new_address: int,
        new_length: int,
    ) -> int:
        """linkat(2): refused and recorded."""
        return self._no_link("path_link", new_number, new_address, new_length)

    def path_symlink(self, old_address: int, old_length: int, number: int, address: int, length: int) -> int:
        """symlinkat(2): refused and recorded."""
        return self._no_link("path_symlink", number, address, length)

    def _no_link(self, operation: str, number: int, address: int, length: int) -> int:
        try:
            target = self._text(address, length)
        except Errno:
            target = ""
        fd = self.fds.get(number)
        self.denials.add(operation, join(fd.path, target) if fd is not None else target, "wasi_refused")
        return NOTSUP
