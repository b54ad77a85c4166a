"""
The host behind the commands of ``fastness plugin``, and words that several of them share.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.errors import ConfigurationError

if TYPE_CHECKING:
    from fastness.capability import Scope, Spec
    from fastness.grant import Grant
    from fastness.manifest import Manifest
    from fastness.plugins.blocking import PluginHost

__all__ = [
    "OWNER",
    "allow_words",
    "command",
    "grant_all",
    "grant_command",
    "known_specs",
    "plugin_host",
    "standing",
    "this_user",
]
__all__ += ["until", "when"]

#: The owner where no option names one.
OWNER = "me"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_AHEAD = re.compile(r"([0-9]{1,9})([smhd])")
_LISTS = (("provides", "--provide"), ("lookups", "--lookup"), ("declares", "--declare"))


@contextlib.contextmanager
def plugin_host() -> Iterator[PluginHost]:
    """The host of this user's plugins."""
    from fastness.plugins.blocking import PluginHost

    with PluginHost() as host:
        yield host


def known_specs() -> Mapping[str, Spec]:
    """Every capability that a manifest may name here; functions of a host are one, whatever they are called."""
    from fastness.broker.functions import KIND, Functions
    from fastness.capabilities import registry

    return registry.specs({KIND: Functions({}).spec})


def this_user() -> str:
    """Who decides, for a grant: the user of this process, as the system knows it and not as the environment says."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"


def command(*words: str) -> str:
    """A command line that can be copied into a shell."""
    return shlex.join(("fastness", "plugin", *words))


def standing(grants: Iterable[Grant], owner: str, digest: str) -> Grant | None:
    """The grant of an owner for these files, or None; one that has expired is none."""
    found = next((one for one in grants if one.owner == owner), None)
    if found is None or found.package_digest != digest or found.expired(time.time()):
        return None
    return found


def grant_all(plugin: str, owner: str) -> str:
    """The command that grants an owner all that a plugin asks for."""
    return command("grant", plugin, "--owner", owner, "--all")


def grant_command(
    manifest: Manifest, grant: Grant | None, owner: str, kinds: Iterable[str], specs: Mapping[str, Spec]
) -> str:
    """The command that grants an owner these kinds as they are asked for, beside what ``grant`` allows already."""
    wanted: dict[str, Scope | None] = {}
    for request in manifest.capabilities:
        had = None if grant is None else grant.scope(request.kind)
        if request.kind in kinds or (had is not None and not specs[request.kind].exceeds(request.scope, had)):
            wanted[request.kind] = None
        elif had is not None:
            wanted[request.kind] = had
    words = ["grant", manifest.id, "--owner", owner]
    # Each kind by its name, and never all: whoever copies it sees what it adds.
    for kind, scope in wanted.items():
        asked = manifest.scope(kind)
        words += ["--allow", kind if scope is None or asked is None else allow_words(kind, scope, asked)]
    for field, option in _LISTS:
        for pattern in () if grant is None else getattr(grant, field):
            words += [option, pattern]
    if grant is not None and grant.expires is not None:
        words += ["--expires", when(grant.expires)]
    return command(*words)


def allow_words(kind: str, scope: Scope, asked: Scope) -> str:
    """A scope as ``--allow`` takes it: in JSON what is not as it is by default, or not as it is ``asked``."""
    default = type(scope)()
    fields: dict[str, Any] = {
        field.encode_name: getattr(scope, field.name)
        for field in msgspec.structs.fields(type(scope))
        # What is left out is granted as it is asked: also what is as it is by default may be less than that.
        if any(getattr(scope, field.name) != getattr(other, field.name, None) for other in (default, asked))
    }
    return f"{kind}:{msgspec.json.encode(fields).decode()}"


def until(text: str) -> float:
    """Seconds since 1970 of a time ahead: ``30m``, ``2h``, ``7d``, an ISO 8601 time, or seconds since 1970."""
    ahead = _AHEAD.fullmatch(text)
    allowed = "so long from now: 30m, 2h, 7d; a time such as 2030-01-31T12:00; or seconds since 1970"
    try:
        if ahead is not None:
            return time.time() + int(ahead[1]) * _UNITS[ahead[2]]
        ends = float(text) if re.fullmatch(r"[0-9.]{1,20}", text) else datetime.datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        raise ConfigurationError("--expires", text, allowed) from None
    if ends <= time.time():
        raise ConfigurationError("--expires", text, f"a time that is not over; {allowed}")
    return ends


def when(moment: float) -> str:
    """A moment in this machine's own time, as ``--expires`` takes it."""
    try:
        return datetime.datetime.fromtimestamp(moment, datetime.UTC).astimezone().isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return str(moment)
