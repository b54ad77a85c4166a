"""
What goes into a run (files, stdin, arguments, environment) and what comes out of its work folder.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

import fastness

pytestmark = pytest.mark.tiers("wasm", "isolated", "confined")


def test_changes(box: fastness.Sandbox) -> None:
    """New and changed files are in ``files``; ``changes`` sorts out which; untouched inputs are in neither."""
    code = (
        "import os, tempfile\n"
        "open('new', 'w').write('n')\n"
        "open('edited', 'a').write('+')\n"
        "open('same', 'r+').write('same')\n"
        "os.remove('removed')\n"
        "os.rename('moved', 'dir/target')\n"
        "os.makedirs('a/b/c'); open('a/b/c/deep', 'wb').write(bytes(range(256)))\n"
        "open('short', 'w').close(); os.remove('short')\n"
        "os.makedirs('empty/folder')\n"
        "open('recreated', 'w').write('x'); os.remove('recreated'); open('recreated', 'w').write('was')\n"
        "open(tempfile.gettempdir() + '/scratch', 'w').write('not collected')\n"
    )
    inputs = {name: name for name in ("edited", "same", "removed", "moved", "untouched", "dir/x")}
    result = box.run(code, files={**inputs, "recreated": "was"})
    assert result.ok, result.stderr
    found = {path: file.read() for path, file in result.files.items()}
    assert found["new"] == b"n"
    assert found["edited"] == b"edited+"
    assert found["dir/target"] == b"moved"
    assert found["a/b/c/deep"] == bytes(range(256))
    assert not set(found) & {"untouched", "dir/x", "short", "removed", "moved"}
    assert set(result.changes.added) >= {"new", "dir/target", "a/b/c/deep"}
    assert result.changes.changed[0] == "edited"
    assert result.changes.deleted == ("moved", "removed")
    assert list(result.files) == sorted(result.files)


def test_reading_changes_nothing(box: fastness.Sandbox) -> None:
    """A run that only looks has no files and no changes."""
    result = box.run("open('a').read(); import os; os.stat('a'); os.listdir('.')", files={"a": "1", "b/c": "2"})
    assert dict(result.files) == {}
    assert result.changes == fastness.Changes()


def test_file_objects(box: fastness.Sandbox, tmp_path: Path) -> None:
    """A file knows its size and digest, and writes itself where the caller says, never through a link."""
    result = box.run("import os; os.mkdir('d'); open('d/f', 'wb').write(b'\\x00data\\xff')")
    file = result.files["d/f"]
    assert (file.size, file.read()) == (6, b"\x00data\xff")
    assert file.sha256 == hashlib.sha256(b"\x00data\xff").hexdigest()
    assert file.save(tmp_path / "new" / "name").read_bytes() == file.read()
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match="symbolic"):
        file.save(tmp_path / "link")
    assert (tmp_path / "secret").read_text() == "secret"
    assert [p.read_bytes() for p in result.files.save(tmp_path / "all")] == [file.read()]
    assert (tmp_path / "all" / "d" / "f").exists()


def test_saving_all_files_stays_below_the_folder(box: fastness.Sandbox, tmp_path: Path) -> None:
    """A link that waits in the target folder does not lead a guest's file out of it."""
    result = box.run("import os; os.mkdir('d'); open('d/f', 'w').write('guest')")
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "d").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError):
        result.files.save(tmp_path / "out")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_names_of_result_files(box: fastness.Sandbox, tier: str) -> None:
    """Names that a guest gives its files come back exactly, whatever is in them; none leads anywhere else."""
    names = [
        "with space",
        "-rf",
        "new\nline",
        "tab\t",
        "\N{SNOWMAN}",
        "x" * 255,
        "a:b",
        "back\\slash",
        "%2e%2e",
        "...",
        " ",
    ]
    result = box.run(f"for name in {names!r}: open(name, 'w').write(name)")
    assert result.ok, result.stderr
    if tier != "wasm":
        # What is read off a folder of the kernel's goes to terminals and archives, so these two are rows instead.
        odd = [name for name in names if "\n" in name or "\t" in name]
        assert {row.operation for row in result.denials} == {"collect"} and len(result.denials) == len(odd)
        names = [name for name in names if name not in odd]
    assert {path: file.read().decode() for path, file in result.files.items()} == {name: name for name in names}
    result = box.run("import os\nfor name in (b'\\xff', b'a\\x80'):\n  try: open(name, 'w')\n  except OSError: pass")
    assert dict(result.files) == {}
    for path in ("../escape", "/escape", "/etc/escape", "../../work/../escape"):
        result = box.run(f"open({path!r}, 'w').write('x')")
        assert not result.ok
        assert dict(result.files) == {}


@pytest.mark.tiers("wasm", "isolated")
def test_many_and_large_files(box: fastness.Sandbox) -> None:
    """Up to the limits everything comes back."""
    result = box.run("for i in range(3000): open(f'{i:04}', 'w').write(str(i))")
    assert len(result.files) == 3000
    assert result.files["2999"].read() == b"2999"
    result = box.run("open('big', 'wb').write(bytes(range(256)) * (100 << 12))")
    assert result.files["big"].sha256 == hashlib.sha256(bytes(range(256)) * (100 << 12)).hexdigest()
    assert result.usage.file_bytes == 100 << 20


def test_sparse_files_count_in_full(box: fastness.Sandbox) -> None:
    """A file is as large as it says: seeking far and writing one byte is no way around the cap."""
    code = "f = open('s', 'wb'); f.seek({}); f.write(b'x'); f.close()"
    assert box.run(code.format(1 << 40)).outcome.kind is fastness.OutcomeKind.DISK
    result = box.run(code.format(1 << 20))
    assert result.files["s"].size == (1 << 20) + 1
    result = box.run("f = open('s', 'wb'); f.truncate(1 << 40)")
    assert result.outcome.kind is fastness.OutcomeKind.DISK


def test_stdin(box: fastness.Sandbox) -> None:
    """Standard input is what was passed, then its end; none passed is an empty one."""
    assert box.run("import sys; sys.stdin.read()", stdin="text\n\N{SNOWMAN}").value == "text\n\N{SNOWMAN}"
    assert box.run("import sys; sys.stdin.buffer.read()", stdin=b"\x00\xff").value == b"\x00\xff"
    assert box.run("[input(), input()]", stdin="one\ntwo\n").value == ["one", "two"]
    assert box.run("import sys; sys.stdin.read()").value == ""
    data = os.urandom(3 << 20)
    code = "import sys, hashlib; hashlib.sha256(sys.stdin.buffer.read()).hexdigest()"
    assert box.run(code, stdin=data).value == hashlib.sha256(data).hexdigest()
    assert box.run("import sys\n[line.strip() for line in sys.stdin]", stdin="a\nb").value == ["a", "b"]
    # Where one run left its input half read, the next begins at the start of its own.
    assert box.run("input()", stdin="first\nrest\n").value == "first"
    assert box.run("input()", stdin="second\n").value == "second"


def test_arguments(box: fastness.Sandbox) -> None:
    """Arguments arrive as they are; the program's name comes first."""
    args = ["", "-c", "--x=1", "with space", "\N{SNOWMAN}", "a\nb"]
    assert box.run("import sys; sys.argv", args=args).value == ["-c", *args]
    assert box.run("import sys; sys.argv", args=args, filename="p.py").value == ["p.py", *args]
    assert box.run("import sys; sys.argv").value == ["-c"]


_CONSTANTS = {"TMPDIR", "PYTHONTZPATH", "MPLBACKEND", "MPLCONFIGDIR", "LANG", "NO_COLOR"}
#: A native guest's libraries would start threads of their own.
_NATIVE_CONSTANTS = {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "MALLOC_ARENA_MAX"}


def test_environment_is_only_what_was_passed(box: fastness.Sandbox, tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the caller's environment is there: passed variables, and the guest's own few constants."""
    monkeypatch.setenv("FASTNESS_TEST_SECRET", "s3cr3t")
    result = box.run(
        "import os; dict(os.environ)", env={"A": "1", "\N{SNOWMAN}": "\N{SNOWMAN}", "EMPTY": "", "HOME": "/work"}
    )
    passed = {"A": "1", "\N{SNOWMAN}": "\N{SNOWMAN}", "EMPTY": "", "HOME": "/work"}
    assert passed.items() <= result.value.items()
    rest = set(result.value) - set(passed)
    assert rest <= _CONSTANTS | (set() if tier == "wasm" else _NATIVE_CONSTANTS)
    assert "s3cr3t" not in repr(result.value)
    for name in os.environ:
        if name not in _CONSTANTS | _NATIVE_CONSTANTS | {"HOME"}:
            assert name not in result.value
    # os.getenv, the C library's view and the mapping agree.
    assert box.run("import os; [os.getenv('A'), os.environb[b'A'] if hasattr(os, 'environb') else b'1']",
                   env={"A": "1"}).value == ["1", b"1"]  # fmt: skip


@pytest.mark.tiers("wasm")
def test_work_folder_is_the_current_one(box: fastness.Sandbox) -> None:
    """The guest starts in /work; /work and /tmp are writable, the library is not."""
    result = box.run("import os; [os.getcwd(), sorted(os.listdir('/'))]")
    assert result.value == ["/work", ["tmp", "work"]]
    assert box.run("open('/work/x', 'w').write('1'); open('/tmp/x', 'w').write('1')").value == 1
    for code in (
        "open('/x', 'w')",
        "import os; os.mkdir('/x')",
        "import os; os.rmdir('/tmp')",
        "import os; os.rename('/work', '/w')",
        "import os; os.rename('/tmp', '/work/tmp')",
        "import json, os; os.remove(json.__file__)",
        "open('/usr/local/lib/x', 'w')",
        "open('/usr/local/lib/python315.zip', 'r+')",
    ):
        result = box.run(code)
        assert not result.ok, code
        assert result.outcome.kind is fastness.OutcomeKind.GUEST_ERROR
        assert box.run("import json, os; [json.dumps(1), os.listdir('/work')]").value == ["1", []]


def test_host_paths_are_not_there(box: fastness.Sandbox, tier: str, open_folder: Path) -> None:
    """A file that exists on the host, by the same path, does not exist for the guest.

    In ``wasm`` the host sees the attempt and records it; a native guest asks the kernel, which keeps no record.
    """
    # Every user of this machine may read it, so that a native guest, which is another one, is not kept out by its mode.
    secret = open_folder / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    assert os.path.exists("/etc/shadow")
    for path in (str(secret), "/etc/shadow", "/proc/1/environ", "../etc/shadow",
                 "/work/../etc/shadow", "/tmp/../../etc/shadow", os.path.expanduser("~/.bashrc")):  # fmt: skip
        result = box.run(f"open({path!r}).read()")
        assert result.outcome.kind is fastness.OutcomeKind.GUEST_ERROR
        assert "FileNotFoundError" in result.outcome.detail or "PermissionError" in result.outcome.detail
        rows = [row for row in result.denials if not row.claimed]
        if tier == "wasm":
            assert rows and rows[0].code in (fastness.DenialCode.ABSENT, fastness.DenialCode.OUTSIDE)
            assert rows[0].operation.startswith("path_")
        else:
            assert rows == []


@pytest.mark.tiers("wasm")
def test_denials_merge_and_are_capped(box: fastness.Sandbox) -> None:
    """Equal rows are one with a count; past the cap rows are counted."""
    result = box.run("import os\nfor _ in range(1000): os.path.exists('/etc/shadow')")
    rows = [row for row in result.denials if row.target == "/etc/shadow"]
    assert [row.count for row in rows] == [1000]
    result = box.run("import os\nfor i in range(1000): os.path.exists(f'/etc/{i}')")
    assert len(result.denials) == 64
    assert result.usage.denials_dropped == 1000 - 64
    result = box.run("import os\nfor i in range(100): os.path.exists('/' + f'{i:03}' + 'x' * 3000)")
    assert all(len(row.target) <= 256 for row in result.denials)


@pytest.mark.tiers("wasm")
@pytest.mark.parametrize(
    ("code", "operation"),
    [
        ("import socket; socket.socket()", "socket.__new__"),
        ("import socket; socket.create_connection(('example.com', 80))", "socket.getaddrinfo"),
        ("import urllib.request; urllib.request.urlopen('http://example.com/')", "socket.getaddrinfo"),
        ("import subprocess; subprocess.run(['id'])", "subprocess.Popen"),
        ("import os; os.system('id')", "os.system"),
        ("import ctypes; ctypes.CDLL('libc.so.6')", "ctypes.load"),
    ],
)
def test_guest_rows_are_claims(box: fastness.Sandbox, code: str, operation: str) -> None:
    """What the guest's own libc refuses is recorded by the guest, marked as its word only."""
    result = box.run("try:\n  " + code.replace("; ", "\n  ") + "\nexcept Exception as e: print(type(e).__name__)")
    rows = [row for row in result.denials if row.operation == operation]
    assert rows, result
    assert all(row.claimed and row.layer == "guest" for row in rows)


def test_files_that_nobody_closed_are_whole(box: fastness.Sandbox) -> None:
    """As at the end of an interpreter: what is still buffered is written, after an error or an exit too."""
    for end in ("", "\n1 / 0", "\nimport sys; sys.exit(3)"):
        result = box.run("f = open('a.txt', 'w')\nf.write('all of it')" + end)
        assert result.files["a.txt"].read() == b"all of it", end
    result = box.run("class A:\n  def __del__(self): print('bye')\na = A()\nprint('hi')")
    assert result.stdout == "hi\nbye\n"
