"""Refused calls on a real kernel: what the guest is answered, what the supervisor records, and when."""

from __future__ import annotations

import os
import socket
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._linux import details, notify, seccomp
from fastness._linux.numbers import numbers_of

Child = Callable[..., "subprocess.CompletedProcess[str]"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess

# `_socket` needs no import of a package, which an ordinary user might not be able to read.
_SUPERVISED = """
M = syscalls.MACHINE
raw = syscalls.raw

def raw_error(name, *arguments):
    return error_of(raw, name, *arguments)

def start(name, guest):
    \"\"\"Run `guest` under the variant of `name` with a supervisor; returns its pid and its listener.\"\"\"
    here, there = _socket.socketpair()
    sys.stdout.flush()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        status = 1
        try:
            # It may have its own listener open for a moment, and would wait on that for ever.
            privileges.die_with_parent(parent)
            os.setsid(); here.close()
            # The one number on which a guest may hand its listener over.
            os.dup2(there.fileno(), 1020, False); there.close()
            there = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM, 0, 1020)
            privileges.forbid_new_privileges()
            listener = seccomp.install_with_listener(profiles.program(M, name + "_notify", os.getpid()))
            there.sendmsg([b"x"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", listener))])
            os.close(listener); there.close()
            guest()
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    there.close()
    _, ancillary, _, _ = here.recvmsg(1, _socket.CMSG_SPACE(4))
    here.close()
    return pid, struct.unpack("i", ancillary[0][2])[0]

rows = {}
def record(box, row):
    rows[(row.name, row.detail)] = row.count
def ended(box, reason):
    print("ended", box, reason)

def supervise(name, guest, on_row=record):
    pid, listener = start(name, guest)
    supervisor = notify.Supervisor(on_row, ended)
    supervisor.add(listener, "box", profiles.answers(M, name))
    while supervisor._boxes:
        assert supervisor.step(10)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

Supervised = Callable[..., list[str]]


@pytest.fixture
def supervised(child: Child) -> Supervised:
    """Run code with the functions above in a fresh interpreter; returns the lines that it printed."""

    def run(code: str, *, user: str = "") -> list[str]:
        done = child(_SUPERVISED + textwrap.dedent(code), user=user)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.fixture(autouse=True)
def _supported(require: Callable[[str], None]) -> None:
    require("confinement")


# -------------------------------------------------------------------------------------------- recorded and refused


def test_refused_calls_are_recorded(supervised: Supervised, user: str) -> None:
    """Each fails as without a supervisor; equal ones are one row; what is allowed is not told."""
    lines = supervised(
        """
        def guest():
            for target in (0, -1, 1):
                print(raw_error("kill", target & (1 << 64) - 1, 9))
            print(raw_error("kill", os.getpid(), 0))
            print(raw_error("socket", 2, 1, 0), raw_error("socket", 16, 3, 0), raw_error("clone3", 0, 0))
            print(error_of(os.fork), error_of(os.execv, "/bin/true", ["true"]))
            print(raw_error("clone", 0x10000011), raw_error("clone", 0x11))
            print(raw_error("ioctl", 0, 0x5412 | 1 << 32, 0), raw_error("tkill", os.getpid(), 0))
        print(supervise("guest/isolated", guest))
        for row, count in sorted(rows.items()):
            print(*row, count)
        """,
        user=user,
    )
    assert lines[:3] == ["EPERM"] * 3
    assert lines[3:8] == [
        "succeeded",
        "EPERM EPERM ENOSYS",
        "EPERM EPERM",
        "EPERM EPERM",
        "EPERM EPERM",
    ]
    assert lines[8:10] == ["ended box ended", "0"]
    assert lines[10:] == [
        "clone process 2",
        "clone user namespace 1",
        "execve  1",
        "ioctl operation 0x5412 1",
        "kill signal 9 3",
        "socket AF_INET 1",
        "socket AF_NETLINK 1",
        "tkill signal 0 1",
    ]


_OF_A_GUEST = """
ptrace mount bpf keyctl io_uring_setup userfaultfd unshare setns memfd_create pidfd_open shmget chroot process_vm_readv
perf_event_open open_by_handle_at fanotify_init splice personality setsid seccomp mknodat landlock_create_ruleset
sched_setscheduler fsopen vfork clone3 mbind getxattr setxattr socket tkill
"""
_OF_A_COMMAND = """
ptrace mount bpf keyctl io_uring_setup userfaultfd unshare setns chroot pidfd_getfd seccomp process_vm_readv
perf_event_open open_by_handle_at fanotify_init shmget landlock_create_ruleset clone3 sync
"""


def test_both_variants_answer_the_same(supervised: Supervised) -> None:
    """A guest cannot tell by an answer whether somebody writes it down."""
    lines = supervised(
        f"""
        attempts = {{"guest/isolated": {_OF_A_GUEST.split()!r}, "command/run": {_OF_A_COMMAND.split()!r}}}
        for program, names in attempts.items():
            def guest():
                print(*[raw_error(name, 40, 0, 0) for name in names])
            assert supervise(program, guest) == 0
            sys.stdout.flush()
            pid = os.fork()
            if not pid:
                privileges.forbid_new_privileges()
                seccomp.install(profiles.program(M, program, os.getpid()))
                guest(); sys.stdout.flush(); os._exit(0)
            os.waitpid(pid, 0)
        """
    )
    told = [line.split() for line in lines if not line.startswith("ended")]
    assert told[0] == told[1]
    assert told[2] == told[3]
    guest = dict(zip(_OF_A_GUEST.split(), told[0], strict=True))
    others = {"clone3": "ENOSYS", "mbind": "ENOSYS", "getxattr": "ENOTSUP"}
    assert guest == dict.fromkeys(guest, "EPERM") | others
    command = dict(zip(_OF_A_COMMAND.split(), told[2], strict=True))
    others = {"landlock_create_ruleset": "ENOSYS", "clone3": "ENOSYS", "sync": "succeeded"}
    assert command == dict.fromkeys(command, "EPERM") | others


def test_a_record_is_not_later_than_what_the_guest_does_next(supervised: Supervised) -> None:
    """While a row is handed over the guest still waits; whoever sees what it does next has the record already."""
    lines = supervised(
        """
        read, write = os.pipe()
        os.set_blocking(read, False)
        def guest():
            raw_error("kill", 1, 0)
            os.write(write, b"after")
        def look(box, row):
            time.sleep(0.05)
            print(row.name, error_of(os.read, read, 9))
        print(supervise("guest/isolated", guest, look), os.read(read, 9))
        """
    )
    assert lines == ["kill EAGAIN", "ended box ended", "0 b'after'"]


@pytest.mark.parametrize("program", ["guest/confined", "guest/confined_old"])
def test_metadata_of_the_hosts_files_stays(supervised: Supervised, open_folder: Path, user: str, program: str) -> None:
    """Changing it seems to work, by path and by descriptor, is recorded, and does not happen."""
    file = open_folder / "file"
    file.write_text("text")
    file.chmod(0o666)
    before = file.stat()
    lines = supervised(
        f"""
        path = {str(file)!r}
        def guest():
            fd = os.open(path, os.O_RDWR)
            os.chmod(path, 0o777); os.fchmod(fd, 0o777); os.utime(path, (1, 1)); os.utime(fd, (1, 1))
            print(raw_error("fchmodat", -100 & (1 << 64) - 1, 0, 0o777))
            print(error_of(os.chown, path, 1, 1), error_of(os.fchown, fd, 1, 1), error_of(os.lchown, path, 1, 1))
            print(error_of(os.setxattr, path, "user.x", b"1"), error_of(os.setxattr, fd, "user.x", b"1"))
            print(error_of(os.getxattr, path, "user.x"), error_of(os.listxattr, fd), error_of(os.mkfifo, path + "2"))
            print(error_of(os.truncate, path, 2), error_of(os.ftruncate, fd, 3))
        print(supervise({program!r}, guest))
        print(sorted(rows))
        """,
        user=user,
    )
    truncate = "EPERM" if program == "guest/confined_old" else "succeeded"
    assert lines[:5] == [
        "succeeded",
        "EPERM EPERM EPERM",
        "EPERM EPERM",
        "ENOTSUP ENOTSUP EPERM",
        f"{truncate} succeeded",
    ]
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_size) == (before.st_mode, before.st_uid, 3)
    assert after.st_mtime > 2
    assert {"chmod", "fchmod", "utimensat", "fchmodat"} <= {name for name, _ in eval(lines[-1])}
    assert not (open_folder / "file2").exists()


@pytest.mark.parametrize(
    "program", ["guest/confined_old", "zygote/preload_confined_old", "zygote/preload_confined_old_silent"]
)
def test_an_old_landlock_is_not_stepped_around(
    require: Callable[[str], None], supervised: Supervised, open_folder: Path, user: str, program: str
) -> None:
    """One without the right to truncate lets a file that may only be read be emptied, and the filter does not."""
    require("landlock")
    file = open_folder / "file"
    lines = []
    for filtered in (False, True):
        file.write_text("text")
        file.chmod(0o666)
        lines += supervised(
            f"""
            path = {str(file)!r}
            privileges.forbid_new_privileges()
            handled = struct.pack("=Q", (1 << 14) - 1)  # ABI 2
            buffer = ctypes.create_string_buffer(handled)
            ruleset = raw("landlock_create_ruleset", ctypes.addressof(buffer), 8, 0)
            folder = os.open({str(open_folder)!r}, os.O_PATH)
            beneath = ctypes.create_string_buffer(struct.pack("=Qi", 1 << 2 | 1 << 3, folder))  # read files and folders
            raw("landlock_add_rule", ruleset, 1, ctypes.addressof(beneath), 0)
            raw("landlock_restrict_self", ruleset, 0)
            if {filtered}:
                seccomp.install(profiles.program(M, {program!r}, os.getpid()))
            for flags in (os.O_WRONLY, os.O_RDONLY, os.O_TRUNC, os.O_TRUNC | 3):
                print(error_of(os.open, path, flags), os.stat(path).st_size)
            print(error_of(os.truncate, path, 1))
            """,
            user=user,
        )
    assert lines[:5] == ["EACCES 4", "succeeded 4", "succeeded 0", "succeeded 0", "succeeded"]
    assert lines[5:] == ["EACCES 4", "succeeded 4", "EPERM 4", "EPERM 4", "EPERM"]


# ------------------------------------------------------------------------------------------------------------ limits


def test_after_the_last_notification_the_kernel_refuses_alone(supervised: Supervised) -> None:
    """A guest that is refused all the time costs the supervisor so much, and hears the end of it not before others do."""
    lines = supervised(
        """
        notify.MAX_NOTIFICATIONS = 5
        def guest():
            for _ in range(8):
                print(raw_error("kill", 1, 0))
            print(error_of(os.chmod, "/nowhere", 0))
        print(supervise("guest/confined", guest))
        print(rows)
        """
    )
    refused = [line for line in lines if line.isupper()]
    assert refused == ["EPERM"] * 4 + ["ENOSYS"] * 5
    assert "ended box full" in lines
    assert lines[-1] == "{('kill', 'signal 0'): 5}"


def test_a_guest_has_so_many_rows(supervised: Supervised) -> None:
    """The call after the last distinct row is refused by the kernel, without a row."""
    lines = supervised(
        """
        def guest():
            answers = [raw_error("kill", 1, number) for number in (*range(1000, 1000 + notify.MAX_ROWS), 1000, 1, 1000)]
            print(set(answers[:-2]), answers[-2:])
        print(supervise("guest/isolated", guest))
        print(len(rows), rows["kill", "signal 1000"])
        """
    )
    assert sorted(lines) == ["0", "64 2", "ended box full", "{'EPERM'} ['ENOSYS', 'ENOSYS']"]


def test_without_a_supervisor_calls_are_refused(supervised: Supervised, open_folder: Path) -> None:
    """A supervisor that ends, whether with a call in hand or not, opens nothing."""
    lines = supervised(
        f"""
        folder = {str(open_folder)!r}
        def guest():
            print(raw_error("kill", 1, 0), raw_error("socket", 2, 1, 0), error_of(os.chmod, folder, 0o700))
        pid, fd = start("guest/confined", guest)
        listener = notify.Listener(fd)
        while not (refused := listener.receive()):
            time.sleep(0.001)
        print(refused.name, refused.number, refused.args[:2], refused.pid == pid)
        sys.stdout.flush()
        listener.close()
        listener.close()
        print(os.waitpid(pid, 0)[1], listener.receive(), oct(os.stat(folder).st_mode & 0o777))
        """
    )
    assert lines == [
        f"kill {numbers_of('x86_64')['kill']} (1, 0) True",
        "ENOSYS ENOSYS ENOSYS",
        "0 None 0o777",
    ]


def test_a_guest_that_is_killed_while_it_waits(supervised: Supervised) -> None:
    """Its answer goes nowhere, which is no error, and its box ends."""
    lines = supervised(
        """
        pid, fd = start("guest/isolated", lambda: raw_error("kill", 1, 0))
        listener = notify.Listener(fd)
        while not (refused := listener.receive()):
            time.sleep(0.001)
        os.kill(pid, 9)
        print(os.waitpid(pid, 0)[1])
        listener.answer(refused.id, 1)
        for _ in range(100):
            if listener.gone:
                break
            assert listener.receive() is None
            time.sleep(0.01)
        print(listener.gone)
        """
    )
    assert lines == ["9", "True"]


def test_one_guest_does_not_keep_another_waiting(supervised: Supervised) -> None:
    """One that is refused all the time takes its turn with the others, and other descriptors are served too."""
    lines = supervised(
        """
        def busy():
            while raw_error("kill", 1, 0) == "EPERM":
                pass
        def calm():
            time.sleep(0.05)
            print(raw_error("socket", 2, 1, 0))
        order = []
        supervisor = notify.Supervisor(lambda box, row: order.append(box), ended)
        read, write = os.pipe()
        seen = []
        def look(events):
            seen.append(os.read(read, 9))
            supervisor.unwatch(read)
        supervisor.watch(read, look)
        first, fd = start("guest/isolated", busy)
        supervisor.add(fd, "busy")
        second, fd = start("guest/isolated", calm)
        supervisor.add(fd, "calm")
        os.write(write, b"word")
        while any(box.key == "calm" for box in supervisor._boxes.values()):
            assert supervisor.step(10)
        print(seen, len(supervisor._boxes) == 1 or order.count("busy") == notify.MAX_NOTIFICATIONS)
        while supervisor._boxes:
            assert supervisor.step(10)
        print(os.waitpid(first, 0)[1], os.waitpid(second, 0)[1], supervisor.step(0))
        """
    )
    assert lines[0] == "EPERM"
    assert "ended calm ended" in lines
    assert "[b'word'] True" in lines
    assert lines[-1] == "0 0 False"


# --------------------------------------------------------------------------------------- filters above and below each


def test_only_one_listener(supervised: Supervised) -> None:
    """A second one is an error, not a filter whose notifications go elsewhere; a wrong program is an error too."""
    lines = supervised(
        """
        privileges.forbid_new_privileges()
        print(seccomp.has_user_notification())
        code = profiles.program(M, "zygote/preload_confined")
        print(error_of(seccomp.install_with_listener, b""), error_of(seccomp.install_with_listener, bytes(8)))
        first = seccomp.install_with_listener(code)
        print(os.get_inheritable(first), error_of(seccomp.install_with_listener, code))
        os.close(first)
        print(error_of(seccomp.install_with_listener, code))
        """
    )
    assert lines == ["True", "EINVAL EINVAL", "False EBUSY", "succeeded"]


def test_a_kernel_without_the_newest_flag(supervised: Supervised) -> None:
    """Waiting for an answer can then be interrupted by any signal, which is no worse a refusal."""
    lines = supervised(
        """
        seccomp._FLAG_WAIT_KILLABLE_RECV = 1 << 20
        print(supervise("guest/isolated", lambda: print(raw_error("kill", 1, 0))), rows)
        """
    )
    assert lines == ["EPERM", "ended box ended", "0 {('kill', 'signal 0'): 1}"]


def test_a_zygotes_filter_does_not_hide_what_guests_try(supervised: Supervised) -> None:
    """Its refusals give way to a guest's supervisor and never to the guest; alone they are ENOSYS."""
    lines = supervised(
        """
        privileges.forbid_new_privileges()
        seccomp.install(profiles.program(M, "zygote/preload_notify"))
        calls = ("ptrace", "mount", "execve", "bpf", "connect")
        print(*[raw_error(name, 0, 0, 0) for name in calls])
        print(raw_error("socket", 2, 1, 0), os.system("true") != 0)
        print(supervise("guest/isolated", lambda: print(*[raw_error(name, 0, 0, 0) for name in calls])))
        print(sorted(name for name, _ in rows))
        sys.stdout.flush()
        if not (pid := os.fork()):
            seccomp.install(profiles.program(M, "guest/isolated", os.getpid()))
            print(*[raw_error(name, 0, 0, 0) for name in calls]); sys.stdout.flush(); os._exit(0)
        os.waitpid(pid, 0)
        """
    )
    assert lines == [
        "ENOSYS ENOSYS ENOSYS ENOSYS ENOSYS",
        "ENOSYS True",
        "EPERM EPERM EPERM EPERM EPERM",
        "ended box ended",
        "0",
        "['bpf', 'connect', 'execve', 'mount', 'ptrace']",
        "EPERM EPERM EPERM EPERM EPERM",
    ]


@pytest.mark.parametrize("outer", ["zygote/preload_confined", "zygote/preload_confined_notify"])
def test_a_guests_answers_are_its_own_filters(supervised: Supervised, outer: str, open_folder: Path) -> None:
    """What a guest leaves undone in peace is an error for its zygote, and stays left undone under both filters."""
    lines = supervised(
        f"""
        folder = {str(open_folder)!r}
        privileges.forbid_new_privileges()
        seccomp.install(profiles.program(M, {outer!r}))
        print(error_of(os.chmod, folder, 0o700), error_of(os.utime, folder, (1, 1)))
        sys.stdout.flush()
        if not (pid := os.fork()):
            seccomp.install(profiles.program(M, "guest/confined", os.getpid()))
            print(error_of(os.chmod, folder, 0o700), error_of(os.utime, folder, (1, 1))); sys.stdout.flush(); os._exit(0)
        os.waitpid(pid, 0)
        print(oct(os.stat(folder).st_mode & 0o777), os.stat(folder).st_mtime > 2)
        """
    )
    own = "ENOSYS" if outer.endswith("_notify") else "EPERM"
    assert lines == [f"{own} {own}", "succeeded succeeded", "0o777 True"]


def test_a_supervisor_under_its_own_filter(supervised: Supervised, user: str) -> None:
    """It takes listeners, answers and reports; files stay closed, and what it has no use for ends it."""
    lines = supervised(
        """
        read, write = os.pipe()
        pid, fd = start("guest/confined", lambda: os.write(write, repr(
            [raw_error("kill", 1, 0), error_of(os.chmod, "/x", 0), raw_error("socket", 2, 1, 0)]).encode()))
        here, there = _socket.socketpair()
        sys.stdout.flush()
        if not (server := os.fork()):
            here.close()
            supervisor = notify.Supervisor(lambda box, row: there.send(f"{box} {row.name} {row.count};".encode()))
            answers = profiles.answers(M, "guest/confined")
            privileges.forbid_new_privileges()
            seccomp.install(profiles.program(M, "supervisor/serve"))
            supervisor.add(fd, "box", answers)
            while supervisor._boxes:
                supervisor.step()
            there.send(error_of(os.open, "/etc/hostname", 0).encode())
            _socket.socket()
            os._exit(0)
        os.close(fd); there.close()
        print(os.waitpid(pid, 0)[1], os.read(read, 999).decode())
        print(os.waitstatus_to_exitcode(os.waitpid(server, 0)[1]) == -signal.SIGSYS)
        print(here.recv(999).decode())
        """,
        user=user,
    )
    assert lines == [
        "0 ['EPERM', 'succeeded', 'EPERM']",
        "True",
        "box kill 1;box chmod 1;box socket 1;EACCES",
    ]


def test_commands_start_programs_and_reach_nobody(supervised: Supervised) -> None:
    """A shell and its children run; a filter stays over a program change, and so does its listener."""
    lines = supervised(
        """
        def guest():
            os.dup2(1, 2)
            os.execv("/bin/sh", ["sh", "-c", "echo a | cat; (exit 3) & wait $!; echo $?; kill -0 $$ && exec mount -t tmpfs x /"])
        print(supervise("command/run", guest) != 0)
        print([row for row in rows if row[0] in ("mount", "fsopen")] != [])
        def more():
            print(raw_error("socket", 2, 1, 0), raw_error("socket", 1, 1, 0), raw_error("sync"))
            print(raw_error("ioctl", 0, 0x5412 | 1 << 32, 0), raw_error("mknodat", 0, 0, 0o20644, 0x103))
        print(supervise("command/run", more))
        """
    )
    assert lines[:2] == ["a", "3"]
    assert lines[-7:] == ["ended box ended", "True", "True", "EAFNOSUPPORT succeeded succeeded", "EPERM EPERM",
                          "ended box ended", "0"]  # fmt: skip


@pytest.mark.parametrize("program", ["guest/isolated_notify", "command/run_notify", "zygote/preload"])
def test_an_x32_number_ends_the_process(child: Child, program: str) -> None:
    """Not the supervisor's business: the process is gone, with SIGSYS."""
    done = child(
        f"""
        privileges.forbid_new_privileges()
        code = profiles.program("x86_64", {program!r}, os.getpid())
        seccomp.install_with_listener(code) if "notify" in {program!r} else seccomp.install(code)
        syscalls.raw_number("getpid", 39 | 1 << 30)
        """
    )
    assert done.returncode == -31


# ----------------------------------------------------------------------------------------------------------- details


@given(
    st.one_of(st.sampled_from(sorted(numbers_of("x86_64"))), st.text(max_size=20)),
    st.tuples(*[st.one_of(st.integers(0, 2**64 - 1), st.sampled_from([0x7E020000, 2, 16, 9]))] * 6),
)
def test_details_are_short_and_plain(name: str, args: tuple[int, ...]) -> None:
    """Whatever a guest puts into registers, a detail is one short line of plain text, and the same for the same."""
    text = details.detail(name, args)
    assert len(text) <= 60
    assert all(" " <= character <= "~" for character in text)
    assert text == details.detail(name, tuple(value | 0 for value in args))


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("socket", (2,), "AF_INET"),
        ("socket", (2 | 1 << 32,), "AF_INET"),
        ("socket", (77,), "family 77"),
        ("kill", (1, 9), "signal 9"),
        ("tgkill", (1, 2, 15), "signal 15"),
        ("clone", (0x10000011,), "user namespace"),
        ("clone", (0x91,), "process"),
        ("clone", (0x100,), "thread"),
        ("unshare", (0x60020000,), "mnt+pid+net namespace"),
        ("unshare", (0x80,), "time namespace"),
        ("setns", (3, 0x40000000), "net namespace"),
        ("setns", (3, 0), ""),
        ("ioctl", (0, 0x5412 | 1 << 32), "operation 0x5412"),
        ("mount", (1, 2), ""),
    ],
)
def test_details(name: str, args: tuple[int, ...], text: str) -> None:
    """The word that tells two refusals of one call apart."""
    assert details.detail(name, (*args, *(0,) * (6 - len(args)))) == text


@given(st.binary(min_size=80, max_size=80))
def test_any_notification_can_be_read(data: bytes) -> None:
    """The kernel fills it, but number and registers are the guest's."""
    id, pid, _, number, _, _, *args = notify._NOTIFICATION.unpack(data)
    refused = notify.Refused(id, pid, number, tuple(args))
    assert isinstance(details.detail(refused.name, refused.args), str)
    assert len(refused.name) < 40


def test_sizes_are_those_that_we_know() -> None:
    """A kernel's notification is at least as long as the part that is read here."""
    if not seccomp.has_user_notification():
        pytest.skip("this kernel has no user notification")
    sizes = seccomp.notification_sizes()
    assert sizes[0] >= notify._NOTIFICATION.size == 80
    assert sizes[1] >= notify._ANSWER.size == 24


def test_a_kernel_that_could_not_look_is_no_end() -> None:
    """An error of the poll says nothing of the guest; a listener that was given up for it would leave calls untold."""
    ours, theirs = os.pipe()
    os.close(ours)
    ended: list[str] = []
    supervisor = notify.Supervisor(lambda box, row: None, lambda box, reason: ended.append(reason))
    # The end of a pipe that nobody reads has an error and nothing else.
    supervisor.add(theirs, "erring")
    for _ in range(3):
        assert supervisor.step(0)
    assert not ended
    left, right = socket.socketpair()
    right.close()
    supervisor.add(left.detach(), "gone")
    supervisor.step(0)
    assert ended  # control
    os.close(theirs)
