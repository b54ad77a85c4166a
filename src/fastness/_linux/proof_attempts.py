"""
Things that a confined process must not be able to do, each as a function that tries.

An attempt that gets through returns; one that the kernel refuses raises ``OSError`` or ends the process.  They run in
throw-away processes of :mod:`fastness._linux.proof_child` only, with and without confinement.
"""

from __future__ import annotations

import _socket
import _thread
import ctypes as C
import os
import sys

from fastness._linux.syscalls import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    PR_GET_NO_NEW_PRIVS,
    PR_SET_DUMPABLE,
    prctl,
    raw,
    raw_number,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_PAGE = 4096
_RW, _RX, _RWX = 3, 5, 7
_PRIVATE_ANONYMOUS = 0x22
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000


class Scene:
    """
    What the attempts aim at, made before confinement.

    ``canary`` is a readable file in a writable folder; ``port`` a TCP listener on the loopback address; ``abstract``
    the name of a listening abstract socket; ``victim`` a process of the same user; ``terminal`` a pseudo-terminal;
    ``pair`` two connected sockets, ``network`` a descriptor of the host's network namespace.
    """

    __slots__ = ("abstract", "canary", "network", "pair", "port", "secret", "terminal", "victim")

    def __init__(self, canary: str, port: int, abstract: str) -> None:
        self.canary = canary
        self.port = port
        self.abstract = abstract
        self.secret = C.create_string_buffer(b"secret")
        self.victim = 0
        self.terminal = -1
        self.network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.pair = _socket.socketpair()


def _open_file(scene: Scene) -> None:
    os.close(os.open(scene.canary, os.O_RDONLY))


def _list_root(scene: Scene) -> None:
    os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))


def _create_file(scene: Scene) -> None:
    name = f"{scene.canary}.{os.getpid()}"
    os.close(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(name)


def _stat_file(scene: Scene) -> None:
    os.stat(scene.canary)


def _rename_file(scene: Scene) -> None:
    os.rename(scene.canary, scene.canary)


def _connect_tcp(scene: Scene) -> None:
    sock = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    sock.settimeout(1.0)
    sock.connect(("127.0.0.1", scene.port))


def _connect_abstract(scene: Scene) -> None:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.settimeout(1.0)
    sock.connect("\0" + scene.abstract)


def _make_socket(scene: Scene) -> None:
    _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)


def _make_netlink(scene: Scene) -> None:
    _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW)


def _receive_descriptor(scene: Scene) -> None:
    scene.pair[0].send(b"x")
    scene.pair[1].recvmsg(1, 64)


def _return_to_network(scene: Scene) -> None:
    raw("setns", scene.network, 0)


def _fork(scene: Scene) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _start_thread(scene: Scene) -> None:
    lock = _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lock.release, ())
    lock.acquire()


def _execute(scene: Scene) -> None:
    command = [sys.executable, "-I", "-S", "-c", "pass"]
    os.execve(command[0], command, {})  # noqa: S606  # that this may not work is the point


def _clone3_user_namespace(scene: Scene) -> None:
    # `struct clone_args`: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls.
    arguments = (C.c_uint64 * 8)(CLONE_NEWUSER, 0, 0, 0, 17)
    # SAFETY: without CLONE_VM the child has its own copy of this process and leaves at once.
    pid = raw("clone3", C.addressof(arguments), 64)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _unshare_user(scene: Scene) -> None:
    raw("unshare", CLONE_NEWUSER)


def _signal_process(scene: Scene) -> None:
    os.kill(scene.victim, 23)  # SIGURG, which is ignored by default


def _open_pidfd(scene: Scene) -> None:
    os.close(raw("pidfd_open", scene.victim, 0))


def _trace_process(scene: Scene) -> None:
    raw("ptrace", 0x4206, scene.victim, 0, 0)  # PTRACE_SEIZE


def _read_process(scene: Scene) -> None:
    target = C.create_string_buffer(6)
    local = (C.c_uint64 * 2)(C.addressof(target), 6)
    remote = (C.c_uint64 * 2)(C.addressof(scene.secret), 6)
    # SAFETY: one local and one remote range of six bytes; the kernel writes into `target` only.
    raw("process_vm_readv", scene.victim, C.addressof(local), 1, C.addressof(remote), 1, 0)


def _io_uring(scene: Scene) -> None:
    parameters = C.create_string_buffer(120)
    # SAFETY: `struct io_uring_params` is 120 bytes that outlive the call.
    os.close(raw("io_uring_setup", 4, C.addressof(parameters)))


def _userfaultfd(scene: Scene) -> None:
    os.close(raw("userfaultfd", 1))  # UFFD_USER_MODE_ONLY


def _keyring(scene: Scene) -> None:
    raw("keyctl", 0, -3, 0)  # KEYCTL_GET_KEYRING_ID of the session


def _bpf(scene: Scene) -> None:
    attribute = C.create_string_buffer(128)
    # SAFETY: BPF_PROG_GET_NEXT_ID reads and writes within the 128 bytes.
    raw("bpf", 11, C.addressof(attribute), 128)


def _perf(scene: Scene) -> None:
    attribute = C.create_string_buffer(128)
    C.memmove(C.addressof(attribute), b"\x01\x00\x00\x00\x80\x00\x00\x00", 8)  # a software event; size 128
    # SAFETY: `struct perf_event_attr` of 128 bytes that outlive the call.
    os.close(raw("perf_event_open", C.addressof(attribute), 0, -1, -1, 0))


def _personality(scene: Scene) -> None:
    raw("personality", 0xFFFFFFFF)


def _x32_call(scene: Scene) -> None:
    raw_number("x32 getpid", 0x40000000 | 39)


def _type_into_terminal(scene: Scene) -> None:
    letter = C.create_string_buffer(b"x")
    # SAFETY: TIOCSTI reads one byte.
    raw("ioctl", scene.terminal, 0x5412, C.addressof(letter))


def _type_into_terminal_high_bit(scene: Scene) -> None:
    letter = C.create_string_buffer(b"x")
    # SAFETY: as above; the kernel ignores bit 32 of the request.
    raw("ioctl", scene.terminal, 0x5412 | 1 << 32, C.addressof(letter))


def _map_code(scene: Scene) -> None:
    raw("mmap", 0, _PAGE, _RWX, _PRIVATE_ANONYMOUS, -1, 0)


def _make_code(scene: Scene) -> None:
    address = raw("mmap", 0, _PAGE, _RW, _PRIVATE_ANONYMOUS, -1, 0)
    # SAFETY: the page was mapped just above and is used by nobody.
    raw("mprotect", address, _PAGE, _RX)


def _make_code_by_key(scene: Scene) -> None:
    address = raw("mmap", 0, _PAGE, _RW, _PRIVATE_ANONYMOUS, -1, 0)
    # SAFETY: as above; key -1 is the default key.
    raw("pkey_mprotect", address, _PAGE, _RX, -1)


def _executable_memory_file(scene: Scene) -> None:
    name = C.create_string_buffer(b"x")
    # SAFETY: the name outlives the call.
    os.close(raw("memfd_create", C.addressof(name), 0))


def _become_dumpable(scene: Scene) -> None:
    prctl(PR_SET_DUMPABLE, 1)


def _become_root(scene: Scene) -> None:
    os.setresuid(0, 0, 0)


def _mount(scene: Scene) -> None:
    kind = C.create_string_buffer(b"tmpfs")
    root = C.create_string_buffer(b"/")
    target = C.create_string_buffer(os.path.dirname(scene.canary).encode())
    # Where it succeeds, in the control, the mount must not reach the host: own namespace, then no propagation.
    raw("unshare", CLONE_NEWNS)
    # SAFETY: zero-terminated strings that outlive the calls.
    raw("mount", 0, C.addressof(root), 0, _MS_PRIVATE | _MS_REC, 0)
    raw("mount", C.addressof(kind), C.addressof(target), C.addressof(kind), 0, 0)


def _change_root(scene: Scene) -> None:
    os.chroot("/")


def _gain_by_exec(scene: Scene) -> None:
    if prctl(PR_GET_NO_NEW_PRIVS) == 1:
        raise OSError(1, "no_new_privs is set")


# An attempt's name, what it does, and which guarantee it would break.
ATTEMPTS: dict[str, tuple[Callable[[Scene], None], str]] = {
    "open a readable file": (_open_file, "fs_confined"),
    "open the root folder": (_list_root, "fs_confined"),
    "create a file": (_create_file, "fs_confined"),
    "look at a file's metadata": (_stat_file, "fs_confined"),
    "rename a file": (_rename_file, "fs_confined"),
    "connect to a loopback listener": (_connect_tcp, "net_confined"),
    "connect to an abstract socket": (_connect_abstract, "net_confined"),
    "make a local socket": (_make_socket, "net_confined"),
    "make a netlink socket": (_make_netlink, "net_confined"),
    "receive a descriptor": (_receive_descriptor, "net_confined"),
    "return to the host's network namespace": (_return_to_network, "net_confined"),
    "fork": (_fork, "syscall_filtered"),
    "start a thread": (_start_thread, "syscall_filtered"),
    "clone3 with a user namespace": (_clone3_user_namespace, "syscall_filtered"),
    "unshare the user namespace": (_unshare_user, "syscall_filtered"),
    "signal another process": (_signal_process, "syscall_filtered"),
    "open a pidfd of another process": (_open_pidfd, "syscall_filtered"),
    "trace another process": (_trace_process, "syscall_filtered"),
    "read another process's memory": (_read_process, "syscall_filtered"),
    "io_uring_setup": (_io_uring, "syscall_filtered"),
    "userfaultfd": (_userfaultfd, "syscall_filtered"),
    "use the session keyring": (_keyring, "syscall_filtered"),
    "bpf": (_bpf, "syscall_filtered"),
    "perf_event_open": (_perf, "syscall_filtered"),
    "personality": (_personality, "syscall_filtered"),
    "an x32 system call": (_x32_call, "syscall_filtered"),
    "type into a terminal": (_type_into_terminal, "syscall_filtered"),
    "type into a terminal, bit 32 set": (_type_into_terminal_high_bit, "syscall_filtered"),
    "execute a program": (_execute, "no_exec"),
    "map a page of code": (_map_code, "no_exec"),
    "turn a page into code": (_make_code, "no_exec"),
    "turn a page into code by pkey_mprotect": (_make_code_by_key, "no_exec"),
    "make an executable memory file": (_executable_memory_file, "no_exec"),
    "become dumpable again": (_become_dumpable, "no_privilege"),
    "become root": (_become_root, "no_privilege"),
    "mount a file system": (_mount, "no_privilege"),
    "change the root folder": (_change_root, "no_privilege"),
    "gain privileges by exec": (_gain_by_exec, "no_new_privs"),
}
