"""
Calls that are neither on descriptors nor on paths: arguments, clocks, randomness, waiting, ending, sockets.
"""

from __future__ import annotations

from _struct import Struct

from .memfs import File
from .preview1_abi import (
    BADF,
    INVAL,
    NOSYS,
    NOTCAPABLE,
    NOTSOCK,
    R_FD_READ,
    R_FD_WRITE,
    R_POLL_FD_READWRITE,
    SUCCESS,
    U64_MAX,
    ProcExit,
)
from .preview1_memory import Fd
from .preview1_paths import Paths

#: Most subscriptions of one poll.
MAX_SUBSCRIPTIONS = 4096
#: Random bytes that are made and copied at once.
RANDOM_CHUNK = 1 << 16
#: Longest single wait that is handed to the engine, in nanoseconds; a longer sleep is several.
_LONGEST_WAIT = 3600 * 10**9

_CLOCK, _READ, _WRITE = 0, 1, 2
_head = Struct("<QB").unpack_from
_clock_part = Struct("<I4xQQH").unpack_from
_fd_part = Struct("<I").unpack_from
_event = Struct("<QHB5xQH6x").pack
_SUBSCRIPTION = 48
_EVENT = 32
_ABSTIME = 1


class Misc(Paths):
    """Everything else."""

    __slots__ = ()

    # ---- arguments and environment

    def _sizes(self, strings: list[bytes], count: int, size: int) -> int:
        self.check(size, 4)
        self.write_u32(count, len(strings))
        self.write_u32(size, sum(map(len, strings)) + len(strings))
        return SUCCESS

    def _strings(self, strings: list[bytes], vector: int, buffer: int) -> int:
        pointers = bytearray()
        at = buffer
        for string in strings:
            pointers += at.to_bytes(8, "little")[:4]
            at += len(string) + 1
        self.check(buffer, at - buffer)
        self.write(vector, bytes(pointers))
        self.write(buffer, b"".join([string + b"\0" for string in strings]))
        return SUCCESS

    def args_sizes_get(self, count: int, size: int) -> int:
        """Store the number of arguments and the bytes that they need."""
        return self._sizes(self.args, count, size)

    def args_get(self, vector: int, buffer: int) -> int:
        """Store the arguments."""
        return self._strings(self.args, vector, buffer)

    def environ_sizes_get(self, count: int, size: int) -> int:
        """Store the number of variables and the bytes that they need."""
        return self._sizes(self.env, count, size)

    def environ_get(self, vector: int, buffer: int) -> int:
        """Store the variables."""
        return self._strings(self.env, vector, buffer)

    # ---- clocks

    def _now(self, clock: int) -> int:
        if clock == 0:
            return self.clock.realtime()
        return self.clock.monotonic() if clock == 1 else self.clock.cpu()

    def clock_res_get(self, clock: int, out: int) -> int:
        """Store a clock's resolution in nanoseconds."""
        if clock > 3:
            return INVAL
        self.write_u64(out, 1)
        return SUCCESS

    def clock_time_get(self, clock: int, precision: int, out: int) -> int:
        """Store a clock's time in nanoseconds."""
        if clock > 3:
            return INVAL
        self.write_u64(out, min(self._now(clock), U64_MAX))
        return SUCCESS

    # ---- randomness

    def random_get(self, buffer: int, length: int) -> int:
        """Fill a buffer from the run's generator."""
        self.check(buffer, length)
        at = 0
        while at < length:
            if at and not at & 0xFFFFF:
                # A guest may ask for gigabytes: between megabytes the deadline gets a chance to end the run.
                self.wait(0.0)
            count = min(RANDOM_CHUNK, length - at)
            chunk = self.random(count)
            if len(chunk) != count:
                raise RuntimeError("the generator gave another number of bytes than it was asked for")
            self.write(buffer + at, chunk)
            at += count
        return SUCCESS

    # ---- waiting

    def poll_oneoff(self, subscriptions: int, events: int, count: int, out: int) -> int:
        """poll(2): wait for the first of a number of events."""
        if not 0 < count <= MAX_SUBSCRIPTIONS:
            return INVAL
        self.check(events, _EVENT * count)
        self.check(out, 4)
        wanted = self.read(subscriptions, _SUBSCRIPTION * count)
        ready: list[bytes] = []
        clocks: list[tuple[int, int]] = []
        answers: list[tuple[Fd, int]] = []
        for at in range(0, len(wanted), _SUBSCRIPTION):
            user, tag = _head(wanted, at)
            if tag == _CLOCK:
                clock, timeout, _, flags = _clock_part(wanted, at + 16)
                # Waiting for processor time makes no sense while the guest is not running.
                if clock > 1 or flags & ~_ABSTIME:
                    ready.append(_event(user, INVAL, _CLOCK, 0, 0))
                else:
                    clocks.append((timeout - self._now(clock) if flags & _ABSTIME else timeout, user))
            elif tag in (_READ, _WRITE):
                number = _fd_part(wanted, at + 16)[0]
                error, size = self._readiness(number, tag)
                if size < 0:
                    answers.append((self.fds[number], user))
                else:
                    ready.append(_event(user, error, tag, size, 0))
            else:
                return INVAL
        if not ready:
            # Files and streams never block, so only a poll on clocks alone, or on answers of the host, comes here.
            clocks.sort()
            elapsed = clocks[0][0] if clocks else 0
            if not answers:
                self._sleep(elapsed)
            elif self._answered(answers[0][0], elapsed if clocks else None):
                elapsed = 0
                ready = [_event(user, SUCCESS, _READ, max(1, fd.ready()), 0) for fd, user in answers]
        else:
            elapsed = 0
        ready += [_event(user, SUCCESS, _CLOCK, 0, 0) for remaining, user in clocks if remaining <= elapsed]
        self.write(events, b"".join(ready))
        self.write_u32(out, len(ready))
        return SUCCESS

    def _readiness(self, number: int, tag: int) -> tuple[int, int]:
        """(errno, bytes that can be moved) of a descriptor; -1 bytes where an answer of the host's has yet to come."""
        fd = self.fds.get(number)
        if fd is None:
            return BADF, 0
        if not fd.allowed & R_POLL_FD_READWRITE:
            return NOTCAPABLE, 0
        if not fd.allowed & (R_FD_READ if tag == _READ else R_FD_WRITE):
            return BADF, 0
        if tag == _WRITE:
            return SUCCESS, 1
        node = fd.node
        return SUCCESS, max(0, len(node.data) - fd.pos) if isinstance(node, File) else fd.ready()

    def _answered(self, fd: Fd, nanoseconds: int | None) -> bool:
        """Wait for an answer of the host's.  A clock that stands still does not move while one may come."""
        assert fd.channel is not None
        if nanoseconds is None or self.clock.frozen:
            return fd.channel.wait(None)
        return fd.channel.wait(max(0, nanoseconds) / 1e9)

    def _sleep(self, nanoseconds: int) -> None:
        clock = self.clock
        if clock.frozen:
            if nanoseconds > 0:
                # No clock of the interface can tell more than 64 bits of nanoseconds.
                clock.slept = min(clock.slept + nanoseconds, 1 << 62)
            self.wait(0.0)
            return
        end = clock.monotonic() + nanoseconds
        while True:
            # `wait` raises Stop at the deadline, so this ends whatever the guest asked for.
            left = end - clock.monotonic()
            if left <= 0:
                return
            self.wait(min(left, _LONGEST_WAIT) / 1e9)

    def sched_yield(self) -> int:
        """There is nobody to yield to."""
        return SUCCESS

    # ---- ending

    def proc_exit(self, code: int) -> int:
        """End the guest."""
        raise ProcExit(code)

    def proc_raise(self, signal: int) -> int:
        """There are no signals: refused and recorded."""
        self.denials.add("proc_raise", str(signal), "unsupported")
        return NOSYS

    # ---- sockets: there are none, and no descriptor is one

    def _no_socket(self, operation: str, number: int) -> int:
        self.denials.add(operation, f"fd {number}", "wasi_refused")
        return NOTSOCK if number in self.fds else BADF

    def sock_accept(self, number: int, flags: int, out: int) -> int:
        """accept(2): refused and recorded."""
        return self._no_socket("sock_accept", number)

    def sock_recv(self, number: int, iovs: int, count: int, flags: int, size: int, out_flags: int) -> int:
        """recv(2): refused and recorded."""
        return self._no_socket("sock_recv", number)

    def sock_send(self, number: int, iovs: int, count: int, flags: int, size: int) -> int:
        """send(2): refused and recorded."""
        return self._no_socket("sock_send", number)

    def sock_shutdown(self, number: int, how: int) -> int:
        """shutdown(2): refused and recorded."""
        return self._no_socket("sock_shutdown", number)
