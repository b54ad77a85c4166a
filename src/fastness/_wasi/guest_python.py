"""
How an engine drives the Python guest: what it finds in its tree, how it is warmed up, how a request reaches it.

The artefact exports ``host_alloc(size) -> address`` and ``turn(address, length)``, which executes source text in
``__main__``; we add ``PyObject_CallNoArgs``, with which a run calls the boot code's function by its address.  Requests
and answers do not travel as source: they go over the channel descriptor, as bytes.
"""

from __future__ import annotations

import ctypes

from fastness._wasi import image as images
from fastness._wasi import memfs, memfs_tree, tiny_json
from fastness._wasi.library import Library, map_file, python_library

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._wasi.binding import Instance, Linker

#: The files of the boot code, and the modules that they become, in this order; the image maker hands over ``encode`` by
#: itself and the others as one text with NUL between.
SOURCES = (
    ("encode", "_fastness_encode"),
    ("sources", "_fastness_sources"),
    ("context", "_fastness_context"),
    ("boot", "_fastness"),
    ("wire", "_fastness_wire"),
)

_NO_SUCH_CALL = 0xFFFFFFFF


class PythonGuest:
    """Driver of the Python guest."""

    has_image = True
    #: Whether output looks like a terminal to the guest, which makes C programs flush at each line.
    tty = False
    fresh_only = False
    channel = 1000
    #: A smallest run, made once when an engine starts.
    rehearsal = b"print(1)"

    def __init__(self, options: dict[str, Any]) -> None:
        bundle = options.get("bundle_fd")
        self.library: Library = python_library(
            map_file(options["library_fd"]), map_file(bundle) if bundle is not None else None
        )

    def imports(self, linker: Linker) -> None:
        """The artefact's one import beside preview 1: its own door to a host, which stays shut."""

        def call(env: Any, caller: Any, args: Any, count: int) -> None:
            args[0] = _NO_SUCH_CALL

        linker.define(b"host", b"call", "iiii", "i", call)

    def arguments(self, args: list[str]) -> list[bytes]:
        """The argument vector that libc sees; a run's own arguments go into ``sys.argv``."""
        return [b"/usr/local/bin/python.wasm"]

    def environment(self, env: list[list[str]]) -> list[bytes]:
        """The environment that libc sees when an image is made; a run's own variables are set by the boot code."""
        return [
            b"TMPDIR=/tmp",
            b"HOME=/home/guest",
            b"PYTHONTZPATH=",
            b"MPLBACKEND=Agg",
            b"MPLCONFIGDIR=/tmp/matplotlib",
            b"LANG=C.UTF-8",
            b"NO_COLOR=1",
        ]

    def tree(self, quota: memfs.Quota, now: int) -> tuple[list[tuple[bytes, Any]], memfs.Dir]:
        """Preopens in their fixed order, and the work folder."""
        root = memfs.Dir(quota, True, now)
        work = memfs.Dir(quota, False, now)
        memfs_tree.mount(root, "work", work)
        memfs_tree.mount(root, "tmp", memfs.Dir(quota, False, now))
        return [*self.library.mounts, (b"/", root)], work

    def boot(
        self, instance: Instance, host: Any, sources: dict[str, str], preload: list[str]
    ) -> tuple[list[tuple[int, int]], dict[str, int]]:
        """
        Install the boot code, import ``preload``, and find the generators.  Returns them and the address of ``turn``.

        Raises ``RuntimeError`` with the guest's output where the warm-up fails.
        """
        texts = zip(SOURCES, [sources["encode"], *sources["boot"].split("\0")], strict=True)
        text = (
            "import sys, types\n"
            f"for _n, _s in {[(module, text) for (_, module), text in texts]!r}:\n"
            "  _m = types.ModuleType(_n); _m.__file__ = '<fastness>'; sys.modules[_n] = _m\n"
            "  exec(compile(_s, '<fastness>', 'exec'), _m.__dict__)\n"
            "_m.warm()\n"
            f"sys.modules['_fastness'].warm({preload!r})\n"
            "import _fastness as _m, json as _j, os as _o\n"
            f"_o.write({self.channel}, _j.dumps([id(_m.turn), _m.generators()]).encode())\n"
            "del _m, _j, _o\n"
        )
        self._execute(instance, text.encode())
        turn, found = tiny_json.loads(host.take_channel().decode())
        generators = []
        base = instance.base()
        for item in found:
            start, size = int(item["address"]), int(item["size"])
            if not 0 < start < start + size + 8192 <= instance.size():
                raise RuntimeError("a generator lies outside the guest's memory")
            # SAFETY: checked to lie inside linear memory.  numpy's object reports its size without the state's tail.
            copy = ctypes.string_at(base + start, max(size, 64) + 8192)
            place = images.find_generator(copy, start, [int(word) for word in item["words"]])
            if place is None:
                raise RuntimeError("the state of a random generator was not found in the guest's memory")
            generators.append(place)
        return generators, {"turn": int(turn)}

    def warm(self, instance: Instance, host: Any, state: dict[str, int]) -> None:
        """One smallest run, so that the image holds what a first run makes."""
        for source in (b"1/0", b"print(1)\n[1, 2.5, 'x', {'a': None}]", b"1"):
            host.put_channel(self.request({"warm": True}, source))
            if not self._call_turn(instance, state["turn"]):
                raise RuntimeError("the boot code failed")
            host.take_channel()

    def request(self, head: dict[str, Any], code: bytes, context: bytes = b"") -> bytes:
        """The bytes that the boot code reads from its channel; ``context`` is JSON of the parent's."""
        text = tiny_json.dumps(head).encode() if head else b""
        if context:
            text = b'%s"context":%s}' % (text[:-1] + b"," if text else b"{", context)
        return (4 + len(text) + len(code)).to_bytes(8, "little") + len(text).to_bytes(4, "little") + text + code

    def head(self, invoke: dict[str, Any], session: bool) -> dict[str, Any]:
        """What of an invoke the boot code needs to know; empty in the commonest case."""
        head: dict[str, Any] = {}
        if invoke.get("filename"):
            head["filename"] = invoke["filename"]
            head["file"] = "/work/" + invoke["filename"].rpartition("/")[2]
        if invoke.get("args"):
            head["args"] = invoke["args"]
        if invoke.get("env"):
            head["env"] = invoke["env"]
        if session:
            head["session"] = True
        return head

    def run(
        self, instance: Instance, host: Any, image: images.Image | None, invoke: dict[str, Any], code: bytes
    ) -> None:
        """
        Run the request.  Raises ``Trap`` where the guest did not return, ``Stop`` where it cannot be asked.

        A turn that fails without an answer (its code broke the boot code) needs no more: no answer is an answer.
        """
        head = self.head(invoke, bool(invoke.get("session")))
        host.put_channel(self.request(head, code, host.run.context))
        assert image is not None
        self._call_turn(instance, image.state["turn"])

    @staticmethod
    def _call_turn(instance: Instance, function: int) -> bool:
        """Whether the boot code came back; the result is the address of None, or zero for an exception."""
        return bool(instance.call(b"PyObject_CallNoArgs", function))

    def _execute(self, instance: Instance, text: bytes) -> None:
        """Execute source text in ``__main__``; only while an image is made."""
        address = instance.call(b"host_alloc", len(text))
        if not 0 < address <= instance.size() - len(text):
            raise RuntimeError("the guest has no room for a request")
        # SAFETY: bounds checked against linear memory just now.
        ctypes.memmove(instance.base() + address, text, len(text))
        status = instance.call(b"turn", address, len(text))
        if status:
            raise RuntimeError(f"the guest's turn ended with status {status}")
