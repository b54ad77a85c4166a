"""
The adapter ``net`` against servers on loopback: what is sent, what comes back, and where it stops.
"""

from __future__ import annotations

import contextlib
import gzip
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import listeners
from fastness.capabilities._addresses import AddressGuard, Allowance
from fastness.capabilities._secrets import Secret
from fastness.capabilities.net import SPEC, Net, NetScope, Request
from fastness.errors import AdapterError, Denied, QuotaExceeded
from fastness.limits import Limits
from fastness.runs import DenialCode
from listeners import Listener, Names, answer, ask, context, guard, moved, scope, simple

VALUE = "sk-live/0123456789+abcdef"


@pytest.fixture(autouse=True)
def _nothing_leaves() -> Iterator[None]:
    with listeners.nothing_leaves():
        yield


@pytest.fixture
def listen() -> Iterator[Callable[..., Listener]]:
    """``listen(answer)`` starts a server that ends with the test; see Listener."""
    with contextlib.ExitStack() as stack:

        def start(say: bytes | Callable[[bytes], Iterable[bytes]] = b"", **how: Any) -> Listener:
            made = Listener((lambda _head: [say]) if isinstance(say, bytes) else say, **how)
            stack.callback(made.close)
            return made

        yield start


@pytest.fixture
def pem(tmp_path: Path) -> tuple[Path, Path]:
    """Files of a certificate with its key, and of who vouches for it."""
    leaf, ca = tmp_path / "leaf.pem", tmp_path / "ca.pem"
    leaf.write_text(listeners.LEAF)
    ca.write_text(listeners.CA)
    return leaf, ca


# ordinary use


def test_a_request_and_its_answer(listen: Callable[..., Listener]) -> None:
    """What the guest gave is sent to the judged address with the name's Host; what came is plain data."""
    server = listen(answer(b"hello", status="201 Made", headers=[("X-A", "1"), ("x-a", "2"), ("Set-Cookie", "s=1")]))
    net, of, names = simple(server)
    got = ask(net, f"http://A.test:{server.port}/x?q=1#f", of, "POST", headers={"X-B": "3"}, body=b"body")
    assert got == {
        "status": 201,
        "reason": "Made",
        "headers": {"x-a": "1, 2", "content-length": "5"},
        "body": b"hello",
        "url": f"http://a.test:{server.port}/x?q=1",
    }
    assert server.lines == ["POST /x?q=1 HTTP/1.1"]
    assert server.bodies == [b"body"]
    sent = server.fields()
    assert sent.pop("user-agent")
    assert sent == {
        "host": f"a.test:{server.port}", "accept": "*/*", "x-b": "3", "accept-encoding": "identity", "connection": "close",
        "content-length": "4",
    }  # fmt: skip
    assert names.asked == ["a.test"]
    assert listeners.tried == [("127.0.0.1", server.port)]
    assert (of.bytes_out, of.bytes_in, of.spent["net_requests"]) == (4, 5, 1)
    assert of.spent["net_bytes"] > 9


@pytest.mark.parametrize(
    ("method", "length"), [("GET", None), ("HEAD", None), ("DELETE", None), ("POST", "0"), ("PUT", "0"), ("PATCH", "0")]
)
def test_methods(listen: Callable[..., Listener], method: str, length: str | None) -> None:
    """Each method is sent as it is; those that mean a body say how long it is, even where there is none."""
    server = listen(answer(b"" if method == "HEAD" else b"x"))
    net, of, _ = simple(server)
    assert ask(net, f"http://a.test:{server.port}", of, method)["status"] == 200
    assert server.lines == [f"{method} / HTTP/1.1"]
    assert server.fields().get("content-length") == length
    assert "transfer-encoding" not in server.fields()


def test_arguments_that_are_none() -> None:
    """Methods that are not listed, unknown arguments and numbers out of range never become a request."""
    for wrong in (
        {"method": "CONNECT"}, {"method": "TRACE"}, {"method": "get"}, {"method": "GET\r\n"}, {"url": "http://" + "a" * 9_000}, {"redirects": 11},
        {"redirects": -1}, {"headers": {f"x{n}": "" for n in range(65)}}, {"proxy": "http://p"}, {"headers": {"a": "b" * 9_000}}, {"body": "text"},
    ):  # fmt: skip
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"method": "GET", "url": "http://a.test", **wrong}, Request, builtin_types=(bytes,))


def test_targets_for_the_trail() -> None:
    """What is recorded has method, origin and path; no query, no user, no payload, and never fails."""
    target = SPEC.operations[0].target
    assert target(Request("GET", "https://a.test/x/../y?token=1#f")) == "GET https://a.test/y"
    assert target(Request("POST", "http://u:pw@a.test/?q", body=b"payload")) == "POST (a URL with a user name)"
    assert SPEC.operations[0].leaves


@pytest.mark.parametrize("shape", ["chunked", "until it closes", "gzip", "gzip in chunks"])
def test_shapes_of_answers(listen: Callable[..., Listener], shape: str) -> None:
    """A body comes whole however it was framed; compressed content is undone and no longer called so."""
    body = b"hello world " * 100
    packed = gzip.compress(body)
    coded = [("Content-Encoding", "gzip")]

    def chunks(data: bytes) -> bytes:
        parts = [data[n : n + 7] for n in range(0, len(data), 7)]
        return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nX-Trailer: t\r\n\r\n"

    say = {
        "chunked": answer(headers=[("Transfer-Encoding", "chunked")], length=False) + chunks(body),
        "until it closes": answer(length=False) + body,
        "gzip": answer(packed, headers=coded),
        "gzip in chunks": answer(headers=[("Transfer-Encoding", "chunked"), *coded], length=False) + chunks(packed),
    }[shape]
    net, of, _ = simple(server := listen(say))
    got = ask(net, f"http://a.test:{server.port}", of)
    assert got["body"] == body
    assert got["headers"] == {}


@pytest.mark.parametrize("name", ["files.nowhere.test", "Localhost"])
def test_what_the_operator_wrote_down_is_not_looked_up(
    listen: Callable[..., Listener], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of an allowance has its address, whatever the system can resolve; at another port it is any name."""
    asked: list[Any] = []

    def nobody(asks: Any, *_: Any, **__: Any) -> Any:
        asked.append(asks)
        raise socket.gaierror(socket.EAI_NONAME, "nobody knows it")

    monkeypatch.setattr(socket, "getaddrinfo", nobody)
    server, other = listen(answer(b"inside")), listen(answer(b"other"))
    net, of = Net(guard(name, port=server.port)), context(scope(server.port, other.port, hosts=("*",)))
    assert ask(net, f"http://{name}:{server.port}/", of)["body"] == b"inside"
    assert server.fields()["host"] == f"{name.lower()}:{server.port}"
    assert asked == []
    with pytest.raises(AdapterError, match="could not be resolved"):
        ask(net, f"http://{name}:{other.port}/", of)
    assert asked == [f"{name.lower()}.".encode()] and other.lines == []


def test_it_is_told_what_of_a_host_is_not_granted(listen: Callable[..., Listener]) -> None:
    """Another port or scheme of a host that is granted is named; of another host nothing but that it is refused."""
    net, _, _ = simple(server := listen(answer()))
    of = context(NetScope(hosts=("a.test",), schemes=("http",), ports=(server.port,)))
    for url, words in (
        ("http://a.test/", "http://a.test: port 80 is not granted"),
        (f"https://a.test:{server.port}/", f"https://a.test:{server.port}: the scheme https is not granted"),
        ("https://b.test/", "https://b.test"),
    ):
        with pytest.raises(Denied) as caught:
            ask(net, url, of)
        assert (caught.value.code, caught.value.target) == (DenialCode.HOST, words)
    assert server.lines == []


def test_ipv6_and_literal_addresses(listen: Callable[..., Listener]) -> None:
    """An address in the URL is judged without a resolver; the Host field has brackets where they belong."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6")
    try:
        server = listen(answer(b"six"), address="::1")
    except OSError:
        pytest.skip("no IPv6 loopback")
    net = Net(guard("::1", port=server.port, address="::1"), resolve=Names())
    assert ask(net, f"http://[0::1]:{server.port}/", context(scope(server.port, hosts=("::1",))))["body"] == b"six"
    assert server.fields()["host"] == f"[::1]:{server.port}"


def test_the_next_address_is_tried(listen: Callable[..., Listener]) -> None:
    """Where one judged address does not answer, another judged one is asked, and none that was not judged."""
    server = listen(answer(b"second"))
    names = Names(a_test=["127.0.0.3", "127.0.0.1"])
    net = Net(
        AddressGuard([Allowance("a.test", one, server.port) for one in ("127.0.0.1", "127.0.0.3")]), resolve=names
    )
    assert ask(net, f"http://a.test:{server.port}", context(scope(server.port)))["body"] == b"second"
    assert [address for address, _ in listeners.tried] == ["127.0.0.3", "127.0.0.1"]


def test_both_families_have_their_turn() -> None:
    """A name with many addresses of a family that does not work here is still reached by the other."""
    from fastness.capabilities._http import _in_turns

    given = [ip_address(text) for text in ("::1", "::2", "::3", "::4", "::5", "127.0.0.1", "127.0.0.2")]
    assert [str(address) for address in _in_turns(given)][:4] == ["::1", "127.0.0.1", "::2", "127.0.0.2"]
    assert set(_in_turns(given)) == set(given)


# what is not allowed


def test_without_a_guard_nothing_is_asked(listen: Callable[..., Listener]) -> None:
    """No guard, no network: not even a name is resolved.  Control: the same call with one."""
    server = listen(answer(b"x"))
    names = Names(a_test=["127.0.0.1"])
    with pytest.raises(Denied) as caught:
        ask(Net(resolve=names), f"http://a.test:{server.port}", context(scope(server.port)))
    assert caught.value.code is DenialCode.NO_ADAPTER
    assert (names.asked, listeners.tried) == ([], [])
    net, of, _ = simple(server)
    assert ask(net, f"http://a.test:{server.port}", of)["body"] == b"x"


@pytest.mark.parametrize(
    "url",
    [
        "http://b.example:{p}/",
        "http://test:{p}/",
        "http://a.test.evil.example:{p}/",
        "http://a.test:1/",
        "https://a.test:{p}/",
        "http://127.0.0.1:{p}/",
    ],
)
def test_outside_the_scope(listen: Callable[..., Listener], url: str) -> None:
    """Another host, port or scheme is refused before a name is resolved; so a name cannot carry anything out."""
    server = listen(answer(b"x"))
    net, of, names = simple(server)
    of.scope = NetScope(hosts=("*.test",), schemes=("http",), ports=(server.port,))
    with pytest.raises(Denied) as caught:
        ask(net, url.format(p=server.port), of)
    assert caught.value.code is DenialCode.HOST
    assert (names.asked, listeners.tried, of.spent) == ([], [], {})
    assert ask(net, f"http://a.test:{server.port}", of)["body"] == b"x"  # control


@pytest.mark.parametrize(
    "of",
    [
        NetScope(),
        NetScope(hosts=("*",), ports=()),
        NetScope(hosts=("*",), schemes=()),
        NetScope(ports=(80,), schemes=("http",)),
    ],
)
def test_an_empty_list_denies(of: NetScope) -> None:
    """No host, no scheme or no port: nothing, and never everything."""
    for url in ("http://a.test/", "https://a.test/"):
        with pytest.raises(Denied) as caught:
            ask(Net(AddressGuard(), resolve=Names(a_test=["8.8.8.8"])), url, context(of))
        assert caught.value.code is DenialCode.HOST
    assert listeners.tried == []


@pytest.mark.parametrize(
    "name", ["Cookie", "Authorization", "X-Forwarded-For", "Host", "Transfer-Encoding", "Proxy-Authorization"]
)
def test_forbidden_fields(listen: Callable[..., Listener], name: str) -> None:
    """The issue's fields are refused as such, before anything is asked."""
    net, of, names = simple(server := listen(answer(b"x")))
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}", of, headers={name: "x"})
    assert (caught.value.code, caught.value.target) == (DenialCode.HEADER, name.lower())
    assert names.asked == []


def test_names_that_do_not_resolve(listen: Callable[..., Listener]) -> None:
    """A name without an address, with something else, or with a flood of addresses is an ordinary failure."""
    server = listen(answer(b"x"))
    names = Names(none_test=[[]], odd_test=["localhost"], many_test=[f"8.8.{n}.1" for n in range(100)])
    net = Net(AddressGuard(), resolve=names)
    for name in ("unknown.test", "none.test", "odd.test", "many.test"):
        with pytest.raises(AdapterError):
            ask(net, f"http://{name}:{server.port}", context(scope(server.port)))
    assert listeners.tried == []


def test_a_resolver_that_hangs(listen: Callable[..., Listener]) -> None:
    """Resolving is under the deadline like everything else."""

    async def hang(_name: str) -> list[str]:
        await anyio.sleep_forever()
        return []

    with pytest.raises(AdapterError, match="in time"):
        ask(Net(AddressGuard(), resolve=hang), "http://a.test:80", context(scope(80), seconds=0.2))


def test_the_systems_resolver_is_asked_for_an_absolute_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search list, no second IDNA, no port names; every address that it gives is there, once."""
    from fastness.capabilities import _http

    asked: list[tuple[Any, ...]] = []
    entries = [(2, 1, 6, "", ("8.8.8.8", 0)), (2, 1, 6, "", ("8.8.8.8", 0)), (10, 1, 6, "", ("fe80::1%2", 0, 0, 2))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **_: asked.append(args) or entries)
    assert anyio.run(_http.resolve, "a.test") == ["8.8.8.8", "fe80::1%2"]
    assert asked == [(b"a.test.", None)]

    held = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_: held.wait(20) and entries)
    began = time.monotonic()
    with pytest.raises(AdapterError, match="in time"):
        ask(Net(AddressGuard()), "http://a.test:80", context(scope(80), seconds=0.2))
    took = time.monotonic() - began
    held.set()
    assert took < 15  # it did not wait for the thread


# ceilings


def test_requests_and_bytes_of_a_run(listen: Callable[..., Listener]) -> None:
    """What a run may send and fetch is counted over all its calls; the next one is refused before it is made."""
    net, of, _ = simple(server := listen(answer(b"x" * 1_000)))
    of.limits = Limits(net_requests=3)
    url = f"http://a.test:{server.port}"
    for _ in range(3):
        ask(net, url, of)
    with pytest.raises(QuotaExceeded):
        ask(net, url, of)
    assert len(server.requests) == 3

    fresh = context(scope(server.port), limits=Limits(net_bytes=3_000))
    with pytest.raises(QuotaExceeded):
        for _ in range(10):
            ask(net, url, fresh)
    assert fresh.spent["net_bytes"] <= 3_000
    assert len(server.requests) <= 6


def test_a_request_that_is_too_large(listen: Callable[..., Listener]) -> None:
    """A body past its ceiling, or past what the run has left, is not sent; a GET has none."""
    net, of, _ = simple(server := listen(answer(b"x")), request_bytes=1_000)
    url = f"http://a.test:{server.port}"
    assert ask(net, url, of, "POST", body=b"x" * 1_000)["status"] == 200
    with pytest.raises(Denied) as caught:
        ask(net, url, of, "POST", body=b"x" * 1_001)
    assert caught.value.code is DenialCode.TOO_LARGE
    of.limits = Limits(net_bytes=of.spent["net_bytes"] + 500)
    with pytest.raises(QuotaExceeded):
        ask(net, url, of, "POST", body=b"x" * 1_000)
    with pytest.raises(AdapterError, match="no body"):
        ask(net, url, of, "GET", body=b"x")
    assert len(server.bodies) == 1


# redirects


@pytest.mark.parametrize(("status", "method", "then", "body"), [
    ("301 M", "GET", "GET", b""), ("301 M", "POST", "GET", b""), ("302 F", "POST", "GET", b""), ("302 F", "PUT", "PUT", b"body"),
    ("303 S", "POST", "GET", b""), ("303 S", "PUT", "GET", b""), ("303 S", "HEAD", "HEAD", b""), ("307 T", "POST", "POST", b"body"),
    ("308 P", "PUT", "PUT", b"body"), ("307 T", "GET", "GET", b""),
])  # fmt: skip
def test_methods_and_bodies_of_redirects(
    listen: Callable[..., Listener], status: str, method: str, then: str, body: bytes
) -> None:
    """RFC 9110, 15.4: 303 is a GET; a POST of 301 and 302 becomes one; 307 and 308 repeat what was asked."""
    server = listen(
        lambda head: [moved("/next", status) if b" / " in head else answer(b"" if method == "HEAD" else b"end")]
    )
    net, of, names = simple(server)
    fields = {"Content-Type": "text/plain", "X-Own": "1"}
    got = ask(
        net,
        f"http://a.test:{server.port}/",
        of,
        method,
        headers=fields,
        body=b"body" if method in ("POST", "PUT") else b"",
    )
    assert server.lines == [f"{method} / HTTP/1.1", f"{then} /next HTTP/1.1"]
    assert server.bodies[1] == body
    assert ("content-type" in server.fields()) == bool(body)
    assert server.fields()["x-own"] == "1"
    assert got["url"].endswith("/next")
    assert names.asked == ["a.test", "a.test"]  # judged again
    assert of.spent["net_requests"] == 2


def test_a_redirect_is_an_answer_where_none_is_followed(listen: Callable[..., Listener]) -> None:
    """With ``redirects=0`` the guest sees it; without a location it is an answer in any case."""
    net, of, _ = simple(server := listen(answer(b"moved", status="302 Found", headers=[("Location", "/next")])))
    got = ask(net, f"http://a.test:{server.port}", of, redirects=0)
    assert (got["status"], got["headers"]["location"], got["body"]) == (302, "/next", b"moved")
    net, of, _ = simple(server := listen(answer(b"choose", status="301 M")))
    assert ask(net, f"http://a.test:{server.port}", of)["body"] == b"choose"


def test_redirects_end(listen: Callable[..., Listener]) -> None:
    """A circle, more than were asked for, two locations, and locations that lead nowhere."""
    net, of, _ = simple(server := listen(moved("/again")))
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}", of, redirects=3)
    assert caught.value.code is DenialCode.REDIRECT
    assert len(server.requests) == 4
    two = answer(status="302 F", headers=[("Location", "/a"), ("Location", "/b")])
    for say in (
        two,
        moved("http://u@a.test/"),
        moved("//a.test\\@b.test"),
        moved("ftp://a.test"),
        moved("/a b"),
        moved("\udcff"),
    ):
        net, of, _ = simple(server := listen(lambda head, say=say: [say if b" / " in head else answer(b"end")]))
        with pytest.raises(Denied) as caught:
            ask(net, f"http://a.test:{server.port}/", of)
        assert caught.value.code is DenialCode.REDIRECT
        assert len(server.requests) == 1


def test_a_redirect_is_told_before_it_is_followed(listen: Callable[..., Listener]) -> None:
    """Whoever records intents hears of each further target first; what it raises keeps the request from being made."""
    server = listen(lambda head: [moved("/next?q=secret") if b" / " in head else answer(b"end")])
    net, of, _ = simple(server)
    told: list[tuple[str, int]] = []
    of.before = lambda target: told.append((target, len(server.requests)))
    ask(net, f"http://a.test:{server.port}/", of)
    assert told == [(f"GET http://a.test:{server.port}/next", 1)]

    def refuse(_target: str) -> None:
        raise Denied(DenialCode.REVOKED)

    of.before = refuse
    with pytest.raises(Denied):
        ask(net, f"http://a.test:{server.port}/", of)
    assert len(server.requests) == 3


# TLS


def test_tls_is_for_the_name(listen: Callable[..., Listener], pem: tuple[Path, Path]) -> None:
    """Server name and certificate are the name's, though the connection goes to an address."""
    leaf, ca = pem
    server = listen(answer(b"secure"), tls=leaf)
    net, of, _ = simple(server, "a.test", "c.test", trust=str(ca))
    assert ask(net, f"https://a.test:{server.port}", of)["body"] == b"secure"
    assert server.names == ["a.test"]
    assert server.fields()["host"] == f"a.test:{server.port}"
    with pytest.raises(AdapterError, match="certificate"):
        ask(net, f"https://c.test:{server.port}", of)  # the address is right, and the name is not on the certificate
    assert len(server.requests) == 1


def test_tls_trusts_what_the_operator_trusts(
    listen: Callable[..., Listener], pem: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A certificate that nobody vouches for is refused, also where the environment vouches for it."""
    leaf, ca = pem
    server = listen(answer(b"secure"), tls=leaf)
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    monkeypatch.setenv("SSL_CERT_DIR", str(ca.parent))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    net, of, _ = simple(server)
    with pytest.raises(AdapterError):
        ask(net, f"https://a.test:{server.port}", of)
    import ssl

    naive = ssl.create_default_context()  # control: the library's own context believes the environment
    with (
        socket.create_connection(("127.0.0.1", server.port)) as plain,
        naive.wrap_socket(plain, server_hostname="a.test"),
    ):
        pass
    assert (tmp_path / "keys").stat().st_size
    (tmp_path / "keys").unlink()
    net, of, _ = simple(server, trust=str(ca))
    assert ask(net, f"https://a.test:{server.port}", of)["body"] == b"secure"
    assert not (tmp_path / "keys").exists()
    net, of, _ = simple(server, trust=str(tmp_path / "none"))
    with pytest.raises(AdapterError, match="certificates"):
        ask(net, f"https://a.test:{server.port}", of)


# credentials


def bound(port: int, **fields: Any) -> Secret:
    given: dict[str, Any] = {
        "name": "key",
        "origin": f"http://a.test:{port}",
        "plain_http": True,
        "methods": ("GET",),
        "path": "/v1",
        **fields,
    }
    return Secret(value=VALUE, **given)


def test_a_credential_goes_with_its_requests(listen: Callable[..., Listener]) -> None:
    """It is added where origin, method, path, scope and owner agree, and nowhere else."""
    server = listen(answer(b"x"))
    secret = bound(server.port)
    net, of, _ = simple(
        server, "a.test", "b.test", secrets=lambda owner, name: secret if (owner, name) == ("o", "key") else None
    )
    of.scope = scope(server.port, secrets=("key",))

    def sent(url: str, method: str = "GET", **fields: Any) -> bool:
        ask(net, url.format(p=server.port), msgspec.structs.replace(of, **fields), method)
        return server.fields().get("authorization") == f"Bearer {VALUE}"

    assert sent("http://a.test:{p}/v1/x")
    assert not sent("http://a.test:{p}/v2")
    assert not sent("http://a.test:{p}/v1/%2e%2e/admin")
    assert not sent("http://a.test:{p}/v1/..%2fadmin")
    assert not sent("http://b.test:{p}/v1/x")
    assert not sent("http://a.test:{p}/v1/x", "POST")
    assert not sent("http://a.test:{p}/v1/x", scope=scope(server.port))
    assert not sent("http://a.test:{p}/v1/x", owner="somebody else")


def test_of_two_credentials_the_closer_one_goes(listen: Callable[..., Listener]) -> None:
    """One field, two credentials: the one that is bound to the longer path; a guest's own field of that name is refused."""
    server = listen(answer(b"x"))
    secrets = {"near": bound(server.port, name="near", path="/v1/x", form="near {}"), "far": bound(server.port, name="far", form="far {}", path="/"),
               "own": bound(server.port, name="own", path="/own", header="X-Api-Key", form="{}")}  # fmt: skip
    net, of, _ = simple(server, secrets=lambda _owner, name: secrets[name])
    of.scope = scope(server.port, secrets=("near", "far", "own"))
    ask(net, f"http://a.test:{server.port}/v1/x", of)
    assert server.fields()["authorization"].startswith("near ")
    ask(net, f"http://a.test:{server.port}/v1", of)
    assert server.fields()["authorization"].startswith("far ")
    for name in ("X-Api-Key", "x_api_key"):
        with pytest.raises(Denied) as caught:
            ask(net, f"http://a.test:{server.port}/own", of, headers={name: "mine"})
        assert caught.value.code is DenialCode.HEADER
    ask(net, f"http://a.test:{server.port}/v1", of, headers={"X-Api-Key": "mine"})
    assert server.fields()["x-api-key"] == "mine"


def test_nothing_is_logged(listen: Callable[..., Listener], caplog: pytest.LogCaptureFixture) -> None:
    """A host that logs everything logs no credential: the client of HTTP would log what a server echoes."""
    server = listen(lambda head: [answer(b"", headers=[("X-Echo", VALUE)])])
    secret = bound(server.port)
    net, of, _ = simple(server, secrets=lambda *_: secret)
    of.scope = scope(server.port, secrets=("key",))
    with caplog.at_level(logging.DEBUG):
        got = ask(net, f"http://a.test:{server.port}/v1", of)
        assert "[redacted]" in got["headers"]["x-echo"]
        assert VALUE not in caplog.text
        import httpcore2  # control: used by itself, it does

        async def naive() -> None:
            async with httpcore2.AsyncConnectionPool() as pool:
                await pool.request("GET", f"http://127.0.0.1:{server.port}/")

        anyio.run(naive)
        assert VALUE in caplog.text


def _cuts(head: bytes) -> list[bytes]:
    """A server that says back what it was sent, or as much of it as is asked for."""
    fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if ": " in line)
    body = head.split(b"uthorization: ")[1].split(b"\r\n")[0] if b"uthorization: " in head else b"nobody"
    wanted = next((fields[name] for name in ("range", "x-cut") if name in fields), None)
    if wanted is None:
        return [answer(body)]
    first, last = map(int, wanted.removeprefix("bytes=").split("-"))
    part = [("Content-Range", f"bytes {first}-{last}/{len(body)}")]
    return [answer(body[first : last + 1], status="206 Partial Content", headers=part)]


@pytest.mark.parametrize("name", ["Range", "rAnge", "If-Range", "Request-Range", "If_Range", "A-IM", "X-Cut"])
def test_an_answer_is_not_cut_where_a_credential_goes(name: str, listen: Callable[..., Listener]) -> None:
    """Neither half of a credential would be found: such a field is not sent with one, nor a part taken."""
    server = listen(_cuts)
    net, of, _ = simple(server, secrets=lambda *_: bound(server.port))
    of.scope = scope(server.port, secrets=("key",))
    url = f"http://a.test:{server.port}"
    with pytest.raises(Denied) as caught:
        ask(net, f"{url}/v1", of, headers={name: "bytes=0-12"})
    assert caught.value.code is DenialCode.HEADER
    # A field that nobody here knows has been sent; its answer is not given.
    assert (of.effect, len(server.requests)) == ((True, 1) if name == "X-Cut" else (False, 0))
    # The control: where none goes along, parts are the plugin's to ask for.
    status = ask(net, f"{url}/v2", of, headers={name: "bytes=0-2"})["status"]
    assert status == (206 if name.lower() in ("range", "x-cut") else 200)


def test_a_redirect_brings_no_cut_to_a_credential(listen: Callable[..., Listener]) -> None:
    """A request that begins beside the path and is sent on into it."""
    server = listen(lambda head: [moved("/v1")] if b" /out " in head else _cuts(head))
    net, of, _ = simple(server, secrets=lambda *_: bound(server.port))
    of.scope = scope(server.port, secrets=("key",))
    with pytest.raises(Denied, match="range"):
        ask(net, f"http://a.test:{server.port}/out", of, headers={"Range": "bytes=0-12"})
    assert server.lines == ["GET /out HTTP/1.1"]
