"""
From the path of a plugin to what its guest is made of, without running any of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from fastness import manifest_text
from fastness.broker.functions import Functions
from fastness.capabilities import registry
from fastness.capability import Spec
from fastness.errors import ConfigurationError, ManifestError, StagingError
from fastness.manifest import CODE_RUNTIMES, Manifest, parse
from fastness.plugins import package as packages

__all__ = ["Loaded", "code_of", "read"]

#: Runtimes whose guests keep their state between phases.
RUNTIMES = ("python", "javascript")


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """
    A plugin that was read.

    ``files`` is what its guest will see below its work folder, ``entry`` the path of its module there.  ``left_out``
    are entries of the folder that no guest gets, each with the reason.
    """

    manifest: Manifest
    files: dict[str, bytes]
    entry: str
    left_out: tuple[str, ...] = ()


def read(path: str | os.PathLike[str], read_root: str | os.PathLike[str] | None = None) -> Loaded:
    """
    A plugin from a module, or from a folder with a ``plugin.toml``.

    A module's manifest is its ``MANIFEST``, or the ``plugin.toml`` beside it where that names it.  ``read_root`` is the
    folder that its guest may read, by default the one that the module is in.  Raises ManifestError with every problem,
    StagingError, ConfigurationError; TierUnavailable where a JavaScript module's manifest cannot be evaluated here.
    """
    where = Path(os.path.abspath(os.fspath(path)))
    folder = where if where.is_dir() else where.parent
    root = folder if read_root is None else Path(os.path.abspath(os.fspath(read_root)))
    if not root.is_dir():
        raise ConfigurationError("read_root", str(root), "a folder that exists")
    if not folder.is_relative_to(root):
        raise ConfigurationError("read_root", str(root), f"a folder that {where} is in")
    below = folder.relative_to(root).as_posix()
    prefix = "" if below == "." else f"{below}/"
    # All that is said of the plugin comes from these bytes, whoever writes to the folder meanwhile.
    files, left_out = _staged(root)
    if where == folder:
        manifest = _of_folder(files.get(prefix + packages.MANIFEST_NAME))
        entry = prefix + manifest.entry
    else:
        entry = prefix + where.name
        _check_there(entry, files, left_out, where)
        manifest = _of_module(entry, prefix, files)
    if manifest.runtime not in RUNTIMES:
        raise ConfigurationError(
            "runtime", manifest.runtime, f"{' or '.join(RUNTIMES)}; install other plugins into a fastness.PluginHost"
        )
    _check_there(entry, files, left_out, where)
    return Loaded(manifest=manifest, files=files, entry=entry, left_out=tuple(left_out))


def _check_there(entry: str, files: dict[str, bytes], left_out: list[str], path: Path) -> None:
    if entry not in files:
        why = next((line.partition(": ")[2] for line in left_out if line.startswith(f"{entry}: ")), "")
        raise StagingError(str(path), f"{entry}: {why or 'there is no such file'}", "Name a regular file.")


def _specs() -> Mapping[str, Spec]:
    """What a manifest may ask for, so that one for other hosts is no less valid here; it grants nothing."""
    functions = Functions({}).spec
    return registry.specs({functions.kind: functions})


def _of_folder(toml: bytes | None) -> Manifest:
    if toml is None:
        raise ManifestError([f"{packages.MANIFEST_NAME}: there is none in the folder"])
    return parse(manifest_text.read_toml(toml), _specs())


def _of_module(entry: str, prefix: str, files: dict[str, bytes]) -> Manifest:
    from fastness.plugins.javascript import evaluate

    name = entry.removeprefix(prefix)
    beside = files.get(prefix + packages.MANIFEST_NAME)
    if beside is not None:
        manifest = _of_folder(beside)
        if manifest.entry == name:
            return manifest
    if not name.endswith(tuple(ending for endings in CODE_RUNTIMES.values() for ending in endings)):
        endings = ", ".join(ending for runtime in RUNTIMES for ending in CODE_RUNTIMES[runtime])
        raise ManifestError([f"{name}: a plugin is a module that ends in {endings}, or a folder"])
    members = {name: packages.Member(files[entry])}
    listing, digest = packages.digest_of(members)
    package = packages.Package(members, listing, digest, single=name)
    return packages.manifest_of(
        package, _specs(), evaluate=lambda _, source: evaluate(entry, source, {**files, entry: source})
    )


def _staged(root: Path) -> tuple[dict[str, bytes], list[str]]:
    """Every regular file below a folder, and what is left out: links, devices, what is too large, names of bytes."""
    try:
        top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StagingError(str(root), error.strerror or "it cannot be opened") from None
    try:
        found, problems, skipped = packages.read_folder(top)
    finally:
        os.close(top)
    if len(found) + len(problems) >= packages.FILES_MAX or any(
        f"more than {packages.FILES_MAX}" in p for p in problems
    ):
        raise StagingError(
            str(root),
            f"it holds more than {packages.FILES_MAX} files and folders",
            "Put the plugin into a folder of its own, or name a smaller one with read_root=FOLDER.",
        )
    return {path: member.content for path, member in found.items()}, problems + [f"{path}: skipped" for path in skipped]


_PYTHON = """
def _fastness_phase(entry, phase, arguments):
    import os
    import sys

    sys.dont_write_bytecode = True
    module = sys.modules.get("_fastness_plugin")
    if module is None:
        import importlib.util

        path = os.path.join(os.getcwd(), *entry.split("/"))
        folder = os.path.dirname(path)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        name = entry.rpartition("/")[2].partition(".")[0]
        # A plugin may be called as a module of the library is, which stays what it was.
        name = "plugin_" + name if name in sys.modules or not name.isidentifier() else name
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = sys.modules["_fastness_plugin"] = module
        spec.loader.exec_module(module)
    function = getattr(module, phase, None)
    if function is None:
        return False
    value = function(ctx, **arguments)
    if hasattr(value, "__await__"):
        import asyncio

        failed = []

        async def outcome():
            try:
                await value
            except BaseException as error:
                # Raised below: frames of the loop tell its author nothing.
                failed.append(error)

        asyncio.run(outcome())
        for error in failed:
            raise error
    return True


_fastness_phase(%s, %s, __import__("json").loads(%s))
"""
_JAVASCRIPT = """
await (async () => {
  const found = await import(%s);
  const made = found.default ?? found;
  const phase = %s[%s];
  if (phase === undefined) return false;
  // Under the name that JavaScript would give it too.
  const given = { __proto__: null, ...ctx, declareCapability: ctx.declare_capability };
  await phase.call(made, Object.freeze(given), %s);
  return true;
})()
"""


def code_of(runtime: str, entry: str, phase: str, arguments: Mapping[str, Any] | None = None) -> str:
    """
    The program that runs one phase in a guest; the module is loaded by the first, and stays for the others.

    A method is run the same way, with ``arguments`` by name, which are data of JSON.
    """
    given = json.dumps(dict(arguments or {}))
    if runtime == "javascript":
        # A method is the module's own; phases may be those of its default.
        where = "made" if arguments is None else "found"
        return _JAVASCRIPT % (json.dumps(f"/work/{entry}"), where, json.dumps(phase), given)
    return _PYTHON % (ascii(entry), ascii(phase), ascii(given))
