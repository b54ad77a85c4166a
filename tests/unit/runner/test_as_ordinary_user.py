"""The tests of projects once more, as a user with no rights of their own, where this run is root's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import house

HERE = Path(__file__).parent
USER = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]


@pytest.mark.slow
def test_projects_as_an_ordinary_user() -> None:
    """Copying, collecting and applying need no privilege."""
    if os.geteuid():
        pytest.skip("this run is an ordinary user's already")
    if shutil.which("setpriv") is None:
        house.lacks("there is no setpriv (util-linux)")
    base = Path(tempfile.mkdtemp(prefix=f"fastness-ordinary-{os.getpid()}-"))
    try:
        base.chmod(0o700)
        os.chown(base, 65534, 65534)
        environment = {
            **os.environ, "HOME": str(base), "TMPDIR": str(base), "FASTNESS_HOME": f"{base}/home",
            "FASTNESS_EXAMPLES": "1", "PYTHONDONTWRITEBYTECODE": "1",
        }  # fmt: skip
        if subprocess.run(
            [*USER, sys.executable, "-c", "import pytest, fastness"], env=environment, check=False
        ).returncode:
            # A checkout may be closed to others; .ci/ordinary tries the same from a copy that is not.
            pytest.skip("the ordinary user cannot read this interpreter or the source")
        names = ("test_project.py", "test_collect.py", "test_apply.py", "test_tree_properties.py")
        done = subprocess.run(
            [*USER, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={base}/tests",
             *(str(HERE / name) for name in names)],
            cwd=base, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        assert " passed" in done.stdout
    finally:
        shutil.rmtree(base)
