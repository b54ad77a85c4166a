"""
A birth as the zygote prepares it, before the fork: all calls that confine the guest, in their order.

The order is forced.  A session of its own comes first, because signals to a process group ignore every namespace.
What needs the mother's help comes before identity changes, those before capabilities go, and the filter last.

What a guest would put together by itself it would write to pages for that are copied for it alone; so it is put
together here, in memory that the zygote keeps, and the guest's calls are made from lists (:mod:`fastness._linux.plan`)
by the fork itself, before the guest's interpreter runs.
"""

from __future__ import annotations

import errno
import os
import resource
import struct

from fastness._linux import landlock, machine_code, mounts, plan, profiles, seccomp
from fastness._linux.syscalls import (
    AT_FDCWD,
    CLONE_NEWCGROUP,
    MACHINE,
    PR_CAP_AMBIENT,
    PR_CAP_AMBIENT_CLEAR_ALL,
    PR_SET_DUMPABLE,
    PR_SET_PDEATHSIG,
    capability_arguments,
)
from fastness._native.box import FOLDERS, MOTHERS, RECORDING, TALK, WANTED
from fastness._native.datagrams import NAME

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SIZES = struct.Struct("=IQI")
_SIGKILL = 9
_ALL = 0xFFFFFFFF
#: Bytes of a path, with the zero after it (``PATH_MAX``).
_PATH = 4096
#: Bytes of what a mother answers.
_NEWS = 500


class Birth:
    """
    What a guest process has at its birth: its calls, its request, and the zygote's standing.

    One object serves all guests of a zygote, each of which has it as it was at the fork.
    """

    def __init__(self, config: dict[str, Any], boot: Any, parent: int, *, own_users: bool) -> None:
        self.greeted = self.arranged = False
        self.boot = boot
        self.isolated = config["tier"] == "isolated"
        self.programs = config["kind"] == "command"
        self.profile: str = config["profile"]
        self.record: bool = config["record"]
        #: Whether packages that nobody here has read may have something done in a child (``os.register_at_fork``).
        self._foreign: bool = config.get("foreign", False)
        self.own_users = self.isolated and own_users
        self.work, self.temporary = "/work", "/tmp"  # noqa: S108  # of each guest alone, in `isolated`
        self.ahead = False
        #: Whether it will most likely call the host.
        self.calls = False
        #: The descriptors of the last request, of which the first is its conversation.
        self.received = plan.numbers(1)
        self.layers: dict[str, str] = {}
        self.gaps: list[tuple[str, str]] = []
        #: The first words of a guest that has all its walls, and the call that says them.
        self.said = b""
        self.greet = plan.Plan()
        self._parent = parent
        self._made_for: object = None
        #: What it is a birth for, and why its guest has no rules for what it may read, where it has none.
        self._suits: dict[str, Any] | None = None
        self._no_rules = ""
        self.into_group = False
        #: All calls of a guest in their order; those which the fork makes, and how far it has come with them.
        self.steps = self.early = plan.Plans(())
        self.make = machine_code.make
        #: What the fork leaves to be made, and what making it returns.
        self.rest = self.end = self.steps.end
        self.reached = 0
        #: Descriptors that come with a request.
        self.ends = 0
        self._work, *self._paths = [plan.memory(_PATH) for _ in range(4)]
        #: The folder whose paths are in these, where each guest has one.
        self._folder = b""
        self._limits: list[plan.Words] = []
        self._places: dict[str, int] = {}
        self.arrange = self._arrange(0)
        #: In `isolated` the guest waits for its folders.  Bad news is longer than good news.
        self.awaits = plan.Plan()
        self.news = plan.memory(_NEWS)
        self.awaits.add("read", 0, self.news, _NEWS, result=1)
        #: What comes before a guest of `confined` greets the caller, with its process and its folder.
        self.arrive = plan.Plan()
        self.say_hello = plan.Plan()
        self.own = self.say_hello.add_message(TALK, plan.memory(b"+"), 2)[1]
        self.give_up = plan.Plan()
        #: Which of these two has the call that puts the rules in their place.
        self._rules = self.give_up
        self._prepare_filter()
        self._prepare_asking()

    def _arrange(self, entrances: int) -> plan.Plan:
        """The first calls of all, of a guest that moves itself into so many control groups."""
        calls = plan.Plan()
        if self.isolated:
            # Only the mother's end of the pipe may be left, or her death would not end the wait for her answer.
            calls.add("close", 0)
        calls.add("setsid", result=plan.ANY)
        for number in (TALK, 1, 2):
            calls.add("dup3", 0, number, 0, result=number)
        for _ in range(entrances):
            calls.add("write", 0, b"0", 1, result=1)
        self._entrances = entrances
        return calls

    def _prepare_asking(self) -> None:
        #: What the mother is sent: the guest's process, the end of a pipe that tells the guest, its conversation.
        self.ask = plan.Plan()
        self._wanted = plan.memory(WANTED.size)
        self.rights = self.ask.add_message(MOTHERS, self._wanted, 3)[1]
        give_way = plan.Plan()
        if not self.own_users:
            # The mother has users to map, and may be waiting for this processor, on which there is a lot to do now.
            give_way.add("sched_yield")
        #: What the zygote does as soon as there is a guest, before all else, since that waits for the mother's answer.
        self.next = [self.ask, give_way] if self.isolated else []
        #: The first of these.
        self.process = plan.first_of(self.rights)

    def leave_out_calls(self) -> None:
        """Make this a birth in which all has been done."""
        self.said = b"+"

    def _prepare_filter(self) -> None:
        # The first process of a namespace has the number 1; another one puts its own in.
        own = 1 if self.isolated else 0
        name = self.profile + "_notify" if self.record else self.profile
        self.filter = plan.Plan()
        # All that is open then is below this number.
        listener = FOLDERS if self.record else -1
        self.code = seccomp.plan(self.filter, profiles.program(MACHINE, name, self_pid=own), listener)
        #: Where the filter compares with the guest's own number, which nobody knows before it is born.
        own_numbers = [] if own else profiles.own_number(MACHINE, name)
        self._own_numbers = [plan.address(self.code, 4 * (2 * index + 1)) for index in own_numbers]
        self.hand_over = plan.Plan()
        text = f'{{"box": "{"-" * NAME}", "profile": "{self.profile}"}}'.encode()
        self._message = plan.memory(text)
        #: The name of the guest, which is in the message to the launcher.
        self.name_at = plan.address(self._message, text.index(b"-"))
        _, self.told_by = self.hand_over.add_message(RECORDING, self._message, 1)
        self.told_by[0] = FOLDERS
        self.last = plan.Plan()
        # The listener, the mother's socket, the launcher's, and nothing that is not among these.
        self.last.add("close_range", MOTHERS, _ALL, 0)

    @property
    def user_at(self) -> int:
        """Where the number of its user has to be by the time that it is asked for."""
        return plan.address(self._wanted)

    @property
    def talk(self) -> int:
        """The descriptor of its conversation, before it has that at the number which all guests have."""
        return self.received[0]

    def suit(self, wanted: dict[str, Any], no_rules: str) -> None:
        """
        Make this the birth of guests that are as ``wanted`` says, and without rules for a reason that there is.

        Nothing is looked at again of the same object.  Where the calls are other ones now, :attr:`steps` is.  Raises
        ``OSError``.
        """
        if wanted is self._suits and no_rules == self._no_rules:
            return
        # Until all of it is there, none of it is.
        self._suits = None
        self._suit(wanted, no_rules)
        self._suits, self._no_rules = wanted, no_rules

    def take(self, calls: plan.Plan, ends: plan.Numbers, ruleset: int, group: int) -> None:
        """
        Add to ``calls`` what puts a guest's own numbers where its calls find them.

        These are in :attr:`received` (its conversation, its output, its errors, what it enters its control groups by,
        the one that it is born in) and in ``ends``, those of the pipe on which the mother tells it.  ``ruleset`` is the
        address of that of its rules, ``group`` the one for the descriptor of a group that it is born in.
        """
        own = 3 + self._entrances
        first = len(self.arrange) - own
        for index in range(own):
            calls.load(plan.address(self.received, 4 * index), self.arrange.argument_at(first + index, 1))
        if self.into_group:
            calls.load(plan.address(self.received, 4 * own), group)
        if self.isolated:
            told, telling = plan.address(ends), plan.address(ends, 4)
            calls.load(telling, self.arrange.argument_at(0, 1))
            calls.load(told, self.awaits.argument_at(0, 1))
            calls.load(telling, plan.address(self.rights, 4))
            calls.load(plan.address(self.received), plan.address(self.rights, 8))
        if not self._no_rules:
            calls.load(ruleset, self._rules.argument_at(self._places["rules"], 1))
        if self.own_users:
            for call in ("setresgid", "setresuid"):
                for number in (1, 2, 3):
                    calls.load(self.user_at, self.give_up.argument_at(self._places[call], number))

    def _suit(self, wanted: dict[str, Any], no_rules: str) -> None:
        """Put together what all guests have in common that are wanted so."""
        self.ahead, self.calls, self.into_group = wanted["ahead"], wanted["calls"], wanted["into_group"]
        entrances = wanted["entrances"]
        if entrances != self._entrances:
            self.arrange = self._arrange(entrances)
            self._made_for = None
        # The group that it is born in comes last; it does not move itself then.
        self.ends = 3 + entrances + int(self.into_group)
        if self.isolated:
            # All of `WANTED` but the user, who comes with each request.
            _SIZES.pack_into(self._wanted, 4, wanted["files"], wanted["file_bytes"], not self.own_users)
            for buffer, path in zip(self._paths, wanted["writable"], strict=False):
                buffer.value = path.encode()
        limits = wanted["limits"]
        writable = len(wanted["writable"]) if self.isolated else 2
        kind = self.into_group, self.ahead, writable, [what for what, _ in limits], no_rules
        if kind != self._made_for:
            # As above.
            self._made_for = None
            self._build(*kind)
            self._made_for = kind
        for array, (what, value) in zip(self._limits, limits, strict=True):
            # Never above the present hard limit, which without CAP_SYS_RESOURCE nobody may raise.
            most = resource.getrlimit(what)[1]
            array[0] = array[1] = value if most == resource.RLIM_INFINITY else min(value, most)

    def live_in(self, folder: bytes) -> None:
        """Put the folders of a guest of `confined` where its calls find them.  Raises ``OSError``."""
        if folder == self._folder:
            return
        if len(folder) >= _PATH - 8:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        self._folder = b""
        work, temporary = folder + b"/work", folder + b"/tmp"
        self.work, self.temporary = os.fsdecode(work), os.fsdecode(temporary)
        if self.boot is not None:
            self.boot.live_in(self.work, self.temporary)
        self._work.value = self._paths[0].value = work
        self._paths[1].value = temporary
        self._folder = folder

    def _build(self, into_group: bool, ahead: bool, writable: int, limits: list[int], no_rules: str) -> None:
        """The calls between the mother's answer and the filter, and with that all of them in their order."""
        calls = self.give_up = plan.Plan()
        place = self._places
        if self.isolated:
            calls.add("prctl", PR_SET_DUMPABLE, 0)
            if self.programs:
                # Whoever mounts it decides whose processes it shows, so this cannot be the mother's work.
                flags = mounts.MS_NOSUID | mounts.MS_NODEV | mounts.MS_NOEXEC
                calls.add("mount", b"proc", b"/proc", b"proc", flags, b"subset=pid,hidepid=2")
            if into_group:
                calls.add("unshare", CLONE_NEWCGROUP)
            calls.add("chdir", b"/work")
        kept = 0 if no_rules else 1
        free = FOLDERS + kept
        self.arrive = plan.Plan()
        first = calls if self.isolated else self.arrive
        if not self.isolated:
            first.add("chdir", self._work)
        if kept:
            place["rules"] = first.add("dup3", 0, FOLDERS, os.O_CLOEXEC, result=FOLDERS)
        # The zygote's own and everything that came with the request but this guest's three.
        first.add("close_range", free, RECORDING - 1, 0)
        first.add("close_range", RECORDING + 1, _ALL, 0)
        if not self.isolated:
            for address in self._own_numbers:
                first.add("getpid", result=plan.ANY, put_at=address)
            number = first.add("getpid", result=plan.ANY)
            process = first.add("pidfd_open", 0, 0, result=free)
            folder = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
            first.add("openat", AT_FDCWD, b".", folder, 0, result=free + 1)
            # The low half of a word, whose high half stays 0.
            first.put_answer_at(number, first.argument_at(process, 1))
            self.own[:] = [free, free + 1]
            for fd in self.own:
                calls.add("close", fd)
        self._rules = first
        if kept:
            rights = landlock.WRITE | (landlock.EXECUTE | landlock.MAKE_SPECIAL if self.programs else 0)
            for buffer in self._paths[:writable]:
                landlock.plan_allow(calls, FOLDERS, buffer, rights, free)
        if self.own_users:
            calls.add("setgroups", 0, 0)
            for name in ("setresgid", "setresuid"):
                place[name] = calls.add(name, 0, 0, 0)
        calls.add("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
        calls.add("capset", *capability_arguments(()))
        if not self.isolated:
            # The caller may end without a word, and no namespace ends with it; what is given up next cannot undo this.
            calls.add("prctl", PR_SET_PDEATHSIG, _SIGKILL)
            # One that ended before sends no signal any more, but it is no longer the parent either.
            calls.add("getppid", result=self._parent)
        # Changing the user makes the kernel decide again whether others may look; so this comes after it.
        calls.add("prctl", PR_SET_DUMPABLE, 0)
        self._limits = []
        for what in limits:
            new = plan.words(2)
            calls.add("prlimit64", 0, what, new, 0)
            self._limits.append(new)
        self.gaps = [("landlock", no_rules)] if no_rules else []
        if kept:
            calls.add("landlock_restrict_self", FOLDERS, 0)
            calls.add("close", FOLDERS)
        self.layers = self._layers(0 if no_rules else landlock.abi())
        if self.boot is not None:
            self.said = self.boot.greeting(self.layers, self.gaps)
            self.greet = plan.Plan()
            # The conversation is new and takes them whole.
            self.greet.add("write", TALK, self.said, len(self.said), result=len(self.said))
        arrives = [self.awaits] if self.isolated else [self.arrive, self.say_hello]
        recorded = [self.hand_over] if self.record else []
        greets = [self.greet] if self.boot is not None and not ahead else []
        steps = [self.arrange, *arrives, self.give_up, self.filter, *recorded, self.last, *greets]
        self.steps = plan.Plans(steps)
        # While the mother does her part, the interpreter does what it has to do after a fork.  What packages do there
        # is no part of the run: it writes to none of its pipes, and is not refused where nobody could be told of it.
        self.early = plan.Plans([] if self._foreign else steps[:1] if self.isolated else steps)
        self.rest, self.end = self.steps.from_on(len(self.early.plans)), self.steps.end

    def _layers(self, version: int) -> dict[str, str]:
        landlocked = f"landlock(abi {version})"
        layers = {"no_new_privs": "prctl", "no_privilege": "capset", "syscall_filtered": "seccomp"}
        walls = ["mountns"] if self.isolated else []
        network = ["netns"] if self.isolated else []
        layers["fs_confined"] = "+".join([*walls, *([landlocked] if version else []), "seccomp"])
        layers["net_confined"] = "+".join(["seccomp", *network, *([landlocked] if version >= 4 else [])])
        layers["denials_recorded"] = "all" if self.record else "partial"
        if self.isolated:
            layers |= {"pid_hidden": "pidns", "own_root": "mountns+pivot_root"}
            if self.own_users:
                layers["own_uid"] = "userns"
        return layers
