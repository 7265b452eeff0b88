"""The wire: one POST over a kept connection, and how far it came when there was no answer."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import aiohttp
from msgspec import Struct

from channels.contract import Envelope, Unready
from channels.resend.answers import Answer, Lost
from channels.resend.options import ResendOptions

# The longest real answer is a hundred ids and faults; what is longer is a page of something else.
ANSWER_BYTES_MAX = 256 * 1024
CONNECT_SECONDS_MAX = 10.0
# Shorter than any server keeps an idle connection: one that it closes as a request leaves makes that unknown.
KEEP_SECONDS = 10.0


class Call(Struct, eq=False):
    """One request, for one message or several."""

    envelopes: Sequence[Envelope]
    path: str
    key: str
    body: bytes
    written: bool = False


class LicenceOver(Exception):  # noqa: N818 - it is no error: it is too late
    """It is too late to begin."""


class Wire:
    """Connections to the API."""

    def __init__(self, options: ResendOptions) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()
        self._answered_at = float("-inf")

    async def open(self) -> None:
        """Return when the API can be reached; Unready where it cannot."""
        loop = asyncio.get_running_loop()
        async with self._opening:
            if loop.time() - self._answered_at < KEEP_SECONDS:
                return
            try:
                async with (
                    asyncio.timeout(CONNECT_SECONDS_MAX),
                    self._open_session().head(self._options.base_url, allow_redirects=False),
                ):
                    # Whatever it says: its connection is kept for what comes.
                    self._answered_at = loop.time()
            except (aiohttp.ClientError, OSError) as trouble:
                raise Unready(f"the API cannot be reached ({type(trouble).__name__})") from None

    async def post(self, call: Call) -> Answer | Lost:
        """Make a call. LicenceOver where it was too late, directly before the first byte."""
        headers = {"Authorization": f"Bearer {self._options.api_key}", "Idempotency-Key": call.key}
        if len(call.envelopes) > 1:
            headers["x-batch-validation"] = "permissive"
        call.written = False
        try:
            async with self._open_session().post(
                self._options.base_url + call.path,
                data=call.body,
                headers=headers,
                allow_redirects=False,
                trace_request_ctx=call,
            ) as response:
                self._answered_at = asyncio.get_running_loop().time()
                said = {name.lower(): value for name, value in response.headers.items()}
                return Answer(response.status, said, await _read(response))
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as trouble:
            return Lost(call.written, type(trouble).__name__)

    async def close(self) -> None:
        """Let connections go."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_about_to_write)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._options.connections, keepalive_timeout=KEEP_SECONDS, enable_cleanup_closed=False
                ),
                # The sender bounds each call as a whole.
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS_MAX),
                headers={
                    "User-Agent": "dispatcher",
                    "Accept": "application/json",
                    "Accept-Encoding": "identity",
                    "Content-Type": "application/json",
                },
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                trace_configs=[trace],
            )
        return self._session


async def _about_to_write(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: Any) -> None:  # noqa: ANN401 - a signal's parameters are its own
    """Called with the connection at hand, the head of the request composed, and nothing of it written."""
    call = context.trace_request_ctx
    if isinstance(call, Call):
        if any(envelope.licence.expired() for envelope in call.envelopes):
            raise LicenceOver
        call.written = True


async def _read(response: aiohttp.ClientResponse) -> bytes | None:
    """The body, or None where it is too long or was cut off."""
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in response.content.iter_any():
            pieces.append(piece)
            size += len(piece)
            if size > ANSWER_BYTES_MAX:
                response.close()
                return None
    except (aiohttp.ClientError, OSError, TimeoutError):
        return None
    return b"".join(pieces)
