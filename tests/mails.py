"""A server of mail for tests, on loopback: it takes everything in, and may stall, lie and say things nobody asked for."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import ipaddress
import re
import socket
import ssl
import threading
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import msgspec

from fastness.capabilities._email_settings import EmailSettings, email_settings_of

#: What the host logs in with.
PASSWORD = "pw-held-by-the-host-0123456789"
SENDER = "robot@host.test"
#: Answers to a line of a client; None lets the server say what it says by itself, and bytes go as they are.
Say = Callable[[bytes, "Mails"], bytes | None]


class Taken(msgspec.Struct):
    """One mail that was taken in: its envelope, the bytes after DATA, and as whom the client had logged in."""

    sender: str
    to: list[str]
    data: bytes
    user: str
    tls: bool

    @property
    def message(self) -> EmailMessage:
        """As a reader of mail sees it."""
        found = email.message_from_bytes(self.data, policy=email.policy.default)
        assert isinstance(found, EmailMessage)
        return found


class Mails:
    """
    ``say`` gets each line that comes (``b""`` for the greeting, ``b"."`` for the end of a mail) before the server
    itself does.  ``tls`` is a certificate: with ``implicit`` from the first byte on, else it offers STARTTLS.
    """

    def __init__(
        self, say: Say | None = None, *, tls: Path | None = None, implicit: bool = False, login: bool = False
    ) -> None:
        self._say = say or (lambda line, server: None)
        self._tls: ssl.SSLContext | None = None
        if tls is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(tls)
        self._implicit = implicit
        self._login = login
        self.lines: list[bytes] = []
        self.taken: list[Taken] = []
        self.came = 0
        self.closing = threading.Event()
        #: The connection of this moment, for what a test sends by itself.
        self.stream: Any = None
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        self._loop = threading.Thread(target=self._serve)
        self._loop.start()

    def settings(self, **more: Any) -> EmailSettings:
        """The operator's words about it."""
        given = {"server": "a.test", "address": "127.0.0.1", "port": self.port, "tls": "none", "sender": SENDER}
        return email_settings_of({**given, **more})

    def toml(self, **more: Any) -> str:
        """The same in a configuration."""
        given = {"server": "a.test", "address": "127.0.0.1", "port": self.port, "tls": "none", "sender": SENDER, **more}
        lines = [
            f"{name} = {value}" if isinstance(value, int) else f'{name} = "{value}"' for name, value in given.items()
        ]
        return "\n".join(["[integrations.email]", *lines]) + "\n"

    def verbs(self) -> list[str]:
        """The first words of the lines that came."""
        return [line.split(b" ")[0].decode("latin-1") for line in self.lines]

    def close(self) -> None:
        """End it, and wait for its threads."""
        self.closing.set()
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for one in self._open:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._loop.join(10)
        for thread in self._threads:
            thread.join(10)

    # how

    def _serve(self) -> None:
        while not self.closing.is_set():
            try:
                connection, address = self._socket.accept()
            except OSError:
                return
            assert ipaddress.ip_address(address[0]).is_loopback
            self.came += 1
            self._open.append(connection)
            thread = threading.Thread(target=self._one, args=(connection,))
            thread.start()
            self._threads.append(thread)

    def _one(self, connection: socket.socket) -> None:
        connection.settimeout(20)
        with connection, contextlib.suppress(OSError):
            stream: socket.socket = connection
            if self._implicit and self._tls is not None:
                stream = self._tls.wrap_socket(connection, server_side=True)
            try:
                self._talk(stream)
            finally:
                # With STARTTLS it is another one by now.
                self.stream.close()

    def _talk(self, stream: socket.socket) -> None:
        self.stream = stream
        secured, user, sender, to = self._implicit, "", "", []
        reader = stream.makefile("rb")
        self._answer(b"", b"220 a.test ESMTP ready\r\n", stream)
        while line := reader.readline(1 << 16):
            line = line.rstrip(b"\r\n")
            self.lines.append(line)
            verb, _, rest = line.partition(b" ")
            verb = verb.upper()
            if verb == b"EHLO":
                offers = [b"a.test", b"SIZE 100000", b"8BITMIME"]
                if self._tls is not None and not secured:
                    offers.append(b"STARTTLS")
                if secured or self._tls is None:
                    offers.append(b"AUTH LOGIN" if self._login else b"AUTH LOGIN PLAIN")
                lines = [b"250-" + one for one in offers[:-1]] + [b"250 " + offers[-1]]
                self._answer(line, b"\r\n".join(lines) + b"\r\n", stream)
            elif verb == b"STARTTLS" and self._tls is not None:
                self._answer(line, b"220 go ahead\r\n", stream)
                stream = self.stream = self._tls.wrap_socket(stream, server_side=True)
                reader, secured = stream.makefile("rb"), True
            elif verb == b"AUTH":
                user = self._logged_in(line, rest, reader, stream)
            elif verb == b"MAIL":
                sender, to = re.search(rb"<([^>]*)>", line)[1].decode(), []  # type: ignore[index]  # a client of ours
                self._answer(line, b"250 ok\r\n", stream)
            elif verb == b"RCPT":
                to.append(re.search(rb"<([^>]*)>", line)[1].decode())  # type: ignore[index]  # a client of ours
                self._answer(line, b"250 ok\r\n", stream)
            elif verb == b"DATA":
                if not self._answer(line, b"354 go ahead\r\n", stream).startswith(b"354"):
                    continue
                data = b""
                while (part := reader.readline(1 << 16)) not in (b".\r\n", b""):
                    data += part[1:] if part.startswith(b".") else part
                if part:
                    self.taken.append(Taken(sender, to, data, user, secured))
                    self._answer(b".", b"250 taken\r\n", stream)
            elif verb == b"QUIT":
                self._answer(line, b"221 bye\r\n", stream)
                return
            else:
                self._answer(line, b"500 what?\r\n", stream)

    def _logged_in(self, line: bytes, rest: bytes, reader: Any, stream: socket.socket) -> str:
        kind, _, first = rest.partition(b" ")
        if kind == b"PLAIN":
            _, user, password = base64.b64decode(first).split(b"\0")
        else:
            self._answer(line, b"334 VXNlcm5hbWU6\r\n", stream)
            user = base64.b64decode(reader.readline())
            stream.sendall(b"334 UGFzc3dvcmQ6\r\n")
            password = base64.b64decode(reader.readline())
        good = password.decode() == PASSWORD
        self._answer(b"AUTH", b"235 welcome\r\n" if good else b"535 no, " + password + b"\r\n", stream)
        return user.decode() if good else ""

    def _answer(self, line: bytes, usual: bytes, stream: socket.socket) -> bytes:
        said = self._say(line, self)
        answer = usual if said is None else said
        stream.sendall(answer)
        return answer


def password_file(folder: Path, text: str = PASSWORD) -> str:
    """The host's credential, as a file of the operator's."""
    path = folder / "smtp.password"
    path.write_text(text + "\n")
    path.chmod(0o600)
    return str(path)
