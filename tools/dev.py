#!/usr/bin/env python3
"""
Sets this checkout up and runs things in it; needs nothing but Python 3.11 or later.

    python3 tools/dev.py demo     set up, then run the demo
    python3 tools/dev.py test     set up, build the guests, then run all tests (further arguments go to pytest)
    python3 tools/dev.py lint     set up, then run ruff, mypy and import-linter
    python3 tools/dev.py bench    set up, then run the benchmarks
    python3 tools/dev.py fuzz     set up, with a fuzzer where there is one for this Python, then fuzz what parses
    python3 tools/dev.py setup    only set up
    python3 tools/dev.py lock     make requirements/*.txt again (--upgrade moves to newer versions)

Everything goes into .venv in this folder.  What is already done is not done again.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = ROOT / "requirements"
OLDEST = (3, 11)

#: What each profile installs.  Every lock is complete in itself, so nothing else is ever resolved.
PROFILES = {"run": ("run.txt", "demo.txt"), "dev": ("dev.txt", "demo.txt")}


class SetupFailed(Exception):
    """Set-up cannot go on; the message says what failed and what to do."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ------------------------------------------------------------------------------------------------------------ set-up


def digest(profile: str) -> str:
    """Changes whenever an installed environment of this profile would be different."""
    state = hashlib.sha256(f"{ROOT}\n{sys.version_info[:2]}\n".encode())
    for path in (*(LOCKS / name for name in PROFILES[profile]), ROOT / "pyproject.toml"):
        state.update(path.read_bytes())
    return state.hexdigest()


def stamp(profile: str) -> Path:
    return VENV / f".ready-{profile}"


def ready(profile: str) -> bool:
    """Whether nothing is left to do.  The larger profile serves for the smaller one."""
    for candidate in (profile, "dev"):
        try:
            if stamp(candidate).read_text() == digest(candidate) and PYTHON.exists():
                return True
        except OSError:
            continue
    return False


def setup(profile: str) -> None:
    """Make .venv and install the locked requirements and this checkout into it."""
    if ready(profile):
        compile_sources()
        return
    began = time.monotonic()
    pip = make_environment()
    for name in PROFILES[profile]:
        install(pip, name)
    say("set-up: installing this checkout")
    run_quietly(
        [*pip, "install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT)],
        "installing this checkout",
    )
    compile_sources()
    stamp(profile).write_text(digest(profile))
    say(f"set-up: done in {time.monotonic() - began:.0f} s")


def compile_sources() -> None:
    """
    Keep this checkout's bytecode, as an installed package has it; where it cannot be written, everything works without.

    The first process of a zygote writes none, and would compile what it imports at each start.
    """
    folder = str(ROOT / "src" / "fastness")
    subprocess.run([PYTHON, "-m", "compileall", "-q", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_environment() -> list[str]:
    """Make .venv where it is missing or broken; returns the command that is its pip."""
    if VENV.exists() and not works():
        say("set-up: .venv does not work on this machine and is made again")
        shutil.rmtree(VENV)
    if not VENV.exists():
        say(f"set-up: making .venv with Python {sys.version.split()[0]}")
        if importlib.util.find_spec("ensurepip") is None and importlib.util.find_spec("pip") is None:
            install_venv_package()
        with_pip = [] if has_ensurepip() else ["--without-pip"]
        run_quietly([sys.executable, "-m", "venv", *with_pip, str(VENV)], "making .venv")
    if subprocess.run([PYTHON, "-c", "import pip"], capture_output=True).returncode == 0:
        return [str(PYTHON), "-m", "pip"]
    return [sys.executable, "-m", "pip", "--python", str(PYTHON)]


def works() -> bool:
    """Whether .venv has an interpreter that starts and is new enough."""
    try:
        code = f"import sys; sys.exit(sys.version_info < {OLDEST})"
        return subprocess.run([PYTHON, "-c", code], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def has_ensurepip() -> bool:
    """Asked of a new process: the answer may have changed since this one started."""
    return subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True).returncode == 0


def install_venv_package() -> None:
    """Debian ships Python without the means to make an environment; they are in a package of their own."""
    package = f"python3.{sys.version_info[1]}-venv"
    by_hand = f"apt-get update && apt-get install -y {package}"
    missing = f"this Python has neither ensurepip nor pip; as root, run: {by_hand}"
    if shutil.which("apt-get") is None:
        raise SetupFailed(
            f"this Python has neither ensurepip nor pip; install the package that has its venv ({package})"
        )
    prefix: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], capture_output=True).returncode:
            raise SetupFailed(missing)
        prefix = ["sudo", "-n"]
    say(f"set-up: installing {package}")
    get = [*prefix, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    command = [*get, "install", "-y", "--no-install-recommends", package]
    if subprocess.run(command, capture_output=True).returncode:
        run_quietly([*get, "update"], "apt-get update")
        run_quietly(command, f"installing {package}")
    if not has_ensurepip():
        raise SetupFailed(missing)


def install(pip: list[str], lock: str, *options: str) -> None:
    """Install one lock, showing each package as it comes; ``options`` are pip's."""
    path = LOCKS / lock
    total = sum(1 for line in path.read_text().splitlines() if line[:1].isalnum())
    command = [*pip, "install", "--no-deps", "--require-hashes", "--progress-bar", "off", "--no-input", *options]
    command += ["-r", str(path)]
    kept: list[str] = []
    seen = 0
    shown = 0.0
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            kept = [*kept[-39:], line.rstrip()]
            if line.startswith(("Collecting ", "Requirement already satisfied: ")):
                seen += 1
            elif not line.startswith("Installing collected"):
                continue
            what = line.split("==")[0].split(":")[-1].replace("Collecting", "").strip()
            if line.startswith("Installing collected"):
                what = "unpacking"
            if sys.stderr.isatty():
                print(f"\r\033[Kset-up: {lock} {seen}/{total} {what}", end="", file=sys.stderr, flush=True)
            elif time.monotonic() - shown > 5 or what == "unpacking":
                shown = time.monotonic()
                say(f"set-up: {lock} {seen}/{total} {what}")
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    if process.returncode:
        raise SetupFailed(
            f"installing {lock} failed:\n  "
            + "\n  ".join(kept)
            + "\nA package index must be reachable, and pip must be "
            "set to use it; then run the same command again: it goes on where it stopped."
        )
    say(f"set-up: {lock}: {total} packages in {time.monotonic() - began:.0f} s")


def run_quietly(command: list[str], what: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise SetupFailed(f"{what} failed:\n  " + "\n  ".join(done.stdout.splitlines()[-30:]))


# ---------------------------------------------------------------------------------------------------------- commands


def call(*command: str) -> int:
    """Run a program of the environment in the checkout; returns its exit code."""
    path = f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    try:
        return subprocess.run(
            [str(VENV / "bin" / command[0]), *command[1:]], cwd=ROOT, env={**os.environ, "PATH": path}
        ).returncode
    except KeyboardInterrupt:
        return 130


def demo(arguments: list[str]) -> int:
    setup("run")
    return call("python", str(ROOT / "examples" / "demo" / "demo.py"), *arguments)


def test(arguments: list[str]) -> int:
    setup("dev")
    return call("fastness", "guest", "build") or call("python", "-m", "pytest", *arguments)


def lint(arguments: list[str]) -> int:
    setup("dev")
    checks = (("ruff", "check", *arguments), ("ruff", "format", "--check"), ("mypy",), ("lint-imports", "--no-cache"))
    return max(call(*check) for check in checks)


def bench(arguments: list[str]) -> int:
    setup("dev")
    return call("fastness", "bench", *arguments)


def fuzz(arguments: list[str]) -> int:
    setup("dev")
    if subprocess.run([PYTHON, "-c", "import atheris"], capture_output=True).returncode:
        try:
            # Built from its sources it would need a compiler of its own; without it there are other inputs.
            install(make_environment(), "fuzz.txt", "--only-binary", ":all:")
        except SetupFailed as error:
            say(f"set-up: fuzzing goes on without the fuzzer: {error}")
    return call("python", str(ROOT / "tests" / "fuzz" / "run.py"), *arguments)


def only_setup(arguments: list[str]) -> int:
    setup(arguments[0] if arguments else "run")
    return 0


def lock(arguments: list[str]) -> int:
    setup("dev")
    uv = [
        "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate",
        "--no-header", "--no-emit-index-url", "--no-emit-find-links", *arguments,
    ]  # fmt: skip
    sources = ("pyproject.toml", "requirements/build.in")
    return (
        call("uv", *uv, *sources, "--extra", "all", "-o", "requirements/run.txt")
        or call("uv", *uv, *sources, "--extra", "dev", "-c", "requirements/run.txt", "-o", "requirements/dev.txt")
        or call("uv", *uv, "--no-deps", "requirements/demo.in", "-o", "requirements/demo.txt")
        or call("uv", *uv, "--no-deps", "requirements/fuzz.in", "-o", "requirements/fuzz.txt")
    )


COMMANDS = {"demo": demo, "test": test, "lint": lint, "bench": bench, "fuzz": fuzz, "setup": only_setup, "lock": lock}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] not in COMMANDS:
        print(__doc__)
        return 0 if arguments and arguments[0] in ("-h", "--help", "help") else 2
    if sys.version_info < OLDEST:
        for minor in range(15, OLDEST[1] - 1, -1):
            newer = shutil.which(f"python3.{minor}")
            if newer is not None:
                os.execv(newer, [newer, __file__, *arguments])
        say(f"Python 3.11 or later is needed; this is {sys.version.split()[0]}")
        return 2
    try:
        return COMMANDS[arguments[0]](arguments[1:])
    except SetupFailed as error:
        say(f"set-up: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
