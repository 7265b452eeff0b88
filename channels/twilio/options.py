"""The options of the Twilio channel."""

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field

from channels.shared.web.settings import Url

Kind = Literal["sms", "whatsapp", "voice"]
KINDS: tuple[Kind, ...] = ("sms", "whatsapp", "voice")

# A messaging service, a number with + and its country, a short code, or a name of up to 11 characters.
_SENDER = r"(MG[0-9a-fA-F]{32}|\+[1-9][0-9]{3,14}|[0-9]{3,8}|[A-Za-z0-9 &_+-]{1,11})"
SENDER_WORDS = "a number with + and its country, a short code, a name, or the sid of a messaging service (MG…)"
SENDERS_MAX = 1_000
_is_assignment = re.compile(rf"\s*([^/\0=,]{{1,100}}/[^/\0=,]{{1,100}}?)\s*=\s*{_SENDER}\s*").fullmatch

AccountSid = Annotated[
    str,
    Meta(pattern=r"^AC[0-9a-fA-F]{32}\Z", extra={"expects": "an account SID: AC and 32 hexadecimal digits"}),
]
ApiKeySid = Annotated[
    str,
    Meta(
        pattern=r"^(\Z|SK[0-9a-fA-F]{32}\Z)",
        extra={"expects": "nothing, or the SID of an API key: SK and 32 hexadecimal digits"},
    ),
]
Secret = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,255}\Z",
        extra={"secret": True, "expects": "a secret of 1 to 255 printable characters without spaces"},
    ),
]
Sender = Annotated[str, Meta(pattern=rf"^(\Z|{_SENDER}\Z)", extra={"expects": f"nothing, or {SENDER_WORDS}"})]
Senders = Annotated[
    str,
    Meta(
        max_length=100_000,
        extra={"expects": "lines or a list with commas, each tenant/workspace = a sender as in `from`"},
    ),
]


class TwilioOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The account, who sends, and the limits of calls."""

    account_sid: AccountSid
    # Of the API key; without one the account's auth token.
    secret: Secret
    api_key: ApiKeySid = ""
    # What sends where `senders` says nothing about the workspace.
    sender: Sender = field(default="", name="from")
    senders: Senders = ""
    # What a delivery becomes. Empty: the name of its channel says it.
    sends: Literal["", "sms", "whatsapp", "voice"] = ""
    url: Url = "https://api.twilio.com"
    # Requests under way at a time, in each process.
    connections: Annotated[int, Meta(ge=1, le=256)] = 16

    def __post_init__(self) -> None:
        """Find faults where they are written, and not by the first delivery."""
        senders_of(self.senders)


def senders_of(text: str) -> Mapping[str, str]:
    """Return the senders by tenant/workspace. Raises ValueError with all faulty lines."""
    lines = [line for line in re.split(r"[,\r\n]", text) if line.strip()]
    found = [_is_assignment(line) for line in lines]
    wrong = [line.strip()[:100] for line, one in zip(lines, found, strict=True) if one is None]
    senders = {one[1]: one[2].strip() for one in found if one is not None}
    if wrong:
        raise ValueError(f"senders has {wrong!r}: write tenant/workspace = {SENDER_WORDS}")
    if len(senders) < len(lines):
        raise ValueError("senders has a workspace twice: keep one line of each")
    if len(senders) > SENDERS_MAX:
        raise ValueError(f"senders has {len(senders)} workspaces, over {SENDERS_MAX}")
    return senders
