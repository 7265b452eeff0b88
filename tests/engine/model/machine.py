"""The machine: every step is one transaction on the real Postgres and one on the model, and both must agree."""

from hypothesis.stateful import initialize

from dispatcher.engine.rules.life import Lane
from tests.engine.model.outside import Outside
from tests.engine.model.pipelines import Pipelines
from tests.engine.model.replica import Call, Replica
from tests.engine.model.stage import KEYED, KEYLESS, RESEND, SEVERAL


class Machine(Pipelines, Outside):
    """Replicas, operators and the janitor, in any order. The world is set by whoever runs it."""

    @initialize()
    def first(self) -> None:
        """There is something to work with."""
        self.join()
        for channel in (KEYLESS, KEYED, SEVERAL):
            self.enqueue(channel, Lane.NORMAL, 1, "one", expires=False, tries=3)

    def teardown(self) -> None:
        """Whatever happened: recovered and drained, nothing is lost."""
        if not self.replicas and not self.model.deliveries:
            return
        self._finish()
        for one in self.model.deliveries.values():
            assert not one.queued or one.held, f"{one.id} is {one.life}"
            assert one.status not in ("failed", "skipped") or one.error, (
                f"{one.id} is {one.status} and nobody knows why"
            )
            assert one.status != "sent" or one.error == "sent" or self._keys(one), one.id
        assert not self.world.violations()

    def _finish(self) -> None:
        """Everybody dies, is fenced and recovered; then one that is new works through what is left."""
        for epoch in sorted(self.model.instances):
            self._fence(epoch)
        while self.model.open_pauses:
            self._resume(next(iter(self.model.open_pauses)))
        self.recover(100)
        self._later(12)
        self._keep_house()
        self.join()
        while any(one.ready for one in self.model.deliveries.values()):
            self._drain(self.replicas[-1])
            self._later(12)
        self._keep_house()
        self.both_agree()
        self.nobody_gets_it_twice()

    def _drain(self, replica: Replica) -> None:
        for channel in RESEND:
            # Suspects are of any lane, and those that have killed more than two are another step.
            for step, lane in ((0, Lane.NORMAL), (0, Lane.BULK), (1, Lane.NORMAL), (2, Lane.NORMAL)):
                token = replica.tokens.issue()
                replica.take(token, self._claim(replica, channel, lane, token, 1 if step else 100, step)())
        if replica.claimed:
            self._mark(replica, list(replica.claimed), self._chosen(replica.claimed))
            replica.claimed.clear()
        while replica.calls:
            call = replica.calls.pop()
            self._answer(replica, Call(call.item, call.provider, call.licence, self.model.now), "accepted")
        assert self._flush(replica, *replica.batch(10_000)) == []
