"""
The first process of a container: checks what it was promised, starts the guest, holds its deadline, ends everything.

Its text is executed by the image's Python.  It speaks with the host over its standard input and output, in packets of
one byte (what it is), four bytes of length, and content.  The guest has neither of these: it has pipes and a socket of
its own, which this process passes on.  Nothing that runs here later can signal it, for it is the first process of its
namespace; nor write to it, for it cannot be dumped; nor set its limits, for the filter of system calls forbids that.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time

import _fastness_checks as checks
import _fastness_guest as contained
import _fastness_parcel as parcel
from _fastness_line import CONTROL, ERR, FILES, OUT, PIECE, STDIN, TALK, Ended, Line, say_broken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Bytes that wait to be taken by the host; beyond them nothing more is taken from the guest.
_QUEUED = 1 << 20
#: Seconds past a deadline for the host to take what is left.
_LEAVE_S = 10.0
_PAUSE_S = 0.05
_HEADER = 12
_START, _INVOKE = 1, 2
_HELLO, _READY, _RESULT = 0x41, 0x42, 0x48


class Supervisor(Line):
    """The loop."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__()
        self._config = config
        self._talk: socket.socket | None = None
        self._pipes: dict[int, int] = {}
        self._to_talk = bytearray()
        self._stdin = b""
        self._fds: list[int] = []
        self._main = 0
        self._status: int | None = None
        self._command: dict[str, Any] | None = None
        self._frames = bytearray()
        self._deadline = 0.0
        self._killing = 0.0
        self._cpu_most = 0.0
        self._why = ""
        self._reported = False
        self._unpacker: Any = None
        self._failed = ""
        self._cpu_before = 0.0
        self._oom_before = max(0, checks.oom_kills())

    def take(self, channel: int, content: bytes) -> None:
        if channel == TALK:
            if self._config["python"]:
                if not self._failed:
                    self._to_talk += content
            else:
                self._command_frames(content)
        elif channel == STDIN:
            self._stdin += content
        elif channel == FILES:
            self._unpack(content)
        elif channel == CONTROL:
            said = json.loads(content)
            getattr(self, f"do_{said.pop('do')}")(**said)

    def _unpack(self, content: bytes) -> None:
        if self._failed:
            return
        try:
            if self._unpacker is None:
                folder = os.open("/work", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._fds.append(folder)
                self._unpacker = parcel.Unpacker(folder, 1 << 50, 1 << 40, whole=True)
            self._unpacker.feed(content)
            if self._unpacker.done:
                self._unpacker = None
                os.close(self._fds.pop())
        except (OSError, parcel.BadParcel) as error:
            self._failed = getattr(error, "strerror", "") or str(error) or "it failed"
            self.tell(failed="files", why=self._failed)

    # what the host may ask for

    def do_begin(self, wall_s: float, cpu_s: float) -> None:
        """A run begins: from now on it has so many seconds."""
        now = time.monotonic()
        self._deadline = now + wall_s
        self._cpu_before = checks.processor_s()
        self._cpu_most = cpu_s
        self._why = ""

    def do_ask(self, grace_s: float) -> None:
        """Tell everything to end, and end it some seconds later."""
        self._killing = time.monotonic() + grace_s
        contained.signal_all(signal.SIGTERM)

    def do_kill(self) -> None:
        """End everything but this process."""
        self._killing = time.monotonic()

    def do_rest(self) -> None:
        """A session's run is over: its deadline is."""
        self._deadline = 0.0
        self._cpu_most = 0.0

    def do_files(self, max_bytes: int, max_files: int) -> None:
        """Send what is in the work folder, whoever still runs."""
        self._send_files(max_bytes, max_files)

    def do_finish(self, max_bytes: int, max_files: int) -> None:
        """End everything, tell how it ended, send the files, and end."""
        self._end_all()
        self._drain()
        self._over()
        self._send_files(max_bytes, max_files)
        raise Ended

    # the guest's life

    def start_python(self) -> None:
        """Fork the guest, which makes itself ready and waits."""
        ours, theirs = socket.socketpair()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            contained.python(self._config, theirs.fileno(), out_end, err_end)
        theirs.close()
        self._adopt(pid, out, out_end, err, err_end)
        ours.setblocking(False)
        self._talk = ours

    def _adopt(self, pid: int, out: int, out_end: int, err: int, err_end: int) -> None:
        for fd in (out_end, err_end):
            os.close(fd)
        for fd in (out, err):
            os.set_blocking(fd, False)
        self._pipes = {out: OUT, err: ERR}
        self._main = pid

    def _command_frames(self, content: bytes) -> None:
        """The conversation of a program: this process holds the guest's end of it."""
        self._frames += content
        while len(self._frames) >= _HEADER:
            kind = self._frames[1]
            head, blob = (int.from_bytes(self._frames[at : at + 4], "big") for at in (4, 8))
            if len(self._frames) < _HEADER + head + blob:
                return
            said = json.loads(bytes(self._frames[_HEADER : _HEADER + head]))
            content = bytes(self._frames[_HEADER + head : _HEADER + head + blob])
            del self._frames[: _HEADER + head + blob]
            if kind == _START:
                hello = contained.frame(_HELLO, {"protocol": 1, "guest": "command"})
                self.push(TALK, hello + contained.frame(_READY, {"layers": {}, "gaps": []}))
            elif kind == _INVOKE and not self._failed:
                self._command = said
                self._start_command(json.loads(content[: said.get("code_len", 0)]), said)

    def _start_command(self, command: list[str], said: dict[str, Any]) -> None:
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        stdin = self._stdin_file()
        environment = {**os.environ, **dict(said.get("env") or ())}
        # Set again by the kernel's own word, not by what this process was told.
        environment.pop("LC_CTYPE", None)
        pid = os.fork()
        if pid == 0:
            contained.program(command, environment, self._config["limits"], (stdin, out_end, err_end))
        if stdin >= 0:
            os.close(stdin)
        self._adopt(pid, out, out_end, err, err_end)

    def _stdin_file(self) -> int:
        """What the run reads, as a file in memory; -1 where it reads nothing."""
        content, self._stdin = self._stdin, b""
        return contained.memory_file(content) if content else -1

    def _to_guest(self) -> None:
        assert self._talk is not None
        rights = []
        file = self._stdin_file()
        if file >= 0:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, file.to_bytes(4, sys.byteorder))]
        try:
            sent = self._talk.sendmsg([bytes(self._to_talk[:PIECE])], rights)
            del self._to_talk[:sent]
        except BlockingIOError:
            if file >= 0:
                os.lseek(file, 0, os.SEEK_SET)
                self._stdin = os.read(file, 1 << 30)
        except OSError:
            self._to_talk.clear()
        finally:
            if file >= 0:
                os.close(file)

    def _from_guest(self) -> None:
        """What the guest says, after what it has written before it."""
        assert self._talk is not None
        try:
            data = self._talk.recv(PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self._from_pipes()
        if data:
            self.push(TALK, data)
        else:
            self._talk.close()
            self._talk = None

    def _from_pipes(self) -> None:
        for fd, channel in list(self._pipes.items()):
            try:
                data = os.read(fd, PIECE)
            except BlockingIOError:
                continue
            if data:
                self.push(channel, data)
            else:
                os.close(fd)
                del self._pipes[fd]

    def _drain(self) -> None:
        """What is left in pipes whose writers have ended."""
        while True:
            before = self.queued
            self._from_pipes()
            if self.queued == before:
                break
            self.flush(_LEAVE_S)
        if self._talk is not None:
            self._from_guest()

    def reap(self) -> None:
        """Take note of whatever has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._main:
                self._status = status

    def _end_all(self) -> None:
        """End everything else in this container."""
        end = time.monotonic() + _LEAVE_S
        while time.monotonic() < end:
            contained.signal_all(signal.SIGKILL)
            self.reap()
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            time.sleep(0.001)
        # Something cannot be ended: the end of this process ends its namespace.
        raise Ended

    def _main_ended(self) -> None:
        """The guest, or the program, has ended: what it leaves behind ends too, and its end is told."""
        self._end_all()
        self._drain()
        if self._command is not None:
            status = self._status or 0
            code = os.waitstatus_to_exitcode(status)
            ending = (
                {"ending": "exit", "exit_code": code} if code >= 0 else {"ending": "trap", "trap": f"signal {-code}"}
            )
            if not self._why and not self._killing:
                self.push(TALK, contained.frame(_RESULT, {"id": self._command["id"], **ending}))
        self._over()

    def _over(self) -> None:
        if not self._reported:
            self._reported = True
            kills = checks.oom_kills()
            self.tell(
                over=True, status=self._status, why=self._why, cpu=max(0.0, checks.processor_s() - self._cpu_before),
                peak=max(0, checks.memory_peak()), oom=max(0, kills - self._oom_before) if kills >= 0 else 0,
            )  # fmt: skip

    def _send_files(self, max_bytes: int, max_files: int) -> None:
        self.tell(cpu=max(0.0, checks.processor_s() - self._cpu_before), peak=max(0, checks.memory_peak()))
        # A folder of the machine's own is there already.
        for piece in () if self._config["bound"] else parcel.of_path("/work", max_bytes, max_files):
            self.push(FILES, piece)
            if self.queued > _QUEUED:
                self.flush(_LEAVE_S)
        self.tell(done=True)
        self.flush(_LEAVE_S)

    # time

    def _look(self) -> None:
        now = time.monotonic()
        if self._deadline and now >= self._deadline and not self._why:
            self._why = "deadline"
            self._killing = now
        if self._cpu_most and not self._why and checks.processor_s() - self._cpu_before >= self._cpu_most:
            self._why = "cpu"
            self._killing = now
        if self._config["tasks"] and self._deadline and not self._why and checks.tasks() > self._config["tasks"]:
            self._why, self._killing = "tasks", now
        if self._killing and now >= self._killing:
            contained.signal_all(signal.SIGKILL)
            if self._deadline and now >= self._deadline + _LEAVE_S:
                # The host has not come for what is left: the second timeout is this one alone.
                raise Ended

    def _patience(self) -> float:
        now = time.monotonic()
        times = [one - now for one in (self._deadline, self._killing) if one]
        step = min(times, default=3600.0)
        often = self._cpu_most or self._killing or self._config["tasks"]
        return max(0.0, min(step, _PAUSE_S)) if often else max(0.0, step)

    def loop(self, woken: int) -> None:
        """Serve until the host is done.  Raises Ended."""
        while True:
            poller = select.poll()
            poller.register(0, select.POLLIN)
            poller.register(woken, select.POLLIN)
            if self._out:
                poller.register(1, select.POLLOUT)
            if self.queued < _QUEUED:
                for fd in self._pipes:
                    poller.register(fd, select.POLLIN)
            if self._talk is not None:
                events = (select.POLLIN if self.queued < _QUEUED else 0) | (select.POLLOUT if self._to_talk else 0)
                if events:
                    poller.register(self._talk, events)
            ready = dict(poller.poll(self._patience() * 1000 + 1))
            if woken in ready:
                try:
                    os.read(woken, 4096)
                except BlockingIOError:
                    pass
                self.reap()
            if 0 in ready:
                self.hear()
            if self._talk is not None and self._talk.fileno() in ready:
                if ready[self._talk.fileno()] & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    self._from_guest()
                elif self._to_talk:
                    self._to_guest()
            if self.queued < _QUEUED and any(fd in ready for fd in self._pipes):
                self._from_pipes()
            if self._status is not None and not self._reported:
                self._main_ended()
            self._look()
            self.flush()


def main(config: dict[str, Any]) -> None:
    """Be the first process of this container.  Never returns."""
    status = 70
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # To the first process of a namespace no signal comes that it has no handler for.
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        checks.protect()
        woken, wakes = os.pipe()
        for fd in (0, 1, woken, wakes):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        supervisor = Supervisor(config)
        found = checks.differences(config["expect"]) if config["expect"] else []
        if found:
            supervisor.tell(refused=found[:16])
            supervisor.flush(_LEAVE_S)
            os._exit(3)
        if config["python"]:
            supervisor.start_python()
        supervisor.tell(ready=True, python=".".join(map(str, sys.version_info[:3])), peak=checks.memory_peak())
        try:
            supervisor.loop(woken)
        except Ended:
            status = 0
    except BaseException as error:  # noqa: BLE001  # whatever it is, the host wants to know
        say_broken(error)
    finally:
        os._exit(status)
