"""What doctor warns of: each for its reason and not without it, with a fix and the command that looks again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import house
from fastness import runtime
from fastness._wasi.cache import Cache
from fastness.cli import doctor, doctor_warnings
from fastness.cli.main import main
from fastness.tier import Guarantee, Probe, ProbeFailure, Tier


def probe(tier: Tier, *more: Guarantee, lacking: bool = False, files: str = "mountns+landlock(abi 7)") -> Probe:
    failure = ProbeFailure(guarantee="all", cause="there is none", remedy="get one")
    return Probe(
        backend="some",
        tier=tier.value,
        guarantees=() if lacking else tuple(one.value for one in (*tier.guarantees, *more)),
        failures=(failure,) if lacking else (),
        layers={"FS_CONFINED": files},
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(place))
    monkeypatch.delenv("FASTNESS_ALLOW_UNSANDBOXED", raising=False)
    # A user who is not root, on whatever machine this is.
    monkeypatch.setattr(doctor_warnings, "_root", lambda: iter(()))
    return place


def about(*probes: Probe) -> list[str]:
    found = doctor_warnings.warnings({one.tier: one for one in probes})
    for one in found:
        assert one.cause
        assert one.remedy
        assert one.check.startswith("fastness ")
    return [one.about for one in found]


def test_where_nothing_is_wrong_nothing_is_said(home: Path) -> None:
    """Also where there are no folders yet; and looking makes none."""
    assert about(probe(Tier.ISOLATED), probe(Tier.WASM, Guarantee.SYSCALL_FILTERED)) == []
    assert not (home / "cache").exists()
    for kind in ("cache", "data", "config", "runtime"):
        (home / kind).mkdir(mode=0o700)
    assert about() == []


def test_unsandboxed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the variable is set."""
    monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", "1")
    assert about() == ["unsandboxed"]


@pytest.mark.parametrize(("user", "told"), [(0, ["root"]), (1000, [])])
def test_root(user: int, told: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root is told that it is."""
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert [one.about for one in doctor_warnings._root()] == told


@pytest.mark.parametrize(
    ("mode", "words"),
    [(0o777, "0777"), (0o720, "only its owner may write"), (0o755, "look into"), (0o701, "look into")],
)
@pytest.mark.parametrize("kind", ["cache", "data", "config", "runtime"])
def test_permissions(kind: str, mode: int, words: str, home: Path) -> None:
    """A folder that others may write to, or look into, with its mode."""
    (home / kind).mkdir()
    (home / kind).chmod(mode)
    (found,) = [one for one in doctor_warnings.warnings({}) if one.about == "permissions"]
    assert words in found.cause
    assert str(home / kind) in found.cause
    assert "chmod 700" in f"{found.cause} {found.remedy}"
    # Nothing was mended behind anybody's back.
    assert (home / kind).stat().st_mode & 0o777 == mode


def test_a_link_in_the_place_of_a_folder(home: Path) -> None:
    """It is not followed."""
    (home / "elsewhere").mkdir(mode=0o700)
    (home / "cache").symlink_to(home / "elsewhere")
    assert about() == ["permissions"]


def test_stale_guests(home: Path) -> None:
    """Native code of another version, which prune removes; then nothing is said."""
    cache = Cache()
    name = "code-" + "0" * 32

    def write(fd: int) -> None:
        os.write(fd, b"x" * 5000)

    with cache.lock(name):
        cache.put(name, write, {})
    (found,) = doctor_warnings.warnings({})
    assert (found.about, found.remedy) == ("stale", "fastness guest prune")
    assert "4.9 KiB" in found.cause
    assert main(["guest", "prune"]) == 0
    assert about() == []


def test_what_a_dead_host_left(home: Path) -> None:
    """A folder whose owner is dead, which --sweep removes; one whose owner lives is none."""
    owner = "from fastness import runtime; import os, sys; runtime.claim(); print(flush=True); sys.stdin.read(); os._exit(9)"
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    with subprocess.Popen(
        [sys.executable, "-c", owner], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert about() == []
        process.communicate()
    assert process.returncode == 9
    assert about() == ["left"]
    runtime.sweep()
    assert about() == []


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (probe(Tier.WASM), "a bug in wasmtime"),
        (probe(Tier.WASM, Guarantee.SYSCALL_FILTERED, files="memory tree+seccomp"), "without Landlock"),
        (probe(Tier.ISOLATED, files="mountns+seccomp"), "without Landlock"),
        (probe(Tier.CONTAINER), "no user of their own"),
    ],
    ids=["engine", "wasm", "isolated", "container"],
)
def test_a_tier_with_a_wall_less(there: Probe, told: str, home: Path) -> None:
    """It holds, and is weaker than elsewhere; one that does not hold is told as that, and not as weak."""
    (found,) = doctor_warnings.warnings({there.tier: there})
    assert found.about == "engine"
    assert told in found.cause
    assert found.check == f"fastness doctor --tier {there.tier}"
    assert about(probe(Tier(there.tier), lacking=True)) == []


# the command


@pytest.fixture
def probes(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tier isolated holds here, and container does not."""
    known = {Tier.ISOLATED: probe(Tier.ISOLATED), Tier.CONTAINER: probe(Tier.CONTAINER, lacking=True)}
    monkeypatch.setattr(doctor, "probe_tier", lambda tier: known[tier])


@pytest.mark.parametrize(("tiers", "code"), [(("isolated",), 0), (("container",), 3), (("isolated", "container"), 3)])
def test_a_tier_that_is_named_is_what_counts(
    tiers: tuple[str, ...], code: int, probes: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 3 where one does not hold; each gap comes with its cause, its fix and what tries it again."""
    arguments = [word for tier in tiers for word in ("--tier", tier)]
    assert main(["doctor", *arguments]) == code
    out = capsys.readouterr().out
    assert ("holds here: isolated" in out) == ("isolated" in tiers)
    if "container" in tiers:
        for words in ("there is none", "Fix: get one", "Check again: fastness doctor --tier container"):
            assert words in out


def test_json_has_the_same(probes: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings as objects, and the command that tries a tier again; nothing on standard error is needed."""
    monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", "1")
    assert main(["doctor", "--tier", "container", "--json"]) == 3
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["tiers"]["container"]["check"] == "fastness doctor --tier container"
    assert found["tiers"]["container"]["failures"][0]["remedy"] == "get one"
    assert [one["about"] for one in found["warnings"]] == ["unsandboxed"]
    assert found["default_holds"] is None


def test_a_tier_that_there_is_not_is_wrong_usage(home: Path) -> None:
    """Exit code 2."""
    assert main(["doctor", "--tier", "vault"]) == 2
