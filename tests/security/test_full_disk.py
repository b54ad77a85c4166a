"""A disk that a plugin has filled to the last block: it is stopped all the same, by this process and by another."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from mounting import mounted

import fastness
import house
from fastness.errors import BackendError, ConfigurationError, FastnessError
from fastness.plugins.states import State
from fastness.runs import OutcomeKind
from plugin_homes import STORAGE, own_home, package

DISK = ["-t", "tmpfs", "-o", "size=12m,mode=0700", "none"]


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir(mode=0o700)
    with mounted(DISK, disk, lazy=True), own_home(disk):
        yield disk


@pytest.fixture
def host(base: Path, tmp_path: Path) -> Iterator[fastness.PluginHost]:
    with fastness.PluginHost() as made:
        folder = package(tmp_path / "p", {"a.txt": "one"}, runtime="data", capabilities=[STORAGE])
        made.install(folder)
        made.grant("hello", owner="ann", all=True)
        made.call("hello", "storage.put", {"key": "a", "value": 1}, owner="ann")
        yield made


def fill(base: Path) -> None:
    """To the last block."""
    with open(base / "full", "ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(OSError, match="No space"):
        (base / "more").write_bytes(b"x")


def ends(host: fastness.PluginHost, way: str) -> None:
    # The trail has no room left either; what ends a plugin ends it first.
    with contextlib.suppress(BackendError):
        host.revoke("hello", owner="ann") if way == "revoke" else getattr(host, way)("hello")


STATES = {
    "revoke": State.AWAITING_GRANT,
    "disable": State.DISABLED,
    "quarantine": State.QUARANTINED,
    "remove": State.REMOVED,
}


@pytest.mark.parametrize("way", STATES)
def test_what_ends_a_plugin_needs_no_room(way: str, base: Path, host: fastness.PluginHost) -> None:
    """It is in the store, where every process finds it, and no call goes through any more."""
    fill(base)
    ends(host, way)
    known = host._inner._core.store.plugin("hello")
    assert known is not None and known.state is STATES[way]
    with pytest.raises(FastnessError):
        host.call("hello", "storage.get", {"key": "a"}, owner="ann")


def test_a_violation_on_a_full_disk(base: Path, host: fastness.PluginHost) -> None:
    """It quarantines, and is not forgotten for want of room."""
    _, policy = host._inner._core.may("hello", "ann")
    fill(base)
    host._inner._misbehaved(policy, "run", OutcomeKind.PROTOCOL)
    assert host._inner._core.store.plugin("hello").state is State.QUARANTINED  # type: ignore[union-attr]


def test_where_the_room_is_gone_too(base: Path, host: fastness.PluginHost) -> None:
    """The control: nothing can be written.  This process refuses all the same, and writes it once there is room."""
    (base / "data" / "plugins.room").unlink()
    fill(base)
    with pytest.raises(BackendError, match="no more meanwhile"):
        host.disable("hello")
    store = host._inner._core.store
    assert store.plugin("hello").state is State.ENABLED  # type: ignore[union-attr]
    with pytest.raises(BackendError, match="it was stopped"):
        host.call("hello", "storage.get", {"key": "a"}, owner="ann")
    (base / "full").unlink()
    with pytest.raises(ConfigurationError, match="disabled"):
        host.call("hello", "storage.get", {"key": "a"}, owner="ann")
    assert store.plugin("hello").state is State.DISABLED  # type: ignore[union-attr]
    # Nothing is granted before there is room to take it away again.
    assert (base / "data" / "plugins.room").stat().st_blocks * 512 >= 1 << 20


def test_a_process_that_comes_when_the_disk_is_full(base: Path, host: fastness.PluginHost) -> None:
    """The command line opens everything anew, and ends the plugin."""
    host.close()
    fill(base)
    code = f"""
    import sys
    sys.path.insert(0, {str(Path(house.__file__).parent)!r})
    from pathlib import Path
    from plugin_homes import own_home
    from fastness.plugins.store import Store
    with own_home(Path({str(base)!r})):
        print(Store({{}}).revoke("hello", "ann"))
    """
    text = "\n".join(line[4:] for line in code.split("\n"))
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "1\n", done.stderr


def test_nothing_is_granted_without_room(base: Path, host: fastness.PluginHost) -> None:
    """What could not be taken away is not given."""
    (base / "data" / "plugins.room").unlink()
    fill(base)
    with pytest.raises(BackendError, match=r"room|full"):
        host.grant("hello", owner="bob", all=True)
