"""A function's answers, judged.

It has done its work where it answers 2xx with a JSON object in which `success` is true or absent; `data` is what it
brings back. Everything else that it answers is a failure: one that may pass (by its status, or because the object says
`retryable`) or one that will not, unless its `retry` says otherwise. Where there is no whole answer, or a gateway
says that it had none, the outcome is unknown: an idempotent function is asked again with the same key.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Unknown, Verdict
from channels.functions.data import Unusable, data_of
from channels.shared.web.answers import asked_wait, is_gateway_error, is_redirect, is_temporary, lost_verdict, succeeded
from channels.shared.web.client import Answer, Lost
from channels.shared.web.redaction import redacted, texts
from channels.targets import FunctionTarget

ID_CHARACTERS_MAX = 255

# The JSON object that came, where there was one.
Said = Mapping[str, Any] | None


def judged(envelope: Envelope, function: FunctionTarget, answer: Answer | Lost) -> Verdict:
    if isinstance(answer, Lost):
        return lost_verdict(answer)
    judge = _succeeded if succeeded(answer) else _refused
    return judge(envelope, function, answer, _object(answer))


def _refused(envelope: Envelope, function: FunctionTarget, answer: Answer, said: Said) -> Verdict:
    """The verdict of a status other than 2xx."""
    if is_gateway_error(answer) and said is None:
        return Unknown(f"answered with {answer.status} by a gateway")
    reason = f"answered with {answer.status}"
    if is_redirect(answer):
        reason += ", a redirect, and those are not followed; write the new URL into the configuration"
    return _failed(reason, envelope, function, answer, said)


def _succeeded(envelope: Envelope, function: FunctionTarget, answer: Answer, said: Said) -> Verdict:
    """The verdict of a 2xx, which is a success only in our form."""
    if answer.cut_off:
        return Unknown(f"answered with {answer.status}, and the rest was lost")
    if answer.body is None:
        reason = f"answered with more than {function.answer_bytes_max} bytes (answer_bytes_max)"
    elif said is None:
        reason = f"answered with {answer.status} and no JSON object"
    elif said.get("success", True) is not True:
        reason = "answered that it has failed"
    else:
        try:
            return Accepted(_request_id(answer, said), data_of(said))
        except Unusable as fault:
            reason, said = f"answered with data that {fault}", None
    return _failed(reason, envelope, function, answer, said)


def _object(answer: Answer) -> Said:
    try:
        said = msgspec.json.decode(answer.body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _failed(reason: str, envelope: Envelope, function: FunctionTarget, answer: Answer, said: Said) -> Verdict:
    """A failure: tried again or not, with the function's words where it has any."""
    said = said or {}
    if words := _words(said, envelope, function):
        reason += f": {words}"
    retryable = said.get("retryable")
    again = retryable if isinstance(retryable, bool) else is_temporary(answer)
    if {"never": False, "transient": again, "always": True}[function.retry]:
        return RetryAfter(reason, asked_wait(answer))
    # What the function says itself about a key is about every call with it; a proxy's or a framework's page is not.
    return Refused(reason, by_key=function.idempotent and "success" in said)


def _words(said: Mapping[str, Any], envelope: Envelope, function: FunctionTarget) -> str:
    """The failure that an answer names, without any of the delivery's values. Names of members are not values."""
    error = said.get("error") or said.get("message")
    if isinstance(error, Mapping):
        error = ": ".join(str(error[key]) for key in ("code", "message") if isinstance(error.get(key), str | int))
    try:
        sent = msgspec.json.decode(envelope.parts["body"])
    except (msgspec.MsgspecError, RecursionError):
        # It went out as it was, and is beyond us: a number without end, say. Then nothing can be told apart.
        return ""
    return redacted(error, [function.token, envelope.recipient, *texts(sent, names=False)])


def _request_id(answer: Answer, said: Mapping[str, Any]) -> str:
    """The function's id of this call, to be looked for in its logs."""
    for found in (said.get("request_id"), answer.headers.get("x-request-id")):
        if isinstance(found, str) and found and found.isprintable():
            return found[:ID_CHARACTERS_MAX]
    return ""
