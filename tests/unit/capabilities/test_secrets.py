"""
Credentials go where they are bound to and nowhere else, and do not come back in any form that is looked for.
"""

from __future__ import annotations

import base64
import html
import json
import quopri
from collections.abc import Callable
from html.entities import html5
from urllib.parse import quote, unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastness.capabilities._secrets import REDACTED, Redactor, Secret
from fastness.capabilities._urls import BadUrl, url_of

VALUE = 'sk-live_ab/c+d&e%f"1234567890=='


def secret(value: str = VALUE, **fields: object) -> Secret:
    given_fields = {"name": "key", "origin": "https://api.test", "methods": ("GET",), "path": "/v1", **fields}
    return Secret(value=value, **given_fields)  # type: ignore[arg-type]  # fields of any kind


# binding


@pytest.mark.parametrize("url", ["https://api.test/v1", "https://api.test/v1/", "https://api.test/v1/x?q=1", "https://API.test:443/v1/x",
                                 "https://api.test./v1/x", "https://api.test/x/../v1/y", "https://api.test/%76%31/x", "https://api.test/v1/a;b=c",
                                 "https://api.test/v1/%41%20b", "https://api.test/v1/Z%C3%BCrich", "https://api.test/v1/Zürich/東京", "https://api.test/v1/Z%FCrich",
                                 "https://api.test/v1/a%E2%80%A6b", "https://api.test/v1/a.b/..c"])  # fmt: skip
def test_it_goes_with_what_it_is_bound_to(url: str) -> None:
    """Control: the requests that it is for get it, however they are spelled."""
    assert secret().goes_with("GET", url_of(url))


@pytest.mark.parametrize("url", [
    "http://api.test/v1", "https://api.test:8443/v1", "https://a.api.test/v1", "https://api.test.evil.test/v1", "https://evil.test/v1",
    "https://api.test/", "https://api.test/v1x", "https://api.test/V1", "https://api.test/v", "https://api.test//v1", "https://api.test/x/v1",
    "https://api.test/v1/../admin", "https://api.test/v1/%2e%2e/admin", "https://api.test/v1/.%2E/admin", "https://api.test/v1/x/../../admin",
    "https://api.test/v1/..%2fadmin", "https://api.test/v1/%2e%2e%2fadmin", "https://api.test/v1%2f..%2fadmin", "https://api.test/v1/%252e%252e/admin",
    "https://api.test/v1/%252e%252e%252fadmin", "https://api.test/v1/..%5cadmin", "https://api.test/v1/..;/admin", "https://api.test/v1/..;x=y/admin",
    "https://api.test/v1/%2e%2e;/admin", "https://api.test/v1/..%3b/admin", "https://api.test/v1/%25252e%25252e/admin", "https://api.test/v1/%00/x",
    "https://api.test/v1/%c0%ae%c0%ae/admin", "https://api.test/v1/%e0%80%ae%e0%80%ae/admin", "https://api.test/v1/%25c0%25ae%25c0%25ae/admin",
    "https://api.test/v1/%f0%80%80%ae./admin", "https://api.test/v1/..%c0%afadmin", "https://api.test/v1/%ef%bc%8e%ef%bc%8e/admin",
    "https://api.test/v1/..%ef%bc%8fadmin", "https://api.test/v1/..%ef%bc%bcadmin", "https://api.test/v1/．．/admin", "https://api.test/v1/‥/admin",
    "https://api.test/v1/%e2%80%a4./admin", "https://api.test/v1/..%e2%88%95admin", "https://api.test/v1/.%e2%80%8b./admin",
    "https://api.test/v1/%25u002e%25u002e/admin", "https://api.test/v1/..%ef%bc%9bx/admin",
    "https://api.test/v1/.%20/..%20/admin", "https://api.test/v1%00", "https://api.test/%2576%2531/x", "https://api.test/v1%3fx", "https://api.test/?/v1",
])  # fmt: skip
def test_it_goes_with_nothing_else(url: str) -> None:
    """Another origin, another path, and every spelling of a way out of the path, for servers that decode once more."""
    assert not secret().goes_with("GET", url_of(url))


def test_it_goes_with_its_methods() -> None:
    """No method is bound unless it is named."""
    assert not secret().goes_with("POST", url_of("https://api.test/v1"))
    assert not secret(methods=()).goes_with("GET", url_of("https://api.test/v1"))


steps = st.sampled_from(
    ["/", "..", ".", "%2e", "%2f", "%5c", "%25", "%252e", ";", "v1", "admin", "a", "%00", "//", "..;", "%2e%2e", "%2E."]
)


@given(st.lists(steps, max_size=10).map("".join))
def test_no_path_leads_out(tail: str) -> None:
    """For any path that gets the credential: decode it as often as you like, it stays below the path that is bound."""
    try:
        url = url_of(f"https://api.test/v1/{tail}")
    except BadUrl:
        return
    if not secret().goes_with("GET", url):
        return
    path = url.path
    for _ in range(5):
        kept: list[str] = []
        for segment in path.replace("\\", "/").split("/"):
            part = segment.partition(";")[0]
            kept = kept[:-1] if part == ".." else kept if part in ("", ".") else [*kept, part]
        assert kept[:1] == ["v1"], path
        path = unquote(path)


@pytest.mark.parametrize("wrong", [
    {"origin": "https://*.test"}, {"origin": "*"}, {"origin": "https://api.test/v1"}, {"origin": "https://api.test?x"}, {"origin": "https://api.test/?"},
    {"origin": "https://u@api.test"}, {"origin": "http://api.test"}, {"origin": "api.test"}, {"path": "v1"}, {"path": "/v1/*"}, {"path": "/v1/../x"},
    {"path": "/%76"}, {"path": "/a//b"}, {"path": "/v1?x"}, {"value": "short"}, {"value": "with a space"}, {"value": "x" * 5_000}, {"value": "new\nlines"},
    {"value": "ümlaut-value"}, {"methods": ("*",)}, {"methods": ("get",)}, {"methods": ("CONNECT",)}, {"header": "Host"}, {"header": "Cookie"},
    {"header": "X-Forwarded-For"}, {"form": "none"}, {"form": "{}{}"}, {"form": "{}\r\nX: y"}, {"name": "*"}, {"name": ""}, {"user": "a:b"}, {"value": "abcdefgh" + "\\" * 9}, {"value": "%&\\" * 3},
])  # fmt: skip
def test_what_cannot_be_bound(wrong: dict[str, object]) -> None:
    """No wildcard, no half of an origin, nothing that could not be found again; and no error quotes the credential."""
    with pytest.raises(ValueError) as caught:
        msgspec.convert(
            {"name": "k", "origin": "https://api.test", "methods": ("GET",), "value": VALUE, **wrong}, Secret
        )
    assert VALUE not in str(caught.value)
    assert str(wrong.get("value", VALUE)) not in str(caught.value)


def test_it_is_not_printed() -> None:
    """Neither its repr nor an f-string shows it."""
    assert VALUE not in repr(secret()) + str(secret()) + f"{[secret()]}"
    assert secret(plain_http=True, origin="http://127.0.0.1:80").origin == "http://127.0.0.1"
    assert secret().field == ("authorization", f"Bearer {VALUE}")
    assert secret(header="X-Api-Key", form="{}").field == ("x-api-key", VALUE)
    assert secret(user="me").field == ("authorization", "Basic " + base64.b64encode(f"me:{VALUE}".encode()).decode())


# redaction

#: The longest name that HTML has for each character.
NAMES = {letter: f"&{name}" for name, letter in sorted(html5.items(), key=lambda one: len(one[0])) if name[-1] == ";"}
FORMS: dict[str, Callable[[bytes], bytes]] = {
    "as it is": bytes,
    "upper case": bytes.upper,
    "lower case": bytes.lower,
    "base64": base64.b64encode,
    "base64, url-safe": base64.urlsafe_b64encode,
    "base64 behind one byte": lambda value: base64.b64encode(b":" + value),
    "base64 behind two bytes": lambda value: base64.b64encode(b"u:" + value + b"x"),
    "base64, url-safe, behind one byte": lambda value: base64.urlsafe_b64encode(b":" + value),
    "base64 in lines": lambda value: base64.encodebytes(b"some text in front of it, more than a line of it: " + value),
    "base64 in a URL": lambda value: quote(base64.b64encode(b"u:" + value)).encode(),
    "base64 in JSON": lambda value: base64.b64encode(b"user:" + value).replace(b"/", b"\\/"),
    "percent": lambda value: quote(value, safe="").encode(),
    "percent, every byte": lambda value: "".join(f"%{byte:02X}" for byte in value).encode(),
    "percent, lower case": lambda value: "".join(f"%{byte:02x}" for byte in value).encode(),
    "percent, twice": lambda value: quote(quote(value, safe=""), safe="").encode(),
    "hexadecimal": lambda value: value.hex().encode(),
    "hexadecimal, upper case": lambda value: value.hex().upper().encode(),
    "hexadecimal with colons": lambda value: value.hex(":").encode(),
    "JSON": lambda value: json.dumps(value.decode())[1:-1].encode(),
    "JSON, every character": lambda value: "".join(f"\\u{byte:04x}" for byte in value).encode(),
    "JavaScript": lambda value: "".join(f"\\x{byte:02x}" for byte in value).encode(),
    "quoted-printable": lambda value: quopri.encodestring(value, quotetabs=True),
    "quoted-printable, every byte": lambda value: "".join(f"={byte:02X}" for byte in value).encode(),
    "quoted-printable in short lines": lambda value: b"=\r\n".join(value[n : n + 5] for n in range(0, len(value), 5)),
    "hexadecimal as C has it": lambda value: ", ".join(f"0x{byte:02x}" for byte in value).encode(),
    "hexadecimal in a list": lambda value: json.dumps([f"{byte:02x}" for byte in value])[1:-1].encode(),
    "HTML by name": lambda value: "".join(NAMES.get(chr(byte), chr(byte)) for byte in value).encode(),
    "HTML": lambda value: html.escape(value.decode()).encode(),
    "HTML, every character": lambda value: "".join(f"&#{byte};" for byte in value).encode(),
}
values = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=8, max_size=160).filter(
    lambda text: sum(map(text.count, "\\%&=")) <= 8
)


def _escaped(text: str) -> str:
    return json.dumps(text)[1:-1].replace("/", "\\/")


#: Of a credential without a backslash: of that one escape is undone.
NESTED = {
    "JSON in JSON": lambda value: _escaped(_escaped(value.decode())).encode(),
}


@pytest.mark.parametrize("form", [*FORMS, *NESTED])
def test_it_is_found_in_every_form(form: str) -> None:
    """What an endpoint echoes is taken out; the text around it stays."""
    redactor = Redactor([secret()])
    echoed = {**FORMS, **NESTED}[form](VALUE.encode())
    data = b'{"before": "' + echoed + b'", "after": 1}'
    cleaned = redactor.clean(data)
    assert cleaned.startswith(b'{"before": "')
    assert b'", "after": 1}' in cleaned
    assert REDACTED in cleaned
    assert echoed not in cleaned
    assert redactor.found(data)
    assert Redactor(()).clean(data) == data  # control: it was there


@given(values, st.sampled_from(sorted(FORMS)), st.binary(max_size=30), st.binary(max_size=30))
def test_any_credential_is_found_in_every_form(value: str, form: str, before: bytes, after: bytes) -> None:
    """For all credentials, forms and surroundings: nothing of it is left that could be read back."""
    redactor = Redactor([secret(value)])
    echoed = FORMS[form](value.encode())
    cleaned = redactor.clean(before + echoed + after)
    assert echoed not in cleaned
    assert not redactor.found(cleaned.replace(REDACTED, b" "))


@given(values, st.binary(max_size=60))
def test_what_has_no_credential_is_not_touched(value: str, data: bytes) -> None:
    """Control: nothing is taken out of a text that has none of it."""
    redactor = Redactor([secret(value)])
    if not redactor.found(data):
        assert redactor.clean(data) == data


@given(values, st.integers(0, 7), st.integers(0, 7))
def test_base64_shows_nothing_at_its_edges(value: str, before: int, after: int) -> None:
    """Base64 of it among other bytes, at any place of a group of three: what is left decodes to none of its bytes."""
    whole = base64.b64encode(b"\0" * before + value.encode() + b"\0" * after)
    head, mark, tail = Redactor([secret(value)]).clean(whole).partition(REDACTED)
    assert mark
    # The bits that are left, from the front and from the back, are those of the zeros around it.
    assert set(head) <= set(b"A")
    assert set(tail.rstrip(b"=")) <= set(b"A")


@pytest.mark.parametrize("place", [0, 1, 262_100, 262_135, 262_143, 262_144, 262_145, 300_000, 524_280])
@pytest.mark.parametrize("form", ["as it is", "base64 behind one byte", "percent, every byte", "hexadecimal"])
def test_it_is_found_wherever_it_stands(form: str, place: int) -> None:
    """Large texts are searched in parts; one that lies across two is found like any other."""
    echoed = FORMS[form](VALUE.encode())
    data = b"." * place + echoed + b"." * 1_000
    assert Redactor([secret()]).clean(data).count(REDACTED) == 1
    assert echoed not in Redactor([secret()]).clean(data)


def test_long_and_several_credentials() -> None:
    """A credential of thousands of characters is found to its end, and each of several is."""
    long = base64.b64encode(bytes(range(256)) * 8).decode()
    redactor = Redactor([secret(), secret(long, name="long")])
    for form in FORMS.values():
        for value in (VALUE, long):
            echoed = form(value.encode())
            assert echoed not in redactor.clean(b"<" + echoed + b"><" + echoed + b">")
    for shift in range(12):
        # What looks like an escape itself, at each place about where one pattern ends and the next begins.
        awkward = "abcdefghijkl"[shift:] + "x" * 30 + "%25\\\\x41&#97;\\u00" + "y" * 30
        for form in FORMS.values():
            echoed = form(awkward.encode())
            assert echoed not in Redactor([secret(awkward)]).clean(b"<" + echoed + b">")
    # Its beginning alone is not it: a guest cannot ask for a credential piece by piece.
    assert redactor.clean(long[:100].encode()) == long[:100].encode()
    assert redactor.clean(VALUE[:-1].encode()) == VALUE[:-1].encode()
