"""Answers of the API, judged: what each says about the one message that a request carried.

A create has no key by which it could be repeated. So what is certain is what a success with a SID says, a refusal with
one of the API's error codes, and what it never processes: 429, and 503 under its own code. Any other answer after a
request was written, 500 too, is unknown, and held.
"""

from collections.abc import Iterable

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web.answers import SERVER, TOO_MANY, asked_wait, is_redirect, lost_verdict, succeeded
from channels.shared.web.client import Answer, Lost
from channels.shared.web.redaction import redacted, texts
from channels.twilio.api import UNAUTHORIZED, Made, Refusal
from channels.twilio.error_codes import (
    BAD_CREDENTIALS,
    DEAD_NUMBERS,
    FAILED_THERE,
    REMEDIES,
    THROTTLING,
    UNAVAILABLE,
)

# Where nothing is said about time.
LIMIT_SECONDS = 1.0
FORBIDDEN = 403
# Sent too slowly, or too early: a request that was not taken.
_TOO_SOON = frozenset({408, 425})


def is_unauthorized(found: Made | Refusal | Lost) -> bool:
    return isinstance(found, Refusal) and found.answer.status == UNAUTHORIZED


def verdict(found: Made | Refusal | Lost, envelope: Envelope, secret: str) -> Verdict:
    """The verdict about a message."""
    match found:
        case Lost():
            return lost_verdict(found)
        case Made(error_code=None):
            return Accepted(found.sid)
        case Made(error_code=code):
            # It was made, and has failed already.
            return _refused(code or 0, None, envelope, secret)
        case Refusal():
            return _refusal(found, envelope, secret)


def _refusal(found: Refusal, envelope: Envelope, secret: str) -> Verdict:
    answer, code = found.answer, found.code
    said = f"{answer.status} {code or ''}".rstrip()
    if answer.status == TOO_MANY or code in THROTTLING:
        wait = asked_wait(answer)
        return Throttled(LIMIT_SECONDS if wait is None else wait)
    if fault := _account_fault(found, said):
        return RetryAfter(fault)
    if code == UNAVAILABLE:
        return RetryAfter(f"twilio says {said}", asked_wait(answer))
    if answer.status >= SERVER or code == FAILED_THERE:
        return Unknown(said)
    if code:
        return _refused(code, found.words, envelope, secret)
    return Unknown(f"{said} without the SID of a message") if succeeded(answer) else _not_the_api(answer)


def _account_fault(found: Refusal, said: str) -> str:
    """What is wrong with the account or its key, and not with the message; empty: nothing."""
    if is_unauthorized(found) or found.code == BAD_CREDENTIALS:
        return "options.secret: Twilio refuses the credentials; correct them"
    if found.answer.status == FORBIDDEN:
        return f"options.account_sid: may not send this (twilio says {said}); give the account, or its key, the right"
    return ""


def _not_the_api(answer: Answer) -> Verdict:
    """An answer in another form: a gateway's page, or a redirect. Nothing was taken, and it may pass."""
    words = " and a redirect, which is not followed" if is_redirect(answer) else ""
    return RetryAfter(f"answered with {answer.status}{words} by something that is not the API; check options.url")


def _refused(code: int, words: object, envelope: Envelope, secret: str) -> Refused:
    message: Iterable[str] = (secret, envelope.recipient, *texts(envelope.parts, envelope.options))
    remedy = f"{REMEDIES[code]} (" if code in REMEDIES else ""
    reason = f"{remedy}twilio says {code}: {redacted(words, message)}".removesuffix(": ")
    return Refused(reason + (")" if remedy else ""), suppresses=code in DEAD_NUMBERS)
