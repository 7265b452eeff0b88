"""Staging: what of a message goes out where only chosen recipients may get any.

    the recipient, or the whole channel, is on the allow-list    it goes
    the channel has a recipient for all others                   it goes there, and names the one that it was for
    neither                                                      it is skipped

What is compared is what is sent: the recipient that goes on to the channel is the compared form itself, so that no
channel can read another one in it. Whatever else could lead a message to somebody is taken away.
"""

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from dispatcher.base.values.addresses import address
from dispatcher.base.values.staging import (
    BY_RECIPIENT,
    PLAIN_MAIL,
    REDIRECTED,
    AllowList,
    read_allow_list,
    read_redirects,
)

REASON = "staging: its recipient is not on the allow-list"
# The provider whose messages go to the URL of an endpoint, which stands in this option.
ENDPOINTS, ENDPOINT = "webhooks", "webhook"
MAIL_PROVIDERS = frozenset({"smtp", "resend"})
# Options that could name further recipients. Headers of a mail do where a relay heeds X-SMTPAPI or X-MC-BccAddress.
LEFT_OUT = frozenset({"cc", "bcc", "to", "recipients", "headers"})
ORIGINAL_HEADER = "X-Original-To"
NAMED_CHARACTERS_MAX = 200
# The parts that can name the one that a message was for, the first that a message has.
TEXTS = ("subject", "body", "text")
MENTION = re.compile("@")
# Its body may be XML by which a call dials others, writes to them, or fetches more of such XML. These only speak; names
# in small letters are of how it is said.
SPEAKER = "twilio"
SPOKEN = frozenset({"Response", "Say", "Play", "Pause", "Hangup"})
TAG = re.compile(r"<\s*/?\s*([^\s<>/!?]+)")


class Message(Struct, frozen=True):
    """What goes out. `is_redirected`: to another recipient than it was written for."""

    recipient: str
    parts: Mapping[str, str]
    options: Mapping[str, Any]
    is_redirected: bool = False


class Staging(Struct, frozen=True):
    """The recipients that may get messages, and those that get the messages of all others, by channel."""

    allow: AllowList
    redirects: Mapping[str, str]

    @classmethod
    def of(cls, allow: str, redirect: str) -> "Staging":
        """Staging as it is configured."""
        return cls(read_allow_list(allow), read_redirects(redirect))

    def message(self, channel: str, provider: str, message: Message) -> Message | None:
        """Return what goes out by a channel and its provider; None: nothing."""
        if channel in self.allow.channels:
            return _without_mentions(channel, provider, message)
        if provider == ENDPOINTS:
            return message if _endpoint(message.options) in self.allow.recipients else None
        if provider not in BY_RECIPIENT or (provider == SPEAKER and _does_more_than_speak(message.parts)):
            return None
        options = _options(message.options)
        if (recipient := self._allowed(channel, message.recipient)) is not None:
            return Message(recipient, message.parts, options)
        to = self.redirects.get(channel) if provider in REDIRECTED else None
        if to is None:
            return None
        is_mail = channel == "email" or provider in MAIL_PROVIDERS
        return Message(
            to, _naming(message), _naming_header(message, options) if is_mail else options, is_redirected=True
        )

    def _allowed(self, channel: str, given: str) -> str | None:
        """Return the form of a recipient that may get messages; None where it may not."""
        one = address(channel, given)
        # A long one is compared by its hash, which cannot be sent to.
        text = given.strip() if one.kind == "other" else one.text
        if text in self.allow.recipients:
            return text
        is_plain = one.kind == "email" and PLAIN_MAIL.match(text)
        return text if is_plain and text.rpartition("@")[2] in self.allow.domains else None


def _endpoint(options: Mapping[str, Any]) -> str:
    found = options.get(ENDPOINT)
    return str(found.get("url", "")) if isinstance(found, Mapping) else ""


def _does_more_than_speak(parts: Mapping[str, str]) -> bool:
    body = parts.get("body", "")
    tags = TAG.findall(body) if body.lstrip().startswith("<") else ()
    return any(tag not in SPOKEN and not (tag.isascii() and tag.islower() and tag.isalpha()) for tag in tags)


def _without_mentions(channel: str, provider: str, message: Message) -> Message:
    """Return a post without the mentions that would tell others about it."""
    if channel != "social" and provider in (*BY_RECIPIENT, ENDPOINTS):
        return message
    parts = {name: MENTION.sub("\N{FULLWIDTH COMMERCIAL AT}", text) for name, text in message.parts.items()}
    return Message(message.recipient, parts, message.options)


def _options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    if LEFT_OUT.isdisjoint(options):
        return options
    return {name: value for name, value in options.items() if name not in LEFT_OUT}


def _naming(message: Message) -> dict[str, str]:
    """Return the parts of a message with the recipient that it was for, where there is a text to name it in."""
    parts = dict(message.parts)
    name = next((one for one in TEXTS if one in parts), None)
    # What begins with a tag is read as XML, by a machine that speaks it.
    if name is not None and not parts[name].lstrip().startswith("<"):
        parts[name] = f"[staging, for {_one_line(message.recipient)}] {parts[name]}"
    return parts


def _naming_header(message: Message, options: Mapping[str, Any]) -> Mapping[str, Any]:
    value = _one_line(message.recipient).encode("ascii", "replace").decode()
    return {**options, "headers": {ORIGINAL_HEADER: value}} if value else options


def _one_line(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:NAMED_CHARACTERS_MAX]
