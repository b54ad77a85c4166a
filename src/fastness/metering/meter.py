"""
What one run uses, counted while it goes on, and held against the quotas of its plugin and owner beforehand.

Where no quota bounds calls or bytes, counting costs no more than an addition; what was counted is written when the run
is over.  Where one does, calls and bytes are taken from the ledger some at a time, and a run that cannot have more is
refused the next call.
"""

from __future__ import annotations

import logging
import threading

from fastness.errors import BackendError
from fastness.metering.ledger import Held, Ledger, Tally
from fastness.metering.quotas import Amounts

__all__ = ["Meter"]

#: Calls and bytes that are taken at once, where so many are left.
_CALLS = 256
_BYTES = 16 << 20
#: Of what is left, the part that is taken at once.
_SHARE = 8
#: Millionths of a second of processor time without which no run is begun.
_LEAST_CPU = 10_000
_MICROS = 1_000_000


class Meter:
    """The use of one run.  Any thread may use it."""

    def __init__(self, ledger: Ledger, plugin: str, owner: str) -> None:
        self._ledger = ledger
        self._whose = plugin, owner
        self._bounded = ledger.bounds(plugin, owner)
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._used: dict[str, Tally] = {}
        self._held: list[Held] = []
        #: Calls and bytes that are held and not used yet; no number where nothing bounds them.
        self._calls = 0
        self._bytes = 0
        #: Calls that are not over.
        self._flying = 0
        self._counts = bool(self._bounded & {"calls", "bytes"})
        self._cpu: Held | None = None
        self._ended = False
        #: Money that the run spent, in billionths.
        self.cost = 0

    def begin(self, cpu_s: float) -> float:
        """
        The run begins, and may take so much processor time; gives what it may have of it.

        Raises QuotaExceeded where nothing is left, BackendError where that cannot be known.
        """
        if "cpu_micros" in self._bounded:
            wanted = Amounts(cpu_micros=max(int(cpu_s * _MICROS), _LEAST_CPU))
            self._cpu = self._ledger.take(*self._whose, "", wanted, Amounts(cpu_micros=_LEAST_CPU))
            cpu_s = min(cpu_s, self._cpu.amounts.cpu_micros / _MICROS)
        return cpu_s

    def take(self) -> bool:
        """
        A call, of those that are held; False where none is left, or that would have to wait for others, and
        :meth:`admit` is to be asked.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._take()
        finally:
            self._lock.release()

    def _take(self) -> bool:
        if self._counts:
            if self._calls <= 0 or self._bytes <= 0:
                return False
            self._calls -= 1
        self._flying += 1
        return True

    def give_back(self) -> None:
        """A call that was taken is not made."""
        with self._lock:
            self._flying -= 1
            self._calls += self._counts

    def admit(self) -> None:
        """A call, for which more is taken where that must be.  Raises QuotaExceeded, BackendError."""
        # One at a time asks the ledger, and those whose calls are over do not wait for that.
        with self._asking:
            with self._lock:
                if self._take():
                    return
                used, held, flying, before = self._used, self._held, self._flying, self._bytes
                self._used, self._held = {}, []
            wanted = Amounts(calls=_CALLS + flying, bytes=_BYTES)
            # Calls that are not over are held anew.
            least = Amounts(calls=1 + flying, bytes=1)
            try:
                more = self._ledger.take(*self._whose, "", wanted, least, share=_SHARE, settles=held, used=used)
            except BaseException:
                with self._lock:
                    self._put_back(used, held)
                raise
            with self._lock:
                self._held.append(more)
                self._calls = more.amounts.calls - 1 - flying
                self._bytes += more.amounts.bytes - before
                self._flying += 1
                if self._ended:
                    # Nobody asks once more: what is held now is given back.
                    self._settle()

    def _put_back(self, used: dict[str, Tally], held: list[Held]) -> None:
        self._held[:0] = held
        for kind, tally in used.items():
            found = self._used.setdefault(kind, Tally())
            for name in Tally.__struct_fields__:
                setattr(found, name, getattr(found, name) + getattr(tally, name))

    def over(
        self,
        kind: str,
        *,
        bytes_in: int = 0,
        bytes_out: int = 0,
        cpu_s: float = 0.0,
        cost: int = 0,
        refused: bool = False,
    ) -> None:
        """
        A call that was taken is over.

        ``cost`` is only told here: who spends money writes that down by itself.
        """
        with self._lock:
            self._flying -= 1
            tally = self._used.setdefault(kind, Tally())
            tally.calls += 1
            tally.refused += refused
            tally.bytes_in += bytes_in
            tally.bytes_out += bytes_out
            tally.cpu_micros += int(cpu_s * _MICROS)
            self._bytes -= bytes_in + bytes_out
            self.cost += cost
            if self._ended:
                # It came to rest after its run was over.
                self._settle()

    def spend(self, cost: int) -> None:
        """Something cost so much that belongs to no call."""
        with self._lock:
            self.cost += cost

    def refused(self, kind: str) -> None:
        """A call was not let through, because of a quota."""
        with self._lock:
            self._used.setdefault(kind, Tally()).refused += 1

    def end(self, cpu_s: float | None) -> None:
        """The run is over and took so much processor time; None where nobody knows.  Idempotent."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
            own = self._used.setdefault("", Tally())
            own.runs += 1
            if cpu_s is not None:
                own.cpu_micros += int(cpu_s * _MICROS)
            elif self._cpu is not None:
                # What is not known is all of what it could have been.
                own.cpu_micros += self._cpu.amounts.cpu_micros
            if self._cpu is not None:
                self._held.append(self._cpu)
                self._cpu = None
            self._settle()

    def _settle(self) -> None:
        try:
            self._write()
        except BackendError as error:
            # What is held goes on counting; what was not, is not counted.
            logging.getLogger("fastness").warning("what %s used was not written down: %s", self._whose[0], error)

    def _write(self) -> None:
        used, held = self._used, self._held
        if not used and not held:
            return
        plugin, owner = self._whose
        self._ledger.settle(held, used, plugin=plugin, owner=owner)
        self._used, self._held = {}, []
