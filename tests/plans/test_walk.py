"""The walk, rule by rule: what is entered when, what a node's end adds, and how a run ends."""

import pytest

from dispatcher.plans.plan import Branch, Call, Delay, Digest, Join, Wait
from dispatcher.plans.texts import Bounds
from dispatcher.plans.walk.run import DeliveryResult, DigestItems, DigestLeader, DigestMember, Entry, Order, Signal
from tests.plans.walks import Ways, World, plan, send

NOW = 1_000.0
SENT_AT = "1970-01-01T00:16:40.000Z"


# One after another


def test_a_mail_a_delay_of_no_time_and_an_sms() -> None:
    mail = send(1, "{{ email }}", channel="email", parts={"subject": "Hi {{ name }}"}, reads=("name",))
    world = World(
        plan({"mail": mail, "rest": Delay(step=2, seconds=0.0), "sms": send(3, "{{ phone }}")}),
        {"email": "ann@example.org", "phone": "+491", "name": "Ann", "other": 1},
    )
    first = world.walk()
    assert first.status == "running"
    assert first.available_at is None
    assert first.orders == [
        Order(
            node="mail",
            channel="email",
            recipients=("ann@example.org",),
            template=None,
            parts={"subject": "Hi {{ name }}"},
            variables={"name": "Ann"},
            options={},
            attempts=3,
        )
    ]
    assert world.walk().entries == []
    world.ends("mail")
    second = world.walk()
    assert [one.node for one in second.orders] == ["sms"]
    world.ends("sms")
    third = world.walk()
    assert third.status == "completed"
    assert third.available_at is None
    assert third.state.cursor == {}
    assert [(one.node, one.step, one.event) for one in world.log] == [
        ("mail", 1, "started"),
        ("mail", 1, "succeeded"),
        ("rest", 2, "started"),
        ("rest", 2, "succeeded"),
        ("sms", 3, "started"),
        ("sms", 3, "succeeded"),
    ]


def test_the_log_has_what_a_node_saw_and_what_it_added() -> None:
    world = World(plan({"one": send(1), "two": send(2)}), {"name": "Ann"})
    world.walk()
    world.ends("one")
    world.walk()
    result = {"message_id": "m-ann", "sent_at": SENT_AT, "status": "sent"}
    added = {"one": result, "step_1_result": result}
    assert world.log == [
        Entry(node="one", step=1, event="started", context={"name": "Ann"}),
        Entry(node="one", step=1, event="succeeded", added=added),
        Entry(node="two", step=2, event="started", context={"name": "Ann", **added}),
    ]
    assert world.vars == added


def test_a_thousand_delays_of_no_time_are_one_walk() -> None:
    nodes = {f"n{step}": Delay(step=step, seconds=0.0) for step in range(1, 1_001)}
    world = World(plan(nodes))
    assert world.walk().status == "completed"
    assert len(world.log) == 2_000


def test_nodes_go_by_their_steps_wherever_the_plan_was_stored() -> None:
    nodes = {"a": Wait(step=2, event="paid"), "b": Wait(step=1, event="paid"), "start": Join(step=3)}
    world = World(plan(nodes, {"start": ["a", "b"]}, entry="start"))
    world.walk()
    world.signals = [Signal(5, "paid", {"n": 5})]
    world.walk()
    assert world.vars["b"] == {"n": 5}
    assert world.cursor() == {"a": "waiting"}


# Results


def test_several_recipients_give_a_result_each() -> None:
    world = World(plan({"one": send(1, "ann", "bob", "cid")}))
    world.walk()
    world.ends("one", "skipped", 0, error="suppressed")
    world.ends("one", "sent", 1)
    assert world.walk().status == "running"
    world.ends("one", "failed", 2, error="refused")
    assert world.walk().status == "completed"
    assert world.vars["one"] == {
        "message_id": "m-bob",
        "sent_at": SENT_AT,
        "status": "sent",
        "recipients": [
            {"recipient": "ann", "message_id": None, "sent_at": None, "status": "skipped", "error": "suppressed"},
            {"recipient": "bob", "message_id": "m-bob", "sent_at": SENT_AT, "status": "sent"},
            {"recipient": "cid", "message_id": None, "sent_at": None, "status": "failed", "error": "refused"},
        ],
    }


def test_a_send_whose_recipients_are_all_skipped_has_not_failed() -> None:
    world = World(plan({"one": send(1)}))
    world.walk()
    world.ends("one", "skipped", finished_at=NOW)
    assert world.walk().status == "completed"
    assert world.vars["step_1_result"] == {"message_id": None, "sent_at": None, "status": "skipped"}


def test_a_send_has_failed_when_one_delivery_did_and_none_was_sent() -> None:
    world = World(plan({"one": send(1, "ann", "bob"), "two": send(2)}))
    world.walk()
    world.ends("one", "skipped", 0)
    world.ends("one", "failed", 1, error="refused")
    answer = world.walk()
    assert answer.status == "failed"
    assert answer.error == "1 of 2 deliveries failed: refused"
    assert answer.error_node == "one"
    assert not answer.orders


@pytest.mark.parametrize("merges", [False, True])
def test_a_call_adds_what_it_was_answered(merges: bool) -> None:
    world = World(plan({"one": Call(step=1, function="f", action="a")}, merges_data=merges), {"score": 1, "kept": 2})
    world.walk()
    world.ends("one", data={"score": 7, "one": "taken"})
    world.walk()
    data = {"score": 7, "one": "taken"}
    assert world.vars == {**({"score": 7} if merges else {}), "one": data, "step_1_result": data}


def test_a_call_without_data_adds_an_empty_answer() -> None:
    world = World(plan({"one": Call(step=1, function="f", action="a")}))
    world.walk()
    world.ends("one")
    world.walk()
    assert world.vars == {"one": {}, "step_1_result": {}}


def test_a_node_without_known_deliveries_has_not_ended() -> None:
    world = World(plan({"one": send(1)}))
    world.walk()
    world.deliveries = {}
    assert world.walk().status == "running"


# Failures


@pytest.mark.parametrize("on_failure", ["retry", "abort"])
def test_a_failed_node_fails_the_run(on_failure: str) -> None:
    world = World(plan({"one": send(1, on_failure=on_failure), "two": send(2)}))
    world.walk()
    world.ends("one", "failed", error="refused")
    answer = world.walk()
    assert (answer.status, answer.error, answer.error_node) == ("failed", "refused", "one")
    assert world.log[-1] == Entry(node="one", step=1, event="failed", error="refused")
    assert not answer.cancels


def test_a_failed_node_may_be_passed() -> None:
    world = World(plan({"one": send(1, on_failure="continue"), "two": send(2)}))
    world.walk()
    world.ends("one", "failed", error="refused")
    answer = world.walk()
    assert answer.status == "running"
    assert world.vars == {"step_1_error": "refused"}
    assert Entry(node="one", step=1, event="failed", added={"step_1_error": "refused"}, error="refused") in world.log


def test_a_node_that_cannot_render_fails_before_it_orders_a_delivery() -> None:
    world = World(plan({"one": send(1, "{{ user.email }}")}), {"user": {}})
    answer = world.walk()
    assert (answer.status, answer.error) == ("failed", "to: missing variable: user.email")
    assert world.cursor() == {"one": "joining"}
    assert world.events("one") == ["started", "failed"]


def test_branches_beside_a_failed_node_are_cancelled_and_resumed_by_a_replay() -> None:
    world = World(plan({"start": Join(step=1), "one": send(2), "two": send(3), "end": send(4)}, FORK))
    world.walk()
    world.ends("one", "failed")
    answer = world.walk()
    assert answer.cancels
    assert world.deliveries["two"][0].status == "skipped"
    assert world.cursor() == {"one": "sending", "two": "sending"}
    world.replay()
    assert world.walk().status == "running"
    world.ends("one")
    world.ends("two")
    assert [one.node for one in world.walk().orders] == ["end"]


def test_a_failed_walk_starts_again_from_its_beginning() -> None:
    nodes = {"start": Join(step=1), "one": send(2), "two": send(3, "{{ absent }}"), "end": send(4)}
    world = World(plan(nodes, FORK))
    answer = world.walk()
    assert (answer.status, answer.error_node, answer.cancels) == ("failed", "two", False)
    assert not answer.orders
    assert world.cursor() == {"one": "joining", "two": "joining"}
    assert world.events("one") == []
    world.replay()
    assert world.walk().status == "failed"
    assert world.events("two") == ["started", "failed"] * 2


def test_nodes_not_entered_when_a_run_failed_are_not_lost() -> None:
    nodes = {"start": Join(step=1), "one": send(2), "two": send(3), "after": send(4)}
    world = World(plan(nodes, {"start": ["one", "two"], "one": ["after"]}))
    world.walk()
    world.ends("one")
    world.ends("two", "failed")
    assert world.walk().status == "failed"
    assert world.cursor() == {"after": "joining", "two": "sending"}
    world.replay()
    assert [one.node for one in world.walk().orders] == ["after"]


# Parallel paths

FORK: Ways = {"start": ["one", "two"], "one": ["end"], "two": ["end"]}


def test_parallel_paths_meet_at_a_node_that_is_visited_once() -> None:
    world = World(plan({"start": Join(step=1), "one": send(2), "two": send(3), "end": send(4)}, FORK))
    assert [one.node for one in world.walk().orders] == ["one", "two"]
    world.ends("one")
    assert not world.walk().orders
    assert world.cursor() == {"end": "joining", "two": "sending"}
    world.ends("two")
    assert [one.node for one in world.walk().orders] == ["end"]
    world.ends("end")
    assert world.walk().status == "completed"
    assert world.events("end") == ["started", "succeeded"]


def test_results_of_one_walk_meet_at_a_join() -> None:
    world = World(plan({"start": Join(step=1), "one": send(2), "two": send(3), "end": send(4)}, FORK))
    world.walk()
    world.ends("one")
    world.ends("two")
    assert [one.node for one in world.walk().orders] == ["end"]


def test_a_dead_path_does_not_block_a_join() -> None:
    nodes = {"start": Branch(step=1), "one": send(2), "two": send(3), "end": send(4)}
    world = World(plan(nodes, {**FORK, "start": [("one", "vip"), ("two", None)]}), {"vip": True})
    world.walk()
    world.ends("one")
    assert [one.node for one in world.walk().orders] == ["end"]
    assert world.events("two") == ["skipped"]


def test_a_join_waits_for_long_paths() -> None:
    ways = {"start": ["one", "far"], "far": ["near"], "near": ["end"], "one": ["end"]}
    nodes = {"start": Join(step=1), "one": send(2), "far": send(3), "near": send(4), "end": send(5)}
    world = World(plan(nodes, ways))
    world.walk()
    world.ends("one")
    world.walk()
    world.ends("far")
    assert [one.node for one in world.walk().orders] == ["near"]
    world.ends("near")
    assert [one.node for one in world.walk().orders] == ["end"]


def test_one_walk_orders_no_more_than_it_may() -> None:
    names = [f"n{step}" for step in range(2, 7)]
    nodes = {"start": Join(step=1), **{name: send(int(name[1:]), "ann", "bob") for name in names}}
    world = World(plan(nodes, {"start": names}), bounds=Bounds(deliveries_max=4))
    ordered = []
    while world.answer is None or world.answer.available_at == world.now:
        ordered.append([one.node for one in world.walk().orders])
    assert ordered == [["n2", "n3"], ["n4", "n5"], ["n6"]]


def test_a_shortened_walk_is_reported_where_only_a_join_is_left() -> None:
    nodes = {"start": Join(step=1), "one": send(2), "rest": Join(step=3), "end": send(4), "more": send(5)}
    ways: Ways = {"start": ["one", "rest"], "one": ["end", "more"], "rest": ["end"]}
    world = World(plan(nodes, ways), bounds=Bounds(deliveries_max=1))
    while world.walk().available_at is not None:
        pass
    world.ends("one")
    answer = world.walk()
    assert [one.node for one in answer.orders] == ["more"]
    assert answer.available_at == world.now
    assert world.walk().available_at is None
    assert [one.node for one in world.orders] == ["one", "more", "end"]


# Branches


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"total": 200, "vip": True}, "one"),
        ({"total": 50, "vip": True}, "two"),
        ({"total": 50, "vip": False}, "end"),
        ({"total": 50, "vip": None}, "end"),
    ],
)
def test_a_branch_takes_the_first_edge_whose_condition_holds(given: dict[str, object], taken: str) -> None:
    nodes = {"start": Branch(step=1), "one": send(2), "two": send(3), "end": send(4)}
    ways: Ways = {"start": [("one", "total > 100"), ("two", "vip"), ("end", None)]}
    world = World(plan(nodes, ways), given)
    assert [one.node for one in world.walk().orders] == [taken]
    assert {name for name in ("one", "two", "end") if world.events(name) == ["skipped"]} == {"one", "two", "end"} - {
        taken
    }


def test_a_branch_of_which_nothing_holds_ends_its_path() -> None:
    world = World(plan({"start": Branch(step=1), "one": send(2)}, {"start": [("one", "vip")]}), {"vip": False})
    assert world.walk().status == "completed"
    assert [(one.node, one.event) for one in world.log] == [
        ("start", "started"),
        ("start", "succeeded"),
        ("one", "skipped"),
    ]


def test_an_error_that_a_step_has_not_had_does_not_hold() -> None:
    nodes = {"one": send(1, on_failure="continue"), "how": Branch(step=2), "well": send(3), "badly": send(4)}
    ways: Ways = {"one": ["how"], "how": [("badly", "step_1_error"), ("well", None)]}
    for status, taken in (("sent", "well"), ("failed", "badly")):
        world = World(plan(nodes, ways))
        world.walk()
        world.ends("one", status)
        assert [one.node for one in world.walk().orders] == [taken]


def test_a_condition_that_cannot_be_told_fails_its_branch() -> None:
    nodes = {"start": Branch(step=1), "one": send(2), "two": send(3)}
    ways: Ways = {"start": [("one", "user.vip"), ("two", None)]}
    answer = World(plan(nodes, ways), {"user": {}}).walk()
    assert (answer.status, answer.error_node) == ("failed", "start")
    assert answer.error is not None
    assert answer.error.startswith("condition: missing variable: line 1: user.vip")
    nodes["start"] = Branch(step=1, on_failure="continue")
    world = World(plan(nodes, ways), {"user": {}})
    assert [one.node for one in world.walk().orders] == ["two"]
    assert world.events("one") == ["skipped"]


# Events


def test_an_event_is_awaited_and_its_data_added() -> None:
    world = World(plan({"one": Wait(step=1, event="paid"), "two": send(2)}))
    first = world.walk()
    assert (first.status, first.available_at) == ("waiting", None)
    world.signals = [Signal(1, "left", {}), Signal(2, "paid", {"n": 2})]
    answer = world.walk()
    assert answer.taken == [2]
    assert world.vars == {"one": {"n": 2}, "step_1_result": {"n": 2}}
    assert world.signals == [Signal(1, "left", {})]


def test_an_event_that_came_before_counts_and_the_oldest_is_taken() -> None:
    nodes = {"one": Wait(step=1, event="paid", timeout_seconds=0.0), "two": Wait(step=2, event="paid")}
    world = World(plan(nodes))
    world.signals = [Signal(9, "paid", {"n": 9}), Signal(3, "paid", {"n": 3})]
    answer = world.walk()
    assert answer.taken == [3, 9]
    assert answer.status == "completed"
    assert (world.vars["one"], world.vars["two"]) == ({"n": 3}, {"n": 9})


def test_variables_added_in_a_walk_are_read_by_later_nodes() -> None:
    nodes = {"how": Branch(step=3), "one": Wait(step=1, event="paid"), "two": send(2, "{{ one.by }}")}
    world = World(plan(nodes, {"how": [("one", "n == 1")], "one": ["two"]}), {"n": 1})
    world.signals = [Signal(1, "paid", {"by": "ann"})]
    (order,) = world.walk().orders
    assert order.recipients == ("ann",)
    assert world.log[-1].context == {"n": 1, "one": {"by": "ann"}, "step_1_result": {"by": "ann"}}


def test_a_wait_whose_time_is_over_has_failed() -> None:
    world = World(plan({"one": Wait(step=1, event="paid", timeout_seconds=60.0), "two": send(2)}))
    assert world.walk().available_at == NOW + 60
    world.now = NOW + 59.9
    assert world.walk().status == "waiting"
    world.now = NOW + 60
    answer = world.walk()
    assert (answer.status, answer.error, answer.error_node) == ("failed", "timeout", "one")
    world.replay()
    answer = world.walk()
    assert (answer.status, answer.available_at) == ("waiting", NOW + 120)


def test_a_wait_that_may_fail_goes_on_with_timeout_as_its_error() -> None:
    world = World(plan({"one": Wait(step=1, event="paid", timeout_seconds=0.0, on_failure="continue"), "two": send(2)}))
    assert [one.node for one in world.walk().orders] == ["two"]
    assert world.vars == {"step_1_error": "timeout"}


# Digests


DIGEST = {"one": Digest(step=1, key="{{ user }}", window_seconds=60.0, items_max=5), "two": send(2)}


def test_a_digest_is_requested_until_its_leader_is_known() -> None:
    world = World(plan(DIGEST), {"user": 7})
    (request,) = world.walk().digest_requests
    assert (request.node, request.key, request.window_seconds, request.items_max) == ("one", "7", 60.0, 5)
    assert request.item == {"user": 7}
    assert world.answer is not None
    assert world.answer.available_at == NOW
    assert world.walk().digest_requests == [request]
    assert world.events("one") == ["started"]


def test_a_digest_leader_goes_on_with_the_items() -> None:
    world = World(plan(DIGEST), {"user": "u"})
    world.digests["one"] = DigestLeader(NOW + 60)
    answer = world.walk()
    assert (answer.status, answer.available_at, answer.digest_requests) == ("waiting", NOW + 60, [])
    world.digests = {}
    world.now = NOW + 60
    answer = world.walk()
    assert (answer.status, answer.digest_requests) == ("waiting", [])
    world.digests["one"] = DigestItems(({"user": "u"}, {"user": "u", "n": 2}))
    assert [one.node for one in world.walk().orders] == ["two"]
    assert world.vars["one"] == {"count": 2, "items": [{"user": "u"}, {"user": "u", "n": 2}]}
    assert world.vars["step_1_result"] is not None


def test_a_digest_member_ends_at_its_digest() -> None:
    world = World(plan(DIGEST), {"user": "u"})
    world.walk()
    world.digests["one"] = DigestMember(12)
    answer = world.walk()
    assert (answer.status, answer.orders) == ("completed", [])
    assert world.log[1:] == [
        Entry(node="one", step=1, event="skipped", error="collected by run 12"),
        Entry(node="two", step=2, event="skipped"),
    ]


def test_a_key_is_no_longer_than_an_index_takes() -> None:
    assert World(plan(DIGEST), {"user": "u" * 500}).walk().status == "waiting"
    world = World(plan(DIGEST), {"user": "u" * 501})
    assert world.walk().error == "key: longer than 500 characters"


def test_a_delivery_under_way_beside_a_delay_makes_the_run_running() -> None:
    nodes = {"start": Join(step=1), "one": send(2), "rest": Delay(step=3, seconds=60.0)}
    world = World(plan(nodes, {"start": ["one", "rest"]}))
    answer = world.walk()
    assert (answer.status, answer.available_at) == ("running", NOW + 60)
    world.deliveries["one"] = [DeliveryResult(recipient="ann", status="sent")]
    assert world.walk().status == "waiting"


def test_a_plan_with_a_circle_is_refused() -> None:
    with pytest.raises(ValueError, match="cycle"):
        World(plan({"start": Join(step=1), "one": Join(step=2)}, {"start": ["one"], "one": ["start"]}))
