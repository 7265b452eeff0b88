"""The wire: calls of the API, with its credentials."""

import asyncio
from collections.abc import Sequence

import aiohttp

from channels.contract import Envelope, Unready
from channels.resend.options import ResendOptions
from channels.shared.web.client import Answer, Bounds, Call, Client, Lost
from channels.shared.web.guard import OpenGuard

# The longest real answer is a hundred ids and faults; what is longer is a page of something else.
ANSWER_BYTES_MAX = 256 * 1024
# Shorter than any server of theirs keeps an idle connection.
KEEP_SECONDS = 10.0


class Api:
    """Connections to the API."""

    def __init__(self, options: ResendOptions) -> None:
        self._options = options
        # One host, which the configuration names: it may be on this machine.
        self._client = Client(OpenGuard(), Bounds(options.connections, ANSWER_BYTES_MAX, KEEP_SECONDS))
        self._opening = asyncio.Lock()
        self._answered_at = float("-inf")

    def call(self, envelopes: Sequence[Envelope], path: str, key: str, body: bytes) -> Call:
        """A call that is not made yet."""
        headers = {"Authorization": f"Bearer {self._options.api_key}", "Idempotency-Key": key}
        if len(envelopes) > 1:
            headers["x-batch-validation"] = "permissive"
        return Call(envelopes, self._options.base_url + path, headers, body)

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._opening:
            if loop.time() - self._answered_at < KEEP_SECONDS:
                return
            try:
                await self._client.reach(self._options.base_url)
            except (aiohttp.ClientError, OSError) as trouble:
                raise Unready(f"the API cannot be reached ({type(trouble).__name__})") from None
            self._answered_at = loop.time()

    async def post(self, call: Call) -> Answer | Lost:
        """Make a call. LicenceOver where it was too late, directly before the first byte."""
        answer = await self._client.post(call)
        if isinstance(answer, Answer):
            self._answered_at = asyncio.get_running_loop().time()
        return answer

    async def close(self) -> None:
        await self._client.close()
