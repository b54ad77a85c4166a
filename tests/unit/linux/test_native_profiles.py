"""What the filters of native guests, commands, zygotes and supervisors decide, judged by an interpreter of our own."""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._linux import profile_source, profiles
from fastness._linux.bpf import ALLOW, KILL_PROCESS, NO_PROCESS, NOTIFY, SUCCESS, TRACE, errno_action
from fastness._linux.constants import CONSTANTS
from fastness._linux.numbers import AUDIT_ARCH, numbers_of
from fastness._linux.profile_source import ProfileError, compile_program, load_profile, read_profile

Interpret = Callable[..., int]
Answer = Callable[..., int]

NR = numbers_of("x86_64")
EPERM, ENOSYS, EAFNOSUPPORT, EACCES, EOPNOTSUPP, ENOMEM, ENOPROTOOPT = map(errno_action, (1, 38, 97, 13, 95, 12, 92))

ME = 4242
GUESTS = ["guest/isolated", "guest/confined", "guest/confined_old"]
CONFINED_ZYGOTES = [f"zygote/preload_confined{old}{silent}" for old in ("", "_old") for silent in ("", "_silent")]
ZYGOTES = ["zygote/preload", *CONFINED_ZYGOTES]
NATIVE = [*GUESTS, "command/run", *ZYGOTES, "supervisor/serve"]
WITH_SUPERVISOR = [*GUESTS, "command/run", *ZYGOTES]

TIOCSTI, TIOCLINUX = 0x5412, 0x541C
NAMESPACES = [0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]

#: Calls that nothing confined may make, whatever their arguments: beyond the table, and above all what got past
#: other sandboxes.
_NEVER = """
io_uring_setup io_uring_enter io_uring_register userfaultfd bpf perf_event_open add_key request_key keyctl ptrace
process_vm_readv process_vm_writev process_madvise kcmp pidfd_getfd mount umount2 pivot_root chroot open_tree move_mount
fsopen fsconfig fsmount fspick mount_setattr open_tree_attr setns open_by_handle_at name_to_handle_at fanotify_init
fanotify_mark init_module finit_module delete_module kexec_load kexec_file_load reboot swapon swapoff iopl ioperm acct
quotactl quotactl_fd settimeofday clock_settime adjtimex clock_adjtime syslog modify_ldt vmsplice memfd_secret
lookup_dcookie nfsservctl vhangup inotify_init inotify_init1 inotify_add_watch
"""

#: What a guest may not do either, and a command may.
_NEVER_A_GUEST = """
fork vfork execve execveat uselib socket connect bind listen accept accept4 setsockopt sendmmsg recvmmsg memfd_create
shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend
mq_timedreceive mq_notify mq_getsetattr pidfd_open pidfd_send_signal unshare splice tee
personality mknod mknodat setsid setpgid tkill setpriority sched_setscheduler sched_setparam
sched_setattr setrlimit seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self setuid setgid setreuid
setregid setresuid setresgid setgroups setfsuid setfsgid capset capget chown lchown fchown fchownat setxattr lsetxattr
fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat getxattrat listxattrat file_setattr
file_getattr sync syncfs mlock mlock2 mlockall migrate_pages move_pages process_mrelease remap_file_pages ioprio_set
ioprio_get sethostname setdomainname statmount listmount cachestat lsm_set_self_attr lsm_get_self_attr
lsm_list_modules io_setup io_submit map_shadow_stack ustat sysfs get_robust_list signalfd4 readahead
"""

METADATA = ["chmod", "fchmod", "fchmodat", "fchmodat2", "utime", "utimes", "futimesat", "utimensat"]


@pytest.fixture(scope="session")
def answer(interpret: Interpret) -> Answer:
    """What the program ``name``, installed by process ``ME``, says to ``call``."""

    def ask(name: str, call: str, *args: int) -> int:
        return interpret(profiles.program("x86_64", name, ME), NR[call], (*args, *(0,) * (6 - len(args))))

    return ask


# ------------------------------------------------------------------------------------- what got past other sandboxes


@pytest.mark.parametrize("name", [*GUESTS, "command/run", *ZYGOTES])
@pytest.mark.parametrize("call", _NEVER.split())
def test_nothing_confined_makes_these_calls(answer: Answer, name: str, call: str) -> None:
    """Whatever the arguments: other processes' memory, mounts, keys, and parts with a history of faults."""
    for args in ((), (1,) * 6, (2**64 - 1,) * 6):
        assert answer(name, call, *args) == EPERM


@pytest.mark.parametrize("name", GUESTS)
@pytest.mark.parametrize("call", _NEVER_A_GUEST.split())
def test_a_guest_starts_nothing_and_reaches_nothing(answer: Answer, name: str, call: str) -> None:
    """No processes, programs, sockets, shared memory, rights, or metadata that others would see."""
    for args in ((), (1,) * 6, (0, 0, ME), (2**64 - 1,) * 6):
        assert answer(name, call, *args) == EPERM


@pytest.mark.parametrize("name", NATIVE)
@pytest.mark.parametrize("variant", ["", "_notify"])
def test_other_ways_into_the_kernel_are_closed(interpret: Interpret, name: str, variant: str) -> None:
    """32-bit calls and x32 numbers have other numbers for the same things, so each ends the process."""
    if name not in WITH_SUPERVISOR and variant:
        return
    program = profiles.program("x86_64", name + variant, ME)
    for arch in (0x40000003, 0xC00000B7, 0x40000028):
        assert interpret(program, NR["read"], arch=arch) == KILL_PROCESS
    for call in NR.values():
        assert interpret(program, call | 1 << 30) == KILL_PROCESS
    assert interpret(program, 2**32 - 1) == KILL_PROCESS


@pytest.mark.parametrize("name", NATIVE)
def test_calls_of_later_kernels_do_not_exist(interpret: Interpret, name: str) -> None:
    """A number that no table of ours knows is refused; ENOSYS lets a C library fall back."""
    program = profiles.program("x86_64", name, ME)
    expected = KILL_PROCESS if name == "supervisor/serve" else ENOSYS
    for nr in [*range(max(NR.values()) + 1, 1200), (1 << 30) - 1]:
        assert interpret(program, nr) == expected


@pytest.mark.parametrize("name", [*GUESTS, "command/run", *ZYGOTES])
@pytest.mark.parametrize("request_", [TIOCSTI, TIOCLINUX, 0x541D, 0x5423])
def test_terminal_input_cannot_be_forged(answer: Answer, name: str, request_: int) -> None:
    """The kernel looks at 32 bits of the request, and so does the filter: no bit above helps."""
    for high in (0, 1, 1 << 31, 2**32 - 1):
        assert answer(name, "ioctl", 0, request_ | high << 32) == EPERM


@pytest.mark.parametrize("name", [*GUESTS, "command/run"])
@pytest.mark.parametrize("bit", NAMESPACES)
def test_no_new_namespaces(answer: Answer, name: str, bit: int) -> None:
    """Not by clone, whatever other flags are set, and not by clone3, whose flags a filter cannot read."""
    for others in (0, 17, 0x3D0F00, 0x7D0F00, 0x100 | 17):
        assert answer(name, "clone", others | bit) == EPERM
    assert answer(name, "clone3", 1, 88) == ENOSYS
    assert answer(name, "unshare", bit) == EPERM
    assert answer(name, "setns", 3, bit) == EPERM


@pytest.mark.parametrize("name", GUESTS)
@pytest.mark.parametrize("flags", [17, 0, 0x4111, 0x1200011, 0x3D0F00 | 1 << 32, 0x3D0F00 & ~0x10000])
def test_a_guest_makes_threads_only(answer: Answer, name: str, flags: int) -> None:
    """Exactly as a C library does it; a process, or a thread that looks like one, is refused."""
    assert answer(name, "clone", 0x3D0F00) == ALLOW
    assert answer(name, "clone", 0x7D0F00) == ALLOW
    assert answer(name, "clone", flags) == EPERM


# ---------------------------------------------------------------------------------------------------------- the guest


@pytest.mark.parametrize("name", GUESTS)
@pytest.mark.parametrize("call", ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"])
def test_a_guest_signals_itself_alone(answer: Answer, interpret: Interpret, name: str, call: str) -> None:
    """No other process, no group of processes, and nobody at all where it was installed without a number."""
    assert answer(name, call, ME) == ALLOW
    assert answer(name, call, ME | 7 << 32) == ALLOW  # the kernel's own parameter has 32 bits
    for other in (0, 1, ME + 1, ME - 1, -1, -ME, -2, 2**32 - 1, NO_PROCESS, 1 << 22):
        assert answer(name, call, other, 9) == EPERM
    nobody = profiles.program("x86_64", name)
    for other in (0, 1, ME, 2**32 - 1):
        assert interpret(nobody, NR[call], (other, 9, 9, 0, 0, 0)) == EPERM


@pytest.mark.parametrize("name", GUESTS)
def test_a_guest_asks_about_itself_alone(answer: Answer, name: str) -> None:
    """Limits, scheduling and groups of others stay unknown, and no limit is set."""
    for mine in (0, ME):
        assert answer(name, "prlimit64", mine, 7, 0, 0x1000) == ALLOW
        assert answer(name, "prlimit64", mine, 7, 0x1000, 0) == EPERM
        assert answer(name, "prlimit64", mine, 7, 1 << 32, 0) == EPERM
        for call in ("sched_getaffinity", "sched_setaffinity", "sched_getscheduler", "sched_getparam", "sched_getattr"):
            assert answer(name, call, mine) == ALLOW
        assert answer(name, "getpriority", 0, mine) == ALLOW
    for other in (1, ME + 1, 2**32 - 1):
        assert answer(name, "prlimit64", other, 7, 0, 0x1000) == EPERM
        for call in ("sched_setaffinity", "sched_getscheduler", "sched_getparam", "sched_getattr", "getpgid", "getsid"):
            assert answer(name, call, other) == EPERM
        # The C library takes this answer for "no such call" where it looks for a thread's stack.
        assert answer(name, "sched_getaffinity", other) == ENOSYS
        assert answer(name, "getpriority", 0, other) == EPERM


@pytest.mark.parametrize("name", GUESTS)
@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5401 | 1 << 40), ALLOW),
        ("ioctl", (0, 0x5402), EPERM),  # TCSETS
        ("ioctl", (0, 0x8902), EPERM),  # SIOCSPGRP
        ("ioctl", (0, 0x40086602), EPERM),  # FS_IOC_SETFLAGS
        ("ioctl", (0, 0x40049409), EOPNOTSUPP),
        ("fcntl", (3, 3), ALLOW),
        ("fcntl", (3, 1030), ALLOW),
        ("fcntl", (3, 8), EPERM),  # F_SETOWN
        ("fcntl", (3, 8 | 1 << 32), EPERM),
        ("fcntl", (3, 10), EPERM),  # F_SETSIG
        ("fcntl", (3, 15), EPERM),  # F_SETOWN_EX
        ("fcntl", (3, 1024), EPERM),  # F_SETLEASE
        ("fcntl", (3, 1026), EPERM),  # F_NOTIFY
        ("fcntl", (3, 1031), EPERM),  # F_SETPIPE_SZ
        ("prctl", (15,), ALLOW),
        ("prctl", (4, 1), EPERM),  # PR_SET_DUMPABLE
        ("prctl", (22, 1), EPERM),  # PR_SET_SECCOMP
        ("prctl", (35,), EPERM),  # PR_SET_MM
        ("prctl", (1, 9), EPERM),  # PR_SET_PDEATHSIG
        ("prctl", (0x59616D61, 1), EPERM),  # PR_SET_PTRACER
        ("socketpair", (1, 1), ALLOW),
        ("socketpair", (1, 1 | 0o2004000), ALLOW),
        ("socketpair", (1, 2), EPERM),
        ("socketpair", (1, 5), EPERM),
        ("socketpair", (30, 1), EPERM),  # AF_TIPC
        ("socketpair", (1, 1 | 0x10), EPERM),
        ("sendto", (3, 0, 0, 0, 0), ALLOW),
        ("sendto", (3, 0, 0, 0, 0x1000), EPERM),
        ("sendto", (3, 0, 0, 0, 1 << 32), EPERM),
        ("sendto", (3, 0, 0, 0x4040), ALLOW),  # MSG_NOSIGNAL | MSG_DONTWAIT
        ("sendto", (3, 0, 0, 1), EPERM),  # MSG_OOB
        ("sendto", (3, 0, 0, 0x4041 | 1 << 32), EPERM),
        ("recvfrom", (3, 0, 0, 0x40), ALLOW),
        ("recvfrom", (3, 0, 0, 1), EPERM),
        ("recvmsg", (3, 0, 1), EPERM),
        ("sendmsg", (1020, 0, 0), ALLOW),
        ("sendmsg", (1020, 0, 1), EPERM),
        ("sendmsg", (3, 0, 0), EPERM),
        ("getsockopt", (3, 1, 17), ALLOW),
        ("getsockopt", (3, 1, 77), ENOPROTOOPT),  # SO_PEERPIDFD
        ("getsockopt", (3, 1 | 1 << 32, 77 | 1 << 33), ENOPROTOOPT),
        ("getsockopt", (3, 2, 77), ALLOW),
        ("mmap", (0, 4096, 7, 0x22), ALLOW),
        ("mmap", (0, 4096, 3, 0x40022), ENOMEM),  # MAP_HUGETLB
        ("mmap", (0, 4096, 3, 0x40022 | 1 << 32), ENOMEM),
        ("madvise", (0, 4096, 4), ALLOW),
        ("madvise", (0, 4096, 12), EPERM),  # MADV_MERGEABLE
        ("fallocate", (3, 0), ALLOW),
        ("fallocate", (3, 3), ALLOW),
        ("fallocate", (3, 1), EPERM),  # FALLOC_FL_KEEP_SIZE
        ("futex", (0, 0x80), ALLOW),
        ("futex", (0, 0x189), ALLOW),
        ("futex", (0, 6), ENOSYS),  # FUTEX_LOCK_PI
        ("futex", (0, 12), ENOSYS),  # FUTEX_CMP_REQUEUE_PI
        ("arch_prctl", (0x1002,), ALLOW),
        ("arch_prctl", (0x1012,), EPERM),  # ARCH_SET_CPUID
        ("mbind", (), ENOSYS),
        ("listxattr", (), EOPNOTSUPP),
        ("openat", (), ALLOW),
        ("close_range", (), ALLOW),
        ("statx", (), ALLOW),
        ("pipe2", (), ALLOW),
        ("rt_sigaction", (), ALLOW),
        ("rseq", (), ALLOW),
        ("recvmsg", (), ALLOW),
    ],
)
def test_arguments_of_a_guest(answer: Answer, name: str, call: str, args: tuple[int, ...], expected: int) -> None:
    """What is allowed in part is allowed in just that part."""
    assert answer(name, call, *args) == expected


@pytest.mark.parametrize("call", METADATA)
def test_metadata_acts_only_in_a_tree_of_ones_own(answer: Answer, call: str) -> None:
    """Landlock does not govern it, so where the tree is the host's such a call does nothing and says that it did."""
    assert answer("guest/isolated", call) == ALLOW
    for name in ("guest/confined", "guest/confined_old"):
        assert answer(name, call) == SUCCESS
        assert answer(name + "_notify", call) == NOTIFY
        assert profiles.answers("x86_64", name)[1][NR[call]] == 0


def test_truncate_by_path_needs_a_landlock_that_governs_it(answer: Answer) -> None:
    """Landlock does since ABI 3; by descriptor it is governed when that is opened."""
    assert answer("guest/confined", "truncate") == ALLOW
    assert answer("guest/confined_old", "truncate") == EPERM
    assert answer("guest/confined_old", "ftruncate") == ALLOW


@pytest.mark.parametrize(("call", "at"), [("open", 1), ("openat", 2)])
def test_no_emptying_without_opening_for_writing(answer: Answer, call: str, at: int) -> None:
    """O_RDONLY | O_TRUNC empties a file, and a Landlock before ABI 3 asks for the right to read it alone."""
    read_only, write_only, both, neither, truncate = 0, 1, 2, 3, 0o1000
    for others in (0, 0o2000000, 0o100 | 0o400000, 1 << 32, 1 << 31):
        for way in (read_only, write_only, both, neither):
            args = (*(0,) * at, way | others)
            for name in GUESTS:
                assert answer(name, call, *args) == ALLOW
            args = (*(0,) * at, way | truncate | others)
            assert answer("guest/confined", call, *args) == ALLOW
            for name in ("guest/confined_old", "zygote/preload_confined_old"):
                assert answer(name, call, *args) == (ALLOW if way in (write_only, both) else EPERM)
    assert answer("guest/confined", "openat2") == ALLOW
    assert answer("guest/confined_old", "openat2") == ENOSYS


# -------------------------------------------------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("execve", (), ALLOW),
        ("fork", (), ALLOW),
        ("vfork", (), ALLOW),
        ("clone", (0x1200011,), ALLOW),
        ("clone", (0x4111,), ALLOW),
        ("setsid", (), ALLOW),
        ("kill", (0, 9), ALLOW),
        ("socket", (1, 1), ALLOW),
        ("socket", (1, 2 | 0o2000000), ALLOW),
        ("socket", (1 | 1 << 32, 1), ALLOW),
        ("socket", (2, 1), EAFNOSUPPORT),
        ("socket", (10, 2), EAFNOSUPPORT),
        ("socket", (16, 3), EAFNOSUPPORT),
        ("socket", (40, 1), EAFNOSUPPORT),
        ("socket", (38, 5), EAFNOSUPPORT),
        ("socketpair", (1, 2), ALLOW),
        ("socketpair", (2, 1), EPERM),
        ("setsockopt", (3, 1, 7), ALLOW),
        ("setsockopt", (3, 1, 26), EPERM),  # SO_ATTACH_FILTER
        ("setsockopt", (3, 1 | 1 << 32, 50 | 1 << 33), EPERM),  # SO_ATTACH_BPF
        ("setsockopt", (3, 1, 76), ENOPROTOOPT),  # SO_PASSPIDFD
        ("getsockopt", (3, 1, 17), ALLOW),
        ("getsockopt", (3, 1, 77), ENOPROTOOPT),  # SO_PEERPIDFD
        ("sendto", (3, 0, 0, 0x4000, 0x1000), ALLOW),
        ("sendto", (3, 0, 0, 1), EPERM),  # MSG_OOB
        ("recvfrom", (3, 0, 0, 1), EPERM),
        ("sendmsg", (3, 0, 1), EPERM),
        ("recvmsg", (3, 0, 1), EPERM),
        ("sendmmsg", (3, 0, 1, 1), EPERM),
        ("recvmmsg", (3, 0, 1, 1), EPERM),
        ("recvmmsg", (3, 0, 1, 0x40), ALLOW),
        ("mknod", (0, 0o010644, 0), ALLOW),
        ("mknod", (0, 0o020644, 0x103), EPERM),
        ("mknod", (0, 0o060644, 0x103), EPERM),
        ("mknod", (0, 0o1020644, 0x103), EPERM),  # a bit above the 16 that the kernel takes
        ("mknod", (0, 0o060644 | 1 << 32, 0x103), EPERM),
        ("mknodat", (0, 0, 0o140644, 0), ALLOW),
        ("mknodat", (0, 0, 0o020644, 0x103), EPERM),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0,), ALLOW),
        ("personality", (0x0040000,), EPERM),  # ADDR_NO_RANDOMIZE
        ("mmap", (0, 4096, 3, 0x22), ALLOW),
        ("mmap", (0, 4096, 3, 0x40022), ENOMEM),  # MAP_HUGETLB
        ("memfd_create", (0, 1), ALLOW),
        ("memfd_create", (0, 4), EPERM),  # MFD_HUGETLB
        ("prctl", (22, 1), EPERM),
        ("prctl", (35,), EPERM),
        ("prctl", (38, 1), ALLOW),
        ("fcntl", (3, 1024), EPERM),  # F_SETLEASE
        ("ioctl", (0, 0x5402), ALLOW),
        ("sync", (), SUCCESS),
        ("seccomp", (1, 8), EPERM),
        ("landlock_create_ruleset", (), ENOSYS),
        ("shmget", (), EPERM),
        ("unshare", (0,), EPERM),
    ],
)
def test_commands(answer: Answer, call: str, args: tuple[int, ...], expected: int) -> None:
    """Programs make processes and talk to each other, and cannot leave the box by any of these."""
    assert answer("command/run", call, *args) == expected


# ------------------------------------------------------------------------------------------- zygotes and supervisors


_NEEDED_BY_A_ZYGOTE = """
clone3 clone fork unshare setresuid setresgid setgroups prctl capset landlock_create_ruleset landlock_add_rule
landlock_restrict_self seccomp sendmsg recvmsg pidfd_open prlimit64 mmap openat
"""


@pytest.mark.parametrize("call", _NEEDED_BY_A_ZYGOTE.split())
@pytest.mark.parametrize("name", ZYGOTES)
def test_a_zygote_can_make_guests(answer: Answer, name: str, call: str) -> None:
    """Namespaces, identities, rights, filters and descriptors: its filter leaves all of that."""
    assert answer(name, call) == ALLOW


def test_what_a_zygote_imports_reaches_nobody(answer: Answer) -> None:
    """No programs, and no socket that could be turned on a network or on a daemon of the host."""
    for call in ("execve", "execveat", "connect", "bind", "listen"):
        for name in ZYGOTES:
            assert answer(name, call) == EPERM
    for kind in (1, 5, 1 | 0o2000000):
        assert answer("zygote/preload", "socket", 1, kind) == ALLOW
        assert answer("zygote/preload", "socketpair", 1, kind) == ALLOW
    for family, kind in ((2, 1), (10, 1), (16, 3), (1, 2), (1, 3)):
        assert answer("zygote/preload", "socket", family, kind) == EPERM
    assert answer("zygote/preload", "socketpair", 1, 2) == EPERM


def test_what_a_zygote_imports_changes_no_file_of_the_host(answer: Answer) -> None:
    """Where its tree is the host's, metadata stays as for its guests; in a tree of its own that is no matter."""
    for call in [*METADATA, "chown", "fchown", "setxattr", "fsetxattr", "removexattr", "setxattrat", "file_setattr"]:
        assert answer("zygote/preload", call) == ALLOW
        assert answer("zygote/preload_confined", call) == EPERM
        assert answer("zygote/preload_confined_old", call) == EPERM
    # Flags, attributes, a version, and a seal for good (FS_IOC_ENABLE_VERITY): files open for reading will do for these.
    for request in (0x40086602, 0x401C5820 | 1 << 32, 0x40087602, 0x40806685):
        assert answer("zygote/preload_confined", "ioctl", 3, request) == EPERM
    assert answer("zygote/preload_confined", "truncate") == ALLOW
    assert answer("zygote/preload_confined_old", "truncate") == EPERM
    assert answer("zygote/preload_confined_old", "openat2") == ENOSYS


@pytest.mark.parametrize("name", CONFINED_ZYGOTES)
def test_what_a_zygote_imports_has_no_power_over_its_users_processes(answer: Answer, name: str) -> None:
    """The kernel compares users for these, and where it is the caller's those processes are the caller's."""
    others = """
    tkill pidfd_send_signal setpriority ioprio_set sched_setscheduler sched_setparam sched_setattr move_pages
    migrate_pages process_mrelease get_robust_list shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd
    msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr inotify_init inotify_init1
    inotify_add_watch io_setup sync syncfs
    """
    for call in others.split():
        for first in (0, 1, ME):
            assert answer(name, call, first) == EPERM
    for command in (8, 10, 15, 1024, 1026, 1031, 8 | 1 << 32):  # owners, signals, leases, watches, sizes of pipes
        assert answer(name, "fcntl", 3, command) == EPERM
    for request in (0x8901, 0x8902):  # FIOSETOWN, SIOCSPGRP
        assert answer(name, "ioctl", 3, request) == EPERM
    assert answer(name, "sched_setaffinity", 0) == answer(name, "prlimit64", 0, 7, 1, 0) == ALLOW
    assert answer(name, "prlimit64", ME, 7, 0, 1) == ALLOW  # a guest asks by its own number
    for other in (1, ME, 1 << 31):
        assert answer(name, "sched_setaffinity", other) == EPERM
        assert answer(name, "prlimit64", other, 7, 1, 0) == EPERM
    for call in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        assert answer(name, call, ME) == (EPERM if name.endswith("_silent") else ALLOW)
    assert answer(name, "flock", 3, 2) == SUCCESS


@pytest.mark.parametrize("name", ZYGOTES)
@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("getsockopt", (3, 1, 17), ALLOW),
        ("getsockopt", (3, 1, 77), ENOPROTOOPT),  # SO_PEERPIDFD
        ("setsockopt", (3, 1, 76), ENOPROTOOPT),  # SO_PASSPIDFD
        ("sendmsg", (3, 0, 0x4000), ALLOW),
        ("sendmsg", (3, 0, 1), EPERM),  # MSG_OOB
        ("recvfrom", (3, 0, 0, 1), EPERM),
        ("mmap", (0, 4096, 3, 0x22), ALLOW),
        ("mmap", (0, 4096, 3, 0x40022), ENOMEM),  # MAP_HUGETLB
        ("memfd_create", (0, 1), ALLOW),
        ("memfd_create", (0, 4), EPERM),  # MFD_HUGETLB
    ],
)
def test_arguments_of_a_zygote(answer: Answer, name: str, call: str, args: tuple[int, ...], expected: int) -> None:
    """Nothing of the host by its sockets, and no part of the kernel that an import has no use for."""
    assert answer(name, call, *args) == expected


def test_a_zygotes_refusals_give_way_to_its_guests_supervisors(answer: Answer) -> None:
    """An error would win over a guest's notification; in this variant the call is one that no tracer is there for."""
    for call in ("mount", "ptrace", "execve"):
        assert answer("zygote/preload_notify", call) == TRACE
    assert SUCCESS < NOTIFY < TRACE < ALLOW  # the smaller wins: `SECCOMP_RET_ACTION` is compared as a signed number


@pytest.mark.parametrize(
    ("call", "args", "expected"),
    [
        ("poll", (), ALLOW),
        ("recvmsg", (), ALLOW),
        ("ioctl", (3, 0xC0502100), ALLOW),
        ("ioctl", (3, 0xC0182101), ALLOW),
        ("ioctl", (3, 0x40182103), KILL_PROCESS),  # SECCOMP_IOCTL_NOTIF_ADDFD
        ("ioctl", (3, 0x5412), KILL_PROCESS),
        ("seccomp", (3, 0), ALLOW),
        ("seccomp", (1, 0), KILL_PROCESS),
        ("read", (0,), ALLOW),
        ("read", (3,), KILL_PROCESS),
        ("write", (2,), ALLOW),
        ("write", (3,), KILL_PROCESS),
        ("sendto", (3, 0, 0, 0, 0), ALLOW),
        ("sendto", (3, 0, 0, 0, 8), KILL_PROCESS),
        ("openat", (), EACCES),
        ("mmap", (0, 4096, 3, 0x22), ALLOW),
        ("mmap", (0, 4096, 5, 0x22), KILL_PROCESS),
        ("clone", (0x3D0F00,), KILL_PROCESS),
        ("kill", (0, 9), KILL_PROCESS),
        ("socket", (1, 1), KILL_PROCESS),
        ("pidfd_getfd", (), KILL_PROCESS),
        ("process_vm_readv", (), KILL_PROCESS),
        ("execve", (), KILL_PROCESS),
    ],
)
def test_supervisor(answer: Answer, call: str, args: tuple[int, ...], expected: int) -> None:
    """It answers and reports, and touches neither guests nor files."""
    assert answer("supervisor/serve", call, *args) == expected


# ----------------------------------------------------------------------------------- programs against their profiles


def _number(value: int | str, me: int) -> int:
    if value == "SELF":
        return me or NO_PROCESS
    return value if isinstance(value, int) else sum(CONSTANTS[name] for name in value.split("|"))


def _is_met(condition: dict[str, Any], args: tuple[int, ...], me: int) -> bool:
    value = args[condition["arg"]] % (1 << condition.get("width", 64))
    if "only_bits" in condition:
        return value & ~_number(condition["only_bits"], me) == 0
    return value & ~_number(condition.get("ignore_bits", 0), me) in [_number(each, me) for each in condition["in"]]


def _action(action: Any) -> int:
    if isinstance(action, str):
        return {"allow": ALLOW, "kill_process": KILL_PROCESS}[action]
    return SUCCESS if action["errno"] == "SUCCESS" else errno_action(getattr(errno, action["errno"]))


#: The reference looks at these for each call that it judges.
_cached = functools.cache(read_profile)
_numbers = functools.cache(numbers_of)


def decision(name: str, machine: str, nr: int, args: tuple[int, ...], me: int) -> tuple[int, bool]:
    """What a profile says, read rule by rule without BPF: the action, and whether it is counted."""
    stem, _, program = name.partition("/")
    profile, numbers = _cached(stem), _numbers(machine)
    if "beyond" in profile and nr > max(numbers.values()):
        return _action(profile["beyond"]), False
    for group in profile["programs"][program]["groups"]:
        for rule in profile["groups"][group]:
            if any(numbers.get(call) == nr for call in rule["calls"]) and all(
                _is_met(condition, args, me) for condition in rule.get("when", [])
            ):
                return _action(rule["action"]), rule.get("counted", False)
    return _action(profile["default"]), isinstance(profile["default"], dict)


CALLS = sorted({nr for machine in AUDIT_ARCH for nr in numbers_of(machine).values()})
WORDS = st.one_of(
    st.sampled_from([0, 1, 2, 3, 5, ME, 2**32 - 1, 2**64 - 1, NO_PROCESS]),
    st.sampled_from(sorted(set(CONSTANTS.values()))),
    st.sampled_from([value | 1 << 32 for value in sorted(set(CONSTANTS.values()))]),
    st.integers(0, 2**64 - 1),
)


@pytest.mark.parametrize("machine", sorted(AUDIT_ARCH))
@pytest.mark.parametrize("name", NATIVE)
@given(
    nr=st.one_of(st.sampled_from(CALLS), st.integers(0, 700)), args=st.tuples(*[WORDS] * 6), me=st.sampled_from([0, ME])
)
def test_program_decides_as_its_profile(
    interpret: Interpret, machine: str, name: str, nr: int, args: tuple[int, ...], me: int
) -> None:
    """Search tree, patches and variants together say what the profile says, for both machines."""
    action, counted = decision(name, machine, nr, args, me)
    arch = AUDIT_ARCH[machine]
    assert interpret(profiles.program(machine, name, me), nr, args, arch) == action
    if name in WITH_SUPERVISOR:
        told = TRACE if name.startswith("zygote/") else NOTIFY
        assert interpret(profiles.program(machine, f"{name}_notify", me), nr, args, arch) == (
            told if counted else action
        )
        if counted:
            default, others = profiles.answers(machine, name)
            assert SUCCESS | others.get(nr, default) == action


@pytest.mark.parametrize("machine", sorted(AUDIT_ARCH))
@pytest.mark.parametrize("name", NATIVE)
def test_every_call_is_decided_as_its_profile_says(interpret: Interpret, machine: str, name: str) -> None:
    """Each number once, with plain arguments."""
    program = profiles.program(machine, name, ME)
    for nr in range(700):
        for args in ((0,) * 6, (ME,) * 6, (1,) * 6):
            expected, _ = decision(name, machine, nr, args, ME)
            assert interpret(program, nr, args, AUDIT_ARCH[machine]) == expected, (nr, args)


# --------------------------------------------------------------------------------------------- variants and patches


@pytest.mark.parametrize("name", GUESTS)
@pytest.mark.parametrize("variant", ["", "_notify"])
@given(me=st.integers(1, 1 << 22))
def test_own_number_is_filled_in_exactly(name: str, variant: str, me: int) -> None:
    """Only constants that stood for no process change, and all of them do."""
    before = profiles.program("x86_64", name + variant)
    after = profiles.program("x86_64", name + variant, me)
    assert len(before) == len(after)
    changed = [at for at in range(0, len(before), 8) if before[at : at + 8] != after[at : at + 8]]
    assert changed
    for at in range(0, len(before), 8):
        stands_for_nobody = before[at + 4 : at + 8] == NO_PROCESS.to_bytes(4, "little") and before[at] == 0x15
        assert (at in changed) == stands_for_nobody
        assert before[at : at + 4] == after[at : at + 4]
        if stands_for_nobody:
            assert after[at + 4 : at + 8] == me.to_bytes(4, "little")


@pytest.mark.parametrize("name", WITH_SUPERVISOR)
@pytest.mark.parametrize("machine", sorted(AUDIT_ARCH))
def test_variants_differ_in_answers_only(machine: str, name: str) -> None:
    """What is allowed without a supervisor is what is allowed with one."""
    plain, told = profiles.program(machine, name), profiles.program(machine, f"{name}_notify")
    to = (TRACE if name.startswith("zygote/") else NOTIFY).to_bytes(4, "little")
    differing = [at for at in range(0, len(plain), 8) if plain[at : at + 8] != told[at : at + 8]]
    assert len(plain) == len(told)
    assert differing
    for at in differing:
        assert plain[at] == told[at] == 0x06  # a return
        assert int.from_bytes(plain[at + 4 : at + 8], "little") & 0xFFFF0000 == SUCCESS
        assert told[at + 4 : at + 8] == to


@pytest.mark.parametrize("me", [-1, (1 << 22) + 1, 2**32 - 1])
def test_what_is_no_process_number(me: int) -> None:
    """A number that stands for a group, or for nobody, is an error."""
    with pytest.raises(ValueError, match="process number"):
        profiles.program("x86_64", "guest/isolated", me)


def test_programs_without_a_supervisor_have_no_variant() -> None:
    """Asking for one is an error, as is any name that is not in the list."""
    for name in ("supervisor/serve_notify", "engine/serve_notify", "guest/_notify", "guest/isolated_notify_notify", ""):
        with pytest.raises(OSError, match="no system call filter"):
            profiles.program("x86_64", name)
    with pytest.raises(OSError, match="no system call filter"):
        profiles.answers("x86_64", "engine/serve")


def test_answers_of_a_supervisor() -> None:
    """EPERM for most; success for what is left undone, and the errors that programs understand."""
    assert profiles.answers("x86_64", "guest/isolated") == (1, {NR["getsockopt"]: 92})
    default, others = profiles.answers("x86_64", "guest/confined_notify")
    assert default == 1
    assert others == {NR["getsockopt"]: 92} | {NR[call]: 0 for call in METADATA}
    assert profiles.answers("x86_64", "command/run") == (1, {NR["getsockopt"]: 92, NR["socket"]: 97})
    arm = numbers_of("aarch64")
    assert profiles.answers("aarch64", "guest/confined")[1] == {arm["getsockopt"]: 92} | {
        arm[call]: 0 for call in METADATA if call in arm
    }


def test_aarch64_has_the_newer_forms_of_what_it_lacks() -> None:
    """A call that only x86_64 has is left out there; its form with a folder descriptor is in the same list."""
    arm = numbers_of("aarch64")
    listed = {call for group in read_profile("guest")["groups"].values() for rule in group for call in rule["calls"]}
    for old, new in {"open": "openat", "stat": "newfstatat", "mkdir": "mkdirat", "chmod": "fchmodat", "poll": "ppoll",
                     "dup2": "dup3", "pipe": "pipe2", "rename": "renameat", "utimes": "utimensat"}.items():  # fmt: skip
        assert old in listed
        assert old not in arm
        assert new in listed
        assert new in arm


# ------------------------------------------------------------------------------------------------------ wrong profiles


def _profile(**program: object) -> dict[str, Any]:
    return {
        "profile": "x",
        "about": [],
        "default": {"errno": "EPERM"},
        "groups": {"work": [{"calls": ["read"], "action": "allow", "why": "because"}]},
        "programs": {"work": {"groups": ["work"], **program}},
    }


@pytest.mark.parametrize(
    ("text", "rules", "program"),
    [
        ("no notification", [], {"notify": "shout"}),
        ("unknown", [], {"notfy": "notify"}),
        ("can be counted", [{"calls": ["open"], "action": "allow", "counted": True}], {}),
        ("32 bits", [{"calls": ["kill"], "when": [{"arg": 0, "in": ["SELF"]}], "action": "allow"}], {}),
        ("differ", [{"calls": ["socket"], "when": [{"arg": 0, "in": [1]}], "action": {"errno": "EACCES"}, "counted": True}],
         {"notify": "notify"}),
    ],
)  # fmt: skip
def test_wrong_notifications_are_refused(text: str, rules: list[dict[str, Any]], program: dict[str, Any]) -> None:
    """A supervisor that could not give the plain variant's answer is a mistake in the profile."""
    profile = _profile(**program)
    profile["groups"]["work"] += [{**rule, "why": "because"} for rule in rules]
    with pytest.raises(ProfileError, match=text):
        load_profile(profile, "work")


def test_a_default_that_kills_is_not_counted() -> None:
    """A variant with a supervisor tells of errors only."""
    compiled = compile_program({**_profile(notify="notify"), "default": "kill_process"}, "work")
    assert compiled.program.counted == ()
    assert compiled.default_errno == errno.EPERM


def test_files_of_programs_are_in_one_place() -> None:
    """Each machine's file lies beside the profiles and says from where it comes."""
    for machine in AUDIT_ARCH:
        text = (profile_source.FOLDER / f"programs.{machine}.txt").read_text("ascii")
        assert ("(untested)" in text.partition("\n")[0]) == (machine != "x86_64")
