"""The wire: the SDK builds requests and reads answers, our own client sends them. Nothing is ever repeated here."""

import asyncio
import logging
import re
from base64 import b64encode
from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import aiohttp
import msgspec
from msgspec import Struct
from twilio.base.exceptions import TwilioRestException, TwilioServiceException
from twilio.http import AsyncHttpClient
from twilio.http.response import Response
from twilio.rest import Client as Sdk
from yarl import URL

from channels.contract import Unready
from channels.shared.web.answers import SERVER, succeeded
from channels.shared.web.client import Answer, Bounds, Call, Client, LicenceOver, Lost
from channels.shared.web.guard import OpenGuard
from channels.twilio.error_codes import FIRST
from channels.twilio.message import Message
from channels.twilio.options import TwilioOptions

# The longest real answer is a message of 1,600 characters with its fields.
ANSWER_BYTES_MAX = 64 * 1024
# Shorter than any server of theirs keeps an idle connection.
KEEP_SECONDS = 10.0
PROBE_SECONDS = 10.0
UNAUTHORIZED, MISSING = 401, 404
# Given to the SDK in place of the process's environment, from which it would take a region.
_NO_ENVIRONMENT = {"TWILIO_EDGE": "", "TWILIO_REGION": ""}

_NOTHING = "{}"
# The SDK puts it before the API's words.
_UNABLE = "Unable to create record: "
_is_sid = re.compile(r"(SM|MM|CA)[0-9a-fA-F]{32}").fullmatch

# The query of a URL is a form; this encodes one in a tenth of the time that urlencode takes.
_NOWHERE = URL("/")

_quiet = logging.getLogger(__name__)


class Made(Struct, frozen=True):
    """The resource that a request has made, as far as it could be read."""

    sid: str
    error_code: int | None = None


class Refusal(Struct, frozen=True):
    """An answer that is not a success. `code` is 0 where it is not in the API's form."""

    answer: Answer
    code: int = 0
    words: object = None


class _Body(Struct, frozen=True):
    """The fields of an answer that count."""

    sid: str = ""
    error_code: int | None = None
    code: int = 0
    message: Any = None


_decode_body = msgspec.json.Decoder(_Body).decode


class _Attempt(Struct):
    """A call under way, and what became of it."""

    call: Call
    answer: Answer | Lost | None = None


class _Unanswered(Exception):  # noqa: N818 - what the request is
    """There is no answer for the SDK to read."""


_attempt: ContextVar[_Attempt] = ContextVar("attempt")


class _Sdk(Sdk):  # type: ignore[misc]  # the library has no types
    """The SDK's client with the same headers for every request: by itself it asks for the platform each time."""

    _headers: Mapping[str, str] = MappingProxyType({})

    def get_headers(self, method: str, headers: Mapping[str, str] | None) -> Mapping[str, str]:
        """Return the headers of a request."""
        if not self._headers:
            self._headers = super().get_headers(method, dict(headers or {}))
        return self._headers


class _Http(AsyncHttpClient):  # type: ignore[misc]  # the library has no types
    """The client that the SDK is given: it sends the call of the task that asks."""

    def __init__(self, client: Client, authorization: str) -> None:
        super().__init__(_quiet, is_async=True)
        self._client = client
        self._authorization = authorization

    async def request(
        self,
        method: str,  # noqa: ARG002 - the SDK's signature; all that is called here are POSTs
        uri: str,
        data: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        **_options: object,
    ) -> Response:
        """Send a request of the SDK's, under our own credentials and bounds."""
        attempt = _attempt.get()
        call = attempt.call
        call.url = uri
        call.headers = {**(headers or {}), "Authorization": self._authorization}
        call.body = _NOWHERE.with_query(data).raw_query_string.encode()
        attempt.answer = answer = await self._client.post(call)
        if isinstance(answer, Lost) or answer.body is None:
            raise _Unanswered
        # Of a success only the SID counts, which is read below: the SDK would read its dates and prices too, for 11 us.
        text = _NOTHING if succeeded(answer) else answer.body.decode("utf-8", "replace")
        return Response(answer.status, text, answer.headers)


class Api:
    """Connections to the API, and its resources."""

    def __init__(self, options: TwilioOptions) -> None:
        user = options.api_key or options.account_sid
        self._authorization = "Basic " + b64encode(f"{user}:{options.secret}".encode()).decode()
        # One host, which the configuration names: it may be on this machine.
        self._client = Client(OpenGuard(), Bounds(options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS))
        http = _Http(self._client, self._authorization)
        sdk = _Sdk(user, options.secret, options.account_sid, http_client=http, environment=_NO_ENVIRONMENT)
        self._base = sdk.api.base_url = options.url.rstrip("/")
        self._messages, self._calls = sdk.messages, sdk.calls
        listed = "Calls" if options.sends == "voice" else "Messages"
        self._probe = f"{self._base}/2010-04-01/Accounts/{options.account_sid}/{listed}.json?PageSize=1"
        self._setting = "options.api_key and options.secret" if options.api_key else "options.secret"
        self._opening = asyncio.Lock()
        self._answered_at = float("-inf")
        self._known = False

    async def open(self) -> None:
        """Return when a call can begin: the API answers, and knows the credentials. Raises Unready."""
        loop = asyncio.get_running_loop()
        async with self._opening:
            if self._known and loop.time() - self._answered_at < KEEP_SECONDS:
                return
            try:
                if self._known:
                    await self._client.reach(self._base)
                else:
                    headers = {"Authorization": self._authorization}
                    self._judge(
                        await self._client.post(Call([], self._probe, headers, b"", PROBE_SECONDS, method="GET"))
                    )
            except (aiohttp.ClientError, OSError) as trouble:
                if isinstance(trouble, Unready):
                    raise
                raise Unready(f"the API cannot be reached ({type(trouble).__name__})") from None
            self._answered_at = loop.time()

    def _judge(self, answer: Answer | Lost) -> None:
        """Judge the answer to a list of one. A key that may only send is refused the list, and known all the same."""
        if isinstance(answer, Lost):
            raise Unready(f"the API cannot be reached ({answer.why})")
        if answer.status == UNAUTHORIZED:
            raise Unready(f"{self._setting}: Twilio refuses them; correct them, and options.account_sid with them")
        if answer.status == MISSING:
            raise Unready("options.account_sid: is not known to Twilio; correct it, or options.url")
        if answer.status >= SERVER:
            raise Unready(f"the API answers {answer.status}")
        self._known = True

    def doubt(self) -> None:
        """Ask anew whether the credentials are known, before anything else is sent."""
        self._known = False

    async def create(self, call: Call, message: Message) -> Made | Refusal | Lost:
        """Make a message or a call. LicenceOver where it was too late, directly before the first byte."""
        attempt = _Attempt(call)
        _attempt.set(attempt)
        resource = self._calls if message.kind == "voice" else self._messages
        refused = None
        try:
            await resource.create_async(**message.parameters)
        except LicenceOver:
            raise
        except Exception as trouble:  # what the SDK stumbles over is this answer, which is judged below
            refused = trouble
        answer = attempt.answer
        if not isinstance(answer, Answer):
            return answer or Lost(written=call.written, why="the SDK made no request")
        self._answered_at = asyncio.get_running_loop().time()
        if isinstance(refused, (TwilioRestException, TwilioServiceException)):
            return _refusal(answer, refused)
        return _made(answer) if succeeded(answer) else Refusal(answer)

    async def close(self) -> None:
        await self._client.close()


def _made(answer: Answer) -> Made | Refusal:
    """What a success says, or the error inside of it. A date or a price that cannot be read changes nothing."""
    try:
        said = _decode_body(answer.body or b"")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return Refusal(answer)
    if _is_sid(said.sid):
        return Made(said.sid, said.error_code)
    return Refusal(answer, said.code if said.code >= FIRST else 0, said.message)


def _refusal(answer: Answer, refused: TwilioRestException | TwilioServiceException) -> Refusal:
    code = refused.code if isinstance(refused.code, int) and refused.code >= FIRST else 0
    words = refused.msg if isinstance(refused, TwilioRestException) else refused.detail or refused.title
    return Refusal(answer, code, words.removeprefix(_UNABLE) if isinstance(words, str) else None)
