"""``email.send``: who is written to, what a mail is made of, and what a server of mail may say and do."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import listeners
import mails
from fastness.capabilities import _smtp
from fastness.capabilities._email import Email, Send
from fastness.capabilities._email_settings import email_settings_of
from fastness.capabilities._integration_counts import Counts
from fastness.capabilities._mail import BadMail, Mail, data_of, dotted
from fastness.capabilities._recipients import BadRecipient, covers, matches, meet_patterns, pattern_of, recipient_of
from fastness.capabilities.integrations import Integrations, IntegrationsScope
from fastness.capability import CallContext
from fastness.errors import AdapterError, ConfigurationError, Denied

SCOPE = IntegrationsScope(actions=("email.send",), per_day=100, recipients=("example.com", "bob@else.test"))


@pytest.fixture(autouse=True)
def _only_here() -> Iterator[None]:
    with listeners.nothing_leaves():
        yield


def serving(request: pytest.FixtureRequest, say: mails.Say | None = None, **how: Any) -> mails.Mails:
    made = mails.Mails(say, **how)
    request.addfinalizer(made.close)
    return made


@pytest.fixture
def server(request: pytest.FixtureRequest) -> mails.Mails:
    return serving(request)


class Post:
    """The adapter over one server, and what became of its calls."""

    def __init__(self, base: Path, at: mails.Mails, *, password: bool = False, call_s: float = 60.0, **more: Any):
        path = mails.password_file(base) if password else None
        settings = at.settings(**({"user": "robot"} if password else {}), **more)
        self.counts = Counts(str(base / "counts.db"))
        self.adapter = Integrations([Email(settings, password=path)], self.counts, call_s=call_s)
        self.context = CallContext(plugin="p", owner="o", run="r", scope=SCOPE, deadline=0.0)

    def send(self, scope: IntegrationsScope = SCOPE, seconds: float = 20.0, **arguments: Any) -> Any:
        given = {"to": "ann@example.com", "subject": "s", "text": "t", **arguments}
        decoded = msgspec.convert(given, Send, strict=True, builtin_types=(bytes,))
        deadline = time.monotonic() + seconds
        self.context = CallContext(plugin="p", owner="o", run="r", scope=scope, deadline=deadline)
        return asyncio.run(self.adapter.call("email.send", decoded, self.context))


# addresses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("ann@example.com", "ann@example.com"),
        ("Ann.B+tag_x-y=z~'@EXAMPLE.com", "Ann.B+tag_x-y=z~'@example.com"),
        ("a@b", "a@b"),
        ("a@example.com.", "a@example.com"),
    ],
)
def test_an_address(text: str, found: str) -> None:
    """The domain is in lower case; what stands before it stays."""
    assert str(recipient_of(text)) == found


@pytest.mark.parametrize(
    "text",
    [
        "", "ann", "@example.com", "ann@", "a@b@example.com", "ann @example.com", " ann@example.com", "ann@example.com ",
        "<ann@example.com>", "Ann <ann@example.com>", "ann@example.com,eve@evil.test", "ann@example.com;eve@evil.test",
        '"ann"@example.com', '"a b"@example.com', '"a\\"@evil.test"@example.com', "ann(comment)@example.com",
        "eve%evil.test@example.com", "evil.test!eve@example.com", "@evil.test:ann@example.com", "eve@evil.test%@example.com",
        "-oQ/tmp@example.com", ".ann@example.com", "ann.@example.com", "a..b@example.com", "|sh@example.com", "$(id)@example.com",
        "`id`@example.com", "/etc/passwd@example.com", "ann@[127.0.0.1]", "ann@127.0.0.1", "ann@0x7f.1", "ann@2130706433",
        "ann@example.com\r\nRCPT TO:<eve@evil.test>", "ann\r\n@example.com", "ann\0@example.com", "ann@example.com\n", "ann@exa\nmple.com",
        "änn@example.com", "ann@exam ple.com", "ann@-example.com", "a" * 65 + "@example.com", "ann@" + "a." * 130 + "com", "\ud800@example.com",
        "ann@example.com>", "ann@example.com SIZE=1", "ann\u200b@example.com", "ann\uff20example.com",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    """What two systems could read in two ways is none."""
    with pytest.raises(BadRecipient):
        recipient_of(text)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("ann@example.com", ["ann@example.com", "ann@EXAMPLE.com"], ["Ann@example.com", "bann@example.com", "ann@a.example.com"]),
        ("example.com", ["ann@example.com"], ["ann@a.example.com", "ann@badexample.com", "ann@example.com.evil.test", "example.com@evil.test"]),
        ("*.example.com", ["ann@a.example.com", "ann@b.a.example.com"], ["ann@example.com", "ann@badexample.com"]),
        ("*", ["ann@anywhere.test"], []),
    ],
)  # fmt: skip
def test_a_pattern(pattern: str, yes: list[str], no: list[str]) -> None:
    """An address is itself, a domain all of it, and what is below it is named."""
    made = pattern_of(pattern)
    assert all(matches(made, recipient_of(one)) for one in yes)
    assert not any(matches(made, recipient_of(one)) for one in no)


PATTERNS = st.sampled_from(
    ["*", "a@x.test", "b@x.test", "a@y.x.test", "x.test", "y.x.test", "*.x.test", "*.y.x.test", "z.test", "*.test"]
)
ADDRESSES = st.sampled_from(["a@x.test", "b@x.test", "a@y.x.test", "c@q.y.x.test", "a@z.test", "a@w.other"])


@given(st.lists(PATTERNS, max_size=4), st.lists(PATTERNS, max_size=4), ADDRESSES)
def test_patterns_that_meet(some: list[str], others: list[str], address: str) -> None:
    """They take in an address where both lists do, and no other; what one covers it takes in."""
    one = recipient_of(address)

    def takes(patterns: Any) -> bool:
        return any(matches(pattern, one) for pattern in patterns)

    assert takes(meet_patterns(some, others)) == (takes(some) and takes(others))
    for wide in some:
        for narrow in others:
            assert not (covers(wide, narrow) and matches(narrow, one) and not matches(wide, one))


# a mail


def made(**fields: Any) -> bytes:
    base = {
        "sender": recipient_of("robot@host.test"),
        "to": [recipient_of("ann@example.com")],
        "subject": "s",
        "text": "t",
    }
    return data_of(Mail(**{**base, **fields}), "id@host.test", 0.0)


def read(data: bytes) -> Any:
    taken = mails.Taken("", [], data, "", False)
    return taken.message


TEXTS = st.text(st.characters(codec="utf-8"), max_size=300) | st.sampled_from(
    [
        ".",
        "..",
        "\n.\n",
        ".\r\n.\r\n",
        "a\r.\rb",
        "\r\n.\r\nMAIL FROM:<eve@evil.test>",
        "=\n=20\n",
        "x" * 5000,
        "é" * 999,
        " \n \n",
        "From me\n",
    ]
)


@given(TEXTS, TEXTS)
def test_a_text_comes_as_it_went(text: str, html: str) -> None:
    """Whatever it is; every line is short and ends in CRLF, none ends the mail, and all is ASCII."""
    data = made(text=text, html=html)
    assert data.isascii()
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data)
    assert max(map(len, data.split(b"\r\n"))) <= 78
    sent = dotted(data)
    # Only its last line is a dot by itself.
    assert sent.endswith(b"\r\n.\r\n")
    assert b"\r\n.\r\n" not in sent[:-5]
    assert b"".join(line.removeprefix(b".") + b"\r\n" for line in sent[:-3].split(b"\r\n")[:-1]) == (
        data if data.endswith(b"\r\n") else data + b"\r\n"
    )
    plain = read(data).get_body(("plain",)).get_payload(decode=True).decode()
    wanted = re.sub(r"\r\n|\r", "\n", text)
    assert re.sub("\r\n", "\n", plain).removesuffix("\n") == wanted.removesuffix("\n")


@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zl", "Zp")), max_size=400))
def test_a_subject_comes_as_it_went(subject: str) -> None:
    """In one header field, whatever it is."""
    data = made(subject=subject)
    assert data.isascii()
    head = data.partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1] not in b" \t"]
    assert names == [
        b"From", b"To", b"Subject", b"Date", b"Message-ID", b"MIME-Version", b"Auto-Submitted", b"Content-Type", b"Content-Transfer-Encoding",
    ]  # fmt: skip
    import email.header

    found = email.header.make_header(email.header.decode_header(email.message_from_bytes(data)["Subject"] or ""))
    assert str(found) == subject


@pytest.mark.parametrize(
    "letter", ["\r", "\n", "\r\n", "\0", "\x0b", "\x0c", "\x1b", "\x85", "\u2028", "\u2029", "\x7f"], ids=ascii
)
@pytest.mark.parametrize("field", ["subject", "name"])
def test_no_header_begins_another(letter: str, field: str) -> None:
    """A line end of any kind is refused in a header, wherever it stands."""
    for text in (f"a{letter}Bcc: eve@evil.test", f"a{letter}", f"{letter}a", f"é{letter} é"):
        with pytest.raises(BadMail) as raised:
            made(**{field: text})
        assert raised.value.header


def test_a_name_beside_an_address() -> None:
    """It is quoted, and cannot end its quotes."""
    for name in ('Robot "the" \\ <eve@evil.test>, x', "Röbot <eve@evil.test>", "Robot"):
        found = read(made(name=name))["From"].addresses
        assert [(one.display_name, one.addr_spec) for one in found] == [(name, "robot@host.test")]


def test_half_of_a_pair() -> None:
    """What UTF-8 does not have is refused, in a text and in a header."""
    for fields in ({"text": "\ud800"}, {"html": "\ud800"}, {"subject": "\ud800"}):
        with pytest.raises(BadMail):
            made(**fields)


def test_no_text_ends_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that knew the line between the parts could not have it in its own."""
    monkeypatch.setattr(os, "urandom", lambda size: b"\0" * size)
    line = f"--=_{'00' * 16}"
    message = read(made(text=f"a\n{line}--\n\nb\n{line}\nContent-Type: x/y\n\nc", html=f"{line}--"))
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]


# sending


def test_a_mail(server: mails.Mails, tmp_path: Path) -> None:
    """It goes to those named, from the host's own address, and the guest hears its id and how many."""
    post = Post(tmp_path, server, name="Röbot")
    got = post.send(
        to=["Ann@Example.com", "cee@example.com"], cc="bob@else.test", subject="Grüße", text="a\n.\nb", html="<p>a</p>"
    )
    (taken,) = server.taken
    assert got == {"id": taken.message["Message-ID"].strip("<>"), "recipients": 3}
    assert (taken.sender, taken.to) == ("robot@host.test", ["Ann@example.com", "cee@example.com", "bob@else.test"])
    message = taken.message
    assert message["From"] == "Röbot <robot@host.test>"
    assert (message["To"], message["Cc"], message["Bcc"]) == ("Ann@example.com, cee@example.com", "bob@else.test", None)
    assert message["Subject"] == "Grüße"
    bodies = [message.get_body((kind,)) for kind in ("plain", "html")]
    assert [body is not None and body.get_content() for body in bodies] == ["a\r\n.\r\nb", "<p>a</p>"]
    assert post.context.effect
    assert post.context.bytes_out == len("Ann@Example.comcee@example.combob@else.testGrüßea\n.\nb<p>a</p>".encode())


@pytest.mark.parametrize("how", ["starttls", "implicit"])
@pytest.mark.parametrize("login", [False, True], ids=["plain", "login"])
def test_over_tls_with_a_password(how: str, login: bool, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The certificate is verified, the password is sent over TLS alone, and the mail comes."""
    pem, ca = tmp_path / "pem", tmp_path / "ca"
    pem.write_text(listeners.LEAF)
    ca.write_text(listeners.CA)
    server = serving(request, tls=pem, implicit=how == "implicit", login=login)
    Post(tmp_path, server, password=True, tls=how, trust=str(ca)).send()
    (taken,) = server.taken
    assert (taken.user, taken.tls) == ("robot", True)
    if how == "starttls":
        assert server.verbs()[:3] == ["EHLO", "STARTTLS", "EHLO"]


@pytest.mark.parametrize(("how", "name"), [("starttls", "a.test"), ("implicit", "a.test"), ("implicit", "c.test")])
def test_a_certificate_that_is_not_believed(
    how: str, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Somebody else's, or for another name: no password is sent, and no mail."""
    pem, ca = tmp_path / "pem", tmp_path / "ca"
    pem.write_text(listeners.LEAF)
    ca.write_text(listeners.CA)
    server = serving(request, tls=pem, implicit=how == "implicit")
    trust = {"trust": str(ca)} if name == "c.test" else {}
    post = Post(tmp_path, server, password=True, tls=how, server=name, **trust)
    with pytest.raises(AdapterError, match=r"certificate is not believed|no certificates"):
        post.send()
    assert server.taken == []
    assert "AUTH" not in server.verbs()
    assert not post.context.effect


def test_tls_that_is_not_offered(server: mails.Mails, tmp_path: Path) -> None:
    """A server, or somebody in between, that offers none is not asked without."""
    with pytest.raises(AdapterError, match="offers no TLS"):
        Post(tmp_path, server, password=True, tls="starttls").send()
    assert server.verbs() == ["EHLO"]


def test_words_before_tls(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """What was slipped in before TLS began is not read as if it had come over it."""
    pem = tmp_path / "pem"
    pem.write_text(listeners.LEAF)
    slipped = b"220 go ahead\r\n250-a.test\r\n250 AUTH PLAIN\r\n"
    server = serving(request, lambda line, _: slipped if line == b"STARTTLS" else None, tls=pem)
    with pytest.raises(AdapterError, match="before TLS began"):
        Post(tmp_path, server, password=True, tls="starttls").send()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"to": "eve@evil.test"}, "not_granted"),
        ({"to": ["ann@example.com", "eve@evil.test"]}, "not_granted"),
        ({"cc": "eve@evil.test"}, "not_granted"),
        ({"to": "ann@sub.example.com"}, "not_granted"),
        ({"to": "BOB@else.test"}, "not_granted"),
        ({"to": []}, "unsupported"),
        ({"to": "eve%evil.test@example.com"}, "unsupported"),
        ({"to": "ann@example.com\r\nRCPT TO:<eve@evil.test>"}, "header"),
        ({"cc": ["ann@example.com>\r\nDATA"]}, "header"),
        ({"subject": "a\r\nBcc: eve@evil.test"}, "header"),
        ({"subject": "a\n\nbody"}, "header"),
        ({"subject": "a\u2028b"}, "header"),
        ({"text": "\ud800"}, "unsupported"),
        ({"text": "x" * 300_000}, "too_large"),
        ({"to": [f"a{number}@example.com" for number in range(30)], "cc": [f"b{n}@example.com" for n in range(30)]}, "too_large"),
    ],
    ids=lambda value: ascii(value)[:60],
)  # fmt: skip
def test_what_is_refused(arguments: dict[str, Any], code: str, server: mails.Mails, tmp_path: Path) -> None:
    """Nobody is asked, and nothing counts."""
    post = Post(tmp_path, server)
    with pytest.raises(Denied) as raised:
        post.send(**arguments)
    assert raised.value.code.value == code
    assert server.came == 0
    assert post.counts.take("p", "o", 100, 100)


@pytest.mark.parametrize(
    "arguments",
    [{"sender": "eve@evil.test"}, {"bcc": "x@example.com"}, {"headers": {}}, {"from": "x"}, {"to": None}, {"to": [1]},
     {"subject": "x" * 501}, {"text": b"x"}, {"to": ["ann@example.com"] * 51}, {"reply_to": "eve@evil.test"}],
    ids=lambda value: ascii(value)[:40],
)  # fmt: skip
def test_what_is_no_mail(arguments: dict[str, Any], server: mails.Mails, tmp_path: Path) -> None:
    """There is no field of a header beside those that there are."""
    with pytest.raises(msgspec.ValidationError):
        Post(tmp_path, server).send(**arguments)


# servers


def lies(**at: bytes) -> mails.Say:
    """A server that says these at these commands; ``greeting`` and ``end`` are of a connection and of a mail."""
    names = {"greeting": b"", "end": b"."}
    said = {names.get(name, name.encode()): answer for name, answer in at.items()}
    return lambda line, _: said.get(line.split(b" ")[0] if line not in said else line)


@pytest.mark.parametrize(
    ("said", "effect"),
    [
        ({"greeting": b"554 go away\r\n"}, False),
        ({"greeting": b"HTTP/1.1 200 OK\r\n"}, False),
        ({"greeting": b"220 a\r\n220 b\r\n"}, False),
        ({"greeting": b"220-" + b"x" * 5000}, False),
        ({"greeting": b"220-x\r\n" * 500}, False),
        ({"greeting": b"\xff\xfe\r\n"}, False),
        ({"greeting": b"22\r\n"}, False),
        ({"greeting": b"2200 x\r\n"}, False),
        ({"EHLO": b"250-a\r\n550 b\r\n"}, False),
        ({"EHLO": b"500 no\r\n"}, False),
        ({"EHLO": b"250-a.test\r\n250 SIZE 10\r\n"}, False),
        ({"MAIL": b"450 later\r\n"}, False),
        ({"MAIL": b"250 ok\r\n250 ok\r\n250 ok\r\n354 go\r\n"}, False),
        ({"RCPT": b"550 no such user\r\n"}, False),
        ({"DATA": b"250 ok\r\n"}, False),
        ({"DATA": b"354 go\r\n250 taken already\r\n"}, False),
        ({"end": b"554 it is spam\r\n"}, True),
        ({"end": b"bye\r\n"}, True),
        ({"end": b"354 more\r\n"}, True),
    ],
    ids=lambda value: ascii(value)[:50],
)  # fmt: skip
def test_a_server_that_lies(
    said: dict[str, bytes], effect: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It fails, in words of the host's own; where no byte of the mail had left it counts for nothing."""
    server = serving(request, lies(**said))
    post = Post(tmp_path, server)
    with pytest.raises(AdapterError) as raised:
        post.send(SCOPE)
    assert re.fullmatch(r"(the mail|what answers there)[a-zA-Z ,;()0-9-]*", str(raised.value))
    for word in ("spam", "user", "later", "taken already"):
        assert word not in str(raised.value).replace("take it later", "")
    assert post.context.effect is effect
    # 99 fit beside one that counts, and 100 where none does.
    with pytest.raises(Exception, match=r"a day") if effect else _nothing():
        post.counts.take("p", "o", 100, 100)


class _nothing:  # used as a function
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


def test_one_recipient_that_is_refused(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Then nobody gets it."""
    server = serving(request, lambda line, _: b"550 no\r\n" if b"bob@" in line else None)
    with pytest.raises(AdapterError, match=r"refused RCPT \(550\)"):
        Post(tmp_path, server).send(to=["ann@example.com", "bob@else.test"])
    assert "DATA" not in server.verbs()


def test_a_server_that_says_the_password(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Nothing that it says comes to the guest."""

    def say(line: bytes, _: mails.Mails) -> bytes | None:
        if line.startswith(b"AUTH"):
            return b"535 wrong: " + line + b" " + mails.PASSWORD.encode() + b"\r\n"
        return None

    server = serving(request, say)
    with pytest.raises(AdapterError) as raised:
        Post(tmp_path, server, password=True).send()
    assert str(raised.value) == "the mail server refused AUTH (535)"


@pytest.mark.parametrize("at", ["", "EHLO", "MAIL", "RCPT", "DATA", "."])
def test_a_server_that_stalls(at: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """One deadline bounds the call, wherever it stalls."""

    def say(line: bytes, server: mails.Mails) -> bytes | None:
        if line.split(b" ")[0] == at.encode():
            server.closing.wait(20)
            return b""
        return None

    server = serving(request, say)
    post = Post(tmp_path, server, call_s=0.3)
    began = time.monotonic()
    with pytest.raises(AdapterError, match="did not end in time"):
        post.send()
    assert time.monotonic() - began < 10
    assert post.context.effect is (at == ".")


def test_a_server_that_drips(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """A letter now and then puts off no deadline."""

    def say(line: bytes, server: mails.Mails) -> bytes | None:
        if line.startswith(b"MAIL"):
            while not server.closing.wait(0.05):
                server.stream.sendall(b"2")
            return b""
        return None

    server = serving(request, say)
    began = time.monotonic()
    with pytest.raises(AdapterError):
        Post(tmp_path, server).send(seconds=0.4)
    assert time.monotonic() - began < 10


def test_a_server_that_stalls_at_goodbye(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The mail was taken by then."""
    server = serving(request, lambda line, server: b"" if line == b"QUIT" and server.closing.wait(20) else None)
    assert Post(tmp_path, server).send()["recipients"] == 1


def test_no_server(tmp_path: Path, server: mails.Mails) -> None:
    """Nothing counts where nobody is there."""
    post = Post(tmp_path, server)
    server.close()
    with pytest.raises(AdapterError, match="cannot be reached"):
        post.send()
    assert post.counts.take("p", "o", 100, 100)


def test_an_address_that_may_not_be_reached(server: mails.Mails) -> None:
    """A name that leads into this network is refused, whatever the resolver says."""

    async def resolve(name: str) -> list[str]:
        assert name == "mail.example.com"
        return ["127.0.0.1"]

    settings = email_settings_of({"server": "mail.example.com", "sender": "robot@host.test", "port": server.port})
    context = CallContext(plugin="p", owner="o", run="r", scope=SCOPE, deadline=time.monotonic() + 5)
    mail = Send(to="ann@example.com", subject="s", text="t")
    with pytest.raises(AdapterError, match="may not be reached"):
        asyncio.run(Email(settings, resolve=resolve).run(mail, context))
    assert server.came == 0


def test_a_call_that_is_cancelled(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Before the mail leaves it had no effect, and the connection goes."""
    reached = threading.Event()

    def say(line: bytes, server: mails.Mails) -> bytes | None:
        if line.startswith(b"RCPT"):
            reached.set()
            server.closing.wait(20)
            return b""
        return None

    server = serving(request, say)
    post = Post(tmp_path, server)
    post.context.scope, post.context.deadline = SCOPE, time.monotonic() + 20

    async def scenario() -> None:
        call = post.adapter.call("email.send", Send(to="ann@example.com", subject="s", text="t"), post.context)
        task = asyncio.ensure_future(call)
        await asyncio.to_thread(reached.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(scenario())
    assert not post.context.effect
    assert post.counts.take("p", "o", 100, 100)


# settings


@pytest.mark.parametrize(
    ("plain", "field"),
    [
        ({}, "server"),
        ({"server": "m.test"}, "sender"),
        ({"server": "m.test", "sender": "Robot <r@m.test>"}, "sender"),
        ({"server": "m.test", "sender": "r@m.test", "tls": "none"}, "tls"),
        ({"server": "m.test", "sender": "r@m.test", "tls": "none", "address": "10.0.0.1"}, "tls"),
        ({"server": "8.8.8.8", "sender": "r@m.test", "tls": "none"}, "tls"),
        ({"server": "m.test", "sender": "r@m.test", "tls": "ssl"}, "tls"),
        ({"server": "m.test", "sender": "r@m.test", "port": 0}, "port"),
        ({"server": "m.test", "sender": "r@m.test", "port": True}, "port"),
        ({"server": "m.test", "sender": "r@m.test", "password": "x", "user": "u"}, "password"),
        ({"server": "m.test", "sender": "r@m.test", "password": "/x"}, "user"),
        ({"server": "m.test", "sender": "r@m.test", "address": "169.254.169.254"}, "address"),
        ({"server": "m test", "sender": "r@m.test"}, "server"),
        ({"server": "m.test", "sender": "r@m.test", "sendr": "x"}, "sendr"),
        ({"server": "m.test", "sender": "r@m.test", "name": "a\nb"}, "name"),
        ({"server": 5, "sender": "r@m.test"}, "server"),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_settings_that_are_wrong(plain: dict[str, Any], field: str) -> None:
    """Each names the field."""
    with pytest.raises(ConfigurationError) as raised:
        email_settings_of(plain)
    assert raised.value.field == f"integrations.email.{field}"


def test_settings() -> None:
    """Ports are those of the way that is chosen; a literal address on loopback needs no TLS."""
    base = {"server": "m.test", "sender": "r@m.test"}
    assert email_settings_of(base).port == 587
    assert email_settings_of({**base, "tls": "implicit"}).port == 465
    assert email_settings_of({**base, "server": "127.0.0.1", "tls": "none"}).port == 25


def test_a_reply_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of a server's words is bounded."""
    monkeypatch.setattr(_smtp, "_LINES", 1 << 30)
    kept: list[int] = []

    class Stream:
        async def receive(self, size: int) -> bytes:
            kept.append(size)
            return b"220-x\r\n" * (size // 7)

    with pytest.raises(AdapterError, match="more than it should"):
        asyncio.run(_smtp.Conversation(Stream(), "h").begin())  # type: ignore[arg-type]  # as much of one as is used
    assert sum(kept) < 200_000
