"""
One container as a guest: what any native guest is to whoever talks to it, over a connection to an engine.
"""

from __future__ import annotations

import json
import os
import socket
from typing import TYPE_CHECKING, Any

import msgspec

from fastness._container import containers, gvisor, inside, spec
from fastness._container.image_host import PACKAGES
from fastness.backends.box import Box
from fastness.backends.container_pump import Pump
from fastness.wire import messages as m

if TYPE_CHECKING:
    from fastness._container.image import Image
    from fastness._container.probe import Engine
    from fastness.waiting import Waiting

#: Seconds for a guest to be over that was told to end.
_KILL_S = 3.0
#: Where an image may have packages beside those of its own interpreter.
_PACKAGES = (PACKAGES, "/usr/lib/python3/dist-packages")


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """What decides whether a container that waits can serve a request."""

    image: str
    python: bool
    ask: spec.Ask
    preload: tuple[str, ...] = ()
    memory: int = 0
    file_bytes: int = 0
    fds: int = 0
    stack: int = 0
    gvisor: bool = False


class ContainerBox(Box):
    """
    A box whose guest lives in a container.  ``container`` is its id; ``process`` tells only that the guest is over.

    What it uses is told by the container's first process, and what it may use was decided when it was made.
    """

    def __init__(self, container: str, talk: socket.socket, out: int, err: int, life: int, waiting: Waiting) -> None:
        super().__init__(container, talk, out, err, waiting)
        self.container = container
        self.pump: Pump
        self.kind: Kind
        self._turns = 0
        self.process = life
        self._open.append(life)
        self.killed = False

    async def become_ready(self) -> None:
        """Wait until the guest waits for an invoke.  Raises BoxLost, BackendError, GuestProtocolError."""
        await self.expect(m.Hello)
        # It was sent before there was a guest; saying so here is what the order of the protocol asks for.
        self.session.send(m.Start("python", {}))
        self.ready = await self.expect(m.Ready)

    def next_name(self) -> str:
        """A name for the folder of one run on this side."""
        self._turns += 1
        return f"{self.container[:16]}.{self._turns}"

    def kill(self) -> None:
        """Have the guest ended; its container stays until what is left in it was collected."""
        if not self.killed:
            self.killed = True
            self.pump.say("kill")
            self.pump.give_up(_KILL_S)

    def ask_to_end(self, grace_s: float) -> None:
        """Have everything in the container told to end, and ended after so many seconds."""
        self.pump.say("ask", grace_s=grace_s)
        self.pump.give_up(grace_s + _KILL_S)

    def signal(self, number: int) -> bool:
        """No number of a process is known here."""
        return False

    def cpu_s(self) -> float:
        """Counted, and bounded, inside."""
        return 0.0

    def peak(self) -> int:
        """Bytes that the container has used at most, as far as it has told."""
        found = self.pump.usage.get("peak", 0)
        return min(found, self.kind.ask.memory) if type(found) is int and found >= 0 else 0

    def memory(self) -> tuple[int, int, int]:
        """Not known from here."""
        return 0, 0, 0

    def last_words(self) -> str:
        """What the container's first process wrote as its last line."""
        words = self.pump.words.decode("utf-8", "replace").strip().splitlines()
        return words[-1][:500] if words else super().last_words()

    def close(self) -> None:
        """Hang up, which ends the container, and close every descriptor.  Blocks.  Idempotent."""
        if not self.closed:
            super().close()
            self.pump.stop()


def first_words(image: Image, kind: Kind, *, check: bool = True) -> bytes:
    """What a container's first process is told before anything else: the code that it is, and what it should find."""
    names = (*inside.SUPERVISOR, *(inside.PYTHON if kind.python else ()))
    compiled = inside.folder() if image.guest == inside.digest() else ""
    config: dict[str, Any] = {
        "compiled": compiled,
        "texts": {} if compiled else {name: inside.texts()[name] for name in names},
        "supervisor": inside.SUPERVISOR,
        "guest": inside.PYTHON,
        "python": kind.python,
        "packages": list(_PACKAGES),
        "preload": list(kind.preload),
        # Where its control group does not count them, its first process does.
        "tasks": kind.ask.pids - gvisor.PIDS if kind.gvisor else 0,
        "bound": kind.ask.bind is not None,
        "limits": {"memory": kind.memory, "file_bytes": kind.file_bytes, "fds": kind.fds, "stack": kind.stack},
        "expect": spec.expected(kind.ask, gvisor_of=os.uname().release if kind.gvisor else "") if check else None,
    }
    data = json.dumps(config).encode()
    return len(data).to_bytes(4, "big") + data


def birth(engine: Engine, image: Image, kind: Kind, waiting: Waiting, *, check: bool = True) -> ContainerBox:
    """
    Make a container and join it; it becomes ready by itself.  Blocks.

    ``check`` is for controls alone.  Raises EngineFault, NotAsAsked, ``OSError``.
    """
    name, sock, rest = containers.make(engine, image, kind.ask, check=check)
    opened: list[int] = []
    try:
        talk, talk_end = socket.socketpair()
        talk.setblocking(False)
        talk_end.setblocking(False)
        pipes = [os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK) for _ in range(3)]
        opened = [fd for pair in pipes for fd in pair]
        (out, out_end), (err, err_end), (life, life_end) = pipes
        box = ContainerBox(name, talk, out, err, life, waiting)
        box.pump = Pump(sock, rest, talk_end, out_end, err_end, life_end)
        box.begin()
        box.pump.start(first_words(image, kind, check=check))
    except BaseException:
        sock.close()
        for fd in opened:
            os.close(fd)
        containers.remove(engine, name)
        raise
    return box
