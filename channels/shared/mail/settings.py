"""The settings of every channel that sends mail: the sender, and the limits of a message."""

from typing import Annotated

from msgspec import Meta, Struct

from channels.shared.mail import addresses

MEBIBYTE = 1024 * 1024
AddressText = Annotated[str, Meta(max_length=1_000, extra={"expects": "an address, like Shop <shop@example.org>"})]
DomainText = Annotated[str, Meta(max_length=253, extra={"expects": "a domain, like example.org"})]


class MailSettings(Struct, frozen=True, forbid_unknown_fields=True, rename={"sender": "from"}):
    """Defaults of every message; the options of a delivery come first. A channel's own options may inherit these."""

    # The sender, with or without a name: `Shop <shop@example.org>`. Without it each delivery has to name one.
    sender: AddressText = ""
    reply_to: AddressText = ""
    # Where bounces go (the sender of the SMTP transaction); the address of `from` where it is empty.
    return_path: AddressText = ""
    # What stands behind the @ of a Message-ID; the domain of `from` where it is empty.
    message_id_domain: DomainText = ""
    # The finished message, encoded. Most servers take 20 to 50 MB, and none says so before it is asked.
    message_bytes_max: Annotated[int, Meta(ge=10_000, le=100 * MEBIBYTE)] = 20 * MEBIBYTE
    attachments_max: Annotated[int, Meta(ge=0, le=100)] = 20
    # A text is made from the html where a template has none, for clients that show text only.
    text_from_html: bool = True

    def __post_init__(self) -> None:
        """Find faults where they are written, and not by the first delivery."""
        for field, text in (("from", self.sender), ("reply_to", self.reply_to), ("return_path", self.return_path)):
            if text:
                addresses.parse(text, field)
        if self.message_id_domain:
            addresses.domain(self.message_id_domain, "message_id_domain")
