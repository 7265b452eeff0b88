"""The options of the FCM channel: the service account, and the limits of calls."""

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from channels.shared.web.settings import Url

# As its JSON file is written; the longest real ones have 2,500 characters.
ServiceAccountText = Annotated[
    str,
    Meta(
        min_length=2,
        max_length=16_384,
        extra={"secret": True, "expects": "the JSON of a service account's key, best from its file (..._FILE)"},
    ),
]
_HOW = "make a new key of it in the Google Cloud console and give the file as it is"


class ServiceAccount(Struct, frozen=True):
    """What a service account's key file says, as far as it is needed."""

    project_id: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.:-]{1,100}\Z")]
    client_email: Annotated[str, Meta(pattern=r"^[!-~]{3,255}\Z")]
    private_key: Annotated[str, Meta(max_length=16_384)]
    private_key_id: Annotated[str, Meta(max_length=255)] = ""
    token_uri: Url = "https://oauth2.googleapis.com/token"  # noqa: S105 - where tokens are had


# What msgspec's faults name.
_FIELD = re.compile(r"`(?:\$\.)?([a-z_]+)`")
_decode = msgspec.json.Decoder(ServiceAccount).decode


class FcmOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The account, and the limits of calls."""

    service_account: ServiceAccountText
    url: Url = "https://fcm.googleapis.com"
    # Calls under way at a time, each on a connection that is kept.
    connections: Annotated[int, Meta(ge=1, le=200)] = 20
    # For one call as a whole; with the licence it has to fit into call_seconds_max.
    timeout_seconds: Annotated[float, Meta(gt=0, le=600)] = 15.0

    def __post_init__(self) -> None:
        """Find faults where they are written, and not by the first delivery."""
        # Imported where there is a key to look at: it takes longer than all other options together.
        from google.auth import crypt  # noqa: PLC0415 - as above

        account = self.account()
        try:
            crypt.RSASigner.from_string(account.private_key)  # type: ignore[no-untyped-call]  # the library's
        except ValueError:
            raise ValueError(f"service_account has a private_key that is not an RSA key: {_HOW}") from None

    def account(self) -> ServiceAccount:
        """The service account. ValueError, without anything of it, where the text is not one."""
        try:
            return _decode(self.service_account)
        except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError) as fault:
            named = [one for one in _FIELD.findall(str(fault)) if one in ServiceAccount.__struct_fields__]
            about = f" (look at {named[-1]})" if named else ""
            raise ValueError(f"service_account is not the JSON of a service account's key{about}: {_HOW}") from None

    @property
    def base_url(self) -> str:
        """Where the API is, without a slash at its end."""
        return self.url.rstrip("/")
