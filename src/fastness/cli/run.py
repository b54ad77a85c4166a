"""
``fastness run``: from options to a request, and from a result to the terminal.
"""

from __future__ import annotations

import datetime
import math
import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from fastness.cli import exits
from fastness.cli.console import denial_table, err, outcome_line, say, size, stderr_console
from fastness.cli.output import Output
from fastness.cli.progress import BuildProgress
from fastness.errors import BackendError, ConfigurationError, StagingError
from fastness.limits import Limits, size_of
from fastness.runs import RunResult

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import FrameType

#: Bytes that are read from a pipe for a program or for standard input; the API's own caps are smaller.
_PIPE_CAP = 64 << 20
_ROOTS = ("", ".", "/", "/work", "work")


class Interrupted(Exception):
    """Ctrl-C while a guest was being built."""


def run(
    *,
    arguments: tuple[str, ...],
    code: str | None,
    stdin: str | None,
    out: str | None,
    as_json: bool,
    raw: bool,
    **options: Any,
) -> int:
    """Run one program.  Returns the exit code; raises ``FastnessError``."""
    if stdin == "-" and code is None and arguments[:1] == ("-",):
        raise ConfigurationError("--stdin", "-", "a file: standard input is the program here")
    request = _program(code, arguments, options["runtime"])
    request |= {name: options[name] for name in ("timeout", "memory", "seed", "image", "bind")}
    if request["memory"] is not None:
        request["memory"] = size_of("memory", request["memory"], "--memory")
    request["time"] = _time(options["clock"])
    request["env"] = variables(options["env"])
    if options["preload"] is not None:
        request["preload"] = [name for name in options["preload"].split(",") if name]
    if stdin is not None:
        request["stdin"] = read_stdin(stdin)
    limits = Limits()
    files, preopens = _folders(options["dirs"], _is_module(request), limits)
    for destination, path in _sources(options["files"]):
        if destination in files:
            raise StagingError(destination, "it is copied twice", "Give one of the two another destination.")
        files[destination] = path
    request["files"] = files
    request["preopens"] = preopens
    folder = _folder(out)
    result = execute(options["tier"], request, as_json=as_json, raw=raw)
    return _report(result, folder, as_json=as_json)


def execute(tier: str | None, request: dict[str, Any], *, as_json: bool, raw: bool) -> RunResult:
    """Run a request, with its output passed on as it comes.  Raises ``FastnessError`` or ``KeyboardInterrupt``."""
    from fastness.sync import Sandbox

    output = Output(raw=raw)
    stop = threading.Event()
    # One run: nothing is to be kept ready for the next.
    with BuildProgress() as building, Sandbox(tier=tier, pool=0) as box:

        def on_event(name: str, data: Any) -> None:
            if name in ("stdout", "stderr"):
                if not as_json and not output.write(name, data):
                    stop.set()
            elif name == "progress":
                if stop.is_set():
                    raise Interrupted
                building(data)

        with _Interrupts(box.cancel, stop):
            try:
                return box.run(**request, on_event=on_event)
            except Interrupted:
                raise KeyboardInterrupt from None
            finally:
                output.close()


class _Interrupts:
    """
    While it is entered, the first Ctrl-C or SIGTERM asks the run to end, so that what it did so far is kept and shown.

    A second one ends the command at once.  ``stop`` may also be set by others, with the same effect.
    """

    def __init__(self, cancel: Any, stop: threading.Event) -> None:
        self._cancel = cancel
        self._stop = stop
        self._done = threading.Event()
        self._before: dict[int, Any] = {}
        self._watcher = threading.Thread(target=self._watch, name="fastness-interrupts", daemon=True)

    def _watch(self) -> None:
        self._stop.wait()
        # A run that has not begun yet has nothing to cancel, so the question is put until there is an answer.
        while not self._done.is_set():
            self._cancel()
            self._done.wait(0.05)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._stop.is_set():
            raise KeyboardInterrupt
        self._stop.set()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        self._watcher.start()

    def __exit__(self, *exc: object) -> None:
        self._done.set()
        self._stop.set()
        self._watcher.join()
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _report(result: RunResult, folder: Path | None, *, as_json: bool) -> int:
    if as_json:
        # Before anything is saved: what a guest calls its files must not cost the caller the result.
        say(result.to_json())
    saved: list[Path] = []
    if folder is not None:
        try:
            saved = result.files.save(folder)
        except OSError as error:
            raise BackendError(
                f"saving {error.filename or folder}",
                error.strerror or error,
                "make the folder writable, or name another",
            ) from error
    if as_json:
        return exits.of_outcome(result.outcome.kind)
    if result.denials or result.usage.denials_dropped:
        stderr_console().print(denial_table(result.denials, result.usage.denials_dropped))
    if result.outcome.dropped_bytes:
        err(f"{size(result.outcome.dropped_bytes)} of output were shown and not kept in the result")
    if saved:
        err(f"saved {len(saved)} {'file' if len(saved) == 1 else 'files'} in {folder}")
    elif result.files and folder is None and sys.stderr.isatty():
        err(f"{len(result.files)} new or changed files in /work are gone; --out DIR keeps them")
    if not result.sandboxed:
        err("this run was NOT sandboxed")
    if not result.ok:
        err(outcome_line(result))
    return exits.of_outcome(result.outcome.kind)


# options


def _program(code: str | None, arguments: tuple[str, ...], runtime: str | None) -> dict[str, Any]:
    """The program and its arguments, as the API names them."""
    if code is not None:
        return {"code": code, "runtime": runtime, "args": arguments}
    if not arguments:
        raise ConfigurationError("FILE", None, "a file, - for standard input, or -c CODE")
    name, args = arguments[0], arguments[1:]
    if name != "-":
        return {"entry": name, "runtime": runtime, "args": args}
    data = sys.stdin.buffer.read(_PIPE_CAP + 1)
    if len(data) > _PIPE_CAP:
        raise StagingError("standard input", f"the program is larger than {size(_PIPE_CAP)}", "Give a smaller one.")
    if runtime == "wasi" or (runtime is None and data.startswith(b"\0asm")):
        return {"module": data, "args": args}
    try:
        return {"code": data.decode("utf-8"), "runtime": runtime, "args": args}
    except UnicodeDecodeError as error:
        raise ConfigurationError("-", f"a byte that is not UTF-8 at {error.start}", "a program in UTF-8") from None


def _is_module(request: dict[str, Any]) -> bool:
    entry = request.get("entry")
    by_name = isinstance(entry, str) and entry.lower().endswith(".wasm") and request["runtime"] is None
    return by_name or request.get("runtime") == "wasi" or "module" in request


def _sources(given: Iterable[str]) -> Iterable[tuple[str, Path]]:
    """Destination and host path of each ``SRC[:DST]``; a source whose own name has a colon is found as it is."""
    for text in given:
        from pathlib import Path

        source, separator, destination = text.rpartition(":")
        if not separator or not source or os.path.lexists(text):
            source, destination = text, os.path.basename(text)
        destination = destination.removeprefix("/work/")
        yield destination, Path(source)


def _folders(given: Iterable[str], module: bool, limits: Limits) -> tuple[dict[str, Any], list[str] | None]:
    """Files of every ``HOST:GUEST`` by their path below /work, and the guest names where the program is a module."""
    from fastness.runner.staging import stage_folder

    files: dict[str, Any] = {}
    names: list[str] = []
    room, count = limits.file_bytes, limits.files
    for text in given:
        host, separator, name = text.rpartition(":")
        if not separator or not host or not name:
            raise ConfigurationError("--dir", text, "HOST:GUEST, such as data:/work/data")
        inside = "" if name in _ROOTS else name.removeprefix("/work/").strip("/").removeprefix("./")
        if not module and name.startswith("/") and name not in ("/", "/work") and not name.startswith("/work/"):
            raise ConfigurationError("--dir", name, "a place below /work, for programs in Python and JavaScript")
        staged = stage_folder(host, max_bytes=room, max_files=count)
        room -= sum(len(data) for data in staged.values())
        count -= len(staged)
        for path, data in staged.items():
            destination = f"{inside}/{path}" if inside else path
            if destination in files:
                raise StagingError(destination, "it is copied twice", "Give one of the two another destination.")
            files[destination] = data
        names.append(name)
    return files, names if names and module else None


def variables(given: Iterable[str]) -> dict[str, str]:
    """Variables of every ``NAME=VALUE``.  Raises ConfigurationError."""
    found: dict[str, str] = {}
    for text in given:
        name, separator, value = text.partition("=")
        if not separator:
            raise ConfigurationError("--env", text, "NAME=VALUE; nothing is taken from this environment")
        found[name] = value
    return found


def _time(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.datetime.fromisoformat(text)
        except ValueError:
            raise ConfigurationError("--time", text, "seconds since 1970, or a time such as 2026-01-31T12:00") from None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=datetime.UTC)
        return moment.timestamp()
    if not math.isfinite(seconds):
        raise ConfigurationError("--time", text, "a finite number of seconds")
    return seconds


def read_stdin(name: str) -> bytes:
    """The content of a file, or of our own standard input for ``-``.  Raises StagingError."""
    if name == "-":
        return sys.stdin.buffer.read(_PIPE_CAP + 1)
    from fastness.runner.staging import read_file

    return read_file(name, _PIPE_CAP, cap="that standard input may have", fix="Stage it as a file instead.")


def _folder(out: str | None) -> Path | None:
    """The folder for files, made now: better to fail before the run than after it."""
    if out is None:
        return None
    from pathlib import Path

    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError("--out", out, f"a folder that can be made ({error.strerror})") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigurationError("--out", out, "a folder that this user may write to")
    return folder
