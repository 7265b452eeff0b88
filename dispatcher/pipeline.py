"""One epoch of the pipeline: claimer, renderer, senders and flusher under one random number.

When any of them crashes the whole epoch does: what it had marked is settled or held, its row goes, its claims are
recovered, and another epoch begins. Recovery is exercised all the time that way, and nothing half alive remains.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import structlog

from dispatcher.actors.claimer import Claimer
from dispatcher.actors.flusher import Flusher
from dispatcher.actors.heartbeat import Heartbeat
from dispatcher.actors.recoverer import FENCE_LOCK_MILLISECONDS_MAX, PAGE_CLAIMS
from dispatcher.actors.renderer import Renderer
from dispatcher.actors.sender import Sender, Terms
from dispatcher.actors.streams import Epoch, Inbox, Lanes, LaneState, Pipe, Rendered, Tokens
from dispatcher.clock import Clock
from dispatcher.config import Config
from dispatcher.domain.life import Claimed, Lane
from dispatcher.domain.rates import Rates
from dispatcher.domain.template import Renderer as Templates
from dispatcher.metrics import Metrics
from dispatcher.store import instances
from dispatcher.store.database import PASSING, Database
from dispatcher.version import VERSION

log = structlog.get_logger(__name__)

# What is left to write when the grace is over gets this long; then others recover it.
FAREWELL_SECONDS_MAX = 10.0


class Pipeline:
    """Everything that lives and dies with one epoch."""

    def __init__(
        self,
        config: Config,
        database: Database,
        terms: Mapping[str, Terms],
        templates: Callable[[], Templates],
        woken: asyncio.Event,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._config = config
        self._database = database
        self._metrics = metrics
        self.draining = asyncio.Event()
        # Not from a seed anyone knows: two processes that start alike must differ.
        number = random.SystemRandom().randrange(1, 1 << Tokens.EPOCH_BITS)
        self.lanes = Lanes()
        self.inbox = Inbox(config.flush.pending_max)
        self.epoch = Epoch(number, database, self.lanes, self.inbox, Tokens(number), clock, metrics)
        for channel, term in terms.items():
            for lane in Lane:
                state = LaneState(channel, lane, config.claim.lane_capacity, _usable(term.rates, clock))
                state.on_unknown = term.on_unknown
                self.lanes.add(state)
        self._claimed = Pipe.of(sum(state.capacity for state in self.lanes))
        self._claiming = anyio.CancelScope()
        self.claimer = Claimer(self.epoch, config.claim, woken, self._to_renderer)
        self.renderer = Renderer(templates, self._to_lane, self.inbox, metrics)
        self.flusher = Flusher(self.epoch, config.flush)
        self.heartbeat = Heartbeat(database, number, config.instance.heartbeat_seconds)
        self.senders = {
            channel: Sender(channel, term, self.epoch, config.instance.licence_seconds)
            for channel, term in terms.items()
        }

    def _to_renderer(self, batch: list[Claimed]) -> None:
        self._claimed.send.send_nowait(batch)

    def _to_lane(self, rendered: Sequence[Rendered]) -> None:
        item = rendered[0].item
        self.lanes[item.channel, item.lane].pipe.send.send_nowait(rendered)

    async def run(self) -> None:
        """Live until drained; raises what crashed. Either way nothing that can be settled is left unsettled."""
        config = self._config.instance
        await self._database.persist(
            "join",
            lambda: instances.join(self._database, self.epoch.number, config.lease_seconds, config.name, VERSION),
        )
        log.info("pipeline.started", epoch=self.epoch.number, channels=sorted(self.senders))
        flushing = asyncio.create_task(self.flusher.run())
        try:
            await self._live(flushing)
        finally:
            with anyio.CancelScope(shield=True):
                await self._farewell(flushing)
        log.info("pipeline.drained", epoch=self.epoch.number)

    async def _live(self, flushing: "asyncio.Task[None]") -> None:
        async with anyio.create_task_group() as around:
            around.start_soon(self.heartbeat.run)
            around.start_soon(_watch, flushing)
            around.start_soon(self._drain)
            async with anyio.create_task_group() as work:
                work.start_soon(self._feed)
                for channel, sender in self.senders.items():
                    work.start_soon(sender.run, self.lanes.of(channel))
            around.cancel_scope.cancel()

    async def _feed(self) -> None:
        """Claim and render until drained; then each stage closes the next."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._render)
            with self._claiming:
                await self.claimer.run()
            self._claimed.send.close()

    async def _render(self) -> None:
        await self.renderer.run(self._claimed.receive)
        for state in self.lanes:
            state.pipe.send.close()

    async def _drain(self) -> None:
        """Once asked to: claim no more, mark no more, and give calls under way their grace."""
        await self.draining.wait()
        self._claiming.cancel()
        for sender in self.senders.values():
            sender.draining.set()
        await asyncio.sleep(self._config.instance.grace_seconds)
        log.warning("pipeline.grace_over", marked=sum(sum(s.slots.used.values()) for s in self.senders.values()))
        for sender in self.senders.values():
            sender.give_up()

    async def _farewell(self, flushing: "asyncio.Task[None]") -> None:
        """Write every result that there is, take our own row away, and recover what we still hold."""
        self.inbox.close()
        done, _ = await asyncio.wait([flushing], timeout=FAREWELL_SECONDS_MAX)
        if not done or flushing.exception() is not None:
            flushing.cancel()
            log.error("results.unwritten", results=len(self.inbox.waiting) + self.inbox.flushing)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS_MAX):
                await instances.fence(self._database, self.epoch.number, FENCE_LOCK_MILLISECONDS_MAX)
                while (await instances.recover(self._database, PAGE_CLAIMS)).claims == PAGE_CLAIMS:
                    pass
        except PASSING as trouble:
            log.warning("pipeline.left_to_others", epoch=self.epoch.number, error=type(trouble).__name__)

    def adopt(self, config: Config, terms: Mapping[str, Terms]) -> None:
        """Go on under another configuration."""
        self.claimer.settings = config.claim
        self.flusher.settings = config.flush
        self.inbox.high_water = config.flush.pending_max
        for state in self.lanes:
            state.capacity = config.claim.lane_capacity
            state.on_unknown = terms[state.channel].on_unknown
        for channel, sender in self.senders.items():
            sender.terms = terms[channel]
            sender.slots.resize(terms[channel].settings.marked_max)

    def measure(self) -> None:
        """Set the gauges of what is inside."""
        self._metrics.results.set(len(self.inbox.waiting) + self.inbox.flushing)
        for state in self.lanes:
            labels = (state.channel, state.lane.name.lower())
            self._metrics.in_lane.labels(*labels).set(state.outstanding)
            self._metrics.marked.labels(*labels).set(self.senders[state.channel].slots.used[state.lane])


def _usable(rates: Rates, clock: Clock) -> Callable[[], float]:
    return lambda: rates.soon(clock.monotonic())


async def _watch(task: "asyncio.Task[Any]") -> None:
    """Crash when a task of ours does."""
    await asyncio.shield(task)
    raise RuntimeError("the flusher ended before the pipeline did")
