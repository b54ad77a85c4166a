"""
What each tier does not stop, whatever it promises.
"""

from __future__ import annotations

from fastness.attack.boundaries.model import Limit
from fastness.tier import Tier

_KERNEL = Limit(
    "A bug of the kernel is a way out, where it can be reached by calls that the filter allows.",
    why="guests and the caller have one kernel",
    brief="shared kernel",
)

#: Each entry whose ``brief`` is set is one part of ``LIMITS_OF``, in that order.
LIMITS: dict[Tier, tuple[Limit, ...]] = {
    Tier.MEDIATED: (
        Limit(
            "Code does whatever its process may.",
            why="it is mediation inside your own process",
            brief="no isolation: first-party code only",
        ),
    ),
    Tier.WORKER: (
        Limit(
            "A guest reads and changes files as your user.",
            shown=("files.read_absolute", "files.write_absolute", "files.destroy"),
            brief="same user and same files",
        ),
        Limit(
            "A guest that works at getting round the firewall has your network, and your processes.",
            why="the firewall is an audit hook of the interpreter that it judges",
            brief="same network where the module firewall is undone",
        ),
        Limit(
            "A guest sees which processes there are, and which program each runs.",
            shown=("processes.counted",),
        ),
        Limit(
            "Many processes together use many times the memory of one, where the firewall was undone.",
            why="the cap is that of one process",
        ),
    ),
    Tier.CONFINED: (
        _KERNEL,
        Limit(
            "A guest learns whether a path exists, its size, times and owner, and where a link leads.",
            shown=("metadata.size",),
            brief="metadata of all files is readable",
        ),
        Limit(
            "Files and threads pass their limits for as long as it takes to look.",
            why="the host looks about every 50 ms",
            brief="files and threads are counted now and then, not by the kernel",
        ),
        Limit("A guest counts the processes of the machine by their numbers.", shown=("processes.counted",)),
    ),
    Tier.ISOLATED: (
        _KERNEL,
        Limit(
            "A guest reads what the system's folders and the package folders hold.",
            shown=("files.system_read",),
            brief="/usr and package folders are readable",
        ),
        Limit(
            "A guest that runs as the caller's user uses up what the kernel counts for that user.",
            why="signals that wait and descriptors on their way are counted for a user, not for a namespace",
            brief="an ordinary user's kernel limits are shared with the caller",
        ),
        Limit(
            "A machine without control groups runs no command.",
            why="many processes of one run are capped together by nothing else",
            brief="without control groups no program can be run",
        ),
    ),
    Tier.CONTAINER: (
        _KERNEL,
        Limit(
            "Whoever may speak to the engine is root.",
            why="that is what engines give to whom they listen to",
            brief="needs an engine, access to which is root, and an image",
        ),
    ),
    Tier.WASM: (
        Limit(
            "A bug of wasmtime lets guest code run native code in its engine.",
            why="on Linux the engine's confinement is a second wall",
            brief="engine bugs (behind a second wall on Linux)",
        ),
        Limit(
            "A guest has no package that its image does not hold.",
            why="there is no `pip install` inside",
            brief="only what the guest image holds",
        ),
    ),
    Tier.VM: (
        Limit(
            "A bug of the virtual machine monitor is a way out.",
            why="it is the wall",
            brief="bugs of the virtual machine monitor",
        ),
    ),
}
