"""
Programs that tests of native hosts start with :class:`native_hosts.Caller`; each finds what is wanted in its argument.
"""

from __future__ import annotations

#: Runs one guest and stops for good where ``wanted["state"]`` says.
HOST = r"""
import ctypes, json, sys, threading
import fastness
from fastness.backends import box, native, native_drain, native_family, native_limits, native_talk, zygote_process
from fastness.runner import filling

wanted = json.loads(sys.argv[1])
state, tier = wanted["state"], wanted["tier"]
# A watcher that was given up takes it along.
ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)


def reached(name):
    if name == state:
        print("reached", flush=True)
        threading.Event().wait()


def hook(owner, name, place, *, first=False):
    original = getattr(owner, name)

    def plain(*args, **kwargs):
        if first:
            reached(place)
        found = original(*args, **kwargs)
        if not first:
            reached(place)
        return found

    async def waited(*args, **kwargs):
        found = await original(*args, **kwargs)
        reached(place)
        return found

    setattr(owner, name, waited if original.__code__.co_flags & 0x80 else plain)


box_made = fastness.Sandbox(tier=tier, timeout=60, pool=0)
box_made.probe()
hook(native_family.Family, "_spawn", "planned", first=True)
hook(zygote_process.ZygoteProcess, "start", "zygote ready")
hook(zygote_process.ZygoteProcess, "request", "guest asked for")
hook(box.Box, "adopt", "guest born")
hook(native_limits, "bound", "guest limited")
hook(filling, "fill_files", "filled")
hook(native_talk.Talk, "run", "answered")
hook(native_drain, "_some", "draining", first=True)
hook(native, "collect", "collecting", first=True)
hook(native_family.Family, "bury", "burying", first=True)
if state == "spawned":
    tell = zygote_process.ZygoteProcess._tell

    def stopped(self):
        tell(self)
        reached("spawned")

    zygote_process.ZygoteProcess._tell = stopped

LEAVE = "open('left.txt', 'w').write('x')\n"
files = {"a.txt": b"a"}
if state == "pool":
    with fastness.Sandbox(tier=tier, pool=3) as other:
        reached("pool")
elif state == "session":
    with box_made.session() as session:
        code = "import threading, time\nfor _ in range(3):\n  threading.Thread(target=time.sleep, args=(100,)).start()"
        session.execute(code)
        reached("session")
elif state == "command":
    script = "setsid sleep 100 & (sleep 100 &) ; trap '' TERM HUP; echo up; sleep 100"
    box_made.run(command=["sh", "-c", script], runtime="command", on_event=lambda *event: reached("command"))
elif state in ("running", "sleeping"):
    code = "print('up', flush=True)\n" + ("while True: pass" if state == "running" else "import time; time.sleep(100)")
    box_made.run(code, on_event=lambda *event: reached(state))
elif state == "draining":
    box_made.run("while True: pass", timeout=0.1)
else:
    box_made.run(LEAVE, files=files)
threading.Event().wait()
"""

#: Runs guests from several threads while its own processes are killed around it, and tells what came of that.
STRESS = r"""
import gc, json, os, random, signal, sys, threading, time
import fastness
from fastness._linux import procs

wanted = json.loads(sys.argv[1])
told = {"right": 0, "crashed": 0, "refused": 0, "wrong": [], "slow": 0.0, "kills": 0, "why": []}
lock = threading.Lock()
left = iter(range(wanted["runs"]))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def work(box):
    while True:
        with lock:
            number = next(left, None)
        if number is None:
            return
        began = time.monotonic()
        try:
            result = box.run(f"import time; time.sleep({random.random() * 0.1}); {number}", timeout=20)
            kind = result.outcome.kind.value
            what = "right" if kind == "ok" and result.value == number else "crashed" if kind == "crashed" else ""
            if not what:
                told["wrong"].append(f"{result.outcome} {result.value!r}")
        except fastness.BackendError as error:
            what = "refused"
            told["why"].append(str(error))
        with lock:
            told["slow"] = max(told["slow"], time.monotonic() - began)
            if what:
                told[what] += 1


def done():
    return told["right"] + told["crashed"] + told["refused"] + len(told["wrong"])


def kill(stop):
    while True:
        # By runs and not by time, or a slow machine would see nothing but kills.
        due = done() + random.randint(3, 12)
        while done() < due:
            if stop.wait(0.001):
                return
        stop.wait(random.random() * 0.01)
        found = procs.descendants(os.getpid())
        if found:
            try:
                os.kill(random.choice(found), 9)
                told["kills"] += 1
            except (ProcessLookupError, PermissionError):
                pass


def wave(box, count):
    stop = threading.Event()
    threads = [threading.Thread(target=work, args=(box,)) for _ in range(4)]
    killer = threading.Thread(target=kill, args=(stop,))
    for one in (*threads, *([killer] if count else [])):
        one.start()
    for one in threads:
        one.join()
    stop.set()
    if count:
        killer.join()


def settled():
    box.run("0", timeout=20)
    time.sleep(0.5)
    gc.collect()
    return descriptors(), threading.active_count(), resident()


random.seed(wanted["seed"])
with fastness.Sandbox(tier=wanted["tier"], pool=2, engines=4) as box:
    box.run("0")
    before, left = left, iter(range(20))
    wave(box, 0)
    left, told["right"] = before, 0
    before = settled()
    wave(box, wanted["runs"])
    for _ in range(5):
        try:
            after = settled()
            break
        except fastness.BackendError:
            continue
    living = len(procs.descendants(os.getpid()))
end = time.monotonic() + 2
while (found := procs.descendants(os.getpid())) and time.monotonic() < end:
    time.sleep(0.01)
told |= {"before": before, "after": after, "living": living, "left": len(found), "open": descriptors()}
print(json.dumps(told))
"""

#: Starts a host, kills it where it has come to its state, and tells what is left of it.
WATCHER = r"""
import ctypes, json, os, subprocess, sys, time
from fastness import runtime
from fastness._linux import procs

wanted = json.loads(sys.argv[1])
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)


def namespaces(pids):
    found = set()
    for pid in pids:
        for kind in ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts"):
            try:
                found.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
            except OSError:
                pass
    return found


def mounts():
    with open("/proc/self/mountinfo") as file:
        return set(file)


def everybody():
    return {(int(name), procs.start_time(int(name))) for name in os.listdir("/proc") if name.isdigit()}


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            return file.read().replace("\0", " ")[:200]
    except OSError:
        return ""


def groups(owner):
    return [path for path, _, _ in os.walk("/sys/fs/cgroup") if f"fastness-{owner}" in os.path.basename(path)]


before, own = mounts(), namespaces([os.getpid()])
host = subprocess.Popen([sys.executable, "-c", wanted["program"], sys.argv[1]], stdout=subprocess.PIPE)
said = host.stdout.readline()
if said != b"reached\n":
    sys.exit(f"the host did not come to {wanted['state']!r} but said {said!r}")
time.sleep(wanted.get("delay", 0))
tree = procs.descendants(os.getpid())
inside = namespaces(tree) - own
then = everybody()
began = time.monotonic()
os.kill(host.pid, 9)
left = []
while True:
    try:
        pid, _ = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        break
    if pid:
        continue
    if time.monotonic() - began > wanted["within"]:
        left = {pid: command_of(pid) for pid in procs.descendants(os.getpid())}
        for pid in left:
            os.kill(pid, 9)
        break
    time.sleep(0.002)
gone = time.monotonic() - began
# Whoever came later may be in a new namespace that was given an old one's number.
still = inside & namespaces(pid for pid, _ in then & everybody())
dead = runtime.dead_owners()
runtime.sweep()
print(
    json.dumps(
        {
            "processes": len(tree) - 1,
            "namespaces": len(inside),
            "left": left,
            "seconds": gone,
            "still": sorted(still),
            "mounts": sorted(mounts() - before),
            "owners": len(dead),
            "groups": [path for owner in dead for path in groups(owner)],
            "folders": sorted(os.listdir(os.path.join(os.environ["FASTNESS_HOME"], "runtime"))),
        }
    )
)
"""

#: Takes something away from itself, as a poorer kernel or a container would, and tells what a sandbox makes of that.
POORER = r'''
import ctypes, errno, json, os, resource, struct, sys, time

wanted = json.loads(sys.argv[1])
ALLOW, ERRNO, NEW = 0x7FFF0000, 0x00050000, 0x7E020000 | 0x2000080


def refuse(rules):
    """A filter with [number, error, argument, bits]: fail where the argument has any of the bits (-1: always)."""
    code = [(0x20, 0, 0, 0)]
    for number, error, argument, bits in rules:
        if argument < 0:
            code += [(0x15, 0, 1, number), (0x06, 0, 0, ERRNO | error)]
        else:
            code += [(0x15, 0, 4, number), (0x20, 0, 0, 16 + 8 * argument), (0x45, 0, 1, bits)]
            code += [(0x06, 0, 0, ERRNO | error), (0x20, 0, 0, 0)]
    code.append((0x06, 0, 0, ALLOW))
    text = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
    header = (ctypes.c_uint64 * 2)(len(code), ctypes.addressof(text))
    libc = ctypes.CDLL(None, use_errno=True)
    if wanted.get("nnp", True):
        libc.prctl(38, 1, 0, 0, 0)
    if libc.syscall(317, 1, 0, ctypes.byref(header)):
        raise OSError(ctypes.get_errno(), "the test's own filter")


import fastness
from fastness._linux.syscalls import NUMBERS
from fastness.backends import native_launch, zygote_process

if wanted.get("abi"):
    from fastness._linux import landlock

    landlock.abi = lambda: wanted["abi"]
    patch = f"from fastness._linux import landlock;landlock.abi=lambda:{wanted['abi']};"
    native_launch._BOOT = native_launch._BOOT.replace("from fastness._native", patch + "from fastness._native", 1)
if wanted.get("start_s"):
    zygote_process.START_S = wanted["start_s"]
for what, value in wanted.get("limits", {}).items():
    resource.setrlimit(getattr(resource, what), (value, value))
if wanted.get("refuse"):
    refuse([(NUMBERS[name], getattr(errno, error), *rest) for name, error, *rest in wanted["refuse"]])

told = {"layers": {}, "failures": []}
began = time.monotonic()
try:
    with fastness.Sandbox(tier=wanted["tier"], timeout=10) as box:
        if wanted.get("probe", True):
            probe = box.probe()
            told["failures"] = [(one.guarantee, one.cause, one.remedy) for one in probe.failures]
        for code in wanted.get("codes", ["6 * 7"]):
            result = box.run(code, **wanted.get("options", {}))
            told |= {
                "kind": result.outcome.kind.value,
                "detail": result.outcome.detail,
                "value": result.value,
                "layers": result.layers,
                "denials": [[one.operation, one.count, one.layer] for one in result.denials],
            }
except fastness.TierUnavailable as error:
    told |= {"error": "TierUnavailable", "text": str(error)}
    told["failures"] = [(one.guarantee, one.cause, one.remedy) for one in error.failures]
except fastness.FastnessError as error:
    told |= {"error": type(error).__name__, "text": str(error)}
told["seconds"] = time.monotonic() - began
print(json.dumps(told))
'''
