"""
``fastness exec`` and ``fastness run`` in native tiers, on real projects and from end to end.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sysconfig
import time
from pathlib import Path

import pytest
from test_command_line import COMMAND, Finished

import fastness
import house
from fastness.backends import native_config
from fastness.runs import RunResult

pytestmark = pytest.mark.tiers("isolated")


@pytest.fixture(autouse=True)
def _there(box: fastness.Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tier holds and runs programs, and nothing but arguments chooses it."""
    house.require("control groups")
    for name in ("FASTNESS_TIER", "FASTNESS_RUNTIME"):
        monkeypatch.delenv(name, raising=False)


def command(*arguments: str, stdin: bytes = b"", cwd: Path | None = None) -> Finished:
    """Run ``fastness`` to its end."""
    done = subprocess.run([*COMMAND, *arguments], input=stdin, capture_output=True, cwd=cwd, timeout=120, check=False)
    return Finished(done.returncode, done.stdout, done.stderr.decode())


def write(folder: Path, files: dict[str, str]) -> Path:
    """A project with these files; what begins with ``#!`` is a program."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if text.startswith("#!"):
            path.chmod(0o755)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


_C = {
    "Makefile": "prog: main.c util.c\n\tgcc -O1 -o $@ $^\ntest: prog\n\t./prog | grep -q 21 && echo passed\nclean:\n\trm -f prog\n",
    "main.c": '#include <stdio.h>\nint util(int);\nint main(void) { printf("%d\\n", util(20)); return 0; }\n',
    "util.c": "int util(int x) { return x + 1; }\n",
    ".env": "SECRET=1\n",
}


def needs(*programs: str) -> None:
    """Skip where the machine lacks one."""
    for program in programs:
        if shutil.which(program, path="/usr/local/bin:/usr/bin:/bin") is None:
            house.lacks(f"there is no {program} here")


def test_building_a_project(tmp_path: Path) -> None:
    """It is built and tested there; the project is as it was until --apply, which brings a program that runs."""
    needs("make", "gcc")
    project = write(tmp_path, _C)
    before = contents(project)
    done = command("exec", "--work", str(project), "--", "make", "test")
    assert (done.code, done.out.splitlines()[-1]) == (0, b"passed"), done.err
    assert "prog" in done.err and "added" in done.err and "left out" in done.err and ".env" in done.err
    assert "--apply" in done.err
    assert contents(project) == before
    done = command("exec", "--work", str(project), "--apply", "--", "make")
    assert done.code == 0, done.err
    assert "applied to" in done.err
    assert subprocess.run([project / "prog"], capture_output=True, check=True).stdout == b"21\n"
    assert contents(project).keys() == before.keys() | {"prog"}
    # What is up to date is not built again: times went in as they were.
    assert b"up to date" in command("exec", "--work", str(project), "--", "make", "prog").out
    done = command("exec", "--work", str(project), "--apply", "--", "make", "clean")
    assert (done.code, contents(project)) == (0, before)


def test_a_build_that_fails(tmp_path: Path) -> None:
    """The compiler's words come through, nothing is applied, and the code is 1."""
    needs("make", "gcc")
    project = write(tmp_path, _C | {"util.c": "int util(int x) { return y; }\n"})
    before = contents(project)
    done = command("exec", "--work", str(project), "--apply", "--", "make")
    assert done.code == 1
    assert "undeclared" in done.err and "nothing was applied" in done.err
    assert contents(project) == before


def test_a_script_and_its_folder(tmp_path: Path) -> None:
    """Started from the project's folder, with arguments, nested files and programs that keep being programs."""
    project = write(tmp_path, {"bin/run.sh": "#!/bin/sh\ncat conf/a/b.txt; echo $#:$2\n", "conf/a/b.txt": "deep\n"})
    done = command("exec", "--work", ".", "--", "bin/run.sh", "--json", "two words", cwd=project)
    assert (done.code, done.out) == (0, b"deep\n2:two words\n"), done.err
    assert "no file was changed" in done.err


def test_node(tmp_path: Path) -> None:
    """A program of node, whose threads and memory want room."""
    needs("node")
    project = write(
        tmp_path,
        {
            "a.js": "const m = require('./lib/m'); console.log(m.x + Number(process.argv[2]))",
            "lib/m.js": "exports.x = 40",
        },
    )
    done = command("exec", "--work", str(project), "--memory", "1G", "--", "node", "a.js", "2")
    assert (done.code, done.out) == (0, b"42\n"), done.err


def test_git(tmp_path: Path) -> None:
    """A repository says what is changed; changes to its own folder are not applied without a word."""
    needs("git")
    project = write(tmp_path / "repo", {"a": "1\n"})
    settings = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    for arguments in (["init", "-q"], ["add", "-A"], [*settings, "commit", "-qm", "first"]):
        subprocess.run(["git", "-C", str(project), *arguments], check=True)
    (project / "a").write_text("2\n")
    done = command("exec", "--work", str(project), "--", "git", "--no-optional-locks", "status", "--short")
    assert (done.code, done.out) == (0, b" M a\n"), done.err
    line = "echo 3 > b && git add -A && git -c user.name=n -c user.email=e@example.org commit -qm second"
    done = command("exec", "--work", str(project), "--apply", "--", "sh", "-c", line)
    assert done.code == 1
    assert "acts on it by itself" in done.err and "--allow-apply" in done.err
    assert not (project / "b").exists()
    log = ["git", "-C", str(project), "log", "--oneline"]
    assert len(subprocess.run(log, capture_output=True, check=True).stdout.splitlines()) == 1
    done = command("exec", "--work", str(project), "--apply", "--allow-apply", ".git", "--", "sh", "-c", line)
    assert done.code == 0, done.err
    assert len(subprocess.run(log, capture_output=True, check=True).stdout.splitlines()) == 2
    assert (
        subprocess.run(["git", "-C", str(project), "status", "--short"], capture_output=True, check=True).stdout == b""
    )


def test_secrets(tmp_path: Path) -> None:
    """They are not in the copy unless they are named, and not even then are others."""
    project = write(tmp_path, {".env": "A", "id_rsa": "B", "deep/.npmrc": "C", "plain": "D"})
    done = command("exec", "--work", str(project), "--", "find", ".", "-type", "f")
    assert done.out == b"./plain\n"
    done = command("exec", "--work", str(project), "--include", ".env", "--", "cat", ".env")
    assert (done.code, done.out) == (0, b"A")


def test_the_object(tmp_path: Path) -> None:
    """--json prints the result with exactly its fields, also where applying is refused."""
    project = write(tmp_path, {"a": "1"})
    line = "echo out; echo err >&2; echo 2 > a; ln -s a l; chmod 700 a; mkdir -p .git/hooks; echo x > .git/hooks/post-commit"
    done = command("exec", "--work", str(project), "--json", "--apply", "--", "sh", "-c", line)
    assert done.code == 1
    found = done.object()
    assert set(found) == set(json.loads(RunResult(outcome=fastness.Outcome(fastness.OutcomeKind.OK)).to_json()))
    assert (found["schema"], found["stdout"], found["stderr"], found["exit_code"]) == (1, "out\n", "err\n", 0)
    assert (found["tier"], found["runtime"], found["sandboxed"]) == ("isolated", "command", True)
    changes = found["changes"]
    assert isinstance(changes, dict)
    assert changes["changed"] == ["a"] and changes["links"] == {"l": "a"} and changes["modes"]["a"] == "0700"
    assert (project / "a").read_text() == "1"
    assert "hooks" in done.err


@pytest.mark.parametrize(
    ("options", "line", "code", "kind"),
    [
        ((), "exit 77", 1, "guest_error"),
        ((), "kill -9 $$", 1, "crashed"),
        (("--timeout", "0.4"), "sleep 60", 4, "timeout"),
        (("--memory", "48M", "--disk", "1M"), "head -c 900000000 /dev/zero | tail", 4, "memory"),
        (("--max-files", "10"), "for i in $(seq 20); do : > f$i || exit 3; done", 4, "disk"),
        (("--env", "A=b", "--env", "C="), 'test "$A$C" = b', 0, "ok"),
    ],
)
def test_codes(options: tuple[str, ...], line: str, code: int, kind: str) -> None:
    """The exit code says how it ended, and the command's own status is in the object."""
    done = command("exec", *options, "--json", "--", "sh", "-c", line)
    outcome = done.object()["outcome"]
    assert isinstance(outcome, dict)
    assert (done.code, outcome["kind"]) == (code, kind), done.err + str(outcome)


@pytest.mark.parametrize(
    ("options", "line", "told"),
    [
        (("--max-files", "10"), "for i in $(seq 20); do touch f$i || exit 3; done",
         "disk: exit status 3; it met its limit of 10 files and folders (files).  Raise it with --max-files N."),
        (("--disk", "1M"), "head -c 2000000 /dev/zero > big",
         "disk: exit status 1; its files met their limit of 1M (file_bytes).  Raise it with --disk SIZE."),
        (("--pids", "6"), "for i in $(seq 20); do sleep 5 & done; wait",
         "guest_error: exit status 2; it met its limit of 6 processes and threads (pids).  Raise it with --pids N."),
        (("--pids", "30"), "for i in $(seq 20); do sleep 0.1 & done; wait", ""),
        (("--max-files", "10"), "for i in $(seq 20); do touch f$i || exit 0; done", ""),
        (("--max-files", "10"), "exit 3", "guest_error: exit status 3"),
    ],
)  # fmt: skip
def test_the_limit_that_was_met_is_named(options: tuple[str, ...], line: str, told: str) -> None:
    """With the option that raises it; one that was not met, or did no harm, is not named."""
    done = command("exec", *options, "--", "sh", "-c", line)
    said = [text for text in done.err.splitlines() if text.startswith("fastness: ")]
    assert said == ([f"fastness: {told}"] if told else []), done.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("exec", "--apply", "--", "true"), 2),
        (("exec", "--work", "/no/such/folder", "--", "true"), 2),
        (("exec", "--tier", "confined", "--", "true"), 2),
        (("exec", "--tier", "container", "--", "true"), 3),
        (("exec", "--", "no-such-program"), 1),
    ],
)
def test_mistakes(arguments: tuple[str, ...], code: int) -> None:
    """Each says what is wrong, on the other stream."""
    done = command(*arguments)
    assert (done.code, done.out) == (code, b""), done.err
    assert done.err.strip()
    assert "Traceback" not in done.err


def test_tests_of_a_python_project(tmp_path: Path) -> None:
    """With the packages of the caller's own Python by PYTHONPATH, as the quickstart has it."""
    write(tmp_path, {"test_one.py": "import os\ndef test_one(): assert os.getcwd() == '/work'\n"})
    shown = native_config.places([*native_config._interpreter(), *native_config.packages_of(None)])
    # At its own place, but where a guest has a folder of its own.
    packages = native_config.inside(sysconfig.get_path("purelib"), shown)
    done = command(
        "exec", "--work", str(tmp_path), "--env", f"PYTHONPATH={packages}", "--",
        "python3", "-m", "pytest", "-p", "no:cacheprovider",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert b"1 passed" in done.out
    assert "no file was changed" in done.err


def test_input(tmp_path: Path) -> None:
    """From a file, from this command's own input, or none."""
    (tmp_path / "in").write_bytes(b"\x00\xffdata")
    assert command("exec", "--raw", "--stdin", str(tmp_path / "in"), "--", "cat").out == b"\x00\xffdata"
    assert command("exec", "--stdin", "-", "--", "wc", "-c", stdin=b"x" * 1_000_000).out.strip() == b"1000000"
    assert command("exec", "--", "cat", stdin=b"unused").out == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    """The first interrupt ends the command, tells what it did, applies nothing, and leaves no process."""
    project = write(tmp_path, {"a": "1"})
    process = subprocess.Popen(
        [*COMMAND, "exec", "--work", str(project), "--apply", "--timeout", "60", "--", "sh", "-c", "echo 2 > a; echo go; sleep 60"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None and process.stdout.readline() == b"go\n"
        began = time.monotonic()
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, errors
    assert time.monotonic() - began < 10
    assert b"cancelled" in errors
    assert (project / "a").read_text() == "1"


# fastness run in a native tier


def test_run_with_every_option(tmp_path: Path) -> None:
    """What the options say reaches the program, and its files come back."""
    write(tmp_path, {"p.py": "", "data/x/y": "deep", "one": "1", "in": "typed"})
    (tmp_path / "p.py").write_text(
        "import os, random, sys, decimal\n"
        "print(sys.argv, os.environ['K'], sys.stdin.read(), open('d/x/y').read(), open('two').read(), random.random())\n"
        "open('made', 'w').write('made')\n"
    )
    arguments = (
        "run", "--tier", "isolated", "--preload", "decimal,json", "--timeout", "20", "--memory", "256M", "--file", "one:two",
        "--stdin", "in", "--out", "out", "--env", "K=v", "--dir", "data:d", "--seed", "7", "p.py", "--", "a", "-b",
    )  # fmt: skip
    first, second = (command(*arguments, cwd=tmp_path) for _ in range(2))
    assert first.code == 0, first.err
    assert first.out.startswith(b"['p.py', 'a', '-b'] v typed deep 1 0.")
    assert first.out == second.out
    assert (tmp_path / "out/made").read_text() == "made"
    assert "saved 1 file" in first.err


@pytest.mark.tiers("isolated", "confined")
def test_run_says_where_it_ran(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By option or by variable, and with the exit codes of every tier."""
    found = command("run", "--tier", tier, "--json", "-c", "print(1); 2").object()
    assert (found["tier"], found["value"], found["stdout"]) == (tier, 2, "1\n")
    monkeypatch.setenv("FASTNESS_TIER", tier)
    assert command("run", "--json", "-c", "1").object()["tier"] == tier
    assert command("run", "--timeout", "0.5", "-c", "while True: pass").code == 4
    assert command("run", "--time", "5", "-c", "1").code == 2
    done = command("run", "-", stdin=b"import socket\ntry: socket.socket()\nexcept OSError: print('no')")
    assert (done.code, done.out) == (0, b"no\n")
    assert "AF_INET" in done.err
