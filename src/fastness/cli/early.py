"""
What a command will most likely run, read off its arguments before anything that understands them is imported.

Only a guess: the zygote that is started for it serves who asks for the very same and nobody else, so a wrong one costs
some processor time and decides nothing.
"""

from __future__ import annotations

import os
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: Tiers whose guests come from a zygote.
_TIERS = ("isolated", "confined")
#: Options with which nothing is run, or with which it is another zygote that is needed.
_OTHERS = ("-h", "--help", "--preload", "--image")


def begin(arguments: Sequence[str]) -> None:
    """Start a zygote for ``fastness exec`` or ``fastness run`` with these arguments, where they will need one."""
    guessed = guess(arguments)
    # Zygotes end with the thread that has started them.
    if guessed is None or threading.current_thread() is not threading.main_thread():
        return
    from fastness.backends import native_ahead

    native_ahead.begin(*guessed)


def guess(arguments: Sequence[str]) -> tuple[str, str] | None:
    """The tier, and the kind of guest: ``python`` or ``command``; None where it is none that comes from a zygote."""
    if not arguments or arguments[0] not in ("exec", "run"):
        return None
    options = list(arguments[1:])
    if "--" in options:
        del options[options.index("--") :]
    if any(option.partition("=")[0] in _OTHERS for option in options):
        return None
    command = arguments[0] == "exec"
    tier = _tier(options) or ("isolated" if command else "")
    if tier not in _TIERS or (command and tier != "isolated"):
        return None
    return tier, "command" if command else "python"


def _tier(options: list[str]) -> str:
    for index, option in enumerate(options):
        name, equals, value = option.partition("=")
        if name == "--tier":
            return value if equals else "".join(options[index + 1 : index + 2])
    native = "isolated" if os.environ.get("FASTNESS_RUNTIME") == "native" else os.environ.get("FASTNESS_RUNTIME", "")
    return os.environ.get("FASTNESS_TIER") or native


def end() -> None:
    """End a zygote that nobody has asked for."""
    import sys

    ahead = sys.modules.get("fastness.backends.native_ahead")
    if ahead is not None:
        ahead.drop()
