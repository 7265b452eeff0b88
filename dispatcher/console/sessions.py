"""Sessions: a cookie that is signed with a secret derived from the key's stored hash, and tokens of its forms.

Replicas agree without a table of sessions, and a session ends when its key is revoked, expires or is replaced: each
request looks the key up again. Nobody can make a cookie who does not know the stored hash.
"""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec
from msgspec import Struct

SESSION_SECONDS = 12 * 3600
# A message that is shown once, on the next page.
FLASH_SECONDS = 60
COOKIE = "dispatcher_console"
FLASH_COOKIE = "dispatcher_flash"
COOKIE_BYTES_MAX = 4_096
_MAC_BYTES = 32
_NONCE_BYTES = 16


class Session(Struct, frozen=True, array_like=True):
    """A session: the prefix of its key, its end in seconds since 1970, and a number of its own."""

    prefix: str
    ends_at: int
    nonce: str


class Flash(Struct, frozen=True, array_like=True):
    """What was done: a sentence, and the state that colours it."""

    text: str
    state: str
    ends_at: int


_session = msgspec.json.Decoder(Session).decode
_flash = msgspec.json.Decoder(Flash).decode


def new(prefix: str, now: float) -> Session:
    """Return a new session of a key."""
    return Session(prefix, int(now) + SESSION_SECONDS, secrets.token_hex(_NONCE_BYTES))


def _mac(secret: bytes, purpose: bytes, content: bytes) -> bytes:
    derived = hmac.digest(secret, b"dispatcher console " + purpose, sha256)
    return hmac.digest(derived, content, sha256)


def _text(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))


def seal(session: Session, secret: bytes) -> str:
    """Return the cookie of a session."""
    content = msgspec.json.encode(session)
    return _text(content + _mac(secret, b"session", content))


def claimed(cookie: str, now: float) -> Session | None:
    """Return the session that a cookie claims to be, unless it is over. `verify` says whether it is that session."""
    try:
        found = _session(_bytes(cookie[:COOKIE_BYTES_MAX])[:-_MAC_BYTES])
    except (ValueError, msgspec.MsgspecError):
        return None
    return found if found.ends_at > now else None


def verify(cookie: str, secret: bytes) -> bool:
    """Whether a cookie was sealed with this secret."""
    whole = _bytes(cookie)
    return hmac.compare_digest(whole[-_MAC_BYTES:], _mac(secret, b"session", whole[:-_MAC_BYTES]))


def form_token(session: Session, secret: bytes) -> str:
    """Return a token for the forms of a page. Each page has another, so that compression reveals nothing of it."""
    salt = secrets.token_bytes(_NONCE_BYTES)
    return _text(salt + _mac(secret, b"form", salt + session.nonce.encode()))


def verify_form(token: str, session: Session, secret: bytes) -> bool:
    """Whether a token was made for a form of this session."""
    try:
        whole = _bytes(token[:COOKIE_BYTES_MAX])
    except ValueError:
        return False
    salt = whole[:_NONCE_BYTES]
    return hmac.compare_digest(whole[_NONCE_BYTES:], _mac(secret, b"form", salt + session.nonce.encode()))


def seal_flash(text: str, state: str, secret: bytes, now: float) -> str:
    """Return the cookie of a message for the next page."""
    content = msgspec.json.encode(Flash(text[:500], state, int(now) + FLASH_SECONDS))
    return _text(content + _mac(secret, b"flash", content))


def read_flash(cookie: str, secret: bytes, now: float) -> Flash | None:
    """Return the message in a cookie, if we made it and it is fresh."""
    try:
        whole = _bytes(cookie[:COOKIE_BYTES_MAX])
        content, mac = whole[:-_MAC_BYTES], whole[-_MAC_BYTES:]
        if not hmac.compare_digest(mac, _mac(secret, b"flash", content)):
            return None
        found = _flash(content)
    except (ValueError, msgspec.MsgspecError):
        return None
    return found if found.ends_at > now else None
