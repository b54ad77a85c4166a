"""A project on its way in: what is taken, what is left out, and what arrives."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import pytest
from tree_support import BYTES, Copy, opened, picture, write

import house
from fastness._linux import beneath
from fastness.errors import StagingError
from fastness.runner import withheld
from fastness.runner.project import fill, fill_files, snapshot


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


@pytest.fixture(params=["openat2", "no openat2"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the kernel's walk, and with the one that old kernels need."""
    if request.param == "openat2":
        if not beneath.has_openat2():
            house.lacks("this kernel has no openat2")
    else:
        monkeypatch.setattr(beneath, "_works", False)


@pytest.mark.usefixtures("both_ways")
def test_everything_arrives_as_it_was(copy: Copy) -> None:
    """Contents, links, permission bits and times; nothing else."""
    write(copy.real / "a/b/c.txt", b"deep", 0o640)
    write(copy.real / "run.sh", b"#!/bin/sh", 0o755)
    write(copy.real / "empty", b"")
    write(copy.real / "large", os.urandom(300_000), 0o600)
    (copy.real / "none").mkdir()
    (copy.real / "a/link").symlink_to("b/c.txt")
    (copy.real / "a/up").symlink_to("../run.sh")
    (copy.real / "dangling").symlink_to("nothing/here")
    os.utime(copy.real / "run.sh", ns=(5, 1_234_567_890_123_456_789))
    os.utime(copy.real / "a/b", ns=(5, 1_000_000_000_000_000_001))
    project = copy.fill()
    assert not project.left_out
    assert picture(copy.work, folders=True) == picture(copy.real, folders=True)
    assert (copy.work / "run.sh").stat().st_mtime_ns == 1_234_567_890_123_456_789
    assert (copy.work / "a/b").stat().st_mtime_ns == 1_000_000_000_000_000_001
    assert copy.collect().changes.added == ()


def test_set_id_bits_are_dropped(copy: Copy) -> None:
    """A set-user-id program arrives as a plain one."""
    path = write(copy.real / "su", b"x")
    path.chmod(0o6755)
    copy.fill()
    assert (copy.work / "su").stat().st_mode & 0o7777 == 0o755


def test_everything_gets_its_owner(copy: Copy) -> None:
    """Files, folders and links belong to the user that the guest has."""
    if os.geteuid():
        pytest.skip("only root gives files away")
    write(copy.real / "a/b")
    (copy.real / "l").symlink_to("a/b")
    project = snapshot(copy.real, max_bytes=BYTES, max_files=10)
    # Files are made as that user, whose folder it is.
    os.chown(copy.work, 12_345, 54_321)
    with opened(copy.work) as descriptor:
        fill(project, descriptor, uid=12_345, gid=54_321, files={"x/y": b"z"})
    for name in ("a", "a/b", "l", "x", "x/y"):
        status = (copy.work / name).lstat()
        assert (status.st_uid, status.st_gid) == (12_345, 54_321), name


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("target", ["/etc/passwd", "../outside", "a/../../outside", "..", "../project/a"])
def test_links_that_lead_out_are_left_out(copy: Copy, target: str) -> None:
    """Also where, once outside, they would come back in."""
    write(copy.real / "a/x")
    (copy.real / "link").symlink_to(target)
    project = copy.fill()
    assert "leads out" in project.left_out["link"]
    assert not os.path.lexists(copy.work / "link")


@pytest.mark.usefixtures("both_ways")
def test_links_that_lead_out_by_way_of_others_are_left_out(copy: Copy) -> None:
    """Read as text it stays inside, followed it does not."""
    (copy.real / "deep/er").mkdir(parents=True)
    (copy.real / "deep/er/up").symlink_to("../..")
    (copy.real / "out").symlink_to("deep/er/up/../x")
    assert list(copy.fill().left_out) == ["out"]


def test_what_is_no_file_is_left_out(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named pipes and sockets, without opening them."""
    os.mkfifo(copy.real / "pipe")
    monkeypatch.chdir(copy.real)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    write(copy.real / "file")
    project = copy.fill()
    assert project.left_out == {"pipe": "it is a named pipe", "socket": "it is a socket"}
    assert list(picture(copy.work)) == ["file"]


def test_names_that_could_not_come_back_are_left_out(copy: Copy) -> None:
    """Listed with escapes; no lone surrogate leaves."""
    write(copy.real / "line\nfeed")
    (copy.real / "latin\udce9").mkdir()
    write(copy.real / "latin\udce9/x")
    (copy.real / "esc\x1b[2J").symlink_to("x")
    project = copy.fill()
    assert sorted(project.left_out) == ["esc\\x1b[2J", "latin\\xe9", "line\\x0afeed"]
    assert not project.entries


def test_what_cannot_be_read_is_left_out(copy: Copy) -> None:
    """And listed; root reads everything."""
    write(copy.real / "closed", b"x", 0)
    write(copy.real / "shut/x").parent.chmod(0)
    try:
        project = copy.fill()
    finally:
        (copy.real / "shut").chmod(0o700)
    if os.geteuid():
        assert sorted(project.left_out) == ["closed", "shut"]
    else:
        assert sorted(project.entries) == ["closed", "shut", "shut/x"]


@pytest.mark.parametrize(
    "path",
    [".env", ".env.production", "sub/.ENV", "server.pem", "tls.key", "id_rsa", "id_ed25519.old", ".netrc", ".npmrc",
     ".pypirc", ".aws/config", ".ssh/known_hosts", ".docker/config.json", ".kube/config", "credentials.json",
     "credentials-prod.json", "a.p12", "a.pfx", "a.keystore", ".git-credentials", "terraform.tfstate", "x/.gnupg/a"],
)  # fmt: skip
def test_secrets_are_left_out(copy: Copy, path: str) -> None:
    """By name, wherever they are; each can be asked for by name or by path."""
    write(copy.real / path, b"secret")
    write(copy.real / "other", b"public")
    left = copy.fill().left_out
    assert len(left) == 1
    assert path.startswith(next(iter(left)))
    assert list(picture(copy.work)) == ["other"]
    named = next(iter(left))
    for include in ((named,), (os.path.basename(named),)):
        assert not snapshot(copy.real, max_bytes=BYTES, max_files=10, include=include).left_out


def test_one_of_several_secrets_can_be_asked_for(copy: Copy) -> None:
    """The others beside it stay where they are, also in a folder of secrets."""
    for name in (".aws/config", ".aws/other", ".aws/key.pub", ".env", "sub/.env", ".config/gh/hosts.yml", ".config/x"):
        write(copy.real / name)
    project = copy.fill([".aws/config", "sub/.env"])
    assert list(picture(copy.work)) == [".aws/config", ".config/x", "sub/.env"]
    assert set(project.left_out) == {".aws/key.pub", ".aws/other", ".config/gh", ".env"}
    assert not snapshot(copy.real, max_bytes=BYTES, max_files=20, include=[".aws", ".env", "gh"]).left_out


@pytest.mark.parametrize(
    "name", [".env.example", "id_rsa.pub", "environment.py", "secrets.py", "keys.txt", "envrc.md", "credentials/x.go"]
)
def test_what_is_no_secret_is_copied(copy: Copy, name: str) -> None:
    """Templates, public halves, and names that merely sound alike."""
    write(copy.real / name)
    assert not copy.fill().left_out


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (b'[remote "origin"]\n\turl = https://user:token@example.org/x.git\n', True),
        (b'[remote "origin"]\n\turl = https://token@example.org/x.git\n', True),
        (b'[http "https://example.org/"]\n\textraheader = AUTHORIZATION: basic x\n', True),
        (b'[remote "origin"]\n\turl = ssh://git@example.org/x.git\n', False),
        (b"[sendemail]\n\tsmtpServer = example.org\n\tsmtpPass = x\n", True),
        (b"[github]\n\tuser = me\n\ttoken = ghp_x\n", True),
        (b"[imap] pass = x", True),
        (b"[some]\n\tapi-key=x\n", True),
        (b"[credential]\n\thelper = store\n[push]\n\tdefault = simple\n", False),
        (b'[remote "origin"]\n\turl = git@example.org:x.git\n[core]\n\tbare = false\n', False),
        (b"\0" * (1 << 20) + b"x", True),
    ],
)
def test_git_settings_with_credentials_are_left_out(copy: Copy, text: bytes, secret: bool) -> None:
    """The rest of ``.git`` goes along: tools need it."""
    write(copy.real / ".git/config", text)
    write(copy.real / ".git/modules/sub/config", text)
    write(copy.real / ".git/HEAD", b"ref: refs/heads/main\n")
    project = snapshot(copy.real, max_bytes=4 * BYTES, max_files=10)
    assert set(project.left_out) == ({".git/config", ".git/modules/sub/config"} if secret else set())
    assert ".git/HEAD" in project.entries
    project = snapshot(copy.real, max_bytes=4 * BYTES, max_files=10, include=[".git/config", ".git/modules/sub/config"])
    assert not project.left_out


@pytest.mark.parametrize("path", [".jj/repo/store/git/config", "bare/config", ".gitconfig", "deep/.config/git/config"])
def test_settings_of_git_anywhere_are_looked_into(copy: Copy, path: str) -> None:
    """A bare repository, and one that another tool keeps, have no `.git` in their path."""
    write(copy.real / path, b'[core]\n\tbare = true\n[remote "origin"]\n\turl = https://me:x@example.org/x\n')
    write(copy.real / "plain/config", b"password = of an application, which is no setting of git\n")
    project = snapshot(copy.real, max_bytes=BYTES, max_files=20)
    assert project.left_out == {path: "it holds credentials"}
    assert not snapshot(copy.real, max_bytes=BYTES, max_files=20, include=[path]).left_out
    write(copy.real / path, b'[core]\n\tbare = true\n[remote "origin"]\n\turl = https://example.org/x\n')
    assert not snapshot(copy.real, max_bytes=BYTES, max_files=20).left_out


@pytest.mark.parametrize("included", ["./.git/config", ".git//config", "config", ".git", ".git/"])
def test_settings_that_are_wanted_may_be_spelled_in_any_way(copy: Copy, included: str) -> None:
    write(copy.real / ".git/config", b"[x]\n\tpassword = x\n")
    write(copy.real / "sub/.env", b"x")
    assert set(snapshot(copy.real, max_bytes=BYTES, max_files=10).left_out) == {".git/config", "sub/.env"}
    project = snapshot(copy.real, max_bytes=BYTES, max_files=10, include=[included, "./sub/../sub/.env"])
    assert not project.left_out


@pytest.mark.parametrize(
    "path",
    [
        ".envrc", "sub/.yarnrc.yml", ".bundle/config", "auth.json", ".hg/hgrc", ".s3cfg", ".boto", "pip.conf",
        ".config/pip/pip.conf", "NuGet.Config", ".m2/settings.xml", ".config/hub",
    ],
)  # fmt: skip
def test_where_tools_keep_what_they_log_in_with(copy: Copy, path: str) -> None:
    write(copy.real / path)
    write(copy.real / "bundle/config")
    write(copy.real / "settings.xml")
    assert snapshot(copy.real, max_bytes=BYTES, max_files=10).left_out == {path: "it looks like a secret"}
    assert not snapshot(copy.real, max_bytes=BYTES, max_files=10, include=[path]).left_out


@pytest.mark.parametrize(("number", "text"), [(errno.EMFILE, "Too many open files"), (errno.EIO, "Input/output error")])
def test_a_file_that_cannot_be_opened_for_the_machines_sake_has_not_gone(
    copy: Copy, monkeypatch: pytest.MonkeyPatch, number: int, text: str
) -> None:
    """A copy without it would be taken for the project."""
    write(copy.real / "a")
    real = beneath.open_child

    def open_child(folder: int, name: str, *more: int) -> int:
        if name == "a" and len(more) == 1:
            raise OSError(number, text)
        return real(folder, name, *more)

    project = snapshot(copy.real, max_bytes=BYTES, max_files=10)
    monkeypatch.setattr(beneath, "open_child", open_child)
    with opened(copy.work) as into, pytest.raises(StagingError, match=f"a: it cannot be copied: {text}"):
        fill(project, into)


def test_names_of_secrets_are_in_lower_case() -> None:
    """They are compared with names in lower case, so one with a capital would match nothing."""
    for name in (*withheld.SECRET_NAMES, *withheld.SECRET_FOLDERS, *withheld.SECRET_PLACES):
        assert name == name.lower()


def test_too_many_bytes_are_refused(copy: Copy) -> None:
    """The first file beyond is named, and by how much the whole passes."""
    for name in "abc":
        write(copy.real / name, b"x" * 100)
    with pytest.raises(StagingError, match=r"b: .*holds 300 bytes, 150 more than the 150 ") as caught:
        snapshot(copy.real, max_bytes=150, max_files=10)
    assert caught.value.path == "b"
    assert not snapshot(copy.real, max_bytes=300, max_files=3).left_out


def test_too_many_entries_are_refused(copy: Copy) -> None:
    """Folders count."""
    write(copy.real / "a/b/c")
    assert len(snapshot(copy.real, max_bytes=10, max_files=3).entries) == 3
    with pytest.raises(StagingError, match=r"more than the 2 files and folders .*--max-files N"):
        snapshot(copy.real, max_bytes=10, max_files=2)


def test_a_secret_is_not_what_is_one_too_many(copy: Copy) -> None:
    """It would have been left out; it is the project that is named."""
    for name in (".env", "a.pem", "b.pem"):
        write(copy.real / name)
    with pytest.raises(StagingError) as caught:
        snapshot(copy.real, max_bytes=10, max_files=2)
    assert caught.value.path == str(copy.real)
    assert not any(name in str(caught.value) for name in (".env", ".pem"))


def test_a_sparse_file_counts_with_its_size(copy: Copy) -> None:
    """It would have to be copied whole."""
    with (copy.real / "sparse").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(StagingError, match="1099511627776 bytes"):
        snapshot(copy.real, max_bytes=BYTES, max_files=10)


@pytest.mark.parametrize("name", ["missing", "file", "nul\0"])
def test_a_project_must_be_a_folder(copy: Copy, name: str) -> None:
    """Anything else is refused by name."""
    write(copy.real / "file")
    with pytest.raises(StagingError):
        snapshot(copy.real / name, max_bytes=10, max_files=10)


def test_what_is_there_at_the_time_of_copying_is_copied(copy: Copy) -> None:
    """Changed files as they are then; what went is listed; a folder in another's place is not entered."""
    for name in ("same", "changed", "gone", "dir/inside", "linked/x"):
        write(copy.real / name, b"old")
    project = snapshot(copy.real, max_bytes=BYTES, max_files=20)
    (copy.real / "changed").write_bytes(b"new and longer")
    (copy.real / "gone").unlink()
    (copy.real / "linked/x").unlink()
    (copy.real / "linked").rmdir()
    (copy.real / "linked").symlink_to("/etc")
    with opened(copy.work) as descriptor:
        fill(project, descriptor)
    assert (copy.work / "changed").read_bytes() == b"new and longer"
    assert project.entries["changed"].size == 14
    assert {"gone", "linked/x"} <= set(project.left_out)
    assert not os.path.lexists(copy.work / "linked/x")


def test_a_project_that_grows_is_refused(copy: Copy) -> None:
    """The cap holds for what is really copied."""
    write(copy.real / "log", b"x")
    project = snapshot(copy.real, max_bytes=100, max_files=20)
    (copy.real / "log").write_bytes(b"x" * 101)
    with opened(copy.work) as descriptor, pytest.raises(StagingError, match="grown"):
        fill(project, descriptor)


def test_another_folder_in_its_place_is_refused(copy: Copy) -> None:
    """What was looked at is what is copied."""
    project = snapshot(copy.real, max_bytes=100, max_files=20)
    copy.real.rename(copy.real.parent / "moved")
    copy.real.mkdir()
    with opened(copy.work) as descriptor, pytest.raises(StagingError, match="in its place"):
        fill(project, descriptor)


def test_files_come_on_top(copy: Copy) -> None:
    """Staged files replace those of the project and are no change of the guest's."""
    write(copy.real / "a/b", b"project")
    copy.fill(**{"a/b": b"staged", "new/c": b"more"})
    assert picture(copy.work) == {"a/b": (0o644, b"staged"), "new/c": (0o644, b"more")}
    assert copy.collect().changes.added == copy.collect().changes.changed == ()


def test_staged_files_do_not_follow_links(tmp_path: Path) -> None:
    """Neither the last part of a path nor one on the way."""
    (tmp_path / "link").symlink_to("/etc")
    with opened(tmp_path) as descriptor, pytest.raises(StagingError):
        fill_files({"link/x": b"x"}, descriptor)
    (tmp_path / "file").symlink_to(tmp_path / "elsewhere")
    with opened(tmp_path) as descriptor:
        fill_files({"file": b"x"}, descriptor)
    assert not (tmp_path / "elsewhere").exists()
    assert (tmp_path / "file").read_bytes() == b"x"


def test_no_descriptor_is_left_open(copy: Copy) -> None:
    """After success and after failure."""
    write(copy.real / "a/b/c")
    write(copy.real / "d/e")
    before = len(os.listdir("/proc/self/fd"))
    copy.fill()
    copy.collect()
    with pytest.raises(StagingError):
        copy.fill()  # the copy is not empty any more
    with pytest.raises(StagingError):
        snapshot(copy.real, max_bytes=10, max_files=2)
    assert len(os.listdir("/proc/self/fd")) == before
