"""
The first sink: an append-only file of JSON lines, one chained record a line.

Writers of several processes take turns by a lock on the file.  A record is on disk before the call returns, so that
what it announces cannot happen unrecorded.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from fastness.audit.record import GENESIS, AuditRecord, intact, seal
from fastness.errors import BackendError

_TAIL = 64 << 10


class FileLog:
    """An audit trail in a file.  The folder must exist and belong to this user."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, **fields: Any) -> AuditRecord:
        """
        Add a record and wait until it is on disk.  Raises BackendError: then nothing must happen that it announces.
        """
        try:
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            descriptor = os.open(self.path, flags, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                last = _last(descriptor)
                record = seal(
                    AuditRecord(
                        seq=last.seq + 1 if last is not None else 1,
                        at=round(time.time(), 6),
                        prev_hash=last.hash if last is not None else GENESIS,
                        **fields,
                    )
                )
                line = msgspec.json.encode(record) + b"\n"
                if os.write(descriptor, line) != len(line):
                    raise OSError("the disk is full")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except (OSError, msgspec.MsgspecError) as error:
            raise BackendError("writing the audit trail", f"{self.path}: {error}", "make the file writable") from error
        return record

    def records(self) -> Iterator[AuditRecord]:
        """All records, oldest first.  Raises ``msgspec.DecodeError`` on a damaged line."""
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            for line in stream:
                yield msgspec.json.decode(line, type=AuditRecord)

    def verify(self) -> int | None:
        """The line number of the first record that does not fit its chain, or None where all do."""
        previous = GENESIS
        number = 0
        try:
            for number, record in enumerate(self.records(), 1):  # used after a failure
                if not intact(record, previous):
                    return number
                previous = record.hash
        except msgspec.MsgspecError:
            return number + 1
        return None


def _last(descriptor: int) -> AuditRecord | None:
    size = os.fstat(descriptor).st_size
    if not size:
        return None
    tail = os.pread(descriptor, _TAIL, max(0, size - _TAIL)).rstrip(b"\n")
    return msgspec.json.decode(tail.rpartition(b"\n")[2], type=AuditRecord)
