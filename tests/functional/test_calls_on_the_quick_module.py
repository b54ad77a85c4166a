"""
Runs with calls while only the reduced Python guest is compiled: they do not wait, and nothing is done twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import wasm_support
from ctx_support import Host

from fastness._wasi.cache import Cache
from fastness.backends import materials, wasm
from fastness.runs import OutcomeKind, PluginCall
from fastness.waiting import ThreadWaiting, drive

#: What a look at a program's text does not find.
HIDDEN = "__import__('num' + 'py').arange(4).sum().item()"


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory) -> Cache:
    """A cache in which nothing but the reduced guest is, or comes to be."""
    wasm_support.require_python_guest()
    folder = tmp_path_factory.mktemp("reduced")
    folder.chmod(0o700)
    return Cache(str(folder / "guests"))


@pytest.fixture
def host(reduced: Cache, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """A backend that finds the reduced guest where that will do, and the whole one, compiled before, where it must."""
    get = materials.get

    def found(runtime: str, preload: tuple[str, ...], want: str, *_: Any) -> materials.Materials:
        return get(runtime, preload, want, None, background=False, cache=reduced if want == "any" else None)

    monkeypatch.setattr(materials, "get", found)
    backend = wasm.WasmBackend(waiting=ThreadWaiting(), engines=2)
    yield Host(backend, "python")
    drive(backend.aclose())


def variants(host: Host) -> list[str]:
    """Which modules were used, in their order."""
    backend: Any = host.backend
    return [held.variant for held, _ in backend._known.values()]


def test_calls_do_not_wait_for_the_whole(host: Host) -> None:
    """A program with functions and a ctx, and a plugin's method, on the interpreter alone."""
    assert host.value("ctx.box.put('a', [1]); import json, zlib\nadd(41)") == 42
    assert host.box.values == {"a": [1]}
    method = PluginCall(module="main", method="go", arguments={"x": 2}, sources={"main.py": "def go(ctx, x): return x"})
    assert host.value("", plugin=method) == 2
    assert variants(host) == ["quick"]


def test_a_package_before_any_call(host: Host) -> None:
    """The run begins anew on the whole module, and what it logged is told once."""
    report = host.run(f"ctx.log('info', 'one'); sum = {HIDDEN}\nctx.log('info', 'two'); ctx.box.put('a', sum)\nsum")
    assert (report.outcome.kind, report.value) == (OutcomeKind.OK, 6), report.stderr
    assert variants(host) == ["full"]
    assert (host.box.began, host.box.values) == (["put"], {"a": 6})
    assert [data["text"] for name, data in host.events if name == "log"] == ["one", "two"]


def test_a_package_after_a_call(host: Host) -> None:
    """It is ended with the reason: what the call did is not done a second time.  The host goes on."""
    report = host.run(f"ctx.box.put('a', 1); {HIDDEN}")
    assert report.outcome.kind is OutcomeKind.GUEST_ERROR
    assert "still being compiled" in report.outcome.detail and "fastness guest build" in report.outcome.detail
    assert (host.box.began, host.box.values, report.usage.calls) == (["put"], {"a": 1}, 1)
    assert [row[0] for row in host.paper.rows] == ["intent", "outcome"]
    assert host.value("add(1)") == 2
    assert variants(host) == ["quick"]


@pytest.mark.parametrize("where", ["program", "module", "source"])
def test_a_package_that_the_text_names(host: Host, where: str) -> None:
    """It waits for the whole module from the start, so that a call before the import is no hindrance."""
    code = "import numpy\nnumpy.arange(4).sum().item()"
    if where == "program":
        report = host.run(f"ctx.box.put('a', 1); {code}")
    elif where == "module":
        files = {"helper.py": b"def total():\n    import numpy\n    return numpy.arange(4).sum().item()\n"}
        report = host.run(
            "ctx.box.put('a', 1); import sys; sys.path.insert(0, '/work'); import helper; helper.total()", files=files
        )
    else:
        text = "def go(ctx):\n    ctx.box.put('a', 1)\n    import numpy\n    return numpy.arange(4).sum().item()\n"
        report = host.run("", plugin=PluginCall(module="main", method="go", arguments={}, sources={"main.py": text}))
    assert (report.outcome.kind, report.value) == (OutcomeKind.OK, 6), report.stderr
    assert (host.box.began, variants(host)) == (["put"], ["full"])
