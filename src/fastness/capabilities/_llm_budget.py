"""
The budget of one question to a model: the most that it can cost is held before it is sent, and settled after.

What is held counts as spent from then on, for every process; where this one dies in between, it stays so.  What the
service says that it cost is believed up to that, and where it cannot be so the whole is spent and it is noted.
"""

from __future__ import annotations

import logging

from fastness.capabilities._chat import Counted
from fastness.capabilities._llm_scope import LlmScope
from fastness.capabilities._llm_settings import Priced
from fastness.capability import CallContext
from fastness.errors import AdapterError, BackendError
from fastness.metering.ledger import Ledger, Tally
from fastness.metering.quotas import Amounts, Quota
from fastness.runs import DenialCode

__all__ = ["Charge"]

_KIND = "llm"


class Charge:
    """What one question may cost; ``cost`` is what it did cost, in billionths, once it is settled."""

    def __init__(self, ledger: Ledger, context: CallContext, tier: str, priced: Priced, most_in: int, most_out: int):
        """Raises QuotaExceeded where too little is left, AdapterError where that cannot be known."""
        scope: LlmScope = context.scope
        self._ledger = ledger
        self._whose = context.plugin, context.owner
        self._tier = tier
        self._priced = priced
        self.cost = 0
        self._most = priced.price(most_in, most_out)
        amounts = Amounts(cost=self._most)
        budget = Quota(plugin=context.plugin, owner=context.owner, per="day", cost=scope.most)
        try:
            self._held = ledger.take(*self._whose, _KIND, amounts, amounts, more=(budget,), sync=True)
        except BackendError:
            raise AdapterError("what it costs cannot be written down, so nothing was asked") from None
        self._settled = False

    def nothing(self) -> None:
        """Nothing was asked, or the service refused."""
        self._settle(0)

    def whole(self) -> None:
        """Nobody knows what it cost: all that was held.  What was settled before stays so."""
        self._settle(self._most)

    def counted(self, counted: Counted | None, size: int, context: CallContext) -> None:
        """The service has answered with so many bytes, and counted tokens, or not."""
        if self._settled:
            return
        if counted is None:
            self._disputed(context, "its tokens were not counted")
        elif not counted.fits(size):
            self._disputed(context, "it counted fewer tokens than it sent")
        elif (cost := self._priced.price(counted.tokens_in, counted.tokens_out)) > self._most:
            self._disputed(context, "it counted more tokens than it was asked for")
        else:
            self._settle(cost)

    def _disputed(self, context: CallContext, why: str) -> None:
        self._settle(self._most, disputed=1)
        if context.note is not None:
            context.note(f"{self._tier}: {why}", DenialCode.QUOTA.value)

    def _settle(self, cost: int, disputed: int = 0) -> None:
        if self._settled:
            return
        self._settled, self.cost = True, cost
        used = {_KIND: Tally(cost=cost, disputed=disputed)}
        try:
            self._ledger.settle([self._held], used, plugin=self._whose[0], owner=self._whose[1])
        except BackendError as error:
            # It goes on counting as held, which is no less.
            logging.getLogger("fastness").warning("what a question to a model cost was not settled: %s", error)
