"""Where control groups are and what their files say: parsing, names, and refusals on trees that only look right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fastness._linux import cgroup
from fastness._linux.cgroup_files import (
    HOST,
    PREFIX,
    SLOTS,
    check_name,
    counter,
    numbers,
    owner_of,
    pages,
    quota_us,
    remove_group,
)
from fastness._linux.cgroup_find import (
    Hierarchy,
    Mount,
    Place,
    folder_of,
    parse_groups,
    parse_mounts,
    place,
    unescape,
)
from fastness._linux.cgroup_slot import Slot, Unusable
from fastness._linux.cgroup_v1 import SlotsV1
from fastness._linux.cgroup_v2 import SlotsV2, base_of

#: What a version 1 container shows: its own part of each hierarchy, mounted at the place for the whole.
DOCKER_1_MOUNTS = """
36 35 0:30 /docker/0123 /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory
37 35 0:31 /docker/0123 /sys/fs/cgroup/cpu,cpuacct ro,nosuid - cgroup cgroup rw,cpu,cpuacct
38 35 0:32 /docker/0123 /sys/fs/cgroup/pids rw master:11 - cgroup cgroup rw,pids
39 35 0:33 / /proc rw - proc proc rw
"""
DOCKER_1 = (
    "5:memory:/docker/0123\n4:cpu,cpuacct:/docker/0123\n3:pids:/docker/0123\n1:name=systemd:/docker/0123\n0::/\n",
    DOCKER_1_MOUNTS,
)

#: A service of a machine with version 2 alone.
SYSTEMD_2 = (
    "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope\n",
    "30 23 0:26 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n",
)


def found(groups: str, mounts: str) -> dict[str, str]:
    shown = parse_mounts(mounts)
    places = {hierarchy.controllers or ("2",): place(hierarchy, shown) for hierarchy in parse_groups(groups)}
    return {name: where.folder for names, where in places.items() if where for name in names}


def test_a_container_of_version_1() -> None:
    assert found(*DOCKER_1) == {
        "memory": "/sys/fs/cgroup/memory",
        "cpu": "/sys/fs/cgroup/cpu,cpuacct",
        "cpuacct": "/sys/fs/cgroup/cpu,cpuacct",
        "pids": "/sys/fs/cgroup/pids",
    }


def test_a_service_of_version_2() -> None:
    group = SYSTEMD_2[0].removeprefix("0::").strip()
    assert found(*SYSTEMD_2) == {"2": "/sys/fs/cgroup" + group}


def test_a_namespace_of_its_own_is_at_the_top() -> None:
    assert found("0::/\n", SYSTEMD_2[1]) == {"2": "/sys/fs/cgroup"}


@pytest.mark.parametrize(
    ("group", "root"),
    [
        ("/", "/.."),  # mounted before the namespace was made: what is above has no name
        ("/../other", "/"),  # our group is outside our namespace
        ("/a", "/b"),
        ("/ab", "/a"),  # a name is not the beginning of another
        ("/", "/a"),
        ("/a (deleted)", "/"),
    ],
)
def test_a_group_that_is_not_shown(group: str, root: str) -> None:
    assert folder_of(group, Mount(2, root, "/m", ("rw",), ("rw",))) is None


def test_the_writable_one_of_two_mounts_is_taken() -> None:
    mounts = (
        "1 0 0:1 / /ro ro - cgroup2 none rw\n2 0 0:1 / /rw rw - cgroup2 none rw\n3 0 0:1 / /late ro - cgroup2 none rw\n"
    )
    where = place(Hierarchy(2, (), "/x"), parse_mounts(mounts))
    assert where is not None
    assert where.folder == "/rw/x"
    assert not where.mount.read_only


def test_a_mount_that_covers_another_counts() -> None:
    """What is mounted last at one folder is what is seen there."""
    mounts = "1 0 0:1 / /m rw - cgroup2 none rw\n2 1 0:1 /a /m ro - cgroup2 none rw\n"
    where = place(Hierarchy(2, (), "/a/b"), parse_mounts(mounts))
    assert where is not None
    assert where.folder == "/m/b"
    assert where.mount.read_only


def test_spaces_and_colons_in_names() -> None:
    groups = parse_groups("0::/a b/c:d\n")
    assert [group.path for group in groups] == ["/a b/c:d"]
    [mount] = parse_mounts("1 0 0:1 /a\\040b /m\\134n\\011o rw - cgroup2 none rw\n")
    assert (mount.root, mount.point) == ("/a b", "/m\\n\to")
    assert folder_of("/a b/c:d", mount) == "/m\\n\to/c:d"


@given(st.text())
def test_any_text_is_parsed(text: str) -> None:
    """Whatever these files hold, there are groups and mounts, or there are none."""
    parse_groups(text)
    parse_mounts(text)
    numbers(text)
    unescape(text)


LINE = st.text(st.sampled_from("/:-., 0123abcdgroup2\\\n\t"), max_size=60)


@given(LINE, LINE, LINE)
def test_lines_that_almost_fit_are_parsed(first: str, second: str, third: str) -> None:
    for hierarchy in parse_groups(f"0::/{first}\n{second}:{third}\n"):
        assert hierarchy.path.startswith("/")
        assert (hierarchy.version == 2) == (not hierarchy.controllers)
    for mount in parse_mounts(f"{first} - cgroup {second}\n1 2 3 {third} / rw - cgroup2 {first}\n"):
        assert mount.version in (1, 2)


@given(st.text(st.characters(max_codepoint=126), min_size=1))
def test_names_come_back_from_mountinfo(name: str) -> None:
    """As the kernel's ``seq_path`` writes them: space, tab, newline and backslash."""
    escaped = "".join(f"\\{ord(c):03o}" if c in " \t\n\\" else c for c in name)
    assert unescape(escaped) == name


PART = st.text(st.sampled_from("abc.-_ "), min_size=1, max_size=6).filter(lambda part: part not in (".", ".."))


@given(st.lists(PART, max_size=4), st.lists(PART, max_size=4))
def test_a_folder_is_never_outside_its_mount(root: list[str], below: list[str]) -> None:
    path = "/" + "/".join(root + below)
    mount = Mount(2, "/" + "/".join(root), "/m", ("rw",), ("rw",))
    folder = folder_of(path, mount)
    assert folder == "/".join(["/m", *below])
    other = Mount(2, "/" + "/".join([*root, "zz"]), "/m", ("rw",), ("rw",))
    assume(below[:1] != ["zz"])
    assert folder_of(path, other) is None


# --------------------------------------------------------------------------------------------------------------- names


@given(st.text(max_size=20))
def test_a_name_is_never_a_path(name: str) -> None:
    try:
        check_name(name, "it")
    except ValueError:
        return
    assert name
    assert "/" not in name
    assert name not in (".", "..")
    assert name.isascii()
    for ending in (SLOTS, HOST):
        assert owner_of(PREFIX + name + ending, ending) == name


@pytest.mark.parametrize(
    "group",
    [
        "",
        "fastness",
        "fastness--slots",
        "fastness-slots",
        "x-fastness-a-slots",
        "fastness-a-host",
        "fastness-a/b-slots",
    ],
)
def test_other_groups_have_no_owner(group: str) -> None:
    assert owner_of(group, SLOTS) == ""


def test_an_owner_may_look_like_a_part_of_the_name() -> None:
    assert owner_of("fastness-a-host-slots", SLOTS) == "a-host"
    assert owner_of("fastness-a-host-slots", HOST) == ""


@pytest.mark.parametrize("owner", ["", "../x", "a/b", "a b", ".a"])
def test_an_owner_with_a_bad_name(owner: str) -> None:
    with pytest.raises(ValueError, match="owner"):
        cgroup.find(owner)


# --------------------------------------------------------------------------------------------------------------- files


def test_numbers_of_a_keyed_file() -> None:
    text = "low 0\nhigh 7\nmax 12\noom_kill 3\nodd x\nempty\nnegative -1\n"
    assert numbers(text) == {"low": 0, "high": 7, "max": 12, "oom_kill": 3}


def test_a_counter_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "max").write_text("max\n")
    (tmp_path / "number").write_text("12\n")
    (tmp_path / "keyed").write_text("a 1\n")
    folder = str(tmp_path)
    assert counter(folder, "none") is None
    assert counter(folder, "max") is None
    assert counter(folder, "number") == 12
    assert counter(folder, "keyed", "a") == 1
    assert counter(folder, "keyed", "b") is None


@given(st.integers(-10, 1 << 50))
def test_memory_is_whole_pages(memory: int) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    if memory < page:
        with pytest.raises(OSError, match="less than a page"):
            pages(memory)
    else:
        assert 0 <= memory - pages(memory) < page


@pytest.mark.parametrize(("cpus", "quota"), [(1.0, 100_000), (0.01, 1000), (2.5, 250_000)])
def test_processor_time(cpus: float, quota: int) -> None:
    assert quota_us(cpus) == quota


@pytest.mark.parametrize("cpus", [0.0, -1.0, 0.001])
def test_too_little_processor_time(cpus: float) -> None:
    with pytest.raises(OSError, match="CPU limit"):
        quota_us(cpus)


def test_a_limit_that_reads_back_otherwise_is_refused(tmp_path: Path) -> None:
    """What the kernel holds is believed, not what was written."""
    slot = Slot("a", [str(tmp_path)])
    # Writing does not shorten it: what is read differs from what was written.
    (tmp_path / "pids.max").write_text("123456")
    with pytest.raises(OSError, match=r"pids\.max holds 123456 where 12 was written"):
        slot._hold(str(tmp_path), "pids.max", "12")
    (tmp_path / "pids.max").write_text("")
    slot._hold(str(tmp_path), "pids.max", "12")
    assert (tmp_path / "pids.max").read_text() == "12"


def test_removing_what_is_gone_is_fine(tmp_path: Path) -> None:
    remove_group(str(tmp_path / "none"))


# ----------------------------------------------------------------------------------------------------------- refusals


def a_place(folder: Path, name: str = "memory", options: tuple[str, ...] = ("rw",), group: str = "/x") -> Place:
    folder.mkdir(exist_ok=True)
    (folder / "cgroup.procs").write_text(f"{os.getpid()}\n")
    version = 2 if name == "2" else 1
    hierarchy = Hierarchy(version, () if version == 2 else (name,), group)
    return Place(str(folder), Mount(version, "/", str(folder), options, ("rw",)), hierarchy)


def version_1(tmp_path: Path) -> dict[str, Place]:
    return {name: a_place(tmp_path / name, name) for name in ("memory", "pids")}


def test_version_1_without_a_controller(tmp_path: Path) -> None:
    places = version_1(tmp_path)
    del places["pids"]
    with pytest.raises(Unusable, match="no cgroup v1 hierarchy with pids"):
        SlotsV1("a", places)


def test_version_1_that_is_read_only(tmp_path: Path) -> None:
    places = {**version_1(tmp_path), "pids": a_place(tmp_path / "pids", "pids", ("ro",))}
    with pytest.raises(Unusable, match="read-only"):
        SlotsV1("a", places)
    assert os.listdir(tmp_path / "memory") == ["cgroup.procs"]


def test_version_1_that_is_not_ours(tmp_path: Path) -> None:
    places = version_1(tmp_path)
    (tmp_path / "memory" / "cgroup.procs").write_text("1\n")
    with pytest.raises(Unusable, match="does not hold it"):
        SlotsV1("a", places)


def test_version_1_where_the_limit_above_would_not_hold(tmp_path: Path) -> None:
    """Old kernels do not count what is below a group, unless they are told to."""
    places = version_1(tmp_path)
    (tmp_path / "memory" / "memory.use_hierarchy").write_text("0\n")
    with pytest.raises(Unusable, match="use_hierarchy"):
        SlotsV1("a", places)
    (tmp_path / "memory" / "memory.use_hierarchy").write_text("1\n")
    slots = SlotsV1("a", places)
    assert sorted(slots.roots) == [str(tmp_path / name / "fastness-a-slots") for name in ("memory", "pids")]
    slots.close()
    assert not any(Path(root).exists() for root in slots.roots)


def test_version_1_with_controllers_that_share_a_hierarchy(tmp_path: Path) -> None:
    both = a_place(tmp_path / "both", "memory")
    slots = SlotsV1("a", {"memory": both, "pids": both})
    assert slots.roots == [str(tmp_path / "both" / "fastness-a-slots")]
    slots.close()


@pytest.mark.parametrize("offered", ["", "cpu io", "memory cpu", "pids"])
def test_version_2_without_controllers(tmp_path: Path, offered: str) -> None:
    where = a_place(tmp_path / "group", "2")
    (tmp_path / "group" / "cgroup.controllers").write_text(offered)
    with pytest.raises(Unusable, match="not handed down"):
        SlotsV2("a", where)
    assert sorted(os.listdir(tmp_path / "group")) == ["cgroup.controllers", "cgroup.procs"]


def test_version_2_that_is_read_only(tmp_path: Path) -> None:
    where = a_place(tmp_path / "group", "2", ("ro",))
    (tmp_path / "group" / "cgroup.controllers").write_text("memory pids")
    with pytest.raises(Unusable, match="read-only") as caught:
        SlotsV2("a", where)
    assert "--security-opt writable-cgroups=true" in caught.value.fix


def test_version_2_with_strangers(tmp_path: Path) -> None:
    """The group of the first process of this machine is not ours to rearrange; nothing is left of the attempt."""
    where = a_place(tmp_path / "group", "2")
    for name, text in (("controllers", "memory pids"), ("subtree_control", ""), ("type", "domain")):
        (tmp_path / "group" / f"cgroup.{name}").write_text(text)
    (tmp_path / "group" / "cgroup.procs").write_text(f"1\n{os.getpid()}\n")
    before = sorted(os.listdir(tmp_path / "group"))
    with pytest.raises(Unusable, match="processes that are not ours, such as 1,"):
        SlotsV2("a", where)
    assert sorted(os.listdir(tmp_path / "group")) == before


def test_a_group_that_we_moved_to_stands_for_the_one_above() -> None:
    mount = Mount(2, "/", "/m", ("rw",), ("rw",))
    moved = Hierarchy(2, (), "/g/fastness-a-host")
    assert base_of(Place("/m/g/fastness-a-host", mount, moved)) == "/m/g"
    # Not where the group above is not shown to us.
    alone = Mount(2, "/g/fastness-a-host", "/m/fastness-a-host", ("rw",), ("rw",))
    assert base_of(Place("/m/fastness-a-host", alone, moved)) == "/m/fastness-a-host"
    slots = Place("/m/g/fastness-a-slots", mount, Hierarchy(2, (), "/g/fastness-a-slots"))
    assert base_of(slots) == "/m/g/fastness-a-slots"
