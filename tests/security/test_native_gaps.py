"""
Native tiers where something is missing: an old kernel, a container, a limit, a full disk, a preload that misbehaves.

Each ends as a guest that is held by what is left and says by what, or as an error with its cause and its fix; never
as a guest that is held by less than it says, and never as a wait without end.
"""

from __future__ import annotations

import functools
import os
import shutil
from itertools import count
from typing import Any

import native_hosts
import native_programs
import pytest

import house

pytestmark = pytest.mark.slow
TIERS = ("confined", "isolated")
_homes = count()

#: As in Docker's default profile where CAP_SYS_ADMIN is not held; the flags are those of new namespaces.
CONTAINER = [
    *(
        [name, "EPERM", -1, 0]
        for name in (
            "unshare", "setns", "mount", "umount2", "pivot_root", "mount_setattr", "move_mount", "open_tree", "fsopen",
            "keyctl", "add_key", "request_key", "bpf", "userfaultfd", "perf_event_open",
        )
    ),
    ["clone3", "ENOSYS", -1, 0],
    ["clone", "EPERM", 0, 0x7E020000],
]  # fmt: skip
#: What is left of root's capabilities in such a container.
CONTAINER_CAPABILITIES = (
    "chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service", "net_raw",
    "sys_chroot", "mknod", "audit_write", "setfcap",
)  # fmt: skip
NO_LANDLOCK = [
    [name, "ENOSYS", -1, 0] for name in ("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self")
]
NO_USER_NAMESPACES = [
    ["unshare", "EPERM", 0, 0x10000000],
    ["clone", "EPERM", 0, 0x10000000],
    ["clone3", "ENOSYS", -1, 0],
]
REFUSED_SOCKET = "import socket\ntry:\n  socket.socket()\nexcept OSError as error:\n  code = error.errno\ncode"


@pytest.fixture(scope="module")
def found(callers: native_hosts.Callers) -> native_hosts.Callers:
    house.require("confined tier")
    return callers


@pytest.fixture(params=native_hosts.CALLERS)
def one(request: pytest.FixtureRequest, found: native_hosts.Callers) -> native_hosts.Caller:
    return native_hosts.find(found, request.param)


@pytest.fixture
def root(found: native_hosts.Callers) -> native_hosts.Caller:
    if not found["caller"].root:
        pytest.skip("takes capabilities and mounts away from root")
    return found["caller"]


@functools.cache
def there(tier: str) -> None:
    house.require(f"{tier} tier")


def poorer(one: native_hosts.Caller, tier: str, **wanted: Any) -> dict[str, Any]:
    """What came of a sandbox whose verdict is not one from better days."""
    there(tier)
    environment = {"FASTNESS_HOME": f"{one.home}/{next(_homes)}", **wanted.pop("env", {})}
    before = wanted.pop("before", [])
    told: dict[str, Any] = one.run(native_programs.POORER, {"tier": tier, **wanted}, env=environment, before=before)
    assert told["seconds"] < 20
    return told


def refused(told: dict[str, Any], guarantee: str, cause: str, fix: str) -> None:
    """It was refused for this reason, and the fix is told; nothing of either asks to look elsewhere."""
    assert told.get("error") == "TierUnavailable", told
    failures = [(one, why, remedy) for one, why, remedy in told["failures"] if one == guarantee]
    assert failures, told["failures"]
    assert any(cause in why and fix in remedy for _, why, remedy in failures), failures
    assert "fastness doctor" not in told["text"]


def without(*capabilities: str) -> list[str]:
    return ["setpriv", "--bounding-set", ",".join(f"-{name}" for name in capabilities)]


def elsewhere(script: str) -> list[str]:
    """A start in a mount namespace that ``script`` has changed."""
    return ["unshare", "-m", "sh", "-ec", f'{script}; exec "$@"', "sh"]


# ------------------------------------------------------------------------------------------------------- the kernel


def test_nothing_is_missing(one: native_hosts.Caller) -> None:
    """The control: where nothing is taken away, the same program finds both tiers."""
    for tier in TIERS:
        told = poorer(one, tier)
        assert (told["kind"], told["value"]) == ("ok", 42)
        assert "landlock(abi" in told["layers"]["FS_CONFINED"]
        assert told["layers"]["DENIALS_RECORDED"] == "all"


def test_no_landlock(one: native_hosts.Caller) -> None:
    """``confined`` has no other wall around files; ``isolated`` has its own tree, and says that this is all."""
    refused(poorer(one, "confined", refuse=NO_LANDLOCK), "FS_CONFINED", "landlock", "lsm=landlock")
    told = poorer(one, "isolated", refuse=NO_LANDLOCK)
    assert told["value"] == 42
    assert told["layers"]["FS_CONFINED"] == "mountns+seccomp"
    assert told["layers"]["NET_CONFINED"] == "seccomp+netns"


@pytest.mark.parametrize("abi", [1, 2, 3, 5])
def test_an_old_landlock(abi: int, one: native_hosts.Caller) -> None:
    """What an old one does not govern the filter refuses; each tier is proven and says which one it had."""
    for tier in TIERS:
        told = poorer(one, tier, abi=abi)
        assert told["value"] == 42
        assert f"landlock(abi {abi})" in told["layers"]["FS_CONFINED"]
        # Before ABI 4 it knows nothing of networks, and is not named there.
        assert ("landlock" in told["layers"]["NET_CONFINED"]) == (abi >= 4)


def test_no_user_namespaces(one: native_hosts.Caller) -> None:
    """``confined`` needs none; without them ``isolated`` is refused with what to do about it."""
    assert poorer(one, "confined", refuse=NO_USER_NAMESPACES)["value"] == 42
    refused(poorer(one, "isolated", refuse=NO_USER_NAMESPACES), "OWN_ROOT", "unshare", "confined")
    full = [["unshare", "ENOSPC", 0, 0x10000000]]
    refused(poorer(one, "isolated", refuse=full), "OWN_ROOT", "No space left", "user.max_user_namespaces")


def test_in_a_container(found: native_hosts.Callers, one: native_hosts.Caller) -> None:
    """With an engine's default filter, and as root with its default capabilities, ``confined`` holds."""
    before = []
    if one.root:
        known = {name.removeprefix("cap_") for name in _capabilities()}
        before = without(*sorted(known - set(CONTAINER_CAPABILITIES)))
    told = poorer(one, "confined", refuse=CONTAINER, before=before)
    assert told["value"] == 42
    assert "OWN_UID" not in told["layers"]
    refused(poorer(one, "isolated", refuse=CONTAINER, before=before), "OWN_ROOT", "unshare", "confined")
    for tier, guarantee in (("confined", "FS_CONFINED"), ("isolated", "OWN_ROOT")):
        assert poorer(one, tier, refuse=CONTAINER + NO_LANDLOCK, before=before)["failures"][0][0] == guarantee


def _capabilities() -> list[str]:
    import subprocess

    return subprocess.run(["setpriv", "--list-caps"], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("error", ["EBUSY", "EINVAL"])
def test_no_user_notification(error: str, one: native_hosts.Caller) -> None:
    """The filter answers by itself then: the same refusals, and a result that says that they were not all recorded."""
    for tier in TIERS:
        told = poorer(one, tier, refuse=[["seccomp", error, 1, 8]], codes=[REFUSED_SOCKET])
        assert told["value"] == 1  # EPERM
        assert told["layers"]["DENIALS_RECORDED"] == "partial"
        assert "SYSCALL_FILTERED" in told["layers"]


def test_no_filters(one: native_hosts.Caller) -> None:
    """Neither tier is anything without them."""
    for tier in TIERS:
        told = poorer(one, tier, refuse=[["seccomp", "EINVAL", -1, 0]])
        refused(told, "SYSCALL_FILTERED", "seccomp", "CONFIG_SECCOMP_FILTER")


@pytest.mark.parametrize("call", ["memfd_create", "pidfd_open", "close_range"])
def test_an_old_kernel(call: str, one: native_hosts.Caller) -> None:
    """A call that is not there yet is told as a kernel that is too old."""
    for tier, guarantee in (("confined", "FS_CONFINED"), ("isolated", "OWN_ROOT")):
        refused(poorer(one, tier, refuse=[[call, "ENOSYS", -1, 0]]), guarantee, "not implemented", "Linux 5.13")


@pytest.mark.parametrize("call", ["open_tree", "move_mount"])
@pytest.mark.parametrize("error", ["ENOSYS", "EPERM"])
def test_no_mounts_outside_of_a_tree(call: str, error: str, one: native_hosts.Caller) -> None:
    """The mother mounts in the guest's namespace, as she does on a kernel before 5.2."""
    house.require("isolated tier")
    assert poorer(one, "isolated", refuse=[[call, error, -1, 0]])["value"] == 42


# --------------------------------------------------------------------------------------------------- limits, places


def test_few_descriptors(one: native_hosts.Caller) -> None:
    """A hard limit that is too low is named; a soft one is raised for the zygote alone."""
    for tier in TIERS:
        told = poorer(one, tier, limits={"RLIMIT_NOFILE": 64})
        assert told["error"] == "TierUnavailable"
        assert "RLIMIT_NOFILE is 64" in told["text"]
        assert "ulimit -Hn" in told["text"]


def test_little_address_space(one: native_hosts.Caller) -> None:
    """A limit of the caller's own that is lower than what was asked for goes on holding."""
    for tier in TIERS:
        assert poorer(one, tier, limits={"RLIMIT_AS": 400 << 20})["value"] == 42


def test_few_processes(found: native_hosts.Callers) -> None:
    """An ordinary user who may have no more processes is told so."""
    one = native_hosts.find(found, "ordinary")
    for tier in TIERS:
        for most in (1, 3):
            told = poorer(one, tier, limits={"RLIMIT_NPROC": most})
            assert told["error"] == "TierUnavailable"
            assert "ulimit -u" in told["text"]


def test_files_may_not_grow(one: native_hosts.Caller) -> None:
    """A caller who may write nothing is told of the folder that could not be made."""
    for tier in TIERS:
        told = poorer(one, tier, limits={"RLIMIT_FSIZE": 0})
        assert told["error"] in ("TierUnavailable", "BackendError")
        assert "FASTNESS_HOME" in told["text"]


def test_a_full_disk(root: native_hosts.Caller) -> None:
    """The folder of this process cannot be made where there is no room."""
    script = (
        "mount -t tmpfs -o size=64k,mode=755 none /mnt; mkdir -m 700 /mnt/h; head -c 64k /dev/zero > /mnt/x || true"
    )
    for tier in TIERS:
        told = poorer(root, tier, before=elsewhere(script), env={"FASTNESS_HOME": "/mnt/h"})
        assert told["error"] in ("TierUnavailable", "BackendError")
        assert "No space left" in told["text"]
        assert "free space" in told["text"]


def test_no_process_file_system(root: native_hosts.Caller) -> None:
    """Without ``/proc`` nothing can be proven."""
    for tier in TIERS:
        told = poorer(root, tier, before=elsewhere("mount -t tmpfs none /proc"))
        assert told["error"] == "TierUnavailable"
        assert "mount /proc" in told["text"]


@pytest.mark.parametrize("how", ["absent", "read-only"])
def test_no_control_groups(how: str, root: native_hosts.Caller) -> None:
    """Python guests are bounded by other means, which are named; programs are refused with the reason."""
    script = {
        "absent": "mount -t tmpfs none /sys/fs/cgroup",
        "read-only": "for each in $(awk '$5 ~ \"^/sys/fs/cgroup\" {print $5}' /proc/self/mountinfo); "
        "do mount -o remount,bind,ro $each; done",
    }[how]
    told = poorer(root, "isolated", before=elsewhere(script))
    assert told["value"] == 42
    assert told["layers"]["TOTAL_MEM_CAP"] == "rlimit+nofork"
    options = {"command": ["true"], "runtime": "command"}
    told = poorer(root, "isolated", before=elsewhere(script), codes=[None], options=options)
    assert told["error"] == "TierUnavailable"
    assert "TOTAL_MEM_CAP" in told["text"]
    assert "Fix:" in told["text"]


def test_programs_of_an_ordinary_user(found: native_hosts.Callers) -> None:
    """Where no group was delegated, the refusal has the command that delegates one."""
    one = native_hosts.find(found, "ordinary")
    options = {"command": ["true"], "runtime": "command"}
    told = poorer(one, "isolated", codes=[None], options=options)
    if told.get("kind") == "ok":
        pytest.skip("a control group was delegated to this user")
    assert told["error"] == "TierUnavailable"
    # By systemd, or by root where groups are of version 1.
    assert "Delegate=yes" in told["text"] or "cgroup.procs" in told["text"]


# ----------------------------------------------------------------------------------------------------- root's power


@pytest.mark.parametrize("missing", ["sys_admin", "setuid", "chown", "kill", "sys_resource"])
def test_root_without_a_capability(missing: str, root: native_hosts.Caller) -> None:
    """Root who lacks one is as good as an ordinary user: guests have no user of their own, and nothing says so."""
    told = poorer(root, "confined", before=without(missing))
    assert told["value"] == 42
    assert ("OWN_UID" in told["layers"]) == (missing == "sys_resource")
    told = poorer(root, "isolated", before=without(missing))
    if "error" in told:
        # Only a control group counts what root starts.
        assert told["failures"][0][0] == "PIDS_CAP"
        assert "ordinary user" in told["text"]
    else:
        assert told["value"] == 42


def test_root_of_a_user_namespace(found: native_hosts.Callers) -> None:
    """Root in a container without a range of users is an ordinary user outside."""
    one = native_hosts.find(found, "ordinary")
    house.require("isolated tier")
    for tier in TIERS:
        inner = native_hosts.Caller.__new__(native_hosts.Caller)
        inner.__dict__.update(one.__dict__, prefix=[*one.prefix, "unshare", "-Ur"])
        told = poorer(inner, tier)
        assert told["value"] == 42
        assert "OWN_UID" not in told["layers"]


def test_no_free_users(root: native_hosts.Caller) -> None:
    """A range that is wrong, or that is all taken, is told with the variable that sets it."""
    for text in ("1-5", "x", "1879048192-1879048200"):
        told = poorer(root, "confined", env={"FASTNESS_UID_RANGE": text})
        assert told["error"] == "TierUnavailable"
        assert "FASTNESS_UID_RANGE" in told["text"]
    import fcntl

    os.makedirs("/run/fastness-uids", mode=0o700, exist_ok=True)
    base = 2_000_000_000
    lock = os.open(f"/run/fastness-uids/{base}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        told = poorer(root, "confined", env={"FASTNESS_UID_RANGE": f"{base}-{base + 1100}"})
        assert told["error"] == "TierUnavailable"
        assert "no free block" in told["text"]
        assert "FASTNESS_UID_RANGE" in told["text"]
    finally:
        os.unlink(f"/run/fastness-uids/{base}")
        os.close(lock)


def test_an_interpreter_that_guests_may_not_reach(root: native_hosts.Caller) -> None:
    """Packages below a folder that only root may enter are shown to guests of other users, and nothing beside them."""
    house.require("confined tier")
    folder = os.path.join(root.home, "closed")
    packages = os.path.join(folder, "packages")
    os.makedirs(packages)
    os.chmod(folder, 0o700)
    with open(f"{packages}/hidden_module.py", "w", encoding="utf-8") as file:
        file.write("answer = 42\n")
    with open(f"{folder}/beside.txt", "w", encoding="utf-8") as file:
        file.write("secret")
    code = f"import hidden_module, os\ntry:\n  found = os.listdir({folder!r})\nexcept OSError as e:\n  found = e.errno\nhidden_module.answer, found"
    for tier in TIERS:
        told = poorer(root, tier, codes=[code], options={"packages": [packages]})
        answer, seen = told["value"]
        assert answer == 42
        # Behind Landlock, in a folder with nothing else in it, or at another place altogether.
        assert seen in (13, ["packages"], 2)
    shutil.rmtree(folder)


# ---------------------------------------------------------------------------------------------------------- preloads

PRELOADS = {
    "fails": ("1 / 0", "ConfigurationError", "division by zero"),
    "is not there": (None, "ConfigurationError", "No module named"),
    "exits": ("import sys; sys.exit(3)", "ConfigurationError", "SystemExit"),
    "starts a thread": ("import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "", "thread"),
    "ends the process": ("import os; os._exit(0)", "", ""),
    "crashes": ("import os; os.abort()", "", ""),
    "hangs": ("import time; time.sleep(600)", "", "not ready"),
    "spins": ("while True: pass", "", "not ready"),
    "prints to the error stream": ("import sys\nfor _ in range(64): sys.stderr.write('x' * (1 << 20))", "", ""),
    "recurses": ("def f(): f()\nf()", "ConfigurationError", "recursion"),
    "connects": ("import socket; socket.create_connection(('127.0.0.1', 1))", "ConfigurationError", ""),
    "starts a program": ("import subprocess; subprocess.run(['true'])", "ConfigurationError", ""),
}  # fmt: skip
HARMLESS = {
    "prints": "for _ in range(64): print('x' * (1 << 20))",
    "closes its streams": "import os\nfor fd in (0, 1, 2): os.close(fd)",
    "moves": "import os; os.chdir('/')",
    "takes memory": "x = bytearray(64 << 20)",
    "handles signals": "import signal; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]",
    "forks": "import os\nif os.fork() == 0: os._exit(0)\nos.wait()",
}


def preloaded(one: native_hosts.Caller, tier: str, text: str | None, start_s: float = 4.0) -> dict[str, Any]:
    packages = os.path.join(one.home, f"packages-{next(_homes)}")
    os.mkdir(packages, 0o755)
    if text is not None:
        with open(f"{packages}/preload_under_test.py", "w", encoding="utf-8") as file:
            file.write(text + "\n")
    os.chmod(one.home, 0o711)
    options = {"packages": [packages], "preload": ["preload_under_test"]}
    # Nothing is taken away here, so one proof of the tier is as good as many.
    home = {"FASTNESS_HOME": f"{one.home}/preloads"}
    return poorer(one, tier, codes=["6 * 7"], options=options, start_s=start_s, env=home, probe=False)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("what", PRELOADS)
def test_a_preload_that_misbehaves(what: str, tier: str, found: native_hosts.Callers) -> None:
    """The error names the preload or the cause, within the time that a zygote has, and nothing stays behind."""
    text, kind, cause = PRELOADS[what]
    # Those that do not come back take all the time that a zygote has.
    told = preloaded(found["caller"], tier, text, 2.5 if cause == "not ready" else 4.0)
    assert told["error"] == kind if kind else told["error"] in ("BackendError", "ConfigurationError"), told
    assert cause in told["text"]
    if kind == "ConfigurationError":
        assert "preload" in told["text"]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("what", HARMLESS)
def test_a_preload_that_only_seems_to(what: str, tier: str, found: native_hosts.Callers) -> None:
    """What hurts nobody does not hinder a run."""
    told = preloaded(found["caller"], tier, HARMLESS[what])
    assert told.get("value") == 42, told
