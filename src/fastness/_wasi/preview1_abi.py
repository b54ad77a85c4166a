"""
Numbers of the WASI preview 1 binary interface, and the exception that carries an errno.

Source: the ``wasi_snapshot_preview1`` witx definition ("WASI application binary interface", preview 1).
Only what this host uses is named.
"""

from __future__ import annotations

# errno
SUCCESS = 0
BADF = 8
BUSY = 10
EXIST = 20
FAULT = 21
FBIG = 22
ILSEQ = 25
INVAL = 28
ISDIR = 31
MFILE = 33
NAMETOOLONG = 37
NOENT = 44
NOSPC = 51
NOSYS = 52
NOTDIR = 54
NOTEMPTY = 55
NOTSOCK = 57
NOTSUP = 58
PERM = 63
ROFS = 69
SPIPE = 70
XDEV = 75
NOTCAPABLE = 76
#: The largest errno that preview 1 defines; every import returns a number from 0 to this.
ERRNO_MAX = 76

# filetype
TYPE_UNKNOWN = 0
TYPE_CHARACTER_DEVICE = 2

# rights
R_FD_DATASYNC = 1 << 0
R_FD_READ = 1 << 1
R_FD_SEEK = 1 << 2
R_FD_FDSTAT_SET_FLAGS = 1 << 3
R_FD_SYNC = 1 << 4
R_FD_TELL = 1 << 5
R_FD_WRITE = 1 << 6
R_FD_ADVISE = 1 << 7
R_FD_ALLOCATE = 1 << 8
R_PATH_CREATE_DIRECTORY = 1 << 9
R_PATH_CREATE_FILE = 1 << 10
R_PATH_LINK_SOURCE = 1 << 11
R_PATH_LINK_TARGET = 1 << 12
R_PATH_OPEN = 1 << 13
R_FD_READDIR = 1 << 14
R_PATH_READLINK = 1 << 15
R_PATH_RENAME_SOURCE = 1 << 16
R_PATH_RENAME_TARGET = 1 << 17
R_PATH_FILESTAT_GET = 1 << 18
R_PATH_FILESTAT_SET_SIZE = 1 << 19
R_PATH_FILESTAT_SET_TIMES = 1 << 20
R_FD_FILESTAT_GET = 1 << 21
R_FD_FILESTAT_SET_SIZE = 1 << 22
R_FD_FILESTAT_SET_TIMES = 1 << 23
R_PATH_SYMLINK = 1 << 24
R_PATH_REMOVE_DIRECTORY = 1 << 25
R_PATH_UNLINK_FILE = 1 << 26
R_POLL_FD_READWRITE = 1 << 27
R_ALL = (1 << 30) - 1

#: Rights that mean something on a regular file; others are dropped when one is opened.
RIGHTS_FILE = (
    R_FD_DATASYNC
    | R_FD_READ
    | R_FD_SEEK
    | R_FD_FDSTAT_SET_FLAGS
    | R_FD_SYNC
    | R_FD_TELL
    | R_FD_WRITE
    | R_FD_ADVISE
    | R_FD_ALLOCATE
    | R_FD_FILESTAT_GET
    | R_FD_FILESTAT_SET_SIZE
    | R_FD_FILESTAT_SET_TIMES
    | R_POLL_FD_READWRITE
)
#: Rights that mean something on a directory.
RIGHTS_DIRECTORY = (
    R_PATH_CREATE_DIRECTORY
    | R_PATH_CREATE_FILE
    | R_PATH_LINK_SOURCE
    | R_PATH_LINK_TARGET
    | R_PATH_OPEN
    | R_FD_READDIR
    | R_PATH_READLINK
    | R_PATH_RENAME_SOURCE
    | R_PATH_RENAME_TARGET
    | R_PATH_FILESTAT_GET
    | R_PATH_FILESTAT_SET_SIZE
    | R_PATH_FILESTAT_SET_TIMES
    | R_FD_FILESTAT_GET
    | R_FD_FILESTAT_SET_TIMES
    | R_PATH_SYMLINK
    | R_PATH_REMOVE_DIRECTORY
    | R_PATH_UNLINK_FILE
)
_STREAM = R_FD_FDSTAT_SET_FLAGS | R_FD_SYNC | R_FD_DATASYNC | R_FD_FILESTAT_GET | R_POLL_FD_READWRITE
RIGHTS_STREAM_IN = _STREAM | R_FD_READ
RIGHTS_STREAM_OUT = _STREAM | R_FD_WRITE

# fdflags, oflags, fstflags, lookupflags
FD_APPEND = 1
FD_FLAGS_ALL = 31
O_CREAT = 1
O_DIRECTORY = 2
O_EXCL = 4
O_TRUNC = 8
O_ALL = 15
FST_ATIM = 1
FST_ATIM_NOW = 2
FST_MTIM = 4
FST_MTIM_NOW = 8
FST_ALL = 15
LOOKUP_ALL = 1

I64_MAX = (1 << 63) - 1
U64_MAX = (1 << 64) - 1


class Errno(Exception):
    """
    A call ends with this errno.

    ``quota`` is true where a cap of ours, not the guest's own mistake, is the reason: it becomes a denial.
    """

    __slots__ = ("code", "quota")

    def __init__(self, code: int, quota: bool = False) -> None:
        self.code = code
        self.quota = quota


class ProcExit(Exception):
    """The guest called ``proc_exit``; ``code`` is its exit code, 0 to 2**32 - 1."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code
