"""
A server of mail on loopback, for attempts that go by the broker; and a careless host that hands it whatever it is told.

The attempts may write to ``example.test``, four times a day; ``evil.test`` is where nobody may.
"""

from __future__ import annotations

import contextlib
import re
import select
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastness.attack import brokering
from fastness.attack.doors import Door
from fastness.capabilities._email_settings import EmailSettings, email_settings_of
from fastness.capabilities.integrations import Counts, Email, Integrations, IntegrationsScope

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare

#: Mails that may be sent.
MAILS = 4
SCOPE = IntegrationsScope(actions=("email.send",), per_day=MAILS, recipients=("example.test",))
TIERS = ("wasm", "worker", "confined", "isolated")

#: A line of a client, to what the server says in place of its usual answer; None is the usual one.
Say = Callable[[bytes, "Server"], bytes | None]

#: Makes a mail of text, looks at what it knows, and hands it over; passes on what the server says.
CARELESS = r"""
class _Email:
    def _granted(self, to):
        return to if any(host in to for host in RECIPIENTS) else 'nobody@example.test'

    def _talk(self, *lines):
        for line in lines:
            self.link.sendall(line.encode() + b'\r\n')
            said = self.link.recv(1 << 16).decode()
            while WHOLE and not said.endswith('\n'):
                said += self.link.recv(1 << 16).decode()
            _noted(f'{line}: {said}')
            if said[:1] not in '23':
                raise ValueError(said)

    def _sent(self):
        try:
            with open(DATABASE + '.sent') as file:
                return int(file.read() or 0)
        except OSError:
            return 0

    def send(self, to, subject, text, html='', cc=(), **more):
        given = [to] if isinstance(to, str) else to
        if PER_DAY and self._sent() + len(given) > PER_DAY:
            raise PermissionError('no more today')
        self.link = socket.create_connection(('127.0.0.1', PORT), timeout=TIMEOUT_S)
        with self.link:
            self.link.recv(1 << 16)
            self.link.sendall(b'EHLO careless\r\n')
            offers = self.link.recv(1 << 16)
            if b'STARTTLS' in offers:
                raise ValueError('not here')
            if PASSWORD:
                word = base64.b64encode(f'\0robot\0{PASSWORD}'.encode()).decode()
                self._talk(f'AUTH PLAIN {word}')
            self._talk(f'MAIL FROM:<{more.get("sender", "robot@host.test")}>')
            for one in [self._granted(one) for one in (*given, *cc)]:
                self._talk(f'RCPT TO:<{one}>')
            self._talk('DATA')
            head = [f'From: robot@host.test', f'To: {", ".join(given)}', f'Subject: {subject}']
            self._talk('\r\n'.join([*head, '', text, '.']))
            self.link.sendall(b'QUIT\r\n')
        # What went well is counted.
        sent = self._sent() + len(given)
        with open(DATABASE + '.sent', 'w') as file:
            file.write(str(sent))
        return {'recipients': len(given)}

class _Integrations:
    email = _Email()

ctx.integrations = _Integrations()
"""


class Server(Door):
    """
    One server.  It reads as lenient ones do: a line ends with a line feed, and a mail with a dot between two of them.

    ``say`` is asked about each line first (``b""`` for the greeting, ``b"."`` for the end of a mail).  ``taken`` are
    mails, each the sender, the recipients and the text; ``lines`` is everything that came.  ``left_s`` is how long
    the first client stayed, where it has gone.
    """

    def __init__(self, say: Say) -> None:
        self._say = say
        self.lines: list[bytes] = []
        self.taken: list[tuple[str, list[str], bytes]] = []
        self.left_s: float | None = None
        self.over = threading.Event()
        #: The connection of this moment, for what is sent in pieces.
        self.link: Any = None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, name="attack-mail", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self.over.is_set():
            if select.select([self._socket], [], [], 0.02)[0]:
                connection, _ = self._socket.accept()
                began = time.monotonic()
                with connection, contextlib.suppress(OSError):
                    connection.settimeout(2)
                    self._talk(connection)
                if self.left_s is None:
                    self.left_s = time.monotonic() - began

    def _talk(self, link: socket.socket) -> None:
        self.link = link
        sender, to = "", list[str]()
        reader = link.makefile("rb")
        self._answer(b"", b"220 mail.test\r\n", link)
        while line := reader.readline(1 << 20).rstrip(b"\r\n"):
            self.lines.append(line)
            verb = line.split(b" ")[0].upper()
            found = re.search(rb"<([^>]*)>", line)
            named = "" if found is None else found[1].decode("latin-1")
            if verb == b"DATA":
                self._answer(line, b"354 go ahead\r\n", link)
                data = b""
                while (part := reader.readline(1 << 20)) and part.rstrip(b"\r\n") != b".":
                    data += part.removeprefix(b".")
                self.taken.append((sender, to, data))
                self._answer(b".", b"250 taken\r\n", link)
                continue
            if verb == b"MAIL":
                sender, to = named, []
            elif verb == b"RCPT":
                to.append(named)
            usual = {
                b"EHLO": b"250-mail.test\r\n250 AUTH PLAIN\r\n",
                b"AUTH": b"235 welcome\r\n",
                b"QUIT": b"221 bye\r\n",
            }
            self._answer(line, usual.get(verb, b"250 ok\r\n"), link)
            if verb == b"QUIT":
                return

    def _answer(self, line: bytes, usual: bytes, link: socket.socket) -> None:
        said = self._say(line, self)
        link.sendall(usual if said is None else said)

    def went_to(self, word: str) -> int:
        """To how many recipients with this in their address mail was taken in."""
        return sum(word in one for _, to, _ in self.taken for one in to)

    def reached(self) -> bool:
        """Whether anybody came."""
        return bool(self.lines)

    def close(self) -> None:
        """End it."""
        self.over.set()
        self._thread.join()
        self._socket.close()


def _plain(_line: bytes, _server: Server) -> bytes | None:
    return None


def serve(arena: Arena, say: Say = _plain) -> Server:
    """A server for the time of this attempt."""
    made = Server(say)
    arena.keep(made)
    return made


def settings(server: Server, **more: Any) -> EmailSettings:
    """The operator's words about a server."""
    given = {"server": "mail.test", "address": "127.0.0.1", "port": server.port, "tls": "none", **more}
    return email_settings_of({"sender": "robot@host.test", **given})


def toml(server: Server) -> str:
    """The same, as they stand in a configuration."""
    lines = ["[integrations.email]", 'server = "mail.test"', 'address = "127.0.0.1"', f"port = {server.port}"]
    return "\n".join([*lines, 'tls = "none"', 'sender = "robot@host.test"']) + "\n"


def broker(
    arena: Arena, server: Server, *, password: str = "", call_s: float = 20.0, tls: str = "none"
) -> brokering.Broker:
    """A broker whose integrations are mail by this server, with this credential."""
    path = arena.shared_folder(0o700) / "smtp.password"
    if password:
        path.touch(0o600)
        path.write_text(password)
    words = settings(server, tls=tls, **({"user": "robot"} if password else {}))
    counts = Counts(str(arena.folder / "broker" / "integrations.db"))
    adapter = Integrations([Email(words, password=str(path) if password else None)], counts, call_s=call_s)
    return brokering.Broker(arena, more={"integrations": adapter})


def control(arena: Arena, code: str, server: Server, **facts: Any) -> Bare:
    """The same text before a careless host."""
    given = {
        "PORT": server.port,
        "PASSWORD": "",
        "RECIPIENTS": ["example.test"],
        "TIMEOUT_S": 3,
        "WHOLE": False,
        "PER_DAY": 0,
        "DATABASE": str(arena.folder / "careless.db"),
    }
    return brokering.control(arena, CARELESS + code, **{**given, **facts})
