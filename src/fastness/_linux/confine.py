"""
How a process of ours confines itself before it touches what it was not written by us for.

The order is forced: what reads ``/proc`` comes before identity changes, those before capabilities go, and the
filter that forbids all of it comes last.  System call filtering is what the rest leans on, so where the kernel has no
filter these functions raise; Landlock and namespaces are second walls, and one that cannot be had is reported.
"""

from __future__ import annotations

import errno

from fastness._linux import landlock, namespaces, privileges, profiles, seccomp, why_unsupported
from fastness._linux.syscalls import MACHINE

#: Open descriptors that an engine may have: its sockets, its timer, and one for each memory image.
MAX_DESCRIPTORS = 256


class Confinement:
    """
    What holds now.

    ``layers`` maps the value of a ``Guarantee`` to the mechanisms behind it, strongest first; ``gaps`` lists
    ``(mechanism, reason)`` for each that could not be had here.  ``seal_with`` names the program that
    :func:`seal_engine` installs, empty where nothing is left to seal.
    """

    __slots__ = ("gaps", "layers", "seal_with")

    def __init__(self) -> None:
        self.layers: dict[str, str] = {}
        self.gaps: list[tuple[str, str]] = []
        self.seal_with = ""


def confine_engine(*, image_mode: bool = False, parent: int = 0) -> Confinement:
    """
    Confine this process as a WASM engine, first stage: threads can still be started, everything else is final.

    Call it with one thread, after the library is loaded, native code is mapped, every callback is made and every
    descriptor is open.  ``image_mode`` keeps the few calls that write and seal memory images.  ``parent`` is the
    process to die with, 0 for none; see :func:`fastness._linux.privileges.die_with_parent` for its condition.
    Raises ``OSError`` where the process could not be put under its system call filter or could not give up its power;
    it must not go on then.
    """
    suffix = "_image" if image_mode else ""
    confinement = _confine(f"engine/start{suffix}", parent)
    confinement.seal_with = f"engine/serve{suffix}"
    return confinement


def seal_engine(confinement: Confinement) -> None:
    """
    Second stage: put all threads under the filter for serving, which starts no thread and installs no filter.

    Every thread must have run some of its own code before, or the calls that start it are the ones now forbidden.
    From here on the process ends with ``os._exit``: the interpreter's own end resets signal handlers, which is
    forbidden too.  Raises ``OSError``.
    """
    seccomp.install(profiles.program(MACHINE, confinement.seal_with), all_threads=True)
    confinement.seal_with = ""


def confine_compiler(*, parent: int = 0, address_space: int = 0, cpu_seconds: int = 0) -> Confinement:
    """
    Confine this process as a compiler of a module that nobody vouches for; it keeps its threads.

    Call it with one thread, after the library is loaded, with the input and the output already open.
    ``address_space`` in bytes and ``cpu_seconds`` bound what a hostile module can make it use; 0 is no bound.
    Raises ``OSError`` as :func:`confine_engine` does.
    """
    if address_space:
        privileges.set_limit(privileges.RLIMIT_AS, address_space)
    if cpu_seconds:
        privileges.set_limit(privileges.RLIMIT_CPU, cpu_seconds)
    return _confine("compiler/work", parent)


def _confine(program: str, parent: int) -> Confinement:
    reason = why_unsupported()
    if reason:
        raise OSError(errno.ENOSYS, reason)
    code = profiles.program(MACHINE, program)
    if privileges.thread_count() != 1:
        raise OSError(errno.EBUSY, "a process confines itself before it starts threads")
    confinement = Confinement()
    gap = confinement.gaps.append

    privileges.close_writable_code()
    privileges.set_limit(privileges.RLIMIT_CORE, 0)
    privileges.set_limit(privileges.RLIMIT_NOFILE, MAX_DESCRIPTORS)
    privileges.set_limit(privileges.RLIMIT_MEMLOCK, 0)
    privileges.set_limit(privileges.RLIMIT_MSGQUEUE, 0)

    left = namespaces.leave_all()
    for name, why in left.failed.items():
        gap((f"{name} namespace", why))
    if left.uid_gap:
        gap(("uid", left.uid_gap))

    # Changing the user forgets the death signal and the dumpable flag, so these follow it.
    if parent:
        privileges.die_with_parent(parent)
    bounding_gap = privileges.drop_capabilities()
    if bounding_gap:
        gap(("capability bounding set", bounding_gap))
    privileges.hide_memory()
    privileges.forbid_new_privileges()

    version = 0
    try:
        version = landlock.deny_all()
    except OSError as error:
        gap(("landlock", error.strerror or str(error)))
    if version and version < 4:
        gap(("landlock tcp", f"abi {version}; it came with abi 4"))
    if version and version < 6:
        gap(("landlock scopes", f"abi {version}; they came with abi 6"))

    seccomp.install(code)

    walls = [f"landlock(abi {version})"] if version else []
    own_network = ["netns"] if "net" in left.entered else []
    identity = [f"uid {namespaces.NOBODY}"] if left.own_uid else []
    identity += ["userns"] if "user" in left.entered else []
    confinement.layers = {
        "fs_confined": "+".join([*walls, "seccomp"]),
        "net_confined": "+".join([*own_network, *(walls if version >= 4 else []), "seccomp"]),
        "syscall_filtered": "seccomp",
        "no_exec": "seccomp",
        "no_new_privs": "prctl",
        "no_privilege": "+".join(["capset", *identity]),
    }
    return confinement
