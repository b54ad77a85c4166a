"""
What an integration is: one action that leaves this machine, with its arguments as a type and its credential held here.

A plugin asks for the effect by name and hears what the integration answers; it is told of no address and no
credential, and there is no call that reads one.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from fastness.capabilities._integration_scope import ACTION
from fastness.capabilities._private_file import PrivateFile
from fastness.capabilities._secrets import Redactor, Secret
from fastness.capability import CallContext
from fastness.errors import AdapterError, ConfigurationError

__all__ = ["Credential", "Integration", "check_integration"]

_LONGEST = 8192


class Integration(Protocol):
    """
    One action.  Several may belong together: ``tickets.open`` and ``tickets.close`` are ``ctx.integrations.tickets``.

    ``name`` is the integration and what it does, in lower case, with a dot between.  ``arguments`` is a frozen
    ``msgspec.Struct`` that refuses unknown fields and bounds every length: what a guest sends is decoded into it.
    ``summary`` is one line for whoever writes a plugin.  ``credential`` is what it acts with, or None; answers are
    searched for it.

    It may be cancelled at every await, and no call lasts longer than its context's deadline.
    """

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def arguments(self) -> type[msgspec.Struct]:
        """The type of its arguments."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in a line."""
        ...

    @property
    def credential(self) -> Credential | None:
        """What it acts with."""
        ...

    def targets(self, arguments: Any) -> Sequence[str]:
        """
        What a call acts on, which is compared with the ``targets`` of the grant and recorded: never a payload.

        One that acts on nothing that has a name gives none; then the action alone is what is granted.
        """
        ...

    async def run(self, arguments: Any, context: CallContext) -> Any:
        """
        Do it; the answer is plain data.  Raises Denied, QuotaExceeded and AdapterError, in words fit for a guest.

        It sets ``effect`` of the context before it does what cannot be undone.
        """
        ...

    async def aclose(self) -> None:
        """End what it holds.  Idempotent."""
        ...


class Credential:
    """
    A credential in the file ``path``, of the operator's alone (mode 0600), read again when it changes.

    ``field`` is what errors call it.  It is one line of 8 to 4,096 visible ASCII characters.
    """

    def __init__(self, path: str, field: str = "credential") -> None:
        self._file = PrivateFile(path, field, _LONGEST)
        self._secret: Secret | None = None
        self._redactor = Redactor(())

    async def value(self) -> str:
        """The credential as the file has it now.  Raises AdapterError, in words fit for a guest."""
        import anyio.to_thread

        try:
            data, mark = self._file.read(), self._file.mark
            if data is not None:
                secret = self._parsed(data)
                # Also the one before: answers to calls that were made with it are under way.
                both = (secret,) if self._secret is None else (secret, self._secret)
                # Patterns are made where that keeps no other call waiting.
                redactor = await anyio.to_thread.run_sync(Redactor, both)
                self._secret, self._redactor = secret, redactor
                self._file.kept(mark)
        except ConfigurationError:
            raise AdapterError("the host's credential cannot be read; its operator finds out why") from None
        assert self._secret is not None
        return self._secret.value

    def _parsed(self, data: bytes) -> Secret:
        try:
            # Where it goes is the integration's to see to; this is only searched for.
            return Secret(name="integration", origin="https://integration.invalid", value=data.decode("ascii").strip())
        except ValueError:
            raise self._file.wrong("one credential, 8 to 4096 visible ASCII characters, and nothing else") from None

    def clean(self, value: Any) -> Any:
        """Plain data without the credential: as it is and in the forms that servers echo."""
        if not self._redactor:
            return value
        if isinstance(value, str):
            data = value.encode("utf-8", "surrogatepass")
            cleaned = self._redactor.clean(data)
            return value if cleaned == data else cleaned.decode("utf-8", "replace")
        if isinstance(value, (bytes, bytearray)):
            return self._redactor.clean(bytes(value))
        if isinstance(value, Mapping):
            return {self.clean(key): self.clean(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.clean(item) for item in value]
        return value


def check_integration(given: Any) -> Integration:
    """An integration, looked at once.  Raises ConfigurationError."""
    name = getattr(given, "name", None)
    if not isinstance(name, str) or not ACTION.fullmatch(name) or any(map(keyword.iskeyword, name.split("."))):
        allowed = "a name such as tickets.open: two words of lower-case letters, digits and underscores"
        raise ConfigurationError("integrations", name if isinstance(name, str) else type(given).__name__, allowed)
    field = f"integrations[{name!r}]"
    arguments = getattr(given, "arguments", None)
    if not isinstance(arguments, type) or not issubclass(arguments, msgspec.Struct):
        raise ConfigurationError(f"{field}.arguments", arguments, "a msgspec.Struct")
    config = arguments.__struct_config__
    if not config.frozen or not config.forbid_unknown_fields:
        raise ConfigurationError(f"{field}.arguments", arguments.__name__, "one with frozen, forbid_unknown_fields")
    for method in ("targets", "run", "aclose"):
        if not callable(getattr(given, method, None)):
            raise ConfigurationError(field, type(given).__name__, f"an object with a method {method}")
    if not isinstance(getattr(given, "summary", None), str):
        raise ConfigurationError(f"{field}.summary", type(given).__name__, "a line of text")
    credential = getattr(given, "credential", None)
    if credential is not None and not isinstance(credential, Credential):
        raise ConfigurationError(f"{field}.credential", type(credential).__name__, "a Credential, or None")
    found: Integration = given
    return found
