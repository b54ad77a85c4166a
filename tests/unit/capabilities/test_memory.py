"""The capability ``memory``: what is noted, for whom, how much, how it is found, and that what is erased is gone."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import house
from fastness.capabilities import _memory_query as query
from fastness.capabilities.memory import SPEC, Memory, MemoryScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.testing import Case, check_capability

ROOM = MemoryScope(notes=1000, quota=1 << 20)
#: Also what UTF-8 does not have.
ANY = st.characters(exclude_categories=())
SHARED = MemoryScope(notes=1000, quota=1 << 20, of="owner")


def context(scope: MemoryScope = ROOM, **fields: Any) -> CallContext:
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 60}
    return CallContext(scope=scope, **{**given, **fields})


def ask(memory: Memory, name: str, of: CallContext | None = None, /, **arguments: Any) -> Any:
    operation = SPEC.operation(name)
    assert operation is not None
    decoded = msgspec.convert(arguments, operation.arguments, strict=True, builtin_types=(bytes,))
    return asyncio.run(memory.call(name, decoded, of or context()))


@pytest.fixture
def base(tmp_path: Path) -> Path:
    made = tmp_path / "memory"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def memory(base: Path) -> Iterator[Memory]:
    made = Memory(str(base))
    yield made
    asyncio.run(made.aclose())


def found(memory: Memory, words: str, of: CallContext | None = None, **more: Any) -> list[str]:
    return [note["excerpt"] for note in ask(memory, "search", of, words=words, **more)["notes"]]


def code_of(memory: Memory, name: str, of: CallContext | None = None, **arguments: Any) -> str:
    try:
        ask(memory, name, of, **arguments)
    except Denied as error:
        return str(error.code.value)
    except QuotaExceeded:
        return "quota"
    return ""


# notes


def test_notes(memory: Memory) -> None:
    """Kept, read, changed, listed and forgotten."""
    first = ask(memory, "add", text="the boiler makes a noise", tags=["house", "to do"])
    second = ask(memory, "add", text="ann's birthday")
    note = ask(memory, "get", id=first)
    assert (note["text"], note["tags"], note["plugin"]) == ("the boiler makes a noise", ["house", "to do"], "p")
    assert note["made"] == note["changed"] <= time.time()
    assert ask(memory, "update", id=first, text="the boiler was mended") is True
    note = ask(memory, "get", id=first)
    assert (note["text"], note["tags"], note["changed"] > note["made"]) == (
        "the boiler was mended",
        ["house", "to do"],
        True,
    )
    assert ask(memory, "update", id=first, tags=[]) is True
    assert ask(memory, "get", id=first)["tags"] == []
    listed = ask(memory, "list")
    assert [one["id"] for one in listed["notes"]] == [second, first]
    assert listed["more"] is False
    assert ask(memory, "delete", id=first) is True
    assert ask(memory, "delete", id=first) is False
    assert ask(memory, "update", id=first, text="x") is False
    assert ask(memory, "get", id=first) is None
    assert ask(memory, "add", text="x") not in (first, second)


def test_found_by_words(memory: Memory) -> None:
    """All of the words, or any of them, whatever their case and accents; a note that was changed by its new ones."""
    for text in ("Crème brûlée for Ann", "creme for the shoes", "ann likes cheese"):
        ask(memory, "add", text=text)
    assert sorted(found(memory, "CREME")) == ["Crème brûlée for Ann", "creme for the shoes"]
    assert found(memory, "creme ann") == ["Crème brûlée for Ann"]
    assert len(found(memory, "creme ann", any=True)) == 3
    assert found(memory, "chee") == []
    assert found(memory, "") == found(memory, "  !?*") == []
    number = ask(memory, "list")["notes"][0]["id"]
    ask(memory, "update", id=number, text="ann likes bread")
    assert found(memory, "cheese") == []
    assert found(memory, "bread") == ["ann likes bread"]
    ask(memory, "delete", id=number)
    assert found(memory, "bread") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Die Straße", "Straße"),
        ("DIE STRASSE", "straße"),
        ("re\u0301sume\u0301", "r\xe9sum\xe9"),
        ("r\xe9sum\xe9", "re\u0301sume\u0301"),
        ("re\u0301sume\u0301", "RESUME"),
        ("\ufb01ne", "\ufb01ne"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940 text", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("\u0130stanbul", "\u0130STANBUL"),
    ],
    ids=ascii,
)
def test_words_as_they_are_written(memory: Memory, text: str, words: str) -> None:
    """A word is found by itself, whether its accents are letters of their own, and where its other case is longer."""
    ask(memory, "add", text="another")
    ask(memory, "add", text=text)
    assert found(memory, words) == [text]
    assert found(memory, f"{words} missing") == []
    assert found(memory, f"{words} missing", any=True) == [text]
    assert found(memory, "\u0301 \u0301") == []


def test_tags(memory: Memory) -> None:
    """A note has a tag whole or not at all, whatever is in it; tags are no words of it."""
    tags = ["a", "A", "a b", 'a" OR "b', "x61", "text : a", "ü", "\n", "-"]
    for tag in tags:
        ask(memory, "add", text=f"word {tags.index(tag)}", tags=[tag, "every"])
    for tag in tags:
        assert found(memory, "", tags=[tag]) == [f"word {tags.index(tag)}"]
        assert found(memory, "word", tags=[tag, "every"]) == [f"word {tags.index(tag)}"]
        (note,) = ask(memory, "list", tags=[tag])["notes"]
        assert note["tags"] == [tag, "every"]
    assert found(memory, "every") == found(memory, "x61") == []
    assert found(memory, "word", tags=["a", "A"]) == []
    assert len(ask(memory, "list", tags=["every"])["notes"]) == len(tags)


def test_the_best_first(memory: Memory) -> None:
    """Notes with more of the words come first; of notes as good the newer one."""
    for text in ("tea", "tea and tea and tea", "tea " + "and milk " * 500, "tea"):
        ask(memory, "add", text=text)
    ids = [note["id"] for note in ask(memory, "search", words="tea")["notes"]]
    assert ids == [2, 4, 1, 3]
    assert ask(memory, "search", words="tea", limit=2)["more"] is True


def test_pages(memory: Memory) -> None:
    """Listing goes on before a number; each note is there once."""
    for number in range(250):
        ask(memory, "add", text=f"note {number}", tags=["t"] if number % 2 else [])
    for tags, count in (([], 250), (["t"], 125)):
        seen: list[int] = []
        before = None
        while True:
            page = ask(memory, "list", before=before, limit=100, tags=tags)
            seen += [note["id"] for note in page["notes"]]
            if not page["more"]:
                break
            before = seen[-1]
        assert seen == sorted(set(seen), reverse=True)
        assert len(seen) == count


def test_what_is_shown_of_a_note(memory: Memory) -> None:
    """So much of it as stands around the first of the words; the whole is got by its number."""
    text = "x" * 100 + " before it " + "y" * 1000 + " the needle is here " + "z" * 1000
    number = ask(memory, "add", text=text)
    (shown,) = found(memory, "needle")
    assert "needle" in shown
    assert len(shown) < 320
    assert ask(memory, "get", id=number)["text"] == text


# what is looked for is no query


@pytest.mark.parametrize(
    "words",
    [
        '"', '""', "'", "text:secret", "tags : x61", "NEAR(a b)", "a AND", "OR", "NOT secret", "^secret", "secret*", "sec*",
        "{text tags} : a", "a + b", "(", ")", "-text : secret", "\0", "x' OR 1=1 --", "); DROP TABLE notes; --", "\ufffd", "🙂",
        "rank", "words", "*", "plugin:p", "a" * 1000,
    ],
)  # fmt: skip
def test_words_of_the_index(words: str, memory: Memory) -> None:
    """What means something to the index is a text like others: it finds what has its words, and fails nowhere."""
    ask(memory, "add", text="secret")
    assert found(memory, words) in ([], ["secret"])
    assert (found(memory, words) == ["secret"]) == ({"secret"} == set(query.words_of(words)))
    found(memory, words, any=True)


@settings(max_examples=house.examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(ANY, min_size=1, max_size=60),
    words=st.text(ANY, max_size=60),
    tags=st.lists(st.text(ANY, min_size=1, max_size=10), max_size=3),
    either=st.booleans(),
)
def test_any_text(text: str, words: str, tags: list[str], either: bool, memory: Memory) -> None:
    """Any text can be noted or is refused in a word, and any can be looked for; another owner finds none of it."""
    try:
        number = ask(memory, "add", text=text, tags=tags)
    except Denied as error:
        assert error.code.value == "unsupported"
        return
    note = ask(memory, "get", id=number)
    assert (note["text"], note["tags"]) == (text, list(dict.fromkeys(tags)))
    try:
        got = ask(memory, "search", words=words, tags=tags, any=either)
    except Denied as error:
        assert error.code.value == "unsupported"
        return
    if tags and not query.words_of(words):
        assert number in [one["id"] for one in got["notes"]] or got["more"]
    assert ask(memory, "search", context(owner="another"), words=words, tags=tags, any=either)["notes"] == []
    ask(memory, "delete", id=number)


@given(text=st.text(max_size=200), words=st.lists(st.text(min_size=1, max_size=5), max_size=4))
def test_excerpts(text: str, words: list[str]) -> None:
    """A part of the text, marked where it is cut, and bounded."""
    shown = query.excerpt(text, [word.casefold() for word in words])
    assert len(shown) <= 306
    assert shown.removeprefix("...").removesuffix("...") in text or "..." in text
    assert query.best([text] * 3, words, 2) == [0, 1]


@given(tags=st.lists(st.text(max_size=8), max_size=5))
def test_tags_come_back(tags: list[str]) -> None:
    """Whatever is in them."""
    assert query.decoded(" ".join(map(query.coded, tags))) == tags


# whose they are


def test_nobody_sees_what_is_anothers(memory: Memory) -> None:
    """Of plugins and owners whose names run together, each finds its own, by words, numbers and lists."""
    everybody = [("p", "o"), ("p", "oo"), ("po", "o"), ("p", "../o"), ("p", "p-p.db"), ("owner", "o"), ("p", "%")]
    for plugin, owner in everybody:
        ask(memory, "add", context(plugin=plugin, owner=owner), text=f"secret of {plugin} and {owner}", tags=["t"])
    for plugin, owner in everybody:
        of = context(plugin=plugin, owner=owner)
        mine = f"secret of {plugin} and {owner}"
        assert found(memory, "secret", of) == [mine]
        assert [note["excerpt"] for note in ask(memory, "list", of, tags=["t"])["notes"]] == [mine]
        assert [ask(memory, "get", of, id=number) is not None for number in (1, 2, 3)] == [True, False, False]
        assert ask(memory, "delete", of, id=2) is False


def test_notes_that_plugins_share(memory: Memory) -> None:
    """For one owner: all read them, each changes its own, and they are none of those that a plugin keeps for itself."""
    first, second = (context(SHARED, plugin=plugin) for plugin in ("p", "q"))
    number = ask(memory, "add", first, text="shared words")
    own = ask(memory, "add", context(plugin="q"), text="own words")
    assert found(memory, "words", second) == ["shared words"]
    assert ask(memory, "get", second, id=number)["plugin"] == "p"
    assert code_of(memory, "update", second, id=number, text="x") == "read_only"
    assert code_of(memory, "delete", second, id=number) == "read_only"
    assert found(memory, "words", context(plugin="q")) == ["own words"]
    assert found(memory, "words", context(SHARED, plugin="q", owner="another")) == []
    assert own == 1


# how much


def test_quotas(memory: Memory) -> None:
    """Notes and bytes, of a plugin and an owner each; what is changed or deleted counts as it is."""
    few, small = context(MemoryScope(notes=3, quota=1 << 20)), context(MemoryScope(notes=100, quota=1000), owner="b")
    for _ in range(3):
        ask(memory, "add", few, text="x")
    assert code_of(memory, "add", few, text="x") == "quota"
    ask(memory, "delete", few, id=1)
    ask(memory, "add", few, text="x")
    ask(memory, "add", small, text="x" * 400)
    assert code_of(memory, "add", small, text="x" * 100) == "quota"
    assert code_of(memory, "update", small, id=1, text="x" * 900) == "quota"
    assert (
        code_of(
            memory,
            "update",
            small,
            id=1,
            tags=["y" * 64] * 1 + ["z" * 64] * 1 + ["x" * 64] + [str(n) * 60 for n in range(4)],
        )
        == "quota"
    )
    ask(memory, "update", small, id=1, text="x")
    ask(memory, "add", small, text="x" * 100)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"text": "x" * 101}, "too_large"),
        ({"text": "\u00e9" * 51}, "too_large"),
        ({"text": "x", "tags": ["y" * 60, "z" * 60]}, "too_large"),
        ({"text": "a\0b"}, "unsupported"),
        ({"text": "\ud800"}, "unsupported"),
        ({"text": "x", "tags": ["\ud800"]}, "unsupported"),
    ],
    ids=repr,
)
def test_what_is_no_note(arguments: dict[str, Any], code: str, memory: Memory) -> None:
    """It is refused, and nothing is kept."""
    of = context(MemoryScope(notes=10, quota=10_000, note_bytes=100))
    assert code_of(memory, "add", of, **arguments) == code
    assert ask(memory, "list")["notes"] == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("add", {}), ("add", {"text": ""}), ("add", {"text": b"x"}), ("add", {"text": "x", "owner": "another"}),
        ("add", {"text": "x", "plugin": "q"}), ("add", {"text": "x", "of": "owner"}), ("add", {"text": "x", "tags": "t"}),
        ("add", {"text": "x", "tags": ["t"] * 17}), ("add", {"text": "x", "tags": [""]}), ("add", {"text": "x", "tags": [1]}),
        ("get", {"id": "1"}), ("get", {"id": 0}), ("get", {"id": -1}), ("get", {"id": 1.5}), ("get", {"id": 2**60}),
        ("get", {"id": 1, "owner": "another"}), ("search", {"words": "x", "owner": "another"}), ("search", {"words": ["x"]}),
        ("search", {"words": "x", "limit": 51}), ("search", {"words": "x", "limit": 0}), ("search", {"words": "x" * 1001}),
        ("list", {"before": 0}), ("list", {"limit": 10**6}), ("list", {"plugin": "q"}), ("list", {"path": "../x"}),
    ],
    ids=repr,
)  # fmt: skip
def test_arguments_that_are_none(name: str, arguments: dict[str, Any], memory: Memory) -> None:
    """No field names another owner, and numbers and lengths are bounded."""
    with pytest.raises(msgspec.ValidationError):
        ask(memory, name, **arguments)


_OTHER = """
import asyncio, sys, time
from fastness.capabilities.memory import Add, Memory, MemoryScope
from fastness.capability import CallContext
from fastness.errors import QuotaExceeded
memory, scope, went = Memory(sys.argv[1]), MemoryScope(notes=100, quota=1 << 20), 0
of = CallContext(plugin="p", owner="o", run="r", scope=scope, deadline=time.monotonic() + 60)
print("ready", flush=True)
sys.stdin.readline()
try:
    for number in range(100):
        asyncio.run(memory.call("add", Add(f"note {number}"), of)); went += 1
except QuotaExceeded:
    pass
print(went, flush=True)
"""


def test_processes_at_once(memory: Memory, base: Path) -> None:
    """The quota is one for all, and so is the index."""
    environment = {**os.environ, "PYTHONPATH": str(house.SOURCE)}
    command = [sys.executable, "-c", _OTHER, str(base)]
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    went = 0
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        out, _ = process.communicate(timeout=60)
        went += int(out)
    assert went == 100
    whole = [one["text"] for one in memory.export("o")]
    assert len(whole) == 100
    assert len(ask(memory, "search", words="note", limit=50)["notes"]) == 50


# export and erasure


def test_export(memory: Memory) -> None:
    """Everything of an owner, whoever wrote it and wherever it is; or of one plugin."""
    for number in range(450):
        ask(memory, "add", text=f"note {number}")
    ask(memory, "add", context(SHARED, plugin="q"), text="shared", tags=["t"])
    ask(memory, "add", context(plugin="q"), text="own")
    ask(memory, "add", context(owner="another"), text="another's")
    whole = list(memory.export("o"))
    assert len(whole) == 452
    assert {note["plugin"] for note in whole} == {"p", "q"}
    assert [(note["text"], note["tags"], note["shared"]) for note in memory.export("o", "q")] == [
        ("shared", ["t"], True), ("own", [], False),
    ]  # fmt: skip
    assert list(memory.export("nobody")) == []


def on_disk(base: Path, word: str) -> bool:
    return any(word.encode() in path.read_bytes() for path in base.rglob("*") if path.is_file())


def test_erased(memory: Memory, base: Path) -> None:
    """No word of it is left in any file: not of notes that were changed or deleted before, nor in the index or the log."""
    for number in range(300):
        ask(memory, "add", text=f"marrowbone {number} " + "filler " * 50, tags=["gooseberry"])
    ask(memory, "update", id=7, text="quicksilver")
    ask(memory, "delete", id=8)
    ask(memory, "add", context(SHARED), text="marrowbone too")
    ask(memory, "add", context(owner="another"), text="lapwing")
    assert on_disk(base, "marrowbone")
    assert memory.erase("o") == 300
    for word in ("marrowbone", "quicksilver", "gooseberry", b"gooseberry".hex(), "filler"):
        assert not on_disk(base, word)
    assert on_disk(base, "lapwing")
    assert list(memory.export("o")) == []
    assert found(memory, "marrowbone") == []
    assert memory.erase("o") == 0
    # The quota is free again, and numbers are not used anew.
    assert ask(memory, "add", text="after") == 301


def test_erased_of_one_plugin(memory: Memory, base: Path) -> None:
    """What others wrote stays and is found, also where they share."""
    for plugin in ("p", "q"):
        ask(memory, "add", context(plugin=plugin), text=f"own of {plugin} marrowbone{plugin}")
        ask(memory, "add", context(SHARED, plugin=plugin), text=f"shared of {plugin} marrowbone{plugin}")
    assert memory.erase("o", "p") == 2
    assert not on_disk(base, "marrowbonep")
    assert [note["text"] for note in memory.export("o")] == ["shared of q marrowboneq", "own of q marrowboneq"]
    assert found(memory, "shared", context(SHARED, plugin="p")) == ["shared of q marrowboneq"]


def test_a_plugin_that_is_removed(memory: Memory, base: Path) -> None:
    """Its notes go, of every owner, and no other's."""
    for plugin, owner in (("p", "o"), ("p", "n"), ("q", "o")):
        ask(memory, "add", context(plugin=plugin, owner=owner), text=f"marrowbone{plugin}")
        ask(memory, "add", context(SHARED, plugin=plugin, owner=owner), text=f"shared marrowbone{plugin}")
    asyncio.run(memory.forget("p"))
    assert not on_disk(base, "marrowbonep")
    assert len(list(memory.export("o"))) == 2
    assert found(memory, "shared", context(SHARED, plugin="p", owner="n")) == []


def test_erased_while_it_is_read(memory: Memory, base: Path) -> None:
    """Readers and writers find the notes or none, and never half of one; afterwards nothing is left of what was there."""
    for number in range(200):
        ask(memory, "add", text=f"marrowbone {number}")
    faults: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                for note in ask(memory, "search", words="marrowbone", limit=50)["notes"]:
                    whole = ask(memory, "get", id=note["id"])
                    if whole is not None and whole["text"] != f"marrowbone {note['id'] - 1}":
                        faults.append(whole)
            except AdapterError:
                pass  # it was in use
            except Exception as error:  # noqa: BLE001  # told below
                faults.append(error)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for thread in readers:
        thread.start()
    time.sleep(0.1)
    # With another adapter, as in another process.
    other = Memory(str(base))
    erased = other.erase("o")
    time.sleep(0.1)
    stop.set()
    for thread in readers:
        thread.join()
    assert (faults, erased) == ([], 200)
    assert found(memory, "marrowbone") == []
    other.erase("o")
    assert not on_disk(base, "marrowbone")
    asyncio.run(other.aclose())


# what it is kept in


def test_files_are_private(memory: Memory, base: Path) -> None:
    """Folders and files of this user alone, whose names say nothing of the owner."""
    ask(memory, "add", context(owner="ann@example.com"), text="x")
    paths = list(base.rglob("*"))
    assert all(path.stat().st_mode & 0o077 == 0 for path in paths)
    assert not any("ann" in path.name for path in paths)


@pytest.mark.parametrize("content", [b"", b"no database" * 1000])
def test_a_file_that_is_none(content: bytes, memory: Memory, base: Path) -> None:
    """What somebody put in its place is an error without a path, or begun anew where it is empty."""
    ask(memory, "add", text="x")
    asyncio.run(memory.aclose())
    (path,) = base.rglob("p-p.db")
    path.write_bytes(content)
    for more in base.rglob("p-p.db-*"):
        more.unlink()
    if content:
        with pytest.raises(AdapterError) as caught:
            ask(memory, "list")
        assert str(base) not in str(caught.value)
    else:
        assert ask(memory, "list")["notes"] == []


def test_many_files(memory: Memory) -> None:
    """More owners than files are kept open: each finds its own."""
    for number in range(50):
        ask(memory, "add", context(owner=f"o{number}"), text=f"note {number}")
    assert len(memory._stores) <= 32
    for number in range(50):
        assert found(memory, "note", context(owner=f"o{number}")) == [f"note {number}"]


def test_the_index_is_that_of_the_notes(memory: Memory, base: Path) -> None:
    """After changes of every kind SQLite's own check finds the two agree."""
    for number in range(20):
        ask(memory, "add", text=f"word {number}", tags=["t"])
    ask(memory, "update", id=3, text="other", tags=["u"])
    ask(memory, "delete", id=4)
    memory.erase("o", "nobody")
    (path,) = base.rglob("p-p.db")
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO words (words, rank) VALUES ('integrity-check', 1)")
    (kept,) = connection.execute("SELECT count(*) FROM notes").fetchone()
    assert connection.execute("SELECT notes, bytes FROM used").fetchone() == (
        kept, connection.execute("SELECT sum(size) FROM notes").fetchone()[0],
    )  # fmt: skip
    connection.close()


def test_the_kit(base: Path) -> None:
    """``check_capability`` finds nothing: cancelled at any moment, all was done or nothing."""
    count = iter(range(10_000))
    made: list[Path] = []

    def make() -> Memory:
        made.append(base / str(next(count)))
        made[-1].mkdir(mode=0o700)
        return Memory(str(made[-1]))

    def state() -> object:
        path = next(iter(made[-1].rglob("p-check.db")), None)
        if path is None:
            return []
        connection = sqlite3.connect(path)
        try:
            return connection.execute("SELECT plugin, text, tags FROM notes").fetchall()
        except sqlite3.OperationalError:
            return []
        finally:
            connection.close()

    words = "what nobody is to read"
    cases = [
        Case(operation="add", arguments={"text": words, "tags": [words]}, scope=ROOM, payloads=(words,)),
        Case(operation="search", arguments={"words": words}, scope=ROOM, payloads=(words,)),
        Case(operation="list", arguments={}, scope=ROOM),
        Case(operation="get", arguments={"id": 1}, scope=ROOM),
        Case(operation="delete", arguments={"id": 1}, scope=SHARED),
        Case(operation="update", arguments={"id": 1, "text": words}, scope=ROOM, payloads=(words,)),
        Case(operation="add", arguments={"text": words}, scope=MemoryScope(notes=1, quota=10), code="quota"),
    ]
    assert asyncio.run(check_capability(make, cases, hidden=[str(base)], state=state)) == []
