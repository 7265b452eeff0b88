"""A message or a call as the API takes it: the parameters of one request, or Unsendable with what to change."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

import msgspec
from msgspec import Struct
from twilio.twiml.voice_response import VoiceResponse

from channels.contract import Envelope
from channels.shared.phone import NUMBER_WORDS, is_number, number_of
from channels.shared.web.post_channel import Unsendable, encoded
from channels.targets import Receiver
from channels.twilio.options import KINDS, Kind, TwilioOptions, senders_of

BODY_CHARACTERS_MAX = 1_600
TWIML_CHARACTERS_MAX = 4_000
# The longest that Twilio queues a message, and how long it does by itself.
VALIDITY_SECONDS_MAX = 36_000
# The query parameter of a callback by which its delivery is found.
DELIVERY_FIELD = "delivery"
_WHATSAPP = "whatsapp:"

_is_service = re.compile(r"MG[0-9a-fA-F]{32}").fullmatch
_is_content_sid = re.compile(r"HX[0-9a-fA-F]{32}").fullmatch
_decode_variables = msgspec.json.Decoder(dict[str, str]).decode


class Message(Struct, frozen=True, gc=False):
    """The parameters of one request, under the names that the SDK has for them."""

    kind: Kind
    parameters: Mapping[str, object]


class Messages:
    """Makes messages of envelopes."""

    def __init__(self, options: TwilioOptions, receiver: Receiver | None) -> None:
        self._options = options
        self._receiver = receiver
        self._senders = senders_of(options.senders)

    def make(self, envelope: Envelope, now: float) -> Message:
        """The message of a delivery. `now`, in seconds since 1970, counts only where the delivery expires."""
        kind = self._kind(envelope.channel)
        parameters: dict[str, object] = {"to": _recipient(envelope.recipient, kind)}
        parameters |= self._sender(envelope, kind)
        parameters |= _twiml(envelope.parts) if kind == "voice" else _content(envelope.parts, kind)
        if callback := self.callback(envelope.delivery_id):
            parameters["status_callback"] = callback
        # Twilio knows no point in time, only how long a message may be queued.
        if envelope.expires_at and kind != "voice":
            seconds = min(max(int(envelope.expires_at - now), 1), VALIDITY_SECONDS_MAX)
            parameters["validity_period"] = seconds
        return Message(kind, parameters)

    def callback(self, delivery_id: int) -> str:
        """The URL for reports about a delivery; empty where none are taken."""
        return "" if self._receiver is None else f"{self._receiver.url}?{DELIVERY_FIELD}={delivery_id}"

    def _kind(self, channel: str) -> Kind:
        kind = self._options.sends or channel
        if kind not in KINDS:
            raise Unsendable(
                f"options.sends: is missing: name one of {', '.join(KINDS)} in the channel's configuration"
            )
        return kind

    def _sender(self, envelope: Envelope, kind: Kind) -> Mapping[str, str]:
        workspace = f"{envelope.tenant_id}/{envelope.workspace_id}"
        sender = self._senders.get(workspace, self._options.sender)
        if not sender:
            raise Unsendable(
                "options.from: is missing: name a number or a messaging service, or the workspace in senders"
            )
        if _is_service(sender) and kind != "voice":
            return {"messaging_service_sid": sender}
        if kind != "sms" and not is_number(sender):
            raise Unsendable(f"options.from: is not a number, which {kind} needs: write + and its digits")
        return {"from_": _WHATSAPP + sender if kind == "whatsapp" else sender}


def _recipient(text: str, kind: Kind) -> str:
    number = number_of(text.strip().removeprefix(_WHATSAPP) if kind == "whatsapp" else text)
    if number is None:
        raise Unsendable(f"recipient: {NUMBER_WORDS}")
    return _WHATSAPP + number if kind == "whatsapp" else number


def _content(parts: Mapping[str, str], kind: Kind) -> Mapping[str, str]:
    """A text, or on WhatsApp a content template with its variables."""
    if kind == "whatsapp" and parts.get("content_sid", "").strip():
        return _content_template(parts)
    body = parts.get("body", "")
    if not body.strip():
        needed = "write a text, or a content_sid" if kind == "whatsapp" else "write a text"
        raise Unsendable(f"body: is missing or empty; {needed}")
    if len(body) > BODY_CHARACTERS_MAX:
        raise Unsendable(
            f"body: has {len(body):,} characters, over the {BODY_CHARACTERS_MAX:,} that Twilio takes; shorten it"
        )
    return {"body": _plain(body, "body")}


def _content_template(parts: Mapping[str, str]) -> Mapping[str, str]:
    sid = parts["content_sid"].strip()
    if not _is_content_sid(sid):
        raise Unsendable("content_sid: is not the SID of a content template: HX and 32 hexadecimal digits")
    written = parts.get("content_variables", "").strip()
    if not written:
        return {"content_sid": sid}
    try:
        variables = _decode_variables(_plain(written, "content_variables"))
    except (msgspec.MsgspecError, RecursionError):
        raise Unsendable(
            "content_variables: are not a JSON object of texts; put each between quotes with the filter escapejs"
        ) from None
    if not all(value.strip() for value in variables.values()):
        raise Unsendable("content_variables: have an empty one, which Twilio refuses; give each a text")
    if any(len(value) > BODY_CHARACTERS_MAX for value in variables.values()):
        raise Unsendable(f"content_variables: have one of over {BODY_CHARACTERS_MAX:,} characters; shorten it")
    return {"content_sid": sid, "content_variables": written}


def _twiml(parts: Mapping[str, str]) -> Mapping[str, str]:
    """TwiML as it was written, or a plain text as TwiML that says it."""
    body = parts.get("body", "").strip()
    if not body:
        raise Unsendable("body: is missing or empty; write TwiML, or a text that is to be said")
    _plain(body, "body")
    twiml = _checked(body if body.startswith("<") else _said(body))
    if len(twiml) > TWIML_CHARACTERS_MAX:
        raise Unsendable(
            f"body: has {len(twiml):,} characters as TwiML, over the {TWIML_CHARACTERS_MAX:,} that Twilio takes;"
            " shorten it"
        )
    return {"twiml": twiml}


def _checked(twiml: str) -> str:
    """TwiML that can be read: else Twilio would call, and then say that an error has occurred."""
    if "<!DOCTYPE" in twiml:
        raise Unsendable("body: has a DOCTYPE, which TwiML has not; remove it")
    try:
        root = ElementTree.fromstring(twiml)  # noqa: S314 - without a DOCTYPE there are no entities to expand
    except (ElementTree.ParseError, ValueError):
        raise Unsendable("body: is not TwiML that can be read; put variables through the filter escape") from None
    if root.tag != "Response":
        raise Unsendable("body: is XML without <Response>, with which TwiML begins; write it around the verbs")
    return twiml


def _said(text: str) -> str:
    response = VoiceResponse()
    response.say(text)
    return str(response)


def _plain(text: str, name: str) -> str:
    encoded(text, name)
    if "\0" in text:
        raise Unsendable(f"{name}: has a control character (U+0000); remove it")
    return text
