"""
Servers for tests of the network: on loopback, started and ended by the test; and a watch that nothing goes elsewhere.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec

from fastness.capabilities._addresses import AddressGuard, Allowance
from fastness.capabilities.net import Net, NetScope, Request
from fastness.capability import CallContext

#: Vouches for :data:`LEAF`, and for nothing else in the world.
CA = """\
-----BEGIN CERTIFICATE-----
MIIBmTCCAT+gAwIBAgIUC+w6quipY6qDGhURZLw7687sY7UwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwORmFzdG5lc3MgdGVzdHMwIBcNMjYxMTMwMDEwMzE3WhgPMjEy
NjExMDYwMTAzMTdaMBkxFzAVBgNVBAMMDkZhc3RuZXNzIHRlc3RzMFkwEwYHKoZI
zj0CAQYIKoZIzj0DAQcDQgAEH24N69AUR+nAGULoMvX+ZNSBP5N7m6fyQT34b8Ip
qJV9gYydfZQW9Yb3eq4SbL3rbFwCG1PvrVz/iZVLLoUGjKNjMGEwHQYDVR0OBBYE
FNvlWFaVQVt869zdyE8mE9WDQncAMB8GA1UdIwQYMBaAFNvlWFaVQVt869zdyE8m
E9WDQncAMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/BAQDAgIEMAoGCCqGSM49
BAMCA0gAMEUCIGteJhzq9fjK4xbYgspa/QN4/3i2EcRU4dJ88hU2kfvAAiEAlAmq
ELLLWhf1dTnLmuT+I8epZPa87qF8P0I2SMX4L6M=
-----END CERTIFICATE-----
"""
#: For a.test, b.test and 127.0.0.1.  The key is known to everybody, and good for nothing but these tests.
LEAF = """\
-----BEGIN CERTIFICATE-----
MIIBszCCAVmgAwIBAgIUNvL/c+z47qEPX9zQEgJdMpadOQQwCgYIKoZIzj0EAwIw
GTEXMBUGA1UEAwwORmFzdG5lc3MgdGVzdHMwIBcNMjYxMTMwMDEwMzE3WhgPMjEy
NjExMDYwMTAzMTdaMBExDzANBgNVBAMMBmEudGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABBIKFXvFQvOfsdf34Pzg685rhSlQSC75fn+QlUTYcApBItPMfsBl
ZWK6ein22YjV9WBgtqd9hywMrBmhBsMCpDyjgYQwgYEwHwYDVR0RBBgwFoIGYS50
ZXN0ggZiLnRlc3SHBH8AAAEwEwYDVR0lBAwwCgYIKwYBBQUHAwEwCQYDVR0TBAIw
ADAdBgNVHQ4EFgQU73LkIuNrZwT3fugN4Mireq/mMlowHwYDVR0jBBgwFoAU2+VY
VpVBW3zr3N3ITyYT1YNCdwAwCgYIKoZIzj0EAwIDSAAwRQIhAMchOUjQX80Cb42w
JfapBwdS7i9p4qimdjBP8dpv57ZIAiBUgEMUL1OxIRMJJIu5+mV9MBf8UlnS128C
8rEr3o8blA==
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgA7ksqIE68t1qKbIC
6fUZXS1l0i5a9w8ZUnMGJclLUhqhRANCAAQSChV7xULzn7HX9+D84OvOa4UpUEgu
+X5/kJVE2HAKQSLTzH7AZWViunop9tmI1fVgYLanfYcsDKwZoQbDAqQ8
-----END PRIVATE KEY-----
"""


class Elsewhere(Exception):
    """A connection was about to leave loopback; nothing was sent."""


#: Addresses that this process tried to connect to, loopback or not, since the last ``clear()``.
tried: list[tuple[str, int]] = []
#: Names that the system's resolver was asked for.
looked_up: list[str] = []
_watching = False


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = args[1]
        if not isinstance(address, tuple) or not address:
            return
        tried.append((str(address[0]), address[1]))
        where = ipaddress.ip_address(str(address[0]).partition("%")[0])
        if not where.is_loopback:
            raise Elsewhere(f"{address[0]} port {address[1]}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = args[0].decode() if isinstance(args[0], bytes) else str(args[0])
        try:
            # The C library reads addresses in every spelling and asks nobody about them.
            literal = ipaddress.ip_address(host) if ":" in host else ipaddress.ip_address(socket.inet_aton(host))
        except (ValueError, OSError):
            looked_up.append(host)
            raise Elsewhere(f"a question about {host}") from None
        if not literal.is_loopback:
            tried.append((str(literal), int(args[1] or 0)))
            raise Elsewhere(host)


sys.addaudithook(_watch)


@contextlib.contextmanager
def nothing_leaves() -> Iterator[None]:
    """Whatever this process would send to another address, or ask a resolver, fails before the system call."""
    global _watching  # noqa: PLW0603  # an audit hook is for ever; this turns it on and off
    tried.clear()
    looked_up.clear()
    _watching = True
    try:
        yield
    finally:
        _watching = False


class Listener:
    """
    A server on loopback that answers each connection with what ``answer(head)`` gives, piece by piece, or ``with_body`` with
    what ``answer(head, body)`` gives.

    ``requests`` are the heads that came, ``bodies`` what came after them, ``names`` the server names of TLS.
    """

    def __init__(
        self,
        answer: Callable[..., Iterable[bytes]],
        *,
        with_body: bool = False,
        address: str = "127.0.0.1",
        port: int = 0,
        tls: Path | None = None,
    ) -> None:
        self._answer = answer
        self._with_body = with_body
        self.requests: list[bytes] = []
        self.bodies: list[bytes] = []
        self.names: list[str | None] = []
        self.sent = 0
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(tls)
            self._tls.sni_callback = lambda _sock, name, _context: self.names.append(name)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._socket = socket.create_server((address, port), family=family, backlog=128)
        self.address = address
        self.port: int = self._socket.getsockname()[1]
        self._loop = threading.Thread(target=self._serve)
        self._loop.start()

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._one, args=(connection,))
            thread.start()
            self._threads.append(thread)

    def _one(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        with connection:
            try:
                stream = connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)
                with stream:
                    self._talk(stream)
            except OSError:
                pass  # whoever asked has gone

    def _talk(self, stream: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            more = stream.recv(65536)
            if not more:
                return
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(
            next((line[15:] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
        )
        while len(body) < length:
            more = stream.recv(65536)
            if not more:
                return
            body += more
        self.requests.append(head)
        self.bodies.append(body)
        for piece in self._answer(head, body) if self._with_body else self._answer(head):
            if self._closing.is_set():
                return
            stream.sendall(piece)
            self.sent += len(piece)

    @property
    def closing(self) -> threading.Event:
        """Set when the test is over; a slow answer waits on it."""
        return self._closing

    @property
    def lines(self) -> list[str]:
        """The request lines that came."""
        return [head.split(b"\r\n")[0].decode("latin-1") for head in self.requests]

    def fields(self, number: int = -1) -> dict[str, str]:
        """The header fields of one request, names in lower case."""
        pairs = (line.partition(":") for line in self.requests[number].decode("latin-1").split("\r\n")[1:])
        return {name.lower(): value.strip() for name, _, value in pairs}

    def close(self) -> None:
        """End it, and wait for its threads."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._loop.join(10)
        for thread in self._threads:
            thread.join(10)


def answer(
    body: bytes = b"",
    *,
    status: str = "200 OK",
    headers: Sequence[tuple[str, str]] = (),
    length: bool = True,
) -> bytes:
    """An answer of HTTP in one piece."""
    fields = [*headers, *([("Content-Length", str(len(body)))] if length else [])]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("utf-8", "surrogateescape") + body


def moved(location: str, status: str = "302 Found") -> bytes:
    """A redirect."""
    return answer(status=status, headers=[("Location", location)])


class Names:
    """
    A resolver that knows what it was told.  A name with several lists of addresses gives one after the other, and the
    last one for ever; ``asked`` are the questions.
    """

    def __init__(self, **known: Sequence[str] | Sequence[Sequence[str]]) -> None:
        self.asked: list[str] = []
        self._known: dict[str, list[list[str]]] = {}
        for name, answers in known.items():
            lists = [list(one) for one in answers] if answers and not isinstance(answers[0], str) else [list(answers)]  # type: ignore[arg-type]  # of either shape
            self._known[name.replace("_", ".")] = lists

    async def __call__(self, name: str) -> list[str]:
        self.asked.append(name)
        lists = self._known.get(name)
        if lists is None:
            raise OSError("no such name")
        return lists.pop(0) if len(lists) > 1 else lists[0]


# the adapter, as tests use it


def guard(*names: str, port: int, address: str = "127.0.0.1") -> AddressGuard:
    """The guard as it is, and one address and port under these names."""
    return AddressGuard(Allowance(name, address, port) for name in names)


def scope(*ports: int, hosts: tuple[str, ...] = ("*.test",), secrets: tuple[str, ...] = ()) -> NetScope:
    """A scope of both schemes."""
    return NetScope(hosts=hosts, schemes=("http", "https"), ports=ports, secrets=secrets)


def context(of: NetScope, seconds: float = 10.0, **fields: Any) -> CallContext:
    """A run's context that lasts so long."""
    until = time.monotonic() + seconds
    return CallContext(plugin="p", owner="o", run="r", scope=of, deadline=until, spent={}, **fields)


def ask(net: Net, url: str, of: CallContext, method: str = "GET", **arguments: Any) -> Any:
    """One call, its arguments decoded as the broker does it."""
    given = msgspec.convert({"method": method, "url": url, **arguments}, Request, builtin_types=(bytes,))
    return anyio.run(net.call, "request", given, of)


def simple(server: Listener, *names: str, **how: Any) -> tuple[Net, CallContext, Names]:
    """An adapter that may reach one server by these names, a context, and the resolver."""
    known = Names(**{name.replace(".", "_"): ["127.0.0.1"] for name in names or ("a.test",)})
    return (
        Net(guard(*(names or ("a.test",)), port=server.port), resolve=known, **how),
        context(scope(server.port)),
        known,
    )
