"""
The first steps of a guest of the worker tier: its modules, its firewall, its imports, and then turns.

Its text is executed in a new interpreter that was started in an environment built from nothing.  It imports nothing of
the host's package; what it needs of it comes as text.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import sys
import threading
import types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_TALK = 3
_ERROR = 0x49
#: Whether the host has been greeted, and whether it is being served.
_begun: list[bool] = []
_serving: list[bool] = []
#: Modules that the standard library may load in a turn, and that must be here before the firewall judges: it changes
#: them, or they are made from parts that it refuses.
_EARLY = ("subprocess", "signal", "selectors")


def main(config: dict[str, Any]) -> None:
    """Become a guest and serve the host until it is done.  Never returns."""
    # User code may put another in its place.
    leave = os._exit
    try:
        _serve(config)
    except BaseException as error:  # noqa: BLE001  # whatever it is, the host wants to know
        if not _serving:
            _refuse("start", error)
    finally:
        # An interpreter that ends in its usual way drops its hooks before the last of its objects; where user code
        # prevents this end too, the firewall's hook ends the process in time.
        leave(1)


def _serve(config: dict[str, Any]) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    talk = socket.socket(fileno=_TALK)
    modules = _load(config["sources"])
    native, boot, firewall = modules["_fastness_native"], modules["_fastness"], modules["_fastness_firewall"]
    for name in _EARLY:
        __import__(name)
    sys.path[:] = config["sys_path"]
    sys.argv[:] = [""]
    main = sys.modules["__main__"].__dict__
    for name in [name for name in main if not name.startswith("__")]:
        del main[name]
    lock = threading.Lock()
    send = native._send

    def send_whole(frames: bytes) -> None:
        with lock:
            send(frames)

    def tell(operation: str, target: str) -> None:
        # A signal may have come while this thread was sending; the answer has the row too.
        if _begun and lock.acquire(blocking=False):
            try:
                line = native.json.dumps([operation, target]).encode() + b"\n"
                send(native._frame(0x46, {"name": "claims"}, line))
            except OSError:
                pass
            finally:
                lock.release()

    native._send = send_whole
    work, temporary = os.getcwd(), os.path.join(os.path.dirname(os.getcwd()), "tmp")
    # The host's process descriptor is asked for while it may be.
    me, folder = os.pidfd_open(os.getpid()), os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if config["firewall"]:
        firewall.install(config["folders"], tell)
    for name in config["preload"]:
        try:
            __import__(name)
        except BaseException as error:  # noqa: BLE001  # a package may raise anything while it is imported
            _refuse(f"preload {name}"[:64], error)
            os._exit(1)
    native.prepare()
    if config["firewall"]:
        _add_claims(native, boot, firewall)
    # The conversation was opened before the firewall, which refuses to make a socket of a descriptor.
    kept = {name: getattr(socket, name) for name in ("SOL_SOCKET", "SCM_RIGHTS", "MSG_CMSG_CLOEXEC")}
    native.socket = types.SimpleNamespace(socket=lambda fileno: talk, **kept)
    _begun.append(True)
    talk.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [me, folder]))])
    os.close(me)
    os.close(folder)
    layers = {"module_firewall": "audit hook"} if config["firewall"] else {}
    _serving.append(True)
    native.serve(_TALK, work, temporary, native.greeting(layers, []), False)


def _refuse(where: str, error: BaseException) -> None:
    """Tell the host why there will be no guest."""
    text = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()[:500]
    head = json.dumps({"id": 0, "where": where, "message": text}).encode()
    greeting = b"" if _begun else b"!"
    os.write(_TALK, greeting + struct.pack(">BBHII", 1, _ERROR, 0, len(head), 0) + head)


def _add_claims(native: Any, boot: Any, firewall: Any) -> None:
    answer = boot._answer
    turn = boot.turn

    def answer_with_claims(fields: dict[str, object], value: bytes | None = None) -> None:
        rows, dropped = firewall.claims()
        if rows:
            fields["claims"] = rows
            fields["claims_dropped"] = dropped
        answer(fields, value)

    def turn_anew() -> None:
        firewall.claims()
        turn()

    boot._answer = answer_with_claims
    boot.turn = turn_anew


def _load(sources: dict[str, str]) -> dict[str, Any]:
    """The code that runs inside guests, as modules that belong to no package of the host."""
    made: dict[str, Any] = {}
    for name, text in sources.items():
        module = made[name] = types.ModuleType(name)
        # Tracebacks leave out frames of a file by this name.
        module.__file__ = f"<{name}>"
        sys.modules[name] = module
        exec(compile(text, module.__file__, "exec"), module.__dict__)
    return made
