"""
One request on one connection, to an address that was judged.

This is the only module of the package that opens a connection outwards or imports a client of HTTP.  It decides
nothing: it is told the addresses, the fields and the ceilings.  A connection serves one request and is closed.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import anyio
import httpcore2
import msgspec
from anyio.lowlevel import checkpoint

from fastness.capabilities._addresses import Address
from fastness.capabilities._bodies import Body, BrokenBody, TooLarge
from fastness.capabilities._resolving import resolve
from fastness.capabilities._tls import tls_context
from fastness.capabilities._urls import Url
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import KIB
from fastness.runs import DenialCode

__all__ = ["Answer", "Begun", "Client", "NotSent", "resolve", "told"]

#: Bytes of an answer before its body: status line, fields, and answers that announce another (RFC 9110, 15.2).
_HEAD_BYTES = 64 * KIB
_HEAD_PIECE = 16 * KIB
_MOST_FIELDS = 200
#: Bytes beyond twice the body that an answer may spend on framing it: a one-byte chunk is six times its content.
_FRAMING_BYTES = 64 * KIB
#: Chunks of an answer, and one more for each KiB of its body: each takes the host some 50 µs, however small it is.
_MOST_CHUNKS = 10_000
#: Chunks between two looks at what else this thread has to do.
_TURN = 64
#: Addresses of one name that are tried.
_ATTEMPTS = 4
_WITHOUT_BODY = frozenset((204, 205, 304))


class NotSent(AdapterError):
    """No connection came about, so nothing of the request was sent."""


class Answer(msgspec.Struct, frozen=True):
    """What came, before anything is removed from it; ``decoded`` where the body was compressed on the way."""

    status: int
    reason: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    decoded: bool = False

    def values(self, name: bytes) -> list[bytes]:
        """All values of a field."""
        return [value for own, value in self.headers if own.lower() == name]


class Client:
    """
    Sends requests.  ``trust`` is a file of certificates in PEM; None is the system's own.

    ``response_bytes`` bounds a body; ``connect_s`` bounds each attempt to connect, in seconds.
    """

    def __init__(self, *, trust: str | None, response_bytes: int, connect_s: float) -> None:
        self._trust = trust
        self._response_bytes = response_bytes
        self._connect_s = connect_s
        self._tls: ssl.SSLContext | None = None

    async def exchange(
        self,
        method: str,
        url: Url,
        headers: dict[str, str],
        body: bytes,
        addresses: Sequence[Address],
        context: CallContext,
        *,
        follows: frozenset[int],
    ) -> Answer:
        """
        Send one request and read the answer; with a status of ``follows`` and a location, without its body.

        Raises Denied (too_large), QuotaExceeded, AdapterError.
        """
        begun = await self.begin(method, url, headers, body, addresses, context)
        try:
            with _translated(), _quiet():
                return await self._read(method, begun, follows)
        finally:
            await begun.aclose()

    async def begin(
        self,
        method: str,
        url: Url,
        headers: dict[str, str],
        body: bytes,
        addresses: Sequence[Address],
        context: CallContext,
    ) -> Begun:
        """Send one request and read what comes before the answer's body.  Raises QuotaExceeded, AdapterError."""
        meter = _Meter(context)
        scheme, host = url.scheme.encode(), url.host.name.encode()
        connection = httpcore2.AsyncHTTPConnection(
            httpcore2.Origin(scheme, host, url.port),
            ssl_context=self._context() if url.scheme == "https" else None,
            network_backend=_Pinned(addresses, url, self._connect_s, meter),
        )
        fields = {"host": url.authority, "user-agent": "fastness", "accept": "*/*", **headers}
        fields |= {"accept-encoding": "identity", "connection": "close"}
        if body or method in ("POST", "PUT", "PATCH"):
            fields["content-length"] = str(len(body))
        request = httpcore2.Request(
            method,
            httpcore2.URL(scheme=scheme, host=host, port=url.port, target=url.target),
            headers=list(fields.items()),
            content=body or None,
            extensions={"timeout": {"connect": self._connect_s}},
        )
        begun = Begun(connection, meter)
        try:
            with _translated(), _quiet():
                begun.has_come(await connection.handle_async_request(request))
        except BaseException:
            await begun.aclose()
            raise
        return begun

    async def _read(self, method: str, begun: Begun, follows: frozenset[int]) -> Answer:
        answer = begun.answer
        if method == "HEAD" or answer.status in _WITHOUT_BODY:
            return answer
        if answer.status in follows and answer.values(b"location"):
            return answer
        encoding = b",".join(answer.values(b"content-encoding")).decode("latin-1").strip().lower()
        try:
            if any(int(value) > self._response_bytes for value in answer.values(b"content-length") if value.isdigit()):
                raise TooLarge
            body = Body(self._response_bytes, encoding)
            async for piece in begun.pieces(_MOST_CHUNKS):
                body.add(piece)
            return msgspec.structs.replace(answer, body=body.whole(), decoded=encoding not in ("", "identity"))
        except TooLarge:
            raise Denied(DenialCode.TOO_LARGE, f"an answer of more than {self._response_bytes} bytes") from None
        except BrokenBody as error:
            raise AdapterError(str(error)) from None

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = tls_context(self._trust)
        return self._tls


class Begun:
    """An answer whose body is still to be read: what came before it is ``answer``."""

    def __init__(self, connection: httpcore2.AsyncHTTPConnection, meter: _Meter) -> None:
        self._connection = connection
        self._meter = meter
        self._response: httpcore2.Response | None = None
        self.answer = Answer(0, b"", [])

    def has_come(self, response: httpcore2.Response) -> None:
        """The head of the answer.  Raises AdapterError where it is not one that can be read on."""
        self._response = response
        self._meter.head = False
        reason = bytes(response.extensions.get("reason_phrase", b""))
        self.answer = Answer(response.status, reason, response.headers)
        if len(response.headers) > _MOST_FIELDS:
            raise AdapterError("the answer has too many header fields")
        if response.status == 101 or response.extensions.get("http_version") not in (b"HTTP/1.0", b"HTTP/1.1"):
            raise AdapterError("the answer wants another protocol")

    async def pieces(self, most: int) -> AsyncGenerator[bytes, None]:
        """
        The body as it comes, still encoded, in at most ``most`` pieces and one more for each KiB.

        What each step raises is not in words for a guest: see :func:`told`.
        """
        assert self._response is not None
        chunks = 0
        async for piece in self._response.aiter_stream():
            chunks += 1
            self._meter.content += len(piece)
            if chunks > most + self._meter.content // KIB:
                raise AdapterError("the answer is cut into too many pieces")
            yield piece
            if not chunks % _TURN:
                await checkpoint()

    async def aclose(self) -> None:
        """End it.  Idempotent."""
        response, self._response = self._response, None
        with anyio.move_on_after(1, shield=True):
            if response is not None:
                await response.aclose()
        with anyio.move_on_after(1, shield=True):
            await self._connection.aclose()


@contextmanager
def told() -> Iterator[None]:
    """For each step of an answer that is read piece by piece: errors in words for a guest, and nothing logged."""
    with _translated(), _quiet():
        yield


# what is spent


class _Meter:
    """Counts what goes over one connection, and ends it where a ceiling is met."""

    def __init__(self, context: CallContext) -> None:
        self._context = context
        self._came = 0
        #: Whether the header section is still being read, and how much of the body has been taken.
        self.head = True
        self.content = 0

    def _room(self) -> int:
        return self._context.limits.net_bytes - self._context.spent.get("net_bytes", 0)

    def wants(self, most: int) -> int:
        """How many bytes may be read now.  Raises QuotaExceeded, AdapterError."""
        if self._room() <= 0:
            raise QuotaExceeded(f"the run has used its {self._context.limits.net_bytes} bytes")
        if self.head and self._came >= _HEAD_BYTES:
            raise AdapterError("the answer's header section is too long")
        if not self.head and self._came > _HEAD_BYTES + _FRAMING_BYTES + 2 * self.content:
            raise AdapterError("the answer is more framing than content")
        return min(most, self._room(), _HEAD_PIECE if self.head else most)

    def came(self, count: int) -> None:
        """So many bytes were read.  Raises QuotaExceeded where calls at the same time used what there was."""
        self._came += count
        self._spend(count)
        if self._room() < 0:
            raise QuotaExceeded(f"the run has used its {self._context.limits.net_bytes} bytes")

    def goes(self, count: int) -> None:
        """So many bytes are about to be written.  Raises QuotaExceeded."""
        if count > self._room():
            raise QuotaExceeded(f"the run has used its {self._context.limits.net_bytes} bytes")
        # From here on the server may act on it, whatever comes of the answer.
        self._context.effect = True
        self._spend(count)

    def _spend(self, count: int) -> None:
        spent = self._context.spent
        spent["net_bytes"] = spent.get("net_bytes", 0) + count


# the connection


if TYPE_CHECKING:
    from httpcore2 import AsyncNetworkBackend, AsyncNetworkStream


class _Metered(httpcore2.AsyncNetworkStream):
    """A stream whose bytes are counted, as they are inside TLS."""

    def __init__(self, stream: AsyncNetworkStream, meter: _Meter) -> None:
        self._stream = stream
        self._meter = meter

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # their interface
        data = await self._stream.read(self._meter.wants(max_bytes), timeout)
        self._meter.came(len(data))
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # their interface
        self._meter.goes(len(buffer))
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # their interface
    ) -> AsyncNetworkStream:
        return _Metered(await self._stream.start_tls(ssl_context, server_hostname, timeout), self._meter)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Pinned(httpcore2.AsyncNetworkBackend):
    """Connects to the addresses that were judged, whatever name it is asked for."""

    def __init__(self, addresses: Sequence[Address], url: Url, connect_s: float, meter: _Meter) -> None:
        self._addresses = addresses
        self._url = url
        self._connect_s = connect_s
        self._meter = meter

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # their interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> AsyncNetworkStream:
        plain: AsyncNetworkBackend = httpcore2.AnyIOBackend()
        for address in _in_turns(self._addresses)[:_ATTEMPTS]:
            try:
                stream = await plain.connect_tcp(str(address), self._url.port, timeout=self._connect_s)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
            peer = stream.get_extra_info("server_addr")
            if peer is None or ip_address(peer[0]) != address:
                await stream.aclose()
                raise AdapterError("the connection went elsewhere")
            return _Metered(stream, self._meter)
        raise httpcore2.ConnectError("no address answered")


def _in_turns(addresses: Sequence[Address]) -> list[Address]:
    """Both families by turns, beginning with the resolver's first: one of them may not work here (RFC 8305, 4)."""
    first = [address for address in addresses if address.version == addresses[0].version]
    other = [address for address in addresses if address.version != addresses[0].version]
    return [address for pair in zip_longest(first, other) for address in pair if address is not None]


@contextmanager
def _translated() -> Iterator[None]:
    """What went wrong, in words for a guest: errors of sockets and libraries name addresses and paths."""
    try:
        yield
    except httpcore2.ConnectError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, ssl.SSLError):
            cause = cause.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            raise NotSent("the certificate is not one of this host, or nobody vouches for it") from None
        raise NotSent("no secure connection came about" if cause else "no connection came about") from None
    except httpcore2.ProtocolError:
        raise AdapterError("the answer is no proper HTTP") from None
    except httpcore2.TimeoutException:
        raise NotSent("no connection came about in time") from None
    except (httpcore2.NetworkError, OSError):
        raise AdapterError("the connection broke") from None


#: Set while a request is under way: what the client of HTTP would log has header fields in it.
_OURS: ContextVar[bool] = ContextVar("fastness_net", default=False)


def _not_ours(_: logging.LogRecord) -> bool:
    return not _OURS.get()


for _name in ("httpcore2.connection", "httpcore2.http11"):
    logging.getLogger(_name).addFilter(_not_ours)


@contextmanager
def _quiet() -> Iterator[None]:
    token = _OURS.set(True)
    try:
        yield
    finally:
        _OURS.reset(token)
