"""
Makes a memory image inside an engine: warm one guest up, then write its memory to the builder's descriptor.

The engine is confined before the guest's first instruction, as for any run; the one thing it may do beside is to
write that descriptor.
"""

from __future__ import annotations

from fastness._wasi import binding, serving, tiny_json
from fastness._wasi import image as images
from fastness.wire import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._wasi.engine_talk import Conversation
    from fastness._wasi.watch import Watch

#: Seconds that warming up may take.
_WARM_UP_S = 240.0
#: What the image's maker may use; nothing here comes from a guest of a user.
_LIMITS = {
    "wall_s": _WARM_UP_S,
    "cpu_s": _WARM_UP_S,
    "memory": 2 << 30,
    "fds": 256,
    "files": 1000,
    "file_bytes": 64 << 20,
    "output_total_bytes": 1 << 20,
    "frame_bytes": 1 << 20,
}
#: An image must not remember when it was made.
_CLOCK_NS = 1_700_000_000_000_000_000


def make(
    server: serving.Server,
    watch: Watch,
    talk: Conversation,
    image_fd: int,
    head: dict[str, Any],
    sources: dict[str, str],
) -> serving.Run | None:
    """
    Answer an ``image`` invoke: sends an ``image`` event with what a restore needs to know, and returns the run to
    report; or sends an error and returns None.
    """
    guest = server.guest
    invoke = {
        "id": 0, "limits": _LIMITS, "args": [], "env": [], "fresh": True, "session": 0, "seed": 0, "time_ns": _CLOCK_NS,
    }  # fmt: skip
    run = server.open(invoke, {}, b"")
    instance, host = run.instance, run.host
    assert instance is not None
    door = serving.Channel(run, guest.channel)
    server.output.begin(1 << 20, True)
    server.current[0] = host
    watch.begin(head["id"], _WARM_UP_S, _WARM_UP_S)
    instance.arm()
    failure = ""
    generators: list[tuple[int, int]] = []
    state: dict[str, int] = {}
    try:
        generators, state = guest.boot(instance, door, sources, head["preload"])
        guest.warm(instance, door, state)
    except (binding.Trap, RuntimeError, ValueError, KeyError) as error:
        failure = f"{type(error).__name__}: {error}"
    finally:
        reason = watch.end()
        server.current[0] = None
    _, err = server.output.take()

    def fail(where: str, message: str) -> None:
        talk.send_json(frames.ERROR, {"id": head["id"], "where": where, "message": message[-4000:]})

    if failure:
        stub = server.quick and "unreachable" in failure
        fail("stub" if stub else "image", f"{reason} {failure}\n" + err.decode("utf-8", "replace"))
        return None
    saved = []
    for number, node, offset, flags in host.open_files():
        place = guest.library.locate(node)
        if place is None:
            fail("image", f"the warm-up left descriptor {number} open on a file outside the library")
            return None
        saved.append([number, place[0], place[1], offset, flags])
    size = images.save(instance, image_fd)
    meta = {"size": size, "saved": saved, "generators": generators, "state": state}
    talk.send_json(frames.EVENT, {"name": "image"}, tiny_json.dumps(meta).encode())
    server.close(run)
    run.ending = "returned"
    return run
