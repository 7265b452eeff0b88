"""The client: one request over a persistent connection to a guarded address, and how far it came without an answer.

It never follows a redirect, never repeats a request, takes no proxy from the environment, and reads no more of an
answer than it was told to. It uses the parts of aiohttp of which a session is made: a session looks for redirects,
cookies and proxies in each call, which takes a fifth of it.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Mapping, Sequence
from io import BytesIO
from urllib.parse import quote

import aiohttp
from aiohttp.abc import AbstractResolver
from msgspec import Struct
from multidict import CIMultiDict
from yarl import URL

from channels.contract import Envelope
from channels.shared.web.deadlines import Deadline, Deadlines
from channels.shared.web.guard import Forbidden, Guard

CONNECT_SECONDS_MAX = 10.0
# A longer body is written piece by piece, so that it does not hold the event loop.
PIECE_BYTES_MAX = 1024 * 1024
# Each call as a whole has a bound of its own.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX)
_SCHEMES = frozenset({"http", "https"})
_HEADERS = CIMultiDict(
    {
        "User-Agent": "dispatcher",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
)


class Bounds(Struct, frozen=True):
    """The limits of a client."""

    # Calls under way at a time; others wait.
    connections: int
    # The longest answer that is read.
    answer_bytes_max: int
    # For how long an idle connection stays open: shorter than at its server. One that it closes as a request leaves
    # makes that unknown.
    keep_seconds: float


class Call(Struct, eq=False):
    """One request, for one message or several. `seconds` is for all of it, up to the last byte of the answer."""

    envelopes: Sequence[Envelope]
    url: str
    headers: Mapping[str, str]
    body: bytes
    seconds: float | None = None
    written: bool = False
    method: str = "POST"


def delivery_key(envelope: Envelope) -> str:
    """One text for one delivery, the same on every attempt. Ours is unique in its tenant and workspace only, may be of
    any length, and may have signs that no header takes."""
    parts = (envelope.tenant_id, envelope.workspace_id, envelope.idempotency_key)
    text = "|".join(quote(part, safe="", errors="surrogatepass") for part in parts)
    return "d-" + hashlib.sha256(text.encode()).hexdigest()


class Answer(Struct, frozen=True):
    """An answer; headers are found by their names in lower case. Without a body: it was too long, or was cut off."""

    status: int
    headers: Mapping[str, str]
    body: bytes | None
    cut_off: bool = False


class Lost(Struct, frozen=True):
    """No answer. `written` says whether any of the request may have left; `forbidden`, that it was not allowed to."""

    written: bool
    why: str
    forbidden: bool = False


class LicenceOver(Exception):  # noqa: N818 - it is no error: it is too late
    """It is too late to begin."""


class Client:
    """Connections to the addresses that its guard allows."""

    def __init__(self, guard: Guard, bounds: Bounds, resolver: AbstractResolver | None = None) -> None:
        self._guard = guard
        self._bounds = bounds
        self._resolver = resolver
        self._slots = asyncio.Semaphore(bounds.connections)
        self._deadlines = Deadlines()
        self._connector: aiohttp.TCPConnector | None = None
        self._closed = False

    async def reach(self, url: str) -> None:
        """Return when a server answers, with any status: the connection stays open for the calls that follow."""
        async with asyncio.timeout(CONNECT_SECONDS_MAX), await self._answer(Call([], url, {}, b"", method="HEAD")):
            pass

    async def post(self, call: Call) -> Answer | Lost:
        """Make a call. LicenceOver where it was too late, directly before the first byte."""
        call.written = False
        response: aiohttp.ClientResponse | None = None
        await self._slots.acquire()
        try:
            with Deadline(self._deadlines, call.seconds):
                response = await self._answer(call)
                body = await _read(response, self._bounds.answer_bytes_max)
                return Answer(response.status, response.headers, body)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as trouble:
            if response is None:
                return _lost(call, trouble)
            return Answer(response.status, response.headers, None, cut_off=True)
        finally:
            self._slots.release()
            # One that was read to its end has let go of its connection already.
            if response is not None and not response.closed:
                response.close()

    async def close(self) -> None:
        """Close for good: calls that were about to begin find no connection."""
        self._closed = True
        if self._connector is not None:
            await self._connector.close()

    async def _answer(self, call: Call) -> aiohttp.ClientResponse:
        """The head of the answer to a call."""
        connector = self._open()
        request = _request(call)
        try:
            connection = await connector.connect(request, [], _TIMEOUT)
        except TimeoutError as late:
            raise aiohttp.ConnectionTimeoutError(f"no connection to {request.url.host}") from late
        try:
            _begin(call, connection)
            response = await request.send(connection)
            try:
                return await response.start(connection)
            except BaseException:
                response.close()
                raise
        except BaseException:
            connection.close()
            raise

    def _open(self) -> aiohttp.TCPConnector:
        if self._closed:
            raise aiohttp.ClientConnectionError("closed")
        if self._connector is None:
            self._connector = aiohttp.TCPConnector(
                limit=self._bounds.connections,
                keepalive_timeout=self._bounds.keep_seconds,
                enable_cleanup_closed=False,
                resolver=self._resolver,
                socket_factory=self._guard.socket,
            )
        return self._connector


def _request(call: Call) -> aiohttp.ClientRequest:
    url = URL(call.url)
    if url.scheme not in _SCHEMES:
        raise aiohttp.NonHttpUrlClientError(url)
    headers = CIMultiDict(_HEADERS)
    headers.update(call.headers)
    return aiohttp.ClientRequest(
        call.method, url, headers=headers, data=_data(call.body), loop=asyncio.get_running_loop()
    )


def _begin(call: Call, connection: aiohttp.connector.Connection) -> None:
    """Begin a call where its messages still may go: the connection is at hand, and nothing is written yet."""
    if connection.protocol is None:
        raise aiohttp.ClientConnectionError("closed")
    connection.protocol.set_response_params(
        skip_payload=call.method == "HEAD", read_until_eof=True, auto_decompress=False
    )
    for envelope in call.envelopes:
        if envelope.licence.expired():
            raise LicenceOver
    call.written = True


def _data(body: bytes) -> bytes | BytesIO | None:
    if not body:
        return None
    return body if len(body) <= PIECE_BYTES_MAX else BytesIO(body)


def _lost(call: Call, trouble: Exception) -> Lost:
    cause = trouble.os_error if isinstance(trouble, aiohttp.ClientConnectorError) else trouble
    return Lost(call.written, _why(call, trouble), forbidden=isinstance(cause, Forbidden))


def _why(call: Call, trouble: Exception) -> str:
    """Why there is no answer; after a time-out, how long it was waited, and for what."""
    match trouble:
        case aiohttp.ConnectionTimeoutError():
            return f"waited {CONNECT_SECONDS_MAX:g} s for a connection"
        case TimeoutError() if call.seconds is not None:
            return f"waited {call.seconds:g} s for {'the answer' if call.written else 'a connection'}"
        case _:
            return type(trouble).__name__


def _read(response: aiohttp.ClientResponse, bytes_max: int) -> Awaitable[bytes | None]:
    """The body, or None where it is too long: then nothing more of it is read."""
    if (length := response.content_length) is not None and length <= bytes_max:
        return response.read()
    return _read_pieces(response, bytes_max)


async def _read_pieces(response: aiohttp.ClientResponse, bytes_max: int) -> bytes | None:
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > bytes_max:
            response.close()
            return None
    return b"".join(pieces)
