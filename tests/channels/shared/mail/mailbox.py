"""Fixtures of the tests of mail: envelopes without a claim, and messages as another program reads them."""

import email
import email.policy
from email.message import EmailMessage, MIMEPart
from typing import Any

from channels.contract import Envelope, Licence
from channels.shared.mail.composer import Composed, Composer
from channels.shared.mail.settings import MailSettings

SENDER = "Shop <shop@example.org>"
RECIPIENT = "ann@example.net"
DATED = 1_767_225_600
SETTINGS = MailSettings(sender=SENDER)


def envelope(recipient: str = RECIPIENT, options: dict[str, Any] | None = None, **fields: Any) -> Envelope:
    """An envelope that no mark has licensed; parts by their names."""
    number = fields.pop("number", 7)
    given = {"subject": "An order", "text": "Thank you.\n"} | fields
    parts = {name: text for name, text in given.items() if text is not None}
    licence = object.__new__(Licence)
    return Envelope(licence, number, "t", "w", f"key-{number}", "email", recipient, parts, options or {}, 1, DATED)


def compose(recipient: str = RECIPIENT, options: dict[str, Any] | None = None, **fields: Any) -> Composed:
    """One message of a shop."""
    return Composer(SETTINGS).compose(envelope(recipient, options, **fields))


def read(data: bytes) -> EmailMessage:
    """A message as the standard library reads it."""
    return email.message_from_bytes(data, policy=email.policy.default)


def defects(message: EmailMessage) -> list[object]:
    """Everything that the standard library finds fault with, in every part and header."""
    found: list[object] = []
    for part in message.walk():
        found += part.defects
        for header in part.values():
            found += getattr(header, "defects", [])
    return found


def bare(data: bytes) -> bool:
    """Whether there is a CR or LF that is not half of a CRLF."""
    rest = data.replace(b"\r\n", b"")
    return b"\r" in rest or b"\n" in rest


def content(part: MIMEPart) -> str | bytes:
    """The content of a part; texts with the line ends of this language."""
    held: str | bytes = part.get_content()
    return held.replace("\r\n", "\n") if isinstance(held, str) else held
