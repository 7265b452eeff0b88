"""The outside: applications, operators, the janitor and time."""

from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from dispatcher.engine.rules.life import Lane
from dispatcher.engine.store import claims, held
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.store import New
from tests.engine.model.protocol import Delivery
from tests.engine.model.replica import Replica
from tests.engine.model.stage import (
    CHANNELS,
    DELAY_SECONDS,
    DELIVERIES_MAX,
    EXPIRY_SECONDS,
    LANES,
    STEP_SECONDS,
    TENANTS,
    Stage,
)
from tests.support import pauses

_QUARANTINE = "SELECT deliveries FROM dispatcher.quarantine($1, $2, $3)"


class Outside(Stage):
    """Actions on deliveries from outside of any pipeline."""

    @precondition(lambda self: len(self.model.deliveries) < DELIVERIES_MAX)
    @rule(
        channel=CHANNELS,
        lane=LANES,
        count=st.integers(1, 3),
        tenant=st.sampled_from(TENANTS),
        expires=st.sampled_from([False, False, False, True]),
        tries=st.sampled_from([1, 3]),
    )
    def enqueue(self, channel: str, lane: Lane, count: int, tenant: str, *, expires: bool, tries: int) -> None:
        """An application writes deliveries."""
        until = datetime.now(UTC) + timedelta(seconds=EXPIRY_SECONDS) if expires else None
        many = len(self.model.deliveries)
        batch = [
            New(
                idempotency_key=f"key-{many + number}",
                channel=channel,
                recipient="ann",
                template='{"body": "x"}',
                tenant_id=tenant,
                lane=lane,
                max_attempts=tries,
                expires_at=until,
            )
            for number in range(count)
        ]
        now = self.model.now
        for written in self.run(deliveries.insert(self.operator, batch)):
            self.model.deliveries[written.id] = Delivery(
                written.id, channel, lane, tenant, now, now, now + EXPIRY_SECONDS if expires else None, tries
            )

    @rule(data=st.data(), what=st.sampled_from(["cancel", "move", "advance", "reopen", "pause", "disaster"]))
    def intervene(self, data: st.DataObject, what: str) -> None:
        """An operator acts on a delivery, a tenant or the whole database."""
        if what == "pause":
            self._pause_or_resume(data.draw(st.sampled_from(TENANTS), "tenant"))
        elif what == "disaster":
            self._quarantine(data)
        else:
            self._operate(data.draw(st.sampled_from(sorted(self.model.deliveries)), "delivery"), what)

    def _operate(self, one: int, what: str) -> None:
        if what == "cancel":
            answer = self.run(deliveries.cancel(self.operator, one, "ann", "no"))
            assert answer == self.model.cancel(one)
        elif what == "reopen":
            answer = self.run(deliveries.reopen(self.operator, one, "ann", "again"))
            assert answer == self.model.reopen(one)
        else:
            seconds = DELAY_SECONDS if what == "move" else 0
            run_at = datetime.now(UTC) + timedelta(seconds=seconds)
            answer = self.run(deliveries.move(self.operator, one, run_at, "ann", "other"))
            assert answer == self.model.move(one, self.model.now + seconds)

    def _pause_or_resume(self, tenant: str) -> None:
        if tenant in self.model.open_pauses:
            self._resume(tenant)
        else:
            number = self.run(pauses.pause(self.operator, "tenant", tenant, "ann", "wait")).id
            self.model.open_pauses[tenant] = number

    def _resume(self, tenant: str) -> None:
        assert self.run(pauses.resume(self.operator, "tenant", tenant, "ann"))
        del self.model.open_pauses[tenant]

    def _quarantine(self, data: st.DataObject) -> None:
        """The database came out of a snapshot, which happens once if ever."""
        if self.quarantines or data.draw(st.integers(0, 2), "luck"):
            return
        self.quarantines += 1
        ago = data.draw(st.sampled_from([35, 105]), "ago")
        before = datetime.now(UTC) - timedelta(seconds=ago)
        quarantined = self.run(self.operator.value(_QUARANTINE, before, "ann", "restored"))
        assert quarantined == self.model.quarantine(self.model.now - ago)

    @precondition(lambda self: any(one.held for one in self.model.deliveries.values()))
    @rule(data=st.data(), settle_as=st.sampled_from(["sent", "failed", "requeue", "requeue"]))
    def settle(self, data: st.DataObject, settle_as: str) -> None:
        """An operator settles a held delivery."""
        one = data.draw(st.sampled_from([one.id for one in self.model.deliveries.values() if one.held]), "held")
        answer = self.run(held.settle(self.operator, one, settle_as, "ann", "the provider's books"))
        assert answer == self.model.settle(one, settle_as)

    def _keep_house(self) -> None:
        """A janitor's round, and what each does for its own epoch."""
        self.run(claims.drop_spent(self.operator, 100, 0.0))
        self.model.drop_spent()
        self.run(held.expire(self.operator, 100))
        self.model.expire()
        assert self.run(pauses.unpark(self.operator, 100)) == self.model.unpark()
        self.run(held.settle_by_evidence(self.operator))
        self.model.settle_by_evidence()
        for replica in self.replicas:
            self._forget_lost_claims(replica)

    def _forget_lost_claims(self, replica: Replica) -> None:
        """The deliveries of a claim whose answer was lost."""
        database = self.world.database(replica.epoch)
        for token in self.run(claims.older_than(database, replica.epoch, 0.0)):
            if token not in replica.tokens.open:
                freed = self.run(claims.forget(database, replica.epoch, token))
                assert freed == self.model.forget(replica.epoch, token)

    @rule(steps=st.sampled_from([1, 2, 6, 12]), tidy=st.booleans())
    def time_passes(self, steps: int, *, tidy: bool) -> None:
        """So long that some of what waits is due; mostly, but not always, a janitor comes by."""
        self._later(steps)
        if tidy:
            self.both_agree()
            self._keep_house()

    def _later(self, steps: int) -> None:
        self.world.later(steps * STEP_SECONDS)
        self.model.now += steps * STEP_SECONDS
