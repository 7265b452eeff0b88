"""The options of the signed webhook channel: the URL, the secrets, what is sent, and what counts as success."""

from typing import Annotated
from urllib.parse import urlsplit

from msgspec import Meta, Struct

from channels.shared.web.settings import AllowAddresses, TargetUrl, require_ranges
from channels.signed_webhook.form import Form

# As Standard Webhooks write them: 24 to 64 bytes in base64.
_WHSEC = r"whsec_(?=[A-Za-z0-9+/]{32,86}={0,2}(\s|\Z))([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"
SigningSecrets = Annotated[
    str,
    Meta(
        pattern=rf"^\s*{_WHSEC}(\s+{_WHSEC}){{0,15}}\s*\Z",
        max_length=4_096,
        extra={
            "secret": True,
            "expects": "1 to 16 secrets, each whsec_ and 24 to 64 bytes in base64, spaces or line ends between them",
        },
    ),
]
HeaderText = Annotated[
    str,
    Meta(
        pattern=r"^([!-~]([ -~]{0,4094}[!-~])?)?\Z",
        extra={"secret": True, "expects": "a header's value of at most 4096 printable characters"},
    ),
]
HeaderName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9-]{0,64}\Z", extra={"expects": "nothing, or the name of a header such as X-Request-Id"}),
]
Pointer = Annotated[
    str,
    Meta(
        pattern=r"^(\Z|(/([^~/]|~[01])*)+\Z)",
        max_length=255,
        extra={"expects": "nothing, or a JSON pointer such as /result/id"},
    ),
]
Words = Annotated[
    str, Meta(min_length=1, max_length=1_000, extra={"expects": "words with spaces between them, such as ok accepted"})
]
BodyText = Annotated[
    str,
    Meta(min_length=2, max_length=16_384, extra={"expects": "JSON with placeholders such as {recipient} in its texts"}),
]


class SignedWebhookOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """One URL, what it is sent, and how its answers are read."""

    url: TargetUrl
    # The newest first; all of them sign, so that a receiver may change from one to the next.
    secrets: SigningSecrets
    # Sent as the header Authorization; without it there is none.
    authorization: HeaderText = ""
    body: BodyText = '{"id": "{id}", "channel": "{channel}", "recipient": "{recipient}", "parts": "{parts}"}'
    # Where a 2xx answer says whether it was a success, and the values that mean one. Without it each 2xx is one.
    success_pointer: Pointer = ""
    success_values: Words = "true"
    # Where the receiver's own id of the message is: a header, or a place in the answer.
    id_header: HeaderName = ""
    id_pointer: Pointer = ""
    # For how long the receiver de-duplicates by the header webhook-id; 0: not at all.
    key_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 0.0
    # Calls under way at a time.
    connections: Annotated[int, Meta(ge=1, le=200)] = 8
    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0
    # Ranges that the URL may lead to although they are not public.
    allow_addresses: AllowAddresses = ""

    def __post_init__(self) -> None:
        """Find faults where they are written, and not by the first delivery."""
        require_ranges(self.allow_addresses)
        try:
            sound = urlsplit(self.url).port != 0
        except ValueError:
            sound = False
        if not sound:
            raise ValueError("url has a host or a port that does not exist; correct it")
        if self.url.startswith("http://") and not self.allow_addresses.split():
            raise ValueError(
                "url begins with http://, so that the network can read messages; use https://, or name its address in"
                " allow_addresses"
            )
        Form(self.body)
