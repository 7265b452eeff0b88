"""One epoch of the pipeline: claimer, renderer, senders and flusher under one random number.

When any of them crashes the whole epoch does: what it had marked is settled or held, its row goes, its claims are
recovered, and another epoch begins.
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
from dispatcher.engine.claimer import claimers
from dispatcher.engine.flusher import Flusher
from dispatcher.engine.heartbeat import Heartbeat
from dispatcher.engine.pauses import PauseReader
from dispatcher.engine.providers.choice import claimable, until_usable
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.recoverer import FENCE_LOCK_MILLISECONDS_MAX, PAGE_CLAIMS
from dispatcher.engine.renderer import Renderer
from dispatcher.engine.rules.life import Lane
from dispatcher.engine.rules.replica_shares import Shares
from dispatcher.engine.rules.staging import Staging
from dispatcher.engine.rules.unsubscribe_links import Links
from dispatcher.engine.sender import Sender
from dispatcher.engine.slow_renderer import SlowRenderer
from dispatcher.engine.store import instances
from dispatcher.engine.streams import (
    LANE_CAPACITY_MAX,
    Epoch,
    Inbox,
    Lanes,
    LaneState,
    Pipe,
    Precedence,
    Rendered,
    Tokens,
    Wakes,
    unless,
)
from dispatcher.engine.tracing.traces import Traces
from dispatcher.features.objects import store as objects
from dispatcher.features.rules.quote_page import page
from dispatcher.features.templates import store as stored
from dispatcher.features.webhooks import store as webhooks
from dispatcher.liquid.template import Renderer as Templates
from dispatcher.liquid.template import Sources

log = structlog.get_logger(__name__)

# Results that wait to be written, from which on the dispatcher is at full speed.
PRESSED_RESULTS = 50
# After the grace, results that are left are written for so long; then others recover them.
SHUTDOWN_SECONDS_MAX = 10.0
# A drain lets the claim under way end, for so long.
CLAIM_SECONDS_MAX = 2.0


class Pipeline:
    """Everything that lives and dies with one epoch."""

    def __init__(  # noqa: PLR0913 - all that outlives an epoch and that it uses
        self,
        config: Config,
        database: Database,
        terms: Mapping[str, Terms],
        templates: Callable[[], Templates],
        woken: Wakes,
        controls: PauseReader,
        metrics: Metrics,
        *,
        walking: asyncio.Event,
        precedence: Precedence,
        traces: Traces | None = None,
    ) -> None:
        self._config = config
        self._database = database
        self._metrics = metrics
        self._walking = walking
        self.draining = asyncio.Event()
        # Our instance row is committed: others know of us.
        self.joined = False
        # From the system's randomness: two processes that start alike must differ.
        number = random.SystemRandom().randrange(1, 1 << Tokens.EPOCH_BITS)
        self.lanes = Lanes()
        self.inbox = Inbox(config.flush.pending_max)
        clock = Clock()
        shares = Shares(config.instance.heartbeat_seconds, clock.monotonic())
        shared = number, database, self.lanes, self.inbox, Tokens(number), clock, metrics, shares
        given = lambda: controls.pauses, precedence, controls.limited
        self.epoch = Epoch(*shared, *given, asyncio.Event(), set(), traces)
        self.senders = {channel: Sender(channel, term, self.epoch) for channel, term in terms.items()}
        self._stage(config)
        for channel, term in terms.items():
            slots = self.senders[channel].slots
            for lane in Lane:
                sender = self.senders[channel]
                state = LaneState(channel, lane, config.claim.lane_capacity, _usable(sender, shares, clock), slots)
                _agree(state, term, config)
                state.until_usable = _until_usable(sender, clock)
                self.lanes.add(state)
        # A reload may raise the capacity of lanes to this.
        self._claimed = Pipe.of(LANE_CAPACITY_MAX * len(list(self.lanes)))
        self._claiming = anyio.CancelScope()
        controls.woken = woken
        self.claimers = claimers(self.epoch, config.claim, woken, self._claimed.send.send_nowait)
        self.attacher = Attacher(_objects(database), LaneState.send, self.inbox)
        self.slow_renderer = SlowRenderer(
            self._slow_to_lane,
            lambda key: templates().mark_quick(key),
            self.inbox,
            clock,
            lambda: templates().bounds,
        )
        self.renderer = Renderer(templates, self._load, self._to_lane, self.slow_renderer.take, self.inbox, metrics)
        self.renderer.links = links_of(config)
        self.renderer.traces = traces
        self.flusher = Flusher(self.epoch, config.flush, walking)
        self.heartbeat = Heartbeat(self.epoch, config.instance.heartbeat_seconds, fingerprints.of_config(config))
        self.agreement = Agreement(self.epoch, config.instance.heartbeat_seconds, _fingerprints(terms, config), woken)

    async def _load(self, keys: Sequence[str]) -> Mapping[str, Sources]:
        return await self._database.persist("templates", lambda: stored.load(self._database, keys))

    def _slow_to_lane(self, rendered: Sequence[Rendered]) -> None:
        if self.epoch.traces is not None:
            self.epoch.traces.step("render", [one.item for one in rendered])
        self._to_lane(rendered)

    def _to_lane(self, rendered: Sequence[Rendered]) -> None:
        item = rendered[0].item
        self.attacher.take(self.lanes[item.channel, item.lane], rendered)

    async def run(self) -> None:
        """Run until drained; raise what crashed. In both cases all that can be settled is settled."""
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
                await self._shut_down(flushing)
        if self.epoch.fenced.is_set() and not self.draining.is_set():
            raise Fenced
        log.info("pipeline.drained", epoch=self.epoch.number)

    async def _join(self) -> bool:
        """Make our epoch durable; False where the drain begins while Postgres is away."""
        database, config = self._database, self._config.instance
        own = self.epoch.number, 0, config.lease_seconds, config.name, fingerprints.of_config(self._config)

        async def join() -> bool:
            channels = sorted(self.senders)
            await database.persist("join", lambda: instances.join(database, instances.Beat(*own), VERSION, channels))
            await self.agreement.run_once()
            return True

        return await unless(self.draining, join()) is not None

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
        """Claim and render until drained; then each stage closes the next one."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._render)
            with self._claiming:
                async with anyio.create_task_group() as claiming:
                    for claimer in self.claimers:
                        claiming.start_soon(claimer.run)
            self._claimed.send.close()

    async def _render(self) -> None:
        async with anyio.create_task_group() as attaching:
            self.attacher.begin(attaching)
            await self.slow_renderer.run(partial(self.renderer.run, self._claimed.receive))
        for state in self.lanes:
            state.pipe.send.close()

    async def _drain(self) -> None:
        """Once told to or fenced: claim no more, mark no more, and give calls under way their grace."""
        await unless(self.draining, self.epoch.fenced.wait())
        if fault_points.ARMED:
            fault_points.passing("drain.begun")
        for claimer in self.claimers:
            claimer.stop()
        self.attacher.draining.set()
        self.renderer.draining.set()
        self.slow_renderer.stop()
        for sender in self.senders.values():
            sender.draining.set()
        grace_seconds = self._config.instance.grace_seconds
        await asyncio.sleep(min(CLAIM_SECONDS_MAX, grace_seconds))
        # With Postgres away the claimers would try for ever.
        self._claiming.cancel()
        await asyncio.sleep(max(0.0, grace_seconds - CLAIM_SECONDS_MAX))
        log.warning("pipeline.grace_over", marked=sum(sender.slots.in_use for sender in self.senders.values()))
        for sender in self.senders.values():
            sender.give_up()

    async def _shut_down(self, flushing: "asyncio.Task[None]") -> None:
        """Write every result, delete our own row, and recover what we still hold."""
        if fault_points.ARMED:
            fault_points.passing("farewell.begun")
        self.inbox.close()
        # After a crash this waits for as long as Postgres is away; a drain leaves the rest to others.
        await unless(self.draining, asyncio.wait([flushing]))
        done, _ = await asyncio.wait([flushing], timeout=SHUTDOWN_SECONDS_MAX)
        if not done or flushing.exception() is not None:
            flushing.cancel()
            log.error("results.unwritten", results=self.inbox.pending)
        if fault_points.ARMED:
            fault_points.passing("farewell.flushed")
        try:
            async with asyncio.timeout(SHUTDOWN_SECONDS_MAX):
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
        """Continue under another configuration."""
        for claimer in self.claimers:
            claimer.settings = config.claim
        self.renderer.links = links_of(config)
        self.flusher.settings = config.flush
        self.inbox.high_water = config.flush.pending_max
        self.heartbeat.config_hash = fingerprints.of_config(config)
        self._stage(config)
        self.agreement.adopt(_fingerprints(terms, config))
        for state in self.lanes:
            state.capacity = config.claim.lane_capacity
            if state.resend != terms[state.channel].resend:
                state.promised_after = self.epoch.tokens.last
            _agree(state, terms[state.channel], config)
        for channel, sender in self.senders.items():
            sender.terms = terms[channel]
            sender.slots.resize(terms[channel].settings.marked_max)

    def _stage(self, config: Config) -> None:
        """Let all senders know who may get messages."""
        said = config.staging
        staging = Staging.of(said.allow, said.redirect) if said.enabled else None
        for sender in self.senders.values():
            # The same where nothing has changed: a mark under way goes on.
            if sender.staging != staging:
                sender.staging = staging

    def is_pressed(self) -> bool:
        """Whether results come in by the hundred: other work on the loop is to yield to them."""
        return self.inbox.pending >= PRESSED_RESULTS

    def measure(self) -> None:
        """Set the gauges of deliveries under way."""
        self._metrics.results.set(self.inbox.pending)
        for state in self.lanes:
            labels = (state.channel, state.lane.name.lower())
            self._metrics.in_lane.labels(*labels).set(state.outstanding)
            self._metrics.marked.labels(*labels).set(self.senders[state.channel].slots.used[state.lane])
        for channel, sender in self.senders.items():
            is_paused = self.epoch.pauses().stops(channel, sender.terms.pausable)
            self._metrics.channel_paused.labels(channel).set(is_paused)
            for provider in sender.terms.several:
                self._measure(channel, provider, paused=sender.is_paused(provider))

    def _measure(self, channel: str, provider: ProviderTerms, *, paused: bool) -> None:
        """Count what one of several providers has said, and show whether it may be called."""
        ready = provider.breaker.wait(self.epoch.clock.monotonic()) <= 0 and not paused
        self._metrics.provider_ready.labels(channel, provider.name).set(ready)
        provider.verdicts["accepted"] += provider.taken
        provider.taken = 0
        while provider.verdicts:
            verdict, count = provider.verdicts.popitem()
            self._metrics.provider_verdicts.labels(channel, provider.name, verdict).inc(count)


def _agree(state: LaneState, terms: Terms, config: Config) -> None:
    """Apply its channel's terms to a lane's claims."""
    state.resend = terms.resend
    state.provider = terms.parts[0].kind
    state.pausable = terms.pausable
    # After a fence its owner can go on for as long as a call.
    state.settle_seconds = terms.call_may_last_seconds
    state.object_cache.bytes_max = config.limits.objects_bytes_max


def _fingerprints(terms: Mapping[str, Terms], config: Config) -> dict[str, str]:
    return {channel: fingerprints.staged(term.fingerprint, config.staging) for channel, term in terms.items()}


def links_of(config: Config) -> Links | None:
    """Return the unsubscribe links; None where they are not configured."""
    return Links.of(config.unsubscribe.public_url, config.unsubscribe.secrets)


def _objects(database: Database) -> Objects:
    return Objects(
        lambda names: database.persist("object sizes", lambda: objects.sizes(database, names)),
        lambda names: database.persist("objects", lambda: objects.contents(database, names)),
        lambda endpoints: database.persist("endpoints", lambda: webhooks.targets(database, endpoints)),
        page,
    )


def _usable(sender: Sender, shares: Shares, clock: Clock) -> Callable[[], float]:
    def usable() -> float:
        now = clock.monotonic()
        share = shares.current(now)
        sender.terms.rates.share(now, share)
        return claimable(sender.terms, now, share, sender.is_paused)

    return usable


def _until_usable(sender: Sender, clock: Clock) -> Callable[[], float]:
    return lambda: until_usable(sender.terms, clock.monotonic())


async def _watch(task: "asyncio.Task[Any]") -> None:
    """Crash when a task does."""
    await asyncio.shield(task)
    raise RuntimeError("the flusher ended before the pipeline did")
