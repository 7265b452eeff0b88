"""Answers of the API, judged: what each says about the one message, or the many, that a call carried.

Certain is what a 2xx with ids says, and a refusal (4xx) in the API's own words. Everything else that came back after a
request was written is unknown, a 5xx too: the key makes a repeat safe for as long as the API keeps it, and what is
unknown is repeated within that time only, and held, not failed, when its attempts are used up.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.resend.options import ResendOptions
from channels.shared.web.answers import BAD, SERVER, TOO_MANY, asked_wait, seconds, succeeded
from channels.shared.web.client import Answer
from channels.shared.web.redaction import redacted, texts

# Where a 429 says nothing about time. The API's window is a second.
LIMIT_SECONDS = 1.0
# A spent quota comes back by the day or the month, and the API does not say when: it is asked for again this often.
QUOTA_SECONDS = 3_600.0
# A shorter wait that comes with a quota is about the rate.
QUOTA_SECONDS_MIN = 60.0

QUOTAS = {"daily_quota_exceeded": "daily", "monthly_quota_exceeded": "monthly"}
_KEYS = frozenset({"missing_api_key", "invalid_api_key", "restricted_api_key", "suspended_api_key"})
# The statuses with which a call of many is refused for the sake of one of them.
_ABOUT_MESSAGES = frozenset({400, 403, 413, 422})
# Refused before anything was done, but not for good and not by the API's own rules: a gateway's time-out.
_TIMED_OUT = frozenset({408, 425, 499})
_CONFLICT = 409

MessageId = Annotated[str, Meta(min_length=1, max_length=255)]


class _Taken(Struct, frozen=True):
    id: MessageId


class _Fault(Struct, frozen=True):
    index: int
    message: Any = None


class _AllTaken(Struct, frozen=True):
    data: Annotated[list[_Taken], Meta(max_length=100)]
    errors: Annotated[list[_Fault], Meta(max_length=100)] = []


class _Error(Struct, frozen=True):
    name: str = ""
    message: Any = None


_decode_taken = msgspec.json.Decoder(_Taken).decode
_decode_all_taken = msgspec.json.Decoder(_AllTaken).decode
_decode_error = msgspec.json.Decoder(_Error).decode


def single_verdict(answer: Answer, envelope: Envelope, options: ResendOptions) -> Verdict:
    """The verdict about a message that went alone."""
    if succeeded(answer):
        try:
            return Accepted(_decode_taken(answer.body or b"").id)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Unknown(f"{answer.status} without an id")
    return refusal(answer, envelope, options)


def batch_verdicts(answer: Answer, envelopes: Sequence[Envelope], options: ResendOptions) -> list[Verdict] | None:
    """The verdicts about a batch that was taken, in its order; None where the answer does not say so."""
    if not succeeded(answer):
        return None
    try:
        said = _decode_all_taken(answer.body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    faults = {fault.index: fault.message for fault in said.errors}
    places = range(len(envelopes))
    if len(faults) != len(said.errors) or not all(index in places for index in faults):
        return None
    if len(said.data) + len(faults) != len(envelopes):
        return None
    taken = iter(said.data)
    return [
        _refused("validation_error", faults[index], envelope, options) if index in faults else Accepted(next(taken).id)
        for index, envelope in enumerate(envelopes)
    ]


def is_about_messages(answer: Answer) -> bool:
    """Whether a call of many was refused as a whole for what may be the fault of one: then none of them was taken."""
    name = _error(answer).name
    return answer.status in _ABOUT_MESSAGES and bool(name) and name not in _KEYS


def refusal(answer: Answer, envelope: Envelope, options: ResendOptions) -> Verdict:
    """The verdict of a status other than 2xx."""
    error = _error(answer)
    match answer.status:
        case _ if answer.status >= SERVER or answer.status in _TIMED_OUT:
            return Unknown(_named(answer, error))
        case status if status == _CONFLICT:
            # A concurrent one is an earlier attempt that is still at work. That the key was used for something else is
            # no accident that a repeat could mend.
            return Unknown(_named(answer, error), hold=error.name == "invalid_idempotent_request")
        case status if status == TOO_MANY:
            return Throttled(wait_seconds(answer))
        case status if status >= BAD and error.name:
            return _refused(error.name, error.message, envelope, options)
        case _:
            # Not in the API's form: a gateway's page, a redirect. Nothing was taken, and it may pass.
            return RetryAfter(f"answered with {answer.status} by something that is not the API; check options.url")


def quota(answer: Answer) -> str | None:
    return QUOTAS.get(_error(answer).name) if answer.status == TOO_MANY else None


def wait_seconds(answer: Answer) -> float:
    """For how long an answer asks to be left alone."""
    asked = asked_wait(answer)
    if quota(answer):
        return asked if asked is not None and asked >= QUOTA_SECONDS_MIN else QUOTA_SECONDS
    if asked is None:
        asked = seconds(answer.headers.get("ratelimit-reset", ""))
    return LIMIT_SECONDS if asked is None else asked


def asks_to_wait(answer: Answer) -> bool:
    return answer.status == TOO_MANY or (answer.status >= SERVER and "retry-after" in answer.headers)


def _error(answer: Answer) -> _Error:
    try:
        error = _decode_error(answer.body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Error()
    # It goes into reasons and logs.
    return error if error.name.isidentifier() and error.name.isascii() and len(error.name) <= 64 else _Error()  # noqa: PLR2004 - far above the longest name


def _named(answer: Answer, error: _Error) -> str:
    return f"{answer.status} {error.name}".rstrip()


def _refused(name: str, message: object, envelope: Envelope, options: ResendOptions) -> Refused:
    senders = (options.sender, str(envelope.options.get("from", "")))
    domains = " ".join(sender.rpartition("@")[2] for sender in senders)
    words = redacted(message, [options.api_key, envelope.recipient, *texts(envelope.parts, envelope.options)], domains)
    about_us = name in _KEYS
    field = "options.api_key: " if about_us else ""
    return Refused(f"{field}resend says {name}: {words}".removesuffix(": "), provider_fault=about_us)
