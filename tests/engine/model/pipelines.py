"""The pipelines: replicas that come, work, lose their connections, fall behind and die."""

from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from dispatcher.engine.rules.life import Back, Lane, Outcome, Parked, Skipped, Succeeded
from dispatcher.engine.store import flushes, instances
from dispatcher.engine.streams import Tokens
from tests.engine.model.protocol import suspected
from tests.engine.model.replica import Replica
from tests.engine.model.stage import CERTAINTY, KEYLESS, LIVE_MAX, VERDICT, Stage, unheard


class Pipelines(Stage):
    """The actions of replicas."""

    @precondition(lambda self: len(self.model.instances) < LIVE_MAX)
    @rule()
    def join(self) -> None:
        """A new epoch."""
        self.epochs += 1
        beat = instances.Beat(self.epochs, 0, 10.0, f"replica-{self.epochs}", "")
        self.run(instances.join(self.world.database(self.epochs), beat, "0"))
        self.model.instances.add(self.epochs)
        self.replicas.append(Replica(self.epochs, Tokens(self.epochs)))

    @precondition(lambda self: self.model.instances and self.model.claims)
    @rule(data=st.data(), how=st.sampled_from(["killed", "fenced", "taken over", "taken over"]))
    def leave(self, data: st.DataObject, how: str) -> None:
        """A replica dies, or is taken for dead: then it is only slow, and finds out later."""
        epoch = data.draw(st.sampled_from(sorted(self.model.instances)), "epoch")
        if how == "killed":
            self._kill(data, next(one for one in self.replicas if one.epoch == epoch))
        self._fence(epoch)
        if how == "taken over":
            self.both_agree()
            self.recover(100)

    def _kill(self, data: st.DataObject, victim: Replica) -> None:
        """kill -9: what it remembered is gone; its requests under way are the provider's to take or not."""
        self.replicas.remove(victim)
        for call in victim.calls:
            if self._in_time(call) and data.draw(st.booleans(), "taken"):
                self._accept(call)

    def _fence(self, epoch: int) -> None:
        assert self.run(instances.fence(self.operator, epoch, 2_000)) == self.model.fence(epoch)

    @precondition(lambda self: self.model.orphans())
    @rule(page=st.sampled_from([1, 2, 100]))
    def recover(self, page: int) -> None:
        """Recover a page of claims."""
        assert self.run(instances.recover(self.operator, page)).claims == self.model.recover(page)

    @precondition(lambda self: self.replicas)
    @rule(data=st.data(), how=CERTAINTY, limit=st.integers(1, 4))
    def claim(self, data: st.DataObject, how: str, limit: int) -> None:
        """A replica claims; where the answer is lost, it knows nothing of what it took."""
        if replica := self._replica(data, lambda one: not one.fenced):
            ready = {
                (one.channel, one.lane, suspected(one.recoveries))
                for one in self.model.deliveries.values()
                if one.ready
            }
            channel, lane, step = data.draw(st.sampled_from(sorted(ready or {(KEYLESS, Lane.NORMAL, 0)})), "lane")
            token = replica.tokens.issue()
            statement = self._claim(replica, channel, lane, token, 1 if step > 1 else limit, step)
            if how == "adrift":
                replica.adrift.append(lambda: unheard(statement()))
            elif how == "unanswered":
                statement()
            else:
                replica.take(token, statement())

    @precondition(lambda self: self._any(lambda one: one.claimed))
    @rule(data=st.data(), how=CERTAINTY)
    def mark(self, data: st.DataObject, how: str) -> None:
        """A replica marks some of what it claimed; where it does not hear whether it did, it calls nobody."""
        replica = self._replica(data, lambda one: bool(one.claimed))
        if replica is None:
            return
        batch = self._some(data, replica.claimed)
        if how == "answered":
            self._mark(replica, batch, self._chosen(batch, data))
            return
        for item in batch:
            replica.put(item, Back(0.0, "the mark's outcome is unknown"))
        chosen = self._chosen(batch, data)
        if how == "adrift":
            replica.adrift.append(lambda: unheard(self._marked(replica, batch, chosen)))
        else:
            self._marked(replica, batch, chosen)

    @precondition(lambda self: self._any(lambda one: one.adrift))
    @rule(data=st.data())
    def drift_ashore(self, data: st.DataObject) -> None:
        """Postgres comes to a statement whose session was cut off long ago."""
        if replica := self._replica(data, lambda one: bool(one.adrift)):
            replica.adrift.pop(0)()

    @precondition(lambda self: self._any(lambda one: one.calls))
    @rule(data=st.data(), verdict=VERDICT)
    def call(self, data: st.DataObject, verdict: str) -> None:
        """A marked delivery is handed to its provider, which answers at once."""
        if replica := self._replica(data, lambda one: bool(one.calls)):
            self._answer(replica, self._begin(data, replica), verdict)

    @precondition(lambda self: self._any(lambda one: one.calls))
    @rule(data=st.data())
    def begin_call(self, data: st.DataObject) -> None:
        """A marked delivery is handed to its provider, which takes its time."""
        if replica := self._replica(data, lambda one: any(call.since is None for call in one.calls)):
            replica.calls.append(self._begin(data, replica))

    @precondition(lambda self: self.replicas)
    @rule(
        data=st.data(),
        verdicts=st.lists(VERDICT, min_size=1, max_size=3),
        last=st.integers(1, 4),
    )
    def work(self, data: st.DataObject, verdicts: list[str], last: int) -> None:
        """The ordinary course of things, as often as there are verdicts, and in the end as far as `last`."""
        for verdict in verdicts[1:]:
            self._course(data, verdict, 4)
        self._course(data, verdicts[0], last)

    def _course(self, data: st.DataObject, verdict: str, stages: int) -> None:
        """Claim, mark, call, flush."""
        self.claim(data, "answered", 2)
        able: tuple[tuple[Callable[[Replica], object], Callable[[], None]], ...] = (
            (lambda one: one.claimed, lambda: self.mark(data, "answered")),
            (lambda one: one.calls, lambda: self.call(data, verdict)),
            (lambda one: one.inbox or one.unanswered, lambda: self.flush(data, 4, "answered")),
        )
        for having, stage in able[: stages - 1]:
            self.both_agree()
            if self._any(having):
                stage()

    @precondition(lambda self: self._any(lambda one: one.claimed))
    @rule(data=st.data(), how=st.sampled_from(["parked", "skipped", "back"]))
    def settle_unmarked(self, data: st.DataObject, how: str) -> None:
        """Deliveries that a replica claimed and does not mark: paused tenant, expired, or a drain."""
        replica = self._replica(data, lambda one: bool(one.claimed))
        if replica is None:
            return
        (item, *rest) = self._some(data, replica.claimed)
        replica.claimed.extend(rest)
        outcome: Outcome = Back(0.0, "draining")
        pause = self.model.open_pauses.get(item.tenant_id)
        if how == "parked" and pause is not None:
            outcome = Parked(pause)
        elif how == "skipped" and item.expired:
            outcome = Skipped("expired")
        replica.put(item, outcome)

    @precondition(lambda self: self._any(lambda one: one.inbox or one.unanswered))
    @rule(data=st.data(), count=st.integers(1, 4), how=st.sampled_from(["answered", "answered", "unanswered", "half"]))
    def flush(self, data: st.DataObject, count: int, how: str) -> None:
        """Results are written. Where the answer was lost, the same is written again later."""
        replica = self._replica(data, lambda one: bool(one.inbox or one.unanswered))
        if replica is None:
            return
        results, spent = replica.unanswered or replica.batch(count)
        replica.unanswered = (results, spent)
        if how == "half":
            # The connection went after the first of the flush's two statements.
            results, spent = [result for result in results if not isinstance(result[1], Succeeded)], []
        fenced = self._flush(replica, results, spent)
        if how == "answered":
            replica.unanswered = None
            for item, outcome in fenced:
                database = self.world.database(replica.epoch)
                became = self.run(flushes.keep_evidence(database, item, outcome))
                assert became == self.model.late(item, outcome), f"a late {outcome} of {item.id}"
