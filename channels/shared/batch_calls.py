"""The calls of one batch, which kept connections share with those of others."""

import asyncio

from channels.contract import Envelope, Report, Verdict


class Calls:
    """The calls of one batch: what is still unanswered, and whether anybody still wants to know."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._ended = asyncio.Event()
        self._ended.set()
        self.unanswered = 0
        self.given_up = False

    def begin(self, count: int = 1) -> None:
        """So many more are on their way."""
        self.unanswered += count
        self._ended.clear()

    def settle(self, envelope: Envelope, verdict: Verdict) -> None:
        """One has its verdict. After the batch was given up all of its verdicts are spoken."""
        if self.given_up:
            return
        self._report(envelope, verdict)
        self.unanswered -= 1
        if not self.unanswered:
            self._ended.set()

    async def ended(self) -> None:
        """Return when each has its verdict."""
        await self._ended.wait()
