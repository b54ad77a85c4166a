"""
Runs inside the virtual machine as root: the rules of slots, and who may make some where.

Prints ``ok NAME`` or ``failed NAME`` and the trace for each rule.  The first argument of the environment variable
SCENES names the scenes to play.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable

sys.path.append("/checks")

import cgroup_checks  # its folder is named only above

from fastness._linux import cgroup, cloning  # as above
from fastness._linux.cgroup_find import own_places  # as above
from fastness._linux.syscalls import CLONE_NEWCGROUP, CLONE_NEWNS, CLONE_NEWUSER, unshare  # as above

ROOT = "/sys/fs/cgroup"
ORDINARY = 1000
ZYGOTE = 65534


def put(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def get(path: str) -> str:
    with open(path) as file:
        return file.read().strip()


def attempt(name: str, rule: Callable[[], object]) -> None:
    try:
        rule()
    except Exception:  # noqa: BLE001  # whatever a rule raises is its failure
        print(f"failed {name}", flush=True)
        traceback.print_exc(file=sys.stdout)
    else:
        print(f"ok {name}", flush=True)
    sys.stdout.flush()


def found(owner: str) -> cgroup.Slots:
    slots = cgroup.find(owner)
    assert isinstance(slots, cgroup.Slots), slots
    return slots


def refused(owner: str) -> cgroup.Unavailable:
    slots = cgroup.find(owner)
    assert isinstance(slots, cgroup.Unavailable), slots.how
    return slots


def all_checks(scene: str, slots: cgroup.Slots) -> None:
    print(f"how {scene}: {slots.how}; clone into: {slots.supports_clone_into}", flush=True)
    for name, check in cgroup_checks.CHECKS.items():
        attempt(f"{scene}.{name}", lambda check=check: check(slots))  # type: ignore[misc]  # bound at once
    attempt(f"{scene}.everything_is_gone", lambda: cgroup_checks.everything_is_gone(slots))


def elsewhere(name: str, act: Callable[[], object], *, uid: int = 0, group: str = "", strangers: int = 0) -> None:
    """
    Do ``act`` in a process of its own, put into ``group``, as ``uid``; with ``strangers`` in the same group.

    The group is removed afterwards with what is below it.
    """
    others = [subprocess.Popen(["sleep", "1000"]) for _ in range(strangers)]
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for member in (os.getpid(), *(other.pid for other in others)):
                if group:
                    put(f"{group}/cgroup.procs", str(member))
            if uid:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            attempt(name, act)
            status = 0
        except BaseException:  # noqa: BLE001  # a child of a fork must never go on as its parent
            traceback.print_exc(file=sys.stdout)
        finally:
            sys.stdout.flush()
            os._exit(status)
    _, status = os.waitpid(pid, 0)
    for other in others:
        other.kill()
        other.wait()
    if status:
        print(f"failed {name}: the process ended with {status}", flush=True)
    if group:
        for folder, _, _ in os.walk(group, topdown=False):
            os.rmdir(folder)


def a_group(name: str, owner: int = 0) -> str:
    """A group that is given to ``owner`` as a service manager does it."""
    for controller in ("memory", "pids", "cpu"):
        put(f"{ROOT}/cgroup.subtree_control", f"+{controller}")
    folder = f"{ROOT}/{name}"
    os.mkdir(folder)
    for path in (folder, f"{folder}/cgroup.procs", f"{folder}/cgroup.subtree_control", f"{folder}/cgroup.threads"):
        os.chown(path, owner, owner)
    return folder


# -------------------------------------------------------------------------------------------------------------- scenes


def root() -> None:
    """Root in the root of the hierarchy, where processes and controllers go together."""
    all_checks("root", found("root-1"))


def delegated() -> None:
    """An ordinary user in a group that was given to it."""

    def act() -> None:
        before = own_places()["2"].folder
        slots = found("user-1")
        assert os.getuid() == ORDINARY
        assert own_places()["2"].folder == f"{before}/fastness-user-1-host"
        second = found("user-2")
        assert os.path.dirname(second.roots[0]) == before
        second.close()
        assert into(slots, 0) == "in the slot"
        all_checks("delegated", slots)
        assert own_places()["2"].folder == before
        assert os.listdir(before) and not [entry for entry in os.scandir(before) if entry.is_dir()]
        assert get(f"{before}/cgroup.subtree_control") == ""

    elsewhere("delegated", act, uid=ORDINARY, group=a_group("given", ORDINARY))


def limits_above_hold() -> None:
    """A slot that allows more than the group above it does gets no more than that."""
    group = a_group("capped")
    put(f"{group}/memory.max", str(64 << 20))
    put(f"{group}/memory.swap.max", "0")

    def act() -> None:
        slots = found("capped-1")
        with cgroup_checks.a_slot(slots) as slot:
            slot.configure(memory=512 << 20, pids=8, cpus=None)
            assert cgroup_checks.run(slot, cgroup_checks.fill(8)).status == 0
            ran = cgroup_checks.run(slot, cgroup_checks.fill(160))
            assert (ran.status, ran.output) == (-9, "")
        slots.close()

    elsewhere("limits_above_hold", act, group=group)


def strangers() -> None:
    """A group that others are in too is left as it is."""

    def act() -> None:
        group = own_places()["2"].folder
        before = (get(f"{group}/cgroup.procs"), get(f"{group}/cgroup.subtree_control"), sorted(os.listdir(group)))
        why = refused("stranger-1")
        assert "holds processes that are not ours" in why.reasons[0].cause, why
        assert "systemd-run --scope -p Delegate=yes -- <command>" in why.reasons[0].fix
        after = (get(f"{group}/cgroup.procs"), get(f"{group}/cgroup.subtree_control"), sorted(os.listdir(group)))
        assert before == after, (before, after)

    elsewhere("strangers", act, group=a_group("shared"), strangers=2)


def not_given() -> None:
    """An ordinary user in a group of root's."""

    def act() -> None:
        why = refused("not-given-1")
        assert "Permission denied" in why.reasons[0].cause, why
        assert "systemd-run --user --scope -p Delegate=yes -- <command>" in why.reasons[0].fix

    elsewhere("not_given", act, uid=ORDINARY, group=a_group("roots"))


def no_controllers() -> None:
    """A group that no controllers are handed down to."""

    def act() -> None:
        group = a_group("upper")
        # Its children get nothing, for the group itself hands nothing down.
        inner = f"{group}/inner"
        os.mkdir(inner)
        put(f"{inner}/cgroup.procs", str(os.getpid()))
        why = refused("none-1")
        assert "not handed down" in why.reasons[0].cause, why
        put(f"{ROOT}/cgroup.procs", str(os.getpid()))
        os.rmdir(inner)
        os.rmdir(group)

    elsewhere("no_controllers", act)


def read_only() -> None:
    """A container whose control groups are visible and cannot be written."""

    def act() -> None:
        unshare(CLONE_NEWNS)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", ROOT], check=True)
        why = refused("read-only-1")
        assert "mounted read-only" in why.reasons[0].cause, why
        assert "writable-cgroups=true" in why.reasons[0].fix

    elsewhere("read_only", act)


def in_a_container(mount: str = "own") -> None:
    """A control group namespace of its own, with its group mounted as the root of all."""

    def act() -> None:
        unshare(CLONE_NEWNS | CLONE_NEWCGROUP)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["umount", ROOT], check=True)
        subprocess.run(["mount", "-t", "cgroup2", "cgroup2", ROOT], check=True)
        assert own_places()["2"].folder == ROOT
        slots = found("contained-1")
        assert slots.roots == [f"{ROOT}/fastness-contained-1-slots"]
        with cgroup_checks.a_slot(slots) as slot:
            slot.configure(memory=32 << 20, pids=8, cpus=None)
            assert cgroup_checks.run(slot, cgroup_checks.fill(160)).status == -9
        slots.close()

    elsewhere("in_a_container", act, group=a_group("container"))


def covered() -> None:
    """A namespace whose mount still shows the groups above: what our own group is cannot be known by name."""

    def act() -> None:
        unshare(CLONE_NEWNS | CLONE_NEWCGROUP)
        why = refused("covered-1")
        assert why.reasons[0].candidate == "cgroup2"

    elsewhere("covered", act, group=a_group("hidden"))


def nothing_mounted() -> None:
    """No control group file system at all."""

    def act() -> None:
        unshare(CLONE_NEWNS)
        subprocess.run(["mount", "--make-rprivate", "/"], check=True)
        subprocess.run(["umount", ROOT], check=True)
        why = refused("nothing-1")
        assert [reason.candidate for reason in why.reasons] == ["cgroup2", "cgroup1"]

    elsewhere("nothing_mounted", act)


def undone() -> None:
    """Where the limits turn out not to hold, our process is back in its group and nothing is left."""
    from fastness._linux import cgroup_probe

    def act() -> None:
        group = own_places()["2"].folder
        before = sorted(os.listdir(group))
        real = cgroup_probe.bite
        cgroup_probe.bite = lambda slots: "it did not hold"
        try:
            why = refused("undone-1")
        finally:
            cgroup_probe.bite = real
        assert why.reasons[0].cause == "it did not hold"
        assert own_places()["2"].folder == group
        assert get(f"{group}/cgroup.subtree_control") == ""
        assert sorted(os.listdir(group)) == before

    elsewhere("undone", act, group=a_group("tried"))


# ------------------------------------------------------------------------------------------------- cloning into a slot


def cloned(slot: cgroup.Slot, prepare: Callable[[], object]) -> str:
    """
    A zygote, already in its leaf, makes ``prepare`` and clones a child into ``slot``; returns where the child was.

    The way to it is the error's name where the zygote was refused.
    """
    read_end, write_end = os.pipe()
    os.set_inheritable(slot.fd, True)
    pid = os.fork()
    if pid == 0:
        answer = "?"
        try:
            prepare()
            child = cloning.fork_into(0, slot.fd)
            if child == 0:
                os.write(write_end, get("/proc/self/cgroup").encode())
                os._exit(0)
            os.waitpid(child, 0)
            os._exit(0)
        except OSError as error:
            answer = os.strerror(error.errno or 0)
        finally:
            os.write(write_end, answer.encode() if answer != "?" else b"")
            os._exit(1)
    os.close(write_end)
    said = b""
    while piece := os.read(read_end, 4096):
        said += piece
    os.close(read_end)
    os.waitpid(pid, 0)
    return said.decode()


def into(slots: cgroup.Slots, uid: int, *, own_users: bool = False, own_groups: bool = False, give: bool = True) -> str:
    """Clone from a zygote with host user ``uid`` in a leaf of its own."""
    leaf = slots.new("zygotes")
    with cgroup_checks.a_slot(slots) as slot:
        slot.configure(memory=32 << 20, pids=8, cpus=None)
        if give and uid:
            slot.delegate(uid)

        def prepare() -> None:
            leaf.attach(os.getpid())
            if own_groups:
                unshare(CLONE_NEWCGROUP)
            if uid:
                os.setgroups([])
                os.setresgid(uid, uid, uid)
                os.setresuid(uid, uid, uid)
            if own_users:
                unshare(CLONE_NEWUSER)

        said = cloned(slot, prepare)
        leaf.kill()
        leaf.remove()
        name = slot.name
    return "in the slot" if said.endswith(f"/{name}") and said.startswith("0::") else said


def clone_into() -> None:
    slots = found("clone-1")
    assert slots.supports_clone_into

    def expect(name: str, wanted: str, **how: bool | int) -> None:
        def rule() -> None:
            said = into(slots, **how)  # type: ignore[arg-type]  # flags by name
            assert said == wanted, said

        attempt(f"clone_into.{name}", rule)

    expect("root", "in the slot", uid=0)
    expect("another_user_that_was_not_let", "Permission denied", uid=ZYGOTE, give=False)
    expect("another_user", "in the slot", uid=ZYGOTE)
    expect("another_user_in_a_user_namespace", "in the slot", uid=ZYGOTE, own_users=True)
    # nsdelegate: a namespace of its own that does not show the slot is a wall.
    expect("from_its_own_cgroup_namespace", "No such file or directory", uid=ZYGOTE, own_groups=True)

    def no_way_out() -> None:
        """The user that was let in cannot move anything out of our groups, or into the one above the slots."""
        with cgroup_checks.a_slot(slots) as slot:
            slot.delegate(ZYGOTE)
            pid = os.fork()
            if pid == 0:
                wrong = 0
                slot.attach(os.getpid())
                os.setgroups([])
                os.setresuid(ZYGOTE, ZYGOTE, ZYGOTE)
                for target in (ROOT, os.path.dirname(slots.roots[0]), slots.roots[0]):
                    try:
                        put(f"{target}/cgroup.procs", str(os.getpid()))
                    except OSError:
                        continue
                    wrong += 1
                os._exit(wrong)
            assert os.waitpid(pid, 0)[1] == 0

    attempt("clone_into.no_way_out", no_way_out)
    slots.close()


def version_1() -> None:
    """Root with version 1 hierarchies, such as older machines have."""
    slots = found("one-1")
    assert slots.flavour == "cgroup1"
    all_checks("version_1", slots)


def version_1_given() -> None:
    """An ordinary user in version 1 groups that were given to it; there is no group of its own for processor time."""

    def act() -> None:
        slots = found("one-2")
        assert os.getuid() == ORDINARY
        assert not slots.controls_cpu
        for name in ("a_memory_bomb_is_killed", "a_fork_bomb_stops", "processor_time_is_shared_out"):
            cgroup_checks.CHECKS[name](slots)
        cgroup_checks.everything_is_gone(slots)

    groups = [f"{ROOT}/{name}/given" for name in ("memory", "pids")]
    for group in groups:
        os.mkdir(group)
        os.chown(group, ORDINARY, ORDINARY)
        os.chown(f"{group}/cgroup.procs", ORDINARY, ORDINARY)

    def in_both() -> None:
        put(f"{groups[1]}/cgroup.procs", str(os.getpid()))
        os.setgroups([])
        os.setresgid(ORDINARY, ORDINARY, ORDINARY)
        os.setresuid(ORDINARY, ORDINARY, ORDINARY)
        act()

    elsewhere("version_1_given", in_both, group=groups[0])
    os.rmdir(groups[1])


def version_1_not_given() -> None:
    def act() -> None:
        why = refused("one-3")
        assert why.reasons[0].candidate == "cgroup1"
        assert "Permission denied" in why.reasons[0].cause, why
        assert "run as root" in why.reasons[0].fix
        assert "for g in " in why.reasons[0].fix

    elsewhere("version_1_not_given", act, uid=ORDINARY)


def a_machine_that_panics() -> None:
    """Where the kernel stops the machine for a group out of memory, nothing is tried."""

    def rule() -> None:
        put("/proc/sys/vm/panic_on_oom", "2")
        try:
            assert "panic_on_oom" in refused("panic-1").reasons[0].cause
        finally:
            put("/proc/sys/vm/panic_on_oom", "0")

    attempt("a_machine_that_panics", rule)


def swap_is_there() -> None:
    def rule() -> None:
        assert "/dev/ram0" in get("/proc/swaps")

    attempt("swap_is_there", rule)


SCENES: dict[str, list[Callable[[], None]]] = {
    "2": [
        swap_is_there,
        a_machine_that_panics,
        strangers,
        not_given,
        no_controllers,
        read_only,
        covered,
        nothing_mounted,
        undone,
        in_a_container,
        limits_above_hold,
        clone_into,
        root,
        delegated,
    ],
    "1": [swap_is_there, version_1, version_1_given, version_1_not_given],
}

for scene in SCENES[os.environ["SCENES"]]:
    scene()
print("played all", flush=True)
