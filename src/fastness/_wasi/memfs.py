"""
The guest's file system: a tree of directories and regular files in memory.

No node has a host path behind it.  Everything a guest makes is charged to one :class:`Quota` *before* host memory
is allocated, and given back when the last name and the last descriptor are gone.  A read-only node is shared
between runs, so no operation ever changes it: not its times, not its open count.  There are no links: a node has
exactly one name.  Failures are :class:`~fastness._wasi.preview1_abi.Errno`; semantics follow the POSIX pages of the
call of the same name (``rename(2)``, ``unlink(2)``, ``ftruncate(2)``) and the WASI preview 1 errnos.
"""

from __future__ import annotations

from _bisect import bisect_right

from .preview1_abi import BUSY, EXIST, INVAL, ISDIR, NAMETOOLONG, NOENT, NOSPC, NOTDIR, NOTEMPTY, ROFS, XDEV, Errno

#: Longest name in bytes, the usual NAME_MAX.
NAME_MAX = 255
#: Serial numbers of directory entries start here; readdir cookies 0, 1, 2 stand for the start, ``.`` and ``..``.
_FIRST_SERIAL = 3
_ZEROS = bytes(1 << 20)


class Quota:
    """
    What one run may keep in files, and what it keeps now.

    ``max_bytes`` bounds file contents, ``max_files`` files and directories together, ``max_depth`` directories above
    a name, ``max_path`` the bytes of a whole path.  ``version`` grows with every change of any content or name.
    ``dev`` is the device number of the nodes; inode numbers count up from 1, so equal runs see equal numbers.
    """

    __slots__ = ("bytes", "dev", "files", "max_bytes", "max_depth", "max_files", "max_path", "next_ino", "version")

    def __init__(
        self,
        max_bytes: int = 256 << 20,
        max_files: int = 10_000,
        max_depth: int = 64,
        max_path: int = 4096,
        dev: int = 1,
    ) -> None:
        self.max_bytes = max_bytes
        self.max_files = max_files
        self.max_depth = max_depth
        self.max_path = max_path
        self.dev = dev
        self.bytes = 0
        self.files = 0
        self.next_ino = 1
        self.version = 0

    def charge(self, count: int) -> None:
        """Take ``count`` bytes.  Raises NOSPC, and takes nothing, where that would pass the cap."""
        if self.bytes + count > self.max_bytes:
            raise Errno(NOSPC, quota=True)
        self.bytes += count

    def charge_node(self) -> None:
        """Take one file or directory.  Raises NOSPC, and takes nothing, where that would pass the cap."""
        if self.files >= self.max_files:
            raise Errno(NOSPC, quota=True)
        self.files += 1


class Node:
    """What files and directories have in common.  Times are nanoseconds since the epoch."""

    __slots__ = ("atim", "ctim", "fs", "ino", "linked", "mtim", "opens", "read_only", "version")
    is_dir = False
    #: Type in the numbering of preview 1: 3 is a directory, 4 a regular file.
    filetype = 4

    def __init__(self, fs: Quota, read_only: bool, now: int) -> None:
        self.fs = fs
        self.ino = fs.next_ino
        fs.next_ino += 1
        self.read_only = read_only
        self.atim = self.mtim = self.ctim = now
        self.opens = 0
        self.linked = True
        self.version = 0

    def opened(self) -> None:
        """A descriptor refers to the node: it stays charged until the matching :meth:`closed`."""
        if not self.read_only:
            self.opens += 1

    def closed(self) -> None:
        """A descriptor is gone."""
        if not self.read_only:
            self.opens -= 1
            if not self.opens and not self.linked:
                self._release()

    def unlinked(self, now: int) -> None:
        """The node's only name is gone."""
        self.linked = False
        self.ctim = now
        if not self.opens:
            self._release()

    def _release(self) -> None:
        self.fs.files -= 1

    def set_times(self, atim: int | None, mtim: int | None, now: int) -> None:
        """Set access and modification time; None leaves one as it is."""
        if self.read_only:
            raise Errno(ROFS)
        if atim is not None:
            self.atim = atim
        if mtim is not None:
            self.mtim = mtim
        self.ctim = now


class File(Node):
    """
    A regular file.

    ``data`` is a bytearray, or a read-only memoryview where the file is read-only.  Reading leaves ``atim`` alone, as a
    file system mounted with ``noatime`` does.  Nobody may hold a buffer export of ``data`` while a guest runs: a
    bytearray that is exported cannot grow.
    """

    __slots__ = ("data",)

    def __init__(self, fs: Quota, data: bytearray | memoryview, read_only: bool, now: int) -> None:
        Node.__init__(self, fs, read_only, now)
        self.data = data

    def resize(self, size: int, now: int) -> None:
        """Cut or zero-extend to ``size`` bytes.  Raises NOSPC past the quota and ROFS on a read-only file."""
        data = self.data
        if not isinstance(data, bytearray):
            raise Errno(ROFS)
        old = len(data)
        if size < old:
            del data[size:]
            self.fs.bytes -= old - size
        elif size > old:
            self._extend(data, size - old)
        self._touch(now)

    def write(self, position: int, chunk: bytes, now: int) -> None:
        """Write ``chunk`` at ``position``, filling a hole with zeros.  All or nothing: raises NOSPC or ROFS."""
        data = self.data
        if not isinstance(data, bytearray):
            raise Errno(ROFS)
        if not chunk:
            return
        old = len(data)
        end = position + len(chunk)
        if end > old:
            # Charged first: a guest that seeks far and writes one byte must meet its quota, not our memory.
            if position > old:
                self._extend(data, position - old, reserve=len(chunk))
            else:
                self.fs.charge(end - old)
            try:
                data[position:end] = chunk
            except MemoryError:
                self.fs.bytes -= end - len(data)
                raise Errno(NOSPC, quota=True) from None
        else:
            data[position:end] = chunk
        self._touch(now)

    def _extend(self, data: bytearray, count: int, reserve: int = 0) -> None:
        """Append ``count`` zeros; also charges ``reserve`` bytes that the caller appends next."""
        self.fs.charge(count + reserve)
        old = len(data)
        try:
            left = count
            while left > 0:
                step = min(left, len(_ZEROS))
                data += _ZEROS if step == len(_ZEROS) else _ZEROS[:step]
                left -= step
        except MemoryError:
            del data[old:]
            self.fs.bytes -= count + reserve
            raise Errno(NOSPC, quota=True) from None

    def _touch(self, now: int) -> None:
        self.mtim = self.ctim = now
        self.version += 1
        self.fs.version += 1

    def _release(self) -> None:
        self.fs.bytes -= len(self.data)
        self.fs.files -= 1
        self.data = bytearray()


class Dir(Node):
    """
    A directory.  ``entries`` maps names to nodes in the order of their serial numbers, which are readdir cookies.

    ``parent`` is the directory that holds this one; None for a root and for a mount point.
    """

    __slots__ = ("_listing", "_next_serial", "_serials", "entries", "name", "parent")
    is_dir = True
    filetype = 3

    def __init__(self, fs: Quota, read_only: bool = False, now: int = 0) -> None:
        Node.__init__(self, fs, read_only, now)
        self.entries: dict[str, Node] = {}
        self.parent: Dir | None = None
        self.name = ""
        self._serials: dict[str, int] = {}
        self._next_serial = _FIRST_SERIAL
        self._listing: tuple[list[int], list[str]] | None = None

    def attach(self, name: str, node: Node) -> None:
        """Give ``node`` the name, which must be free.  No checks and no charge: for building trees and mounting."""
        self.entries[name] = node
        self._serials[name] = self._next_serial
        self._next_serial += 1
        self._listing = None

    def _detach(self, name: str) -> None:
        del self.entries[name]
        del self._serials[name]
        self._listing = None

    def after(self, cookie: int) -> tuple[list[int], list[str], int]:
        """
        Entries for readdir: serial numbers, names, and the index of the first whose serial is above ``cookie``.

        Serials are never used twice, so a cookie stays good while entries come and go.
        """
        listing = self._listing
        if listing is None:
            listing = (list(self._serials.values()), list(self._serials))
            self._listing = listing
        return listing[0], listing[1], bisect_right(listing[0], cookie)

    def _changed(self, now: int) -> None:
        self.mtim = self.ctim = now
        self.version += 1
        self.fs.version += 1

    def _writable(self) -> None:
        if self.read_only:
            raise Errno(ROFS)
        if not self.linked:
            raise Errno(NOENT)

    def _admit(self, name: str, height: int = 0, longest: int = 0) -> None:
        """Check the caps on a new name; ``height`` and ``longest`` describe the tree that hangs below it."""
        length = len(name.encode())
        if length > NAME_MAX:
            raise Errno(NAMETOOLONG)
        depth = 1 + height
        length += longest
        above: Dir | None = self
        while above is not None and above.parent is not None:
            depth += 1
            length += len(above.name.encode()) + 1
            above = above.parent
        if depth > self.fs.max_depth or length > self.fs.max_path:
            raise Errno(NAMETOOLONG, quota=True)

    def _charge(self, name: str) -> None:
        self._writable()
        if name in self.entries:
            raise Errno(EXIST)
        self._admit(name)
        self.fs.charge_node()

    def create_file(self, name: str, now: int) -> File:
        """Make an empty file under a free name.  Raises EXIST, NOSPC, NAMETOOLONG, ROFS, NOENT (removed directory)."""
        self._charge(name)
        node = File(self.fs, bytearray(), False, now)
        self.attach(name, node)
        self._changed(now)
        return node

    def create_dir(self, name: str, now: int) -> Dir:
        """Make an empty directory under a free name; raises as :meth:`create_file`."""
        self._charge(name)
        node = Dir(self.fs, False, now)
        node.parent = self
        node.name = name
        self.attach(name, node)
        self._changed(now)
        return node

    def unlink(self, name: str, now: int) -> None:
        """Remove a file's name.  Raises NOENT, ISDIR, ROFS."""
        node = self.entries.get(name)
        if node is None:
            raise Errno(NOENT)
        if node.is_dir:
            raise Errno(ISDIR)
        if self.read_only or node.read_only:
            raise Errno(ROFS)
        self._detach(name)
        node.unlinked(now)
        self._changed(now)

    def rmdir(self, name: str, now: int) -> None:
        """Remove an empty directory.  Raises NOENT, NOTDIR, NOTEMPTY, ROFS, BUSY (mount point)."""
        node = self.entries.get(name)
        if node is None:
            raise Errno(NOENT)
        if not isinstance(node, Dir):
            raise Errno(NOTDIR)
        if self.read_only or node.read_only:
            raise Errno(ROFS)
        if node.parent is not self:
            raise Errno(BUSY)
        if node.entries:
            raise Errno(NOTEMPTY)
        self._detach(name)
        node.unlinked(now)
        self._changed(now)

    def within(self, other: Dir) -> bool:
        """Whether this directory is ``other`` or lies below it."""
        here: Dir | None = self
        while here is not None:
            if here is other:
                return True
            here = here.parent
        return False


def _extent(top: Dir) -> tuple[int, int]:
    """Levels below ``top`` and bytes of the longest path below it, for the caps when a directory moves."""
    height = longest = 0
    todo = [(top, 1, 0)]
    while todo:
        here, depth, length = todo.pop()
        for name, node in here.entries.items():
            size = length + 1 + len(name.encode())
            height = max(height, depth)
            longest = max(longest, size)
            if isinstance(node, Dir):
                todo.append((node, depth + 1, size))
    return height, longest


def rename(source: Dir, old: str, target: Dir, new: str, now: int) -> None:
    """
    Move ``old`` in ``source`` to ``new`` in ``target``, replacing a file or an empty directory there.

    Raises NOENT, ROFS, BUSY (mount point), INVAL (a directory into itself), ISDIR (a file onto a directory), NOTDIR (a
    directory onto a file), NOTEMPTY, NAMETOOLONG, XDEV (another quota).  Two names of one node cannot exist, so only a
    move onto itself is the no-op that POSIX asks for.
    """
    node = source.entries.get(old)
    if node is None:
        raise Errno(NOENT)
    if source.read_only or node.read_only:
        raise Errno(ROFS)
    target._writable()
    if target.fs is not source.fs:
        raise Errno(XDEV)
    victim = target.entries.get(new)
    if victim is node:
        return
    if isinstance(node, Dir):
        if node.parent is not source:
            raise Errno(BUSY)
        if target.within(node):
            raise Errno(INVAL)
        if victim is not None:
            if not isinstance(victim, Dir):
                raise Errno(NOTDIR)
            if victim.read_only:
                raise Errno(ROFS)
            if victim.entries:
                raise Errno(NOTEMPTY)
            if victim.parent is not target:
                raise Errno(BUSY)
        target._admit(new, *_extent(node))
    else:
        if victim is not None:
            if victim.is_dir:
                raise Errno(ISDIR)
            if victim.read_only:
                raise Errno(ROFS)
        target._admit(new)
    if victim is not None:
        target._detach(new)
        victim.unlinked(now)
    source._detach(old)
    target.attach(new, node)
    if isinstance(node, Dir):
        node.parent = target
        node.name = new
    node.ctim = now
    source._changed(now)
    if target is not source:
        target._changed(now)
