"""``fastness plugin call``: arguments, what is printed of a value, exit codes, and the command that grants what was refused."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from fastness.broker.functions import Functions
from fastness.capabilities.net import NetScope
from fastness.capabilities.registry import specs
from fastness.capabilities.storage import StorageScope
from fastness.cli import plugin_host
from fastness.cli.main import main
from fastness.cli.plugin_call import arguments
from fastness.errors import ConfigurationError, GrantError, PolicyError
from fastness.grant import Ceiling, Grant, open_ceiling
from fastness.limits import Limits
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
        self.ceiling = open_ceiling(("net", "storage", "host"))
        self.manifest = MANIFEST
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
        known = {**specs(), "host": Functions({}).spec}
        one, lacking = self.plugins()[0], ("host",)
        return shown(one, self.manifest, list(self.grants), "isolated", self.ceiling, known, lacking)


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


@pytest.mark.parametrize(
    ("detail", "kinds"),
    [("AttributeError: 'Context' object has no attribute 'net'", ["net"]),
     ("AttributeError: 'NoneType' object has no attribute 'put'", ["storage"]),
     ("TypeError: cannot read property 'request' of undefined", ["net"]),
     ("TypeError: cannot read property 'get' of null", ["storage"]),
     ("TypeError: fetch() missing 1 required positional argument: 'city'", []),
     ("TypeError: fetch() got an unexpected keyword argument 'town'", []),
     ("AttributeError: module 'weather' has no attribute 'ghost'", []),
     ("AttributeError: 'Context' object has no attribute 'process'", []),
     ("ValidationError: Expected `str`, got `int`", []),
     ("TypeError: cannot read property 'name' of undefined", []),
     ("", [])],
)  # fmt: skip
def test_only_what_a_call_looked_for_is_suggested(host: Host, capfd: Capture, detail: str, kinds: list[str]) -> None:
    """A failure of another cause is no reason to grant anything; and a command names what it adds, and never all."""
    host.result = ended(OutcomeKind.GUEST_ERROR, detail=detail)
    host.grants = (grant(lookups=("cache:*",)),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    err = capfd.readouterr().err
    allow = " ".join(f"--allow {kind}" for kind in kinds)
    assert told(err) == ([f"fastness plugin grant weather --owner me {allow} --lookup 'cache:*'"] if kinds else [])
    assert ("asks for more" in err) == bool(kinds)


@pytest.mark.parametrize(
    "kind", [kind for kind in OutcomeKind if kind not in (OutcomeKind.OK, OutcomeKind.GUEST_ERROR)]
)
def test_an_end_from_outside_suggests_no_grant(host: Host, capfd: Capture, kind: OutcomeKind) -> None:
    """Whatever a guest prints as it is ended."""
    host.result = ended(kind, detail="AttributeError: 'Context' object has no attribute 'net'")
    host.grants = (grant(),)
    main(["plugin", "call", "weather", "fetch"])
    assert told(capfd.readouterr().err) == []


def test_a_narrow_grant_stays_narrow(host: Host, capfd: Capture) -> None:
    """What is missing is added; of what was granted for less nothing is."""
    host.result = ended(OutcomeKind.GUEST_ERROR, detail="AttributeError: 'Context' object has no attribute 'storage'")
    host.grants = (grant(NetScope(hosts=("a.example",))),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    (line,) = told(capfd.readouterr().err)
    assert shlex.split(line)[6:] == ["--allow", 'net:{"hosts":["a.example"]}', "--allow", "storage"]


def test_a_refused_host_says_one_thing(host: Host, capfd: Capture) -> None:
    """That another capability was not granted has nothing to do with it."""
    host.result = ended(
        OutcomeKind.GUEST_ERROR, detail="Refused: net.request: host", denials=(refused("net", DenialCode.HOST),)
    )
    host.grants = (grant(NET),)
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    err = capfd.readouterr().err
    assert (told(err), "storage" in err, err.count("no grant gives it")) == ([], False, 1)


def test_an_address_is_the_operator_s_to_allow(host: Host, capfd: Capture) -> None:
    """A host that is granted, at an address that is not: the table of the configuration that lets it be reached."""
    host.grants = (grant(NET, STORAGE),)
    host.result = ended(OutcomeKind.GUEST_ERROR, denials=(refused("net", DenialCode.ADDRESS),))
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    err = capfd.readouterr().err
    assert "[[net.allow]]" in err
    assert "config.toml" in err


def test_what_the_operator_keeps_absent_is_said(host: Host, capfd: Capture) -> None:
    """No command grants it, and whoever calls is told why."""
    host.ceiling = Ceiling(tiers=("isolated",), kinds=("storage",))
    host.grants = (grant(STORAGE),)
    host.result = ended(OutcomeKind.GUEST_ERROR, detail="TypeError: cannot read property 'request' of undefined")
    assert main(["plugin", "call", "weather", "fetch"]) == 1
    err = capfd.readouterr().err
    assert told(err) == []
    assert "ctx.net is absent: the operator permits it to no plugin ([ceiling] in " in err


def test_functions_are_a_program_s(host: Host, capfd: Capture) -> None:
    """They are granted and absent all the same, for there are none on the command line."""
    scope = Functions({"ask": lambda: ""}).spec.scope(names=("ask",))
    host.manifest = msgspec.structs.replace(
        MANIFEST, capabilities=(Request(kind="host", scope=scope, reason="To ask."),), lookups=()
    )
    for grants in (grant(scope), grant()):
        host.grants = (grants,)
        host.result = ended(OutcomeKind.GUEST_ERROR, detail="AttributeError: 'Context' object has no attribute 'host'")
        assert main(["plugin", "call", "weather", "fetch"]) == 1
        err = capfd.readouterr().err
        assert (told(err), "fastness.PluginHost(functions=...)" in err) == ([], True)


@pytest.mark.parametrize(
    ("asked", "permitted", "words", "says"),
    [({"wall_s": 3.0}, {}, [], "Its plugin.toml asks for no more than 3 s: wall_s in [limits]"),
     ({"wall_s": 60.0}, {"wall_s": 5.0}, [], "The operator permits no more than 5 s: wall_s in [ceiling.limits]"),
     ({"wall_s": 3.0}, {}, ["--timeout", "2"], "Raise it with --timeout SECONDS, at most 3."),
     ({"wall_s": 3.0}, {}, ["--timeout", "3"], "Its plugin.toml asks for no more than 3 s")],
)  # fmt: skip
def test_what_lifts_a_limit(
    host: Host, capfd: Capture, asked: dict[str, Any], permitted: dict[str, Any], words: list[str], says: str
) -> None:
    """An option only where there is one, and only as far as it goes; else whose limit it is."""
    host.manifest = msgspec.structs.replace(MANIFEST, limits=Limits(**asked))
    host.ceiling = msgspec.structs.replace(host.ceiling, limits=Limits(**{"wall_s": 100.0, **permitted}))
    host.grants = (grant(NET, STORAGE),)
    host.result = ended(OutcomeKind.TIMEOUT)
    assert main(["plugin", "call", "weather", "fetch", *words]) == 4
    assert says in capfd.readouterr().err


@pytest.mark.parametrize(
    ("kind", "field"),
    [(OutcomeKind.MEMORY, "512 MiB: memory"), (OutcomeKind.CPU, "30 s: cpu_s"), (OutcomeKind.CALL_LIMIT, "10000: calls"),
     (OutcomeKind.OUTPUT_LIMIT, "256 MiB: output_total_bytes"), (OutcomeKind.DISK, "256 MiB: file_bytes")],
)  # fmt: skip
def test_no_option_is_named_that_is_not_there(host: Host, capfd: Capture, kind: OutcomeKind, field: str) -> None:
    """``call`` has an option for seconds alone."""
    host.grants = (grant(NET, STORAGE),)
    host.result = ended(kind)
    assert main(["plugin", "call", "weather", "fetch"]) == 4
    err = capfd.readouterr().err
    assert f"{field} in [limits]" in err
    assert "--" not in err


def test_more_seconds_than_there_are(host: Host, capfd: Capture) -> None:
    """Who asks for more than the policy has is told whose limit that is."""
    host.manifest = msgspec.structs.replace(MANIFEST, limits=Limits(wall_s=3.0))
    host.result = ConfigurationError("timeout", 6.0, "more than 0 and at most 3 seconds")
    assert main(["plugin", "call", "weather", "fetch", "--timeout", "6"]) == 2
    assert "at most 3 seconds: wall_s in [limits] of its plugin.toml" in capfd.readouterr().err


def test_a_tier_that_the_operator_does_not_permit(host: Host, capfd: Capture) -> None:
    """The commands that move it to one that is permitted, where it may run there."""
    host.ceiling = Ceiling(tiers=("wasm", "worker"), kinds=("net", "storage"))
    host.result = PolicyError("tier", "isolated", "wasm: that is what the operator permits")
    assert main(["plugin", "call", "weather", "fetch"]) == 2
    err = capfd.readouterr().err
    assert "it runs in the tier isolated, and the operator permits wasm, worker" in err
    # A weaker one is none that the way out leads to.
    assert told(err) == ["fastness plugin tier weather wasm"]


def test_a_version_that_asks_for_more(host: Host, capfd: Capture) -> None:
    """It is said as what it is, with what is new, and not as a matter of files."""
    host.grants = (grant(NET, package_digest="b" * 64),)
    host.result = GrantError("grant", "that of me is for other files", "one for 1.0.0")
    assert main(["plugin", "call", "weather", "fetch"]) == 2
    err = capfd.readouterr().err
    assert "weather 1.0.0 asks for more than the owner me granted to the version before:\n  + storage: " in err
    assert "other files" not in err


def test_a_refusal_beyond_the_grant_but_within_the_wish(host: Host, capfd: Capture) -> None:
    """A row of the broker's for a capability of which less was granted than asked: the command, though the call was ok."""
    host.result = ended(value=1, denials=(refused("net", DenialCode.HOST),))
    host.grants = (grant(NetScope(hosts=("a.example",)), STORAGE, lookups=("cache:*",)),)
    assert main(["plugin", "call", "weather", "fetch"]) == 0
    err = capfd.readouterr().err
    assert told(err) == ["fastness plugin grant weather --owner me --allow net --allow storage --lookup 'cache:*'"]
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
    host.result = ended(OutcomeKind.GUEST_ERROR, detail="AttributeError: 'Context' object has no attribute 'net'")
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
