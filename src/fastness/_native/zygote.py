"""
The zygote: an interpreter that has imported what guests will want, and forks one guest for each request.

It imports packages that nobody here has read, so it is confined before that: a filter without the calls that mount,
trace, load or reach the network, only the capabilities that making guests takes, and in the ``confined`` tier Landlock.
It holds no secret and no data of any run, has one thread, and ends with its caller.
"""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import resource
import select
import socket
import stat
import sys
import types

from fastness._linux import cloning, landlock, privileges, profiles, seccomp
from fastness._linux.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MACHINE,
    PR_SET_CHILD_SUBREAPER,
    prctl,
)
from fastness._native import box, datagrams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_CAP_SETGID = 6
_CAP_SETUID = 7
_CAP_SETPCAP = 8
_CAP_SYS_ADMIN = 21
#: What making a guest takes: its user, its namespaces, and giving all of this up.
_CAPABILITIES = (_CAP_SETGID, _CAP_SETUID, _CAP_SETPCAP, _CAP_SYS_ADMIN)


#: The lowest number of the zygote's own descriptors; below are the folders that guests may read.
_OWN = 128
_RLIMIT_SIGPENDING = 11
#: Signals that may wait for a guest; the kernel counts them for the user, who may be the caller.
_SIGNALS = 256
_RLIMIT_NICE = 13
_RLIMIT_RTPRIO = 14
#: What nobody in the family has any of.
_NONE_OF = (
    privileges.RLIMIT_CORE, privileges.RLIMIT_MEMLOCK, privileges.RLIMIT_MSGQUEUE, _RLIMIT_NICE, _RLIMIT_RTPRIO,
)  # fmt: skip
_DEVICES = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"]
#: To take a zygote apart in a guest would touch, and so copy, many pages for nothing.
_kept: list[object] = []


class Birth:
    """What a guest process has at its birth: its request, its descriptors, and the zygote's standing."""

    def __init__(self, zygote: _Zygote, request: dict[str, Any], fds: list[int], told: int) -> None:
        self.greeted = self.arranged = False
        self.request = request
        self.talk, self.out, self.err = fds[:3]
        self.isolated = zygote.isolated
        self.own_users = zygote.own_users
        self.boot = zygote.boot
        self.folders = zygote.rights
        self.profile: str = zygote.config["profile"]
        self.record: bool = zygote.config["record"]
        self.told = told
        self.parent = zygote.pid

    def bound_to(self, serve: Callable[[Birth], None]) -> Callable[[], None]:
        """``serve`` of this guest, as a call without arguments."""
        return lambda: serve(self)


def run(
    control: socket.socket,
    config: dict[str, Any],
    recording: socket.socket,
    mothers: socket.socket | None,
    *,
    own_users: bool,
) -> Birth:
    """Confine this process, import, and fork guests for ever.  Returns in each guest only."""
    zygote = _Zygote(control, config, recording, mothers, own_users)
    try:
        zygote.prepare()
    except BaseException as error:  # noqa: BLE001  # a package may raise anything while it is imported
        kind = type(error).__name__
        try:
            datagrams.send(zygote.control, {"failed": f"{kind}: {error}"[:2000], "preload": zygote.importing})
            # What an import has started is below this process only as long as this one is there: the caller ends all.
            while zygote.control.recv(datagrams.SIZE):
                pass
        finally:
            os._exit(1)
    return zygote.serve()


class _Zygote:
    def __init__(
        self,
        control: socket.socket,
        config: dict[str, Any],
        recording: socket.socket,
        mothers: socket.socket | None,
        own_users: bool,
    ) -> None:
        self.control = control
        self.config = config
        self.recording = recording
        self.mothers = mothers
        self.own_users = own_users
        self.boot: Any = None
        self.importing = ""
        #: The first preloaded module after which there was a second thread, and the first after which a child.
        self.threaded = self.forked = ""
        self.pid = os.getpid()
        self.isolated = config["tier"] == "isolated"
        #: The rights of guests to the folders that are open from :data:`box.FOLDERS` on.
        self.rights: list[int] = []
        self._live: dict[int, tuple[int, str]] = {}

    def prepare(self) -> None:
        config = self.config
        for limit in _NONE_OF:
            privileges.set_limit(limit, 0)
        if self.isolated:
            privileges.keep_capabilities(_CAPABILITIES)
        else:
            privileges.drop_capabilities()
        # The mother enters namespaces of processes that she may look at, and a guest is looked at before it has hidden
        # itself.  Nobody else of this user runs here but guests, whose filters forbid to look.
        cloning.keep_dumpable(self.isolated)
        privileges.forbid_new_privileges()
        # Said before anything foreign is imported, so it can be believed: who the parent of all guests is.
        process = os.pidfd_open(os.getpid())
        datagrams.send(self.control, {"begun": os.getpid()}, [process])
        os.close(process)
        self._settle()
        # Read now: a guest may not be able to, and this way it only puts its own number in.
        profiles.program(MACHINE, config["profile"])
        if config["record"]:
            profiles.program(MACHINE, config["profile"] + "_notify")
        # Once before the walls, in case that the answer is in /proc here.
        cloning.single_threaded()
        if not self.isolated:
            ruleset = landlock.Ruleset()
            for index, rights in enumerate(self.rights):
                ruleset.allow_beneath(box.FOLDERS + index, rights)
            ruleset.allow_path(config["boxes"], landlock.WRITE)
            ruleset.restrict()
        if config["kind"] == "python":
            # The variant whose refusals give way to those of a guest's own filter, or a guest's would not be recorded.
            # A zygote of programs imports nothing that is not ours, and its guests mount their own /proc.
            seccomp.install(profiles.program(MACHINE, config["zygote_profile"] + "_notify"))
        # Whatever is started while packages are imported stays below this process.
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._interpreter()
        if _has_children():
            self.importing = self.forked
            raise RuntimeError("it started a process, which nobody would end")
        gc.collect()
        gc.freeze()
        gc.disable()
        if not cloning.single_threaded():
            self.importing = self.threaded
            raise RuntimeError("it started a thread, which would be lost in every guest")

    def _room(self) -> bool:
        """Let this process have the number that guests hand their listeners over on; False where it may not."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard <= box.RECORDING:
            return False
        if soft <= box.RECORDING:
            resource.setrlimit(resource.RLIMIT_NOFILE, (box.RECORDING + 1, hard))
        return True

    def _settle(self) -> None:
        """
        Put what guests need at their birth at numbers that all know, so that a guest closes the rest in one call.

        Folders are opened for good: guests make rules of their own for them, and to open one again takes longer.
        """
        high = fcntl.fcntl(self.control, fcntl.F_DUPFD_CLOEXEC, _OWN)
        self.control.close()
        self.control = socket.socket(fileno=high)
        null = os.open("/dev/null", os.O_RDWR)
        # Those of the launcher are of the machine's own tree, where times and modes of a device can be changed.
        for fd in (0, 1):
            os.dup2(null, fd)
        kept = (null, self.recording, self.mothers or null)
        moved = [fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, _OWN) for one in kept]
        os.close(null)
        self.recording.close()
        if self.mothers is not None:
            self.mothers.close()
            self.mothers = socket.socket(fileno=fcntl.fcntl(moved[2], fcntl.F_DUPFD_CLOEXEC, _OWN))
        # Without the room refusals are answered by the filter alone, and results say so.
        self.config["record"] = self._room() and self.config["record"]
        for source, target in zip(moved, (box.TALK, box.RECORDING, box.MOTHERS), strict=True):
            if target != box.RECORDING or self.config["record"]:
                os.dup2(source, target, inheritable=False)
        cloning.close_range(box.FOLDERS, _OWN - 1)
        privileges.set_limit(_RLIMIT_SIGPENDING, _SIGNALS)
        devices = ["/dev"] if self.isolated else _DEVICES
        for path in [*self.config["readable"], *devices]:
            try:
                fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
            except FileNotFoundError:
                continue
            rights = landlock.DEVICE if path in devices else landlock.READ
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= ~landlock.READ_DIR
            # The lowest free number is the next one: all from FOLDERS on were closed.
            if fd != box.FOLDERS + len(self.rights) or fd >= _OWN:
                raise OSError(errno.EMFILE, f"more than {_OWN - box.FOLDERS} folders that guests may read")
            self.rights.append(rights)
        for fd in moved:
            os.close(fd)

    def _interpreter(self) -> None:
        """Make this the interpreter that a guest expects: its paths, its modules, nothing of ours by name."""
        config = self.config
        self.boot = _load_boot(config["sources"]) if config["kind"] == "python" else None
        sys.path[:] = config["sys_path"]
        sys.argv[:] = [""]
        for name in [name for name in sys.modules if name.partition(".")[0] == "fastness"]:
            del sys.modules[name]
        main = sys.modules["__main__"].__dict__
        for name in [name for name in main if not name.startswith("__")]:
            del main[name]
        if self.boot is not None:
            os.environ["TMPDIR"] = config["temporary"]
            os.environ["MPLCONFIGDIR"] = config["temporary"]
            for name in config["preload"]:
                self.importing = name
                # Told first: a module may end the interpreter.
                datagrams.send(self.control, {"importing": name})
                __import__(name)
                if not self.threaded and not cloning.single_threaded():
                    self.threaded = name
                if not self.forked and _has_children():
                    self.forked = name
            self.importing = ""
            datagrams.send(self.control, {"importing": ""})
            self.boot.prepare()

    def serve(self) -> Birth:
        # What guests have no need for they shall not find either.
        self.config = {name: self.config[name] for name in ("profile", "record", "kind", "tier")}
        sys.orig_argv[:] = sys.argv
        datagrams.send(self.control, {"ready": os.getpid()})
        poller = select.poll()
        poller.register(self.control, select.POLLIN)
        while True:
            for fd, _ in poller.poll():
                if fd != self.control.fileno():
                    poller.unregister(fd)
                    self._reap(fd)
                    continue
                request, fds = datagrams.receive(self.control)
                if request is None:
                    os._exit(0)
                born = self._fork(request, fds, poller)
                if born is not None:
                    return born

    def _fork(self, request: dict[str, Any], fds: list[int], poller: select.poll) -> Birth | None:
        name = request["box"]
        flags, told, telling = 0, -1, -1
        if self.isolated:
            flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | (0 if self.own_users else CLONE_NEWUSER)
            told, telling = os.pipe2(os.O_CLOEXEC)
        try:
            if not cloning.single_threaded():
                raise OSError(11, "the zygote has more than one thread")
            pid = cloning.fork_into(flags, fds[3] if len(fds) > 3 else -1)
        except OSError as error:
            datagrams.send(self.control, {"unborn": name, "why": str(error), "errno": error.errno})
            pid = -1
        if pid == 0:
            # Its number is given to something else soon, and what closes it then must not be this.
            self.control.detach()
            if self.isolated:
                # Only the mother's end may be left, or her death would not end the wait for her answer.
                os.close(telling)
            _kept.append(self)
            return Birth(self, request, fds, told)
        if pid > 0:
            watch = os.pidfd_open(pid)
            self._live[watch] = (pid, name)
            poller.register(watch, select.POLLIN)
            if self.mothers is not None:
                # Asked from here, where it costs the guest nothing, while the guest gives up the rest.
                box.ask_mother(self.mothers, request, not self.own_users, (watch, telling, fds[0]))
        for fd in (*fds, told, telling):
            if fd >= 0:
                os.close(fd)
        return None

    def _reap(self, fd: int) -> None:
        pid, name = self._live.pop(fd)
        os.close(fd)
        _, status, usage = os.wait4(pid, 0)
        message = {"exit": name, "status": status, "rss": usage.ru_maxrss, "cpu": usage.ru_utime + usage.ru_stime}
        datagrams.send(self.control, message)


def _has_children() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _load_boot(sources: dict[str, str]) -> Any:
    """The code that runs inside guests, as modules that belong to no package of ours."""
    module: Any = None
    for name in ("_fastness_encode", "_fastness_sources", "_fastness_context", "_fastness", "_fastness_native"):
        module = types.ModuleType(name)
        # Tracebacks leave out frames of a file by this name.
        module.__file__ = f"<{name}>"
        sys.modules[name] = module
        exec(compile(sources[name], module.__file__, "exec"), module.__dict__)  # noqa: S102  # our own text
    return module
