"""Slots: how many deliveries of a channel may be marked at a time, shared so that no lane shuts another out."""

import asyncio

from dispatcher.engine.rules.life import Lane

RESERVE_SHARE = 0.1


class Slots:
    """Each lane may use what is free, less what the others have reserved and are not using."""

    def __init__(self, total: int) -> None:
        self.used = dict.fromkeys(Lane, 0)
        self._freed = {lane: asyncio.Event() for lane in Lane}
        self.resize(total)

    @property
    def in_use(self) -> int:
        """The slots that all lanes use."""
        return sum(self.used.values())

    def resize(self, total: int) -> None:
        """Change the total; what is in use beyond it drains by itself."""
        self.total = total
        self.reserve = max(1, int(total * RESERVE_SHARE))
        for event in self._freed.values():
            event.set()

    def take(self, lane: Lane, wanted: int) -> int:
        """Take up to `wanted` slots; return their number."""
        reserved = sum(max(0, self.reserve - used) for other, used in self.used.items() if other is not lane)
        granted = max(0, min(wanted, self.total - self.in_use - reserved))
        self.used[lane] += granted
        if not granted:
            self._freed[lane].clear()
        return granted

    def give_back(self, lane: Lane, count: int) -> None:
        """Give slots back."""
        if count:
            self.used[lane] -= count
            for event in self._freed.values():
                event.set()

    async def freed(self, lane: Lane) -> None:
        """Return when slots came back since `take` gave none."""
        await self._freed[lane].wait()
