"""Reading and exporting: filters, following, JSON lines that a terminal can be shown, and spans."""

from __future__ import annotations

import io
import json
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

from fastness.audit import reading
from fastness.audit.export import JsonLines, OpenTelemetry, export
from fastness.audit.log import AuditLog
from fastness.audit.record import FIELDS
from fastness.broker.trail import Intent
from fastness.errors import ConfigurationError

Make = Callable[..., Intent]


def test_filters(log: AuditLog, intent: Make) -> None:
    """By plugin, owner and time, each alone and together; the last N are the last."""
    for plugin in ("a", "b"):
        for owner in ("x", "y"):
            log.intend(intent(plugin=plugin, owner=owner))
    query = reading.Query(plugin="a", owner="y")
    assert [row.seq for row in reading.records(log.path, query)] == [2]
    assert [row.seq for row in reading.records(log.path, reading.Query(plugin="b"))] == [3, 4]
    third = list(reading.records(log.path))[2]
    assert [row.seq for row in reading.records(log.path, reading.Query(since=third.at))] == [3, 4]
    assert [row.seq for row in reading.last(log.path, count=2)] == [3, 4]
    assert list(reading.records(log.path, reading.Query(plugin="a' OR 1=1 --"))) == []


def test_many_pages(log: AuditLog, intent: Make) -> None:
    """All of a trail that takes several pages, each once."""
    for _ in range(1100):
        log.refused(intent(), code="outside")
    assert [row.seq for row in reading.records(log.path)] == list(range(1, 1101))


def test_no_trail(log: AuditLog) -> None:
    """A trail that is not there has no records, and reading makes none."""
    assert list(reading.records(log.path)) == []
    assert reading.last(log.path, count=5) == []
    import os

    assert not os.path.exists(log.path)


def test_following(log: AuditLog, intent: Make) -> None:
    """What comes later is read as it comes, each record once, also of a trail that begins anew."""
    log.intend(intent(target="first"))
    steps: list[Callable[[], object]] = [
        lambda: None,
        lambda: [log.intend(intent(target="second")), log.intend(intent(target="third"))],
    ]
    seen = []
    following = reading.follow(log.path, sleep=lambda _: steps.pop(0)())
    for record in following:
        seen.append(record.target)
        if len(seen) == 3:
            break
    following.close()
    assert seen == ["first", "second", "third"]


def test_json_lines(log: AuditLog, intent: Make) -> None:
    """One object a line with all fields, in ASCII without control characters; going on from where it stopped."""
    log.intend(intent(target="\x1b[2J\u202e\x7f\u2028\n"))
    log.intend(intent(target="second"))
    stream = io.StringIO()
    assert export(reading.records(log.path), JsonLines(stream), after=0) == 2
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert all(0x20 <= ord(character) < 0x7F for line in lines for character in line)
    first = json.loads(lines[0])
    assert list(first) == list(FIELDS)
    assert first["target"] == "\x1b[2J\u202e\x7f\u2028\n"
    again = io.StringIO()
    assert export(reading.records(log.path), JsonLines(again), after=1) == 2
    assert json.loads(again.getvalue())["target"] == "second"


class Tracer:
    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def start_span(self, name: str, *, start_time: int, attributes: dict[str, Any]) -> Tracer:
        self.spans.append({"name": name, "start": start_time, **attributes})
        return self

    def end(self, *, end_time: int) -> None:
        self.spans[-1]["end"] = end_time


def test_spans(log: AuditLog, intent: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A span of each outcome, as long as the effect, and of each refusal; none of an intent that has an outcome."""
    tracer = Tracer()
    package, trace = types.ModuleType("opentelemetry"), types.ModuleType("opentelemetry.trace")
    trace.get_tracer = lambda name, tracer_provider=None: tracer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    log.done(log.intend(intent()), intent(), micros=1500)
    log.refused(intent(), code="outside")
    export(reading.records(log.path), OpenTelemetry())
    assert [span["name"] for span in tracer.spans] == ["fs.read", "fs.read"]
    assert [span["end"] - span["start"] for span in tracer.spans] == [1_500_000, 0]
    assert tracer.spans[1]["fastness.code"] == "outside"
    assert {"fastness.plugin", "fastness.owner", "fastness.target", "fastness.seq"} <= set(tracer.spans[0])


def test_no_open_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra it says what to install; nothing else needs it."""
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(ConfigurationError) as caught:
        OpenTelemetry()
    assert "fastness[otel]" in str(caught.value)
