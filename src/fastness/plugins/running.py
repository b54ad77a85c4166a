"""
From a method of a plugin to the run of it: the package's checked bytes as files, and the call.

What a guest finds in its work folder is a copy that is made for the one run: whatever it writes there, the installed
package and the next run have none of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fastness.errors import ConfigurationError, HostBug, ManifestError, meant
from fastness.limits import Limits
from fastness.manifest import Manifest
from fastness.plugins.package import MANIFEST_NAME, Package
from fastness.policy import Policy
from fastness.runs import PluginCall, RunRequest

__all__ = ["check_arguments", "check_method", "check_timeout", "request_of"]

_ARGUMENTS_MAX = 256
#: Bytes of modules that go with a call; larger packages are staged as files.
_TEXTS_MAX = 128 << 10
#: Seconds beside its caller's time in which a module that was not run before is to be compiled.
_COMPILE_S = 1.0
#: The same by a package's digest, beside the package that they were read of: it is found whole before each call.
_texts: dict[str, tuple[Package, dict[str, str] | None]] = {}
_TEXTS_KEPT = 64
_DECLARED = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*(?!utf-?8\b)[-\w.]+", re.IGNORECASE)
OnEvent = Callable[[str, Any], None]


def check_method(manifest: Manifest, method: object) -> str:
    """The method's name, where the manifest has it.  Raises ConfigurationError."""
    if not isinstance(method, str) or method not in manifest.methods:
        if manifest.runtime == "data":
            raise ConfigurationError("method", method, f"none: {manifest.id!r} is data and has no code to call")
        allowed = ", ".join(manifest.methods) or f"none: {manifest.id!r} has no methods"
        raise ConfigurationError("method", method, allowed + meant(method, manifest.methods))
    return method


def check_arguments(args: Mapping[str, Any] | None) -> dict[str, Any]:
    """
    Arguments by name, for a method.  Raises ConfigurationError.

    That they are plain data all through is told where they are encoded, with the path of what is not.
    """
    if args is None:
        return {}
    if not isinstance(args, Mapping):
        raise ConfigurationError("args", type(args).__name__, "a dict of arguments by name")
    if len(args) > _ARGUMENTS_MAX:
        raise ConfigurationError("args", f"{len(args)} arguments", f"at most {_ARGUMENTS_MAX}")
    for name in args:
        if type(name) is not str or not name.isidentifier():
            raise ConfigurationError("args", name, "names of parameters")
    return dict(args)


def check_timeout(limits: Limits, timeout: object) -> Limits:
    """The limits of a run that may take ``timeout`` seconds, which can only be less.  Raises ConfigurationError."""
    if timeout is None:
        return limits
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout <= limits.wall_s:
        raise ConfigurationError(
            "timeout", timeout, f"more than 0 and at most {limits.wall_s:g} seconds, the most that its policy gives it"
        )
    return msgspec.structs.replace(limits, wall_s=max(float(timeout), 0.001), cpu_s=min(limits.cpu_s, float(timeout)))


def request_of(
    method: str,
    arguments: dict[str, Any],
    manifest: Manifest,
    package: Package,
    policy: Policy,
    *,
    tenant: str,
    limits: Limits,
    timeout: float | None = None,
    on_event: OnEvent | None = None,
) -> RunRequest:
    """The run of one method.  Raises ManifestError for an entry that is not there or is no text."""
    make = _MAKERS.get(manifest.runtime)
    if make is None:
        raise HostBug(f"a plugin of the runtime {manifest.runtime!r} was asked to run")
    if manifest.entry not in package.files:
        raise ManifestError([f"entry: there is no file {manifest.entry!r} in the package"])
    made: RunRequest = msgspec.structs.replace(
        make(manifest, package, method, arguments),
        tier=policy.tier.value,
        tenant=tenant,
        limits=limits,
        # How long a module takes to compile is its author's doing; what else a guest is made of is not.
        deadline=timeout + _COMPILE_S if timeout is not None and manifest.runtime == "wasi" else None,
        on_event=on_event,
    )
    return made


def _files(package: Package) -> dict[str, Any]:
    # What a plugin asks for is the host's to read.
    return {path: member.content for path, member in package.files.items() if path != MANIFEST_NAME}


def _sources(package: Package) -> dict[str, str] | None:
    """The package's modules as texts, where it holds nothing else and they are small."""
    found = _texts.get(package.digest)
    if found is None or found[0] is not package:
        if len(_texts) >= _TEXTS_KEPT:
            _texts.clear()
        found = _texts[package.digest] = package, _read_sources(package)
    return found[1]


def _read_sources(package: Package) -> dict[str, str] | None:
    names = [path for path in package.files if path != MANIFEST_NAME]
    if not all(path.endswith(".py") for path in names) or package.size > _TEXTS_MAX:
        return None
    try:
        # A mark at the start of a file says how it is encoded and is no part of the source.
        texts = {path: package.files[path].content.decode("utf-8-sig") for path in names}
    except UnicodeDecodeError:
        return None
    # What declares another encoding (PEP 263) is read as Python reads files.
    return None if any(_DECLARED.search(line) for one in texts.values() for line in one.split("\n", 2)[:2]) else texts


def _python(manifest: Manifest, package: Package, method: str, arguments: dict[str, Any]) -> RunRequest:
    module = manifest.entry.removesuffix(".py").replace("/", ".")
    texts = _sources(package)
    call = PluginCall(module=module, method=method, arguments=arguments, sources=texts or {})
    files = _files(package) if texts is None else {}
    return RunRequest(code="", runtime="python", files=files, plugin=call, filename=manifest.entry)


def _javascript(manifest: Manifest, package: Package, method: str, arguments: dict[str, Any]) -> RunRequest:
    try:
        code = package.files[manifest.entry].content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ManifestError([f"entry: {manifest.entry!r} is not UTF-8"]) from None
    call = PluginCall(module=manifest.entry, method=method, arguments=arguments)
    files = _files(package)
    if list(files) == [manifest.entry]:
        files = {}
    return RunRequest(code=code, runtime="javascript", files=files, plugin=call)


def _wasi(manifest: Manifest, package: Package, method: str, arguments: dict[str, Any]) -> RunRequest:
    files = _files(package)
    module = files.pop(manifest.entry)
    call = PluginCall(module=manifest.entry, method=method, arguments=arguments)
    return RunRequest(module=module, runtime="wasi", files=files, plugin=call)


#: By the manifest's runtime, what makes a request of a method; plugins of ``data`` are not run.
_MAKERS: dict[str, Callable[[Manifest, Package, str, dict[str, Any]], RunRequest]] = {
    "python": _python,
    "javascript": _javascript,
    "wasi": _wasi,
}
