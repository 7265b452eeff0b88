"""The composition root: one process, from its configuration to its last flush."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import anyio
import structlog
from msgspec import structs

from dispatcher.alerts import SentryAlerts, SlackAlerts
from dispatcher.base.clock import Clock
from dispatcher.base.errors import ConfigError
from dispatcher.base.health import Health
from dispatcher.base.loop_watch import LoopWatch
from dispatcher.base.metrics import Metrics
from dispatcher.channel_opener import ChannelOpener
from dispatcher.config import fingerprints, logs
from dispatcher.config.settings import Config, Limits
from dispatcher.console.routes import Console
from dispatcher.db import cells, embedded, pooler, tenants
from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.db.schema import migrator
from dispatcher.endpoints import ENDPOINTS
from dispatcher.engine.claimer import Timing
from dispatcher.engine.janitor import Janitor
from dispatcher.engine.pauses import PauseReader
from dispatcher.engine.providers.terms import Terms
from dispatcher.engine.recoverer import Recoverer
from dispatcher.engine.store import backlog
from dispatcher.engine.streams import Epoch, Precedence, unless
from dispatcher.engine.supervisor import Supervisor
from dispatcher.engine.tracing.opening import Tracing, open_tracing
from dispatcher.engine.wakeup import Wakeup
from dispatcher.features.caps.worker import CapReader
from dispatcher.features.overview.worker import Sampler
from dispatcher.features.receipts.endpoints import ReceiptContext, receipt_handlers
from dispatcher.features.receipts.providers.providers import configured_providers
from dispatcher.features.receipts.providers.request import Providers
from dispatcher.features.runs.trigger_batches import TriggerBatches
from dispatcher.features.suppressions.unsubscribe_endpoints import unsubscribe_routes
from dispatcher.gauges import Gauges
from dispatcher.http.server.listener import Listener, application
from dispatcher.http.server.routes import ApiRoutes
from dispatcher.liquid.render_limits import EVENT_LOOP_LIMITS
from dispatcher.liquid.template import Bounds
from dispatcher.liquid.template import Renderer as Templates
from dispatcher.pipeline import Pipeline, links_of
from dispatcher.reload import diff, merge
from dispatcher.workers import CHORES, Workers, identity

log = structlog.get_logger(__name__)

# A walk is one short transaction; with Postgres away it is left to recovery.
WALK_SECONDS_MAX = 2.0
KILLED = 128 + signal.SIGTERM
# One request to end may come as two signals: `timeout` and shells send theirs to a process and to its whole group.
ECHO_SECONDS = 0.25


def _templates(limits: Limits) -> Templates:
    return Templates(Bounds.of(limits), EVENT_LOOP_LIMITS)


class App:
    """A dispatcher process. `read` reads the configuration again, for SIGHUP."""

    def __init__(
        self, config: Config, read: Callable[[], Config], run_migrations: migrator.Migrate | None = None
    ) -> None:
        self.config = config
        self._read = read
        self._run_migrations = run_migrations
        self._clock = Clock()
        self.metrics = Metrics()
        self.health = Health(self._clock.monotonic, self._clock.monotonic(), self._yielded, len(config.channels))
        if config.cell.number:
            self.health.cell = config.cell.number
            self.metrics.cell.labels(str(config.cell.number)).set(1)
        self.pipeline: Pipeline | None = None
        self._loop_watch = LoopWatch()
        self._precedence = Precedence()
        self._stopping = asyncio.Event()
        self._stopped_at = 0.0
        self._templates = _templates(config.limits)
        self._terms: dict[str, Terms] = {}
        self._janitor: Janitor | None = None
        self._recoverer: Recoverer | None = None
        self._workers: Workers | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._tracing: Tracing | None = None
        self._supervisor = Supervisor(config.supervisor, self._clock, self.metrics)
        self._alerts = SlackAlerts(
            config.alerts, config.instance.name, lambda: self.health.database_away_since, self._clock, self.metrics
        )
        self._sentry = SentryAlerts(config.alerts, config.instance.name, self._clock, self.metrics)
        self._links = links_of(config)
        self._receipt_providers = _receipt_providers(config)
        context = ReceiptContext(lambda: self._receipt_providers, lambda: self.database, identity, self.metrics)
        triggers = TriggerBatches(lambda: self.callers)
        interface = ApiRoutes(
            ENDPOINTS,
            lambda: self.config,
            lambda: self.callers,
            backlog.ages,
            triggers.start,
            self._is_busy,
            Sampler(lambda: self.callers, lambda: self.config).system,
        )
        self.console = Console(interface.serving, lambda: self.config)
        pages = [
            *unsubscribe_routes(lambda: self._links, lambda: self.database),
            *receipt_handlers(context),
            *interface.handlers(),
            *self.console.handlers(),
        ]
        routes = application(self.health, self.metrics.registry, self.measure, pages, config.api.allow_origins)
        self.listener = Listener(routes, config.http, lambda: bool(self.health.staging), self.metrics.answered)
        self._tell_staging()
        self.url = self.direct_url = ""
        self.database: Database
        # The pool of API requests, so that they cannot exhaust the dispatcher's own.
        self.callers: Database

    def _is_busy(self) -> bool:
        return self.pipeline is not None and self.pipeline.is_pressed()

    async def serve(self) -> None:
        """Run until a signal stops the process; return when everything in flight is settled."""
        async with self._sentry.collecting(), self._alerts.collecting():
            # Before anything else: where another process has our address, none of our rows is to say that we are here.
            if self.config.http.enabled:
                self.listener.bind()
            try:
                await self._serve()
            finally:
                self.listener.release()

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        self.url, server = await asyncio.to_thread(embedded.start_unless_configured, self.config.database)
        self.direct_url = pooler.url_of(self.config.database, self.url)
        self.database = Database(self.config.database, self.url)
        self.callers = Database(self.config.api_database, self.url)
        await self.database.open()
        await self.callers.open()
        self._tracing = open_tracing(self.config, self._clock, self.metrics)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._tick)
                if self.config.http.enabled:
                    group.start_soon(self._supervisor.supervise, "listener", self.listener.run)
                if await self._unless_stopped(self._prepare()):
                    await self._work()
                group.cancel_scope.cancel()
        finally:
            for terms in self._terms.values():
                for part in terms.parts:
                    await part.channel.close()
            if self._tracing is not None:
                await asyncio.to_thread(self._tracing.close)
            await self.callers.close()
            await self.database.close()
            if server is not None:
                await asyncio.to_thread(server.cleanup)
        log.info("process.stopped")

    async def _prepare(self) -> None:
        """Wait for a safe database with our schema, then open the channels."""
        self.health.state = "waiting for the database"
        if (run := self._run_migrations) is not None:
            for migration in await self.database.persist("migrate", lambda: run(self.direct_url)):
                log.info("schema.migrated", version=migration.version, name=migration.name)
        await self.database.require_safety()
        await self.database.persist("schema", self._require_schema)
        self.database.failover.moved = self._moved
        await self.database.persist("failover", self.database.watch)
        await self.database.persist("listen", lambda: pooler.require(self.config.database, self.database))
        for name, settings in self.config.channels.items():
            self._terms[name] = self._opener().open(name, settings)

    async def _require_schema(self) -> None:
        async with self.database.connection() as connection:
            await migrator.require(connection)
            await tenants.require(connection)
            await cells.join(connection, self.config.cell)

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run some work; False where we were told to stop before its end."""
        await unless(self._stopping, work)
        return not self._stopping.is_set()

    async def _work(self) -> None:
        """Run the parts; when the pipeline has drained, the others stop."""
        heartbeat = self.config.instance.heartbeat_seconds
        controls = PauseReader(self.database, CapReader(self.database, self.metrics))
        # Pauses and caps are known before the first claim.
        await self.database.persist("controls", controls.run_once)
        wakeup = Wakeup(self.direct_url, self.config.database.connect_seconds_max, controls.changed)
        self._recoverer = Recoverer(
            self.database, heartbeat, fingerprints.of_config(self.config), self._current, self._clock, self.metrics
        )
        self._janitor = Janitor(
            self.database, self.config.janitor, self._current, self.metrics, (*CHORES, Gauges(self.metrics))
        )
        self._instruct_janitor()
        workers = self._workers = Workers(
            self.database, self.config, self._epoch_number, self._clock, self.metrics, wakeup, self._precedence
        )
        # So are the quiet hours.
        await self.database.persist("quiet hours", workers.quiet_hours.run_once)
        parts = {
            "wakeup": wakeup.run,
            "controls": controls.run,
            "recoverer": self._recoverer.run,
            "janitor": self._janitor.run,
            **workers.runs,
        }
        async with anyio.create_task_group() as group:
            group.start_soon(self._loop_watch.run)
            for name, run in parts.items():
                group.start_soon(self._supervisor.supervise, name, run)
            await self._supervisor.supervise("pipeline", lambda: self._epoch(wakeup, controls, workers.quiet_hours))
            # A walk under way ends by itself: cut off, it would count as its runs' fault.
            with anyio.move_on_after(WALK_SECONDS_MAX):
                await workers.walker.ended.wait()
            group.cancel_scope.cancel()

    async def _epoch(self, wakeup: Wakeup, controls: PauseReader, timing: Timing) -> None:
        # The server may have been exchanged since the last epoch: see it before this one joins.
        if not await self._unless_stopped(self.database.persist("failover", self.database.check_cluster)):
            return
        given = self.config, self.database, self._terms, lambda: self._templates
        traces = None if self._tracing is None else self._tracing.traces()
        self.pipeline = Pipeline(
            *given,
            wakeup.woken,
            controls,
            self.metrics,
            walking=wakeup.walking,
            precedence=self._precedence,
            traces=traces,
        )
        for claimer in self.pipeline.claimers:
            claimer.timing = timing
        self.health.pipeline_up = True
        try:
            await self.pipeline.run()
        finally:
            self.health.pipeline_up = False
            self.health.state = "the pipeline is starting again"

    def _moved(self) -> None:
        """Fence the epoch: we are on another server, and it knows the old one."""
        if self.pipeline is not None:
            self.pipeline.epoch.fenced.set()

    def _current(self) -> Epoch | None:
        return self.pipeline.epoch if self.pipeline is not None and self.health.pipeline_up else None

    def _yielded(self) -> Mapping[str, str]:
        return self.pipeline.agreement.yielded if self.pipeline is not None and self.health.pipeline_up else {}

    def _epoch_number(self) -> int | None:
        current = self._current()
        joined = self.pipeline is not None and self.pipeline.joined
        return current.number if current is not None and joined and not current.fenced.is_set() else None

    def _opener(self) -> ChannelOpener:
        return ChannelOpener(self.config, self.database.connection, self._clock)

    async def _tick(self) -> None:
        while True:
            self.health.tick()
            self.health.database_away_since = self.database.away_since
            await asyncio.sleep(until_poll(self.health.TICK_SECONDS))

    def measure(self) -> None:
        """Bring the gauges up to date."""
        if self.pipeline is not None:
            self.pipeline.measure()
        since = self.health.database_away_since
        self.metrics.database_away.set(0 if since is None else self._clock.monotonic() - since)
        self.metrics.loop_hold.set(self._loop_watch.longest_seconds())
        self.metrics.ready.set(not self.health.unready())

    def stop(self) -> None:
        """Drain, the first time. The second time exit at once, which loses nothing: others recover it."""
        now = self._clock.monotonic()
        if self._stopping.is_set():
            if now - self._stopped_at < ECHO_SECONDS:
                return
            log.warning("process.killed")
            os._exit(KILLED)
        log.info("process.draining", grace_seconds=self.config.instance.grace_seconds)
        self._stopping.set()
        self._stopped_at = now
        self.health.draining = True
        if self._workers is not None:
            self._workers.walker.stop()
        if self.pipeline is not None:
            self.pipeline.draining.set()

    def reload(self) -> None:
        """Read the configuration again and apply what may change; a faulty configuration changes nothing."""
        try:
            new = self._read()
        except ConfigError as refused:
            self.metrics.reloads.labels("refused").inc()
            log.error("config.refused", faults=[str(fault) for fault in refused.faults])  # noqa: TRY400 - faults suffice
            return
        changes = diff(self.config, new)
        old, self.config = self.config, merge(self.config, new)
        self._apply(old)
        self._tell_staging()
        self.metrics.reloads.labels("applied").inc()
        log.info("config.reloaded", applied=changes.applied, needs_restart=changes.needs_restart)

    def _tell_staging(self) -> None:
        """Tell everybody where only chosen recipients get messages."""
        self.health.staging = self.config.staging.words
        if self.health.staging:
            log.warning("staging.enabled", meaning=self.health.staging)

    def _apply(self, old: Config) -> None:
        config = self.config
        logs.set_level(config.log.level)
        self._alerts.adopt(config.alerts)
        self._sentry.adopt(config.alerts)
        if config.limits != old.limits:
            self._templates = _templates(config.limits)
        self._links = links_of(config)
        self._receipt_providers = _receipt_providers(config)
        for name in self._terms:
            self._apply_channel(name, old)
        self._instruct_janitor()
        if self._workers is not None:
            self._workers.adopt(config)
        if self._recoverer is not None:
            self._recoverer.config_hash = fingerprints.of_config(config)
        if self.pipeline is not None:
            self.pipeline.adopt(config, self._terms)

    def _instruct_janitor(self) -> None:
        if self._janitor is not None:
            self._janitor.settings = self.config.janitor
            self._janitor.channels = tuple(self.config.channels)
            timeouts = {name: channel.held_timeout_seconds for name, channel in self.config.channels.items()}
            self._janitor.held_timeouts = {name: seconds for name, seconds in timeouts.items() if seconds}

    def _apply_channel(self, name: str, old: Config) -> None:
        terms = self._terms[name]
        self._terms[name] = self._opener().reopen(name, terms, old)
        kept = self._terms[name].parts
        for part in terms.parts:
            if not any(part is one for one in kept):
                self._retire(part)

    def _retire(self, terms: Terms) -> None:
        """Close a channel that was replaced, once its last call has ended."""

        async def close() -> None:
            while terms.calls:  # noqa: ASYNC110 - once in a reload: an event a call would cost every call
                await asyncio.sleep(self.health.TICK_SECONDS)
            await terms.channel.close()

        task = asyncio.create_task(close())
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _receipt_providers(config: Config) -> Providers:
    said = structs.asdict(config.receipts)
    try:
        return configured_providers(**said)
    except ValueError as fault:
        log.error("receipts.certificate_unusable", why=str(fault))  # noqa: TRY400 - the fault is the story
        return configured_providers(**(said | {"ses_topics": "", "ses_certificates": ""}))
