"""
The commands of ``fastness plugin`` and their options.  Bodies live in modules of their own.
"""

from __future__ import annotations

import click

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")


@click.group(context_settings=_CONTEXT)
def plugin() -> None:
    """Check plugins, and decide what they may do."""


@plugin.command("check", context_settings=_CONTEXT)
@click.argument("path", metavar="DIR|FILE")
@_json
def plugin_check(path: str, as_json: bool) -> int:
    """
    Check a plugin and say in words what it asks for.

    The plugin is a folder with a plugin.toml, or a single file with its manifest in it.  Its code is not run; only the
    manifest of a JavaScript file is evaluated, in a guest of the tier wasm that is thrown away.

    Exit codes: 0 it is valid; 2 it is not, and every problem is listed; 3 the tier wasm does not hold here, for a
    JavaScript file; 70 the machinery failed.
    """
    from fastness.cli.plugin_check import check as body

    return body(path, as_json=as_json)
