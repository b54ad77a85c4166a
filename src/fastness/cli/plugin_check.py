"""
``fastness plugin check``: what is wrong with a plugin, or what it asks for, in words that an owner can decide by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastness.cli import exits
from fastness.cli.console import err, say, size
from fastness.cli.plugin_host import known_specs
from fastness.cli.plugin_screen import Screen, asks_screen, code_of, manifest_screen, with_risks, write_json
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import ManifestError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastness.capability import Spec
    from fastness.manifest import Manifest
    from fastness.plugins.package import Package


def check(path: str, *, as_json: bool) -> int:
    """Print every problem of a plugin, or its manifest in words."""
    from fastness.plugins import package as packages
    from fastness.plugins.javascript import evaluate
    from fastness.policy import default_tier

    known = known_specs()
    try:
        package = packages.read(path)
        manifest = packages.manifest_of(package, known, evaluate=evaluate)
    except ManifestError as error:
        return refuse(error.problems, as_json=as_json)
    if as_json:
        write_json({"ok": True, "problems": [], **described(package, manifest, known)})
        return exits.OK
    screen = Screen()
    facts = [code_of(manifest, default_tier(manifest).value), *package_rows(package)]
    manifest_screen(screen, manifest, facts)
    asks_screen(screen, manifest, known)
    return exits.OK


def refuse(problems: list[str], *, as_json: bool) -> int:
    """Print what is wrong with a plugin that nothing was run of."""
    if as_json:
        write_json({"ok": False, "problems": problems})
    else:
        for problem in problems:
            say(spelled_out(problem))
        err(f"{len(problems)} problem{'s' if len(problems) != 1 else ''}; nothing of it was run")
    return exits.USAGE


def package_rows(package: Package) -> list[tuple[str, str]]:
    """What of a package's files an owner may want to know."""
    files = f"{len(package.files)} file{'s' if len(package.files) != 1 else ''}, {size(package.size)}"
    left_out = [("left out", one_line(path)) for path in package.left_out]
    return [("package", package.digest), ("", files), *left_out]


def described(package: Package, manifest: Manifest, specs: Mapping[str, Spec]) -> dict[str, Any]:
    """What ``--json`` prints of a valid plugin."""
    from fastness.policy import default_tier

    return {
        "manifest": with_risks(manifest, specs),
        "tier": default_tier(manifest).value,
        "digest": package.digest,
        "files": len(package.files),
        "bytes": package.size,
        "left_out": list(package.left_out),
    }
