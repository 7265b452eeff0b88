"""The sender of one channel: slots, tokens, mark, call, verdict, for its lanes side by side."""

import asyncio
import random
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from channels.contract import Accepted, Channel, Envelope, Licence, NotCalled, Throttled, Unknown, Unready, Verdict
from dispatcher.base import fault_points
from dispatcher.base.errors import Fenced, PausesChanged
from dispatcher.config.settings import Channel as Settings
from dispatcher.config.settings import Retry
from dispatcher.db.database import PASSING_OR_CANCELLED
from dispatcher.engine.rules import retry
from dispatcher.engine.rules.life import Back, Lane, Lost, Outcome, Parked, Resend, Succeeded
from dispatcher.engine.rules.rates import Rates
from dispatcher.engine.slots import Slots
from dispatcher.engine.store import marks
from dispatcher.engine.streams import Epoch, LaneState, Rendered

log = structlog.get_logger(__name__)

# After a mark whose outcome is unknown: give Postgres this long before the next one.
TROUBLE_WAIT_SECONDS = 0.5
# Nothing was marked and the connection to the provider is missing: its deliveries come back after this.
UNREADY_WAIT_SECONDS = 5.0
# A lane gives way to a smaller one that waits for tokens too, but not for longer than this at a time.
LANE_PATIENCE_SECONDS = 1.0
TOKEN_WAIT_SECONDS = 0.001
# Marks of one lane beside each other: the next is asked for while Postgres writes the last. A small one waits for it
# instead, and takes along what comes until then.
MARKS_AT_ONCE = 4
MARK_BESIDE_MIN = 50


class Terms(Struct, eq=False):
    """What a reload may change while the sender runs. `calls` counts the calls under way on these terms."""

    channel: Channel
    settings: Settings
    retry: Retry
    rates: Rates
    licence_seconds: float
    # What replicas must have in common of it.
    fingerprint: str = ""
    calls: int = 0

    @property
    def resend(self) -> Resend:
        """Whether an unknown attempt may be sent again, and until how long after the first mark under its key."""
        # What is marked in time reaches its provider a licence and a call later at most: the key is known until then.
        usable = self.channel.idempotency_key_seconds - self.call_may_last_seconds
        keyed = self.channel.keyed_recipients
        if usable > 0:
            return Resend("key", None if usable == float("inf") else usable, keyed)
        return Resend("at_least_once" if self.settings.at_least_once else None, None, keyed)

    @property
    def call_may_last_seconds(self) -> float:
        """From the mark on: a call begins within its licence and ends within its time-out."""
        return self.licence_seconds + self.settings.call_seconds_max


class Sender:
    """Drives one channel. What it holds unmarked when `draining` is set goes back; what is marked is finished."""

    def __init__(
        self,
        name: str,
        terms: Terms,
        epoch: Epoch,
    ) -> None:
        self.name = name
        self.terms = terms
        self._epoch = epoch
        self._database = epoch.database
        self._inbox = epoch.inbox
        self._clock = epoch.clock
        self._metrics = epoch.metrics
        self._giving_up = anyio.CancelScope()
        # Lanes that wait for the provider's tokens, and when each lane last had some.
        self._queueing: set[Lane] = set()
        self._granted_at: dict[Lane, float] = {}
        # Marks under way in each lane, and an event that each sets as it ends.
        self._marking: dict[Lane, int] = dict.fromkeys(Lane, 0)
        self._marked = {lane: asyncio.Event() for lane in Lane}
        self.slots = Slots(terms.settings.marked_max)
        self.draining = asyncio.Event()

    async def run(self, lanes: Sequence[LaneState]) -> None:
        """Send until every lane has been closed and every call has ended."""
        with self._giving_up:
            async with anyio.create_task_group() as calls, anyio.create_task_group() as loops:
                for state in lanes:
                    loops.start_soon(self._lane, state, calls)

    def give_up(self) -> None:
        """Grace is over: calls under way are cut off, and unknown."""
        self._giving_up.cancel()

    async def _lane(self, state: LaneState, calls: TaskGroup) -> None:
        async with anyio.create_task_group() as marks:
            async for batch in state.pipe.receive:
                rest: Sequence[Rendered] = batch
                while rest and self._may_mark(self.terms):
                    rest = await self._mark_some(state, self._gather(state, rest), calls, marks)
                self._queueing.discard(state.lane)
                for one in rest:
                    self._inbox.put(one.item, Back(0.0, "draining or paused"))

    def _may_mark(self, terms: Terms) -> bool:
        """Whether anything may be marked now on these terms. Asked again after each wait."""
        ending = self.draining.is_set() or self._epoch.fenced.is_set() or self.name in self._epoch.blocked
        return not ending and not self._epoch.pauses().stops(self.name, terms.settings.provider)

    def _gather(self, state: LaneState, batch: Sequence[Rendered]) -> Sequence[Rendered]:
        """A batch with what came behind it: a mark of 20 costs as much as one of 200."""
        gathered = batch
        while len(gathered) < self.slots.total:
            try:
                gathered = [*gathered, *state.pipe.receive.receive_nowait()]
            except (anyio.WouldBlock, anyio.EndOfStream):
                break
        return gathered

    async def _mark_some(
        self, state: LaneState, batch: Sequence[Rendered], calls: TaskGroup, marks: TaskGroup
    ) -> Sequence[Rendered]:
        """Begin to mark as many of a batch as may go now; answers the rest."""
        under_way = self._marking[state.lane]
        if under_way >= MARKS_AT_ONCE or (under_way and len(batch) < MARK_BESIDE_MIN):
            self._marked[state.lane].clear()
            await self._marked[state.lane].wait()
            return batch
        await self._inbox.room()
        if not self._may_mark(self.terms):
            return batch
        granted = self.slots.take(state.lane, len(batch))
        if not granted:
            await self._or_draining(self.slots.freed(state.lane))
            return batch
        tokens = self._tokens(state.lane, granted)
        self.slots.give_back(state.lane, granted - tokens)
        if not tokens:
            self._queueing.add(state.lane)
            await self._or_draining(
                asyncio.sleep(max(self.terms.rates.wait(self._clock.monotonic()), TOKEN_WAIT_SECONDS))
            )
            return batch
        self._queueing.discard(state.lane)
        self._marking[state.lane] += 1
        marks.start_soon(self._begin, state, batch[:tokens], calls)
        return batch[tokens:]

    def _tokens(self, lane: Lane, wanted: int) -> int:
        """Tokens of the provider's bucket: the smaller lane first, but none waits for another for long."""
        now = self._clock.monotonic()
        patient = now - self._granted_at.get(lane, float("-inf")) < LANE_PATIENCE_SECONDS
        if patient and any(other < lane for other in self._queueing):
            return 0
        rates = self.terms.rates
        rates.share(now, self._epoch.shares.current(now))
        tokens = rates.take(now, wanted)
        if tokens:
            self._granted_at[lane] = now
        return tokens

    async def _or_draining(self, wait: Coroutine[Any, Any, None]) -> None:
        """Wait, but no longer than until the drain begins."""
        waits: set[asyncio.Task[Any]] = {asyncio.create_task(wait), asyncio.create_task(self.draining.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()

    async def _begin(self, state: LaneState, chosen: Sequence[Rendered], calls: TaskGroup) -> None:
        """Slots and tokens are taken: mark, and hand over what the mark gave."""
        chosen = self._not_parked(state, chosen)
        batch, late = self.terms.rates.admit(self._clock.monotonic(), chosen)
        for one, wait in late:
            self._settle(state, one, Back(wait, "rate limit"))
        batch = self._under_these_terms(state, batch)
        terms = self.terms
        # From here on a reload must not close the channel under our feet.
        terms.calls += 1
        try:
            if batch and await self._ready(state, batch, terms):
                await self._mark(state, self._not_parked(state, batch), terms, calls)
        finally:
            terms.calls -= 1
            self._marking[state.lane] -= 1
            self._marked[state.lane].set()

    async def _mark(self, state: LaneState, batch: Sequence[Rendered], terms: Terms, calls: TaskGroup) -> None:
        batch = self._newest(state, batch)
        if not batch:
            return
        pauses = self._epoch.pauses()
        try:
            if fault_points.ARMED:
                fault_points.passing("mark.asked")
            with self._metrics.mark_seconds.time():
                licence, attempts = await marks.mark(
                    self._database,
                    self._epoch.number,
                    [one.item for one in batch],
                    self._clock.boottime,
                    terms.licence_seconds,
                    lambda: self._epoch.pauses() is pauses and self.name not in self._epoch.blocked,
                )
        except PausesChanged:
            self.terms.rates.give_back(len(batch))
            self._put_back(state, batch, Back(0.0, "paused"))
            return
        except Fenced:
            self._epoch.fenced.set()
            self._put_back(state, batch, Back(0.0, "fenced"))
            await self.draining.wait()
            return
        except PASSING_OR_CANCELLED as trouble:
            # It may have been committed. Nothing was called, so the flush may undo it, whichever it was.
            self._put_back(state, batch, Back(0.0, "the mark's outcome is unknown"))
            if isinstance(trouble, asyncio.CancelledError):
                raise
            self._database.note_trouble("mark", trouble)
            await asyncio.sleep(TROUBLE_WAIT_SECONDS)
            return
        if fault_points.ARMED:
            fault_points.passing("mark.written")
        self._metrics.mark_size.observe(len(batch))
        marked: dict[int, Rendered] = {}
        envelopes: list[Envelope] = []
        for one in batch:
            attempt = attempts.get(one.item.id)
            if attempt is None:
                self._settle(state, one, Lost())
                continue
            marked[one.item.id] = one
            envelopes.append(_envelope(licence, one, attempt))
        if envelopes:
            terms.calls += 1
            calls.start_soon(self._call, state, terms, envelopes, marked)

    def _not_parked(self, state: LaneState, chosen: Sequence[Rendered]) -> Sequence[Rendered]:
        """Those that no pause of a tenant, workspace, template or run stops; the others are parked."""
        pauses = self._epoch.pauses()
        if not pauses.parks_some():
            return chosen
        running: list[Rendered] = []
        for one in chosen:
            pause = pauses.parks(one.item)
            if pause is None:
                running.append(one)
            else:
                self._settle(state, one, Parked(pause))
        self.terms.rates.give_back(len(chosen) - len(running))
        return running

    def _under_these_terms(self, state: LaneState, batch: Sequence[Rendered]) -> Sequence[Rendered]:
        """Those whose claims say of an unknown outcome what our terms say. Who recovers a claim goes by that: what was
        claimed before a reload changed it would be sent again by a key that its call never carried."""
        if all(one.item.token > state.promised_after for one in batch):
            return batch
        late = [one for one in batch if one.item.token <= state.promised_after]
        self.terms.rates.give_back(len(late))
        self._put_back(state, late, Back(0.0, "claimed under other terms"))
        return [one for one in batch if one.item.token > state.promised_after]

    def _newest(self, state: LaneState, batch: Sequence[Rendered]) -> Sequence[Rendered]:
        """Each delivery once. One that was moved while we had it may have come back to us by another claim: the mark of
        the later one would pass for the earlier one's too, and it would be called twice."""
        newest: dict[int, Rendered] = {}
        for one in batch:
            other = newest.get(one.item.id)
            if other is None:
                newest[one.item.id] = one
            else:
                earlier, later = sorted((other, one), key=lambda held: held.item.token)
                newest[one.item.id] = later
                self._settle(state, earlier, Lost())
        return batch if len(newest) == len(batch) else list(newest.values())

    async def _ready(self, state: LaneState, batch: Sequence[Rendered], terms: Terms) -> bool:
        """A connection comes before the mark: without one nothing is marked."""
        back = Back(UNREADY_WAIT_SECONDS, "no connection to the provider")
        try:
            async with asyncio.timeout(terms.settings.call_seconds_max):
                await terms.channel.prepare(len(batch))
            self._metrics.channel_ready.labels(self.name).set(1)
            # A reload meanwhile may have replaced the channel: others would not call the old one's provider any more.
            if self._may_mark(terms) and terms is self.terms:
                return True
            back = Back(0.0, "draining, paused or reloaded")
        except Unready as trouble:
            self._metrics.channel_ready.labels(self.name).set(0)
            log.warning("channel.unready", channel=self.name, reason=str(trouble))
        except OSError as trouble:  # a time-out is one
            self._metrics.channel_ready.labels(self.name).set(0)
            log.warning("channel.unready", channel=self.name, error=type(trouble).__name__)
        except Exception:
            # A channel's bug is its own, here as in the call.
            log.exception("channel.raised", channel=self.name)
        self.terms.rates.give_back(len(batch))
        self._put_back(state, batch, back)
        return False

    async def _call(
        self, state: LaneState, terms: Terms, envelopes: list[Envelope], marked: dict[int, Rendered]
    ) -> None:
        """Call the provider; whatever has no verdict when that ends is unknown."""
        report = partial(self._report, state, marked, terms)
        limit = terms.settings.call_seconds_max
        phase = "no verdict was given"
        try:
            with self._metrics.call_seconds(self.name).time():
                if fault_points.ARMED:
                    fault_points.passing("call.begun")
                async with asyncio.timeout(limit):
                    await terms.channel.deliver(envelopes, report)
                if fault_points.ARMED:
                    fault_points.passing("call.ended")
        except TimeoutError:
            phase = f"no answer within {limit:g} s"
        except asyncio.CancelledError:
            phase = "given up during the call"
            raise
        except Exception as bug:
            # A channel's bug is its own: what it had not reported is unknown, and the pipeline goes on.
            phase = f"the channel raised {type(bug).__name__}"
            log.exception("channel.raised", channel=self.name)
        finally:
            terms.calls -= 1
            for envelope in envelopes:
                if envelope.delivery_id in marked:
                    report(envelope, Unknown(phase))

    def _report(
        self, state: LaneState, marked: dict[int, Rendered], terms: Terms, envelope: Envelope, verdict: Verdict
    ) -> None:
        one = marked.pop(envelope.delivery_id, None)
        if one is None:
            log.error("channel.reported_twice", channel=self.name, delivery_id=envelope.delivery_id)
            return
        if type(verdict) is Accepted:
            self._settle(state, one, Succeeded(verdict.provider_message_id, verdict.data))
            return
        now = self._clock.monotonic()
        if type(verdict) is Throttled:
            self.terms.rates.close(now, retry.requested_seconds(verdict.seconds), verdict.domain)
        elif type(verdict) is NotCalled:
            self.terms.rates.give_back(1)
        used = one.item.used + 1
        policy = terms.retry
        spread = random.uniform(0, policy.jitter) if policy.jitter else 0.0  # noqa: S311 - spreads retries, hides nothing
        wait = retry.wait_seconds(used, policy.base_seconds, policy.cap_seconds, spread)
        item = one.item
        self._settle(state, one, retry.decide(verdict, used, item.max_attempts, wait, terms.resend, item.recipient))

    def _put_back(self, state: LaneState, batch: Sequence[Rendered], back: Back) -> None:
        for one in batch:
            self._settle(state, one, back)

    def _settle(self, state: LaneState, one: Rendered, outcome: Outcome) -> None:
        state.slotted.add((one.item.id, one.item.token))
        self._inbox.put(one.item, outcome)
        if fault_points.ARMED:
            fault_points.passing("result.put")


def _envelope(licence: Licence, one: Rendered, attempt: int) -> Envelope:
    item = one.item
    return Envelope(
        licence,
        item.id,
        item.tenant_id,
        item.workspace_id,
        item.idempotency_key,
        item.channel,
        item.recipient,
        one.parts,
        one.options,
        attempt,
        item.dated,
    )
