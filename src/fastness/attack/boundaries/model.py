"""
Sentences about what is promised and what is not, as data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fastness.attack.model import Rule
from fastness.tier import Guarantee


@dataclasses.dataclass(frozen=True, slots=True)
class Breach:
    """
    Something that would be a vulnerability.

    ``tiers`` are those that it is said of; empty for all that promise the guarantee.  ``attacks`` name what is behind
    it, by id or as ``family.*``; empty for all attacks on the guarantee that no other breach names, of which there is
    one at most for each tier.  ``elsewhere`` names, of a tier without such an attack, the file of tests that has it.
    """

    says: str
    tiers: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        _sentence(self.says)

    def names(self, attack: str) -> bool:
        """Whether the attack of this id is named."""
        return attack in self.attacks or attack.partition(".")[0] + ".*" in self.attacks


@dataclasses.dataclass(frozen=True, slots=True)
class Limit:
    """
    Something that is not stopped, and so no vulnerability.

    ``tiers`` are those that it is said of; empty for all that promise what it stands beside.  ``shown`` are ids of
    attacks that are allowed there; where there is none, ``why`` says what it comes from.  ``brief`` is how
    ``fastness.tier.LIMITS_OF`` says it, where it does.
    """

    says: str
    tiers: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    why: str = ""
    brief: str = ""

    def __post_init__(self) -> None:
        _sentence(self.says)
        if not self.shown and not self.why:
            raise ValueError(f"neither shown nor explained: {self.says}")


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    """A guarantee of tiers or a rule of the broker, with what breaks it and what does not."""

    of: Guarantee | Rule
    breaches: tuple[Breach, ...]
    limits: tuple[Limit, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """
    Whether something is a vulnerability.

    ``tiers`` are those that it is asked of, empty for all.  ``attacks`` are ids of what shows the answer, or files of
    tests.
    """

    asked: str
    answer: str
    tiers: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()


def _sentence(text: str) -> None:
    if (not text[0].isupper() and text[0] != "`") or not text.endswith("."):
        raise ValueError(f"not a sentence: {text}")
