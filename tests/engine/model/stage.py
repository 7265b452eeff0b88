"""The stage: what every step works with, and the store's verbs, each done on Postgres and on the model at once."""

from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant

from channels.contract import Accepted, NotCalled, Refused, RetryAfter, Throttled, Unknown, Verdict
from dispatcher.base.errors import Fenced
from dispatcher.engine.rules import retry
from dispatcher.engine.rules.life import POISON_STEPS, Claimed, Lane, Lost, Resend, Result
from dispatcher.engine.store import claims, flushes, marks
from tests.engine.model.protocol import Claim, Delivery, Protocol, resend_at
from tests.engine.model.provider import Provider
from tests.engine.model.replica import Call, Replica
from tests.engine.model.world import World, ids, seen

# What Postgres compares is an odd number of tens, steps are even ones: what the machine itself takes decides nothing.
DELIVERIES_MAX = 6
LIVE_MAX = 2
STEP_SECONDS = 20
DELAY_SECONDS = 110
EXPIRY_SECONDS = 250
LICENCE_SECONDS = 30
CALL_SECONDS = 60
SETTLE_SECONDS = LICENCE_SECONDS + CALL_SECONDS
KNOWN_SECONDS = 460
# From the first mark on: a call that is marked in time is begun within its licence, and is over within its time-out.
KEY_SECONDS = KNOWN_SECONDS - CALL_SECONDS - LICENCE_SECONDS

KEYLESS, KEYED, LOOSE, SEVERAL = "sms", "email", "http", "push"
# Of the channel that has several providers, the first one knows keys.
FIRST, SECOND, ONLY = "first", "second", "capture"
PROVIDERS = {SEVERAL: (FIRST, SECOND)}
RESEND = {
    KEYLESS: Resend(),
    KEYED: Resend("key", KEY_SECONDS),
    LOOSE: Resend("at_least_once"),
    SEVERAL: Resend(provider_keys={FIRST: KEY_SECONDS}),
}
TENANTS = ("one", "two")
# Evidence settles a held delivery when the janitor comes by, not before.
JANITORS = "no_evidence_is_thrown_away"

VERDICTS: dict[str, Verdict] = {
    "accepted": Accepted("m"),
    "refused": Refused("recipient: no"),
    "retry": RetryAfter("busy"),
    "throttled": Throttled(DELAY_SECONDS),
    "lost answer": Unknown("no answer"),
    "lost request": Unknown("no answer"),
}
TAKEN = ("accepted", "lost answer")
VERDICT = st.sampled_from(sorted(VERDICTS))
CHANNELS = st.sampled_from([KEYED, KEYLESS, LOOSE, SEVERAL])
# Which provider is chosen for a delivery; one that is bound to another goes there, unless that one is gone.
CHOICE = st.sampled_from([FIRST, FIRST, SECOND])
IS_GONE = st.sampled_from([False, False, False, True])
LANES = st.sampled_from([Lane.NORMAL, Lane.BULK])
CERTAINTY = st.sampled_from(["answered", "answered", "answered", "unanswered", "adrift"])


class Stage(RuleBasedStateMachine):
    """A world, a model of it, providers, and replicas with what they remember."""

    world: ClassVar[World]

    def __init__(self) -> None:
        super().__init__()
        self.world.empty()
        self.model = Protocol()
        self.provider = {
            (channel, name): Provider(KNOWN_SECONDS if resend_at(name, resend).by == "key" else 0)
            for channel, resend in RESEND.items()
            for name in PROVIDERS.get(channel, (ONLY,))
        }
        self.replicas: list[Replica] = []
        self.epochs = 0
        self.quarantines = 0
        self.run = self.world.run
        self.operator = self.world.operator

    @invariant()
    def both_agree(self) -> None:
        """The database shows what the model says, and none of its own invariants is broken."""
        assert self.world.view() == seen(self.model)
        broken = {(name, one) for name, one in self.world.violations() if name != JANITORS}
        assert not broken, broken

    @invariant()
    def nobody_gets_it_twice(self) -> None:
        """Unless an operator said so, or the channel may."""
        for one in self.model.deliveries.values():
            assert len(self._keys(one)) <= 1, f"{one.id} went out under several keys"
            assert one.channel == LOOSE or self._delivered(one) <= 1 + one.again, f"{one.id} was delivered twice"

    @invariant()
    def nobody_says_that_it_was_not_sent_of_what_was(self) -> None:
        """Unless an operator said so, or had it sent again."""
        for one in self.model.deliveries.values():
            if one.status in ("failed", "skipped") and one.error != "failed" and not one.again:
                assert not self._delivered(one), f"{one.id} is {one.status}, and was delivered"

    def _delivered(self, one: Delivery) -> int:
        return sum(found.delivered(one.id) for (channel, _), found in self.provider.items() if channel == one.channel)

    def _keys(self, one: Delivery) -> set[str]:
        """The keys under which any provider has accepted it."""
        return {key for found in self.provider.values() for key in found.keys(one.id)}

    def _claim(
        self, replica: Replica, channel: str, lane: Lane, token: int, limit: int, step: int
    ) -> Callable[[], list[Claimed]]:
        def statement() -> list[Claimed]:
            wanted = claims.Wanted(channel, lane, limit, token, RESEND[channel], SETTLE_SECONDS)
            asked = self.world.database(replica.epoch), replica.epoch, wanted
            suspects = POISON_STEPS[step - 1]
            items = self.run(claims.claim_recovered(*asked, suspects) if step else claims.claim(*asked))
            may = self.model.claimable(channel, None if step else lane, step)
            may = may if replica.epoch in self.model.instances else []
            taken = ids(items)
            assert len(taken) == min(limit, len(may)), f"claimed {taken} of {may}"
            assert set(taken) <= set(may), f"claimed {taken} of {may}"
            claim = Claim(replica.epoch, taken, RESEND[channel], SETTLE_SECONDS)
            self.model.claim(token, claim)
            return items

        return statement

    def _chosen(self, batch: list[Claimed], data: st.DataObject | None = None) -> dict[int, str]:
        """The provider of each; without data the first, or that of its unknown attempt."""
        chosen: dict[int, str] = {}
        for item in batch:
            name = ONLY if item.channel not in PROVIDERS else FIRST if data is None else data.draw(CHOICE, "provider")
            is_gone = data is not None and item.bound_to is not None and data.draw(IS_GONE, "gone")
            chosen[item.id] = name if item.bound_to is None or is_gone else item.bound_to
        return chosen

    def _mark(self, replica: Replica, batch: list[Claimed], chosen: dict[int, str]) -> None:
        marked = self._marked(replica, batch, chosen)
        if marked is None:
            # The epoch crashes: it settles what it knows, and ends.
            replica.fenced = True
            replica.claimed.clear()
            return
        for item in batch:
            # A delivery that was moved meanwhile may stand in the batch twice: one of its two tokens was marked.
            if item.id in marked[1] and self.model.deliveries[item.id].token == item.token:
                replica.calls.append(Call(item, chosen[item.id], marked[0]))
            else:
                replica.put(item, Lost())

    def _marked(self, replica: Replica, batch: list[Claimed], chosen: dict[int, str]) -> Any:
        """The mark on both sides; None where the epoch is gone."""
        database = self.world.database(replica.epoch)
        clock = lambda: float(self.model.now)  # noqa: E731 - the licence keeps it
        expected = self.model.mark(replica.epoch, batch, chosen)
        names = set(chosen.values())
        provider = names.pop() if len(names) == 1 else chosen
        try:
            licence, attempts = self.run(marks.mark(database, replica.epoch, batch, clock, LICENCE_SECONDS, provider))
        except Fenced:
            assert expected == []
            assert replica.epoch not in self.model.instances
            return None
        assert sorted(attempts) == sorted(expected)
        assert attempts == {one: self.model.deliveries[one].attempt for one in attempts}
        return licence, attempts

    def _begin(self, data: st.DataObject, replica: Replica) -> Call:
        call = data.draw(st.sampled_from(replica.calls), "call")
        replica.calls.remove(call)
        late = call.since is None and call.licence.expired()
        since = call.since if late or call.since is not None else self.model.now
        return Call(call.item, call.provider, call.licence, since)

    def _answer(self, replica: Replica, call: Call, verdict: str) -> None:
        """The channel's verdict, and the policy's outcome of it."""
        provider = self.provider[call.item.channel, call.provider]
        if verdict == "refused" and provider.knows(call.item.idempotency_key, self.model.now):
            verdict = "accepted"
        judged = VERDICTS[verdict] if self._in_time(call) else Unknown("no answer within the limit")
        if call.since is None:
            judged = NotCalled("the licence ran out")
        elif self._in_time(call) and verdict in TAKEN:
            self._accept(call)
        used = call.item.used + 1
        resend = resend_at(call.provider, RESEND[call.item.channel])
        replica.put(call.item, retry.decide(judged, used, call.item.max_attempts, DELAY_SECONDS, resend))

    def _in_time(self, call: Call) -> bool:
        return call.since is not None and self.model.now <= call.since + CALL_SECONDS

    def _accept(self, call: Call) -> None:
        item = call.item
        self.provider[item.channel, call.provider].accept(item.id, item.idempotency_key, self.model.now)

    def _flush(self, replica: Replica, results: list[Result], spent: list[int]) -> list[Result]:
        fenced = self.run(flushes.flush(self.world.database(replica.epoch), results, spent))
        written = [result for result in results if not isinstance(result[1], Lost)]
        assert ids([item for item, _ in fenced]) == ids([item for item, _ in self.model.flush(written, spent)])
        return fenced

    def _any(self, having: Callable[[Replica], object]) -> bool:
        return any(having(one) for one in self.replicas)

    def _replica(self, data: st.DataObject, having: Callable[[Replica], bool] = lambda _: True) -> Replica | None:
        """One that has something to do; a fenced one that has found out only writes what it knows."""
        able = [one for one in self.replicas if having(one)]
        return data.draw(st.sampled_from(able), "replica") if able else None

    def _some(self, data: st.DataObject, items: list[Claimed]) -> list[Claimed]:
        count = data.draw(st.integers(1, len(items)), "count")
        some = items[:count]
        del items[:count]
        return some


def unheard(answer: object) -> None:
    """Nobody hears it."""
