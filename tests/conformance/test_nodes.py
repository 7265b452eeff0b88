"""WF-03 and WF-04: both forms of a definition, and every type of node, in runs of the real program."""

from datetime import timedelta
from typing import Any

import pytest

from tests.channels.shared.web.fake_server import FakeServer, json_of
from tests.conformance.flows import Definition, Flows, graph, line, node


def say(name: str, body: str | None = None, **fields: Any) -> dict[str, Any]:
    """A node that says something by sms: its own name, unless it is told otherwise."""
    return node(name, "sms", body=name if body is None else body, **fields)


# WF-03


async def test_WF_03_a_list_of_steps_is_a_graph_in_a_line(flows: Flows, bill: FakeServer) -> None:
    """The same thing in both forms sends the same, in the order of the steps."""
    steps = [
        {
            "name": "mail",
            "function": "send-email",
            "action": "send",
            "payload_template": {"to_email": "{{ to }}", "subject": "Hi", "text": "{{ name }}, one"},
            "on_failure": "continue",
        },
        {"name": "bill", "function": "bill", "action": "create", "payload_template": {"order": "{{ order }}"}},
        {
            "name": "room",
            "function": "slack",
            "action": "told",
            "payload_template": {"channel": "sales", "message": "invoice {{ bill.invoice }}"},
        },
    ]
    nodes = [
        node("mail", "email", to="{{ to }}", subject="Hi", text="{{ name }}, one", on_failure="continue"),
        node("bill", "function", function="bill", action="create", payload={"order": "{{ order }}"}),
        node("room", "chat", to="sales", body="invoice {{ bill.invoice }}"),
    ]
    given = {"to": "ann@example.org", "name": "Ann", "order": 7}
    runs = []
    definitions: list[Definition] = [{"name": "as-list", "steps": steps}, line("as-graph", *nodes)]
    for definition in definitions:
        await flows.put(definition, functions=["bill"])
        runs.append(await flows.trigger(definition["name"], given))
        await flows.until_status(runs[-1], "completed")
        assert json_of(bill.requests[-1]) == {"action": "create", "payload": {"order": 7}}
        assert await flows.said(runs[-1]) == ["Ann, one", "invoice 17"]
    in_order = [(event, name) for name in ("mail", "bill", "room") for event in ("started", "succeeded")]
    assert [await flows.happened(run) for run in runs] == [in_order, in_order]
    columns = [
        [(row["channel"], row["recipient"], row["max_attempts"]) for row in await flows.deliveries(run)] for run in runs
    ]
    assert columns[0] == columns[1] == [("email", "ann@example.org", 1), ("http", "bill", 3), ("chat", "sales", 3)]


# WF-04: what sends


@pytest.mark.parametrize(
    ("channel", "status"),
    [
        ("email", "sent"),
        ("sms", "sent"),
        ("whatsapp", "sent"),
        ("push", "sent"),
        ("voice", "called"),
        ("social", "posted"),
        ("chat", "sent"),
    ],
)
async def test_WF_04_a_node_sends_on_its_channel(flows: Flows, channel: str, status: str) -> None:
    said = {"text": "Hello {{ name }}", "subject": "Hi"} if channel == "email" else {"body": "Hello {{ name }}"}
    to: dict[str, Any] = {} if channel == "social" else {"to": "{{ to }}"}
    first = {"id": "first", "type": channel} | to | said
    given = {"name": "Ann", "to": "ann@example.org" if channel == "email" else "+4917012345"}
    run = await flows.ended(line(f"send-{channel}", first, say("then", "{{ first.status }}")), given)
    assert await flows.said(run) == ["Hello Ann", status]
    delivery = (await flows.deliveries(run))[0]
    assert (delivery["channel"], delivery["status"]) == (channel, status)
    assert delivery["recipient"] == ("social" if channel == "social" else given["to"])


@pytest.mark.parametrize("kind", ["http", "function"])
async def test_WF_04_a_call_brings_back_what_its_function_answers(flows: Flows, bill: FakeServer, kind: str) -> None:
    call = node("bill", kind, function="bill", action="create", payload={"order": "{{ order }}", "of": ["{{ who }}!"]})
    name = f"call-{kind}"
    await flows.put(line(name, call, say("then", "invoice {{ bill.invoice }}")), functions=["bill"])
    run = await flows.trigger(name, {"order": 7, "who": "Ann"})
    await flows.until_status(run, "completed")
    assert json_of(bill.requests[-1]) == {"action": "create", "payload": {"order": 7, "of": ["Ann!"]}}
    assert await flows.said(run) == ["invoice 17"]


# WF-04: what waits


@pytest.mark.parametrize("how", [{"delayMs": 300}, {"duration": "PT0.3S"}, {"duration": "300ms"}])
async def test_WF_04_a_delay_lets_its_time_pass(flows: Flows, how: dict[str, Any]) -> None:
    name = f"delay-{next(iter(how.values()))}"
    run = await flows.ended(line(name, say("before"), node("pause", "delay", **how), say("after")))
    before, after = await flows.deliveries(run)
    assert after["scheduled_for"] - before["finished_at"] >= timedelta(milliseconds=300)


async def test_WF_04_a_delay_of_no_time_is_passed_at_once(flows: Flows) -> None:
    run = await flows.ended(line("delay-none", node("pause", "delay", delayMs=0), say("after")))
    (row,) = await flows.deliveries(run)
    assert row["scheduled_for"] >= (await flows.row(run))["started_at"] - timedelta(seconds=1)
    assert await flows.happened(run) == [
        (event, one) for one in ("pause", "after") for event in ("started", "succeeded")
    ]


async def test_WF_04_a_delay_until_a_time_ends_then(flows: Flows) -> None:
    at = await flows.connection.fetchval("SELECT clock_timestamp() + interval '400 ms'")
    definition = line("until", node("pause", "delay", until="{{ order.at }}"), say("after"))
    run = await flows.ended(definition, {"order": {"at": at.isoformat()}})
    (row,) = await flows.deliveries(run)
    assert row["scheduled_for"] >= at
    past = line("until-past", node("pause", "delay", until="2020-01-31T12:00:00Z"), say("after"))
    assert await flows.said(await flows.ended(past)) == ["after"]


async def test_WF_04_a_delay_until_what_is_no_time_fails_with_its_name(flows: Flows) -> None:
    await flows.put(line("until-never", node("pause", "delay", until="{{ at }}"), say("after")))
    run = await flows.trigger("until-never", {"at": "some day"})
    await flows.until_status(run, "failed")
    row = await flows.row(run)
    assert row["error_node"] == "pause"
    assert row["error"].startswith("until: ")


# WF-04: where it goes


CHOICE = graph(
    "choice",
    [node("which", "branch"), say("gold"), say("large"), say("other")],
    [
        ("which", "gold", "customer.tier == 'gold'"),
        ("which", "large", "order.total > 100 and customer.tier != blank"),
        ("which", "other"),
    ],
)


@pytest.mark.parametrize(
    ("tier", "total", "taken"),
    [("gold", 1, "gold"), ("gold", 500, "gold"), ("plain", 500, "large"), ("plain", 1, "other"), ("", 500, "other")],
)
async def test_WF_04_a_branch_takes_the_first_true_edge_or_the_else(
    flows: Flows, tier: str, total: int, taken: str
) -> None:
    run = await flows.ended(CHOICE, {"customer": {"tier": tier}, "order": {"total": total}})
    assert await flows.said(run) == [taken]


async def test_WF_04_a_branch_of_which_nothing_is_true_ends_its_path_and_no_other(flows: Flows) -> None:
    nodes = [node("start", "join"), node("which", "branch"), say("never"), say("beside")]
    edges = [("start", "which"), ("start", "beside"), ("which", "never", "go == true")]
    run = await flows.ended(graph("no-way", nodes, edges), {"go": False})
    assert await flows.said(run) == ["beside"]
    assert ("skipped", "never") in await flows.happened(run)


async def test_WF_04_parallel_branches_make_the_cursor_a_set_and_a_join_waits_for_them(flows: Flows) -> None:
    nodes = [
        node("start", "join"),
        node("left", "wait", event="left"),
        node("right", "wait", event="right"),
        node("both", "join"),
        say("end", "{{ left.n }} and {{ right.n }}"),
    ]
    edges = [("start", "left"), ("start", "right"), ("left", "both"), ("right", "both"), ("both", "end")]
    await flows.put(graph("parallel", nodes, edges))
    run = await flows.trigger("parallel")
    await flows.until_at(run, "left", "right")
    assert await flows.signal(run, "right", {"n": 2}) == "accepted"
    await flows.until_at(run, "left", "both")
    assert await flows.status(run) == "waiting"
    assert await flows.said(run) == []
    await flows.signal(run, "left", {"n": 1})
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["1 and 2"]


async def test_WF_04_a_join_does_not_wait_for_a_path_that_was_not_taken(flows: Flows) -> None:
    nodes = [node("which", "branch"), say("left"), say("right"), node("both", "join"), say("end")]
    edges = [
        ("which", "left", "go == 'left'"),
        ("which", "right"),
        ("left", "both"),
        ("right", "both"),
        ("both", "end"),
    ]
    run = await flows.ended(graph("one-way", nodes, edges), {"go": "left"})
    assert await flows.said(run) == ["left", "end"]
    assert [entry for entry in await flows.happened(run) if entry[1] == "both"] == [
        ("started", "both"),
        ("succeeded", "both"),
    ]


# WF-04: events


async def test_WF_04_a_wait_goes_on_with_its_event_and_what_that_says(flows: Flows) -> None:
    await flows.put(line("event", node("paid", "wait", event="payment"), say("end", "{{ paid.amount }} EUR")))
    run = await flows.trigger("event")
    await flows.until_at(run, "paid")
    assert await flows.signal(run, "another", {"amount": 1}) == "accepted"
    await flows.a_round()
    assert await flows.status(run) == "waiting"
    await flows.signal(run, "payment", {"amount": 12})
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["12 EUR"]


async def test_WF_04_an_event_that_came_before_its_node_is_kept(flows: Flows) -> None:
    first, second = node("first", "wait", event="go"), node("second", "wait", event="go")
    await flows.put(line("early", first, second, say("end", "{{ first.n }}{{ second.n }}")))
    run = await flows.trigger("early")
    await flows.until_at(run, "first")
    await flows.signal(run, "go", {"n": 1})
    await flows.signal(run, "go", {"n": 2})
    await flows.until_status(run, "completed")
    assert await flows.said(run) == ["12"]


async def test_WF_04_a_wait_has_a_time_out(flows: Flows) -> None:
    paid = node("paid", "wait", event="payment", timeout="200ms")
    await flows.put(line("late", paid, say("end", "{{ step_0_error }}")))
    run = await flows.trigger("late")
    await flows.until_status(run, "failed")
    assert ((await flows.row(run))["error"], (await flows.row(run))["error_node"]) == ("timeout", "paid")
    assert await flows.said(run) == []
    passed = line("late-passed", paid | {"on_failure": "continue"}, say("end", "[{{ step_0_error }}]"))
    assert await flows.said(await flows.ended(passed)) == ["[timeout]"]


# WF-04: digests


def collecting(name: str, window: str = "300ms", **fields: Any) -> dict[str, Any]:
    """Collects what comes for one customer, and says so."""
    several = node("several", "digest", key="{{ customer }}", window=window, **fields)
    text = "{{ several.count }}:{% for one in several.items %} {{ one.n }}{% endfor %}"
    return line(name, several, say("end", text))


async def digested(flows: Flows, name: str, *customers: str) -> list[str]:
    """What was said of runs that were all triggered at once."""
    async with flows.connection.transaction():
        runs = [await flows.trigger(name, {"customer": one, "n": number}) for number, one in enumerate(customers)]
    for run in runs:
        await flows.until_status(run, "completed")
    return [text for run in runs for text in await flows.said(run)]


async def test_WF_04_a_digest_goes_on_once_with_the_list_of_what_came_for_its_key(flows: Flows) -> None:
    await flows.put(collecting("digest"))
    assert sorted(await digested(flows, "digest", "ann", "ann", "bob", "ann")) == ["1: 2", "3: 0 1 3"]
    # Its window is over: whoever comes now begins another.
    assert await digested(flows, "digest", "ann") == ["1: 0"]


async def test_WF_04_a_full_digest_takes_no_more(flows: Flows) -> None:
    await flows.put(collecting("full", max_items=3))
    assert await digested(flows, "full", *["ann"] * 5) == ["3: 0 1 2", "2: 3 4"]


async def test_WF_04_what_comes_while_the_window_is_open_is_left_with_the_first(flows: Flows) -> None:
    await flows.put(collecting("open", window="1d"))
    first = await flows.trigger("open", {"customer": "ann", "n": 1})
    await flows.until_at(first, "several")
    second = await flows.trigger("open", {"customer": "ann", "n": 2})
    await flows.until_status(second, "completed")
    assert await flows.happened(second) == [("started", "several"), ("skipped", "several"), ("skipped", "end")]
    assert (await flows.log(second))[1]["error"] == f"collected by run {first}"
    assert await flows.status(first) == "waiting"
