"""``fastness plugin call``: arguments, what is printed of a value, exit codes, and the command that grants what was refused."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from fastness.capabilities.net import NetScope
from fastness.capabilities.registry import specs
from fastness.capabilities.storage import StorageScope
from fastness.cli import plugin_host
from fastness.cli.main import main
from fastness.cli.plugin_call import arguments
from fastness.errors import ConfigurationError, GrantError, PolicyError
from fastness.grant import Ceiling, Grant, open_ceiling
from fastness.manifest import Manifest, Request
from fastness.plugins.shown import Shown, shown
from fastness.plugins.states import Known, Source, State
from fastness.runs import Denial, DenialCode, Outcome, OutcomeKind, RunResult

Capture = pytest.CaptureFixture[str]
DIGEST = "a" * 64
NET = NetScope(hosts=("a.example", "b.example"))
STORAGE = StorageScope(quota=1024)
MANIFEST = Manifest(
    id="weather",
    version="1.0.0",
    entry="weather.py",
    methods=("fetch",),
    capabilities=(
        Request(kind="net", scope=NET, reason="To fetch."),
        Request(kind="storage", scope=STORAGE, reason="To keep."),
    ),
    lookups=("cache:*",),
)


class Host:
    """A host whose next answer is given; it records what it was asked."""

    def __init__(self) -> None:
        self.result: RunResult | Exception = RunResult(outcome=Outcome(OutcomeKind.OK), sandboxed=True)
        self.grants: tuple[Grant, ...] = ()
        self.state = State.ENABLED
        self.why = ""
        self.ceiling = open_ceiling(("net", "storage"))
        self.asked: list[tuple[Any, ...]] = []
        self.says: list[tuple[str, Any]] = []

    def invoke(self, plugin: str, method: str, args: Any, *, owner: str, timeout: Any, on_event: Any) -> RunResult:
        self.asked.append((plugin, method, args, owner, timeout))
        for name, data in self.says:
            on_event(name, data)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def plugins(self) -> list[Known]:
        one = Known(id="weather", version="1.0.0", digest=DIGEST, source=Source.LOCAL, state=self.state, why=self.why)
        return [one]

    def show(self, plugin: str) -> Shown:
        return shown(self.plugins()[0], MANIFEST, list(self.grants), "isolated", self.ceiling, specs())


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    made = Host()

    @contextlib.contextmanager
    def fake() -> Iterator[Host]:
        yield made

    monkeypatch.setattr("fastness.cli.plugin_call.plugin_host", fake)
    return made


def ended(kind: OutcomeKind = OutcomeKind.OK, **more: Any) -> RunResult:
    return RunResult(outcome=Outcome(kind, more.pop("detail", "")), sandboxed=True, **more)


def grant(*scopes: Any, **more: Any) -> Grant:
    return Grant(**{"plugin": "weather", "owner": "me", "allowed": scopes, "package_digest": DIGEST, **more})


def refused(capability: str, code: DenialCode, claimed: bool = False) -> Denial:
    return Denial(
        capability=capability, operation="request", target="GET https://b.example/", code=code, layer="broker",
        claimed=claimed,
    )  # fmt: skip


def told(err: str) -> list[str]:
    """Commands of ours in what was printed."""
    return [line.strip() for line in err.splitlines() if line.strip().startswith("fastness plugin")]


def test_arguments_by_name() -> None:
    """Text as it is, JSON after :=, and an object for all."""
    assert arguments(["city=Oslo", "days:=3", "note=a=b", "empty=", "x:=null"], None) == {
        "city": "Oslo",
        "days": 3,
        "note": "a=b",
        "empty": "",
        "x": None,
    }
    assert arguments(["b=2"], '{"a": [1, {"c": true}]}') == {"a": [1, {"c": True}], "b": "2"}


@pytest.mark.parametrize(
    ("pairs", "text"),
    [(["city"], None), (["=x"], None), ([":=1"], None), (["a:={"], None), (["a=1", "a=2"], None), ([], "[1]"), ([], "{"),
     (["a=1"], '{"a": 1}'), ([], "[" * 5000)],
)  # fmt: skip
def test_arguments_that_are_none(pairs: list[str], text: str | None) -> None:
    """Each mistake is named, and nothing is guessed."""
    with pytest.raises(ConfigurationError):
        arguments(pairs, text)


def test_arguments_from_standard_input(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--args -`` reads them."""
    monkeypatch.setattr("sys.stdin", io.StringIO('{"city": "Oslo"}'))
    assert main(["plugin", "call", "weather", "fetch", "--args", "-", "--owner", "ann", "--timeout", "2"]) == 0
    assert host.asked == [("weather", "fetch", {"city": "Oslo"}, "ann", 2.0)]


def test_the_owner_is_me(host: Host) -> None:
    """Where none is named, it is the one word of the documentation."""
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    assert host.asked == [("weather", "fetch", {}, plugin_host.OWNER, None)]
    assert plugin_host.OWNER == "me"


@pytest.mark.parametrize(
    ("value", "printed"),
    [("rain\x1b[2J", "rain\\x1b[2J\n"), ([1, "a"], '[1, "a"]\n'), (None, ""), (True, "true\n"), (2**60, f'"{2**60}"\n')],
)  # fmt: skip
def test_the_value(host: Host, capfd: Capture, value: Any, printed: str) -> None:
    """A text as it is but for control characters, nothing for None, all else as JSON."""
    host.result = ended(value=value)
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    assert capfd.readouterr().out == printed


def test_output_comes_before_the_value(host: Host, capfd: Capture) -> None:
    """What the plugin prints is passed on; with --json only the one object is."""
    host.result = ended(value="done")
    host.says = [
        ("stdout", b"working\x07\n"),
        ("stderr", b"hm\n"),
        ("log", {"level": "info", "text": "so\x9b\nfastness: granted"}),
    ]
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ("working\\x07\ndone\n", "hm\ninfo: so\\x9b\\nfastness: granted\n")
    assert main(["plugin", "call", "weather", "fetch", "--json"]) == 0
    out, err = capfd.readouterr()
    assert json.loads(out)["value"] == "done"
    assert (json.loads(out)["schema"], err) == (1, "")


@pytest.mark.parametrize(
    ("kind", "code"),
    [(OutcomeKind.GUEST_ERROR, 1), (OutcomeKind.CRASHED, 1), (OutcomeKind.PROTOCOL, 1), (OutcomeKind.TIMEOUT, 4),
     (OutcomeKind.CALL_LIMIT, 4), (OutcomeKind.CANCELLED, 130)],
)  # fmt: skip
def test_exit_codes(host: Host, kind: OutcomeKind, code: int) -> None:
    """As for runs."""
    host.result = ended(kind)
    host.grants = (grant(NET, STORAGE, lookups=("cache:*",)),)
    assert main(["plugin", "call", "weather", "fetch"]) == code


def test_what_was_absent_can_be_granted(host: Host, capfd: Capture) -> None:
    """Where a call fails and something was not granted: the command, with what is granted already, ready to be copied."""
    host.result = ended(OutcomeKind.GUEST_ERROR, detail="AttributeError: 'Context' object has no attribute 'net'")
    host.grants = (grant(StorageScope(quota=512), lookups=("cache:a b*".replace(" ", "?"),), expires=4e9),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    (line,) = told(capfd.readouterr().err)
    words = shlex.split(line)
    assert words[:6] == ["fastness", "plugin", "grant", "weather", "--owner", "me"]
    assert words[6:12] == ["--allow", "net", "--allow", 'storage:{"quota":512}', "--lookup", "cache:a?b*"]
    assert words[12] == "--expires"
    assert plugin_host.until(words[13]) == 4e9


def test_all_that_is_missing_is_all(host: Host, capfd: Capture) -> None:
    """Where the command would grant everything, it says so in one word."""
    host.result = ended(OutcomeKind.GUEST_ERROR)
    host.grants = (grant(lookups=("cache:*",)),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    assert told(capfd.readouterr().err) == ["fastness plugin grant weather --owner me --all"]


def test_a_refusal_beyond_the_grant_but_within_the_wish(host: Host, capfd: Capture) -> None:
    """A row of the broker's for a capability of which less was granted than asked: the command, though the call was ok."""
    host.result = ended(value=1, denials=(refused("net", DenialCode.HOST),))
    host.grants = (grant(NetScope(hosts=("a.example",)), STORAGE, lookups=("cache:*",)),)
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    err = capfd.readouterr().err
    assert told(err) == ["fastness plugin grant weather --owner me --all"]
    assert "b.example" in err


def test_a_refusal_that_no_grant_lifts(host: Host, capfd: Capture) -> None:
    """Where all that is asked for is granted, no command would help, and none is printed; the same for what is not asked."""
    host.grants = (grant(NET, STORAGE, lookups=("cache:*",)),)
    host.result = ended(denials=(refused("net", DenialCode.HOST), refused("process", DenialCode.NOT_GRANTED)))
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    err = capfd.readouterr().err
    assert told(err) == []
    assert "beyond that" in err
    # What is refused under every grant is no matter of grants.
    host.grants = (grant(NetScope(hosts=("a.example",)), STORAGE),)
    host.result = ended(denials=(refused("net", DenialCode.ADDRESS), refused("storage", DenialCode.ABSENT)))
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    err = capfd.readouterr().err
    assert (told(err), "beyond" in err, "net.request" in err) == ([], False, True)


def test_what_a_guest_claims_grants_nothing(host: Host, capfd: Capture) -> None:
    """A claimed row is no reason to suggest a grant."""
    host.result = ended(denials=(refused("net", DenialCode.HOST, claimed=True),))
    host.grants = (grant(STORAGE),)
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    assert told(capfd.readouterr().err) == []


def test_a_grant_for_other_files_counts_for_nothing(host: Host, capfd: Capture) -> None:
    """What was granted to an earlier version is not carried over by the command that is printed."""
    host.result = ended(OutcomeKind.GUEST_ERROR)
    host.grants = (grant(StorageScope(quota=512), package_digest="b" * 64),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    (line,) = told(capfd.readouterr().err)
    assert "storage:" not in line


def test_what_the_operator_does_not_permit(host: Host, capfd: Capture) -> None:
    """No command is printed that would be refused, or that would change nothing."""
    host.result = ended(OutcomeKind.GUEST_ERROR, denials=(refused("net", DenialCode.HOST),))
    host.ceiling = Ceiling(kinds=("storage",))
    host.grants = (grant(STORAGE),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    assert told(capfd.readouterr().err) == []
    host.ceiling = Ceiling(kinds=("storage",), scopes=(NetScope(hosts=("a.example",)),))
    host.grants = (grant(STORAGE, NetScope(hosts=("a.example",))),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    assert told(capfd.readouterr().err) == []


@pytest.mark.parametrize("error", [GrantError("grant", "none", "a grant"), PolicyError("grant", "it has ended", "one")])
def test_nothing_granted(host: Host, capfd: Capture, error: Exception) -> None:
    """Without a grant, or with one that is over, nothing ran: exit code 2, and the command."""
    host.result = error
    assert main(["plugin", "call", "weather", "fetch", "--owner", "ann b"]) == 2
    assert told(capfd.readouterr().err)[-1] == "fastness plugin grant weather --owner 'ann b' --all"
    host.result = PolicyError("tier", "isolated", "wasm: that is what the operator permits")
    assert main(["plugin", "call", "weather", "fetch"]) == 2
    assert told(capfd.readouterr().err) == []


def test_what_is_quarantined_says_so(host: Host, capfd: Capture) -> None:
    """After the call that it was quarantined for, and instead of the next one: why, and the way out."""
    host.grants = (grant(NET, STORAGE),)
    host.state, host.why = State.QUARANTINED, "it crashed 3 \x1b[2Jtimes"
    host.result = ended(OutcomeKind.CRASHED)
    ways = ["fastness plugin disable weather", "fastness plugin enable weather"]
    for result, code in (
        (host.result, 1),
        (ConfigurationError("plugin", "weather is quarantined", "a plugin that is enabled"), 2),
    ):
        host.result = result
        assert main(["plugin", "call", "weather", "fetch"]) == code
        err = capfd.readouterr().err
        assert told(err) == ways
        assert "it crashed 3 \\x1b[2Jtimes" in err


@pytest.mark.parametrize("text", ["yesterday", "0", "2001-01-01", "99999999999999999999d", "nan", ""])
def test_times_that_are_not_ahead(text: str) -> None:
    with pytest.raises(ConfigurationError):
        plugin_host.until(text)
