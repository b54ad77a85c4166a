"""The table of what each capability enforces is that of the code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "plugins" / "enforcement.md"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    script = str(ROOT / "tools" / "enforcement.py")
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


def test_the_page_is_what_the_capabilities_say() -> None:
    """``tools/enforcement.py --check`` finds nothing to write."""
    done = run("--check")
    assert done.returncode == 0, done.stderr


def test_every_attack_that_is_named_held() -> None:
    """What the page names stands in the table of what held, with the same words."""
    held = (ROOT / "docs" / "security" / "attacks.md").read_text("utf-8")
    named = re.findall(r"^\| `(\w+\.\w+)` \| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    for name, says in named:
        assert f"| {says} | `{name}` |" in held, name


def test_a_stale_page_is_found(tmp_path: Path) -> None:
    """The check sees one word that is another."""
    source = (ROOT / "tools" / "enforcement.py").read_text("utf-8")
    (tmp_path / "docs" / "plugins").mkdir(parents=True)
    (tmp_path / "tools").mkdir()
    script = tmp_path / "tools" / "enforcement.py"
    script.write_text(source)
    page = tmp_path / "docs" / "plugins" / "enforcement.md"
    page.write_text(PAGE.read_text("utf-8").replace("no mount entered", "some mounts entered"))
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, "stale" in done.stderr) == (1, True)
