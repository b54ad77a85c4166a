"""The commented profiles, the programs generated from them, and what those decide."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastness._linux import profile_source, profiles
from fastness._linux.bpf import ALLOW, KILL_PROCESS, errno_action
from fastness._linux.numbers import numbers_of
from fastness._linux.profile_source import ProfileError, load_profile, read_profile

NR = numbers_of("x86_64")
EACCES, ENOSYS = errno_action(13), errno_action(38)

#: Calls that no program may ever let through, whatever their arguments.
NEVER = [
    "accept",
    "accept4",
    "add_key",
    "bind",
    "bpf",
    "chdir",
    "chmod",
    "chroot",
    "connect",
    "creat",
    "delete_module",
    "dup",
    "execve",
    "execveat",
    "fanotify_init",
    "finit_module",
    "fork",
    "fsopen",
    "init_module",
    "inotify_init1",
    "io_uring_enter",
    "io_uring_register",
    "io_uring_setup",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_load",
    "keyctl",
    "kill",
    "landlock_restrict_self",
    "link",
    "linkat",
    "listen",
    "memfd_secret",
    "mkdir",
    "mknod",
    "mount",
    "move_mount",
    "name_to_handle_at",
    "open_by_handle_at",
    "open_tree",
    "openat2",
    "perf_event_open",
    "personality",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "pivot_root",
    "pkey_mprotect",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
    "recvmmsg",
    "recvmsg",
    "rename",
    "request_key",
    "rmdir",
    "setns",
    "setresuid",
    "setsid",
    "setuid",
    "shmat",
    "shmget",
    "socket",
    "socketpair",
    "splice",
    "symlink",
    "tgkill",
    "tkill",
    "truncate",
    "umount2",
    "unlink",
    "unlinkat",
    "unshare",
    "userfaultfd",
    "vfork",
    "vmsplice",
]

PROGRAMS = ["engine/start", "engine/serve", "engine/start_image", "engine/serve_image", "compiler/work"]


Answer = Callable[..., int]


@pytest.fixture(scope="session")
def answer(interpret: Callable[..., int]) -> Answer:
    """What the generated program ``name`` says to ``call``."""

    def ask(name: str, call: str, *args: int) -> int:
        return interpret(profiles.program("x86_64", name), NR[call], (*args, *(0,) * (6 - len(args))))

    return ask


def test_generated_files_are_up_to_date() -> None:
    """What a process installs is what the commented profile says."""
    assert profile_source.main(["--check"]) == 0


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("call", NEVER)
def test_dangerous_calls_are_in_no_program(answer: Answer, name: str, call: str) -> None:
    """Everything that is not named ends the process."""
    assert answer(name, call) == KILL_PROCESS


def test_every_call_that_is_not_listed_is_killed(interpret: Callable[..., int]) -> None:
    """The lists are closed: a number in no rule is killed, including those of future kernels."""
    listed = {call for group in read_profile("engine")["groups"].values() for rule in group for call in rule["calls"]}
    for nr in range(600):
        name = next((n for n, k in NR.items() if k == nr), "")
        if name not in listed:
            assert interpret(profiles.program("x86_64", "engine/start_image"), nr) == KILL_PROCESS, name


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("open", (), EACCES),
        ("openat", (), EACCES),
        ("newfstatat", (), EACCES),
        ("mmap", (0, 4096, 3, 0x22), ALLOW),
        ("mmap", (0, 4096, 5, 0x22), KILL_PROCESS),
        ("mmap", (0, 4096, 3 | 1 << 32, 0x22), KILL_PROCESS),
        ("mmap", (0, 4096, 3, 0x01), KILL_PROCESS),  # MAP_SHARED
        ("mmap", (0, 4096, 3, 0x22 | 1 << 33), KILL_PROCESS),
        ("mprotect", (0, 4096, 3), ALLOW),
        ("mprotect", (0, 4096, 5), KILL_PROCESS),
        ("mprotect", (0, 4096, 2), KILL_PROCESS),
        ("mprotect", (0, 4096, 1 | 1 << 24), KILL_PROCESS),  # PROT_GROWSDOWN
        ("mremap", (0, 4096, 8192, 1), ALLOW),
        ("mremap", (0, 4096, 8192, 3), KILL_PROCESS),  # MREMAP_FIXED
        ("madvise", (0, 4096, 4), ALLOW),
        ("madvise", (0, 4096, 12), KILL_PROCESS),  # MADV_MERGEABLE
        ("ioctl", (3, 0xC0606610), ALLOW),
        ("ioctl", (0, 0x5412), KILL_PROCESS),
        ("ioctl", (0, 0x5412 | 1 << 32), KILL_PROCESS),
        ("futex", (0, 0x189), ALLOW),
        ("futex", (0, 6), KILL_PROCESS),  # FUTEX_LOCK_PI
        ("futex", (0, 12), KILL_PROCESS),  # FUTEX_CMP_REQUEUE_PI
        ("sendto", (3, 0, 0, 0, 0), ALLOW),
        ("sendto", (3, 0, 0, 0, 0x1000), KILL_PROCESS),
        ("write", (2,), ALLOW),
        ("write", (3,), KILL_PROCESS),
        ("memfd_create", (0, 11), KILL_PROCESS),
        ("pwrite64", (3,), KILL_PROCESS),
        ("fcntl", (3, 1033), KILL_PROCESS),
        ("rt_sigaction", (11,), KILL_PROCESS),
        ("clone", (0x3D0F00,), KILL_PROCESS),
        ("clone3", (), KILL_PROCESS),
        ("seccomp", (1, 1), KILL_PROCESS),
        ("prctl", (4, 1), KILL_PROCESS),
    ],
)
def test_serving_engine(answer: Answer, call: str, args: tuple[int, ...], expected: int) -> None:
    """A serving engine adds no code, reaches nothing new and starts nothing."""
    assert answer("engine/serve", call, *args) == expected


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("clone3", (), ENOSYS),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (0x3D0F00 | 0x10000000,), KILL_PROCESS),  # CLONE_NEWUSER
        ("clone", (17,), KILL_PROCESS),  # a fork
        ("clone", (0x3D0F00 | 1 << 32,), KILL_PROCESS),
        ("seccomp", (1, 1), ALLOW),
        ("seccomp", (1, 8), KILL_PROCESS),  # a listener that could answer for us
        ("rt_sigaction", (11,), ALLOW),
        ("execve", (), KILL_PROCESS),
    ],
)
def test_starting_engine(answer: Answer, call: str, args: tuple[int, ...], expected: int) -> None:
    """Before it is sealed an engine may start threads of its own and narrow itself, and no more."""
    assert answer("engine/start", call, *args) == expected


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("memfd_create", (0, 11), ALLOW),
        ("memfd_create", (0, 3), ALLOW),
        ("memfd_create", (0, 0), KILL_PROCESS),
        ("memfd_create", (0, 1 | 16), KILL_PROCESS),  # MFD_EXEC
        ("pwrite64", (3,), ALLOW),
        ("ftruncate", (3,), ALLOW),
        ("fcntl", (3, 1033), ALLOW),
        ("fcntl", (3, 0), KILL_PROCESS),  # F_DUPFD
    ],
)
def test_image_making_engine(answer: Answer, call: str, args: tuple[int, ...], expected: int) -> None:
    """Image mode adds what writes and seals an image, and no executable memory file."""
    assert answer("engine/serve_image", call, *args) == expected


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("mprotect", (0, 4096, 5), ALLOW),
        ("mprotect", (0, 4096, 7), KILL_PROCESS),
        ("mmap", (0, 4096, 5, 0x22), KILL_PROCESS),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (17,), KILL_PROCESS),
        ("openat", (), EACCES),
        ("sendto", (), KILL_PROCESS),
        ("recvfrom", (), KILL_PROCESS),
        ("memfd_create", (0, 11), KILL_PROCESS),
        ("prctl", (15,), ALLOW),
        ("prctl", (4, 1), KILL_PROCESS),
    ],
)
def test_compiler(answer: Answer, call: str, args: tuple[int, ...], expected: int) -> None:
    """A compiler has threads and publishes code once, and has no sockets and no files to open."""
    assert answer("compiler/work", call, *args) == expected


def test_every_rule_says_why() -> None:
    """A profile is read by people who have to agree with it."""
    for path in profile_source.FOLDER.glob("*.json"):
        for group in read_profile(path.stem)["groups"].values():
            for rule in group:
                assert len(rule["why"]) >= 7, rule


def test_profiles_assemble_for_aarch64() -> None:
    """The untested machine's programs can at least be made; calls that it does not have are left out."""
    for name in PROGRAMS:
        profile, _, program = name.partition("/")
        assert load_profile(read_profile(profile), program, "aarch64")


def test_unknown_program_is_an_error() -> None:
    """No program means no confinement, which must not pass in silence."""
    with pytest.raises(OSError, match="no system call filter"):
        profiles.program("riscv64", "engine/serve")


def _broken() -> list[tuple[str, Any]]:
    def with_rule(**changes: object) -> Any:
        def change(profile: dict[str, Any]) -> None:
            profile["groups"]["work"][0].update(changes)

        return change

    def with_second_rule(profile: dict[str, Any]) -> None:
        profile["groups"]["work"].append(dict(profile["groups"]["work"][0]))

    return [
        ("no system call", with_rule(calls=["opne"])),
        ("unknown", with_rule(wen=[])),
        ("must say why", with_rule(why=" ")),
        ("no action", with_rule(action="permit")),
        ("no action", with_rule(action={"errno": "ENOTHING"})),
        ("no constant", with_rule(when=[{"arg": 0, "in": ["PROT_RAED"]}])),
        ("no number", with_rule(when=[{"arg": 0, "in": [1.5]}])),
        ("no number", with_rule(when=[{"arg": 0, "in": [True]}])),
        ("arguments 0 to 5", with_rule(when=[{"arg": 9, "in": [1]}])),
        ("either", with_rule(when=[{"arg": 0}])),
        ("earlier rule", with_second_rule),
        ("no group", lambda profile: profile["programs"]["work"]["groups"].append("play")),
        ("no action", lambda profile: profile.update(default="panic")),
        ("missing", lambda profile: profile.pop("about")),
    ]


@pytest.mark.parametrize(("text", "change"), _broken())
def test_wrong_profiles_are_refused(text: str, change: Any) -> None:
    """A slip of the pen in a profile is an error, never a rule that silently does not apply."""
    profile = {
        "profile": "x",
        "about": [],
        "default": "kill_process",
        "groups": {"work": [{"calls": ["read"], "action": "allow", "why": "because"}]},
        "programs": {"work": {"groups": ["work"]}},
    }
    load_profile(copy.deepcopy(profile), "work")
    change(profile)
    with pytest.raises(ProfileError, match=text):
        load_profile(profile, "work")


def test_profile_that_is_no_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing, broken or foreign file is a ProfileError that names it."""
    monkeypatch.setattr(profile_source, "FOLDER", tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    for name in ("missing", "broken", "list"):
        with pytest.raises(ProfileError, match=name):
            read_profile(name)
    with pytest.raises(ProfileError, match="no program"):
        load_profile({"profile": "", "about": "", "default": "", "groups": {}, "programs": {}}, "work")


def test_command_line_writes_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--write`` makes the files anew, ``--check`` fails where one differs, anything else is a usage error."""
    for path in profile_source.FOLDER.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(profile_source, "FOLDER", tmp_path)
    assert profile_source.main(["--check"]) == 1
    assert profile_source.main(["--write"]) == 0
    assert profile_source.main(["--check"]) == 0
    (tmp_path / "programs.aarch64.txt").write_text("")
    assert profile_source.main(["--check"]) == 1
    assert profile_source.main([]) == 2
