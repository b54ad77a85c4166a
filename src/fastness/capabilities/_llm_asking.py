"""
How a question gets to the service: to an address that was judged, with the host's credential, and no further.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from fastness.capabilities._llm_budget import Charge
from fastness.capabilities._llm_settings import Settings
from fastness.capabilities._private_file import PrivateFile
from fastness.capabilities._secrets import Redactor, Secret
from fastness.capability import CallContext
from fastness.errors import AdapterError, ConfigurationError, Denied
from fastness.limits import MIB, Limits
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from fastness.capabilities._addresses import Address
    from fastness.capabilities._http import Answer, Begun, Client
    from fastness.capabilities._llm_stream import Stream

__all__ = ["Asking", "Question"]

_RESPONSE_BYTES = 8 * MIB
_MOST_ANSWERS = 64
_CONNECT_S = 10.0
#: Bytes to and from the service for one question; the budget bounds money, and this memory and time.
_LIMITS = Limits(net_bytes=64 * MIB)


class Question(msgspec.Struct, frozen=True):
    """What is sent: of which tier, the body, and how many tokens it asks for."""

    tier: str
    body: bytes
    max_tokens: int


class Asking:
    """Asks the service of ``settings`` with the credential in the file ``key``, where there is one."""

    def __init__(self, settings: Settings, key: str | None, resolve: Callable[[str], Any] | None) -> None:
        self._settings = settings
        self._at = settings.at
        self._guard = settings.guard()
        self._resolve = resolve
        self._file = None if key is None else PrivateFile(key, "llm.key", 8192)
        self._secret: Secret | None = None
        self._redactor = Redactor(())
        self._made: Client | None = None

    async def whole(self, question: Question, charge: Charge, context: CallContext) -> Answer:
        """A whole answer that went well.  Raises Denied, AdapterError."""
        with _Sending(charge) as sent:
            addresses, headers = await self._ready()
            client = self._client()
            sent.append(True)
            with _own_context(context) as own:
                answer = await client.exchange(
                    "POST", self._at, headers, question.body, addresses, own, follows=frozenset()
                )
            self._check(answer.status, charge, question.tier)
            return answer

    async def open(self, question: Question, charge: Charge, context: CallContext) -> Stream:
        """An answer that is read as it comes.  Raises Denied, AdapterError."""
        begun: Begun | None = None
        try:
            with _Sending(charge) as sent:
                addresses, headers = await self._ready()
                client = self._client()
                sent.append(True)
                with _own_context(context) as own:
                    begun = await client.begin("POST", self._at, headers, question.body, addresses, own)
                self._check(begun.answer.status, charge, question.tier)
            from fastness.capabilities._llm_stream import Stream

            return Stream(begun, charge, question, self)
        except BaseException:
            if begun is not None:
                await begun.aclose()
            charge.whole()
            context.cost = charge.cost
            raise

    async def clean(self, text: str) -> str:
        """A text without the credential."""
        if not self._redactor:
            return text
        import anyio.to_thread

        data = text.encode("utf-8", "surrogatepass")
        cleaned = await anyio.to_thread.run_sync(self._redactor.clean, data)
        return text if cleaned == data else cleaned.decode("utf-8", "replace")

    def begun_in(self, text: str) -> int:
        """How many characters at the end of a text may be the beginning of the credential."""
        value = self._secret.value if self._secret is not None else ""
        return next((size for size in range(min(len(value), len(text)), 0, -1) if text.endswith(value[:size])), 0)

    # what is needed for it

    async def _ready(self) -> tuple[list[Address], dict[str, str]]:
        addresses = await self._addresses()
        if any(self._guard.why_not(self._at.host.name, address, self._at.port) for address in addresses):
            raise AdapterError("the model's service has an address that may not be reached; its operator finds out why")
        return addresses, {"content-type": "application/json", **await self._credential()}

    async def _addresses(self) -> list[Address]:
        from ipaddress import ip_address

        host = self._at.host
        pinned = self._guard.pinned(host.name, self._at.port)
        if pinned and self._resolve is None:
            return pinned
        if host.address is not None:
            return [host.address]
        try:
            answers: Sequence[str] = list(await (self._resolve or _http().resolve)(host.name))
        except OSError:
            answers = ()
        if not answers or len(answers) > _MOST_ANSWERS:
            raise AdapterError("the model's service cannot be found")
        try:
            return [ip_address(answer) for answer in dict.fromkeys(answers)]
        except ValueError:
            raise AdapterError("the model's service cannot be found") from None

    async def _credential(self) -> dict[str, str]:
        if self._file is None:
            return {}
        try:
            data, mark = self._file.read(), self._file.mark
            if data is not None:
                import anyio.to_thread

                secret = self._parsed(data)
                # Also the one before: answers to questions that were sent with it are under way.
                both = (secret,) if self._secret is None else (secret, self._secret)
                # Patterns are made where that keeps no other call waiting.
                redactor = await anyio.to_thread.run_sync(Redactor, both)
                self._secret, self._redactor = secret, redactor
                self._file.kept(mark)
        except ConfigurationError:
            raise AdapterError("the host's credential cannot be read; its operator finds out why") from None
        if self._secret is None:
            return {}
        return dict((self._secret.field,))

    def _parsed(self, data: bytes) -> Secret:
        assert self._file is not None
        try:
            return Secret(
                name="llm",
                origin=self._at.origin,
                methods=("POST",),
                value=data.decode("ascii").strip(),
                header=self._settings.header,
                form=self._settings.form,
                plain_http=True,
            )
        except ValueError:
            raise self._file.wrong("one credential, 8 to 4096 visible ASCII characters, and nothing else") from None

    def _client(self) -> Client:
        if self._made is None:
            self._made = _http().Client(
                trust=self._settings.trust, response_bytes=_RESPONSE_BYTES, connect_s=_CONNECT_S
            )
        made: Client = self._made
        return made

    def _check(self, status: int, charge: Charge, tier: str) -> None:
        if status == 200:
            return
        if 400 <= status < 500:
            # It refused the question, and asks no money for that.
            charge.nothing()
        if status == 429:
            raise Denied(DenialCode.RATE, tier)
        raise AdapterError(f"the model's service answered with the status {status}")


class _Sending:
    """Where what is raised comes before anything was sent, nothing is spent."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._sent: list[bool] = []

    def __enter__(self) -> list[bool]:
        return self._sent

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if kind is not None and (not self._sent or isinstance(error, _http().NotSent)):
            self._charge.nothing()


@contextlib.contextmanager
def _own_context(context: CallContext) -> Iterator[CallContext]:
    # What goes to the service is not the plugin's own use of the network.
    own = CallContext(plugin="", owner="", run="", scope=None, deadline=math.inf, limits=_LIMITS)
    try:
        yield own
    finally:
        context.effect = context.effect or own.effect


def _http() -> Any:
    """The client of HTTP, imported at the first question.  Raises AdapterError where it is not installed."""
    try:
        from fastness.capabilities import _http
    except ImportError:
        raise AdapterError("this host has no client of HTTP; its operator can install fastness[net]") from None
    return _http
