"""The agreement: from which channels this epoch may claim, since no live replica has another provider for them."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from dispatcher.config.fingerprints import provider_of
from dispatcher.engine.store import instances
from dispatcher.engine.store.instances import Yielded
from dispatcher.engine.streams import Epoch, Wakes

log = structlog.get_logger(__name__)


class Agreement:
    """Asks the database when our providers change, and again while we yield a channel. `woken` wakes the claimers."""

    def __init__(self, epoch: Epoch, interval_seconds: float, fingerprints: Mapping[str, str], woken: Wakes) -> None:
        self._database = epoch.database
        self._epoch = epoch
        self._interval_seconds = interval_seconds
        self._fingerprints = fingerprints
        self._woken = woken
        self._changed = asyncio.Event()
        # The channels that we yield, each with a sentence about it.
        self.yielded: Mapping[str, str] = {}

    def adopt(self, fingerprints: Mapping[str, str]) -> None:
        """Other providers: nothing more is claimed or marked where they differ, before the database has decided."""
        changed = {channel for channel, one in fingerprints.items() if one != self._fingerprints[channel]}
        self._fingerprints = fingerprints
        if changed:
            self._epoch.blocked.update(changed)
            self._changed.set()

    async def run(self) -> None:
        """Ask when there is something to ask, for ever."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), self._interval_seconds)
            if self._changed.is_set() or self.yielded:
                await self.run_once()

    async def run_once(self) -> None:
        """Ask once, and claim from what is ours."""
        self._changed.clear()
        number, mine = self._epoch.number, self._fingerprints
        told = [mine[channel] for channel in sorted(mine)]
        found = await self._database.persist("agreement", lambda: instances.agree(self._database, number, told))
        # What was changed meanwhile stays blocked until it was asked about.
        if not self._changed.is_set():
            self._epoch.blocked.clear()
        self._epoch.blocked.update(one.channel for one in found)
        self._tell(mine, found)

    def _tell(self, mine: Mapping[str, str], found: Sequence[Yielded]) -> None:
        before = self.yielded
        self.yielded = {one.channel: _sentence(provider_of(mine[one.channel]), one) for one in found}
        for one in found:
            if one.channel not in before:
                here, there = provider_of(mine[one.channel]), provider_of(one.fingerprint)
                log.warning(
                    "channel.disagrees", channel=one.channel, here=here, there=there, other_instance=one.instance
                )
        for channel in mine:
            self._epoch.metrics.channel_disagrees.labels(channel).set(channel in self.yielded)
        agreed = sorted(before.keys() - self.yielded.keys())
        if agreed:
            log.info("channel.agrees", channels=agreed)
        self._woken.set()


def _sentence(here: str, one: Yielded) -> str:
    there = provider_of(one.fingerprint)
    has = f"other settings of {there}" if here == there else f"the provider {there}, and not {here},"
    return f"{one.channel}: nothing is claimed from it here, since {one.instance} has {has} for it"
