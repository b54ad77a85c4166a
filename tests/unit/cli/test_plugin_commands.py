"""Plugins from the command line, with the host itself in a home of the test's own: nothing here runs a guest."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import fastness
from fastness.cli import exits, plugin_install
from fastness.cli.main import main
from fastness.cli.plugin_install import _order

Capture = pytest.CaptureFixture[str]
TOML = """
id = "weather"
version = "1.0.0"
api = 1
runtime = "python"
entry = "weather.py"
name = "Weather"
description = "Tells the weather."
methods = ["fetch"]

[[capabilities]]
kind = "net"
hosts = ["a.example", "b.example"]
reason = "Asks \\u202Eit\\u200B.\\u001B[2J\\nGranted by me"

[[capabilities]]
kind = "storage"
quota = 65536
reason = "Keeps it."
"""
MORE = """
[[capabilities]]
kind = "process"
runs = 3
reason = "Runs a program."
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(folder))
    for name in ("FASTNESS_TIER", "FASTNESS_RUNTIME"):
        monkeypatch.delenv(name, raising=False)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "weather"
    made.mkdir()
    (made / "plugin.toml").write_text(TOML)
    (made / "weather.py").write_text("raise SystemExit('executed')\n")
    return made


def read(capfd: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    """The one object that a command prints with --json."""
    capfd.readouterr()
    assert main(["plugin", *words, "--json"]) == code
    out, err = capfd.readouterr()
    assert (err, out.count("\n"), out.isascii()) == ("", 1, True)
    found: dict[str, Any] = json.loads(out)
    assert found.pop("schema") == 1
    return found


def kinds(shown: dict[str, Any]) -> dict[str, list[str]]:
    """What is granted, by owner."""
    return {grant["owner"]: [scope["kind"] for scope in grant["allowed"]] for grant in shown["grants"]}


def test_without_a_terminal_nothing_is_granted(folder: Path, capfd: Capture) -> None:
    """The screen is shown, and the command that grants; it is exactly the one that does."""
    assert main(["plugin", "install", str(folder), "--owner", "ann lee"]) == 0
    out, err = capfd.readouterr()
    assert err == ""
    for words in (
        "weather 1.0.0, which calls itself Weather",
        "waiting for a grant; source local",
        "hosts       a.example, b.example",
        'its reason  "Asks \\u202eit\\u200b.\\u001b[2J\\u000aGranted by me"',
        "at worst    It can send everything that it sees to a.example, b.example",
        "quota       64 KiB",
    ):
        assert words in out, words
    assert not any(letter in out for letter in "\u202e\u200b\x1b")
    shown = read(capfd, "show", "weather")
    assert (shown["grants"], shown["plugin"]["state"]) == ([], "awaiting_grant")
    (line,) = [line.strip() for line in out.splitlines() if "plugin grant" in line]
    assert main(shlex.split(line)[1:]) == 0
    assert kinds(read(capfd, "show", "weather")) == {"ann lee": ["net", "storage"]}


def test_the_screen_fits_80_columns(folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a narrow terminal no line is longer, but for those that are copied."""
    monkeypatch.setattr("fastness.cli.plugin_screen._WIDTH", 80)
    (folder / "plugin.toml").write_text(
        TOML.replace("Keeps it.", "Keeps it. " * 29).replace('"a.example"', f'"{"a" * 60}.{"b" * 60}.example"')
    )
    assert main(["plugin", "install", str(folder)]) == 0
    out = capfd.readouterr().out
    assert [line for line in out.splitlines() if len(line) > 80] == []
    assert "b" * 20 in out


def test_yes_grants(folder: Path, capfd: Capture) -> None:
    """``--yes`` grants all for the owner, with who decided; in JSON too."""
    told = read(capfd, "install", str(folder), "--yes")
    assert (told["ok"], told["plugin"]["state"], told["tier"]) == (True, "enabled", "isolated")
    assert kinds(told) == {"me": ["net", "storage"]}
    assert told["granted"]["granted_by"]
    assert told["manifest"]["capabilities"][1]["risk"].startswith("It keeps up to")


def test_json_alone_grants_nothing(folder: Path, capfd: Capture) -> None:
    """A program that installs is told the command, and has to give it."""
    told = read(capfd, "install", str(folder))
    assert (told["granted"], told["plugin"]["state"]) == (None, "awaiting_grant")
    assert told["grant_command"] == "fastness plugin grant weather --owner me --all"


def test_problems_are_all_told(folder: Path, capfd: Capture) -> None:
    """What is not valid is not installed, and says why as ``check`` does."""
    (folder / "plugin.toml").write_text(TOML.replace("1.0.0", "1").replace("65536", "-1"))
    assert main(["plugin", "install", str(folder)]) == exits.USAGE
    out, err = capfd.readouterr()
    assert [line.partition(":")[0] for line in out.splitlines()] == ["version", "capabilities[1].quota"]
    assert "2 problems" in err
    told = read(capfd, "install", str(folder), code=2)
    assert (told["ok"], len(told["problems"])) == (False, 2)
    assert read(capfd, "list")["plugins"] == []


def test_an_upgrade_that_asks_for_more_waits(folder: Path, capfd: Capture) -> None:
    """It shows what is new, asks again, and until then nothing of it can be called."""
    read(capfd, "install", str(folder), "--yes")
    text = (TOML + MORE).replace("1.0.0", "1.1.0").replace("65536", "131072")
    (folder / "plugin.toml").write_text(text)
    assert main(["plugin", "install", str(folder)]) == exits.USAGE
    assert "--upgrade" in capfd.readouterr().err
    assert main(["plugin", "install", str(folder), "--upgrade"]) == 0
    out = capfd.readouterr().out
    new = out[out.index("More than the owner me granted before") :]
    assert re.findall(r"^  \+ (\w+):", new, re.MULTILINE) == ["storage", "process"]
    assert "128 KiB" in new
    assert "net:" not in new
    assert "fastness plugin grant weather --owner me --all" in new
    assert read(capfd, "show", "weather")["plugin"]["state"] == "awaiting_grant"
    assert main(["plugin", "call", "weather", "fetch"]) == exits.USAGE


def test_an_upgrade_that_asks_for_no_more_keeps_its_grants(folder: Path, capfd: Capture) -> None:
    read(capfd, "install", str(folder), "--yes")
    (folder / "plugin.toml").write_text(TOML.replace("1.0.0", "1.1.0"))
    assert main(["plugin", "install", str(folder), "--upgrade"]) == 0
    assert "what the owner me granted stands" in capfd.readouterr().out
    shown = read(capfd, "show", "weather")
    assert (shown["plugin"]["state"], shown["plugin"]["version"]) == ("enabled", "1.1.0")
    assert shown["grants"][0]["package_digest"] == shown["plugin"]["digest"]
    # What one owner granted says nothing for another.
    assert main(["plugin", "install", str(folder), "--owner", "ann"]) == 0
    assert "fastness plugin grant weather --owner ann --all" in capfd.readouterr().out


def test_less_than_is_asked_for(folder: Path, capfd: Capture) -> None:
    """A kind, or a kind with fields; what was granted before and is not named any more is told."""
    read(capfd, "install", str(folder), "--yes")
    narrow = 'net:{"hosts": ["a.example"]}'
    assert main(["plugin", "grant", "weather", "--allow", narrow, "--expires", "2h"]) == 0
    out, err = capfd.readouterr()
    assert "Asked for and not granted: storage" in out
    assert "no longer granted: storage" in err
    (grant,) = read(capfd, "show", "weather")["grants"]
    (scope,) = grant["allowed"]
    assert (scope["hosts"], scope["schemes"]) == (["a.example"], ["https"])
    assert 7100 < grant["expires"] - time.time() < 7300


@pytest.mark.parametrize(
    "words",
    [(), ("--all", "--allow", "net"), ("--allow", "fs"), ("--allow", "nett"), ("--allow", "net:["),
     ("--allow", 'net:{"hosts": ["c.example"]}'), ("--allow", 'net:{"hots": []}'), ("--allow", 'net:{"hosts": "a"}'),
     ("--lookup", "cache:*"), ("--all", "--expires", "0"), ("--all", "--expires", "soon"), ("--all", "--owner", "")],
)  # fmt: skip
def test_grants_that_are_none(folder: Path, capfd: Capture, words: tuple[str, ...]) -> None:
    """Nothing that was not asked for, nothing that is not said, nothing that cannot be read: exit code 2, no grant."""
    read(capfd, "install", str(folder))
    assert main(["plugin", "grant", "weather", *words]) == exits.USAGE
    assert capfd.readouterr().err
    assert read(capfd, "show", "weather")["grants"] == []


def test_what_the_operator_forbids_is_said_on_the_screen(folder: Path, home: Path, capfd: Capture) -> None:
    """A ceiling in the configuration holds here too."""
    (home / "config").mkdir(mode=0o700)
    (home / "config" / "config.toml").write_text('[ceiling]\ntiers = ["isolated"]\nkinds = ["storage"]\n')
    (home / "config" / "config.toml").chmod(0o600)
    assert main(["plugin", "install", str(folder), "--yes"]) == 0
    out = capfd.readouterr().out
    assert "operator    does not permit it" in out
    assert main(["plugin", "grant", "weather", "--all"]) == 0
    assert "Asked for and not granted: net" in capfd.readouterr().out
    assert kinds(read(capfd, "show", "weather")) == {"me": ["storage"]}
    assert main(["plugin", "show", "weather", "--owner", "ann"]) == 0
    assert "To grant all that it asks, as far as the operator permits it:" in " ".join(capfd.readouterr().out.split())


def test_a_tier_that_the_operator_does_not_permit_is_said_on_the_screen(
    folder: Path, home: Path, capfd: Capture
) -> None:
    """Before anything is granted, with the command that moves the plugin; after it there is nothing to say."""
    (home / "config").mkdir(mode=0o700)
    path = home / "config" / "config.toml"
    path.write_text('[ceiling]\ntiers = ["wasm"]\nkinds = ["storage", "net"]\nlimits = { memory = "32M" }\n')
    path.chmod(0o600)
    (folder / "plugin.toml").write_text(TOML + '\n[limits]\nmemory = "64M"\n')
    assert main(["plugin", "install", str(folder)]) == 0
    out = capfd.readouterr().out
    assert "it runs in the tier isolated, and the operator permits wasm" in " ".join(out.split())
    assert "memory 64 MiB (cut to 32 MiB)" in out
    (line,) = [line.strip() for line in out.splitlines() if "plugin tier" in line]
    assert main(["plugin", "grant", "weather", "--all"]) == 0
    assert line in capfd.readouterr().err
    assert main(shlex.split(line)[1:]) == 0
    capfd.readouterr()
    assert main(["plugin", "show", "weather"]) == 0
    assert "the operator permits" not in capfd.readouterr().out


def test_revoking(folder: Path, capfd: Capture) -> None:
    """One owner's or everybody's; what still stands is said."""
    read(capfd, "install", str(folder), "--yes")
    assert main(["plugin", "grant", "weather", "--owner", "ann", "--allow", "net"]) == 0
    capfd.readouterr()
    assert main(["plugin", "revoke", "weather"]) == 0
    out, err = capfd.readouterr()
    assert "1 grant of the owner me ended" in out
    assert "still granted to ann" in err
    assert kinds(read(capfd, "show", "weather")) == {"ann": ["net"]}
    # Who granted nothing may be a slip for who did; and nothing is recorded that did not happen.
    assert main(["plugin", "revoke", "weather"]) == exits.USAGE
    assert "no grant of the owner me to end" in capfd.readouterr().err
    assert main(["audit", "--json"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["target"] for row in rows if row["op"] == "revoke"] == ["1 ended"]
    told = read(capfd, "revoke", "weather", "--everyone")
    assert told == {"ended": 1, "in_flight": [], "still_granted_to": []}
    assert read(capfd, "show", "weather")["plugin"]["state"] == "awaiting_grant"


def test_the_operator_s_commands(folder: Path, capfd: Capture) -> None:
    """disable, enable, quarantine, tier and remove bring the plugin where they say."""
    read(capfd, "install", str(folder), "--yes")

    def state() -> str:
        return str(read(capfd, "show", "weather")["plugin"]["state"])

    assert main(["plugin", "disable", "weather"]) == 0
    assert capfd.readouterr().out == "weather 1.0.0 is disabled\n"
    assert state() == "disabled"
    assert main(["plugin", "grant", "weather", "--all"]) == 0
    assert "fastness plugin enable weather" in capfd.readouterr().out
    assert main(["plugin", "enable", "weather"]) == 0
    assert state() == "enabled"
    assert main(["plugin", "quarantine", "weather", "--why", "odd \x1b[2Jtraffic"]) == 0
    assert "odd \\u001b[2Jtraffic" in capfd.readouterr().out
    assert state() == "quarantined"
    assert main(["plugin", "list"]) == 0
    assert "traffic" in capfd.readouterr().out
    assert main(["plugin", "enable", "weather"]) == exits.USAGE
    assert main(["plugin", "disable", "weather"]) == 0
    assert main(["plugin", "enable", "weather"]) == 0
    assert main(["plugin", "tier", "weather", "wasm"]) == 0
    assert read(capfd, "show", "weather")["tier"] == "wasm"
    assert main(["plugin", "tier", "weather", "worker"]) == exits.USAGE
    assert main(["plugin", "tier", "weather", "worker", "--trust", "reviewed"]) == 0
    assert read(capfd, "show", "weather")["tier"] == "worker"
    assert main(["plugin", "tier", "weather", "default"]) == 0
    assert read(capfd, "show", "weather")["tier"] == "isolated"
    assert main(["plugin", "remove", "weather", "--yes"]) == 0
    assert read(capfd, "list")["plugins"] == []
    assert main(["plugin", "show", "weather"]) == exits.USAGE
    assert main(["plugin", "remove", "weather"]) == exits.USAGE


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_removing_where_nobody_can_be_asked(folder: Path, capfd: Capture, words: tuple[str, ...]) -> None:
    """Without --yes nothing is deleted."""
    read(capfd, "install", str(folder), "--yes")
    assert main(["plugin", "remove", "weather", *words]) == exits.USAGE
    out, err = capfd.readouterr()
    assert (out, "--yes" in err) == ("", True)
    assert kinds(read(capfd, "show", "weather")) == {"me": ["net", "storage"]}
    read(capfd, "remove", "weather", "--yes")
    assert read(capfd, "list")["plugins"] == []


@pytest.mark.parametrize(
    ("version", "says"),
    [("1.0.1", "It takes the place of 1.0.0.\n"), ("0.9.9", "It takes the place of 1.0.0, which is newer"),
     ("1.0.0-rc.1", "It takes the place of 1.0.0, which is newer"),
     ("1.0.0", "It takes the place of the same version, 1.0.0, with other files")],
)  # fmt: skip
def test_what_an_upgrade_takes_the_place_of(folder: Path, capfd: Capture, version: str, says: str) -> None:
    """An older version, or other files of the same one, do not come unnoticed."""
    old = read(capfd, "install", str(folder), "--yes")
    assert old["replaced"] is None
    (folder / "plugin.toml").write_text(TOML.replace("1.0.0", version) + "# other files\n")
    assert main(["plugin", "install", str(folder), "--upgrade"]) == 0
    assert says in capfd.readouterr().out
    told = read(capfd, "install", str(folder), "--upgrade")
    assert told["replaced"]["version"] == version
    assert main(["plugin", "install", str(folder), "--upgrade"]) == 0
    assert "its files are the same" in capfd.readouterr().out


def test_a_yes_is_for_what_was_shown(folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody else upgrades between the question and the answer: the answer grants neither version."""

    def answered(*_: object) -> tuple[bool, int]:
        (folder / "plugin.toml").write_text(
            TOML.replace("1.0.0", "2.0.0") + '\n[[capabilities]]\nkind = "fs"\nread = true\nreason = "Reads."\n'
        )
        with fastness.PluginHost() as other:
            other.install(folder, upgrade=True)
        return True, 0

    monkeypatch.setattr(plugin_install, "_ask", answered)
    assert main(["plugin", "install", str(folder)]) == exits.USAGE
    assert "installed by now" in capfd.readouterr().err
    assert kinds(read(capfd, "show", "weather")) == {}


def test_an_upgrade_loses_what_was_reviewed(folder: Path, capfd: Capture) -> None:
    """The screen names the tier that is gone and how to choose it again; a program is told what it was."""
    read(capfd, "install", str(folder), "--yes")
    read(capfd, "tier", "weather", "worker", "--trust", "reviewed")
    (folder / "plugin.toml").write_text(TOML + "# other files\n")
    assert main(["plugin", "install", str(folder), "--upgrade"]) == 0
    out = " ".join(capfd.readouterr().out.split())
    assert "The tier worker was for the files before it, which were reviewed: these run in isolated." in out
    assert "fastness plugin tier weather worker --trust reviewed" in out
    read(capfd, "tier", "weather", "worker", "--trust", "reviewed")
    (folder / "plugin.toml").write_text(TOML + "# and others\n")
    told = read(capfd, "install", str(folder), "--upgrade")
    assert (told["replaced"]["tier"], told["replaced"]["trust"]) == ("worker", "reviewed")
    assert (told["plugin"]["tier"], told["plugin"]["trust"], told["tier"]) == ("", "", "isolated")


def test_versions_are_ordered() -> None:
    """As https://semver.org, section 11, orders its example."""
    words = ["1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11",
             "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0"]  # fmt: skip
    assert all(_order(before) < _order(after) for before, after in itertools.pairwise(words))


def test_one_owner_s_grant_is_shown_alone(folder: Path, home: Path, capfd: Capture) -> None:
    """``show --owner``, and the command that it prints, are for that owner."""
    read(capfd, "install", str(folder), "--yes")
    assert kinds(read(capfd, "show", "weather", "--owner", "me")) == {"me": ["net", "storage"]}
    assert kinds(read(capfd, "show", "weather", "--owner", "ann")) == {}
    assert main(["plugin", "show", "weather", "--owner", "ann"]) == 0
    out = capfd.readouterr().out
    assert "Granted by the owner me" not in out
    assert "  fastness plugin grant weather --owner ann --all\n" in out


def test_the_folder_is_shown_before_it_is_granted(folder: Path, home: Path, capfd: Capture) -> None:
    """Where a plugin's files would be is part of what an owner decides about."""
    (folder / "plugin.toml").write_text(TOML + '\n[[capabilities]]\nkind = "fs"\nread = true\nreason = "Reads."\n')
    assert main(["plugin", "install", str(folder), "--owner", "ann"]) == 0
    where = str(home / "data" / "files" / "weather")
    assert where in "".join(line.strip() for line in capfd.readouterr().out.splitlines())


def test_a_plugin_without_methods_says_so(folder: Path, capfd: Capture) -> None:
    """What only a program that loads it is of use to is told before it is granted."""
    (folder / "plugin.toml").write_text(
        TOML.replace('methods = ["fetch"]', 'lookups = ["cache:*"]').replace("reason = ", "reason = ")
    )
    for words in (["check", str(folder)], ["install", str(folder)], ["grant", "weather", "--all"]):
        assert main(["plugin", *words]) == 0
        out = " ".join(capfd.readouterr().out.split())
        assert "It has no methods, so there is nothing to call" in out
        assert "fastness.IsolatedPlugin" in out
    (folder / "plugin.toml").write_text(TOML.replace('methods = ["fetch"]', 'methods = ["fetch"]\nlookups = ["a"]'))
    assert main(["plugin", "install", str(folder), "--upgrade"]) == 0
    assert "A method that is called has no lookups" in " ".join(capfd.readouterr().out.split())


def test_functions_of_a_program_are_not_here(folder: Path, capfd: Capture) -> None:
    """They are absent on the command line whatever is granted, and the screen says so."""
    (folder / "plugin.toml").write_text(TOML + '\n[[capabilities]]\nkind = "host"\nnames = ["ask"]\nreason = "Asks."\n')
    for words in (["check", str(folder)], ["install", str(folder)], ["show", "weather"]):
        assert main(["plugin", *words]) == 0
        assert "here absent whatever is granted: its functions" in " ".join(capfd.readouterr().out.split())


def test_the_list_has_the_tier_of_each(folder: Path, capfd: Capture) -> None:
    """The one that it runs in, chosen or not."""
    read(capfd, "install", str(folder))
    for chosen, tier in (("default", "isolated"), ("wasm", "wasm")):
        assert main(["plugin", "tier", "weather", chosen]) == 0
        capfd.readouterr()
        assert main(["plugin", "list"]) == 0
        out = capfd.readouterr().out
        assert re.search(rf"^weather +1\.0\.0 +waiting for a grant +{tier} +local", out, re.MULTILINE), out
        # No empty lines around the table.
        assert all(line.strip() for line in out.splitlines())


@pytest.mark.parametrize("columns", ["60", "80", "140"])
def test_columns_are_kept_to(folder: Path, capfd: Capture, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """COLUMNS says how wide what is printed may be, also into a pipe."""
    monkeypatch.setenv("COLUMNS", columns)
    (folder / "plugin.toml").write_text(TOML.replace("Keeps it.", "Keeps it. " * 29))
    for words in (["install", str(folder)], ["list"], ["show", "weather"]):
        assert main(["plugin", *words]) == 0
        lines = [line for line in capfd.readouterr().out.splitlines() if "fastness plugin" not in line]
        assert [line for line in lines if len(line.rstrip()) > int(columns)] == []


def test_all_of_it_is_in_the_audit_trail(folder: Path, capfd: Capture) -> None:
    """Whoever reads the trail sees who was granted what, and when that ended; digests are short there and whole in JSON."""
    told = read(capfd, "install", str(folder), "--yes")
    assert main(["plugin", "revoke", "weather"]) == 0
    capfd.readouterr()
    assert main(["audit", "--json"]) == 0
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(row["op"], row["plugin"], row["owner"]) for row in rows] == [
        ("install", "weather", ""),
        ("grant", "weather", "me"),
        ("revoke", "weather", "me"),
    ]
    digest = told["plugin"]["digest"]
    assert digest in rows[0]["target"]
    assert main(["audit"]) == 0
    out = capfd.readouterr().out
    assert f"{digest[:12]}..." in out
    assert digest not in out
    assert "plugin.grant net, storage;" in out


def _on_a_terminal(words: list[str], answer: bytes, home: Path) -> tuple[int, str]:
    """What a command shows on a terminal of 80 columns, where somebody types an answer to its question."""
    ours, theirs = pty.openpty()
    # A terminal of its own, to which Ctrl-C goes (tty_ioctl(4), TIOCSCTTY), and which nobody ignores from before.
    own = (
        "import fcntl, os, signal, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"
    )
    command = [sys.executable, "-c", own, sys.executable, "-m", "fastness.cli", *words]
    environment = {**os.environ, "FASTNESS_HOME": str(home), "COLUMNS": "80", "NO_COLOR": "1", "TERM": "xterm"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown, typed = b"", 0.0
        ends = time.monotonic() + 60
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            if time.monotonic() > ends:
                process.kill()
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    piece = os.read(ours, 65536)
                except OSError:
                    # EIO: the other side has closed it (pty(7)).
                    break
                shown += piece
                if shown.rstrip().endswith(b"[y/N]:") and answer:
                    os.write(ours, answer)
                    typed = time.monotonic()
            elif answer == b"\x03" and shown.endswith(b"^C") and time.monotonic() - typed > 1:
                # One that comes before the interpreter reads is only looked at after it has read: typed again, as by hand.
                os.write(ours, answer)
                typed = time.monotonic()
    os.close(ours)
    return process.returncode, re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


@pytest.mark.parametrize(
    ("answer", "code", "granted"),
    [
        (b"y\n", 0, {"me": ["net", "storage"]}),
        (b"\n", 0, {}),
        (b"maybe\n", 0, {}),
        (b"\x04", 130, {}),
        (b"\x03", 130, {}),
    ],
)
def test_a_question_on_a_terminal(
    folder: Path, home: Path, capfd: Capture, answer: bytes, code: int, granted: dict[str, list[str]]
) -> None:
    """Only a yes grants; anything else, the end of input and Ctrl-C do not, and what was installed stays."""
    status, shown = _on_a_terminal(["plugin", "install", str(folder)], answer, home)
    assert "[y/N]" in shown
    assert status == code, shown
    assert kinds(read(capfd, "show", "weather")) == granted
    if not granted:
        assert "fastness plugin grant weather --owner me --all" in shown
    assert [line for line in shown.splitlines() if len(line.rstrip("\r")) > 80] == []
    assert "invalid" not in shown


def test_removing_asks_first(folder: Path, home: Path, capfd: Capture) -> None:
    """At a terminal, and no is the default; with --yes, and where nobody can be asked, it does as it is told."""
    read(capfd, "install", str(folder))
    status, shown = _on_a_terminal(["plugin", "remove", "weather"], b"\n", home)
    assert (status, "stays as it is" in shown) == (0, True)
    assert [line for line in shown.splitlines() if len(line.rstrip("\r")) > 80] == []
    assert len(read(capfd, "list")["plugins"]) == 1
    status, shown = _on_a_terminal(["plugin", "remove", "weather", "--yes"], b"", home)
    assert (status, "[y/N]" in shown) == (0, False)
    assert read(capfd, "list")["plugins"] == []
