"""The walk's times: delays that are never over early, and how long a run may work."""

import pytest

from dispatcher.plans.plan import Delay, Join
from dispatcher.plans.walk.run import DeliveryResult
from tests.plans.walks import World, plan, send

NOW = 1_000.0


def test_a_delay_is_over_at_its_time_and_not_before() -> None:
    world = World(plan({"rest": Delay(step=1, seconds=90.0), "one": send(2)}))
    answer = world.walk()
    assert (answer.status, answer.available_at) == ("waiting", NOW + 90)
    world.now = NOW + 89.999999
    again = world.look()
    assert (again.status, again.available_at) == ("waiting", NOW + 90)
    assert again.state is world.run.state
    world.now = NOW + 90
    assert [one.node for one in world.walk().orders] == ["one"]


@pytest.mark.parametrize("until", ["1970-01-01T01:00:00+00:00", "{{ at }}", "{{ day }}T01:00:00Z"])
def test_a_time_is_awaited_as_it_is_written(until: str) -> None:
    world = World(plan({"rest": Delay(step=1, until=until)}), {"at": "1970-01-01T02:00:00+01:00", "day": "1970-01-01"})
    assert world.walk().available_at == 3_600.0


def test_a_time_that_is_over_is_not_awaited() -> None:
    world = World(plan({"rest": Delay(step=1, until="{{ at }}")}), {"at": "1970-01-01T00:16:40Z"})
    assert world.walk().status == "completed"


@pytest.mark.parametrize("at", ["soon", "1970-01-01", "1970-01-01T00:16:40", "", None, 17, ["1970-01-01T00:16:40Z"]])
def test_an_invalid_time_fails_its_node(at: object) -> None:
    answer = World(plan({"rest": Delay(step=1, until="{{ at }}")}), {"at": at}).walk()
    assert answer.status == "failed"
    assert answer.error is not None
    assert answer.error.startswith("until: no time")


def test_a_run_that_works_for_too_long_has_failed() -> None:
    world = World(plan({"one": send(1), "two": send(2)}, timeout_seconds=100.0))
    assert world.walk().available_at == NOW + 100
    world.now = NOW + 60
    world.ends("one")
    assert world.walk().available_at == NOW + 100
    world.now = NOW + 100
    answer = world.walk()
    assert (answer.status, answer.error, answer.error_node) == (
        "failed",
        "timeout: worked for more than 100 seconds",
        "two",
    )
    assert answer.cancels
    assert world.deliveries["two"][0].status == "skipped"


def test_a_run_that_is_replayed_has_all_its_time_again() -> None:
    world = World(plan({"one": send(1)}, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 100
    world.walk()
    world.replay()
    assert world.walk().available_at == world.now + 100


def test_a_result_that_came_late_is_a_result() -> None:
    world = World(plan({"one": send(1)}, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 500
    world.ends("one")
    assert world.walk().status == "completed"


def test_a_run_without_time_left_orders_nothing_more() -> None:
    world = World(plan({"one": send(1), "two": send(2)}, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 500
    world.ends("one")
    answer = world.walk()
    assert (answer.status, answer.error_node, answer.orders) == ("failed", "two", ())
    assert world.cursor() == {"two": "joining"}
    assert world.events("two") == ["failed"]


def test_waiting_is_not_working() -> None:
    nodes = {"one": send(1), "rest": Delay(step=2, seconds=1_000.0), "two": send(3)}
    world = World(plan(nodes, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 60
    world.ends("one")
    assert world.walk().available_at == world.now + 1_000
    world.now += 1_000
    assert world.walk().available_at == world.now + 40


def test_held_times_are_outside_working_hours() -> None:
    world = World(plan({"one": send(1), "two": send(2)}, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 500
    world.deliveries["one"] = [DeliveryResult(recipient="ann", status="queued", held_seconds=450.0)]
    assert world.walk().available_at == world.now + 50
    world.now = NOW + 520
    world.deliveries["one"] = [DeliveryResult(recipient="ann", status="sent", held_seconds=450.0)]
    assert world.walk().available_at == world.now + 30


def test_held_runs_are_checked_seldom() -> None:
    world = World(plan({"one": send(1)}, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 500
    world.deliveries["one"] = [DeliveryResult(recipient="ann", status="queued", held=True, held_seconds=401.0)]
    answer = world.walk()
    assert (answer.status, answer.available_at) == ("running", world.now + 60)


def test_time_in_which_two_deliveries_were_held_counts_once() -> None:
    nodes = {"start": Join(step=1), "one": send(2), "two": send(3), "after": send(4)}
    world = World(plan(nodes, {"start": ["one", "two"], "one": ["after"]}, timeout_seconds=100.0))
    world.walk()
    world.now = NOW + 50
    world.deliveries["one"] = [DeliveryResult(recipient="ann", status="sent", held_seconds=40.0)]
    world.deliveries["two"] = [DeliveryResult(recipient="ann", status="queued", held_seconds=40.0)]
    assert world.walk().available_at == world.now + 90
    world.now = NOW + 60
    world.deliveries["two"] = [DeliveryResult(recipient="ann", status="sent", held_seconds=40.0)]
    world.walk()
    assert world.run.state.worked_seconds <= 20
    world.now = NOW + 70
    assert world.walk().state.worked_seconds >= 10


def test_a_run_without_a_limit_works_as_long_as_it_takes() -> None:
    world = World(plan({"one": send(1)}))
    world.walk()
    world.now += 1e9
    assert world.walk().available_at is None
