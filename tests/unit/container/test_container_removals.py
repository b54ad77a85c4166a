"""
Containers that an engine does not remove: each is tried, and only the first is waited for as long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastness._container import containers
from fastness._container.endpoint import Endpoint
from fastness._container.faults import EngineFault
from fastness._container.probe import Engine
from fastness.backends.container_stock import Stock
from fastness.waiting import ThreadWaiting

if TYPE_CHECKING:
    import pytest

ENGINE = Engine(endpoint=Endpoint(path="/x"), kind="docker", version="1", api="1.41")


def test_an_engine_that_is_silent_is_not_waited_for_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    removed: list[str] = []
    silent = True

    def remove(engine: Engine, name: str, seconds: float = containers.END_S) -> None:
        waited.append(seconds)
        if silent:
            raise EngineFault("silent", "it did not answer")
        removed.append(name)

    monkeypatch.setattr(containers, "remove", remove)
    stock: Any = Stock(ThreadWaiting(), None)
    for name in ("a", "b", "c"):
        stock._remove(name, ENGINE)
    assert waited == [containers.END_S, 1.0, 1.0]
    assert stock.left() == ["a", "b", "c"]
    silent = False
    stock._remove("d", ENGINE)
    assert (removed, stock.left()) == (["a", "b", "c", "d"], [])
    # One that answers again is given its time again.
    assert waited[-1] == containers.END_S
