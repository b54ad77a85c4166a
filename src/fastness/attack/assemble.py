"""
From WebAssembly's text format to bytes, in a child process: the attack runner itself never loads the runtime.
"""

from __future__ import annotations

import functools
import subprocess
import sys

_CHILD = """
import sys
from fastness._wasi import binding
sys.stdout.buffer.write(binding.wat2wasm(binding.load(binding.find_library()), sys.stdin.read()))
"""


@functools.cache
def assemble(text: str) -> bytes:
    """The module that ``text`` describes.  Raises ``ValueError`` with the assembler's own words."""
    done = subprocess.run([sys.executable, "-c", _CHILD], input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr.decode("utf-8", "replace").strip()[-2000:])
    return done.stdout
