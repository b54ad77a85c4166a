"""
The raw callbacks of the imports: from argument slots to a method of the current host and back.

One factory for each shape of parameters.  They are spelled out because guests take this path at every print, where
a generic loop over the parameters costs more than most calls do; and made from plain functions, not generated at
start-up, because compiling them would cost more than everything else that an engine makes.
"""

from __future__ import annotations

from .preview1_abi import Errno

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Method = Callable[..., int]
    Stopper = Callable[[BaseException], int]
    RawCallback = Callable[[Any, Any, Any, int], int | None]


def _none(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _i(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _ii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _il(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4] | a[5] << 32)
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _ili(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4] | a[5] << 32, a[8])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _ill(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4] | a[5] << 32, a[8] | a[9] << 32)
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8], a[12])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _ilii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4] | a[5] << 32, a[8], a[12])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _illi(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4] | a[5] << 32, a[8] | a[9] << 32, a[12])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiiii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8], a[12], a[16])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiili(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8], a[12] | a[13] << 32, a[16])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiiiii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8], a[12], a[16], a[20])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiiiiii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8], a[12], a[16], a[20], a[24])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiiilli(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(current[0], a[0], a[4], a[8], a[12], a[16] | a[17] << 32, a[20] | a[21] << 32, a[24])
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


def _iiiiillii(method: Method, current: list[Any], stop: Stopper) -> RawCallback:
    def call(env: Any, caller: Any, a: Any, n: int) -> int | None:
        try:
            a[0] = method(
                current[0], a[0], a[4], a[8], a[12], a[16], a[20] | a[21] << 32, a[24] | a[25] << 32, a[28], a[32]
            )
        except Errno as error:
            a[0] = error.code
        except BaseException as error:  # noqa: BLE001  # nothing may pass into native code
            return stop(error)
        return None

    return call


#: Parameters (``i`` is i32, ``l`` is i64) to the factory of callbacks that take them.
SHAPES: dict[str, Callable[[Method, list[Any], Stopper], RawCallback]] = {
    "": _none,
    "i": _i,
    "ii": _ii,
    "il": _il,
    "iii": _iii,
    "ili": _ili,
    "ill": _ill,
    "iiii": _iiii,
    "ilii": _ilii,
    "illi": _illi,
    "iiiii": _iiiii,
    "iiili": _iiili,
    "iiiiii": _iiiiii,
    "iiiiiii": _iiiiiii,
    "iiiilli": _iiiilli,
    "iiiiillii": _iiiiillii,
}


def callback(kinds: str, method: Method, current: list[Any], trap: Callable[[], int]) -> RawCallback:
    """
    A callback that passes its arguments to ``method`` of ``current[0]``, the host of the run in progress.

    It lets no exception out: an errno is returned to the guest; anything else is kept in the host's ``exc``, with the
    function and line that raised it in ``where`` (the first one wins), and the guest ends with a trap.
    """

    def stop(error: BaseException) -> int:
        host = current[0]
        if host is not None and host.exc is None:
            place = error.__traceback__
            while place is not None and place.tb_next is not None:
                place = place.tb_next
            if place is not None:
                host.where = f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}"
            # The frames of a traceback hold the host: kept, it and its whole tree would wait for the cycle collector.
            host.exc = error.with_traceback(None)
        return trap()

    return SHAPES[kinds](method, current, stop)
