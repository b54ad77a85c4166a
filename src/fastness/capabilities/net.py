"""
The capability ``net``: requests of HTTP to hosts that are allowed, at addresses that were judged.

A name is resolved once for each hop, or has the addresses that an allowance of the operator's names.  All of them are
judged, and the connection goes to one of those, with the Host field, the server name (RFC 6066) and the certificate of
the name.  Nothing comes from the environment: no proxy, no cookies, no netrc, no certificates but the system's or the
operator's.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from fastness.capabilities import _headers, _urls
from fastness.capabilities._addresses import Address, AddressGuard, Allowance
from fastness.capabilities._hosts import Host, matches
from fastness.capabilities._net_scope import NetScope, exceeds, meet, risk
from fastness.capabilities._secret_file import SecretFile
from fastness.capabilities._secrets import Redactor, Secret
from fastness.capability import CallContext, Operation, Spec
from fastness.errors import AdapterError, Denied, HostBug, QuotaExceeded
from fastness.limits import KIB, MIB
from fastness.runs import DenialCode

if TYPE_CHECKING:
    from fastness.capabilities._http import Answer, Client

__all__ = ["SPEC", "AddressGuard", "Allowance", "Net", "NetScope", "Request", "Secret", "SecretFile"]

Resolver = Callable[[str], Awaitable[Sequence[str]]]
SecretSource = Callable[[str, str], Secret | None]

_REDIRECTS = frozenset((301, 302, 303, 307, 308))
_MOST_ANSWERS = 64
#: The status of a part of what was asked for (RFC 9110, 15.3.7).
_PARTIAL = 206


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    The arguments of ``request``.

    ``headers`` are the guest's own fields; ``body`` goes with every method but GET and HEAD.  Up to ``redirects`` are
    followed, each judged as a request of its own; with 0 a redirect is an answer like any other.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    url: Annotated[str, msgspec.Meta(max_length=_urls.LONGEST)]
    headers: Annotated[
        dict[Annotated[str, msgspec.Meta(max_length=128)], Annotated[str, msgspec.Meta(max_length=8 * KIB)]],
        msgspec.Meta(max_length=64),
    ] = {}
    body: Annotated[bytes, msgspec.Meta(max_length=64 * MIB)] = b""
    redirects: Annotated[int, msgspec.Meta(ge=0, le=10)] = 5


def _target(request: Request) -> str:
    try:
        url = _urls.url_of(request.url)
    except _urls.BadUrl as error:
        return f"{request.method} ({error})"
    return f"{request.method} {url.origin}{url.path}"


def _learn(calls: Sequence[tuple[str, Any]]) -> NetScope:
    # Where a redirect would lead is not known.
    urls = [_urls.url_of(given.url) for _, given in calls]
    return NetScope(
        hosts=tuple(dict.fromkeys(url.host.name for url in urls)),
        schemes=tuple(sorted({url.scheme for url in urls})),
        ports=tuple(sorted({url.port for url in urls})),
    )


SPEC = Spec(
    kind="net",
    scope=NetScope,
    operations=(
        Operation(
            name="request",
            arguments=Request,
            target=_target,
            summary="Send one request of HTTP; gives status, reason, headers, body and url.",
            leaves=True,
        ),
    ),
    meet=meet,
    exceeds=exceeds,
    risk=risk,
    learn=_learn,
    enforced=(
        "Only hosts, schemes and ports of the scope; an empty list allows nothing. Judged on every redirect anew.",
        "Addresses that are not public are refused in every spelling and embedding.",
        "A name of which one address is not public is refused; the connection goes to an address that was judged.",
        "Host field, server name and certificate are those of the name in the URL.",
        "Without an address guard every call is refused.",
        "Cookies, authorization, forwarding and framing fields cannot be set; cookies are not stored or shown.",
        "Requests and bytes of a run, bytes and time of a call, and sizes of header sections have ceilings.",
        "Credentials go only with the origin, methods and path that they are bound to.",
        "After a redirect to another origin no credential goes along, nor on the way back.",
        "With a credential no part of an answer is asked for or taken, in which a part of it would not be found.",
        "Credentials are removed from answers: as they are, in base64, percent-encoded, hexadecimal and escaped.",
        "An endpoint that transforms a credential in another way can leak it.",
        "Nothing is taken from the environment: no proxy, no cookies, no netrc, no certificate files.",
    ),
)


def _http() -> Any:
    """The client of HTTP, imported at the first request.  Raises AdapterError where it is not installed."""
    try:
        from fastness.capabilities import _http
    except ImportError:
        raise AdapterError("this host has no client of HTTP; its operator can install fastness[net]") from None
    return _http


class Net:
    """
    The adapter of ``net``.

    ``guard`` judges addresses; without one every call is refused as ``no_adapter``.  ``resolve`` gives the addresses of
    a name in text; without it they are those that the guard allows for the name and port, else the system's answer.
    ``secrets(owner, name)`` gives a credential that a scope names, or None, as a ``SecretFile`` does.  ``trust`` is a
    file of certificates in PEM to trust instead of the system's.  A request's body has at most ``request_bytes``, an
    answer's ``response_bytes``; a call takes at most ``call_s`` seconds, whatever its deadline.
    """

    spec = SPEC

    def __init__(
        self,
        guard: AddressGuard | None = None,
        *,
        resolve: Resolver | None = None,
        secrets: SecretSource | None = None,
        trust: str | None = None,
        request_bytes: int = 1 * MIB,
        response_bytes: int = 4 * MIB,
        call_s: float = 60.0,
        connect_s: float = 10.0,
    ) -> None:
        self._guard = guard
        self._resolve = resolve
        self._secrets = secrets
        self._request_bytes = request_bytes
        self._call_s = call_s
        self._how = {"trust": trust, "response_bytes": response_bytes, "connect_s": connect_s}
        self._made: Client | None = None

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Send a request.  Raises Denied, QuotaExceeded, AdapterError; see ``fastness.capability.Adapter``."""
        if self._guard is None:
            raise Denied(DenialCode.NO_ADAPTER, "no address guard")
        if operation != "request" or not isinstance(arguments, Request):
            raise Denied(DenialCode.UNSUPPORTED, operation)
        try:
            url = _urls.url_of(arguments.url)
        except _urls.BadUrl as error:
            raise Denied(DenialCode.HOST, str(error)) from None
        try:
            headers = _headers.checked(arguments.headers)
        except _headers.BadHeader as error:
            raise Denied(DenialCode.HEADER, str(error)) from None
        if len(arguments.body) > self._request_bytes:
            raise Denied(DenialCode.TOO_LARGE, f"a body of more than {self._request_bytes} bytes")
        if arguments.body and arguments.method in ("GET", "HEAD"):
            raise AdapterError(f"{arguments.method} has no body")
        import anyio

        try:
            with anyio.fail_after(max(0.0, min(self._call_s, context.deadline - time.monotonic()))):
                return await self._follow(arguments, url, headers, context, self._guard)
        except TimeoutError:
            raise AdapterError("no whole answer came in time") from None

    async def aclose(self) -> None:
        """Nothing is held between calls."""

    def _client(self) -> Client:
        if self._made is None:
            self._made = _http().Client(**self._how)
        return self._made

    # hops

    async def _follow(
        self,
        asked: Request,
        url: _urls.Url,
        headers: dict[str, str],
        context: CallContext,
        guard: AddressGuard,
    ) -> dict[str, Any]:
        import anyio.to_thread

        secrets = self._granted(context)
        # Patterns are made, and texts searched, where that keeps no other call waiting.
        redactor = await anyio.to_thread.run_sync(Redactor, secrets) if secrets else Redactor(())
        method, body, origin, home = asked.method, asked.body, url.origin, True
        for left in range(asked.redirects, -1, -1):
            first = left == asked.redirects
            self._admit(url, context, DenialCode.HOST if first else DenialCode.REDIRECT)
            if not first and context.before is not None:
                context.before(f"{method} {url.origin}{url.path}")
            addresses = await self._judged(url, guard)
            credentials = _credentials(secrets, method, url) if home else {}
            names = {name.replace("_", "-") for name in headers}
            if clash := names & credentials.keys():
                raise Denied(DenialCode.HEADER, min(clash))
            if credentials and (cut := names & _headers.CUTTING):
                raise Denied(DenialCode.HEADER, f"{min(cut)}: with a credential a whole answer is asked for")
            context.bytes_out += len(body)
            answer = await self._client().exchange(
                method,
                url,
                headers | credentials,
                body,
                addresses,
                context,
                follows=_REDIRECTS if asked.redirects else frozenset(),
            )
            if credentials and (answer.status == _PARTIAL or answer.values(b"content-range")):
                # However it was asked for: what is looked for in it may be cut in two.
                raise Denied(DenialCode.HEADER, "a part of an answer, where a credential went along")
            locations = answer.values(b"location") if answer.status in _REDIRECTS and asked.redirects else []
            if not locations:
                context.bytes_in += len(answer.body)
                if redactor:
                    return await anyio.to_thread.run_sync(_plain, answer, url, redactor)
                return _plain(answer, url, redactor)
            if not left or len(locations) > 1:
                why = "more than one location" if left else f"more than {asked.redirects} in a row"
                raise Denied(DenialCode.REDIRECT, why)
            if redactor.found(locations[0]):
                # Following it would hand the credential to whoever reads it there.
                raise Denied(DenialCode.REDIRECT, "a location with a credential in it")
            came, url = url, _next(url, locations[0])
            if came.scheme == "https" and url.scheme != "https":
                raise Denied(DenialCode.REDIRECT, f"from https to {url.origin}")
            # Once elsewhere, a chain was written by somebody else: coming back brings no credential back.
            home = home and url.origin == origin
            if (answer.status == 303 and method != "HEAD") or (answer.status in (301, 302) and method == "POST"):
                method, body = "GET", b""
            headers = _headers.kept_on_redirect(headers, same_origin=url.origin == came.origin, body=bool(body))
        raise HostBug("a chain of redirects has no end")

    def _granted(self, context: CallContext) -> tuple[Secret, ...]:
        if self._secrets is None:
            return ()
        found = (self._secrets(context.owner, name) for name in context.scope.secrets)
        return tuple(secret for secret in found if secret is not None)

    def _admit(self, url: _urls.Url, context: CallContext, code: DenialCode) -> None:
        """Count a request that the scope allows, before a name is resolved.  Raises Denied, QuotaExceeded."""
        scope: NetScope = context.scope
        if not any(matches(pattern, url.host) for pattern in scope.hosts):
            raise Denied(code, url.origin)
        # The host is one that it may know of, so it is told what of the rest is not granted.
        if url.scheme not in scope.schemes:
            raise Denied(code, f"{url.origin}: the scheme {url.scheme} is not granted")
        if url.port not in scope.ports:
            raise Denied(code, f"{url.origin}: port {url.port} is not granted")
        spent = context.spent.get("net_requests", 0)
        if spent >= context.limits.net_requests:
            raise QuotaExceeded(f"the run has made its {context.limits.net_requests} requests")
        context.spent["net_requests"] = spent + 1

    async def _judged(self, url: _urls.Url, guard: AddressGuard) -> list[Address]:
        """The addresses at which a URL may be asked now.  Raises Denied, AdapterError."""
        # What the operator wrote down is not asked of the system: such a name need not be one that it can resolve.
        pinned = guard.pinned(url.host.name, url.port) if self._resolve is None else []
        addresses = pinned or await self._addresses(url.host)
        # One that is not public among others is how a name is made to lead inside: the whole name is refused.
        if any(guard.why_not(url.host.name, address, url.port) for address in addresses):
            raise Denied(DenialCode.ADDRESS, url.origin)
        return addresses

    async def _addresses(self, host: Host) -> list[Address]:
        if host.address is not None:
            return [host.address]
        try:
            answers = list(await (self._resolve or _http().resolve)(host.name))
        except OSError:
            raise AdapterError("the name could not be resolved") from None
        if not answers or len(answers) > _MOST_ANSWERS:
            raise AdapterError("the name has no address, or too many")
        try:
            return [ip_address(answer) for answer in dict.fromkeys(answers)]
        except ValueError:
            raise AdapterError("the name was resolved to something that is no address") from None


def _credentials(secrets: Iterable[Secret], method: str, url: _urls.Url) -> dict[str, str]:
    """The fields that the host adds; of two credentials for one field, the one with the longer path."""
    fitting = sorted((secret for secret in secrets if secret.goes_with(method, url)), key=lambda one: len(one.path))
    return dict(secret.field for secret in fitting)


def _next(url: _urls.Url, location: bytes) -> _urls.Url:
    try:
        return _urls.follow(url, location.decode("utf-8"))
    except (_urls.BadUrl, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, _urls.BadUrl) else "a location that is no text"
        raise Denied(DenialCode.REDIRECT, why) from None


def _plain(answer: Answer, url: _urls.Url, redactor: Redactor) -> dict[str, Any]:
    """An answer as the guest sees it."""
    body = redactor.clean(answer.body)
    changed = answer.decoded or body != answer.body
    headers = [(redactor.clean(name), redactor.clean(value)) for name, value in answer.headers]
    without = frozenset(("content-encoding", "content-length") if changed else ())
    return {
        "status": answer.status,
        "reason": redactor.clean(answer.reason).decode("latin-1"),
        "headers": _headers.for_guest(headers, without=without),
        "body": body,
        "url": str(url),
    }
