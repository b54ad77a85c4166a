"""
What a control group slot says of the runs in it.
"""

from __future__ import annotations


class SlotUsage:
    """
    What the runs in a slot used since it was configured, as the kernel counted it.

    ``memory_peak`` in bytes, with swap where it may be used; ``cpu_us`` in microseconds; ``oom_kills`` counts
    processes that the kernel killed because the slot's memory was used up, ``pids_denied`` processes and threads that
    were refused.  None where this kernel does not tell.
    """

    __slots__ = ("cpu_us", "memory_peak", "oom_kills", "pids_denied")

    def __init__(
        self, memory_peak: int | None, oom_kills: int | None, cpu_us: int | None, pids_denied: int | None
    ) -> None:
        self.memory_peak = memory_peak
        self.oom_kills = oom_kills
        self.cpu_us = cpu_us
        self.pids_denied = pids_denied

    def __repr__(self) -> str:
        return (
            f"SlotUsage(memory_peak={self.memory_peak}, oom_kills={self.oom_kills}, "
            f"cpu_us={self.cpu_us}, pids_denied={self.pids_denied})"
        )
