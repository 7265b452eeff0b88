"""One epoch of the pipeline: claimer, renderer, senders and flusher under one random number.

When any of them crashes the whole epoch does: what it had marked is settled or held, its row goes, its claims are
recovered, and another epoch begins. Recovery is exercised all the time that way, and nothing half alive remains.
"""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
import structlog

from dispatcher.base import fault_points
from dispatcher.base.clock import Clock
from dispatcher.base.errors import Fenced
from dispatcher.base.metrics import Metrics
from dispatcher.base.version import VERSION
from dispatcher.config import fingerprints
from dispatcher.config.settings import Config
from dispatcher.db.database import PASSING, Database
from dispatcher.engine.agreement import Agreement
from dispatcher.engine.attacher import Attacher, Objects
from dispatcher.engine.claimer import Claimer
from dispatcher.engine.flusher import Flusher
from dispatcher.engine.heartbeat import Heartbeat
from dispatcher.engine.pauses import Controls
from dispatcher.engine.recoverer import FENCE_LOCK_MILLISECONDS_MAX, PAGE_CLAIMS
from dispatcher.engine.renderer import Renderer
from dispatcher.engine.rules.life import Claimed, Lane
from dispatcher.engine.rules.rates import Rates
from dispatcher.engine.rules.replica_shares import Shares
from dispatcher.engine.rules.unsubscribe_links import Links
from dispatcher.engine.sender import Sender, Terms
from dispatcher.engine.slow_renderer import SlowRenderer
from dispatcher.engine.store import instances
from dispatcher.engine.streams import LANE_CAPACITY_MAX, Epoch, Inbox, Lanes, LaneState, Pipe, Rendered, Tokens
from dispatcher.features.objects import store as objects
from dispatcher.features.templates import store as stored
from dispatcher.features.webhooks import store as webhooks
from dispatcher.liquid.template import Renderer as Templates
from dispatcher.liquid.template import Sources

log = structlog.get_logger(__name__)

# Results that wait to be written, from which on the dispatcher is at full speed.
PRESSED_RESULTS = 50
# What is left to write when the grace is over gets this long; then others recover it.
FAREWELL_SECONDS_MAX = 10.0
# A drain lets the claim under way end, for so long.
CLAIM_SECONDS_MAX = 2.0


class Pipeline:
    """Everything that lives and dies with one epoch."""

    def __init__(
        self,
        config: Config,
        database: Database,
        terms: Mapping[str, Terms],
        templates: Callable[[], Templates],
        woken: asyncio.Event,
        controls: Controls,
        metrics: Metrics,
        *,
        walking: asyncio.Event,
    ) -> None:
        self._config = config
        self._database = database
        self._metrics = metrics
        self._walking = walking
        self.draining = asyncio.Event()
        # From then on others know of us: nobody says before that what he has taken up, or that he wants to be woken.
        self.joined = False
        # Not from a seed anyone knows: two processes that start alike must differ.
        number = random.SystemRandom().randrange(1, 1 << Tokens.EPOCH_BITS)
        self.lanes = Lanes()
        self.inbox = Inbox(config.flush.pending_max)
        clock = Clock()
        shares = Shares(config.instance.heartbeat_seconds, clock.monotonic())
        self.epoch = Epoch(
            number,
            database,
            self.lanes,
            self.inbox,
            Tokens(number),
            clock,
            metrics,
            shares,
            lambda: controls.pauses,
            asyncio.Event(),
            set(),
        )
        self.senders = {channel: Sender(channel, term, self.epoch) for channel, term in terms.items()}
        for channel, term in terms.items():
            slots = self.senders[channel].slots
            for lane in Lane:
                state = LaneState(channel, lane, config.claim.lane_capacity, _usable(term.rates, shares, clock), slots)
                _agree(state, term, config)
                state.until_usable = _until_usable(term.rates, clock)
                self.lanes.add(state)
        # A reload may give lanes as much as this.
        self._claimed = Pipe.of(LANE_CAPACITY_MAX * len(list(self.lanes)))
        self._claiming = anyio.CancelScope()
        controls.woken = woken
        self.claimer = Claimer(self.epoch, config.claim, woken, self._to_renderer)
        self.attacher = Attacher(_objects(database), _send, self.inbox)
        self.slow_renderer = SlowRenderer(
            self._to_lane, lambda key: templates().mark_quick(key), self.inbox, clock, lambda: templates().bounds
        )
        self.renderer = Renderer(templates, self._load, self._to_lane, self.slow_renderer.take, self.inbox, metrics)
        self.renderer.links = _links(config)
        self.flusher = Flusher(self.epoch, config.flush, walking)
        self.heartbeat = Heartbeat(self.epoch, config.instance.heartbeat_seconds, fingerprints.of_config(config))
        self.agreement = Agreement(self.epoch, config.instance.heartbeat_seconds, _fingerprints(terms), woken)

    async def _load(self, keys: Sequence[str]) -> Mapping[str, Sources]:
        return await self._database.persist("templates", lambda: stored.load(self._database, keys))

    def _to_renderer(self, batch: list[Claimed]) -> None:
        self._claimed.send.send_nowait(batch)

    def _to_lane(self, rendered: Sequence[Rendered]) -> None:
        item = rendered[0].item
        self.attacher.take(self.lanes[item.channel, item.lane], rendered)

    async def run(self) -> None:
        """Live until drained; raises what crashed. Either way nothing that can be settled is left unsettled."""
        if not await self._join():
            return
        self.joined = True
        self._walking.set()
        log.info("pipeline.started", epoch=self.epoch.number, channels=sorted(self.senders))
        flushing = asyncio.create_task(self.flusher.run())
        try:
            await self._live(flushing)
        finally:
            with anyio.CancelScope(shield=True):
                await self._farewell(flushing)
        if self.epoch.fenced.is_set() and not self.draining.is_set():
            raise Fenced
        log.info("pipeline.drained", epoch=self.epoch.number)

    async def _join(self) -> bool:
        """Make our epoch durable; False where we are told to stop while Postgres is away."""
        config = self._config.instance
        me = instances.Beat(
            self.epoch.number, 0, config.lease_seconds, config.name, fingerprints.of_config(self._config)
        )
        joined = False
        async with anyio.create_task_group() as either:
            either.start_soon(_then, self.draining, either.cancel_scope.cancel)
            await self._database.persist(
                "join", lambda: instances.join(self._database, me, VERSION, sorted(self.senders))
            )
            await self.agreement.run_once()
            joined = True
            either.cancel_scope.cancel()
        return joined

    async def _live(self, flushing: "asyncio.Task[None]") -> None:
        async with anyio.create_task_group() as around:
            around.start_soon(self.heartbeat.run)
            around.start_soon(self.agreement.run)
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
        async with anyio.create_task_group() as attaching:
            self.attacher.begin(attaching)
            await self.slow_renderer.run(partial(self.renderer.run, self._claimed.receive))
        for state in self.lanes:
            state.pipe.send.close()

    async def _drain(self) -> None:
        """Once asked to, or fenced: claim no more, mark no more, and give calls under way their grace."""
        async with anyio.create_task_group() as either:
            for event in (self.draining, self.epoch.fenced):
                either.start_soon(_then, event, either.cancel_scope.cancel)
        if fault_points.ARMED:
            fault_points.passing("drain.begun")
        self.claimer.stop()
        self.attacher.draining.set()
        self.renderer.draining.set()
        self.slow_renderer.stop()
        for sender in self.senders.values():
            sender.draining.set()
        await asyncio.sleep(min(CLAIM_SECONDS_MAX, self._config.instance.grace_seconds))
        # With Postgres away the claimer would try for ever.
        self._claiming.cancel()
        await asyncio.sleep(max(0.0, self._config.instance.grace_seconds - CLAIM_SECONDS_MAX))
        log.warning("pipeline.grace_over", marked=sum(sum(s.slots.used.values()) for s in self.senders.values()))
        for sender in self.senders.values():
            sender.give_up()

    async def _farewell(self, flushing: "asyncio.Task[None]") -> None:
        """Write every result that there is, take our own row away, and recover what we still hold."""
        if fault_points.ARMED:
            fault_points.passing("farewell.begun")
        self.inbox.close()
        # After a crash it waits for as long as Postgres is away; who was told to stop leaves the rest to others.
        stopping = asyncio.create_task(self.draining.wait())
        await asyncio.wait([flushing, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        done, _ = await asyncio.wait([flushing], timeout=FAREWELL_SECONDS_MAX)
        if not done or flushing.exception() is not None:
            flushing.cancel()
            log.error("results.unwritten", results=len(self.inbox.waiting) + self.inbox.flushing)
        if fault_points.ARMED:
            fault_points.passing("farewell.flushed")
        try:
            async with asyncio.timeout(FAREWELL_SECONDS_MAX):
                await instances.fence(self._database, self.epoch.number, FENCE_LOCK_MILLISECONDS_MAX)
                while (await instances.recover(self._database, PAGE_CLAIMS)).claims == PAGE_CLAIMS:
                    pass
        except PASSING as trouble:
            log.warning("pipeline.left_to_others", epoch=self.epoch.number, error=type(trouble).__name__)
        if fault_points.ARMED:
            fault_points.passing("farewell.left")
        for pipe in (self._claimed, *(state.pipe for state in self.lanes)):
            pipe.send.close()
            pipe.receive.close()

    def adopt(self, config: Config, terms: Mapping[str, Terms]) -> None:
        """Go on under another configuration."""
        self.claimer.settings = config.claim
        self.renderer.links = _links(config)
        self.flusher.settings = config.flush
        self.inbox.high_water = config.flush.pending_max
        self.heartbeat.config_hash = fingerprints.of_config(config)
        self.agreement.adopt(_fingerprints(terms))
        for state in self.lanes:
            state.capacity = config.claim.lane_capacity
            if state.resend != terms[state.channel].resend:
                state.promised_after = self.epoch.tokens.last
            _agree(state, terms[state.channel], config)
        for channel, sender in self.senders.items():
            sender.terms = terms[channel]
            sender.slots.resize(terms[channel].settings.marked_max)

    def is_pressed(self) -> bool:
        """Whether results come in by the hundred: whoever else wants the loop is to leave it some turns."""
        return len(self.inbox.waiting) + self.inbox.flushing >= PRESSED_RESULTS

    def measure(self) -> None:
        """Set the gauges of what is inside."""
        self._metrics.results.set(len(self.inbox.waiting) + self.inbox.flushing)
        for state in self.lanes:
            labels = (state.channel, state.lane.name.lower())
            self._metrics.in_lane.labels(*labels).set(state.outstanding)
            self._metrics.marked.labels(*labels).set(self.senders[state.channel].slots.used[state.lane])


def _agree(state: LaneState, terms: Terms, config: Config) -> None:
    """Tell a lane's claims what its channel's terms say."""
    state.resend = terms.resend
    state.provider = terms.settings.provider
    # Who was fenced can go on for as long as a call.
    state.settle_seconds = terms.call_may_last_seconds
    state.shelf.bytes_max = config.limits.objects_bytes_max


def _fingerprints(terms: Mapping[str, Terms]) -> dict[str, str]:
    return {channel: term.fingerprint for channel, term in terms.items()}


def _objects(database: Database) -> Objects:
    return Objects(
        lambda names: database.persist("object sizes", lambda: objects.sizes(database, names)),
        lambda names: database.persist("objects", lambda: objects.contents(database, names)),
        lambda endpoints: database.persist("endpoints", lambda: webhooks.targets(database, endpoints)),
    )


def _send(state: LaneState, rendered: Sequence[Rendered]) -> None:
    state.pipe.send.send_nowait(rendered)


def _links(config: Config) -> Links | None:
    return Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets)


def _usable(rates: Rates, shares: Shares, clock: Clock) -> Callable[[], float]:
    def usable() -> float:
        now = clock.monotonic()
        rates.share(now, shares.current(now))
        return rates.soon(now)

    return usable


def _until_usable(rates: Rates, clock: Clock) -> Callable[[], float]:
    return lambda: rates.wait(clock.monotonic())


async def _then(event: asyncio.Event, call: Callable[[], object]) -> None:
    await event.wait()
    call()


async def _watch(task: "asyncio.Task[Any]") -> None:
    """Crash when a task of ours does."""
    await asyncio.shield(task)
    raise RuntimeError("the flusher ended before the pipeline did")
