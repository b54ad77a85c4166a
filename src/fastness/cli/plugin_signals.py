"""
``fastness plugin signals``: what waits for plugins, shown, sent, handed over or erased.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import click
import msgspec

from fastness.cli import exits
from fastness.cli.console import asked, err, say, size, table
from fastness.cli.plugin_host import plugin_host, when
from fastness.cli.plugin_screen import Screen, write_json
from fastness.cli.visible import one_line, spelled_out

if TYPE_CHECKING:
    from fastness.plugins.signalling import Delivery

#: What stands where a plugin's id would: signals for programs that ask for them.
_PROGRAM = "(the program)"


def show(*, owner: str | None, as_json: bool) -> int:
    """What waits."""
    with plugin_host() as host:
        queues = host.signal_queues(owner)
    if as_json:
        write_json({"queues": msgspec.to_builtins(queues)})
        return exits.OK
    if not queues:
        err("no signal waits, and none was dropped")
        return exits.OK
    made = table("owner", "plugin", "waiting", "bytes", "oldest", "dropped", wrap=("owner", "plugin"))
    for one in queues:
        oldest = when(one.oldest) if one.waiting else ""
        whose = one_line(one.owner, 40), one_line(one.plugin, 64) if one.plugin else _PROGRAM
        made.add_row(*whose, str(one.waiting), size(one.bytes), oldest, str(one.dropped))
    Screen().table(made)
    return exits.OK


def publish(*, topic: str, data: str | None, owner: str, as_json: bool) -> int:
    """Send one."""
    try:
        given: Any = None if data is None else json.loads(data)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"--data is not JSON: {one_line(str(error), 80)}") from None
    with plugin_host() as host:
        sent = host.publish(topic, given, owner=owner)
    if as_json:
        write_json(msgspec.to_builtins(sent))
    elif sent.queued or sent.dropped:
        full = f"; {sent.dropped} had no place for it" if sent.dropped else ""
        say(f"it waits for {sent.queued} plugin{'' if sent.queued == 1 else 's'} of {spelled_out(owner)}{full}")
    else:
        say(f"no plugin of {spelled_out(owner)} receives {topic}")
    return exits.OK


def deliver(*, owner: str | None, serve: bool, as_json: bool) -> int:
    """Hand over what waits for methods."""
    if serve and (owner is not None or as_json):
        raise click.UsageError("--run is for all owners, and prints nothing: leave --owner and --json out")
    with plugin_host() as host:
        if serve:
            err("signals are handed over as they come; Ctrl-C ends this")
            stop = threading.Event()
            # What keeps services ends them so: the methods that are called just now come to their end.
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            with contextlib.suppress(KeyboardInterrupt):
                host.serve_signals(stop)
            return exits.OK
        done = host.deliver(owner=owner)
    if as_json:
        write_json({"delivered": [_plain(one) for one in done]})
        return exits.OK
    for one in done:
        how = one.refused if one.result is None else one.result.outcome.kind.value
        sender = one.sender or _PROGRAM
        say(
            f"{one.plugin} {one.method} {one.topic} from {sender}, owner {spelled_out(one.owner)}: {one_line(how, 200)}"
        )
    if not done:
        err("no signal waits for a method")
    return exits.OK


def _plain(one: Delivery) -> dict[str, Any]:
    shown: dict[str, Any] = {
        name: getattr(one, name) for name in ("owner", "plugin", "method", "topic", "sender", "at", "hop", "refused")
    }
    result = one.result
    return {
        **shown,
        "outcome": None if result is None else result.outcome.kind.value,
        "run": None if result is None else result.run_id,
    }


def erase(*, owner: str, plugin: str | None, yes: bool, as_json: bool) -> int:
    """Forget what waits; with ``yes``, or where somebody at a terminal says so."""
    whose = f"the owner {spelled_out(owner)}" + (f" and {spelled_out(plugin)}" if plugin is not None else "")
    if not yes:
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            err(f"nobody can be asked here whether all signals for {whose} are erased: say so with --yes")
            return exits.USAGE
        agreed = asked(f"Erase all signals that wait for {whose}?")
        if not agreed:
            say("nothing was erased")
            return exits.CANCELLED if agreed is None else exits.OK
    with plugin_host() as host:
        count = host.erase_signals(owner, plugin=plugin)
    if as_json:
        write_json({"erased": count})
    else:
        say(f"erased for {whose}: {count} signal{'' if count == 1 else 's'}")
    return exits.OK
