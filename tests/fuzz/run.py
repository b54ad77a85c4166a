"""
Fuzzes what parses data of guests, one target after the other.

``python tests/fuzz/run.py [TARGET...]`` gives each target FASTNESS_FUZZ_SECONDS, 60 where that is not set, in a process
of its own, and shows how far it is.  Where atheris is installed (``python3 tools/dev.py fuzz`` does that where it can
be) it is guided by what each input reaches; elsewhere hypothesis makes the inputs, and it says so.  Ends with 1 where
something did not hold, and shows the input; ``--input HEX`` tries one again.  Not a test of its own: the ordinary suite
runs the same targets with few inputs, in ``tests/unit/test_fuzz_targets.py``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# The checkout's own package, and what tests share.
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parents[1] / "src")]

import fuzzing  # noqa: E402  # found by the line above

NAMES = tuple(sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py")))
#: Packages whose branches guide the fuzzer: ours, and parsers in Python that stand behind it.
WATCHED = ("fastness", "idna", "tomllib")
#: Seconds of one input, beyond which it has no end; and megabytes of a whole process.
INPUT_S, PROCESS_MB = 60, 1024
#: Inputs between two looks at the clock, where hypothesis makes them.
ROUND = 500
#: One of so many inputs has its memory measured; the process has a bound all the time.
MEASURED_EACH = 8
#: Seconds between two lines of progress where nobody watches, and beyond its time that a target gets to end.
EVERY_S, GRACE_S = 10.0, 90.0

_PROGRESS = re.compile(r"#(\d+)\s.*?cov: (\d+) ft: (\d+) corp: (\d+)")
_MADE = "fastness-fuzz:"
#: What lines begin with that give no reason of a failure.
_NO_REASONS = ("#", _MADE, "INFO: ", "WARNING: Failed to find function", "stat::", "\tNEW_FUNC")


@dataclass
class Went:
    """How one target went: what it was run by, how many inputs it had, what they reached, and the one that failed."""

    name: str
    engine: str
    count: int = 0
    edges: int = 0
    features: int = 0
    corpus: int = 0
    seconds: float = 0.0
    bad: bytes | None = None
    failed: bool = False
    told: str = ""

    def row(self) -> str:
        reached = f"{self.edges} edges, {self.features} features, {self.corpus} kept" if self.edges else "not measured"
        per_s = self.count / self.seconds if self.seconds else 0
        state = "FAILED" if self.failed else "holds"
        return f"{self.name:<9} {state:<7} {self.engine:<11} {self.count:>9} inputs {per_s:>7.0f}/s   {reached}"


def load(name: str) -> fuzzing.Target:
    target: fuzzing.Target = importlib.import_module(f"fuzz_{name}").TARGET
    return target


# ------------------------------------------------------------------------------------------------ in a target's process


def guided(name: str, seconds: int, folder: Path) -> None:
    """Does not return: the fuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=list(WATCHED)):
        target = load(name)
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(seed[: target.most])
    options = [
        f"-max_total_time={seconds}", f"-max_len={target.most}", f"-timeout={INPUT_S}", f"-rss_limit_mb={PROCESS_MB}",
        f"-artifact_prefix={folder}/found-", "-print_final_stats=1", str(corpus),
    ]  # fmt: skip
    if target.words:
        words = folder / "words"
        quoted = ("".join(f"\\x{byte:02x}" for byte in word) for word in target.words)
        words.write_text("".join(f'"{word}"\n' for word in quoted))
        options.insert(0, f"-dict={words}")
    atheris.Setup([sys.argv[0], *options], target.judge)
    atheris.Fuzz()


def by_examples(name: str, seconds: int, folder: Path) -> None:
    """With hypothesis: rounds of examples until the time is over, each from another beginning."""
    import hypothesis
    from hypothesis import HealthCheck, Phase, given, settings

    target = load(name)
    last, count, ends = b"", 0, time.monotonic() + seconds

    @settings(
        max_examples=ROUND, deadline=None, database=None, suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
    )  # fmt: skip
    @given(fuzzing.mutated(target))
    def holds(data: bytes) -> None:
        nonlocal last, count
        last, count = data, count + 1
        target.judge(data)

    beginning = 0
    try:
        for seed in target.seeds():
            last, count = seed, count + 1
            target.judge(seed)
        while time.monotonic() < ends:
            beginning += 1
            hypothesis.seed(beginning)(holds)()
            print(f"{_MADE} {count}", file=sys.stderr, flush=True)
    except BaseException:
        # The last one that hypothesis tries is the smallest that fails.
        (folder / "found-example").write_bytes(last)
        raise
    finally:
        print(f"{_MADE} {count}", file=sys.stderr, flush=True)


# ---------------------------------------------------------------------------------------------------- around all of them


def run(name: str, engine: str, seconds: int) -> Went:
    """One target in a process of its own, with its progress shown."""
    went = Went(name, engine)
    folder = fuzzing.place("ing")
    command = [sys.executable, __file__, "--child", engine, "--seconds", str(seconds), "--folder", str(folder), name]
    began = shown = time.monotonic()
    kept: list[str] = []
    try:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace",
        ) as child:  # fmt: skip
            assert child.stdout is not None
            for line in child.stdout:
                read(line, went)
                kept = kept if line.startswith(_NO_REASONS) else [*kept[-59:], line.rstrip()]
                now = time.monotonic()
                if now - shown > (0.5 if sys.stderr.isatty() else EVERY_S):
                    shown = now
                    show(went, now - began, seconds)
                if now - began > seconds + INPUT_S + GRACE_S:
                    kept.append(f"it did not end in {seconds + INPUT_S + GRACE_S:.0f} seconds")
                    child.kill()
        went.failed = child.returncode != 0
        found = sorted(folder.glob("found-*"))
        went.bad = found[0].read_bytes() if found else None
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    went.seconds = time.monotonic() - began
    went.told = "\n".join(kept)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    return went


def read(line: str, went: Went) -> None:
    """What a line of a target's process says of how far it is."""
    found = _PROGRESS.match(line)
    if found is not None:
        went.count, went.edges, went.features, went.corpus = map(int, found.groups())
    elif line.startswith(_MADE):
        went.count = int(line.removeprefix(_MADE))
    elif line.startswith("stat::number_of_executed_units:"):
        went.count = int(line.rsplit(maxsplit=1)[-1])


def show(went: Went, passed: float, seconds: int) -> None:
    text = f"{went.name}: {passed:.0f} of {seconds} s, {went.count} inputs"
    text += f", {went.edges} edges" if went.edges else ""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def failure(went: Went) -> str:
    """What a reader needs to see it again."""
    text = "\n".join(f"    {line}" for line in went.told.splitlines()[-40:])
    if went.bad is None:
        return f"{went.name}: its process failed, and left no input\n{text}"
    again = f"python tests/fuzz/run.py {went.name} --input {went.bad.hex() or repr('')}"
    return f"{went.name}: this does not hold: {load(went.name).says}\n{text}\n  input: {went.bad!r}\n  again: {again}"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Fuzz what parses data of guests.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}; all where none is named")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FASTNESS_FUZZ_SECONDS", "60")), metavar="N")
    parser.add_argument("--engine", choices=("atheris", "hypothesis"), help="what makes the inputs")
    parser.add_argument("--input", metavar="HEX", help="try this one input of one target")
    parser.add_argument("--child", choices=("atheris", "hypothesis"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given: Any = parser.parse_args(arguments)
    unknown = sorted(set(given.targets) - set(NAMES))
    if unknown:
        parser.error(f"no such target: {', '.join(unknown)}")
    if given.seconds < 1 or (given.input is not None and len(given.targets) != 1):
        parser.error("a second at least, and one target for an input")
    names = given.targets or list(NAMES)
    if given.child:
        # The fuzzer ends its process without a word to anybody, so what lies in here is removed by who made it.
        fuzzing.measured_each, fuzzing.above = MEASURED_EACH, given.folder
        (guided if given.child == "atheris" else by_examples)(names[0], given.seconds, given.folder)
        return 0
    if given.input is not None:
        load(names[0]).judge(bytes.fromhex(given.input))
        print("it holds")
        return 0
    engine = given.engine or ("atheris" if importlib.util.find_spec("atheris") else "hypothesis")
    if engine == "atheris":
        print(f"inputs by atheris {importlib.metadata.version('atheris')}, guided by what they reach")
    else:
        why = "" if given.engine else "atheris is not installed: "
        print(f"{why}inputs by hypothesis {importlib.metadata.version('hypothesis')}, not guided by what they reach")
    print(f"{len(names)} targets, {given.seconds} s each", flush=True)
    went = []
    for name in names:
        went.append(run(name, engine, given.seconds))
        print(went[-1].row(), flush=True)
        if went[-1].failed:
            print(failure(went[-1]), flush=True)
    failed = [one.name for one in went if one.failed]
    ending = f"FAILED: {', '.join(failed)}" if failed else "all hold"
    print(f"{sum(one.count for one in went)} inputs by {engine}; {ending}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
