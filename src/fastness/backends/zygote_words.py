"""
What a zygote and its launcher tell, taken as typed records of bounded size, and only of guests that were asked for.

The zygote imports packages that nobody here has read, and they can write to its socket: what comes over it may be
anything, in any amount.
"""

from __future__ import annotations

import json
import struct
import threading
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from fastness._native import datagrams

_Name = Annotated[str, Meta(max_length=200)]
_Text = Annotated[str, Meta(max_length=1 << 14)]
_Count = Annotated[int, Meta(ge=0, le=1 << 53)]
#: Refused calls of one guest that are kept; its launcher keeps no more either.
_RECORDS_MAX = 64
_TOLD = struct.Struct(datagrams.ENDED)


class Word(msgspec.Struct, frozen=True):
    """One message; which one it is, the fields that are set say."""

    begun: _Count | None = None
    ready: _Count | None = None
    importing: _Name | None = None
    failed: _Text | None = None
    preload: _Name = ""
    denial: _Name | None = None
    operation: _Name = ""
    target: _Name = ""
    count: _Count = 0
    unrecorded: _Name | None = None
    unborn: _Name | None = None
    why: _Text = ""
    exit: _Name | None = None
    #: As wait(2) gives it.
    status: Annotated[int, Meta(ge=0, le=0xFFFF)] = 0
    rss: _Count = 0
    cpu: Annotated[float, Meta(ge=0, le=1e9)] = 0.0


def decode(data: bytes) -> Word:
    """A message.  Raises ``ValueError`` for what is none."""
    try:
        if data[:1] == b"\0":
            return msgspec.convert(_ending(data), Word)
        # Names of files may hold what is no text, which only this decoder takes.
        return msgspec.convert(_decoder.decode(data.decode("utf-8", "surrogatepass")), Word)
    except RecursionError:
        raise ValueError("a message is nested too deeply") from None


def _ending(data: bytes) -> dict[str, Any]:
    """How a guest ended, which comes in the words of the kernel (``getrusage(2)``)."""
    try:
        _, name, status, user_s, user_us, system_s, system_us, resident, *_ = _TOLD.unpack(data)
    except struct.error:
        raise ValueError("the end of a guest is told in other words") from None
    used = (user_s + system_s) + (user_us + system_us) / 1e6
    return {"exit": name.decode(), "status": status, "rss": resident, "cpu": used}


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")


_decoder = json.JSONDecoder(parse_constant=_refuse)


class Told:
    """
    What has come of the guests of one zygote, each from when it is asked for until it is forgotten.

    A package that was preloaded can put words into the mouth of its zygote: about its own guests, which it can make do
    anything anyway.  Any thread may use this.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._unrecorded: set[str] = set()
        self._records: dict[str, list[dict[str, Any]]] = {}
        self._exits: dict[str, dict[str, Any]] = {}

    def ask(self, name: str) -> None:
        """A guest by this name is about to be asked for."""
        with self._lock:
            self._asked.add(name)

    def asked(self, name: str) -> bool:
        """Whether there may be such a guest."""
        return name in self._asked

    def forget(self, name: str) -> None:
        """Nobody will ask about this guest any more; what comes of it from now on is not kept."""
        with self._lock:
            self._asked.discard(name)
            self._records.pop(name, None)
            self._unrecorded.discard(name)
            self._exits.pop(name, None)

    def take(self, word: Word) -> None:
        """Keep what a message says of a guest."""
        with self._lock:
            if word.denial in self._asked:
                self._merge(self._records.setdefault(word.denial, []), word)
            elif word.unrecorded in self._asked:
                self._unrecorded.add(word.unrecorded)
            elif word.exit in self._asked:
                # How one ended is told once.
                self._exits.setdefault(word.exit, {"status": word.status, "rss": word.rss, "cpu": word.cpu})
            elif word.unborn in self._asked:
                self._exits.setdefault(word.unborn, {"why": word.why})

    @staticmethod
    def _merge(rows: list[dict[str, Any]], word: Word) -> None:
        for row in rows:
            if (row["operation"], row["target"]) == (word.operation, word.target):
                row["count"] = max(row["count"], word.count)
                return
        if len(rows) < _RECORDS_MAX:
            rows.append({"operation": word.operation, "target": word.target, "count": word.count})

    def records(self, name: str) -> list[dict[str, Any]]:
        """Refused calls of a guest."""
        with self._lock:
            return [dict(row) for row in self._records.get(name, ())]

    def unrecorded(self, name: str) -> bool:
        """Whether refused calls of a guest have gone unrecorded: it met the cap on them."""
        return name in self._unrecorded

    def exit_of(self, name: str) -> dict[str, Any] | None:
        """How a guest ended, or why it never began, once that is known."""
        return self._exits.get(name)
