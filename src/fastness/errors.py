"""
Every exception that Fastness raises, in one tree.  Imports nothing.

What a *guest* did is data in a ``RunResult``; what the *host* could not do raises one of these.
Each message says what failed, whose fault it is, and the fix.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class FastnessError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(FastnessError):
    """
    The caller asked for something that does not exist or is out of range.  Nothing ran.

    ``field`` names the setting, ``value`` is what was given, ``allowed`` says in words what would be accepted.
    """

    def __init__(self, field: str, value: object = None, allowed: str = "") -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        # A word that was typed is quoted, so that a text is not taken for a number; a sentence of ours is not.
        shown = repr(value) if isinstance(value, str) and " " not in value and len(value) < 60 else _short(value)
        super().__init__(f"{field} is not accepted: {shown}; allowed: {allowed}" if allowed else f"{field}: {shown}")


class ManifestError(ConfigurationError):
    """A plugin's manifest is not valid; ``problems`` lists every fault with its path."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = list(problems)
        super().__init__("manifest", "; ".join(self.problems), "a manifest without these problems")


class GrantError(ConfigurationError):
    """A grant names something that the manifest does not ask for or the ceiling forbids."""


class PolicyError(ConfigurationError):
    """A policy cannot be built from this manifest, grant and ceiling."""


class TierUnavailable(FastnessError):
    """
    The backend could not prove a promise of the requested tier on this host.

    Nothing was run.  No other tier was tried: less isolation than was asked for is never chosen silently.
    ``failures`` are ``ProbeFailure`` records: the guarantee, the cause, and the remedy.
    """

    def __init__(self, tier: str, failures: tuple[Any, ...] = (), reason: str = "") -> None:
        self.tier = tier
        self.failures = tuple(failures)
        lines = [f"{f.guarantee}: {f.cause}. Fix: {f.remedy}" for f in self.failures]
        if reason:
            lines.insert(0, reason)
        super().__init__(f"tier {tier!r} is not available here, and nothing was run. " + "; ".join(lines))


class StagingError(FastnessError):
    """
    A file could not be staged for the guest.  Nothing ran.

    ``path`` is the offending path, ``why`` the reason, and ``fix`` a sentence that says what to do.
    """

    def __init__(self, path: object, why: str, fix: str = "Check the path that was given.") -> None:
        self.path = path
        self.why = why
        self.fix = fix
        super().__init__(f"cannot stage {_short(path)}: {why}; nothing ran. {fix}")


class ApplyRefused(FastnessError):
    """
    The changes of a run were not applied; the folder is as it was, but for what is in ``kept``.

    ``problems`` are all reasons, each a text that begins with the path that it is about, where it is about one.
    ``kept`` are what could not be put back as it was, because somebody else changed it meanwhile; most often nothing.
    """

    def __init__(self, problems: Iterable[str], kept: Iterable[str] = ()) -> None:
        self.problems = tuple(problems)
        self.kept = tuple(kept)
        told = (*self.kept, *self.problems)
        shown = "; ".join(_short(problem) for problem in told[:5])
        more = f"; and {len(told) - 5} more" if len(told) > 5 else ""
        super().__init__(f"{self.summary}: {shown}{more}")

    @property
    def summary(self) -> str:
        """What became of the folder, without the reasons."""
        if self.kept:
            return "the changes were not applied, and not everything could be put back"
        return "the changes were not applied, and nothing was touched"


class BackendError(FastnessError):
    """The machinery around the guest failed: the machine's fault or ours, not the guest's."""

    def __init__(self, step: str, cause: object = "", hint: str = "") -> None:
        self.step = step
        self.cause = cause
        self.hint = hint
        super().__init__(f"{step} failed: {cause}." + (f" Fix: {hint}" if hint else ""))


class ProtocolError(FastnessError):
    """A frame broke the wire protocol."""


class HostProtocolError(ProtocolError):
    """Our side of the conversation broke the protocol: a bug of ours."""


class RunFailed(FastnessError):
    """A run did not end well; ``result`` is the whole ``RunResult``, with partial output and files."""

    def __init__(self, result: Any) -> None:
        self.result = result
        outcome = result.outcome
        detail = f": {outcome.detail}" if outcome.detail else ""
        super().__init__(f"the run ended as {outcome.kind.value}{detail}")


class GuestError(RunFailed):
    """The guest's own code raised, exited with a status other than 0, or crashed."""


class RunTimeout(RunFailed):
    """The guest was still running at the end of its time."""

    def __init__(self, result: Any) -> None:
        super().__init__(result)
        if not result.outcome.detail:
            # Where there is a detail, it was another time than the run's own, and the detail names it.
            self.args = (f"{self.args[0]} after {result.usage.wall_s:.3g} s. Fix: give it more with timeout=SECONDS",)


class RunCancelled(RunFailed):
    """The run was cancelled by its caller."""


class LimitExceeded(RunFailed):
    """
    The guest met a limit.

    ``limit`` is the name of the field of ``Limits`` and ``used`` how much of it was used, in the field's unit.  Where
    it is not known which one it was, they are the outcome's kind and None.
    """

    def __init__(self, result: Any, limit: str = "", used: object = None) -> None:
        super().__init__(result)
        self.limit = limit
        self.used = used


class GuestProtocolError(RunFailed, ProtocolError):
    """
    The guest's side of the conversation broke the protocol; the guest was ended.

    ``result`` is the run's result where the run got that far, else None.
    """

    def __init__(self, message: str, result: Any = None) -> None:
        self.result = result
        FastnessError.__init__(self, message)


class CapabilityError(FastnessError):
    """A brokered call did not go through."""


class Denied(CapabilityError):
    """A brokered call was refused; ``code`` is a ``DenialCode``."""

    def __init__(self, code: Any, target: str = "") -> None:
        self.code = code
        self.target = target
        super().__init__(f"refused: {getattr(code, 'value', code)} {target}".rstrip())


class QuotaExceeded(CapabilityError):
    """A brokered call would pass a quota."""


class Revoked(CapabilityError):
    """The grant behind a brokered call was revoked."""


class AdapterError(CapabilityError):
    """The adapter behind a capability failed."""


class PluginError(FastnessError):
    """A plugin did something that its host collects."""


class PluginViolation(PluginError):
    """
    A plugin tried what its policy does not allow.

    ``operation`` is what it tried, ``target`` on what, ``reason`` why not; ``code`` is a ``DenialCode`` as text.
    """

    def __init__(
        self,
        message: str,
        *,
        plugin: str = "",
        operation: str = "",
        target: str = "",
        reason: str = "",
        code: str = "not_granted",
    ) -> None:
        self.plugin = plugin
        self.operation = operation
        self.target = target
        self.reason = reason
        self.code = code
        super().__init__(message)


class PluginTimeout(PluginError):
    """
    A plugin's lifecycle phase passed its timebox of ``seconds``.

    ``dead`` says that its code goes on in a thread of this process, where nothing can end it.
    """

    def __init__(
        self, message: str, *, plugin: str = "", phase: str = "", seconds: float = 0.0, dead: bool = False
    ) -> None:
        self.plugin = plugin
        self.phase = phase
        self.seconds = seconds
        self.dead = dead
        super().__init__(message)


class PackageChanged(PluginError):
    """
    The files of an installed plugin are not those that were installed.  None of them runs.

    ``digest`` names the package, ``problems`` says of each path what is wrong with it.
    """

    def __init__(self, digest: str, problems: Iterable[str]) -> None:
        self.digest = digest
        self.problems = tuple(problems)
        shown = "; ".join(_short(problem) for problem in self.problems[:5])
        more = f"; and {len(self.problems) - 5} more" if len(self.problems) > 5 else ""
        super().__init__(
            f"the installed files of package {digest[:16]} were changed: {shown}{more}.  "
            "Nothing of it ran. Fix: install the plugin again"
        )


class HostBug(FastnessError):
    """An invariant of ours does not hold.  This should never happen: please report it."""


def meant(given: object, known: Iterable[str]) -> str:
    """A question with the known word that is close to what was given, or nothing."""
    import difflib

    close = difflib.get_close_matches(given, list(known), 1) if isinstance(given, str) else []
    return f". Did you mean {close[0]!r}?" if close else ""


def _short(value: object) -> str:
    """A bounded rendering; large or odd values must not make an error message unreadable."""
    text = value if isinstance(value, str) else repr(value)
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= 200 else text[:197] + "..."
