"""
For each guarantee of the tiers: what breaks it, and what does not.
"""

from __future__ import annotations

from fastness.attack.boundaries.model import Boundary, Breach, Limit
from fastness.tier import Guarantee

_NATIVE = ("confined", "isolated", "container")
#: Those in which attacks try what calls of a guest may do; in the others the same code of this side decides.
_CALLS = ("confined", "isolated", "wasm")
_PROGRAMS = ("isolated", "container")

BOUNDARIES = (
    Boundary(
        Guarantee.ENV_SCRUBBED,
        breaches=(
            Breach("A guest learns a variable, an argument, a path or a descriptor of the caller that was not passed."),
        ),
        limits=(Limit("It sees what `env=`, `args=` and `stdin=` pass.", shown=("environment.passed",)),),
    ),
    Boundary(
        Guarantee.ADDRESS_SPACE,
        breaches=(
            Breach("Guest code reads or writes memory of the caller."),
            Breach(
                "Guest code reads what another run or tenant left.",
                attacks=("state.*", "containers.left_in_folders"),
            ),
            Breach(
                "Guest code signals or ends a process of the caller's, or one of another run.",
                tiers=("wasm", *_NATIVE),
                attacks=("signals.*", "process.kill"),
            ),
            Breach(
                "Guest code passes for another run, call, owner or tenant.",
                attacks=(
                    "calls.another_owner",
                    "calls.drop_of_others",
                    "calls.late_answer",
                    "calls.numbers_again",
                    "channel.forged_result",
                ),
            ),
            Breach(
                "An object of the host is alive in a guest, or one of the guest's in the host.",
                tiers=("worker", *_CALLS),
                attacks=("broker.storage_objects", "lifecycle.live_objects", "plugins.live_value", "plugins.shadows"),
            ),
            Breach(
                "A way that the module firewall is said to refuse works as it stands; a new way round it is none.",
                tiers=("worker",),
                attacks=("worker.*", "process.kill"),
            ),
        ),
        limits=(
            Limit(
                "A guest changes its own interpreter, its own result or its own claims.",
                shown=("state.own_interpreter",),
            ),
            Limit(
                "A native guest knows addresses or the hash seed of a later one of its tenant.",
                tiers=("confined", "isolated"),
                shown=("state.hash_seed",),
            ),
        ),
    ),
    Boundary(
        Guarantee.WALL_KILL,
        breaches=(
            Breach(
                "A run goes on more than 250 ms and the time of a kill past its limit on a machine that is not "
                "overloaded; of a command and in `worker`, also `grace_s`."
            ),
            Breach(
                "A process of a run is alive after its result.",
                tiers=("worker", *_NATIVE),
                attacks=("program.breeds", "program.daemon", "program.first_process", "program.pipe_held"),
                elsewhere={
                    "worker": "tests/security/test_worker_tree.py",
                    "confined": "tests/security/test_native_ends.py",
                },
            ),
            Breach(
                "A program of an image's own runs in a guest's container, beside what its first process holds to its "
                "limits.",
                tiers=("container",),
                attacks=("containers.health_check",),
            ),
            Breach(
                "A call that a guest has made goes on after its run has ended or was cancelled.",
                tiers=("worker", *_CALLS),
                attacks=("calls.after_cancel", "calls.after_its_end"),
            ),
        ),
        limits=(
            Limit(
                "A result comes later because the caller was busy.",
                why="time is kept by the host, and what is late there is the host's own program",
            ),
        ),
    ),
    Boundary(
        Guarantee.MEM_CAP,
        breaches=(
            Breach("A guest makes an engine, its own process or the caller hold memory without a constant bound."),
        ),
        limits=(
            Limit(
                "Many runs at once use many times the limit of one; results within their limits fill the caller's "
                "memory.",
                why="limits are of one run; how many there are is the caller's to bound",
            ),
        ),
    ),
    Boundary(
        Guarantee.OUTPUT_CAP,
        breaches=(
            Breach(
                "The caller keeps more output than `output_bytes` of a stream, or the text of an error without a cap."
            ),
            Breach(
                "A terminal acts on control characters of a guest, shown by `fastness run` without `--raw`.",
                attacks=("output.terminal_escapes",),
            ),
            Breach(
                "What a guest gives back makes a result's JSON invalid, or comes out as other bytes than it was.",
                attacks=("output.json", "output.split_text"),
            ),
            Breach(
                "A guest reaches the terminal that it was started from.", tiers=_CALLS, attacks=("output.terminal",)
            ),
        ),
        limits=(
            Limit(
                "`on_event` sees all of it, up to `output_total_bytes`.",
                why="it is called for each piece before any is dropped",
            ),
        ),
    ),
    Boundary(
        Guarantee.CRASH_CONTAINED,
        breaches=(
            Breach("A guest ends the caller, or makes a later run fail."),
            Breach(
                "The frame parser, the value decoder or staging raises something else than the documented "
                "error, hangs, or takes memory without bound.",
                attacks=("calls.*", "channel.*", "broker.storage_odd_data"),
            ),
            Breach(
                "What an engine answers in other types than it should is taken for what was asked, or raises something "
                "else than the documented error.",
                tiers=("container",),
                attacks=("containers.odd_answers",),
            ),
            Breach(
                "What removes the containers that dead processes left removes one that is somebody else's, or one of a "
                "process that lives.",
                tiers=("container",),
                attacks=("containers.swept",),
            ),
        ),
        limits=(
            Limit(
                "A guest ends its own engine, process or container; the next run gets another.",
                shown=("limits.own_end",),
            ),
        ),
    ),
    Boundary(
        Guarantee.FS_CONFINED,
        breaches=(
            Breach(
                "A guest reads, makes, changes, links or lists a file of the host, or learns whether one exists.",
                tiers=("wasm", "isolated", "container"),
            ),
            Breach(
                "A guest opens a file of the host that is not among those named below, or changes one or its metadata.",
                tiers=("confined",),
            ),
            Breach(
                "A guest's files pass `file_bytes` or `files`; in `confined`, at the next look still.",
                attacks=("limits.*",),
            ),
            Breach(
                "Collecting or saving what a guest made reads or writes another file of the host.",
                attacks=(
                    "files.results_through_link",
                    "files.results_with_bad_names",
                    "files.special_results",
                    "files.swapped_while_collected",
                ),
            ),
            Breach(
                "A call opens, changes or tells of a file outside the folder that was granted.",
                tiers=_CALLS,
                attacks=("broker.*", "calls.not_granted"),
            ),
        ),
        limits=(
            Limit("A guest sees the files of its own library and copies of what was staged.", shown=("files.staged",)),
            Limit(
                "A native guest sees the system's libraries, the interpreter and the package folders, in "
                "`isolated` all of `/usr`.",
                tiers=("confined", "isolated"),
                shown=("files.system_read",),
            ),
            Limit("A guest sees metadata of any file.", tiers=("confined",), shown=("metadata.size",)),
            Limit(
                "A guest reads a named pipe that is kept in one of the folders that are shown (without Landlock "
                "it also writes to one), or holds a lock on a file there.",
                tiers=("confined", "isolated"),
                shown=("files.pipe_read",),
                why="opening a file that is shown is allowed, and a lock is had by whoever may open",
            ),
            Limit(
                "A guest's files pass their limits until the next look, and between two executes of a session nobody "
                "looks.",
                tiers=("confined",),
                why="its work folder is on disk, and files there are counted about every 50 ms while it runs",
            ),
            Limit("The caller saves a hostile file where the caller says.", why="what a file holds is the guest's"),
        ),
    ),
    Boundary(
        Guarantee.NET_CONFINED,
        breaches=(
            Breach("A guest sends or receives a packet, looks up a name, or reaches a socket of this machine."),
            Breach(
                "A call reaches an address of the inside, or a host that was not granted.",
                tiers=_CALLS,
                attacks=("broker.*",),
            ),
        ),
        limits=(
            Limit("It tries, and the attempt is recorded or claimed.", why="refusing is all that is promised"),
            Limit("Processes of one command talk to each other.", tiers=_PROGRAMS, shown=("network.between_its_own",)),
            Limit(
                "A program connects to a unix socket that somebody keeps below `/usr`, the interpreter's prefix or a "
                "package folder with a mode that lets it.",
                tiers=("isolated",),
                why="a mount that is read-only does not govern connecting, and neither does Landlock here",
            ),
        ),
    ),
    Boundary(
        Guarantee.NO_SYSCALLS,
        breaches=(Breach("Guest code makes a system call of its choice."),),
        limits=(
            Limit(
                "A WASI call makes the engine use a system call that its filter allows.",
                why="that is how the engine serves it, with arguments of the engine's choice",
            ),
        ),
    ),
    Boundary(Guarantee.NO_EXEC, breaches=(Breach("A program is started, or a process made."),)),
    Boundary(
        Guarantee.SYSCALL_FILTERED,
        breaches=(
            Breach(
                "A call is made that the profile does not allow, by another number, entry or argument too; a refused "
                "call acts after all."
            ),
        ),
        limits=(
            Limit(
                "A call of the list is used in a way that nobody thought of, and stays without effect outside.",
                why="a filter is a list of calls, not of uses",
            ),
            Limit(
                "A command starts programs: it is what it is for.", tiers=_PROGRAMS, shown=("program.starts_programs",)
            ),
        ),
    ),
    Boundary(
        Guarantee.NO_NEW_PRIVS,
        breaches=(Breach("A guest gains power by starting a program."),),
    ),
    Boundary(
        Guarantee.NO_PRIVILEGE,
        breaches=(
            Breach(
                "A guest has a capability, in its own user namespace too, or the power of the caller's user over "
                "anything but its own run."
            ),
        ),
        limits=(
            Limit(
                "An ordinary user's groups let a guest read files of its tree.",
                tiers=("isolated",),
                why="a user namespace that an ordinary user makes cannot give groups up",
            ),
            Limit(
                "The zygote, which runs no guest code, has four capabilities in its user namespace.",
                tiers=("isolated",),
                why="making guests takes them; every guest gives them up before it hears of its run",
            ),
        ),
    ),
    Boundary(
        Guarantee.PID_HIDDEN,
        breaches=(Breach("A guest sees, signals or looks into a process outside its run."),),
        limits=(
            Limit("A program sees processes of its own command.", tiers=_PROGRAMS, shown=("processes.of_its_own",)),
        ),
    ),
    Boundary(
        Guarantee.PIDS_CAP,
        breaches=(Breach("A guest has more processes and threads than `pids`, and of a command one more."),),
    ),
    Boundary(
        Guarantee.TOTAL_MEM_CAP,
        breaches=(Breach("All processes of a run together hold more than `memory`, `file_bytes` and a constant."),),
        limits=(
            Limit(
                "Page tables and buffers of the kernel grow that it does not charge to anybody.",
                why="a control group caps what the kernel charges to it",
            ),
        ),
    ),
    Boundary(
        Guarantee.IMAGE_ROOT,
        breaches=(
            Breach("A guest changes anything of the image that it runs in, or another image's files are its root."),
        ),
        limits=(Limit("It reads what the image holds.", why="the image is what the guest was given to run in"),),
    ),
    Boundary(
        Guarantee.OWN_ROOT,
        breaches=(
            Breach(
                "A guest reaches the machine's root, or changes anything in its own but `/work` and `/tmp`, and of a "
                "command `/dev/shm`."
            ),
        ),
        limits=(Limit("It reads what its tree shows.", why="the tree is made of what a guest may read"),),
    ),
)
