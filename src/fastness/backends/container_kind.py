"""
From a request to the kind of container that serves it: what it is made of, and every limit that it gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastness._container import bind, gvisor
from fastness._container.spec import SHM, SMALL, TMP, Ask
from fastness.backends import native_config
from fastness.backends.container_box import Kind
from fastness.errors import ConfigurationError
from fastness.limits import MIB

if TYPE_CHECKING:
    from fastness._container.bind import Bind
    from fastness._container.probe import Engine
    from fastness.backends.container_access import Access
    from fastness.brokered import Calls
    from fastness.runs import RunRequest

#: Bytes that a warm interpreter, and each module that it has imported ahead, takes of a container's memory.
_BASE, _BASE_PRELOAD, _BASE_MOST = 64 * MIB, 64 * MIB, 512 * MIB
#: Processes of ours in a container.
_OWN_PROCESSES = 1


def kind(request: RunRequest, access: Access, cpus: float) -> Kind:
    """The kind of container for a request.  Blocks.  Raises TierUnavailable, ConfigurationError."""
    limits, engine = request.limits, access.engine()
    preload = native_config.check_preload(request.preload or ())
    base = min(_BASE + _BASE_PRELOAD * len(preload), _BASE_MOST)
    tmp = min(TMP, max(limits.file_bytes, SMALL))
    bound = _bound(request, engine)
    # What is in a tmpfs is memory; what is in a bound folder is not.
    memory = limits.memory + (limits.file_bytes if bound is None else 0) + base + tmp + SHM
    pids = limits.pids + _OWN_PROCESSES
    is_gvisor = gvisor.is_gvisor(engine, access.runtime)
    if is_gvisor:
        if bound is not None:
            raise ConfigurationError("bind", request.bind, "nothing with gVisor: no folder can be told from another")
        memory, pids = memory + gvisor.MEMORY, pids + gvisor.PIDS
    ask = Ask(
        memory=memory,
        tmp=tmp,
        work=max(limits.file_bytes, 4096),
        files=limits.files,
        pids=pids,
        fds=limits.fds,
        cpus=cpus,
        programs=request.runtime == "command",
        runtime=access.runtime,
        bind=bound,
    )
    return Kind(
        image=access.image(request.image).id,
        python=request.runtime == "python",
        ask=ask,
        preload=preload,
        memory=limits.memory,
        file_bytes=limits.file_bytes,
        fds=limits.fds,
        stack=request.stack or 0,
        gvisor=is_gvisor,
    )


def _bound(request: RunRequest, engine: Engine) -> Bind | None:
    """The folder that is /work itself, where the request names one.  Raises ConfigurationError."""
    if request.bind is None:
        return None
    if not engine.endpoint.local:
        raise ConfigurationError("bind", request.bind, "nothing: the engine is over a network, on other folders")
    return bind.look(request.bind, engine.endpoint.path)


def check(request: RunRequest, calls: Calls | None = None) -> None:
    """Refuse what this tier has not.  Raises ConfigurationError."""
    if request.time is not None:
        raise ConfigurationError("time", request.time, "the tier wasm: a container's clock cannot be stopped")
    if request.preopens is not None:
        raise ConfigurationError("preopens", request.preopens, "the runtime wasi, which has preopened folders")
    if request.packages:
        fix = "packages of the image: fastness image build --with NAME,NAME"
        raise ConfigurationError("packages", request.packages[0], fix)
    if calls is not None and request.runtime == "command":
        raise ConfigurationError("runtime", "command", "python: a program gets no ctx")
