"""The announcer: turns events into deliveries to the endpoints that asked for them."""

import asyncio
from collections import Counter

from dispatcher.base import fault_points
from dispatcher.base.metrics import Metrics
from dispatcher.config.settings import Walk as Settings
from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.features.webhooks import events
from dispatcher.features.webhooks.rules import message, subject_kind

# Events in one transaction: some milliseconds.
PAGE = 500


class Announcer:
    """Writes the deliveries of events. Every replica may: an event is taken out by the transaction that writes it."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics) -> None:
        self._database = database
        self.settings = settings
        self._metrics = metrics

    async def run(self) -> None:
        """Write page after page."""
        while True:
            if await self._database.persist("announce", self._round) < PAGE:
                await asyncio.sleep(until_poll(self.settings.poll_seconds))

    async def _round(self) -> int:
        return await self.run_once() if await events.some(self._database) else 0

    async def run_once(self) -> int:
        """Write the deliveries of one page; return the number of its events."""
        async with self._database.transaction() as connection:
            ids, wanted = await events.take(connection, PAGE)
            if not ids:
                return 0
            subjects = await events.subjects(connection, wanted)
            named = [(one, subjects.get((subject_kind(one.type), one.subject))) for one in wanted]
            messages = [message(one, about) for one, about in named if about is not None]
            await events.write(connection, messages)
            await events.forget(connection, ids)
            if fault_points.ARMED:
                fault_points.passing("announce.before_commit")
        if fault_points.ARMED:
            fault_points.passing("announce.committed")
        for event, count in Counter(one.event.type for one in messages).items():
            self._metrics.events.labels(event).inc(count)
        return len(ids)
