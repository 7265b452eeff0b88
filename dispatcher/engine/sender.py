"""The sender of one channel: slots, tokens, mark, call and verdict for each of its lanes."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup

from channels.contract import Accepted, Envelope, Licence, NotCalled, Report, Throttled, Unknown, Unready, Verdict
from dispatcher.base import fault_points
from dispatcher.base.errors import Fenced, PausesChanged
from dispatcher.db.database import PASSING_OR_CANCELLED
from dispatcher.engine.providers.batches import claimed_behind, newest, unstopped
from dispatcher.engine.providers.choice import next_is_ready
from dispatcher.engine.providers.groups import Group, providers, together
from dispatcher.engine.providers.sharing import STOPPED, Shared, Turn, share_out
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules import retry
from dispatcher.engine.rules.lane_turns import Turns
from dispatcher.engine.rules.life import Back, Lane, Lost, Outcome, Skipped, Succeeded
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.engine.rules.staging import REASON, Staging
from dispatcher.engine.slots import Slots
from dispatcher.engine.store import marks
from dispatcher.engine.streams import Epoch, LaneState, Rendered, unless

log = structlog.get_logger(__name__)

# After a mark whose outcome is unknown, Postgres gets this long before the next mark.
TROUBLE_WAIT_SECONDS = 0.5
# Nothing was marked and the connection to the provider is missing: its deliveries come back after this.
UNREADY_WAIT_SECONDS = 5.0
TOKEN_WAIT_SECONDS = 0.001
# Concurrent marks of one lane: the next is asked for while Postgres writes the last. A small mark waits for it instead,
# and takes along what comes until then.
MARKS_AT_ONCE = 4
MARK_BESIDE_MIN = 50


class Sender:
    """Drives one channel. Once `draining` is set, unmarked deliveries go back, and marked ones are finished."""

    def __init__(self, name: str, terms: Terms, epoch: Epoch) -> None:
        self.name = name
        self.terms = terms
        # Only chosen recipients get messages; None: everybody does.
        self.staging: Staging | None = None
        self._epoch = epoch
        self._database = epoch.database
        self._inbox = epoch.inbox
        self._clock = epoch.clock
        self._metrics = epoch.metrics
        self._giving_up = anyio.CancelScope()
        self.turns = Turns()
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
                self.turns.leave(state.lane)
                for one in rest:
                    self._inbox.put(one.item, Back(0.0, "draining or paused"))

    def _may_mark(self, terms: Terms) -> bool:
        """Return whether deliveries may be marked now on these terms. Asked again after each wait."""
        ending = self.draining.is_set() or self._epoch.fenced.is_set() or self.name in self._epoch.blocked
        return not ending and not self._epoch.pauses().stops(self.name, terms.pausable)

    def _gather(self, state: LaneState, batch: Sequence[Rendered]) -> Sequence[Rendered]:
        """Return a batch with those that came behind it: a mark of 20 costs as much as one of 200."""
        with suppress(anyio.WouldBlock, anyio.EndOfStream):
            while len(batch) < self.slots.total:
                batch = [*batch, *state.pipe.receive.receive_nowait()]
        return batch

    async def _mark_some(
        self, state: LaneState, batch: Sequence[Rendered], calls: TaskGroup, marks: TaskGroup
    ) -> Sequence[Rendered]:
        """Begin to mark as many of a batch as may go now; return the rest."""
        under_way = self._marking[state.lane]
        if under_way >= MARKS_AT_ONCE or (under_way and len(batch) < MARK_BESIDE_MIN):
            self._marked[state.lane].clear()
            await self._marked[state.lane].wait()
            return batch
        await self._epoch.precedence.give(state.lane)
        await self._inbox.room()
        if not self._may_mark(self.terms):
            return batch
        granted = self.slots.take(state.lane, self._epoch.precedence.portion(len(batch), state.lane))
        if not granted:
            await unless(self.draining, self.slots.freed(state.lane))
            return batch
        rates, (now, share) = self.terms.rates, self.now_and_share()
        rates.share(now, share)
        tokens = self.turns.take(state.lane, granted, rates, now)
        self.slots.give_back(state.lane, granted - tokens)
        if not tokens:
            await unless(self.draining, asyncio.sleep(max(rates.wait(now), TOKEN_WAIT_SECONDS)))
            return batch
        self._marking[state.lane] += 1
        marks.start_soon(self._begin, state, batch[:tokens], calls)
        return batch[tokens:]

    async def _begin(self, state: LaneState, chosen: Sequence[Rendered], calls: TaskGroup) -> None:
        """Mark deliveries for which slots and tokens are taken, and call for those that the mark gave."""
        chosen = self.not_parked(state, chosen)
        batch, late = self.terms.rates.admit(self._clock.monotonic(), chosen, self._epoch.pauses().campaign_limits)
        for one, wait in late:
            self._settle(state, one, Back(wait, "rate limit"))
        batch, early = claimed_behind(batch, state.promised_after)
        self.uncalled(state, early, Back(0.0, "claimed under other terms"))
        batch, older = newest(batch)
        self._settle_all(state, older, Lost())
        terms = self.terms
        turn = Turn(partial(self._mark_ended, state))
        # From here on a reload must not close the channel under our feet.
        terms.calls += 1
        try:
            if terms.several:
                await share_out(self, Shared(state, terms, calls, turn), batch)
            elif batch and (back := await self.unready(batch, terms)) is not None:
                self.uncalled(state, batch, back)
            elif batch:
                await self.mark(state, [Group(terms, self.not_parked(state, batch))], calls)
        finally:
            terms.calls -= 1
            turn.end()

    def _mark_ended(self, state: LaneState) -> None:
        self._marking[state.lane] -= 1
        self._marked[state.lane].set()

    def now_and_share(self) -> tuple[float, float]:
        """Return the time, and our share of the limits."""
        now = self._clock.monotonic()
        return now, self._epoch.shares.current(now)

    def is_paused(self, provider: ProviderTerms) -> bool:
        """Return whether one of several providers is paused."""
        return self._epoch.pauses().stops(self.name, provider.pausable)

    async def mark(self, state: LaneState, groups: Sequence[Group], calls: TaskGroup) -> None:
        """Mark the deliveries of groups, and begin the calls for those that the mark gave."""
        staging = self.staging
        if staging is not None:
            groups = [self._staged(state, group, staging) for group in groups]
        groups = [group for group in groups if group.batch]
        if not groups:
            return
        began = self._clock.monotonic()
        marked = await self._ask_for_mark(state, groups, staging)
        if marked is None:
            return
        self._metrics.mark_size.observe(sum(len(group.batch) for group in groups))
        for group in groups:
            envelopes, given, left = group.marked(*marked)
            if left:
                # Not ours any more, or over a limit of their recipients.
                self.uncalled(state, left, Lost(), group.terms)
            if envelopes:
                group.terms.calls += 1
                report = partial(self._report, state, given, group.terms)
                traced = self._traced(report, group.terms, envelopes, began)
                calls.start_soon(self._call, group.terms, traced, envelopes, given)

    async def _ask_for_mark(
        self, state: LaneState, groups: Sequence[Group], staging: Staging | None
    ) -> tuple[Licence, dict[int, int]] | None:
        """Return the licence and the attempts of those that were marked; settle all where nothing may be called."""
        pauses, batch = self._epoch.pauses(), together(groups)
        items = [one.item for one in batch]
        try:
            if fault_points.ARMED:
                fault_points.passing("mark.asked")
            with self._metrics.mark_seconds.time():
                marked = await marks.mark(
                    self._database,
                    self._epoch.number,
                    items,
                    self._clock.boottime,
                    groups[0].terms.licence_seconds,
                    providers(groups),
                    lambda: self._may_go(pauses, staging),
                    limited=self._epoch.limited(items),
                )
        except PausesChanged:
            for group in groups:
                self.uncalled(state, group.batch, Back(0.0, "paused"), group.terms)
            return None
        except Fenced:
            self._epoch.fenced.set()
            self._settle_all(state, batch, Back(0.0, "fenced"))
            await self.draining.wait()
            return None
        except PASSING_OR_CANCELLED as trouble:
            # It may have been committed. Nothing was called, so the flush may undo it in either case.
            self._settle_all(state, batch, Back(0.0, "the mark's outcome is unknown"))
            if isinstance(trouble, asyncio.CancelledError):
                raise
            self._database.note_trouble("mark", trouble)
            await asyncio.sleep(TROUBLE_WAIT_SECONDS)
            return None
        if fault_points.ARMED:
            fault_points.passing("mark.written")
        return marked

    def _staged(self, state: LaneState, group: Group, staging: Staging) -> Group:
        """Return what goes out in staging: the last look at where a message goes."""
        staged, barred = group.staged(staging)
        self.uncalled(state, barred, Skipped(REASON), group.terms)
        return staged

    def _may_go(self, pauses: Pauses, staging: Staging | None) -> bool:
        """Return whether what was decided before the wait for a connection still holds."""
        return self._epoch.pauses() is pauses and self.staging is staging and self.name not in self._epoch.blocked

    def not_parked(self, state: LaneState, chosen: Sequence[Rendered]) -> Sequence[Rendered]:
        """Return those that no pause of a tenant, workspace, template or run stops; park the others."""
        running, stopped = unstopped(chosen, self._epoch.pauses())
        for one, outcome in stopped:
            self.uncalled(state, [one], outcome)
        return running

    def goes_on(self, terms: Terms) -> bool:
        """Return whether deliveries may be marked on these terms, and a reload has not replaced the channel meanwhile:
        others would not call the old provider any more."""
        return self._may_mark(terms) and any(terms is part for part in self.terms.parts)

    async def unready(self, batch: Sequence[Rendered], terms: Terms) -> Back | None:
        """Return None where a connection is ready; without it nothing is marked."""
        try:
            async with asyncio.timeout(terms.connect_seconds_max):
                await terms.channel.prepare(len(batch))
            self._epoch.note_ready(self.name, ready=True)
            return None if self.goes_on(terms) else Back(0.0, STOPPED)
        except (Unready, OSError) as trouble:  # a time-out is an OSError
            self._epoch.note_ready(self.name, ready=False)
            why = {"reason": str(trouble)} if isinstance(trouble, Unready) else {"error": type(trouble).__name__}
            log.warning("channel.unready", channel=self.name, provider=terms.provider, **why)
        except Exception:
            # A channel's bug is its own, here as in the call.
            log.exception("channel.raised", channel=self.name, provider=terms.provider)
        return Back(UNREADY_WAIT_SECONDS, "no connection to the provider")

    async def _call(self, terms: Terms, report: Report, envelopes: list[Envelope], marked: dict[int, Rendered]) -> None:
        """Call the provider; deliveries without a verdict when the call ends are unknown."""
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
            # A channel's bug is its own: deliveries that it had not reported are unknown, and the pipeline goes on.
            phase = f"the channel raised {type(bug).__name__}"
            log.exception("channel.raised", channel=self.name)
        finally:
            terms.calls -= 1
            for envelope in envelopes:
                if envelope.delivery_id in marked:
                    report(envelope, Unknown(phase))

    def _traced(self, report: Report, terms: Terms, envelopes: list[Envelope], began: float) -> Report:
        """Return a report that notes what is traced of calls, whose mark was begun then."""
        traces = self._epoch.traces
        return report if traces is None else traces.reporting(report, envelopes, terms.provider, began)

    def _report(
        self, state: LaneState, marked: dict[int, Rendered], terms: Terms, envelope: Envelope, verdict: Verdict
    ) -> None:
        one = marked.pop(envelope.delivery_id, None)
        if one is None:
            log.error("channel.reported_twice", channel=self.name, delivery_id=envelope.delivery_id)
            return
        if type(verdict) is Accepted:
            if type(terms) is ProviderTerms:
                terms.taken += 1
                if terms.breaker.failures:
                    terms.breaker.succeeded()
            self._settle(state, one, Succeeded(verdict.provider_message_id, verdict.data))
            return
        now = self._clock.monotonic()
        another = self._note(now, one, terms, verdict) if type(terms) is ProviderTerms else None
        if type(verdict) is Throttled:
            # Domains are the channel's, whichever provider says it.
            rates = self.terms.rates if verdict.domain else terms.rates
            rates.close(now, retry.requested_seconds(verdict.seconds), verdict.domain)
        elif type(verdict) is NotCalled:
            self._give_back(1, terms)
        used, policy, item = one.item.used + 1, terms.retry, one.item
        spread = random.uniform(0, policy.jitter) if policy.jitter else 0.0  # noqa: S311 - spreads retries, hides nothing
        wait = retry.wait_seconds(used, policy.base_seconds, policy.cap_seconds, spread)
        allowed = used, item.max_attempts, wait, terms.resend, item.recipient
        self._settle(state, one, retry.decide(verdict, *allowed, another))

    def _note(self, now: float, one: Rendered, terms: ProviderTerms, verdict: Verdict) -> bool:
        """Note what a verdict says about one of several providers; return whether another may take the delivery."""
        terms.judge(now, verdict)
        ending = self.draining.is_set() or self._epoch.fenced.is_set()
        return not ending and next_is_ready(self.terms, one.item, terms, verdict, self.is_paused)

    def uncalled(
        self, state: LaneState, batch: Sequence[Rendered], outcome: Outcome, terms: Terms | None = None
    ) -> None:
        """Settle deliveries that have tokens of the channel's bucket, and of its provider's, and give those back."""
        self._give_back(len(batch), terms or self.terms)
        self._settle_all(state, batch, outcome)

    def _give_back(self, tokens: int, terms: Terms) -> None:
        self.terms.rates.give_back(tokens)
        if terms.rates is not self.terms.rates:
            terms.rates.give_back(tokens)

    def _settle_all(self, state: LaneState, batch: Sequence[Rendered], outcome: Outcome) -> None:
        for one in batch:
            self._settle(state, one, outcome)

    def _settle(self, state: LaneState, one: Rendered, outcome: Outcome) -> None:
        state.slotted.add((one.item.id, one.item.token))
        self._inbox.put(one.item, outcome)
        if fault_points.ARMED:
            fault_points.passing("result.put")
