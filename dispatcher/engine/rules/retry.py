"""The policy: what becomes of a delivery after a verdict. The channel judges, this decides."""

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.engine.rules.life import Again, Back, Failed, Held, Outcome, Resend, Succeeded

EXHAUSTED = "exhausted"
# What a provider writes into Retry-After is foreign input; past some years Postgres could not even store it.
REQUESTED_SECONDS_MAX = 86_400.0
# Allowed by one receiver, which knows every key that it was ever given.
BY_KEY = Resend("key", None)


def requested_seconds(requested: float) -> float:
    """The wait that a provider requests, bounded; NaN counts as the longest."""
    return min(max(requested, 0.0), REQUESTED_SECONDS_MAX) if requested == requested else REQUESTED_SECONDS_MAX  # noqa: PLR0124 - not NaN


def wait_seconds(attempt: int, base: float, cap: float, spread: float) -> float:
    """The wait after attempt n: base * 2^(n-1), capped; `spread` is the part of it that is added."""
    doublings = min(attempt - 1, 64)
    return min(base * float(2**doublings), cap) * (1.0 + spread)


def decide(  # noqa: PLR0911 - one return a verdict
    verdict: Verdict,
    attempt: int,
    max_attempts: int,
    wait: float,
    resend: Resend,
    recipient: str = "",
    next_is_ready: bool | None = None,
) -> Outcome:
    """The outcome of attempt number `attempt`, where `wait` is what the policy makes of that number.

    `next_is_ready`: whether another provider may take it, where the channel has several; it must be false where an
    earlier attempt is unknown.
    """
    match verdict:
        case Refused(reason=reason, provider_fault=True) | RetryAfter(reason=reason, provider_fault=True) if (
            next_is_ready
        ):
            return Again(0.0, reason, passed=True)
        case Refused(reason=reason, provider_fault=True) if next_is_ready is not None:
            return _again(reason, attempt, max_attempts, wait)
        case Refused(reason=reason, provider_fault=True):
            return Failed(reason)
        case Accepted(provider_message_id=message_id, data=data):
            return Succeeded(message_id, data)
        case Refused(reason=reason, suppresses=suppresses, by_key=by_key):
            # Under a key the answer is about every attempt: a provider that had taken one would say so again.
            return Failed(reason, conclusive=by_key or resend.by == "key", suppresses=suppresses)
        case RetryAfter(reason=reason, delay_seconds=requested):
            return _again(reason, attempt, max_attempts, wait if requested is None else requested_seconds(requested))
        case Throttled() if next_is_ready:
            return Back(0.0, "throttled", throttled=True, passed=True)
        case Throttled(seconds=seconds):
            return Back(requested_seconds(seconds), "throttled", throttled=True)
        case NotCalled(why=why):
            return Back(0.0, why, passed=bool(next_is_ready))
        case Unknown(phase=phase, hold=hold):
            resend_by = BY_KEY if recipient in resend.keyed_recipients and resend.by != "key" else resend
            # An unknown last attempt is not exhaustion: it may have succeeded.
            if resend_by.by is None or hold or attempt >= max_attempts:
                return Held(f"unknown: {phase}")
            return Again(wait, f"unknown: {phase}", resend_by)


def _again(reason: str, attempt: int, max_attempts: int, wait: float) -> Outcome:
    """Another attempt, as long as there may be one."""
    return Failed(f"{EXHAUSTED}: {reason}") if attempt >= max_attempts else Again(wait, reason)
