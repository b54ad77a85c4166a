"""A service with models for tests, on loopback: it echoes what it is asked, and counts tokens as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import listeners
from fastness.capabilities._llm_settings import Settings, settings_of

#: What is sent as the credential of the host.
KEY = "sk-held-by-the-host-0123456789"
#: Prices of a million tokens, in units: a thousandth of a unit a token in, two out, for the dearest.
PRICES = {
    "cheap": {"model": "small-1", "input": 1, "output": 2},
    "standard": {"model": "middle-1", "input": 10, "output": 20},
    "strong": {"model": "large-1", "input": 1000, "output": 2000, "max_tokens": 2048},
}
Say = Callable[[dict[str, Any]], dict[str, Any]]


class Models(listeners.Listener):
    """
    ``say`` may change what is answered: a dict with ``text``, ``usage``, ``status``, ``pieces`` (texts of a stream) and
    ``before``, which is called before anything is sent.  ``asked`` are the bodies that came.
    """

    def __init__(self, say: Say | None = None, **how: Any) -> None:
        self._say = say or (lambda asked: {})
        self.asked: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        super().__init__(self._given, with_body=True, **how)

    def settings(self, **more: Any) -> Settings:
        return settings_of(
            {"url": f"http://models.test:{self.port}/v1", "address": "127.0.0.1", "tiers": PRICES, **more}
        )

    def _given(self, head: bytes, body: bytes) -> Iterator[bytes]:
        asked = json.loads(body)
        with self._lock:
            self.asked.append(asked)
        text = "echo: " + asked["messages"][-1]["content"]
        default = {"prompt_tokens": 10, "completion_tokens": max(1, len(text) // 4)}
        made = {"text": text, "usage": default, "status": "200 OK", **self._say(asked)}
        if "before" in made:
            made["before"]()
        if asked["stream"] and made["status"] == "200 OK":
            yield from _events(made)
            return
        reply: dict[str, Any] = {
            "choices": [{"message": {"role": "assistant", "content": made["text"]}, "finish_reason": "stop"}]
        }
        if made["usage"] is not None:
            reply["usage"] = made["usage"]
        yield listeners.answer(made.get("raw", json.dumps(reply).encode()), status=made["status"])


def _events(made: dict[str, Any]) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    text = made["text"]
    pieces = made.get("pieces") or [text[at : at + 3] for at in range(0, len(text), 3)]
    for one in pieces:
        if callable(one):
            one()
            continue
        yield f"data: {json.dumps({'choices': [{'delta': {'content': one}, 'finish_reason': None}]})}\r\n\r\n".encode()
    yield f"data: {json.dumps({'choices': [{'delta': {}, 'finish_reason': 'stop'}]})}\n\n".encode()
    if made["usage"] is not None:
        yield f"data: {json.dumps({'choices': [], 'usage': made['usage']})}\n\n".encode()
    yield b"data: [DONE]\n\n"


def key_file(folder: Path) -> str:
    """The host's credential, as a file of the operator's."""
    path = folder / "llm.key"
    path.write_text(KEY + "\n")
    path.chmod(0o600)
    return str(path)
