"""Answers of FCM, judged by its published error codes.

A code stands in the `details` of an error, and the status of Google's APIs beside it. An answer in this form is a
refusal, of the device, the message, the rate or the settings, or says that FCM could not take the message now. It has
no keys: what has no such answer is unknown.
"""

from typing import Any

import msgspec
from msgspec import Struct, field

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web.answers import SERVER, asked_wait, succeeded
from channels.shared.web.client import Answer
from channels.shared.web.redaction import redacted, texts

# FCM asks senders over their quota to wait a minute at least.
QUOTA_SECONDS = 60.0
_FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
_QUOTA = "type.googleapis.com/google.rpc.QuotaFailure"
# FCM did not take it, in its own words. Other answers of 500 and over may come from something before it.
_PASSING = frozenset({"UNAVAILABLE", "INTERNAL"})
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY = 401, 403, 404, 429
_SETTINGS = frozenset({_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND})

OTHER_PROJECT = (
    "options.service_account: FCM says SENDER_ID_MISMATCH: the device is registered with another project than the"
    " account's; use the account of the project that the app was built with"
)
APPLE = (
    "FCM says THIRD_PARTY_AUTH_ERROR: the project's key for APNs or web push is missing or wrong; upload it in the"
    " Firebase console, under Cloud Messaging"
)


class _Taken(Struct, frozen=True):
    name: str


class _Violation(Struct, frozen=True):
    subject: str = ""
    description: str = ""


class _Detail(Struct, frozen=True):
    type: str = field(default="", name="@type")
    error_code: str = field(default="", name="errorCode")
    violations: list[_Violation] = []


class _Status(Struct, frozen=True):
    status: str = ""
    message: Any = None
    details: list[_Detail] = []


class _Error(Struct, frozen=True):
    error: _Status


_decode_taken = msgspec.json.Decoder(_Taken).decode
_decode_error = msgspec.json.Decoder(_Error).decode
_NO_ERROR = _Status()


class Judged(Struct, frozen=True):
    """A verdict; `settings` is the reason where the answer is about the settings of the channel. `mismatched` says that
    the settings are at fault only if no device takes messages by them."""

    verdict: Verdict
    settings: str = ""
    mismatched: bool = False


def judged(envelope: Envelope, answer: Answer) -> Judged:
    if succeeded(answer):
        return Judged(_taken(answer))
    if reason := about_settings(answer):
        return Judged(RetryAfter(reason, provider_fault=True), reason)
    error = _error(answer)
    code = _code(error)
    return Judged(_refusal(code, error, envelope, answer), mismatched=code == "SENDER_ID_MISMATCH")


def _refusal(code: str, error: _Status, envelope: Envelope, answer: Answer) -> Verdict:
    """The verdict of an error that is not about the settings."""
    verdict: Verdict
    match code:
        case "":
            verdict = _foreign(answer)
        case "UNREGISTERED":
            verdict = Refused("fcm says UNREGISTERED: the app is no longer on the device", suppresses=True)
        case "SENDER_ID_MISMATCH":
            verdict = Refused(OTHER_PROJECT)
        case "THIRD_PARTY_AUTH_ERROR":
            verdict = RetryAfter(APPLE, asked_wait(answer))
        case _ if answer.status == _TOO_MANY:
            verdict = _limited(error, answer)
        case _ if code in _PASSING:
            verdict = RetryAfter(f"fcm says {code}", asked_wait(answer))
        case _ if answer.status >= SERVER:
            verdict = Unknown(f"fcm says {answer.status} {code}")
        case _:
            verdict = Refused(f"fcm says {code}: {_words(error, envelope)}".removesuffix(": "))
    return verdict


def about_settings(answer: Answer) -> str:
    """The reason where FCM refuses the service account, and with it every message; else an empty text."""
    if answer.status not in _SETTINGS:
        return ""
    error = _error(answer)
    if not error.status or any(detail.type == _FCM_ERROR for detail in error.details):
        return ""
    words = {
        _UNAUTHORIZED: "it takes none of its tokens; make a new key of it",
        _FORBIDDEN: "it may not send; give it the role Firebase Cloud Messaging API Admin, and enable that API in the"
        " project",
        _NOT_FOUND: "there is no such project; use the account of a Firebase project",
    }[answer.status]
    return f"options.service_account: fcm says {answer.status} {_word(error.status)}: {words}"


def is_fcm(answer: Answer) -> bool:
    """Whether an answer has FCM's form."""
    return bool(_error(answer).status) or isinstance(_taken(answer), Accepted)


def foreign(answer: Answer) -> str:
    return f"answered with {answer.status} by something that is not FCM"


def _taken(answer: Answer) -> Verdict:
    try:
        name = _decode_taken(answer.body or b"").name
    except (msgspec.MsgspecError, UnicodeDecodeError):
        name = ""
    return Accepted(name[:255]) if name.isprintable() and name else Unknown(f"{answer.status} without a name")


def _foreign(answer: Answer) -> Verdict:
    """The verdict of an error that is not in FCM's form: a gateway's page, a redirect."""
    if answer.status >= SERVER:
        return Unknown(f"answered with {answer.status} by a gateway")
    return RetryAfter(f"{foreign(answer)}; check options.url")


def _limited(error: _Status, answer: Answer) -> Verdict:
    """Over a quota: that of one device holds up no other."""
    wait = asked_wait(answer)
    wait = QUOTA_SECONDS if wait is None else wait
    violations = [one for detail in error.details if detail.type == _QUOTA for one in detail.violations]
    if any("device" in f"{one.subject} {one.description}".lower() for one in violations):
        return RetryAfter("fcm says QUOTA_EXCEEDED: too many messages to this device", wait)
    return Throttled(wait)


def _words(error: _Status, envelope: Envelope) -> str:
    """FCM's own words, without any of the message's."""
    message = [envelope.recipient, *texts(envelope.parts, envelope.options)]
    return redacted(error.message, message, "FCM registration token")


def _error(answer: Answer) -> _Status:
    try:
        return _decode_error(answer.body or b"").error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _NO_ERROR


def _code(error: _Status) -> str:
    """FCM's own code, or the status where it gives none. It goes into reasons."""
    own = next((detail.error_code for detail in error.details if detail.type == _FCM_ERROR and detail.error_code), "")
    return _word(own or error.status)


def _word(text: str) -> str:
    return text if text.isidentifier() and text.isascii() and len(text) <= 64 else ""  # noqa: PLR2004 - far above the longest code
