"""What guests and services say to the capability ``llm``, in any form: decoded with bounds, or refused in a word."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import house
from fastness.broker.gate import arguments_of
from fastness.capabilities import _chat
from fastness.capabilities._llm_settings import Priced, settings_of
from fastness.capabilities._llm_stream import Stream
from fastness.capabilities._sse import Events
from fastness.capabilities.llm import SPEC, LlmScope
from fastness.errors import AdapterError, ConfigurationError

#: Also what a guest can send and UTF-8 does not have.
TEXT = st.text(st.characters(exclude_categories=()), max_size=20)
PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXT, st.binary(max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)
NAMES = st.sampled_from(
    ["prompt", "tier", "system", "messages", "max_tokens", "temperature", "stop", "stream", "model", "n", "\ud800"]
)


@settings(max_examples=house.examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operation=st.sampled_from(SPEC.operations), given_=st.dictionaries(NAMES, PLAIN, max_size=6))
def test_any_arguments(operation: Any, given_: dict[str, Any]) -> None:
    """They are of the operation's type, with a tier that there is and bounded numbers, or they are refused."""
    try:
        made = arguments_of(operation, given_)
    except msgspec.ValidationError:
        return
    target = operation.target(made)
    assert isinstance(target, str)
    if operation.name in ("ask", "chat", "stream"):
        assert target in ("cheap", "standard", "strong")
        assert made.max_tokens is None or 1 <= made.max_tokens <= 1_000_000
        assert made.temperature is None or 0 <= made.temperature <= 2


@given(
    asked=st.tuples(
        st.sets(st.sampled_from(["cheap", "standard", "strong"])), st.floats(0, 1e6), st.integers(1, 10**6)
    ),
    allowed=st.tuples(
        st.sets(st.sampled_from(["cheap", "standard", "strong"])), st.floats(0, 1e6), st.integers(1, 10**6)
    ),
)
def test_scopes_meet(asked: Any, allowed: Any) -> None:
    """What both allow is within each, and what one has beyond is said."""
    first, second = (LlmScope(tiers=tuple(sorted(t)), budget=b, max_tokens=m) for t, b, m in (asked, allowed))
    met = SPEC.meet(first, second)
    if met is not None:
        assert not SPEC.exceeds(met, first)
        assert not SPEC.exceeds(met, second)
        assert SPEC.risk(met)
    assert not SPEC.exceeds(first, first)


@pytest.mark.parametrize("budget", [float("nan"), float("inf"), -1.0])
def test_budgets_that_are_none(budget: float) -> None:
    """Also where nothing checks the type of the field."""
    with pytest.raises((ValueError, msgspec.ValidationError)):
        msgspec.convert({"kind": "llm", "tiers": ["cheap"], "budget": budget}, LlmScope)


# prices


@given(
    priced=st.builds(
        Priced,
        model=st.just("m"),
        input=st.integers(0, 10**15),
        output=st.integers(0, 10**15),
        request=st.integers(0, 10**12),
    ),
    tokens=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
    more=st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)),
)
def test_prices(priced: Priced, tokens: tuple[int, int], more: tuple[int, int]) -> None:
    """More tokens never cost less, and nothing is rounded down."""
    cost = priced.price(*tokens)
    assert cost <= priced.price(tokens[0] + more[0], tokens[1] + more[1])
    exact = priced.request * 10**6 + tokens[0] * priced.input + tokens[1] * priced.output
    assert exact <= cost * 10**6 < exact + 2 * 10**6


@given(st.lists(st.tuples(st.sampled_from(["user", "system"]), st.text(max_size=50)), max_size=5))
def test_no_text_is_more_tokens_than_bytes(messages: list[tuple[str, str]]) -> None:
    """What is held for a question is at least a token for each byte."""
    assert _chat.most_tokens(messages) >= sum(len(text.encode("utf-8", "surrogatepass")) for _, text in messages)


# what a service says


@settings(max_examples=house.examples(200))
@given(
    st.one_of(
        st.binary(max_size=300),
        st.from_type(object).map(lambda _: b"{}"),
        PLAIN.map(lambda p: json.dumps(p, default=str, skipkeys=True).encode()),
    )
)
def test_any_answer(data: bytes) -> None:
    """It is read, or it is no answer; nothing else."""
    for read in (_chat.reply_of, _chat.piece_of):
        try:
            piece = read(data)
        except AdapterError:
            continue
        assert isinstance(piece.text, str)
        assert piece.finish in ("", "other", *_chat.FINISHES)
        assert piece.counted is None or min(piece.counted.tokens_in, piece.counted.tokens_out) >= 0


@pytest.mark.parametrize(
    ("counted", "size", "fits"),
    [
        ((1, 1), 128, True),
        ((1, 1), 129, False),
        ((0, 5), 1, False),
        ((1, 0), 1, False),
        ((1, 0), 0, True),
        ((5, 9), 20, True),
    ],
)
def test_what_can_have_been(counted: tuple[int, int], size: int, fits: bool) -> None:
    """A token in at least, and one out for so many bytes."""
    assert _chat.Counted(*counted).fits(size) is fits


EVENTS = st.lists(
    st.lists(
        st.one_of(
            st.tuples(
                st.sampled_from([b"data:", b"data: ", b"event: ", b": ", b"id:", b"data"]), st.binary(max_size=12)
            ).map(lambda pair: pair[0] + pair[1].replace(b"\r", b"").replace(b"\n", b""))
        ),
        max_size=4,
    ),
    max_size=5,
)


def _expected(events: list[list[bytes]]) -> list[bytes]:
    found = []
    for lines in events:
        data = [
            value.removeprefix(b" ")
            for name, colon, value in (line.partition(b":") for line in lines)
            if name == b"data"
        ]
        if data:
            found.append(b"\n".join(data))
    return found


@settings(max_examples=house.examples(200))
@given(events=EVENTS, ends=st.sampled_from([b"\n", b"\r\n", b"\r"]), cuts=st.lists(st.integers(0, 400), max_size=20))
def test_events_in_any_pieces(events: list[list[bytes]], ends: bytes, cuts: list[int]) -> None:
    """However a stream is cut, its events are the same."""
    whole = b"".join(b"".join(line + ends for line in lines) + ends for lines in events)
    reader, found, last = Events(), [], 0
    for cut in [*sorted(cut for cut in cuts if cut < len(whole)), len(whole)]:
        found += reader.feed(whole[last:cut])
        last = cut
    # A last CR may have an LF to come.
    found += reader.feed(b"\n") if ends == b"\r" else []
    assert found == _expected(events)


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_any_bytes_are_events_or_none(pieces: list[bytes]) -> None:
    """Nothing is raised for what is short."""
    reader = Events()
    for piece in pieces:
        for data in reader.feed(piece):
            assert isinstance(data, bytes)


@pytest.mark.parametrize("start", [b"data: ", b"", b"data: x\ndata: ", b": "])
def test_an_event_without_end(start: bytes) -> None:
    """It is given up before it takes more than a megabyte or so."""
    reader = Events()
    reader.feed(start)
    with pytest.raises(AdapterError):
        for _ in range(40):
            reader.feed(b"y" * (1 << 16))


def test_many_lines_of_one_event() -> None:
    """They count together."""
    reader = Events()
    with pytest.raises(AdapterError):
        for _ in range(300):
            reader.feed(b"data: " + b"y" * 8000 + b"\n")


def test_a_stream_says_what_it_is() -> None:
    """For the record of its end."""
    assert Stream.capability == SPEC.kind


# what an operator says


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1"])
def test_no_credential_goes_readable_over_the_internet(address: str) -> None:
    """Plain HTTP is for addresses of this machine or network."""
    tiers = {"cheap": {"model": "m", "input": 0, "output": 0}}
    with pytest.raises(ConfigurationError, match=r"llm\.url"):
        settings_of({"url": "http://models.test/v1", "address": address, "tiers": tiers})
    settings_of({"url": "https://models.test/v1", "address": address, "tiers": tiers})
    settings_of({"url": "http://models.test/v1", "address": "10.0.0.7", "tiers": tiers})


@settings(max_examples=house.examples(100))
@given(
    st.dictionaries(
        st.sampled_from(["url", "key", "address", "tiers", "currency", "header", "limit", "x"]), PLAIN, max_size=5
    )
)
def test_any_settings(plain: dict[str, Any]) -> None:
    """They are settings, or it is said what is wrong."""
    try:
        settings_of(plain)
    except ConfigurationError as error:
        assert error.field.startswith("llm")
