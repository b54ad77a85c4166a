"""
A number that all processes of one store share, and that changes with every change of the store.

A broker must know at every call whether the grant behind it still stands.  Asking the database costs 7 µs, its
``PRAGMA data_version`` 5 µs, a ``pread`` of a number 0.8 µs and a switch of threads, and a look at shared memory 0.1 µs
(all measured).  So the number is in a file of eight bytes that is mapped (``mmap(2)``, ``MAP_SHARED``), and the rule is
that of a sequence lock.  A writer holds the file locked (``flock(2)``), makes the number odd, commits to the database,
and makes it even again before it returns.  A reader that sees the even number at which it last asked the database knows
that nothing was committed since.  One that sees an odd number, or another one, asks the database.

A writer that is killed leaves an odd number: readers ask the database at every call, which is slow and right, until the
next writer.  Writers write with ``pwrite``, so that a full disk is an error and not a signal; the low byte tells odd
from even, so a number that is half written is never the one that a reader has seen.

The file belongs to the database beside it, as ``-wal`` and ``-shm`` do: whoever removes one of them while hosts run
takes away what they agree by.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import stat
import struct
import threading
import time
import weakref
from collections.abc import Callable, Iterator

from fastness.errors import BackendError

__all__ = ["Changes"]

#: Native order: it is shared memory of one machine, read and written as the processor does.
_NUMBER = struct.Struct("=Q")
_STEP_S = 0.002


def _nothing() -> None:
    """What ends where nothing was begun."""


class Changes:
    """
    The number of one store, in the file ``path``.  Any thread may use it; after a fork the child locks for itself.

    Raises BackendError where the file cannot be made, mapped or locked.
    """

    def __init__(self, path: str, *, patience_s: float = 2.0) -> None:
        self.path = path
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._descriptor = -1
        self._end: Callable[[], object] = _nothing
        self._open()

    def _open(self) -> None:
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(self.path, flags, 0o600)
            try:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
                    raise OSError(1, "it is not a file of this user alone")
                self._await(descriptor)
                # Its blocks exist from here on: mapping never meets a hole that a full disk could not fill.
                if os.fstat(descriptor).st_size < _NUMBER.size:
                    os.pwrite(descriptor, bytes(_NUMBER.size), 0)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                mapped = mmap.mmap(descriptor, _NUMBER.size, mmap.MAP_SHARED, mmap.PROT_READ)
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise self._failed("opening the plugin store", error) from error
        self._end()
        self._descriptor = descriptor
        # Watches may look at the number for as long as they are there, so this goes with the last of them and not with
        # a call of its owner's; what is mapped goes with the views of it.
        self._end = weakref.finalize(self, os.close, descriptor)
        self._identity = status.st_dev, status.st_ino
        #: The number is ``view[0]``.
        self.view = memoryview(mapped).cast("Q")

    @property
    def value(self) -> int:
        """The number as it is now; odd while somebody writes, or where somebody was killed who did."""
        return int(self.view[0])

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """
        Whatever the block commits is seen by every check, in any process, that begins after this has returned.

        Where the block raises, others ask the database once more and find what is there.
        """
        self._own()
        if not self._lock.acquire(timeout=self._patience_s):
            raise self._failed("changing the plugin store", TimeoutError("another thread holds it"))
        try:
            self._take()
            try:
                now = self.value
                odd = now + 2 if now % 2 else now + 1
                self._put(odd)
                try:
                    yield
                finally:
                    # Where this fails the number stays odd, which is slow and right.
                    with contextlib.suppress(BackendError):
                        self._put(odd + 1)
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self._lock.release()

    def _own(self) -> None:
        """A child that was forked off has its parent's open file, and with it the parent's lock: it opens its own."""
        if self._pid != os.getpid():
            self._pid, self._lock = os.getpid(), threading.Lock()
            self._open()

    def _take(self) -> None:
        """Lock the file that is at the path now."""
        for _ in range(8):
            try:
                self._await(self._descriptor)
                there = os.stat(self.path, follow_symlinks=False)
                if (there.st_dev, there.st_ino) == self._identity:
                    return
            except FileNotFoundError:
                pass
            except OSError as error:
                raise self._failed("changing the plugin store", error) from error
            # Somebody replaced it.  Those who still look at the old one ask the database from now on.
            if self.value % 2 == 0:
                self._put(self.value + 1)
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            self._open()
        raise self._failed("changing the plugin store", OSError(11, "it is replaced again and again"))

    def _await(self, descriptor: int) -> None:
        ends = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() >= ends:
                    raise TimeoutError(11, "another process holds it") from None
                time.sleep(_STEP_S)

    def _put(self, number: int) -> None:
        try:
            if os.pwrite(self._descriptor, _NUMBER.pack(number), 0) != _NUMBER.size:
                raise OSError(28, "the disk is full")
        except OSError as error:
            raise self._failed("changing the plugin store", error) from error

    def _failed(self, step: str, error: OSError) -> BackendError:
        if isinstance(error, TimeoutError):
            hint = "another process holds it: find out which and let it end"
        else:
            hint = "free space on the device, and make the file readable and writable for this user alone"
        return BackendError(step, f"{self.path}: {error.strerror or error}", hint)
