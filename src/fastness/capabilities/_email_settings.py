"""
What an operator says of the server behind ``email.send``: where mail is handed over, as whom, and from which address.

    [integrations.email]
    server = "mail.example.com"
    sender = "robot@example.com"
    user = "robot"
    password = "/etc/fastness/smtp.password"
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any, Literal

import msgspec

from fastness.capabilities._addresses import AddressGuard, Allowance
from fastness.capabilities._hosts import BadHost, Host, host_of
from fastness.capabilities._recipients import BadRecipient, Recipient, recipient_of
from fastness.errors import ConfigurationError, meant

__all__ = ["EmailSettings", "email_settings_of"]

_FIELDS = ("server", "port", "tls", "sender", "name", "user", "password", "address", "trust")
_TLS = ("starttls", "implicit", "none")
#: RFC 6409 (submission), RFC 8314 (submission over TLS), RFC 5321.
_PORTS = {"starttls": 587, "implicit": 465, "none": 25}
_LONGEST = 200


class EmailSettings(msgspec.Struct, frozen=True, kw_only=True):
    """
    A server that takes mail in.

    ``server`` is its name, ``address`` the one that it is asked at where that is not a public one.  ``tls`` is
    ``starttls``, ``implicit`` (from the first byte on) or ``none``, on loopback alone.  ``sender`` is the address that
    mail is from, and ``name`` the name beside it.  ``user`` and ``password``, a file, are what it is asked as.
    ``trust`` is a file of certificates in PEM.
    """

    server: str
    port: int
    tls: Literal["starttls", "implicit", "none"]
    sender: str
    name: str = ""
    user: str | None = None
    password: str | None = None
    address: str | None = None
    trust: str | None = None

    @property
    def host(self) -> Host:
        """The server's name, normalised."""
        return host_of(self.server)

    @property
    def from_(self) -> Recipient:
        """The address that mail is from."""
        return recipient_of(self.sender)

    def guard(self) -> AddressGuard:
        """What judges the server's addresses: public ones, or the one that is named."""
        if self.address is None:
            return AddressGuard()
        return AddressGuard([Allowance(self.host.name, self.address, self.port)])


def email_settings_of(plain: Mapping[str, Any], field: str = "integrations.email") -> EmailSettings:
    """The table ``[integrations.email]`` of a configuration.  Raises ConfigurationError that names what is wrong."""
    for key in plain:
        if key not in _FIELDS:
            raise ConfigurationError(f"{field}.{key}", "no such setting", ", ".join(_FIELDS) + meant(key, _FIELDS))
    texts = {name: _text(plain, name, field) for name in _FIELDS if name != "port" and name in plain}
    for name, allowed in (("server", "mail.example.com"), ("sender", "robot@example.com")):
        if name not in texts:
            raise ConfigurationError(f"{field}.{name}", "nothing", f"it is needed, such as {allowed}")
    tls = texts.pop("tls", "starttls")
    if tls not in _TLS:
        raise ConfigurationError(f"{field}.tls", tls, ", ".join(_TLS))
    port = plain.get("port", _PORTS[tls])
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65_535:
        raise ConfigurationError(f"{field}.port", port, "1 to 65535")
    for name in ("password", "trust"):
        if name in texts and not os.path.isabs(texts[name]):
            raise ConfigurationError(f"{field}.{name}", texts[name], "an absolute path")
    if "password" in texts and "user" not in texts:
        raise ConfigurationError(f"{field}.user", "nothing", "whose password it is")
    made = EmailSettings(**{**texts, "tls": tls, "port": port})  # type: ignore[arg-type]  # one of three, see above
    _check(made, field)
    return made


def _check(made: EmailSettings, field: str) -> None:
    try:
        host = made.host
    except BadHost as error:
        raise ConfigurationError(f"{field}.server", made.server, f"the name of a server ({error})") from None
    try:
        made.from_  # noqa: B018  # it is judged by being read
    except BadRecipient as error:
        raise ConfigurationError(f"{field}.sender", made.sender, f"a plain address ({error})") from None
    try:
        made.guard()
    except ConfigurationError as error:
        raise ConfigurationError(f"{field}.{error.field}", error.value, error.allowed) from None
    at = ip_address(made.address) if made.address is not None else host.address
    if made.tls == "none" and (at is None or not at.is_loopback):
        # Everybody in between would read the mail and the password.
        raise ConfigurationError(f"{field}.tls", made.tls, "starttls or implicit; none only where address is loopback")


def _text(plain: Mapping[str, Any], name: str, field: str) -> str:
    value = plain[name]
    if not isinstance(value, str) or not value or len(value) > _LONGEST or not value.isprintable():
        raise ConfigurationError(f"{field}.{name}", value, f"a text of up to {_LONGEST} characters")
    return value
