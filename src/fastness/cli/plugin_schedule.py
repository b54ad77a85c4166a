"""
``fastness plugin schedule``: what plugins have scheduled, shown, taken off, and called in time.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.cli import exits
from fastness.cli.console import err, say, table
from fastness.cli.plugin_host import OWNER, plugin_host, when
from fastness.cli.plugin_screen import Screen, write_json
from fastness.cli.visible import one_line, spelled_out
from fastness.errors import ConfigurationError

if TYPE_CHECKING:
    from fastness.plugins.scheduling import Fired


def schedule(*, plugin: str | None, owner: str | None, cancel: int | None, run: bool, as_json: bool) -> int:
    """Show what stands; or take one off; or call what is due until somebody says stop."""
    if run:
        if cancel is not None or plugin is not None or owner is not None:
            raise ConfigurationError(
                "--run", "with other options", "--run alone: it calls what is due, whoever's it is"
            )
        return _run(as_json=as_json)
    if cancel is not None:
        return _cancel(plugin, owner or OWNER, cancel, as_json=as_json)
    with plugin_host() as host:
        found = host.schedules(plugin=plugin, owner=owner)
    if as_json:
        write_json({"schedules": msgspec.to_builtins(found)})
        return exits.OK
    if not found:
        err("nothing is scheduled")
        return exits.OK
    made = table("plugin", "owner", "id", "method", "next", "every", "called", wrap=("plugin", "owner", "method"))
    for one in found:
        made.add_row(
            one_line(one.plugin, 40), one_line(one.owner, 40), str(one.id), one_line(one.method, 40), when(one.due),
            "" if one.every is None else f"{one.every:g} s", str(one.fired),
        )  # fmt: skip
    Screen().table(made)
    return exits.OK


def _cancel(plugin: str | None, owner: str, number: int, *, as_json: bool) -> int:
    if plugin is None:
        raise ConfigurationError("--cancel", number, "the number of one of a plugin's: name it with --plugin")
    with plugin_host() as host:
        gone = host.cancel_schedule(plugin, number, owner=owner)
    if as_json:
        write_json({"cancelled": gone})
    elif gone:
        say(f"cancelled {number} of {spelled_out(plugin)} for the owner {spelled_out(owner)}")
    if not gone:
        err(f"{spelled_out(plugin)} has nothing scheduled under {number} for the owner {spelled_out(owner)}")
    return exits.OK if gone else exits.USAGE


def _run(*, as_json: bool) -> int:
    from fastness.plugins.blocking import PluginHost

    over = threading.Event()
    before = {number: signal.signal(number, lambda *_: over.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with PluginHost(schedule=True, on_fired=_line if as_json else _words):
            if not as_json:
                err("what is due is called; Ctrl-C ends this")
            over.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return exits.OK


def _line(fired: Fired) -> None:
    told: dict[str, Any] = {
        name: value for name, value in msgspec.structs.asdict(fired).items() if name not in ("result", "code")
    }
    result = fired.result
    told["code"] = fired.code if result is None else result.outcome.kind.value
    told["run_id"] = "" if result is None else result.run_id
    _put(json.dumps(told, allow_nan=False).replace("\x7f", "\\u007f"))


def _words(fired: Fired) -> None:
    result = fired.result
    whose = f"{one_line(fired.plugin, 40)} / {one_line(fired.owner, 40)}"
    came = f"not called: {fired.code}" if result is None else result.outcome.kind.value
    detail = f": {one_line(result.outcome.detail, 200)}" if result is not None and result.outcome.detail else ""
    _put(f"{when(fired.at)}  {whose}  {fired.id}: {one_line(fired.method, 40)}  {came}{detail}")


def _put(line: str) -> None:
    # One write for each, as several threads make them.
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
