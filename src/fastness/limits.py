"""
Limits of one run.  They are always on: every field has a default, and None is never "no limit".
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fastness.errors import ConfigurationError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """
    What a run may use at most.

    ``wall_s``: seconds from the guest's start.
    ``cpu_s``: seconds of processor time of the guest.
    ``memory``: bytes that the run may add on top of the warm guest.
    ``pids``: processes and threads at once (tiers that have them).
    ``fds``: open descriptors at once.
    ``files``: files and folders that may exist in the guest's writable tree.
    ``file_bytes``: bytes of all files in the guest's writable tree together.
    ``output_bytes``: bytes *kept* of each of stdout and stderr, head and tail; the run goes on past it.
    ``output_total_bytes``: bytes that may be *written* to stdout and stderr together; past it the run is ended.
    ``frame_bytes``: bytes of one frame's blob from the guest.
    ``calls``, ``calls_in_flight``: brokered calls of a run in all, and at once.
    ``net_requests``, ``net_bytes``: brokered network use of a run.
    ``log_bytes``: bytes of log messages kept.
    ``grace_s``: seconds between SIGTERM and SIGKILL, for commands and in the tier ``worker``.
    """

    wall_s: float = 30.0
    cpu_s: float = 30.0
    memory: int = 512 * MIB
    pids: int = 64
    fds: int = 256
    files: int = 10_000
    file_bytes: int = 256 * MIB
    output_bytes: int = 1 * MIB
    output_total_bytes: int = 256 * MIB
    frame_bytes: int = 4 * MIB
    calls: int = 10_000
    calls_in_flight: int = 16
    net_requests: int = 100
    net_bytes: int = 64 * MIB
    log_bytes: int = 1 * MIB
    grace_s: float = 0.5

    def __post_init__(self) -> None:
        for name, (low, high) in RANGES.items():
            value = getattr(self, name)
            kind = float if name.endswith("_s") else int
            good = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
            # A NaN fails both comparisons, so it is refused too.
            if not good or not low <= value <= high:
                unit = " seconds" if kind is float else f" ({_sizes(name)})" if name in SIZES else ""
                raise ConfigurationError(name, value, f"{low} to {high}{unit}")


#: Smallest and largest value of each limit.
RANGES: dict[str, tuple[float, float]] = {
    "wall_s": (0.001, 86_400.0),
    "cpu_s": (0.001, 86_400.0),
    "memory": (1 * MIB, 64 * GIB),
    "pids": (1, 100_000),
    "fds": (16, 65_536),
    "files": (0, 1_000_000),
    "file_bytes": (0, 4 * GIB),
    "output_bytes": (0, 256 * MIB),
    "output_total_bytes": (0, 64 * GIB),
    "frame_bytes": (1 * KIB, 64 * MIB),
    "calls": (0, 10_000_000),
    "calls_in_flight": (1, 1_024),
    "net_requests": (0, 1_000_000),
    "net_bytes": (0, 64 * GIB),
    "log_bytes": (0, 256 * MIB),
    "grace_s": (0.0, 60.0),
}

#: Limits that are sizes in bytes, and are written as such.
SIZES = frozenset(name for name in RANGES if name == "memory" or name.endswith("_bytes"))


def in_units(size: float) -> str:
    """A size as :func:`parse_size` takes it, in the largest unit that it is a whole number of."""
    count = int(size)
    for unit in ("", "K", "M"):
        if count % 1024 or not count:
            return f"{count}{unit}"
        count //= 1024
    return f"{count}G"


def in_words(size: float) -> str:
    """A size for people, exact: ``64 KiB``, ``1000 bytes``."""
    text = in_units(size)
    return f"{text[:-1]} {text[-1]}iB" if text[-1] in "KMG" else f"{text} bytes"


def _sizes(name: str) -> str:
    low, high = RANGES[name]
    return f"{in_units(low)} to {in_units(high)}"


# Compiled where it is first used: to do that takes as long as importing most modules.
_SIZE = r"(?i)\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*"
_UNIT = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(value: Any, field: str = "size") -> int:
    """
    Bytes from an int or a text such as ``"256M"``, ``"1 GiB"``, ``"64KB"``; all units are powers of 1024.

    Raises ConfigurationError that names ``field``.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(_SIZE, value) if isinstance(value, str) and len(value) <= 32 else None
    if match is None:
        raise ConfigurationError(field, value, "bytes as a whole number, or a number with K, M or G")
    return int(float(match[1]) * 1024 ** _UNIT[match[2].lower()])


def size_of(name: str, value: Any, field: str) -> int:
    """Bytes for the limit ``name``, read by :func:`parse_size`.  Raises ConfigurationError that names ``field``."""
    size = parse_size(value, field)
    low, high = RANGES[name]
    if not low <= size <= high:
        raise ConfigurationError(field, value, _sizes(name))
    return size
