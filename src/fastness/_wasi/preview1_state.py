"""
The state of one run's host, and the small helpers that all groups of calls share.

Construction is on the path of every run, so it makes a handful of objects and nothing else.
"""

from __future__ import annotations

from .preview1_abi import (
    BADF,
    FD_FLAGS_ALL,
    I64_MAX,
    MFILE,
    NOTCAPABLE,
    R_ALL,
    R_FD_WRITE,
    RIGHTS_DIRECTORY,
    RIGHTS_FILE,
    ROFS,
    Errno,
)
from .preview1_denials import TARGET_MAX
from .preview1_memory import Fd, GuestMemory, stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .memfs import Dir, Node
    from .preview1_clock import Clock
    from .preview1_denials import DenialLog

#: First descriptor after standard input, output and error.
FIRST_FD = 3
#: Numbers that an image may ask for lie below this.
NUMBER_MAX = 1 << 16


class HostState(GuestMemory):
    """
    Arguments, environment, descriptors, clock, randomness and the denial log of one run.

    ``exc`` is what ended the guest from inside a call: ``ProcExit``, what ``wait`` or an output function raised, or an
    exception that is a bug of ours; ``where`` says which function raised it.
    ``root`` is the directory whose missing first components are reported as ``absent``, or None.
    """

    __slots__ = (
        "args",
        "clock",
        "denials",
        "env",
        "exc",
        "fds",
        "max_fds",
        "next_fd",
        "random",
        "root",
        "wait",
        "where",
    )

    def __init__(
        self,
        args: list[bytes],
        env: list[bytes],
        preopens: list[tuple[bytes, Dir]],
        stdin: bytes,
        write_out: Callable[[int, bytes], object],
        clock: Clock,
        random: Callable[[int], bytes],
        denials: DenialLog,
        wait: Callable[[float], object],
        max_fds: int = 1024,
        report_absent: bool = False,
        tty: bool = True,
    ) -> None:
        GuestMemory.__init__(self)
        self.args = args
        self.env = env
        self.clock = clock
        self.random = random
        self.denials = denials
        self.wait = wait
        self.max_fds = max_fds
        self.exc: BaseException | None = None
        self.where = ""
        self.root: Dir | None = None
        fds = {
            0: stream(stdin, None),
            1: stream(None, lambda data: write_out(1, data), tty),
            2: stream(None, lambda data: write_out(2, data), tty),
        }
        number = FIRST_FD
        for name, node in preopens:
            fds[number] = Fd(node, RIGHTS_DIRECTORY, R_ALL, 0, name.decode("utf-8", "replace").rstrip("/"), name)
            node.opened()
            if report_absent and name == b"/":
                self.root = node
            number += 1
        self.fds: dict[int, Fd] = fds
        self.next_fd = number

    # ---- descriptors, as the engine uses them

    def install(self, number: int, fd: Fd) -> None:
        """Put a descriptor of ours at ``number``, closing what is there: a channel, or one saved with an image."""
        old = self.fds.pop(number, None)
        if fd.node is not None:
            fd.node.opened()
        self.fds[number] = fd
        if old is not None and old.node is not None:
            old.node.closed()

    def open_files(self) -> list[tuple[int, Node, int, int]]:
        """(number, node, offset, flags) of the descriptors on files and directories that are no preopens."""
        fds = sorted(self.fds.items())
        return [(n, fd.node, fd.pos, fd.flags) for n, fd in fds if fd.node is not None and fd.preopen is None]

    def restore_fd(self, number: int, node: Node, offset: int, flags: int, rights: int = R_ALL) -> None:
        """
        Open ``node`` at a number that a memory image expects, without the right to write where it is read-only.

        Raises ``ValueError`` where the number is taken or out of range, or the offset is.
        """
        if not FIRST_FD <= number < NUMBER_MAX or number in self.fds or not 0 <= offset <= I64_MAX:
            raise ValueError(f"descriptor {number} at {offset} cannot be restored")
        rights &= RIGHTS_DIRECTORY if node.is_dir else RIGHTS_FILE
        if node.read_only:
            rights &= ~R_FD_WRITE
        fd = Fd(node, rights, R_ALL if node.is_dir else 0, flags & FD_FLAGS_ALL)
        fd.pos = offset
        self.install(number, fd)

    def set_stdin(self, data: bytes) -> None:
        """Make ``data`` all that standard input still holds; nothing where the guest closed or moved it."""
        fd = self.fds.get(0)
        if fd is not None and fd.node is None and fd.out is None:
            fd.data = data
            fd.pos = 0

    def close_all(self) -> None:
        """Close everything, which gives back what unlinked files still hold."""
        for fd in self.fds.values():
            if fd.node is not None:
                fd.node.closed()
        self.fds.clear()

    def allocate_fd(self, fd: Fd) -> int:
        """The lowest free number above the standard streams.  Raises MFILE at the cap."""
        fds = self.fds
        if len(fds) >= self.max_fds:
            raise Errno(MFILE)
        number = self.next_fd
        while number in fds:
            number += 1
        fds[number] = fd
        self.next_fd = number + 1
        if fd.node is not None:
            fd.node.opened()
        return number

    def descriptor(self, number: int, right: int) -> Fd:
        """The open descriptor, with the right.  Raises BADF, NOTCAPABLE."""
        fd = self.fds.get(number)
        if fd is None:
            raise Errno(BADF)
        if not fd.allowed & right:
            raise Errno(NOTCAPABLE)
        return fd

    # ---- denials

    def read_only(self, operation: str, target: str) -> Errno:
        """Record a write to a read-only node; returns the exception to raise."""
        self.denials.add(operation, target, "read_only")
        return Errno(ROFS)

    def refused(self, error: Errno, operation: str, target: str) -> None:
        """Record a cap that was met, if ``error`` is one."""
        if error.quota:
            self.denials.add(operation, target, "quota")
        elif error.code == ROFS:
            self.denials.add(operation, target, "read_only")


def join(above: str, path: str) -> str:
    """A name for denials: at most as long as a denial's target."""
    return f"{above}/{path}"[:TARGET_MAX]
