"""
A folder of this machine as ``/work`` itself, on request: it is that folder, it is shown to be, and nothing beside it
can be reached.  Each attempt has a control in which it works.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import plain
import pytest

import house
from fastness._container import bind as binds
from fastness._container import spec
from fastness._container.probe import Engine
from fastness.backends.container import ContainerBackend
from fastness.errors import ConfigurationError, TierUnavailable
from fastness.runs import OutcomeKind
from fastness.sync import Sandbox


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of the guest's user, beside one that is not its business."""
    with tempfile.TemporaryDirectory(prefix=f"fastness-bind-{os.getpid()}-", dir="/var/tmp") as top:
        Path(top).chmod(0o755)
        made = Path(top) / "project"
        made.mkdir()
        os.chown(made, 65532, 65532)
        (made / "given").write_text("given")
        (Path(top) / "beside").write_text("of the host")
        yield made


def test_it_is_that_folder(box: Sandbox, folder: Path) -> None:
    code = "open('made', 'w').write(open('given').read() + '!'); 6 * 7"
    result = box.run(code, bind=folder)
    assert (result.outcome.kind, result.value) == (OutcomeKind.OK, 42)
    assert (folder / "made").read_text() == "given!"
    assert (folder / "made").stat().st_uid == 65532
    # Nothing was copied, so there is nothing to hand over or to apply.
    assert (dict(result.files), result.changes.added) == ({}, ())
    result = box.run(command=["python3", "-c", "import os; os.remove('made'); print(os.listdir())"], bind=folder)
    assert result.stdout == "['given']\n"
    assert not (folder / "made").exists()


def test_a_socket_in_it_leads_out_and_the_result_says_so(box: Sandbox, folder: Path) -> None:
    """Whoever listens there is met, which is why such a run does not promise ``NET_CONFINED``."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "s"))
        (folder / "s").chmod(0o777)
        listener.listen(1)
        listener.settimeout(20)
        code = "import socket; s = socket.socket(socket.AF_UNIX); s.connect('/work/s'); s.sendall(b'met')"
        result = box.run(command=["python3", "-c", code], bind=folder)
        met, _ = listener.accept()
        with met:
            assert met.recv(10) == b"met"
    assert result.ok
    assert "NET_CONFINED" not in result.guarantees


def test_everybodys_folders_are_refused(box: Sandbox, folder: Path) -> None:
    folder.chmod(0o1777)
    with pytest.raises(ConfigurationError, match="everybody"):
        box.run("1", bind=folder)
    folder.chmod(0o777)
    assert box.run("1", bind=folder).ok


def test_the_result_does_not_promise_what_it_has_not(box: Sandbox, folder: Path) -> None:
    bound, other = box.run("1", bind=folder), box.run("1")
    assert set(other.guarantees) - set(bound.guarantees) == {"FS_CONFINED", "NET_CONFINED"}
    assert "without a quota" in bound.layers["FS_CONFINED"]
    assert "quota" not in other.layers["FS_CONFINED"]
    assert "sockets in /work" in bound.layers["NET_CONFINED"]
    assert "sockets" not in other.layers["NET_CONFINED"]


def test_there_is_no_quota(box: Sandbox, folder: Path) -> None:
    """Of one file there is an end, of all together none; the copy that runs get without it has one."""
    code = """
written = 0
try:
    for number in range(4):
        with open(f"f{number}", "wb") as file: written += file.write(b"x" * (1 << 20))
except OSError as error:
    print(error.errno)
written
"""
    limits = {"file_bytes": 2 << 20}
    assert box.run(code, bind=folder, limits=limits).value == 4 << 20
    result = box.run(code, limits=limits)
    assert (result.value, result.stdout) == (2 << 20, "28\n")


def test_what_is_beside_it_cannot_be_reached(box: Sandbox, folder: Path) -> None:
    """By no path, link or link of files; the same folder above it, bound without us, shows that they would lead there."""
    code = f"""
import json, os
found = []
def attempt(name, function):
    try:
        function(); found.append(name)
    except OSError: pass
for number, path in enumerate(("../beside", "{folder.parent}/beside", "link/beside", "/work/../beside")):
    attempt(f"read{{number}}", lambda path=path: open(path).read())
    attempt(f"write{{number}}", lambda path=path: open(path, "a").close())
attempt("hard", lambda: os.link("link/beside", "hard"))
attempt("device", lambda: os.mknod("device", 0o60666, os.makedev(254, 0)))
attempt("owner", lambda: os.chown("given", 0, 0))
print(json.dumps(found))
"""
    (folder / "link").symlink_to(folder.parent)
    result = box.run(command=["python3", "-c", code], bind=folder)
    assert json.loads(result.stdout) == []
    assert (folder.parent / "beside").read_text() == "of the host"
    # Where nothing keeps it in, each of these paths leads there.
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    assert {"read0", "read1", "read2", "write0", "write1", "write2", "hard"} <= set(json.loads(done.stdout))


def test_a_set_user_id_program_of_that_folder_gains_nothing(engine: Engine, box: Sandbox, folder: Path) -> None:
    """Docker's mounts of folders take no nosuid; that no privilege can be gained does not rest on it."""
    program = folder / "suid"
    program.write_bytes(Path(os.path.realpath(sys.executable)).read_bytes())
    program.chmod(0o4755)
    code = """
import subprocess, sys
home = {"PYTHONHOME": sys.base_prefix}
print(subprocess.run(["/work/suid", "-S", "-c", "import os; print(os.geteuid())"], env=home, capture_output=True,
    text=True).stdout)
"""
    assert box.run(command=["python3", "-c", code], bind=folder).stdout.strip() == "65532"
    mounts = [{"Type": "bind", "Source": str(folder), "Target": "/work"}]
    tmpfs = {"/tmp": "rw,mode=1777"}
    change = plain.host(Mounts=mounts, Tmpfs=tmpfs)
    assert plain.run(engine, code, change)[1].strip() == "65532"
    if engine.kind == "docker":
        # Podman's are nosuid by themselves.
        assert plain.run(engine, code, change, plain.without_security("no-new"))[1].strip() == "0"


def test_a_folder_that_was_exchanged_is_found_out(
    box: Sandbox, engine: Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and the mount, which an engine does as root, another may have come in its place."""
    other = folder.parent / "other"
    other.mkdir()
    os.chown(other, 65532, 65532)
    look = binds.look

    def swapped(path: str, socket: str) -> binds.Bind:
        found = look(path, socket)
        folder.rename(folder.parent / "away")
        folder.symlink_to(other)
        return found

    backend = ContainerBackend(engine=str(engine.endpoint))
    monkeypatch.setattr(binds, "look", swapped)
    monkeypatch.setattr(spec, "differences", lambda *_: [])
    from test_container_faults import backend_run

    with pytest.raises(TierUnavailable, match="another folder than the one that was looked at"):
        backend_run(backend, bind=str(folder))
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "words"),
    [("/", "of the system"), ("/etc", "of the system"), ("/usr/local", "of the system"), ("/var", "of the system")],
)
def test_folders_that_are_no_guests(path: str, words: str, box: Sandbox) -> None:
    with pytest.raises(ConfigurationError, match=words):
        box.run("1", bind=path)


def test_one_that_is_closed_to_the_guest(box: Sandbox, folder: Path) -> None:
    os.chown(folder, 0, 0)
    with pytest.raises(ConfigurationError, match="chown 65532:65532"):
        box.run("1", bind=folder)


def test_it_is_for_one_run(box: Sandbox, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="no session"), box.session(bind=folder) as session:
        session.execute("1")
    with pytest.raises(ConfigurationError, match="bind"):
        box.run("1", bind=folder, files={"a": "x"})


def test_by_the_command_line(named: str, folder: Path) -> None:
    environment = {**os.environ, "FASTNESS_ENGINE": named, "PYTHONPATH": str(house.SOURCE)}
    command = [sys.executable, "-m", "fastness.cli", "exec", "--tier", "container", "--bind", str(folder), "--"]
    done = subprocess.run(
        [*command, "python3", "-c", "open('by', 'w'); print('in')"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "in\n"
    assert (folder / "by").exists()
