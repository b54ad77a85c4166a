"""
JSON without the package ``json``, whose pure Python part pulls in ``re`` and ``enum`` and takes longer to import than
an engine takes to confine itself.  The C parts of CPython's own implementation do all the work there as well.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Context:
    """What the C scanner looks at: plain dictionaries, lists and numbers, and nothing of the caller's."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float
    memo: dict[str, str] = {}  # noqa: RUF012  # the one instance is a table of settings that the C scanner reads


def _refuse(value: object) -> object:
    raise TypeError(f"{type(value).__name__} has no JSON")


try:
    import _json

    _scan: Any = _json.make_scanner(_Context())  # type: ignore[arg-type]  # it asks for attributes, not for a type
    _write = _json.make_encoder(None, _refuse, _json.encode_basestring, None, ":", ",", False, False, False)
    if _scan('{"a":[1,null]}', 0) != ({"a": [1, None]}, 14) or "".join(_write({"a": [1, "é"]}, 0)) != '{"a":[1,"é"]}':
        raise ImportError("the C parts of json behave otherwise")
except (ImportError, AttributeError, TypeError):
    # Another Python than those that this was tried with: slower to start, and the same.
    import json

    def loads(text: str) -> Any:
        """The value of a whole JSON text.  Raises ``ValueError``."""
        return json.loads(text)

    def dumps(value: Any) -> str:
        """Compact JSON of plain data.  Raises ``TypeError``."""
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
else:

    def loads(text: str) -> Any:
        """The value of a whole JSON text.  Raises ``ValueError``."""
        text = text.strip(" \t\r\n")
        try:
            value, end = _scan(text, 0)
        except (StopIteration, SystemError, ImportError):
            # The scanner makes its error of a class of `json.decoder`, which is not loaded here: it then raises
            # SystemError, or ImportError where it may try to load it.
            raise ValueError("not a JSON text") from None
        if end != len(text):
            raise ValueError("something follows the JSON text")
        return value

    def dumps(value: Any) -> str:
        """Compact JSON of plain data.  Raises ``TypeError``."""
        return "".join(_write(value, 0))
