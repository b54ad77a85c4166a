"""
Handing an audit trail on: each record once, in its order, to something that takes records.

Exporters read what is committed; they are not in the way of what is recorded, and where one fails nothing is lost: it
goes on from the number that it came to.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import IO, Any

import msgspec

from fastness.audit.record import AuditRecord
from fastness.errors import ConfigurationError

__all__ = ["Exporter", "JsonLines", "OpenTelemetry", "export"]

Exporter = Callable[[AuditRecord], object]


def export(records: Iterable[AuditRecord], exporter: Exporter, *, after: int = 0) -> int:
    """Give ``exporter`` each record with a number of more than ``after``; the number of the last one that it took."""
    for record in records:
        if record.seq > after:
            exporter(record)
            after = record.seq
    return after


class JsonLines:
    """
    Writes each record as one line of JSON with all of its fields, flushed.

    Characters that are not ASCII are escaped, so that a terminal is sent nothing that a guest chose.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def __call__(self, record: AuditRecord) -> None:
        """Write one."""
        import json

        line = json.dumps(msgspec.structs.asdict(record), ensure_ascii=True)
        # The one control character that JSON does not escape.
        self._stream.write(line.replace("\x7f", "\\u007f") + "\n")
        self._stream.flush()


class OpenTelemetry:
    """
    Makes a span of each outcome, as long as the effect took, and of each event and refusal, which take no time.

    ``provider`` is a ``TracerProvider``; without one, the program's own.  Needs the extra ``otel``; raises
    ConfigurationError where it is missing.
    """

    def __init__(self, provider: Any = None) -> None:
        try:
            trace = importlib.import_module("opentelemetry.trace")
        except ImportError as error:
            raise ConfigurationError(
                "OpenTelemetry", "the package opentelemetry-api is missing", "pip install 'fastness[otel]'"
            ) from error
        self._tracer = trace.get_tracer("fastness.audit", tracer_provider=provider)

    def __call__(self, record: AuditRecord) -> None:
        """Make one."""
        if record.phase == "intent" and record.decision != "refused":
            return  # its outcome tells
        ends = int(record.at * 1e9)
        span = self._tracer.start_span(
            f"{record.capability}.{record.op}",
            start_time=ends - record.micros * 1000,
            attributes={
                f"fastness.{name}": value
                for name, value in msgspec.structs.asdict(record).items()
                if name not in ("at", "prev_hash") and value != ""
            },
        )
        span.end(end_time=ends)
