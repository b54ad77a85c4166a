"""
From what a caller wrote to a checked :class:`RunRequest`.

Every mistake names the field, what was given and what would be accepted; nothing has run by then.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from fastness import environment
from fastness.errors import ConfigurationError, StagingError, meant
from fastness.limits import Limits, size_of
from fastness.runs import RunRequest

RUNTIMES = ("python", "javascript", "wasi", "command")
#: Bytes of source text that one run may have.
CODE_CAP = 12 << 20
#: Bytes of standard input that one run may have.
STDIN_CAP = 3 << 20
_TEXTS_CAP = 512 << 10
_DEFAULT_LIMITS = Limits()
#: Bytes that arguments, variables and names may take together as JSON; the wire's head takes 1 MiB with all else.
_HEAD_CAP = 960 << 10
_ENTRY_SUFFIX = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".wasm": "wasi"}

#: Names that callers may pass to ``run``.
OPTIONS = (
    "entry", "module", "command", "runtime", "tier", "args", "env", "stdin", "files", "work", "include", "preload",
    "packages", "preopens", "image", "bind", "tenant", "limits", "timeout", "memory", "seed", "time", "deadline",
    "fresh", "filename", "on_event", "functions",
)  # fmt: skip
#: Those that mean nothing to a command.
_OF_SOURCE = ("args", "preload", "packages", "preopens", "seed", "filename", "functions")


def make(code: Any, options: Mapping[str, Any], defaults: Mapping[str, Any]) -> RunRequest:
    """
    A request from the arguments of one call over the sandbox's defaults.  Raises ConfigurationError.
    """
    merged: dict[str, Any] = {**defaults, **{name: value for name, value in options.items() if value is not None}}
    unknown = sorted(set(merged) - set(OPTIONS))
    if unknown:
        raise ConfigurationError(
            unknown[0], merged[unknown[0]], f"one of {', '.join(OPTIONS)}{meant(unknown[0], OPTIONS)}"
        )
    fields: dict[str, Any] = {"limits": _limits(options, _limits(defaults, Limits()))}
    fields.update(_what(code, merged))
    if fields["runtime"] == "command":
        # The sandbox's own defaults may be meant for its other runs.
        for name in _OF_SOURCE:
            if options.get(name) is not None and options[name] not in ((), [], "", {}):
                raise ConfigurationError(
                    name, options[name], "runs of source text: a command is all that there is to it"
                )
    fields["args"] = _texts("args", merged.get("args", ()))
    fields["env"] = _env(merged.get("env", {}))
    fields["stdin"] = _stdin(merged.get("stdin", b""))
    fields["files"] = _files(merged.get("files", {}))
    if merged.get("preload") is not None:
        fields["preload"] = _texts("preload", merged["preload"])
    if merged.get("preopens") is not None:
        fields["preopens"] = _preopens(merged["preopens"])
    fields["tenant"] = _tenant(merged.get("tenant", "default"))
    fields["seed"] = _seed(merged.get("seed"))
    fields["time"] = _time(merged.get("time"))
    fields["deadline"] = _deadline(merged.get("deadline"))
    fields["fresh"] = _flag("fresh", merged.get("fresh", False))
    fields["filename"] = _filename(merged.get("filename") or fields.pop("_filename", ""))
    fields.pop("_filename", None)
    _check_head(fields)
    fields.update(_work(merged, fields["runtime"]))
    if merged.get("packages") is not None:
        fields["packages"] = _texts("packages", merged["packages"])
    fields["image"] = _image(merged.get("image"))
    on_event = merged.get("on_event")
    if on_event is not None and not callable(on_event):
        raise ConfigurationError("on_event", on_event, "a callable taking (name, data)")
    fields["on_event"] = on_event
    fields["functions"] = _functions(merged, fields["runtime"])
    return RunRequest(**fields)


def with_functions(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for more than one request, with the host's functions looked at once.  Raises ConfigurationError."""
    found = dict(options)
    if found.get("functions") is not None:
        found["functions"] = _looked_at(found["functions"])
    return found


def _looked_at(given: Any) -> Any:
    from fastness.broker.functions import Functions

    return given if isinstance(given, Functions) else Functions(given)


def _functions(merged: Mapping[str, Any], runtime: str) -> Any:
    """What of the host a guest may call; None where it is nothing.  Raises ConfigurationError."""
    given = merged.get("functions")
    if given is None or runtime == "command":
        return None
    made = _looked_at(given)
    return made if made.names else None


def _what(code: Any, merged: Mapping[str, Any]) -> dict[str, Any]:
    """Exactly one of code, entry, module and command, and the runtime that goes with it."""
    given = {
        "code": code,
        "entry": merged.get("entry"),
        "module": merged.get("module"),
        "command": merged.get("command"),
    }
    present = [name for name, value in given.items() if value is not None]
    if len(present) != 1:
        raise ConfigurationError("code", ", ".join(present) or None, "exactly one of code, entry, module and command")
    what = present[0]
    runtime = merged.get("runtime")
    if runtime is not None and runtime not in RUNTIMES:
        raise ConfigurationError("runtime", runtime, ", ".join(RUNTIMES) + meant(runtime, RUNTIMES))
    if what == "command":
        if runtime not in (None, "command"):
            raise ConfigurationError("runtime", runtime, "command, where a command is given")
        command = _texts("command", given["command"])
        if not command or not command[0]:
            raise ConfigurationError("command", given["command"], "a list of texts: a program and its arguments")
        return {"command": command, "runtime": "command"}
    if what == "module":
        if runtime not in (None, "wasi"):
            raise ConfigurationError("runtime", runtime, "wasi, where a module is given")
        if not isinstance(given["module"], (bytes, bytearray)):
            raise ConfigurationError("module", type(given["module"]).__name__, "the bytes of a WebAssembly module")
        return {"module": bytes(given["module"]), "runtime": "wasi"}
    if what == "entry":
        return _entry(given["entry"], runtime)
    if runtime in ("wasi", "command"):
        raise ConfigurationError("runtime", runtime, "python or javascript, where code is given")
    return {"code": _code(code), "runtime": runtime or "python"}


def _entry(entry: Any, runtime: str | None) -> dict[str, Any]:
    """A host file whose content is the code or the module."""
    from pathlib import Path

    from fastness.runner.staging import read_file

    if not isinstance(entry, (str, os.PathLike)) or not isinstance(os.fspath(entry), str):
        raise ConfigurationError("entry", entry, "the path of a file")
    path = Path(entry)
    runtime = runtime or _ENTRY_SUFFIX.get(path.suffix.lower())
    if runtime is None:
        raise ConfigurationError(
            "entry", str(path), "a file that ends in .py, .js, .mjs or .wasm, or a runtime beside it"
        )
    data = read_file(path, 64 << 20, cap="that a program may have", fix="Give a smaller one.")
    name = path.name if path.name.isprintable() else ""
    if runtime == "wasi":
        return {"module": data, "runtime": "wasi", "_filename": name}
    try:
        # A mark at the start of a file says how it is encoded and is no part of the source.
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError("entry", str(path), "a file in UTF-8") from None
    return {"code": _code(text), "runtime": runtime, "_filename": name}


def with_code(base: RunRequest, code: Any) -> RunRequest:
    """The request of a call that says nothing but its code, over checked defaults.  Raises ConfigurationError."""
    made: RunRequest = msgspec.structs.replace(base, code=_code(code))
    return made


def _code(code: Any) -> str:
    if not isinstance(code, str):
        raise ConfigurationError("code", type(code).__name__, "source text as str")
    if len(code) > CODE_CAP:
        raise ConfigurationError("code", f"{len(code)} characters", f"at most {CODE_CAP} bytes")
    if code.isascii():
        return code
    try:
        size = len(code.encode("utf-8"))
    except UnicodeEncodeError as error:
        where = f"a lone surrogate at character {error.start}"
        raise ConfigurationError("code", where, "text that UTF-8 can carry") from None
    if size > CODE_CAP:
        raise ConfigurationError("code", f"{size} bytes", f"at most {CODE_CAP} bytes")
    return code


def _limits(given: Mapping[str, Any], limits: Limits) -> Limits:
    """
    ``limits`` with what one layer of settings (the sandbox's, then the call's) changes.

    A dict changes the fields that it names and keeps the others; a ``Limits`` names them all.
    """
    changes: dict[str, Any] = {}
    named = given.get("limits")
    if isinstance(named, Limits):
        limits = named
    elif isinstance(named, Mapping):
        unknown = sorted(set(named) - set(Limits.__struct_fields__), key=str)
        if unknown:
            raise ConfigurationError(f"limits.{unknown[0]}", named[unknown[0]], ", ".join(Limits.__struct_fields__))
        changes.update(named)
    elif named is not None:
        raise ConfigurationError("limits", named, "a fastness.Limits or a dict of its fields")
    if given.get("memory") is not None:
        changes["memory"] = size_of("memory", given["memory"], "memory")
    timed = given.get("timeout") is not None
    if timed:
        changes["wall_s"] = _seconds("timeout", given["timeout"])
        # A caller who grants more time means the processor's too, unless they say otherwise.
        changes.setdefault("cpu_s", max(limits.cpu_s, changes["wall_s"]))
    if not changes:
        return limits
    try:
        replaced: Limits = msgspec.structs.replace(limits, **changes)
    except ConfigurationError as error:
        name = "timeout" if timed and error.field in ("wall_s", "cpu_s") else error.field
        raise ConfigurationError(name, error.value, error.allowed) from None
    return replaced


def _seconds(field: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigurationError(field, value, "seconds as a finite number")
    return number


def _texts(field: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Sequence):
        raise ConfigurationError(field, values, "a list of texts")
    return tuple(_text(f"{field}[{i}]", value) for i, value in enumerate(values))


def _text(field: str, value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ConfigurationError(field, value, "text without NUL characters")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise ConfigurationError(field, value, "text that UTF-8 can carry") from None
    if size > _TEXTS_CAP:
        raise ConfigurationError(field, f"{size} bytes", f"at most {_TEXTS_CAP} bytes")
    return value


def _env(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise ConfigurationError("env", env, "a dict of names to texts")
    checked: dict[str, str] = {}
    for name, value in env.items():
        if not isinstance(name, str) or not name or "=" in name:
            raise ConfigurationError("env", name, "names that are not empty and hold no '='")
        # A value may be a secret, whatever its variable is called: it is in no message.
        if not isinstance(value, str):
            raise ConfigurationError(f"env[{name!r}]", type(value).__name__, "text without NUL characters")
        checked[_text("env", name)] = value
    environment.check(checked)
    for name, value in checked.items():
        try:
            _text("", value)
        except ConfigurationError as error:
            raise ConfigurationError(f"env[{name!r}]", "its value", error.allowed) from None
    if sum(len(n) + len(v) for n, v in checked.items()) > _TEXTS_CAP:
        raise ConfigurationError("env", f"{len(checked)} variables", f"at most {_TEXTS_CAP} characters in all")
    return checked


def _check_head(fields: Mapping[str, Any]) -> None:
    """What travels in a frame's head must fit it, escaped as JSON; the largest part is named."""
    names = [name for name in ("args", "env", "command", "preload", "preopens") if fields.get(name)]
    sizes = {name: len(msgspec.json.encode(fields[name])) for name in names}
    if sum(sizes.values()) > _HEAD_CAP:
        worst = max(sizes, key=sizes.__getitem__)
        shown = f"{sizes[worst]} bytes as JSON"
        raise ConfigurationError(worst, shown, f"at most {_HEAD_CAP} bytes with {', '.join(sizes)} together")


def _stdin(stdin: Any) -> bytes:
    if isinstance(stdin, str):
        stdin = _text_bytes(stdin)
    if not isinstance(stdin, (bytes, bytearray)):
        raise ConfigurationError("stdin", type(stdin).__name__, "bytes or text")
    if len(stdin) > STDIN_CAP:
        raise ConfigurationError("stdin", f"{len(stdin)} bytes", f"at most {STDIN_CAP} bytes; stage a file for more")
    return bytes(stdin)


def _text_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise ConfigurationError("stdin", text, "text that UTF-8 can carry, or bytes") from None


def _work(merged: Mapping[str, Any], runtime: str) -> dict[str, Any]:
    """The project that a command works on a copy of, as an absolute path, and what of it is wanted all the same."""
    work, include = merged.get("work"), _texts("include", merged.get("include", ()))
    if merged.get("bind") is not None:
        for name in ("work", "include", "files"):
            if merged.get(name):
                raise ConfigurationError(name, merged[name], "nothing with bind: that folder is the work folder")
        return {"bind": _folder("bind", merged["bind"])}
    if work is None:
        if include:
            raise ConfigurationError("include", include, "nothing where there is no work folder")
        return {}
    if runtime != "command":
        raise ConfigurationError("work", work, "a command to run on it; for code, stage files")
    return {"work": _folder("work", work), "include": include}


def _folder(field: str, given: Any) -> str:
    """The absolute path of a folder that is there."""
    if not isinstance(given, (str, os.PathLike)) or not isinstance(os.fspath(given), str):
        raise ConfigurationError(field, given, "the path of a folder")
    path = os.fspath(given)
    if "\0" in path or not os.path.isdir(path):
        if "\0" not in path and os.path.lexists(path):
            raise StagingError(path, "it is no folder", "Name the folder of a project.")
        raise StagingError(path, "there is no such folder")
    return os.path.abspath(path)


def _files(files: Any) -> dict[str, Any]:
    if not isinstance(files, Mapping):
        raise ConfigurationError("files", files, "a dict of destination to bytes, str or pathlib.Path")
    return dict(files)


def _preopens(preopens: Any) -> tuple[str, ...]:
    names = _texts("preopens", preopens)
    for name in names:
        if not name or len(name) > 255 or ".." in name.split("/"):
            raise ConfigurationError("preopens", name, "names of folders without '..'")
    return names


def _image(image: Any) -> str | None:
    if image is None:
        return None
    if not isinstance(image, str) or not 0 < len(image) <= 256 or not image.isascii() or not image.isprintable():
        raise ConfigurationError("image", image, "the name of an image, such as NAME:TAG")
    return image


def _tenant(tenant: Any) -> str:
    if not isinstance(tenant, str) or not tenant or len(tenant) > 256:
        raise ConfigurationError("tenant", tenant, "a text of 1 to 256 characters")
    return _text("tenant", tenant)


def _seed(seed: Any) -> int | None:
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(1 << 63) <= seed < 1 << 63:
        raise ConfigurationError("seed", seed, "a whole number of at most 64 bits")
    return seed


def _time(time: Any) -> float | None:
    if time is None:
        return None
    value = _seconds("time", time)
    if not 0 <= value < 1 << 33:
        raise ConfigurationError("time", time, f"0 to {(1 << 33) - 1} seconds since 1970")
    return value


def _deadline(deadline: Any) -> float | None:
    if deadline is None:
        return None
    value = _seconds("deadline", deadline)
    if not 0 < value <= 7 * 86_400:
        raise ConfigurationError("deadline", deadline, "more than 0 and at most 604800 seconds")
    return value


def _flag(field: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigurationError(field, value, "True or False")
    return value


def _filename(name: Any) -> str:
    if not isinstance(name, str) or len(name) > 255 or not (name.isprintable() or not name):
        raise ConfigurationError("filename", name, "a printable text of at most 255 characters")
    return name
