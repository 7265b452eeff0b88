"""The backlog: for how long what is due has been waiting, by channel."""

from collections.abc import Mapping

from dispatcher.config.settings import Channel
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.store import claims, pauses

# What is in bulk waits by intention.
_LANES = (Lane.TRANSACTIONAL, Lane.NORMAL)


async def ages(database: Database, channels: Mapping[str, Channel]) -> dict[str, float]:
    """The seconds that the oldest due delivery of each channel has been waiting; 0 for a paused channel."""
    stopped = await pauses.current(database)
    going = [name for name, channel in channels.items() if not stopped.stops(name, channel.pausable)]
    found = dict.fromkeys(channels, 0.0)
    for one in await claims.depth(database, [(name, lane) for name in going for lane in _LANES], 1):
        found[one.channel] = max(found[one.channel], one.age_seconds)
    return found
