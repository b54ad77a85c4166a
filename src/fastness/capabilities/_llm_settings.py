"""
What an operator says of the models behind the capability ``llm``: where they are asked, and what each tier costs.

    [llm]
    url = "https://models.example/v1"
    key = "/etc/fastness/llm.key"
    currency = "USD"

    [llm.tiers.cheap]
    model = "small-1"
    input = 0.15
    output = 0.60

Prices are those of a million tokens, in units of one currency.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Literal

import msgspec

from fastness.capabilities import _urls
from fastness.capabilities._addresses import AddressGuard, Allowance, why_not_public
from fastness.errors import ConfigurationError
from fastness.metering.money import nanos

__all__ = ["TIERS", "Priced", "Settings", "Tier", "settings_of"]

#: What a plugin may name, from the least dear on; never a model.
TIERS = ("cheap", "standard", "strong")
Tier = Literal["cheap", "standard", "strong"]
_FIELDS = ("url", "key", "address", "currency", "header", "form", "limit", "trust", "tiers")
_PRICED = ("model", "input", "output", "request", "max_tokens")
_LIMITS = ("max_tokens", "max_completion_tokens")
_MILLION = 1_000_000
_MOST_TOKENS = 1_000_000


class Priced(msgspec.Struct, frozen=True, kw_only=True):
    """
    A tier: its ``model``, and prices in billionths of the currency, of a million tokens that go in and that come out,
    and of each request.  ``max_tokens`` is the most that is asked for at once.
    """

    model: str
    input: int
    output: int
    request: int = 0
    max_tokens: int = 4096

    def price(self, tokens_in: int, tokens_out: int) -> int:
        """What so many tokens cost, in billionths, rounded up."""
        return self.request - (-tokens_in * self.input // _MILLION) - (-tokens_out * self.output // _MILLION)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """
    Where models are asked, and as what.

    ``url`` is that below which ``/chat/completions`` is; ``address`` the one that its host is asked at, where that is
    not a public one.  ``key`` is a file with the credential; ``header`` and ``form`` are how it is sent.  ``limit`` is
    what the service calls the most tokens of an answer.  ``trust`` is a file of certificates in PEM.
    """

    url: str
    tiers: Mapping[str, Priced]
    key: str | None = None
    address: str | None = None
    currency: str = ""
    header: str = "authorization"
    form: str = "Bearer {}"
    limit: str = "max_tokens"
    trust: str | None = None

    @property
    def at(self) -> _urls.Url:
        """What is asked."""
        return _urls.url_of(self.url.rstrip("/") + "/chat/completions")

    def guard(self) -> AddressGuard:
        """What judges its addresses: public ones, or the one that is named."""
        if self.address is None:
            return AddressGuard()
        return AddressGuard([Allowance(self.at.host.name, self.address, self.at.port)])


def settings_of(plain: Mapping[str, Any], field: str = "llm") -> Settings:
    """The table ``[llm]`` of a configuration.  Raises ConfigurationError that names what is wrong below ``field``."""
    _known(plain, _FIELDS, field)
    texts = {name: _text(plain, name, field) for name in _FIELDS if name != "tiers" and name in plain}
    if "url" not in texts:
        raise ConfigurationError(f"{field}.url", "nothing", "where models are asked, such as https://models.example/v1")
    for name in ("key", "trust"):
        if name in texts and (not os.path.isabs(texts[name]) or "\0" in texts[name]):
            raise ConfigurationError(f"{field}.{name}", texts[name], "an absolute path")
    if texts.get("limit", _LIMITS[0]) not in _LIMITS:
        raise ConfigurationError(f"{field}.limit", texts["limit"], " or ".join(_LIMITS))
    if re.fullmatch(r"[A-Za-z]{0,8}", texts.get("currency", "")) is None:
        raise ConfigurationError(f"{field}.currency", texts["currency"], "up to 8 letters, such as USD")
    tiers = plain.get("tiers")
    if not isinstance(tiers, Mapping) or not tiers:
        raise ConfigurationError(f"{field}.tiers", tiers, f"a table for at least one of {', '.join(TIERS)}")
    _known(tiers, TIERS, f"{field}.tiers")
    found = {name: _priced(tiers[name], f"{field}.tiers.{name}") for name in TIERS if name in tiers}
    made = Settings(tiers=found, **texts)
    _check(made, field)
    return made


def _check(made: Settings, field: str) -> None:
    try:
        at = made.at
    except _urls.BadUrl as error:
        raise ConfigurationError(f"{field}.url", made.url, f"a URL ({error})") from None
    if "?" in made.url:
        raise ConfigurationError(f"{field}.url", made.url, "a URL without a query")
    try:
        made.guard()
    except ConfigurationError as error:
        raise ConfigurationError(f"{field}.{error.field}", error.value, error.allowed) from None
    if at.scheme != "https" and (made.address is None or not why_not_public(ip_address(made.address))):
        # Everybody in between would read the credential, and all that plugins ask.
        allowed = "https; http only where address names an address of this machine or network"
        raise ConfigurationError(f"{field}.url", made.url, allowed)


def _priced(plain: Any, field: str) -> Priced:
    if not isinstance(plain, Mapping):
        raise ConfigurationError(field, type(plain).__name__, "a table with model, input and output")
    _known(plain, _PRICED, field)
    for name in ("model", "input", "output"):
        if name not in plain:
            # What costs nothing is said to cost nothing: a price that was forgotten would be spent without a bound.
            raise ConfigurationError(f"{field}.{name}", "nothing", "a model, and what a million tokens cost; 0 is said")
    most = plain.get("max_tokens", 4096)
    if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= _MOST_TOKENS:
        raise ConfigurationError(f"{field}.max_tokens", most, f"1 to {_MOST_TOKENS}")
    return Priced(
        model=_text(plain, "model", field),
        input=nanos(plain["input"], f"{field}.input"),
        output=nanos(plain["output"], f"{field}.output"),
        request=nanos(plain.get("request", 0), f"{field}.request"),
        max_tokens=most,
    )


def _text(plain: Mapping[str, Any], name: str, field: str) -> str:
    value = plain[name]
    if not isinstance(value, str) or not value or len(value) > 1000 or not value.isprintable():
        raise ConfigurationError(f"{field}.{name}", value, "a text")
    return value


def _known(plain: Mapping[str, Any], known: tuple[str, ...], field: str) -> None:
    from fastness.errors import meant

    for key in plain:
        if key not in known:
            allowed = ", ".join(known) + meant(key, known)
            raise ConfigurationError(f"{field}.{key}", "no such setting", allowed)
