"""
The zygote: an interpreter that has imported what guests will want, and forks one guest for each request.

It imports packages that nobody here has read, so it is confined before that: a filter without the calls that mount,
trace, load or reach the network, only the capabilities that making guests takes, and in the ``confined`` tier Landlock.
It holds no secret and no data of any run, has one thread, and ends with its caller.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import select
import socket
import sys

from fastness._linux import cloning, landlock, machine_code, memory, plan, privileges, profiles, seccomp
from fastness._linux.syscalls import (
    CLONE_NEWIPC,
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MACHINE,
    PR_SET_CHILD_SUBREAPER,
    prctl,
)
from fastness._native import asked, belongings, birth, box, datagrams, endings, interior, rules

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

#: Seconds without a request after which the next guest is prepared: the last one is on its way then, and needs one of
#: the processors, and the next request may come before long.
_QUIET_S = 0.0003
#: Milliseconds more after which it is rehearsed, which takes as long as most of a birth.
_STILL_MS = 2
_RLIMIT_NICE = 13
_RLIMIT_RTPRIO = 14
#: What nobody in the family has any of.
_NONE_OF = (
    privileges.RLIMIT_CORE, privileges.RLIMIT_MEMLOCK, privileges.RLIMIT_MSGQUEUE, _RLIMIT_NICE, _RLIMIT_RTPRIO,
)  # fmt: skip
#: To take a zygote apart in a guest would touch, and so copy, many pages for nothing.
_kept: list[object] = []


def run(
    control: socket.socket,
    config: dict[str, Any],
    recording: socket.socket,
    mothers: socket.socket | None,
    serve: Callable[[birth.Birth], None],
    *,
    own_users: bool,
) -> Callable[[], Callable[[], None]]:
    """
    Confine this process and import.

    What this returns forks guests for ever when it is called; that returns in each guest only, what makes a guest of it
    with ``serve``.  So a guest leaves few frames behind, and takes none of their variables apart.
    """
    zygote = _Zygote(control, config, recording, mothers, serve, own_users)
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
    return zygote.serve


class _Zygote:
    def __init__(
        self,
        control: socket.socket,
        config: dict[str, Any],
        recording: socket.socket,
        mothers: socket.socket | None,
        serve: Callable[[birth.Birth], None],
        own_users: bool,
    ) -> None:
        self.control = control
        self.config = config
        self.recording = recording
        self.birth: Any = None
        #: What a guest does that has just been born.
        self.serve_guest = serve
        self.begin: Callable[[], None] = cloning.nothing
        self.mothers = mothers
        self.own_users = own_users
        self.boot: Any = None
        #: Whether the interpreter sees to the random module's generator at each fork.
        self.reseeded = True
        self.importing = ""
        #: The first preloaded module after which there was a second thread, and the first after which a child.
        self.threaded = self.forked = ""
        self.pid = os.getpid()
        self.isolated = config["tier"] == "isolated"
        self.rules: Any = None
        #: Whether the rules are to be made ahead, and then the next birth rehearsed.
        self.wants_rules = self.wants_rehearsal = False
        self.poller = select.poll()
        self.ready: list[tuple[int, int]] = []
        #: A conversation with itself, in which a request is rehearsed.
        self.mirror: list[socket.socket] = []
        self.asked: Any = None
        self.endings: Any = None
        self.fork = cloning.Fork(0)
        #: Whether nobody else is told of forks, so that the interpreter can stay prepared for them.
        self.again = False
        #: Whether the next fork is that of the last turn, once more.
        self.once_more = False
        #: The rows of the next fork: its own, the child's, this process's; what it returns where the child has made all
        #: of them.
        self.row = self.calls = self.then = self.done = 0
        #: Makes lists of calls; the number of the socket, or -1.
        self.make = machine_code.make
        self.own = -1
        #: What waits for quiet, and then makes the rules of the next guest.
        self.quiet = plan.Plans([])

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
        rights = self._settle()
        # Read now: a guest may not be able to, and this way it only puts its own number in.
        profiles.program(MACHINE, config["profile"])
        if config["record"]:
            profiles.program(MACHINE, config["profile"] + "_notify")
        # Once before the walls, in case that the answer is in /proc here.
        cloning.single_threaded()
        if not self.isolated:
            ruleset = landlock.Ruleset()
            for index, right in enumerate(rights):
                ruleset.allow_beneath(box.FOLDERS + index, right)
            ruleset.allow_path(config["boxes"], landlock.WRITE)
            ruleset.restrict()
        if config["kind"] == "python":
            # The variant whose refusals give way to those of a guest's own filter, or a guest's would not be recorded.
            # A zygote of programs imports nothing that is not ours, and its guests mount their own /proc.
            seccomp.install(profiles.program(MACHINE, config["zygote_profile"] + "_notify"))
        # Whatever is started while packages are imported stays below this process.
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self._interpreter()
        if cloning.has_children():
            self.importing = self.forked
            raise RuntimeError("it started a process, which nobody would end")
        gc.collect()
        gc.freeze()
        gc.disable()
        if not cloning.single_threaded():
            self.importing = self.threaded
            raise RuntimeError("it started a thread, which would be lost in every guest")

    def _settle(self) -> list[int]:
        """Put everything in its place; returns guests' rights to the folders that are open."""
        # First, for whatever fails from here on is told by it.
        self.control = belongings.high(self.control)
        kept = belongings.settle(self.recording, self.mothers, self.config)
        self.mirror = kept.mirror
        self.rules = rules.Rules(kept.rights, programs=self.config["kind"] == "command", isolated=self.isolated)
        self.config["record"] = kept.record
        return kept.rights

    def _interpreter(self) -> None:
        """Make this the interpreter that a guest expects: its paths, its modules, nothing of ours by name."""
        config = self.config
        if config["kind"] == "python":
            self.reseeded = not interior.import_random()
            self.boot = interior.load(config.pop("code"))
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
                if not self.forked and cloning.has_children():
                    self.forked = name
            self.importing = ""
            datagrams.send(self.control, {"importing": ""})
            self.boot.prepare()

    def serve(self) -> Callable[[], None]:
        """Fork for ever; returns in each guest, what it does."""
        self._settle_guests()
        fork, after, least_error = self.fork.make, self.fork.after, cloning.LEAST_ERROR
        # From here and from no deeper frame, each of which would be a few pages more to copy.  Guests leave this frame,
        # and take apart what is in it: so all else is in this object.
        while True:
            if not self._turn():
                continue
            pid = fork(self.row, self.calls, self.then)
            if pid < least_error:
                after()
                if pid != self.done:
                    self.birth.reached = ~pid
                return self.begin
            self._forked(pid)

    def _settle_guests(self) -> None:
        # What guests have no need for they shall not find either; whoever called this holds the same object.
        told, self.config = self.config, {name: self.config[name] for name in ("profile", "record", "kind", "tier")}
        foreign = self.config["foreign"] = bool(told["preload"])
        told.clear()
        if self.boot is not None:
            self.boot.gather()
        self.rules.make()
        if self.boot is not None:
            places = ("/work", "/tmp") if self.isolated else None  # noqa: S108  # of each guest alone
            # The object can only be made of a socket; what it stands for in each guest is put in its place there.
            os.dup2(self.control.fileno(), box.TALK, inheritable=False)
            talk = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, box.TALK)
            self.boot.settle(talk, places, reseeded=self.reseeded)
            os.dup2(0, box.TALK, inheritable=False)
            self.boot.practise()
        interior.quiet_forks()
        sys.orig_argv[:] = [""]
        self.birth = birth.Birth(self.config, self.boot, self.pid, own_users=self.own_users)
        self.begin = functools.partial(self.serve_guest, self.birth)
        if not foreign:
            # A package may have put something of its own in the place of any of this, to be gone through in guests.
            box.practise(birth.Birth(self.config, self.boot, self.pid, own_users=self.own_users))
        flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC if self.isolated else 0
        if self.isolated and not self.own_users:
            flags |= CLONE_NEWUSER
        # The kernel puts a guest's process where it is handed to the mother from.
        self.fork = cloning.Fork(flags, self.birth.process)
        control = self.own = self.control.fileno()
        self.asked = asked.Asked(control, self.birth, self.rules, self.fork)
        self.endings = endings.Endings(control)
        # Later versions hold more than a lock between the steps around a fork.
        self.again = not foreign and sys.version_info < (3, 12)
        if self.rules.rulesets is not None:
            none_yet = plan.Plan()
            none_yet.load(plan.address(self.rules.rulesets.whole), result=0)
            self.quiet = plan.Plans([none_yet, plan.quiet(control, _QUIET_S), self.rules.rulesets.calls])
        # Nothing closes these numbers in a guest, where they are given to something else soon.
        _kept.append(self)
        # What a fork does not find it need not copy.
        profiles.forget_texts()
        memory.trim()
        memory.drain()
        datagrams.send(self.control, {"ready": os.getpid()})
        self.poller.register(self.control, select.POLLIN)

    def _turn(self) -> bool:
        """Take some of what has come; True where that is to fork now."""
        if self.once_more:
            self.once_more = False
            return True
        if not self.ready:
            if self.wants_rules:
                # Unless somebody asks for the next guest already.
                self.wants_rules = False
                self.wants_rehearsal = self.make(self.quiet.address) == self.quiet.end
            # poll(2) knows no part of a millisecond.
            self.ready = self.poller.poll(_STILL_MS if self.wants_rehearsal else None)
            if not self.ready:
                self.wants_rehearsal = False
                # What fails is tried again with the next guest.
                with contextlib.suppress(OSError):
                    self.asked.rehearse(*self.mirror)
                return False
        fd = self.ready.pop()[0]
        if fd == self.own:
            return self._ask()
        self.poller.unregister(fd)
        self.endings.tell(fd)
        return False

    def _ask(self) -> bool:
        """Take what is asked for now; False where that is no birth."""
        wanted = self.asked
        reached = self.make(wanted.address)
        if reached != wanted.end:
            try:
                wanted.go_on(reached)
            except OSError as error:
                self._unborn(error)
                return False
            finally:
                # Also of one that was refused: it may have put other lists in the place of those that these are of.
                self.calls, self.done = self.birth.early.address, ~self.birth.early.end
                self.then = wanted.then.address
                if self.rules.rulesets is None:
                    self.quiet = plan.Plans([])
        if not (self.again and self.row):
            self.row = self.fork.begin()
        return True

    def _unborn(self, error: OSError) -> None:
        name = self.asked.name.raw.decode()
        datagrams.send(self.control, {"unborn": name, "why": str(error), "errno": error.errno})
        self.asked.refuse()

    def _forked(self, pid: int) -> None:
        """See to a guest that was just born, or to why there is none."""
        if pid < 0 or not self.again:
            try:
                pid = self.fork.over(pid, again=self.again)
            except OSError as error:
                self._unborn(error)
                return
            if pid == 0:
                self.row, self.once_more = self.fork.begin(), True
                return
        wanted, process = self.asked, self.fork.process.value
        self.endings.live[process] = pid, wanted.name.raw
        self.poller.register(process, select.POLLIN)
        if not wanted.done.value:
            wanted.mend()
        self.wants_rules, self.wants_rehearsal = True, False
