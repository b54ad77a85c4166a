"""
A process that changes what names lead to, as fast as it can.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

#: ``name`` is by turns a file and a link to the one outside, and ``folder`` a folder and a link to the one outside.
#: It ends with its standard input, however this process ends.
_SWAPS = """
import os, select, sys
root, outside = sys.argv[1:]
os.chdir(root)

def put(name, data):
    with open(name, 'wb') as file:
        file.write(data)

print(flush=True)
while not select.select([0], [], [], 0)[0]:
    for _ in range(50):
        put('a', b'inside')
        os.rename('a', 'name')
        os.symlink(outside + '/name', 'b')
        os.rename('b', 'name')
        os.symlink(outside, 'c')
        try:
            os.rename('folder', 'd')
        except OSError:
            pass
        os.rename('c', 'folder')
        try:
            os.unlink('folder')
            os.rename('d', 'folder')
        except OSError:
            pass
"""


@contextlib.contextmanager
def swaps(root: Path, outside: Path) -> Iterator[None]:
    """Runs for as long as the block; ``root`` gets ``name`` and ``folder``."""
    (root / "name").write_bytes(b"inside")
    (root / "folder").mkdir()
    (root / "folder" / "name").write_bytes(b"inside")
    command = [sys.executable, "-I", "-S", "-c", _SWAPS, str(root), str(outside)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env={}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()
