"""
Our host for ``wasi_snapshot_preview1``: all 46 imports, with no host path, socket or process behind any.

:class:`Host` is the state of one run; :func:`register` defines the imports once per engine.  The calls themselves are
in the modules that the class inherits from, one group of calls each.
"""

from __future__ import annotations

from .preview1_abi import Errno, ProcExit
from .preview1_calls import callback
from .preview1_clock import Clock
from .preview1_denials import DenialLog
from .preview1_memory import Fd, stream
from .preview1_misc import Misc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    class Linker(Protocol):
        """What is needed of the binding's linker."""

        def define(
            self, module: bytes, name: bytes, params: str, results: str, callback: Callable[[Any, Any, Any, int], Any]
        ) -> None: ...

        def trap(self) -> int: ...


__all__ = [
    "SIGNATURES",
    "Clock",
    "DenialLog",
    "Errno",
    "Fd",
    "Host",
    "ProcExit",
    "register",
    "stream",
]

MODULE = b"wasi_snapshot_preview1"

#: Import name to parameters: ``i`` is i32, ``l`` is i64.  All but ``proc_exit`` return an errno as i32.
SIGNATURES = {
    "args_get": "ii",
    "args_sizes_get": "ii",
    "clock_res_get": "ii",
    "clock_time_get": "ili",
    "environ_get": "ii",
    "environ_sizes_get": "ii",
    "fd_advise": "illi",
    "fd_allocate": "ill",
    "fd_close": "i",
    "fd_datasync": "i",
    "fd_fdstat_get": "ii",
    "fd_fdstat_set_flags": "ii",
    "fd_fdstat_set_rights": "ill",
    "fd_filestat_get": "ii",
    "fd_filestat_set_size": "il",
    "fd_filestat_set_times": "illi",
    "fd_pread": "iiili",
    "fd_prestat_dir_name": "iii",
    "fd_prestat_get": "ii",
    "fd_pwrite": "iiili",
    "fd_read": "iiii",
    "fd_readdir": "iiili",
    "fd_renumber": "ii",
    "fd_seek": "ilii",
    "fd_sync": "i",
    "fd_tell": "ii",
    "fd_write": "iiii",
    "path_create_directory": "iii",
    "path_filestat_get": "iiiii",
    "path_filestat_set_times": "iiiilli",
    "path_link": "iiiiiii",
    "path_open": "iiiiillii",
    "path_readlink": "iiiiii",
    "path_remove_directory": "iii",
    "path_rename": "iiiiii",
    "path_symlink": "iiiii",
    "path_unlink_file": "iii",
    "poll_oneoff": "iiii",
    "proc_exit": "i",
    "proc_raise": "i",
    "random_get": "ii",
    "sched_yield": "",
    "sock_accept": "iii",
    "sock_recv": "iiiiii",
    "sock_send": "iiiii",
    "sock_shutdown": "ii",
}


class Host(Misc):
    """
    One run's host.  Give it the guest's memory with ``bind`` before the guest runs.

    Arguments: ``args`` and ``env`` (``NAME=value``) without NUL; ``preopens`` as (guest name, directory), from
    descriptor 3 on; ``stdin`` whole; ``write_out(fd, data)`` for 1 and 2; a clock; ``random(n)`` returning exactly n
    bytes; a denial log; ``wait(seconds)``, which raises when the run must end, at once where it must end
    already; ``max_fds``; ``report_absent`` to record lookups of what the preopen ``/`` does not have; ``tty`` to let
    the guest take its output for a terminal and so flush at each line.
    """

    __slots__ = ()


def callbacks(current: list[Any], trap: Callable[[], int]) -> dict[str, Callable[[Any, Any, Any, int], int | None]]:
    """The raw callback of every import, for the host in ``current[0]``; see :func:`preview1_calls.callback`."""
    return {name: callback(kinds, getattr(Host, name), current, trap) for name, kinds in SIGNATURES.items()}


def register(linker: Linker, current: list[Any]) -> None:
    """Define all imports on ``linker``.  After this no callback object is made again."""
    for name, raw in callbacks(current, linker.trap).items():
        results = "" if name == "proc_exit" else "i"
        linker.define(MODULE, name.encode(), SIGNATURES[name], results, raw)
