"""
The integration ``email.send``: a mail, by SMTP, from the operator's address to those that a grant names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from fastness.capabilities._email_settings import EmailSettings
from fastness.capabilities._integration import Credential
from fastness.capabilities._integration_scope import MAIL
from fastness.capabilities._mail import BadMail, Mail, data_of
from fastness.capabilities._recipients import BadRecipient, Recipient, recipient_of
from fastness.capability import CallContext
from fastness.errors import AdapterError, ConfigurationError, Denied
from fastness.limits import MIB
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from anyio.abc import ByteStream

    from fastness.capabilities._addresses import Address
    from fastness.capabilities._smtp import Conversation

__all__ = ["MOST_RECIPIENTS", "Email", "Send", "mail_targets", "named"]

MOST_RECIPIENTS = 50
_SUBJECT = 500
_MOST_ANSWERS = 16
_CONNECT_S = 10.0
_QUIT_S = 0.5

_Address = Annotated[str, msgspec.Meta(max_length=400)]
_Addresses = _Address | Annotated[list[_Address], msgspec.Meta(max_length=MOST_RECIPIENTS)]
_Text = Annotated[str, msgspec.Meta(max_length=4 * MIB)]


class Send(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    The arguments of ``email.send``: an address or several, a subject, a text, and the same in HTML where there is one.

    Who it is from is the operator's, and there is no field of a header beside these.
    """

    to: _Addresses
    subject: Annotated[str, msgspec.Meta(max_length=_SUBJECT)]
    text: _Text
    html: _Text = ""
    cc: _Addresses = []


def named(given: Send) -> list[Recipient]:
    """Everybody who is to get it, each once.  Raises Denied."""
    found = dict.fromkeys([*_read(given.to), *_read(given.cc)])
    if not found:
        raise Denied(DenialCode.UNSUPPORTED, "a mail to nobody")
    if len(found) > MOST_RECIPIENTS:
        raise Denied(DenialCode.TOO_LARGE, f"more than {MOST_RECIPIENTS} recipients")
    return list(found)


def mail_targets(given: Send) -> str:
    """Who is to get it, for the record: what the guest wrote, with what could not be seen written out."""
    listed = [one for some in (given.to, given.cc) for one in ([some] if isinstance(some, str) else some)]
    return ", ".join(one if one.isascii() and one.isprintable() else ascii(one)[1:-1] for one in listed)


def _read(given: str | list[str]) -> list[Recipient]:
    found = []
    for one in [given] if isinstance(given, str) else given:
        try:
            found.append(recipient_of(one))
        except BadRecipient as error:
            code = DenialCode.UNSUPPORTED if one.isprintable() else DenialCode.HEADER
            raise Denied(code, str(error)) from None
    return found


class Email:
    """
    ``email.send`` by the server of ``settings``.

    ``password`` is a file with the credential, in place of that of the settings.  ``resolve`` gives the addresses of a
    name, in place of the system.
    """

    name = MAIL
    arguments = Send
    summary = "Send a mail."

    def __init__(
        self,
        settings: EmailSettings,
        *,
        password: str | None = None,
        resolve: Callable[[str], Any] | None = None,
    ) -> None:
        self._settings = settings
        self._guard = settings.guard()
        self._resolve = resolve
        path = password or settings.password
        if settings.user is not None and path is None:
            raise ConfigurationError("integrations.email.password", "nothing", "a file with the password of user")
        self.credential = None if settings.user is None or path is None else Credential(path, "smtp.password")

    def targets(self, arguments: Send) -> Sequence[str]:
        """Who gets it."""
        return [str(one) for one in named(arguments)]

    async def run(self, arguments: Send, context: CallContext) -> dict[str, Any]:
        """Send it.  Raises Denied, AdapterError."""
        everybody = named(arguments)
        id = f"{os.urandom(16).hex()}@{self._settings.from_.domain}"
        data = self._data(arguments, id)
        password = "" if self.credential is None else await self.credential.value()
        stream = await self._connected()
        try:
            talk = await self._begun(stream, password)
            stream = talk.stream
            await talk.send(self._settings.from_, everybody, data, lambda: _effect(context))
            await _goodbye(talk)
        finally:
            import anyio

            # A server that does not say goodbye keeps nobody waiting.
            await anyio.aclose_forcefully(stream)
        answer = {"id": id, "recipients": len(everybody)}
        context.bytes_in = len(id)
        return answer

    async def aclose(self) -> None:
        """Nothing is held: each mail has a connection of its own."""

    def _data(self, given: Send, id: str) -> bytes:
        to, cc = _read(given.to), _read(given.cc)
        mail = Mail(
            sender=self._settings.from_,
            name=self._settings.name,
            to=to or cc,
            cc=cc if to else (),
            subject=given.subject,
            text=given.text,
            html=given.html,
        )
        try:
            return data_of(mail, id, time.time())
        except BadMail as error:
            raise Denied(DenialCode.HEADER if error.header else DenialCode.UNSUPPORTED, str(error)) from None

    async def _begun(self, stream: ByteStream, password: str) -> Conversation:
        from fastness.capabilities._smtp import Conversation, over_tls
        from fastness.capabilities._tls import tls_context

        how, name = self._settings.tls, self._settings.host.name
        context = None if how == "none" else tls_context(self._settings.trust)
        if context is not None and how == "implicit":
            stream = await over_tls(stream, context, name)
        # An address of the operator's tells a server less of this machine than its name would.
        talk = Conversation(stream, self._settings.from_.domain)
        await talk.begin()
        if context is not None and how == "starttls":
            await talk.secure(context, name)
        if self._settings.user is not None:
            await talk.login(self._settings.user, password)
        return talk

    # where it is

    async def _connected(self) -> ByteStream:
        import anyio

        for address in await self._addresses():
            with anyio.move_on_after(_CONNECT_S):
                try:
                    return await anyio.connect_tcp(str(address), self._settings.port)
                except OSError:
                    continue
        raise AdapterError("the mail server cannot be reached")

    async def _addresses(self) -> list[Address]:
        host, port = self._settings.host, self._settings.port
        found = self._guard.pinned(host.name, port) if self._resolve is None else []
        if not found and host.address is not None:
            found = [host.address]
        if not found:
            found = await self._resolved(host.name)
        if any(self._guard.why_not(host.name, address, port) for address in found):
            raise AdapterError("the mail server has an address that may not be reached; its operator finds out why")
        return found

    async def _resolved(self, name: str) -> list[Address]:
        from fastness.capabilities._resolving import resolve

        try:
            answers = list(await (self._resolve or resolve)(name))
            if 0 < len(answers) <= _MOST_ANSWERS:
                return [ip_address(answer) for answer in dict.fromkeys(answers)]
        except (OSError, ValueError):
            pass
        raise AdapterError("the mail server cannot be found")


def _effect(context: CallContext) -> None:
    context.effect = True


async def _goodbye(talk: Conversation) -> None:
    import anyio

    # The mail is the server's by now, whatever becomes of the rest.
    with anyio.move_on_after(_QUIT_S):
        try:
            await talk.quit()
        except AdapterError:
            pass
