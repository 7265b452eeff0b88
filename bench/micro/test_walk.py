"""The cost of a walk: each of the three of the run e-mail, delay of no time, sms; and a plan of a thousand nodes."""

# ruff: noqa: S101 - these are tests, and asserting is what tests do
from itertools import pairwise

import msgspec
from pytest_benchmark.fixture import BenchmarkFixture

from dispatcher.plans.plan import Delay, Edge, Join, Node, Plan, Send
from dispatcher.plans.walk.run import DeliveryResult, Facts, Run, State, decode_state, encode_state
from dispatcher.plans.walk.walk import Walkable, advance

NODES = 1_000
MAIL = Send(
    step=1,
    channel="email",
    to=("{{ email }}",),
    parts={"subject": "Welcome, {{ name }}", "text": "Hello {{ name }}, your order {{ order.id }} is on its way."},
    reads=("name", "order"),
)
SMS = Send(step=3, channel="sms", to=("{{ phone }}",), parts={"body": "Hello {{ name }}"}, reads=("name",))
PLAN = Plan(
    name="bench",
    entry="mail",
    nodes={"mail": MAIL, "rest": Delay(step=2, seconds=0.0), "sms": SMS},
    edges={"mail": (Edge("rest"),), "rest": (Edge("sms"),)},
)
INPUT = {"email": "ann@example.org", "phone": "+4915550000001", "name": "Ann", "order": {"id": "A-1"}}
FRESH = Run(id=1, created_at=0.0, status="pending", input=INPUT, state=State())


def _walked(walkable: Walkable, run: Run, node: str | None) -> tuple[Run, Facts]:
    """The run after a walk, and that the deliveries of this node have been sent."""
    if node is None:
        return run, Facts(now=1.0)
    after = advance(walkable, run, Facts(now=1.0, results=_sent("mail" if node == "sms" else None)))
    state = decode_state(encode_state(after.state))
    return msgspec.structs.replace(run, status=after.status, state=state), Facts(now=2.0, results=_sent(node))


def _sent(node: str | None) -> dict[str, tuple[DeliveryResult, ...]]:
    one = DeliveryResult(recipient="ann@example.org", status="sent", message_id="m-1", finished_at=1_700_000_000.0)
    return {node: (one,)} if node else {}


def test_a_run_is_begun(benchmark: BenchmarkFixture) -> None:
    walkable = Walkable(PLAN)
    run, facts = _walked(walkable, FRESH, None)
    assert [one.node for one in benchmark(advance, walkable, run, facts).orders] == ["mail"]


def test_a_run_passes_a_delay_and_goes_on(benchmark: BenchmarkFixture) -> None:
    walkable = Walkable(PLAN)
    run, facts = _walked(walkable, FRESH, "mail")
    assert [one.node for one in benchmark(advance, walkable, run, facts).orders] == ["sms"]


def test_a_run_completes(benchmark: BenchmarkFixture) -> None:
    walkable = Walkable(PLAN)
    run, _ = _walked(walkable, FRESH, "mail")
    run, facts = _walked(walkable, run, "sms")
    assert benchmark(advance, walkable, run, facts).status == "completed"


def test_a_thousand_delays_are_passed(benchmark: BenchmarkFixture) -> None:
    names = [f"n{step}" for step in range(1, NODES + 1)]
    nodes: dict[str, Node] = {name: Delay(step=step, seconds=0.0) for step, name in enumerate(names, start=1)}
    edges = {one: (Edge(two),) for one, two in pairwise(names)}
    walkable = Walkable(Plan(name="line", entry="n1", nodes=nodes, edges=edges))
    assert benchmark(advance, walkable, FRESH, Facts(now=1.0)).status == "completed"


def test_a_thousand_paths_meet(benchmark: BenchmarkFixture) -> None:
    names = [f"n{step}" for step in range(2, NODES)]
    nodes: dict[str, Node] = {"start": Join(step=1), "end": Join(step=NODES)}
    nodes |= {name: Join(step=step) for step, name in enumerate(names, start=2)}
    edges = {"start": tuple(map(Edge, names)), **{name: (Edge("end"),) for name in names}}
    walkable = Walkable(Plan(name="fan", entry="start", nodes=nodes, edges=edges))
    assert benchmark(advance, walkable, FRESH, Facts(now=1.0)).status == "completed"


def test_a_plan_of_a_thousand_nodes_is_made_ready(benchmark: BenchmarkFixture) -> None:
    names = [f"n{step}" for step in range(1, NODES + 1)]
    nodes: dict[str, Node] = {name: Delay(step=step, seconds=0.0) for step, name in enumerate(names, start=1)}
    edges = {one: (Edge(two),) for one, two in pairwise(names)}
    assert benchmark(Walkable, Plan(name="line", entry="n1", nodes=nodes, edges=edges)).entry.id == "n1"
