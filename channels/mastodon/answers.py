"""Answers of an instance, judged: what each says about the one post that a call carried.

Certain is a 2xx with the post's number, and a refusal in Mastodon's own words: it looks for the key before anything
else, so that a refusal speaks for every earlier attempt. A 5xx may come after the post was made, and is unknown: the
key makes a repeat safe for as long as the instance keeps it.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web.answers import BAD, SERVER, TOO_MANY, WAIT_SECONDS_MAX, asked_wait, succeeded
from channels.shared.web.client import Answer
from channels.shared.web.redaction import redacted, texts

# Where a 429 says nothing about time. The limits are over five minutes.
LIMIT_SECONDS = 60.0
# A gateway's: whether the instance was asked is not known.
_TIMED_OUT = frozenset({408, 425, 499})
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 401, 403, 404
_KNOWN = "account attach cannot files finished have over processing status text validation try moment again mastodon"


class _Taken(Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=255)]


class _Error(Struct, frozen=True):
    error: Any = None


_decode_taken = msgspec.json.Decoder(_Taken).decode
_decode_error = msgspec.json.Decoder(_Error).decode


def verdict_of(answer: Answer, envelope: Envelope) -> Verdict:
    """The verdict about a post; that of a refusal of the settings is `about_settings`."""
    if succeeded(answer):
        try:
            return Accepted(_decode_taken(answer.body or b"").id)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return Unknown(f"{answer.status} without a number")
    return refusal(answer, envelope)


def refusal(answer: Answer, envelope: Envelope) -> Verdict:
    """The verdict of a status other than 2xx."""
    error = _error(answer)
    if answer.status >= SERVER or answer.status in _TIMED_OUT:
        return Unknown(f"answered with {answer.status}")
    if answer.status == TOO_MANY:
        return Throttled(wait_seconds(answer))
    if answer.status < BAD or not error or answer.status == _NOT_FOUND:
        # Not the API, or a post under this key that was deleted since.
        return RetryAfter(f"{no_instance(answer)}; check options.url")
    words = redacted(error, [envelope.recipient, *texts(envelope.parts, envelope.options)], _KNOWN)
    return Refused(f"mastodon says {answer.status}: {words}".removesuffix(": "))


def about_settings(answer: Answer) -> str:
    """The reason where the instance refuses the token, and with it every post; else an empty text."""
    if not _error(answer):
        return ""
    if answer.status == _UNAUTHORIZED:
        return "options.access_token: mastodon says 401: it was revoked, or is of another instance; make a new one"
    if answer.status == _FORBIDDEN:
        return (
            "options.access_token: mastodon says 403: give its application the scopes write:statuses and write:media,"
            " and see that the account is neither suspended nor waiting for approval"
        )
    return ""


def no_instance(answer: Answer) -> str:
    return f"answered with {answer.status}, as an instance does not"


def may_post(answer: Answer) -> bool:
    """Whether a question about the token was refused for its scopes only: it may post and not read."""
    return answer.status == _FORBIDDEN and bool(_error(answer))


def wait_seconds(answer: Answer) -> float:
    """For how long a 429 asks to be left alone: until a moment that it names."""
    asked = asked_wait(answer)
    if asked is not None:
        return asked
    try:
        resets_at = datetime.fromisoformat(answer.headers.get("x-ratelimit-reset", ""))
        left = (resets_at - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError):
        return LIMIT_SECONDS
    return min(max(left, 1.0), WAIT_SECONDS_MAX)


def _error(answer: Answer) -> str:
    """The error in Mastodon's form; empty where the answer has none."""
    try:
        error = _decode_error(answer.body or b"").error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return error if isinstance(error, str) else ""
