"""The bridge between guests and the ctx of their host: what it hands on, and in what words it refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, PluginError
from fastness.plugins.bridge import SPEC, Bridge, CtxScope
from fastness.plugins.ledger import Ledger, MediationPolicy
from fastness.plugins.mediation import MediatedContext


class Ctx:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {"cfg:ttl": 60, "cfg:live": {"a": [print]}}
        self.tags: set[str] = set()

    def lookup(self, name: str) -> Any:
        return self.values.get(name)

    def provide(self, name: str, value: Any) -> None:
        if name == "taken":
            raise PluginError("'taken' is provided by plugin 'b' already")
        self.values[name] = value

    def declare_capability(self, tag: str) -> None:
        self.tags.add(tag)


def bridge(**policy: Any) -> Bridge:
    made = Bridge(1 << 20)
    rules = MediationPolicy(**{"lookup": ["cfg:*"], "provide": ["*"], "declare": ["*"], **policy})
    made.lead_to(MediatedContext(Ctx(), Ledger("p", rules)))
    return made


def call(adapter: Bridge, operation: str, **given: Any) -> Any:
    arguments = SPEC.operation(operation).arguments(**given)  # type: ignore[union-attr]  # there is one of this name
    context = CallContext(plugin="p", owner="", run="r", scope=CtxScope(), deadline=0.0)
    return asyncio.run(adapter.call(operation, arguments, context))


def test_answers() -> None:
    made = bridge()
    assert call(made, "lookup", name="cfg:ttl") == 60
    assert call(made, "lookup", name="cfg:none") is None
    assert call(made, "provide", name="x", value={"a": 1}) is None


def test_what_the_policy_denies_is_denied_in_words() -> None:
    with pytest.raises(Denied, match="secret: no pattern") as caught:
        call(bridge(), "lookup", name="secret")
    assert caught.value.code == "not_granted"


def test_what_the_host_refuses_is_a_failure_in_its_words() -> None:
    with pytest.raises(AdapterError, match="provided by plugin 'b' already"):
        call(bridge(), "provide", name="taken", value=1)


def test_a_live_value_is_not_given_and_the_place_is_named() -> None:
    with pytest.raises(AdapterError, match=r"a\[0\] is builtin_function_or_method"):
        call(bridge(), "lookup", name="cfg:live")


def test_without_a_ctx_everything_is_refused() -> None:
    made = bridge()
    made.lead_to(None)
    with pytest.raises(Denied) as caught:
        call(made, "lookup", name="cfg:ttl")
    assert caught.value.code == "revoked"


def test_an_operation_that_there_is_not_is_refused() -> None:
    context = CallContext(plugin="p", owner="", run="r", scope=CtxScope(), deadline=0.0)
    with pytest.raises(Denied) as caught:
        asyncio.run(bridge().call("undeclare", None, context))
    assert caught.value.code == "unsupported"
