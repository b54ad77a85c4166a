"""`fastness exec` with a fake backend that edits the copy: what is shown, what is applied, and the exit code."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastness import sync
from fastness.backends.base import Report, Staged
from fastness.cli.main import main
from fastness.errors import ApplyRefused, ConfigurationError
from fastness.runner.collect import collect
from fastness.runner.project import fill
from fastness.runs import Outcome, OutcomeKind, RunRequest
from fastness.testing import FakeBackend
from fastness.tier import Guarantee, Tier

Edit = Callable[[Path], None]


class CommandBackend(FakeBackend):
    """Copies the project in, lets ``edit`` loose on it, and collects: all that a backend for commands does."""

    def __init__(self) -> None:
        super().__init__(tier=Tier.ISOLATED)
        self.edit: Edit = lambda work: None
        self.report: dict[str, Any] = {}

    async def run(self, request: RunRequest, staged: Staged, sink: Any) -> Report:
        self._answers = [self._answer]
        return await super().run(request, staged, sink)

    def _answer(self, request: RunRequest, staged: Staged) -> Report:
        fields: dict[str, Any] = {"outcome": Outcome(OutcomeKind.OK), "exit_code": 0, **self.report}
        if staged.project is None:
            return Report(**fields)
        with tempfile.TemporaryDirectory() as work:
            descriptor = os.open(work, os.O_RDONLY)
            try:
                fill(staged.project, descriptor, files=staged.files)
                self.edit(Path(work))
                found = collect(
                    descriptor, staged.project, max_bytes=request.limits.file_bytes, max_files=request.limits.files
                )
            finally:
                os.close(descriptor)
        return Report(files=found.files, changes=found.changes, denials=found.denials, collected=found, **fields)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CommandBackend:
    """The command's sandboxes use this backend, whatever the tier."""
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FASTNESS_TIER", raising=False)
    monkeypatch.delenv("FASTNESS_RUNTIME", raising=False)
    fake = CommandBackend()
    real = sync.AsyncSandbox
    monkeypatch.setattr(sync, "AsyncSandbox", lambda **options: real(**options, _make=lambda tier: fake))
    return fake


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "proj"
    (folder / "src").mkdir(parents=True)
    (folder / "src/main.c").write_text("int main;")
    (folder / "README").write_text("read me")
    (folder / ".env").write_text("TOKEN=1")
    return folder


def _edit(work: Path) -> None:
    (work / "src/main.c").write_text("int main(){}")
    (work / "build").mkdir()
    (work / "build/out").write_bytes(b"x" * 2048)
    (work / "build/out").chmod(0o755)
    (work / "build/latest").symlink_to("out")
    (work / "README").unlink()


def picture(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_options_become_a_request(backend: CommandBackend, project: Path) -> None:
    """Every option arrives where the API expects it."""
    code = main(
        ["exec", "--work", str(project), "--timeout", "7", "--memory", "64M", "--disk", "1M", "--max-files", "50",
         "--pids", "9", "--env", "A=b", "--include", ".env", "--", "make", "-j2", "--", "all"]
    )  # fmt: skip
    request = backend.requests[0]
    assert code == 0
    assert request.command == ("make", "-j2", "--", "all")
    assert (request.runtime, request.tier, request.work, request.env) == (
        "command",
        "isolated",
        str(project),
        {"A": "b"},
    )
    limits = request.limits
    assert (limits.wall_s, limits.memory, limits.file_bytes, limits.files) == (7.0, 64 << 20, 1 << 20, 50)
    assert limits.pids == 9
    assert ".env" in backend.staged[0].project.entries


def test_changes_are_shown_and_not_applied(
    backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """On standard error, within 80 columns; the project is as it was."""
    before = picture(project)
    backend.edit, backend.report = _edit, {"stdout": b"built\x1b[2J\n"}
    assert main(["exec", "--work", str(project), "--", "make"]) == 0
    out, err = capfd.readouterr()
    assert out == "built\\x1b[2J\n"
    assert max(len(line) for line in err.splitlines() if "proj" not in line) <= 80
    rows = [re.split(r"  +", line.strip()) for line in err.splitlines()]
    assert ["added", "build/latest -> out"] in rows
    assert ["deleted", "README"] in rows
    added = next(row for row in rows if row[:2] == ["added", "build/out"])
    assert added[2] == "2.0 KiB"
    assert re.fullmatch("[0-9a-f]{12}", added[3])
    assert added[4] == "0755"
    assert [".env", "it looks like a secret"] in rows
    assert "--apply" in err
    assert picture(project) == before


def test_apply(backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Everything is brought in, and said."""
    backend.edit = _edit
    assert main(["exec", "--work", str(project), "--apply", "--", "make"]) == 0
    assert "2 added, 1 changed, 1 deleted" in capfd.readouterr().err
    assert picture(project) == {
        ".env": "TOKEN=1", "build/latest": "x" * 2048, "build/out": "x" * 2048, "src/main.c": "int main(){}"
    }  # fmt: skip


def test_a_refused_application(backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """All problems are listed, with what to do; exit code 1, and nothing is touched."""
    before = picture(project)

    def edit(work: Path) -> None:
        _edit(work)
        (work / "conftest.py").write_text("import os")
        (work / "out").symlink_to("/etc")
        (project / "README").write_text("edited meanwhile")

    backend.edit = edit
    assert main(["exec", "--work", str(project), "--apply", "--", "make"]) == 1
    err = capfd.readouterr().err
    assert "conftest.py: pytest acts on it by itself" in err
    assert "out: it is a link that leads out" in err
    assert "README: it was changed meanwhile" in err
    assert "--allow-apply" in err
    assert picture(project) == {**before, "README": "edited meanwhile"}


def test_what_is_named_is_applied(backend: CommandBackend, project: Path) -> None:
    """``--allow-apply`` once for each."""
    backend.edit = lambda work: [(work / name).write_text("x") for name in ("conftest.py", "setup.py")] and None
    one = ["exec", "--work", str(project), "--apply", "--allow-apply", "conftest.py"]
    assert main([*one, "--", "x"]) == 1
    assert main([*one, "--allow-apply", "setup.py", "--", "x"]) == 0
    assert picture(project)["setup.py"] == "x"


@pytest.mark.parametrize(("kind", "code"), [(OutcomeKind.GUEST_ERROR, 1), (OutcomeKind.TIMEOUT, 4)])
def test_a_command_that_failed_is_not_applied(
    backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str], kind: OutcomeKind, code: int
) -> None:
    """Half a build is no build."""
    before = picture(project)
    backend.edit, backend.report = _edit, {"outcome": Outcome(kind), "exit_code": None}
    assert main(["exec", "--work", str(project), "--apply", "--", "make"]) == code
    assert "nothing was applied" in capfd.readouterr().err
    assert picture(project) == before


def test_json_is_one_object(backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """With the fields of a result and nothing beside it, applied or refused."""
    backend.edit, backend.report = _edit, {"stdout": b"built\n"}
    assert main(["exec", "--work", str(project), "--json", "--apply", "--", "make"]) == 0
    out, err = capfd.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["stdout"] == "built\n"
    assert found["runtime"] == "command"
    assert found["changes"] == {
        "added": ["build/latest", "build/out"], "changed": ["src/main.c"], "deleted": ["README"],
        "links": {"build/latest": "out"}, "modes": {"build/out": "0755"}, "left_out": {".env": "it looks like a secret"},
    }  # fmt: skip
    assert [file["path"] for file in found["files"]] == ["build/out", "src/main.c"]
    backend.edit = lambda work: (work / ".envrc").write_text("x") and None
    assert main(["exec", "--work", str(project), "--json", "--apply", "--", "make"]) == 1
    out, err = capfd.readouterr()
    assert json.loads(out)["changes"]["added"] == [".envrc"]
    assert ".envrc: direnv acts on it" in err


def test_names_are_shown_with_escapes(
    backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Control characters among what was refused; characters that reorder text among what was not."""
    backend.edit = lambda work: [(work / name).write_text("x") for name in ("a\x1b]0;t\x07", "b\u202e")] and None
    assert main(["exec", "--work", str(project), "--", "x"]) == 0
    err = capfd.readouterr().err
    assert "\x1b" not in err
    assert "\u202e" not in err
    assert "a\\x1b]0;t\\x07" in err
    assert "b\\u202e" in err


@pytest.mark.parametrize(
    "options", [["--apply"], ["--include", "x"], ["--work", "{}", "--allow-apply", "x"], ["--work", "{}/none"],
                ["--work", "{}/README"], ["--disk", "much"], ["--env", "A"], ["--max-files", "-1"]],
)  # fmt: skip
def test_wrong_usage(backend: CommandBackend, project: Path, options: list[str]) -> None:
    """Exit code 2, and nothing ran."""
    assert main(["exec", *(option.format(project) for option in options), "--", "x"]) == 2
    assert main(["exec", *(option.format(project) for option in options)]) == 2
    assert backend.requests == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--apply", "--", "ls"], "--apply needs --work DIR"),
        (["--include", "x", "--", "ls"], "--include needs --work DIR"),
        (["--work", "{}", "--allow-apply", "x", "--", "ls"], "--allow-apply needs --apply"),
        (["--work", "{}", "ls", "-la"], "options of the command itself go after --"),
        (["--disk", "5G", "--", "ls"], "--disk is not accepted: '5G'; allowed: 0 to 4G"),
        (["--memory", "100G", "--", "ls"], "--memory is not accepted: '100G'; allowed: 1M to 64G"),
        (
            ["--tier", "wasm", "--", "ls"],
            "tier is not accepted: 'wasm'; allowed: isolated or container; commands need one of these tiers",
        ),
    ],
)
def test_mistakes_say_what_to_write(
    backend: CommandBackend, project: Path, options: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """By the names that were typed."""
    backend.runtimes = frozenset({"command"} if "wasm" not in options else {"python"})
    assert main(["exec", *(option.format(project) for option in options)]) == 2
    assert f"fastness: {told}" in capfd.readouterr().err
    assert backend.requests == []


def test_names_that_match_nothing_are_told(
    backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of --include and --allow-apply, each by itself; those that match something are not."""
    backend.edit = _edit
    code = main(
        ["exec", "--work", str(project), "--apply", "--include", ".env", "--include", "main.c", "--include", "nope",
         "--allow-apply", "src", "--allow-apply", "sr", "--", "make"]
    )  # fmt: skip
    err = capfd.readouterr().err
    assert code == 0
    assert [line for line in err.splitlines() if "--" in line] == [
        f"fastness: --include nope: there is no such file or folder in {project}",
        "fastness: --allow-apply sr: nothing of that name was changed",
    ]


def test_a_project_that_does_not_fit(backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The first file beyond is named, with how much there is."""
    assert main(["exec", "--work", str(project), "--disk", "8", "--", "x"]) == 2
    err = capfd.readouterr().err
    assert "holds 16 bytes, 8 more than the 8" in err
    assert "--disk SIZE of fastness exec" in err
    assert main(["exec", "--work", str(project), "--max-files", "1", "--", "x"]) == 2
    err = capfd.readouterr().err
    assert "more than the 1 files and folders" in err
    assert "--max-files N of fastness exec" in err
    assert "Check the path" not in err
    assert backend.requests == []


def test_a_tier_that_does_not_hold(backend: CommandBackend, project: Path) -> None:
    """Exit code 3, and nothing ran."""
    backend._lacking = frozenset({Guarantee.FS_CONFINED})
    assert main(["exec", "--work", str(project), "--", "x"]) == 3
    assert backend.requests == []


@pytest.mark.parametrize(("variable", "tier"), [("FASTNESS_TIER", "container"), ("FASTNESS_RUNTIME", "docker")])
def test_the_tier_may_come_from_the_environment(
    backend: CommandBackend, monkeypatch: pytest.MonkeyPatch, variable: str, tier: str
) -> None:
    """As it does everywhere else; the option wins."""
    monkeypatch.setenv(variable, tier)
    assert main(["exec", "--", "x"]) == 0
    assert main(["exec", "--tier", "isolated", "--", "x"]) == 0
    assert [request.tier for request in backend.requests] == ["container", "isolated"]


def test_nothing_was_changed(backend: CommandBackend, project: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Said where there is a project, and applying nothing is no error."""
    assert main(["exec", "--work", str(project), "--apply", "--", "true"]) == 0
    err = capfd.readouterr().err
    assert "no file was changed" in err
    assert "nothing" in err
    assert main(["exec", "--", "true"]) == 0
    assert capfd.readouterr().err == ""


# the same from Python


def test_a_result_can_be_applied(backend: CommandBackend, project: Path) -> None:
    """``work`` may be the sandbox's own; the handle is no field of the result."""
    backend.edit = _edit
    with sync.Sandbox(tier="isolated", work=project) as box:
        result = box.run(command=["make"], files={"extra": b"staged"})
        assert result.changes.changed == ("src/main.c",)
        assert "_apply" not in result.to_dict()
        applied = result.apply()
        assert (applied.folder, applied.changed) == (str(project), ("src/main.c",))
        with pytest.raises(ApplyRefused):
            result.apply()
    assert not (project / "extra").exists()


def test_the_changes_of_a_command_that_failed_are_not_applied(backend: CommandBackend, project: Path) -> None:
    """They may be half of something; who wants them says so."""
    backend.edit = _edit
    backend.report = {"outcome": Outcome(OutcomeKind.GUEST_ERROR, "exit status 3"), "exit_code": 3}
    before = (project / "src/main.c").read_bytes()
    with sync.Sandbox(tier="isolated") as box:
        result = box.run(command=["make"], work=project)
        with pytest.raises(ApplyRefused, match=r"did not end well \(guest_error: exit status 3\); apply\(failed=True"):
            result.apply()
        assert (project / "src/main.c").read_bytes() == before
        assert result.apply(failed=True).changed == ("src/main.c",)
    assert (project / "src/main.c").read_bytes() != before


def test_what_cannot_be_applied(backend: CommandBackend, project: Path) -> None:
    """A run without a project, and an ``allow`` that is no list of paths."""
    with sync.Sandbox(tier="isolated") as box:
        with pytest.raises(ConfigurationError, match="work=FOLDER"):
            box.run(command=["true"]).apply()
        with pytest.raises(ConfigurationError, match="a list of paths"):
            box.run(command=["true"], work=project).apply(allow=".git")
        with pytest.raises(ConfigurationError, match="a command to run on it"):
            box.run("pass", work=project)


@pytest.mark.parametrize(("option", "value"), [("--max-files", "-5"), ("--pids", "0"), ("--max-files", "99999999999")])
def test_a_limit_out_of_range_is_named_as_it_was_typed(
    backend: CommandBackend, capfd: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    assert main(["exec", option, value, "--", "make"]) == 2
    assert f"{option} is not accepted: {value}; allowed: " in capfd.readouterr().err
