"""
What an adapter raised, as an answer: a code, words that are fit for a guest, and whether it is a refusal.
"""

from __future__ import annotations

from fastness.errors import AdapterError, BackendError, Denied, QuotaExceeded, Revoked
from fastness.runs import DenialCode
from fastness.wire import values

__all__ = ["failure"]


def failure(error: BaseException) -> tuple[str, str, DenialCode | None]:
    """The code, the words, and the refusal that it is to be noted as, where it is one."""
    if isinstance(error, Denied):
        code = str(getattr(error.code, "value", error.code))
        # The code is told beside it, and not in the words once more.
        return code, error.target, DenialCode(code)
    if isinstance(error, Revoked):
        return DenialCode.REVOKED.value, "", DenialCode.REVOKED
    if isinstance(error, QuotaExceeded):
        return DenialCode.QUOTA.value, str(error), DenialCode.QUOTA
    if isinstance(error, AdapterError):
        return "failed", str(error), None
    if isinstance(error, TimeoutError):
        return "failed", "the run's time is over", None
    if isinstance(error, BackendError):
        return "failed", "it could not be recorded where it leads, so it went no further", None
    if isinstance(error, values.NotPlain):
        return "failed", f"the answer cannot be given: {error}", None
    # An adapter may be anybody's, and its words may name things of the host.
    return "failed", f"the capability failed ({type(error).__name__})", None
