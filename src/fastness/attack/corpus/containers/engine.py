"""
Looks for the engine that runs it, at every place where one listens, and asks it something.
"""

from __future__ import annotations

import os

from fastness.attack import native
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer, Skip
from fastness.tier import Guarantee

CODE = """
import os, socket

places = [ENGINE, '/var/run/docker.sock', '/run/podman/podman.sock', '/run/containerd/containerd.sock']
for name in ('DOCKER_HOST', 'CONTAINER_HOST', 'FASTNESS_ENGINE'):
    places.append(os.environ.get(name, '').removeprefix('unix://'))
for place in filter(None, places):
    try:
        door = socket.socket(socket.AF_UNIX)
        door.connect(place)
        door.sendall(b'GET /_ping HTTP/1.1\\r\\nHost: engine\\r\\nConnection: close\\r\\n\\r\\n')
        if door.recv(100).startswith(b'HTTP/1.1 200'):
            print('ASKED', place)
    except OSError as error:
        print(place, error)
"""


def attack(arena: Arena) -> Effect:
    """As Python code, and as a program."""
    return native.tried(arena, _code(arena), "ASKED", "asked the engine something")


def control(arena: Arena) -> Effect:
    """The same program, unsandboxed."""
    return native.outside(arena, _code(arena), "ASKED", "asked the engine something")


def _code(arena: Arena) -> str:
    from fastness._container.probe import reach

    host = str(reach(os.environ).endpoint)
    if not host.startswith("unix://"):
        raise Skip(f"the engine listens elsewhere: {host}")
    return arena.python(CODE, ENGINE=host.removeprefix("unix://"))


ATTACK = Attack(
    id="containers.engine",
    claim=Claim(Guarantee.NET_CONFINED, "The engine that runs a guest is out of its reach."),
    tiers={"container": Expect(Layer.NAMESPACE)},
    attack=attack,
    control=control,
)
