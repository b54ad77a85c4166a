"""Manifests: texts in three forms, and what is read out of them."""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from typing import Any

import fuzzing

from fastness import manifest_text
from fastness.capabilities.registry import specs
from fastness.errors import ManifestError
from fastness.manifest import Manifest, parse, to_plain

SPECS = specs()
#: Loaded at once, so that what they import is watched too.
KINDS = {kind: SPECS[kind] for kind in SPECS}
FIXED, MULTIPLE = 4 << 20, 2000

PLAIN: dict[str, Any] = {"id": "weather", "version": "1.0.0", "api": 1, "runtime": "python", "entry": "main.py"}
ASKED: list[dict[str, Any]] = [
    {"kind": "fs", "read": True, "call_bytes": 4096, "reason": "Reads its notes."},
    {"kind": "net", "hosts": ["api.example.com", "*.example.org"], "reason": "Asks for the weather."},
    {"kind": "storage", "reason": "Keeps what it found."},
    {"kind": "signals", "reason": "Tells others."},
]


def read(data: bytes, reader: Any) -> dict[str, Any] | None:
    """The table of a text, or None where it is refused."""
    with fuzzing.memory(FIXED + MULTIPLE * len(data)):
        try:
            found: dict[str, Any] = reader(data)
        except ManifestError as error:
            _good(error)
            return None
    assert type(found) is dict
    return found


def _good(error: ManifestError) -> None:
    """Problems that can be shown: there are some, no more than are listed, each of bounded length and of UTF-8."""
    assert 0 < len(error.problems) <= 101
    for problem in error.problems:
        problem.encode()
        assert len(problem) < 5000
        assert problem.isprintable(), problem


def judged(plain: object) -> None:
    """A manifest that is whole, written as plain data, is read as itself."""
    try:
        found = parse(plain, KINDS)
    except ManifestError as error:
        _good(error)
        return
    assert type(found) is Manifest
    assert parse(to_plain(found), KINDS) == found
    assert parse(json.loads(json.dumps(to_plain(found))), KINDS) == found


def as_toml(data: bytes) -> None:
    found = read(data, manifest_text.read_toml)
    if found is not None:
        assert repr(found) == repr(tomllib.loads(data.removeprefix(b"\xef\xbb\xbf").decode()))
        judged(found)


def as_python(data: bytes) -> None:
    """What is read is what the interpreter would have bound, where the module is Python at all."""
    found = read(data, manifest_text.read_python)
    if found is None:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        judged(found)
        return
    values: list[ast.expr] = []
    for node in module.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            bound = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(name, ast.Name) and name.id == "MANIFEST" for name in bound):
                values.append(node.value)
    assert len(values) == 1, "the interpreter binds another one, or none"
    assert repr(ast.literal_eval(values[0])) == repr(found)
    judged(found)


def as_json(data: bytes) -> None:
    found = read(data, lambda given: manifest_text.read_json(fuzzing.text_of(given)))
    if found is not None:
        judged(found)
        judged({**PLAIN, **found})
        judged({**PLAIN, "capabilities": [found]})
        judged({**PLAIN, "limits": found})
        for kind in KINDS:
            judged({**PLAIN, "capabilities": [{"kind": kind, "reason": "Because.", **found}]})


FORMS = (as_toml, as_python, as_json)


def one(data: bytes) -> None:
    source = fuzzing.Source(data)
    source.pick(FORMS)(source.rest())


def seeds() -> list[bytes]:
    whole = {**PLAIN, "name": "Weather", "capabilities": ASKED, "limits": {"wall_s": 2, "memory": "64 MiB"}}
    toml = "".join(f"{key} = {json.dumps(value)}\n" for key, value in PLAIN.items())
    toml += "".join(
        "[[capabilities]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in asked.items())
        for asked in ASKED
    )
    return [
        b"\0" + toml.encode(),
        b"\0" + b"a.b.\"c.d\" = '\\'  # [[\n[x.y]\nz = {a = [1, 2.5, 1979-05-27]}\n",
        b'\0a = """\n[[[\\"""" """\nb = \'\'\'[[\'\'\'\n',
        b"\1" + f'"""MANIFEST = 1"""\nimport x\nMANIFEST: dict = {whole!r}\n'.encode(),
        b"\1# coding: utf-8\nMANIFEST = {'a': ('b' \"c\"), 'd': -1.5, 'e': [None, True]}  # x\nif x:\n    MANIFEST = 2\n",
        b"\1x = [\nMANIFEST = {}]\nf'{MANIFEST}'\nMANIFEST = {\n'a': r'\\'}\n",
        b"\2" + json.dumps(whole).encode(),
        *(b"\2" + json.dumps(asked).encode() for asked in ASKED),
        b'\2{"hosts": ["*"], "ports": [80], "schemes": ["http"], "methods": ["GET"]}',
        b'\2{"wall_s": 1e308, "memory": "1 GiB", "files": -1}',
    ]


_FIELDS = sorted({name for spec in KINDS.values() for name in spec.scope.__struct_fields__})
TARGET = fuzzing.Target(
    name="manifest",
    says="any bytes are a manifest or a list of problems; what is read is what TOML and Python read, and nothing runs",
    one=one,
    seeds=seeds,
    words=(b"MANIFEST", b"MANIFEST = {", b'"""', b"'''", b"\\\n", b"# coding: ", b"[[capabilities]]\n", b"\r", b"\f", b"\xef\xbb\xbf",
           *(f'"{name}"'.encode() for name in (*Manifest.__struct_fields__, *_FIELDS, *KINDS))),
    most=2048,
)  # fmt: skip
