"""
Output is bytes: exact as far as kept, head and tail of what is not, counted, and heard while the guest still runs.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest

import fastness
from fastness import OutcomeKind
from fastness.limits import MIB

pytestmark = pytest.mark.tiers("wasm", "isolated", "confined")


def test_output_is_exact(box: fastness.Sandbox) -> None:
    """Every byte value in every position of both streams arrives unchanged."""
    result = box.run(
        "import os, sys\n"
        "data = bytes(range(256)) * 300\n"
        "sys.stdout.buffer.write(data); sys.stdout.flush()\n"
        "os.write(2, data[::-1])\n"
    )
    data = bytes(range(256)) * 300
    assert result.stdout_bytes == data
    assert result.stderr_bytes == data[::-1]
    assert result.outcome.dropped_bytes == 0
    assert (result.usage.stdout_bytes, result.usage.stderr_bytes) == (len(data), len(data))


@pytest.mark.parametrize(
    "data", [b"\xe2\x98", b"caf\xc3", b"\xff\xfe", b"\xed\xa0\x80", b"\x80", b"\xf0\x9f\x98", b"a\0b", b"\xc3\xa9"]
)
def test_half_utf8(box: fastness.Sandbox, data: bytes) -> None:
    """Invalid UTF-8 shows as U+FFFD in the text and stays as it is in the bytes; JSON carries it."""
    result = box.run(f"import os; os.write(1, {data!r})")
    assert result.stdout_bytes == data
    assert result.stdout == data.decode("utf-8", "replace")
    result.to_json().encode("utf-8")


def test_characters_across_pieces(box: fastness.Sandbox) -> None:
    """A character that is split between two writes, and between two frames, is one character in the text."""
    code = (
        "import os\nos.write(1, b'x' * 65535 + b'\\xe2')\nos.write(1, b'\\x98')\nos.write(1, b'\\x83' + b'y' * 70000)\n"
    )
    result = box.run(code)
    assert result.stdout == "x" * 65535 + "\N{SNOWMAN}" + "y" * 70000


def test_surrogates_in_print(box: fastness.Sandbox) -> None:
    """Printing a lone surrogate is the guest's problem, not the caller's."""
    result = box.run("print('before'); print('\\ud800')")
    assert result.stdout.startswith("before\n")
    assert result.outcome.kind in (OutcomeKind.GUEST_ERROR, OutcomeKind.OK)
    result.to_json()


@pytest.mark.tiers("wasm")
def test_two_gigabytes(box: fastness.Sandbox) -> None:
    """A guest that prints 2 GB costs the cap: head and tail are kept, all that was written and dropped is counted."""
    total = 2 << 30
    code = (
        "import os\n"
        "os.write(1, b'HEAD')\n"
        "block = b'x' * (1 << 20)\n"
        f"left = {total} - 8\n"
        "while left:\n"
        "    left -= os.write(1, block[:left])\n"
        "os.write(1, b'TAIL')\n"
        "'done'\n"
    )
    limits = {"output_total_bytes": 4 << 30, "output_bytes": 100_000}
    result = box.run(code, limits=limits, timeout=60)
    assert (result.outcome.kind, result.value) == (OutcomeKind.OK, "done")
    assert result.stdout.startswith("HEADxx") and result.stdout.endswith("xxTAIL")
    assert result.outcome.dropped_bytes == total - 100_000
    assert result.usage.stdout_bytes == total
    assert f"[... {total - 100_000} bytes dropped ...]" in result.stdout
    assert len(result.stdout_bytes) < 100_100


def test_kept_is_not_the_end(box: fastness.Sandbox) -> None:
    """Past ``output_bytes`` the run goes on; each stream has its own."""
    code = "import sys\nfor i in range(100): print('o' * 99); print('e' * 99, file=sys.stderr)\n'end'"
    result = box.run(code, limits={"output_bytes": 1000})
    assert result.value == "end"
    assert result.outcome.dropped_bytes == 2 * 9000
    assert result.stdout.count("o") >= 900 and result.stderr.count("e") >= 900


def test_nothing_kept(box: fastness.Sandbox) -> None:
    """A cap of nothing keeps nothing and counts all."""
    result = box.run("print('x' * 9)", limits={"output_bytes": 0})
    assert result.outcome.dropped_bytes == 10
    assert "xx" not in result.stdout


@pytest.mark.parametrize("total", [0, 1, 999, MIB])
def test_total_cap_ends_the_run(box: fastness.Sandbox, total: int) -> None:
    """Past ``output_total_bytes``, of both streams together, the run is over; what was written before is kept."""
    code = "import os\nwhile True:\n  os.write(1, b'o' * 500); os.write(2, b'e' * 500)"
    result = box.run(code, limits={"output_total_bytes": total})
    assert result.outcome.kind is OutcomeKind.OUTPUT_LIMIT
    assert result.usage.stdout_bytes + result.usage.stderr_bytes == total
    assert len(result.stdout_bytes) + len(result.stderr_bytes) == total
    with pytest.raises(fastness.LimitExceeded) as caught:
        result.raise_for_outcome()
    assert caught.value.limit == "output_total_bytes" and caught.value.result is result


def test_exactly_the_total_is_allowed(box: fastness.Sandbox) -> None:
    """The cap itself may be written."""
    result = box.run("import os; os.write(1, b'x' * 1000)", limits={"output_total_bytes": 1000})
    assert (result.outcome.kind, len(result.stdout)) == (OutcomeKind.OK, 1000)


def test_output_comes_before_the_end(box: fastness.Sandbox, tier: str) -> None:
    """What is printed is heard while the guest still sleeps: here the run ends only because it was heard."""
    heard: list[tuple[str, Any]] = []
    first = threading.Event()

    def on_event(name: str, data: Any) -> None:
        heard.append((name, data))
        first.set()
        own.cancel()

    own = fastness.Sandbox(tier=tier)
    try:
        result = own.run("print('now'); import time; time.sleep(60)", timeout=60, on_event=on_event)
    finally:
        own.close()
    assert first.is_set()
    assert heard[0] == ("stdout", b"now\n")
    assert result.outcome.kind is OutcomeKind.CANCELLED
    assert result.stdout == "now\n"


def test_events_are_the_output(box: fastness.Sandbox) -> None:
    """The pieces that a callback gets are, together, exactly what was written, also where the result keeps less."""
    pieces: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    code = "import sys\nfor i in range(30000): print(i); print(-i, file=sys.stderr)"
    result = box.run(code, limits={"output_bytes": 5000}, on_event=lambda name, data: pieces[name].append(data))
    assert result.outcome.kind is OutcomeKind.OK
    assert b"".join(pieces["stdout"]) == b"".join(b"%d\n" % i for i in range(30000))
    assert b"".join(pieces["stderr"]) == b"".join(b"%d\n" % -i for i in range(30000))


def test_a_callback_that_raises(box: fastness.Sandbox) -> None:
    """The caller's own error reaches the caller, and the guest is not left running."""
    with pytest.raises(ZeroDivisionError):
        box.run("print(1)\nwhile True: pass", on_event=lambda name, data: 1 // 0)
    assert box.run("1").value == 1


def test_order_within_a_stream(box: fastness.Sandbox) -> None:
    """print, sys.stdout.buffer and os.write keep the order of writing when flushed between."""
    code = (
        "import os, sys\n"
        "print('a'); sys.stdout.flush(); os.write(1, b'b\\n'); sys.stdout.buffer.write(b'c\\n'); "
        "sys.stdout.buffer.flush(); print('d', end='')\n"
    )
    assert box.run(code).stdout == "a\nb\nc\nd"


def test_escape_codes_are_data(box: fastness.Sandbox) -> None:
    """The API hands over what was written; making it safe to look at is for whoever shows it."""
    text = "\x1b]0;title\x07\x1b[2J\r\x08"
    assert box.run(f"print({text!r}, end='')").stdout == text


def test_output_after_closing(box: fastness.Sandbox) -> None:
    """A guest that closes or replaces its streams harms itself only."""
    for code in (
        "import sys; sys.stdout.close()",
        "import os; os.close(1); os.close(2)",
        "import sys; sys.stdout = None; sys.stderr = 5; raise ValueError",
        "import sys; sys.stdout = sys.stderr = object(); 1/0",
        "import sys; del sys.stdout, sys.stderr; 1/0",
        "import os\nfor i in range(2000):\n  try: os.close(i)\n  except OSError: pass",
    ):
        result = box.run(code)
        assert result.outcome.kind is not OutcomeKind.OK or result.outcome.detail == ""
        assert box.run("print('fine')").stdout == "fine\n"
