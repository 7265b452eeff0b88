"""The policy: what becomes of a delivery after a verdict. The channel judges, this decides."""

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.domain.life import Again, Back, Failed, Held, OnUnknown, Outcome, Succeeded

EXHAUSTED = "exhausted"


def wait_seconds(attempt: int, base: float, cap: float, spread: float) -> float:
    """The wait after attempt n: base * 2^(n-1), capped; `spread` is the part of it that is added."""
    doublings = min(attempt - 1, 64)
    return min(base * float(2**doublings), cap) * (1.0 + spread)


def decide(  # noqa: PLR0911 - one return a verdict
    verdict: Verdict, attempt: int, max_attempts: int, wait: float, on_unknown: OnUnknown
) -> Outcome:
    """The outcome of attempt number `attempt`, where `wait` is what the policy makes of that number."""
    match verdict:
        case Accepted(provider_message_id=message_id):
            return Succeeded(message_id)
        case Refused(reason=reason):
            return Failed(reason)
        case RetryAfter(reason=reason, delay_seconds=wish):
            if attempt >= max_attempts:
                return Failed(f"{EXHAUSTED}: {reason}")
            return Again(wait if wish is None else max(wish, 0.0), reason)
        case Throttled(seconds=seconds):
            return Back(seconds, "throttled")
        case NotCalled(why=why):
            return Back(0.0, why)
        case Unknown(phase=phase):
            # An unknown last attempt is not exhaustion: nobody knows that it failed.
            if on_unknown == "hold" or attempt >= max_attempts:
                return Held(f"unknown: {phase}")
            return Again(wait, f"unknown: {phase}")
