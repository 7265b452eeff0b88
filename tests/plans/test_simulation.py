"""The simulation of a run: which way it would go, when, and what is only assumed."""

import pytest
from hypothesis import HealthCheck, given, settings

from dispatcher.plans.plan import Branch, Call, Delay, Digest, Join, Plan, Wait
from dispatcher.plans.simulation.simulation import Step, simulate
from dispatcher.plans.walk.walk import Walkable
from tests.plans.test_walk_any import INPUT, plans
from tests.plans.walks import Ways, plan, send

NOW = 1_000.0


def steps(of: Plan, given_input: dict[str, object] | None = None, **more: object) -> list[Step]:
    return simulate(Walkable(of), given_input or {}, NOW, **more)  # type: ignore[arg-type]  # what is assumed


def test_the_path_with_its_times_and_recipients() -> None:
    nodes = {
        "one": send(1, "{{ email }}"),
        "rest": Delay(step=2, seconds=60.0),
        "two": send(3, channel="voice"),
        "end": send(4, "{{ two.status }}"),
    }
    one, rest, two, end = steps(plan(nodes), {"email": "ann@example.org"})
    assert one.order is not None
    assert one.order.recipients == ("ann@example.org",)
    assert (one.kind, one.at, one.leads_to, one.assumed) == ("send", NOW, ("rest",), "each message is sent")
    assert (rest.kind, rest.at, rest.until, rest.leads_to, rest.assumed) == ("delay", NOW, NOW + 60, ("two",), None)
    assert (two.at, two.leads_to) == (NOW + 60, ("end",))
    assert end.order is not None
    assert end.order.recipients == ("called",)


def test_a_branch_names_what_it_depends_on() -> None:
    nodes = {"one": send(1), "how": Branch(step=2), "well": send(3), "badly": send(4, "{{ vip }}")}
    ways: Ways = {"one": ["how"], "how": [("badly", "step_1_error"), ("well", "one.status == 'sent' and vip")]}
    _, how, badly, well = steps(plan(nodes, ways), {"vip": True})
    assert (how.leads_to, how.depends_on) == (("well",), ("one",))
    assert (badly.is_skipped, badly.order, badly.depends_on) == (True, None, ())
    assert (well.is_skipped, well.order is not None) == (False, True)


def test_assumed_function_answers_have_the_fields_that_are_read() -> None:
    nodes = {
        "crm": Call(step=1, function="f", action="a"),
        "how": Branch(step=2),
        "one": send(3, "{{ crm.user.email }}", "{{ step_1_result.phone }}"),
    }
    crm, how, one = steps(plan(nodes, {"crm": ["how"], "how": [("one", "crm.score")]}))
    assert crm.assumed == "the function answers what is made up here"
    assert how.depends_on == ("crm",)
    assert one.order is not None
    assert one.order.recipients == ("ann@example.org", "+4915550000001")
    *_, one = steps(plan(nodes), assumed={"crm": {"user": {"email": "bob@example.org"}, "score": None}})
    assert one.order is not None
    assert one.order.recipients == ("bob@example.org",)


def test_an_event_comes_unless_the_run_goes_on_without_it() -> None:
    def nodes(on_failure: str) -> Plan:
        wait = Wait(step=1, event="paid", timeout_seconds=60.0, on_failure=on_failure)  # type: ignore[arg-type]  # one of its words
        return plan({"wait": wait, "one": send(2)})

    wait, one = steps(nodes("retry"))
    assert (wait.assumed, wait.error, one.at) == ("the event comes with what is made up here", None, NOW)
    wait, one = steps(nodes("continue"))
    assert (wait.assumed, wait.error, wait.until, one.at) == ("the event does not come", "timeout", NOW + 60, NOW + 60)
    wait, one = steps(nodes("continue"), assumed={"wait": {"by": "ann"}})
    assert (wait.assumed, wait.error, one.at) == ("the event comes", None, NOW)


def test_a_digest_leads_and_collects_only_its_own_run() -> None:
    nodes = {
        "digest": Digest(step=1, key="{{ user }}", window_seconds=60.0),
        "one": send(2, "{{ digest.items[0].user }}"),
    }
    digest, one = steps(plan(nodes), {"user": "ann"})
    assert digest.until == NOW + 60
    assert one.order is not None
    assert (one.at, one.order.recipients, one.depends_on) == (NOW + 60, ("ann",), ("digest",))


def test_each_digest_has_a_window_of_its_own() -> None:
    nodes = {
        "start": Join(step=1),
        "short": Digest(step=2, key="a", window_seconds=60.0),
        "long": Digest(step=3, key="b", window_seconds=600.0),
        "one": send(4),
        "two": send(5),
    }
    found = steps(plan(nodes, {"start": ["short", "long"], "short": ["one"], "long": ["two"]}))
    assert {one.node: one.at for one in found if one.order} == {"one": NOW + 60, "two": NOW + 600}


def test_a_simulated_failure_has_its_reason_and_ends_the_path() -> None:
    (one,) = steps(plan({"one": send(1, "{{ absent }}"), "two": send(2)}))
    assert (one.error, one.order) == ("to: missing variable: absent", None)


def test_paths_meet_when_the_last_one_comes() -> None:
    nodes = {
        "start": Join(step=1),
        "one": Delay(step=2, seconds=5.0),
        "two": Delay(step=3, seconds=9.0),
        "end": send(4),
    }
    found = steps(plan(nodes, {"start": ["one", "two"], "one": ["end"], "two": ["end"]}))
    assert [(one.node, one.at) for one in found] == [("start", NOW), ("one", NOW), ("two", NOW), ("end", NOW + 9)]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(plans())
def test_any_plan_can_be_simulated(of: Plan) -> None:
    found = simulate(Walkable(of), INPUT, NOW)
    names = [one.node for one in found]
    assert len(names) == len(set(names))
    failed = [one for one in found if one.error and of.nodes[one.node].on_failure != "continue"]
    assert failed or set(names) == set(of.nodes)
    assert all(one.at >= NOW for one in found)


def test_a_callback_ends_it_at_any_node() -> None:
    """Also in the middle of one walk, which here would enter all four of them."""
    nodes = {f"n{number}": send(number, "{{ email }}") for number in range(1, 5)}
    ways: Ways = {"n1": ["n2", "n3", "n4"]}
    seen: list[int] = []

    def look() -> None:
        seen.append(1)
        if len(seen) == 3:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        simulate(Walkable(plan(nodes, ways), on_node=look), {"email": "ann@example.org"}, NOW)
    assert len(seen) == 3
