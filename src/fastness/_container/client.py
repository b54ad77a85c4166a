"""
A client of the API that Docker has and Podman answers to: HTTP/1.1 (RFC 9112) on a connection for each request.

Every request has one absolute deadline, over connecting, sending and each read.  What an engine answers is bounded
before it is kept; redirects, cookies and compression do not exist here.
"""

from __future__ import annotations

import json
import select
import socket
import ssl
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from fastness._container.connect import connect, until
from fastness._container.deadline import Deadline
from fastness._container.endpoint import Endpoint
from fastness._container.faults import EngineFault

#: Bytes of an answer's head, and of its body unless a caller says otherwise.
_HEAD_CAP = 1 << 16
BODY_CAP = 8 << 20
_PIECE = 1 << 16


class Answer(msgspec.Struct, frozen=True):
    """What an engine answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON.  Raises EngineFault (``broken``)."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            raise EngineFault("broken", "the engine answered with something that is no JSON") from None


class Client:
    """
    Talks to one engine.  ``version`` is put in front of paths once it has been agreed on.  Safe in threads: it holds
    no connection.
    """

    def __init__(self, endpoint: Endpoint, version: str = "") -> None:
        self.endpoint = endpoint
        self.version = version
        self._context: ssl.SSLContext | None = None

    def call(
        self,
        method: str,
        path: str,
        deadline: Deadline,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        upload: tuple[Iterable[bytes], int] | None = None,
        cap: int = BODY_CAP,
        good: tuple[int, ...] = (),
    ) -> Answer:
        """
        One request.  ``body`` is sent as JSON; ``upload`` is pieces and how many bytes they are.

        A status of 400 or more that is not in ``good`` raises EngineFault (``status``) with what the engine said.
        """
        data = b"" if body is None else json.dumps(body).encode()
        size = len(data) if upload is None else upload[1]
        kind = "application/x-tar" if upload is not None else "application/json"
        sock = connect(self.endpoint, deadline, self._secure)
        try:
            reader = _Reader(sock, deadline)
            _send(sock, self._head(method, path, query, size, kind, "close") + data, deadline)
            for piece in upload[0] if upload is not None else ():
                if not _send_or_answered(sock, piece, deadline):
                    break
            status, headers = _head_of(reader)
            answer = Answer(status, headers, _body_of(reader, method, status, headers, cap))
        finally:
            sock.close()
        if answer.status >= 400 and answer.status not in good:
            raise EngineFault("status", f"{method} {path}: {_said(answer)}", status=answer.status)
        return answer

    def attach(self, path: str, query: Mapping[str, str], deadline: Deadline) -> tuple[socket.socket, bytes]:
        """
        Ask for a connection to become a raw stream; returns it, not blocking, and what has come of it already.

        Raises EngineFault.
        """
        sock = connect(self.endpoint, deadline, self._secure)
        try:
            reader = _Reader(sock, deadline)
            _send(sock, self._head("POST", path, query, 0, "text/plain", "Upgrade", "tcp"), deadline)
            status, headers = _head_of(reader)
            if status not in (101, 200):
                answer = Answer(status, headers, _body_of(reader, "POST", status, headers, _PIECE))
                raise EngineFault("status", f"attaching: {_said(answer)}", status=status)
        except BaseException:
            sock.close()
            raise
        return sock, reader.rest()

    def _head(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        size: int,
        kind: str,
        connection: str,
        upgrade: str = "",
    ) -> bytes:
        where = (f"/v{self.version}" if self.version else "") + path + (f"?{urlencode(query)}" if query else "")
        host = self.endpoint.host or "engine"
        lines = [f"{method} {where} HTTP/1.1", f"Host: {host}", f"Content-Length: {size}", f"Connection: {connection}"]
        if size:
            lines.append(f"Content-Type: {kind}")
        if upgrade:
            lines.append(f"Upgrade: {upgrade}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")

    def _secure(self) -> ssl.SSLContext:
        tls = self.endpoint.tls
        assert tls is not None
        if self._context is None:
            try:
                context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=tls.ca)
                context.load_cert_chain(tls.cert, tls.key)
            except (OSError, ValueError) as error:
                raise EngineFault("insecure", f"the files for TLS cannot be used: {error}") from None
            self._context = context
        return self._context


# sending and reading


def _send(sock: socket.socket, data: bytes, deadline: Deadline) -> None:
    view = memoryview(data)
    while view:
        deadline.left()
        try:
            view = view[sock.send(view) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            deadline.wait(sock.fileno(), select.POLLOUT)
        except ssl.SSLWantReadError:
            deadline.wait(sock.fileno(), select.POLLIN)
        except OSError as error:
            raise EngineFault("broken", f"the engine hung up: {error.strerror or error}") from None


def _send_or_answered(sock: socket.socket, data: bytes, deadline: Deadline) -> bool:
    """False where the engine takes no more, because it has answered already."""
    try:
        _send(sock, data, deadline)
    except EngineFault as fault:
        if fault.kind != "broken":
            raise
        return False
    return True


class _Reader:
    """Reads of one connection, with what was read ahead."""

    def __init__(self, sock: socket.socket, deadline: Deadline) -> None:
        self._sock = sock
        self._deadline = deadline
        self._held = bytearray()

    def more(self) -> bool:
        """Take in some; False at the end of the stream."""
        self._deadline.left()
        try:
            data = until(self._sock, lambda: self._sock.recv(_PIECE), self._deadline)
        except OSError as error:
            raise EngineFault("broken", f"the engine hung up: {error.strerror or error}") from None
        self._held += data
        return bool(data)

    def line(self) -> str:
        """One line without its end."""
        while (end := self._held.find(b"\r\n")) < 0:
            if len(self._held) > _HEAD_CAP:
                raise EngineFault("broken", "the engine sent a line without end")
            if not self.more():
                raise EngineFault("broken", "the engine hung up amid its answer")
        found = self._held[:end].decode("latin-1")
        del self._held[: end + 2]
        return found

    def take(self, size: int) -> bytes:
        """So many bytes."""
        while len(self._held) < size:
            if not self.more():
                raise EngineFault("broken", "the engine hung up amid its answer")
        found = bytes(self._held[:size])
        del self._held[:size]
        return found

    def all(self, cap: int) -> bytes:
        """Everything up to the end of the stream."""
        while len(self._held) <= cap and self.more():
            pass
        return self.take(min(len(self._held), cap + 1))

    def rest(self) -> bytes:
        """What was read ahead."""
        return bytes(self._held)


def _head_of(reader: _Reader) -> tuple[int, dict[str, str]]:
    while True:
        parts = reader.line().split(" ", 2)
        if len(parts) < 2 or not parts[0].startswith("HTTP/1.") or not (parts[1].isdecimal() and len(parts[1]) == 3):
            raise EngineFault(
                "broken",
                "what answered there is no engine: it does not speak HTTP",
                "name the engine's socket with FASTNESS_ENGINE",
            )
        headers: dict[str, str] = {}
        size = 0
        while line := reader.line():
            size += len(line)
            if size > _HEAD_CAP:
                raise EngineFault("broken", "the engine sent a head without end")
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        status = int(parts[1])
        if status >= 200 or status == 101:
            return status, headers


def _body_of(reader: _Reader, method: str, status: int, headers: dict[str, str], cap: int) -> bytes:
    if method == "HEAD" or status in (204, 304):
        return b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _chunks(reader, cap)
    length = headers.get("content-length")
    if length is None:
        body = reader.all(cap)
    else:
        if not (length.isdecimal() and len(length) < 16):
            raise EngineFault("broken", "the engine sent a length that is no number")
        if int(length) > cap:
            raise EngineFault("broken", f"the engine answered with more than {cap} bytes")
        body = reader.take(int(length))
    if len(body) > cap:
        raise EngineFault("broken", f"the engine answered with more than {cap} bytes")
    return body


def _chunks(reader: _Reader, cap: int) -> bytes:
    parts: list[bytes] = []
    left = cap
    while True:
        text = reader.line().partition(";")[0].strip()
        try:
            size = int(text, 16) if len(text) < 16 else -1
        except ValueError:
            size = -1
        if size < 0:
            raise EngineFault("broken", "the engine sent a chunk whose size is no number")
        if size == 0:
            while reader.line():
                pass
            return b"".join(parts)
        left -= size
        if left < 0:
            raise EngineFault("broken", f"the engine answered with more than {cap} bytes")
        parts.append(reader.take(size))
        reader.line()


def _said(answer: Answer) -> str:
    """What an engine says of a refusal."""
    try:
        found = json.loads(answer.body)
        text = str(found.get("message") or found.get("cause") or "") if isinstance(found, dict) else ""
    except (ValueError, RecursionError):
        text = answer.body.decode("utf-8", "replace")
    return f"status {answer.status}, {' '.join(text.split())[:500]}" if text.strip() else f"status {answer.status}"
