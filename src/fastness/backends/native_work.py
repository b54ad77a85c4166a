"""
What a native guest is given to do: its files, its standard input, and the invoke that tells it.
"""

from __future__ import annotations

import msgspec

from fastness.backends import native_config
from fastness.backends.base import Staged
from fastness.backends.native_guest import Guest
from fastness.brokered import Calls
from fastness.errors import ConfigurationError
from fastness.runner import filling
from fastness.runs import RunRequest
from fastness.wire import messages as m


def check(request: RunRequest, calls: Calls | None = None) -> None:
    """Refuse what only other tiers can do.  Raises ConfigurationError."""
    if request.time is not None:
        raise ConfigurationError("time", request.time, "the tier wasm: a native guest's clock cannot be stopped")
    if request.preopens is not None:
        raise ConfigurationError("preopens", request.preopens, "the runtime wasi, which has preopened folders")
    if request.image is not None:
        raise ConfigurationError("image", request.image, "the tier container")
    if calls is not None and request.runtime == "command":
        raise ConfigurationError("runtime", "command", "python or javascript: a program gets no ctx")


def fill(guest: Guest, staged: Staged) -> None:
    """Put a run's files into the guest's work folder.  Raises StagingError."""
    if staged.project is not None:
        filling.fill(staged.project, guest.box.work, uid=guest.uid, gid=guest.uid, files=staged.files)
    else:
        filling.fill_files(staged.files, guest.box.work, uid=guest.uid, gid=guest.uid)


def invoke(
    guest: Guest, request: RunRequest, operation: str, session: int, context: bytes = b""
) -> tuple[m.Invoke, bytes]:
    """The head of an invoke and its blob, for a guest that is about to get them; ``context`` is what its ctx is."""
    guest.in_doubt = True
    code = (request.code or "").encode()
    if request.runtime == "command":
        assert request.command is not None
        code = encode_command(request.command)
        request = msgspec.structs.replace(request, env={**native_config.command_environment(), **request.env})
    return invoke_head(guest.box.next_id(), request, operation, session, code, context), code + context


def invoke_head(
    invoke: int, request: RunRequest, operation: str, session: int, code: bytes, context: bytes = b""
) -> m.Invoke:
    """The head of an invoke: what the guest's own code needs to know of a request."""
    environment = tuple(request.env.items())
    return m.Invoke(
        id=invoke,
        op=operation,  # type: ignore[arg-type]  # one of the literals, by the callers
        session=session,
        code_len=len(code),
        context_len=len(context),
        args=request.args,
        env=environment,
        seed=request.seed,
        filename=request.filename,
    )


def encode_command(command: tuple[str, ...]) -> bytes:
    """The arguments of a program as its first process reads them."""
    return msgspec.json.encode(command)
