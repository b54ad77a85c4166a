"""
The golden conversations of wire protocol version 1: what they are, and how they are written to disk.

``<name>.hex`` has one frame a line: ``>`` host to guest or ``<`` guest to host, then the bytes in hex.
``<name>.txt`` says the same for people.  A change of either file is a change of the protocol: run this file to see
what would change, and with ``--write`` to change it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fastness.wire import frames, values
from fastness.wire import messages as m

FOLDER = Path(__file__).parent

Step = tuple[m.Message, bytes]

LIMITS = m.LimitsHead(
    wall_s=30.0,
    cpu_s=30.0,
    memory=512 << 20,
    fds=256,
    files=10_000,
    file_bytes=256 << 20,
    output_bytes=1 << 20,
    output_total_bytes=256 << 20,
)
HELLO = m.Hello(1, "engine", {"syscalls": "seccomp", "filesystem": "landlock"}, 4711, {"load": 0.0055})
START = m.Start("python", {"image": "stdlib", "fresh": False, "slots": 1})
OPENING: list[Step] = [(HELLO, b""), (START, b""), (m.Ready(("stdlib",)), b"")]
BYE: Step = (m.Bye("idle"), b"")


def invoke(id: int, op: str, code: bytes = b"", stdin: bytes = b"", context: bytes = b"", **fields: object) -> Step:
    sizes = {"code_len": len(code), "stdin_len": len(stdin), "context_len": len(context)}
    head = m.Invoke(id=id, op=op, limits=LIMITS, **sizes, **fields)  # type: ignore[arg-type]  # test data
    return head, code + stdin + context


def result(id: int, stdout: bytes = b"", stderr: bytes = b"", payload: bytes = b"", **fields: object) -> Step:
    head = m.Result(
        id=id,
        stdout_len=len(stdout),
        stderr_len=len(stderr),
        payload_len=len(payload),
        **{"ending": "returned", **fields},  # type: ignore[arg-type]  # test data
    )
    return head, stdout + stderr + payload


ODD_VALUE = {
    "nan": float("nan"),
    "inf": [float("inf"), float("-inf")],
    "zero": -0.0,
    "big": [2**53, -(2**64), 2**53 - 1],
    "bytes": b"\x00\xff",
    "half": "a\ud800",
    "$": {"\udc80": None},
    "text": "zwölf \u2028 \U0001f600",
}

CONTEXT = (
    b'{"granted":[{"capability":"fs","operation":"read","parameters":[["path",false]],"signature":"","summary":"Read."}],'
    b'"functions":[],"plugin":null,"in_flight":16}'
)

CONVERSATIONS: dict[str, list[Step]] = {
    "run": [
        *OPENING,
        invoke(1, "run", b"print(1)", b"in", runtime="python", args=("a",), env=(("LANG", "C.UTF-8"),), seed=7),
        result(
            1,
            b"1\n",
            b"warning\n",
            b'{"kind": "ok", "value": ' + values.encode(ODD_VALUE) + b"}",
            usage=m.UsageHead(wall_us=812, cpu_us=790, instance_us=70, memory_bytes=42 << 20, reset=True),
            denials=(m.DenialHead("path_open", "/etc/passwd", "absent", "wasi", 2),),
            deleted=("old.txt",),
        ),
        invoke(2, "run", b"while 1: pass", runtime="python", time_ns=0, fresh=True, want_files=False),
        (m.Cancel(2), b""),
        result(2, ending="cancelled", trap="interrupt", exit_code=None),
        BYE,
    ],
    "session": [
        *OPENING,
        invoke(1, "open", session=1, runtime="python", preload=("numpy",), preopens=(m.PreopenHead("/data", True),)),
        result(1, session_state="kept"),
        invoke(2, "execute", b"x = 1", session=1),
        result(2, payload=b'{"kind": "ok"}', session_state="kept"),
        invoke(3, "image", session=1, image="checkpoint"),
        result(3, session_state="kept"),
        invoke(4, "execute", b"import time; time.sleep(9)", session=1),
        (m.Interrupt(4), b""),
        result(
            4,
            payload=b'{"kind": "exception", "error_type": "KeyboardInterrupt", "error_message": ""}',
            session_state="kept",
        ),
        invoke(5, "execute", b"import os; os._exit(3)", session=1),
        result(5, ending="exit", exit_code=3, session_state="lost"),
        invoke(6, "close", session=1),
        (m.Error(6, "close", "no such session"), b""),
        invoke(7, "ping"),
        result(7),
        BYE,
    ],
    "calls": [
        *OPENING,
        invoke(1, "run", b"...", context=CONTEXT),
        (m.Call(1, "fs", "read"), values.encode({"path": "notes.txt"})),
        (m.Call(2, "net", "get"), values.encode({"url": "http://example.org/"})),
        (m.Reply(1), values.encode(b"text")),
        (m.Fault(2, "not_granted", "the policy grants no network"), b""),
        (m.Call(3, "memory", "search"), values.encode({})),
        (m.Drop(3), b""),
        result(1, usage=m.UsageHead(calls=3)),
        # The next guest is another one, and its calls are told apart from those before.
        invoke(2, "run", b"...", b"in", CONTEXT),
        (m.Call(4, "fs", "read"), values.encode({"path": "notes.txt"})),
        (m.Fault(4, "revoked"), b""),
        result(2, usage=m.UsageHead(calls=1)),
        BYE,
    ],
    "events": [
        *OPENING,
        invoke(1, "run", b"..."),
        (m.Event("stdout"), b"caf\xc3"),
        (m.Event("stdout"), b"\xa9\n"),
        (m.Event("stderr", 4096), b"tail"),
        (m.Log("warning", "slow"), b""),
        result(1, ending="output_limit", stdout_dropped=1 << 28),
        BYE,
    ],
    "files": [
        *OPENING,
        (m.Stage("data/in.csv", 10, False), b"a,b\n1"),
        (m.Stage("data/in.csv", 10, True), b",2\n3,"),
        (m.Stage("empty", 0, True), b""),
        invoke(1, "run", b"..."),
        (m.Artefact(1, "plot.png", 6, True), b"\x89PNG"),
        (m.Artefact(1, "plot.png", 6, False, "added", "ab" * 32), b"\r\n"),
        (m.Artefact(1, "data/in.csv", 0, False, "changed"), b""),
        result(1, changed=("huge.bin",), changes_dropped=2),
        BYE,
    ],
    "failed_start": [(HELLO, b""), (START, b""), (m.Error(0, "image", "no image stdlib"), b"")],
}


def lines(steps: list[Step]) -> tuple[str, str]:
    """The two files of a conversation."""
    raw, shown = [], []
    for message, blob in steps:
        data = m.encode(message, blob)
        mark = ">" if m.TYPE_OF[type(message)] in frames.HOST_TYPES else "<"
        raw.append(f"{mark} {data.hex()}\n")
        shown.append(f"{mark} {frames.NAMES[m.TYPE_OF[type(message)]]} {m.encode_head(message).decode()}\n")
        if blob:
            shown.append(f"    {blob!r}\n")
    return "".join(raw), "".join(shown)


def main() -> int:
    write = sys.argv[1:] == ["--write"]
    differs = False
    for name, steps in CONVERSATIONS.items():
        for suffix, text in zip((".hex", ".txt"), lines(steps), strict=True):
            path = FOLDER / (name + suffix)
            if not path.exists() or path.read_text("utf-8") != text:
                differs = True
                print(("wrote " if write else "differs: ") + path.name)
                if write:
                    path.write_text(text, "utf-8")
    return 1 if differs and not write else 0


if __name__ == "__main__":
    sys.exit(main())
