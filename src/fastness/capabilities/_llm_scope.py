"""
The scope of the capability ``llm``: which price tiers, and how much money, and its words for manifests and owners.
"""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from fastness.capabilities._llm_settings import TIERS, Tier
from fastness.capability import Scope
from fastness.metering.money import in_money, nanos

__all__ = ["LlmScope", "exceeds", "meet", "risk"]

_MOST_TOKENS = 1_000_000


class LlmScope(Scope, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="llm"):
    """
    Which models may be asked, by price: ``tiers`` of ``cheap``, ``standard`` and ``strong``, none by default.

    ``budget`` is the money that may be spent for each owner and day (of UTC), in units of the operator's currency.
    ``max_tokens`` is the most that one answer may have.  Raises ValueError.
    """

    tiers: Annotated[tuple[Tier, ...], msgspec.Meta(max_length=len(TIERS))] = ()
    budget: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 0.0
    max_tokens: Annotated[int, msgspec.Meta(ge=1, le=_MOST_TOKENS)] = 1024

    def __post_init__(self) -> None:
        # What is no number passes every bound.
        if not math.isfinite(self.budget):
            raise ValueError("budget: an amount of money")

    @property
    def most(self) -> int:
        """The budget in billionths."""
        return nanos(self.budget, "budget")


def meet(asked: LlmScope, allowed: LlmScope) -> LlmScope | None:
    """The widest scope within both, or None where that is nothing."""
    both = LlmScope(
        tiers=tuple(tier for tier in dict.fromkeys(asked.tiers) if tier in allowed.tiers),
        budget=min(asked.budget, allowed.budget),
        max_tokens=min(asked.max_tokens, allowed.max_tokens),
    )
    return both if both.tiers and both.budget else None


def exceeds(asked: LlmScope, allowed: LlmScope) -> list[str]:
    """What the first has beyond the second, in words; what may spend nothing has nothing."""
    if not asked.tiers or not asked.budget:
        return []
    found = [f"ask models of the tier {tier}" for tier in asked.tiers if tier not in allowed.tiers]
    if asked.budget > allowed.budget:
        found.append(f"spend up to {in_money(asked.most)} a day for each owner")
    if asked.max_tokens > allowed.max_tokens:
        found.append(f"answers of up to {asked.max_tokens} tokens")
    return found


def risk(scope: LlmScope) -> str:
    """What it lets a plugin do at worst."""
    if not scope.tiers or not scope.budget:
        return "It can ask no model."
    return (
        f"It can send everything that it sees to the service whose models the operator chose, and spend up to "
        f"{in_money(scope.most)} of the operator's money a day for each owner."
    )
