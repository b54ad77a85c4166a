"""Packages: what may be in one, the digest over all of it, and installed copies that are found out when they change."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import unicodedata
from pathlib import Path

import pytest
from fake_specs import SPECS
from hypothesis import given
from hypothesis import strategies as st

from fastness.errors import BackendError, ConfigurationError, ManifestError, PackageChanged
from fastness.plugins import installed
from fastness.plugins import package as packages
from fastness.plugins.package import Member, digest_of, manifest_of, read

TOML = b'id = "weather"\nversion = "1.0.0"\napi = 1\nruntime = "python"\nentry = "main.py"\n'


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "weather"
    (made / "lib").mkdir(parents=True)
    (made / "plugin.toml").write_bytes(TOML)
    (made / "main.py").write_bytes(b"def forecast(ctx): return 1\n")
    (made / "lib" / "tool.py").write_bytes(b"x = 1\n")
    (made / "lib" / "tool.py").chmod(0o755)
    return made


def problems(path: Path) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        read(path)
    return caught.value.problems


def test_reading(folder: Path) -> None:
    """Every file with its content and mode bit; the manifest comes from the same bytes."""
    package = read(folder)
    assert dict(package.files) == {
        "plugin.toml": Member(TOML, False),
        "main.py": Member(b"def forecast(ctx): return 1\n", False),
        "lib/tool.py": Member(b"x = 1\n", True),
    }
    (folder / "plugin.toml").write_text("changed afterwards")
    assert manifest_of(package, SPECS).id == "weather"


files = st.dictionaries(
    st.sampled_from(["a", "b", "a/b", "c d", "é"]), st.tuples(st.binary(max_size=4), st.booleans()), max_size=4
)


@given(files, files)
def test_a_digest_names_one_package(
    first: dict[str, tuple[bytes, bool]], second: dict[str, tuple[bytes, bool]]
) -> None:
    """Two packages have the same digest exactly where paths, mode bits and contents are the same."""
    one, two = ({path: Member(*member) for path, member in some.items()} for some in (first, second))
    assert (digest_of(one) == digest_of(two)) == (one == two)
    assert digest_of(dict(reversed(list(one.items())))) == digest_of(one)


def test_everything_counts(folder: Path) -> None:
    """Content, a name, the mode bit, one file more: each makes another digest; times and other bits do not."""
    seen = {read(folder).digest}
    os.utime(folder / "main.py", (1, 1))
    (folder / "main.py").chmod(0o640)
    assert read(folder).digest in seen
    steps = (
        lambda: (folder / "main.py").write_text("other"),
        lambda: (folder / "main.py").chmod(0o700),
        lambda: (folder / "main.py").rename(folder / "main2.py"),
        lambda: (folder / "empty").write_text(""),
    )
    for step in steps:
        step()
        digest = read(folder).digest
        assert digest not in seen
        seen.add(digest)


def test_what_no_package_holds(folder: Path, tmp_path: Path) -> None:
    """Links, pipes, sockets, set-id files, hard links, odd names, compiled code: all are named, none is read."""
    secret = tmp_path / "secret"
    secret.write_text("token")
    (folder / "link.py").symlink_to(secret)
    (folder / "lib" / "up").symlink_to("/etc")
    os.mkfifo(folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "sock"))
    os.link(secret, folder / "hard.py")
    (folder / "setuid").write_text("")
    (folder / "setuid").chmod(0o4755)
    (folder / "old.pyc").write_text("")
    (folder / "a\u202eyp.b").write_text("")
    (folder / unicodedata.normalize("NFD", "é.py")).write_text("")
    (folder / "line\nend").write_text("")
    os.close(os.open(os.fsencode(folder) + b"/\xff.py", os.O_CREAT | os.O_WRONLY))
    if os.geteuid() == 0:
        try:
            os.mknod(folder / "null", 0o600 | 0o020000, os.makedev(1, 3))
        except PermissionError:
            pass
    found = "\n".join(problems(folder))
    listener.close()
    for words in (
        "link.py: a link", "lib/up: a link", "pipe: a pipe", "sock: a socket", "hard.py: it has 2 names", "setuid: it is set-user-id",
        "old.pyc: compiled", ".b: its name", "(NFC)", "\\x0aend: its name", "\\xff.py: its name",
    ):  # fmt: skip
        assert words in found, words
    if (folder / "null").exists():
        assert "null: a device" in found
    assert "token" not in found
    assert "main.py" not in found, "the control: what is good is no problem"
    assert (folder / "link.py").read_text() == "token", "the control: whoever follows it reads it"


def test_source_that_is_a_link_or_no_file(folder: Path, tmp_path: Path) -> None:
    """The folder itself is not followed through a link; what is neither file nor folder is refused without waiting."""
    (tmp_path / "alias").symlink_to(folder)
    assert "symbolic link" in problems(tmp_path / "alias")[0]
    os.mkfifo(tmp_path / "pipe.py")
    assert "not a regular file" in problems(tmp_path / "pipe.py")[0]
    assert "No such file" in problems(tmp_path / "missing")[0]
    (tmp_path / "nothing").mkdir()
    assert "no file" in problems(tmp_path / "nothing")[0]


def test_too_much(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many files, one too large, all too large: refused before they are read, with the path."""
    with (folder / "sparse").open("wb") as stream:
        stream.truncate(packages.FILE_MAX + 1)
    assert problems(folder)[0].startswith("sparse: its 67108865 bytes")
    (folder / "sparse").unlink()
    monkeypatch.setattr(packages, "TOTAL_MAX", 100)
    assert any("are left of" in line for line in problems(folder))
    monkeypatch.setattr(packages, "TOTAL_MAX", 1 << 20)
    monkeypatch.setattr(packages, "FILES_MAX", 3)
    assert any("more than 3 files" in line for line in problems(folder))
    monkeypatch.setattr(packages, "FILES_MAX", 4)
    assert len(read(folder).files) == 3


def test_a_file_that_changes_while_it_is_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that grows or shrinks under the reader is refused: half of each is no file."""
    for grow in (True, False):
        real = os.read
        done = []

        def read_and_change(
            descriptor: int, count: int, grow: bool = grow, done: list[int] = done, real: object = real
        ) -> bytes:
            if not done:
                done.append(1)
                with (folder / "main.py").open("ab" if grow else "wb") as stream:
                    stream.write(b"x" * 100 if grow else b"")
            return real(descriptor, count)  # type: ignore[operator]

        (folder / "lib" / "tool.py").write_text("y = 1")
        for name in ("plugin.toml", "lib/tool.py"):
            (folder / name).unlink(missing_ok=True)
        (folder / "main.py").write_text("z = 1")
        monkeypatch.setattr(packages.os, "read", read_and_change)
        assert problems(folder) == ["main.py: it changed while it was read"]
        monkeypatch.setattr(packages.os, "read", real)


def test_left_out(folder: Path) -> None:
    """Folders that tools make are not taken, so what is hidden there does not run; it is said."""
    plain = read(folder).digest
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "main.cpython-311.pyc").write_bytes(b"other code")
    (folder / "lib" / ".git").mkdir()
    (folder / "lib" / ".git" / "config").write_text("x")
    package = read(folder)
    assert package.digest == plain
    assert sorted(package.left_out) == ["__pycache__", "lib/.git"]


def test_manifests_of_packages(folder: Path, tmp_path: Path) -> None:
    """A folder has a plugin.toml and the entry that it names; a Python file has its own; others need a folder."""
    (folder / "main.py").unlink()
    with pytest.raises(ManifestError, match=r"entry: there is no file 'main\.py'"):
        manifest_of(read(folder), SPECS)
    (folder / "plugin.toml").rename(folder / "Plugin.toml")
    with pytest.raises(ManifestError, match=r"there is Plugin\.toml"):
        manifest_of(read(folder), SPECS)
    single = tmp_path / "analytics.py"
    single.write_text('MANIFEST = {"id": "analytics", "version": "1.0.0"}\nraise SystemExit("executed")\n')
    made = manifest_of(read(single), SPECS)
    assert (made.id, made.entry, made.runtime, made.api) == ("analytics", "analytics.py", "python", 1)
    single.write_text('MANIFEST = {"id": "analytics", "version": "1.0.0", "entry": "other.py"}')
    with pytest.raises(ManifestError, match="the file itself"):
        manifest_of(read(single), SPECS)
    for name in ("a.wasm", "a.mjs", "a.txt"):
        (tmp_path / name).write_text("x")
        with pytest.raises(ManifestError, match=r"plugin\.toml"):
            manifest_of(read(tmp_path / name), SPECS)
    (tmp_path / "a.mjs").write_text("x")
    made = manifest_of(read(tmp_path / "a.mjs"), SPECS, evaluate=lambda name, source: {"id": "a", "version": "1.0.0"})
    assert (made.runtime, made.entry) == ("javascript", "a.mjs")


# installed


def test_install_and_open(folder: Path, home: Path) -> None:
    """The copy is what was read, private and not writable; installing it again changes nothing."""
    package = read(folder)
    assert installed.install(package) == package.digest
    assert installed.install(package) == package.digest
    top = home / "data" / "plugins" / package.digest
    assert sorted(os.listdir(home / "data" / "plugins")) == [package.digest]
    assert (top.stat().st_mode & 0o777, (top / "files" / "main.py").stat().st_mode & 0o777) == (0o700, 0o400)
    assert (top / "files" / "lib" / "tool.py").stat().st_mode & 0o777 == 0o500
    opened = installed.open_installed(package.digest)
    assert opened.package == package
    assert opened.unchanged()
    (folder / "main.py").write_text("changed at the source")
    assert installed.open_installed(package.digest).package == package


CHANGES = {
    "content": lambda top: _write(top / "files/main.py", b"def forecast(ctx): return 2\n"),
    "same size and time": lambda top: _stealthy(top / "files/main.py"),
    "mode bit": lambda top: (top / "files/main.py").chmod(0o500),
    "missing": lambda top: (top / "files/main.py").unlink(),
    "added": lambda top: (top / "files/more.py").write_text("x"),
    "added compiled": lambda top: _write(top / "files/__pycache__/main.cpython-311.pyc", b"x"),
    "added beside": lambda top: (top / "more").write_text("x"),
    "link": lambda top: _link(top / "files/main.py"),
    "hard link": lambda top: os.link(top / "files/main.py", top.parent / "twin"),
    "folder for a link": lambda top: _folder_link(top / "files/lib"),
    "listing": lambda top: _write(top / "listing", (top / "listing").read_bytes() + b"- 0 00 x\n"),
    "no listing": lambda top: (top / "listing").unlink(),
    "no files": lambda top: _gone(top / "files"),
    "all": lambda top: _gone(top),  # noqa: PLW0108  # it is defined below
    "pipe": lambda top: ((top / "files/main.py").unlink(), os.mkfifo(top / "files/main.py")),
}


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(exist_ok=True)
    if path.exists():
        path.chmod(0o600)
    path.write_bytes(data)
    path.chmod(0o400)


def _stealthy(path: Path) -> None:
    status, data = path.stat(), path.read_bytes()
    _write(path, data.replace(b"1", b"2"))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _link(path: Path) -> None:
    other = path.parents[3] / "other.py"
    other.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(other)


def _folder_link(path: Path) -> None:
    path.rename(path.parents[2] / "lib")
    path.symlink_to(path.parents[2] / "lib")


def _gone(path: Path) -> None:
    subprocess.run(["rm", "-rf", str(path)], check=True)


@pytest.mark.parametrize("name", CHANGES)
def test_changes_are_found(name: str, folder: Path, home: Path) -> None:
    """Whatever is done to an installed copy is found when it is opened, and by the cheap look of who has it open."""
    package = read(folder)
    digest = installed.install(package)
    opened = installed.open_installed(digest)
    top = home / "data" / "plugins" / digest
    CHANGES[name](top)
    if name != "added compiled":
        assert not opened.unchanged()
    assert opened.package == package, "who has it open runs what was checked"
    with pytest.raises(PackageChanged) as caught:
        installed.open_installed(digest)
    if name in ("content", "same size and time", "mode bit"):
        assert caught.value.problems == ("main.py: it was changed",)
    if name == "missing":
        assert caught.value.problems == ("main.py: it is missing",)
    if name == "added":
        assert caught.value.problems == ("more.py: it was added",)
    # Installing it again puts it right.
    for left in ("twin", "lib"):
        if (home / "data" / "plugins" / left).exists():
            _gone(home / "data" / "plugins" / left)
    assert installed.install(package) == digest
    assert installed.open_installed(digest).package == package


def test_a_write_while_it_is_opened(folder: Path, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """What is written between the look and the reading shows at the next look."""
    digest = installed.install(read(folder))
    real = installed.read_folder

    def slow(top: int) -> object:
        found = real(top)
        _stealthy(home / "data" / "plugins" / digest / "files" / "main.py")
        return found

    monkeypatch.setattr(installed, "read_folder", slow)
    opened = installed.open_installed(digest)
    assert opened.package.files["main.py"].content == b"def forecast(ctx): return 1\n"
    assert not opened.unchanged()


def test_digests_are_names(home: Path) -> None:
    """What is no digest names no folder."""
    for name in ("../x", "", "A" * 64, "0" * 63, "0" * 64 + "\n"):
        with pytest.raises(ConfigurationError):
            installed.open_installed(name)
        with pytest.raises(ConfigurationError):
            installed.remove(name)
    with pytest.raises(PackageChanged, match="not there"):
        installed.open_installed("0" * 64)
    installed.remove("0" * 64)


def test_a_full_disk(folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full in the middle is an error, and nothing is left."""

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    package = read(folder)
    monkeypatch.setattr(installed.os, "write", full)
    with pytest.raises(BackendError, match="No space left"):
        installed.install(package)
    monkeypatch.undo()
    monkeypatch.setenv("FASTNESS_HOME", str(home))
    assert os.listdir(home / "data" / "plugins") == []
    assert installed.install(package) == package.digest


def test_many_install_at_once(folder: Path, home: Path) -> None:
    """Processes and threads that install the same package get one whole copy, and leave nothing."""
    code = "import sys; from fastness.plugins import installed, package; p = package.read(sys.argv[1]); [installed.install(p) for _ in range(5)]"
    children = [subprocess.Popen([sys.executable, "-c", code, str(folder)], stderr=subprocess.PIPE) for _ in range(3)]
    package = read(folder)
    threads = [threading.Thread(target=installed.install, args=(package,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors.decode()
    assert os.listdir(home / "data" / "plugins") == [package.digest]
    assert installed.open_installed(package.digest).package == package


def test_what_a_killed_process_leaves(folder: Path, home: Path) -> None:
    """A folder whose maker was killed goes with the next sweep; one whose maker lives stays."""
    code = (
        "import os, sys; from fastness.plugins import installed, package\n"
        "installed._write_all = lambda top, package: (print('half', flush=True), sys.stdin.read())\n"
        "installed.install(package.read(sys.argv[1]))"
    )
    child = subprocess.Popen([sys.executable, "-c", code, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"half\n"
    installed.sweep()
    assert len(os.listdir(home / "data" / "plugins")) == 1, "the control: its maker lives"
    child.kill()
    child.communicate()
    installed.sweep()
    assert os.listdir(home / "data" / "plugins") == []


def test_prune(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no plugin is goes at once, but nothing while somebody is about to say that it is one."""
    first = installed.install(read(folder))
    (folder / "main.py").write_text("other")
    monkeypatch.setattr(installed, "_PATIENCE_S", 0.0)
    with installed.arriving():
        second = installed.install(read(folder))
        with installed.arriving():
            assert installed.prune(lambda: {first}) == [], "two may install at once, and neither loses its package"
    assert installed.prune(lambda: {first, second}) == []
    assert installed.prune(lambda: {first}) == [second]
    assert installed.open_installed(first)
    with pytest.raises(PackageChanged):
        installed.open_installed(second)
