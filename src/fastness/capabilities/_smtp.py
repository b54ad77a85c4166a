"""
The conversation with a server of mail (RFC 5321): one mail, then it is over.

Nothing that a server says is believed but the three digits of a reply; texts are capped, read for the extensions that
are offered, and passed on to nobody.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from fastness.capabilities._mail import dotted
from fastness.capabilities._recipients import Recipient
from fastness.errors import AdapterError

if TYPE_CHECKING:
    import ssl

    from anyio.abc import ByteStream

__all__ = ["Conversation"]

#: Bytes of one line of a reply, lines of one reply, and bytes of all.  RFC 5321, 4.5.3.1.5 has 512 for a line.
_LINE, _LINES, _ALL = 1024, 128, 1 << 16
_REPLY = re.compile(rb"([2-5][0-9]{2})(?:([ -])(.*))?", re.DOTALL)
_CHUNK = 1 << 16


class Conversation:
    """
    With the server at the other end of ``stream``; ``greeted`` is what this host calls itself.

    Everything raises AdapterError, in words that have nothing of the server's but its digits.
    """

    def __init__(self, stream: ByteStream, greeted: str) -> None:
        self._stream = stream
        self._greeted = greeted
        self._data = b""
        self._came = 0
        #: Extensions that the server offers, in upper case, with what it says of each.
        self.offers: dict[str, str] = {}

    @property
    def stream(self) -> ByteStream:
        """What carries it by now."""
        return self._stream

    async def begin(self) -> None:
        """The server's greeting, and ours."""
        await self._expect("the greeting", 220)
        await self._greet()

    async def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Go on over TLS (RFC 3207), with a certificate for this name.  Never without, whatever is offered."""
        if "STARTTLS" not in self.offers:
            raise AdapterError("the mail server offers no TLS, and is not asked without")
        await self._command("STARTTLS", 220)
        if self._data:
            # Whoever is in between could have written it, to be read as if it had come over TLS (RFC 3207, 6).
            raise AdapterError("the mail server said more than was asked before TLS began")
        self._stream = await over_tls(self._stream, context, name)
        # What was said without TLS counts for nothing.
        await self._greet()

    async def login(self, user: str, password: str) -> None:
        """Say who asks (RFC 4954), by PLAIN (RFC 4616) or, where that is not offered, by LOGIN."""
        ways = self.offers.get("AUTH", "").upper().split()
        if "PLAIN" in ways:
            await self._command(f"AUTH PLAIN {_base64(f'{chr(0)}{user}{chr(0)}{password}')}", 235, said="AUTH")
        elif "LOGIN" in ways:
            await self._command("AUTH LOGIN", 334)
            await self._command(_base64(user), 334, said="AUTH")
            await self._command(_base64(password), 235, said="AUTH")
        else:
            raise AdapterError("the mail server offers no way to log in that is known here: PLAIN or LOGIN")

    async def send(self, sender: Recipient, to: Sequence[Recipient], data: bytes, effect: Callable[[], None]) -> None:
        """
        Hand a mail over; where one recipient is refused nobody gets it.

        ``effect`` is called before the first byte of it leaves.
        """
        body = dotted(data)
        size = ""
        if "SIZE" in self.offers:
            most = self.offers["SIZE"]
            # RFC 1870: nothing, or 0, is no bound.
            if most.isascii() and most.isdecimal() and len(most) < 20 and 0 < int(most) < len(body):
                raise AdapterError("the mail is larger than the mail server takes")
            size = f" SIZE={len(body)}"
        await self._command(f"MAIL FROM:<{sender}>{size}", 250, said="MAIL")
        for one in to:
            await self._command(f"RCPT TO:<{one}>", 250, 251, said="RCPT")
        await self._command("DATA", 354)
        self._quiet()
        effect()
        for at in range(0, len(body), _CHUNK):
            await self._write(body[at : at + _CHUNK])
        await self._expect("the mail", 250)

    async def quit(self) -> None:
        """Say goodbye, and wait for nothing."""
        await self._write(b"QUIT\r\n")

    # how

    async def _greet(self) -> None:
        lines = await self._command(f"EHLO {self._greeted}", 250)
        self.offers = {}
        for line in lines[1:]:
            name, _, rest = line.partition(" ")
            self.offers.setdefault(name.upper(), rest.strip())

    async def _command(self, line: str, *good: int, said: str = "") -> list[str]:
        self._quiet()
        data = line.encode("utf-8") + b"\r\n"
        assert b"\r" not in data[:-2] and b"\n" not in data[:-2]
        await self._write(data)
        return await self._expect(said or line.split(" ", maxsplit=1)[0], *good)

    def _quiet(self) -> None:
        if self._data:
            # An answer before its question is about something else; each one after it would be too.
            raise AdapterError("the mail server answered before it was asked")

    async def _expect(self, what: str, *good: int) -> list[str]:
        code, lines = await self._reply()
        if code not in good:
            again = "; it may take it later" if 400 <= code < 500 else ""
            raise AdapterError(f"the mail server refused {what} ({code}){again}")
        return lines

    async def _reply(self) -> tuple[int, list[str]]:
        lines: list[str] = []
        code = b""
        while len(lines) < _LINES:
            found = _REPLY.fullmatch(await self._line())
            if found is None or (code and found[1] != code):
                break
            code = found[1]
            lines.append((found[3] or b"").decode("latin-1"))
            if found[2] != b"-":
                return int(code), lines
        raise AdapterError("what answers there is no mail server")

    async def _line(self) -> bytes:
        while b"\n" not in self._data:
            if len(self._data) > _LINE or self._came > _ALL:
                raise AdapterError("the mail server says more than it should")
            more = await self._read()
            self._came += len(more)
            self._data += more
        line, _, self._data = self._data.partition(b"\n")
        if len(line) > _LINE:
            raise AdapterError("the mail server says more than it should")
        return line.removesuffix(b"\r")

    async def _read(self) -> bytes:
        import anyio

        try:
            return await self._stream.receive(4096)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise AdapterError("the mail server broke off") from None

    async def _write(self, data: bytes) -> None:
        import anyio

        try:
            await self._stream.send(data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise AdapterError("the mail server broke off") from None


async def over_tls(stream: ByteStream, context: ssl.SSLContext, name: str) -> ByteStream:
    """The same over TLS, with a certificate for this name.  Raises AdapterError."""
    import ssl

    import anyio
    from anyio.streams.tls import TLSStream

    try:
        return await TLSStream.wrap(stream, hostname=name, ssl_context=context, standard_compatible=False)
    except ssl.SSLCertVerificationError:
        raise AdapterError("the mail server's certificate is not believed") from None
    except (ssl.SSLError, anyio.EndOfStream, anyio.BrokenResourceError, OSError):
        raise AdapterError("no TLS came about with the mail server") from None


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8")).decode("ascii")
