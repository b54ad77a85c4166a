"""
What people ask of a finding that is no guarantee by itself.
"""

from __future__ import annotations

from fastness.attack.boundaries.model import Question

_CHOOSING = "../choosing-a-tier.md"
_GUESTS = ("confined", "isolated")

QUESTIONS = (
    Question(
        "a bug in wasmtime lets guest code run native code in the engine",
        "Report it to wasmtime; here it is one wall of two. It is ours if the engine's confinement does not hold then.",
        tiers=("wasm",),
        attacks=("tests/security/test_engine_confinement.py",),
    ),
    Question(
        "code in an engine whose guest broke out gets past seccomp, Landlock or the namespaces",
        "yes",
        tiers=("wasm",),
        attacks=("tests/security/test_engine_confinement.py", "tests/security/test_wasm_engine_facts.py"),
    ),
    Question(
        "a run is reset in place and differs from its image",
        "yes; the engine compares every 20,000 resets and ends where they differ",
        tiers=("wasm",),
        attacks=("state.heap", "state.modules", "state.builtins"),
    ),
    Question(
        "a tier's guarantee is listed in a result and does not hold",
        "yes: honesty is the second goal",
        attacks=("tests/security/test_attacks.py",),
    ),
    Question(
        "a requested tier is missing and something weaker runs",
        "yes",
        attacks=("plugins.weaker_tier", "broker.process_elsewhere", "tests/functional/test_tier_choice.py"),
    ),
    Question(
        "a result hides that it was not sandboxed",
        "yes",
        attacks=("tests/functional/test_tier_choice.py", "plugins.not_unsandboxed"),
    ),
    Question(
        "the frame parser, the value decoder or staging raises something else than the documented error, hangs, "
        "or takes memory without bound",
        "yes",
        attacks=("channel.giant_length", "channel.deep_answer", "calls.giant_length", "calls.deep_arguments"),
    ),
    Question(
        "a terminal acts on control characters of a guest, shown by `fastness run` without `--raw`",
        "yes",
        attacks=("output.terminal_escapes",),
    ),
    Question("`--raw` passes them on", "no", attacks=("tests/functional/test_command_line.py",)),
    Question(
        "a denial with `claimed=True` is false, or missing",
        "no: it is the guest's word",
        tiers=("wasm", "worker"),
        attacks=("output.false_claim",),
    ),
    Question("the guest's answer is a lie", "no: values and output are the guest's"),
    Question("a guest measures time, or learns the load of the machine", "no, unless `time=` was given"),
    Question("tenants share a processor's caches", "no: side channels of the hardware are outside the promise"),
    Question(
        "a native guest knows addresses or the hash seed of a later one of its tenant",
        "no: they are copies of one zygote until that is replaced",
        tiers=_GUESTS,
        attacks=("state.hash_seed",),
    ),
    Question(
        "a native guest reads what an earlier run left, in memory or on disk",
        "yes",
        tiers=_GUESTS,
        attacks=("state.heap", "state.files", "state.descriptors"),
    ),
    Question(
        "a package that was preloaded is hostile",
        "not by itself; yes if it gets out of its family's walls, or into another tenant's family",
        tiers=_GUESTS,
        attacks=("tests/security/test_native_preload_powers.py", "state.tenants"),
    ),
    Question(
        "a refused call leaves no row",
        "no where `layers` says `DENIALS_RECORDED: partial`, which it does after 64 different rows or 4,096 calls "
        "of one guest too; yes otherwise",
        tiers=_GUESTS,
        attacks=("tests/security/test_native_floods.py",),
    ),
    Question(
        "a guest that runs as the caller's user uses up what the kernel counts for that user, such as waiting signals "
        "or descriptors on their way",
        f"no: [those counts are shared]({_CHOOSING}#isolated-and-confined-what-is-particular-to-them)",
        tiers=_GUESTS,
    ),
    Question(
        "`apply()` writes outside the project, or brings in a part of the changes",
        "yes",
        tiers=("isolated", "container"),
        attacks=("tests/unit/runner/test_apply.py", "tests/security/test_project_races.py"),
    ),
    Question(
        "`apply()` brings in a file that some tool runs by itself and that "
        "[the list](../api.md#files-that-must-be-named) does not have",
        "no, but tell us: the list cannot be complete",
        tiers=("isolated", "container"),
    ),
    Question(
        "a file of that list is applied without being named",
        "yes",
        tiers=("isolated", "container"),
        attacks=("tests/unit/runner/test_triggers.py",),
    ),
    Question(
        "a secret under an unusual name is copied with a project",
        "no: leaving out what looks like one spares an accident",
        tiers=("isolated", "container"),
        attacks=("tests/unit/runner/test_project.py",),
    ),
    Question("somebody with your user's rights changes the cache or the package", "no"),
    Question('`tier="local"` reads your files', "no: that is what it does"),
    Question(
        "a module of the caller's own choice makes the compiler slow",
        "no, up to its caps: 60 s of processor time, 1 GiB, 64 MiB",
        tiers=("wasm",),
    ),
    Question(
        "the compiler process of such a module is taken over",
        "not by itself; yes if it then gets past its filter, or if its output is used for another module",
        tiers=("wasm",),
        attacks=("tests/security/test_engine_confinement.py",),
    ),
)
