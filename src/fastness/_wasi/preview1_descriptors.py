"""
The ``fd_*`` calls.  Each returns an errno or raises ``Errno``; documentation of each call is the preview 1 witx.

Where the specification leaves an errno open, it is the one that the reference implementation returns: file operations
on a directory, and reading or writing without the right, are BADF; other missing rights are NOTCAPABLE.
"""

from __future__ import annotations

from _struct import Struct

from .memfs import Dir, File, Node
from .preview1_abi import (
    BADF,
    FBIG,
    FD_APPEND,
    FD_FLAGS_ALL,
    FST_ALL,
    FST_ATIM,
    FST_ATIM_NOW,
    FST_MTIM,
    FST_MTIM_NOW,
    I64_MAX,
    INVAL,
    NAMETOOLONG,
    NOTCAPABLE,
    NOTDIR,
    R_FD_ADVISE,
    R_FD_ALLOCATE,
    R_FD_DATASYNC,
    R_FD_FDSTAT_SET_FLAGS,
    R_FD_FILESTAT_GET,
    R_FD_FILESTAT_SET_SIZE,
    R_FD_FILESTAT_SET_TIMES,
    R_FD_READ,
    R_FD_READDIR,
    R_FD_SEEK,
    R_FD_SYNC,
    R_FD_TELL,
    R_FD_WRITE,
    SPIPE,
    SUCCESS,
    Errno,
)
from .preview1_memory import Fd
from .preview1_state import HostState

_fdstat = Struct("<BxH4xQQ").pack
_filestat = Struct("<QQB7xQQQQQ").pack
_dirent = Struct("<QQIB3x").pack
#: Bytes of a directory entry before its name.
_DIRENT = 24


class Descriptors(HostState):
    """Calls on an open descriptor."""

    __slots__ = ()

    def _file(self, number: int, right: int) -> tuple[Fd, File]:
        fd = self.fds.get(number)
        if fd is None:
            raise Errno(BADF)
        node = fd.node
        if node is None:
            raise Errno(SPIPE)
        if not isinstance(node, File):
            raise Errno(BADF)
        if not fd.allowed & right:
            raise Errno(NOTCAPABLE)
        return fd, node

    # ---- reading and writing

    def fd_read(self, number: int, iovs: int, count: int, out: int) -> int:
        """Read into buffers at the position, and move it."""
        fd = self.fds.get(number)
        if fd is None or not fd.allowed & R_FD_READ:
            return BADF
        self.check(out, 4)
        vectors = self.iovecs(iovs, count)
        node = fd.node
        # The right to read is only ever held by files and streams.
        data = node.data if isinstance(node, File) else fd.content()
        done = self.scatter(vectors, data, fd.pos)
        fd.pos += done
        self.write_u32(out, done)
        return SUCCESS

    def fd_pread(self, number: int, iovs: int, count: int, offset: int, out: int) -> int:
        """Read into buffers at ``offset``; the position stays."""
        fd = self.fds.get(number)
        if fd is None:
            return BADF
        node = fd.node
        if node is None:
            return SPIPE
        if not fd.allowed & R_FD_READ or not isinstance(node, File):
            return BADF
        if not fd.allowed & R_FD_SEEK:
            return NOTCAPABLE
        if offset > I64_MAX:
            return INVAL
        self.check(out, 4)
        self.write_u32(out, self.scatter(self.iovecs(iovs, count), node.data, offset))
        return SUCCESS

    def fd_write(self, number: int, iovs: int, count: int, out: int) -> int:
        """Write buffers at the position, or at the end of a file that is open for appending."""
        fd = self.fds.get(number)
        if fd is None or not fd.allowed & R_FD_WRITE:
            return BADF
        self.check(out, 4)
        data = self.gather(iovs, count)
        node = fd.node
        if isinstance(node, File):
            position = len(node.data) if fd.flags & FD_APPEND else fd.pos
            self._store(fd, node, position, data, "fd_write")
            fd.pos = position + len(data)
        elif fd.out is not None:
            fd.out(data)
        self.write_u32(out, len(data))
        return SUCCESS

    def fd_pwrite(self, number: int, iovs: int, count: int, offset: int, out: int) -> int:
        """Write buffers at ``offset``; the position stays."""
        fd = self.fds.get(number)
        if fd is None:
            return BADF
        node = fd.node
        if node is None:
            return SPIPE
        if not fd.allowed & R_FD_WRITE or not isinstance(node, File):
            return BADF
        if not fd.allowed & R_FD_SEEK:
            return NOTCAPABLE
        if offset > I64_MAX:
            return INVAL
        self.check(out, 4)
        data = self.gather(iovs, count)
        # As POSIX says, and unlike Linux: the offset counts even where the descriptor appends.
        self._store(fd, node, offset, data, "fd_pwrite")
        self.write_u32(out, len(data))
        return SUCCESS

    def _store(self, fd: Fd, node: File, position: int, data: bytes, operation: str) -> None:
        if position + len(data) > I64_MAX:
            raise Errno(FBIG)
        try:
            node.write(position, data, self.clock.realtime())
        except Errno as error:
            self.refused(error, operation, fd.path)
            raise

    def fd_seek(self, number: int, offset: int, whence: int, out: int) -> int:
        """Move the position; any place from 0 to 2**63 - 1 is one."""
        fd, node = self._file(number, R_FD_SEEK)
        if whence == 0:
            start = 0
        elif whence == 1:
            start = fd.pos
        elif whence == 2:
            start = len(node.data)
        else:
            return INVAL
        position = start + (offset if offset <= I64_MAX else offset - (1 << 64))
        if not 0 <= position <= I64_MAX:
            return INVAL
        self.write_u64(out, position)
        fd.pos = position
        return SUCCESS

    def fd_tell(self, number: int, out: int) -> int:
        """Store the position."""
        fd, _ = self._file(number, R_FD_TELL)
        self.write_u64(out, fd.pos)
        return SUCCESS

    # ---- size, space, sync

    def fd_filestat_set_size(self, number: int, size: int) -> int:
        """ftruncate(2)."""
        fd = self.fds.get(number)
        if fd is not None and fd.node is None:
            return INVAL
        fd, node = self._file(number, R_FD_FILESTAT_SET_SIZE)
        if size > I64_MAX:
            return INVAL
        self._resize(fd, node, size, "fd_filestat_set_size")
        return SUCCESS

    def fd_allocate(self, number: int, offset: int, length: int) -> int:
        """posix_fallocate(3): the file is at least ``offset + length`` bytes afterwards."""
        fd, node = self._file(number, R_FD_ALLOCATE)
        if length == 0:
            return INVAL
        if offset + length > I64_MAX:
            return FBIG
        if offset + length > len(node.data):
            self._resize(fd, node, offset + length, "fd_allocate")
        return SUCCESS

    def _resize(self, fd: Fd, node: File, size: int, operation: str) -> None:
        try:
            node.resize(size, self.clock.realtime())
        except Errno as error:
            self.refused(error, operation, fd.path)
            raise

    def fd_advise(self, number: int, offset: int, length: int, advice: int) -> int:
        """posix_fadvise(2): checked, and without effect."""
        self._file(number, R_FD_ADVISE)
        return INVAL if advice > 5 else SUCCESS

    def fd_sync(self, number: int) -> int:
        """fsync(2): every write is already where it will stay."""
        return self._sync(number, R_FD_SYNC)

    def fd_datasync(self, number: int) -> int:
        """fdatasync(2), likewise."""
        return self._sync(number, R_FD_DATASYNC)

    def _sync(self, number: int, right: int) -> int:
        fd = self.fds.get(number)
        if fd is None or isinstance(fd.node, Dir):
            return BADF
        return SUCCESS if fd.allowed & right else NOTCAPABLE

    # ---- status

    def fd_fdstat_get(self, number: int, out: int) -> int:
        """Store type, flags and rights of the descriptor."""
        fd = self.fds.get(number)
        if fd is None:
            return BADF
        self.write(out, _fdstat(fd.filetype, fd.flags, fd.rights, fd.inheriting))
        return SUCCESS

    def fd_fdstat_set_flags(self, number: int, flags: int) -> int:
        """Replace the flags."""
        fd = self.fds.get(number)
        if fd is None or isinstance(fd.node, Dir):
            return BADF
        if not fd.allowed & R_FD_FDSTAT_SET_FLAGS:
            return NOTCAPABLE
        # Every write is visible at once and never blocks, so the sync and non-blocking flags hold by themselves.
        if flags & ~FD_FLAGS_ALL:
            return INVAL
        fd.flags = flags
        return SUCCESS

    def fd_fdstat_set_rights(self, number: int, rights: int, inheriting: int) -> int:
        """Drop rights; none ever comes back."""
        fd = self.fds.get(number)
        if fd is None:
            return BADF
        if rights & ~fd.rights or inheriting & ~fd.inheriting:
            return NOTCAPABLE
        # Only what the guest drops by name is taken from what it has without asking.
        fd.allowed &= ~(fd.rights & ~rights)
        fd.rights = rights
        fd.inheriting = inheriting
        return SUCCESS

    def store_filestat(self, node: Node, out: int) -> None:
        """Write a ``filestat``."""
        size = len(node.data) if isinstance(node, File) else 0
        stat = _filestat(node.fs.dev, node.ino, node.filetype, 1, size, node.atim, node.mtim, node.ctim)
        self.write(out, stat)

    def fd_filestat_get(self, number: int, out: int) -> int:
        """fstat(2)."""
        fd = self.descriptor(number, R_FD_FILESTAT_GET)
        if fd.node is None:
            self.write(out, _filestat(0, 0, fd.filetype, 1, 0, 0, 0, 0))
        else:
            self.store_filestat(fd.node, out)
        return SUCCESS

    def fd_filestat_set_times(self, number: int, atim: int, mtim: int, flags: int) -> int:
        """futimens(2)."""
        fd = self.fds.get(number)
        if fd is None or fd.node is None:
            return BADF
        if not fd.allowed & R_FD_FILESTAT_SET_TIMES:
            return NOTCAPABLE
        self.set_times(fd.node, atim, mtim, flags, "fd_filestat_set_times", fd.path)
        return SUCCESS

    def set_times(self, node: Node, atim: int, mtim: int, flags: int, operation: str, target: str) -> None:
        """Set times as ``fstflags`` says.  Raises INVAL on a contradiction, ROFS."""
        if flags & ~FST_ALL or flags & 3 == 3 or flags & 12 == 12:
            raise Errno(INVAL)
        now = self.clock.realtime()
        new_atim = atim if flags & FST_ATIM else now if flags & FST_ATIM_NOW else None
        new_mtim = mtim if flags & FST_MTIM else now if flags & FST_MTIM_NOW else None
        try:
            node.set_times(new_atim, new_mtim, now)
        except Errno as error:
            self.refused(error, operation, target)
            raise

    # ---- the table

    def fd_close(self, number: int) -> int:
        """close(2); any descriptor, preopens and streams too."""
        fd = self.fds.pop(number, None)
        if fd is None:
            return BADF
        if 3 <= number < self.next_fd:
            self.next_fd = number
        if fd.node is not None:
            fd.node.closed()
        return SUCCESS

    def fd_renumber(self, source: int, target: int) -> int:
        """dup2(2) and close of the source in one step; the target must be open."""
        fds = self.fds
        if source not in fds or target not in fds:
            return BADF
        if source != target:
            old = fds[target]
            fds[target] = fds.pop(source)
            if 3 <= source < self.next_fd:
                self.next_fd = source
            if old.node is not None:
                old.node.closed()
        return SUCCESS

    def fd_prestat_get(self, number: int, out: int) -> int:
        """Store the length of a preopened directory's name."""
        fd = self.fds.get(number)
        if fd is None or fd.preopen is None:
            return BADF
        self.write(out, b"\0\0\0\0" + len(fd.preopen).to_bytes(4, "little"))
        return SUCCESS

    def fd_prestat_dir_name(self, number: int, buffer: int, length: int) -> int:
        """Store the name of a preopened directory."""
        fd = self.fds.get(number)
        if fd is None or fd.preopen is None:
            return BADF
        if length < len(fd.preopen):
            return NAMETOOLONG
        self.write(buffer, fd.preopen)
        return SUCCESS

    # ---- directories

    def fd_readdir(self, number: int, buffer: int, length: int, cookie: int, out: int) -> int:
        """Fill a buffer with directory entries that follow ``cookie``."""
        fd = self.fds.get(number)
        if fd is None:
            return BADF
        node = fd.node
        if not isinstance(node, Dir):
            return NOTDIR
        if not fd.allowed & R_FD_READDIR:
            return NOTCAPABLE
        self.check(out, 4)
        self.check(buffer, length)
        chunks: list[bytes] = []
        used = 0
        # Cookies 1 and 2 follow `.` and `..`; above that they are serial numbers of entries, kept by the directory.
        if cookie == 0:
            chunks.append(_dirent(1, node.ino, 1, node.filetype) + b".")
            used += _DIRENT + 1
        if cookie <= 1:
            above = node.parent if node.parent is not None and fd.preopen is None else node
            chunks.append(_dirent(2, above.ino, 2, node.filetype) + b"..")
            used += _DIRENT + 2
        serials, names, at = node.after(cookie)
        entries = node.entries
        while used < length and at < len(names):
            name = names[at].encode()
            child = entries[names[at]]
            chunks.append(_dirent(serials[at], child.ino, len(name), child.filetype))
            chunks.append(name)
            used += _DIRENT + len(name)
            at += 1
        # A full buffer, even with a cut entry at its end, tells the guest to ask again; a shorter one is the end.
        data = b"".join(chunks)[:length]
        self.write(buffer, data)
        self.write_u32(out, len(data))
        return SUCCESS
