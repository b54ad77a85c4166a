"""
Functions of the host that a guest may call, for plain runs and for plugins: an adapter made of typed callables.

A guest sees each as a function with its signature and its documentation.  Arguments are decoded into a type that is
made of the callable's annotations, so that what arrives is inert and of the right shape, or the call is refused.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import typing
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread
import msgspec

from fastness.capability import CallContext, Operation, Scope, Spec
from fastness.errors import AdapterError, CapabilityError, ConfigurationError

__all__ = ["KIND", "Functions", "HostScope"]

#: The name under which a guest's ctx has them.
KIND = "host"
_FUNCTIONS_MAX = 256
_DOC_MAX = 2000


class HostScope(Scope, frozen=True, tag=KIND):
    """Which of the host's functions may be called, by name; none by default."""

    names: tuple[str, ...] = ()


class Functions:
    """
    The functions of one host, by the name that guests call them by.

    Each parameter must be annotated with a type that ``msgspec`` can decode; ``*args``, ``**kwargs`` and parameters by
    position only are refused.  A plain function runs in a thread of its own pool, an ``async`` one in the broker's
    loop: it must not block.  What it raises crosses as a failure with the exception's text where that is a
    ``CapabilityError``, and without it otherwise.  Raises ConfigurationError.
    """

    def __init__(self, functions: Mapping[str, Callable[..., Any]], *, leaves: tuple[str, ...] = ()) -> None:
        if len(functions) > _FUNCTIONS_MAX:
            raise ConfigurationError("functions", f"{len(functions)} functions", f"at most {_FUNCTIONS_MAX}")
        unknown = sorted(set(leaves) - set(functions))
        if unknown:
            raise ConfigurationError("leaves", unknown[0], "names of functions that are given")
        self._functions = dict(functions)
        self.signatures = {name: _signature(name, function) for name, function in functions.items()}
        self.spec = Spec(
            kind=KIND,
            scope=HostScope,
            operations=tuple(_operation(name, one, name in leaves) for name, one in functions.items()),
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
        return Functions({name: self._functions[name] for name in self._functions if name in names})

    async def call(self, operation: str, arguments: Any, context: CallContext) -> Any:
        """Call one of them.  Raises AdapterError and what the function raises of ``CapabilityError``."""
        function = self._functions[operation]
        given = {field: getattr(arguments, field) for field in arguments.__struct_fields__}
        try:
            if inspect.iscoroutinefunction(function):
                return await function(**given)
            # One that does not come back keeps its thread; the guest's run ends all the same.
            return await anyio.to_thread.run_sync(functools.partial(function, **given), abandon_on_cancel=True)
        except CapabilityError:
            raise
        except Exception as error:
            raise AdapterError(f"{operation} failed ({type(error).__name__})") from error

    async def aclose(self) -> None:
        """Nothing is held."""

    def stubs(self, language: str = "python") -> str:
        """The functions as source text, for a prompt: ``python`` or ``javascript``."""
        lines = []
        for name, signature in self.signatures.items():
            doc = _documentation(self._functions[name])
            if language == "javascript":
                names = ", ".join(signature.parameters)
                lines += [f"/** {doc.replace('*/', '* /')} */", f"async function {name}({{ {names} }}) {{}}", ""]
            else:
                lines += [f"def {name}{signature}:", f"    {doc!r}", "    ...", ""]
        return "\n".join(lines)


def _meet(asked: HostScope, allowed: HostScope) -> HostScope | None:
    names = tuple(name for name in asked.names if name in allowed.names)
    return HostScope(names=names) if names else None


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
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


def _operation(name: str, function: Callable[..., Any], leaves: bool) -> Operation:
    try:
        hints = typing.get_type_hints(function)
    except Exception as error:  # noqa: BLE001  # an annotation may be any expression
        raise ConfigurationError(f"functions[{name!r}]", str(error), "annotations that can be read") from None
    fields: list[Any] = []
    for parameter in _signature(name, function).parameters.values():
        if parameter.name not in hints:
            raise ConfigurationError(f"functions[{name!r}]", parameter.name, "a type for each parameter")
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
    summary = _documentation(function).split("\n", 1)[0][:200]
    return Operation(name=name, arguments=arguments, target=lambda _: name, summary=summary, leaves=leaves)


def _same(value: Any) -> Any:
    return value


def _documentation(function: Callable[..., Any]) -> str:
    return (inspect.getdoc(function) or "")[:_DOC_MAX]
