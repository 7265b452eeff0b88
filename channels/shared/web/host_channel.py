"""The base of channels that make their calls to one host, which the configuration names, whoever the recipient is.

A fault of the settings, such as a wrong token, concerns every message alike. So it is looked for before anything is
marked, as the channel opens and again after an answer that speaks of it; while there is one, the channel is not ready.
"""

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from msgspec import Struct
from msgspec.structs import replace

from channels.contract import CUT_OFF, Envelope, NotCalled, Report, RetryAfter, Unready, Verdict
from channels.shared.web.answers import lost_verdict
from channels.shared.web.client import Answer, Bounds, Call, Client, Lost
from channels.shared.web.guard import Guard, OpenGuard
from channels.shared.web.post_channel import PostChannel

# For how long the settings are not tried again after an answer that refused them.
SHUT_SECONDS = 30.0
# The same where nothing but another message can tell whether they are good by now: each try costs some an attempt.
UNCHECKED_SECONDS = 300.0
# Shorter than any server of a provider keeps an idle connection.
KEEP_SECONDS = 10.0


class Host(Struct, frozen=True):
    """The URL of a provider, and the addresses that it may lead to beside public ones."""

    url: str
    allow_addresses: str = ""


class HostChannel(PostChannel[Host]):
    """Calls one host over connections that it keeps."""

    unknown = ""
    # Whether a HEAD opens a connection before the mark where none has answered lately.
    reaches = True

    def __init__(
        self,
        host: Host,
        bounds: Bounds,
        guard: Guard | None = None,
        resolver: Callable[[], AbstractResolver] | None = None,
    ) -> None:
        super().__init__({}, resolver)
        self.host = host
        self._bounds = bounds
        # Where it is not told otherwise, the host may be anywhere: the configuration alone names it.
        self.client = Client(guard or OpenGuard(), bounds, resolver() if resolver else None)
        self._opening = asyncio.Lock()
        self._sound = False
        self._answered_at = float("-inf")
        self._shut_until = float("-inf")
        self._shut_because = ""

    async def prepare(self, count: int) -> None:  # noqa: ARG002 - one connection shows that there can be more
        """Return when the settings are known to be good and the host has just answered."""
        async with self._opening:
            if _now() < self._shut_until:
                raise Unready(self._shut_because)
            await self.authorize()
            if not self._sound:
                await self.check()
                self._sound = True
            if self.reaches and _now() - self._answered_at >= self._bounds.keep_seconds:
                await self._reach()

    async def authorize(self) -> None:
        """Get what calls need to be allowed. Unready where it cannot be had."""

    async def check(self) -> None:
        """Ask the host whether it takes these settings. Unready where it does not."""

    async def ask(self, call: Call) -> Answer:
        """The answer to a call of no message. Unready where there is none."""
        answer = await self.client.post(call)
        if isinstance(answer, Lost):
            raise _away(call.url, answer.why)
        if call.url.startswith(self.host.url):
            self._answered_at = _now()
        return answer

    def shut(self, reason: str, seconds: float = SHUT_SECONDS) -> Unready:
        """Begin no call for a while, and then not before the settings were checked. The reason says what to change."""
        self._sound = False
        self._shut_until, self._shut_because = _now() + seconds, reason
        return Unready(reason)

    @abstractmethod
    def verdict(self, envelope: Envelope, answer: Answer) -> Verdict:
        """The verdict of an answer."""

    def judge(self, envelope: Envelope, target: Host, answer: Answer | Lost) -> Verdict:  # noqa: ARG002 - there is one
        if isinstance(answer, Lost):
            return self._lost(answer)
        self._answered_at = _now()
        return self.verdict(envelope, answer)

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        """Make as many calls at a time as there are connections. What waits while settings are refused goes back."""
        waiting = deque(batch)
        try:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(len(batch), self._bounds.connections)):
                    workers.create_task(self._work(waiting, report))
        finally:
            for envelope in waiting:
                report(envelope, CUT_OFF)

    async def close(self) -> None:
        await self.client.close()

    def bounds(self, target: Host) -> Bounds:  # noqa: ARG002 - there is one
        return self._bounds

    def _target(self, envelope: Envelope) -> Host:  # noqa: ARG002 - there is one
        return self.host

    def _client(self, envelope: Envelope, target: Host) -> Client:  # noqa: ARG002 - there is one
        return self.client

    async def _work(self, waiting: deque[Envelope], report: Report) -> None:
        while waiting:
            envelope = waiting.popleft()
            if _now() < self._shut_until:
                report(envelope, NotCalled(self._shut_because))
            else:
                await self._deliver(envelope, report)

    def _lost(self, lost: Lost) -> Verdict:
        if lost.forbidden:
            reason = "options.url: leads to an address that is not public; if that is meant, name it in allow_addresses"
            return self.refuses(reason)
        verdict = lost_verdict(lost)
        return replace(verdict, provider_fault=True) if isinstance(verdict, RetryAfter) else verdict

    def refuses(self, reason: str) -> RetryAfter:
        """Return the verdict where nothing can be sent until a setting is changed, here or there."""
        return RetryAfter(str(self.shut(reason, UNCHECKED_SECONDS)), provider_fault=True)

    async def _reach(self) -> None:
        try:
            await self.client.reach(self.host.url)
        except (aiohttp.ClientError, OSError) as trouble:
            raise _away(self.host.url, type(trouble).__name__) from None
        self._answered_at = _now()


def _away(url: str, why: str) -> Unready:
    return Unready(f"{urlsplit(url).netloc} cannot be reached ({why})")


def _now() -> float:
    return asyncio.get_running_loop().time()
