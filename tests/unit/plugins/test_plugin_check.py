"""`fastness plugin check`: every problem, or what an owner decides by; nothing that a terminal would act on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_specs import BOX, SPECS, WEB

from fastness.capabilities import registry
from fastness.cli.main import main
from fastness.cli.visible import spelled_out
from fastness.errors import ManifestError
from fastness.manifest import parse
from fastness.plugins import javascript

TOML = """
id = "acme.weather"
version = "1.2.3"
api = 1
runtime = "python"
entry = "main.py"
name = "Wetter"
methods = ["forecast"]
lookups = ["config:*"]
limits = { memory = "64M" }

[[capabilities]]
kind = "web"
hosts = ["a", "b"]
reason = "Asks \\u202Eit\\u200B.\\u001B[2J\\nIt asks for nothing"

[[capabilities]]
kind = "box"
size = 7
reason = "Keeps it."
"""


@pytest.fixture(autouse=True)
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTNESS_HOME", str(tmp_path / "home"))
    real = registry.specs
    monkeypatch.setattr(registry, "specs", lambda more=None: real({**SPECS, **(more or {})}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "weather"
    made.mkdir()
    (made / "plugin.toml").write_text(TOML)
    (made / "main.py").write_text("raise SystemExit('executed')")
    return made


def test_in_words(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Each capability with its scope, its reason verbatim and made visible, and the risk in our words."""
    assert main(["plugin", "check", str(folder)]) == 0
    out = capfd.readouterr().out
    for words in (
        "acme.weather 1.2.3, which calls itself Wetter",
        "code        python, starts with main.py, runs in the tier isolated",
        "forecast",
        "hosts       a, b",
        'its reason  "Asks \\u202eit\\u200b.\\u001b[2J\\u000aIt asks for nothing"',
        f"at worst    {WEB.risk(WEB.scope(hosts=('a', 'b')))}",  # type: ignore[call-arg]
        f"at worst    {BOX.risk(BOX.scope(size=7))}",  # type: ignore[call-arg]
        "lookups     config:* (names that it reads of what those register)",
        "memory 64 MiB",
    ):
        assert words in out, words
    assert not any(letter in out for letter in "\u202e\u200b\x1b")
    assert "\nIt asks for nothing" not in out, "a reason that writes lines of ours"


def test_json(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """One object, with the manifest, the risks, the digest."""
    assert main(["plugin", "check", str(folder), "--json"]) == 0
    out = capfd.readouterr().out
    found = json.loads(out)
    assert out.isascii()
    assert (found["schema"], found["ok"], found["problems"], found["tier"], found["files"]) == (
        1,
        True,
        [],
        "isolated",
        2,
    )
    assert found["manifest"]["capabilities"][1]["risk"] == "It can keep 7 bytes."
    assert found["manifest"]["capabilities"][0]["reason"].startswith("Asks \u202eit")
    assert len(found["digest"]) == 64


def test_problems(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Every problem on a line of its own, exit code 2, and the same in JSON."""
    (folder / "plugin.toml").write_text(
        TOML.replace("size = 7", "size = -7").replace("1.2.3", "1").replace('"b"', '"b!"')
    )
    assert main(["plugin", "check", str(folder)]) == 2
    out, err = capfd.readouterr()
    assert [line.partition(":")[0] for line in out.splitlines()] == [
        "version",
        "capabilities[0].hosts[1]",
        "capabilities[1].size",
    ]
    assert "3 problems" in err
    assert main(["plugin", "check", str(folder), "--json"]) == 2
    found = json.loads(capfd.readouterr().out)
    assert (found["ok"], len(found["problems"])) == (False, 3)


def test_files_that_no_plugin_holds(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Faults of the package are told as those of the manifest are; a name cannot write on the screen."""
    (folder / "link\x1b[2J").symlink_to("/etc/passwd")
    (folder / "lib").symlink_to("/etc")
    assert main(["plugin", "check", str(folder)]) == 2
    out = capfd.readouterr().out
    assert "lib: a link" in out
    assert "\x1b" not in out
    assert main(["plugin", "check", str(folder / "missing")]) == 2


def test_data(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A plugin of data says so."""
    (folder / "plugin.toml").write_text('id = "words"\nversion = "1.0.0"\napi = 1\nruntime = "data"\n')
    assert main(["plugin", "check", str(folder)]) == 0
    out = capfd.readouterr().out
    assert "it is data" in out
    assert "no capability" in out


def test_spelled_out() -> None:
    """What cannot be seen is written out; any script that can be read is left as it is."""
    assert spelled_out("Погода 天気 é مطر") == "Погода 天気 é مطر"
    assert spelled_out("a\u00adb\u200dc\ufeff\u3164\U000e0041\ud800\u00a0\t\n\x9b") == (
        "a\\u00adb\\u200dc\\ufeff\\u3164\\U000e0041\\ud800\\u00a0\\u0009\\u000a\\u009b"
    )


# JavaScript: evaluated in a guest


def test_javascript(
    tmp_path: Path, require: Callable[[str], None], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module's manifest is what it exports; one that loops, throws, exports none or something deep is refused."""
    monkeypatch.delenv("FASTNESS_HOME")
    require("javascript guest")
    good = tmp_path / "analytics.mjs"
    good.write_text(
        'export default { manifest: { id: "analytics", version: "1.0.0", lookups: ["config:" + "*"] }, async setup(ctx) {} };'
    )
    assert main(["plugin", "check", str(good)]) == 0
    assert "analytics 1.0.0" in capfd.readouterr().out
    made = {
        "while (true) {}": "timeout",
        "throw new Error('no')": "no",
        "export default {}": "exports no manifest",
        "export const MANIFEST = 5": "must be an object",
        "export const MANIFEST = { a: 'x'.repeat(100000) }": "larger",
        "export const MANIFEST = { toJSON() { throw 1 } }": "could not be evaluated",
        "export const MANIFEST = (" * 5000: "could not be evaluated",
    }
    for source, words in made.items():
        with pytest.raises(ManifestError, match=words):
            javascript.evaluate("x.mjs", source.encode())
    for depth in (100, 5000):
        deep = f"let x = []; for (let i = 0; i < {depth}; i++) x = [x]; export const MANIFEST = {{ id: x }}"
        with pytest.raises(ManifestError):
            parse(javascript.evaluate("x.mjs", deep.encode()), SPECS)
