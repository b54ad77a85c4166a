"""
What an engine is asked for, what of its own account is compared, and the filter of system calls.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from fastness._container import containers, inside, profile, spec
from fastness._container.endpoint import Endpoint
from fastness._container.image import Image, configuration
from fastness._container.probe import Engine

IMAGE = Image(name="x", id="a" * 64)
ASK = spec.Ask(memory=1 << 28, work=1 << 20, files=100, pids=10, fds=64)


def engine(kind: str = "docker") -> Engine:
    return Engine(endpoint=Endpoint(path="/x"), kind=kind, version="1", api="1.41")


def told(kind: str = "docker") -> dict[str, Any]:
    """What an honest engine says of a container."""
    made = copy.deepcopy(spec.body(engine(kind), IMAGE, ASK, {}))
    host = made.pop("HostConfig")
    if kind == "podman":
        host["CapDrop"] = ["CAP_CHOWN", "CAP_KILL"]
        host["IpcMode"] = "shareable"
        for one in host["Ulimits"]:
            one["Name"] = f"RLIMIT_{one['Name'].upper()}"
    mounts = [
        {"Type": "bind", "Source": one["Source"], "Destination": one["Target"], "RW": False, "Propagation": "rprivate"}
        for one in host.get("Mounts") or ()
    ]
    return {"Image": f"sha256:{IMAGE.id}", "Config": made, "HostConfig": host, "Mounts": mounts}


@pytest.fixture(autouse=True)
def _home(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_an_honest_engine_has_no_differences(kind: str) -> None:
    assert spec.differences(told(kind), engine(kind), IMAGE, ASK) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Memory", 0), ("MemorySwap", -1), ("MemorySwap", 0), ("PidsLimit", None), ("NanoCpus", 0), ("NetworkMode", "bridge"),
        ("NetworkMode", "default"), ("ReadonlyRootfs", False), ("Privileged", True), ("CapAdd", ["SYS_ADMIN"]), ("CapDrop", None),
        ("SecurityOpt", None), ("SecurityOpt", ["no-new-privileges"]), ("SecurityOpt", ["no-new-privileges", "seccomp=unconfined"]),
        ("Binds", ["/:/host"]), ("VolumesFrom", ["x"]), ("Devices", [{"PathOnHost": "/dev/kvm"}]), ("PidMode", "host"),
        ("IpcMode", "host"), ("UTSMode", "host"), ("UsernsMode", "host"), ("LogConfig", {"Type": "json-file"}), ("ShmSize", 1 << 26),
        ("Tmpfs", {}), ("Ulimits", []), ("GroupAdd", ["0"]), ("DeviceCgroupRules", ["a *:* rwm"]),
    ],
)  # fmt: skip
def test_every_other_thing_is_one(key: str, value: object) -> None:
    found = told()
    found["HostConfig"][key] = value
    assert spec.differences(found, engine(), IMAGE, ASK)


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found.update(Image="sha256:" + "b" * 64),
        lambda found: found["Config"].update(User=""),
        lambda found: found["Config"].update(Tty=True),
        lambda found: found.update(Mounts=[{"Type": "volume"}]),
        lambda found: found.update(HostConfig=None),
        lambda found: found.update(Config=None),
    ],
)
def test_so_is_what_is_beside_it(change: Any) -> None:
    found = told()
    change(found)
    assert spec.differences(found, engine(), IMAGE, ASK)


def test_nothing_is_ever_fetched() -> None:
    """An image is asked for by its digest, which no registry is asked for; no request of this package names a pull."""
    assert spec.body(engine(), IMAGE, ASK, {})["Image"] == IMAGE.id


def test_swap_is_in_the_same_limit_and_nothing_is_logged() -> None:
    host = spec.body(engine(), IMAGE, ASK, {})["HostConfig"]
    assert host["Memory"] == host["MemorySwap"] == ASK.memory
    assert host["LogConfig"] == {"Type": "none"}


def test_the_filter() -> None:
    found = json.loads(profile.text())
    assert found["defaultAction"] == "SCMP_ACT_ERRNO"
    allowed = {name for row in found["syscalls"] if row["action"] == "SCMP_ACT_ALLOW" for name in row["names"]}
    for name in (
        "ptrace", "io_uring_setup", "bpf", "keyctl", "add_key", "mount", "unshare", "setns", "userfaultfd",
        "process_vm_writev", "perf_event_open", "pivot_root", "chroot", "clone3", "open_by_handle_at", "pidfd_getfd",
        "sched_setattr", "sched_setscheduler", "sched_setparam", "shmget", "msgget", "mq_open", "kexec_load",
    ):  # fmt: skip
        assert name not in allowed
    families = [row["args"][0]["value"] for row in found["syscalls"] if "socket" in row["names"]]
    assert sorted(families) == [1, 2, 10]
    names = [name for row in found["syscalls"] for name in row["names"] if "args" not in row]
    assert len(names) == len(set(names))


def test_the_filter_is_a_file_for_podman_and_made_anew_where_it_was_changed() -> None:
    path = profile.path()
    with open(path, "w") as file:
        file.write("{}")
    assert profile.path() == path
    with open(path) as file:
        assert file.read() == profile.text()


class TestOwners:
    def test_this_process_lives(self) -> None:
        assert not containers.is_dead(containers.owner())

    def test_one_that_has_ended_is_dead(self) -> None:
        boot, namespace, pid, start = containers.owner().split(".")
        assert containers.is_dead(f"{boot}.{namespace}.{pid}.{int(start) + 1}")
        assert containers.is_dead(f"{boot}.{namespace}.4194000.1")

    def test_another_boot_is_over(self) -> None:
        _, namespace, pid, start = containers.owner().split(".")
        assert containers.is_dead(f"00000000-0000-0000-0000-000000000000.{namespace}.{pid}.{start}")

    @pytest.mark.parametrize("name", ["", "x", "a.b.c.d", "a.b.1", "....", "a.b.-1.1"])
    def test_what_is_no_name_of_ours_is_left_alone(self, name: str) -> None:
        assert not containers.is_dead(name)

    def test_of_another_namespace_nothing_is_known(self) -> None:
        boot, _, _, _ = containers.owner().split(".")
        assert not containers.is_dead(f"{boot}.1.4194000.1")


def test_an_images_configuration_is_the_same_each_time() -> None:
    assert configuration("a" * 64, "host") == configuration("a" * 64, "host")
    assert json.loads(configuration("a" * 64, "host"))["config"]["User"] == "65532:65532"


def test_the_code_that_runs_inside_imports_nothing_of_the_package() -> None:
    for name, text in inside.texts().items():
        assert "from fastness" not in text, name
        assert "import fastness" not in text, name


def test_python_guests_have_the_modules_of_every_native_guest() -> None:
    """In the same order, with the same texts."""
    from fastness.backends import native_config

    assert {name: inside.texts()[name] for name in inside.PYTHON} == native_config.sources()
    assert list(inside.PYTHON) == list(native_config.sources())


class TestOddAnswers:
    """What an engine tells in other types is something else than was asked for, and no error of ours."""

    @pytest.mark.parametrize("odd", [5, "text", [1], [[2]], {"a": 1}, True])
    @pytest.mark.parametrize("key", ["LogConfig", "Ulimits", "CapDrop", "SecurityOpt", "Tmpfs", "Binds", ""])
    def test_of_a_container(self, key: str, odd: object) -> None:
        found = told()
        assert spec.differences(found, engine(), IMAGE, ASK) == []
        found["HostConfig"] = {**found["HostConfig"], key: odd} if key else odd
        assert spec.differences(found, engine(), IMAGE, ASK)

    @pytest.mark.parametrize("odd", [5, "text", [1], {"a": 1}, True])
    @pytest.mark.parametrize("key", ["Config", "Mounts"])
    def test_of_the_rest_of_it(self, key: str, odd: object) -> None:
        assert spec.differences({**told(), key: odd}, engine(), IMAGE, ASK)

    @pytest.mark.parametrize("check", [{"Test": ["CMD", "true"]}, {"Test": "x"}, True, "x", [7], 7])
    def test_a_check_of_health_is_seen(self, check: object) -> None:
        found = told()
        found["Config"] = {**found["Config"], "Healthcheck": check}
        assert [one for one in spec.differences(found, engine(), IMAGE, ASK) if "Healthcheck" in one]

    @pytest.mark.parametrize("check", [{"Test": ["NONE"]}, {"Test": None}, {}, None])
    def test_none_is_none_in_the_words_of_either_engine(self, check: object) -> None:
        found = told()
        found["Config"] = {**found["Config"], "Healthcheck": check}
        assert not [one for one in spec.differences(found, engine(), IMAGE, ASK) if "Healthcheck" in one]
