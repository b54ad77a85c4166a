"""What the command line does without until it is needed: every call of it would wait for that."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: What is imported only where there is something to show, to apply or to record, or where a guest is started.
_LATE = (
    "rich.console", "rich.table", "fastness.runner.triggers", "fastness.runner.apply", "fastness.runner.project",
    "fastness.backends.local", "fastness.audit.log", "concurrent.futures", "secrets", "selectors",
)  # fmt: skip


@pytest.mark.parametrize("arguments", [["exec", "--", "true"], ["run", "-c", "1"]])
def test_a_command_with_nothing_to_show_imports_no_more_than_it_needs(arguments: list[str]) -> None:
    code = f"""
import sys
from fastness import sync
from fastness.testing import FakeBackend
from fastness.tier import Tier
late = set({_LATE!r})
assert not late & set(sys.modules), late & set(sys.modules)
fake = FakeBackend(tier=Tier.ISOLATED)
fake.runtimes = frozenset(('command', 'python'))
real = sync.AsyncSandbox
sync.AsyncSandbox = lambda **options: real(**options, _make=lambda tier: fake)
from fastness.cli.main import main
status = main({arguments!r})
print(status, sorted(late & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["0 []"], done.stderr
