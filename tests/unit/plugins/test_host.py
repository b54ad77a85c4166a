"""The host of plugins, as far as no guest is needed: installs, grants, states, records, and plugins of data."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import fastness
from fastness import Ceiling
from fastness.capabilities.fs import FsScope
from fastness.capabilities.net import AddressGuard, Net
from fastness.capabilities.process import ProcessScope
from fastness.capabilities.storage import StorageScope
from fastness.errors import (
    AdapterError,
    BackendError,
    ConfigurationError,
    Denied,
    GrantError,
    ManifestError,
    PackageChanged,
    PolicyError,
    QuotaExceeded,
    Revoked,
    TierUnavailable,
)
from fastness.grant import open_ceiling
from fastness.plugins.states import State
from fastness.runner import trail
from fastness.runs import DenialCode, Outcome, OutcomeKind, RunResult
from plugin_homes import FILES, STORAGE, events, own_home, package, rows

DATA: dict[str, Any] = {"runtime": "data", "id": "words", "files": {"a.txt": "one"}}


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    with own_home(tmp_path / "home") as made:
        yield made


@pytest.fixture
def host(base: Path) -> Iterator[fastness.PluginHost]:
    with fastness.PluginHost() as made:
        yield made


def plugin(base: Path, name: str = "p", **fields: Any) -> Path:
    return package(base.parent / name, **{"methods": ["go"], "capabilities": [STORAGE], **fields})


# installing


def test_an_install_copies_and_waits(base: Path, host: fastness.PluginHost) -> None:
    """What is installed is a copy; it waits for a grant, and shows what it asks for in its words and in ours."""
    source = plugin(base, files="def go(ctx): return 1\n")
    found = host.install(source)
    assert (found.id, found.known.state, found.tier) == ("hello", State.AWAITING_GRANT, "isolated")
    assert found.reasons == {"storage": "to count"}
    assert "10000 bytes" in found.risks["storage"]
    assert [want.permitted for want in found.wants] == [True]
    assert found.grants == () and found.new == {}
    copied = base / "data" / "plugins" / found.known.digest / "files" / "main.py"
    assert copied.read_text() == "def go(ctx): return 1\n"
    assert [known.id for known in host.plugins()] == ["hello"]
    assert events(base) == [("install", "", "")]


@pytest.mark.parametrize("source", ["local", "marketplace", "builtin"])
def test_code_without_an_entry_is_refused(source: str, base: Path, host: fastness.PluginHost) -> None:
    """Whoever it is from: nothing is copied, nothing noted."""
    folder = package(base.parent / "p", {"main.py": "x = 1"}, entry="")
    with pytest.raises(ManifestError, match="entry: is missing"):
        host.install(folder, source=source)
    assert host.plugins() == []
    assert not list((base / "data").glob("plugins/[0-9a-f]*"))


def test_an_install_that_fails_is_on_the_record(base: Path, host: fastness.PluginHost) -> None:
    """The record says that it was tried and that it failed."""
    host.install(plugin(base))
    with pytest.raises(ConfigurationError, match="upgrade=True"):
        host.install(plugin(base, "q", version="2.0.0"))
    assert events(base) == [("install", "", ""), ("install", "", ""), ("install", "", "failed")]
    # Why, for whoever reads it later.
    assert "upgrade=True" in rows(base, op="install")[-1].target
    assert host.show("hello").known.version == "1.0.0"


def test_another_source_takes_no_id(base: Path, host: fastness.PluginHost) -> None:
    """A stranger's plugin cannot be the upgrade of one of ours."""
    host.install(plugin(base), source="builtin")
    with pytest.raises(ConfigurationError, match="builtin"):
        host.install(plugin(base, "q", version="2.0.0"), source="marketplace", upgrade=True)


def test_unknown_plugins(host: fastness.PluginHost) -> None:
    """Every method says that there is no such plugin."""
    for ask in (
        lambda: host.show("nope"),
        lambda: host.grant("nope", owner="ann"),
        lambda: host.revoke("nope", owner="ann"),
        lambda: host.enable("nope"),
        lambda: host.disable("nope"),
        lambda: host.quarantine("nope"),
        lambda: host.remove("nope"),
        lambda: host.set_tier("nope", "wasm"),
        lambda: host.invoke("nope", "go", owner="ann"),
        lambda: host.data("nope", owner="ann"),
        lambda: host.call("nope", "storage.get", owner="ann"),
    ):
        with pytest.raises(ConfigurationError, match="nope"):
            ask()


# granting


def test_grants_by_scope_by_kind_and_all(base: Path, host: fastness.PluginHost) -> None:
    """Each is what was asked for or less, and names the files that were looked at."""
    digest = host.install(plugin(base, capabilities=[STORAGE, FILES], lookups=["cache:*"])).known.digest
    made = host.grant("hello", owner="ann", allowed=[StorageScope(quota=100)], granted_by="a test")
    assert made.allowed == (StorageScope(quota=100),)
    assert (made.package_digest, made.granted_by, made.lookups) == (digest, "a test", ())
    assert host.show("hello").known.state is State.ENABLED
    made = host.grant("hello", owner="ann", allowed=["fs"], lookups=["cache:a"])
    assert made.allowed == (FsScope(read=True, write=True),) and made.lookups == ("cache:a",)
    made = host.grant("hello", owner="bob", all=True)
    assert made.allowed == (StorageScope(quota=10_000), FsScope(read=True, write=True))
    assert made.lookups == ("cache:*",)
    assert [grant.owner for grant in host.show("hello").grants] == ["ann", "bob"]
    assert [row.target.split(";")[0] for row in rows(base, op="grant")] == ["storage", "fs", "fs, storage"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"allowed": [StorageScope(quota=10_001)]}, "storage: not asked for: keep up to 10001"),
        ({"allowed": [FsScope(read=True)]}, "fs: the plugin does not ask for it"),
        ({"allowed": ["storag"]}, "Did you mean 'storage'"),
        ({"allowed": "storage"}, "a list of scopes or kinds"),
        ({"allowed": [7]}, "storage"),
        ({"lookups": ["x"]}, "lookups: not asked for: x"),
        ({"lookups": "cache:*"}, "a list of patterns"),
        ({"lookups": [3]}, "patterns as text"),
        ({"all": True, "allowed": ["storage"]}, "nothing beside it"),
        ({"expires": 5.0}, "in the future"),
        ({"expires": float("nan")}, "in the future"),
        ({"expires": "soon"}, "in the future"),
        ({"owner": ""}, "printable"),
        ({"owner": "a\u202eb"}, "printable"),
        ({"granted_by": "\n"}, "printable"),
    ],
)
def test_grants_that_are_refused(options: dict[str, Any], words: str, base: Path, host: fastness.PluginHost) -> None:
    """Each in words that say what would be accepted; nothing stands, and nothing is on the record but the install."""
    host.install(plugin(base))
    with pytest.raises(ConfigurationError, match=words.replace("(", r"\(")):
        host.grant("hello", **{"owner": "ann", **options})
    assert host.show("hello").grants == ()
    assert events(base) == [("install", "", "")]


def test_a_ceiling_cuts_and_refuses(base: Path) -> None:
    """A kind by its name is granted as far as the operator permits it; a scope that is more is refused."""
    ceiling = Ceiling(tiers=("isolated",), scopes=(StorageScope(quota=50),))
    with fastness.PluginHost(ceiling=ceiling) as host:
        shown = host.install(plugin(base, capabilities=[STORAGE, FILES], limits={"wall_s": 90.0, "memory": "16M"}))
        # What it gets of the limits that it asks for is told before anything runs.
        assert (shown.limits.wall_s, shown.limits.memory) == (30.0, 16 << 20)
        assert [(want.kind, want.permitted) for want in shown.wants] == [("storage", True), ("fs", False)]
        assert host.grant("hello", owner="ann", allowed=["storage"]).allowed == (StorageScope(quota=50),)
        assert host.grant("hello", owner="ann", all=True).allowed == (StorageScope(quota=50),)
        with pytest.raises(GrantError, match="not permitted"):
            host.grant("hello", owner="ann", allowed=[StorageScope(quota=51)])
        with pytest.raises(GrantError, match="operator permits"):
            host.grant("hello", owner="ann", allowed=["fs"])


def test_programs_need_a_tier_when_they_are_granted(base: Path, host: fastness.PluginHost) -> None:
    """Where none can run them that is said at the grant, and nothing stands."""
    asks = {"kind": "process", "runs": 1, "tier": "container", "reason": "to build"}
    host.install(plugin(base, capabilities=[asks]))
    with pytest.raises(TierUnavailable, match="container"):
        host.grant("hello", owner="ann", all=True)
    assert host.show("hello").grants == ()
    # Without programs there is nothing that needs the tier.
    host.grant("hello", owner="ann", allowed=[ProcessScope(runs=0, tier="container")])


def test_nothing_is_granted_that_cannot_be_recorded(
    base: Path, host: fastness.PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant needs its record first; taking away does not wait for one."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)

    def broken(**fields: object) -> None:
        raise BackendError("writing the audit trail", "the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(trail.open_trail(), "event", broken)
        with pytest.raises(BackendError, match="disk is full"):
            host.grant("hello", owner="bob", all=True)
        with pytest.raises(BackendError, match="disk is full"):
            host.revoke("hello", owner="ann")
    assert host.show("hello").grants == ()


# states


def test_states_and_their_records(base: Path, host: fastness.PluginHost) -> None:
    """Disabled, enabled, quarantined and removed, each once on the record."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)
    assert host.disable("hello").state is State.DISABLED
    with pytest.raises(ConfigurationError, match="disabled"):
        host.invoke("hello", "go", owner="ann")
    assert host.enable("hello").state is State.ENABLED
    assert host.quarantine("hello", "it looked odd").state is State.QUARANTINED
    with pytest.raises(ConfigurationError, match="quarantined: it looked odd"):
        host.invoke("hello", "go", owner="ann")
    assert host.remove("hello").state is State.REMOVED
    assert host.plugins() == []
    assert events(base) == [
        ("install", "", ""), ("grant", "ann", ""), ("disable", "", ""), ("invoke", "ann", "disabled"),
        ("enable", "", ""), ("quarantine", "", ""), ("invoke", "ann", "quarantined"), ("remove", "", ""),
    ]  # fmt: skip
    assert rows(base, op="quarantine")[0].target == "it looked odd"


def test_revoking(base: Path, host: fastness.PluginHost) -> None:
    """One owner's, then all; whoever has none is refused before anything runs."""
    host.install(plugin(base))
    for owner in ("ann", "bob", "eve"):
        host.grant("hello", owner=owner, all=True)
    assert host.revoke("hello", owner="ann").ended == 1
    assert host.revoke("hello", owner="ann").ended == 0
    with pytest.raises(GrantError, match="fastness plugin grant hello --owner ann"):
        host.invoke("hello", "go", owner="ann")
    found = host.revoke("hello")
    assert (found.ended, found.in_flight) == (2, ())
    assert host.show("hello").known.state is State.AWAITING_GRANT
    assert [row.target for row in rows(base, op="revoke")] == ["1 ended", "of all owners: 2 ended"]


def test_an_upgrade_that_asks_for_more_waits(base: Path, host: fastness.PluginHost) -> None:
    """The grant that stood is for other files, what is new is told, and a new grant ends the waiting."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)
    more = plugin(base, "q", version="2.0.0", capabilities=[{**STORAGE, "quota": 20_000}, FILES])
    shown = host.install(more, upgrade=True)
    assert shown.known.state is State.AWAITING_GRANT
    assert len(shown.new["ann"]) == 2
    assert "20000" in shown.new["ann"][0] and shown.new["ann"][1].startswith("fs: ")
    assert "asks for more" in shown.known.why
    with pytest.raises(GrantError, match="other files"):
        host.invoke("hello", "go", owner="ann")
    host.grant("hello", owner="ann", all=True)
    assert host.show("hello").new == {}
    assert host.show("hello").known.state is State.ENABLED


def test_a_grant_is_for_what_was_shown(base: Path, host: fastness.PluginHost) -> None:
    """Other files came while somebody looked at the first: nothing is granted, and the record has no grant."""
    seen = host.install(plugin(base)).known.digest
    more = host.install(plugin(base, "q", version="2.0.0", capabilities=[STORAGE, FILES]), upgrade=True).known.digest
    with pytest.raises(GrantError, match=more):
        host.grant("hello", owner="ann", all=True, digest=seen)
    assert host.show("hello").grants == () and rows(base, op="grant") == []
    assert host.grant("hello", owner="ann", all=True, digest=more).package_digest == more


def test_an_upgrade_that_asks_for_no_more_stands(base: Path, host: fastness.PluginHost) -> None:
    """Its grants are for the new files from then on, with a new revision."""
    host.install(plugin(base))
    before = host.grant("hello", owner="ann", all=True)
    shown = host.install(plugin(base, "q", version="1.0.1", files="# mended"), upgrade=True)
    (grant,) = shown.grants
    assert shown.known.state is State.ENABLED
    assert grant.revision > before.revision and grant.package_digest == shown.known.digest != before.package_digest


def test_a_review_ends_with_the_files(base: Path, host: fastness.PluginHost) -> None:
    """The new version runs in the default tier though its grants stand, and the record says so."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)
    host.set_tier("hello", "worker", trust="reviewed")
    shown = host.install(plugin(base, "q", version="1.0.1", files="# mended"), upgrade=True)
    assert (shown.known.state, shown.tier, shown.known.trust) == (State.ENABLED, "isolated", "")
    assert rows(base, op="tier")[-1].target == "worker to default, as nobody has reviewed these files"
    host.set_tier("hello", "wasm")
    assert host.install(plugin(base, "r", version="1.0.2", files="# again"), upgrade=True).tier == "wasm"
    assert len(rows(base, op="tier")) == 3


def test_an_upgrade_to_code_waits(base: Path, words: fastness.PluginHost) -> None:
    """Data that asks for the same and is code now: nobody has granted that, and it says what it waits for."""
    words.grant("words", owner="ann", all=True)
    code = plugin(base, "code", id="words", version="2.0.0", files="def go(ctx): return 1\n")
    shown = words.install(code, upgrade=True)
    assert shown.known.state is State.AWAITING_GRANT
    assert "be python code, where it was data" in shown.known.why
    with pytest.raises(GrantError, match="python code"):
        words.invoke("words", "go", owner="ann")


def test_tiers(base: Path, host: fastness.PluginHost) -> None:
    """Sideways is free, down needs a word, and code of strangers never goes below confined."""
    host.install(plugin(base))
    assert host.set_tier("hello", "wasm").tier == "wasm"
    with pytest.raises(PolicyError, match="reviewed"):
        host.set_tier("hello", "worker")
    assert host.set_tier("hello", "worker", trust="reviewed").trust == "reviewed"
    assert host.show("hello").tier == "worker"
    assert host.set_tier("hello", "").tier == ""
    host.install(plugin(base, "q", id="strange"), source="marketplace")
    with pytest.raises(PolicyError, match="marketplace"):
        host.set_tier("strange", "worker", trust="reviewed")
    assert host.set_tier("strange", "confined", trust="reviewed").tier == "confined"
    with pytest.raises(ConfigurationError, match="Did you mean 'wasm'"):
        host.set_tier("hello", "wasn")
    assert [row.target for row in rows(base, op="tier")] == [
        "default to wasm", "wasm to worker, reviewed", "worker to default", "default to confined, reviewed",
    ]  # fmt: skip


def test_strangers_keep_their_tier_whatever_the_store_says(base: Path, host: fastness.PluginHost) -> None:
    """The rule holds at each invocation and not only where the tier is chosen."""
    host.install(plugin(base), source="marketplace")
    host.grant("hello", owner="ann", all=True)
    host._inner._core.store.set_tier("hello", "worker", "reviewed")
    with pytest.raises(PolicyError, match="marketplace"):
        host.invoke("hello", "go", owner="ann")
    assert ("invoke", "ann", "not_permitted") in events(base)


def test_the_tier_of_a_host(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Argument, variable, default; JavaScript stays in wasm, and weaker than the default is refused."""
    monkeypatch.setenv("FASTNESS_TIER", "wasm")
    with fastness.PluginHost() as host:
        assert host.install(plugin(base)).tier == "wasm"
    with fastness.PluginHost(tier="isolated") as host:
        assert host.show("hello").tier == "isolated"
        script = package(base.parent / "js", "export const go = 1", runtime="javascript", id="script")
        assert host.install(script).tier == "wasm"
    with fastness.PluginHost(tier="worker") as host:
        host.grant("hello", owner="ann", all=True)
        with pytest.raises(PolicyError, match="reviewed"):
            host.invoke("hello", "go", owner="ann")
    monkeypatch.setenv("FASTNESS_ALLOW_UNSANDBOXED", "1")
    with pytest.raises(ConfigurationError, match="never run unsandboxed"):
        fastness.PluginHost(tier="local")


def test_what_an_invocation_refuses(base: Path, host: fastness.PluginHost) -> None:
    """A method, an argument or a time that is none: told before anything runs."""
    host.install(plugin(base, methods=["go", "fetch"], limits={"wall_s": 2.0}))
    host.grant("hello", owner="ann", all=True)
    for method, options, words in (
        ("fetsh", {}, "Did you mean 'fetch'"),
        ("setup", {}, "go, fetch"),
        ("__init__", {}, "go, fetch"),
        (3, {}, "go, fetch"),
        ("go", {"args": ["x"]}, "dict of arguments"),
        ("go", {"args": {"a b": 1}}, "names of parameters"),
        ("go", {"args": {7: 1}}, "names of parameters"),
        ("go", {"timeout": 3}, "at most 2 seconds"),
        ("go", {"timeout": 0}, "more than 0"),
        ("go", {"timeout": float("nan")}, "more than 0"),
        ("go", {"owner": ""}, "printable"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            host.invoke("hello", method, **{"owner": "ann", **options})  # type: ignore[arg-type]  # as a caller might
    assert rows(base, op="invoke", decision="allowed") == []


def test_changed_files_do_not_run(base: Path, host: fastness.PluginHost) -> None:
    """The copy is checked when it is opened and looked at before each run; nothing of a changed one runs."""
    shown = host.install(package(base.parent / "w", capabilities=[STORAGE], **DATA))
    host.grant("words", owner="ann", all=True)
    assert host.data("words", owner="ann")["a.txt"] == b"one"
    copied = base / "data" / "plugins" / shown.known.digest / "files" / "a.txt"
    copied.chmod(0o600)
    copied.write_text("two")
    with pytest.raises(PackageChanged, match=r"a\.txt: it was changed"):
        host.data("words", owner="ann")
    assert events(base)[-1] == ("invoke", "ann", "changed")
    host.install(base.parent / "w")
    assert host.data("words", owner="ann")["a.txt"] == b"one"


def test_misbehaviour_counts_where_nothing_can_be_recorded(
    base: Path, host: fastness.PluginHost, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A violation quarantines, and is told to whoever reads the log."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)
    _, policy = host._inner._core.may("hello", "ann")

    def broken(**fields: object) -> None:
        raise BackendError("writing the audit trail", "the disk is full")

    monkeypatch.setattr(trail.open_trail(), "event", broken)
    host._inner._misbehaved(policy, "run", OutcomeKind.PROTOCOL)
    assert host.show("hello").known.state is State.QUARANTINED
    assert "the disk is full" in caplog.text


def test_what_cannot_be_written_holds_here(
    base: Path, words: fastness.PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grant that cannot be ended on disk is ended for this process, and on disk as soon as that can be written."""
    for owner in ("ann", "bob"):
        words.grant("words", owner=owner, all=True)
    store = words._inner._core.store

    def broken() -> None:
        raise BackendError("changing the plugin store", "the disk is full", "free space")

    with monkeypatch.context() as patch:
        patch.setattr(store, "_changing", broken)
        with pytest.raises(BackendError, match="this process calls it no more meanwhile"):
            words.revoke("words", owner="ann")
        for _ in range(2):
            with pytest.raises(BackendError, match="it was stopped, and that cannot be written: the disk is full"):
                words.call("words", "storage.get", {"key": "a"}, owner="ann")
        assert words.call("words", "storage.get", {"key": "a"}, owner="bob") is None
        with fastness.PluginHost() as other:
            # Another process knows nothing of it.
            assert other.call("words", "storage.get", {"key": "a"}, owner="ann") is None
    assert ("invoke", "ann", "stopped") in events(base)
    with pytest.raises(GrantError, match="nothing"):
        words.call("words", "storage.get", {"key": "a"}, owner="ann")
    assert [one.owner for one in words.show("words").grants] == ["bob"]


def test_a_run_is_stopped_that_the_store_still_allows(base: Path) -> None:
    """What is in flight is cancelled, and a call of the same run that comes afterwards is refused."""
    host, slow = _slow_host(stubborn=False)
    with host:
        host.install(package(base.parent / "w", capabilities=[STORAGE], **DATA))
        host.grant("words", owner="ann", all=True)
        core = host._inner._core
        standing, policy = core.may("words", "ann")
        meter, _ = core.metered(policy, policy.limits, "go")
        calls = core.begin(standing, policy, "run", meter)

        def answer(number: int) -> str:
            ends = time.monotonic() + 10
            while time.monotonic() < ends:
                if found := calls.answers():
                    assert found[0].id == number
                    return found[0].code
                time.sleep(0.01)
            return "nothing"

        calls.submit(1, "storage", "get", b'{"key": "a"}')
        assert slow.begun.wait(10)
        core.stop("words", None, lambda: None)
        assert answer(1) == "revoked"
        slow.let.set()
        calls.submit(2, "storage", "get", b'{"key": "a"}')
        assert answer(2) == "revoked"
        assert slow.done == []
        core.end("run")


@pytest.mark.parametrize("way", ["revoke", "disable", "quarantine", "remove"])
def test_an_end_is_recorded_when_that_can_be(way: str, base: Path, host: fastness.PluginHost) -> None:
    """Somebody holds the trail: it is done, the error says so, and it is on record when the host is closed."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)
    with contextlib.closing(sqlite3.connect(base / "data" / "audit.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BackendError, match=f"{way} of hello is done, and will be recorded"):
            host.revoke("hello", owner="ann") if way == "revoke" else getattr(host, way)("hello")
        other.execute("ROLLBACK")
    host.close()
    assert [op for op, _, _ in events(base)] == ["install", "grant", way]
    assert [one.id for one in host.plugins()] == ([] if way == "remove" else ["hello"])


# plugins of data


@pytest.fixture
def words(base: Path, host: fastness.PluginHost) -> fastness.PluginHost:
    host.install(package(base.parent / "w", capabilities=[STORAGE, FILES], **DATA))
    return host


def test_data_has_a_policy_of_its_own(base: Path, words: fastness.PluginHost) -> None:
    """Without a grant it is not even read; with one, what is done for it is judged and recorded as a guest's calls."""
    with pytest.raises(GrantError):
        words.data("words", owner="ann")
    with pytest.raises(GrantError):
        words.call("words", "storage.put", {"key": "k", "value": 1}, owner="ann")
    words.grant("words", owner="ann", allowed=["storage"])
    assert words.call("words", "storage.put", {"key": "k", "value": [1, b"x", None]}, owner="ann") is None
    assert words.call("words", "storage.get", {"key": "k"}, owner="ann") == [1, b"x", None]
    with pytest.raises(Denied) as caught:
        words.call("words", "fs.write", {"path": "a", "data": b"x"}, owner="ann")
    assert caught.value.code is DenialCode.NOT_GRANTED
    with pytest.raises(Denied):
        words.call("words", "net.request", {"method": "GET", "url": "http://127.0.0.1/"}, owner="ann")
    with pytest.raises(QuotaExceeded):
        words.call("words", "storage.put", {"key": "k", "value": b"x" * 20_000}, owner="ann")
    with pytest.raises(AdapterError):
        words.call("words", "storage.put", {"key": 3}, owner="ann")
    with pytest.raises(ConfigurationError, match="plain data"):
        words.call("words", "storage.put", {"key": "k", "value": print}, owner="ann")
    assert not (base / "data" / "files").exists()
    assert [(row.op, row.phase, row.code) for row in rows(base, capability="storage")][:4] == [
        ("put", "intent", ""), ("put", "outcome", ""), ("get", "intent", ""), ("get", "outcome", ""),
    ]  # fmt: skip


def test_data_has_no_methods_and_code_is_no_data(base: Path, words: fastness.PluginHost) -> None:
    """Each is told that it is the other."""
    words.grant("words", owner="ann", all=True)
    with pytest.raises(ConfigurationError, match="no code to call"):
        words.invoke("words", "go", owner="ann")
    words.install(plugin(base))
    words.grant("hello", owner="ann", all=True)
    with pytest.raises(ConfigurationError, match="is code"):
        words.data("hello", owner="ann")
    with pytest.raises(ConfigurationError, match="is code"):
        words.call("hello", "storage.get", {"key": "k"}, owner="ann")


@pytest.mark.parametrize("operation", [None, 1, b"storage.get", ["storage.get"]])
def test_what_is_no_text_is_no_operation(operation: Any, base: Path, words: fastness.PluginHost) -> None:
    """It is told as what the caller got wrong, and nothing is recorded as if a plugin had asked."""
    words.grant("words", owner="ann", all=True)
    before = len(rows(base))
    with pytest.raises(ConfigurationError, match=r"operation is not accepted: .*; allowed: a kind and what it does"):
        words.call("words", operation, owner="ann")
    assert len(rows(base)) == before


def test_folders_are_of_a_plugin_and_an_owner(base: Path, words: fastness.PluginHost) -> None:
    """Two owners of one plugin see two folders, whatever they are called."""
    for owner in ("ann", "../ann"):
        words.grant("words", owner=owner, all=True)
        words.call("words", "fs.write", {"path": "a", "data": owner}, owner=owner)
    found = sorted(path.read_text() for path in (base / "data" / "files" / "words").glob("*/a"))
    assert found == ["../ann", "ann"]
    assert words.call("words", "fs.read", {"path": "a"}, owner="ann") == b"ann"


def test_nothing_of_earlier_versions_stays(base: Path, host: fastness.PluginHost) -> None:
    """An upgrade takes the files of the version before, a removal all; other plugins keep theirs."""
    folder = base / "data" / "plugins"
    other = host.install(plugin(base, name="o", id="other")).known.digest
    for number in range(4):
        made = host.install(
            plugin(base, f"p{number}", version=f"1.0.{number}", files=f"def go(ctx): return {number}\n"),
            upgrade=number > 0,
        )
        assert set(os.listdir(folder)) == {other, made.known.digest}
    host.remove("hello")
    assert os.listdir(folder) == [other]


def test_files_that_went_while_a_call_came(
    base: Path, host: fastness.PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that began before an upgrade is told of the upgrade, and not that somebody changed its files."""
    source = plugin(base, files="def go(ctx): return 1\n")
    host.install(source)
    host.grant("hello", owner="ann", all=True)
    core = host._host()._core
    may = core.may

    def late(*of: Any) -> Any:
        found = may(*of)
        (source / "main.py").write_text("def go(ctx): return 2\n")
        host.install(source, upgrade=True)
        return found

    monkeypatch.setattr(core, "may", late)
    with pytest.raises(ConfigurationError, match="upgraded or removed just now"):
        host.invoke("hello", "go", owner="ann")


def test_nothing_is_inherited(base: Path, words: fastness.PluginHost) -> None:
    """A plugin of the same id finds nothing of the one that was removed: no grant, no keys, no files, no tier."""
    words.grant("words", owner="ann", all=True)
    words.call("words", "storage.put", {"key": "k", "value": 1}, owner="ann")
    words.call("words", "fs.write", {"path": "a", "data": "x"}, owner="ann")
    digest = words.show("words").known.digest
    words.remove("words")
    assert not (base / "data" / "plugins" / digest).exists()
    assert not (base / "data" / "files" / "words").exists()
    words.install(base.parent / "w")
    with pytest.raises(GrantError):
        words.data("words", owner="ann")
    words.grant("words", owner="ann", all=True)
    assert words.call("words", "storage.get", {"key": "k"}, owner="ann") is None
    assert words.call("words", "fs.list", owner="ann") == {"entries": [], "more": False}


def test_nothing_is_inherited_where_removing_was_broken_off(
    base: Path, words: fastness.PluginHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What could not be deleted at the removal is deleted before the id is installed anew."""
    words.grant("words", owner="ann", all=True)
    words.call("words", "storage.put", {"key": "k", "value": 1}, owner="ann")

    async def fails(self: object, plugin: str) -> None:
        raise AdapterError("the storage is in use; try again")

    with monkeypatch.context() as patch:
        patch.setattr("fastness.capabilities.storage.Storage.forget", fails)
        with pytest.raises(BackendError, match="deleting what words kept"):
            words.remove("words")
        with pytest.raises(AdapterError):
            words.install(base.parent / "w")
    words.install(base.parent / "w")
    words.grant("words", owner="ann", all=True)
    assert words.call("words", "storage.get", {"key": "k"}, owner="ann") is None


def test_a_grant_that_ends_by_itself(base: Path, words: fastness.PluginHost) -> None:
    """After its end nothing runs, and the record says why."""
    words.grant("words", owner="ann", all=True, expires=time.time() + 0.2)
    assert words.call("words", "storage.get", {"key": "k"}, owner="ann") is None
    while True:
        try:
            words.call("words", "storage.get", {"key": "k"}, owner="ann")
        except PolicyError as error:
            assert error.field == "grant"
            break
        time.sleep(0.02)
    assert events(base)[-1] == ("invoke", "ann", "expired")


def test_a_policy_is_kept_until_something_changes(base: Path, words: fastness.PluginHost) -> None:
    """It is the same object while the store is as it was, and another host's revocation is seen by the next look."""
    core = words._inner._core
    words.grant("words", owner="ann", all=True)
    words.grant("words", owner="bob", allowed=["storage"])
    _, first = core.may("words", "ann")
    assert core.may("words", "ann")[1] is first
    assert core.may("words", "bob")[1] is not first
    assert set(core.may("words", "bob")[1].scopes) == {"storage"}
    words.grant("words", owner="ann", allowed=["storage"])
    _, second = core.may("words", "ann")
    assert second.revision > first.revision and set(second.scopes) == {"storage"}
    with fastness.PluginHost() as other:
        other.revoke("words", owner="ann")
    with pytest.raises(GrantError):
        core.may("words", "ann")
    assert core.may("words", "bob")[1].owner == "bob"


# in flight


class Slow:
    """An adapter whose calls end when they are let, or cancelled; or, stubborn, only when they are let."""

    def __init__(self, spec: Any, stubborn: bool = False) -> None:
        self.spec = spec
        self.stubborn = stubborn
        self.begun = threading.Event()
        self.let = threading.Event()
        self.done: list[str] = []

    async def call(self, operation: str, arguments: Any, context: Any) -> Any:
        self.begun.set()
        while not self.let.is_set():
            try:
                await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                if not self.stubborn:
                    raise
        self.done.append(operation)
        return None

    async def aclose(self) -> None:
        pass


def _slow_host(stubborn: bool) -> tuple[fastness.PluginHost, Slow]:
    from fastness.capabilities.storage import SPEC

    slow = Slow(SPEC, stubborn)
    return fastness.PluginHost(adapters={"storage": slow}), slow


def _ask(host: fastness.PluginHost, found: list[BaseException]) -> threading.Thread:
    def work() -> None:
        try:
            host.call("words", "storage.get", {"key": "k"}, owner="ann")
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("way", ["revoke", "revoke all", "disable", "quarantine", "remove", "elsewhere", "grant anew"])
def test_calls_in_flight_are_cancelled(way: str, base: Path) -> None:
    """Whatever takes the grant away, in this process or through another host, cancels what is under way."""
    host, slow = _slow_host(stubborn=False)
    with host, fastness.PluginHost() as other:
        host.install(package(base.parent / "w", capabilities=[STORAGE], **DATA))
        host.grant("words", owner="ann", all=True)
        found: list[BaseException] = []
        thread = _ask(host, found)
        assert slow.begun.wait(20)
        if way == "revoke":
            assert host.revoke("words", owner="ann").in_flight == ()
        elif way == "revoke all":
            assert host.revoke("words").in_flight == ()
        elif way == "elsewhere":
            # Its own host looks by itself; the other one waits for it, and would list it.
            assert other.revoke("words", owner="ann").in_flight == ()
        elif way == "grant anew":
            # Another grant is another policy: this one has ended.
            other.grant("words", owner="ann", allowed=[StorageScope(quota=1)])
        else:
            getattr(host, way)("words")
        thread.join(20)
        assert not thread.is_alive()
        assert isinstance(found[0], Revoked)
        assert slow.done == []
        assert [row.code for row in rows(base, op="get", phase="outcome")] == ["answer_revoked"]


def test_what_does_not_come_to_rest_is_listed(base: Path) -> None:
    """An adapter that cannot be cancelled: the revocation says which call may still happen, whoever revoked."""
    host, slow = _slow_host(stubborn=True)
    with host, fastness.PluginHost() as other:
        host.install(package(base.parent / "w", capabilities=[STORAGE], **DATA))
        host.grant("words", owner="ann", all=True)
        found: list[BaseException] = []
        thread = _ask(host, found)
        assert slow.begun.wait(20)
        for one in (host, other):
            (call,) = one.revoke("words", owner="ann").in_flight
            assert (call.owner, call.capability, call.operation, call.target) == ("ann", "storage", "get", "k")
        slow.let.set()
        thread.join(20)
        assert host.revoke("words", owner="ann").in_flight == ()


def test_a_call_after_a_revocation_elsewhere_is_refused(base: Path, words: fastness.PluginHost) -> None:
    """The very next one, though this host had everything in memory."""
    words.grant("words", owner="ann", all=True)
    words.call("words", "storage.get", {"key": "k"}, owner="ann")
    with fastness.PluginHost() as other:
        other.revoke("words", owner="ann")
    with pytest.raises(GrantError):
        words.call("words", "storage.get", {"key": "k"}, owner="ann")


def test_two_hosts_revoke_at_once(base: Path, words: fastness.PluginHost) -> None:
    """Each grant is ended once, and afterwards none stands."""
    owners = [f"owner {number}" for number in range(12)]
    for owner in owners:
        words.grant("words", owner=owner, all=True)
    ended: list[int] = []
    with fastness.PluginHost() as other:
        threads = [
            threading.Thread(
                target=lambda host=host: ended.append(sum(host.revoke("words", owner=o).ended for o in owners))
            )  # type: ignore[misc]  # a default argument
            for host in (words, other)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sum(ended) == len(owners)
    assert words.show("words").grants == ()
    assert sum(int(row.target.split()[0]) for row in rows(base, op="revoke")) == len(owners)


def test_a_task_that_is_cancelled_leaves_nothing_begun(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelled while a thread begins its run: what the thread has begun by the end is ended, and holds nothing."""
    reached, held = threading.Event(), threading.Event()

    async def main() -> None:
        async with fastness.AsyncPluginHost() as host:
            await host.install(plugin(base))
            await host.grant("hello", owner="ann", all=True)
            core, ended = host._core, threading.Event()
            begin, end = core.begin, core.end

            def slow(*of: Any) -> Any:
                made = begin(*of)
                reached.set()
                assert held.wait(20)
                return made

            def noted(*of: Any, **named: Any) -> None:
                end(*of, **named)
                ended.set()

            monkeypatch.setattr(core, "begin", slow)
            monkeypatch.setattr(core, "end", noted)
            task = asyncio.create_task(host.invoke("hello", "go", owner="ann"))
            await asyncio.to_thread(reached.wait, 20)
            assert len(core._running) == 1
            task.cancel()
            await asyncio.sleep(0.05)
            held.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(ended.wait, 20)
            assert core._running == {}

    asyncio.run(main())
    # Recorded by the same thread, right after.
    ends = time.monotonic() + 20
    while ("end", "ann", "cancelled") not in events(base) and time.monotonic() < ends:
        time.sleep(0.01)
    assert ("end", "ann", "cancelled") in events(base)


class Guests:
    """A runner whose guests go on until they are let, or cancelled, and need a while for either end."""

    def __init__(self, kind: OutcomeKind = OutcomeKind.OK) -> None:
        self.kind = kind
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        self.closed = 0

    async def run(self, request: Any, calls: Any, *, run_id: str = "") -> RunResult:
        try:
            self.begun.set()
            await self.over.wait()
            return RunResult(outcome=Outcome(self.kind), tier=request.tier, runtime="python", run_id=run_id)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.2)
                self.closed += 1

    async def aclose(self) -> None:
        pass


@pytest.mark.parametrize("cancels", [1, 2, 4])
def test_a_task_that_is_cancelled_again(cancels: int, base: Path) -> None:
    """While its guest ends, and while that is recorded: both come to their end, and the run is forgotten."""

    async def main() -> None:
        async with fastness.AsyncPluginHost() as host:
            await host.install(plugin(base))
            await host.grant("hello", owner="ann", all=True)
            guests = Guests()
            host._runner = guests  # type: ignore[assignment]  # it has what an invocation uses
            task = asyncio.create_task(host.invoke("hello", "go", owner="ann"))
            await guests.begun.wait()
            for _ in range(cancels):
                task.cancel()
                await asyncio.sleep(0.02)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (guests.closed, host._core._running) == (1, {})
            # By now, and not by a thread that goes on somewhere.
            assert events(base)[-1] == ("end", "ann", "cancelled")

    asyncio.run(main())


def test_a_violation_that_nobody_waits_for(base: Path) -> None:
    """Its guest has broken the protocol and what it called is coming to rest: it is quarantined all the same."""

    async def main() -> None:
        async with fastness.AsyncPluginHost() as host:
            await host.install(plugin(base))
            await host.grant("hello", owner="ann", all=True)
            guests = Guests(OutcomeKind.PROTOCOL)
            host._runner = guests  # type: ignore[assignment]  # it has what an invocation uses
            guests.over.set()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(host.invoke("hello", "go", owner="ann"), 0.1)
            assert guests.closed == 1
            assert host.show("hello").known.state is State.QUARANTINED

    asyncio.run(main())
    assert [op for op, _, _ in events(base)][-3:] == ["end", "violation", "quarantine"]


@pytest.mark.parametrize("way", ["grant", "enable"])
def test_what_was_given_to_nobody_does_not_stand(way: str, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asked gave up while a thread wrote it: it is taken back before they hear of it, and recorded."""

    async def main() -> None:
        async with fastness.AsyncPluginHost() as host:
            await host.install(plugin(base))
            if way == "enable":
                await host.grant("hello", owner="ann", all=True)
                await host.disable("hello")
            reached, held = threading.Event(), threading.Event()
            write = getattr(host._core.store, way)

            def slow(*of: Any) -> Any:
                reached.set()
                assert held.wait(20)
                return write(*of)

            monkeypatch.setattr(host._core.store, way, slow)
            ask = host.grant("hello", owner="ann", all=True) if way == "grant" else host.enable("hello")
            task = asyncio.create_task(ask)
            await asyncio.to_thread(reached.wait, 20)
            task.cancel()
            await asyncio.sleep(0.02)
            task.cancel()
            held.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            if way == "grant":
                assert host.show("hello").grants == ()
                assert rows(base, op="revoke")[-1].target == "1 ended: whoever granted it gave up"
            else:
                assert host.show("hello").known.state is State.DISABLED
                assert events(base)[-1][0] == "disable"

    asyncio.run(main())


def test_an_interrupt_between_an_invocation_and_its_end(base: Path, host: fastness.PluginHost) -> None:
    """Ctrl-C where its end is about to be recorded: it is recorded, and then the interrupt comes."""
    host.install(plugin(base))
    host.grant("hello", owner="ann", all=True)
    inner = host._inner
    end = inner._core.end

    async def run(request: Any, calls: Any, *, run_id: str = "") -> RunResult:
        return RunResult(outcome=Outcome(OutcomeKind.OK), tier=request.tier, runtime="python", run_id=run_id)

    def interrupted(*of: Any, **named: Any) -> None:
        signal.raise_signal(signal.SIGINT)
        end(*of, **named)

    inner._runner.run = run  # type: ignore[method-assign]  # no guest is needed for it
    inner._core.end = interrupted  # type: ignore[method-assign]  # as above
    with pytest.raises(KeyboardInterrupt):
        host.invoke("hello", "go", owner="ann")
    assert inner._core._running == {}
    assert events(base)[-1] == ("end", "ann", "ok")


# adapters


def test_adapters_of_the_caller(base: Path) -> None:
    """One of another kind than it says is refused."""
    net = Net(AddressGuard())
    with pytest.raises(ConfigurationError, match="adapter of 'fs'"):
        fastness.PluginHost(adapters={"fs": net})
    with pytest.raises(ConfigurationError, match="adapter of 'host'"):
        fastness.PluginHost(adapters={"host": net})
    with fastness.PluginHost(adapters={"net": net}) as host:
        assert host._inner._core.adapters["net"] is net


def test_functions_that_a_host_has_not(base: Path) -> None:
    """A host that was not given all that a plugin names says so, whatever the owner grants."""
    asks = [{"kind": "host", "names": ["ask", "tell"], "reason": "to talk"}, STORAGE]
    with fastness.PluginHost() as host:
        host.install(plugin(base, capabilities=asks))

    def ask() -> str:
        return ""

    functions = {"ask": ask, "tell": ask, "more": ask}
    for given, offered in ({}, False), ({"ask": ask}, False), (functions, True):
        with fastness.PluginHost(functions=given) as host:
            assert {want.kind: want.offered for want in host.show("hello").wants} == {"host": offered, "storage": True}


def test_the_folder_of_the_configuration(base: Path) -> None:
    """One folder for all, where the operator names one."""
    shared = base.parent / "shared"
    shared.mkdir()
    (shared / "there").write_text("x")
    (base / "config").mkdir(parents=True, mode=0o700)
    (base / "config" / "config.toml").write_text(f'[fs]\nroot = "{shared}"\n')
    with fastness.PluginHost() as host:
        host.install(package(base.parent / "w", capabilities=[FILES], **DATA))
        host.grant("words", owner="ann", all=True)
        assert host.call("words", "fs.read", {"path": "there"}, owner="ann") == b"x"
        host.remove("words")
    assert (shared / "there").read_text() == "x"


def test_two_hundred_plugins_list_without_their_manifests(base: Path, host: fastness.PluginHost) -> None:
    """Listing parses no manifest and opens no package; that is left to each one's first use."""
    store = host._inner._core.store
    shown = host.install(package(base.parent / "w", capabilities=[STORAGE], **DATA))
    manifest = shown.manifest
    for number in range(199):
        one = msgspec.structs.replace(manifest, id=f"words-{number}")
        store.install(one, f"{number:064x}", "local")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fastness.plugins.store.parse", lambda *_: pytest.fail("a manifest was read"))
        patch.setattr("fastness.plugins.standing.parse", lambda *_: pytest.fail("a manifest was read"))
        assert len(host.plugins()) == 200


def test_a_child_has_guests_and_a_store_of_its_own(base: Path, words: fastness.PluginHost) -> None:
    """A forked child goes on with the same host object."""
    words.grant("words", owner="ann", all=True)
    words.call("words", "storage.put", {"key": "k", "value": 5}, owner="ann")
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            value = words.call("words", "storage.get", {"key": "k"}, owner="ann")
            os.write(write, str(value).encode())
        finally:
            os._exit(0)
    os.close(write)
    assert os.read(read, 100) == b"5"
    os.close(read)
    os.waitpid(child, 0)
    assert open_ceiling(()).kinds == ()
