"""
One request on one connection, to an address that was judged.

This is the only module of the package that opens a connection outwards or imports a client of HTTP.  It decides
nothing: it is told the addresses, the fields and the ceilings.  A connection serves one request and is closed.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ipaddress import ip_address
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpcore2
import msgspec
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar, checkpoint

from fastness.capabilities._addresses import Address
from fastness.capabilities._bodies import Body, BrokenBody, TooLarge
from fastness.capabilities._urls import Url
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import KIB
from fastness.runs import DenialCode

__all__ = ["Answer", "Client", "resolve"]

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
        try:
            with _translated(), _quiet():
                response = await connection.handle_async_request(request)
                try:
                    return await self._read(method, response, meter, follows)
                finally:
                    with anyio.move_on_after(1, shield=True):
                        await response.aclose()
        finally:
            with anyio.move_on_after(1, shield=True):
                await connection.aclose()

    async def _read(self, method: str, response: httpcore2.Response, meter: _Meter, follows: frozenset[int]) -> Answer:
        meter.head = False
        answer = Answer(response.status, bytes(response.extensions.get("reason_phrase", b"")), response.headers)
        if len(answer.headers) > _MOST_FIELDS:
            raise AdapterError("the answer has too many header fields")
        if answer.status == 101 or response.extensions.get("http_version") not in (b"HTTP/1.0", b"HTTP/1.1"):
            raise AdapterError("the answer wants another protocol")
        if method == "HEAD" or answer.status in _WITHOUT_BODY:
            return answer
        if answer.status in follows and answer.values(b"location"):
            return answer
        encoding = b",".join(answer.values(b"content-encoding")).decode("latin-1").strip().lower()
        try:
            if any(int(value) > self._response_bytes for value in answer.values(b"content-length") if value.isdigit()):
                raise TooLarge
            body = Body(self._response_bytes, encoding)
            chunks = 0
            async for piece in response.aiter_stream():
                chunks += 1
                meter.content += len(piece)
                body.add(piece)
                if chunks > _MOST_CHUNKS + meter.content // KIB:
                    raise AdapterError("the answer is cut into too many pieces")
                if not chunks % _TURN:
                    await checkpoint()
            return msgspec.structs.replace(answer, body=body.whole(), decoded=encoding not in ("", "identity"))
        except TooLarge:
            raise Denied(DenialCode.TOO_LARGE, f"an answer of more than {self._response_bytes} bytes") from None
        except BrokenBody as error:
            raise AdapterError(str(error)) from None

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = _tls_context(self._trust)
        return self._tls


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
            raise AdapterError("the certificate is not one of this host, or nobody vouches for it") from None
        raise AdapterError("no secure connection came about" if cause else "no connection came about") from None
    except httpcore2.ProtocolError:
        raise AdapterError("the answer is no proper HTTP") from None
    except httpcore2.TimeoutException:
        raise AdapterError("no connection came about in time") from None
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


# names and certificates


async def resolve(name: str) -> list[str]:
    """
    The addresses of a name, from the system's resolver (getaddrinfo(3)), in text.  Raises OSError.

    The name is absolute: no search list and no alias of the environment applies.  The thread that waits is left alone
    when nobody waits for it any more, and no more than eight wait at once.
    """

    def ask() -> list[str]:
        # As bytes: a text would be turned into ASCII once more, by other rules.
        found = socket.getaddrinfo(f"{name}.".encode("ascii"), None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))

    return await anyio.to_thread.run_sync(ask, abandon_on_cancel=True, limiter=_slots())


def _slots() -> CapacityLimiter:
    try:
        return _SLOTS.get()
    except LookupError:
        _SLOTS.set(made := anyio.CapacityLimiter(8))
        return made


_SLOTS: RunVar[CapacityLimiter] = RunVar("fastness_resolving")

#: Where systems keep the certificates that they trust, where OpenSSL was not built to look.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def _tls_context(trust: str | None) -> ssl.SSLContext:
    """Certificates and names are verified; SSL_CERT_FILE, SSL_CERT_DIR and SSLKEYLOGFILE are not read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if trust is None:
        # The paths that are compiled in: set_default_verify_paths would let the environment replace them.
        paths = ssl.get_default_verify_paths()
        trust = next(filter(os.path.isfile, (paths.openssl_cafile, *_BUNDLES)), None)
    try:
        if trust is None:
            raise FileNotFoundError
        context.load_verify_locations(cafile=trust)
    except (OSError, ssl.SSLError):
        raise AdapterError("this host has no certificates to verify servers with") from None
    return context
