"""
Has the engine run a program of the image's own beside the guest, again and again: the image's check of health.

Docker runs it by itself.  Podman has a timer of the machine's ask for it, which is done here as that timer does it.
"""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Iterator

from fastness._container import containers, image
from fastness._container.client import Client
from fastness._container.deadline import Deadline
from fastness._container.probe import Engine
from fastness.attack import plain
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.tier import Guarantee

#: Until when the guest looks for what the check has left, and a control; the check is to run every 0.3 s.
SECONDS, CONTROL_S = 1.5, 10.0
CODE = """
import os, time

end = time.monotonic() + SECONDS
while time.monotonic() < end and not os.path.exists('/tmp/' + NAME):
    time.sleep(0.05)
print('CHECKED' if os.path.exists('/tmp/' + NAME) else 'ALONE', flush=True)
"""
_BUILD_S = 60.0
_ASK_S = 10.0
_PAUSE_S = 0.2
_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def attack(arena: Arena) -> Effect:
    """In the tier, with that image."""
    engine = plain.engine()
    with _image(engine, arena) as name, _asking(engine):
        result = arena.run(arena.python(CODE, SECONDS=SECONDS), image=name)
    if not result.stdout_bytes:
        raise RuntimeError(f"nothing was looked for: {result.outcome}")
    return arena.said(result, "CHECKED", "had the image's own program beside it")


def control(arena: Arena) -> Effect:
    """In a container of the same image that was asked for plainly."""
    engine = plain.engine()
    with _image(engine, arena) as name:
        body = plain.body(engine, arena.python(CODE, SECONDS=CONTROL_S), name=name)
        body.pop("Healthcheck", None)
        with plain.started(engine, body) as (container, printed), _asking(engine, container):
            said = b"".join(printed)
    return Effect(b"CHECKED" in said, f"the container said {said.decode('utf-8', 'replace').strip()}")


@contextlib.contextmanager
def _image(engine: Engine, arena: Arena) -> Iterator[str]:
    """The name of an image like the default one, with a check of health."""
    name = f"localhost/fastness/attack:{arena.name}"
    check = json.dumps(["python3", "-c", f"open('/tmp/{arena.name}', 'w')"])
    text = f"FROM {image.DEFAULT}\nHEALTHCHECK --interval=300ms --timeout=5s CMD {check}\n".encode()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    data = archive.getvalue()
    # Images of the other kind have no such check.
    query = {"t": name, "networkmode": "none", "rm": "1", "forcerm": "1", "outputformat": _MANIFEST}
    client = engine.client()
    client.call("POST", "/build", Deadline(_BUILD_S), query=query, upload=([data], len(data)))
    try:
        yield name
    finally:
        _remove(client, name)


def _remove(client: Client, name: str) -> None:
    end = time.monotonic() + _ASK_S
    # The container of a run goes soon after it, and an engine may trip over one that is just going.
    while True:
        status = client.call("DELETE", f"/images/{name}", Deadline(_ASK_S), good=(404, 409, 500)).status
        if status in (200, 404) or time.monotonic() > end:
            return
        time.sleep(_PAUSE_S)


@contextlib.contextmanager
def _asking(engine: Engine, *names: str) -> Iterator[None]:
    """Have an engine that does not check by itself asked to check, again and again: these, or all of this process's."""
    over = threading.Event()
    client = Client(engine.endpoint)

    def ask() -> None:
        while not over.wait(_PAUSE_S):
            mine = names or [name for name, who in containers.ours(engine).items() if who == containers.owner()]
            for name in mine:
                path = f"/v4.0.0/libpod/containers/{name}/healthcheck"
                client.call("GET", path, Deadline(_ASK_S), good=(404, 409, 500))

    thread = threading.Thread(target=ask, name="attack-checks")
    if engine.kind == "podman":
        thread.start()
    try:
        yield
    finally:
        over.set()
        if engine.kind == "podman":
            thread.join()


ATTACK = Attack(
    id="containers.health_check",
    claim=Claim(Guarantee.WALL_KILL, "No program of an image's own runs in a container beside what is supervised."),
    tiers={"container": Expect(Layer.HOST)},
    attack=attack,
    control=control,
    slow=True,
)
