"""What the pages on plugins print is what happens: their files are written as they stand there, and their commands run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import house
from fastness.cli.main import main
from fastness.plugins import package

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs" / "plugins"
Capture = pytest.CaptureFixture[str]


def blocks(page: str, language: str) -> list[str]:
    """The blocks of one language, in their order."""
    return re.findall(rf"^```{language}\n(.*?)^```$", (DOCS / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and a folder of the reader's own to work in."""
    house.require("isolated tier")
    made = tmp_path / "home"
    made.mkdir(mode=0o700)
    monkeypatch.setenv("FASTNESS_HOME", str(made))
    monkeypatch.chdir(tmp_path)
    return made


def test_writing_a_plugin_from_nothing(home: Path, capfd: Capture) -> None:
    """Every command of the page, in order, prints what the page shows."""
    first, more, *_ = blocks("writing.md", "toml")
    code, export, *_ = blocks("writing.md", "python")
    shown = re.findall(
        r"^\$ fastness (.*)\n((?:(?!\$ |```).*\n)*)", (DOCS / "writing.md").read_text("utf-8"), re.MULTILINE
    )
    Path("notes").mkdir()
    Path("notes/plugin.toml").write_text(first)
    Path("notes/notes.py").write_text(code)
    ran = 0
    for command, printed in shown:
        words = shlex.split(command)
        if "--upgrade" in words:
            text = first.replace("1.0.0", "1.1.0").replace('"all"]', '"all", "export"]')
            Path("notes/plugin.toml").write_text(text + "\n" + more)
            Path("notes/notes.py").write_text(code + "\n\n" + export)
        elif words[:2] == ["plugin", "install"]:
            # There is nobody here to say yes.
            words.append("--yes")
        assert main(words) == 0, command
        out, _ = capfd.readouterr()
        found = " ".join(out.split())
        for part in printed.split("...\n"):
            kept = "\n".join(line for line in part.splitlines() if "[y/N]" not in line)
            assert " ".join(kept.split()) in found, (command, kept)
        ran += 1
    assert ran >= 8
    (written,) = home.glob("data/files/notes/*/notes.txt")
    assert written.read_text() == "buy milk\n"


def test_a_plugin_of_one_file(home: Path, capfd: Capture) -> None:
    """The single file of the page is a plugin."""
    (text,) = [block for block in blocks("writing.md", "python") if "MANIFEST" in block]
    Path("slug.py").write_text(text)
    assert main(["plugin", "install", "slug.py", "--yes"]) == 0
    capfd.readouterr()
    assert main(["plugin", "call", "slug", "slug", "--arg", "text=Hello There"]) == 0
    assert capfd.readouterr().out == "hello-there\n"


def test_a_plugin_in_javascript(home: Path, capfd: Capture) -> None:
    """The function of the page, with a manifest of a few lines."""
    house.require("wasmtime")
    (code,) = blocks("writing.md", "js")
    manifest = (
        'export const MANIFEST = { id: "count", version: "1.0.0", api: 1, runtime: "javascript", methods: ["count"],\n'
        '  capabilities: [{ kind: "storage", quota: 4096, reason: "Counts." }] };\n'
    )
    Path("count.mjs").write_text(manifest + code)
    assert main(["plugin", "install", "count.mjs", "--yes"]) == 0
    for printed in ('{"words": 2, "all": 2}\n', '{"words": 2, "all": 4}\n'):
        capfd.readouterr()
        assert main(["plugin", "call", "count", "count", "--arg", "text=rain again"]) == 0
        assert capfd.readouterr().out == printed


def test_hosting_from_python(home: Path) -> None:
    """The program of the page prints what stands below it."""
    program, plugin, *_ = blocks("hosting.md", "python")
    Path("helper").mkdir()
    Path("helper/plugin.toml").write_text(blocks("hosting.md", "toml")[0])
    Path("helper/helper.py").write_text(plugin)
    Path("program.py").write_text(program)
    done = subprocess.run([sys.executable, "program.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"```\n\n```\n{done.stdout}```\n" in (DOCS / "hosting.md").read_text("utf-8")


@pytest.mark.parametrize("page", ["docs/plugins/hosting.md", "docs/operator.md"])
def test_configurations_are_read(home: Path, page: str) -> None:
    """Every configuration that a page shows is one."""
    from fastness import config
    from fastness.cli.plugin_host import known_specs

    found = re.findall(r"^```toml\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.MULTILINE | re.DOTALL)
    shown = [text for text in found if "[ceiling]" in text]
    assert shown
    for text in shown:
        (home / "config").mkdir(mode=0o700, exist_ok=True)
        path = home / "config" / "config.toml"
        path.write_text(text)
        path.chmod(0o600)
        config.forget()
        try:
            ceiling = config.load().ceiling(known_specs())
        finally:
            config.forget()
        assert ceiling is not None
        assert ceiling.permits("net")
        assert not ceiling.permits("process")


def test_the_package_of_the_readme_is_the_one_that_is_there() -> None:
    """Whoever installs the example sees the digest that the README shows."""
    digest = package.read(ROOT / "examples" / "plugins" / "words").digest
    assert f"package     {digest}\n" in (ROOT / "README.md").read_text("utf-8")
