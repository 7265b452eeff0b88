"""The functions channel: POSTs a delivery's JSON to the function that it names, under a key, and reads the answer."""

from collections.abc import Callable, Mapping

import msgspec
from aiohttp.abc import AbstractResolver

from channels.contract import Envelope, Verdict
from channels.functions import answers
from channels.shared.web.client import Answer, Bounds, Call, Lost, delivery_key
from channels.shared.web.post_channel import KEEP_SECONDS, PostChannel, Unsendable, encoded, trace_headers
from channels.targets import FunctionTarget

# The largest request. Larger data belong where the function can fetch them.
REQUEST_BYTES_MAX = 1024 * 1024
_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Functions(PostChannel[FunctionTarget]):
    """Calls functions. As a whole it promises nothing of its keys; an idempotent function does, for itself."""

    unknown = "recipient: is not a function; name one of those in [functions] of the configuration"

    def __init__(
        self, functions: Mapping[str, FunctionTarget], resolver: Callable[[], AbstractResolver] | None = None
    ) -> None:
        super().__init__(functions, resolver)
        self.keyed_recipients = frozenset(name for name, function in functions.items() if function.idempotent)

    def bounds(self, target: FunctionTarget) -> Bounds:
        return Bounds(target.connections, target.answer_bytes_max, KEEP_SECONDS)

    def call(self, envelope: Envelope, target: FunctionTarget) -> Call:
        """The delivery's JSON as it is, under the function's token and the delivery's key."""
        headers = {"Idempotency-Key": delivery_key(envelope)}
        if target.token:
            headers["Authorization"] = f"Bearer {target.token}"
        headers |= trace_headers(envelope)
        body, seconds = body_of(envelope), seconds_of(envelope, target.timeout_seconds)
        return Call([envelope], target.url, headers, body, seconds)

    def judge(self, envelope: Envelope, target: FunctionTarget, answer: Answer | Lost) -> Verdict:
        return answers.judged(envelope, target, answer)


def body_of(envelope: Envelope) -> bytes:
    """The part `body` as it is, which must be a JSON object."""
    text = envelope.parts.get("body", "")
    if not text.strip():
        raise Unsendable('body: is missing or empty; write a JSON object, such as {"action": …, "payload": …}')
    body = encoded(text, "body")
    if len(body) > REQUEST_BYTES_MAX:
        raise Unsendable(f"body: is too large: a function is sent {REQUEST_BYTES_MAX} bytes at the most")
    try:
        _decode(body)
    except RecursionError:
        raise Unsendable("body: is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise Unsendable(
            "body: is not a JSON object; in a template put texts between quotes with the filter escapejs"
        ) from None
    return body


def seconds_of(envelope: Envelope, seconds_max: float) -> float:
    """How long the call may take: the delivery can ask for less than the function has."""
    asked = envelope.options.get("timeout_seconds", seconds_max)
    # A bool is an int, and NaN is not over 0.
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        raise Unsendable("options.timeout_seconds: expected a number over 0")
    return min(float(asked), seconds_max)
