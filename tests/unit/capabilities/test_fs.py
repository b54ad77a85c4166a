"""The capability ``fs``: its operations, its scope, and every spelling of a path that leads elsewhere."""

from __future__ import annotations

import asyncio
import os
import stat
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness._linux import beneath
from fastness.capabilities import _usage
from fastness.capabilities._paths import addressable, parts_of
from fastness.capabilities.fs import ENTRY_BYTES, SPEC, Fs, FsScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.runs import DenialCode

BOTH = FsScope(read=True, write=True)
READS = FsScope(read=True)
WRITES = FsScope(write=True)


def context(scope: FsScope = BOTH, **fields: Any) -> CallContext:
    given = {"plugin": "p", "owner": "o", "run": "r", "deadline": time.monotonic() + 60, "spent": {}}
    return CallContext(scope=scope, **{**given, **fields})


def ask(fs: Fs, name: str, path: str, of: CallContext | FsScope = BOTH, **arguments: Any) -> Any:
    """One call, as the broker makes it."""
    operation = SPEC.operation(name)
    assert operation is not None
    given = msgspec.convert({"path": path, **arguments}, operation.arguments, strict=True, builtin_types=(bytes,))
    return asyncio.run(fs.call(name, given, of if isinstance(of, CallContext) else context(of)))


def denied(function: Callable[[], object]) -> DenialCode:
    with pytest.raises(Denied) as caught:
        function()
    assert isinstance(caught.value.code, DenialCode)
    return caught.value.code


@pytest.fixture(params=["openat2", "no openat2"])
def top(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A root with a file and a folder, beside a secret, on kernels of both kinds."""
    if request.param == "openat2" and not beneath.has_openat2():
        pytest.skip("this kernel has no openat2")
    if request.param != "openat2":
        monkeypatch.setattr(beneath, "_works", False)
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "a.txt").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"from outside")
    return root


def entries(top: Path) -> set[str]:
    return {str(path.relative_to(top)) for path in top.rglob("*")}


# what it does


def test_reading(top: Path) -> None:
    """Whole, in part, and past the end; counted as what went to the guest."""
    fs = Fs(top)
    of = context()
    assert ask(fs, "read", "a.txt", of) == b"inside"
    assert of.bytes_in == 6
    assert ask(fs, "read", "a.txt", offset=2, length=3) == b"sid"
    assert ask(fs, "read", "a.txt", offset=4) == b"de"
    assert ask(fs, "read", "a.txt", offset=99) == b""
    assert ask(fs, "read", "a.txt", length=0) == b""
    assert ask(fs, "read", ".///a.txt") == b"inside"


def test_writing(top: Path) -> None:
    """New files and replaced ones, bytes and texts; a mode is kept, that of a new file is its owner's alone."""
    fs = Fs(top)
    (top / "a.txt").chmod(0o4755)
    of = context()
    assert ask(fs, "write", "a.txt", of, data=b"new") is False
    assert of.bytes_out == 3
    assert ask(fs, "write", "sub/b", of, data="grün") is True
    assert (top / "a.txt").read_bytes() == b"new"
    assert (top / "sub/b").read_text("utf-8") == "grün"
    assert stat.S_IMODE((top / "a.txt").stat().st_mode) == 0o755
    assert stat.S_IMODE((top / "sub/b").stat().st_mode) == 0o600
    assert entries(top) == {"a.txt", "sub", "sub/b"}


def test_listing_and_describing(top: Path) -> None:
    """Names in order with kind and size; a missing entry is None."""
    fs = Fs(top)
    os.mkfifo(top / "pipe")
    (top / "link").symlink_to("a.txt")
    assert ask(fs, "list", "") == {
        "entries": [
            {"name": "a.txt", "kind": "file", "size": 6},
            {"name": "link", "kind": "other", "size": 0},
            {"name": "pipe", "kind": "other", "size": 0},
            {"name": "sub", "kind": "folder", "size": 0},
        ],
        "more": False,
    }
    assert ask(fs, "stat", "a.txt")["size"] == 6
    assert ask(fs, "stat", "pipe")["kind"] == "other"
    assert ask(fs, "stat", "")["kind"] == "folder"
    assert ask(fs, "stat", "gone/deeper") is None


def test_deleting_and_making_folders(top: Path) -> None:
    """Files and empty folders; a full folder stays."""
    fs = Fs(top)
    assert ask(fs, "mkdir", "sub/deeper") is True
    assert ask(fs, "mkdir", "sub/deeper") is False
    with pytest.raises(AdapterError):
        ask(fs, "delete", "sub")
    with pytest.raises(AdapterError):
        ask(fs, "mkdir", "a.txt")
    assert ask(fs, "delete", "sub/deeper") is True
    assert ask(fs, "delete", "sub") is True
    assert ask(fs, "delete", "a.txt") is True
    assert ask(fs, "delete", "a.txt") is False
    assert entries(top) == set()
    assert denied(lambda: ask(fs, "mkdir", "no/deeper")) is DenialCode.ABSENT


def test_a_folder_for_each_owner(top: Path) -> None:
    """The host may choose the root by plugin and owner, which a guest has no words for."""
    for owner in ("ann", "bob"):
        (top / owner).mkdir()
    fs = Fs(lambda of: top / of.owner)
    ask(fs, "write", "x", context(owner="ann"), data=b"hers")
    assert ask(fs, "stat", "x", context(owner="bob")) is None
    assert (top / "ann/x").read_bytes() == b"hers"


# the scope


@pytest.mark.parametrize(
    ("scope", "code"),
    [(FsScope(), DenialCode.NOT_GRANTED), (READS, DenialCode.READ_ONLY)],
)
def test_what_is_not_granted_is_not_written(scope: FsScope, code: DenialCode, top: Path) -> None:
    """No write, delete or folder without write; the control does all three."""
    fs = Fs(top)

    def change(of: FsScope) -> list[Callable[[], object]]:
        return [
            lambda: ask(fs, "write", "new", of, data=b""),
            lambda: ask(fs, "write", "a.txt", of, data=b""),
            lambda: ask(fs, "mkdir", "folder", of),
            lambda: ask(fs, "delete", "a.txt", of),
            lambda: ask(fs, "delete", "sub", of),
        ]

    for attempt in change(scope):
        assert denied(attempt) is code
    assert entries(top) == {"a.txt", "sub"}
    assert (top / "a.txt").read_bytes() == b"inside"
    for attempt in change(BOTH):
        attempt()
    assert entries(top) == {"new", "folder"}


@pytest.mark.parametrize("scope", [FsScope(), WRITES])
def test_what_is_not_granted_is_not_read(scope: FsScope, top: Path) -> None:
    """A grant to write is none to read."""
    fs = Fs(top)
    for name in ("read", "stat", "list"):
        assert denied(lambda name=name: ask(fs, name, "a.txt", scope)) is DenialCode.NOT_GRANTED


def test_bytes_of_a_call(top: Path) -> None:
    """More than the ceiling is refused, exactly as much is not; nothing is left of what was refused."""
    fs = Fs(top)
    scope = FsScope(read=True, write=True, call_bytes=6)
    assert ask(fs, "read", "a.txt", scope) == b"inside"
    ask(fs, "write", "b", scope, data=b"123456")
    (top / "c").write_bytes(b"1234567")
    assert denied(lambda: ask(fs, "read", "c", scope)) is DenialCode.TOO_LARGE
    assert denied(lambda: ask(fs, "read", "a.txt", scope, length=7)) is DenialCode.TOO_LARGE
    assert ask(fs, "read", "c", scope, offset=1) == b"234567"
    for data in (b"1234567", "1234567", "äöüß"):
        assert denied(lambda data=data: ask(fs, "write", "d", scope, data=data)) is DenialCode.TOO_LARGE
    assert entries(top) == {"a.txt", "sub", "b", "c"}


def test_bytes_of_a_run(top: Path) -> None:
    """Files, folders and what they take are counted together; what failed is given back; another run has its own."""
    fs = Fs(top)
    of = context(FsScope(read=True, write=True, run_bytes=3 * ENTRY_BYTES + 10))
    ask(fs, "write", "one", of, data=b"12345")
    ask(fs, "mkdir", "two", of)
    ask(fs, "mkdir", "two", of)
    for _ in range(5):
        assert denied(lambda: ask(fs, "write", "gone/x", of, data=b"12345")) is DenialCode.ABSENT
    assert of.spent == {"fs.bytes": 2 * ENTRY_BYTES + 5}
    with pytest.raises(QuotaExceeded):
        ask(fs, "write", "three", of, data=b"123456")
    ask(fs, "write", "three", of, data=b"12345")
    for again in ("one", "four"):
        with pytest.raises(QuotaExceeded):
            ask(fs, "write", again, of, data=b"")
    with pytest.raises(QuotaExceeded):
        ask(fs, "mkdir", "five", of)
    assert entries(top) == {"a.txt", "sub", "one", "two", "three"}
    ask(fs, "write", "four", context(of.scope), data=b"")


def test_what_a_folder_may_hold(top: Path) -> None:
    """All runs together, with what is there already; what is no larger than before is written, and room is made."""
    fs = Fs(top)
    scope = FsScope(read=True, write=True, quota=4 * ENTRY_BYTES + 16)
    # A file of six bytes and a folder are there.
    ask(fs, "write", "one", scope, data=b"1234567890")
    ask(fs, "mkdir", "two", scope)
    for act in (("write", "three", {"data": b""}), ("mkdir", "three", {}), ("write", "one", {"data": b"12345678901"})):
        with pytest.raises(QuotaExceeded):
            ask(fs, act[0], act[1], context(scope), **act[2])
    assert entries(top) == {"a.txt", "sub", "one", "two"}
    ask(fs, "write", "one", scope, data=b"another 10")
    ask(fs, "mkdir", "two", scope)
    assert ask(fs, "delete", "two", scope)
    ask(fs, "write", "three", scope, data=b"")
    ask(fs, "write", "one", scope, data=b"123")
    ask(fs, "write", "three", scope, data=b"1234567")
    with pytest.raises(QuotaExceeded):
        ask(fs, "write", "three", scope, data=b"12345678")


def test_what_others_put_into_a_folder_counts(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another host's files are seen at the next look, and what failed to be written counts for nothing."""
    monkeypatch.setattr(_usage, "_FRESH_S", 0.0)
    monkeypatch.setattr(_usage, "_RARELY", 0)
    scope = FsScope(read=True, write=True, quota=5 * ENTRY_BYTES + 100)
    fs, other = Fs(top), Fs(top)
    ask(fs, "write", "one", scope, data=b"")
    ask(other, "mkdir", "sub/two", scope)
    for _ in range(5):
        assert denied(lambda: ask(fs, "write", "gone/x", scope, data=b"12345")) is DenialCode.ABSENT
    with pytest.raises(QuotaExceeded):
        ask(fs, "write", "three", scope, data=b"12345" * 1000)
    (top / "sub" / "two").rmdir()
    ask(fs, "write", "three", scope, data=b"12345")


def test_a_long_listing_is_cut(top: Path) -> None:
    """So many entries and no more, and it is said that there are others."""
    for number in range(1005):
        (top / f"sub/{number}").touch()
    found = ask(Fs(top), "list", "sub")
    assert (len(found["entries"]), found["more"]) == (1000, True)


@pytest.mark.parametrize("data", [5, None, ["x"], {"a": 1}, "\ud800", True])
def test_data_is_bytes_or_text(data: object, top: Path) -> None:
    """Anything else is an error, and nothing is written."""
    with pytest.raises(AdapterError):
        ask(Fs(top), "write", "x", data=data)
    assert entries(top) == {"a.txt", "sub"}


# paths


UPWARDS = [
    "..", "../", "../secret", "sub/../../secret", "sub/..", "./..", ".//../secret", "a.txt/..", "sub/../a.txt",
    "...", "sub/.../x", ".. ", " ..", ". .", "..  /secret", "..\u00a0/secret", "sub/.. /../secret",
    "%2e%2e/secret", "%2E%2E%2Fsecret", "..%2fsecret", "%252e%252e%252fsecret", "%25252e/x", ".%2e/secret",
    "%c0%ae%c0%ae/secret", "%c0%2e", "%e0%80%ae/secret", "%f0%80%80%ae", "%u002e%u002e/secret", "..%5csecret", "%00",
    "\uff0e\uff0e/secret", "\u2025/secret", "\u2024\u2024/secret", "..\uff0fsecret", "\uff0e./secret", "sub/\ufe52\ufe52/x",
    "..\\secret", "sub\\..\\..\\secret", "\\", "\\\\server\\share", "C:\\x", "C:", "c:/x",
    "/", "//", "/etc/passwd", "//etc/passwd", "/a.txt", "a.txt\0", "\0", "a\0/../secret", "sub/\0",
]  # fmt: skip


@pytest.mark.parametrize("path", UPWARDS, ids=ascii)
def test_paths_that_lead_upwards(path: str, top: Path) -> None:
    """Every spelling is refused, by every operation, before anything is opened; the file outside is as it was."""
    fs = Fs(top)
    for name, more in [
        ("read", {}),
        ("write", {"data": b"x"}),
        ("list", {}),
        ("stat", {}),
        ("delete", {}),
        ("mkdir", {}),
    ]:
        assert denied(lambda name=name, more=more: ask(fs, name, path, **more)) is DenialCode.ESCAPE
    assert entries(top) == {"a.txt", "sub"}
    assert (top.parent / "secret").read_bytes() == b"from outside"
    assert sorted(os.listdir(top.parent)) == ["root", "secret"]


def test_the_control_of_paths(top: Path) -> None:
    """Without the check some of these do lead to the file outside."""
    led = []
    for path in UPWARDS:
        for spelled in (path, urllib.parse.unquote(path), urllib.parse.unquote(urllib.parse.unquote(path))):
            try:
                led.append((top / spelled).read_bytes() == b"from outside")
            except (OSError, ValueError):
                continue
    assert sum(led) >= 6


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("x" * 256, "too_large"),
        ("ä" * 128, "too_large"),
        ("x/" * 65, "too_large"),
        ("x" * 1025, "too_large"),
        ("bad\udcff", "unsupported"),
        ("\ud800/x", "unsupported"),
        ("a\nb", "unsupported"),
        ("\x1b[2J", "unsupported"),
        ("\x7f", "unsupported"),
        ("a\x85b", "unsupported"),
        (".fastness-0011", "unsupported"),
        ("sub/.fastness-x/y", "unsupported"),
    ],
    ids=ascii,
)
def test_paths_that_are_no_use(path: str, code: str, top: Path) -> None:
    """Too long, not UTF-8, control characters, names of ours."""
    for name, more in [("read", {}), ("write", {"data": b"x"}), ("stat", {}), ("mkdir", {})]:
        assert denied(lambda name=name, more=more: ask(Fs(top), name, path, **more)).value == code
    assert entries(top) == {"a.txt", "sub"}


@pytest.mark.parametrize(
    "name",
    [
        "a b",
        "..a",
        "a..",
        ".hidden",
        "100%",
        "a:b",
        "ünï",
        "漢",
        "-rf",
        "~",
        "~root",
        "$HOME",
        "*",
        "a;b",
        "x" * 255,
    ],
)
def test_odd_names_that_are_plain(name: str, top: Path) -> None:
    """What is only a name is one: written, listed, read and deleted."""
    fs = Fs(top)
    ask(fs, "write", f"sub/{name}", data=b"odd")
    assert [entry["name"] for entry in ask(fs, "list", "sub")["entries"]] == [name]
    assert ask(fs, "read", f"sub/{name}") == b"odd"
    assert ask(fs, "delete", f"sub/{name}") is True


def test_names_that_no_guest_may_use_are_not_listed(top: Path) -> None:
    """What could not be read is not shown either."""
    for name in (b"bad\xff", b"a\nb", b".fastness-left", b"back\\slash", b"%2e%2e", "\uff0e\uff0e".encode()):
        (top / "sub" / os.fsdecode(name)).touch()
    assert ask(Fs(top), "list", "sub") == {"entries": [], "more": False}


@pytest.mark.parametrize("path", ["", ".", "./", ".//."])
def test_the_root_itself(path: str, top: Path) -> None:
    """It is listed and described; nothing else is done to it."""
    fs = Fs(top)
    assert len(ask(fs, "list", path)["entries"]) == 2
    assert ask(fs, "stat", path)["kind"] == "folder"
    for name, more in [("read", {}), ("write", {"data": b"x"}), ("delete", {}), ("mkdir", {})]:
        with pytest.raises(AdapterError):
            ask(fs, name, path, **more)
    assert top.is_dir()


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(["..", ".", "/", "\\", "a", "%2e", "\0", "．", " "]), max_size=12).map("".join)
)
def test_no_path_leads_out(path: str) -> None:
    """Whatever text: it is refused, or it is names of which none is another way up, and together they stay below."""
    try:
        parts = parts_of(path)
    except Denied as error:
        assert isinstance(error.code, DenialCode)
        return
    assert all(addressable(part) for part in parts)
    joined = os.path.normpath(os.path.join("/root", *parts))
    assert joined == "/root" + "".join(f"/{part}" for part in parts)
    assert parts_of("/".join(parts)) == parts


def test_scopes_that_meet() -> None:
    """What two scopes share is in both, and nothing where neither reads nor writes."""
    some = FsScope(read=True, call_bytes=5)
    assert SPEC.meet(some, BOTH) == FsScope(read=True, call_bytes=5)
    assert SPEC.meet(READS, WRITES) is None
    assert SPEC.meet(FsScope(), BOTH) is None
    assert SPEC.exceeds(BOTH, READS) == ["write, replace and delete files"]
    assert SPEC.exceeds(READS, some) == ["up to 1 MiB in one call"]
    for scope in (FsScope(), READS, WRITES, BOTH):
        assert SPEC.risk(scope)
