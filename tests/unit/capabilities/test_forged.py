"""What a guest sends to be carried on has no field that only the host may say, at any depth, and each is counted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._forged import DEEP, FORGED, MOST, without_forged
from fastness.errors import AdapterError

KEYS = st.one_of(st.sampled_from([*sorted(FORGED), "Owner", "owner ", "due at", "words"]), st.text(max_size=3))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.binary(max_size=3))
PAYLOADS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=30
)


def keys_of(value: Any) -> list[str]:
    """All keys at all depths, but those below a forged one."""
    if type(value) is list:
        return [key for item in value for key in keys_of(item)]
    if type(value) is dict:
        return [*value, *(key for name, item in value.items() if name not in FORGED for key in keys_of(item))]
    return []


@given(PAYLOADS)
def test_none_is_left_and_all_are_counted(payload: Any) -> None:
    """What is left has none of them and all of the rest in its order; what was given is as it was."""
    before, found = copy.deepcopy(payload), keys_of(payload)
    clean, dropped = without_forged(payload)
    assert repr(payload) == repr(before)
    assert keys_of(clean) == [key for key in found if key not in FORGED]
    assert dropped == sum(key in FORGED for key in found)
    assert repr(without_forged(clean)) == repr((clean, 0))


def test_at_every_depth() -> None:
    """In lists and dicts alike; what stands below one goes with it; another spelling is another field."""
    payload = {
        "owner": {"owner": "bob", "words": 1},
        "items": [{"approved": True, "name": "a"}, [{"due_at": 0}], "owner"],
        "deep": {"deep": {"action": "pay", "Owner": "bob"}},
    }
    assert without_forged(payload) == (
        {"items": [{"name": "a"}, [{}], "owner"], "deep": {"deep": {"Owner": "bob"}}},
        4,
    )


def test_what_is_too_deep() -> None:
    """As deep as may be is gone through to the bottom; one more is refused, wherever."""
    payload: Any = {"owner": 1, "name": 2}
    for _ in range(DEEP - 1):
        payload = [payload]
    clean, dropped = without_forged(payload)
    assert (keys_of(clean), dropped) == (["name"], 1)
    with pytest.raises(AdapterError, match=f"nested {DEEP} deep"):
        without_forged([payload])


def test_what_is_too_much() -> None:
    """Values and keys count together, those that are dropped too, before they are gone through."""
    most = (MOST - 1) // 2
    assert without_forged([0] * most) == ([0] * most, 0)
    for payload in ([0] * MOST, {str(number): 0 for number in range(MOST)}, [[{"owner": 1}] * (MOST // 3)]):
        with pytest.raises(AdapterError, match=f"{MOST} values"):
            without_forged(payload)
