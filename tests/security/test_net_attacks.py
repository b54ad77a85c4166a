"""
What hostile guests, servers and resolvers try with the capability ``net``, each beside a plain client that falls for it.

All servers are on loopback.  "Public" is an address that the guard was told to allow; "inside" is another one, which it
judges as it judges every address of loopback.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.cookiejar
import re
import socket
import threading
import tracemalloc
import urllib.request
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import pytest

import listeners
from fastness.capabilities._addresses import AddressGuard, Allowance
from fastness.capabilities._secrets import Secret
from fastness.capabilities.net import Net, NetScope, Request
from fastness.errors import AdapterError, Denied, FastnessError, QuotaExceeded
from fastness.limits import MIB, Limits
from fastness.runs import DenialCode
from listeners import Listener, Names, answer, ask, context, moved, scope, simple

INSIDE = b"what only the inside may read"
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
def inside(listen: Callable[..., Listener]) -> Listener:
    """A server that no guest may reach."""
    return listen(answer(INSIDE), address="127.0.0.2")


def plain(url: str, **how: Any) -> bytes:
    """A client as one writes it: follows redirects, knows no addresses."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10, **how) as response:
        data: bytes = response.read()
        return data


# addresses

EVERYWHERE = NetScope(hosts=("*",), schemes=("http", "https"), ports=(80, 443, 8080))
METADATA = ("169.254.169.254", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0xA9.0xFE.0xA9.0xFE", "169.254.43518", "169.16689662",
            "00000251.254.169.254", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "169.254.169.254.")  # fmt: skip
OTHERS = ("127.0.0.1", "127.1", "0", "0.0.0.0", "localhost.", "[::1]", "[::]", "10.0.0.1", "192.168.1.1", "172.16.0.1", "100.64.0.1", "[fe80::1]",
          "[fc00::1]", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001::1]", "[::7f00:1]", "224.0.0.1",
          "[ff02::1]", "255.255.255.255", "１６９.254.169.254", "169。254。169。254", "①⑥⑨.254.169.254")  # fmt: skip


@pytest.mark.parametrize("host", [*METADATA, *OTHERS])
def test_everything_is_granted_and_the_inside_is_not(host: str) -> None:
    """With ``*`` granted: metadata and inner addresses are refused in every spelling, and no connection is tried."""
    names = Names(localhost=["127.0.0.1"])
    with pytest.raises(Denied) as caught:
        ask(Net(AddressGuard(), resolve=names), f"http://{host}:80/latest/meta-data/", context(EVERYWHERE))
    assert caught.value.code is DenialCode.ADDRESS
    assert "latest" not in str(caught.value)
    assert listeners.tried == []


@pytest.mark.parametrize("host", METADATA)
def test_control_a_plain_client_connects_to_metadata(host: str) -> None:
    """Control: these spellings are all the metadata service to the system, and a plain client goes there."""
    with pytest.raises((listeners.Elsewhere, OSError)):
        plain(f"http://{host}/latest/meta-data/")
    found = [address for address, _ in listeners.tried] + [name.rstrip(".") for name in listeners.looked_up]
    assert found
    assert found[0].removeprefix("::ffff:") in ("169.254.169.254", "a9fe:a9fe")


@pytest.mark.parametrize("answers", [["169.254.169.254"], ["10.0.0.1"], ["::1"], ["8.8.8.8", "10.0.0.1"], ["2606:4700::1", "fe80::1%2"],
                                     ["::ffff:127.0.0.1"], ["64:ff9b::a00:1"], ["0.0.0.0"], ["8.8.8.8", "::"]])  # fmt: skip
def test_names_that_lead_inside(answers: list[str]) -> None:
    """A public name with an inner address, alone or among public ones, is refused; all answers count."""
    with pytest.raises(Denied) as caught:
        ask(Net(AddressGuard(), resolve=Names(a_test=answers)), "http://a.test/", context(EVERYWHERE))
    assert caught.value.code is DenialCode.ADDRESS
    assert not any(address in str(caught.value) for address in answers)  # what inner names resolve to is not told
    assert listeners.tried == []


def test_a_resolver_that_rebinds(listen: Callable[..., Listener], inside: Listener) -> None:
    """The second answer leads inside; it is never asked for, since the connection goes to what was judged."""
    server = listen(answer(b"outside"), port=inside.port)
    guard = AddressGuard([Allowance("a.test", "127.0.0.1", server.port)])
    names = Names(a_test=[["127.0.0.1"], ["127.0.0.2"]])
    got = ask(Net(guard, resolve=names), f"http://a.test:{server.port}/", context(scope(server.port)))
    assert got["body"] == b"outside"
    assert names.asked == ["a.test"]
    assert inside.requests == []

    # Control: who checks one answer and connects by name is led inside.
    async def naive(names: Names) -> bytes:
        (checked,) = await names("a.test")
        assert guard.why_not("a.test", listeners.ipaddress.ip_address(checked), server.port) == ""
        (reached,) = await names("a.test")
        return plain(f"http://{reached}:{server.port}/")

    assert anyio.run(naive, Names(a_test=[["127.0.0.1"], ["127.0.0.2"]])) == INSIDE


def test_a_resolver_that_rebinds_between_hops(listen: Callable[..., Listener], inside: Listener) -> None:
    """A redirect to the same name is resolved and judged again."""
    server = listen(moved("/again"), port=inside.port)
    names = Names(a_test=[["127.0.0.1"], ["127.0.0.2"]])
    net = Net(AddressGuard([Allowance("a.test", "127.0.0.1", server.port)]), resolve=names)
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}/", context(scope(server.port)))
    assert caught.value.code is DenialCode.ADDRESS
    assert len(server.requests) == 1
    assert inside.requests == []


@pytest.mark.parametrize("last", ["http://127.0.0.2:{p}/", "http://0x7f000002:{p}/", "http://2130706434:{p}/", "http://127.0.2:{p}/",
                                  "http://[::ffff:127.0.0.2]:{p}/", "http://inside.test:{p}/", "//127.0.0.2:{p}/", "http://１２７.0.0.2:{p}/"])  # fmt: skip
def test_a_chain_from_public_to_private(listen: Callable[..., Listener], inside: Listener, last: str) -> None:
    """Every hop is judged: public, public, then inside, however it is written."""
    where = last.format(p=inside.port)
    server = listen(lambda head: [moved(f"http://b.test:{server.port}/two" if b" / " in head else where)])
    net, of, names = simple(server, "a.test", "b.test")
    names._known["inside.test"] = [["127.0.0.2"]]
    of.scope = scope(server.port, inside.port, hosts=("*",))
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}/", of)
    assert caught.value.code is DenialCode.ADDRESS
    assert server.lines == ["GET / HTTP/1.1", "GET /two HTTP/1.1"]
    assert inside.requests == []


def test_control_a_plain_client_follows_inside(listen: Callable[..., Listener], inside: Listener) -> None:
    """Control: the chain works, for a client that judges the first hop only."""
    server = listen(lambda head: [moved("/two" if b" / " in head else f"http://0x7f000002:{inside.port}/")])
    assert plain(f"http://127.0.0.1:{server.port}/") == INSIDE


def test_a_redirect_out_of_the_scope(listen: Callable[..., Listener]) -> None:
    """A hop that the scope does not name is refused before its name is resolved, and so is a step from https to http."""
    server = listen(moved("http://c.example/"))
    net, of, names = simple(server)
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}/", of)
    assert caught.value.code is DenialCode.REDIRECT
    assert names.asked == ["a.test"]


def test_a_redirect_to_plain_text(listen: Callable[..., Listener], tmp_path: Path) -> None:
    """From https nothing leads back to http, even where the scope has both."""
    (tmp_path / "leaf.pem").write_text(listeners.LEAF)
    (tmp_path / "ca.pem").write_text(listeners.CA)
    server = listen(lambda _head: [moved(f"http://a.test:{server.port}/")], tls=tmp_path / "leaf.pem")
    net, of, _ = simple(server, trust=str(tmp_path / "ca.pem"))
    with pytest.raises(Denied) as caught:
        ask(net, f"https://a.test:{server.port}/", of)
    assert caught.value.code is DenialCode.REDIRECT
    assert len(server.requests) == 1


# parsers that disagree


@pytest.mark.parametrize("template", ["http://good.test\\@127.0.0.2:{p}/", "http://good.test#@127.0.0.2:{p}/", "http://good.test@127.0.0.2:{p}/",
                                      "http://good.test:80@127.0.0.2:{p}/", "http://127.0.0\t.2:{p}/", "http://127.0.0.2:{p}\\.good.test/",
                                      "http://127.0.0.2:{p}:80/", "http://127.0.0.2\x00.good.test:{p}/"])  # fmt: skip
def test_urls_that_two_parsers_read_differently(inside: Listener, template: str) -> None:
    """Granted is good.test only; no way of writing it reaches the inside, and no name but good.test is resolved."""
    names = Names(good_test=["127.0.0.2"])
    net = Net(AddressGuard(), resolve=names)
    with pytest.raises(Denied):
        ask(net, template.format(p=inside.port), context(scope(80, inside.port, hosts=("good.test",))))
    assert set(names.asked) <= {"good.test"}
    assert inside.requests == []


@pytest.mark.parametrize("template", ["http://good.test\\@127.0.0.2:{p}/", "http://good.test:80\\@127.0.0.2:{p}/"])
def test_control_a_check_by_one_parser_and_a_client_with_another(inside: Listener, template: str) -> None:
    """Control: a check that reads up to the backslash lets pass what a real client takes to the inside."""
    import httpcore2

    url = template.format(p=inside.port)
    checked = re.match(r"https?://([^:/\\]+)", url)
    assert checked is not None
    assert checked[1] == "good.test"

    async def naive() -> bytes:
        async with httpcore2.AsyncConnectionPool() as pool:
            return (await pool.request("GET", url)).content

    assert anyio.run(naive) == INSIDE


# answers that do not end


def test_ten_gigabytes(listen: Callable[..., Listener]) -> None:
    """A body that goes on is cut at the ceiling, announced or not, and the host never holds more than that."""
    piece = b"x" * 65_536
    count = (10 << 30) // len(piece)

    def endless(head: bytes) -> Iterator[bytes]:
        if b"/announced" in head:
            yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (count * len(piece))
            yield from (piece for _ in range(count))
        elif b"/chunked" in head:
            yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            yield from (b"%x\r\n%b\r\n" % (len(piece), piece) for _ in range(count))
        else:
            yield b"HTTP/1.1 200 OK\r\n\r\n"
            yield from (piece for _ in range(count))

    server = listen(endless)
    net, of, _ = simple(server, response_bytes=1 * MIB)
    tracemalloc.start()
    try:
        for path in ("announced", "chunked", "until-closed"):
            with pytest.raises(Denied) as caught:
                ask(net, f"http://a.test:{server.port}/{path}", of)
            assert caught.value.code is DenialCode.TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 16 * MIB
    assert of.spent["net_bytes"] < 4 * MIB
    assert server.sent < 200 * MIB  # what sockets hold, and not ten gigabytes


def test_control_a_plain_client_takes_it_all(listen: Callable[..., Listener]) -> None:
    """Control: it reads what comes, as much as there is."""
    server = listen(lambda _head: [b"HTTP/1.1 200 OK\r\n\r\n", *(b"x" * MIB for _ in range(32))])
    assert len(plain(f"http://127.0.0.1:{server.port}/")) == 32 * MIB


def bomb(size: int, level: int = 9) -> bytes:
    """So many zeros, compressed."""
    packer = zlib.compressobj(level, wbits=31)
    return b"".join([*(packer.compress(bytes(MIB)) for _ in range(size // MIB)), packer.flush()])


def test_gzip_bombs(listen: Callable[..., Listener]) -> None:
    """What comes out is counted: a hundred kilobytes that are a hundred megabytes are refused, and never unfolded."""
    packed = bomb(128 * MIB)
    assert len(packed) < 256_000
    server = listen(answer(packed, headers=[("Content-Encoding", "gzip")]))
    net, of, _ = simple(server, response_bytes=1 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(Denied) as caught:
            ask(net, f"http://a.test:{server.port}", of)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.code is DenialCode.TOO_LARGE
    assert peak < 8 * MIB
    assert len(gzip.decompress(plain(f"http://127.0.0.1:{server.port}"))) == 128 * MIB  # control: it is one


@pytest.mark.parametrize("say", [
    answer(gzip.compress(gzip.compress(b"x")), headers=[("Content-Encoding", "gzip, gzip")]),
    answer(gzip.compress(b"x"), headers=[("Content-Encoding", "gzip"), ("Content-Encoding", "gzip")]),
    answer(b"x", headers=[("Content-Encoding", "br")]), answer(b"x", headers=[("Content-Encoding", "deflate")]),
    answer(gzip.compress(b"x") * 2, headers=[("Content-Encoding", "gzip")]), answer(gzip.compress(b"x" * 999)[:-9], headers=[("Content-Encoding", "gzip")]),
    answer(b"no gzip", headers=[("Content-Encoding", "gzip")]), answer(b"x", headers=[("Transfer-Encoding", "gzip, chunked")], length=False),
])  # fmt: skip
def test_encodings_that_were_not_asked_for(listen: Callable[..., Listener], say: bytes) -> None:
    """Layers, other codecs, several members, cut and broken content are failures, not bytes that a guest unfolds."""
    net, of, _ = simple(server := listen(say))
    with pytest.raises(AdapterError):
        ask(net, f"http://a.test:{server.port}", of)


def test_a_slow_drip(listen: Callable[..., Listener]) -> None:
    """A byte now and then, in the head or in the body: the deadline is for the whole, not for each byte."""

    def drip(head: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nX-Slow: " if b"/head" in head else b"HTTP/1.1 200 OK\r\n\r\n"
        while not server.closing.wait(0.05):
            yield b"x"

    server = listen(drip)
    net, of, _ = simple(server)
    for path in ("head", "body"):
        of = context(scope(server.port), seconds=0.7)
        with pytest.raises(AdapterError, match="in time"):
            ask(net, f"http://a.test:{server.port}/{path}", of)
        assert server.sent > 10  # it was dripping, not silent


def test_control_a_timeout_for_each_byte(listen: Callable[..., Listener]) -> None:
    """Control: a client whose timeout is for each read waits far longer than it."""

    def drip(_head: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        for _ in range(40):
            server.closing.wait(0.05)
            yield b"x"

    server = listen(drip)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{server.port}/", timeout=1.0) as response:
        assert response.read() == b"x" * 40  # two seconds, and no timeout of one


FOREVER = 5_000_000


@pytest.mark.parametrize(("head", "more", "count"), [
    (b"HTTP/1.1 200 OK\r\n", b"X-Field: 0123456789\r\n", FOREVER), (b"HTTP/1.1 200 OK\r\nX-Long: ", b"x" * 100, FOREVER),
    (b"", b"HTTP/1.1 100 Continue\r\n\r\n", FOREVER), (b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", FOREVER), (b"", b"x" * 1_000, FOREVER),
    (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", 1_000),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"extension" * 100, FOREVER),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", FOREVER),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"8\r\n8 bytes.\r\n", FOREVER),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"00000000000000000001;abcdefghijklmnopqrstuvwxyz\r\nx\r\n", FOREVER),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + b"x" * 2_000 + b"\r\nx\r\n", FOREVER),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-Trailer: 0123456789\r\n", FOREVER),
], ids=["fields", "one field", "continue", "hints", "no end of line", "many fields", "extension", "one-byte chunks", "small chunks", "framing", "long extensions", "trailers"])  # fmt: skip
def test_heads_and_frames_without_end(listen: Callable[..., Listener], head: bytes, more: bytes, count: int) -> None:
    """Sections that go on, and framing that outweighs what it frames, end the call long before the run's bytes do."""
    batch = more * min(count, 100)

    def endless(_head: bytes) -> Iterator[bytes]:
        yield head
        for _ in range(count // 100):
            yield batch
        yield b"\r\n"

    server = listen(endless)
    net, of, _ = simple(server)
    of.deadline += 50
    with pytest.raises(AdapterError) as caught:
        ask(net, f"http://a.test:{server.port}", of)
    assert "in time" not in str(caught.value)
    assert of.spent["net_bytes"] < 2 * MIB


def test_control_heads_without_end(listen: Callable[..., Listener]) -> None:
    """Control: the library's client reads through a megabyte of announcements to an ordinary answer."""
    server = listen(lambda _head: [b"HTTP/1.1 100 Continue\r\n\r\n" * 40_000, answer(b"x")])
    assert plain(f"http://127.0.0.1:{server.port}/") == b"x"


@pytest.mark.parametrize("say", [
    b"", b"\r\n\r\n", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", b"HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", b"HTTP/1.1 99 x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: x, chunked\r\n\r\n", b"HTTP/3.0 200 OK\r\n\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", b"\x16\x03\x01\x02\x00", b"HTTP/1.1 200 OK\r\nContent-Length: 1e1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
])  # fmt: skip
def test_answers_that_are_none(listen: Callable[..., Listener], say: bytes) -> None:
    """What is no HTTP, or says two things about its length, is a failure with a text that tells nothing of the host."""
    net, of, _ = simple(server := listen(say))
    with pytest.raises(AdapterError) as caught:
        ask(net, f"http://a.test:{server.port}", of)
    assert not re.search(r"127\.|/|\d{4}", str(caught.value))


# smuggling


@pytest.mark.parametrize(
    "value",
    [
        "x\r\nX-Forwarded-For: 10.0.0.1",
        "x\r\n\r\nGET /admin HTTP/1.1\r\nHost: inside",
        "x\nCookie: s=1",
        "x\rCookie: s=1",
    ],
)
def test_lines_in_fields(listen: Callable[..., Listener], value: str) -> None:
    """A field's value is one line: nothing that follows it becomes a field or a request.  Control: a plain writer."""
    net, of, names = simple(server := listen(answer(b"x")))
    for headers in ({"X-Own": value}, {value: "x"}):
        with pytest.raises(Denied) as caught:
            ask(net, f"http://a.test:{server.port}", of, headers=headers)
        assert caught.value.code is DenialCode.HEADER
    for url in (
        f"http://a.test:{server.port}/{value}",
        f"http://a.test:{server.port}/?{value}",
        f"http://a.test{value}/",
    ):
        with pytest.raises(Denied) as caught:
            ask(net, url, of)
        assert caught.value.code is DenialCode.HOST
    assert names.asked == []

    with socket.create_connection(("127.0.0.1", server.port)) as writer:
        writer.sendall(f"GET / HTTP/1.1\r\nHost: a\r\nX-Own: {value}\r\n\r\n".encode())
        writer.recv(1_000)
    smuggled = server.requests[0] + b"\r\n\r\n" + server.bodies[0]
    assert re.search(rb"[\r\n](X-Forwarded-For|GET /admin|Cookie)", smuggled)


def test_an_answer_behind_the_answer(listen: Callable[..., Listener]) -> None:
    """What a server sends past the end is nobody's: the next call, to it or to another host, has its own connection."""
    poison = answer(b"first") + answer(b"poison")
    server = listen(lambda head: [poison if b" /1" in head else answer(b"second")])
    net, of, _ = simple(server)
    assert ask(net, f"http://a.test:{server.port}/1", of)["body"] == b"first"
    assert ask(net, f"http://a.test:{server.port}/2", of)["body"] == b"second"
    assert listeners.tried == [("127.0.0.1", server.port)] * 2

    with socket.create_connection(("127.0.0.1", server.port)) as kept, kept.makefile("rb") as stream:
        # Control: on a connection that is kept, it is the answer to the next request.
        kept.sendall(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert stream.read(len(answer(b"first"))) == answer(b"first")
        with contextlib.suppress(OSError):
            kept.sendall(b"GET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
        assert stream.read(len(answer(b"poison"))) == answer(b"poison")


def test_cookies_do_not_stay(listen: Callable[..., Listener]) -> None:
    """A cookie is neither shown nor sent again.  Control: a client with a jar."""
    server = listen(answer(b"x", headers=[("Set-Cookie", "session=1; Path=/")]))
    net, of, _ = simple(server)
    for _ in range(2):
        assert "set-cookie" not in ask(net, f"http://a.test:{server.port}/", of)["headers"]
        assert "cookie" not in server.fields()
    jar = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    )
    for _ in range(2):
        jar.open(f"http://127.0.0.1:{server.port}/", timeout=10).close()
    assert server.fields()["cookie"] == "session=1"


def test_the_environment_says_nothing(
    listen: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No proxy and no netrc.  Control: the library's client asks the proxy."""
    proxy = listen(answer(b"from the proxy"), address="127.0.0.3")
    server = listen(answer(b"from the server"))
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.3:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    netrc = tmp_path / ".netrc"
    netrc.write_text("default login me password secret-of-netrc\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("HOME", str(tmp_path))
    net, of, _ = simple(server)
    assert ask(net, f"http://a.test:{server.port}/", of)["body"] == b"from the server"
    assert "authorization" not in server.fields()
    assert proxy.requests == []
    with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/", timeout=10) as response:
        assert response.read() == b"from the proxy"


# credentials

ECHOES: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "base64": base64.b64encode,
    "base64 of the field": lambda value: base64.b64encode(b"Bearer " + value),
    "base64, url-safe": lambda value: base64.urlsafe_b64encode(b"x" + value),
    "percent": lambda value: quote(value, safe="").encode(),
    "hexadecimal": lambda value: value.hex().encode(),
    "hexadecimal, upper case": lambda value: value.hex().upper().encode(),
}


def echoing(server: Listener, **how: Any) -> tuple[Net, Any]:
    """An adapter with a credential for a server."""
    secret = Secret(name="key", origin=f"http://a.test:{server.port}", plain_http=True, methods=("GET",), value=VALUE)
    net, of, _ = simple(server, "a.test", "b.test", secrets=lambda *_: secret, **how)
    of.scope = scope(server.port, secrets=("key",))
    return net, of


def told(head: bytes) -> bytes:
    """The credential as a server sees it."""
    found = re.search(rb"(?im)^authorization: Bearer (\S+)", head)
    return found[1] if found else b"none"


@pytest.mark.parametrize("form", ECHOES)
@pytest.mark.parametrize("shape", ["whole", "byte by byte", "gzip"])
def test_a_credential_that_is_echoed(listen: Callable[..., Listener], form: str, shape: str) -> None:
    """In reason, fields and body, in every form, in one piece or cut anywhere: the guest does not get it."""

    def say(head: bytes) -> Iterator[bytes]:
        echo = ECHOES[form](told(head))
        body = b"you sent " + echo + b", did you?"
        status, fields = (
            f"200 {echo.decode()}",
            [("X-Echo", f"a{echo.decode()}b"), (f"X-{form.replace(' ', '').replace(',', '')}", "1")],
        )
        if shape == "whole":
            yield answer(body, status=status, headers=fields)
        elif shape == "gzip":
            yield answer(gzip.compress(body), status=status, headers=[*fields, ("Content-Encoding", "gzip")])
        else:
            yield answer(status=status, headers=[*fields, ("Transfer-Encoding", "chunked")], length=False)
            for byte in body:
                yield b"1\r\n%c\r\n" % byte
            yield b"0\r\n\r\n"

    server = listen(say)
    net, of = echoing(server)
    got = ask(net, f"http://a.test:{server.port}/", of)
    echo = ECHOES[form](VALUE.encode()).decode()
    assert told(server.requests[0]) == VALUE.encode()  # control: the server had it, and sent it
    assert echo not in repr(got)
    assert VALUE not in repr(got)
    assert got["body"].startswith(b"you sent ")
    assert got["body"].endswith(b", did you?")
    assert b"[redacted]" in got["body"]
    assert "[redacted]" in got["headers"]["x-echo"]
    assert "content-length" not in got["headers"]


def test_control_an_echo_reaches_who_does_not_redact(listen: Callable[..., Listener]) -> None:
    """Control: the same server hands the credential to a client that adds it and looks no further."""
    server = listen(lambda head: [answer(told(head))])
    asked = urllib.request.Request(f"http://127.0.0.1:{server.port}/", headers={"Authorization": f"Bearer {VALUE}"})
    assert plain(asked) == VALUE.encode()  # type: ignore[arg-type]  # a request serves as a URL


def test_a_credential_is_kept_from_an_echo_of_another_call(listen: Callable[..., Listener]) -> None:
    """A server that remembers it, and tells it in answer to a request that did not carry it."""
    seen: list[bytes] = []

    def say(head: bytes) -> list[bytes]:
        seen.append(told(head))
        return [answer(b"earlier: " + seen[0])]

    server = listen(say)
    net, of = echoing(server)
    ask(net, f"http://a.test:{server.port}/", of)
    got = ask(net, f"http://b.test:{server.port}/", of, "POST")
    assert seen == [VALUE.encode(), b"none"]
    assert got["body"] == b"earlier: [redacted]"


def test_a_credential_does_not_leave_its_origin(listen: Callable[..., Listener]) -> None:
    """It goes no further than its origin, also not back to it from elsewhere.  Control: a plain client takes it along."""
    steps = {b" /": "/same", b" /same": "http://b.test:{p}/there", b" /there": "http://a.test:{p}/back"}

    def say(head: bytes) -> list[bytes]:
        to = steps.get(head.split(b" HTTP")[0].removeprefix(b"GET"))
        return [moved(to.format(p=server.port)) if to else answer(b"end")]

    server = listen(say)
    net, of = echoing(server)
    assert ask(net, f"http://a.test:{server.port}/", of, headers={"X-Own": "1", "Accept": "a/b"})["body"] == b"end"
    sent = [
        (told(head) != b"none", server.fields(n).get("x-own"), server.fields(n)["accept"])
        for n, head in enumerate(server.requests)
    ]
    assert sent == [(True, "1", "a/b"), (True, "1", "a/b"), (False, None, "a/b"), (False, None, "a/b")]

    other = listen(answer(b"x"), address="127.0.0.3")
    first = listen(moved(f"http://127.0.0.3:{other.port}/"))
    plain(urllib.request.Request(f"http://127.0.0.1:{first.port}/", headers={"Authorization": f"Bearer {VALUE}"}))  # type: ignore[arg-type]  # as above
    assert told(other.requests[0]) == VALUE.encode()


@pytest.mark.parametrize("form", ECHOES)
def test_a_credential_does_not_leave_in_a_location(listen: Callable[..., Listener], form: str) -> None:
    """A server that writes it into where it redirects to hands it to nobody: that redirect is not followed."""
    server = listen(
        lambda head: [
            moved(f"http://b.test:{server.port}/?{ECHOES[form](told(head)).decode()}")
            if b"a.test" in head
            else answer(b"x")
        ]
    )
    net, of = echoing(server)
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}/", of)
    assert caught.value.code is DenialCode.REDIRECT
    assert VALUE not in str(caught.value)
    assert len(server.requests) == 1
    with pytest.raises(Denied):
        ask(net, f"http://a.test:{server.port}/", of)
    shown = ask(net, f"http://a.test:{server.port}/", of, redirects=0)
    assert "[redacted]" in shown["headers"]["location"]


@pytest.mark.parametrize("field", ["X-HTTP-Method-Override", "X-Original-URL", "X-Rewrite-URL", "Authorization"])
def test_a_credential_is_not_turned_to_other_uses(listen: Callable[..., Listener], field: str) -> None:
    """Fields that make a server do another thing than the request line says are refused."""
    server = listen(answer(b"x"))
    net, of = echoing(server)
    with pytest.raises(Denied) as caught:
        ask(net, f"http://a.test:{server.port}/", of, headers={field: "/admin"})
    assert caught.value.code is DenialCode.HEADER


# many at once, and ends


def test_ceilings_hold_for_calls_at_once(listen: Callable[..., Listener]) -> None:
    """Calls of one run at the same time share its ceilings: no more requests, no more bytes."""
    server = listen(answer(b"x" * 50_000))
    net, of, _ = simple(server)
    of.limits = Limits(net_requests=6, net_bytes=200_000)
    got: list[Any] = []

    async def one() -> None:
        try:
            got.append(await net.call("request", Request("GET", f"http://a.test:{server.port}"), of))
        except FastnessError as error:
            got.append(error)

    async def many() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(one)

    anyio.run(many)
    assert len(server.requests) <= 6
    assert sum(len(one["body"]) for one in got if isinstance(one, dict)) <= 200_000
    assert sum(isinstance(one, QuotaExceeded) for one in got) >= 14
    assert all(isinstance(one, dict | QuotaExceeded) for one in got)


def test_bytes_hold_for_answers_that_come_at_once(listen: Callable[..., Listener]) -> None:
    """Six answers arrive while six calls wait for them: what is handed out together is within the run's bytes."""
    together = threading.Barrier(6)

    def say(_head: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 30000\r\n\r\n"
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(10)
        server.closing.wait(0.3)
        yield b"x" * 30_000

    server = listen(say)
    net, of, _ = simple(server)
    of.limits = Limits(net_bytes=100_000)
    got: list[int] = []

    async def one() -> None:
        with contextlib.suppress(QuotaExceeded):
            answered = await net.call("request", Request("GET", f"http://a.test:{server.port}"), of)
            got.append(len(answered["body"]))

    async def many() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(one)

    anyio.run(many)
    assert 0 < sum(got) <= 100_000


def test_a_call_that_is_cancelled(listen: Callable[..., Listener]) -> None:
    """Cancelling closes the connection: the server sees that nobody listens, and the next call is none the worse."""
    gone = threading.Event()

    def endless(head: bytes) -> Iterator[bytes]:
        if b"/end" in head:
            yield answer(b"x")
            return
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        try:
            while not server.closing.wait(0.01):
                yield b"x" * 1_000
        finally:
            if not server.closing.is_set():
                gone.set()

    server = listen(endless)
    net, of, _ = simple(server)

    async def cancelled() -> None:
        with anyio.move_on_after(0.3):
            await net.call("request", Request("GET", f"http://a.test:{server.port}"), of)
            raise AssertionError
        assert await anyio.to_thread.run_sync(gone.wait, 10)
        assert (await net.call("request", Request("GET", f"http://a.test:{server.port}/end"), of))["body"] == b"x"

    anyio.run(cancelled)
