"""A message as FCM takes it: one JSON object a device, on every attempt the same but for how long it may wait."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from channels.contract import Envelope
from channels.shared.web.post_channel import Unsendable, encoded

# FCM's limit for the keys and values of a payload.
PAYLOAD_BYTES_MAX = 4_096
# Four weeks: for so long FCM keeps a message for a device that is away.
TTL_SECONDS_MAX = 2_419_200
TOKEN_CHARACTERS_MAX = 4_096
# FCM makes objects of what it is given; deeper ones were not meant.
DEPTH_MAX = 10

PLATFORMS = ("android", "apns", "webpush")
_PRIORITIES = {"high": ("HIGH", "10", "high"), "normal": ("NORMAL", "5", "normal")}

_is_token = re.compile(rf"[!-~]{{1,{TOKEN_CHARACTERS_MAX}}}").fullmatch
_is_collapse_key = re.compile(r"[!-~]{1,64}").fullmatch
_is_url = re.compile(r"https?://[!-~]{1,2000}").fullmatch
_is_reserved = re.compile(r"from\Z|message_type\Z|google\.|gcm\.").match
_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode

Fields = dict[str, Any]


def body_of(envelope: Envelope, at: float) -> bytes:
    """The request for one envelope at a time, in seconds since 1970. Unsendable names the field and what to change."""
    parts, options = envelope.parts, envelope.options
    if not _is_token(envelope.recipient):
        raise Unsendable("recipient: is not the registration token of a device; give the one that the app got from FCM")
    message: Fields = {}
    if notification := _notification(parts):
        message["notification"] = notification
    if data := _data(parts, options):
        message["data"] = data
    if not message:
        raise Unsendable("body: is missing or empty; write a body, a title or data")
    for platform, fields in _platforms(envelope, at, shown="notification" in message).items():
        message[platform] = fields
    try:
        body = _encode({"message": {"token": envelope.recipient, **message}})
    except (UnicodeError, RecursionError):
        raise Unsendable(
            "body: has half a character (a lone surrogate), or the title or data have; remove it"
        ) from None
    # Keys and values are never more than the whole.
    if len(body) > PAYLOAD_BYTES_MAX and (size := _weighed(message)) > PAYLOAD_BYTES_MAX:
        raise Unsendable(
            f"body: is too large with its title and data: {size} bytes, and FCM takes {PAYLOAD_BYTES_MAX}; shorten it,"
            " or let the app fetch the rest"
        )
    return body


def _notification(parts: Mapping[str, str]) -> Fields:
    found = {name: parts[name] for name in ("title", "body") if parts.get(name, "").strip()}
    if image := parts.get("image", "").strip():
        if not _is_url(image):
            raise Unsendable("image: is not a URL that begins with https:// or http://; write one, or leave it out")
        found["image"] = image
    return found


def _data(parts: Mapping[str, str], options: Mapping[str, Any]) -> Fields:
    """The data of the option, and over them those of the part."""
    given = options.get("data") or {}
    if not isinstance(given, Mapping):
        raise Unsendable("options.data: is not an object of texts by name; write it as one")
    found = {**given, **_data_part(parts.get("data", ""))}
    for name, value in found.items():
        if not isinstance(value, str):
            raise Unsendable("data: has a value that is not a text, and FCM takes texts only; write it between quotes")
        if not name or _is_reserved(name):
            raise Unsendable("data: has a name that FCM keeps for itself (from, message_type, google.…, gcm.…)")
    return found


def _data_part(text: str) -> Fields:
    if not text.strip():
        return {}
    try:
        return _decode_object(encoded(text, "data"))
    except (msgspec.MsgspecError, RecursionError):
        raise Unsendable(
            "data: is not a JSON object of texts by name; put texts between quotes with the filter escapejs"
        ) from None


def _platforms(envelope: Envelope, at: float, *, shown: bool) -> dict[str, Fields]:
    """What is said to each platform alone: our own words first, and what the options say over them."""
    options = envelope.options
    if not options and not envelope.expires_at:
        return {}
    ours: dict[str, Fields] = {platform: {} for platform in PLATFORMS}
    headers: dict[str, str] = {}
    if (priority := options.get("priority")) is not None:
        if not isinstance(priority, str) or priority not in _PRIORITIES:
            raise Unsendable("options.priority: is neither high nor normal; write one of them")
        android, apns, web = _PRIORITIES[priority]
        # Apple takes no message in a hurry that its device does not show.
        ours["android"]["priority"], headers["apns-priority"] = android, apns if shown else "5"
        ours["webpush"]["headers"] = {"Urgency": web}
    if (ttl := _ttl_seconds(envelope, at)) is not None:
        ours["android"]["ttl"] = f"{ttl}s"
        # A moment, and not a time from now; 0 is not to be kept at all.
        headers["apns-expiration"] = str(int(at) + ttl) if ttl else "0"
        ours["webpush"].setdefault("headers", {})["TTL"] = str(ttl)
    if (key := options.get("collapse_key")) is not None:
        if not isinstance(key, str) or not _is_collapse_key(key):
            raise Unsendable("options.collapse_key: is not a text of 1 to 64 printable characters; shorten it")
        ours["android"]["collapse_key"] = headers["apns-collapse-id"] = key
    if headers:
        ours["apns"]["headers"] = headers
    return {platform: fields for platform in PLATFORMS if (fields := _with(ours[platform], options, platform))}


def _ttl_seconds(envelope: Envelope, at: float) -> int | None:
    """For how long FCM is to keep the message: as the option says, or until it expires. None: as long as it does."""
    ttl = envelope.options.get("ttl_seconds")
    if ttl is None and envelope.expires_at:
        return min(max(int(envelope.expires_at - at), 0), TTL_SECONDS_MAX)
    # A bool is an int.
    if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, int) or not 0 <= ttl <= TTL_SECONDS_MAX):
        raise Unsendable(f"options.ttl_seconds: is not a whole number from 0 to {TTL_SECONDS_MAX}; write one")
    return ttl


def _with(ours: Fields, options: Mapping[str, Any], platform: str) -> Fields:
    given = options.get(platform)
    if given is None:
        return ours
    if not isinstance(given, Mapping):
        raise Unsendable(f"options.{platform}: is not an object; write FCM's fields for {platform} as one")
    return _merged(ours, given, DEPTH_MAX)


def _merged(under: Mapping[str, Any], over: Mapping[str, Any], depth: int) -> Fields:
    both = {**under, **over}
    for name, value in over.items():
        if depth and isinstance(value, Mapping) and isinstance(below := under.get(name), Mapping):
            both[name] = _merged(below, value, depth - 1)
    return both


def _weighed(message: Fields) -> int:
    """The bytes of keys and values of what reaches a device: what is common, and the largest of what is not."""
    common = sum(_weight(message.get(name, {})) for name in ("notification", "data"))
    return common + max(_weight(_payload(message.get(platform, {}))) for platform in PLATFORMS)


def _payload(fields: Mapping[str, Any]) -> Fields:
    """What of a platform's fields reaches the device: what is said to its service does not."""
    return {name: value for name, value in fields.items() if name in {"notification", "data", "payload"}}


def _weight(value: object) -> int:
    match value:
        case str():
            return len(value.encode(errors="replace"))
        case Mapping():
            return sum(_weight(name) + _weight(inner) for name, inner in value.items())
        case list() | tuple():
            return sum(map(_weight, value))
        case bool() | int() | float():
            return len(str(value))
        case _:
            return 0
