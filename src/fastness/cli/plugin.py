"""
The commands of ``fastness plugin`` and their options.  Bodies live in modules of their own.
"""

from __future__ import annotations

from typing import Any

import click

_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_SOURCES = ("builtin", "local", "marketplace")
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on stdout.")
_owner = click.option("--owner", default="me", metavar="O", help="On whose behalf.  [default: me]")


@click.group(context_settings=_CONTEXT)
def plugin() -> None:
    """
    Install plugins, decide what they may do, and call them.

    A plugin runs on behalf of an owner: any word of yours, me unless it is named.  What one owner grants is no other's.
    """


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


@plugin.command("install", context_settings=_CONTEXT)
@click.argument("path", metavar="DIR|FILE")
@click.option("--source", type=click.Choice(_SOURCES), default="local", help="Who it is from.  [default: local]")
@click.option("--upgrade", is_flag=True, help="Take the place of the installed version.")
@click.option("--yes", is_flag=True, help="Grant all that it asks for without asking.")
@_owner
@_json
def plugin_install(**options: Any) -> int:
    """
    Copy a plugin, show what it asks for, and ask whether to grant it.

    Nothing of it is run.  On a terminal a question is put, and no is the default; elsewhere nothing is granted, and the
    command that grants it is printed.  An upgrade that asks for no more than before keeps its grants.
    """
    from fastness.cli.plugin_install import install as body

    return body(**options)


@plugin.command("list", context_settings=_CONTEXT)
@_json
def plugin_list(as_json: bool) -> int:
    """List what is installed."""
    from fastness.cli.plugin_list import show_all as body

    return body(as_json=as_json)


@plugin.command("show", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@click.option("--owner", metavar="O", help="Only the grant of this owner.")
@_json
def plugin_show(plugin: str, owner: str | None, as_json: bool) -> int:
    """Show what a plugin asks for, its own reasons, what that means at worst, and what was granted."""
    from fastness.cli.plugin_list import show as body

    return body(plugin, owner=owner, as_json=as_json)


@plugin.command("grant", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@_owner
@click.option("--all", "everything", is_flag=True, help="Everything that it asks for.")
@click.option("--allow", multiple=True, metavar="KIND", help="This capability, as it is asked for.  May be repeated.")
@click.option("--provide", multiple=True, metavar="P", help="Register names like this.  May be repeated.")
@click.option("--lookup", multiple=True, metavar="P", help="Read names like this.  May be repeated.")
@click.option("--declare", multiple=True, metavar="P", help="Announce tags like this.  May be repeated.")
@click.option("--expires", metavar="T", help="Its end: 30m, 2h, 7d from now, or an ISO 8601 time.  [default: none]")
@_json
def plugin_grant(**options: Any) -> int:
    """
    Let a plugin do what is named, for one owner.

    It takes the place of the owner's grant before it.  --allow 'KIND:{"field": value}' grants less than is asked for,
    such as --allow 'net:{"hosts": ["api.example.com"]}'; fields that are not given are as the plugin asks.
    """
    from fastness.cli.plugin_grant import grant as body

    return body(**options)


@plugin.command("revoke", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@_owner
@click.option("--everyone", is_flag=True, help="Every owner's.")
@_json
def plugin_revoke(**options: Any) -> int:
    """
    End the grant of an owner.

    When this has returned, every call that begins afterwards is refused, in other processes too.  An owner that granted
    nothing is a mistake: exit code 2.
    """
    from fastness.cli.plugin_grant import revoke as body

    return body(**options)


@plugin.command("call", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@click.argument("method", metavar="METHOD")
@click.option("--arg", multiple=True, metavar="NAME=TEXT", help="An argument; NAME:=JSON for other than text.")
@click.option("--args", metavar="JSON", help="All arguments as one JSON object; - for standard input.")
@_owner
@click.option("--timeout", type=float, metavar="S", help="Seconds that it may take.")
@click.option("--raw", is_flag=True, help="Pass output and a text value on unchanged, control characters and all.")
@_json
def plugin_call(**options: Any) -> int:
    """
    Call a method of a plugin, in a fresh guest, and print what it returns.

    A text is printed as it is, anything else as JSON.  What it prints itself comes before, as it is written.

    Exit codes: 0 ok; 1 it failed; 2 wrong usage, or nothing is granted; 3 its tier does not hold here; 4 a limit;
    70 the machinery failed; 130 cancelled.
    """
    from fastness.cli.plugin_call import call as body

    return body(**options)


@plugin.command("enable", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@_json
def plugin_enable(plugin: str, as_json: bool) -> int:
    """Let a disabled plugin be called again, by those who granted it something."""
    from fastness.cli.plugin_state import enable as body

    return body(plugin, as_json=as_json)


@plugin.command("disable", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@_json
def plugin_disable(plugin: str, as_json: bool) -> int:
    """Let nobody call a plugin; grants are kept.  It is also the way out of quarantine."""
    from fastness.cli.plugin_state import disable as body

    return body(plugin, as_json=as_json)


@plugin.command("quarantine", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@click.option("--why", default="the operator said so", metavar="TEXT", help="A reason, for whoever looks at it.")
@_json
def plugin_quarantine(plugin: str, why: str, as_json: bool) -> int:
    """Let nobody call a plugin, and keep it to be looked at."""
    from fastness.cli.plugin_state import quarantine as body

    return body(plugin, why=why, as_json=as_json)


@plugin.command("remove", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
def plugin_remove(plugin: str, yes: bool, as_json: bool) -> int:
    """
    End a plugin, every grant of it, and all that it kept in storage and in folders of its own.

    At a terminal it asks first; elsewhere it needs --yes.  A plugin of the same id that is installed later inherits
    nothing.
    """
    from fastness.cli.plugin_state import remove as body

    return body(plugin, yes=yes, as_json=as_json)


@plugin.command("tier", context_settings=_CONTEXT)
@click.argument("plugin", metavar="PLUGIN")
@click.argument("name", metavar="TIER|default")
@click.option(
    "--trust", type=click.Choice(["reviewed"]), default=None, help="Needed for a weaker tier than the default."
)
@_json
def plugin_tier(plugin: str, name: str, trust: str | None, as_json: bool) -> int:
    """Choose the tier of a plugin, from its next call on."""
    from fastness.cli.plugin_state import tier as body

    return body(plugin, name, trust=trust or "", as_json=as_json)


@plugin.command("usage", context_settings=_CONTEXT)
@click.option("--plugin", metavar="P", help="Only of this plugin.")
@click.option("--owner", metavar="O", help="Only for this owner.")
@click.option("--since", metavar="T", help="From this day on: 7d ago, or an ISO 8601 time.  [default: all]")
@_json
def plugin_usage(**options: Any) -> int:
    """
    Show what plugins used for owners: runs, calls, bytes, processor time and money; and how far quotas are used up.

    Days are of UTC.  What is held is taken by a run that goes on, or was by a process that is gone: it counts as used.
    """
    from fastness.cli.plugin_usage import usage as body

    return body(**options)


@plugin.command("schedule", context_settings=_CONTEXT)
@click.option("--plugin", metavar="P", help="Only of this plugin.")
@click.option("--owner", metavar="O", help="Only for this owner.  [default: all; with --cancel: me]")
@click.option("--cancel", type=int, metavar="ID", help="Take the one of this number off; needs --plugin.")
@click.option("--run", is_flag=True, help="Call what is due, until interrupted.")
@_json
def plugin_schedule(**options: Any) -> int:
    """
    Show what plugins have scheduled, and when each is called next.

    Nothing is called unless somebody does so: this command with --run, or a program that has a PluginHost with
    schedule=True.  Any number of them may, and each call is made by one.  With --run and --json each call is told in a
    line of JSON.
    """
    from fastness.cli.plugin_schedule import schedule as body

    return body(**options)


@plugin.group("memory", context_settings=_CONTEXT)
def plugin_memory() -> None:
    """Look at what plugins noted for an owner, and erase it."""


@plugin_memory.command("export", context_settings=_CONTEXT)
@_owner
@click.option("--plugin", metavar="P", help="Only what this plugin wrote.")
def plugin_memory_export(owner: str, plugin: str | None) -> int:
    """Print every note that was kept for an owner, one line of JSON for each."""
    from fastness.cli.plugin_memory import export as body

    return body(owner=owner, plugin=plugin)


@plugin_memory.command("erase", context_settings=_CONTEXT)
@_owner
@click.option("--plugin", metavar="P", help="Only what this plugin wrote.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
def plugin_memory_erase(**options: Any) -> int:
    """
    Forget every note that was kept for an owner.

    No word of them is left in the files.  At a terminal it asks first; elsewhere it needs --yes.  A plugin whose grant
    stands may note again: revoke it first where it should not.
    """
    from fastness.cli.plugin_memory import erase as body

    return body(**options)


@plugin.group("signals", context_settings=_CONTEXT)
def plugin_signals() -> None:
    """Look at signals that wait for plugins, send one, hand them over, and erase them."""


@plugin_signals.command("list", context_settings=_CONTEXT)
@click.option("--owner", metavar="O", help="Only of this owner.")
@_json
def plugin_signals_list(owner: str | None, as_json: bool) -> int:
    """Show how many signals wait for plugins and for programs, and how many were dropped."""
    from fastness.cli.plugin_signals import show as body

    return body(owner=owner, as_json=as_json)


@plugin_signals.command("publish", context_settings=_CONTEXT)
@click.argument("topic", metavar="TOPIC")
@click.option("--data", metavar="JSON", help="What it carries.  [default: nothing]")
@_owner
@_json
def plugin_signals_publish(**options: Any) -> int:
    """
    Send a signal to the plugins of an owner that receive its topic.

    It waits for them until it is delivered, or they take it.
    """
    from fastness.cli.plugin_signals import publish as body

    return body(**options)


@plugin_signals.command("deliver", context_settings=_CONTEXT)
@click.option("--owner", metavar="O", help="Only of this owner.")
@click.option("--run", "serve", is_flag=True, help="Go on until interrupted, for all owners.")
@_json
def plugin_signals_deliver(**options: Any) -> int:
    """
    Call the methods of plugins that wait for signals, one after another, until nothing waits for a method.

    Each call has the policy of its moment.  What a method fails of is shown and is no failure of this command.  With
    --run an interrupt or SIGTERM ends it, when the methods that are called just then have ended.
    """
    from fastness.cli.plugin_signals import deliver as body

    return body(**options)


@plugin_signals.command("erase", context_settings=_CONTEXT)
@_owner
@click.option("--plugin", metavar="P", help="Only what waits for this plugin.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_json
def plugin_signals_erase(**options: Any) -> int:
    """Forget every signal that waits for an owner.  At a terminal it asks first; elsewhere it needs --yes."""
    from fastness.cli.plugin_signals import erase as body

    return body(**options)


@plugin.command("try", context_settings=_CONTEXT)
@click.argument("path", metavar="FILE|DIR")
@click.option("--allow-lookup", "lookups", multiple=True, metavar="P", help="Names that it may look up.")
@click.option("--allow-provide", "provides", multiple=True, metavar="P", help="Names that it may provide.")
@click.option("--allow-declare", "declares", multiple=True, metavar="P", help="Tags that it may declare.")
@click.option("--lookup-value", "values", multiple=True, metavar="NAME=JSON", help="A value for it to look up.")
@click.option("--tier", metavar="T", help="Where it runs.  [default: isolated, for JavaScript wasm]")
@click.option("--timeout", type=float, metavar="S", help="Seconds for each phase; 0 for none.  [default: 10, 10, 5]")
@click.option("--memory", metavar="SIZE", help="Memory that it may add, such as 64M.  [default: 128M]")
@click.option("--allow-network", "network", is_flag=True, help="Let it send requests to public addresses.")
@click.option("--read-root", metavar="DIR", help="The folder that it may read.  [default: the one that it is in]")
@click.option(
    "--learn", is_flag=True, help="Refuse every capability, and print what would do for all that it asked for."
)
@click.option("--call", "calls", multiple=True, metavar="METHOD[=JSON]", help="With --learn: call this method too.")
@_json
def plugin_try(path: str, **options: Any) -> int:
    """
    Run a plugin's setup, start and stop in a guest, and show all that it asked of its host.

    Nothing is installed, and what is not allowed here is denied.  P is a name in which * stands for any run of
    characters and ? for one.

    With --learn its ctx has every capability, and each call is recorded and refused; names are allowed, in a host that
    has no others.  The smallest manifest that asks for what it asked for is printed, and compared with its own.  What
    it would do with an answer is not seen.

    Exit codes: 0 it went well; 1 it failed or crashed; 2 usage, or no valid plugin; 3 the tier does not hold here;
    4 a phase passed its time or another limit; 5 something was denied; 70 the machinery failed.
    """
    from fastness.cli.plugin_try import try_plugin as body

    return body(path, **options)
