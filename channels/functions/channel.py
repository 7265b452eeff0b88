"""The functions channel: POSTs a delivery's JSON to the function that it names, under a key, and reads the answer."""

from collections.abc import Callable, Mapping

from aiohttp.abc import AbstractResolver

from channels.contract import Envelope, Verdict
from channels.functions import answers
from channels.functions.requests import request_of, seconds_of
from channels.functions.settings import FunctionSettings
from channels.shared.web import Answer, Bounds, Call, Lost
from channels.shared.web.idempotency_keys import delivery_key
from channels.shared.web.posts import Posts

# Under the five seconds for which the most common servers keep an idle connection.
KEEP_SECONDS = 4.0
_UNKNOWN = "recipient: is no function; name one of those in [functions] of the configuration"


class _Manner:
    """How functions are spoken to."""

    def bounds(self, function: FunctionSettings) -> Bounds:
        """What calls of a function may use up."""
        return Bounds(function.connections, function.answer_bytes_max, KEEP_SECONDS)

    def call(self, envelope: Envelope, function: FunctionSettings) -> Call:
        """The delivery's JSON as it is, under the function's token and the delivery's key."""
        headers = {"Idempotency-Key": delivery_key(envelope)}
        if function.token:
            headers["Authorization"] = f"Bearer {function.token}"
        body, seconds = request_of(envelope), seconds_of(envelope, function.timeout_seconds)
        return Call([envelope], function.url, headers, body, seconds)

    def judge(self, envelope: Envelope, function: FunctionSettings, answer: Answer | Lost) -> Verdict:
        """What an answer, or its absence, means."""
        return answers.judged(envelope, function, answer)


class Functions(Posts[FunctionSettings]):
    """Calls functions. As a whole it promises nothing of its keys; an idempotent function does, for itself."""

    def __init__(
        self, functions: Mapping[str, FunctionSettings], resolver: Callable[[], AbstractResolver] | None = None
    ) -> None:
        super().__init__(_Manner(), functions, _UNKNOWN, resolver)
        self.keyed_recipients = frozenset(name for name, function in functions.items() if function.idempotent)
