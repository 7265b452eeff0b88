"""Access tokens: of Google's token endpoint, for what the service account's key has signed.

A token is good for an hour. It is replaced while it still has some minutes to go, beside the calls, so that none waits
for it and an endpoint that is away for a minute stops nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated
from urllib.parse import urlencode

import msgspec
import structlog
from google.auth import crypt, jwt
from msgspec import Meta, Struct

from channels.contract import Unready
from channels.fcm.options import ServiceAccount
from channels.shared.web.answers import succeeded
from channels.shared.web.client import Answer, Call

log = structlog.get_logger(__name__)

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# What Google allows a signed request to be valid for.
ASSERTION_SECONDS = 3_600
# With less to go a token is replaced beside the calls; with less than the second, calls wait for the new one.
AHEAD_SECONDS = 300.0
LEFT_SECONDS_MIN = 60.0
# After a replacement that failed beside the calls.
RETRY_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0
# No token is trusted for longer, whatever its answer says.
LIFE_SECONDS_MAX = 86_400.0

KEY_REFUSED = (
    "options.service_account: Google does not take the key ({words}): it was deleted, has expired, or its account is"
    " disabled; make a new key. If it is good, see whether this machine's clock is right"
)


class _Granted(Struct, frozen=True):
    access_token: Annotated[str, Meta(pattern=r"^[!-~]{1,8192}\Z")]
    expires_in: Annotated[float, Meta(gt=0)] = 3_600.0


class _Error(Struct, frozen=True):
    error: Annotated[str, Meta(pattern=r"^[a-z_]{1,64}\Z")]


_decode = msgspec.json.Decoder(_Granted).decode
_decode_error = msgspec.json.Decoder(_Error).decode


class Tokens:
    """The token that calls carry now. `ask` makes a call of no message; `shut` says that the settings are refused."""

    def __init__(
        self,
        account: ServiceAccount,
        ask: Callable[[Call], Awaitable[Answer]],
        shut: Callable[[str], Unready],
        clock: Callable[[], float],
    ) -> None:
        self._account = account
        key = {"private_key": account.private_key, "private_key_id": account.private_key_id or None}
        self._signer = crypt.RSASigner.from_service_account_info(key)  # type: ignore[no-untyped-call]  # the library's
        self._ask = ask
        self._shut = shut
        self._clock = clock
        self._ends_at = float("-inf")
        self._again_at = float("-inf")
        self._replacing: asyncio.Task[None] | None = None
        self.bearer = ""

    async def renew(self) -> None:
        """Return when there is a token for the next calls. Unready where none can be had."""
        left = self._ends_at - self._clock()
        if left < LEFT_SECONDS_MIN:
            await self._replace()
        elif left < AHEAD_SECONDS and self._replacing is None and self._clock() >= self._again_at:
            self._again_at = self._clock() + RETRY_SECONDS
            self._replacing = asyncio.create_task(self._replace_beside())

    def drop(self) -> None:
        """Use the present token no more: it was refused."""
        self._ends_at = float("-inf")

    async def close(self) -> None:
        if self._replacing is not None:
            self._replacing.cancel()
            await asyncio.wait([self._replacing])

    async def _replace_beside(self) -> None:
        try:
            await self._replace()
        except Unready as why:
            log.warning("fcm.token_not_replaced", reason=str(why))
        finally:
            self._replacing = None

    async def _replace(self) -> None:
        began = self._clock()
        answer = await self._ask(self._call())
        try:
            granted = _decode(answer.body or b"") if succeeded(answer) else None
        except (msgspec.MsgspecError, UnicodeDecodeError):
            granted = None
        if granted is None:
            raise self._refused(answer)
        self.bearer = f"Bearer {granted.access_token}"
        self._ends_at = began + min(granted.expires_in, LIFE_SECONDS_MAX)

    def _call(self) -> Call:
        at = int(time.time())
        claims = {
            "iss": self._account.client_email,
            "aud": self._account.token_uri,
            "scope": SCOPE,
            "iat": at,
            "exp": at + ASSERTION_SECONDS,
        }
        signed: bytes = jwt.encode(self._signer, claims)  # type: ignore[no-untyped-call]  # the library's
        body = urlencode({"grant_type": GRANT, "assertion": signed.decode()}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return Call([], self._account.token_uri, headers, body, TIMEOUT_SECONDS)

    def _refused(self, answer: Answer) -> Unready:
        """An answer without a token: the key's fault where the endpoint says so in its own form, else it may pass."""
        try:
            error = _decode_error(answer.body or b"").error
        except (msgspec.MsgspecError, UnicodeDecodeError):
            error = ""
        if error in {"invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope"}:
            return self._shut(KEY_REFUSED.format(words=error))
        return Unready(f"Google's token endpoint answers {answer.status} {error}".rstrip())
