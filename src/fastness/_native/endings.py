"""
The ends of guests: taken by their zygote, and told to the caller, by a list of calls that is the same for all.
"""

from __future__ import annotations

import errno
import socket

from fastness._linux import machine_code, plan
from fastness._native import datagrams

#: Bytes of the parts of :data:`datagrams.ENDED`.
_NOTHING = 4
_STATUS, _USED = 4, 18 * 8


class Endings:
    """Guests that live, which are told of over the socket ``control``."""

    def __init__(self, control: int) -> None:
        #: Their numbers and names, by the descriptors of their processes.
        self.live: dict[int, tuple[int, bytes]] = {}
        self._pid, self._process = plan.number(), plan.number()
        self._name = plan.memory(datagrams.NAME)
        status, used = plan.memory(_STATUS), plan.memory(_USED)
        wait, send, close = plan.Plan(), plan.Plan(), plan.Plan()
        for calls, number in ((wait, self._pid), (close, self._process)):
            calls.hold(number)
            calls.load(plan.address(number))
        wait.add("wait4", 0, status, 0, used, result=plan.ANY)
        send.add_parts(control, [plan.memory(_NOTHING), self._name, status, used], int(socket.MSG_NOSIGNAL))
        close.add("close", 0)
        for calls in (wait, close):
            calls.put_answer_at(0, calls.argument_at(1, 1))
        self._calls = plan.Plans([wait, send, close])
        self._address, self._end = self._calls.address, self._calls.end
        self._make = machine_code.make

    def tell(self, process: int) -> None:
        """
        Take the guest with this descriptor, which is closed, and tell how it ended; waits until it has.

        Raises ``OSError``.
        """
        # Each function that is called here is pages more to copy.
        self._pid.value, self._name.raw = self.live.pop(process)
        self._process.value = process
        reached = self._make(self._address)
        while reached != self._end:
            number, index = self._calls.at(reached)
            failed = self._calls.plans[number].failed(index)
            if failed.errno != errno.EINTR:
                raise failed
            # A package has a handler for some signal.
            reached = self._make(self._calls.from_on(number))
