"""
The first steps of a guest: from its birth as a copy of the zygote to the wall behind which foreign code may run.

The order is forced.  A session of its own comes first, because signals to a process group ignore every namespace.
What needs the mother's help comes before identity changes, those before capabilities go, and the filter last.

Each page that is touched here for the first time is copied by the kernel, which costs more than most calls: what can
be done once, in the zygote, is done there, and what it has given up already is not given up again.
"""

from __future__ import annotations

import array
import errno
import json
import os
import socket
import struct
import time

from fastness._linux import cloning, landlock, mounts, privileges, profiles, seccomp
from fastness._linux.syscalls import CLONE_NEWCGROUP, MACHINE, unshare

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fastness._native.zygote import Birth

#: The descriptor of the conversation with the caller, in every guest; before that, in the zygote, one of nothing.
TALK = 3
#: Where the zygote keeps what guests need at their birth; its folders follow.
MOTHERS = 4
FOLDERS = 5
#: Where it keeps its way to the launcher.  A guest may send descriptors on this number alone, once, for its limit of
#: open descriptors keeps it from having this number again.
RECORDING = 1020
#: The filters that guests live under.
PROFILES = ("guest/isolated", "guest/confined", "guest/confined_old", "command/run")
#: Seconds for descriptors of many guests that are born at once to be taken out of their sockets.
_CROWDED_S = 10.0
_HEADER = struct.Struct(">BBHII")
_ERROR = 0x49
#: What the mother is told of a guest: its user, files, bytes, and whether it needs a user map; with the guest's
#: process, the end of a pipe for her answer, and the guest's conversation.
WANTED = struct.Struct("=IIQI")


def serve(born: Birth) -> None:
    """Become the guest, and serve it until the caller is done.  Never returns."""
    try:
        layers, gaps = confine(born)
    except OSError as error:
        refuse(born, error)
        os._exit(1)
    boot, request = born.boot, born.request
    place, ahead = (request["work"], request["temporary"]), request["ahead"]
    born.__dict__.clear()
    boot.serve(TALK, *place, layers, gaps, ahead)


def refuse(born: Birth, error: OSError) -> None:
    """Tell the caller why there will be no guest."""
    head = json.dumps({"id": 0, "where": "confine", "message": f"{error.strerror or error}"[:500]}).encode()
    greeting = b"" if born.greeted else b"!"
    try:
        os.write(TALK if born.arranged else born.talk, greeting + _HEADER.pack(1, _ERROR, 0, len(head), 0) + head)
    except OSError:
        pass


def confine(born: Birth) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Give up everything; returns the layers that hold and the gaps.  Raises ``OSError`` where a wall cannot stand."""
    os.setsid()
    gaps: list[tuple[str, str]] = []
    request = born.request
    for source, target in ((born.talk, TALK), (born.out, 1), (born.err, 2)):
        os.dup2(source, target)
    born.arranged = True
    ruleset = born.ruleset
    if ruleset is None:
        gaps.append(("landlock", born.no_rules))
    if born.isolated:
        _await_mother(born.told)
        born.greeted = True
        cloning.keep_dumpable(False)
        if request["programs"]:
            # Whoever mounts it decides whose processes it shows, so this cannot be the mother's work.
            flags = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
            mounts.mount("proc", "/proc", "proc", flags, "subset=pid,hidepid=2")
        if request["into_group"]:
            unshare(CLONE_NEWCGROUP)
        os.chdir("/work")
    else:
        os.chdir(request["work"])
        # Both are closed below, with all that is not kept.
        greet(TALK, os.pidfd_open(os.getpid()), os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        born.greeted = True
    kept = 0 if ruleset is None else _writable(born, ruleset)
    # The mother, the zygote's own and everything that came with the request but this guest's three.
    cloning.close_range(FOLDERS + kept, RECORDING - 1)
    cloning.close_from(RECORDING + 1)
    if born.isolated and born.own_users:
        uid = request["uid"]
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    privileges.drop_usable_capabilities()
    if not born.isolated:
        # The caller may end without a word, and no namespace ends with it; what is given up next cannot undo this.
        privileges.die_with_parent(born.parent)
    # Changing the user makes the kernel decide again whether others may look; so this comes after it.
    privileges.hide_memory()
    for limit, value in request["limits"]:
        privileges.set_limit(limit, value)
    version = 0
    if ruleset is not None:
        version = ruleset.abi
        ruleset.restrict()
    notified = _filter(born, gaps)
    return _layers(born, version, notified), gaps


def greet(talk: int, process: int, work: int) -> None:
    """Give the caller the process and the work folder of a guest.  Raises OSError if it is gone."""
    # Told what it is, or to make this object would ask the kernel three times.
    conversation = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, talk)
    try:
        _hand_over(conversation, b"+", process, work)
    finally:
        conversation.detach()


def _hand_over(sock: socket.socket, message: bytes, *fds: int) -> None:
    """Send a message with descriptors.  Raises ``OSError``."""
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
    end = time.monotonic() + _CROWDED_S
    while True:
        try:
            sock.sendmsg([message], rights)
        except OSError as error:
            # So many of this user's descriptors wait in sockets (unix(7)): they are taken out as fast as may be.
            if error.errno != errno.ETOOMANYREFS or time.monotonic() > end:
                raise
            time.sleep(0.002)
        else:
            return


def ask_mother(mothers: socket.socket, request: dict[str, Any], mapped: bool, fds: tuple[int, int, int]) -> None:
    """
    Have a guest's folders mounted, and its user mapped where ``mapped``; in the zygote.

    ``fds`` are the guest's process, the end of the pipe that tells the guest, and its conversation, in which the
    mother greets the caller for it.
    """
    message = WANTED.pack(request["uid"], request["files"], request["file_bytes"], mapped)
    _hand_over(mothers, message, *fds)


def _await_mother(told: int) -> None:
    answer = os.read(told, 500)
    if answer != b"+":
        why = answer.decode("utf-8", "replace") or "the mother has ended"
        raise OSError(5, f"mounting the guest's folders: {why}")


def _writable(born: Birth, ruleset: landlock.Ruleset) -> int:
    """Add the rules for the guest's own folders; returns how many descriptors from FOLDERS on must stay open."""
    programs = born.request["programs"]
    rights = landlock.WRITE | (landlock.EXECUTE | landlock.MAKE_SPECIAL if programs else 0)
    for path in born.request["writable"]:
        ruleset.allow_path(path, rights)
    os.dup2(ruleset.fd, FOLDERS, inheritable=False)
    os.close(ruleset.fd)
    ruleset.fd = FOLDERS
    return 1


def _filter(born: Birth, gaps: list[tuple[str, str]]) -> bool:
    """Install the filter; True where each refusal is told to the launcher, False where the filter answers by itself."""
    me = os.getpid()
    listener = -1
    if born.record:
        try:
            listener = seccomp.install_with_listener(profiles.program(MACHINE, born.profile + "_notify", self_pid=me))
        except OSError as error:
            gaps.append(("denials_recorded", error.strerror or str(error)))
    if listener < 0:
        seccomp.install(profiles.program(MACHINE, born.profile, self_pid=me))
    else:
        message = f'{{"box": "{born.request["box"]}", "profile": "{born.profile}"}}'.encode()
        _hand_over(born.recorder, message, listener)
        os.close(listener)
    if born.recorder is not None:
        # By its object, so that nobody closes the number again when that goes.
        born.recorder.close()
    cloning.close_range(MOTHERS, MOTHERS)
    return listener >= 0


def _layers(born: Birth, version: int, notified: bool) -> dict[str, str]:
    landlocked = f"landlock(abi {version})"
    layers = {"no_new_privs": "prctl", "no_privilege": "capset", "syscall_filtered": "seccomp"}
    walls = ["mountns"] if born.isolated else []
    network = ["netns"] if born.isolated else []
    layers["fs_confined"] = "+".join([*walls, *([landlocked] if version else []), "seccomp"])
    layers["net_confined"] = "+".join(["seccomp", *network, *([landlocked] if version >= 4 else [])])
    layers["denials_recorded"] = "all" if notified else "partial"
    if born.isolated:
        layers |= {"pid_hidden": "pidns", "own_root": "mountns+pivot_root"}
        if born.own_users:
            layers["own_uid"] = "userns"
    return layers
