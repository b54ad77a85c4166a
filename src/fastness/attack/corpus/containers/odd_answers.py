"""
Answers as an engine that is none, or is broken: each part of each answer in turn is of another type than it should be.

No engine is needed for it, and none is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastness._container import containers, image, probe
from fastness._container.deadline import Deadline
from fastness._container.faults import EngineFault
from fastness.attack import plain
from fastness.attack.arena import Arena
from fastness.attack.model import Attack, Claim, Effect, Expect, Layer
from fastness.attack.pretended import Pretended, Twist, parts_of
from fastness.tier import Guarantee

#: What the account of a container may not be but what was asked for.
_HOST = (
    "Memory", "MemorySwap", "PidsLimit", "NanoCpus", "ReadonlyRootfs", "NetworkMode", "CapDrop", "SecurityOpt", "Tmpfs",
    "Ulimits", "LogConfig", "IpcMode", "ShmSize",
)  # fmt: skip
_CONFIG = ("User", "Healthcheck")
#: What each part is in place of what it should be.
ODD: tuple[Any, ...] = (True, "x", [7], {"x": [7]})
#: Beside these, what falls over where a list is expected, or rows of one.
VERY_ODD: tuple[Any, ...] = (*ODD[1:], None, 7)

_ASKED_S = 5.0
#: A client that looks at what it was given as such programs do, by whether there is something.
NAIVE = """
import json, socket

def ask(method, path, body=None):
    data = b'' if body is None else json.dumps(body).encode()
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(5)
        door.connect(ENGINE)
        head = f'{method} {path} HTTP/1.1\\r\\nHost: e\\r\\nContent-Length: {len(data)}\\r\\n\\r\\n'
        door.sendall(head.encode() + data)
        found = b''
        while part := door.recv(65536):
            found += part
    text = found.partition(b'\\r\\n\\r\\n')[2]
    return json.loads(text) if text.startswith((b'{', b'[')) else text

for number in range(COUNT):
    ask('POST', f'/twist/{number}')
    try:
        ask('GET', '/info')['SecurityOptions'][0].startswith('name=')
        made = ask('POST', '/containers/create', ASKED)['Id']
        found = ask('GET', f'/containers/{made}/json')
        if not all(found['HostConfig'][key] for key in ('Memory', 'PidsLimit', 'ReadonlyRootfs', 'SecurityOpt')):
            raise PermissionError('it is without limits')
        ask('POST', f'/containers/{made}/start')
    except PermissionError as error:
        print(number, error)
    except Exception as error:
        print(number, 'FELL', type(error).__name__, error, flush=True)
"""


def attack(arena: Arena) -> Effect:
    """The client of this package, which is to refuse the answer in its own words and to start nothing."""
    engine = _engine(arena, [*_limits(), *_others()])
    faults: list[str] = []
    if refusal := _use(engine):
        raise RuntimeError(f"it refuses right answers too: {refusal}")
    for number, (name, path, value) in enumerate(engine.twists):
        engine.now = number
        try:
            _use(engine)
        except Exception as error:  # noqa: BLE001  # any that is none of the documented ones is what is looked for
            faults.append(f"{name} {'.'.join(path)} = {value!r}: {type(error).__name__}: {error}")
    wrongly = [engine.twists[number][1] for number in engine.started if number is not None and number < len(_limits())]
    what = [f"a container was started with {'.'.join(path)} of another type" for path in wrongly]
    return Effect(
        bool(faults or what), "; ".join([*faults, *what])[:500] or f"all {len(engine.twists)} were taken well"
    )


def control(arena: Arena) -> Effect:
    """A client that believes what it is answered."""
    engine = _engine(arena, [*_limits(), *_others()])
    asked = {"Image": "x", "HostConfig": dict.fromkeys(_HOST, 1), "Labels": {}}
    bare = arena.outside.run(arena.python(NAIVE, ENGINE=engine.path, COUNT=len(engine.twists), ASKED=asked))
    went_on = [number for number in engine.started if number is not None and number < len(_limits())]
    fell = bare.stdout_bytes.count(b"FELL")
    return Effect(len(went_on) > 10 and fell > 5, f"it went on {len(went_on)} times, and fell over {fell} times")


def _engine(arena: Arena, twists: list[Twist]) -> Pretended:
    made = Pretended(str(arena.folder / "engine"), twists)
    arena.keep(made)
    return made


def _limits() -> list[Twist]:
    """What is to be refused."""
    parts = [("HostConfig", name) for name in _HOST] + [("Config", name) for name in _CONFIG]
    return [
        ("inspect", path, value) for path in (*parts, ("HostConfig",), ("Config",), ("Image",)) for value in _odd(path)
    ]


def _odd(path: tuple[str, ...]) -> Iterator[Any]:
    # These are of the right type there, and say what is to be said.
    right: dict[str, tuple[Any, ...]] = {"ReadonlyRootfs": (True,), "Healthcheck": ({"x": [7]},)}
    return (value for value in ODD if value not in right.get(path[-1], ()))


def _others() -> Iterator[Twist]:
    """What may be refused or be passed over, and raises nothing else."""
    for name in ("version", "info", "image", "images", "list", "create"):
        for path in parts_of(name):
            yield from ((name, path, value) for value in VERY_ODD)
    yield from (("inspect", (), value) for value in VERY_ODD)


def _use(engine: Pretended) -> str:
    """All that is asked of an engine before a run, up to its container's start; in which words it was refused."""
    try:
        found = probe.reach({}, f"unix://{engine.path}")
        if refusals := probe.refusals(found):
            return str(refusals)
        containers.sweep(found)
        image.list_ours(found.client(), Deadline(_ASKED_S))
        which = image.find(found.client(), image.DEFAULT, Deadline(_ASKED_S))
        _, sock, _ = containers.make(found, which, plain.ASK)
        sock.close()
    except (EngineFault, containers.NotAsAsked) as refusal:
        return str(refusal)
    return ""


ATTACK = Attack(
    id="containers.odd_answers",
    claim=Claim(
        Guarantee.CRASH_CONTAINED,
        "What an engine answers in other types than it should is never taken for what was asked, and raises none but "
        "documented errors.",
    ),
    tiers={"container": Expect(Layer.HOST)},
    attack=attack,
    control=control,
    slow=True,
)
