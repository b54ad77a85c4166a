"""The store: states, grants, revisions; a revocation that every process sees; and what happens where it cannot be used."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fake_specs import SPECS, BoxScope, WebScope, plain

from fastness.errors import BackendError, ConfigurationError, GrantError, PolicyError
from fastness.grant import Grant
from fastness.manifest import Manifest, parse
from fastness.plugins import store as module
from fastness.plugins.changes import Changes
from fastness.plugins.states import MOVES, State
from fastness.plugins.store import NO_REVISION, UNREADABLE, Store

A, B, C = "a" * 64, "b" * 64, "c" * 64
WEB = {"kind": "web", "hosts": ["a"], "reason": "x"}


def manifest(**more: object) -> Manifest:
    return parse(plain(**{"capabilities": [WEB], **more}), SPECS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(SPECS, str(tmp_path), patience_s=0.3)
    yield made
    made.close()


def grant(owner: str = "ann", digest: str = A, **more: object) -> Grant:
    return Grant(
        plugin="weather",
        owner=owner,
        package_digest=digest,
        allowed=(WebScope(hosts=("a",)),),
        granted_by="cli",
        **more,
    )  # type: ignore[arg-type]


def enabled(store: Store) -> Grant:
    store.install(manifest(), A, "local")
    return store.grant(grant())


# states


def test_lifecycle(store: Store) -> None:
    """From a file that was found to one that may be called, and to its end."""
    assert store.discover(manifest(), A, "local").state is State.DISCOVERED
    with pytest.raises(ConfigurationError):
        store.discover(manifest(), A, "local")
    with pytest.raises(GrantError):
        store.grant(grant())
    assert store.install(manifest(), A, "local").state is State.AWAITING_GRANT
    assert store.revision("weather", "ann") == NO_REVISION
    made = store.grant(grant())
    assert store.plugin("weather").state is State.ENABLED  # type: ignore[union-attr]
    assert store.revision("weather", "ann") == made.revision
    assert store.disable("weather").state is State.DISABLED
    assert store.revision("weather", "ann") == NO_REVISION
    assert store.enable("weather").state is State.ENABLED
    assert store.revision("weather", "ann") == made.revision
    assert store.remove("weather").state is State.REMOVED
    assert store.revision("weather", "ann") == NO_REVISION
    assert store.grants("weather") == []
    assert store.plugins() == []
    # The id may be had anew, and inherits nothing.
    assert store.install(manifest(), A, "marketplace").state is State.AWAITING_GRANT
    assert store.grant(grant()).revision > made.revision


def test_every_move_that_is_not_a_way_is_refused(store: Store) -> None:
    """The states and their ways are those of the design, and no others."""
    assert {(old.value, new.value) for old, after in MOVES.items() for new in after} == {
        ("discovered", "verified"), ("verified", "awaiting_grant"), ("awaiting_grant", "enabled"), ("enabled", "disabled"),
        ("disabled", "enabled"), ("disabled", "removed"), ("enabled", "quarantined"),
        # back from quarantine by the operator; back to the owner after an upgrade or the last revocation
        ("quarantined", "disabled"), ("enabled", "awaiting_grant"), ("disabled", "awaiting_grant"), ("awaiting_grant", "disabled"),
        # what never ran may go at once; an id may be had anew
        ("discovered", "removed"), ("verified", "removed"), ("awaiting_grant", "removed"), ("quarantined", "removed"), ("removed", "discovered"),
    }  # fmt: skip
    store.install(manifest(), A, "local")
    for old in State:
        for new in State:
            with contextlib.closing(sqlite3.connect(store.path)) as raw, raw:
                raw.execute("UPDATE plugins SET state = ?", (old.value,))
            if new in MOVES[old]:
                assert store.move("weather", new).state is new
            else:
                with pytest.raises(ConfigurationError):
                    store.move("weather", new)
                assert store.plugin("weather").state is old  # type: ignore[union-attr]


def test_crashes_and_violations(store: Store) -> None:
    """Three crashes of the same package, or one violation, and nobody calls it until the operator lets it out."""
    made = enabled(store)
    assert store.crashed("weather", B).crashes == 0, "of a package that is not installed any more"
    assert [store.crashed("weather", A).crashes for _ in range(2)] == [1, 2]
    assert store.revision("weather", "ann") == made.revision
    known = store.crashed("weather", A)
    assert (known.state, known.crashes, known.why) == (State.QUARANTINED, 3, "it crashed 3 times")
    assert store.revision("weather", "ann") == NO_REVISION
    with pytest.raises(ConfigurationError):
        store.enable("weather")
    store.disable("weather")
    assert store.enable("weather").crashes == 0
    assert store.violated("weather", B, "old").state is State.ENABLED
    assert store.violated("weather", A, "a forged frame").why == "a forged frame"
    assert store.revision("weather", "ann") == NO_REVISION
    assert store.grant_of("weather", "ann") is not None, "the grant stands and does not help"


def test_taking_an_id(store: Store) -> None:
    """A package with the id of another is an upgrade only where that is said, and from the same source."""
    enabled(store)
    assert store.install(manifest(), A, "local").state is State.ENABLED, "the same again changes nothing"
    for digest, source, upgrade in (
        (B, "local", False),
        (B, "marketplace", True),
        (A, "marketplace", True),
        (B, "builtin", False),
    ):
        with pytest.raises(ConfigurationError):
            store.install(manifest(), digest, source, upgrade=upgrade)
        assert store.plugin("weather").digest == A  # type: ignore[union-attr]
    with pytest.raises(ConfigurationError, match="builtin, local, marketplace"):
        store.install(manifest(), A, "elsewhere")


def test_upgrade_that_asks_for_no_more(store: Store) -> None:
    """Grants stand for the new files with a new revision: what runs the old ones is refused."""
    old = enabled(store)
    store.grant(grant("bob"))
    watch = store.watch("weather", "ann")
    assert watch() == old.revision
    known = store.install(manifest(version="1.1.0"), B, "local", upgrade=True)
    assert (known.state, known.version, known.digest) == (State.ENABLED, "1.1.0", B)
    found = store.grant_of("weather", "ann")
    assert found is not None
    assert found.package_digest == B
    assert found.revision == watch() > old.revision
    assert store.manifest("weather").version == "1.1.0"


def test_upgrade_that_asks_for_more(store: Store) -> None:
    """It waits for a grant anew, says for what, and no grant of before counts, in any later version either."""
    enabled(store)
    watch = store.watch("weather", "ann")
    more = manifest(
        version="2.0.0", capabilities=[WEB, {"kind": "box", "size": 9, "reason": "x"}], lookups=["config:*"]
    )
    known = store.install(more, B, "local", upgrade=True)
    assert known.state is State.AWAITING_GRANT
    assert known.why == "the new version asks for more: box: It can keep 9 bytes.; look up config:*"
    assert watch() == NO_REVISION
    same = store.install(msgspec.structs.replace(more, version="2.0.1"), C, "local", upgrade=True)
    assert same.state is State.AWAITING_GRANT
    assert watch() == NO_REVISION
    with pytest.raises(GrantError, match="installed"):
        store.grant(grant(digest=A))
    made = store.grant(grant(digest=C))
    assert watch() == made.revision


def test_upgrade_of_a_disabled_one(store: Store) -> None:
    """An upgrade does not enable what the operator disabled; enabling it waits for the grant that it needs."""
    enabled(store)
    store.disable("weather")
    more = manifest(capabilities=[{**WEB, "hosts": ["a", "b"]}])
    assert store.install(more, B, "local", upgrade=True).state is State.DISABLED
    assert store.enable("weather").state is State.AWAITING_GRANT
    assert store.grant(grant(digest=B)).revision == store.revision("weather", "ann")


def test_tier_of_a_plugin(store: Store) -> None:
    """The operator's choice is kept; a weaker one needs the word for it."""
    store.install(manifest(), A, "local")
    assert store.set_tier("weather", "wasm").tier == "wasm"
    with pytest.raises(PolicyError):
        store.set_tier("weather", "worker")
    known = store.set_tier("weather", "worker", "reviewed")
    assert (known.tier, known.trust) == ("worker", "reviewed")
    assert store.set_tier("weather", "").trust == ""


def test_a_review_is_of_files(store: Store) -> None:
    """Other files lose it with the tier that needed it; the same ones keep both, and a choice that needs none stays."""
    enabled(store)
    store.set_tier("weather", "worker", "reviewed")
    same = store.install(manifest(), A, "local", upgrade=True)
    assert (same.tier, same.trust) == ("worker", "reviewed")
    other = store.install(manifest(version="1.1.0"), B, "local", upgrade=True)
    assert (other.tier, other.trust, other.state) == ("", "", State.ENABLED)
    store.set_tier("weather", "wasm", "reviewed")
    third = store.install(manifest(version="1.2.0"), C, "local", upgrade=True)
    assert (third.tier, third.trust) == ("wasm", "")


def test_a_review_of_what_was_only_discovered(store: Store) -> None:
    """The files that are installed in the end are others than those that somebody has read."""
    store.discover(manifest(), A, "local")
    store.set_tier("weather", "worker", "reviewed")
    known = store.install(manifest(), B, "local")
    assert (known.tier, known.trust) == ("", "")


@pytest.mark.parametrize("before", ["data", "javascript", "python"])
@pytest.mark.parametrize("after", ["data", "javascript", "python"])
def test_an_upgrade_to_another_runtime_waits(before: str, after: str, store: Store) -> None:
    """What was granted to one is not for the other, though it asks for the same; the words say what is new."""
    entries = {"data": "", "javascript": "main.mjs", "python": "main.py"}
    one, two = (manifest(runtime=which, entry=entries[which]) for which in (before, after))
    store.install(one, A, "local")
    store.grant(grant())
    known = store.install(two, B, "local", upgrade=True)
    if before == after:
        assert known.state is State.ENABLED
        return
    assert known.state is State.AWAITING_GRANT
    was, now = (which if which == "data" else f"{which} code" for which in (before, after))
    assert known.why == f"the new version asks for more: be {now}, where it was {was}"
    assert store.revision("weather", "ann") == NO_REVISION


def test_unknown_plugins(store: Store) -> None:
    """What is not there is said to be not there."""
    assert store.plugin("weather") is None
    assert store.grant_of("weather", "ann") is None
    for act in (
        store.enable,
        store.disable,
        store.remove,
        store.manifest,
        store.revoke,
        lambda name: store.set_tier(name, ""),
    ):
        with pytest.raises(ConfigurationError, match="plugin list"):
            act("weather")
    with pytest.raises(ConfigurationError):
        store.grant(grant())


# grants


def test_grants_are_kept_whole(store: Store, tmp_path: Path) -> None:
    """What was granted comes back as it was, also in another process; a new grant takes the old one's place."""
    store.install(manifest(), A, "local")
    made = store.grant(
        Grant(
            plugin="weather", owner="ann", allowed=(WebScope(hosts=("a", "b")), BoxScope(size=3)), provides=("w:*",), lookups=("c:?",),
            declares=("d",), expires=12345.5, granted_by="cli", package_digest=A,
        )
    )  # fmt: skip
    assert made.revision > 0
    assert Store(SPECS, str(tmp_path)).grant_of("weather", "ann") == made
    assert store.grants("weather") == [made]
    second = store.grant(grant())
    assert second.revision > made.revision
    assert store.grants("weather") == [second]


def test_scopes_of_another_day(store: Store, tmp_path: Path) -> None:
    """A scope whose kind is gone, or that does not fit its type, is not in the grant: nothing else is."""
    store.install(manifest(), A, "local")
    store.grant(msgspec.structs.replace(grant(), allowed=(WebScope(hosts=("a",)), BoxScope(size=3))))
    less = Store({"web": SPECS["web"]}, str(tmp_path))
    assert less.grant_of("weather", "ann").allowed == (WebScope(hosts=("a",)),)  # type: ignore[union-attr]
    with contextlib.closing(sqlite3.connect(store.path)) as raw, raw:
        raw.execute(
            """UPDATE grants SET allowed = '[{"kind":"box","size":"all"},{"kind":"web","hosts":["a"],"more":1},{"kind":"box","size":2}]'"""
        )
    assert store.grant_of("weather", "ann").allowed == (BoxScope(size=2),)  # type: ignore[union-attr]


def test_revisions_are_never_given_twice(store: Store) -> None:
    """Not after a revocation, nor after the plugin and its grants were removed and are there again."""
    seen: list[int] = []
    for _ in range(3):
        store.install(manifest(), A, "local")
        seen += [store.grant(grant(owner)).revision for owner in ("ann", "bob", "ann")]
        store.revoke("weather", "ann")
        store.remove("weather")
    assert seen == sorted(set(seen))


def test_revoke(store: Store) -> None:
    """It ends one owner's grant or all, says how many, and does nothing twice."""
    enabled(store)
    bob = store.grant(grant("bob"))
    assert store.revoke("weather", "ann") == 1
    assert store.revoke("weather", "ann") == 0
    assert store.grant_of("weather", "ann") is None
    assert store.revision("weather", "bob") == bob.revision
    assert store.plugin("weather").state is State.ENABLED  # type: ignore[union-attr]
    store.grant(grant("ann"))
    assert store.revoke("weather") == 2
    assert store.plugin("weather").state is State.AWAITING_GRANT  # type: ignore[union-attr]


# the check


def test_a_check_where_nothing_changed_asks_nobody(store: Store) -> None:
    """It is a look at a number; after any change it asks the database once."""
    made = enabled(store)
    watch = store.watch("weather", "ann")
    asked: list[int] = []
    real = store.revision
    store.revision = lambda *of: asked.append(1) or real(*of)  # type: ignore[method-assign, func-returns-value]
    assert [watch() for _ in range(100)] == [made.revision] * 100
    assert len(asked) == 1
    store.grant(grant("bob"))
    assert [watch() for _ in range(100)] == [made.revision] * 100
    assert len(asked) == 2


@contextlib.contextmanager
def process(role: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}:{here.parents[2] / 'src'}"}
    child = subprocess.Popen(
        [sys.executable, str(here / "store_processes.py"), role, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=environment,
    )  # fmt: skip
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def ask(child: subprocess.Popen[str], word: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(word + "\n")
    return child.stdout.readline().strip()


def test_a_revocation_is_seen_by_a_check_that_begins_afterwards_in_another_process(
    store: Store, tmp_path: Path
) -> None:
    """Two hundred times: granted and seen, revoked and seen at once.  The control is a process that does not look."""
    enabled(store)
    with process("checker", tmp_path) as child:
        first = ask(child, "blind")
        for _ in range(200):
            made = store.grant(grant())
            assert ask(child, "check") == str(made.revision)
            store.revoke("weather", "ann")
            assert ask(child, "check") == "0"
        assert ask(child, "blind") == first != "0"


@pytest.mark.parametrize("act", ["disable", "remove", "quarantine", "upgrade", "revoke all", "regrant"])
def test_whatever_ends_a_grant_is_seen_elsewhere(act: str, store: Store, tmp_path: Path) -> None:
    """Not only a revocation: whatever makes the policy of a running call another one."""
    made = enabled(store)
    with process("checker", tmp_path) as child:
        assert ask(child, "check") == str(made.revision)
        {
            "disable": lambda: store.disable("weather"),
            "remove": lambda: store.remove("weather"),
            "quarantine": lambda: store.quarantine("weather", "the operator says so"),
            "upgrade": lambda: store.install(manifest(), B, "local", upgrade=True),
            "revoke all": lambda: store.revoke("weather"),
            "regrant": lambda: store.grant(grant()),
        }[act]()
        assert ask(child, "check") not in ("", str(made.revision))


def test_two_hosts_revoke_at_once(store: Store, tmp_path: Path) -> None:
    """Both return, one of them ended it, and neither host finds it."""
    for _ in range(5):
        store.install(manifest(), A, "local")
        store.grant(grant())
        with process("revoker", tmp_path) as one, process("revoker", tmp_path) as two:
            for child in (one, two):
                assert child.stdout is not None
                assert child.stdout.readline() == "ready\n"
            for child in (one, two):
                assert child.stdin is not None
                child.stdin.write("ann\n")
            counts = [child.stdout.readline().strip() for child in (one, two) if child.stdout is not None]
        assert sorted(counts) == ["0", "1"]
        assert store.watch("weather", "ann")() == NO_REVISION


def test_a_host_that_is_killed_between_the_commit_and_the_telling(store: Store, tmp_path: Path) -> None:
    """Others find what it committed: the number says that somebody writes, so they ask.  The next writer puts it right."""
    made = enabled(store)
    watch = store.watch("weather", "ann")
    assert watch() == made.revision
    with process("dying", tmp_path) as child:
        assert child.wait(timeout=60) == -9
    assert store.changes.value % 2 == 1
    assert [watch() for _ in range(3)] == [NO_REVISION] * 3
    made = store.grant(grant())
    assert store.changes.value % 2 == 0
    assert watch() == made.revision


def test_the_control_of_the_number(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the number a check would go on saying yes: it is what tells, and nothing else does."""
    made = enabled(store)
    watch = store.watch("weather", "ann")
    assert watch() == made.revision
    with monkeypatch.context() as patch:
        patch.setattr(Changes, "_put", lambda self, number: None)
        store.revoke("weather", "ann")
    assert watch() == made.revision
    store.revoke("weather")
    assert watch() == NO_REVISION


def test_a_change_during_the_check_is_not_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that was read while somebody committed is given, and asked for again the next time."""
    made = enabled(store)
    watch = store.watch("weather", "ann")
    real = store.revision

    def overtaken(plugin: str, owner: str) -> int:
        found = real(plugin, owner)
        store.revision = real  # type: ignore[method-assign]
        store.revoke("weather", "ann")
        return found

    store.revision = overtaken  # type: ignore[method-assign]
    assert watch() == made.revision, "it began before the revocation"
    assert watch() == NO_REVISION


def test_many_processes_and_threads(store: Store, tmp_path: Path) -> None:
    """Writers take turns; every revision is given once; readers never see less than what was committed."""
    store.install(manifest(), A, "local")
    store.close()
    patient = Store(SPECS, str(tmp_path), patience_s=60)
    with process("granter", tmp_path) as one, process("granter", tmp_path) as two:
        mine: list[int] = []

        def work(owner: str) -> None:
            mine.extend(patient.grant(grant(owner)).revision for _ in range(10))

        threads = [threading.Thread(target=work, args=(f"thread{number}",)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        theirs = [int(line) for child in (one, two) for line in child.communicate(timeout=120)[0].split()]
        assert (one.returncode, two.returncode) == (0, 0)
    assert len(theirs) == 40
    assert len(set(mine + theirs)) == 70
    patient.close()


def test_after_a_fork(store: Store) -> None:
    """A child that was forked sees what its parent revokes, and may revoke itself."""
    enabled(store)
    bob = store.grant(grant("bob"))
    watch, other = store.watch("weather", "ann"), store.watch("weather", "bob")
    assert watch() > 0
    assert other() == bob.revision
    tell_in, tell_out = os.pipe()
    answer_in, answer_out = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.read(tell_in, 1)
            good = watch() == NO_REVISION and store.revoke("weather", "bob") == 1
            os.write(answer_out, b"y" if good else b"n")
        finally:
            os._exit(0)
    store.revoke("weather", "ann")
    os.write(tell_out, b"x")
    assert os.read(answer_in, 1) == b"y"
    os.waitpid(child, 0)
    assert other() == NO_REVISION
    for descriptor in (tell_in, tell_out, answer_in, answer_out):
        os.close(descriptor)


# where it cannot be used


def test_a_locked_database(store: Store) -> None:
    """Whoever cannot write is told so and nothing changes; whoever cannot read gets no revision."""
    made = enabled(store)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for act in (
        lambda: store.revoke("weather", "ann"),
        lambda: store.grant(grant("bob")),
        lambda: store.disable("weather"),
    ):
        with pytest.raises(BackendError, match="another process holds it"):
            act()
    # It is not written, so it stands: the error says that it was not revoked.
    assert store.watch("weather", "ann")() == made.revision
    other.execute("ROLLBACK")
    other.close()
    assert store.revoke("weather", "ann") == 1
    store.grant(grant())
    store.close()
    watch = store.watch("weather", "ann")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    other.execute("UPDATE counters SET value = value")
    assert watch() == UNREADABLE
    assert isinstance(watch.failure, BackendError)
    other.execute("ROLLBACK")
    other.close()
    assert watch() > 0
    assert watch.failure is None


def test_a_number_that_somebody_holds(store: Store) -> None:
    """A host that hangs with the lock makes others fail, not wait for ever."""
    enabled(store)
    other = Changes(store.changes.path)
    with other.writing(), pytest.raises(BackendError, match="another process holds it"):
        store.revoke("weather", "ann")
    assert store.revoke("weather", "ann") == 1


def test_a_full_disk(store: Store) -> None:
    """A database that cannot grow is an error; what was granted before it is as it was, and what was not is not."""
    enabled(store)
    big = tuple(f"{number:04}" + "x" * 190 for number in range(64))
    with store._write.writing() as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    store._write._connection.execute(f"PRAGMA max_page_count={pages}")  # type: ignore[union-attr]
    with pytest.raises(BackendError, match=r"free space|full"):
        store.grant(grant("bob", provides=big))
    assert store.grant_of("weather", "bob") is None
    assert store.watch("weather", "bob")() == NO_REVISION
    assert store.watch("weather", "ann")() > 0
    assert store.changes.value % 2 == 0
    store._write._connection.execute("PRAGMA max_page_count=100000")  # type: ignore[union-attr]
    assert store.grant(grant("bob", provides=big)).provides == big


def test_a_disk_so_full_that_the_number_cannot_be_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is committed either: a change that could not be told is not made."""
    made = enabled(store)

    def full(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(BackendError, match="No space left"):
            store.revoke("weather", "ann")
    assert store.revision("weather", "ann") == made.revision
    assert store.revoke("weather", "ann") == 1


@pytest.mark.parametrize("damage", ["not a database", "newer", "another program's", "open to others"])
def test_files_that_are_not_ours(damage: str, store: Store, tmp_path: Path) -> None:
    """A file that is damaged, too new, somebody else's or open to others is refused, and denies."""
    enabled(store)
    store.close()
    if damage == "not a database":
        Path(store.path).write_bytes(b"x" * 5000)
        for name in ("-wal", "-shm"):
            Path(store.path + name).unlink(missing_ok=True)
    elif damage == "open to others":
        os.chmod(store.path, 0o644)
    else:
        with contextlib.closing(sqlite3.connect(store.path)) as raw:
            raw.execute("PRAGMA user_version=99" if damage == "newer" else "PRAGMA application_id=7")
    again = Store(SPECS, str(tmp_path))
    with pytest.raises(BackendError):
        again.plugins()
    with pytest.raises(BackendError):
        again.revoke("weather", "ann")
    watch = again.watch("weather", "ann")
    assert watch() == UNREADABLE
    again.close()


def test_the_number_is_a_private_file(tmp_path: Path) -> None:
    """Not a link, not open to others; a new one is made where it was removed, and who held the old one asks."""
    (tmp_path / "target").write_bytes(bytes(8))
    (tmp_path / "plugins.rev").symlink_to(tmp_path / "target")
    with pytest.raises(BackendError):
        Store(SPECS, str(tmp_path))
    (tmp_path / "plugins.rev").unlink()
    (tmp_path / "plugins.rev").write_bytes(bytes(8))
    (tmp_path / "plugins.rev").chmod(0o666)
    with pytest.raises(BackendError):
        Store(SPECS, str(tmp_path))
    (tmp_path / "plugins.rev").unlink()
    store = Store(SPECS, str(tmp_path))
    made = enabled(store)
    watch = store.watch("weather", "ann")
    assert watch() == made.revision
    (tmp_path / "plugins.rev").unlink()
    store.revoke("weather", "ann")
    assert watch() == NO_REVISION
    store.close()


def test_many_plugins_list_without_their_manifests(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hundred plugins are a list of rows; no manifest is parsed for it."""
    for number in range(200):
        store.install(manifest(id=f"p{number:03}"), A, "local")
    monkeypatch.setattr(module, "parse", None)
    assert [known.id for known in store.plugins()] == [f"p{number:03}" for number in range(200)]
