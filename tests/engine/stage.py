"""A stage: one epoch's pipeline in this process, on a real database, with channels that the test speaks for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

from msgspec.structs import replace

from channels.contract import Accepted, Envelope, Report, Verdict
from channels.shared.breaker import Breaker
from dispatcher.base.metrics import Metrics
from dispatcher.config import fingerprints
from dispatcher.config.settings import Channel, Config, Flush, Instance
from dispatcher.db.health import checks
from dispatcher.engine.pauses import PauseReader
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules.life import Claimed, Lane
from dispatcher.engine.rules.rates import Rates
from dispatcher.engine.store import instances
from dispatcher.engine.streams import Precedence, Wakes
from dispatcher.engine.tracing.traces import Traces
from dispatcher.features.deliveries.store import New, insert
from dispatcher.liquid.render_limits import EVENT_LOOP_LIMITS
from dispatcher.liquid.template import Bounds
from dispatcher.liquid.template import Renderer as Templates
from dispatcher.pipeline import Pipeline
from tests.engine.troubled import Troubled
from tests.support.waits import until

_numbers = count(1)
SECONDS_MAX = 10.0

# Time-outs are long where a test must not meet them, and short where it waits for them.
INSTANCE = Instance(name="stage", heartbeat_seconds=1.0, lease_seconds=30.0, licence_seconds=20.0, grace_seconds=20.0)
CONFIG = Config(instance=INSTANCE, flush=Flush(linger_seconds=0.0), channels={"sms": Channel()})

Answer = Callable[[Envelope], Verdict | None]


def accepted(envelope: Envelope) -> Verdict:
    """The answer of a provider that is well."""
    return Accepted(f"p-{envelope.delivery_id}")


class Script:
    """A channel whose provider is the test: `answer` gives verdicts (None: it never says), `holds` keeps envelopes
    until `gate` is open."""

    idempotency_key_seconds = 0.0
    keyed_recipients: frozenset[str] = frozenset()

    def __init__(self, answer: Answer = accepted) -> None:
        self.answer = answer
        self.given: list[Envelope] = []
        self.holds: Callable[[Envelope], bool] = lambda _: False
        self.gate = asyncio.Event()
        self.ready = asyncio.Event()
        self.ready.set()
        # Envelopes for which a connection was asked for, and how often that is under way.
        self.prepared = 0
        self.preparing = 0
        self.unready: Exception | None = None

    async def prepare(self, count: int) -> None:
        self.prepared += count
        self.preparing += 1
        await self.ready.wait()
        self.preparing -= 1
        if self.unready is not None:
            raise self.unready

    async def deliver(self, batch: Sequence[Envelope], report: Report) -> None:
        self.given += batch
        later = [envelope for envelope in batch if self.holds(envelope)]
        held = {envelope.delivery_id for envelope in later}
        self._report([envelope for envelope in batch if envelope.delivery_id not in held], report)
        if later:
            await self.gate.wait()
            self._report(later, report)

    def _report(self, batch: Sequence[Envelope], report: Report) -> None:
        for envelope in batch:
            verdict = self.answer(envelope)
            if verdict is not None:
                report(envelope, verdict)

    async def close(self) -> None:
        """There is nothing to let go."""

    def ids(self) -> list[int]:
        """The deliveries that it was given, in that order; one that came twice stands there twice."""
        return [envelope.delivery_id for envelope in self.given]


class Stage:
    """A pipeline that is not running yet; `playing` runs it, and drains it at the end."""

    def __init__(
        self, database: Troubled, config: Config = CONFIG, scripts: Mapping[str, Script] | None = None
    ) -> None:
        self.database = database
        self.config = config
        self.scripts = dict(scripts or {}) or {
            name: Script() for key, settings in config.channels.items() for name in settings.providers or (key,)
        }
        self.controls = PauseReader(database)
        self.woken = Wakes()
        self.walking = asyncio.Event()
        self.precedence = Precedence()
        self.metrics = Metrics()
        limits = config.limits
        self.templates = Templates(Bounds.of(limits), EVENT_LOOP_LIMITS)
        self.terms = {name: self.opened(name, settings) for name, settings in config.channels.items()}
        self.running: asyncio.Task[None] | None = None
        self.pipeline = self.fresh()

    def opened(self, name: str, settings: Channel) -> Terms:
        """The terms of a channel, with the scripts of its providers by their names."""
        now = asyncio.get_running_loop().time()
        common = settings, self.config.retry
        licence = self.config.instance.licence_seconds
        several = tuple(
            ProviderTerms(
                self.scripts[key],
                *common,
                Rates(now, one.rate_per_second, one.rate_burst, 0.0, 0.0),
                licence,
                name=key,
                breaker=Breaker(one.breaker_failures, one.breaker_seconds),
            )
            for key, one in settings.providers.items()
        )
        channel = several[0].channel if several else self.scripts[name]
        return Terms(channel, *common, _rates(now, settings), licence, several=several)

    @property
    def sms(self) -> Script:
        """The channel that most tests have."""
        return self.scripts["sms"]

    def fresh(self, traces: Traces | None = None) -> Pipeline:
        """Another epoch, as the one after a crash."""
        self.pipeline = Pipeline(
            self.config,
            self.database,
            self.terms,
            lambda: self.templates,
            self.woken,
            self.controls,
            self.metrics,
            walking=self.walking,
            precedence=self.precedence,
            traces=traces,
        )
        self.database.belongings.append(partial(_close, self.pipeline))
        return self.pipeline

    async def join(self) -> None:
        """Make the epoch durable, for tests that call `run_once` themselves."""
        beat = instances.Beat(self.pipeline.epoch.number, 0, 30.0, "stage", fingerprints.of_config(self.config))
        await instances.join(self.database, beat, "0")

    @asynccontextmanager
    async def playing(self) -> AsyncIterator["asyncio.Task[None]"]:
        """Run the pipeline; afterwards drain it, with every gate open, unless the test has seen to its end."""
        task = self.running = asyncio.create_task(self.pipeline.run())
        await until(lambda: task.done() or self.database.count("instances.join"), "the epoch has begun")
        try:
            yield task
        finally:
            for script in self.scripts.values():
                script.gate.set()
                script.ready.set()
            if not task.done():
                self.pipeline.draining.set()
                await task

    async def write(self, number: int = 1, body: str = "hello", channel: str = "sms", **fields: Any) -> list[int]:
        """Deliveries that are due, each with a key of its own, and the wake-up that follows an insert."""
        batch = [_new(channel, body, fields) for _ in range(number)]
        written = [one.id for one in await insert(self.database, batch)]
        self.woken.set()
        return written

    async def lives(self, ids: Sequence[int]) -> list[str]:
        """Where they stand, in the order of the ids."""
        rows = await self.database.fetch(
            "SELECT life FROM dispatcher.delivery_life WHERE id = ANY ($1) ORDER BY id", ids
        )
        return [row["life"] for row in rows]

    async def row(self, delivery_id: int) -> Any:
        """The state row."""
        return (await self.database.fetch("SELECT * FROM dispatcher.delivery_state WHERE id = $1", delivery_id))[0]

    async def until_all(self, ids: Sequence[int], life: str) -> None:
        """Wait until every one of these stands there."""

        async def there() -> bool:
            if self.running is not None and self.running.done():
                self.running.result()
            return set(await self.lives(ids)) == {life}

        await until(there, f"all are {life}", SECONDS_MAX)

    async def sent_once(self, ids: Sequence[int], channel: str = "sms") -> None:
        """Wait until all are sent, and see that each was given to the provider once and that nothing is wrong."""
        await self.until_all(ids, "sent")
        assert sorted(self.scripts[channel].ids()) == sorted(ids)
        await self.sound()

    async def sound(self) -> None:
        """No invariant is broken."""
        assert [found for name in checks.invariants() if (found := await checks.check(self.database, name))] == []

    async def until_empty(self) -> None:
        """Wait until nothing is under way: no room, slot, token or result is accounted for any more."""
        await until(lambda: self.accounts() == (0, 0, 0, 0), "the accounts are even", SECONDS_MAX)

    def accounts(self) -> tuple[int, int, int, int]:
        """Room in use, slots in use, open tokens, results not written."""
        pipeline = self.pipeline
        return (
            sum(state.outstanding for state in pipeline.lanes),
            sum(sum(sender.slots.used.values()) for sender in pipeline.senders.values()),
            len(pipeline.epoch.tokens.open),
            len(pipeline.inbox.waiting) + pipeline.inbox.flushing,
        )


def channel(**settings: Any) -> Config:
    """One channel with these settings."""
    return replace(CONFIG, channels={"sms": Channel(**settings)})


def claimed(number: int, token: int = 1, lane: Lane = Lane.NORMAL, **fields: Any) -> Claimed:
    """A claimed delivery that no database knows."""
    given: dict[str, Any] = {"template": '{"body": "x"}', "recipient": "+4917012345", "tenant_id": "default"} | fields
    return Claimed(
        id=number,
        workspace_id="default",
        idempotency_key=f"key-{number}",
        variables=given.pop("variables", "{}"),
        options=given.pop("options", "{}"),
        used=0,
        max_attempts=5,
        template_name=None,
        run_id=None,
        campaign_run_id=given.pop("campaign_run_id", None),
        sequence_id=given.pop("sequence_id", None),
        topic=given.pop("topic", None),
        watched=False,
        expired=given.pop("expired", False),
        dated=0,
        bound_to=given.pop("bound_to", None),
        passed_by=given.pop("passed_by", None),
        expires_at=given.pop("expires_at", 0.0),
        traceparent=given.pop("traceparent", None),
        token=token,
        channel=given.pop("channel", "sms"),
        lane=lane,
        **given,
    )


def _new(channel: str, body: str, fields: Mapping[str, Any]) -> New:
    template = f'{{"body": "{body}"}}'
    given: dict[str, Any] = {"recipient": "+4917012345", "template": template} | dict(fields)
    return New(idempotency_key=f"stage-{next(_numbers)}", channel=channel, **given)


def _close(pipeline: Pipeline) -> None:
    """Streams that nobody reads to their end any more."""
    for pipe in (pipeline._claimed, *(state.pipe for state in pipeline.lanes)):
        pipe.send.close()
        pipe.receive.close()


def _rates(now: float, settings: Channel) -> Rates:
    limits = settings.rate_per_second, settings.rate_burst
    return Rates(now, *limits, settings.tenant_rate_per_second, settings.domain_rate_per_second)
