"""The Slack channel: POSTs a delivery's text, and its blocks, to the webhook that it names.

A webhook knows no keys: a message that may have arrived is never sent again by itself. How Slack answers is in its
documentation, under "Sending messages using incoming webhooks": `ok`, or a status with one word in the body.
"""

import re
from collections.abc import Callable, Mapping

import msgspec
from aiohttp.abc import AbstractResolver

from channels.contract import Accepted, Envelope, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.web.answers import (
    TOO_MANY,
    asked_wait,
    is_gateway_error,
    is_redirect,
    is_temporary,
    lost_verdict,
    succeeded,
)
from channels.shared.web.client import Answer, Bounds, Call, Lost
from channels.shared.web.post_channel import KEEP_SECONDS, PostChannel, Unsendable, encoded
from channels.slack.options import SlackOptions
from channels.targets import Target

# Slack cuts longer messages off.
TEXT_CHARACTERS_MAX = 40_000
BLOCKS_MAX = 50
BLOCKS_BYTES_MAX = 256 * 1024
# Slack answers with a word.
ANSWER_BYTES_MAX = 4 * 1024
# Slack takes a message a second of each webhook, with short bursts.
CONNECTIONS = 4
# Where a 429 says nothing about time.
LIMIT_SECONDS = 1.0

_is_word = re.compile(r"[a-z][a-z0-9_]{1,63}").fullmatch
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_blocks = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode


class Slack(PostChannel[Target]):
    """Posts to Slack, and to other servers that take the same webhooks."""

    unknown = "recipient: is not a webhook; name one of those in [webhooks] of the configuration"

    def __init__(
        self,
        options: SlackOptions,
        webhooks: Mapping[str, Target],
        resolver: Callable[[], AbstractResolver] | None = None,
    ) -> None:
        super().__init__(webhooks, resolver)
        self._options = options

    def bounds(self, target: Target) -> Bounds:  # noqa: ARG002 - all are alike
        return Bounds(CONNECTIONS, ANSWER_BYTES_MAX, KEEP_SECONDS)

    def call(self, envelope: Envelope, target: Target) -> Call:
        """A message of the parts `body` (or `text`) and `blocks`."""
        return Call([envelope], target.url, {}, _message(envelope), self._options.timeout_seconds)

    def judge(self, envelope: Envelope, target: Target, answer: Answer | Lost) -> Verdict:  # noqa: ARG002 - all are alike
        if isinstance(answer, Lost):
            return lost_verdict(answer)
        word = _word(answer)
        if not succeeded(answer):
            return _refused(answer, word)
        if word == "ok":
            return Accepted(answer.headers.get("x-slack-req-id", "")[:255])
        return Unknown(f"answered with {answer.status} and not with ok")


def _refused(answer: Answer, word: str) -> Verdict:
    """The verdict of a status other than 2xx."""
    if answer.status == TOO_MANY:
        wait = asked_wait(answer)
        return Throttled(LIMIT_SECONDS if wait is None else wait)
    if is_gateway_error(answer) and not word:
        return Unknown(f"answered with {answer.status} by a gateway")
    reason = f"slack says {answer.status} {word}".rstrip()
    if is_temporary(answer):
        return RetryAfter(reason, asked_wait(answer))
    return Refused(reason + (", a redirect, and those are not followed" if is_redirect(answer) else ""))


def _message(envelope: Envelope) -> bytes:
    """The JSON of one message: the same bytes on every attempt."""
    parts = envelope.parts
    name = "body" if "body" in parts else "text"
    text = parts.get(name, "")
    fields: dict[str, object] = {}
    if len(text) > TEXT_CHARACTERS_MAX:
        raise Unsendable(f"{name}: is too long: Slack cuts messages off after {TEXT_CHARACTERS_MAX} characters")
    if text.strip():
        fields["text"] = text
    if blocks := parts.get("blocks", "").strip():
        fields["blocks"] = _blocks(blocks)
    if not fields:
        raise Unsendable("body: is missing or empty; write a text, or blocks")
    encoded(text, name)
    return _encode(fields)


def _blocks(text: str) -> object:
    """Slack's blocks as they were written, which must be a list of objects."""
    try:
        blocks = text.encode()
        if len(blocks) > BLOCKS_BYTES_MAX:
            raise Unsendable(f"blocks: are too large: they have {BLOCKS_BYTES_MAX} bytes at the most")
        found = _decode_blocks(blocks)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise Unsendable(
            "blocks: are not a JSON list of objects; put texts between quotes with the filter escapejs"
        ) from None
    if len(found) > BLOCKS_MAX:
        raise Unsendable(f"blocks: are too many: Slack takes {BLOCKS_MAX}")
    return msgspec.Raw(blocks)


def _word(answer: Answer) -> str:
    """The word that Slack answers with; empty for any other answer."""
    word = (answer.body or b"")[:65].decode("ascii", "replace").strip()
    return word if _is_word(word) else ""
