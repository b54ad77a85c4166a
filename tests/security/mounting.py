"""File systems that tests mount, as root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def mounted(what: list[str], place: Path, *, lazy: bool = False) -> Iterator[None]:
    """
    Mounted there, as ``mount`` takes it; skips the test where nothing can be mounted.

    With ``lazy`` it goes from there at once, and altogether when nobody has a file of it open any more.
    """
    if os.geteuid() or shutil.which("mount") is None:
        pytest.skip("mounting needs root")
    if subprocess.run(["mount", *what, str(place)], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", *(["--lazy"] if lazy else []), str(place)], check=True)
