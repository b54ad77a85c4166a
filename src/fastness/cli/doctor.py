"""
``fastness doctor``: which tiers hold on this machine, each guarantee with its proof, each gap with its fix.
"""

from __future__ import annotations

import os
import re
import textwrap
from typing import Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import err, say, stdout_console, table
from fastness.cli.visible import visible
from fastness.errors import FastnessError, TierUnavailable
from fastness.tier import Guarantee, Probe, ProbeFailure, Tier

#: What each guarantee means, in the order in which they are shown.
PROMISES = {
    Guarantee.ENV_SCRUBBED: "the environment holds only what was passed",
    Guarantee.ADDRESS_SPACE: "guest memory is apart from the caller's",
    Guarantee.WALL_KILL: "a run ends at its time limit whatever it does",
    Guarantee.MEM_CAP: "memory is capped",
    Guarantee.OUTPUT_CAP: "output is capped before it is kept",
    Guarantee.CRASH_CONTAINED: "a crash ends the run and nothing else",
    Guarantee.FS_CONFINED: "no file of this machine can be read, made or changed",
    Guarantee.NET_CONFINED: "no network, not even this machine's own",
    Guarantee.NO_SYSCALLS: "guest code cannot make a system call",
    Guarantee.NO_EXEC: "no program can be started",
    Guarantee.SYSCALL_FILTERED: "system calls are on an allow-list",
    Guarantee.NO_NEW_PRIVS: "no privilege can be gained",
    Guarantee.NO_PRIVILEGE: "no privilege is held",
    Guarantee.PID_HIDDEN: "other processes cannot be seen or signalled",
    Guarantee.PIDS_CAP: "the number of processes is capped",
    Guarantee.TOTAL_MEM_CAP: "memory of all its processes together is capped",
    Guarantee.OWN_ROOT: "it has a file tree of its own",
    Guarantee.IMAGE_ROOT: "its file tree is an image",
    Guarantee.OWN_UID: "it runs as a user of its own",
    Guarantee.PRIVATE_KERNEL: "it has a kernel of its own",
}


def probe_tier(tier: Tier) -> Probe:
    """What this machine proves of a tier.  Raises ``TierUnavailable`` where no backend serves it."""
    import anyio

    from fastness.backends import registry

    async def ask() -> Probe:
        backend = registry.make(tier)
        try:
            return await backend.probe(afresh=True)
        finally:
            await backend.aclose()

    return anyio.run(ask)


def probe_all(only: tuple[str, ...] = ()) -> dict[str, Probe]:
    """
    Probes of every tier that this version knows, or of those in ``only``.

    One that no backend serves has its reason as a failure.
    """
    found = {}
    for tier in [Tier.parse(name) for name in only] or Tier:
        if tier is Tier.MEDIATED:
            continue
        try:
            found[tier.value] = probe_tier(tier)
        except TierUnavailable as error:
            found[tier.value] = Probe(backend="", tier=tier.value, failures=error.failures)
        except FastnessError as error:
            failure = ProbeFailure(guarantee="all", cause=str(error), remedy="see the cause")
            found[tier.value] = Probe(backend="", tier=tier.value, failures=(failure,))
    return found


def probe_table(probe: Probe) -> Any:
    """One row for each guarantee: proven how, or missing why."""
    proofs = {proof.guarantee: proof for proof in probe.proofs}
    promised = {guarantee.value for guarantee in Tier(probe.tier).guarantees}
    shown = table("", "guarantee", "kept by", "proof, or cause and fix", wrap=("kept by", "proof, or cause and fix"))
    for guarantee in PROMISES:
        name = guarantee.value
        for failure in probe.failures:
            if failure.guarantee == name:
                shown.add_row("NO", name, "", f"{failure.cause}.  Fix: {failure.remedy}")
        if name in probe.guarantees:
            proof = proofs.get(name)
            layer = probe.layers.get(name, proof.mechanism if proof else "")
            mark = "yes" if name in promised else "extra"
            shown.add_row(mark, name, layer, proof.observed if proof else "")
        elif (
            name in promised
            and (probe.guarantees or not probe.failures)
            and all(failure.guarantee not in (name, "all") for failure in probe.failures)
        ):
            shown.add_row("NO", name, "", "not proven here")
    for failure in probe.failures:
        if failure.guarantee not in {guarantee.value for guarantee in PROMISES}:
            shown.add_row("NO", failure.guarantee, "", f"{failure.cause}.  Fix: {failure.remedy}")
    if probe.failures and not probe.guarantees and all(failure.guarantee != "all" for failure in probe.failures):
        # What stands in the way of everything is not to be looked for among what it stands in the way of.
        shown.add_row("NO", "everything else", "", "not tried: see above")
    return shown


def in_lines(note: str) -> str:
    """
    A note of a probe in lines of at most 80 columns where that can be.

    Its fix has lines of its own, and in what may be a command they end where a shell lets them.
    """
    text, found, fix = note.partition(" Fix: ")
    lines = textwrap.wrap(text, 78, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    if found:
        whole = re.sub(r"(?<![;:]) ", "\0", f"Fix: {fix}") if ";" in fix else f"Fix: {fix}"
        lines += (
            line.replace("\0", " ")
            for line in textwrap.wrap(
                whole, 78, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
        )
    return "\n".join(visible(line) for line in lines)


def check(tier: str) -> str:
    """The command that tries a tier again."""
    return f"fastness doctor --tier {tier}"


def doctor(*, tiers: tuple[str, ...] = (), as_json: bool, sweep: bool) -> int:
    """Show what holds here.  Exit code 3 where the default tier does not, or one of ``tiers``, where there are any."""
    from fastness.backends import registry
    from fastness.backends.local import allowed
    from fastness.cli import doctor_warnings
    from fastness.plugins.phases import stuck

    swept = _sweep() if sweep else None
    hung = stuck()
    default = registry.resolve(None, dict(os.environ))
    probes = probe_all(tiers)
    wanted = [tier.value for tier in registry.AUTO] if default == "auto" else [default]
    lacking = [name for name, probe in probes.items() if not probe.holds]
    good = not lacking if tiers else any(probes[name].holds for name in wanted if name in probes)
    warned = doctor_warnings.warnings(probes)
    if as_json:
        each = {
            name: {**msgspec.to_builtins(probe), "holds": probe.holds, "check": check(name)}
            for name, probe in probes.items()
        }
        body: dict[str, Any] = {
            "schema": 1,
            "default": default,
            "default_holds": good if not tiers else (probes[default].holds if default in probes else None),
            "unsandboxed_allowed": allowed(),
            "stuck_plugins": msgspec.to_builtins(hung),
            "tiers": each,
            "warnings": msgspec.to_builtins(warned),
        }
        if swept is not None:
            body["swept"] = swept
        say(msgspec.json.encode(body).decode())
        return exits.OK if good else exits.UNAVAILABLE
    console = stdout_console()
    for name, probe in probes.items():
        if probe.backend:
            mark = "holds" if probe.holds else "does NOT hold"
            default_mark = ", the default" if name == default else ""
            console.print(f"tier {name}{default_mark}: {mark} (backend {probe.backend}, {probe.micros / 1e6:.2f} s)")
            console.print(probe_table(probe))
            if not probe.holds:
                say(f"Check again: {check(name)}")
            for note in probe.notes:
                say(in_lines(note))
            if probe.versions:
                console.print("versions: " + ", ".join(f"{k} {v}" for k, v in probe.versions.items()) + "\n")
    absent = [name for name, probe in probes.items() if not probe.backend]
    if absent:
        console.print(f"without a backend in this version: {', '.join(absent)}")
    if swept is not None:
        console.print(f"swept: {', '.join(swept) or 'nothing was left behind'}")
    for plugin in hung:
        err(
            f"plugin {plugin.plugin!r} is dead: its {plugin.phase} is past its time and goes on in thread "
            f"{plugin.thread} of process {plugin.process}, where nothing can end it.  Fix: end that process, and give "
            "the plugin a real tier"
        )
    for one in warned:
        err(doctor_warnings.words(one))
    say(f"holds here: {', '.join(name for name in probes if name not in lacking) or 'nothing'}")
    if lacking:
        say(f"does not hold here: {', '.join(lacking)}")
    if tiers and lacking:
        err(f"{', '.join(lacking)} does not hold here: nothing would run in it")
    elif not good:
        err(f"the default tier {default!r} does not hold here: nothing would run")
    return exits.OK if good else exits.UNAVAILABLE


def _sweep_containers() -> list[str]:
    """Remove containers of dead processes, where there is an engine."""
    from fastness._container import containers
    from fastness._container.faults import EngineFault
    from fastness._container.probe import reach

    try:
        gone = containers.sweep(reach(os.environ))
    except EngineFault as fault:
        # Without an engine there are none; with one that does not answer nobody knows.
        return [] if fault.kind == "absent" else [f"NOT containers: {visible(fault.cause)}"]
    return [f"{len(gone)} container{'s' if len(gone) > 1 else ''} of processes that had ended"] if gone else []


def _sweep() -> list[str]:
    """
    Remove what killed processes of ours left: in the cache, in the runtime folder with their guests' control groups,
    and half applied in a project.  Returns what was done, in words.
    """
    from fastness import runtime
    from fastness._wasi.cache import Cache
    from fastness.attack import arena
    from fastness.runner import journal

    done = []
    freed = Cache().sweep()
    if freed:
        done.append(f"{freed} bytes of half-made cache entries")
    for what, found in (("control groups", runtime.sweep_groups()), ("folders", runtime.sweep())):
        if found:
            done.append(f"{what} of {len(found)} process{'es' if len(found) > 1 else ''} that had ended")
    left = arena.sweep()
    if left:
        done.append(f"{left} folder{'s' if left > 1 else ''} of attacks that were ended")
    done.extend(_sweep_containers())
    for folder, plan in journal.unfinished():
        try:
            kept = journal.recover(folder)
        except FastnessError as error:
            done.append(f"NOT the unfinished changes to {visible(folder)}: {visible(str(error))}")
            continue
        if kept is None:
            if os.path.lexists(plan):
                # Kept: the folder may come back, with the disk that it is on.
                done.append(
                    f"NOT the unfinished changes to {visible(folder)}: it is gone, or another folder is in its place. "
                    f"Put it back, or remove {visible(plan)}"
                )
            continue
        done.append(f"unfinished changes to {visible(folder)}")
        done.extend(f"but not {visible(text)}" for text in kept)
    return done
