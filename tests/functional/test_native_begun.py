"""A zygote that was started before anybody asked for one serves who asks for the very same, and ends otherwise."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import fastness
import house
from fastness._linux import procs
from fastness.backends import native_ahead
from fastness.backends.zygote_process import ZygoteProcess

TIERS = ("isolated", "confined")


@pytest.fixture(autouse=True)
def _nothing_begun() -> Iterator[None]:
    yield
    native_ahead.drop()


def begun(tier: str, kind: str = "python") -> ZygoteProcess:
    """A zygote that nobody has asked for yet."""
    house.require(f"{tier} tier")
    native_ahead.begin(tier, kind)
    ((_, _, zygote),) = native_ahead._begun
    return zygote


def zygotes(box: fastness.Sandbox) -> list[ZygoteProcess | None]:
    """Those that a sandbox's guests are made of, without those of the proofs."""
    (backend,) = box._inner._runner._backends.values()
    families = backend._families._by_key  # type: ignore[attr-defined]
    return [family._zygote for key, family in families.items() if key[3] == "default"]


@pytest.mark.parametrize("tier", TIERS)
def test_it_serves_who_asks_for_the_same(tier: str) -> None:
    """It is taken once, and is like any other from then on: the next sandbox has one of its own."""
    zygote = begun(tier)
    with fastness.Sandbox(tier=tier, pool=0) as box, fastness.Sandbox(tier=tier, pool=0) as other:
        assert box.run("6 * 7").value == 42
        assert zygotes(box) == [zygote]
        assert not native_ahead._begun
        assert other.run("6 * 7").value == 42
        assert zygote not in zygotes(other)
    assert zygote.process.poll() is not None


@pytest.mark.parametrize(
    ("tier", "options"), [("confined", {}), ("isolated", {"preload": ("json",)}), ("isolated", {"packages": ()})]
)
def test_it_serves_nobody_who_asks_for_something_else(tier: str, options: dict[str, tuple[str, ...]]) -> None:
    """Another tier, other modules or other folders of packages; it stays until it is dropped."""
    house.require(f"{tier} tier")
    zygote = begun("isolated")
    with fastness.Sandbox(tier=tier, pool=0) as box:
        assert box.run("6 * 7", **options).value == 42
        assert zygote not in zygotes(box)
    assert zygote.alive
    family = procs.descendants(zygote.process.pid)
    native_ahead.drop()
    assert zygote.process.poll() is not None
    assert procs.wait_for_all({pid: procs.start_time(pid) or 0 for pid in family}, 5.0)


def test_one_that_has_ended_is_not_taken() -> None:
    """Who asks gets a new one."""
    zygote = begun("isolated")
    zygote.process.kill()
    zygote.process.wait()
    with fastness.Sandbox(tier="isolated", pool=0) as box:
        assert box.run("6 * 7").value == 42
        assert zygote not in zygotes(box)


def test_a_forked_child_leaves_it_to_its_parent() -> None:
    """There it is neither taken nor ended."""
    zygote = begun("isolated")
    pid = os.fork()
    if not pid:
        _, outfit, _ = native_ahead._begun[0]
        taken = native_ahead.take(outfit.key, outfit.groups)
        native_ahead.drop()
        os._exit(0 if taken is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert zygote.alive


_KILLED = """
import sys, time
from fastness.backends import native_ahead
native_ahead.begin("isolated", "command")
(_, _, zygote), = native_ahead._begun
print(zygote.process.pid, flush=True)
time.sleep(60)
"""


def test_it_ends_with_a_caller_that_is_killed() -> None:
    """Within a second, with all of its family, although nobody has asked for it yet."""
    house.require("isolated tier")
    with subprocess.Popen([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        launcher = int(host.stdout.readline())
        end = time.monotonic() + 20
        # The launcher, the mother and the zygote.
        while len(family := procs.tree(launcher)) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        start = procs.start_time(launcher)
        assert len(family) == 2
        assert start is not None
        host.send_signal(signal.SIGKILL)
        assert procs.wait_for_all({launcher: start, **family}, 5.0)


def test_a_command_leaves_nothing_of_a_wrong_guess() -> None:
    """What was begun for a command that then does something else is gone when that ends."""
    house.require("isolated tier")
    marker = f"wrong-guess-{os.getpid()}"
    code = (
        "import sys\nfrom fastness.backends import native_ahead\nfrom fastness.cli.main import main\n"
        "drop = native_ahead.drop\n"
        "def told():\n  print(len(native_ahead._begun), flush=True)\n  drop()\n"
        "native_ahead.drop = told\n"
        f"sys.argv = ['fastness', 'exec', '--no-such-option', '{marker}']\nsys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (2, ["1"]), done.stderr
