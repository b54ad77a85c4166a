"""Messages: heads decode to exact types, bounds hold, and every fault is a protocol error."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastness.errors import GuestProtocolError, HostProtocolError
from fastness.runs import DenialCode
from fastness.wire import brief, frames, values
from fastness.wire import messages as m
from fastness.wire.payload import VALUE_REPR_CHARS, decode_payload


def frame(message: m.Message, blob: bytes = b"") -> frames.Frame:
    return frames.Frame(m.TYPE_OF[type(message)], m.encode_head(message), blob)


def raw(kind: int, head: object, blob: bytes = b"") -> frames.Frame:
    return frames.Frame(kind, head if isinstance(head, bytes) else json.dumps(head).encode(), blob)


def test_every_frame_type_has_a_struct() -> None:
    """The table of structs is complete and one to one."""
    assert sorted(m.TYPE_OF.values()) == sorted(frames.NAMES)
    for struct, kind in m.TYPE_OF.items():
        assert struct.__name__.lower() == frames.NAMES[kind]


def test_the_codes_are_those_of_denials() -> None:
    """The wire knows exactly the codes that a result can show."""
    assert set(m.Code.__args__) == {code.value for code in DenialCode}  # type: ignore[attr-defined]  # of a Literal


def test_heads_are_frozen_and_hold_defaults() -> None:
    """A head that the engine wrote with only its required fields is enough."""
    result = m.decode(raw(frames.RESULT, {"id": 1, "ending": "returned"}))
    assert result == m.Result(id=1, ending="returned")
    with pytest.raises(AttributeError):
        result.id = 2  # type: ignore[misc]  # that is the test


RESULT: dict[str, Any] = {"id": 1, "ending": "returned"}


@pytest.mark.parametrize(
    ("kind", "head", "blob"),
    [
        (frames.RESULT, RESULT | {"extra": 1}, b""),
        (frames.RESULT, {"id": 1}, b""),
        (frames.RESULT, RESULT | {"id": 0}, b""),
        (frames.RESULT, RESULT | {"id": 2**53 + 1}, b""),
        (frames.RESULT, RESULT | {"id": True}, b""),
        (frames.RESULT, RESULT | {"id": "1"}, b""),
        (frames.RESULT, RESULT | {"id": 1.0}, b""),
        (frames.RESULT, RESULT | {"ending": "ok"}, b""),
        (frames.RESULT, RESULT | {"exit_code": 2**32}, b""),
        (frames.RESULT, RESULT | {"trap": "x" * 257}, b""),
        (frames.RESULT, RESULT | {"usage": {"wall_us": -1}}, b""),
        (frames.RESULT, RESULT | {"usage": {"wall_us": 1.5}}, b""),
        (frames.RESULT, RESULT | {"deleted": ["x"] * 4097}, b""),
        (frames.RESULT, RESULT | {"deleted": [""]}, b""),
        (frames.RESULT, RESULT | {"denials": [["a", "b", "absent", "wasi", 1]]}, b""),
        (frames.RESULT, RESULT | {"stdout_len": 2}, b"x"),
        (frames.RESULT, RESULT | {"stdout_len": 2**32 - 1, "stderr_len": 2**32 - 1}, b""),
        (frames.RESULT, RESULT, b"x"),
        (frames.RESULT, b"[1]", b""),
        (frames.RESULT, b"", b""),
        (frames.RESULT, b"\xff\xfe", b""),
        (frames.RESULT, b'{"id":1,"ending":"returned","trap":"\xed\xa0\x80"}', b""),
        (frames.RESULT, b'{"id":1,"ending":"returned","trap":"\\ud800"}', b""),
        (frames.RESULT, b'{"id":1,"ending":"returned","x":' + b"[" * 60_000, b""),
        (frames.RESULT, b'{"id":1,"ending":"returned"} ' + b"{}", b""),
        (frames.RESULT, b'{"id":' + b"9" * 5000 + b"}", b""),
        (frames.HELLO, {"protocol": 1, "guest": "x", "timings": {"a": "1"}}, b""),
        (frames.HELLO, b'{"protocol":1,"guest":"x","timings":{"a":NaN}}', b""),
        (frames.HELLO, {"protocol": 1, "guest": "x", "layers": {str(i): "" for i in range(65)}}, b""),
        (frames.LOG, {"level": "info", "text": "x"}, b"blob"),
        (frames.LOG, {"level": "fatal", "text": "x"}, b""),
        (frames.BYE, {}, b"blob"),
        (0x7F, {}, b""),
    ],
)
def test_a_bad_head_is_the_guests_fault(kind: int, head: object, blob: bytes) -> None:
    """Every fault in a guest's frame raises GuestProtocolError with a short text."""
    with pytest.raises(GuestProtocolError) as caught:
        m.decode(raw(kind, head, blob))
    assert len(str(caught.value)) < 500


def test_a_bad_head_of_the_host_is_the_hosts_fault() -> None:
    """The same faults in the other direction are told apart."""
    with pytest.raises(HostProtocolError):
        m.decode(raw(frames.INVOKE, {"id": 1, "op": "run", "code_len": 5}, b"1234"))
    with pytest.raises(HostProtocolError):
        m.encode(m.Fault(1, "absent", "\ud800"))


def test_a_long_field_name_does_not_fill_the_error() -> None:
    """What a guest made up is quoted only in part."""
    with pytest.raises(GuestProtocolError) as caught:
        m.decode(raw(frames.BYE, {"x" * 60_000: 1}))
    assert len(str(caught.value)) < 500


def test_a_payload_restores_its_value() -> None:
    """Tags in the value are undone, at its top as well as inside."""
    for value in (None, 5, 2**70, b"x", [b"x"], {"$": float("inf")}):
        payload = decode_payload(b'{"kind":"ok","value":' + values.encode(value) + b"}")
        assert payload.value == value
    assert decode_payload(b'{"kind":"ok"}').value is None


def test_a_payload_has_room_for_the_largest_value() -> None:
    """A value of as many containers as may be passes together with all the claims."""
    value: list[list[int]] = [[]] * (values.MAX_CONTAINERS - 1)
    claims = [{"operation": "socket.connect", "target": "x", "count": 1}] * m.ROWS_MAX
    data = b'{"kind":"ok","value":' + values.encode(value) + b',"claims":' + json.dumps(claims).encode() + b"}"
    assert decode_payload(data).value == value


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"{}",
        b'{"kind":"fine"}',
        b'{"kind":"ok","value":{"$":["pickle","gASV"]}}',
        b'{"kind":"ok","value":18014398509481984}',
        b'{"kind":"ok","value":' + b"[" * 500_000,
        b'{"kind":"ok","value":[' + b"{}," * 300_000 + b"0]}",
        b'{"kind":"ok","x":1}',
        b'{"kind":"ok","value_repr":"' + b"x" * (VALUE_REPR_CHARS + 1) + b'"}',
        b'{"kind":"exit","exit_code":4294967296}',
        b'{"kind":"ok","claims":[{"operation":"a","target":"b","count":0}]}',
        json.dumps({"kind": "ok", "claims": [{"operation": "a", "target": "b"}] * 65}).encode(),
    ],
)
def test_a_bad_payload_is_the_guests_fault(data: bytes) -> None:
    """The payload is the most hostile part of all and has one error."""
    with pytest.raises(GuestProtocolError):
        decode_payload(data)


@settings(deadline=None)
@given(st.sampled_from(sorted(m.TYPE_OF, key=lambda struct: struct.__name__)), st.data())
def test_random_bounded_heads_round_trip(struct: type[m.Head], data: st.DataObject) -> None:
    """A head made of any allowed fields decodes to itself."""
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    by_name = {"id": st.integers(1, 2**53), "options": st.dictionaries(text, text | st.booleans() | st.none())}
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(struct):
        if field.name in by_name:
            fields[field.name] = data.draw(by_name[field.name])
        elif field.name in ("text", "message", "reason", "guest", "runtime", "where", "capability", "operation"):
            fields[field.name] = data.draw(text)
        elif field.required:
            samples: dict[str, Any] = {
                "op": "ping", "ending": "trap", "level": "info", "path": "p", "size": 3, "last": True,
                "protocol": 1, "code": "absent", "name": "stdout",
            }  # fmt: skip
            fields[field.name] = samples[field.name]
    message: Any = struct(**fields)
    assert m.decode(frame(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        m.Invoke(id=1, op="run"),
        m.Invoke(id=7, op="execute", session=3, code_len=2, seed=0, filename="a.py", args=("x",), env=(("A", "b"),)),
        m.Invoke(id=2, op="run", want_value=False, preload=("numpy",), time_ns=5),
    ],
)
def test_a_brief_invoke_is_the_same(message: m.Invoke) -> None:
    """It says what is not as usual, and whoever reads it finds the rest."""
    blob = b"x" * message.code_len
    short, whole = brief.encode_invoke(message, blob), m.encode(message, blob)
    assert len(short) < len(whole)
    parser = frames.from_host()
    parser.feed(short + whole)
    first, second = parser.next(), parser.next()
    assert first is not None
    assert second is not None
    assert m.decode(first) == m.decode(second) == message
    assert (first.blob, second.blob) == (blob, blob)
    with pytest.raises(HostProtocolError, match="invoke cannot be written"):
        brief.encode_invoke(m.Invoke(id=1, op="run", filename="\ud800"))
