"""The calls of one batch, which share persistent connections with those of others."""

import asyncio

from channels.contract import Envelope, Report, Verdict


class Calls:
    """The calls of one batch: how many are unanswered, and whether the batch was given up."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ended = asyncio.Event()
        self._ended.set()
        self.unanswered = 0
        self.given_up = False

    def begin(self, count: int = 1) -> None:
        self.unanswered += count
        self._ended.clear()

    def settle(self, envelope: Envelope, verdict: Verdict) -> None:
        """Report one verdict. After the batch was given up, verdicts are dropped: all have been reported."""
        if self.given_up:
            return
        self._report(envelope, verdict)
        self.unanswered -= 1
        if not self.unanswered:
            self._ended.set()

    async def ended(self) -> None:
        """Return when each has its verdict."""
        await self._ended.wait()
