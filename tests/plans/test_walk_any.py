"""Any plan, whatever happens to its run and whenever: it ends, along its edges, and nothing is done twice."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.plans.plan import Branch, Call, Delay, Digest, Join, Node, Plan, Wait
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import Advance, DigestItems, DigestLeader, DigestMember, Run, Signal, State
from dispatcher.plans.walk.walk import advance
from tests.plans.walks import World, plan, send, stored

NODES_MAX = 9
CONDITIONS = ("yes", "no", "step_1_error", "step_2_result.status == 'sent'", "absent.thing", None)
UNTIL = ("2001-01-01T00:00:00Z", "{{ later }}", "{{ never }}", "2030-01-01T00:00:00Z")
INPUT = {"yes": True, "no": False, "later": "2031-01-01T00:00:00+02:00", "never": "soon", "all": ["a", "b", "c"]}
TIMES_MAX = 400
OVER = ("completed", "failed", "cancelled")
events = st.sampled_from(["paid", "left"])
no_deadline = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def nodes(draw: st.DrawFn, step: int) -> Node:
    more: dict[str, Any] = {"on_failure": draw(st.sampled_from(["retry", "continue", "abort"]))}
    key, until = st.sampled_from(["{{ yes }}", "{{ absent }}"]), st.sampled_from(UNTIL)
    seconds, timeout = st.sampled_from([0.0, 5.0, 86_400.0]), st.sampled_from([None, 0.0, 60.0])
    to = st.sampled_from([("ann",), ("ann", "bob"), ("{{ all }}",), ("{{ absent }}",)])
    kinds: list[Callable[[], Node]] = [
        lambda: send(step, *draw(to), **more),
        lambda: send(step, "ann", **more),
        lambda: Call(step=step, function="f", action="a", payload={"x": ["{{ yes }}"]}, **more),
        lambda: Delay(step=step, seconds=draw(seconds), **more),
        lambda: Delay(step=step, until=draw(until), **more),
        lambda: Branch(step=step, **more),
        lambda: Join(step=step, **more),
        lambda: Wait(step=step, event=draw(events), timeout_seconds=draw(timeout), **more),
        lambda: Digest(step=step, key=draw(key), window_seconds=60.0, **more),
    ]
    return draw(st.sampled_from(kinds))()


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Any graph without a circle, each node reachable, written down in any order."""
    count = draw(st.integers(1, NODES_MAX))
    steps = draw(st.permutations(range(1, count + 1)))
    names = [f"n{number}" for number in range(count)]
    made = {name: draw(nodes(step)) for name, step in zip(names, steps, strict=True)}
    pairs = {(draw(st.integers(0, number - 1)), number) for number in range(1, count)}
    possible = [(one, two) for two in range(count) for one in range(two)]
    if possible:
        pairs |= set(draw(st.lists(st.sampled_from(possible), max_size=count)))
    ways: dict[str, list[tuple[str, str | None]]] = {}
    for one, two in sorted(pairs):
        is_branch = isinstance(made[names[one]], Branch)
        condition = draw(st.sampled_from(CONDITIONS)) if is_branch else None
        ways.setdefault(names[one], []).append((names[two], condition))
    in_order = {name: made[name] for name in sorted(names, key=lambda one: made[one].step)}
    seconds = draw(st.sampled_from([None, 50.0]))
    return plan(in_order, ways, entry="n0", timeout_seconds=seconds, merges_data=draw(st.booleans()))


def below(given: Plan, name: str) -> set[str]:
    """Everything that can be reached from a node."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for edge in given.edges.get(waiting.pop(), ()):
            if edge.to not in found:
                found.add(edge.to)
                waiting.append(edge.to)
    return found


class Checked(World):
    """A world in which every walk is looked at."""

    def walk(self) -> Advance:
        if self.run.status in OVER and self.answer is not None:
            return self.answer
        answer = self.look()
        again = advance(self.walkable, msgspec.structs.replace(self.run, state=stored(self.run.state)), self.facts())
        assert msgspec.json.encode(again, order="sorted") == msgspec.json.encode(answer, order="sorted")
        for request in answer.digest_requests:
            self.digests[request.node] = self.digests.get(request.node, DigestLeader(self.now + request.window_seconds))
        if answer.digest_requests:
            answer = self._ask_again(answer)
        self.keep(answer)
        self._check(answer)
        return answer

    def _ask_again(self, first: Advance) -> Advance:
        """With the digests told, from the start, and from where it has come to: both come to the same place."""
        answer = self.look()
        on = advance(
            self.walkable, msgspec.structs.replace(self.run, status=first.status, state=first.state), self.facts()
        )
        assert on.state.cursor == answer.state.cursor
        assert on.state.entries == answer.state.entries
        return answer

    def _check(self, answer: Advance) -> None:
        done = {one.node for one in self.log if one.event == "succeeded" or one.added is not None}
        leads = {edge.to for name in done for edge in self.plan.edges.get(name, ())} | {self.plan.entry}
        assert set(answer.state.cursor) <= leads
        assert {one.node for one in self.log if one.event == "started"} <= leads
        skipped = {one.node for one in self.log if one.event == "skipped"}
        here = set(answer.state.cursor).union(*(below(self.plan, name) for name in answer.state.cursor))
        assert set(self.plan.nodes) == done | skipped | here, "a node was lost"
        waits = {name for name, standing in self.cursor().items() if standing == "joining"}
        if waits - set().union(*(below(self.plan, name) for name in answer.state.cursor)) and not answer.error:
            assert answer.available_at == self.now, "nobody will look at it again"
        if answer.status == "failed":
            assert not answer.orders
            assert answer.error
            assert answer.error_node in answer.state.cursor
        else:
            assert answer.error is None
        if answer.status in ("completed", "failed"):
            assert answer.available_at is None
        if answer.status == "waiting":
            assert {"delaying", "waiting", "digesting"} >= set(self.cursor().values()) - {"joining"} != set()
        if answer.status == "running":
            assert "sending" in self.cursor().values()


def _queued(world: World) -> list[tuple[str, int]]:
    return [
        (name, place)
        for name in sorted(world.run.state.cursor)
        for place, one in enumerate(world.deliveries.get(name, ()))
        if one.status == "queued"
    ]


def _happen(world: Checked, draw: Any) -> None:
    """Something happens to the run."""
    queued = _queued(world)
    what = draw(st.sampled_from(["end", "end", "end", "event", "time", "digest", "nothing"]))
    if what == "end" and queued:
        node, place = draw(st.sampled_from(queued))
        world.ends(node, draw(st.sampled_from(["sent", "sent", "failed", "skipped"])), place, data={"n": 1})
    elif what == "event":
        number = len(world.log) * 1_000 + len(world.signals)
        world.signals.insert(0, Signal(number, draw(events), {"n": number}))
    elif what == "time":
        world.now += draw(st.sampled_from([0.5, 20.0, 100_000.0]))
    elif what == "digest":
        for name, told in list(world.digests.items()):
            if isinstance(told, DigestLeader):
                world.digests[name] = draw(st.sampled_from([DigestItems([INPUT, {}]), DigestMember(7)]))


def _bring_to_its_end(world: Checked) -> None:
    """Everything that it waits for happens, and nothing else."""
    for _ in range(TIMES_MAX):
        if world.run.status in OVER:
            return
        queued = _queued(world)
        if queued:
            world.ends(*queued[0][:1], place=queued[0][1])
        elif world.answer is not None and world.answer.available_at is not None:
            world.now = max(world.now, world.answer.available_at)
        for name in ("paid", "left"):
            if not any(one.name == name for one in world.signals):
                world.signals.append(Signal(len(world.log) * 1_000 + 500 + len(name), name, {}))
        for name, told in list(world.digests.items()):
            if isinstance(told, DigestLeader) and world.now >= told.until:
                world.digests[name] = DigestItems([INPUT])
        world.walk()
    raise AssertionError(f"it goes on for ever: {world.cursor()}")


def _check_log(world: World, *, replayed: bool) -> None:
    """The visited nodes, in their order."""
    started = [one.node for one in world.log if one.event == "started"]
    skipped = [one.node for one in world.log if one.event == "skipped"]
    assert len(skipped) == len(set(skipped))
    if not replayed:
        assert len(started) == len(set(started)), "visited twice"
        for place, name in enumerate(started):
            assert not below(world.plan, name) & set(started[:place]), "entered before one that leads there"
    if world.run.status == "completed":
        joined = {name for name, told in world.digests.items() if isinstance(told, DigestMember)}
        assert set(started) | set(skipped) == set(world.plan.nodes)
        assert set(started) & set(skipped) <= joined
        assert not world.run.state.cursor


@no_deadline
@given(plans(), st.data(), st.sampled_from([1, 2, 10_000]))
def test_any_run_ends_along_its_edges_and_does_nothing_twice(given_plan: Plan, data: st.DataObject, most: int) -> None:
    world = Checked(given_plan, INPUT, Bounds(deliveries_max=most))
    world.walk()
    for _ in range(data.draw(st.integers(0, 25))):
        _happen(world, data.draw)
        world.walk()
    _bring_to_its_end(world)
    _check_log(world, replayed=False)


@no_deadline
@given(plans(), st.data())
def test_a_failed_run_that_is_replayed_goes_on_from_where_it_failed(given_plan: Plan, data: st.DataObject) -> None:
    world = Checked(given_plan, INPUT)
    world.walk()
    for _ in range(data.draw(st.integers(1, 20))):
        _happen(world, data.draw)
        world.walk()
    _bring_to_its_end(world)
    if world.run.status != "failed":
        return
    before = {one.node for one in world.log if one.event == "succeeded"}
    world.replay()
    world.walk()
    _bring_to_its_end(world)
    again = [one.node for one in world.log if one.event == "succeeded"]
    assert len(again) == len(set(again)), "what had succeeded was done again"
    assert before <= set(again)
    _check_log(world, replayed=True)


@no_deadline
@given(plans(), st.data(), st.sampled_from(["cancelled", "completed", "failed", "paused"]))
def test_a_run_that_is_over_or_paused_orders_nothing(given_plan: Plan, data: st.DataObject, status: Any) -> None:
    world = Checked(given_plan, INPUT)
    world.walk()
    for _ in range(data.draw(st.integers(0, 10))):
        _happen(world, data.draw)
        world.walk()
    world.run = msgspec.structs.replace(world.run, status=status)
    for node, place in _queued(world):
        world.ends(node, place=place)
    answer = world.look()
    assert answer.state is world.run.state
    assert answer.status == status
    assert (answer.orders, answer.digest_requests, answer.entries, answer.taken) == ((), (), (), ())


@no_deadline
@given(plans(), st.data())
def test_arguments_of_a_walk_are_never_changed(given_plan: Plan, data: st.DataObject) -> None:
    world = Checked(given_plan, INPUT)
    world.walk()
    for _ in range(data.draw(st.integers(0, 10))):
        _happen(world, data.draw)
        before = msgspec.json.encode((world.plan, world.run, world.facts()))
        noted: Sequence[object] = [msgspec.json.encode(one) for one in world.log]
        world.look()
        assert msgspec.json.encode((world.plan, world.run, world.facts())) == before
        world.walk()
        assert [msgspec.json.encode(one) for one in world.log[: len(noted)]] == noted


def test_a_fresh_run_is_one_without_a_cursor() -> None:
    given_plan = plan({"one": send(1)})
    fresh = Run(id=1, created_at=0.0, status="running", input={}, state=State())
    world = World(given_plan)
    assert [one.node for one in advance(world.walkable, fresh, world.facts()).orders] == ["one"]
