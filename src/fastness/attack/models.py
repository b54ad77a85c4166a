"""
Services with models, and the memory of a host, for attempts that go by the broker; and careless ones.

The service is on loopback.  What a question costs there is what it says; a question that asks for 100 tokens may cost
281 thousandths of a unit at most, and the budget of an attempt is one unit.
"""

from __future__ import annotations

import importlib.util
import json
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fastness.attack import brokering
from fastness.attack.model import Skip
from fastness.attack.servers import Server, answer
from fastness.capabilities._llm_settings import Settings, settings_of
from fastness.capabilities.llm import Llm, LlmScope
from fastness.capabilities.memory import Memory, MemoryScope
from fastness.metering.ledger import Ledger

if TYPE_CHECKING:
    from fastness.attack.arena import Arena
    from fastness.attack.outside import Bare

#: What an attempt may spend, in units, and how many questions that is at most.
BUDGET, QUESTIONS = 1.0, 3
#: Tokens that a question of an attempt asks for.
TOKENS = 100
SCOPE = LlmScope(tiers=("strong",), budget=BUDGET, max_tokens=TOKENS)
MEMORY = MemoryScope(notes=1000, quota=1 << 20)
#: Tokens in and out that make a question as dear as it may be, in prices a million.
DEAREST = {"prompt_tokens": 81, "completion_tokens": TOKENS}
TIERS = {
    "cheap": {"model": "small", "input": 1, "output": 2},
    "strong": {"model": "large", "input": 1000, "output": 2000},
}

Say = Callable[[dict[str, Any], bytes], dict[str, Any]]

#: Makes many questions at once: by hand in a guest, and with threads where nobody bounds them.
TOGETHER = """
def together(count, **given):
    for number in range(count):
        call(5000 + number, 'llm', 'ask', json.dumps(given).encode())
    for number in range(count):
        print(answer(), flush=True)
"""
TOGETHER_OUTSIDE = """
def together(count, **given):
    import threading
    threads = [threading.Thread(target=attempt, args=(ctx.llm.ask,), kwargs=given) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""

#: Asks whatever model is named, spends what the service says afterwards, and writes down what it hears; remembers
#: everything in one table, and looks for it with what it is given.
CARELESS = r"""
import threading

class _Llm:
    # What is spent is in a file, written when a question was answered.
    def _spent(self):
        try:
            with open(DATABASE + '.spent') as file:
                return float(file.read() or 0)
        except OSError:
            return 0.0

    def _post(self, tier, messages, stream, **more):
        if BUDGET and self._spent() >= BUDGET:
            raise PermissionError('the budget is spent')
        model = more.pop('model', None) or {'cheap': 'small', 'strong': 'large'}.get(tier, tier)
        body = json.dumps({'model': model, 'messages': messages, 'stream': stream, **more}).encode()
        link = socket.create_connection(('127.0.0.1', PORT), timeout=3)
        lines = ['POST /v1/chat/completions HTTP/1.0', f'Authorization: Bearer {CREDENTIAL}']
        lines.append(f'Content-Length: {len(body)}')
        link.sendall(('\r\n'.join(lines) + '\r\n\r\n').encode() + body)
        _noted(f'asked {messages}')
        return link

    def ask(self, prompt, tier='cheap', **more):
        with self._post(tier, [{'role': 'user', 'content': prompt}], False, **more) as link:
            data = b''
            while part := link.recv(1 << 16):
                data += part
        head, _, body = data.partition(b'\r\n\r\n')
        if head.split()[1] == b'302':
            where = re.search(rb'Location: http://([0-9.]+):(\d+)', head)
            with socket.create_connection((where[1].decode(), int(where[2])), timeout=1) as link:
                link.sendall(b'GET / HTTP/1.0\r\n\r\n')
                return {'text': link.recv(1 << 16).decode()}
        found = json.loads(body)
        self._settle(found.get('usage') or {})
        text = found['choices'][0]['message']['content']
        _noted(f'heard {text}')
        return {'text': text}

    def _settle(self, usage):
        cost = (usage.get('prompt_tokens', 0) * 1000 + usage.get('completion_tokens', 0) * 2000) / 1e6
        spent = self._spent() + cost
        with open(DATABASE + '.spent', 'w') as file:
            file.write(str(spent))

    def chat(self, messages, tier='cheap', **more):
        return self.ask(messages[-1]['content'], tier, **more)

    def stream(self, messages, tier='cheap', **more):
        self.links.append(self._post(tier, messages, True, **more))
        return len(self.links)

    def read(self, stream):
        data = self.links[stream - 1].recv(1 << 16).decode()
        texts = re.findall(r'"content": "([^"]*)"', data)
        usage = re.search(r'"usage": (\{[^}]*\})', data)
        if usage:
            self._settle(json.loads(usage[1]))
        return {'text': ''.join(texts), 'done': not data or '[DONE]' in data}

    def close(self, stream):
        self.links[stream - 1].close()
        return True

    links = []

class _Memory:
    def _base(self):
        base = sqlite3.connect(DATABASE)
        base.execute('PRAGMA synchronous=OFF')
        base.execute('PRAGMA secure_delete=OFF')
        base.execute('CREATE VIRTUAL TABLE IF NOT EXISTS notes USING fts5(text, owner, plugin)')
        return base

    def add(self, text, tags=[], owner=None, plugin=None, **more):
        _noted(f'add {text}')
        with self._base() as base:
            made = base.execute('INSERT INTO notes VALUES (?, ?, ?)', (text, owner or OWNER, plugin or PLUGIN))
            return made.lastrowid

    def get(self, id, owner=None, **more):
        for (text,) in self._base().execute('SELECT text FROM notes WHERE rowid = ?', (id,)):
            return {'text': text}

    def update(self, id, text=None, **more):
        with self._base() as base:
            return base.execute('UPDATE notes SET text = ? WHERE rowid = ?', (text, id)).rowcount > 0

    def delete(self, id, **more):
        with self._base() as base:
            return base.execute('DELETE FROM notes WHERE rowid = ?', (id,)).rowcount > 0

    def search(self, words, limit=1000, owner=None, **more):
        # The owner is a word more of the query.
        query = f'owner : "{owner or OWNER}" AND {words}'
        _noted(f'search {words}')
        found = self._base().execute('SELECT rowid, text FROM notes WHERE notes MATCH ? LIMIT ?', (query, limit))
        return {'notes': [{'id': id, 'excerpt': text} for id, text in found]}

    def list(self, owner=None, tags=[], **more):
        found = self._base().execute('SELECT rowid, text FROM notes WHERE owner = ?', (owner or OWNER,))
        return {'notes': [{'id': id, 'excerpt': text} for id, text in found]}

ctx.llm, ctx.memory = _Llm(), _Memory()
"""


class Models(Server):
    """
    A service with models.  ``say`` gets the body of a question and its head, and may change what is answered: a dict
    with ``text``, ``usage``, ``pieces`` (of a stream), ``before`` and ``whole`` (all of an answer, as bytes).

    ``asked`` are the questions that came.
    """

    def __init__(self, say: Say) -> None:
        self._how = say
        self.asked: list[dict[str, Any]] = []
        super().__init__(lambda _: [], "127.0.0.1", 0)

    def _talk(self, connection: socket.socket) -> None:
        connection.settimeout(2)
        data = b""
        while b"\r\n\r\n" not in data:
            data += _more(connection)
        head, _, body = data.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b":", 1) for line in head.split(b"\r\n")[1:])
        while len(body) < int(fields.get(b"content-length", b"0")):
            body += _more(connection)
        asked = json.loads(body)
        self.asked.append(asked)
        made = {"text": "yes", "usage": DEAREST, **self._how(asked, head)}
        if "before" in made:
            made["before"]()
        if "whole" in made:
            connection.sendall(made["whole"])
        elif asked.get("stream"):
            self._stream(connection, made)
        else:
            reply = {"choices": [{"message": {"content": made["text"]}}], "usage": made["usage"]}
            connection.sendall(answer(json.dumps(reply).encode()))

    @staticmethod
    def _stream(connection: socket.socket, made: Mapping[str, Any]) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
        for piece in made.get("pieces", [made["text"]]):
            event = {"choices": [{"delta": {"content": piece}}]}
            connection.sendall(b"data: " + json.dumps(event).encode() + b"\n\n")
            time.sleep(made.get("between_s", 0.0))
        connection.sendall(b"data: " + json.dumps({"usage": made["usage"]}).encode() + b"\n\ndata: [DONE]\n\n")


def _more(connection: socket.socket) -> bytes:
    data = connection.recv(1 << 16)
    if not data:
        raise OSError("whoever asked has gone")
    return data


def _plain(_asked: dict[str, Any], _head: bytes) -> dict[str, Any]:
    return {}


def serve(arena: Arena, say: Say = _plain) -> Models:
    """A service for the time of this attempt.  Raises Skip where there is no client of HTTP."""
    if importlib.util.find_spec("httpcore2") is None:
        raise Skip("no client of HTTP is installed; it comes with fastness[net]")
    made = Models(say)
    arena.keep(made)
    return made


def settings(server: Models) -> Settings:
    """The operator's words about a service."""
    url = f"http://models.test:{server.port}/v1"
    return settings_of({"url": url, "address": "127.0.0.1", "tiers": TIERS})


def toml(server: Models) -> str:
    """The same, as they stand in a configuration."""
    lines = ["[llm]", f'url = "http://models.test:{server.port}/v1"', 'address = "127.0.0.1"']
    for tier, priced in TIERS.items():
        lines += [f"[llm.tiers.{tier}]", *(f"{name} = {json.dumps(value)}" for name, value in priced.items())]
    return "\n".join(lines) + "\n"


def broker(arena: Arena, server: Models | None = None, *, key: str = "") -> brokering.Broker:
    """A broker that asks this service, with this credential, and remembers."""
    folder = arena.folder / "broker"
    more: dict[str, Any] = {"memory": Memory(str(folder / "memory"))}
    if server is not None:
        path = arena.shared_folder(0o700) / "llm.key"
        if key:
            path.touch(0o600)
            path.write_text(key)
        more["llm"] = Llm(settings(server), Ledger(str(folder / "usage.db")), key=str(path) if key else None)
    made = brokering.Broker(arena, more=more)
    (folder / "memory").mkdir(0o700)
    return made


def control(arena: Arena, code: str, server: Models | None = None, **facts: Any) -> Bare:
    """The same text before a careless host."""
    given = {"DATABASE": str(arena.folder / "careless.db"), "BUDGET": 0, "PORT": 0 if server is None else server.port}
    return brokering.control(arena, CARELESS + code, **{**given, **facts})


def noted(memory: Memory, owner: str, plugin: str = "plugin") -> Sequence[str]:
    """The texts of what is remembered."""
    return [note["text"] for note in memory.export(owner, plugin)]
