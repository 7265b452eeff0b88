"""The announcer: turns what has happened into deliveries for the endpoints that want to know it."""

import asyncio
from collections import Counter

from dispatcher import faultpoints
from dispatcher.config import Walk as Settings
from dispatcher.domain.webhooks import message, of_a_run
from dispatcher.metrics import Metrics
from dispatcher.store import happenings
from dispatcher.store.database import Database

# Happenings in one transaction: some milliseconds.
PAGE = 500


class Announcer:
    """Announces for one process. Every replica may: each happening is taken by one, and told in the transaction that
    takes it out."""

    def __init__(self, database: Database, settings: Settings, metrics: Metrics) -> None:
        self._database = database
        self.settings = settings
        self._metrics = metrics

    async def run(self) -> None:
        """Announce, for ever."""
        while True:
            if await self._database.persist("announce", self.run_once) < PAGE:
                await asyncio.sleep(self.settings.poll_seconds)

    async def run_once(self) -> int:
        """Announce one page; answers how many happenings it had."""
        async with self._database.transaction() as connection:
            ids, wanted = await happenings.take(connection, PAGE)
            if not ids:
                return 0
            subjects = await happenings.subjects(connection, wanted)
            named = [(one, subjects.get((of_a_run(one.type), one.subject))) for one in wanted]
            messages = [message(one, about) for one, about in named if about is not None]
            await happenings.write(connection, messages)
            await happenings.forget(connection, ids)
            if faultpoints.ARMED:
                faultpoints.passing("announce.before_commit")
        if faultpoints.ARMED:
            faultpoints.passing("announce.committed")
        for event, count in Counter(one.happening.type for one in messages).items():
            self._metrics.events.labels(event).inc(count)
        return len(ids)
