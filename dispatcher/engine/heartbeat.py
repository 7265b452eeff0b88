"""The heartbeat: proves to others that this epoch lives, and finds out when they have fenced it."""

import asyncio

from dispatcher.engine.store import instances
from dispatcher.engine.streams import Epoch

# A channel with deliveries asks for a connection every few seconds: an older answer says nothing.
UNREADY_SECONDS_MAX = 15.0


class Heartbeat:
    """Beats for one epoch until it is fenced."""

    def __init__(self, epoch: Epoch, interval_seconds: float, config_hash: str) -> None:
        self._database = epoch.database
        self._epoch = epoch
        self._interval_seconds = interval_seconds
        self.config_hash = config_hash

    async def run(self) -> None:
        """Beat until fenced."""
        while not self._epoch.fenced.is_set():
            await self.run_once()
            await asyncio.sleep(self._interval_seconds)

    async def run_once(self) -> None:
        """Beat once, check the server, and count the instances; set `fenced` where our row is gone."""
        database, number, config_hash = self._database, self._epoch.number, self.config_hash
        unready, asked_at = self._unready(), self._epoch.clock.monotonic()
        alive = await database.persist("heartbeat", lambda: instances.beat(database, number, config_hash, unready))
        if not alive:
            self._epoch.fenced.set()
            return
        self._epoch.shares.see(asked_at, alive)
        # Behind a pooler the server can be exchanged while every connection of ours lasts.
        await database.persist("heartbeat", database.check_cluster)

    def _unready(self) -> list[str]:
        """Return the channels that have just found no connection to their provider."""
        since = self._epoch.clock.monotonic() - UNREADY_SECONDS_MAX
        return sorted(channel for channel, at in self._epoch.unready.items() if at > since)
