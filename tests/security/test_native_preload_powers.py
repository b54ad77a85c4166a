"""
What a preloaded package can do to the other processes of the user who preloads it, in ``confined``: as the zygote there
is the caller's own user where the caller is not root, the kernel itself asks for no more than that for most of this.
"""

from __future__ import annotations

import native_hosts
import pytest

import house

#: Tries everything once, when it is imported; errors are what is hoped for.
_HOSTILE = r"""
import ctypes, fcntl, json, os, resource, signal, socket

folder = os.path.dirname(os.path.abspath(__file__))
with open(folder + "/facts.json") as file:
    facts = json.load(file)
victim = facts["victim"]
library = ctypes.CDLL(None, use_errno=True)
library.shmat.restype = ctypes.c_void_p
kept, said = [], {}
# Whoever holds a lease is told by it that somebody waits, and would end.
signal.signal(signal.SIGIO, signal.SIG_IGN)


def limit():
    resource.prlimit(victim, resource.RLIMIT_NOFILE, (77, 77))


def share():
    place = library.shmat(facts["segment"], None, 0)
    if place in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "shmat")
    ctypes.memmove(place, b"overwritten", 11)


def owned_signal():
    ours, theirs = os.pipe()
    fcntl.fcntl(ours, 10, signal.SIGUSR2)  # F_SETSIG
    fcntl.fcntl(ours, fcntl.F_SETOWN, victim)
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(theirs, b"x")


def lease():
    kept.append(os.open(folder + "/leased", os.O_RDONLY))
    fcntl.fcntl(kept[-1], fcntl.F_SETLEASE, fcntl.F_RDLCK)


def lock():
    kept.append(os.open(folder + "/locked", os.O_RDONLY))
    fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)


def watch():
    descriptor = library.inotify_init1(0o2000000)
    if descriptor < 0 or library.inotify_add_watch(descriptor, facts["home"].encode(), 0x100) < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    said["watch"] = True


def name():
    server = socket.socket(socket.AF_UNIX)
    server.bind("\0" + facts["name"])
    server.listen()
    kept.append(server)


for attempt in (
    limit, share, owned_signal, lease, lock, watch, name,
    lambda: os.setpriority(os.PRIO_PROCESS, victim, 11),
    lambda: os.sched_setaffinity(victim, {min(os.sched_getaffinity(victim))}),
    lambda: os.kill(victim, signal.SIGUSR1),
):
    try:
        attempt()
    except OSError:
        pass
"""

_HOST = r"""
import ctypes, fcntl, json, os, resource, socket, subprocess, sys, time

wanted = json.loads(sys.argv[1])
folder = os.path.join(os.getcwd(), "packages")
os.makedirs(folder, exist_ok=True)
os.chmod(os.getcwd(), 0o755)
for name in ("leased", "locked"):
    open(f"{folder}/{name}", "w").close()
with open(f"{folder}/hostile.py", "w") as file:
    file.write(wanted["module"])
library = ctypes.CDLL(None, use_errno=True)
library.shmat.restype = ctypes.c_void_p
victim = subprocess.Popen([sys.executable, "-c", '''
import signal, time
for number in (signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, frame: print(number, flush=True))
print("ready", flush=True)
end = time.monotonic() + 30
while time.monotonic() < end:
    time.sleep(0.02)
'''], stdout=subprocess.PIPE, text=True)
assert victim.stdout.readline() == "ready\n"
segment = library.shmget(0, 4096, 0o1600)
try:
    place = library.shmat(segment, None, 0)
    facts = {"victim": victim.pid, "segment": segment, "home": os.getcwd(), "name": f"fastness-test-{os.getpid()}"}
    with open(f"{folder}/facts.json", "w") as file:
        json.dump(facts, file)
    before = [resource.prlimit(victim.pid, resource.RLIMIT_NOFILE), os.getpriority(0, victim.pid),
              len(os.sched_getaffinity(victim.pid))]

    def harm(said):
        after = [resource.prlimit(victim.pid, resource.RLIMIT_NOFILE), os.getpriority(0, victim.pid),
                 len(os.sched_getaffinity(victim.pid))]
        found = [name for name, one, other in zip(("limit", "priority", "affinity"), before, after) if one != other]
        if ctypes.string_at(place, 11) == b"overwritten":
            found.append("share")
        try:
            os.close(os.open(f"{folder}/leased", os.O_WRONLY | os.O_NONBLOCK))
        except BlockingIOError:
            found.append("lease")
        with open(f"{folder}/locked") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                found.append("lock")
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect("\0" + facts["name"])
                found.append("name")
            except OSError:
                pass
        time.sleep(0.2)
        victim.kill()
        numbers = victim.communicate(timeout=10)[0].split()
        return sorted(found + [f"signal {number}" for number in numbers] + list(said))

    if wanted["tier"]:
        import fastness
        with fastness.Sandbox(tier=wanted["tier"], packages=(folder,), preload=("hostile",), timeout=20) as box:
            value = box.run("import hostile; hostile.said").value
            print(json.dumps([harm(value), box.run(wanted["guest"]).value]))
    else:
        sys.path.insert(0, folder)
        bare = subprocess.Popen([sys.executable, "-c", f'''
import sys; sys.path.insert(0, {folder!r})
import hostile, json
print(json.dumps(hostile.said), flush=True)
sys.stdin.read()
'''], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = json.loads(bare.stdout.readline())
        print(json.dumps([harm(said), len(os.sched_getaffinity(0))]))
        bare.communicate()
finally:
    victim.kill()
    library.shmctl(segment, 0, None)
"""

#: What a guest may do to itself, under its own filter and its zygote's.
_GUEST = r"""
import fcntl, os, resource, signal, tempfile, threading
told = []
for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGURG):
    signal.signal(number, lambda number, frame: told.append(int(number)))
os.kill(os.getpid(), signal.SIGUSR1)
signal.raise_signal(signal.SIGUSR2)
signal.pthread_kill(threading.main_thread().ident, signal.SIGURG)
os.sched_setaffinity(0, os.sched_getaffinity(0))
resource.prlimit(os.getpid(), resource.RLIMIT_NOFILE)
resource.getrlimit(resource.RLIMIT_NOFILE)
with tempfile.TemporaryFile() as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    fcntl.lockf(file, fcntl.LOCK_EX)
told
"""


@pytest.fixture(scope="module", autouse=True)
def _supported() -> None:
    house.require("confined tier")


@pytest.mark.parametrize("name", native_hosts.CALLERS)
def test_a_preloaded_package_has_no_power_over_other_processes_of_its_user(
    callers: native_hosts.Callers, name: str
) -> None:
    """Imported plainly it does all of it; its guests go on doing to themselves what guests may."""
    caller = native_hosts.find(callers, name)
    wanted = {"module": _HOSTILE, "guest": _GUEST, "tier": ""}
    plain, processors = caller.run(_HOST, wanted)
    everything = {"limit", "priority", "affinity", "share", "lease", "lock", "name", "signal 10", "signal 12", "watch"}
    assert set(plain) == (everything if processors > 1 else everything - {"affinity"})
    harm, told = caller.run(_HOST, wanted | {"tier": "confined"})
    assert harm == []
    assert told == [10, 12, 23]


_SILENT = r"""
import ctypes, json, os, signal, subprocess, sys, time
from fastness._linux import privileges, profiles, seccomp
from fastness._linux.syscalls import MACHINE

program = json.loads(sys.argv[1])
# It is stopped by whoever may, so it ends with this process and not by itself.
victim = subprocess.Popen(["sleep", "30"], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9, 0, 0, 0))
privileges.forbid_new_privileges()
seccomp.install(profiles.program(MACHINE, program))
told = []
for target in (victim.pid, -1 * victim.pid):
    try:
        os.kill(target, signal.SIGSTOP)
        told.append("sent")
    except OSError as error:
        told.append(error.errno)
until = time.monotonic() + (5 if told[0] == "sent" else 0.2)
while (state := open(f"/proc/{victim.pid}/stat").read().rpartition(")")[2].split()[0]) != "T":
    if time.monotonic() > until:
        break
    time.sleep(0.01)
told.append(state)
guest = os.fork()
if guest == 0:
    privileges.set_limit(privileges.RLIMIT_CORE, 0)
    seccomp.install(profiles.program(MACHINE, "guest/confined", os.getpid()))
    os.abort()
told.append(os.WTERMSIG(os.waitpid(guest, 0)[1]))
print(json.dumps(told), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize("program", ["zygote/preload_confined", "zygote/preload_confined_silent_notify"])
def test_without_scoped_signals_an_import_sends_none(callers: native_hosts.Callers, program: str) -> None:
    """The filter for kernels before 6.12 alone stops them, where the other leaves them to Landlock; abort ends a guest."""
    caller = callers["caller"]
    stopped, group, state, ended = caller.run(_SILENT, program)
    if program.endswith("_silent_notify"):
        assert (stopped, group) == (38, 38)
        assert state in "SRD"
        # The C library executes what no process may, where it cannot signal itself.
        assert ended == 11
    else:
        assert (stopped, state, ended) == ("sent", "T", 6)
