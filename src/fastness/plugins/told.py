"""
What went wrong in a plugin of this process, as an error that its host can print.

The text of an error is made by the class of whoever raised it, which may do anything, and take for ever.  So it is made
once, by the plugin's own thread and in the plugin's own time, and its host gets an error that holds a plain text.
"""

from __future__ import annotations

from typing import Any

from fastness import errors

__all__ = ["told"]

_TEXT_MAX = 500
_PLAIN = (str, bytes, int, float, bool, type(None))
#: What makes the text of an error, or finds what the text is made of.
_OWN = frozenset(("__str__", "__repr__", "__getattribute__", "__getattr__", "__notes__", "args", "with_traceback"))
#: Of errors of the interpreter, what beside ``args`` is in their text.
_BESIDE = ("filename", "filename2", "strerror", "errno", "msg", "lineno", "name", "path")
#: The flag of a class that was made by a statement, and not by the interpreter (``Py_TPFLAGS_HEAPTYPE``).
_MADE = 1 << 9
_CHAIN_MAX = 50


def told(error: BaseException, plugin: str, phase: str) -> Exception:
    """
    The error itself where its text is made by the interpreter of plain values, else a PluginError with its text.

    One that would end the process is a PluginError too.  Call it where ``error`` was raised: it may take for ever.
    """
    if isinstance(error, Exception) and _is_plain(error):
        _cut_chain(error)
        return error
    name, text = _name(type(error)), _text(error)
    if isinstance(error, Exception):
        made = errors.PluginError(f"{phase} of plugin {plugin!r} raised {name}" + (f": {text}" if text else ""))
    else:
        made = errors.PluginError(f"{phase} of plugin {plugin!r} tried to end its process: {name}({text[:100]})")
    where = error.__traceback__
    while where is not None and where.tb_next is not None:
        where = where.tb_next
    if where is not None:
        made.add_note(f"raised in {where.tb_frame.f_code.co_filename}, line {where.tb_lineno}")
    return made


def _is_plain(error: BaseException) -> bool:
    kind: Any = type(error)
    if type(kind) is not type or not all(type(value) in _PLAIN for value in error.args):
        return False
    for part in kind.__mro__:
        made_here = part.__flags__ & _MADE and vars(errors).get(part.__name__) is not part
        if made_here and not _OWN.isdisjoint(vars(part)):
            return False
    return all(type(getattr(error, name, None)) in _PLAIN for name in _BESIDE)


def _cut_chain(error: BaseException) -> None:
    """Whoever prints an error prints what came before it too: the chain ends where that is not plain."""
    for _ in range(_CHAIN_MAX):
        for link in ("__cause__", "__context__"):
            before = getattr(error, link)
            if before is not None and not _is_plain(before):
                setattr(error, link, None)
        following = error.__context__ if error.__cause__ is None else error.__cause__
        if following is None:
            return
        error = following
    error.__cause__ = error.__context__ = None


def _text(error: BaseException) -> str:
    try:
        # What it gives may be of a class of its own, whose slice by the interpreter is a plain text.
        return str.__getitem__(str(error), slice(_TEXT_MAX))
    except BaseException:  # noqa: BLE001  # whatever it raises, and be it an exit
        return "its text cannot be read"


def _name(kind: type) -> str:
    # By way of ``type`` itself: a class of a class may have another idea of what its name is.
    return str.__getitem__(type.__dict__["__name__"].__get__(kind), slice(100))
