"""Staging as it is configured: who may get messages, and where those to anybody else go.

Words with spaces between them. Of those who may get messages:
    ann@example.org       a mail address
    @example.org          every address of a domain
    +4915550000001        a number
    channel:social        whatever goes by a channel
    anything else         a recipient as it is: a device, the name of a function or webhook, the URL of an endpoint
"""

import re

from msgspec import Struct

from dispatcher.base.errors import quoted
from dispatcher.base.values.addresses import parse_address

# Providers that send to the recipient and nowhere else. Any other one may do otherwise, such as one that posts to
# whoever follows its account: what goes by it is allowed with its channel, or not at all.
BY_RECIPIENT = frozenset({"blackhole", "capture", "fcm", "functions", "ledger", "resend", "slack", "smtp", "twilio"})
# The call of another function would be answered by that one.
REDIRECTED = BY_RECIPIENT - {"functions"}
CHANNEL = "channel:"
PHONES = frozenset({"sms", "whatsapp", "voice"})
# An address that nobody reads in two ways: without quotes, comments, and the % and ! by which relays were once told to
# send a mail on.
PLAIN_MAIL = re.compile(r"[A-Za-z0-9#$&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9#$&'*+/=?^_`{|}~-]+)*@[a-z0-9.-]+\Z")


class AllowList(Struct, frozen=True):
    """The recipients of a staging installation, in the form in which addresses are compared."""

    recipients: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()


def read_allow_list(text: str) -> AllowList:
    """Return the recipients that a text names. Raises ValueError for the first word that cannot be one."""
    recipients: set[str] = set()
    domains: set[str] = set()
    channels: set[str] = set()
    for word in text.split():
        if word.startswith(CHANNEL):
            channels.add(word.removeprefix(CHANNEL))
        elif word.startswith("@") and word.count("@") == 1:
            domains.add(_mail(f"name{word}", word).partition("@")[2])
        else:
            recipients.add(_recipient(word))
    return AllowList(frozenset(recipients), frozenset(domains), frozenset(channels))


def read_redirects(text: str) -> dict[str, str]:
    """Return the new recipients by channel. Raises ValueError for the first word that is not channel=recipient."""
    found: dict[str, str] = {}
    for word in text.split():
        channel, equals, recipient = word.partition("=")
        if not equals or not channel or not recipient:
            raise ValueError(f"{quoted(word)} is not a channel and its recipient: write email=qa@example.org")
        if channel in found:
            raise ValueError(f"{quoted(channel)} has two recipients: leave one out")
        if channel == "email":
            recipient = _mail(recipient, recipient)
        elif channel in PHONES:
            recipient = _number(recipient)
        else:
            recipient = _recipient(recipient)
        found[channel] = recipient
    return found


def _recipient(word: str) -> str:
    if word.startswith("+"):
        return _number(word)
    if "@" in word and not word.startswith(("@", "https://", "http://")):
        return _mail(word, word)
    return word


def _number(word: str) -> str:
    if not word.startswith("+"):
        raise ValueError(f"{quoted(word)} is not a number with its country: write + and its digits")
    try:
        return parse_address(word, "phone").text
    except ValueError:
        raise ValueError(f"{quoted(word)} is not a number: write + and its digits") from None


def _mail(text: str, word: str) -> str:
    try:
        found = parse_address(text, "email").text
    except ValueError:
        found = ""
    if not PLAIN_MAIL.match(found):
        raise ValueError(f"{quoted(word)} is not a mail address or a domain: write ann@example.org or @example.org")
    return found
