"""Manifests: every problem at once, with its path; strict words; nothing executed, and nothing parsed that is too much."""

from __future__ import annotations

import ast
import time
import tomllib

import pytest
from fake_specs import SPECS, BoxScope, WebScope, plain
from hypothesis import given
from hypothesis import strategies as st

from fastness import manifest_text
from fastness.errors import ManifestError
from fastness.limits import Limits
from fastness.manifest import Manifest, parse, to_plain

WEB = {"kind": "web", "hosts": ["a.example"], "reason": "Asks it."}


def problems(data: object) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        parse(data, SPECS)
    return caught.value.problems


def test_whole() -> None:
    """What is valid comes out as it went in, and its plain form makes an equal one."""
    made = parse(
        plain(
            name="Wetter",
            methods=["forecast"],
            capabilities=[WEB, {"kind": "box", "size": 5, "reason": "Keeps the last one."}],
            limits={"memory": "64M", "wall_s": 2},
            provides=["weather:*"],
            lookups=["config:?"],
            declares=["weather"],
        ),
        SPECS,
    )
    assert isinstance(made, Manifest)
    assert made.scope("web") == WebScope(hosts=("a.example",))
    assert made.scope("box") == BoxScope(size=5)
    assert made.scope("other") is None
    assert made.request("web").reason == "Asks it."  # type: ignore[union-attr]
    assert made.limits == Limits(memory=64 << 20, wall_s=2)
    assert parse(to_plain(made), SPECS) == made


def test_all_problems_with_their_paths() -> None:
    """One fault does not hide the next, and each names its place."""
    found = problems(
        {
            "id": "Wéather",
            "version": "1.0",
            "api": 2,
            "runtime": "pythn",
            "entry": "../main.py",
            "metods": [],
            "methods": ["ok", "no-name", "setup", "ok"],
            "capabilities": [
                {"kind": "box", "size": "big", "reason": "x"},
                {"kind": "web", "hosts": [1, "good", "b!d"], "methods": "GET", "hots": [], "reason": ""},
                {"kind": "wep"},
                {"kind": "web", "reason": "again"},
                7,
            ],
            "limits": {"memory": "1T", "wal_s": 1, "pids": True},
            "provides": ["ok", "bad pattern", ""],
        }
    )
    starts = [
        "id: ", "version: ", "api: ", "runtime: ", "entry: ", "metods: ", "methods[1]: ", "methods[2]: ", "methods[3]: ",
        "capabilities[0].size: ", "capabilities[1].hosts[0]: ", "capabilities[1].hosts[2]: ", "capabilities[1].methods: ",
        "capabilities[1].hots: ", "capabilities[1].reason: ", "capabilities[2].kind: ", "capabilities[2].reason: ",
        "capabilities[4]: ", "limits.memory: ", "limits.wal_s: ", "limits.pids: ", "provides[1]: ", "provides[2]: ",
    ]  # fmt: skip
    for start in starts:
        assert [line for line in found if line.startswith(start)], f"{start}: {found}"
    assert len(found) == len(starts)
    assert any("Did you mean 'methods'?" in line for line in found)
    assert any("Did you mean 'web'?" in line for line in found)
    assert any("Did you mean 'wall_s'?" in line for line in found)
    assert any("Did you mean 'hosts'?" in line for line in found)
    assert any("U+00E9" in line for line in found)
    assert all(line.isascii() for line in found)


def test_scope_errors_of_its_own() -> None:
    """What a scope itself refuses stands at its field, and a kind is asked for once."""
    assert problems(plain(capabilities=[{"kind": "box", "size": -1, "reason": "x"}])) == [
        "capabilities[0].size: -1 is not accepted; allowed: 0 or more"
    ]
    assert problems(plain(capabilities=[WEB, WEB])) == [
        "capabilities[1].kind: 'web' is asked for twice; put both into one"
    ]


@pytest.mark.parametrize(
    "value",
    [
        "Weather", "weath\u0435r", "weather\n", "weather\u200b", "-weather", "weather.", "we ather", "weather/x", "", "a" * 65,
        "fastness", "fastness.core", "host-x", "..", "ｗeather", 5, None, ["a"], "1weather", "a--b", "we\u202ether",
    ],
)  # fmt: skip
def test_ids(value: object) -> None:
    """An id that could be taken for another, or for a path, is refused."""
    assert problems(plain(id=value))[0].startswith("id")


@pytest.mark.parametrize("value", ["a", "weather", "acme.weather-2", "a1.b2-c3"])
def test_good_ids(value: str) -> None:
    """The control of the test before."""
    assert parse(plain(id=value), SPECS).id == value


@pytest.mark.parametrize(
    "value", ["1", "1.0", "1.0.0.0", "01.0.0", "1.0.0\n", "1.0.0-", "v1.0.0", "١.0.0", "1.0.0-01", 1.0]
)
def test_versions(value: object) -> None:
    """A version is of semver.org."""
    assert problems(plain(version=value))[0].startswith("version: ")


@pytest.mark.parametrize("value", ["0.0.0", "1.20.3", "1.0.0-rc.1", "1.0.0-rc.1+build.05"])
def test_good_versions(value: str) -> None:
    """The control of the test before."""
    assert parse(plain(version=value), SPECS).version == value


@pytest.mark.parametrize(
    "value",
    [
        "/main.py",
        "../main.py",
        "a/../main.py",
        "a//main.py",
        ".hidden.py",
        "a\\b.py",
        "m\u0430in.py",
        "main.js",
        "main",
        "a\0.py",
    ],
)
def test_entries(value: str) -> None:
    """An entry is a plain path below the package, of the runtime's ending."""
    assert problems(plain(entry=value))[0].startswith("entry: ")


def test_code_needs_an_entry_and_data_has_no_methods() -> None:
    """Code without an entry is refused; data has nothing to call."""
    bare = {key: value for key, value in plain().items() if key != "entry"}
    assert problems(bare)[0].startswith("entry: is missing")
    data = {**bare, "runtime": "data"}
    assert parse(data, SPECS).entry == ""
    assert problems({**data, "methods": ["run"]})[0].startswith("methods: ")
    assert problems({**data, "lookups": ["x"]})[0].startswith("lookups: ")


@pytest.mark.parametrize("value", ["\u200b", "Wea\u202ether", "Wеather", " x", "e\u0301", "\u3164", "tag\U000e0041"])
def test_names_for_people(value: str) -> None:
    """A name that cannot be seen, or is made to look like another, is refused."""
    assert problems(plain(name=value))[0].startswith("name: ")


@pytest.mark.parametrize("value", ["Погода", "天気", "Météo 2", "مطر"])
def test_good_names_for_people(value: str) -> None:
    """The control: any script by itself."""
    assert parse(plain(name=value), SPECS).name == value


def test_reasons() -> None:
    """A reason is there, can be read, and is kept verbatim whatever else is in it."""
    for reason in (None, "", "  ", "\u200b\u3164", "x" * 301, 5):
        assert problems(plain(capabilities=[{**WEB, "reason": reason}]))[0].startswith("capabilities[0].reason")
    odd = "Fetches\u202e it\x1b[2J"
    assert parse(plain(capabilities=[{**WEB, "reason": odd}]), SPECS).capabilities[0].reason == odd


def test_hostile_values() -> None:
    """Deep, huge, endless and odd data is a problem and no accident."""
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]
    assert "nested" in problems(plain(capabilities=deep))[0]
    assert "digits" in problems(plain(api=10**5000))[0] or "64 bits" in problems(plain(api=10**5000))[0]
    assert problems(plain(name="\ud800"))[0].startswith("name: ")
    assert "values" in problems(plain(methods=["a"] * 20_000))[0]
    assert problems(plain(methods=[b"x"]))[0].startswith("methods[0]: ")
    assert problems(plain(methods={1: 2}))
    assert problems(plain(limits={"wall_s": float("nan")}))[0].startswith("limits.wall_s: ")
    many = problems({f"field{number}": 1 for number in range(5000)})
    assert len(many) <= 101
    for value in (None, 5, [], "text"):
        assert problems(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=20,
    )
)
def test_any_data(value: object) -> None:
    """Whatever a manifest holds, it is a manifest or a list of problems."""
    for data in (
        value,
        plain(capabilities=value),
        plain(capabilities=[{"kind": "web", "hosts": value, "reason": "x"}]),
        plain(limits=value),
    ):
        try:
            parse(data, SPECS)
        except ManifestError as error:
            assert error.problems


# texts


def test_python_is_read_and_not_executed() -> None:
    """The literal is found among any code; none of the code has an effect."""
    source = b'"""MANIFEST = {"id": "other"}\n"""\nimport nothing_like_it\nraise SystemExit\nMANIFEST: dict = {\n  "id": "a", # b\n  "n": [1, -2.5, None, True, ("x" "y")],\n}\n'
    assert manifest_text.read_python(source) == {"id": "a", "n": [1, -2.5, None, True, "xy"]}
    with pytest.raises(SystemExit):
        exec(compile("raise SystemExit", "x", "exec"))


@pytest.mark.parametrize(
    "source",
    [
        "MANIFEST = __import__('os').system('true')", "MANIFEST = {'a': f'{1}'}", "MANIFEST = {**x}", "MANIFEST = [x for x in y]",
        "MANIFEST = {'a': 1}\nMANIFEST = {'a': 2}", "MANIFEST = {'a': 1, 'a': 2}", "MANIFEST = dict(a=1)", "MANIFEST = {'a': b'x'}",
        "MANIFEST = 5", "x = 1", "if 1:\n    MANIFEST = {}", "f(\nMANIFEST = {})", "MANIFEST = {'a': 1}; x = 2", "MANIFEST = y = {}",
        "MANIFEST['a'] = 1", "MANIFEST = {'a': 1 if 1 else 2}", "# coding: utf-7\nMANIFEST = {'a': 1}", "MANIFEST = {'a'", "MANIFEST = {'a': 1\0}",
        "MANIFEST = {'a': " + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_python_that_is_no_manifest(source: str) -> None:
    """Whatever is not one literal, assigned once, is refused."""
    with pytest.raises(ManifestError):
        manifest_text.read_python(source.encode())


_B, _M = 60_000, 1_000_000
HOSTILE = {
    "brackets": (manifest_text.read_toml, b"a=" + b"[" * _B),
    "inline tables": (manifest_text.read_toml, b"a=" + b"{a=" * 20_000),
    "dots": (manifest_text.read_toml, b"a" + b".a" * 30_000 + b"=1"),
    "quoted dots": (manifest_text.read_toml, b"a" + b'."a"' * 16_000 + b"=1"),
    "header": (manifest_text.read_toml, b"[" + b"a." * 30_000 + b"a]"),
    "digits": (manifest_text.read_toml, b"a=" + b"9" * 5_000),
    "quotes": (manifest_text.read_toml, b'"""\\"""\\' * 7_000),
    "large": (manifest_text.read_toml, b"#" * 65_537),
    "latin": (manifest_text.read_toml, b"a='\xff'"),
    "minus": (manifest_text.read_python, b"MANIFEST = " + b"-" * _M + b"1"),
    "parentheses": (manifest_text.read_python, b"MANIFEST = " + b"(" * _M),
    "sums": (manifest_text.read_python, b"MANIFEST = " + b"1+" * (_M // 2) + b"1"),
    "annotation": (manifest_text.read_python, b"MANIFEST: " + b"a[" * 300_000 + b" = {}"),
    "many lines": (manifest_text.read_python, b"MANIFEST\n" * 100_000),
    "escapes": (manifest_text.read_python, b'\\"\\\n' * 250_000),
    "json": (manifest_text.read_json, "[" * _B),
    "json large": (manifest_text.read_json, "[" + "1," * _B + "1]"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name: str) -> None:
    """What would take a parser's stack or its time is refused before one sees it."""
    read, data = HOSTILE[name]
    before = time.process_time()
    with pytest.raises(ManifestError):
        read(data)  # type: ignore[arg-type]
    # No promise of speed: half a minute is what the parser itself takes for the dots.
    assert time.process_time() - before < 10


def test_control_of_hostile_texts() -> None:
    """The parsers themselves do not bear it."""
    with pytest.raises(RecursionError):
        tomllib.loads("a=" + "[" * _B)
    with pytest.raises((RecursionError, MemoryError, SyntaxError)):
        ast.literal_eval("-" * 100_000 + "1")
    few, many = 1_000, 4_000
    spent = []
    for count in (few, many):
        before = time.process_time()
        tomllib.loads("a" + ".a" * count + "=1")
        spent.append(time.process_time() - before)
    assert spent[1] > spent[0] * (many / few) * 1.5


def test_strings_hold_any_bracket() -> None:
    """Brackets and dots inside of texts and comments are no nesting."""
    text = 'a = "[[[[[[[[[[[[[[[[[[[[[["\n# [[[[[[[[[[[[[[[[[[[[[[\nb = \'a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s\\\'\nc = """\n[[[[[[[[[[[[[[[[[[[[[["""\n'
    assert manifest_text.read_toml(text.encode()) == tomllib.loads(text)


@given(st.binary(max_size=200) | st.text(alphabet="MANIFEST={}[]()'\"\\\n#:,.a1- ", max_size=200).map(str.encode))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a manifest's data or a ManifestError."""
    for read in (manifest_text.read_toml, manifest_text.read_python):
        for text in (data, b"MANIFEST = " + data):
            try:
                read(text)
            except ManifestError:
                pass
