"""
``fastness plugin check``: what is wrong with a plugin, or what it asks for, in words that an owner can decide by.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import err, size
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastness.capability import Spec
    from fastness.manifest import Manifest
    from fastness.plugins.package import Package


def check(path: str, *, as_json: bool) -> int:
    """Print every problem of a plugin, or its manifest in words."""
    from fastness.capabilities.registry import specs
    from fastness.plugins import package as packages
    from fastness.plugins.javascript import evaluate

    known = specs()
    try:
        package = packages.read(path)
        manifest = packages.manifest_of(package, known, evaluate=evaluate)
    except ManifestError as error:
        return _refuse(error.problems, as_json=as_json)
    if as_json:
        _write({"schema": 1, "ok": True, "problems": [], **described(package, manifest, known)})
    else:
        sys.stdout.write("\n".join(in_words(package, manifest, known)) + "\n")
    return exits.OK


def _refuse(problems: list[str], *, as_json: bool) -> int:
    if as_json:
        _write({"schema": 1, "ok": False, "problems": problems})
    else:
        for problem in problems:
            print(spelled_out(problem))
        err(f"{len(problems)} problem{'s' if len(problems) != 1 else ''}; nothing of it was run")
    return exits.USAGE


def _write(shown: dict[str, Any]) -> None:
    import json

    # ASCII only, as with the results of runs: words of strangers stay text in any terminal.
    sys.stdout.write(json.dumps(shown, allow_nan=False).replace("\x7f", "\\u007f") + "\n")


def described(package: Package, manifest: Manifest, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """What ``--json`` prints of a valid plugin."""
    from fastness.manifest import to_plain
    from fastness.policy import default_tier

    plain = to_plain(manifest)
    for request, asked in zip(manifest.capabilities, plain["capabilities"], strict=True):
        asked["risk"] = specs[request.kind].risk(request.scope)
    return {
        "manifest": plain,
        "tier": default_tier(manifest).value,
        "digest": package.digest,
        "files": len(package.files),
        "bytes": package.size,
        "left_out": list(package.left_out),
    }


def in_words(package: Package, manifest: Manifest, specs: Mapping[str, Spec]) -> Iterator[str]:
    """
    The screen that an owner decides by, line by line.

    Reasons are the plugin's own words, verbatim but for what could not be seen; risks are ours.
    """
    from fastness.policy import default_tier

    title = f", which calls itself {spelled_out(manifest.name)}" if manifest.name else ""
    yield f"{manifest.id} {manifest.version}{title}"
    if manifest.description:
        yield f'  It says: "{spelled_out(manifest.description)}"'
    if manifest.runtime == "data":
        yield "  It is data and holds no code to run."
    else:
        tier = default_tier(manifest).value
        yield f"  It is {manifest.runtime} code that starts with {manifest.entry}; it runs in the tier {tier}."
    if manifest.methods:
        yield f"  It can be asked for: {', '.join(manifest.methods)}"
    files = f"{len(package.files)} file{'s' if len(package.files) != 1 else ''}"
    yield f"  {files}, {size(package.size)}, package {package.digest}"
    for path in package.left_out:
        yield f"  Left out: {one_line(path)}"
    yield ""
    if not manifest.capabilities:
        yield "It asks for no capability: it can compute, and nothing else."
    for request in manifest.capabilities:
        spec = specs[request.kind]
        yield f"It asks for {request.kind}"
        for name, value in _settings(request.scope):
            yield f"  {name}: {value}"
        yield f'  Its reason: "{spelled_out(request.reason)}"'
        yield f"  What that lets it do: {spelled_out(spec.risk(request.scope))}"
        yield ""
    limits = list(_settings(manifest.limits))
    if limits:
        yield f"It wants other limits than usual: {', '.join(f'{name} {value}' for name, value in limits)}"
    for names, words in (("provides", "register"), ("lookups", "read"), ("declares", "announce")):
        patterns = getattr(manifest, names)
        if patterns:
            yield f"It wants to {words} what other plugins of its host see as: {', '.join(patterns)}"


def _settings(scope: Any) -> Iterator[tuple[str, str]]:
    """The fields of a scope that are not as they are by default."""
    default = type(scope)()
    for field in msgspec.structs.fields(type(scope)):
        value = getattr(scope, field.name)
        if value == getattr(default, field.name):
            continue
        if isinstance(value, (tuple, list)):
            yield field.encode_name, ", ".join(spelled_out(_text(item)) for item in value)
        else:
            yield field.encode_name, spelled_out(_text(value))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, int, float)):
        return str(value)
    return msgspec.json.encode(value).decode("utf-8", "replace")
