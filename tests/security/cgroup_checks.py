"""
What every slot must do, whatever kernel and version of control groups it is made with.

Each check takes a place for slots, works in slots of its own and leaves none.  They run here, and inside virtual
machines; so they need nothing but the standard library.  Every program of a check is harmless without its slot.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastness._linux import cgroup, cgroup_held
from fastness._linux.cgroup_find import members
from fastness._linux.cgroup_slot import Slot, Slots

MIB = 1 << 20
MEMORY = 32 * MIB
#: Seconds; an emulated machine is slow.
PATIENCE_S = 60.0

_count = 0


@contextmanager
def a_slot(slots: Slots) -> Iterator[Slot]:
    global _count  # noqa: PLW0603  # names of slots only have to differ
    _count += 1
    slot = slots.new(f"check-{_count}")
    try:
        yield slot
    finally:
        slot.kill()
        slot.remove()


class Ran:
    def __init__(self, status: int, output: str, seconds: float) -> None:
        self.status = status
        self.output = output
        self.seconds = seconds


def start(slot: Slot, program: str) -> subprocess.Popen[bytes]:
    """Start a program that is in the slot before its first line runs."""
    waiting = "import os\nif os.read(0, 1) != b'g':\n    os._exit(9)\n"
    child = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", waiting + program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={},
        start_new_session=True,
    )
    try:
        slot.attach(child.pid)
        assert child.stdin is not None
        child.stdin.write(b"g")
        child.stdin.close()
        child.stdin = None
    except BaseException:
        stop(child)
        raise
    return child


def stop(child: subprocess.Popen[bytes]) -> None:
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            stream.close()


def run(slot: Slot, program: str) -> Ran:
    began = time.monotonic()
    child = start(slot, program)
    try:
        output, _ = child.communicate(timeout=PATIENCE_S)
    finally:
        stop(child)
    return Ran(child.returncode, output.decode(), time.monotonic() - began)


def fill(mebibytes: int) -> str:
    return f"kept = b'x' * ({mebibytes} << 20)\nprint('filled', len(kept), flush=True)\n"


# ------------------------------------------------------------------------------------------------------------- memory


def memory_within_the_limit_is_fine(slots: Slots) -> None:
    """The control beside all other checks of memory: what stays below the limit ends well, and is counted."""
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        ran = run(slot, fill(12))
        assert (ran.status, ran.output) == (0, f"filled {12 * MIB}\n")
        used = slot.usage()
        assert used.oom_kills == 0
        assert used.memory_peak is None or 12 * MIB <= used.memory_peak <= MEMORY, used
        assert used.cpu_us is not None
        assert used.cpu_us > 0


def a_memory_bomb_is_killed(slots: Slots) -> None:
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        ran = run(slot, fill(160))
        assert (ran.status, ran.output) == (-signal.SIGKILL, "")
        used = slot.usage()
        assert used.oom_kills is not None
        assert used.oom_kills >= 1
        assert used.memory_peak is None or MEMORY // 2 <= used.memory_peak <= MEMORY, used


def memory_of_all_processes_counts_together(slots: Slots) -> None:
    """Four processes that each stay below the limit are too much together."""
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        program = (
            "pids = []\n"
            "for _ in range(4):\n"
            "    pid = os.fork()\n"
            "    if pid == 0:\n"
            "        kept = b'x' * (14 << 20)\n"
            "        import time\n"
            "        time.sleep(2)\n"
            "        os._exit(0)\n"
            "    pids.append(pid)\n"
            "print(sum(os.waitpid(pid, 0)[1] == 9 for pid in pids), flush=True)\n"
        )
        ran = run(slot, program)
        used = slot.usage()
        assert used.oom_kills is not None
        assert used.oom_kills >= 1
        if slots.flavour == "cgroup2":
            # The whole run ends, not the process that happened to be the largest.
            assert (ran.status, ran.output) == (-signal.SIGKILL, "")
            assert used.oom_kills >= 5
        else:
            assert ran.status == 0
            assert int(ran.output) >= 1


def memory_files_are_counted(slots: Slots) -> None:
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        writing = "piece = b'x' * (1 << 20)\nfor _ in range({}):\n    os.write(fd, piece)\nprint('written')\n"
        memfd = "fd = os.memfd_create('m')\n"
        assert run(slot, memfd + writing.format(8)).output == "written\n"
        ran = run(slot, memfd + writing.format(128))
        assert (ran.status, ran.output) == (-signal.SIGKILL, "")


def a_tmpfs_that_is_filled_is_counted(slots: Slots) -> None:
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        name = f"/dev/shm/fastness-check-{os.getpid()}"
        program = (
            f"fd = os.open({name!r}, os.O_RDWR | os.O_CREAT | os.O_EXCL)\nos.unlink({name!r})\n"
            "piece = b'x' * (1 << 20)\nfor _ in range(128):\n    os.write(fd, piece)\nprint('written')\n"
        )
        ran = run(slot, program)
        assert (ran.status, ran.output) == (-signal.SIGKILL, "")


def limits_go_up_and_down(slots: Slots) -> None:
    with a_slot(slots) as slot:
        for mebibytes, fits in ((64, True), (16, False), (96, True)):
            slot.configure(memory=mebibytes * MIB, pids=8, cpus=None)
            ran = run(slot, fill(40))
            assert (ran.status == 0) is fits, (mebibytes, ran.status)
            slot.reset()


def each_run_is_counted_alone(slots: Slots) -> None:
    """What the run before did is not held against the next one."""
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=2, cpus=None)
        run(slot, "try:\n    [os.fork() for _ in range(3)]\nexcept OSError:\n    pass\n" + fill(160))
        used = slot.usage()
        assert used.oom_kills is not None
        assert used.oom_kills >= 1
        assert used.pids_denied is None or used.pids_denied >= 1
        slot.kill()
        settle(slot)
        slot.configure(memory=MEMORY, pids=2, cpus=None)
        assert run(slot, fill(4)).status == 0
        used = slot.usage()
        assert used.oom_kills == 0
        assert not used.pids_denied
        assert used.memory_peak is None or used.memory_peak < 24 * MIB, used


# ---------------------------------------------------------------------------------------------------------- processes


def a_fork_bomb_stops(slots: Slots) -> None:
    with a_slot(slots) as slot:
        slot.configure(memory=4 * MEMORY, pids=8, cpus=None)
        program = (
            "import signal\n"
            "made = 0\n"
            "try:\n"
            "    while made < 40:\n"
            "        if os.fork() == 0:\n"
            "            signal.pause()\n"
            "        made += 1\n"
            "except BlockingIOError:\n"
            "    print(made, flush=True)\n"
            "os._exit(0)\n"
        )
        child = start(slot, program)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"7\n"
            used = slot.usage()
            assert used.pids_denied is None or used.pids_denied >= 1
            assert len(slot.processes()) >= 7
            slot.kill()
            assert slot.processes() == []
        finally:
            stop(child)


def a_thread_bomb_stops(slots: Slots) -> None:
    with a_slot(slots) as slot:
        slot.configure(memory=4 * MEMORY, pids=8, cpus=None)
        program = (
            "import _thread, time\n"
            "made = 0\n"
            "try:\n"
            "    while made < 40:\n"
            "        _thread.start_new_thread(time.sleep, (30,))\n"
            "        made += 1\n"
            "except RuntimeError:\n"
            "    print(made, flush=True)\n"
            "os._exit(0)\n"
        )
        assert run(slot, program).output == "7\n"


def what_forks_for_ever_is_killed(slots: Slots) -> None:
    """Processes that fork and end all the time, and ignore what can be ignored, are all gone after ``kill``."""
    with a_slot(slots) as slot:
        slot.configure(memory=4 * MEMORY, pids=32, cpus=0.5 if slots.controls_cpu else None)
        program = (
            "import signal\n"
            "for number in range(1, 32):\n"
            "    try:\n"
            "        signal.signal(number, signal.SIG_IGN)\n"
            "    except OSError:\n"
            "        pass\n"
            "print('go', flush=True)\n"
            "while True:\n"
            "    try:\n"
            "        if os.fork():\n"
            "            os.setpgid(0, 0)\n"
            "    except OSError:\n"
            "        pass\n"
        )
        child = start(slot, program)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"go\n"
            time.sleep(0.3)
            began = time.monotonic()
            slot.kill()
            took = time.monotonic() - began
            assert slot.processes() == []
            assert took < 5
        finally:
            stop(child)
        settle(slot)
        # The same slot serves again.
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        assert run(slot, "print(os.fork() >= 0)").output.startswith("True\n")


def processor_time_is_shared_out(slots: Slots) -> None:
    if not slots.controls_cpu:
        with a_slot(slots) as slot:
            refused(lambda: slot.configure(memory=MEMORY, pids=8, cpus=0.5))
        return
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=0.2)
        ran = run(slot, "import time\nend = time.monotonic() + 1.5\nwhile time.monotonic() < end:\n    pass\n")
        used = slot.usage()
        assert ran.status == 0
        assert used.cpu_us is not None
        assert used.cpu_us < 0.45 * ran.seconds * 1e6, (used, ran.seconds)


# -------------------------------------------------------------------------------------------------------------- order


def settle(slot: Slot) -> None:
    """Reset a slot whose orphans the first process of this machine has yet to reap, in its own time."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            slot.reset()
        except OSError as error:
            assert "reaped" in str(error)
            assert time.monotonic() < end
        else:
            return


def refused(call: Callable[[], object], kind: type[Exception] = OSError) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError("it was not refused")


def bad_requests_are_refused(slots: Slots) -> None:
    for name in ("", "..", "../x", "a/b", ".hidden", "-x", "a\nb", "a" * 101, "é"):
        refused(lambda name=name: slots.new(name), ValueError)
    with a_slot(slots) as slot:
        refused(lambda: slots.new(slot.name))
        refused(lambda: slot.configure(memory=0, pids=8, cpus=None))
        refused(lambda: slot.configure(memory=MEMORY, pids=0, cpus=None))
        refused(lambda: slot.configure(memory=MEMORY, pids=8, cpus=0.0))
        refused(lambda: slot.attach(0))
        refused(lambda: slot.attach(-1))
        # The limit is what was asked for, or it is an error; never something else.
        refused(lambda: slot.configure(memory=MEMORY, pids=1 << 62, cpus=None))
        assert slot.processes() == []


def a_slot_in_use_is_not_given_on(slots: Slots) -> None:
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        child = start(slot, "import time\ntime.sleep(60)\n")
        try:
            refused(slot.reset)
            assert slot.processes() == [child.pid]
            slot.kill()
        finally:
            stop(child)
        slot.reset()


def slots_are_below_our_own_group(slots: Slots) -> None:
    """No group of ours is where a limit of our container or service would not hold."""
    from fastness._linux.cgroup_find import own_places
    from fastness._linux.cgroup_v2 import base_of

    places = own_places().values()
    own = {base_of(place) if place.hierarchy.version == 2 else place.folder for place in places}
    for root in slots.roots:
        assert os.path.dirname(root) in own, (root, own)


def closing_leaves_what_is_in_use(slots: Slots) -> None:
    """``close`` removes nothing that still holds a process; once it is empty it goes."""
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        child = start(slot, "import time\ntime.sleep(60)\n")
        try:
            slots.close()
            assert slot.processes() == [child.pid]
        finally:
            slot.kill()
            stop(child)


@contextmanager
def killed_host(owner: str) -> Iterator[int]:
    """A host that has a process in a slot and is killed; the process's number."""
    program = (
        "import os, subprocess, sys, time\n"
        "from fastness._linux import cgroup\n"
        f"slots = cgroup.find({owner!r})\n"
        "slot = slots.new('a')\n"
        "live = 'import time; time.sleep(300)  # from fastness.tests'\n"
        "child = subprocess.Popen([sys.executable, '-I', '-S', '-c', live], start_new_session=True)\n"
        "slot.configure(memory=32 << 20, pids=8, cpus=None)\n"
        "slot.attach(child.pid)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(300)\n"
    )
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(cgroup.__file__))))
    host = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, env={"PYTHONPATH": source, "PATH": os.environ["PATH"]}
    )
    try:
        assert host.stdout is not None
        guest = int(host.stdout.readline())
        assert f"fastness-{owner}-slots" not in cgroup.sweep(lambda owner: True)
        host.kill()
        host.wait()
        assert os.path.exists(f"/proc/{guest}")
        yield guest
    finally:
        stop(host)


def a_dead_owners_slots_are_swept(slots: Slots) -> None:
    """A host that was killed leaves slots and a process; ``sweep`` ends and removes them, and no one else's."""
    owner = f"swept-1-{os.getpid()}"
    with killed_host(owner) as guest, a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        ours = start(slot, "import time\ntime.sleep(60)\n")
        try:
            # Nobody has to know that it is dead: nobody holds its groups.
            assert f"fastness-{owner}-slots" in cgroup.sweep(lambda owner: True)
            assert is_gone(guest)
            assert ours.poll() is None
            assert f"fastness-{owner}-slots" not in cgroup.sweep(lambda owner: True)
        finally:
            stop(ours)


def an_owner_known_to_be_dead_is_swept_though_its_groups_are_held(slots: Slots) -> None:
    """A child that a host forked may outlive it and go on holding its groups."""
    owner = f"swept-2-{os.getpid()}"
    with killed_host(owner) as guest:
        roots = [f"{os.path.dirname(root)}/fastness-{owner}-slots" for root in slots.roots]
        holds = [cgroup_held.take(root) for root in roots]
        try:
            assert min(holds) >= 0
            assert f"fastness-{owner}-slots" not in cgroup.sweep(lambda owner: True)
            assert not is_gone(guest)
            assert f"fastness-{owner}-slots" in cgroup.sweep(lambda name: name != owner)
            assert is_gone(guest)
        finally:
            for held in holds:
                os.close(held)


def is_gone(pid: int) -> bool:
    """Whether a process has ended; nobody may have reaped it yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def swap_is_capped_with_memory(slots: Slots) -> None:
    """
    Where there is swap, memory past the limit does not go there; and it would, in a group without our limit.

    Without swap on this machine there is nothing to see.
    """
    with open("/proc/swaps") as file:
        if len(file.read().strip().split("\n")) < 2:
            return
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        # The control: a limit on memory alone only moves what is too much.
        for folder in slot._folders:
            for name, text in (("memory.swap.max", "max"), ("memory.memsw.limit_in_bytes", str(512 * MIB))):
                if os.path.exists(f"{folder}/{name}"):
                    with open(f"{folder}/{name}", "w") as out:
                        out.write(text)
        assert run(slot, fill(64)).status == 0
    with a_slot(slots) as slot:
        slot.configure(memory=MEMORY, pids=8, cpus=None)
        ran = run(slot, fill(64))
        assert (ran.status, ran.output) == (-signal.SIGKILL, "")


CHECKS: dict[str, Callable[[Slots], None]] = {
    check.__name__: check
    for check in (
        memory_within_the_limit_is_fine,
        a_memory_bomb_is_killed,
        memory_of_all_processes_counts_together,
        memory_files_are_counted,
        a_tmpfs_that_is_filled_is_counted,
        swap_is_capped_with_memory,
        limits_go_up_and_down,
        each_run_is_counted_alone,
        a_fork_bomb_stops,
        a_thread_bomb_stops,
        what_forks_for_ever_is_killed,
        processor_time_is_shared_out,
        bad_requests_are_refused,
        a_slot_in_use_is_not_given_on,
        slots_are_below_our_own_group,
        closing_leaves_what_is_in_use,
        a_dead_owners_slots_are_swept,
        an_owner_known_to_be_dead_is_swept_though_its_groups_are_held,
    )
}


def everything_is_gone(slots: Slots) -> None:
    """After ``close`` nothing of this owner's is left."""
    slots.close()
    for root in slots.roots:
        assert not os.path.exists(root), (root, os.listdir(root))


__all__ = ["CHECKS", "a_slot", "everything_is_gone", "members", "run", "start", "stop"]
