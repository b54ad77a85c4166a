"""
From the bytes of a manifest to plain data, without running any of it.

A manifest is read before anybody has decided to trust it.  So its size and its nesting are capped before a parser sees
it: ``tomllib`` follows brackets by recursion and takes half a minute over one key of sixty thousand dots, and
``ast.literal_eval`` may exhaust the C stack (its own documentation says so).  Of a Python module only the one statement
that assigns ``MANIFEST`` is parsed, and only where it is made of literals.
"""

from __future__ import annotations

import ast
import re
import token
import tokenize
from collections.abc import Callable, Iterator
from typing import Any

from fastness.errors import ManifestError

__all__ = ["DEPTH_MAX", "SOURCE_MAX", "TOML_MAX", "read_json", "read_python", "read_toml"]

#: Bytes of a plugin.toml, and of the data that a module's manifest evaluates to.
TOML_MAX = 64 << 10
#: Bytes of a module that holds its manifest.
SOURCE_MAX = 1 << 20
#: Brackets within one another, and parts of one dotted key.
DEPTH_MAX = 16
#: Tokens of the statement that assigns MANIFEST.
_TOKENS_MAX = 10_000
#: Tokens before its equals sign: the name, and an annotation such as ``dict[str, object]``.
_ANNOTATION_MAX = 20
#: Lines that begin with that name: each is looked at from there on.
_LINES_MAX = 16

# Texts of both languages.  One that does not end takes all that a parser would have taken before it gave up, so that no
# place is looked at twice.  Each ends in what always matches, so nothing is tried again; possessive groups would say
# so, but Python 3.11.2 gets them wrong.
_TEXTS = r"""
    "{3}(?:[^"\\]+|\\.|"(?!""))*(?:"{3,5}|.*)
  | '{3}(?:[^'\\]+|\\.|'(?!''))*(?:'{3,5}|.*)
  | "(?:[^"\\\n]+|\\.)*"?
  | '(?:[^'\\\n]+|\\.)*'?
  | \#[^\n]*
"""
#: As above, but a backslash between single quotes is TOML's own sign for itself (toml.io, 1.0.0: literal strings).
_TOML_TEXTS = _TEXTS.replace(r"""(?:[^'\\]+|\\.|'(?!''))""", r"""(?:[^']+|'(?!''))""").replace(
    r"""(?:[^'\\\n]+|\\.)""", r"""[^'\n]"""
)
_TOML_PART = re.compile(_TOML_TEXTS + r"| [\[\]{}.=,\n]", re.DOTALL | re.VERBOSE)
_PYTHON_PART = re.compile(_TEXTS + r"| [\[\](){}] | (?<![^\n])MANIFEST\b", re.DOTALL | re.VERBOSE)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_UTF8 = frozenset({"utf-8", "utf8", "utf-8-sig", "utf_8"})
_LITERAL_NAMES = frozenset({"True", "False", "None"})
_SIGNS = frozenset("{}[](),:-=")
_SILENT = frozenset({tokenize.NL, tokenize.COMMENT, token.INDENT, token.DEDENT})
_TEXT = re.compile(r"(?i)[ru]?[\"']")


def read_toml(data: bytes) -> dict[str, Any]:
    """The table of a ``plugin.toml``.  Raises ManifestError."""
    text = _decode(data, TOML_MAX)
    _check_toml(text)
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # A number of thousands of digits is a ValueError of its own.
        raise ManifestError([f"it is not TOML: {_bounded(error)}"]) from None


def _check_toml(text: str) -> None:
    """Refuse what would take a parser's stack or time.  Strings and comments are stepped over whole."""
    depth = dots = 0
    for found in _TOML_PART.finditer(text):
        sign = found[0]
        if sign in "[{":
            depth += 1
            dots = 0
        elif sign in "]}":
            depth -= 1
            dots = 0
        elif sign == ".":
            dots += 1
        elif sign in "=,\n":
            dots = 0
        if depth > DEPTH_MAX or dots > DEPTH_MAX:
            line = text.count("\n", 0, found.start()) + 1
            raise ManifestError([f"line {line}: it is nested more than {DEPTH_MAX} deep"])


def read_python(data: bytes) -> dict[str, Any]:
    """
    The literal that a Python module assigns to ``MANIFEST`` at its top level.  Raises ManifestError.

    The module around it is stepped over, not parsed; nothing of it is ever executed.
    """
    for line in data.split(b"\n", 2)[:2]:
        cookie = _COOKIE.match(line)
        if cookie is not None and cookie[1].decode("ascii", "replace").lower() not in _UTF8:
            # In another encoding a reader and the interpreter could see two different programs.
            raise ManifestError(["the module must be in UTF-8 and declare no other encoding"])
    # Line ends as the interpreter sees them.
    text = _decode(data, SOURCE_MAX).replace("\r\n", "\n").replace("\r", "\n")
    found = list(_statements(text))
    if len(found) != 1:
        what = "no MANIFEST" if not found else "MANIFEST more than once"
        raise ManifestError([f"the module assigns {what} at its top level"])
    value = _value(found[0])
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            if len(set(keys)) != len(node.keys):
                raise ManifestError([f"line {node.lineno}: each key must be a literal and stand once"])
    try:
        result = ast.literal_eval(value)
    except (ValueError, TypeError, MemoryError, RecursionError, SyntaxError):
        raise ManifestError(["MANIFEST is not made of literals alone"]) from None
    if not isinstance(result, dict):
        raise ManifestError([f"MANIFEST must be a dict, not {type(result).__name__}"])
    return result


def _statements(text: str) -> Iterator[str]:
    """
    The source of each statement at the top level that begins with the name MANIFEST and assigns it.

    Every such statement is checked to hold nothing but literals in brackets, so that its tree is as deep as its
    brackets and no deeper.
    """
    depth = lines = 0
    for found in _PYTHON_PART.finditer(text):
        sign = found[0]
        if sign in "([{":
            depth += 1
        elif sign in ")]}":
            depth -= 1
        elif sign == "MANIFEST" and depth <= 0 and not text.endswith("\\\n", 0, found.start()):
            lines += 1
            if lines > _LINES_MAX:
                raise ManifestError([f"more than {_LINES_MAX} lines of the module begin with MANIFEST"])
            line = text.count("\n", 0, found.start())
            items = _logical_line(text[found.start() :], line)
            if _assigns(items):
                _check_literals(items, line)
                below = text[found.start() :].split("\n", items[-1].end[0])
                yield "\n" * line + _source(below, items[-1].end)


def _logical_line(text: str, line: int) -> list[tokenize.TokenInfo]:
    """The tokens of the statement that a text begins with."""
    items: list[tokenize.TokenInfo] = []
    try:
        for item in tokenize.generate_tokens(_reader(text)):
            if item.type == token.NEWLINE:
                break
            if item.type not in _SILENT:
                items.append(item)
            if len(items) > _TOKENS_MAX:
                raise ManifestError([f"MANIFEST holds more than {_TOKENS_MAX} words"])
    except (tokenize.TokenError, SyntaxError) as error:
        raise ManifestError([f"line {line + 1}: MANIFEST is not Python: {_bounded(error)}"]) from None
    return items


def _reader(text: str) -> Callable[[], str]:
    """Line by line, as ``tokenize`` asks for it; no more of a module is looked at than the statement takes."""
    at = 0

    def readline() -> str:
        nonlocal at
        end = text.find("\n", at) + 1 or len(text)
        taken, at = text[at:end], end
        return taken

    return readline


def _assigns(items: list[tokenize.TokenInfo]) -> bool:
    return any(item.type == token.OP and item.string == "=" for item in items)


def _check_literals(items: list[tokenize.TokenInfo], above: int) -> None:
    start = next(index for index, item in enumerate(items) if item.string == "=" and item.type == token.OP)
    if start > _ANNOTATION_MAX:
        raise ManifestError(["MANIFEST must be assigned by itself: MANIFEST = {...}"])
    depth = 0
    before = ""
    for item in items[start + 1 :]:
        line, sign = above + item.start[0], item.string
        good = (
            (item.type == token.STRING and _TEXT.match(sign) is not None)
            or item.type == token.NUMBER
            or (item.type == token.NAME and sign in _LITERAL_NAMES)
            or (item.type == token.OP and sign in _SIGNS and sign != "=" and not sign == before == "-")
        )
        if not good:
            raise ManifestError([f"line {line}: MANIFEST must be made of literals alone: texts, numbers, lists, dicts"])
        depth += (sign in ("{", "[", "(")) - (sign in ("}", "]", ")")) if item.type == token.OP else 0
        if depth > DEPTH_MAX:
            raise ManifestError([f"line {line}: it is nested more than {DEPTH_MAX} deep"])
        before = sign if item.type == token.OP else ""


def _source(lines: list[str], end: tuple[int, int]) -> str:
    """The lines up to a place of the tokens."""
    return "\n".join([*lines[: end[0] - 1], lines[end[0] - 1][: end[1]]])


def _value(source: str) -> ast.expr:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ManifestError([f"MANIFEST is not Python: {_bounded(error)}"]) from None
    node = tree.body[0] if len(tree.body) == 1 else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.value
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.value
    raise ManifestError(["MANIFEST must be assigned by itself: MANIFEST = {...}"])


def read_json(text: object) -> dict[str, Any]:
    """The object that a JSON text of a guest holds.  Raises ManifestError."""
    import msgspec

    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
    if len(data) > TOML_MAX:
        raise ManifestError([f"the manifest is larger than {TOML_MAX} bytes"])
    try:
        result = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise ManifestError(["the manifest is not plain data"]) from None
    if not isinstance(result, dict):
        raise ManifestError(["the manifest must be an object"])
    return result


def _decode(data: bytes, most: int) -> str:
    if len(data) > most:
        raise ManifestError([f"it is larger than {most} bytes"])
    if b"\0" in data:
        raise ManifestError(["it holds a NUL byte"])
    try:
        return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ManifestError([f"it is not UTF-8: byte {error.start}"]) from None


def _bounded(error: BaseException) -> str:
    text = ascii(str(error))[1:-1]
    return text if len(text) <= 120 else text[:117] + "..."
