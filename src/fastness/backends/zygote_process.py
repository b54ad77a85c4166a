"""
The host's side of one zygote: start it, ask it for guests, and hear what it has to tell.

Three things come over its one socket: that it is ready or why not, refused calls of its guests as its launcher saw
them, and how each guest ended.  Any thread may read the socket for all; what is read is kept under the guest's name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import subprocess
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from fastness._linux.procs import kill_tree
from fastness._native import datagrams
from fastness.backends import native_config, native_launch, zygote_words
from fastness.backends.lasting_thread import spawn_in_lasting_thread
from fastness.backends.process_numbers import memory_of, pid_of
from fastness.errors import BackendError
from fastness.runtime import remove_tree

if TYPE_CHECKING:
    from fastness._linux.cgroup_slot import Slot
    from fastness._linux.uids import Block
    from fastness.backends.native_launch import Launch
    from fastness.waiting import Waiting

#: Seconds that a zygote may take until it is ready, imports included.
START_S = 120.0
#: Seconds for a zygote to take a request, and between two tries.
_ASKING_S = 20.0
_AGAIN_S = 0.002
#: Errors of a socket that takes no more messages, or no more descriptors that wait in sockets (unix(7)).
_FULL = frozenset({errno.EAGAIN, errno.ETOOMANYREFS, errno.ENOBUFS})
#: Messages that are taken in at once: more than a socket holds.
_AT_ONCE = 1024
#: What each request has: the guest's name and its user.
_HEAD = struct.Struct(datagrams.ASKED)
#: What of a request is each guest's own.
_OWN = frozenset({"box", "uid", "folder"})


class ZygoteProcess:
    """One zygote with its launcher (and mother).  ``config`` is what it was told."""

    def __init__(self, launched: Launch, config: dict[str, Any]) -> None:
        self.process = launched.process
        self.config = config
        self.uids: Block | None = None
        self.leaf: Slot | None = None
        #: A folder that goes with it.
        self.temporary = ""
        #: Bytes of address space, resident memory and data of a guest that has not run yet; zeros where not known yet.
        self.base = (0, 0, 0)
        self.born = time.monotonic()
        self.start_ms = 0.0
        self.guests = 0
        self._control = launched.control
        self._words = launched.words
        self._lock = threading.Lock()
        self._ready = False
        #: What it is importing just now, of what the caller has asked for.
        self._importing = ""
        #: The folder and all else that the last guest was asked for with, which it need not be told again.
        self._last = b"", b""
        self._failed: dict[str, Any] | None = None
        self._told = zygote_words.Told()
        self._gone = False
        self._starting = False
        #: The zygote's own number; 0 before it has begun.
        self.number = 0
        #: The same, where it is in the process namespace of this process.
        self.pid = 0

    @classmethod
    def spawn(
        cls,
        config: dict[str, Any],
        environment: dict[str, str],
        leaf: Slot | None = None,
        launched: Launch | None = None,
    ) -> ZygoteProcess:
        """
        Start the processes, in the control group ``leaf`` where there is one; the group ends with them.

        What was ``launched`` with this environment goes on from there.  Raises BackendError.
        """
        try:
            launched = launched or spawn_in_lasting_thread(partial(native_launch.launch, environment))
        except BaseException as error:
            if leaf is not None:
                leaf.remove()
            # The thread's start is what raises RuntimeError.
            if isinstance(error, (OSError, RuntimeError)):
                fix = "free memory, descriptors or process slots"
                raise BackendError("starting a zygote", error, fix) from error
            raise
        zygote = cls(launched, config)
        zygote.leaf = leaf
        zygote._tell()
        return zygote

    def _tell(self) -> None:
        try:
            if self.leaf is not None:
                # It forks nothing before it has heard what it is to do.
                self.leaf.attach(self.process.pid)
            datagrams.send(self._control, {**self.config, "parent": os.getpid()})
        except OSError:
            pass  # it has ended, and `start` will say why
        self._control.setblocking(False)

    async def start(self, waiting: Waiting) -> None:
        """
        Wait until it takes requests; one caller at a time.

        Whose time is up meanwhile leaves it as it is, for another call or for :meth:`kill`.  Raises BackendError,
        ConfigurationError for a preload that fails.
        """
        try:
            self._starting = True
            with waiting.limit(max(0.0, self.born + START_S - time.monotonic())):
                while not self._ready:
                    self.pump()
                    if self._failed is not None or self._gone:
                        raise self._why()
                    if not self._ready:
                        await waiting.readable(self._control)
        except TimeoutError:
            raise BackendError("starting a zygote", f"not ready after {START_S:g} s", "preload fewer modules") from None
        finally:
            with self._lock:
                self._starting = False
        self.start_ms = (time.monotonic() - self.born) * 1e3

    def _why(self) -> Exception:
        failed = self._failed or {}
        with self._lock:
            text = os.pread(self._words, native_launch.WORDS_MAX, 0).rstrip(b"\0") if self._words >= 0 else b""
        words = text[-4096:].decode("utf-8", "replace").strip()
        cause = failed.get("failed") or (words.splitlines() or [self._ending()])[-1]
        if failed.get("preload"):
            return native_config.preload_failed(failed["preload"], cause)
        if self._importing and not failed:
            return native_config.preload_failed(self._importing, f"the interpreter: {cause}")
        fix = "see the kernel's log for processes that were ended for want of memory"
        return BackendError("starting a zygote", cause, "" if failed else fix)

    def _ending(self) -> str:
        """How its first process ended, which is about to where its socket has."""
        try:
            status = self.process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            return "it closed its conversation"
        return f"it was ended by signal {-status}" if status < 0 else "it ended before it was ready"

    async def request(self, message: dict[str, Any], fds: list[int], waiting: Waiting) -> None:
        """
        Ask for a guest, and wait where its socket takes no more requests just now.

        Raises BackendError where the zygote has ended.
        """
        if self._send(message, fds):
            return
        try:
            with waiting.limit(_ASKING_S):
                while not self._send(message, fds):
                    # What it has to tell is taken in meanwhile, or each might wait for the other.
                    self.pump()
                    await waiting.pause(_AGAIN_S)
        except TimeoutError:
            raise BackendError("asking for a guest", "the zygote takes no more", "use fewer guests at once") from None

    def _send(self, message: dict[str, Any], fds: list[int]) -> bool:
        """Send a request; False where there is no room for it, or for its descriptors, in the socket."""
        name = message["box"]
        rest = msgspec.json.encode({key: value for key, value in message.items() if key not in _OWN})
        folder = os.fsencode(message["folder"])
        data = _HEAD.pack(name.encode(), message["uid"])
        self._told.ask(name)
        try:
            with self._lock:
                # Whoever is interrupted now does not know whether it was told: the next one tells all.
                last, self._last = self._last, (b"", b"")
                if last != (folder, rest):
                    data += b"%s\0%s" % (b"" if folder == last[0] else folder, b"" if rest == last[1] else rest)
                datagrams.send_raw(self._control, data, fds)
                self._last = folder, rest
                self.guests += 1
        except OSError as error:
            self._told.forget(name)
            if error.errno in _FULL and self.alive:
                return False
            raise BackendError("asking for a guest", error.strerror, "run it again: a new zygote is started") from None
        return True

    def settled(self, name: str, seconds: float) -> bool:
        """Wait until no guest by this name lives or may be born yet; False where that takes longer.  Blocks."""
        end = time.monotonic() + seconds
        pause = 0.0005
        while self._told.asked(name) and self.exit_of(name) is None and self.alive:
            if time.monotonic() >= end:
                return False
            time.sleep(pause)
            pause = min(pause * 2, 0.02)
        return True

    @property
    def control_fd(self) -> int:
        """The descriptor of its socket: readable when there is something to take in; -1 once it was ended."""
        return self._control.fileno()

    def pump(self) -> bool:
        """Take in what has come, without waiting; False once nothing more will come."""
        with self._lock:
            for _ in range(_AT_ONCE):
                if self._gone:
                    return False
                try:
                    data, fds = datagrams.receive_raw(self._control)
                    try:
                        if data:
                            self._hear(zygote_words.decode(data), fds)
                            continue
                    finally:
                        for fd in fds:
                            os.close(fd)
                except BlockingIOError:
                    return True
                except (OSError, ValueError) as error:
                    # Nothing of ours says such a thing, and what else it says is worth no more.
                    told = f"it broke its protocol: {error}"[:500]
                    self._failed = self._failed or {"failed": told, "preload": self._importing}
                    self.process.kill()
                self._gone = True
            # Whoever writes without end does not keep this side here.
            return not self._gone

    def _hear(self, word: zygote_words.Word, fds: list[int]) -> None:
        if word.failed is not None:
            # Others fail because of the first.
            self._failed = self._failed or {"failed": word.failed, "preload": word.preload}
        elif word.begun is not None:
            if self.number or len(fds) != 1:
                raise ValueError("it has begun twice")
            self.number = pid_of(fds[0])
            self.pid = self.number if self.config["tier"] == "confined" else 0
        elif word.importing is not None:
            self._importing = word.importing if word.importing in self.config["preload"] else ""
        elif word.ready is not None:
            self._ready = True
        else:
            self._told.take(word)

    def records(self, name: str) -> list[dict[str, Any]]:
        """Refused calls of a guest so far; whatever it was told of a refusal is in here."""
        self.pump()
        return self._told.records(name)

    def unrecorded(self, name: str) -> bool:
        """Whether refused calls of a guest have gone unrecorded: it met the cap on them."""
        return self._told.unrecorded(name)

    def exit_of(self, name: str) -> dict[str, Any] | None:
        """How a guest ended, or why it never began, once that is known."""
        self.pump()
        return self._told.exit_of(name)

    def forget(self, name: str) -> None:
        """A guest is gone and nobody will ask about it any more."""
        self._told.forget(name)
        # Where nothing runs nobody else listens, and a zygote whose socket is full makes no more guests.
        self.pump()

    def size(self) -> tuple[int, int, int]:
        """Bytes of address space, resident memory and data of the zygote; zeros where its number is not known here."""
        return memory_of(self.pid) if self.pid else (0, 0, 0)

    @property
    def alive(self) -> bool:
        """Whether it may still make guests."""
        return not self._gone and self.process.poll() is None

    def kill(self) -> None:
        """End it and all its guests.  Idempotent."""
        with self._lock:
            if self._words < 0:
                return
            self._gone = True
            if self._starting:
                # Whoever waits for it is woken, and comes here again.
                with contextlib.suppress(OSError):
                    self._control.shutdown(socket.SHUT_RDWR)
                return
            words, self._words = self._words, -1
        os.close(words)
        if self.config["tier"] == "confined":
            # No namespace ends with the zygote, and what its packages may have started does not either.
            with contextlib.suppress(OSError):
                kill_tree(self.process.pid)
        # The zygote ends when this closes; its launcher is ended at once, and the kernel takes the others with it.
        self._control.close()
        self.process.kill()
        self.process.wait(timeout=10)
        if self.temporary:
            with contextlib.suppress(OSError):
                remove_tree(self.temporary)
        if self.uids is not None:
            self.uids.release()
        if self.leaf is not None:
            try:
                self.leaf.kill()
                self.leaf.remove()
            except OSError:
                pass  # left to the end of this process, or to a sweep
