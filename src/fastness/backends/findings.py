"""
What the proofs of a tier have found: each guarantee with what was observed of it, as its proof or as its failure.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastness.tier import Guarantee, ProbeFailure, Proof


class Findings:
    """
    The proofs and failures so far, and in ``layers`` what keeps each guarantee that was proven.

    ``remedies`` are fixes for guarantees whose proofs name none.
    """

    def __init__(self, remedies: Mapping[Guarantee, str] | None = None) -> None:
        self.proofs: list[Proof] = []
        self.failures: list[ProbeFailure] = []
        self.layers: dict[str, str] = {}
        self._remedies = remedies or {}

    def note(self, guarantee: Guarantee, held: bool, mechanism: str, observed: str, remedy: str = "") -> None:
        """Keep what was observed of a guarantee: as its proof, or as a failure with its remedy."""
        if held:
            self.proofs.append(Proof(guarantee.value, mechanism, observed))
            self.layers[guarantee.value] = mechanism
        else:
            fix = remedy or self._remedies.get(guarantee) or "please report this: the tier must not be used here"
            self.failures.append(ProbeFailure(guarantee=guarantee.value, cause=observed, remedy=fix))
