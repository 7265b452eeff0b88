"""Unsubscribe links: an address and a topic in a token that only we can have signed."""

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec
from msgspec import Struct

from dispatcher.base.values.addresses import Address, Kind

PATH = "/u/"
# The longest that is made has an address of 500 characters, of 4 bytes each, a tenant of 100 and a topic of 64.
TOKEN_CHARACTERS_MAX = 4_000
# The variable of templates.
VARIABLE = "unsubscribe_url"
# Signed before the content: a secret that signs other things too signs nothing that looks like this.
_PURPOSE = b"dispatcher unsubscribe 1\0"
_MAC_CHARACTERS = 43


class Subscription(Struct, frozen=True, array_like=True):
    """The content of a link: a tenant's address, and the topic, or None for everything."""

    tenant_id: str
    kind: Kind
    address: str
    topic: str | None

    @property
    def contact(self) -> Address:
        """The address."""
        return Address(self.kind, self.address)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Subscription).decode


class Links:
    """Makes links and reads them. The first secret signs, all verify; links do not expire."""

    @classmethod
    def of(cls, public_url: str, secrets: str) -> "Links | None":
        """Return links, where they are configured."""
        return cls(public_url, secrets) if public_url and secrets else None

    def __init__(self, public_url: str, secrets: str) -> None:
        self._prefix = public_url.rstrip("/") + PATH
        self._secrets = [secret.encode() for secret in secrets.split()]
        if not self._secrets:
            raise ValueError("links need a secret")

    def url(self, one: Subscription) -> str:
        """Return the link: the same for one subscription and secret, so that a retry sends the same bytes."""
        body = urlsafe_b64encode(_encode(one)).rstrip(b"=")
        return f"{self._prefix}{(body + _mac(self._secrets[0], body)).decode()}"

    def read(self, token: str) -> Subscription | None:
        """Return the content of a token; None, with the content unread, where we did not sign it."""
        if not token.isascii() or not _MAC_CHARACTERS < len(token) <= TOKEN_CHARACTERS_MAX:
            return None
        body, mac = token[:-_MAC_CHARACTERS].encode(), token[-_MAC_CHARACTERS:].encode()
        # With all secrets, so that the time does not tell which secret it was.
        if not any([hmac.compare_digest(_mac(secret, body), mac) for secret in self._secrets]):  # noqa: C419 - as said
            return None
        try:
            return _decode(urlsafe_b64decode(body + b"=" * (-len(body) % 4)))
        except (msgspec.MsgspecError, binascii.Error):
            return None


def _mac(secret: bytes, body: bytes) -> bytes:
    return urlsafe_b64encode(hmac.digest(secret, _PURPOSE + body, "sha256")).rstrip(b"=")
