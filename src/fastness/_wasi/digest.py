"""
Digests of large files: SHA-256 over the SHA-256 of each 16 MiB piece, taken by two threads.

Only ``pread`` is used: a mapping of a file that shrinks meanwhile would kill the process with SIGBUS.
"""

from __future__ import annotations

import hashlib
import os
import threading

#: Bytes of one piece.  Part of the format: another size gives another digest.
PIECE = 16 << 20
_BUFFER = 256 << 10
_THREADS = 2


def tree_digest(fd: int, size: int) -> str:
    """
    Hexadecimal tree digest of the first ``size`` bytes behind ``fd``.

    The descriptor's offset is not used or moved.  Raises ``OSError`` where the file is shorter or unreadable.
    """
    pieces = max(1, -(-size // PIECE))
    digests: list[bytes] = [b""] * pieces
    failures: list[OSError] = []

    def work(first: int) -> None:
        try:
            view = memoryview(bytearray(_BUFFER))
            for piece in range(first, pieces, _THREADS):
                digests[piece] = _piece(fd, piece * PIECE, min(size, (piece + 1) * PIECE), view)
        except OSError as error:
            failures.append(error)

    helper = threading.Thread(target=work, args=(1,), daemon=True) if pieces > 1 else None
    if helper is not None:
        helper.start()
    work(0)
    if helper is not None:
        helper.join()
    if failures:
        raise failures[0]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _piece(fd: int, start: int, stop: int, view: memoryview) -> bytes:
    sha = hashlib.sha256()
    while start < stop:
        got = os.preadv(fd, [view[: min(len(view), stop - start)]], start)
        if got == 0:
            raise OSError(5, "the file is shorter than it should be")
        sha.update(view[:got])
        start += got
    return sha.digest()


def sha256_file(fd: int) -> str:
    """Plain hexadecimal SHA-256 of a whole file.  The descriptor's offset is not used or moved."""
    sha = hashlib.sha256()
    view = memoryview(bytearray(_BUFFER))
    offset = 0
    while got := os.preadv(fd, [view], offset):
        sha.update(view[:got])
        offset += got
    return sha.hexdigest()
