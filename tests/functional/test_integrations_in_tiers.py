"""``integrations`` from inside a guest of each tier, with a server of mail on loopback and a trail of its own."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import house
import mails
from fastness import config
from fastness.audit import reading
from fastness.audit.log import AuditLog
from fastness.audit.verify import verify
from fastness.backends.base import Backend, Report, Staged
from fastness.backends.native import NativeBackend
from fastness.backends.wasm import WasmBackend
from fastness.backends.worker import WorkerBackend
from fastness.broker.calls import RunCalls
from fastness.broker.gate import Gate
from fastness.capabilities.integrations import SPEC, Counts, Email, Integrations, IntegrationsScope
from fastness.capability import Scope
from fastness.errors import ConfigurationError
from fastness.metering.ledger import Ledger
from fastness.metering.meter import Meter
from fastness.plugins.blocking import PluginHost
from fastness.runner import request as requests
from fastness.runs import DenialCode, OutcomeKind
from fastness.tier import Tier
from fastness.waiting import ThreadWaiting, drive
from plugin_homes import own_home, package, rows

PLACES = [
    ("wasm", "python"),
    ("wasm", "javascript"),
    ("isolated", "python"),
    ("confined", "python"),
    ("worker", "python"),
]
SCOPE = IntegrationsScope(
    actions=("email.send", "sms.send", "tickets.open"), per_day=5, recipients=("example.com",), targets=("tickets.open:a*",)
)  # fmt: skip


class Open(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    project: str


class Tickets:
    """An integration of an operator's."""

    name, arguments, summary, credential = "tickets.open", Open, "Open a ticket.", None

    def targets(self, arguments: Open) -> list[str]:
        return [arguments.project]

    async def run(self, arguments: Open, context: Any) -> Any:
        context.effect = True
        return {"opened": arguments.project, "for": context.owner}

    async def aclose(self) -> None: ...


@pytest.fixture(scope="module", params=PLACES, ids="-".join)
def place(request: pytest.FixtureRequest) -> Iterator[tuple[Backend, str]]:
    """A backend and a runtime."""
    tier, runtime = request.param
    house.require(f"{runtime} guest" if tier == "wasm" else f"{tier} tier")
    made: Backend
    if tier == "wasm":
        made = WasmBackend(waiting=ThreadWaiting())
    elif tier == "worker":
        made = WorkerBackend(waiting=ThreadWaiting())
    else:
        made = NativeBackend(Tier(tier), waiting=ThreadWaiting())
    yield made, runtime
    drive(made.aclose())


class World:
    """What one plugin may ask of integrations, and runs of it."""

    def __init__(self, place: tuple[Backend, str], base: Path) -> None:
        self.backend, self.runtime = place
        self.base = base
        self.server = mails.Mails()
        self.log = AuditLog(str(base / "audit.db"), str(base / "audit.key"))
        self.ledger = Ledger(str(base / "usage.db"))
        email = Email(self.server.settings(user="robot"), password=mails.password_file(base))
        self.adapter = Integrations([email, Tickets()], Counts(str(base / "counts.db")))
        self.report: Report | None = None
        self.denials: tuple[Any, ...] = ()

    def value(self, python: str, javascript: str, scope: Scope = SCOPE, owner: str = "ann") -> Any:
        gate = Gate({"integrations": scope}, {"integrations": SPEC}, {"integrations": self.adapter})
        meter = Meter(self.ledger, "p", owner)
        calls = RunCalls(
            gate, self.log, run="r", plugin="p", owner=owner, calls=1000, value_bytes=4 << 20,
            deadline=time.monotonic() + 60, meter=meter,
        )  # fmt: skip
        code = python if self.runtime == "python" else javascript
        preload = {"preload": ()} if self.runtime == "python" else {}
        request: Any = requests.make(code, {"runtime": self.runtime, "timeout": 30, **preload}, {})
        report = drive(self.backend.run(request, Staged(), None, calls))
        calls.close()
        meter.end(report.usage.cpu_s)
        self.denials = calls.denials()[0]
        assert report.outcome.kind is OutcomeKind.OK, (report.outcome, report.stderr)
        return report.value

    def rows(self, **wanted: Any) -> list[Any]:
        assert verify(self.log.path, self.log.key).whole
        found = reading.records(self.log.path)
        return [row for row in found if all(getattr(row, name) == value for name, value in wanted.items())]


@pytest.fixture
def world(place: tuple[Backend, str], tmp_path: Path) -> Iterator[World]:
    made = World(place, tmp_path)
    yield made
    made.log.close()
    made.server.close()


def test_a_mail(world: World) -> None:
    """It is sent and on record, and no word of it and no credential is in any record."""
    value = world.value(
        "r = ctx.integrations.email.send('ann@example.com', 'marrowbone', 'the marrowbone\\n.\\n'); sorted(r), r['recipients']",
        "const r = await ctx.integrations.email.send('ann@example.com', 'marrowbone', 'the marrowbone\\n.\\n'); "
        "[Object.keys(r).sort(), r.recipients]",
    )
    assert value == [["id", "recipients"], 1]
    (taken,) = world.server.taken
    assert (taken.to, taken.user, taken.message["Subject"]) == (["ann@example.com"], "robot", "marrowbone")
    intent, outcome = world.rows(capability="integrations")
    assert (intent.op, intent.target, intent.phase) == ("email.send", "ann@example.com", "intent")
    assert (outcome.target, outcome.code, outcome.decision) == ("ann@example.com", "", "allowed")
    kept = b"".join(path.read_bytes() for path in world.base.glob("audit*") if path.is_file())
    assert b"marrowbone" not in kept
    assert mails.PASSWORD.encode() not in kept
    (row,) = [row for row in world.ledger.used(owner="ann") if row.kind == "integrations"]
    assert (row.calls, row.bytes_out) == (1, len("ann@example.commarrowbonethe marrowbone\n.\n"))


def test_what_there_is(world: World) -> None:
    """What is granted and done by somebody, by its names; what nobody does is not there, and neither is the rest."""
    value = world.value(
        "[sorted(vars(ctx.integrations)), sorted(vars(ctx.integrations.email)), getattr(ctx.integrations, 'sms', None) is None]",
        "[Object.keys(ctx.integrations).sort(), Object.keys(ctx.integrations.email), ctx.integrations.sms === undefined]",
    )
    assert value == [["email", "tickets"], ["send"], True]
    value = world.value(
        "[getattr(ctx, 'integrations', None) is None]", "[ctx.integrations === undefined]", IntegrationsScope(actions=("sms.send",), per_day=1)
    )  # fmt: skip
    assert value == [True]


def test_an_action_that_nobody_does(world: World) -> None:
    """Asked for by hand it is refused as that, and what was not granted as that; both are on record."""
    if world.runtime != "python":
        pytest.skip("a guest in Python shows it")
    value = world.value(
        "import sys\nask = ctx.integrations.email.send.__closure__\n"
        "calls = next(c.cell_contents for c in ask if hasattr(c.cell_contents, 'begin'))\n"
        "codes = []\n"
        "for action in ('sms.send', 'email.read', 'email', 'credentials.read'):\n"
        "  try: calls.wait(calls.begin('integrations', action, {}), action)\n  except ctx.Refused as e: codes.append(e.code)\n"
        "codes",
        "",
    )
    assert value == ["no_adapter", "not_granted", "not_granted", "not_granted"]
    assert [row.code for row in world.denials] == [DenialCode.NO_ADAPTER, *[DenialCode.NOT_GRANTED] * 3]
    assert [row.code for row in world.rows(decision="refused")] == value


def test_what_is_refused(world: World) -> None:
    """Somebody else, a second header, more than a day has: no mail leaves."""
    value = world.value(
        "def code(**given):\n  try: ctx.integrations.email.send(**{'to': 'ann@example.com', 'subject': 's', 'text': 't', **given})\n"
        "  except ctx.Refused as e: return e.code\n"
        "[code(to='eve@evil.test'), code(subject='a\\r\\nBcc: eve@evil.test'), code(to='eve%evil.test@example.com'), "
        "code(to='ann@example.com>\\r\\nRCPT TO:<eve@evil.test'), code(to=[f'a{n}@example.com' for n in range(6)]), code(text='x' * 300000)]",
        "const code = async (given) => { try { await ctx.integrations.email.send({to: 'ann@example.com', subject: 's', text: 't', ...given}) } "
        "catch (e) { return e.code } };\n"
        "[await code({to: 'eve@evil.test'}), await code({subject: 'a\\r\\nBcc: eve@evil.test'}), await code({to: 'eve%evil.test@example.com'}), "
        "await code({to: 'ann@example.com>\\r\\nRCPT TO:<eve@evil.test'}), await code({to: [0,1,2,3,4,5].map(n => `a${n}@example.com`)}), "
        "await code({text: 'x'.repeat(300000)})]",
    )
    assert value == ["not_granted", "header", "unsupported", "header", "quota", "too_large"]
    assert world.server.came == 0


def test_an_integration_of_the_operator(world: World) -> None:
    """Typed arguments, and what it acts on by the grant."""
    value = world.value(
        "def code(**given):\n  try: ctx.integrations.tickets.open(**given)\n  except (ctx.Refused, TypeError) as e: return getattr(e, 'code', 'none')\n"
        "[ctx.integrations.tickets.open('a1'), code(project='b'), code(project=1), code(project='a', owner='bob')]",
        "const code = async (given) => { try { await ctx.integrations.tickets.open(given) } catch (e) { return e.code ?? 'none' } };\n"
        "[await ctx.integrations.tickets.open('a1'), await code({project: 'b'}), await code({project: 1}), await code({project: 'a', owner: 'bob'})]",
    )
    assert value == [{"opened": "a1", "for": "ann"}, "not_granted", "invalid", value[3]]
    # In Python there is no such argument; in JavaScript it is one value, and no text.
    assert value[3] == ("none" if world.runtime == "python" else "invalid")


def test_what_the_page_says(world: World) -> None:
    """The program of the page does what stands beside it."""
    if world.runtime != "python":
        pytest.skip("it is in Python")
    text = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
    (tell,) = re.findall(r"```python\n(def tell.*?)```", text, re.DOTALL)
    assert world.value(tell + "tell(ctx, 'it is done')", "") is True
    assert world.server.taken[0].message.get_content().split() == ["it", "is", "done"]
    assert world.value(tell + "tell(ctx, 'x')", "", IntegrationsScope(actions=("tickets.open",), per_day=1)) is False


# the host of plugins

WANTS = {
    "kind": "integrations", "actions": ["email.send", "tickets.open"], "per_day": 2, "recipients": ["example.com"],
    "targets": ["tickets.open:a*"], "reason": "It tells you.",
}  # fmt: skip
CODE = """
def send(ctx, to):
    try:
        return ctx.integrations.email.send(to, "s", "t")["recipients"]
    except ctx.Refused as error:
        return error.code

def has(ctx):
    found = getattr(ctx, "integrations", None)
    return None if found is None else sorted(vars(found))
"""


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    house.require("isolated tier")
    (tmp_path / "home").mkdir(mode=0o700)
    with own_home(tmp_path / "home") as made:
        (made / "config").mkdir(mode=0o700)
        yield made


def write(base: Path, text: str) -> None:
    path = base / "config" / "config.toml"
    path.write_text(text)
    path.chmod(0o600)
    config.forget()


def test_a_host_of_plugins(base: Path) -> None:
    """The configuration says which server; without one the capability is absent and shown as that."""
    folder = package(base / "p", CODE, [WANTS], methods=["send", "has"])
    with PluginHost() as host:
        host.install(folder)
        host.grant("hello", owner="ann", all=True)
        assert [want.offered for want in host.show("hello").wants] == [False]
        assert host.invoke("hello", "has", owner="ann").value is None
    server = mails.Mails()
    try:
        write(base, server.toml(user="robot"))
        mails.password_file(base / "config")
        with PluginHost() as host:
            assert host.invoke("hello", "has", owner="ann").value == ["email"]
            # It asks for more than is done here.
            assert [want.offered for want in host.show("hello").wants] == [False]
            for wanted in (1, 1, "quota"):
                assert host.invoke("hello", "send", {"to": "ann@example.com"}, owner="ann").value == wanted
            assert {row.kind for row in host.usage(owner="ann")} >= {"integrations"}
        with PluginHost(integrations=[Tickets()]) as host:
            assert host.invoke("hello", "has", owner="ann").value == ["email", "tickets"]
            assert [want.offered for want in host.show("hello").wants] == [True]
            host.revoke("hello", owner="ann")
        assert [taken.user for taken in server.taken] == ["robot", "robot"]
        found = rows(base, capability="integrations", phase="outcome")
        assert [row.code for row in found] == ["", "", "quota"]
    finally:
        server.close()


MAIL = "[integrations.email]\nserver = 'm.example'\nsender = 'r@m.example'\n"


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[integrations]\nuses = []\n", "integrations.uses"),
        ("[integrations]\nuse = 'tickets.open'\n", "integrations.use"),
        ("[integrations]\nemail = 'm.example'\n", "integrations.email"),
        ("integrations = 1\n", "integrations"),
        (MAIL + "tls = 'none'\n", "integrations.email.tls"),
        (MAIL + "password = 'relative'\nuser = 'u'\n", "integrations.email.password"),
        (MAIL + "from = 'x@m.example'\n", "integrations.email.from"),
        (MAIL + "address = '169.254.169.254'\n", "integrations.email.address"),
    ],
    ids=lambda value: value if "\n" not in value else "",
)
def test_words_of_the_operator_that_mean_nothing(text: str, field: str, base: Path) -> None:
    """Each is refused by its name when the file is read, and nothing runs under it."""
    write(base, text)
    with pytest.raises(ConfigurationError) as caught:
        PluginHost()
    assert caught.value.field.startswith(f"{field} in ")


def test_an_integration_that_nobody_brings(base: Path) -> None:
    """A name that no installed package has is told when it is first needed, and nothing runs without it."""
    write(base, "[integrations]\nuse = ['tickets.open']\n")
    folder = package(base / "p", CODE, [WANTS], methods=["send", "has"])
    with PluginHost() as host, pytest.raises(ConfigurationError, match="that installed packages bring"):
        host.install(folder)
