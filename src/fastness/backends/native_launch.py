"""
The first step of a zygote: its launcher, which gets ready while its caller makes up its mind what it is to be.

Until it is told, a launcher has done nothing but import what is ours.  It ends with its conversation, and with the
thread that started it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys

from fastness._native import datagrams
from fastness.backends.own_files import source_root

#: Bytes of what it and its imports write to their error stream; a write past them fails.
WORDS_MAX = 1 << 18
#: The source folder is the current one, so that no argument, which guests can read, tells where it is.
_BOOT = "import sys,os;sys.path.insert(0,os.getcwd());from fastness._native.launcher import main;main()()()"
COMMAND_PATH = "/usr/local/bin:/usr/bin:/bin"
#: What zygotes, and the guests that are born of them, find in their environment, by what their guests run.  One thread
#: for linear algebra: a zygote may have no other, and a guest may raise it.
ENVIRONMENTS = {
    "python": {
        "LANG": "C.UTF-8",
        "HOME": "/work",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "MALLOC_ARENA_MAX": "2",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108  # inside the guest
        "NO_COLOR": "1",
    },
    "command": {"LANG": "C.UTF-8", "HOME": "/tmp", "PATH": COMMAND_PATH, "TMPDIR": "/tmp"},  # noqa: S108  # as above
}


class Launch:
    """A launcher that has been told nothing: its process, its conversation, and the file that its words go to."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, words: int) -> None:
        self.process = process
        self.control = control
        self.words = words

    def drop(self) -> None:
        """End it."""
        self.control.close()
        os.close(self.words)
        self.process.kill()
        self.process.wait(timeout=10)


def launch(environment: dict[str, str]) -> Launch:
    """Start a launcher, from a thread that lasts.  Raises ``OSError``."""
    words = os.memfd_create("fastness-words", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        # What is imported may write without end, and this is memory.
        os.ftruncate(words, WORDS_MAX)
        fcntl.fcntl(words, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW)
        ours, theirs = datagrams.pair()
    except BaseException:
        os.close(words)
        raise
    command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", "-c", _BOOT, str(theirs.fileno())]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
            pass_fds=(theirs.fileno(),),
            env=environment,
            cwd=source_root(),
            start_new_session=True,
        )
    except BaseException:
        ours.close()
        os.close(words)
        raise
    finally:
        theirs.close()
    return Launch(process, ours, words)
