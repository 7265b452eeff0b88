"""The options of the Mastodon channel: the instance, the account's token, and how posts are shown."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from channels.shared.web.settings import Url

Visibility = Literal["public", "unlisted", "private", "direct"]
VISIBILITIES = ("public", "unlisted", "private", "direct")
# Where nobody changed the instance.
CHARACTERS_MAX = 500
LANGUAGE = r"[a-z]{2,3}(-[A-Za-z]{2,4})?"

AccessToken = Annotated[
    str,
    Meta(
        pattern=r"^[!-~]{1,255}\Z",
        extra={"secret": True, "expects": "a token of 1 to 255 printable characters without spaces"},
    ),
]
Language = Annotated[
    str,
    Meta(pattern=rf"^(\Z|{LANGUAGE}\Z)", extra={"expects": "nothing, or the code of a language, such as en or pt-BR"}),
]


class MastodonOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The account, what a delivery does not say itself, and the limits of calls."""

    url: Url
    access_token: AccessToken
    # Where a delivery names none. Without a language the instance takes that of the account.
    visibility: Visibility = "public"
    language: Language = ""
    # The instance's own limit: `configuration.statuses.max_characters` of its /api/v2/instance.
    characters_max: Annotated[int, Meta(ge=1, le=100_000)] = CHARACTERS_MAX
    # Calls under way at a time.
    connections: Annotated[int, Meta(ge=1, le=64)] = 4
    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 20.0

    @property
    def base_url(self) -> str:
        """Where the instance is, without a slash at its end."""
        return self.url.rstrip("/")
