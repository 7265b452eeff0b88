"""The options of the Resend channel."""

from typing import Annotated

from msgspec import Meta, Struct, field

from channels.shared.mail.settings import AddressText, MailSettings
from channels.shared.web.settings import HOST, PATH, Url

ApiKey = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,255}\Z",
        extra={"secret": True, "expects": "a key of 1 to 255 printable characters without spaces"},
    ),
]
InsecureUrl = Annotated[
    str,
    Meta(
        pattern=rf"^(\Z|https?://{HOST}{PATH})",
        extra={"expects": "nothing, or a URL that begins with http:// or https://"},
    ),
]


class ResendOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The account, the sender, and the limits of calls."""

    api_key: ApiKey
    # The sender and the reply-to address, where a delivery names none.
    sender: AddressText = field(default="", name="from")
    reply_to: AddressText = ""
    url: Url = "https://api.resend.com"
    # In place of `url`: the key and every message can be read on the way.
    insecure_url: InsecureUrl = ""
    # Many messages a call. What the API keeps its key for is then the whole call, so that one message of it cannot be
    # asked for again: whatever is unknown is held.
    batch: bool = False
    batch_max: Annotated[int, Meta(ge=2, le=100)] = 100
    # Calls under way at a time. The API's own limits are obeyed in any case.
    connections: Annotated[int, Meta(ge=1, le=64)] = 8

    def __post_init__(self) -> None:
        """Find faults where they are written, and not by the first delivery."""
        MailSettings(sender=self.sender, reply_to=self.reply_to)

    @property
    def base_url(self) -> str:
        """Where the API is, without a slash at its end."""
        return (self.insecure_url or self.url).rstrip("/")
