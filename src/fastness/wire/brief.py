"""
Invokes for guests that wait to be born: the less they have to read, the sooner they begin.
"""

from __future__ import annotations

from typing import Final

import msgspec

from fastness.errors import HostProtocolError
from fastness.wire import frames
from fastness.wire import messages as m

#: What an invoke is where nothing else is said of it.
_USUAL: Final = [(name, getattr(m.Invoke(id=1, op="run"), name)) for name in m.Invoke.__struct_fields__[2:]]
_encode = msgspec.json.Encoder().encode


def encode_invoke(message: m.Invoke, blob: bytes = b"") -> bytes:
    """
    As :func:`fastness.wire.messages.encode`, without the fields of its head that are as usual.

    It is decoded to the same.  Raises HostProtocolError where a text cannot be written as UTF-8.
    """
    fields = {"id": message.id, "op": message.op}
    for name, usual in _USUAL:
        if (value := getattr(message, name)) != usual:
            fields[name] = value
    try:
        return frames.encode(frames.INVOKE, _encode(fields), blob)
    except (UnicodeEncodeError, OverflowError) as error:
        raise HostProtocolError(f"invoke cannot be written: {error}") from None
