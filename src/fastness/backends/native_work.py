"""
What a native guest is given to do: its files, its standard input, and the invoke that tells it.
"""

from __future__ import annotations

import os

import msgspec

from fastness.backends import native_config
from fastness.backends.base import Staged
from fastness.backends.native_family import Guest
from fastness.backends.native_talk import encode_command, invoke_head
from fastness.runner import filling
from fastness.runs import RunRequest
from fastness.wire import messages as m


def fill(guest: Guest, staged: Staged) -> None:
    """Put a run's files into the guest's work folder.  Raises StagingError."""
    if staged.project is not None:
        filling.fill(staged.project, guest.box.work, uid=guest.uid, gid=guest.uid, files=staged.files)
    else:
        filling.fill_files(staged.files, guest.box.work, uid=guest.uid, gid=guest.uid)


def invoke(guest: Guest, request: RunRequest, operation: str, session: int) -> tuple[m.Invoke, bytes]:
    """The head of an invoke and its blob."""
    code = (request.code or "").encode()
    if request.runtime == "command":
        assert request.command is not None
        code = encode_command(request.command)
        request = msgspec.structs.replace(request, env={**native_config.command_environment(), **request.env})
    return invoke_head(guest.box.next_id(), request, operation, session, code), code


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def memory_file(content: bytes) -> int:
    """A sealed file in memory with this content, at its start."""
    from fastness._linux import memory

    fd = memory.memory_file()
    try:
        _write_all(fd, content)
        os.lseek(fd, 0, os.SEEK_SET)
        memory.seal(fd)
    except BaseException:
        os.close(fd)
        raise
    return fd
