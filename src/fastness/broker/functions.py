"""
Functions of the host that a guest may call, for plain runs and for plugins: an adapter made of typed callables.

A guest sees each as a function with its signature and its documentation.  Arguments are decoded into a type that is
made of the callable's annotations, so that what arrives is inert and of the right shape, or the call is refused.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import keyword
import typing
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from fastness.broker import signatures
from fastness.broker.elsewhere import in_loop
from fastness.broker.threads import Exited, Threads, outlived
from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import (
    AdapterError,
    CapabilityError,
    ConfigurationError,
    Denied,
    QuotaExceeded,
    Revoked,
)
from fastness.runs import DenialCode

__all__ = ["KIND", "Functions", "HostFunction", "HostScope", "stubs"]

#: The name under which a guest's ctx has them.
KIND = "host"
_FUNCTIONS_MAX = 256
_DOC_MAX = 2000
#: Functions of one host that block at once, and those of one plugin and owner, or of one run; calls beyond wait.
_THREADS = 64
_THREADS_EACH = 16
_HEADS = {
    "python": (
        "# Functions of the host.  They are there already; arguments and results are plain data.\n"
        "# Inside async code, await them.\n"
    ),
    "javascript": (
        "// Functions of the host.  They are there already; arguments and results are plain data.\n"
        "// Each returns a promise: await it.\n"
    ),
}


class HostScope(Scope, frozen=True, tag=KIND):
    """Which of the host's functions may be called, by name; none by default."""

    names: tuple[str, ...] = ()


class HostFunction(msgspec.Struct, frozen=True):
    """
    A function of the host with what cannot be seen in it.

    ``leaves`` says whether its effect leaves this machine or spends money: then the record of a call is on disk before
    it happens.  A function that is given without this is taken to leave.
    """

    call: Callable[..., Any]
    leaves: bool = True


class Functions:
    """
    The functions of one host, by the name that guests call them by.

    Each parameter must be annotated with a type that ``msgspec`` can decode; ``*args``, ``**kwargs`` and parameters by
    position only are refused.  A plain function runs in a thread of its own pool, an ``async`` one in the broker's
    loop, or see :meth:`within`: it must not block.  What it raises crosses as a failure, with the exception's text
    where that is a ``CapabilityError``, and without it otherwise.  Raises ConfigurationError.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any] | HostFunction]) -> None:
        if not isinstance(functions, Mapping):
            raise ConfigurationError("functions", type(functions).__name__, "a dict of names to functions")
        if len(functions) > _FUNCTIONS_MAX:
            raise ConfigurationError("functions", f"{len(functions)} functions", f"at most {_FUNCTIONS_MAX}")
        self._given = dict(functions)
        self._all = {
            name: _Function(name, *((one.call, one.leaves) if isinstance(one, HostFunction) else (one, True)))
            for name, one in functions.items()
        }
        self._threads = Threads(_THREADS, _THREADS_EACH)
        self._loop: asyncio.AbstractEventLoop | None = None
        self.names = tuple(self._all)
        self.spec = Spec(
            kind=KIND,
            scope=HostScope,
            operations=tuple(one.operation for one in self._all.values()),
            meet=_meet,
            exceeds=lambda asked, allowed: [
                f"call the host's function {name}" for name in asked.names if name not in allowed.names
            ],
            risk=lambda scope: f"It calls these functions of the program that runs it: {', '.join(scope.names)}.",
            enforced=(
                "Only functions that are registered and granted by name can be called.",
                "Arguments are decoded into the types that each function declares, or the call is refused.",
            ),
        )

    def limited(self, names: tuple[str, ...]) -> Functions:
        """Those of these names: what is not granted is not even an operation."""
        return Functions({name: one for name, one in self._given.items() if name in names})

    def within(self, loop: asyncio.AbstractEventLoop) -> Functions:
        """The same, whose ``async`` functions run in ``loop``, which must not be waiting for them."""
        found = copy.copy(self)
        found._loop = loop
        return found

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Call one of them.  Raises Denied, AdapterError, and what the function raises of ``CapabilityError``."""
        function = self._all.get(operation)
        if function is None or operation not in context.scope.names:
            raise Denied(DenialCode.NOT_GRANTED, operation)
        given = {field: getattr(arguments, field) for field in arguments.__struct_fields__}
        try:
            if function.waits:
                make = functools.partial(outlived, functools.partial(function.call, **given))
                return await (make() if self._loop is None else in_loop(self._loop, make))
            # One that does not come back keeps its thread; the guest's run ends all the same.
            whose = (context.plugin, context.owner) if context.plugin else context.run
            left = functools.partial(setattr, context, "rest")
            return await self._threads.run(functools.partial(function.call, **given), whose, left=left)
        except (Denied, QuotaExceeded, Revoked, AdapterError):
            raise
        except CapabilityError as error:
            raise AdapterError(str(error)) from error
        except Exception as error:
            name = str(error) if isinstance(error, Exited) else type(error).__name__
            raise AdapterError(f"{operation} failed ({name})") from error

    async def aclose(self) -> None:
        """Nothing is held: threads without work end by themselves."""

    def stubs(self, language: str = "python") -> str:
        """The functions as source text, for a prompt: ``python`` or ``javascript``.  Raises ConfigurationError."""
        if language not in _HEADS:
            raise ConfigurationError("language", language, ", ".join(_HEADS))
        return "\n".join([_HEADS[language], *(one.stub(language) for one in self._all.values())])


def stubs(functions: Mapping[str, Callable[..., Any] | HostFunction], language: str = "python") -> str:
    """
    Source text that tells a model what functions its code may call: their signatures and documentation.

    ``language`` is ``python`` or ``javascript``.  Raises ConfigurationError.
    """
    return Functions(functions).stubs(language)


class _Function:
    """One function, looked at once."""

    def __init__(self, name: str, call: Callable[..., Any], leaves: bool) -> None:
        self.name = name
        self.call = call
        self.waits = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004  # not whether it can be called
        self.signature = _signature(name, call)
        self.hints = _hints(name, call, self.signature)
        self.documentation = (inspect.getdoc(call) or "")[:_DOC_MAX]
        self.text = signatures.signature(self.signature, self.hints)
        self.operation = Operation(
            name=name,
            arguments=_arguments(name, self.signature, self.hints),
            target=lambda _: name,
            summary=self.documentation.split("\n", 1)[0][:200],
            leaves=leaves,
            signature=self.text,
            documentation=self.documentation,
        )

    def stub(self, language: str) -> str:
        if language == "javascript":
            return signatures.javascript(self.name, self.signature, self.hints, self.documentation)
        return signatures.python(self.name, self.text, self.documentation)


def _meet(asked: HostScope, allowed: HostScope) -> HostScope | None:
    names = tuple(name for name in asked.names if name in allowed.names)
    return HostScope(names=names) if names else None


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    if name == "ctx":
        raise ConfigurationError("functions", name, "another name: a guest has its ctx under this one")
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or not name.isascii():
        raise ConfigurationError("functions", name, "names that a guest can call: letters, digits and underscores")
    if not callable(function):
        raise ConfigurationError(f"functions[{name!r}]", type(function).__name__, "a function")
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            allowed = "parameters that can be given by name"
            raise ConfigurationError(f"functions[{name!r}]", str(parameter), allowed)
    return signature


def _hints(name: str, function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Any]:
    try:
        # Those of an object that can be called are its method's.
        plain = inspect.isroutine(function) or isinstance(function, (type, functools.partial))
        source = function.func if isinstance(function, functools.partial) else function
        hints = typing.get_type_hints(source if plain else type(function).__call__, include_extras=True)
    except Exception as error:  # noqa: BLE001  # an annotation may be any expression
        raise ConfigurationError(f"functions[{name!r}]", str(error), "annotations that can be read") from None
    for parameter in signature.parameters:
        if parameter not in hints:
            raise ConfigurationError(f"functions[{name!r}]", parameter, "a type for each parameter")
    return hints


def _arguments(name: str, signature: inspect.Signature, hints: Mapping[str, Any]) -> type[msgspec.Struct]:
    fields: list[Any] = []
    for parameter in signature.parameters.values():
        field: tuple[Any, ...] = (parameter.name, hints[parameter.name])
        if parameter.default is not parameter.empty:
            field = (*field, msgspec.field(default_factory=functools.partial(_same, parameter.default)))
        fields.append(field)
    try:
        arguments = msgspec.defstruct(f"_{name}", fields, frozen=True, forbid_unknown_fields=True, kw_only=True)
        # A type that cannot be decoded is the host's mistake, and is told before any guest runs.
        msgspec.json.Decoder(arguments)
    except TypeError as error:
        raise ConfigurationError(f"functions[{name!r}]", str(error), "types of plain data") from None
    return arguments


def _same(value: Any) -> Any:
    return value
