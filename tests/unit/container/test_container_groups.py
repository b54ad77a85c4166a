"""
What a container's first process reads of its control groups, of version 1 and of version 2, and what it makes of it.

The texts are as kernels write them; the machine that runs these tests has one of the two versions at most.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fastness._container import spec
from fastness._container.endpoint import Endpoint
from fastness._container.image import Image
from fastness._container.probe import Engine
from fastness.guest import checks

V2 = {
    "cgroup.controllers": "cpuset cpu io memory hugetlb pids rdma misc\n",
    "memory.max": "268435456\n",
    "memory.swap.max": "0\n",
    "memory.events": "low 0\nhigh 0\nmax 41\noom 3\noom_kill 2\noom_group_kill 0\n",
    "memory.peak": "104857600\n",
    "pids.max": "65\n",
    "cpu.max": "100000 100000\n",
    "cpu.stat": "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\nnr_periods 9\nnr_throttled 1\n",
}
V1 = {
    "memory/memory.limit_in_bytes": "268435456\n",
    "memory/memory.memsw.limit_in_bytes": "268435456\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
    "memory/memory.max_usage_in_bytes": "104857600\n",
    "pids/pids.max": "65\n",
    "cpu,cpuacct/cpu.cfs_quota_us": "100000\n",
    "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "cpu,cpuacct/cpuacct.usage": "2500000000\n",
}
EXPECT = {"memory": 256 << 20, "pids": 65, "cpus": 1.0}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(checks, "_V1", f"{tmp_path}/")
    monkeypatch.setattr(checks, "_has_swap", lambda: False)
    return tmp_path


def write(folder: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


@pytest.mark.parametrize("texts", [V1, V2], ids=["1", "2"])
def test_numbers(texts: dict[str, str], there: Path) -> None:
    write(there, texts)
    assert checks._groups(EXPECT) == []
    assert (checks.oom_kills(), checks.memory_peak(), checks.processor_s()) == (2, 100 << 20, 2.5)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("memory.max", "max\n", "memory is -1, not 268435456"),
        ("memory.max", "536870912\n", "memory is 536870912"),
        ("memory.swap.max", "max\n", "swap is -1, not 0"),
        ("memory.swap.max", "268435456\n", "swap is 268435456, not 0"),
        ("pids.max", "max\n", "pids is -1, not 65"),
        ("pids.max", "64\n", "pids is 64, not 65"),
        ("cpu.max", "max 100000\n", "processor time is -1.0, not 1.0"),
        ("cpu.max", "50000 100000\n", "processor time is 0.5, not 1.0"),
        ("cpu.max", "", "processor time is -1.0, not 1.0"),
    ],
)
def test_what_is_not_as_it_was_asked_for(name: str, text: str, words: str, there: Path) -> None:
    write(there, {**V2, name: text})
    found = checks._groups(EXPECT)
    assert len(found) == 1
    assert found[0].startswith(words)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ("memory/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
        ("pids/pids.max", "max\n"),
        ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
    ],
)
def test_no_limit_of_version_1(name: str, text: str, there: Path) -> None:
    write(there, {**V1, name: text})
    assert len(checks._groups(EXPECT)) == 1


def test_without_any_group_nothing_is_taken_for_kept(there: Path) -> None:
    """As where a container sees the machine's whole tree, whose top has no limits: all three are missing."""
    assert len(checks._groups(EXPECT)) == 3
    assert checks.oom_kills() == -1


def test_swap_that_is_not_counted(there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel may count no swap: then there must be none."""
    write(there, {name: text for name, text in V2.items() if name != "memory.swap.max"})
    assert checks._groups(EXPECT) == []
    monkeypatch.setattr(checks, "_has_swap", lambda: True)
    assert checks._groups(EXPECT) == ["swap is not limited"]


def test_kernels_before_5_19_keep_no_peak(there: Path) -> None:
    write(there, {name: text for name, text in V2.items() if name != "memory.peak"})
    assert checks.memory_peak() == -1


def test_nothing_was_ended_for_memory(there: Path) -> None:
    write(there, {**V2, "memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n"})
    assert checks.oom_kills() == 0


@pytest.mark.parametrize(("version", "mode"), [("1", None), ("2", "private")])
def test_docker_is_asked_for_a_namespace_of_groups(
    version: str, mode: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one a container of version 2 sees the whole machine's tree.  Podman gives one by itself."""
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    engine = Engine(endpoint=Endpoint(path="/x"), kind="docker", version="1", api="1.41", cgroup_version=version)
    ask = spec.Ask(memory=1 << 28, work=1 << 20, files=100, pids=10, fds=64)
    made = spec.body(engine, Image(name="x", id="a" * 64), ask, {})
    assert made["HostConfig"].get("CgroupnsMode") == mode
