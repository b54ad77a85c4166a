"""
The table of mutations: a copy of the package without one of its protections is found out by the shipped attacks.

A mutation is caught where each sign of its row shows: the attack that is named escapes, or something else than what is
stated stops it, in the words of the row.  An attack that could not be tried, that was skipped, or whose control failed
has caught nothing, and neither has a copy that does not start.  On the copy without a mutation the same attacks hold.

A few rows are tried with the ordinary tests; all others are ``long``.  What every row changes is looked up each time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import mutants
import mutations_broker
import mutations_guests
import mutations_host
import pytest
from mutants import Change, Copies, Row, Said, Sign

import house
from fastness._wasi import home
from fastness.attack import registry

pytestmark = pytest.mark.attack

ROWS = (*mutations_guests.ROWS, *mutations_host.ROWS, *mutations_broker.ROWS)
#: Rows of the ordinary tests: each takes a second or two.
QUICK = frozenset((
    "filter.unshare", "filter.x32", "landlock.own", "limits.memory", "guest.environment", "firewall.fork",
    "wire.numbers", "screen.controls", "plugins.digest", "fs.links", "net.hosts", "secrets.path", "storage.owners",
    "gate.granted", "audit.before",
))  # fmt: skip
NEEDS = {
    "wasm": "python guest",
    "worker": "worker tier",
    "confined": "confined tier",
    "isolated": "isolated tier",
}
#: Modules that processes of ours begin with, by the tier that starts them, and an attack that has it start them.
BEGINNINGS = {
    "wasm": ("_wasi/engine.py", "limits.exit"),
    "worker": ("_native/keeper.py", "limits.exit"),
    "isolated": ("_native/launcher.py", "limits.exit"),
}
#: A machine that is busy with other things may end a run before it has shown anything.
_TRIES = 2
_FIRST = "from __future__ import annotations\n"


@pytest.fixture(scope="module")
def copies() -> Iterator[Copies]:
    """Where copies are made.  Processes of other users go through it."""
    place = Path(tempfile.mkdtemp(prefix="mutants-"))
    place.chmod(0o755)
    try:
        yield Copies(place, house.SOURCE / "fastness", home.folder("cache", "guests"))
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Unmutated:
    """What is said of the copy without a mutation, asked once for each tier about the attacks of all rows to be tried."""

    def __init__(self, copies: Copies, rows: list[Row]) -> None:
        self._copies = copies
        self._rows = rows
        self._said: dict[str, dict[str, Said]] = {}

    def of(self, tier: str) -> dict[str, Said]:
        """The verdicts on this tier."""
        if tier not in self._said:
            wanted = (sign.attack for row in self._rows if row.tier == tier for sign in row.signs)
            said = self._copies.attack(self._copies.plain(), tier, tuple(dict.fromkeys(wanted)))
            # A busy machine may have stopped one, or its control.
            again = tuple(name for name, one in said.items() if one.verdict in ("unexpected", "void"))
            self._said[tier] = said | (self._copies.attack(self._copies.plain(), tier, again) if again else {})
        return self._said[tier]


@pytest.fixture(scope="module")
def unmutated(copies: Copies, request: pytest.FixtureRequest) -> Unmutated:
    """The copy that every other one is compared with."""
    chosen = [item.callspec.params["row"] for item in request.session.items if _is_of_a_row(item)]
    return Unmutated(copies, chosen)


def _is_of_a_row(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and item.originalname == test_it_is_caught.__name__


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.id, marks=() if row.id in QUICK else pytest.mark.long) for row in ROWS]
)
def test_it_is_caught(row: Row, copies: Copies, unmutated: Unmutated) -> None:
    """The attacks of the row hold on the package as it is, and find out the copy without the protection."""
    house.require(NEEDS[row.tier])
    if row.root and os.geteuid():
        pytest.skip("only guests of root have what it takes out")
    before = unmutated.of(row.tier)
    for sign in row.signs:
        if before[sign.attack].verdict == "skipped":
            pytest.skip(f"{sign.attack}: {before[sign.attack].detail}")
        assert before[sign.attack].verdict == "held", f"without a mutation: {sign.attack}: {before[sign.attack]}"
    with copies.mutated(row.id, row.changes) as copy:
        for _ in range(_TRIES):
            said = copies.attack(copy, row.tier, tuple(sign.attack for sign in row.signs))
            if all(sign.shows(said[sign.attack]) for sign in row.signs):
                break
    for sign in row.signs:
        assert sign.shows(said[sign.attack]), f"{row.removes}: {sign.attack} says {said[sign.attack]}"


@pytest.mark.parametrize("tier", BEGINNINGS)
def test_every_process_runs_the_copy(tier: str, copies: Copies, tmp_path: Path) -> None:
    """Commands, engines, launchers and keepers are of the copy, by the paths of their modules."""
    house.require(NEEDS[tier])
    file, attack = BEGINNINGS[tier]
    notes = tmp_path / "notes"
    note = f"{_FIRST}\nwith open({str(notes)!r}, 'a') as _notes:\n    _notes.write(f'{{__file__}}\\n')\n"
    changes = tuple(Change(one, _FIRST, note) for one in (file, "cli/attack.py"))
    with copies.mutated(f"noted-{tier}", changes) as copy:
        assert copies.attack(copy, tier, (attack,))[attack].verdict == "held"
        told = set(notes.read_text().splitlines())
        assert told == {str(copy / "fastness" / one) for one in (file, "cli/attack.py")}


# ----------------------------------------------------------------------------------------------- what rows say, untried


def test_there_are_rows_of_every_layer() -> None:
    """At least as many as were promised, each by its own name."""
    assert len(ROWS) >= 100
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.id for row in ROWS} >= QUICK
    assert {row.tier for row in ROWS} == set(NEEDS)
    assert {row.id.partition(".")[0] for row in ROWS} == {
        "audit", "calls", "filter", "firewall", "fs", "gate", "group", "guest", "landlock", "limits", "llm", "memory",
        "meter", "namespace", "net", "output", "plugins", "powers", "process", "screen", "secrets", "signals",
        "storage", "wasi", "wire", "worker",
    }  # fmt: skip


def test_its_attacks_are_there() -> None:
    """Each sign names an attack that is made on the row's tier."""
    attacks = {attack.id: attack for attack in registry.load()}
    for row in ROWS:
        for sign in row.signs:
            assert row.tier in attacks[sign.attack].tiers, f"{row.id}: {sign.attack}"


def test_every_change_fits(tmp_path: Path) -> None:
    """What is to be changed is in the package as it is, once, and what is put there is Python where the file is."""
    for row in ROWS:
        texts: dict[str, str] = {}
        for change in row.changes:
            text = texts.get(change.file) or (house.SOURCE / "fastness" / change.file).read_text("utf-8")
            assert text.count(change.old) == 1, f"{row.id}: {change.file}: {change.old!r}"
            assert change.old != change.new, row.id
            texts[change.file] = text.replace(change.old, change.new)
        for file, text in texts.items():
            if file.endswith(".py"):
                compile(text, file, "exec")


def test_a_change_that_does_not_fit_is_no_mutation(copies: Copies) -> None:
    """A text that is not there, or twice, fails before anything is tried, and leaves nothing behind."""
    for old in ("this stands nowhere", "import"):
        with (
            pytest.raises(mutants.Broken, match=r"times, not once|not once"),
            copies.mutated("unfit", (Change("policy.py", old, "pass"),)),
        ):
            pass
    assert not list(copies.plain().parent.glob("unfit*"))


def test_a_change_reaches_no_other_copy(copies: Copies) -> None:
    """Files of copies are names of the same ones, until one of them is changed."""
    before = (copies.plain() / "fastness" / "policy.py").read_text()
    with copies.mutated("changed", (Change("policy.py", _FIRST, ""),)) as copy:
        assert (copy / "fastness" / "policy.py").read_text() != before
        assert (copies.plain() / "fastness" / "policy.py").read_text() == before


@pytest.mark.parametrize(
    ("sign", "said", "shows"),
    [
        (Sign("a.b"), Said("escaped", "it was read"), True),
        (Sign("a.b"), Said("held", ""), False),
        (Sign("a.b"), Said("skipped", "no kernel"), False),
        (Sign("a.b"), Said("void", "the control failed: it was read"), False),
        (Sign("a.b"), Said("unexpected", "no seccomp row"), False),
        (Sign("a.b", "unexpected", "no seccomp row"), Said("unexpected", "no seccomp row with the code"), True),
        (Sign("a.b", "unexpected", "no seccomp row"), Said("unexpected", "the run ended as crashed"), False),
        (Sign("a.b", "unexpected", "no row"), Said("unexpected", "it could not be tried: no row"), False),
        (Sign("a.b", "unexpected", "no row"), Said("escaped", "no row"), False),
    ],
)
def test_what_is_a_sign(sign: Sign, said: Said, shows: bool) -> None:
    """An effect, or another wall in the words of the row; never a copy that does not work."""
    assert sign.shows(said) is shows


def test_a_sign_that_says_nothing_is_refused() -> None:
    """What any failure would show, or no mutation could, is no sign."""
    for verdict, says in (("held", ""), ("void", "x"), ("unexpected", ""), ("escaped", "x")):
        with pytest.raises(ValueError, match=r"a\.b"):
            Sign("a.b", verdict, says)
    with pytest.raises(ValueError, match="could not be tried"):
        Sign("a.b", "unexpected", "it could not be tried")
    with pytest.raises(ValueError, match="none is built here"):
        Row("x", "", "wasm", (Change("guest/boot.py", "a", "b"),), (Sign("a.b"),))
    with pytest.raises(ValueError, match="at least one"):
        Row("x", "", "wasm", (), (Sign("a.b"),))
