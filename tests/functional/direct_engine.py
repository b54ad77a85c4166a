"""An engine spoken to directly: how a run's instance was made, and whether what waits is the image."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import fastness
from fastness.backends.conversation import _head
from fastness.backends.engine_process import EngineProcess
from fastness.runner import request as requests
from fastness.waiting import drive
from fastness.wire import messages as m


def idle_engines(box: fastness.Sandbox) -> list[EngineProcess]:
    """The engines of a sandbox that wait."""
    backend: Any = box._inner._runner._backends["wasm"]
    return [engine for _, pool in backend._pools.values() for engine in pool.waiting]


async def _ask(engine: EngineProcess, operation: str, code: str, options: dict[str, Any]) -> m.Result:
    request = requests.make(code, options, {})
    source = code.encode()
    await engine.invoke(_head(engine.next_id(), request, operation, 0, source), source)
    while True:
        message, _ = await engine.receive()
        if isinstance(message, m.Result):
            return message
        assert not isinstance(message, m.Error), message


def ask(engine: EngineProcess, operation: str, code: str = "", **options: Any) -> m.Result:
    """The engine's result for one invoke, as it came."""
    return drive(_ask(engine, operation, code, options))


def is_the_image(box: fastness.Sandbox) -> bool:
    """Whether the instances that wait in all engines of a sandbox are byte for byte their images."""
    engines = idle_engines(box)
    assert engines, "no engine waits, so nothing was compared"
    return all(ask(engine, "compare").ending == "returned" for engine in engines)


@contextmanager
def lone_engine(box: fastness.Sandbox, runtime: str = "python") -> Iterator[EngineProcess]:
    """The one waiting engine of a sandbox, taken out of its pool for as long as the block lasts."""
    box.run("1", runtime=runtime)
    backend: Any = box._inner._runner._backends["wasm"]
    (pool,) = [pool for key, (_, pool) in backend._pools.items() if key[0] == runtime]
    (engine,) = pool.waiting
    assert drive(pool.acquire()) is engine
    try:
        yield engine
    finally:
        pool.release(engine, True)
